"""The circuit opens in an outage only; the window doubles until the first cut, and random refusals keep it large."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.engine.overload import Circuit, ConcurrencyWindow, ForbiddenSteps, LimitedSteps

# --- The circuit breaker


def opened(circuit: Circuit, now: float = 0.0) -> Circuit:
    for i in range(circuit.threshold):
        circuit.failed(now, f"step{i}", "HTTP 503", whole_server=False)
    return circuit


def test_failures_in_a_row_open_it_and_one_success_between_does_not() -> None:
    circuit = Circuit(threshold=3)
    for key in ("a", "b"):
        assert not circuit.failed(0.0, key, "HTTP 500", whole_server=False)
    circuit.succeeded()
    for key in ("a", "b"):
        assert not circuit.failed(0.0, key, "HTTP 500", whole_server=False)
    assert circuit.failed(0.0, "c", "HTTP 500", whole_server=False)


def test_one_probe_at_a_time_ever_more_rarely() -> None:
    circuit = opened(Circuit(threshold=3, first_probe_s=1.0, max_probe_s=4.0))
    waits = []
    for now in (0.0, 120.0, 180.0, 900.0):
        circuit.sending(now)
        assert circuit.wait_s(now) > 0, "a second one would have to wait for the probe"
        circuit.failed(now, "probe", "HTTP 503", whole_server=False, probe=True)
        waits.append(circuit.wait_s(now))
    # A sixtieth of the outage so far, but 1 s at least and 4 s at most.
    assert waits == [1.0, 2.0, 3.0, 4.0]


def test_a_probe_blocks_the_next_for_five_seconds_or_until_it_is_cancelled() -> None:
    circuit = opened(Circuit(threshold=3))
    circuit.sending(1.0)
    assert (circuit.wait_s(1.0), circuit.wait_s(6.0)) == (5.0, 0.0)
    circuit.abandoned(1.5)
    assert circuit.wait_s(1.5) == 0.0


def test_late_failures_do_not_postpone_the_probe_and_an_answer_closes_the_circuit() -> None:
    circuit = opened(Circuit(threshold=3, first_probe_s=1.0))
    for _ in range(10):
        circuit.failed(0.5, "late", "reset", whole_server=False)
    assert circuit.wait_s(1.0) == 0.0
    assert circuit.succeeded()
    assert (circuit.wait_s(0.0), circuit.is_open) == (0.0, False)


# --- Refusals


def after(events: str) -> LimitedSteps:
    """The state after `events`, one a second: a letter is a step that is refused, + an answer to a newer request, - one
    to the oldest, _ a minute of idling."""
    steps = LimitedSteps()
    for now, event in enumerate(events):
        if event in "+-":
            steps.answered(now if event == "+" else 0)
        elif event == "_":
            steps.idled(60.0)
        else:
            steps.refused(float(now), event, now)
    return steps


@pytest.mark.parametrize(
    ("events", "outage", "lasted_s"),
    [
        ("", False, 0.0),
        ("a", True, 10.0),
        ("+++a+", False, 0.0),
        ("aaaa", True, 10.0),
        ("aa+a", True, 7.0),  # overtaken once may be chance
        ("a-a-a", True, 6.0),  # they were sent before
        ("a+a+a", False, 6.0),  # a request that is refused for good
        ("a+a+ab", True, 6.0),  # the other may wait for an outage to end
        ("ab+ab+ab", False, 4.0),
        ("abcd+abcd+abcd", True, 0.0),  # more than may be refused for good
        ("a_a", True, -50.0),
    ],
)
def test_refused_steps_are_an_outage_unless_others_were_answered(
    events: str, outage: bool, lasted_s: float
) -> None:
    steps = after(events)
    assert (steps.is_outage, steps.lasted_s(10.0)) == (outage, lasted_s)


@pytest.mark.parametrize(
    ("events", "account"),
    [("a", False), ("aaaaaa", False), ("abc", False), ("abcd", True), ("abc+d", False), ("abc+dabc", True)],
)
def test_403_is_the_account_s_where_different_steps_get_it_in_a_row(events: str, account: bool) -> None:
    steps, verdict = ForbiddenSteps(), False
    for event in events:
        if event == "+":
            steps.answered()
        else:
            verdict = steps.forbidden(event)
    assert verdict == account


# --- The window


class Caller:
    """Numbers requests and plays them against a window, one outcome after the other."""

    def __init__(self, ceiling: int = 64, *, known: bool = False) -> None:
        self.window = ConcurrencyWindow(ceiling, limits_known=known)
        self.sent = 0

    def answered(self, in_flight: int) -> None:
        self.sent += 1
        self.window.answered(self.sent, self.sent, in_flight)

    def refused(self, in_flight: int) -> bool:
        self.sent += 1
        return self.window.refused(self.sent, self.sent, in_flight)

    def round_trip(self) -> float:
        """As many answers as the window holds; gives its size then."""
        under_way = ceil(self.window.size)
        for _ in range(under_way):
            self.answered(under_way)
        return self.window.size


def test_slow_start_doubles_each_round_trip_up_to_the_ceiling() -> None:
    caller = Caller(50)
    assert [caller.round_trip() for _ in range(4)] == [16, 32, 50, 50]
    assert ConcurrencyWindow(50, limits_known=True).size == 50, "there is nothing to find"


def test_a_window_that_is_not_used_does_not_grow() -> None:
    caller = Caller(100)
    for _ in range(50):
        caller.answered(2)
    assert caller.window.size == 8


def test_share_of_refusals_above_a_tenth_is_overload_and_cuts_once() -> None:
    caller = Caller(64, known=True)
    caller.answered(64)
    # With a gain of 1/64 the share passes 10 % at the 7th refusal: (63/64) ** 7 = 0.896.
    assert [caller.refused(60) for _ in range(7)] == [False] * 6 + [True]
    assert caller.window.size == 30  # the first cut is by half
    assert not caller.window.refused(3, caller.sent, 60), "what was sent before the cut says nothing new"
    assert caller.window.size == 30


def test_later_cuts_are_by_half_the_share_since_the_last() -> None:
    caller = Caller(64, known=True)
    caller.answered(64)
    while not caller.refused(64):
        pass
    caller.answered(30)
    while not caller.refused(30):
        caller.answered(30)
        in_flight = min(caller.window.size, 30)
    # Of those since the cut one of two was refused: a cut by a quarter.
    assert caller.window.size / in_flight == pytest.approx(0.75, abs=0.02)


def test_first_refusal_before_any_answer_is_overload() -> None:
    caller = Caller(64)
    assert caller.refused(8)
    assert caller.window.size == 4
    assert [caller.round_trip() for _ in range(4)] == [8, 16, 32, 64]  # one word is no end of slow start


def test_experiments_grow_it_by_a_quarter_each_round_trip_after_a_cut() -> None:
    caller = Caller(64, known=True)
    caller.answered(64)
    while not caller.refused(40):
        pass
    assert caller.window.size == 20
    # The first round trip measures; an experiment is known to have gone well at its end.
    assert [caller.round_trip() for _ in range(4)] == pytest.approx([25, 31.25, 39.06, 48.83], abs=0.01)


def test_experiment_that_is_refused_is_taken_back_and_the_next_is_smaller() -> None:
    caller = Caller(64, known=True)
    caller.answered(64)
    while not caller.refused(40):
        pass
    assert caller.round_trip() == 25
    assert not any(caller.refused(25) for _ in range(3)), "5 places more: up to half of them may be refused"
    assert caller.window.size == 20
    for _ in range(20):
        caller.answered(20)  # a round trip without an experiment
    assert caller.window.size == pytest.approx(20 * 1.125)


@pytest.mark.parametrize("refusals", [0, 10])
def test_window_restarts_at_one_after_a_pause_and_finds_its_size_again(refusals: int) -> None:
    caller = Caller(64, known=True)
    caller.answered(64)
    while not caller.refused(64):
        pass
    found = caller.window.size
    caller.window.paused(keep=False)
    for _ in range(refusals):  # where all requests are refused, it is not for their number
        assert caller.refused(1)
        caller.window.paused(keep=False)
    assert [caller.round_trip() for _ in range(5)] == [2, 4, 8, 16, pytest.approx(found, abs=1)]


@given(
    st.booleans(),
    st.lists(st.sampled_from(["answered", "refused", "late", "paused", "reopen"]), max_size=300),
)
def test_it_never_leaves_its_bounds(known: bool, happened: list[str]) -> None:
    caller = Caller(37, known=known)
    for what in happened:
        window = caller.window
        match what:
            case "answered":
                caller.answered(int(window.size))
            case "refused":
                caller.refused(int(window.size))
            case "late":
                window.refused(caller.sent // 2, caller.sent, int(window.size))
            case "paused":
                window.paused(keep=known)
            case _:
                window.reopen(limits_known=known)
        assert 1 <= window.size <= window.ceiling <= 37


def play(seed: int, n: int, share: float, capacity: float, late: bool) -> tuple[float, float, float]:
    """`n` requests of about a second, at random refused with `share`, and beyond `capacity` at once.

    Gives what was used of 64 places or of the capacity, the share refused, and the size in the end, of the last half.
    """
    rng = random.Random(seed)
    window, ends, sent, now = (
        ConcurrencyWindow(64, limits_known=False),
        list[tuple[float, int, bool]](),
        0,
        0.0,
    )
    served, used_s, refused, began = 0, 0.0, 0, 0.0
    for done in range(n):
        while len(ends) < window.size:
            sent += 1
            taken = served < capacity and rng.random() >= share
            served += taken
            heappush(ends, (now + (rng.lognormvariate(0, 0.4) if taken or late else 0.02), sent, taken))
        at, number, taken = heappop(ends)
        if done == n // 2:
            used_s, refused, began = 0.0, 0, now
        used_s += served * (at - now)
        now = at
        served -= taken
        refused += not taken
        (window.answered if taken else window.refused)(number, sent, len(ends) + 1)
    return used_s / (now - began) / min(64, capacity), refused / (n / 2), window.size


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.03])
def test_random_refusals_leave_the_window_nearly_whole(share: float, late: bool) -> None:
    """In all runs but one of twenty: of 2,000 seeds with 3 % refused, noise was taken for overload at the end of 15."""
    played = [play(seed, 4000, share, 1e9, late) for seed in range(20)]
    _, *used = sorted(used for used, _, _ in played)
    _, *sizes = sorted(size for _, _, size in played)
    assert used[0] >= 0.8  # a window of which 3 % are refused late serves 97 % of its places
    assert sizes[0] >= 40


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(10, 54), st.booleans())
def test_capacity_is_found_and_kept_with_few_refusals(seed: int, capacity: int, late: bool) -> None:
    # Above 57 places even a full window of 64 is refused less than a tenth, and so is not cut.
    used, refused, _ = play(seed, 6000, 0.0, capacity, late)
    assert used >= 0.85
    assert refused <= 0.04
