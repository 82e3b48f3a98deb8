"""What errors of providers, gateways and proxies mean, in the words of each."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import (
    ContentRefused,
    CTSError,
    PromptTooLong,
    ProviderRefused,
    RateLimited,
    RejectedError,
    RequestForbidden,
    TransientError,
)
from cts_async.llm.apis import load_api
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.refusals import error_from_response, is_error_resource, setting_hint, wait_in_words
from cts_async.llm.responses import read_reply

SPEC = ModelSpec("mine", "openai", "http://host/v1", "m-1", "MY_KEY", "mine", 4)
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def body(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def raised(status: int, content: Any, head: dict[str, str] | None = None) -> CTSError:
    data = content if isinstance(content, bytes) else orjson.dumps(content)
    if status == 200:
        with pytest.raises(CTSError) as caught:
            read_reply(load_api("openai"), SPEC, status, head or {}, data, NOW)
        return caught.value
    return error_from_response(SPEC, status, head or {}, data, NOW)


@pytest.mark.parametrize(
    ("resource", "is_one"),
    [
        (body("not opened", code="x"), True),
        ({"type": "error", "error": {"type": "api_error", "message": "busy"}}, True),
        ({"error_code": 336501, "error_msg": "busy", "id": "as-1"}, True),
        # A batch, and one that failed and says why.
        ({"id": "batch_1", "status": "failed", "errors": {"data": [{"code": "x"}]}}, False),
        ({"id": "batch_1", "status": "FAILED", "error": "no such model"}, False),
        ({"job": {"id": "batch_1", "status": "VALIDATING"}, "error": "a warning"}, False),
        ({"id": "msgbatch_1", "type": "message_batch", "processing_status": "ended", "error": "x"}, False),
        ({"object": "list", "data": [], "error": None}, False),
        ([1], False),
    ],
)
def test_error_in_the_place_of_a_batch_is_told_from_a_batch_with_errors(resource: Any, is_one: bool) -> None:
    assert is_error_resource(orjson.dumps(resource)) is is_one


# --- Out of credit ---

UNPAID: list[tuple[int, Any]] = [
    (429, body("Insufficient balance or no resource package. Please recharge.", code="1113")),  # Zhipu
    (429, body("余额不足或无可用资源包,请充值。")),
    (400, body("您的账户已欠费，请充值后重试")),
    (429, body("当前账户额度已用尽")),
    # MiniMax
    (200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}, "choices": None}),
    (200, body("Insufficient credits", code=402)),  # OpenRouter
    # SiliconFlow
    (403, {"code": 30001, "message": "Sorry, your account balance is insufficient", "data": None}),
    (403, body("The request failed because your account has an overdue balance", code="AccountOverdueError")),
    (
        412,
        body("Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay"),
    ),
    (429, {"code": "resource_exhausted", "error": "Your team has used all available credits."}),  # xAI
    (429, body("Your account is not active, please check your billing details", code="billing_not_active")),
    (400, body("You have reached your specified API usage limits. You will regain access on 2026-02-01.")),
    (402, b""),
    (403, body("用户额度不足", code="insufficient_user_quota")),  # One API
    (429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}),  # Cohere
]


@pytest.mark.parametrize(("status", "content"), UNPAID)
def test_unpaid_bills_stop_the_provider_in_whatever_words(status: int, content: Any) -> None:
    error = raised(status, content)
    assert type(error) is ProviderRefused
    assert "(out of quota or credit: top up, then run the same command again)" in str(error)


FREE_DAY = (
    "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"
)
RESET_MS = {"X-RateLimit-Limit": "50", "X-RateLimit-Reset": str(int((NOW + 40_000) * 1000))}


@pytest.mark.parametrize(
    ("content", "head", "wait_s"),
    [
        # OpenRouter repeats the provider's headers in the body.
        (body(FREE_DAY, code=429, metadata={"headers": RESET_MS}), {}, 40_000.0),
        (body(FREE_DAY), {"retry-after": "7200"}, 7200.0),
        (body("slower", metadata={"headers": {"Retry-After": "9"}}), {}, 9.0),
        (body("on requests per day (RPD): Limit 200. Please try again in 7h12m0s."), {}, 25_920.0),  # Groq
        (
            body("Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 71923 seconds"),
            {},
            71_923.0,
        ),
        (body("已达到使用上限。您的限额将在 2026-01-01 03:00:00 重置", code="1308"), {}, 10_800.0),
        # The header is made for it, and goes before words; words go before the resets of other limits.
        (body("Please retry after 60 seconds"), {"retry-after": "5"}, 5.0),
        (body("Please retry after 60 seconds"), {"x-ratelimit-reset-tokens": "1s"}, 60.0),
        (body("Rate limit reached"), {"x-ratelimit-reset-requests": "1d2h"}, 93_600.0),
        (body("slower"), {}, None),
    ],
)
def test_a_quota_with_its_reset_is_a_rate_limit_with_that_wait(
    content: Any, head: dict[str, str], wait_s: float | None
) -> None:
    error = raised(429, content, head)
    assert type(error) is RateLimited
    assert error.retry_after_s == wait_s


@pytest.mark.parametrize(
    "message", [FREE_DAY, "max TPD of 1500000", "今日调用次数已达上限", "Daily token quota exceeded"]
)
def test_a_day_s_quota_without_a_reset_stops_the_provider(message: str) -> None:
    assert type(raised(429, body(message))) is ProviderRefused


@pytest.mark.parametrize(
    ("message", "wait_s"),
    [
        ("Please try again in 7h12m0s.", 25_920.0),
        ("Rate limit is exceeded. Try again in 86400 seconds.", 86_400.0),
        ("Please retry after 26 seconds. To increase your limit, wait 5 seconds", 26.0),
        ("Retry-After: 3600", 3600.0),
        ("please try again in 1 day", 86_400.0),
        ("retry in 24h", 86_400.0),
        ("try again in about 1 day, 2 hours and 3 minutes", 93_780.0),
        ("Please retry in 33.5s.", 33.5),
        ("try again in 120ms", 0.12),
        ("请在2小时后重试", 7200.0),
        ("请30秒后再试", 30.0),
        ("You will regain access on 2026-01-02 at 00:00 UTC.", 86_400.0),
        ("resets at 2026-01-01T03:00:00+01:00", 7200.0),
        ("it was reset until 2025-12-01 10:00", None),
        ("Please try again later.", None),
        ("Try again in 5 models", None),
        ("请稍后重试", None),
        ("", None),
    ],
)
def test_waits_are_read_from_words(message: str, wait_s: float | None) -> None:
    assert wait_in_words(message, NOW) == wait_s


# --- One request's content, or the account ---

BLOCKED = (
    b"<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head>"
    b"<body><h1>Sorry, you have been blocked</h1><p>Your account</p></body></html>"
)


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        # xAI
        (403, {"code": "permission-denied", "error": "Content violates usage guidelines."}, ContentRefused),
        (403, body("p/m requires moderation on P. Your input was flagged for violence"), ContentRefused),
        (400, body("system detected unsafe content", code="1301"), ContentRefused),  # Zhipu
        (400, body("The response was filtered due to Azure's content management policy"), ContentRefused),
        (200, {"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, ContentRefused),
        (400, body("输入内容包含敏感信息"), ContentRefused),
        (403, body("您的账号因违规已被封禁"), ProviderRefused),
        # It may be the content or the account: the lane decides.
        (403, BLOCKED, RequestForbidden),
        (403, b"", RequestForbidden),
        (403, body("Request not allowed"), RequestForbidden),
        (406, b"<html><head><title>Not Acceptable!</title></head></html>", RequestForbidden),  # ModSecurity
        # The key or the account.
        (403, body("Your API key is not allowed to use this model"), ProviderRefused),
        (403, body("The caller does not have permission", status="PERMISSION_DENIED"), ProviderRefused),
        (403, body("Country, region, or territory not supported"), ProviderRefused),
        (403, body("无权访问该模型"), ProviderRefused),
        (400, body("API key not valid. Please pass a valid API key."), ProviderRefused),  # Gemini
        (403, body("You have exceeded a secondary rate limit"), RateLimited),  # GitHub
        (511, b"", ProviderRefused),
        (561, b"", ProviderRefused),
    ],
)
def test_what_a_refusal_is_about(status: int, content: Any, kind: type[CTSError]) -> None:
    assert type(raised(status, content)) is kind


def test_a_web_page_is_named_by_its_title() -> None:
    assert str(raised(403, BLOCKED)) == "mine: HTTP 403: a web page, 'Attention Required! | Cloudflare'"


# --- Too long ---

TOO_LONG: list[tuple[int, Any]] = [
    # OpenAI
    (400, body("This model's maximum context length is 8192 tokens.", code="context_length_exceeded")),
    (400, [body("The input token count (1054016) exceeds the maximum number of tokens allowed (1048576).")]),
    (400, body("Please reduce the length of the messages or completion.")),  # Groq, Cerebras
    # Groq
    (413, body("Request too large for model `m` on tokens per minute (TPM)", code="rate_limit_exceeded")),
    # xAI
    (400, {"error": "This model's maximum prompt length is 131072 but the request contains 140000 tokens."}),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."}),  # TGI
    (422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000"}),
    (
        413,
        body("Request body too large for gpt-4o model. Max size: 8000 tokens.", code="tokens_limit_reached"),
    ),
    (400, body("Prompt 超长", code="1261")),  # Zhipu
    (400, body("The decoder prompt (length 9000) is longer than the maximum model length of 8192.")),  # vLLM
    (400, body("The input (9000 tokens) is longer than the model's context length (8192 tokens).")),  # SGLang
    # llama.cpp
    (400, body("the request exceeds the available context size", type="exceed_context_size_error")),
    (500, body("context shift is disabled")),
    (400, body("Reached context length of 4096 tokens with this model")),  # LM Studio
    (400, {"error": "the input length exceeds the context length"}),  # Ollama
    (400, body("Range of input length should be [1, 30720]")),  # DashScope
    (200, {"error_code": 336103, "error_msg": "Prompt tokens too long"}),  # Qianfan
    (400, body("prompt is too long: 208310 tokens > 200000 maximum")),  # Anthropic
    (400, body("input length and `max_tokens` exceed context limit: 199706 + 21333 > 200000")),
    (
        400,
        {"object": "error", "message": "Prompt contains 40000 tokens, too large for maximum context length"},
    ),
    (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}),  # Cohere
    (400, body("Your request exceeded model token limit: 8192")),  # Moonshot
    (400, body("输入内容的长度超出了模型的上限")),
    (400, body("Provider returned error", metadata={"raw": '{"message": "maximum context length is 9"}'})),
    (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),  # nginx
]


@pytest.mark.parametrize(("status", "content"), TOO_LONG)
def test_too_long_is_recognised_in_whatever_words(status: int, content: Any) -> None:
    assert type(raised(status, content)) is PromptTooLong


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (400, body("temperature must be at most 1")),
        (429, body("Quota exceeded for metric: input_token_count, limit: 250000")),
        (503, body("the context length is being migrated")),
    ],
)
def test_other_errors_are_not_taken_for_it(status: int, content: Any) -> None:
    assert not isinstance(raised(status, content), PromptTooLong)


# --- Statuses of gateways ---


@pytest.mark.parametrize(
    "status",
    [
        *(408, 409, 421, 423, 424, 425, 444, 449, 460, 499, 500, 502, 503, 504),
        *range(520, 528),
        529,
        530,
        598,
        599,
    ],
)
def test_statuses_that_gateways_send_in_passing_are_transient(status: int) -> None:
    assert type(raised(status, b"<html></html>")) is TransientError


@pytest.mark.parametrize("status", [400, 405, 411, 414, 415, 422, 431, 451, 463, 494])
def test_other_statuses_are_not(status: int) -> None:
    assert type(raised(status, b"")) is RejectedError


# --- Settings ---

SENT = {"temperature": 0.0, "top_p": 0.9, "top_k": -1, "max_tokens": 800, "thinking": {}}


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (
            body("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
            'set max_tokens_field = "max_completion_tokens" in [models.mine] of cts.toml',
        ),
        (
            body("Unrecognized request argument supplied: max_completion_tokens"),
            'set max_tokens_field = "max_tokens" in [models.mine] of cts.toml',
        ),
        (
            body("`temperature` may only be set to 1 when thinking is enabled."),
            'set drops = ["temperature"] in [models.mine] of cts.toml',
        ),
        (
            body("`temperature` and `top_p` cannot both be specified for this model."),
            'set drops = ["top_p"] in [models.mine] of cts.toml',
        ),
        (
            body("temperature must be in (0.0, 1.0], got 0.0"),
            'set another temperature in params of [models.mine] of cts.toml, or drops = ["temperature"]',
        ),
        (
            {"object": "error", "message": "System role not supported", "code": 400},
            'set system = "user" in [models.mine] of cts.toml',
        ),
        (
            body("Developer instruction is not enabled for m"),
            'set system = "user" in [models.mine] of cts.toml',
        ),
        (
            {"detail": [{"loc": ["body", "thinking"], "msg": "Extra inputs are not permitted"}]},
            'set drops = ["thinking"] in [models.mine] of cts.toml',
        ),
        (body("the messages are empty"), ""),
        (
            body("top_p must be in (0, 1]"),
            'set another top_p in params of [models.mine] of cts.toml, or drops = ["top_p"]',
        ),
    ],
)
def test_a_refused_form_names_the_setting_to_change(content: Any, hint: str) -> None:
    data = orjson.dumps(content)
    assert setting_hint(SPEC, 400, data, SENT) == hint
    assert setting_hint(SPEC, 500, data, SENT) == ""


# --- Whatever comes ---

json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 999) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "detail", "details", "base_resp", "metadata", "headers", "raw"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([200, 400, 403, 413, 422, 429, 500]), json)
def test_any_body_is_an_error_of_ours(status: int, content: Any) -> None:
    error = error_from_response(SPEC, status, {}, orjson.dumps(content), NOW)
    assert str(error).startswith(f"mine: HTTP {status}: ")
    assert "\n" not in str(error)
    setting_hint(SPEC, status, orjson.dumps(content), SENT)


def test_a_deep_or_endless_body_is_an_error_of_ours() -> None:
    for data in (
        b'{"error":' + b"[" * 2000,
        b'{"error":{"message":' + b"[" * 900 + b"]" * 900 + b"}}",
        b"(" * 50_000,
    ):
        assert len(str(raised(400, data))) < 400
