"""Every spelling of "come back later", and what is no spelling of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.llm.responses import duration_s, reset_s, retry_after_s

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 UTC


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
