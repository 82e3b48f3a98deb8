"""A provider that speaks real HTTP: OpenAI-style chat completions, deterministic answers, injected faults.

    async with FakeProvider(Settings(faults={"500": 0.05})) as provider: ...      in this process: provider.url
    with provider_process(latency_s=0.05) as provider: ...                        as a process of its own
    python tests/fake_provider.py --port 0 --settings '{"latency_s": 0.05}'       by hand: prints {"url": ...}

Two rules: the same conversation always gets the same answer, and the n-th sending of one body meets the
same fault in every run with the same seed, in whatever order requests arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
import urllib.request
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Self

import orjson
from aiohttp import web

Messages = Sequence[Mapping[str, str]]
LABELS = ("full", "partial", "none")


@dataclass
class Settings:
    """How the provider behaves; all of it may be changed while it runs."""

    latency_s: float = 0.0
    faults: dict[str, float] = field(default_factory=dict)
    """Share of requests by name of fault (see FAULTS); a fault that a role cannot have leaves it well."""
    retry_after_s: float = 0.2
    drip_s: float = 0.01
    unknown_share: float = 1.0
    """Share of clarifying questions that the User Answerer does not know the answer to."""
    outage: bool = False  # every connection is dropped without a word
    key: str = ""
    """The only key accepted; any if empty. A 401 repeats the key it got, as careless servers do."""
    served_model: str = ""  # the model asked for if empty
    keep: bool = False  # the messages of every request
    seed: int = 0


@dataclass
class Seen:
    """One request as the server saw it; times are `time.monotonic()`."""

    digest: str
    role: str
    at: float
    fault: str = ""
    retry_at: float | None = None  # when the same request may come again, if the answer said so
    messages: list[dict[str, str]] | None = None


# --- What each role says ---

_MARKS = {"qa_pairs": "rewrite", "clear_query": "answer", "nuggets": "judge", "blurred_query": "clarify"}
"""The tag by which each role's prompt is known, the first that is there; none is the agent's."""


def role_of(asked: str) -> str:
    """The role a user message belongs to, by the tags that fence its fields."""
    return next((role for tag, role in _MARKS.items() if f"<{tag}>" in asked), "agent")


def field_of(text: str, tag: str) -> str:
    """What stands between `<tag>` and `</tag>`."""
    found = re.search(rf"<{tag}>\s*(.*?)\s*</{tag}>", text, re.DOTALL)
    return found[1] if found else ""


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on `parts` alone."""
    return zlib.crc32("\x1f".join(map(str, parts)).encode()) / 2**32


def _clarify(asked: str, messages: Messages, settings: Settings) -> str:
    k = int(re.findall(r"^K = (\d+)", asked, re.MULTILINE)[-1])
    query, aspects = field_of(asked, "blurred_query"), ("time", "place", "kind", "price")[:k]
    return json.dumps([f"Which {aspect} do you mean by {query}?" for aspect in aspects], ensure_ascii=False)


def _answer(asked: str, messages: Messages, settings: Settings) -> str:
    query, question = field_of(asked, "clear_query"), field_of(asked, "clarification_question")
    if chance("unknown", query, question) < settings.unknown_share:
        return "unknown"
    return query.rpartition(" ")[2][-12:]


def _rewrite(asked: str, messages: Messages, settings: Settings) -> str:
    told = re.findall(r"^(?:Answer|回答) \d+: (?!unknown$)(.*)$", asked, re.MULTILINE)
    return " ".join(["more about", field_of(asked, "blurred_query"), *told])


def _agent(asked: str, messages: Messages, settings: Settings) -> str:
    told = [m["content"] for m in messages[2:] if "<tool_response>" in m["content"]]
    if told:
        found = " ".join(re.sub(r"<[^>]*>", " ", told[-1]).split())[:400]
        return f"<think>The results say it.</think>\n<answer>{found}</answer>"
    call = {"name": "search", "arguments": {"query": [asked.rpartition("User:")[2].strip()]}}
    return f"<think>I search.</think>\n<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def _judge(asked: str, messages: Messages, settings: Settings) -> str:
    candidate = field_of(asked, "candidate_answer")
    ids = re.findall(r"^(\S+?):", field_of(asked, "nuggets"), re.MULTILINE)
    rows = [{"id": id, "coverage": LABELS[int(3 * chance(id, candidate))]} for id in ids]
    return json.dumps({"results": rows}, ensure_ascii=False)


_ANSWERS: Mapping[str, Callable[[str, Messages, Settings], str]]
_ANSWERS = {"clarify": _clarify, "answer": _answer, "rewrite": _rewrite, "agent": _agent, "judge": _judge}

