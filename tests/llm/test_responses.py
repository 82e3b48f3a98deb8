"""Limits, waiting times and finish reasons in providers' responses."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.llm.responses import (
    ABORTED,
    LENGTH,
    REFUSED,
    STOP,
    duration_s,
    finish_reason,
    quotas_in,
    reset_s,
    retry_after_s,
)

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        (
            {
                "x-ratelimit-limit-requests": "500",
                "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-limit-tokens": "30000",
                "x-ratelimit-remaining-tokens": "29000",
                "x-ratelimit-reset-tokens": "1m2s",
            },
            Quotas(Quota(500, 499, 0.12), Quota(30000, 29000, 62.0)),
        ),
        ({"X-Ratelimit-Limit-Tokens": "1000"}, Quotas(None, Quota(1000))),
        (
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:30Z",
            },
            Quotas(Quota(50, 0, 10.0)),
        ),
        (
            {  # our clock is ten seconds ahead of theirs
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "10",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:10Z",
            },
            Quotas(Quota(50, 10, None)),
        ),
        ({"x-ratelimit-limit-requests": "-1"}, None),
        ({"x-ratelimit-limit-requests": "0.5", "x-ratelimit-limit-tokens": "1e-3"}, None),
        ({"x-ratelimit-limit-requests": "inf", "x-ratelimit-limit-tokens": "nan"}, None),
        ({"x-ratelimit-limit-requests": "0", "x-ratelimit-limit-tokens": "many"}, None),
        (
            {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "-1"},
            Quotas(Quota(10)),
        ),
    ],
)
def test_limits_are_read_from_headers(headers: Mapping[str, str], expected: Quotas | None) -> None:
    assert quotas_in(CIMultiDict(headers), NOW) == expected


def anthropic(**said: str) -> CIMultiDict[str]:
    """`input_tokens_limit="9"` as `anthropic-ratelimit-input-tokens-limit: 9`."""
    return CIMultiDict(
        {f"Anthropic-RateLimit-{name.replace('_', '-')}": value for name, value in said.items()}
    )


def test_three_token_limits_of_anthropic_become_one() -> None:
    """24,000 of 30,000 in are left, 0.8; of those out 2,000 of 8,000, 0.25: a quarter of the lower limit."""
    headers = anthropic(
        tokens_limit="38000",
        tokens_remaining="26000",
        tokens_reset="2023-11-14T22:13:50Z",
        input_tokens_limit="30000",
        input_tokens_remaining="24000",
        input_tokens_reset="2023-11-14T22:13:32Z",
        output_tokens_limit="8000",
        output_tokens_remaining="2000",
        output_tokens_reset="2023-11-14T22:14:05Z",
    )
    assert quotas_in(headers, NOW) == Quotas(None, Quota(30000, 7500.0, 45.0))


def test_a_workspace_s_stricter_limit_of_all_tokens_holds() -> None:
    headers = anthropic(tokens_limit="10000", tokens_remaining="5000", input_tokens_limit="30000")
    assert quotas_in(headers, NOW) == Quotas(None, Quota(10000, 5000.0))


def test_output_token_limit_alone_gives_no_quota() -> None:
    assert quotas_in(anthropic(output_tokens_limit="8000", output_tokens_remaining="0"), NOW) is None


def test_limits_without_remaining_are_limits() -> None:
    headers = anthropic(input_tokens_limit="30000", requests_limit="50")
    assert quotas_in(headers, NOW) == Quotas(Quota(50), Quota(30000))


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_resets_are_measured_against_the_answer_s_own_date(skew_s: float) -> None:
    headers = CIMultiDict(
        {
            "Date": "Tue, 14 Nov 2023 22:13:20 GMT",
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:30Z",
        }
    )
    assert quotas_in(headers, NOW + skew_s) == Quotas(Quota(50, 0, 10.0))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 23:13:50 +0100"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0.0),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Tue, 99 Nov 2023 22:13:50 GMT"}, None),
        ({"x-ratelimit-reset-requests": "5s"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


@pytest.mark.parametrize("skew_s", [-3600.0, 0.0, 86_400.0])
def test_dates_are_measured_against_the_answer_s_own_date(skew_s: float) -> None:
    now = NOW + skew_s  # this machine's clock
    date = {"date": "Tue, 14 Nov 2023 22:13:20 GMT"}
    assert retry_after_s({**date, "retry-after": "Tue, 14 Nov 2023 22:13:22 GMT"}, now) == 2.0
    assert retry_after_s({**date, "retry-after": "7"}, now) == 7.0
    assert reset_s({**date, "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:25Z"}, now) == 5.0
    assert reset_s({**date, "x-ratelimit-reset": "1700000004"}, now) == 4.0
    assert reset_s({**date, "x-ratelimit-reset": "1700000004500"}, now) == 4.5
    assert reset_s({**date, "x-ratelimit-reset": "12"}, now) == 12.0


def test_a_date_that_is_none_leaves_this_machine_s_clock() -> None:
    headers = {"date": "yesterday", "retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}
    assert retry_after_s(headers, NOW) == 30.0


def test_a_date_without_zone_is_in_utc_wherever_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert retry_after_s({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, NOW) == 30.0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"x-ratelimit-limit-requests": "60"}, None),
        ({"x-ratelimit-reset-requests": "12ms", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"X-RateLimit-Reset": "20"}, 20.0),
        ({"X-RateLimit-Reset": "1700000020"}, 20.0),
        ({"X-RateLimit-Reset": "1700000020500"}, 20.5),
        ({"anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:40Z"}, 20.0),
        ({"x-ratelimit-reset-requests": "-1"}, None),
        ({"x-ratelimit-reset-requests": "0"}, None),
        ({"x-ratelimit-reset-requests": "0s", "x-ratelimit-reset-tokens": "2s"}, 2.0),
        ({"x-ratelimit-reset-requests": "whenever"}, None),
        ({"anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:00Z"}, None),
    ],
)
def test_the_last_reset_counts(headers: dict[str, str], expected: float | None) -> None:
    assert reset_s(headers, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("33s", 33.0), ("12ms", 0.012), ("6m0s", 360.0), ("1h2m3.5s", 3723.5), ("0s", 0.0)]
    + [(text, None) for text in ("", "s", "5", "5 s", "5s!", "-5s", "5d")],
)
def test_durations(text: str, expected: float | None) -> None:
    assert duration_s(text) == expected


@given(st.text(max_size=40))
def test_garbage_never_raises_and_never_gives_a_negative_wait(text: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset"):
        for wait in (retry_after_s({name: text}, NOW), reset_s({name: text}, NOW)):
            assert wait is None or wait >= 0


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("stop", STOP),
        ("STOP", STOP),  # Gemini
        ("end_turn", STOP),  # Anthropic
        ("stop_sequence", STOP),
        ("eos_token", STOP),  # TGI
        (None, STOP),
        ("", STOP),
        ("length", LENGTH),
        ("max_tokens", LENGTH),  # Anthropic
        ("MAX_TOKENS", LENGTH),  # Gemini
        ("model_length", LENGTH),  # Mistral
        ("model_context_window_exceeded", LENGTH),
        ("content_filter", REFUSED),
        ("refusal", REFUSED),
        ("SAFETY", REFUSED),
        ("BLOCKLIST", REFUSED),
        ("content_filter: SPII", REFUSED),
        ("sensitive", REFUSED),  # Zhipu
        ("abort", ABORTED),  # vLLM, SGLang
        ("insufficient_system_resource", ABORTED),  # DeepSeek
        ("pause_turn", ABORTED),  # Anthropic
        ("tool_calls", "tool_calls"),
        (3, "3"),
    ],
)
def test_a_reason_has_one_meaning(reason: object, meaning: str) -> None:
    assert finish_reason(reason) == meaning
