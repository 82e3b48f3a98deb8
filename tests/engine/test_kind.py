"""How a server counts is found out with one probe, whatever the order in which things arrive."""

from __future__ import annotations

from math import inf

import pytest

from cts_async.engine.meters import LimitDetector


def exhausted(limit: int = 60) -> LimitDetector:
    """A finder whose window is full: 60 a minute, all sent within 3 seconds, then 5 seconds of refill."""
    finder = LimitDetector(float(limit), 60.0)
    for i in range(limit):
        at = i * 3.0 / limit
        at += finder.wait_s(at, 1.0)
        assert not finder.take(at, 1.0), "what both kinds allow is no probe"
    return finder


def test_what_both_kinds_allow_is_sent_at_once() -> None:
    finder = LimitDetector(60.0, 60.0)
    assert finder.wait_s(0.0, 1.0) == 0
    assert finder.kind == "unknown"


def test_one_probe_goes_where_only_a_bucket_allows_more_and_the_others_wait() -> None:
    finder = exhausted()
    assert finder.wait_s(8.0, 1.0) == 0
    assert finder.take(8.0, 1.0), "this one is the probe"
    assert finder.wait_s(8.0, 1.0) > 50, "the others wait for the window meanwhile"


def test_a_served_probe_means_a_bucket() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.served()
    assert finder.kind == "bucket"
    assert finder.wait_s(8.0, 1.0) < 1.0


def test_a_refused_probe_means_a_window() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.refused(8.0, probe=True, room=-1.0)
    assert finder.kind == "sliding"
    assert not finder.probing
    assert finder.wait_s(8.0, 1.0) == 15.0, "until another probe"


def test_a_probe_that_overtook_the_last_one_before_it_does_not_mislead() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.refused(8.0, probe=False, room=0.0)  # the last of the window arrived after the probe
    finder.served()
    assert finder.kind == "sliding"


def test_a_lost_probe_lets_another_go() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.unsure()
    assert finder.wait_s(9.0, 1.0) == 0
    assert finder.take(9.0, 1.0)


def test_a_refusal_with_plenty_of_room_means_that_bursts_are_not_allowed() -> None:
    finder = LimitDetector(60.0, 60.0)
    finder.take(0.0, 1.0)
    finder.refused(8.0, probe=False, room=50.0)
    assert finder.kind == "paced"


def test_a_refusal_of_what_went_before_the_limit_was_known_says_nothing() -> None:
    finder = LimitDetector(60.0, 60.0)
    finder.refused(8.0, probe=False, room=inf)
    assert finder.kind == "unknown"


def test_what_may_never_be_sent_does_not_count_towards_a_verdict() -> None:
    """60 may be sent until 0.5 s, of a bucket of 59.1; only what is known to have been sent fills a window."""
    finder = LimitDetector(60.0, 60.0, slack_s=0.5)
    finder.take(0.0, 59.0, by=0.5)
    assert finder.wait_s(8.0, 2.0) > 50
    finder.redate(0.5, 0.2, 59.0)
    assert finder.wait_s(8.0, 2.0) == 0


def test_a_refusal_much_shorter_than_a_window_needs_lets_the_next_probe_decide() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.settle(8.0, 8.0, 1.0, 0.0)
    finder.refused(8.0, probe=True, room=-1.0, wait_s=0.1)  # a window would have asked for 52 s
    assert finder.kind == "unknown"
    assert finder.wait_s(8.0, 1.0) == pytest.approx(1.0), "our count of the bucket was too high: one a second"
    finder.take(9.0, 1.0)
    finder.served()
    assert finder.kind == "bucket"


def test_a_refusal_as_long_as_a_window_needs_means_a_window() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.settle(8.0, 8.0, 1.0, 0.0)
    finder.refused(8.0, probe=True, room=-1.0, wait_s=52.0)
    assert finder.kind == "sliding"


def test_a_window_is_a_verdict_that_a_later_probe_can_revise() -> None:
    finder = exhausted()
    finder.take(8.0, 1.0)
    finder.settle(8.0, 8.0, 1.0, 0.0)
    finder.refused(8.0, probe=True, room=-1.0)
    assert finder.wait_s(8.0, 1.0) == pytest.approx(15.0), "a quarter of a window"
    assert finder.take(23.0, 1.0), "a probe"
    assert finder.wait_s(23.0, 1.0) > 30
    finder.served()
    assert finder.kind == "bucket"


def test_probes_of_a_window_become_ever_rarer() -> None:
    finder = exhausted()
    waits, now = [], 8.0
    for _ in range(3):
        finder.take(now, 1.0)
        finder.settle(now, now, 1.0, 0.0)
        finder.refused(now, probe=True, room=-1.0, wait_s=60.0 - now)
        waits.append(finder.wait_s(now, 1.0))
        now += waits[-1]
    assert waits == pytest.approx([15.0, 30.0, 7.4])  # at 60.4 the window opens by itself


def test_isolated_refusal_with_plenty_of_room_says_nothing() -> None:
    finder = LimitDetector(60.0, 60.0)
    finder.take(0.0, 1.0)
    finder.refused(0.0, probe=False, room=50.0, isolated=True)
    assert finder.kind == "unknown"
