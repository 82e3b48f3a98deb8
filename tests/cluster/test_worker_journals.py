"""A worker's steps are in its shard, or with its head, before anybody goes on; and its jobs find what they share."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run_virtual

from cts_async.cluster.messages import Shard
from cts_async.cluster.worker_journals import Outbox, ShardJournal, SharedMemory, StreamedJournal
from cts_async.engine.journal import read_jsonl
from cts_async.engine.shards import SHARDS, recovered, shards_of
from cts_async.engine.step import step_key
from cts_async.errors import Interrupted, RunLocked, RunStopped, StorageFull

Record = dict[str, Any]


def record(n: int, *, ok: bool = True, text: str = "答案") -> Record:
    return {"key": key(n), "ok": ok, "instance": f"q{n}", "response": text}


def key(n: int) -> str:
    return step_key("step", n)


def line(n: int) -> bytes:
    return orjson.dumps(record(n)) + b"\n"


def sharded(directory: Path, memory: SharedMemory | None = None, *, sync: bool = False) -> ShardJournal:
    return ShardJournal(directory, "w1", 3, sync=sync, memory=memory or SharedMemory())


def in_shard(directory: Path, n: int) -> list[Record]:
    return list(read_jsonl(directory / SHARDS / f"w1-{n}.jsonl"))


# --- shards


def test_a_step_is_in_a_shard_before_its_job_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        journal = sharded(tmp_path)
        assert journal.find(key(1)) is None
        await journal.append(record(1))
        assert in_shard(tmp_path, 1) == [record(1)]
        assert journal.find(key(1)) == record(1)
        journal.forget([key(1)])
        assert journal.find(key(1)) is None
        assert journal.close() == [Shard(3, "w1-1.jsonl")]
        assert journal.close() == []

    asyncio.run(main())


def test_who_did_nothing_leaves_no_shard(tmp_path: Path) -> None:
    journal = sharded(tmp_path)
    assert journal.turn_over(1e9) == []
    assert journal.close() == []
    assert list(tmp_path.iterdir()) == []


def test_a_shard_is_turned_over_when_it_is_old(tmp_path: Path) -> None:
    async def main() -> None:
        journal = sharded(tmp_path)
        await asyncio.sleep(100)
        await journal.append(record(1))
        assert journal.turn_over(109.9) == []
        assert journal.turn_over(110.1) == [Shard(3, "w1-1.jsonl")]
        assert journal.turn_over(130) == []
        await journal.append(record(2))
        assert journal.close() == [Shard(3, "w1-2.jsonl")]

    run_virtual(main)
    assert (in_shard(tmp_path, 1), in_shard(tmp_path, 2)) == ([record(1)], [record(2)])


def test_a_shard_is_turned_over_when_it_is_large(tmp_path: Path) -> None:
    async def main() -> None:
        journal = sharded(tmp_path)
        await journal.append(record(1, text="x" * 7_000_000))
        assert journal.turn_over(0.1) == []
        await journal.append(record(2, text="x" * 1_000_000))
        assert journal.turn_over(0.1) == [Shard(3, "w1-1.jsonl")]

    run_virtual(main)


@pytest.mark.parametrize("sync", [False, True])
def test_a_shard_that_somebody_still_writes_is_closed_a_turn_later(tmp_path: Path, sync: bool) -> None:
    async def main() -> None:
        journal = sharded(tmp_path, sync=sync)
        writing = asyncio.create_task(journal.append(record(1)))
        await asyncio.sleep(0)
        assert journal.turn_over(1e9) == []
        await writing
        assert journal.turn_over(1e9) == [Shard(3, "w1-1.jsonl")]
        assert in_shard(tmp_path, 1) == [record(1)]

    asyncio.run(main())


def test_closing_writes_what_a_cancelled_job_has_paid_for(tmp_path: Path) -> None:
    async def main() -> None:
        journal = sharded(tmp_path)
        writing = asyncio.create_task(journal.append(record(1)))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert journal.close() == [Shard(3, "w1-1.jsonl")]

    asyncio.run(main())
    assert in_shard(tmp_path, 1) == [record(1)]


def test_nobody_merges_a_shard_that_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        journal = sharded(tmp_path)
        await journal.append(record(1))
        with pytest.raises(RunLocked, match=r"w1-1\.jsonl"):
            recovered(tmp_path / "steps.jsonl")
        journal.turn_over(1e9)
        merged = recovered(tmp_path / "steps.jsonl")
        assert merged.find(key(1)) == record(1)
        merged.close()
        await journal.append(record(2))
        journal.close()

    asyncio.run(main())
    assert [one.name for one in shards_of(tmp_path / "steps.jsonl")] == ["w1-2.jsonl"]


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / SHARDS).mkdir()
    (tmp_path / SHARDS / "w1-1.jsonl").write_bytes(line(7))

    async def main() -> None:
        journal = sharded(tmp_path)
        await journal.append(record(1))
        assert journal.close() == [Shard(3, "w1-2.jsonl")]

    asyncio.run(main())
    assert in_shard(tmp_path, 1) == [record(7)]


def test_a_new_shard_that_was_taken_for_a_dead_workers_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a file and locking it, a head may see it unlocked and empty."""
    heads = iter([True])
    flock = fcntl.flock

    def late(fd: int, how: int) -> None:
        if next(heads, False):
            recovered(tmp_path / "steps.jsonl").close()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)

    async def main() -> None:
        journal = sharded(tmp_path)
        await journal.append(record(1))
        assert journal.close() == [Shard(3, "w1-2.jsonl")]

    asyncio.run(main())
    assert in_shard(tmp_path, 2) == [record(1)]


