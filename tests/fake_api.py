"""The two shapes of API that the fake provider speaks: reading a request, and writing an answer or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Api = Literal["openai", "anthropic"]
Ending = Literal["stop", "length", "refused"]

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
_TAKEN = frozenset({"model", "messages", "system", "max_tokens", "temperature", "thinking", "stop_sequences"})


def api_of(path: str) -> Api:
    return "anthropic" if path == MESSAGES else "openai"


@dataclass(frozen=True)
class Said:
    """An answer before it has a shape; `used` are tokens in and out."""

    model: str
    text: str
    ending: Ending
    used: tuple[int, int]
    reasoning: str = ""


def conversation(asked: Mapping[str, Any]) -> list[dict[str, str]]:
    """A request's messages in OpenAI's form; the first are instructions, if only empty ones."""
    messages: list[dict[str, str]] = asked["messages"]
    if messages and messages[0]["role"] == "system":
        return messages
    return [{"role": "system", "content": asked.get("system", "")}, *messages]


def key_in(api: Api, headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key", "") if api == "anthropic" else headers.get("Authorization", "")[7:]


def problem_in(api: Api, asked: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Why the messages API would answer 400; it is strict where OpenAI-style servers are not."""
    if api == "openai":
        return ""
    if headers.get("anthropic-version") != "2023-06-01":
        return "anthropic-version: header is required"
    if not isinstance(asked.get("max_tokens"), int):
        return "max_tokens: Field required"
    if extra := asked.keys() - _TAKEN:
        return f"{min(extra)}: Extra inputs are not permitted"
    roles = [message["role"] for message in asked["messages"]]
    if not set(roles) <= {"user", "assistant"}:
        return 'messages: Unexpected role "system"'
    if not roles or roles[0] != "user" or any(a == b for a, b in pairwise(roles)):
        return "messages: roles must alternate, beginning with user"
    if roles[-1] != "user":
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    if not all(message["content"].strip() for message in asked["messages"]):
        return "messages: text content blocks must be non-empty"
    return ""


def completion(api: Api, said: Said) -> dict[str, Any]:
    """The body of an answer."""
    return _message(said) if api == "anthropic" else _chat_completion(said)


def error(api: Api, message: str, code: str) -> dict[str, Any]:
    """The body of an error."""
    if api == "anthropic":
        return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_1"}
    return {"error": {"message": message, "type": code, "code": code}}


def _chat_completion(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.ending == "refused":
        message |= {"content": None, "refusal": "I cannot help with that."}
    choice = {"message": message, "finish_reason": "length" if said.ending == "length" else "stop"}
    usage = {
        "prompt_tokens": said.used[0],
        "completion_tokens": said.used[1],
        "total_tokens": sum(said.used),
    }
    return {"model": said.model, "choices": [choice], "usage": usage}


def _message(said: Said) -> dict[str, Any]:
    content = [{"type": "text", "text": said.text}] if said.text and said.ending != "refused" else []
    if said.reasoning:
        content.insert(0, {"type": "thinking", "thinking": said.reasoning, "signature": "EqQB"})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": content,
        "stop_reason": {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"}[said.ending],
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.used[0],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": said.used[1],
        },
    }
