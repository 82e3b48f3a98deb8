"""The fake provider's counting, by hand: an opponent that miscounts proves nothing."""

from __future__ import annotations

from typing import Any

import pytest
from fake_limits import Allowance, HeaderStyle, Kind, RetryAfter, ServerLimits
from hypothesis import given
from hypothesis import strategies as st

from cts_async.llm.limit_headers import reset_s, retry_after_s

JAN_15_2033 = 1989388800.0
"""2033-01-15T08:00:00Z."""


@pytest.mark.parametrize(
    ("allowance", "granted", "refused"),
    [
        # The first of three leaves the window at 60, the second at 70.
        ({"requests_per_min": 3}, [0, 10, 20, 60, 70], [30, 59.9, 69.9]),
        # A window of 10 s holds a sixth of the minute's limit.
        ({"requests_per_min": 12, "window_s": 10}, [0, 0.1, 10, 10.1], [0.2, 9.9, 10.2]),
        # Three at once, then one every 20 s; after a long rest three again, not more.
        ({"requests_per_min": 3, "kind": "bucket"}, [0, 0, 0, 20, 900, 900, 900], [19.9, 20.1, 900.1]),
        ({"requests_per_min": 120, "kind": "per_second"}, [0, 0.1, 1.0, 1.1], [0.2, 1.05]),
        ({"requests_per_min": 30, "kind": "per_second"}, [0, 2, 4], [1.9, 3.9]),
    ],
)
def test_each_kind_grants_what_its_limit_allows(
    allowance: dict[str, Any], granted: list[float], refused: list[float]
) -> None:
    limits = ServerLimits(Allowance(**allowance))
    times = sorted([*granted, *refused])
    assert [now for now in times if limits.arrive(now).ok] == granted


def test_concurrency_is_limited_until_a_call_has_left() -> None:
    limits = ServerLimits(Allowance(concurrency=1))
    assert limits.arrive(0).ok
    refused = limits.arrive(0)
    assert (refused.ok, refused.reason, refused.retry_after_s) == (False, "concurrency", 1.0)
    limits.left()
    assert limits.arrive(0).ok


def test_tokens_are_limited_and_settled_and_refusals_count_nothing() -> None:
    limits = ServerLimits(Allowance(requests_per_min=3, tokens_per_min=1000))
    assert limits.arrive(0, 900).ok
    refused = limits.arrive(1, 200)
    assert (refused.ok, refused.reason, refused.retry_after_s) == (False, "tokens", 59.0)
    limits.settle(1, 900, 400)
    assert limits.arrive(2, 600).ok
    limits.settle(3, 600, 650)
    # 400 tokens leave at 60, 600 at 62, and the 50 paid late at 63.
    assert [limits.arrive(now, 350).ok for now in (59, 60, 60)] == [False, True, False]


@pytest.mark.parametrize("kind", ["sliding", "bucket"])
def test_more_tokens_than_the_whole_limit_need_it_all_and_are_paid_off(kind: Kind) -> None:
    limits = ServerLimits(Allowance(tokens_per_min=60, kind=kind))
    assert [limits.arrive(now, n).ok for now, n in ((0, 120), (119.9, 60), (120, 60))] == [True, False, True]


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
def test_waiting_as_long_as_announced_suffices(times: list[float], kind: Kind) -> None:
    limits = ServerLimits(Allowance(requests_per_min=40, tokens_per_min=500, kind=kind, retry_after="ms"))
    for now in times:
        verdict = limits.arrive(now, 100)
    if not verdict.ok:
        assert verdict.retry_after_s is not None
        assert limits.arrive(now + verdict.retry_after_s, 100).ok


@pytest.mark.parametrize("style", ["openai", "anthropic"])
@pytest.mark.parametrize("spelling", ["seconds", "fraction", "date", "ms"])
def test_client_understands_the_headers(style: HeaderStyle, spelling: RetryAfter) -> None:
    limits = ServerLimits(
        Allowance(requests_per_min=1, headers=style, retry_after=spelling, epoch_s=JAN_15_2033)
    )
    limits.arrive(0)
    refused = limits.arrive(7.5)
    head = {name.lower(): value for name, value in refused.headers.items()}
    wall = JAN_15_2033 + 7.5
    assert retry_after_s(head, wall) == pytest.approx(refused.retry_after_s)
    assert reset_s(head, wall) == pytest.approx(52.5, abs=1.0)
