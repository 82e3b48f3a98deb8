"""The OpenAI-style chat API: what a request looks like, and what each answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cts_async.engine.events import Usage
from cts_async.errors import TransientError
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import ChatRequest, Reply, charged
from cts_async.llm.responses import ABORTED, REFUSED, STOP, broken, ending, failure, quotas

PATH = "/chat/completions"


def headers(key: str) -> dict[str, str]:
    """The headers that are this API's own; the key appears here and nowhere else."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    """The JSON body of a request; its constraint is one that this server understands."""
    fields: dict[str, Any] = {"model": spec.model, "messages": request.messages}
    for name, value in spec.sent(request.params).items():
        fields[spec.max_tokens_field if name == "max_tokens" else name] = value
    if request.constraint.grammar or request.constraint.json_schema:
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
        raise failure(spec, status, head, data, now)
    try:
        parsed = orjson.loads(data)
        if isinstance(parsed, dict) and (parsed.get("error") or parsed.get("error_code")):
            raise failure(spec, status, head, data, now)
        choice = parsed["choices"][0]
        reason = choice.get("finish_reason")
        ended = STOP if reason == STOP else ending(reason)
        message = choice["message"] if ended != REFUSED else choice.get("message") or {}
        text = message.get("content") or ""
        if not isinstance(text, str):
            raise TypeError("content is no text")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise broken(spec, status, data) from None
    if ended == ABORTED:
        raise TransientError(f"{spec.name}: the server broke its reply off", status=status)
    usage, quota = _usage(parsed.get("usage")), quotas(head, now)
    model = str(parsed.get("model") or "")
    if ended == STOP and len(message) == 2 and "role" in message:  # nothing but the content beside it
        return Reply(text, model, ended, usage, quota)
    return Reply(text, model, ended, usage, quota, _reasoning(message), _refusal(message, ended))


def _reasoning(message: Mapping[str, Any]) -> str:
    """What DeepSeek, Qwen, Kimi and vLLM, or OpenRouter and newer vLLM, keep apart from the content."""
    said = message.get("reasoning_content") or message.get("reasoning")
    return said if isinstance(said, str) else ""


def _refusal(message: Mapping[str, Any], ended: str) -> str:
    """Why there is no answer; empty where there is one. A model's own refusal comes with the reason `stop`."""
    if said := message.get("refusal"):
        return f"the model refuses: {str(said)[:300]}"
    return "the answer was withheld by a content filter" if ended == REFUSED else ""


def _usage(usage: Any) -> Usage | None:
    """Tokens charged; those of reasoning are part of the output, also where only the total counts them."""
    try:
        asked, said = int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0)
        beyond = int(usage.get("total_tokens") or 0) - asked
        return charged(asked, beyond if beyond > said else said)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