# --- What can go wrong ---
STATUS_FAULTS = ("429", "500", "503", "529")
BODY_FAULTS = ("reset", "truncated", "html", "error_200", "slow")
_JSON = frozenset({"clarify", "judge"})
CONTENT_FAULTS: Mapping[str, tuple[frozenset[str], Callable[[str], str]]] = {
    "empty": (frozenset(_ANSWERS), lambda text: ""),
    "length": (frozenset(_ANSWERS), lambda text: text[: len(text) // 2]),
    "fenced": (_JSON, lambda text: f"Here it is:\n```json\n{text}\n```"),
    "half": (_JSON, lambda text: text[: len(text) // 2]),
    "wrong_ids": (frozenset({"judge"}), lambda text: text.replace('"id": "', '"id": "X')),
    "wrong_count": (frozenset({"clarify"}), lambda text: f'{text[:-1]}, "One more?"]'),
}
"""By name: the roles that can have it, and what it makes of a good answer."""
FAULTS = (*STATUS_FAULTS, *BODY_FAULTS, *CONTENT_FAULTS)


def fault_of(settings: Settings, role: str, digest: str, nth: int) -> str:
    """The fault that the `nth` sending of a body meets, "" for none."""
    drawn = random.Random(f"{settings.seed}/{digest}/{nth}").random()
    for name, share in settings.faults.items():
        drawn -= share
        if drawn < 0:
            return name if name not in CONTENT_FAULTS or role in CONTENT_FAULTS[name][0] else ""
    return ""


def _completion(asked: Mapping[str, Any], settings: Settings, role: str, fault: str) -> bytes:
    messages = asked["messages"]
    text = _ANSWERS[role](messages[1]["content"], messages, settings)
    if fault in CONTENT_FAULTS:
        text = CONTENT_FAULTS[fault][1](text)
    used = sum(len(message["content"].encode()) for message in messages) // 4, len(text.encode()) // 4 + 1
    reason = "length" if fault == "length" else "stop"
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    usage = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}
    served = settings.served_model or asked["model"]
    return orjson.dumps({"model": served, "choices": [choice], "usage": usage})


# --- The server ---


class FakeProvider:
    """The server; `seen` has every chat request in order of arrival."""

    def __init__(self, settings: Settings | None = None, port: int = 0) -> None:
        self.settings, self._port = settings or Settings(), port
        self.seen: list[Seen] = []
        self.counts: Counter[str] = Counter()  # of each body, by its digest
        self.url = ""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/seen", self._tell)
        app.router.add_post("/settings", self._set)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _tell(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(seen) for seen in self.seen])

    async def _set(self, request: web.Request) -> web.Response:
        vars(self.settings).update(await request.json())
        return web.json_response({})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        now, settings = time.monotonic(), self.settings
        body = await request.read()
        if settings.outage:
            return _dropped(request)
        asked = orjson.loads(body)
        digest = digest_of(body)
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        messages = asked["messages"]
        seen = Seen(
            digest, role_of(messages[1]["content"]), now, messages=messages if settings.keep else None
        )
        self.seen.append(seen)
        if settings.key and key != settings.key:
            seen.fault = "401"
            return _refusal(401, f"Incorrect API key provided: {key}", "invalid_api_key")
        seen.fault = fault_of(settings, seen.role, digest, self.counts[digest])
        self.counts[digest] += 1
        await asyncio.sleep(settings.latency_s)
        if seen.fault in STATUS_FAULTS:
            head = {"Retry-After": f"{settings.retry_after_s}"} if seen.fault in ("429", "503") else {}
            seen.retry_at = time.monotonic() + settings.retry_after_s if head else None
            return _refusal(int(seen.fault), "not now, please", "busy", head)
        return await self._reply(request, _completion(asked, settings, seen.role, seen.fault), seen.fault)

    async def _reply(self, request: web.Request, data: bytes, fault: str) -> web.StreamResponse:
        if fault == "html":
            return web.Response(text="<html><body>Be right back</body></html>", content_type="text/html")
        if fault == "error_200":
            return _refusal(200, "the engine is overloaded", "engine_overloaded")
        if fault in ("reset", "slow"):
            return await self._dripped(request, data, reset=fault == "reset")
        cut = len(data) // 2 if fault == "truncated" else None
        return web.Response(body=data[:cut], content_type="application/json")

    async def _dripped(self, request: web.Request, data: bytes, *, reset: bool) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        grain = len(data) // 8 + 1
        for start in range(0, len(data), grain):
            await response.write(data[start : start + grain])
            if reset:
                return _dropped(request, response)
            await asyncio.sleep(self.settings.drip_s)
        return response


def digest_of(body: bytes) -> str:
    return blake2b(body, digest_size=8).hexdigest()


def _refusal(status: int, message: str, code: str, head: Mapping[str, str] | None = None) -> web.Response:
    error = {"error": {"message": message, "type": code, "code": code}}
    return web.json_response(error, status=status, headers=head)


def _dropped(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport:
        request.transport.abort()
    return response or web.Response()


# --- A process of its own ---


@dataclass(frozen=True)
class Remote:
    """A provider in another process."""

    url: str

    def seen(self) -> list[Seen]:
        with urllib.request.urlopen(f"{self.url.removesuffix('/v1')}/seen") as response:
            return [Seen(**seen) for seen in json.load(response)]

    def set(self, **settings: Any) -> None:
        data = json.dumps(settings).encode()
        urllib.request.urlopen(f"{self.url.removesuffix('/v1')}/settings", data).close()


@contextmanager
def provider_process(**settings: Any) -> Iterator[Remote]:
    """Start this file as a program and stop it after; it ends by itself if the caller dies."""
    command = [sys.executable, __file__, "--until-eof", "--settings", json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Remote(json.loads(process.stdout.readline())["url"])


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--settings", type=json.loads, default={}, help="fields of Settings, as JSON")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    asked = parser.parse_args()
    async with FakeProvider(Settings(**asked.settings), asked.port) as provider:
        print(json.dumps({"url": provider.url}), flush=True)
        await (asyncio.to_thread(sys.stdin.read) if asked.until_eof else asyncio.Event().wait())


if __name__ == "__main__":
    asyncio.run(main())
