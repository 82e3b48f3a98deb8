"""What is sent to the messages API, and what each of its documented answers means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.engine.events import Usage
from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.errors import (
    ContentRefused,
    CTSError,
    ProviderRefused,
    RateLimited,
    RejectedError,
    TransientError,
)
from cts_async.llm.apis import ChatRequest, Message, Reply, anthropic
from cts_async.llm.apis.anthropic import BEGIN_WITH, OPENING, split_system
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import read_reply

SPEC = ModelSpec("claude", "anthropic", "https://h/v1", "claude-x", "MY_KEY", "MY_KEY", 4)
GOOD: dict[str, Any] = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-20250929",
    "content": [{"type": "text", "text": "Hello!"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 6},
}


def said(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def read(status: int, body: Any, head: dict[str, str] | None = None) -> Reply:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return read_reply(anthropic, SPEC, status, head or {}, data, now=0.0)


def raised(status: int, body: Any, head: dict[str, str] | None = None) -> CTSError:
    with pytest.raises(CTSError) as caught:
        read(status, body, head)
    return caught.value


def error(kind: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}


# --- Requests ---------------------------------------------------------------------------------------------


def sent(spec: ModelSpec, *messages: Message, **params: Any) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(anthropic.body(spec, ChatRequest(messages, params=params)))
    return body


def test_instructions_stand_apart_from_the_conversation() -> None:
    assert sent(SPEC, said("system", "Be brief."), said("user", "hi")) == {
        "model": "claude-x",
        "max_tokens": 4096,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_parameters_that_are_sent() -> None:
    assert sent(SPEC, said("user", "hi"))["max_tokens"] == 4096
    # Newer models take a temperature or top_p, not both.
    spec = replace(SPEC, params={"max_tokens": 900, "temperature": 0.0}, drops=("top_p",))
    body = sent(spec, said("user", "hi"), top_p=0.95)
    assert (body["max_tokens"], body["temperature"], "top_p" in body) == (900, 0.0, False)
    assert sent(spec, said("user", "hi"), max_tokens=70)["max_tokens"] == 70


def test_constraint_is_not_sent() -> None:
    request = ChatRequest([said("user", "hi")], json_schema={"type": "array"})
    assert orjson.loads(anthropic.body(SPEC, request)).keys() == {"model", "max_tokens", "messages"}


def test_the_key_is_in_its_own_header() -> None:
    head = anthropic.headers("s3cret")
    assert (head["x-api-key"], head["anthropic-version"]) == ("s3cret", "2023-06-01")
    assert "Authorization" not in head
    assert "x-api-key" not in anthropic.headers("")


# --- Turns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "system", "turns"),
    [
        (
            [said("system", "A"), said("user", "1"), said("user", "2"), said("system", "B")],
            "A\n\nB",
            [said("user", "1\n\n2")],
        ),
        # Others continue a last turn of the assistant's; newer Claude models refuse one.
        (
            [said("user", "Who?"), said("assistant", "<think>\n")],
            "",
            [said("user", f"Who?\n\n{BEGIN_WITH}\n<think>\n")],
        ),
        (
            [said("assistant", "Hello."), said("user", "Hi.")],
            "",
            [said("user", OPENING), said("assistant", "Hello."), said("user", "Hi.")],
        ),
        ([said("system", "Say hi.")], "", [said("user", "Say hi.")]),
        ([said("system", " "), said("user", "\n"), said("user", "hi")], "", [said("user", "hi")]),
    ],
    ids=["joined", "begun by the assistant", "opened for it", "instructions only", "blank"],
)
def test_turns_are_as_the_api_requires(messages: list[Message], system: str, turns: list[Message]) -> None:
    assert split_system(messages) == (system, turns)


messages = st.lists(
    st.builds(said, st.sampled_from(["system", "user", "assistant"]), st.text(max_size=8)), max_size=8
)


@given(messages)
def test_turns_alternate_begin_and_end_with_the_user_and_hold_every_text(talk: Sequence[Message]) -> None:
    system, turns = split_system(talk)
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"]
    assert all(turn["content"].strip() for turn in turns)
    everything = system + "".join(turn["content"] for turn in turns)
    for message in talk:
        if message["content"].strip():
            assert message["content"] in everything


# --- Answers ----------------------------------------------------------------------------------------------


def test_a_message_is_read() -> None:
    assert read(200, GOOD) == Reply("Hello!", "claude-x-20250929", "stop", Usage(12, 6))


def test_text_blocks_are_one_text_and_thinking_stands_apart() -> None:
    blocks = [
        {"type": "thinking", "thinking": "A greeting.", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "Emw"},
        {"type": "text", "text": "Hel"},
        {"type": "text", "text": "lo!"},
    ]
    reply = read(200, {**GOOD, "content": blocks})
    assert (reply.text, reply.reasoning) == ("Hello!", "A greeting.")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {**GOOD["usage"], "cache_creation_input_tokens": 100, "cache_read_input_tokens": 2000},
            Usage(2112, 6),
        ),
        *[(usage, None) for usage in (None, "many", {}, {"input_tokens": 3}, {"output_tokens": 3}, [])],
    ],
)
def test_usage_counts_cached_input_and_is_none_where_unreadable(usage: Any, expected: Usage | None) -> None:
    assert read(200, {**GOOD, "usage": usage}).usage == expected


def test_stop_reasons() -> None:
    for reason in ("max_tokens", "model_context_window_exceeded"):
        assert read(200, {**GOOD, "stop_reason": reason}).finish_reason == "length"
    for content in ([], None):
        reply = read(200, {**GOOD, "content": content, "stop_reason": "refusal"})
        assert (reply.refused, reply.usage) == ("the model refuses to answer", Usage(12, 6))
    assert type(raised(200, {**GOOD, "stop_reason": "pause_turn"})) is TransientError


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>Be right back</html>", orjson.dumps(GOOD)[:-20], b"[]", b"null", b"{}"),
        b'{"content": null}',
        b'{"content": ["text"]}',
        b'{"content": [{"type": "text"}]}',
        b'{"content": [{"type": "text", "text": 3}]}',
    ],
)
def test_a_broken_body_under_200_is_transient(body: bytes) -> None:
    assert type(raised(200, body)) is TransientError


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error("invalid_request_error", "max_tokens: Field required"), RejectedError),
        (400, error("invalid_request_error", "Your credit balance is too low to access"), ProviderRefused),
        (400, error("invalid_request_error", "Output blocked by content filtering policy"), ContentRefused),
        (401, error("authentication_error", "invalid x-api-key"), ProviderRefused),
        (402, error("billing_error"), ProviderRefused),
        (403, error("permission_error"), ProviderRefused),
        (404, error("not_found_error", "model: claude-x"), ProviderRefused),
        (413, error("request_too_large"), RejectedError),
        (429, error("rate_limit_error"), RateLimited),
        (500, error("api_error"), TransientError),
        (504, error("timeout_error"), TransientError),
        (529, error("overloaded_error", "Overloaded"), TransientError),
        (200, error("overloaded_error", "Overloaded"), TransientError),
        (200, {"type": "error"}, TransientError),
    ],
)
def test_each_documented_error_has_its_meaning(status: int, body: Any, expected: type[CTSError]) -> None:
    assert type(raised(status, body)) is expected


def test_rate_limit_has_a_wait() -> None:
    reset = {"anthropic-ratelimit-output-tokens-reset": "1970-01-01T00:00:42Z"}
    for head, wait_s in (({"retry-after": "17"}, 17.0), (reset, 42.0)):
        limited = raised(429, error("rate_limit_error"), head)
        assert isinstance(limited, RateLimited)
        assert limited.retry_after_s == wait_s


def test_an_answer_brings_the_account_s_limits() -> None:
    head = {"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "49"}
    assert read(200, GOOD, head).quotas == Quotas(Quota(50, 49))
