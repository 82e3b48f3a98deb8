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
from cts_async.llm.apis import (
    ChatRequest,
    Message,
    Reply,
    openai,
    plausible_usage,
    served_name,
    with_system_in_user_turn,
)
from cts_async.llm.bodies import BrokenStream, joined_texts
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import REFUSED, finish_reason

PATH: Final = "/messages"
VERSION: Final = "2023-06-01"
MAX_TOKENS: Final = 4096
"""Where nobody sets a limit: the API requires one, and every model allows this much."""
BEGIN_WITH: Final = "Begin your reply with exactly this text and go on from there:"
OPENING: Final = "(The conversation begins with your turn.)"
MIN_CACHED_BYTES: Final = 4096
"""The fewest bytes of a prefix that is marked to be cached: about 1,024 tokens, below which the API caches nothing."""


def headers(key: str) -> dict[str, str]:
    fields = {"anthropic-version": VERSION}
    if key:
        fields["x-api-key"] = key
    return fields


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    """The JSON body. No form is enforced: prompts ask for JSON, and replies are checked."""
    messages: Sequence[Any] = request.messages
    # Copies of this API serve models without a system role, too.
    if spec.system == "user":
        messages = with_system_in_user_turn(messages)
    system, turns = split_system(messages)
    fields: dict[str, Any] = {"model": spec.model, "max_tokens": MAX_TOKENS}
    if "stream" not in spec.drops:
        # Some servers that copy this API stream unless they are told not to.
        fields["stream"] = False
    fields.update(spec.sent(request.params))
    if system:
        fields["system"] = system
    if request.repeated_chars:
        _mark_repeated(system, turns, request.messages[-1], request.repeated_chars)
    fields["messages"] = turns
    return orjson.dumps(fields)


def _mark_repeated(system: str, turns: list[dict[str, Any]], last: Message, repeated_chars: int) -> None:
    """Mark the end of what further requests repeat, `repeated_chars` of the last message, where caching it pays.

    A write costs a quarter more than input, and each read within five minutes a tenth: one read pays for it. The API
    finds what earlier requests wrote by looking back from the mark, so each request needs one only.
    """
    turn = turns[-1]
    text = turn["content"]
    tail = last["content"][repeated_chars:]
    if last["role"] != "user" or not text.endswith(last["content"]):
        return
    repeated = text[: len(text) - len(tail)]
    n_bytes = len(system.encode()) + len(repeated.encode())
    for earlier in turns[:-1]:
        n_bytes += len(earlier["content"].encode())
    # The API refuses blank blocks.
    if n_bytes < MIN_CACHED_BYTES or not repeated.strip():
        return
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": repeated, "cache_control": {"type": "ephemeral"}}
    ]
    if tail.strip():
        blocks.append({"type": "text", "text": tail})
    turn["content"] = blocks


