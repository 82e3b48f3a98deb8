"""The OpenAI-style chat API: what a request looks like, and what each answer means.

The single seam between what such servers say and our errors. Which answer is worth a retry follows
the providers' documentation: 408, 409, 425, 429 and 5xx are; other 4xx never; an exhausted quota is
no rate limit; an `error` object under HTTP 200 is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cts_async.engine.events import Usage
from cts_async.errors import ProviderRefused, RateLimited, RejectedError, TransientError
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import ChatRequest, Reply
from cts_async.llm.retry_after import retry_after_s

PATH = "/chat/completions"

_TRANSIENT = frozenset({408, 409, 425})
_OUT_OF_MONEY = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_usage_limit_exceeded",
        "exceeded_current_quota_error",
        "account_overdue",
        "arrearage",
    }
)
_CONTENT_REFUSED = frozenset(
    {"content_filter", "content_policy_violation", "data_inspection_failed", "unsafe_request"}
)


def headers(spec: ModelSpec, key: str | None) -> dict[str, str]:
    """Request headers; the key appears here and nowhere else."""
    base = {"Content-Type": "application/json"}
    return base | {"Authorization": f"Bearer {key}"} if key else base


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    """The JSON body of a request; its constraint is one that this server understands."""
    fields: dict[str, Any] = {"model": spec.model, "messages": request.messages, **spec.params}
    for name, value in request.params.items():
        fields[spec.max_tokens_field if name == "max_tokens" else name] = value
    fields.update(_constraint(request))
    return orjson.dumps(fields)


def _constraint(request: ChatRequest) -> dict[str, Any]:
    if request.constraint.grammar:
        return {"grammar": request.constraint.grammar}
    if request.constraint.json_schema:
        form = {"name": "reply", "strict": True, "schema": request.constraint.json_schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    return {}


def reply(spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float) -> Reply:
    """Read an answer; raises the error it stands for. `now` is the wall clock (for dates in headers)."""
    if status != 200:
        raise _error(spec, status, head, data, now)
    try:
        parsed = orjson.loads(data)
        if isinstance(parsed, dict) and parsed.get("error"):
            raise _error(spec, status, head, data, now)
        choice = parsed["choices"][0]
        text = choice["message"].get("content") or ""
        finish_reason = choice.get("finish_reason") or "stop"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise TransientError(
            f"{spec.name}: the answer is no chat completion: {_excerpt(data)}", status=status
        ) from None
    if finish_reason == "content_filter":
        raise RejectedError(f"{spec.name}: the answer was withheld by a content filter", status=status)
    return Reply(str(text), str(parsed.get("model") or ""), str(finish_reason), _usage(parsed.get("usage")))


def _usage(usage: Any) -> Usage | None:
    try:
        return Usage(int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _error(spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float) -> Exception:
    words, message = _error_words(data)
    said = f"{spec.name}: HTTP {status}: {message}"
    if words & _OUT_OF_MONEY or status == 402:
        return ProviderRefused(f"{said} (out of quota or credit: top up, then type the same command again)")
    if status in (401, 403):
        return ProviderRefused(f"{said} (check {spec.key_env or 'the server'}; the same command resumes)")
    if status == 404:
        return ProviderRefused(
            f"{said} (is {spec.model!r} the right model, {spec.base_url} the right server?)"
        )
    if words & _CONTENT_REFUSED:
        return RejectedError(said, status=status)
    wait_s = retry_after_s(head, now)
    if status == 429:
        return RateLimited(said, retry_after_s=wait_s, status=status)
    if status in _TRANSIENT or status >= 500 or status == 200:
        return TransientError(said, retry_after_s=wait_s, status=status)
    return RejectedError(said, status=status)


def _error_words(data: bytes) -> tuple[set[str], str]:
    """The error's machine-readable words (lower-case), and its message for a person."""
    try:
        parsed = orjson.loads(data)
    except ValueError:
        return set(), _excerpt(data)
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return set(), _excerpt(data)
    words = {str(error[name]).lower() for name in ("code", "type", "status") if error.get(name)}
    return words, str(error.get("message") or _excerpt(data))[:300]


def _excerpt(data: bytes) -> str:
    text = " ".join(data[:400].decode(errors="replace").split())
    return text[:200] or "(empty body)"
