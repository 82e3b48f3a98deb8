"""A worker as the head knows it, from its first word to its last."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import run_virtual

from cts_async.cluster.members import Member
from cts_async.cluster.messages import Begun, News
from cts_async.engine.events import StepsCounted
from cts_async.engine.worker_status import WorkerStatus


def test_a_worker_is_what_it_said_last() -> None:
    async def main() -> None:
        member = Member("w1")
        assert member.status() == WorkerStatus("w1", "", 0, "starting")
        member.began(Begun("here", 7, "1.0", in_flight=4, streamed=True))
        assert member.in_flight == 4
        assert member.status() == WorkerStatus("w1", "here", 7, "idle", streamed=True)
        counts = (StepsCounted("g", "gpt", calls=3), StepsCounted("g", "", calls=5))
        member.heard(News(in_hand=2, counts=counts, asked=((0, "x"),)))
        assert member.asked == [(0, "x")]
        await asyncio.sleep(2.0)
        status = member.status()
        assert (status.state, status.in_hand, status.calls) == ("working", 2, 3)
        assert status.heard_s == pytest.approx(2.0)

    run_virtual(main)


def test_a_worker_that_has_gone_is_gone_since_then() -> None:
    async def main() -> None:
        lost, ended = Member("w1"), Member("w2")
        lost.heard(News(in_hand=2))
        lost.lost("killed")
        ended.over()
        assert lost.gone_s is None, "it may still send"
        lost.gone()
        await asyncio.sleep(3.0)
        assert lost.gone_s == pytest.approx(3.0)
        assert (lost.status().state, lost.status().note, lost.status().in_hand) == ("lost", "killed", 0)
        assert ended.status().state == "ended"

    run_virtual(main)
