"""The OpenAI-style chat completions API, which most providers and local servers speak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from cts_async.engine.events import Usage
from cts_async.engine.ratelimit import Quotas
from cts_async.foreign_json import as_list
from cts_async.llm.apis import ChatRequest, Reply, plausible_usage, served_name, with_system_in_user_turn
from cts_async.llm.bodies import BrokenStream, joined_texts
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import REFUSED, STOP, finish_reason

PATH = "/chat/completions"
# DeepSeek, Qwen, Kimi and vLLM use the first name, OpenRouter and newer versions of vLLM the second.
_REASONING: Final = ("reasoning_content", "reasoning")
_STREAMED_TEXTS: Final = _REASONING + ("refusal",)
_THOUGHT_FIELDS: Final = ("thinking", "text") + _REASONING
_TEXT_TYPES: Final = frozenset({"text", "output_text", ""})
_THOUGHT_TYPES: Final = frozenset({"thinking", "reasoning", "thought", "reasoning_content"})
"""Mistral's parts of a reasoning model's content, and the names of those that copy it."""


def headers(key: str) -> dict[str, str]:
    if not key:
        return {}
    return {"Authorization": f"Bearer {key}"}


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    messages: Sequence[Any] = request.messages
    if spec.system == "user":
        messages = with_system_in_user_turn(messages)
    fields: dict[str, Any] = {"model": spec.model, "messages": messages}
    if "stream" not in spec.drops:
        # Some servers stream unless they are told not to.
        fields["stream"] = False
    for name, value in spec.sent(request.params).items():
        if name == "max_tokens":
            # OpenAI's newer models refuse max_tokens and want max_completion_tokens.
            name = spec.max_tokens_field
        fields[name] = value
    if request.grammar:  # llama.cpp's own field
        fields["grammar"] = request.grammar
    elif request.json_schema:
        form = {"name": "reply", "strict": True, "schema": request.json_schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    return orjson.dumps(fields)


def reply(parsed: Any, quotas: Quotas | None) -> Reply:
    # What a JSON parser returns has exactly these types.
    choice = _first_choice(parsed["choices"])
    ended = choice.get("finish_reason")
    if ended != STOP:
        ended = finish_reason(ended)
    message = choice.get("message")
    if type(message) is not dict:
        # Of an answer that a filter withheld.
        message = {}
    content, refusal, tool_calls = message.get("content"), message.get("refusal"), message.get("tool_calls")
    thoughts: list[str] = []
    if type(content) is str:
        text = content
    elif content:
        text, thoughts, refused = _read_parts(content)
        refusal = refusal or refused
    else:
        text = ""
    for name in _REASONING:
        # Only one of them: where both are sent, they have the same text.
        reasoning = message.get(name)
        if reasoning:
            if isinstance(reasoning, str):
                thoughts.insert(0, reasoning)
            break
    thoughts_text = ""
    if thoughts:
        thoughts_text = joined_texts(thoughts, "\n\n")
    calls: list[Any] = []
    if tool_calls:
        calls = [call for call in as_list(tool_calls) if isinstance(call, dict)]
    tier = parsed.get("service_tier")
    if type(tier) is not str:
        tier = ""
    return Reply(
        text,
        served_name(parsed.get("model")),
        ended,
        _usage(parsed.get("usage")),
        quotas,
        thoughts_text,
        _refusal(refusal, ended),
        calls or (),
        tier=tier,
    )


def _first_choice(choices: Any) -> Mapping[str, Any]:
    """The first choice that can be read. Raises LookupError if there is none."""
    for choice in choices:
        if type(choice) is not dict:
            continue
        if type(choice.get("message")) is dict or finish_reason(choice.get("finish_reason")) == REFUSED:
            return choice
    raise LookupError("no choice has a message")


def _read_parts(content: Any) -> tuple[str, list[str], str]:
    """Text, thoughts and refusal of content in parts; parts of other types are left out.

    Raises TypeError if no part can be read.
    """
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise TypeError("content is neither a text nor a list of parts")
    texts: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        if not isinstance(part, dict):
            continue
        kind = part.get("type") or ""
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            refusals.append(part["refusal"])
        elif part.get("thought") is True or (isinstance(kind, str) and kind in _THOUGHT_TYPES):
            for name in _THOUGHT_FIELDS:
                thoughts += _strings_in(part.get(name))
        elif isinstance(kind, str) and kind in _TEXT_TYPES and isinstance(part.get("text"), str):
            texts.append(part["text"])
    if not (texts or thoughts or refusals):
        raise TypeError("no part of the content can be read")
    return joined_texts(texts), thoughts, joined_texts(refusals, " ")


def _strings_in(value: Any) -> list[str]:
    """The texts of a thought: a string, or parts with a `text`, in lists of any depth that was read."""
    if isinstance(value, str):
        if value:
            return [value]
        return []
    if isinstance(value, dict):
        return _strings_in(value.get("text"))
    if not isinstance(value, list):
        return []
    texts: list[str] = []
    for item in value:
        texts += _strings_in(item)
    return texts


def _refusal(refusal: Any, ended: str) -> str:
    """Why there is no answer; "" where there is one. A model's own refusal comes with the finish reason `stop`."""
    if refusal:
        return f"the model refuses: {str(refusal)[:300]}"
    if ended == REFUSED:
        return "the answer was withheld by a content filter"
    return ""


