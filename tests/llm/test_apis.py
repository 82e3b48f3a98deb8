"""What is sent in each wire format, and what each response means, provider by provider."""

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
    NoCompletion,
    PromptTooLong,
    ProviderRefused,
    RateLimited,
    RejectedError,
    TransientError,
)
from cts_async.llm.apis import ChatRequest, Message, Reply, anthropic, load_api, openai
from cts_async.llm.apis.anthropic import BEGIN_WITH, OPENING, split_system
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.redact import SECRETS
from cts_async.llm.responses import read_reply

SPEC = ModelSpec("mine", "openai", "http://host/v1", "m-1", "MY_KEY", "mine", 4, params={"temperature": 0.0})
QWEN = replace(SPEC, rate_limit_words=("insufficient_quota",))
ASK = ({"role": "user", "content": "hi"},)
GOOD: dict[str, Any] = {
    "model": "m-1",
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}

CLAUDE = ModelSpec("claude", "anthropic", "https://h/v1", "claude-x", "MY_KEY", "MY_KEY", 4)
CLAUDE_GOOD: dict[str, Any] = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-20250929",
    "content": [{"type": "text", "text": "Hello!"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 6},
}


def cached_usage(**fields: Any) -> dict[str, Any]:
    """2,000 tokens in, 9 out, and what a provider says of its cache."""
    return {"prompt_tokens": 2000, "completion_tokens": 9, "total_tokens": 2009, **fields}


def read(status: int, body: Any, head: dict[str, str] | None = None, spec: ModelSpec = SPEC) -> Reply:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return read_reply(load_api(spec.api), spec, status, head or {}, data, now=0.0)


def raised(status: int, body: Any, head: dict[str, str] | None = None, spec: ModelSpec = SPEC) -> CTSError:
    with pytest.raises(CTSError) as caught:
        read(status, body, head, spec)
    return caught.value


def error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def test_completion_is_read() -> None:
    assert read(200, GOOD) == Reply("hello", "m-1", "stop", Usage(7, 2))
    choice = {"message": {"role": "assistant", "content": None}, "finish_reason": "length"}
    assert read(200, {"choices": [choice]}) == Reply("", "", "length", None)


NO_JSON = (b"", b"<html>Be right back</html>", b'{"model": "m-1", "cho', b"\xff\xfe")
DEEP = b'{"model": ' + b"[" * 1015 + b"]" * 1015 + b"}"
NO_COMPLETION = (
    *((spec, body) for spec in (SPEC, CLAUDE) for body in (b"[]", b"null", b"3", b"{}", DEEP)),
    *((SPEC, b'{"choices": [%b]}' % choice) for choice in (b"", b"{}", b'{"message": null}', b"null")),
    (SPEC, b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}'),
    (SPEC, b'{"choices": [{"message": {"content": 3}}]}'),
    *((CLAUDE, b'{"content": %b}' % content) for content in (b"null", b'["text"]', b'[{"type": "text"}]')),
    (CLAUDE, b'{"content": [{"type": "text", "text": 3}]}'),
    (SPEC, b'{"message": "Hello from the proxy"}'),
)


@pytest.mark.parametrize("spec", [SPEC, CLAUDE])
@pytest.mark.parametrize("body", NO_JSON)
def test_body_under_200_that_is_no_json_is_transient(spec: ModelSpec, body: bytes) -> None:
    broken = raised(200, body, spec=spec)
    assert type(broken) is TransientError
    assert "not a chat completion" in str(broken)


@pytest.mark.parametrize(("spec", "body"), NO_COMPLETION)
def test_readable_body_that_is_no_completion_is_no_outage(spec: ModelSpec, body: bytes) -> None:
    failed = raised(200, body, spec=spec)
    assert type(failed) is NoCompletion
    assert "not a chat completion" in str(failed)
    assert len(str(failed)) < 400


def with_content(content: Any, **message: Any) -> Reply:
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return read(200, {**GOOD, "choices": [choice]})


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        # Mistral's reasoning models.
        (
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "hello"},
            ],
            "hello",
            "Hm.",
        ),
        ([{"type": "reasoning", "text": "Hm."}, {"type": "output_text", "text": "hello"}], "hello", "Hm."),
        ([{"text": "Hm.", "thought": True}, {"text": "hello"}], "hello", "Hm."),
        (["hel", None, 3, {"type": "text", "text": None}, {"type": "text", "text": "lo"}], "hello", ""),
        # A part of an unknown type may be a thought: it is never the answer.
        ([{"type": "scratchpad", "text": "Hm."}, {"type": "text", "text": "hello"}], "hello", ""),
        ({"type": "text", "text": "hello"}, "hello", ""),
        ([], "", ""),
    ],
)
def test_content_in_parts_is_text_and_thoughts(content: Any, text: str, reasoning: str) -> None:
    reply = with_content(content)
    assert (reply.text, reply.reasoning, reply.refused) == (text, reasoning, "")