def test_a_full_disk_stops_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        journal = sharded(tmp_path)
        await journal.append(record(1))
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StorageFull, match=r"w1-1\.jsonl"):
            await journal.append(record(2))
        assert journal.find(key(2)) is None
        assert journal.close() == [Shard(3, "w1-1.jsonl")]

    asyncio.run(main())
    assert in_shard(tmp_path, 1) == [record(1)]


def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"gone/shards/w1-1\.jsonl: cannot write"):
        asyncio.run(sharded(tmp_path / "gone").append(record(1)))


def test_what_stands_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / SHARDS).touch()
    with pytest.raises(RunStopped, match=r"shards/w1-1\.jsonl: cannot write \(Not a directory\)"):
        asyncio.run(sharded(tmp_path).append(record(1)))


# --- streaming


def until_kept(test: Callable[[Outbox, StreamedJournal], Awaitable[None]]) -> None:
    async def main() -> None:
        outbox = Outbox()
        await test(outbox, StreamedJournal(5, outbox, SharedMemory()))

    run_virtual(main)


def test_a_streamed_step_is_done_when_the_head_has_it() -> None:
    async def test(outbox: Outbox, journal: StreamedJournal) -> None:
        first, second = (asyncio.create_task(journal.append(record(n))) for n in (1, 2))
        await asyncio.sleep(1)
        assert len(outbox) == 2
        assert outbox.take(10_000) == [(5, line(1)), (5, line(2))]
        assert len(outbox) == 0
        outbox.kept(1)
        await asyncio.sleep(1)
        assert (first.done(), second.done()) == (True, False)
        assert (journal.find(key(1)), journal.find(key(2))) == (record(1), None)
        outbox.kept(2)
        await second
        assert journal.find(key(2)) == record(2)

    until_kept(test)


def test_as_many_records_are_taken_as_there_is_room_for_and_one_at_least() -> None:
    async def test(outbox: Outbox, journal: StreamedJournal) -> None:
        tasks = [asyncio.create_task(journal.append(record(n))) for n in (1, 2, 3)]
        await asyncio.sleep(1)
        assert outbox.take(1) == [(5, line(1))]
        assert outbox.take(2 * len(line(1))) == [(5, line(2)), (5, line(3))]
        assert outbox.take(1) == []
        outbox.kept(3)
        await asyncio.gather(*tasks)

    until_kept(test)


def test_what_a_cancelled_job_has_paid_for_is_streamed_all_the_same() -> None:
    async def test(outbox: Outbox, journal: StreamedJournal) -> None:
        first, second = (asyncio.create_task(journal.append(record(n))) for n in (1, 2))
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        assert outbox.take(10_000) == [(5, line(1)), (5, line(2))]
        outbox.kept(2)
        await second
        assert first.cancelled()

    until_kept(test)