def split_system(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The instructions, and the turns as the API requires them; only blank messages are dropped.

    A last turn of the assistant, which other APIs continue, becomes a request to begin with it, since newer models
    refuse a prefilled reply. With nothing but instructions, these become the user's turn.
    """
    instructions: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        # The API refuses blank turns.
        if not message["content"].strip():
            continue
        if message["role"] == "system":
            instructions.append(message["content"])
        else:
            _add(turns, message["role"], message["content"])
    system = "\n\n".join(instructions)
    if not turns:
        return "", [{"role": "user", "content": system or OPENING}]
    if turns[-1]["role"] == "assistant":
        beginning = turns.pop()["content"]
        _add(turns, "user", f"{BEGIN_WITH}\n{beginning}")
    if turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": OPENING})
    return system, turns


def _add(turns: list[dict[str, Any]], role: str, text: str) -> None:
    """Add a turn, joined to the one before where the role is the same."""
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += f"\n\n{text}"
    else:
        turns.append({"role": role, "content": text})


def reply(parsed: Any, quotas: Quotas | None) -> Reply:
    # Some gateways answer every address in one format.
    if "content" not in parsed and "choices" in parsed:
        return openai.reply(parsed, quotas)
    ended = finish_reason(parsed.get("stop_reason"))
    refusal = ""
    if ended == REFUSED:
        # Then there may be no content; in any other reply its lack is an error.
        refusal = "the model refuses to answer"
        content = parsed.get("content") or []
    else:
        content = parsed["content"]
    texts, thoughts = _read_blocks(content)
    usage = parsed.get("usage")
    tier = ""
    if isinstance(usage, dict) and isinstance(usage.get("service_tier"), str):
        tier = usage["service_tier"]
    return Reply(
        joined_texts(texts),
        served_name(parsed.get("model")),
        ended,
        _usage(usage),
        quotas,
        joined_texts(thoughts, "\n\n"),
        refusal,
        tier=tier,
    )


def _read_blocks(blocks: Any) -> tuple[list[str], list[str]]:
    """The texts and the thoughts of the blocks that can be read.

    Raises TypeError if there are blocks, and all of them are odd.
    """
    if isinstance(blocks, str):
        return [blocks], []
    if not isinstance(blocks, list):
        raise TypeError("content is neither a text nor a list of blocks")
    texts: list[str] = []
    thoughts: list[str] = []
    n_read = 0
    for block in blocks:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            continue
        if block["type"] == "text":
            if isinstance(block.get("text"), str):
                texts.append(block["text"])
                n_read += 1
        else:
            # Blocks of other types, such as calls of tools, are no text, but a reply of these alone is not broken.
            n_read += 1
            if block["type"] == "thinking" and isinstance(block.get("thinking"), str):
                thoughts.append(block["thinking"])
    if blocks and not n_read:
        raise TypeError("no block of the content can be read")
    return texts, thoughts


def _usage(usage: Any) -> Usage | None:
    """Tokens charged. What is written to or read from a cache is input too, though counted separately there."""
    try:
        # Negative numbers would give tokens of the input back.
        read = max(0, int(usage.get("cache_read_input_tokens") or 0))
        written = max(0, int(usage.get("cache_creation_input_tokens") or 0))
        n_input = int(usage["input_tokens"]) + read + written
        return plausible_usage(n_input, int(usage["output_tokens"]), read, written)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


# --- A reply that is streamed all the same --------------------------------------------------------------


def from_events(events: Sequence[Any], done: bool) -> dict[str, Any]:
    """Put the events of a streamed message together, as it would have come without streaming.

    An error among the events is returned in their place. Raises BrokenStream if the stream ended before the message
    did; `done` says that `[DONE]` ended it, which only copies of this API send.
    """
    parsed: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    blocks: dict[str, dict[str, Any]] = {}
    pieces: dict[tuple[str, str], list[str]] = {}
    for event in events:
        if not isinstance(event, dict):
            continue
        if "choices" in event:
            return openai.from_events(events, done)
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            return event
        if kind == "message_start" and isinstance(event.get("message"), dict):
            parsed = dict(event["message"])
            usage |= _dict(parsed.get("usage"))
        elif kind == "content_block_start":
            blocks[str(event.get("index"))] = dict(_dict(event.get("content_block")))
        elif kind == "content_block_delta":
            number, delta = str(event.get("index")), _dict(event.get("delta"))
            for name in ("text", "thinking"):
                if isinstance(delta.get(name), str):
                    blocks.setdefault(number, {"type": name})
                    pieces.setdefault((number, name), []).append(delta[name])
        elif kind == "message_delta":
            parsed |= _dict(event.get("delta"))
            # The first event counts the input, this one the output.
            usage |= _dict(event.get("usage"))
        elif kind == "message_stop":
            done = True
    if not done and not parsed.get("stop_reason"):
        raise BrokenStream("the stream ended before the message did")
    for (number, name), continued in pieces.items():
        text = "".join(continued)
        # A block may begin with a part of its text; deltas continue it.
        begun = blocks[number].get(name)
        if isinstance(begun, str):
            text = begun + text
        blocks[number][name] = text
    return parsed | {"content": list(blocks.values()), "usage": usage}


def _dict(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {}