def test_odd_choice_or_field_discards_no_good_one() -> None:
    good = GOOD["choices"][0]
    assert read(200, {**GOOD, "choices": [None, {"message": None}, good]}).text == "hello"
    odd = with_content("hello", tool_calls="none", reasoning_content={"a": 1}, refusal=None)
    assert (odd.text, odd.reasoning, odd.tool_calls) == ("hello", "", ())
    assert with_content([{"type": "refusal", "refusal": "No."}]).refused == "the model refuses: No."
    assert len(read(200, {**GOOD, "model": "m" * 10_000_000}).model) == 200


def test_odd_block_discards_no_good_one_in_a_reply_of_claude() -> None:
    text = {"type": "text", "text": "Hello!"}
    for block in (None, 3, {}, {"type": "text", "text": None}, {"type": "thinking"}, {"type": 3}):
        reply = read(200, {**CLAUDE_GOOD, "content": [block, text]}, spec=CLAUDE)
        assert (reply.text, reply.reasoning) == ("Hello!", "")
    assert read(200, {**CLAUDE_GOOD, "content": "Hello!"}, spec=CLAUDE).text == "Hello!"
    assert read(200, GOOD, spec=CLAUDE).text == "hello"  # a gateway that knows one format


def test_error_without_the_field_error_has_its_kind() -> None:
    zhipu = {"code": 500, "msg": "404 NOT_FOUND", "success": False}
    assert type(raised(200, zhipu)) is type(raised(200, zhipu, spec=CLAUDE)) is TransientError
    assert type(raised(200, {"code": 422, "msg": "no"})) is RejectedError


# --- What a strict parser refuses, and servers that stream all the same


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbf" + orjson.dumps(GOOD), "hello"),
        (orjson.dumps(GOOD).decode().encode("utf-16"), "hello"),
        (b"\n\n \x00" + orjson.dumps(GOOD) + b"\n\ndata: [DONE]\n\n", "hello"),
        (orjson.dumps(GOOD) + b"[DONE]", "hello"),
        (orjson.dumps(GOOD)[:-1] + b', "logprobs": [NaN, -Infinity, 1e999, %b]}' % (b"9" * 5000), "hello"),
        (orjson.dumps(GOOD).replace(b"hello", b"h\\ud83dllo"), "h\ufffdllo"),
        (orjson.dumps(GOOD).replace(b"hello", b"h\xffllo"), "h\ufffdllo"),
        (orjson.dumps(GOOD).replace(b"hello", b"h\tllo"), "h\tllo"),
    ],
)
def test_bytes_that_other_clients_read_are_read(data: bytes, text: str) -> None:
    reply = read(200, data)
    assert (reply.text, reply.usage) == (text, Usage(7, 2))
    orjson.dumps([reply.text, list(reply.tool_calls)])


def test_text_behind_the_json_is_no_completion() -> None:
    failed = raised(200, orjson.dumps(GOOD) + orjson.dumps(GOOD))

    assert type(failed) is NoCompletion  # complete, so that another attempt would be charged for nothing
    assert "other text behind its JSON" in str(failed)


@pytest.mark.parametrize(
    ("parsed", "kind"),
    [
        ({"code": 30001, "message": "Sorry, your account balance is insufficient"}, ProviderRefused),
        ({"code": "insufficient_quota", "message": "used up"}, ProviderRefused),
        ({"code": "503", "message": "busy"}, TransientError),
        ({"status": 429, "title": "Too Many Requests"}, RateLimited),
        ({"code": "content_filter", "message": "no"}, ContentRefused),
        # A reply in another format, whose text may say anything, is no error message.
        ({"message": {"role": "assistant", "content": "insufficient balance"}}, NoCompletion),
        ({"detail": "Not Found"}, NoCompletion),
    ],
)
def test_error_without_the_field_error_has_its_true_kind(
    parsed: dict[str, Any], kind: type[CTSError]
) -> None:
    assert type(raised(200, orjson.dumps(parsed))) is kind


