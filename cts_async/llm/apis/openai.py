"""The OpenAI-style chat completions API, which most providers and local servers speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cts_async.engine.events import Usage
from cts_async.engine.ratelimit import Quotas
from cts_async.llm.apis import ChatRequest, Reply, plausible_usage
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import REFUSED, STOP, finish_reason

PATH = "/chat/completions"


def headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    fields: dict[str, Any] = {"model": spec.model, "messages": request.messages}
    for name, value in spec.sent(request.params).items():
        # OpenAI's newer models refuse max_tokens and want max_completion_tokens.
        fields[spec.max_tokens_field if name == "max_tokens" else name] = value
    if request.grammar:  # llama.cpp's own field
        fields["grammar"] = request.grammar
    elif request.json_schema:
        form = {"name": "reply", "strict": True, "schema": request.json_schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    return orjson.dumps(fields)


def reply(parsed: Any, quotas: Quotas | None) -> Reply:
    choice = parsed["choices"][0]
    reason = choice.get("finish_reason")
    ended = STOP if reason == STOP else finish_reason(reason)
    message = choice["message"] if ended != REFUSED else choice.get("message") or {}
    text = message.get("content") or ""
    if not isinstance(text, str):
        raise TypeError("content is not text")
    # DeepSeek, Qwen, Kimi and vLLM use the first name, OpenRouter and newer versions of vLLM the second.
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return Reply(
        text,
        str(parsed.get("model") or ""),
        ended,
        _usage(parsed.get("usage")),
        quotas,
        reasoning if isinstance(reasoning, str) else "",
        _refusal(message, ended),
    )


def _refusal(message: Mapping[str, Any], ended: str) -> str:
    """Why there is no answer; "" where there is one. A model's own refusal comes with the finish reason `stop`."""
    if refusal := message.get("refusal"):
        return f"the model refuses: {str(refusal)[:300]}"
    return "the answer was withheld by a content filter" if ended == REFUSED else ""


def _usage(usage: Any) -> Usage | None:
    """Tokens charged. Some providers count reasoning tokens only in the total: they are part of the output."""
    try:
        prompt, completion = int(usage["prompt_tokens"]), int(usage.get("completion_tokens") or 0)
        beyond = int(usage.get("total_tokens") or 0) - prompt
        return plausible_usage(prompt, max(completion, beyond))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
