"""Sums of steps by group and lane; what a person should know travels as it is."""

from __future__ import annotations

from cts_async.cluster.counting import Counting
from cts_async.engine.events import (
    AttemptFailed,
    CircuitChanged,
    Event,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    LaneInUse,
    LanePaused,
    LaneStatus,
    Notice,
    StepEnded,
    StepsCounted,
    Stopping,
    Usage,
)


def step(group: str, lane: str, *, replayed: bool = False) -> StepEnded:
    return StepEnded(group, "i1", "judge", lane, replayed, 0.3, Usage(500, 20), 0.0 if replayed else 0.25)


def failed(wait_s: float | None) -> AttemptFailed:
    return AttemptFailed("a", "i1", "judge", "gpt", "timeout", "no answer", wait_s)


def test_steps_are_summed_by_group_and_lane_and_counted_once() -> None:
    counting = Counting()
    for event in (step("a", "gpt"), step("a", "gpt"), step("a", "gpt", replayed=True), step("b", "gpt")):
        counting(event)
    counting(step("a", ""))
    assert set(counting.taken()) == {
        StepsCounted("a", "gpt", calls=2, replayed=1, tokens=1040, usd=0.5),
        StepsCounted("b", "gpt", calls=1, tokens=520, usd=0.25),
        StepsCounted("a", "", calls=1, tokens=520, usd=0.25),
    }
    assert counting.taken() == ()


def test_attempts_that_are_made_again_are_retries_and_the_last_is_none() -> None:
    counting = Counting()
    counting(failed(0.5))
    counting(failed(None))
    assert counting.taken() == (StepsCounted("a", "gpt", retries=1),)


def test_what_a_person_should_know_is_told_once() -> None:
    heard: list[Event] = []
    counting = Counting(heard.append)
    told = (
        Notice("gpt: another model answered"),
        LanePaused("gpt", 3.0),
        CircuitChanged("gpt", open=True, reason="refused"),
        GroupHeldUp("a", "gpt"),
    )
    for event in (GroupBegan("a"), Stopping("interrupted"), JobEnded("a", "i1", None, None), *told):
        counting(event)
    assert counting.told() == told
    assert counting.told() == ()
    assert heard == [Stopping("interrupted"), *told], "routine is no news"


def test_lanes_are_asked_how_they_are() -> None:
    counting = Counting()
    status = LaneStatus("gpt", 1, 0, 4, 9, 100.0, None, None, 0, 0.0, None, "", False)
    counting(LaneInUse("gpt", lambda: status))
    assert counting.lanes() == (status,)