def stream(*events: Any, end: str = "data: [DONE]\n\n") -> bytes:
    return ("".join(f"data: {orjson.dumps(event).decode()}\n\n" for event in events) + end).encode()


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":'}}
CHUNKS = (
    chunk(role="assistant", content=""),
    chunk(reasoning_content="H"),
    chunk(reasoning_content="m."),
    chunk(content="hel"),
    chunk(content="lo", tool_calls=[CALL]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
    chunk("length"),
    {"choices": [], "usage": GOOD["usage"]},
)
WHOLE_CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":1}'}}


@pytest.mark.parametrize(
    "data",
    [
        stream(*CHUNKS),
        stream(*CHUNKS, end=""),
        stream(*CHUNKS).replace(b"\n", b"\r\n"),
        b": keep-alive\n\n" + stream(*CHUNKS),
        stream(*CHUNKS).replace(b"\n\n", b"\n"),
    ],
)
def test_chunks_are_put_together(data: bytes) -> None:
    expected = Reply("hello", "m-1", "length", Usage(7, 2), None, "Hm.", tool_calls=[WHOLE_CALL])
    assert read(200, data) == expected


def test_whole_completion_in_one_event_is_read() -> None:
    assert read(200, stream(GOOD)) == Reply("hello", "m-1", "stop", Usage(7, 2))


CLAUDE_EVENTS = (
    {"type": "message_start", "message": {**CLAUDE_GOOD, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo!"}},
    {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)


def test_events_of_claude_are_put_together() -> None:
    data = "".join(
        f"event: {event['type']}\ndata: {orjson.dumps(event).decode()}\n\n" for event in CLAUDE_EVENTS
    )
    expected = Reply("Hello!", "claude-x-20250929", "length", Usage(12, 9), None, "Hm.")
    assert read(200, data.encode(), spec=CLAUDE) == expected


@pytest.mark.parametrize(
    ("spec", "data", "kind", "problem"),
    [
        (SPEC, stream(*CHUNKS[:4], end=""), TransientError, "the stream ended before the reply did"),
        (SPEC, stream(*CHUNKS[:4], end='data: {"cho'), TransientError, "the last event is cut off"),
        (CLAUDE, stream(*CLAUDE_EVENTS[:6], end=""), TransientError, "ended before the message did"),
        (SPEC, stream(*CHUNKS[:4], error("x", "odd", type="y")), TransientError, "odd"),
        (SPEC, stream(error("insufficient_quota")), ProviderRefused, "out of quota"),
        (CLAUDE, stream({"type": "error", "error": {"message": "busy"}}), TransientError, "busy"),
        (SPEC, stream({}), NoCompletion, "not a chat completion"),
        (SPEC, stream({"object": "error", "message": "boom", "code": 500}), TransientError, "boom"),
        (SPEC, stream({"code": 429, "message": "slow down"}, end=""), RateLimited, "slow down"),
        (SPEC, b"data: hello\n\ndata: [DONE]\n\n", NoCompletion, "not JSON"),
    ],
)
def test_stream_that_is_no_reply_fails_by_its_kind(
    spec: ModelSpec, data: bytes, kind: type[CTSError], problem: str
) -> None:
    failed = raised(200, data, spec=spec)
    assert type(failed) is kind
    assert problem in str(failed)


def test_a_key_split_between_parts_is_taken_out() -> None:
    key = "sk-split-0123456789abcdef"
    SECRETS.add(key)
    parts = [{"type": "text", "text": key[:9]}, {"type": "text", "text": key[9:]}]
    assert key not in with_content(parts).text
    assert key not in read(200, {**CLAUDE_GOOD, "content": parts}, spec=CLAUDE).text
    assert key not in read(200, stream(chunk(content=key[:9]), chunk("stop", content=key[9:]))).text
    assert key not in read(200, orjson.dumps({**GOOD, "model": key}).decode().encode("utf-16")).model


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        ((("system", "Ask."), ("user", "ferry")), [("user", "Ask.\n\nferry")]),
        (
            (("system", "A"), ("assistant", "B"), ("user", "C"), ("user", "D"), ("system", "E")),
            [("assistant", "B"), ("user", "A\n\nE\n\nC"), ("user", "D")],
        ),
        ((("system", "Ask."),), [("user", "Ask.")]),
        ((("user", "ferry"),), [("user", "ferry")]),
    ],
)
def test_model_without_a_system_role_gets_instructions_in_the_user_s_turn(
    talk: Sequence[tuple[str, str]], expected: list[tuple[str, str]]
) -> None:
    request = ChatRequest([{"role": role, "content": text} for role, text in talk])
    sent = orjson.loads(openai.body(replace(SPEC, system="user"), request))["messages"]
    assert sent == [{"role": role, "content": text} for role, text in expected]
    claude = orjson.loads(anthropic.body(replace(CLAUDE, system="user"), request))
    assert "system" not in claude
    assert "Ask." not in str(talk) or "Ask." in claude["messages"][0]["content"]


def test_stream_is_asked_not_to_be() -> None:
    request = ChatRequest(ASK)
    for api, spec in ((openai, SPEC), (anthropic, CLAUDE)):
        assert orjson.loads(api.body(spec, request))["stream"] is False
        assert "stream" not in orjson.loads(api.body(replace(spec, drops=("stream",)), request))
        wanted = replace(spec, params={"stream": True})
        assert orjson.loads(api.body(wanted, request))["stream"] is True


TOO_LARGE = "Request too large for gpt-5.2 on tokens per min (TPM): Limit 30000, Requested 42000."


def test_404_of_an_address_without_path_suggests_v1() -> None:
    assert str(raised(404, b"")).endswith(
        "(check that 'm-1' is the right model and http://host/v1 the right server)"
    )
    bare = raised(404, b"", spec=replace(SPEC, base_url="http://host:8000/"))
    assert str(bare).endswith("(base_url has no path; most OpenAI-style servers need http://host:8000/v1)")


@pytest.mark.parametrize(
    ("statuses", "body", "kind", "problem"),
    [
        ((408, 409, 425, 500, 502, 503, 504, 520, 529), b"", TransientError, "(empty body)"),
        ((400, 405, 422), b"", RejectedError, "(empty body)"),
        ((413,), b"", PromptTooLong, "(empty body)"),
        ((401, 402, 404), error("who_are_you"), ProviderRefused, "no"),
        ((301, 302, 307, 308), b"", ProviderRefused, "its address has moved: correct base_url"),
        ((429,), error("rate_limit_exceeded", TOO_LARGE), PromptTooLong, TOO_LARGE),
        ((400,), error("bad", "2 errors:\n  top_k\n\n  seed"), RejectedError, "2 errors: top_k seed"),
        ((500,), error("x", "the disk is full"), TransientError, "the disk is full"),
    ],
)
def test_status_determines_the_error(
    statuses: tuple[int, ...], body: Any, kind: type[CTSError], problem: str
) -> None:
    for status in statuses:
        failed = raised(status, body)
        assert type(failed) is kind
        assert str(failed).startswith(f"mine: HTTP {status}: ")
        assert problem in str(failed)
        assert failed.exit_code == (75 if kind is ProviderRefused else failed.exit_code)


def test_long_error_page_is_cut() -> None:
    assert len(str(raised(502, b"<p>" + b"sorry " * 10_000))) < 300


PER_DAY, PER_MINUTE = "RequestsPerDayPerProject", "RequestsPerMinutePerProject"


def quota(*ids: str) -> dict[str, Any]:
    violations = [{"quotaId": id} for id in ids]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


def exhausted(*details: dict[str, Any]) -> dict[str, Any]:
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slower", "details": list(details)}
    return {"error": error}


EXHAUSTED: list[tuple[int, Any]] = [
    (429, error("insufficient_quota")),
    (429, error("credit_balance_exhausted")),
    (429, error("project_spend_limit_exceeded")),
    (429, error("organization_usage_limit_exceeded")),
    (400, error("invalid_request_error", "Your credit balance is too low to access the API")),
    (402, error("billing_error")),
    (429, exhausted(quota(PER_DAY, PER_DAY))),
    (429, [exhausted(quota(PER_DAY))]),
    (403, error("account_overdue")),
    (400, error("Arrearage")),
    (429, error("exceeded_current_quota_error")),
    (429, error("rate_limit_reached_error", "Your account reached max TPD of 1500000")),
    (200, error("insufficient_quota")),
]
LIMITED: list[tuple[int, Any]] = [
    (429, b"slow down"),
    (429, error("rate_limit_exceeded")),
    (429, error("rate_limit_error")),
    (429, exhausted()),
    (429, exhausted(quota(PER_DAY, PER_MINUTE))),
    (429, [exhausted({"@type": "x"})]),
    (429, error("rpm_rate_limit_exceeded", type="rate_limit_exceeded")),
    (429, error("Throttling.RateQuota")),
    (429, error("limit_burst_rate")),
    (429, error("rate_limit_reached_error", "max RPM reached")),
    (429, error("engine_overloaded_error")),
    (200, error("tpm_rate_limit_exceeded", type="rate_limit_exceeded")),
    (200, {"error_code": 336501, "error_msg": "Rate limit reached for RPM"}),
    (200, {"error_code": 336502, "error_msg": "Rate limit reached for TPM"}),
    (200, {"error": {"code": 429, "message": "upstream"}}),
    *[
        (429, error("x", details=details))
        for details in (None, 3, [3], [{"@type": "QuotaFailure", "violations": 3}], [{"@type": "RetryInfo"}])
    ],
]
REFUSED: list[tuple[int, Any]] = [
    (400, error("content_filter")),
    (400, error("content_policy_violation")),
    (400, error("data_inspection_failed")),
    (403, error("unsafe_request")),
    (200, error("unsafe_request")),
    (400, error("invalid_request_error", "Content Exists Risk")),  # DeepSeek
    (400, error("x", "Invalid prompt: your prompt was flagged as potentially violating our usage policy.")),
    (400, error("invalid_request_error", "Output blocked by content filtering policy")),  # Anthropic
]


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        *[(ProviderRefused, *response) for response in EXHAUSTED],
        *[(RateLimited, *response) for response in LIMITED],
        *[(ContentRefused, *response) for response in REFUSED],
    ],
)
def test_quota_rate_limit_and_refused_content_are_told_apart(
    kind: type[CTSError], status: int, body: Any
) -> None:
    assert type(raised(status, body)) is kind


