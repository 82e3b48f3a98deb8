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
from cts_async.llm.apis import openai
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import ChatRequest, Constraint, Reply

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
    return openai.reply(spec, status, head or {}, data, now=0.0)


def raised(status: int, body: Any, head: dict[str, str] | None = None, spec: ModelSpec = SPEC) -> Exception:
    with pytest.raises(CTSError) as caught:
        read(status, body, head, spec)
    return caught.value


def error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def test_a_completion_is_read() -> None:
    assert read(200, GOOD) == Reply("hello", "m-1", "stop", Usage(7, 2))


@pytest.mark.parametrize(
    "usage",
    [
        None,
        "many",
        {},
        {"prompt_tokens": None},
        {"prompt_tokens": "x"},
        [],
        {"prompt_tokens": []},
        {"prompt_tokens": -7, "completion_tokens": 2},
        {"prompt_tokens": 7, "completion_tokens": 1e300},
        {"prompt_tokens": 7, "completion_tokens": 10**9},
    ],
)
def test_unreadable_usage_is_none(usage: Any) -> None:
    assert read(200, {**GOOD, "usage": usage}).usage is None


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


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 520, 529])
def test_these_statuses_are_worth_a_retry(status: int) -> None:
    failed = raised(status, error("busy"))
    assert type(failed) is TransientError
    assert failed.status == status


@pytest.mark.parametrize("status", [400, 405, 413, 422])
def test_these_statuses_refuse_the_request_for_good(status: int) -> None:
    assert type(raised(status, b"")) is RejectedError


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_these_statuses_stop_the_run(status: int) -> None:
    stopped = raised(status, error("who_are_you"))
    assert type(stopped) is ProviderRefused
    assert stopped.exit_code == 75


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_address_that_has_moved_stops_the_run_and_fails_no_instance(status: int) -> None:
    stopped = raised(status, b"")
    assert type(stopped) is ProviderRefused
    assert "its address has moved: correct base_url" in str(stopped)


def test_a_request_larger_than_a_minute_s_tokens_is_refused_for_good() -> None:
    said = "Request too large for gpt-5.2 on tokens per min (TPM): Limit 30000, Requested 42000."
    refused = raised(429, error("rate_limit_exceeded", said))
    assert type(refused) is RejectedError
    assert said in str(refused)


def test_what_a_provider_says_on_several_lines_is_told_on_one() -> None:
    assert str(raised(400, error("bad", "2 errors:\n  top_k\n\n  seed"))).endswith(
        "400: 2 errors: top_k seed"
    )


PER_DAY, PER_MINUTE = "RequestsPerDayPerProject", "RequestsPerMinutePerProject"


def quota(*ids: str) -> dict[str, Any]:
    violations = [{"quotaId": id} for id in ids]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


def exhausted(*details: dict[str, Any]) -> dict[str, Any]:
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slower", "details": list(details)}
    return {"error": error}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, error("insufficient_quota")),
        (429, error("credit_balance_exhausted")),
        (429, error("project_spend_limit_exceeded")),
        (429, error("organization_usage_limit_exceeded")),
        (400, error("invalid_request_error", "Your credit balance is too low to access the API")),
        (402, error("billing_error")),
        (429, exhausted(quota(PER_DAY, PER_DAY))),
        (429, [exhausted(quota(PER_DAY))]),
        (403, error("account_overdue")),
        (403, error("model_offline")),
        (401, error("invalid_iam_token")),
        (400, error("Arrearage")),
        (429, error("exceeded_current_quota_error")),
        (429, error("rate_limit_reached_error", "Your account reached max TPD of 1500000")),
        (200, error("insufficient_quota")),
    ],
)
def test_out_of_quota_or_credit_stops_the_run(status: int, body: Any) -> None:
    assert type(raised(status, body)) is ProviderRefused


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, b"slow down"),
        (429, b""),
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
    ],
)
def test_slower_please_is_a_rate_limit(status: int, body: Any) -> None:
    assert type(raised(status, body)) is RateLimited


def test_dashscope_says_quota_for_a_rate_limit_unless_it_was_free() -> None:
    assert type(raised(429, error("insufficient_quota"), spec=QWEN)) is RateLimited
    free = error("insufficient_quota", "Free allocated quota exceeded.")
    assert type(raised(429, free, spec=QWEN)) is ProviderRefused


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("content_filter", 400),
        ("content_policy_violation", 400),
        ("data_inspection_failed", 400),
        ("unsafe_request", 403),
        ("unsafe_request", 200),
    ],
)
def test_refused_content_fails_this_instance_only(code: str, status: int) -> None:
    refused = raised(status, error(code))
    assert type(refused) is ContentRefused
    assert refused.kind == "refused"


@pytest.mark.parametrize(
    "message",
    [
        "Content Exists Risk",  # DeepSeek
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",  # OpenAI
        "Output blocked by content filtering policy",  # Anthropic
    ],
)
def test_some_say_only_in_words_that_they_refuse_content(message: str) -> None:
    assert type(raised(400, error("invalid_request_error", message))) is ContentRefused


