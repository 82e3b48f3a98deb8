"""Turns of a worker over a Unix socket: whatever travels arrives, answers come during a turn, and its end is noticed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from cts_async.cluster.channel import Channel, listen
from cts_async.cluster.head import WorkerCrashed, WorkerLost
from cts_async.cluster.limits import Grant
from cts_async.cluster.work import Task
from cts_async.cluster.worker import Replies, Worker, WorkerTurn, WorkerUpdate

ANSWER_BYTES = 3 << 20


class EchoingWorker:
    """Answers a turn with the payloads of its tasks; "wait" ends when the next replies come, "bug" never."""

    def __init__(self) -> None:
        self.replies: list[Replies] = []
        self.given = asyncio.Event()

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate:
        payloads = [task.payload for task in turn.tasks]
        if payloads == ["bug"]:
            raise ZeroDivisionError("a bug")
        if payloads == ["wait"]:
            await self.given.wait()
        return WorkerUpdate(7, requests=tuple(enumerate(payloads)))

    def give(self, replies: Replies) -> None:
        self.replies.append(replies)
        self.given.set()


def turn_with(*payloads: object) -> WorkerTurn:
    tasks = [Task(seq, "g", f"i{seq}", 0, payload) for seq, payload in enumerate(payloads)]
    return WorkerTurn(Replies(1, {}), tuple(tasks))


def over_a_socket(
    test: Callable[[EchoingWorker, Channel, asyncio.Server], Coroutine[Any, Any, None]],
) -> None:
    async def run() -> None:
        worker = EchoingWorker()
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            path = Path(folder, "w1")
            async with asyncio.timeout(20):
                server = await listen(path, cast(Worker, worker))
                channel = await Channel.connected(path)
                await test(worker, channel, server)
                channel.close()
            server.close()

    uvloop.run(run())  # as the head has it
    asyncio.run(run())


def test_turns_arrive_whole_one_after_the_other() -> None:
    async def test(worker: EchoingWorker, channel: Channel, server: asyncio.Server) -> None:
        for payloads in [("a", b"\0\xff"), (), ("x" * ANSWER_BYTES,)]:
            update = await channel.turn(turn_with(*payloads))
            assert update == WorkerUpdate(7, requests=tuple(enumerate(payloads)))

    over_a_socket(test)


def test_replies_arrive_during_a_turn() -> None:
    async def test(worker: EchoingWorker, channel: Channel, server: asyncio.Server) -> None:
        turn = asyncio.create_task(channel.turn(turn_with("wait")))
        await asyncio.sleep(0)
        replies = Replies(3, {5: None}, (Grant(0.25, 0.5, False, False, [1, 2]),))
        channel.give(replies)
        await turn
        assert worker.replies == [replies]

    over_a_socket(test)


def test_bug_in_a_worker_is_told_with_its_traceback() -> None:
    async def test(worker: EchoingWorker, channel: Channel, server: asyncio.Server) -> None:
        with pytest.raises(WorkerCrashed, match="test_channel.py(.|\n)*ZeroDivisionError: a bug"):
            await channel.turn(turn_with("bug"))

    over_a_socket(test)


def test_worker_that_is_gone_is_lost() -> None:
    async def test(worker: EchoingWorker, channel: Channel, server: asyncio.Server) -> None:
        turn = asyncio.create_task(channel.turn(turn_with("wait")))
        await asyncio.sleep(0.05)
        for serving in asyncio.all_tasks() - {turn, asyncio.current_task()}:
            serving.cancel()  # as if its process ended: its end of the socket is closed
        with pytest.raises(WorkerLost, match="its process died"):
            await turn
        for _ in range(3):
            channel.give(Replies(3, {}))
            with pytest.raises(WorkerLost, match="its process died"):
                await channel.turn(turn_with())
            await asyncio.sleep(0.01)
        channel.close()
        channel.give(Replies(3, {}))

    over_a_socket(test)


def test_worker_without_a_socket_is_lost(tmp_path: Path) -> None:
    with pytest.raises(WorkerLost, match=r"its socket cannot be opened \(No such file or directory\)"):
        asyncio.run(Channel.connected(tmp_path / "w1"))