def test_dashscope_quota_code_is_a_rate_limit_unless_free() -> None:
    assert type(raised(429, error("insufficient_quota"), spec=QWEN)) is RateLimited
    free = error("insufficient_quota", "Free allocated quota exceeded.")
    assert type(raised(429, free, spec=QWEN)) is ProviderRefused


@pytest.mark.parametrize(
    "reason",
    ["content_filter", "content_filter: PROHIBITED_CONTENT", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"],
)
def test_an_answer_withheld_by_a_filter_is_no_answer(reason: str) -> None:
    choice = {"message": {"content": "Hel"}, "finish_reason": reason}
    reply = read(200, {"choices": [choice], "usage": GOOD["usage"]})
    assert reply.refused == "the answer was withheld by a content filter"
    assert reply.usage == Usage(7, 2), "it is charged all the same"
    assert read(200, {"choices": [{"index": 0, "finish_reason": reason}]}).refused


def test_a_model_s_own_refusal_is_no_answer_though_it_stops_as_usual() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I'm sorry, I cannot help with that."}
    reply = read(200, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert reply.refused == "the model refuses: I'm sorry, I cannot help with that."
    assert read(200, {"choices": [{"message": {**message, "content": "x", "refusal": None}}]}).refused == ""
    assert read(200, {"choices": [{"message": {"content": None, "refusal": "No."}}]}).refused


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_separated_from_the_text(field: str) -> None:
    message = {"role": "assistant", "content": "hello", field: "They greet me."}
    reply = read(200, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.text, reply.reasoning) == ("hello", "They greet me.")
    assert read(200, {"choices": [{"message": {**message, field: {"effort": "high"}}}]}).reasoning == ""


@pytest.mark.parametrize(
    ("spec", "usage", "expected"),
    [
        # OpenAI: 8 of the 10 tokens out were reasoning.
        (
            SPEC,
            {
                "prompt_tokens": 7,
                "completion_tokens": 10,
                "total_tokens": 17,
                "completion_tokens_details": {"reasoning_tokens": 8},
            },
            Usage(7, 10),
        ),
        # Gemini: 10 tokens of reasoning stand in the total alone.
        (SPEC, {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 19}, Usage(7, 12)),
        (SPEC, {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": None}, Usage(7, 2)),
        # OpenAI, Gemini and Qwen say in the details what came from the cache.
        (SPEC, cached_usage(prompt_tokens_details={"cached_tokens": 1536}), Usage(2000, 9, 1536)),
        (SPEC, cached_usage(prompt_tokens_details={"cached_tokens": 0, "audio_tokens": 0}), Usage(2000, 9)),
        (SPEC, cached_usage(prompt_tokens_details=None), Usage(2000, 9)),
        # OpenRouter, and DashScope's explicit cache, say what was written, too.
        (
            SPEC,
            cached_usage(prompt_tokens_details={"cached_tokens": 500, "cache_write_tokens": 1200}),
            Usage(2000, 9, 500, 1200),
        ),
        (
            SPEC,
            cached_usage(prompt_tokens_details={"cached_tokens": 0, "cache_creation_input_tokens": 1900}),
            Usage(2000, 9, 0, 1900),
        ),
        # DeepSeek
        (
            SPEC,
            cached_usage(prompt_cache_hit_tokens=1792, prompt_cache_miss_tokens=208),
            Usage(2000, 9, 1792),
        ),
        (SPEC, cached_usage(cached_tokens=1024), Usage(2000, 9, 1024)),  # Moonshot
        # What cannot be true is paid in full.
        (SPEC, cached_usage(prompt_cache_hit_tokens=2001), Usage(2000, 9)),
        (SPEC, cached_usage(prompt_cache_hit_tokens=-5), Usage(2000, 9)),
        (SPEC, cached_usage(prompt_tokens_details={"cached_tokens": "many"}), Usage(2000, 9)),
        (SPEC, {"prompt_tokens": "x"}, None),
        (SPEC, {"prompt_tokens": []}, None),
        (SPEC, {"prompt_tokens": -7, "completion_tokens": 2}, None),
        (SPEC, {"prompt_tokens": 7, "completion_tokens": 1e300}, None),
        (SPEC, {"prompt_tokens": 7, "completion_tokens": 10**9}, None),
        (
            CLAUDE,
            {**CLAUDE_GOOD["usage"], "cache_creation_input_tokens": 100, "cache_read_input_tokens": 2000},
            Usage(2112, 6, 2000, 100),
        ),
        # 12 of input are paid, whatever is said of the cache.
        (CLAUDE, {**CLAUDE_GOOD["usage"], "cache_read_input_tokens": -10}, Usage(12, 6)),
        (CLAUDE, {"input_tokens": 3}, None),
        (CLAUDE, {"output_tokens": 3}, None),
        *((spec, usage, None) for spec in (SPEC, CLAUDE) for usage in (None, "many", {}, [])),
    ],
)
def test_usage_counts_reasoning_and_cached_input_and_is_none_where_unreadable(
    spec: ModelSpec, usage: Any, expected: Usage | None
) -> None:
    good = GOOD if spec is SPEC else CLAUDE_GOOD
    assert read(200, {**good, "usage": usage}, spec=spec).usage == expected


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (error("x", "odd"), TransientError),
        ({"error": "odd"}, TransientError),
        ({"error": {"message": "odd"}}, TransientError),
        ({"error": {"code": 401, "message": "odd"}}, ProviderRefused),
        ({"error": {"code": 422, "message": "odd"}}, RejectedError),
        ({"error": {"code": 503, "message": "odd"}}, TransientError),
    ],
)
def test_error_object_under_200_counts_as_the_status_it_names(body: Any, kind: type[CTSError]) -> None:
    failed = raised(200, {**GOOD, **body})
    assert (type(failed), "odd" in str(failed)) == (kind, True)


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "33s"}


@pytest.mark.parametrize(
    ("status", "head", "body", "expected"),
    [
        (429, {"retry-after": "2"}, error("x"), 2.0),
        (503, {"retry-after": "2"}, error("x"), 2.0),
        (200, {"retry-after": "2"}, error("x"), 2.0),
        (429, {}, error("x"), None),
        (429, {}, exhausted(RETRY_INFO), 33.0),
        (429, {}, [exhausted(RETRY_INFO)], 33.0),
        (429, {"retry-after": "0"}, exhausted(RETRY_INFO), 0.0),
        (429, {}, exhausted({**RETRY_INFO, "retryDelay": "soon"}), None),
        (429, {"x-ratelimit-reset-requests": "12ms", "x-ratelimit-reset-tokens": "1m0s"}, error("x"), 60.0),
        (503, {"x-ratelimit-reset-requests": "6m0s"}, error("x"), None),
    ],
)
def test_how_long_to_wait(status: int, head: dict[str, str], body: Any, expected: float | None) -> None:
    failed = raised(status, body, head)
    assert isinstance(failed, TransientError)
    assert failed.retry_after_s == expected


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        (SPEC, {"temperature": 0.6, "top_p": 0.95, "max_tokens": 5}),
        (
            replace(SPEC, max_tokens_field="max_completion_tokens", params={"max_tokens": 9}),
            {"temperature": 0.6, "top_p": 0.95, "max_completion_tokens": 5},
        ),
        (replace(SPEC, drops=("temperature", "top_p")), {"max_tokens": 5}),
    ],
)
def test_parameters_are_sent_as_the_server_wants_them(spec: ModelSpec, sent: dict[str, Any]) -> None:
    request = ChatRequest(ASK, params={"temperature": 0.6, "top_p": 0.95, "max_tokens": 5})
    assert orjson.loads(openai.body(spec, request)) == {
        "model": "m-1",
        "messages": list(ASK),
        "stream": False,
        **sent,
    }


