"""Meters keep every window within its limit, and the way of counting is detected."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.engine.ratelimit import MARGIN_S, BucketMeter, LimitDetector, SlidingMeter

Sent = list[tuple[float, float]]


def most_in_a_window(sent: Sent, window_s: float) -> float:
    return max(sum(amount for at, amount in sent if start <= at < start + window_s) for start, _ in sent)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12), st.floats(0, 5)), min_size=1, max_size=60),
    st.integers(9, 30),
    st.sampled_from([1.0, 10.0]),
)
def test_no_window_holds_more_than_the_limit_when_estimates_are_settled(
    calls: list[tuple[int, int, float]], limit: int, window_s: float
) -> None:
    """Each call is charged an estimate and settled later; what counts is what it really took, when it was sent."""
    meter, now, sent = SlidingMeter(float(limit), window_s), 0.0, []
    unsettled: list[tuple[float, float, float, float]] = []
    for estimate, actual, latency_s in calls:
        # Truth no larger than the estimate: an underestimate is known only when it is too late.
        actual = min(actual, estimate)
        while (wait_s := meter.wait_s(now, estimate)) > 0:
            now += wait_s
            for due in [due for due in unsettled if due[0] <= now]:
                unsettled.remove(due)
                meter.settle(now, due[1], due[2], due[3])
        meter.take(now, estimate)
        sent.append((now, float(actual)))
        unsettled.append((now + latency_s, now, float(estimate), float(actual)))
    assert most_in_a_window(sent, window_s) <= limit + 1e-6


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(9, 30))
def test_a_bucket_never_gives_more_than_a_burst_and_its_refill(amounts: list[int], limit: int) -> None:
    meter, now, sent = BucketMeter(float(limit), limit / 10.0), 0.0, []
    for amount in amounts:
        now += meter.wait_s(now, amount)
        meter.take(now, amount)
        sent.append((now, amount))
    for i, (start, _) in enumerate(sent):
        total = 0.0
        for at, amount in sent[i:]:
            total += amount
            assert total <= limit + (at - start) * limit / 10.0 + 1e-6


def test_settled_amount_is_returned_at_its_own_time() -> None:
    # 60 at second 0 and 40 at second 5 fill the window. At second 6 the first turns out to have been 20: 40 come
    # back, and are used. At second 10.4 it leaves with its true 20 only, since the server sees it that way.
    meter = SlidingMeter(100.0, 10.0)
    meter.take(0.0, 60.0)
    meter.take(5.0, 40.0)
    meter.settle(6.0, 0.0, 60.0, 20.0)
    assert meter.room(6.0) == 40.0
    meter.take(6.0, 40.0)
    assert meter.room(10.0 + MARGIN_S) == 20.0


def test_underestimate_is_charged_from_now_on() -> None:
    # 10 taken at 0 were really 70: 60 more stay in the window until 6 + 10.4.
    meter = SlidingMeter(100.0, 10.0)
    meter.take(0.0, 10.0)
    meter.settle(6.0, 0.0, 10.0, 70.0)
    assert meter.room(6.0) == 30.0
    assert meter.room(10.5) == 40.0
    assert meter.wait_s(10.5, 50.0) == pytest.approx(6.0 + 10.4 - 10.5)


def test_charge_of_others_expires_at_reset() -> None:
    meter = SlidingMeter(100.0, 60.0)
    meter.take(0.0, 10.0)
    meter.charge(1.0, 80.0, 5.0)
    assert meter.room(1.0) == 10.0
    assert meter.room(6.0) == 90.0, "after 5 seconds, although ours of second 0 are still there"


def test_bucket_charge_is_limited_to_the_refill_until_reset() -> None:
    meter = BucketMeter(100.0, 10.0, margin_s=0.0)
    meter.charge(0.0, 90.0, 2.0)
    assert meter.room(0.0) == 80.0
    assert meter.room(2.0) == 100.0


def test_full_bucket_reserves_the_refill_in_transit() -> None:
    # 20 a second, 0.4 s: 8 of 1,200 are not sent at once.
    assert BucketMeter(1200.0, 20.0).room(0.0) == 1192.0


def test_more_than_the_limit_waits_for_an_empty_window() -> None:
    meter = SlidingMeter(10.0, 10.0)
    meter.take(0.0, 5.0)
    assert meter.wait_s(0.0, 99.0) == pytest.approx(10.4)


@pytest.mark.parametrize("actual", [70.0, 99.0])
def test_amount_above_the_limit_is_settled_as_the_limit(actual: float) -> None:
    sliding, bucket = SlidingMeter(10.0, 10.0), BucketMeter(10.0, 1.0, margin_s=0.0)
    for meter in (sliding, bucket):
        meter.take(0.0, 99.0)
        meter.settle(1.0, 0.0, 99.0, actual)
    assert sliding.wait_s(1.0, 10.0) == pytest.approx(9.4)
    assert bucket.wait_s(1.0, 10.0) == pytest.approx(9.0)


def test_redated_amount_leaves_the_window_earlier() -> None:
    # Two may be sent by 1.0 and one by 2.0; one of the two went at 0.25.
    meter = SlidingMeter(3.0, 10.0)
    for by in (1.0, 1.0, 2.0):
        meter.take(by, 1.0)
    meter.redate(1.0, 0.25, 1.0)
    assert meter.room(0.5) == 0.0
    assert meter.wait_s(0.5, 1.0) == pytest.approx(0.25 + 10.4 - 0.5)
    assert meter.room(0.25 + 10.4) == 1.0
    assert meter.room(1.0 + 10.4) == 2.0


def test_bucket_takes_back_what_it_gained_while_nothing_was_sent() -> None:
    """Six are free, one more every 10 s. Four are taken at 0 and never sent; four others at 10, before that is known.

    The server's bucket was full until 10 and has two left: the one gained since 0 does not exist.
    """
    meter = BucketMeter(6.0, 0.1, margin_s=0.0)
    for now in (0.0, 10.0):
        for _ in range(4):
            meter.take(now, 1.0)
    assert meter.room(10.0) == -1.0
    for _ in range(4):
        meter.give_back(10.0, 0.0, 0.5, 1.0)
    assert meter.room(10.0) == pytest.approx(2.0)
    assert meter.room(20.0) == pytest.approx(3.0)


def test_usage_of_others_counts_from_its_own_time() -> None:
    sliding, bucket = SlidingMeter(10.0, 10.0), BucketMeter(10.0, 1.0, margin_s=0.0)
    for meter in (sliding, bucket):
        meter.count(20.0, [(5.0, 4.0), (12.0, 3.0), (19.0, 2.0)])
    assert sliding.room(20.0) == 5.0, "what was sent at 5 has left the window"
    assert sliding.room(12.0 + 10.4) == 8.0
    assert bucket.room(20.0) == 1.0, "a bucket cannot know: all of it counts"


@given(
    st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1), st.floats(0, 3)), min_size=1, max_size=60),
    st.integers(9, 30),
)
def test_no_window_holds_more_than_the_limit_when_dates_become_known_later(
    calls: list[tuple[int, float, float]], limit: int
) -> None:
    """Each call may be sent within a second; when it was is known some time after that."""
    meter, now, sent = SlidingMeter(float(limit), 10.0), 0.0, []
    undated: list[tuple[float, float, float, int]] = []
    for amount, later_s, known_s in calls:
        while (wait_s := meter.wait_s(now, amount)) > 0:
            now += wait_s
            for due in [due for due in undated if due[0] <= now]:
                undated.remove(due)
                meter.redate(*due[1:])
        meter.take(now + 1.0, amount)
        sent.append((now + later_s, float(amount)))
        undated.append((now + later_s + known_s, now + 1.0, now + later_s, amount))
    assert most_in_a_window(sent, 10.0) <= limit + 1e-6


def exhausted(limit: int = 60) -> LimitDetector:
    """A detector whose window is full: 60 a minute, all sent within 3 seconds, then 5 seconds of refill."""
    detector = LimitDetector(float(limit), 60.0)
    assert (detector.wait_s(0.0, 1.0), detector.kind) == (0, "unknown")
    for i in range(limit):
        at = i * 3.0 / limit
        at += detector.wait_s(at, 1.0)
        assert not detector.take(at, 1.0), "what both kinds allow is no probe"
    return detector


def test_served_probe_means_a_bucket() -> None:
    detector = exhausted()
    assert detector.wait_s(8.0, 1.0) == 0
    assert detector.take(8.0, 1.0), "only a bucket would serve it: a probe"
    assert detector.wait_s(8.0, 1.0) > 50, "the others wait for the window meanwhile"
    detector.probed(served=None)
    assert detector.wait_s(9.0, 1.0) == 0, "its outcome is unknown: another may go"
    assert detector.take(9.0, 1.0)
    detector.probed(served=True)
    assert detector.kind == "bucket"
    assert detector.wait_s(9.0, 1.0) < 1.0


@pytest.mark.parametrize(
    ("wait_s", "kind", "again_s"),
    [
        (None, "sliding", 15.0),  # a quarter of a window until another probe
        (52.0, "sliding", 15.0),
        (0.1, "unknown", 1.0),  # a window would have asked for 52 s: our count of the bucket was too high
    ],
)
def test_refused_probe_means_a_window_which_a_later_probe_can_revise(
    wait_s: float | None, kind: str, again_s: float
) -> None:
    detector = exhausted()
    detector.take(8.0, 1.0)
    detector.settle(8.0, 8.0, 1.0, 0.0)
    detector.refused(8.0, probe=True, room=-1.0, wait_s=wait_s)
    assert (detector.kind, detector.probing) == (kind, False)
    assert detector.wait_s(8.0, 1.0) == pytest.approx(again_s)
    assert detector.take(8.0 + again_s, 1.0), "a probe"
    assert detector.wait_s(8.0 + again_s, 1.0) > 30
    detector.probed(served=True)
    assert detector.kind == "bucket"


def test_probe_that_overtook_the_last_request_before_it_does_not_mislead() -> None:
    detector = exhausted()
    detector.take(8.0, 1.0)
    detector.refused(8.0, probe=False, room=0.0)  # the last of the window arrived after the probe
    detector.probed(served=True)
    assert detector.kind == "sliding"


@pytest.mark.parametrize(
    ("room", "isolated", "kind"),
    [
        (50.0, False, "paced"),  # bursts are not allowed
        (50.0, True, "unknown"),
        (inf, False, "unknown"),  # the limit was not known when it was sent
    ],
)
def test_refusal_with_plenty_of_room(room: float, isolated: bool, kind: str) -> None:
    detector = LimitDetector(60.0, 60.0)
    detector.take(0.0, 1.0)
    detector.refused(8.0, probe=False, room=room, isolated=isolated)
    assert detector.kind == kind


def test_unsent_amounts_do_not_count_towards_a_verdict() -> None:
    """60 may be sent until 0.5 s, of a bucket of 59.1; only what is known to have been sent fills a window."""
    detector = LimitDetector(60.0, 60.0, slack_s=0.5)
    detector.take(0.0, 59.0, by=0.5)
    assert detector.wait_s(8.0, 2.0) > 50
    detector.redate(0.5, 0.2, 59.0)
    assert detector.wait_s(8.0, 2.0) == 0


def test_probes_of_a_window_become_ever_rarer() -> None:
    detector = exhausted()
    waits, now = [], 8.0
    for _ in range(3):
        detector.take(now, 1.0)
        detector.settle(now, now, 1.0, 0.0)
        detector.refused(now, probe=True, room=-1.0, wait_s=60.0 - now)
        waits.append(detector.wait_s(now, 1.0))
        now += waits[-1]
    assert waits == pytest.approx([15.0, 30.0, 7.4])  # at 60.4 the window opens by itself
