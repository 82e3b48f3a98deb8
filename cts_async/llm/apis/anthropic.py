"""The Anthropic messages API.

It requires `max_tokens`, instructions apart from the conversation, and turns of user and assistant that alternate,
with the user first and last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from cts_async.engine.events import Usage
from cts_async.engine.ratelimit import Quotas
from cts_async.llm.apis import ChatRequest, Message, Reply, plausible_usage
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import REFUSED, finish_reason

PATH: Final = "/messages"
VERSION: Final = "2023-06-01"
MAX_TOKENS: Final = 4096
"""Where nobody sets a limit: the API requires one, and every model allows this much."""
BEGIN_WITH: Final = "Begin your reply with exactly this text and go on from there:"
OPENING: Final = "(The conversation begins with your turn.)"
_CACHED: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


def headers(key: str) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    """The JSON body. No form is enforced: prompts ask for JSON, and replies are checked."""
    system, turns = split_system(request.messages)
    fields: dict[str, Any] = {"model": spec.model, "max_tokens": MAX_TOKENS, **spec.sent(request.params)}
    if system:
        fields["system"] = system
    fields["messages"] = turns
    return orjson.dumps(fields)


def split_system(messages: Sequence[Message]) -> tuple[str, list[dict[str, str]]]:
    """The instructions, and the turns as the API requires them; only blank messages are dropped.

    A last turn of the assistant, which other APIs continue, becomes a request to begin with it, since newer models
    refuse a prefilled reply. With nothing but instructions, these become the user's turn.
    """
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system" and m["content"].strip())
    turns: list[dict[str, str]] = []
    for message in messages:
        if message["role"] != "system" and message["content"].strip():
            _add(turns, message["role"], message["content"])
    if not turns:
        return "", [{"role": "user", "content": system or OPENING}]
    if turns[-1]["role"] == "assistant":
        beginning = turns.pop()["content"]
        _add(turns, "user", f"{BEGIN_WITH}\n{beginning}")
    if turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": OPENING})
    return system, turns


def _add(turns: list[dict[str, str]], role: str, text: str) -> None:
    """Add a turn, joined to the one before where the role is the same."""
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += f"\n\n{text}"
    else:
        turns.append({"role": role, "content": text})


def reply(parsed: Any, quotas: Quotas | None) -> Reply:
    ended = finish_reason(parsed.get("stop_reason"))
    blocks = parsed["content"] if ended != REFUSED else parsed.get("content") or []
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    reasoning = "\n\n".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    refusal = "the model refuses to answer" if ended == REFUSED else ""
    usage = _usage(parsed.get("usage"))
    return Reply(text, str(parsed.get("model") or ""), ended, usage, quotas, reasoning, refusal)


def _usage(usage: Any) -> Usage | None:
    """Tokens charged. What is written to or read from a cache is input too, though counted separately there."""
    try:
        cached = sum(int(usage.get(name) or 0) for name in _CACHED)
        return plausible_usage(int(usage["input_tokens"]) + cached, int(usage["output_tokens"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