def test_a_constraint_is_a_schema_or_a_grammar() -> None:
    schema = {"type": "array"}
    form = orjson.loads(openai.body(SPEC, ChatRequest(ASK, json_schema=schema)))["response_format"]
    assert form["json_schema"]["schema"] == schema
    both = orjson.loads(openai.body(SPEC, ChatRequest(ASK, {}, schema, "root ::= x")))
    assert both.keys() == {"model", "messages", "stream", "temperature", "grammar"}


def test_key_is_in_the_headers_alone() -> None:
    assert openai.headers("s3cret") == {"Authorization": "Bearer s3cret"}
    assert openai.headers("") == {}
    assert anthropic.headers("s3cret") == {"anthropic-version": "2023-06-01", "x-api-key": "s3cret"}
    assert anthropic.headers("") == {"anthropic-version": "2023-06-01"}


# --- Anthropic --------------------------------------------------------------------------------------------


def said(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def claude_error(kind: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}


def test_request_to_claude_has_instructions_parameters_and_no_form() -> None:
    def sent(*messages: Message, spec: ModelSpec = CLAUDE, **params: Any) -> dict[str, Any]:
        request = ChatRequest(messages, params, json_schema={"type": "array"})
        return dict(orjson.loads(anthropic.body(spec, request)))

    hi = said("user", "hi")
    usual = {"model": "claude-x", "max_tokens": 4096, "stream": False, "messages": [hi]}
    assert sent(said("system", "Be brief."), hi) == {**usual, "system": "Be brief."}
    assert sent(hi, max_tokens=70) == {**usual, "max_tokens": 70}
    # Newer models take a temperature or top_p, not both.
    spec = replace(CLAUDE, params={"max_tokens": 900, "temperature": 0.0}, drops=("top_p",))
    assert sent(hi, spec=spec, top_p=0.95) == {**usual, "max_tokens": 900, "temperature": 0.0}


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


def test_text_blocks_are_one_text_and_thinking_is_separated() -> None:
    assert read(200, CLAUDE_GOOD, spec=CLAUDE) == Reply("Hello!", "claude-x-20250929", "stop", Usage(12, 6))
    blocks = [
        {"type": "thinking", "thinking": "A greeting.", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "Emw"},
        {"type": "text", "text": "Hel"},
        {"type": "text", "text": "lo!"},
    ]
    reply = read(200, {**CLAUDE_GOOD, "content": blocks}, spec=CLAUDE)
    assert (reply.text, reply.reasoning) == ("Hello!", "A greeting.")


def test_finish_reasons_of_claude_and_replies_broken_off() -> None:
    for reason in ("max_tokens", "model_context_window_exceeded"):
        assert read(200, {**CLAUDE_GOOD, "stop_reason": reason}, spec=CLAUDE).finish_reason == "length"
    for content in ([], None):
        reply = read(200, {**CLAUDE_GOOD, "content": content, "stop_reason": "refusal"}, spec=CLAUDE)
        assert (reply.refused, reply.usage) == ("the model refuses to answer", Usage(12, 6))
    # DeepSeek under load: HTTP 200, and the reason in the choice.
    choice = {"message": {"content": "Hel"}, "finish_reason": "insufficient_system_resource"}
    broken_off = raised(200, {"choices": [choice]})
    paused = raised(200, {**CLAUDE_GOOD, "stop_reason": "pause_turn"}, spec=CLAUDE)
    for error in (broken_off, paused):
        assert type(error) is TransientError
        assert str(error).endswith("the server broke its reply off")


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, claude_error("invalid_request_error", "max_tokens: Field required"), RejectedError),
        (400, claude_error("x", "Your credit balance is too low to access"), ProviderRefused),
        (400, claude_error("x", "Output blocked by content filtering policy"), ContentRefused),
        (401, claude_error("authentication_error", "invalid x-api-key"), ProviderRefused),
        (402, claude_error("billing_error"), ProviderRefused),
        (403, claude_error("permission_error"), ProviderRefused),
        (404, claude_error("not_found_error", "model: claude-x"), ProviderRefused),
        (413, claude_error("request_too_large"), PromptTooLong),
        (429, claude_error("rate_limit_error"), RateLimited),
        (500, claude_error("api_error"), TransientError),
        (504, claude_error("timeout_error"), TransientError),
        (529, claude_error("overloaded_error", "Overloaded"), TransientError),
        (200, claude_error("overloaded_error", "Overloaded"), TransientError),
        (200, {"type": "error"}, TransientError),
    ],
)
def test_each_documented_error_has_its_meaning(status: int, body: Any, expected: type[CTSError]) -> None:
    assert type(raised(status, body, spec=CLAUDE)) is expected


