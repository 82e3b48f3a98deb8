"""OpenAI's files and batches, which DashScope, Qianfan, Groq and many more copy.

A file of requests is uploaded with the purpose `batch`, and a batch is made of it; its results are an output file and an
error file. An expired batch has both: what was done in time, and a line `batch_expired` for each other request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from cts_async.foreign_json import as_count, as_list, as_object, as_text
from cts_async.llm.batch_apis import (
    TRANSFER_S,
    BatchState,
    LineResult,
    Phase,
    Wire,
    fields_of,
    id_in,
    listed_batches,
    message_of,
    seconds_of,
)
from cts_async.llm.catalog import Tier

NONCE: Final = "cts_async"
"""The key of the nonce in a batch's metadata."""
_PHASES: Final[Mapping[str, Phase]] = {
    "failed": "refused",
    "completed": "ended",
    "expired": "ended",
    "cancelled": "ended",
    "canceled": "ended",
}
"""By the provider's word; all others are of a batch that is under way."""
_OVER_QUOTA: Final = frozenset({"token_limit_exceeded", "too_many_enqueued_tokens"})


def line(id: str, body: bytes, terms: Tier) -> bytes:
    # The body is JSON already: parsing it only to write it again would cost ten times as much.
    url = orjson.dumps(terms.endpoint)
    return b'{"custom_id":"%b","method":"POST","url":%b,"body":%b}' % (id.encode(), url, body)


async def upload(wire: Wire, lines: Sequence[bytes], nonce: str) -> str:
    boundary = f"cts-{nonce}".encode()
    parts = [
        b"--%b\r\n" % boundary,
        b'Content-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--%b\r\n' % boundary,
        b'Content-Disposition: form-data; name="file"; filename="cts-%b.jsonl"\r\n' % nonce.encode(),
        b"Content-Type: application/jsonl\r\n\r\n",
        b"\n".join(lines),
        b"\n\r\n--%b--\r\n" % boundary,
    ]
    kind = f"multipart/form-data; boundary={boundary.decode()}"
    return id_in(
        fields_of(await wire.post("/files", b"".join(parts), content_type=kind, timeout_s=TRANSFER_S))
    )


async def create(wire: Wire, terms: Tier, lines: Sequence[bytes], nonce: str, input_file: str) -> BatchState:
    fields: dict[str, Any] = {
        "input_file_id": input_file,
        "endpoint": terms.endpoint,
        "completion_window": terms.window,
    }
    if terms.metadata:
        fields["metadata"] = {NONCE: nonce}
    return _state(fields_of(await wire.post("/batches", orjson.dumps(fields))))


async def state(wire: Wire, id: str) -> BatchState:
    return _state(fields_of(await wire.get(f"/batches/{quote(id, safe='')}")))


async def listed(wire: Wire) -> AsyncIterator[BatchState]:
    async for batch in listed_batches(wire, "/batches", "after", _state):
        yield batch


def result_paths(state: BatchState) -> Sequence[str]:
    return [f"/files/{quote(file, safe='')}/content" for file in state.files]


def result(line: Mapping[str, Any]) -> LineResult:
    response = as_object(line.get("response"))
    body = response.get("body")
    if isinstance(body, dict):
        return LineResult(as_count(response.get("status_code")) or 200, orjson.dumps(body))
    return LineResult(0, reason=message_of(line.get("error")) or "no response")


def _state(fields: Mapping[str, Any]) -> BatchState:
    # Together wraps a new batch, and writes states in capitals.
    if isinstance(fields.get("job"), dict):
        fields = fields["job"]
    word = (as_text(fields.get("status")) or "").lower()
    counts = as_object(fields.get("request_counts"))
    files: list[str] = []
    for name in ("output_file_id", "error_file_id"):
        file = as_text(fields.get(name))
        if file:
            files.append(file)
    problems = as_list(as_object(fields.get("errors")).get("data"))
    codes = {as_object(problem).get("code") for problem in problems}
    reason = ""
    if problems:
        reason = message_of(problems[0])
        if len(problems) > 1:
            reason += f" (and {len(problems) - 1:,} more)"
    n_done = as_count(counts.get("completed"))
    return BatchState(
        id_in(fields),
        _PHASES.get(word, "running"),
        word[:40],
        as_count(counts.get("total")),
        n_done,
        as_count(counts.get("failed")),
        created_at=seconds_of(fields.get("created_at")),
        nonce=as_text(as_object(fields.get("metadata")).get(NONCE)) or "",
        input_file=as_text(fields.get("input_file_id")) or "",
        files=tuple(files),
        lacks_output=n_done > 0 and not as_text(fields.get("output_file_id")),
        reason=reason,
        is_over_quota=not _OVER_QUOTA.isdisjoint(codes),
    )
