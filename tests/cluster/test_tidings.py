"""What many workers tell is told as one would tell it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from virtual_time import run_virtual

from cts_async.cluster.messages import Ended, News, Piece
from cts_async.cluster.tidings import Tidings
from cts_async.engine.events import (
    CircuitChanged,
    Event,
    Events,
    GroupBegan,
    GroupHeldUp,
    JobsCounted,
    LaneInUse,
    LanePaused,
    LaneStatus,
    LimitLearned,
    Notice,
    StepsCounted,
)

STATUS = LaneStatus("gpt", 2, 0, 4, 10, 1000.0, 60.0, None, 0, 0.0, None, "", False)
DOWN = CircuitChanged("gpt", open=True, reason="refused")
UP = CircuitChanged("gpt", open=False, reason="the provider answers again")


class Listener:
    """Tidings, and what comes of them."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.tidings = Tidings(Events(self.heard.append))

    def told(self, worker: str, *events: Event) -> list[Event]:
        """What is passed on of what a worker says."""
        before = len(self.heard)
        self.tidings.heard(worker, News(events=events), {})
        return self.heard[before:]


def test_an_outage_begins_with_the_first_worker_and_ends_with_the_last() -> None:
    listener = Listener()
    assert listener.told("a", DOWN) == [DOWN]
    assert listener.told("b", DOWN) == []
    assert listener.told("a", UP) == []
    assert listener.told("b", UP) == [UP]


def test_a_worker_that_is_gone_holds_up_nothing() -> None:
    listener = Listener()
    listener.told("a", DOWN)
    listener.tidings.gone("a")
    assert listener.heard == [DOWN, CircuitChanged("gpt", open=False, reason="its worker is gone")]


def test_sentences_are_said_once() -> None:
    listener = Listener()
    learned = LimitLearned("gpt", "requests", 60.0)
    events = (Notice("gpt: another model answers"), learned, GroupHeldUp("g", "gpt"))
    assert listener.told("a", *events) == list(events)
    assert listener.told("b", *events) == []
    faster = replace(learned, per_min=120.0)
    assert listener.told("b", faster) == [faster]


def test_a_pause_that_all_workers_meet_is_told_once() -> None:
    async def main() -> None:
        listener = Listener()
        pause = LanePaused("gpt", 5.0)
        assert listener.told("a", pause) == [pause]
        assert listener.told("b", pause) == []
        await asyncio.sleep(3.0)
        assert listener.told("b", pause) == [pause], "three seconds more"

    run_virtual(main)


def test_sums_go_on_as_sums() -> None:
    listener = Listener()
    pieces = {seq: Piece(seq, ["even", "odd"][seq % 2], f"i{seq}", 0, None) for seq in range(3)}
    ended = (Ended(0, (), executed=3, steps=4), Ended(1, (), failed=True, executed=1, steps=1), Ended(2, ()))
    count = StepsCounted("even", "gpt", calls=4)
    news = News(ended=(*ended, Ended(9, ())), counts=(count,))
    listener.tidings.heard("a", news, pieces)
    assert listener.heard == [
        count,
        JobsCounted("even", 2, failed=0, executed=3, steps=4),
        JobsCounted("odd", 1, failed=1, executed=1, steps=1),
    ], "of 9 nobody knows: it is not its worker's"


def test_a_group_begins_with_its_first_piece() -> None:
    listener = Listener()
    for seq, group in enumerate("aab"):
        listener.tidings.dealt([Piece(seq, group, f"i{seq}", 0, None)])
    assert listener.heard == [GroupBegan("a"), GroupBegan("b")]


def test_a_lane_is_told_once_and_is_all_workers_together() -> None:
    listener = Listener()
    for worker in ("a", "b"):
        listener.tidings.heard(worker, News(lanes=(STATUS,)), {})
    (event,) = listener.heard
    assert isinstance(event, LaneInUse)
    assert event.ask().sent == 20
