"""Anthropic's Message Batches: the creation carries all requests, and the results are one file.

There is neither metadata nor an idempotency key. A batch whose creation was not answered is recognised in the list by
its time and its count, and in the end by the ids of its results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from cts_async.foreign_json import as_count, as_object, as_text
from cts_async.llm.batch_apis import (
    TRANSFER_S,
    BatchState,
    LineResult,
    Wire,
    fields_of,
    id_in,
    listed_batches,
    message_of,
    seconds_of,
)
from cts_async.llm.catalog import Tier

PATH: Final = "/messages/batches"
_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an ordinary call would have had, by the type of its error."""


def line(id: str, body: bytes, terms: Tier) -> bytes:
    return b'{"custom_id":"%b","params":%b}' % (id.encode(), body)


async def upload(wire: Wire, lines: Sequence[bytes], nonce: str) -> str:
    return ""


async def create(wire: Wire, terms: Tier, lines: Sequence[bytes], nonce: str, input_file: str) -> BatchState:
    body = b'{"requests":[%b]}' % b",".join(lines)
    return _state(fields_of(await wire.post(PATH, body, timeout_s=TRANSFER_S)))


async def state(wire: Wire, id: str) -> BatchState:
    return _state(fields_of(await wire.get(f"{PATH}/{quote(id, safe='')}")))


async def listed(wire: Wire) -> AsyncIterator[BatchState]:
    async for batch in listed_batches(wire, PATH, "after_id", _state):
        yield batch


def result_paths(state: BatchState) -> Sequence[str]:
    # Not the `results_url` of the response: an address on another server would be sent the key.
    return [f"{PATH}/{quote(state.id, safe='')}/results"]


def result(line: Mapping[str, Any]) -> LineResult:
    outcome = as_object(line.get("result"))
    kind, message, error = outcome.get("type"), outcome.get("message"), as_object(outcome.get("error"))
    if kind == "succeeded" and isinstance(message, dict):
        return LineResult(200, orjson.dumps(message))
    if kind == "errored":
        inner = as_object(error.get("error")) or error
        status = _STATUSES.get(as_text(inner.get("type")) or "", 500)
        return LineResult(status, orjson.dumps(error))
    return LineResult(0, reason=message_of(error) or (as_text(kind) or "no result")[:40])


def _state(fields: Mapping[str, Any]) -> BatchState:
    id, word = id_in(fields), as_text(fields.get("processing_status")) or ""
    counts = as_object(fields.get("request_counts"))
    numbers = {
        name: as_count(counts.get(name))
        for name in ("processing", "succeeded", "errored", "canceled", "expired")
    }
    return BatchState(
        id,
        "ended" if word == "ended" else "running",
        word[:40],
        sum(numbers.values()),
        numbers["succeeded"],
        numbers["errored"] + numbers["canceled"] + numbers["expired"],
        created_at=seconds_of(fields.get("created_at")),
        files=(id,),
    )
