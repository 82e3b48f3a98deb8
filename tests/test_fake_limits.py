"""The fake provider's counting, by hand: an opponent that miscounts proves nothing."""

from __future__ import annotations

import pytest
from fake_limits import Allowance, HeaderStyle, Kind, RetryAfter, ServerLimits, duration, rfc3339
from hypothesis import given
from hypothesis import strategies as st

from cts_async.llm.responses import reset_s, retry_after_s

JAN_15_2033 = 1989388800.0
"""2033-01-15T08:00:00Z."""


def arrivals(limits: ServerLimits, times: list[float], tokens: float = 0.0) -> list[bool]:
    return [limits.arrive(now, tokens).ok for now in times]


# --- How limits count -----------------------------------------------------------------------------------


def test_a_sliding_window_holds_no_more_than_its_limit() -> None:
    limits = ServerLimits(Allowance(requests_per_min=3))
    assert arrivals(limits, [0, 10, 20, 30]) == [True, True, True, False]
    # The first leaves at 60: one place, then none before the second leaves at 70.
    assert arrivals(limits, [59.9, 60, 69.9, 70]) == [False, True, False, True]


def test_a_shorter_window_holds_its_share_of_the_minute() -> None:
    limits = ServerLimits(Allowance(requests_per_min=12, window_s=10))
    assert arrivals(limits, [0, 0, 0, 9.9, 10, 10, 10]) == [True, True, False, False, True, True, False]


def test_a_bucket_gives_all_at_once_and_then_refills() -> None:
    limits = ServerLimits(Allowance(requests_per_min=3, kind="bucket"))
    # 3 at once; a third of the minute brings one; after a long rest there are 3 again, not more.
    assert arrivals(limits, [0, 0, 0, 0, 19.9, 20, 20]) == [True, True, True, False, False, True, False]
    assert arrivals(limits, [900, 900, 900, 900]) == [True, True, True, False]


def test_per_second_allows_a_sixtieth_of_the_minute_each_second() -> None:
    limits = ServerLimits(Allowance(requests_per_min=120, kind="per_second"))
    assert arrivals(limits, [0, 0.1, 0.2, 1.0, 1.05, 1.1]) == [True, True, False, True, False, True]


def test_per_second_with_less_than_one_a_second_spaces_them_out() -> None:
    limits = ServerLimits(Allowance(requests_per_min=30, kind="per_second"))
    assert arrivals(limits, [0, 1.9, 2, 3.9, 4]) == [True, False, True, False, True]


def test_concurrency_counts_until_a_call_has_left() -> None:
    limits = ServerLimits(Allowance(concurrency=2))
    assert arrivals(limits, [0, 0, 0]) == [True, True, False]
    limits.left()
    assert limits.arrive(0).ok
    refused = limits.arrive(0)
    assert (refused.reason, refused.retry_after_s) == ("concurrency", 1.0)


def test_tokens_refuse_what_requests_would_allow_and_a_refusal_counts_nothing() -> None:
    limits = ServerLimits(Allowance(requests_per_min=2, tokens_per_min=1000))
    assert limits.arrive(0, 900).ok
    refused = limits.arrive(1, 200)
    assert (refused.ok, refused.reason, refused.retry_after_s) == (False, "tokens", 59.0)
    assert limits.arrive(2, 100).ok  # the second of two requests: the refused one was not counted


def test_tokens_not_used_come_back_and_more_than_charged_are_paid() -> None:
    limits = ServerLimits(Allowance(tokens_per_min=1000))
    assert limits.arrive(0, 900).ok
    limits.settle(1, 900, 400)
    assert limits.arrive(2, 600).ok
    limits.settle(3, 600, 650)
    # 400 + 600 leave at 60 and 62, the 50 paid late at 63.
    assert arrivals(limits, [60, 60], 350) == [True, False]


@pytest.mark.parametrize("kind", ["sliding", "bucket"])
def test_more_tokens_than_the_whole_limit_need_it_all_and_are_paid_off(kind: Kind) -> None:
    limits = ServerLimits(Allowance(tokens_per_min=60, kind=kind))
    assert limits.arrive(0, 120).ok
    assert arrivals(limits, [119.9], 60) == [False]
    assert limits.arrive(120, 60).ok