def test_a_lost_head_is_told_to_all_who_wait_for_it() -> None:
    async def test(outbox: Outbox, journal: StreamedJournal) -> None:
        tasks = [asyncio.create_task(journal.append(record(n))) for n in (1, 2)]
        await asyncio.sleep(1)
        outbox.kept(1)
        outbox.lose(Interrupted("the head is gone"))
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in ended] == [type(None), Interrupted]
        with pytest.raises(Interrupted, match="gone"):
            await journal.append(record(3))

    until_kept(test)


def test_the_outbox_wakes_whoever_empties_it() -> None:
    async def main() -> None:
        woken = asyncio.Event()
        outbox = Outbox(woken.set)
        task = asyncio.create_task(outbox.deliver(0, line(1)))
        await asyncio.wait_for(woken.wait(), 1)
        outbox.kept(len(outbox.take(100)))
        await task

    run_virtual(main)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(["append", "take", "keep", "cancel"]), max_size=40), st.integers(1, 300))
def test_every_record_is_streamed_once_in_order_and_awaited_until_it_is_kept(
    doings: list[str], room: int
) -> None:
    async def test(outbox: Outbox, journal: StreamedJournal) -> None:
        tasks: list[asyncio.Task[None]] = []
        taken: list[bytes] = []
        kept = 0
        for doing in [*doings, "take", "keep"]:
            if doing == "append":
                tasks.append(asyncio.create_task(journal.append(record(len(tasks)))))
            elif doing == "cancel" and tasks:
                tasks[len(tasks) // 2].cancel()
            elif doing == "take":
                taken += [data for _, data in outbox.take(room)]
            elif doing == "keep":
                kept = len(taken)
                outbox.kept(kept)
            await asyncio.sleep(1)
            assert all(not task.done() or task.cancelled() for task in tasks[kept:])
            assert all(task.done() for task in tasks[:kept])
        while outbox:
            taken += [data for _, data in outbox.take(room)]
        assert taken == [line(n) for n in range(len(tasks))]
        outbox.kept(len(taken))
        await asyncio.gather(*tasks, return_exceptions=True)

    until_kept(test)


# --- memory


def test_the_steps_of_different_journals_are_different_steps() -> None:
    memory = SharedMemory()
    memory.add(1, key(1), line(1))
    assert (memory.find(1, key(1)), memory.find(2, key(1))) == (record(1), None)
    memory.forget(2, [key(1)])
    assert memory.find(1, key(1)) == record(1)


def test_journals_beside_each_other_share_their_steps(tmp_path: Path) -> None:
    async def main() -> None:
        memory = SharedMemory(beside=True)
        one, other = sharded(tmp_path, memory), StreamedJournal(9, Outbox(), memory)
        await one.append(record(1))
        one.keep([key(1)])
        assert other.find(key(1)) == record(1)
        one.close()

    asyncio.run(main())


def test_a_failed_step_is_written_and_not_found(tmp_path: Path) -> None:
    async def main() -> None:
        journal = sharded(tmp_path)
        await journal.append(record(1, ok=False))
        assert journal.find(key(1)) is None
        journal.close()

    asyncio.run(main())
    assert in_shard(tmp_path, 1) == [record(1, ok=False)]


def test_of_what_is_kept_the_longest_unused_goes_first() -> None:
    memory = SharedMemory(most_bytes=2 * len(line(1)))
    for n in (1, 2):
        memory.add(0, key(n), line(n))
        memory.keep(0, [key(n)])
    assert memory.find(0, key(1)) == record(1)
    memory.add(0, key(3), line(3))
    memory.keep(0, [key(3)])
    assert [memory.find(0, key(n)) for n in (1, 2, 3)] == [record(1), None, record(3)]


def test_what_is_kept_twice_takes_its_room_once() -> None:
    memory = SharedMemory(most_bytes=len(line(1)))
    for _ in range(3):
        memory.add(0, key(1), line(1))
        memory.keep(0, [key(1)])
        assert memory.find(0, key(1)) == record(1)
    memory.keep(0, [key(9)])
    assert memory.find(0, key(1)) == record(1)


def test_jobs_under_way_find_their_steps_whatever_room_there_is() -> None:
    memory = SharedMemory(most_bytes=0)
    for n in (1, 2):
        memory.add(0, key(n), line(n))
    assert [memory.find(0, key(n)) for n in (1, 2)] == [record(1), record(2)]
