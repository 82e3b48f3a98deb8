"""A provider with batches, as OpenAI and Anthropic document them, over real HTTP: files, states, results, and faults.

    async with FakeBatches(BatchFaults(duration_s=0.1)) as provider: ...         in this process: provider.url
    with batches_process(duration_s=0.1) as remote: ...                          in a process of its own
    python tests/fake_batches.py --faults '{"duration_s": 5}'                    by hand: prints {"url": ...}

It answers ordinary calls, too, as `fake_provider` does. What becomes of a request depends on its body and on how often
it was sent, as there. A request that got a reply in a batch is paid; `GET /stats` counts those that were paid twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from fake_provider import CHAT, MESSAGES, FakeProvider, Settings, digest_of, read_request

EXPIRED, ERRORED, MISSING, HALF = "expired", "errored", "missing", "half"


@dataclass
class BatchFaults:
    """How batches behave; all of it may be changed while the provider runs. Shares are of requests."""

    duration_s: float = 0.0
    """From the creation to the end."""
    expired: float = 0.0
    """Requests that are not done in time: the batch ends as expired, with the results of the others."""
    expiry: str = "This request could not be executed"
    """What is said of them."""
    errored: float = 0.0
    """Requests that meet an internal error of the server."""
    missing: float = 0.0
    """Requests that have no line in any file of results."""
    half: float = 0.0
    """Replies that break off in the middle, as a model's do that was cut short: they are paid."""
    unknown: int = 0
    """Lines of results with ids that nobody has asked for."""
    unanswered_creations: float = 0.0
    """Creations that happen, and whose connection is dropped without an answer."""
    dropped_creations: float = 0.0
    """Creations whose connection is dropped before anything has happened."""
    refused_creations: int = 0
    """Creations that are refused because the file is not yet there."""
    failed: str = ""
    """Every batch fails at its validation, for this reason."""
    over_quota: int = 0
    """Batches with more requests fail because too many tokens are enqueued."""
    full_batches: int = 0
    """Batches that fail so whatever they have: another user's batches fill the quota."""
    cancelled: bool = False
    """Every batch is cancelled by somebody before any request is done."""
    no_files: bool = False
    """Every batch ends without a file of results."""
    metadata: bool = True
    clock_s: float = 0.0
    """How far the provider's clock is ahead of ours."""
    oldest_first: bool = False
    """The list begins with the oldest batch."""
    listed_after_s: float = 0.0
    """For so long a new batch does not appear in the list."""
    late_outputs: int = 0
    """Looks at batches that have ended which name no output file yet, though they count its replies."""
    refused_files: int = 0
    """Files of results that are refused: they are not there."""
    gone_files: tuple[str, ...] = ()
    """Batches whose results are gone, by id."""
    cut_files: int = 0
    """Files of results that end in the middle."""
    repeated_lines: bool = False
    """Each reply stands in its file twice, below an error of the same request."""
    refused_under_200: str = ""
    """Every creation is answered with this error, under HTTP 200."""
    pause_s: int = 0
    """Every creation is refused with 429 and the request of a pause of so many seconds."""
    gateway_pages: int = 0
    """Polls that a gateway answers with a page of its own, under HTTP 200."""
    busy: float = 0.0
    """Share of all other requests that are answered 503."""
    seed: int = 0


@dataclass
class _Request:
    id: str
    digest: str
    body: bytes
    fate: str


@dataclass
class MadeBatch:
    """A batch as the provider has it."""

    id: str
    kind: str
    requests: list[_Request]
    created: float
    created_at: float
    input_file: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    polls: int = 0
    settled: bool = False