@pytest.mark.parametrize(
    "reason",
    ["content_filter", "content_filter: PROHIBITED_CONTENT", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"],
)
def test_an_answer_withheld_by_a_filter_is_no_answer(reason: str) -> None:
    choice = {"message": {"content": "Hel"}, "finish_reason": reason}
    reply = read(200, {"choices": [choice], "usage": GOOD["usage"]})
    assert reply.refused == "the answer was withheld by a content filter"
    assert reply.usage == Usage(7, 2), "it is charged all the same"


def test_a_filter_may_leave_no_message_at_all() -> None:
    assert read(200, {"choices": [{"index": 0, "finish_reason": "SAFETY"}]}).refused


def test_a_model_s_own_refusal_is_no_answer_though_it_stops_as_usual() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I'm sorry, I cannot help with that."}
    reply = read(200, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert reply.refused == "the model refuses: I'm sorry, I cannot help with that."
    assert read(200, {"choices": [{"message": {**message, "content": "x", "refusal": None}}]}).refused == ""
    assert read(200, {"choices": [{"message": {"content": None, "refusal": "No."}}]}).refused


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_text(field: str) -> None:
    message = {"role": "assistant", "content": "hello", field: "They greet me."}
    reply = read(200, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.text, reply.reasoning) == ("hello", "They greet me.")


def test_reasoning_of_an_unknown_form_is_left_alone() -> None:
    message = {"content": "hello", "reasoning": {"effort": "high"}}
    assert read(200, {"choices": [{"message": message}]}).reasoning == ""


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
    ],
)
def test_tokens_of_reasoning_are_output(usage: dict[str, Any], expected: Usage) -> None:
    assert read(200, {**GOOD, "usage": usage}).usage == expected


def test_a_reply_that_the_server_broke_off_is_transient() -> None:
    """DeepSeek under load: HTTP 200, and the reason in the choice."""
    choice = {"message": {"content": "Hel"}, "finish_reason": "insufficient_system_resource"}
    assert type(raised(200, {"choices": [choice]})) is TransientError


@pytest.mark.parametrize("body", [error("x", "odd"), {"error": "odd"}, {"error": {"message": "odd"}}])
def test_an_error_object_under_200_is_an_error(body: Any) -> None:
    failed = raised(200, {**GOOD, **body})
    assert type(failed) is TransientError
    assert "odd" in str(failed)


def test_an_error_under_200_counts_as_the_status_it_names() -> None:
    assert type(raised(200, {"error": {"code": 401, "message": "who?"}})) is ProviderRefused
    assert type(raised(200, {"error": {"code": 422, "message": "what?"}})) is RejectedError
    assert type(raised(200, {"error": {"code": 503, "message": "later"}})) is TransientError


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
    "details", [None, 3, [3], [{"@type": "QuotaFailure", "violations": 3}], [{"@type": "RetryInfo"}]]
)
def test_odd_details_break_nothing(details: Any) -> None:
    assert type(raised(429, error("x", details=details))) is RateLimited


def test_an_error_names_model_status_and_reason() -> None:
    assert str(raised(500, error("x", "the disk is full"))) == "mine: HTTP 500: the disk is full"
    assert str(raised(500, b"")) == "mine: HTTP 500: (empty body)"


def test_a_long_error_page_is_cut() -> None:
    assert len(str(raised(502, b"<p>" + b"sorry " * 10_000))) < 300


def test_a_body_has_model_messages_and_parameters() -> None:
    sent = orjson.loads(openai.body(SPEC, ChatRequest(ASK, params={"max_tokens": 5, "temperature": 1.0})))
    assert sent == {"model": "m-1", "messages": list(ASK), "temperature": 1.0, "max_tokens": 5}


def test_max_tokens_is_spelled_as_the_server_wants() -> None:
    spec = replace(SPEC, max_tokens_field="max_completion_tokens", params={"max_tokens": 9})
    sent = orjson.loads(openai.body(spec, ChatRequest(ASK, params={"max_tokens": 5})))
    assert sent == {"model": "m-1", "messages": list(ASK), "max_completion_tokens": 5}


def test_what_a_model_refuses_is_never_sent_whoever_asks_for_it() -> None:
    spec = replace(SPEC, drops=("temperature", "top_p"), max_tokens_field="max_completion_tokens")
    asked = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 5}
    sent = orjson.loads(openai.body(spec, ChatRequest(ASK, params=asked)))
    assert sent == {"model": "m-1", "messages": list(ASK), "max_completion_tokens": 5}


def test_a_constraint_is_a_schema_or_a_grammar() -> None:
    schema = {"type": "array"}
    form = orjson.loads(openai.body(SPEC, ChatRequest(ASK, Constraint(schema))))["response_format"]
    assert form["json_schema"]["schema"] == schema
    assert orjson.loads(openai.body(SPEC, ChatRequest(ASK, Constraint(schema, "root ::= x")))).keys() == {
        "model",
        "messages",
        "temperature",
        "grammar",
    }


def test_the_key_is_in_the_headers_alone() -> None:
    assert openai.headers("s3cret")["Authorization"] == "Bearer s3cret"
    assert "Authorization" not in openai.headers("")