@given(
    times=st.lists(st.floats(0, 100), min_size=1, max_size=60).map(sorted),
    limit=st.integers(1, 5),
    window_s=st.sampled_from([1.0, 10.0, 60.0]),
)
def test_no_window_ever_holds_more_than_its_share(times: list[float], limit: int, window_s: float) -> None:
    limits = ServerLimits(Allowance(requests_per_min=limit * 60 / window_s, window_s=window_s))
    taken = [now for now in times if limits.arrive(now).ok]
    for end in taken:
        assert sum(end - window_s + 1e-6 < at <= end for at in taken) <= limit


@given(
    times=st.lists(st.floats(0, 100), min_size=1, max_size=40).map(sorted),
    kind=st.sampled_from(["sliding", "bucket", "per_second"]),
)
def test_whoever_waits_as_long_as_asked_is_taken(times: list[float], kind: Kind) -> None:
    limits = ServerLimits(Allowance(requests_per_min=40, tokens_per_min=500, kind=kind, retry_after="ms"))
    for now in times:
        verdict = limits.arrive(now, 100)
    if not verdict.ok:
        assert verdict.retry_after_s is not None
        assert limits.arrive(now + verdict.retry_after_s, 100).ok


# --- What the headers say -------------------------------------------------------------------------------


def test_openai_headers_say_limit_remaining_and_when_all_is_there_again() -> None:
    limits = ServerLimits(Allowance(requests_per_min=60, tokens_per_min=6000, kind="bucket"))
    assert limits.arrive(5, 1500).headers == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "4500",
        "x-ratelimit-reset-tokens": "15s",
    }


def test_anthropic_headers_hold_dates() -> None:
    allowance = Allowance(requests_per_min=60, headers="anthropic", epoch_s=JAN_15_2033)
    assert ServerLimits(allowance).arrive(5).headers == {
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "59",
        "anthropic-ratelimit-requests-reset": "2033-01-15T08:01:05Z",
    }


@pytest.mark.parametrize(
    ("spelling", "header", "text", "announced_s"),
    [
        ("seconds", "Retry-After", "54", 54.0),
        ("ms", "Retry-After-Ms", "53750", 53.75),
        ("date", "Retry-After", "Sat, 15 Jan 2033 08:01:01 GMT", 54.25),
    ],
)
def test_a_refusal_asks_for_the_wait_rounded_up_to_what_it_can_say(
    spelling: RetryAfter, header: str, text: str, announced_s: float
) -> None:
    """It is 6.25 and the window is free at 60, which is half a second past a minute on the wall."""
    limits = ServerLimits(
        Allowance(requests_per_min=1, headers="none", retry_after=spelling, epoch_s=JAN_15_2033 + 0.5)
    )
    limits.arrive(0)
    refused = limits.arrive(6.25)
    assert refused.headers == {header: text}
    assert refused.retry_after_s == announced_s


def test_a_server_may_refuse_without_a_word() -> None:
    limits = ServerLimits(Allowance(requests_per_min=1, headers="none", retry_after="none"))
    limits.arrive(0)
    refused = limits.arrive(1)
    assert (refused.ok, refused.headers, refused.retry_after_s) == (False, {}, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0115, "12ms"), (1.5, "1.5s"), (20, "20s"), (360, "6m0s"), (3602, "1h0m2s")],
)
def test_durations_are_spelt_as_openai_does(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_dates_are_rounded_up_to_the_second() -> None:
    assert rfc3339(JAN_15_2033 + 0.2) == "2033-01-15T08:00:01Z"


@pytest.mark.parametrize("style", ["openai", "anthropic"])
@pytest.mark.parametrize("spelling", ["seconds", "fraction", "date", "ms"])
def test_the_client_understands_what_the_server_says(style: HeaderStyle, spelling: RetryAfter) -> None:
    limits = ServerLimits(
        Allowance(requests_per_min=1, headers=style, retry_after=spelling, epoch_s=JAN_15_2033)
    )
    limits.arrive(0)
    refused = limits.arrive(7.5)
    head = {name.lower(): value for name, value in refused.headers.items()}
    wall = JAN_15_2033 + 7.5
    assert retry_after_s(head, wall) == pytest.approx(refused.retry_after_s)
    assert reset_s(head, wall) == pytest.approx(52.5, abs=1.0)