def _usage(usage: Any) -> Usage | None:
    """Tokens charged. Some providers count reasoning tokens only in the total: they are part of the output.

    What a cache had is part of the prompt's tokens here; numbers of caches that cannot be read count as none. Tokens
    read from a cache are Moonshot's `cached_tokens`, DeepSeek's `prompt_cache_hit_tokens`, and in the details of all
    others (OpenAI, Gemini, Qwen, OpenRouter), with those written to it: `cache_write_tokens` (OpenAI, OpenRouter),
    `cache_creation_input_tokens` (DashScope's explicit cache).
    """
    try:
        prompt = int(usage["prompt_tokens"])
        output = int(usage.get("completion_tokens") or 0)
        # `completion_tokens` may lack the reasoning, which is charged as output all the same.
        beyond = int(usage.get("total_tokens") or 0) - prompt
        if beyond > output:
            output = beyond
        cached, written = usage.get("cached_tokens") or usage.get("prompt_cache_hit_tokens"), 0
        details = usage.get("prompt_tokens_details")
        if type(details) is dict:
            if "cached_tokens" in details:
                cached = details["cached_tokens"] or cached
            if "cache_write_tokens" in details:
                written = details["cache_write_tokens"]
            elif "cache_creation_input_tokens" in details:
                written = details["cache_creation_input_tokens"]
        if type(cached) is not int:
            cached = 0
        if type(written) is not int:
            written = 0
        return plausible_usage(prompt, output, cached, written)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


# --- A reply that is streamed all the same --------------------------------------------------------------


def from_events(events: Sequence[Any], done: bool) -> dict[str, Any]:
    """Put the chunks of a streamed completion together, as it would have come without streaming.

    `done` says that `[DONE]` ended the stream. An error among the events is returned in their place. Raises
    BrokenStream if the stream ended before the reply did.
    """
    parsed: dict[str, Any] = {}
    texts: dict[str, list[str]] = {name: [] for name in _STREAMED_TEXTS}
    content: list[Any] = []
    calls: dict[int, dict[str, list[str]]] = {}
    unknown_events: list[dict[str, Any]] = []
    has_choices = False
    reason: Any = None
    message: Any = None
    for event in events:
        if not isinstance(event, dict):
            continue
        # vLLM marks an error by its `object`.
        if event.get("error") or event.get("object") == "error":
            return event
        for name in ("model", "usage", "service_tier"):
            if event.get(name):
                parsed[name] = event[name]
        if "choices" in event:
            has_choices = True
        else:
            unknown_events.append(event)
        for choice in as_list(event.get("choices")):
            # One completion is asked for: a further choice would be mixed into it.
            if not isinstance(choice, dict) or choice.get("index") not in (None, 0):
                continue
            reason = choice.get("finish_reason") or reason
            # Some servers send the whole reply in one event.
            if isinstance(choice.get("message"), dict):
                message = choice["message"]
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            for name, pieces in texts.items():
                if isinstance(delta.get(name), str):
                    pieces.append(delta[name])
            piece = delta.get("content")
            if isinstance(piece, list):
                content += piece
            elif piece:
                content.append(piece)
            _add_calls(calls, delta.get("tool_calls"))
    if not has_choices and unknown_events:
        # An error in a form of its own, which its reader may know.
        return unknown_events[-1]
    if not done and not reason:
        raise BrokenStream("the stream ended before the reply did")
    if message is None and (content or calls or reason or any(texts.values())):
        message = {name: "".join(pieces) for name, pieces in texts.items() if pieces}
        if all(isinstance(piece, str) for piece in content):
            message["content"] = "".join(content)
        else:
            message["content"] = content
        if calls:
            message["tool_calls"] = [_whole_call(pieces) for pieces in calls.values()]
    parsed["choices"] = [{"message": message, "finish_reason": reason}]
    return parsed


def _add_calls(calls: dict[int, dict[str, list[str]]], pieces: Any) -> None:
    """Add the pieces of calls of tools in one chunk: the first names the tool, further ones continue its arguments."""
    for position, piece in enumerate(as_list(pieces)):
        if not isinstance(piece, dict):
            continue
        index = piece.get("index")
        if not isinstance(index, int):
            index = position
        call = calls.setdefault(index, {})
        fields = piece
        if isinstance(piece.get("function"), dict):
            fields = piece | piece["function"]
        for name in ("id", "type", "name", "arguments"):
            if isinstance(fields.get(name), str):
                call.setdefault(name, []).append(fields[name])


def _whole_call(pieces: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A call of a tool whose pieces are all there."""
    # Id and type may be repeated with each piece; name and arguments are continued.
    call: dict[str, Any] = {name: pieces[name][0] for name in ("id", "type") if name in pieces}
    function = {name: "".join(pieces[name]) for name in ("name", "arguments") if name in pieces}
    call["function"] = function
    return call