class FakeBatches(FakeProvider):
    """The server; `made` has every batch in order of creation, `paid_lines` how often each request was paid."""

    def __init__(
        self, faults: BatchFaults | None = None, settings: Settings | None = None, port: int = 0
    ) -> None:
        super().__init__(settings, port)
        self.faults = faults or BatchFaults()
        self.files: dict[str, bytes] = {}
        self.made: list[MadeBatch] = []
        self.paid_lines: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        """By method and kind of resource."""
        self._sent_lines: Counter[str] = Counter()
        self._random = random.Random(self.faults.seed)
        router = self._runner.app.router
        router.add_post("/v1/files", self._upload)
        router.add_get("/v1/files/{id}/content", self._content)
        for path, kind in (("/v1/batches", "openai"), (f"{MESSAGES}/batches", "anthropic")):
            router.add_post(path, self._create_openai if kind == "openai" else self._create_anthropic)
            router.add_get(path, self._list)
            router.add_get(path + "/{id}", self._state)
        router.add_get(f"{MESSAGES}/batches/{{id}}/results", self._results)
        router.add_post("/faults", self._set_faults)

    def stats(self) -> dict[str, Any]:
        for batch in self.made:
            self._settle(batch)
        return {
            **super().stats(),
            "batches": len(self.made),
            "batch_requests": sum(len(batch.requests) for batch in self.made),
            "lines_paid": self.paid_lines.total(),
            "lines_paid_twice": self.paid_lines.total() - len(self.paid_lines),
            "calls": dict(self.requests),
        }

    async def _set_faults(self, request: web.Request) -> web.Response:
        vars(self.faults).update(await request.json())
        return web.json_response({})

    # --- Creation

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        self.requests["POST file"] += 1
        if busy := self._busy_now():
            return busy
        form = await request.post()
        assert form["purpose"] == "batch"
        file = form["file"]
        assert isinstance(file, web.FileField)
        id = f"file-{len(self.files) + 1:04d}"
        self.files[id] = file.file.read()
        return web.json_response({"id": id, "object": "file", "purpose": "batch", "status": "processed"})

    async def _create_openai(self, request: web.Request) -> web.StreamResponse:
        self.requests["POST batch"] += 1
        asked = await request.json()
        assert (asked["endpoint"], asked["completion_window"]) == (CHAT, "24h")
        if self.faults.pause_s:
            refusal = _problem(429, "rate_limit_error", "too many batches")
            refusal.headers["Retry-After"] = str(self.faults.pause_s)
            return refusal
        if self.faults.refused_under_200:
            return _problem(200, "not_opened", self.faults.refused_under_200)
        if self.faults.refused_creations > 0:
            self.faults.refused_creations -= 1
            return _problem(400, "invalid_request_error", f"file {asked['input_file_id']} not found")
        if asked["input_file_id"] not in self.files:
            return _problem(404, "not_found", "No such File object")
        if self._random.random() < self.faults.dropped_creations:
            return _dropped(request)
        requests = []
        for line in self.files[asked["input_file_id"]].split(b"\n"):
            if line:
                row = orjson.loads(line)
                assert (row["method"], row["url"]) == ("POST", CHAT)
                requests.append(self._request(row["custom_id"], orjson.dumps(row["body"])))
        batch = self._made("openai", requests, asked["input_file_id"])
        if self.faults.metadata:
            batch.metadata = asked.get("metadata", {})
        if self._random.random() < self.faults.unanswered_creations:
            return _dropped(request)
        return web.json_response(self._openai(batch))

    async def _create_anthropic(self, request: web.Request) -> web.StreamResponse:
        self.requests["POST batch"] += 1
        data = await request.read()
        if request.headers.get("anthropic-version") != "2023-06-01":
            return _problem(400, "invalid_request_error", "anthropic-version: header is required")
        if self.faults.refused_under_200:
            return _problem(200, "not_opened", self.faults.refused_under_200)
        if self._random.random() < self.faults.dropped_creations:
            return _dropped(request)
        rows = orjson.loads(data)["requests"]
        batch = self._made(
            "anthropic", [self._request(row["custom_id"], orjson.dumps(row["params"])) for row in rows], ""
        )
        if self._random.random() < self.faults.unanswered_creations:
            return _dropped(request)
        return web.json_response(self._anthropic(batch))

    def _made(self, kind: str, requests: list[_Request], input_file: str) -> MadeBatch:
        assert len({request.id for request in requests}) == len(requests) > 0
        id = f"{'batch' if kind == 'openai' else 'msgbatch'}_{len(self.made) + 1:04d}"
        batch = MadeBatch(id, kind, requests, time.monotonic(), time.time() + self.faults.clock_s, input_file)
        self.made.append(batch)
        return batch

    def _request(self, id: str, body: bytes) -> _Request:
        faults, digest = self.faults, digest_of(body)
        nth = self._sent_lines[digest]
        self._sent_lines[digest] += 1
        drawn = random.Random(f"{faults.seed}/{digest}/{nth}").random()
        for name in (EXPIRED, ERRORED, MISSING, HALF):
            drawn -= getattr(faults, name)
            if drawn < 0:
                return _Request(id, digest, body, name)
        return _Request(id, digest, body, "")

    # --- States

    def _phase(self, batch: MadeBatch) -> str:
        """running, failed, over_quota, cancelled, expired or done."""
        faults = self.faults
        if time.monotonic() - batch.created < faults.duration_s:
            return "running"
        if faults.failed:
            return "failed"
        if faults.over_quota and len(batch.requests) > faults.over_quota:
            return "over_quota"
        if self.made.index(batch) < faults.full_batches:
            return "over_quota"
        if faults.cancelled:
            return "cancelled"
        if any(request.fate == EXPIRED for request in batch.requests):
            return "expired"
        return "done"

    def _settle(self, batch: MadeBatch) -> None:
        """Charge what a batch that has ended has done, once."""
        if batch.settled or self._phase(batch) not in ("expired", "done"):
            return
        batch.settled = True
        for request in batch.requests:
            if request.fate in ("", HALF):
                self.paid_lines[request.id] += 1

    def _counts(self, batch: MadeBatch) -> tuple[int, int]:
        """Requests done and failed."""
        if self._phase(batch) not in ("expired", "done"):
            return 0, 0
        done = sum(request.fate in ("", HALF) for request in batch.requests)
        return done, len(batch.requests) - done

    def _openai(self, batch: MadeBatch) -> dict[str, Any]:
        phase = self._phase(batch)
        self._settle(batch)
        done, failed = self._counts(batch)
        words = {"running": "in_progress", "over_quota": "failed", "done": "completed"}
        fields: dict[str, Any] = {
            "id": batch.id,
            "object": "batch",
            "endpoint": CHAT,
            "input_file_id": batch.input_file,
            "completion_window": "24h",
            "status": words.get(phase, phase),
            "created_at": int(batch.created_at),
            "request_counts": {"total": len(batch.requests), "completed": done, "failed": failed},
            "metadata": batch.metadata or None,
            "output_file_id": None,
            "error_file_id": None,
        }
        if phase == "failed":
            fields["errors"] = {"data": [{"code": "invalid", "message": self.faults.failed, "line": 1}]}
        elif phase == "over_quota":
            problem = {
                "code": "token_limit_exceeded",
                "message": "Enqueued token limit reached",
                "line": None,
            }
            fields["errors"] = {"data": [problem]}
        elif phase in ("expired", "done") and not self.faults.no_files:
            if failed:
                fields["error_file_id"] = f"err-{batch.id}"
            if done and self.faults.late_outputs > 0:
                self.faults.late_outputs -= 1
            else:
                fields["output_file_id"] = f"out-{batch.id}"
        return fields

    def _anthropic(self, batch: MadeBatch) -> dict[str, Any]:
        phase = self._phase(batch)
        self._settle(batch)
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for request in batch.requests:
            if phase == "running":
                counts["processing"] += 1
            elif phase == "cancelled":
                counts["canceled"] += 1
            else:
                name = {EXPIRED: "expired", ERRORED: "errored", MISSING: "errored"}.get(
                    request.fate, "succeeded"
                )
                counts[name] += 1
        ended = phase != "running"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": datetime.fromtimestamp(batch.created_at, UTC).isoformat(),
            # Another host: whoever sent it a key would give it away.
            "results_url": "http://127.0.0.1:9/elsewhere" if ended else None,
        }

    def _of(self, request: web.Request) -> MadeBatch | None:
        return next((batch for batch in self.made if batch.id == request.match_info["id"]), None)

    async def _state(self, request: web.Request) -> web.StreamResponse:
        self.requests["GET batch"] += 1
        if busy := self._busy_now():
            return busy
        batch = self._of(request)
        if batch is None:
            return _problem(404, "not_found_error", "no such batch")
        if self.faults.gateway_pages > 0:
            self.faults.gateway_pages -= 1
            return web.Response(text="<html><title>One moment</title></html>", content_type="text/html")
        batch.polls += 1
        return web.json_response(self._openai(batch) if batch.kind == "openai" else self._anthropic(batch))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        self.requests["GET list"] += 1
        if busy := self._busy_now():
            return busy
        kind = "anthropic" if request.path.startswith(MESSAGES) else "openai"
        now, limit = time.monotonic(), int(request.query.get("limit", 20))
        listed = [
            batch
            for batch in reversed(self.made)
            if batch.kind == kind and now - batch.created >= self.faults.listed_after_s
        ]
        if self.faults.oldest_first:
            listed.reverse()
        after = request.query.get("after") or request.query.get("after_id")
        if after:
            place = [batch.id for batch in listed].index(after)
            listed = listed[place + 1 :]
        page = [
            self._openai(batch) if kind == "openai" else self._anthropic(batch) for batch in listed[:limit]
        ]
        odd = [None, {"id": "../../elsewhere", "created_at": "soon"}, {"id": 7}]
        return web.json_response({"data": odd + page, "has_more": len(listed) > limit})

    def _busy_now(self) -> web.Response | None:
        if self._random.random() < self.faults.busy:
            return _problem(503, "overloaded_error", "busy")
        return None

    # --- Results

    async def _content(self, request: web.Request) -> web.StreamResponse:
        self.requests["GET results"] += 1
        if busy := self._busy_now():
            return busy
        which, _, id = request.match_info["id"].partition("-")
        batch = next(batch for batch in self.made if batch.id == id)
        lines = []
        for asked in _shuffled(batch):
            good = asked.fate in ("", HALF)
            if asked.fate == MISSING or good != (which == "out"):
                continue
            row: dict[str, Any] = {"id": f"req-{asked.id[:6]}", "custom_id": asked.id, "error": None}
            if good:
                row["response"] = {"status_code": 200, "body": self._line_reply(CHAT, asked)}
            elif asked.fate == ERRORED:
                error = {"error": {"message": "internal error", "type": "server_error"}}
                row["response"] = {"status_code": 500, "body": error}
            else:
                row["response"] = None
                row["error"] = {"code": "batch_expired", "message": self.faults.expiry}
            lines.append(_line(row))
        if which == "out":
            for n in range(self.faults.unknown):
                lines.append(
                    _line({"custom_id": f"unknown-{n}", "response": {"status_code": 200, "body": {}}})
                )
        return self._file(lines)

    async def _results(self, request: web.Request) -> web.StreamResponse:
        self.requests["GET results"] += 1
        if busy := self._busy_now():
            return busy
        batch = self._of(request)
        assert batch is not None
        if batch.id in self.faults.gone_files:
            return _problem(404, "not_found_error", "Results have expired")
        cancelled, lines = self._phase(batch) == "cancelled", []
        for asked in _shuffled(batch):
            if asked.fate == MISSING:
                continue
            result: dict[str, Any]
            if cancelled:
                result = {"type": "canceled"}
            elif asked.fate == EXPIRED:
                result = {"type": "expired"}
            elif asked.fate == ERRORED:
                inner = {"type": "api_error", "message": "internal error"}
                result = {"type": "errored", "error": {"type": "error", "error": inner}}
            else:
                result = {"type": "succeeded", "message": self._line_reply(MESSAGES, asked)}
            lines.append(_line({"custom_id": asked.id, "result": result}))
        for n in range(self.faults.unknown):
            lines.append(_line({"custom_id": f"unknown-{n}", "result": {"type": "expired"}}))
        return self._file(lines)

    def _file(self, lines: list[bytes]) -> web.Response:
        if self.faults.refused_files > 0:
            self.faults.refused_files -= 1
            return _problem(404, "not_found_error", "No such File object")
        if self.faults.repeated_lines:
            replies, lines = lines, []
            for line in replies:
                id = json.loads(line)["custom_id"]
                lines += [
                    _line({"custom_id": id, "response": None, "result": {"type": "errored"}}),
                    line,
                    line,
                ]
        data = b"".join(lines)
        if self.faults.cut_files > 0:
            self.faults.cut_files -= 1
            data = data[: len(data) // 2]
        return web.Response(body=data, content_type="application/x-jsonl")

    def _line_reply(self, path: str, request: _Request) -> Any:
        asked = read_request(path, {"anthropic-version": "2023-06-01"}, request.body)
        data, _ = asked.completion(self.settings, "half" if request.fate == HALF else "")
        return orjson.loads(data)


def _line(row: dict[str, Any]) -> bytes:
    # With the characters at which careless readers break lines.
    return json.dumps({**row, "note": "\u2028 \x85"}, ensure_ascii=False).encode() + b"\n"


def _shuffled(batch: MadeBatch) -> list[_Request]:
    requests = list(batch.requests)
    random.Random(batch.id).shuffle(requests)
    return requests


def _problem(status: int, code: str, message: str) -> web.Response:
    error = {"type": "error", "error": {"type": code, "code": code, "message": message}}
    return web.json_response(error, status=status)


def _dropped(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response()


# --- A process of its own


@dataclass(frozen=True)
class RemoteBatches:
    """A provider in another process."""

    url: str

    def stats(self) -> dict[str, Any]:
        """See FakeBatches.stats."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/stats") as response:
            stats: dict[str, Any] = json.load(response)
        return stats

    def set(self, **faults: Any) -> None:
        data = json.dumps(faults).encode()
        urllib.request.urlopen(self.url.removesuffix("/v1") + "/faults", data).close()


@contextmanager
def batches_process(**faults: Any) -> Iterator[RemoteBatches]:
    """Serve a new provider in a process of its own, which ends with the block."""
    command = [sys.executable, str(Path(__file__).resolve()), "--faults", json.dumps(faults)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield RemoteBatches(json.loads(process.stdout.readline())["url"])
    finally:
        process.kill()
        process.communicate()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", type=json.loads, default={}, help="fields of BatchFaults, as JSON")
    asked = parser.parse_args()
    async with FakeBatches(BatchFaults(**asked.faults), port=asked.port) as provider:
        print(json.dumps({"url": provider.url}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
