"""What is sent to an OpenAI-style server, and what each of its answers means, provider by provider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from cts_async.engine.events import Usage
from cts_async.errors import (
    ContentRefused,
    CTSError,
    ProviderRefused,
    RateLimited,
    RejectedError,
    TransientError,
)
from cts_async.llm.apis import ChatRequest, Reply, openai
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import read_reply

SPEC = ModelSpec("mine", "openai", "http://host/v1", "m-1", "MY_KEY", "mine", 4, params={"temperature": 0.0})
QWEN = replace(SPEC, rate_limit_words=("insufficient_quota",))
ASK = ({"role": "user", "content": "hi"},)
GOOD: dict[str, Any] = {
    "model": "m-1",
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


def read(status: int, body: Any, head: dict[str, str] | None = None, spec: ModelSpec = SPEC) -> Reply:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return read_reply(openai, spec, status, head or {}, data, now=0.0)


def raised(status: int, body: Any, head: dict[str, str] | None = None, spec: ModelSpec = SPEC) -> Exception:
    with pytest.raises(CTSError) as caught:
        read(status, body, head, spec)
    return caught.value


def error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def test_a_completion_is_read() -> None:
    assert read(200, GOOD) == Reply("hello", "m-1", "stop", Usage(7, 2))


def test_no_content_is_an_empty_text() -> None:
    choice = {"message": {"role": "assistant", "content": None}, "finish_reason": "length"}
    assert read(200, {"choices": [choice]}) == Reply("", "", "length", None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Be right back</html>",
        orjson.dumps(GOOD)[:-20],
        b"[]",
        b"null",
        b"3",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}',
        b"\xff\xfe",
    ],
)
def test_a_broken_body_under_200_is_transient(body: bytes) -> None:
    broken = raised(200, body)
    assert type(broken) is TransientError
    assert "not a chat completion" in str(broken)


TOO_LARGE = "Request too large for gpt-5.2 on tokens per min (TPM): Limit 30000, Requested 42000."


@pytest.mark.parametrize(
    ("statuses", "body", "kind", "problem"),
    [
        ((408, 409, 425, 500, 502, 503, 504, 520, 529), b"", TransientError, "(empty body)"),
        ((400, 405, 413, 422), b"", RejectedError, "(empty body)"),
        ((401, 402, 403, 404), error("who_are_you"), ProviderRefused, "no"),
        ((301, 302, 307, 308), b"", ProviderRefused, "its address has moved: correct base_url"),
        ((429,), error("rate_limit_exceeded", TOO_LARGE), RejectedError, TOO_LARGE),
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
    ("usage", "expected"),
    [
        # OpenAI: 8 of the 10 tokens out were reasoning.
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 10,
                "total_tokens": 17,
                "completion_tokens_details": {"reasoning_tokens": 8},
            },
            Usage(7, 10),
        ),
        # Gemini: 10 tokens of reasoning stand in the total alone.
        ({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 19}, Usage(7, 12)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": None}, Usage(7, 2)),
        (None, None),
        ("many", None),
        ({}, None),
        ([], None),
        ({"prompt_tokens": "x"}, None),
        ({"prompt_tokens": []}, None),
        ({"prompt_tokens": -7, "completion_tokens": 2}, None),
        ({"prompt_tokens": 7, "completion_tokens": 1e300}, None),
        ({"prompt_tokens": 7, "completion_tokens": 10**9}, None),
    ],
)
def test_usage_counts_reasoning_and_is_none_where_unreadable(usage: Any, expected: Usage | None) -> None:
    assert read(200, {**GOOD, "usage": usage}).usage == expected


def test_a_reply_that_the_server_broke_off_is_transient() -> None:
    """DeepSeek under load: HTTP 200, and the reason in the choice."""
    choice = {"message": {"content": "Hel"}, "finish_reason": "insufficient_system_resource"}
    assert type(raised(200, {"choices": [choice]})) is TransientError


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
    assert orjson.loads(openai.body(spec, request)) == {"model": "m-1", "messages": list(ASK), **sent}


def test_a_constraint_is_a_schema_or_a_grammar() -> None:
    schema = {"type": "array"}
    form = orjson.loads(openai.body(SPEC, ChatRequest(ASK, json_schema=schema)))["response_format"]
    assert form["json_schema"]["schema"] == schema
    both = orjson.loads(openai.body(SPEC, ChatRequest(ASK, {}, schema, "root ::= x")))
    assert both.keys() == {"model", "messages", "temperature", "grammar"}


def test_the_key_is_in_the_headers_alone() -> None:
    assert openai.headers("s3cret")["Authorization"] == "Bearer s3cret"
    assert "Authorization" not in openai.headers("")
