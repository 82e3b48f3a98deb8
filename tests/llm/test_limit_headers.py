"""Limits and waiting times in the headers of providers' responses."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.llm.limit_headers import (
    duration_s,
    quotas_in,
    reset_s,
    retry_after_s,
    spoken_duration_s,
)

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


DATE = {"date": "Tue, 14 Nov 2023 22:13:20 GMT"}


def limits(form: str, **values: str) -> dict[str, str]:
    """Headers of one limit, `form` with the names of its parts."""
    return {form.format(name): value for name, value in values.items()}


REQUESTS, TOKENS = "x-ratelimit-{}-requests", "X-Ratelimit-{}-Tokens"
OF_CLAUDE, IN_CLAUDE = "anthropic-ratelimit-requests-{}", "Anthropic-RateLimit-input-tokens-{}"
ALL_CLAUDE, OUT_CLAUDE = "Anthropic-RateLimit-tokens-{}", "Anthropic-RateLimit-output-tokens-{}"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        (
            limits(REQUESTS, limit="500", remaining="499", reset="120ms")
            | limits(TOKENS, limit="30000", remaining="29000", reset="1m2s"),
            Quotas(Quota(500, 499, 0.12), Quota(30000, 29000, 62.0)),
        ),
        (limits(TOKENS, limit="1000"), Quotas(None, Quota(1000))),
        (
            limits(OF_CLAUDE, limit="50", remaining="0", reset="2023-11-14T22:13:30Z"),
            Quotas(Quota(50, 0, 10.0)),
        ),
        # Our clock is ten seconds ahead of theirs.
        (limits(OF_CLAUDE, limit="50", remaining="10", reset="2023-11-14T22:13:10Z"), Quotas(Quota(50, 10))),
        (limits(REQUESTS, limit="-1"), None),
        (limits(REQUESTS, limit="0.5") | limits(TOKENS, limit="1e-3"), None),
        (limits(REQUESTS, limit="inf") | limits(TOKENS, limit="nan"), None),
        (limits(REQUESTS, limit="0") | limits(TOKENS, limit="many"), None),
        (limits(REQUESTS, limit="10", remaining="-1"), Quotas(Quota(10))),
        # 24,000 of 30,000 in are left, 0.8; of those out 2,000 of 8,000, 0.25: a quarter of the lower limit.
        (
            limits(ALL_CLAUDE, limit="38000", remaining="26000", reset="2023-11-14T22:13:50Z")
            | limits(IN_CLAUDE, limit="30000", remaining="24000", reset="2023-11-14T22:13:32Z")
            | limits(OUT_CLAUDE, limit="8000", remaining="2000", reset="2023-11-14T22:14:05Z"),
            Quotas(None, Quota(30000, 7500.0, 45.0)),
        ),
        # A workspace's stricter limit of all tokens.
        (
            limits(ALL_CLAUDE, limit="10000", remaining="5000") | limits(IN_CLAUDE, limit="30000"),
            Quotas(None, Quota(10000, 5000.0)),
        ),
        (limits(OUT_CLAUDE, limit="8000", remaining="0"), None),
        (limits(IN_CLAUDE, limit="30000") | limits(OF_CLAUDE, limit="50"), Quotas(Quota(50), Quota(30000))),
    ],
)
def test_limits_are_read_from_headers(headers: Mapping[str, str], expected: Quotas | None) -> None:
    assert quotas_in(CIMultiDict(headers), NOW) == expected


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
        ({"retry-after": "1d2h"}, 93_600.0),
        ({"retry-after": "90s"}, 90.0),
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
def test_dates_are_measured_against_the_date_of_the_response(skew_s: float) -> None:
    now = NOW + skew_s  # this machine's clock
    assert retry_after_s({**DATE, "retry-after": "Tue, 14 Nov 2023 22:13:22 GMT"}, now) == 2.0
    assert retry_after_s({**DATE, "retry-after": "7"}, now) == 7.0
    for name, text, wait_s in (
        ("anthropic-ratelimit-tokens-reset", "2023-11-14T22:13:25Z", 5.0),
        ("x-ratelimit-reset", "1700000004", 4.0),
        ("x-ratelimit-reset", "1700000004500", 4.5),
        ("x-ratelimit-reset", "12", 12.0),
    ):
        assert reset_s({**DATE, name: text}, now) == wait_s
    until = limits(OF_CLAUDE, limit="50", remaining="0", reset="2023-11-14T22:13:30Z")
    assert quotas_in({**DATE, **until}, now) == Quotas(Quota(50, 0, 10.0))
    unreadable = {"date": "yesterday", "retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}
    assert retry_after_s(unreadable, NOW) == 30.0


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
        ({"x-ratelimit-reset-requests": "1d2h", "x-ratelimit-reset-tokens": "6m0s"}, 93_600.0),
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
    [("33s", 33.0), ("12ms", 0.012), ("6m0s", 360.0), ("1h2m3.5s", 3723.5), ("0s", 0.0), ("1d2h", 93_600.0)]
    + [(text, None) for text in ("", "s", "5", "5 s", "5s!", "-5s", "5w")],
)
def test_durations(text: str, expected: float | None) -> None:
    assert duration_s(text) == expected


@given(st.text(max_size=40))
def test_garbage_never_raises_and_never_gives_a_negative_wait(text: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset"):
        for wait in (retry_after_s({name: text}, NOW), reset_s({name: text}, NOW)):
            assert wait is None or wait >= 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3600", 3600.0),
        ("7h12m0s", 25_920.0),
        ("1 day, 2 hours and 3 minutes", 93_780.0),
        ("2小时", 7200.0),
        ("120ms", 0.12),
        ("5 models", None),
    ],
)
def test_spoken_durations(text: str, expected: float | None) -> None:
    assert spoken_duration_s(text) == expected
