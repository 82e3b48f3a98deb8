"""A worker's pieces: begun in the order they came, told once they have ended, left where a group is held up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual_time import run_virtual

from cts_async.cluster.hand import Hand
from cts_async.cluster.messages import Ended, Line, Piece
from cts_async.cluster.trades import Done
from cts_async.engine.runner import Job
from cts_async.errors import ProviderDown


def piece(seq: int, group: str = "g", stream: int = 0) -> Piece:
    return Piece(seq, group, f"i{seq}", 0, None, stream=stream)


class Held:
    """A hand whose jobs end when a test says so."""

    def __init__(self, streams: int = 1) -> None:
        self.woken = 0
        self.dones: dict[int, Done] = {}
        self.hand = Hand(streams, self._job, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def _job(self, piece: Piece, done: Done) -> Job:
        self.dones[piece.seq] = done

        async def walk(ctx: Any) -> None:
            raise ProviderDown("gone")

        async def finish(ended: Any) -> None:
            return

        journal: Any = None
        return Job(piece.group, piece.id, journal, walk, finish)

    async def begin(self, stream: int = 0) -> tuple[int, Job]:
        numbered = await self.hand.feeds[stream].next()
        assert numbered is not None
        return numbered

    def end(self, seq: int, *sizes: int) -> None:
        lines = tuple(Line(0, None, b"x" * size) for size in sizes)
        self.dones[seq](lines, False)


def test_pieces_are_begun_in_order_and_each_stream_has_its_own() -> None:
    async def main() -> None:
        held = Held(2)
        held.hand.take([piece(0), piece(1), piece(2, stream=1)])
        assert [(await held.begin())[0] for _ in range(2)] == [0, 1]
        assert (await held.begin(1))[0] == 2
        assert len(held.hand) == 3

    run_virtual(main)


def test_who_waits_for_a_piece_gets_the_next_and_none_when_all_is_dealt() -> None:
    async def main() -> None:
        held = Held()
        waiting = [asyncio.ensure_future(held.hand.feeds[0].next()) for _ in range(3)]
        await asyncio.sleep(0)
        held.hand.take([piece(0)])
        await asyncio.sleep(0)
        held.hand.close()
        begun = [numbered and numbered[0] for numbered in await asyncio.gather(*waiting)]
        assert begun == [0, None, None]

    run_virtual(main)


def test_a_piece_whose_waiter_has_gone_goes_to_the_next() -> None:
    async def main() -> None:
        held = Held()
        first, second = (asyncio.ensure_future(held.hand.feeds[0].next()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        held.hand.take([piece(0), piece(1)])
        numbered = await second
        assert numbered is not None
        assert numbered[0] == 0

    run_virtual(main)


def test_it_wakes_when_little_is_left_and_when_nothing_is() -> None:
    """Of six, half is three: with two left, then once more with none to do at all."""

    async def main() -> None:
        held = Held()
        held.hand.take([piece(seq) for seq in range(6)])
        woken = []
        for _ in range(6):
            await held.begin()
            woken.append(held.woken)
        assert woken == [0, 0, 0, 1, 1, 1]
        for seq in range(6):
            held.end(seq)
        assert held.woken == 2

    run_virtual(main)


def test_ended_pieces_are_given_in_portions_that_hold_at_least_one() -> None:
    async def main() -> None:
        held = Held()
        held.hand.take([piece(seq) for seq in range(4)])
        for seq, size in enumerate((5, 5, 100, 5)):
            await held.begin()
            held.end(seq, size)
        taken = []
        while held.hand.untold:
            taken.append([ended.seq for ended in held.hand.ended(10)])
        assert taken == [[0, 1], [2], [3]]
        assert held.hand.ended(10) == []

    run_virtual(main)


def test_what_a_job_did_is_told_with_its_end() -> None:
    async def main() -> None:
        held = Held()
        held.hand.take([piece(7)])
        await held.begin()
        held.end(7, 3)
        assert held.hand.ended(10) == [Ended(7, (Line(0, None, b"xxx"),))]

    run_virtual(main)


def test_a_group_that_is_held_up_is_left_and_others_go_on() -> None:
    async def main() -> None:
        held = Held()
        held.hand.take([piece(0, "a"), piece(1, "b"), piece(2, "a")])
        _, job = await held.begin()
        held.hand.drop("a")
        with pytest.raises(ProviderDown):
            await job.walk(None)  # type: ignore[arg-type]
        held.hand.take([piece(3, "a"), piece(4, "b")])
        assert sorted(held.hand.left()) == [0, 2, 3]
        assert held.hand.left() == ()
        assert [(await held.begin())[0] for _ in range(2)] == [1, 4]

    run_virtual(main)


def test_a_stop_begins_nothing_more_and_leaves_nothing_out() -> None:
    """What was not begun is dealt again to others, or in the next session."""

    async def main() -> None:
        held = Held()
        held.hand.take([piece(0), piece(1)])
        await held.begin()
        held.hand.stop()
        assert await held.hand.feeds[0].next() is None
        assert len(held.hand) == 1
        assert held.hand.left() == ()

    run_virtual(main)