def test_headers_of_claude_name_waits_and_limits() -> None:
    reset = {"anthropic-ratelimit-output-tokens-reset": "1970-01-01T00:00:42Z"}
    for head, wait_s in (({"retry-after": "17"}, 17.0), (reset, 42.0)):
        limited = raised(429, claude_error("rate_limit_error"), head, spec=CLAUDE)
        assert isinstance(limited, RateLimited)
        assert limited.retry_after_s == wait_s
    head = {"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "49"}
    assert read(200, CLAUDE_GOOD, head, spec=CLAUDE).quotas == Quotas(Quota(50, 49))


# --- Tiers and caches


@pytest.mark.parametrize(
    ("spec", "body", "tier"),
    [
        (SPEC, {**GOOD, "service_tier": "flex"}, "flex"),
        (SPEC, {**GOOD, "service_tier": None}, ""),
        (SPEC, {**GOOD, "service_tier": ["flex"]}, ""),
        (SPEC, GOOD, ""),
        (CLAUDE, {**CLAUDE_GOOD, "usage": {**CLAUDE_GOOD["usage"], "service_tier": "batch"}}, "batch"),
        (CLAUDE, CLAUDE_GOOD, ""),
    ],
)
def test_a_reply_names_the_tier_that_served_it(spec: ModelSpec, body: dict[str, Any], tier: str) -> None:
    assert read(200, body, spec=spec).tier == tier


MARK = {"type": "ephemeral"}
LONG = "nuggets " * 600  # 4,800 bytes


def claude_turns(messages: Any, repeated_chars: int) -> Any:
    request = ChatRequest(messages, repeated_chars=repeated_chars)
    body = orjson.loads(load_api("anthropic").body(CLAUDE, request))
    assert body["model"] == "claude-x"
    return body["messages"]


def test_the_end_of_what_is_repeated_is_marked_for_the_cache() -> None:
    messages = ({"role": "system", "content": "Judge."}, {"role": "user", "content": f"{LONG}the answer"})
    (turn,) = claude_turns(messages, len(LONG))
    assert turn["content"] == [
        {"type": "text", "text": LONG, "cache_control": MARK},
        {"type": "text", "text": "the answer"},
    ]


def test_instructions_in_front_of_the_first_turn_do_not_move_the_mark() -> None:
    messages = ({"role": "system", "content": "Judge."}, {"role": "user", "content": f"{LONG}the answer"})
    request = ChatRequest(messages, repeated_chars=len(LONG))
    body = orjson.loads(load_api("anthropic").body(replace(CLAUDE, system="user"), request))
    assert [block["text"] for block in body["messages"][0]["content"]] == [f"Judge.\n\n{LONG}", "the answer"]


def test_a_conversation_is_marked_at_its_end() -> None:
    messages = (
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": "I search."},
        {"role": "user", "content": "a page"},
    )
    first, second, last = claude_turns(messages, len("a page"))
    assert (first["content"], second["content"]) == (LONG, "I search.")
    assert last["content"] == [{"type": "text", "text": "a page", "cache_control": MARK}]


@pytest.mark.parametrize(
    ("messages", "repeated_chars"),
    [
        # Nobody will repeat it.
        (({"role": "user", "content": LONG},), 0),
        # Less than 1,024 tokens are not cached, so a mark would only cost.
        (({"role": "user", "content": LONG[:4000]},), 4000),
        # A beginning of the assistant's becomes a request of ours at the end of the last turn.
        (({"role": "user", "content": LONG}, {"role": "assistant", "content": "{"}), 1),
    ],
)
def test_what_would_not_pay_is_not_marked(messages: Any, repeated_chars: int) -> None:
    assert "cache_control" not in str(claude_turns(messages, repeated_chars))
