"""The journal survives truncation, damage and full disks, and finds what it has."""
# ruff: noqa: ASYNC240

from __future__ import annotations

import asyncio
import errno
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.engine.journal import AppendLog, Journal, read_records
from cts_async.engine.step import step_key
from cts_async.errors import EXIT_RESUMABLE, RunStopped, StepError, StorageFull

Record = dict[str, Any]
Write = Callable[[int, Any], int]


def record(n: int, *, ok: bool = True, response: Any = None) -> Record:
    text = f'an answer, 答案 {n}, with "quotes",\nlines and ✓'
    return {
        "key": step_key("step", n),
        "ok": ok,
        "instance": f"q{n}",
        "step": "answer/1",
        "response": {"text": text, "n": n} if response is None else response,
    }


def line_of(one: Record) -> bytes:
    return orjson.dumps(one) + b"\n"


def file_of(*records: Record) -> bytes:
    return b"".join(map(line_of, records))


def append_all(path: Path, *records: Record, sync: bool = False) -> None:
    async def main() -> None:
        with opened(path, sync=sync) as journal:
            await asyncio.gather(*map(journal.append, records))

    asyncio.run(main())


@contextmanager
def opened(path: Path, *, sync: bool = False) -> Iterator[Journal]:
    journal = Journal(path, sync=sync)
    try:
        yield journal
    finally:
        journal.close()


def found(path: Path, records: list[Record]) -> list[Record | None]:
    with opened(path) as journal:
        return [journal.find(one["key"]) for one in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "steps.jsonl"


@pytest.fixture
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


# --- remembering


async def test_appended_record_is_found_at_once_and_after_reopening(path: Path) -> None:
    larger_than_any_block = record(1, response="長" * 1_500_000)
    records = [record(0), larger_than_any_block, *(record(n) for n in range(2, 5))]

    with opened(path) as journal:
        for one in records:
            assert journal.find(one["key"]) is None
            await journal.append(one)
            assert journal.find(one["key"]) == one
    assert found(path, records) == records
    assert path.read_bytes() == file_of(*records)
    with opened(path) as journal:
        assert (len(journal), journal.report.records) == (5, 5)
        assert (journal.report.damaged_lines, journal.report.torn) == ([], None)


def test_failed_record_is_written_but_not_found(path: Path) -> None:
    failed = record(1, ok=False)

    async def main() -> None:
        with opened(path) as journal:
            await journal.append(record(0))
            await journal.append(failed)
            assert journal.find(failed["key"]) is None

    asyncio.run(main())
    with opened(path) as journal:
        assert journal.find(failed["key"]) is None
        assert (len(journal), journal.report.records, journal.report.damaged_lines) == (1, 2, [])
    append_all(path, record(1))
    assert found(path, [failed]) == [record(1)], "what failed first and then succeeded is found"


async def test_close_writes_pending_lines_and_later_ones_are_refused(path: Path) -> None:
    journal = Journal(path)
    pending = asyncio.create_task(journal.append(record(1)))
    asyncio.get_running_loop().call_soon(journal.close)
    await pending
    assert found(path, [record(1)]) == [record(1)]
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        await asyncio.wait_for(journal.append(record(1)), 5)


# --- torn tails


@pytest.mark.usefixtures("without_fsync")
async def test_journal_truncated_at_any_byte_keeps_every_whole_line(path: Path) -> None:
    records = [record(n, ok=n != 2) for n in range(4)]
    whole = file_of(*records)
    ends = [len(file_of(*records[: n + 1])) for n in range(4)]
    torn = path.with_name("steps.jsonl.torn")

    async def append_last(cut: int) -> None:
        with opened(path) as journal:
            kept = sum(end <= cut for end in ends)
            tail = whole[([0, *ends])[kept] : cut]
            for n, one in enumerate(records):
                there = n < kept and one["ok"]
                assert journal.find(one["key"]) == (one if there else None), (cut, n)
            assert journal.report.damaged_lines == []
            assert journal.report.torn == (torn if tail else None)
            assert (torn.read_bytes() if tail else b"\n") == tail + b"\n"
            await journal.append(record(9))
            assert journal.find(record(9)["key"]) == record(9)
        assert path.read_bytes() == file_of(*records[:kept], record(9))

    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        torn.unlink(missing_ok=True)
        await append_last(cut)


def test_whatever_a_power_cut_leaves_at_the_end_is_set_aside(path: Path) -> None:
    torn = b""
    for tail in (b'{"key":"one', b"\0" * 4096, "答".encode()[:2], b"\xff" * 3_000_000):
        path.write_bytes(file_of(record(0)) + tail)
        assert found(path, [record(0)]) == [record(0)]
        assert path.read_bytes() == file_of(record(0))
        torn += tail + b"\n"
    assert path.with_name("steps.jsonl.torn").read_bytes() == torn


# --- damage in the middle


STORED = [record(n, ok=n != 3) for n in range(6)]
BYTES = file_of(*STORED)
changes = st.tuples(
    st.integers(0, len(BYTES) - 1),
    st.sampled_from([1, 1, 1, 3, 300]),
    st.sampled_from([0, 10, 32, 34, 48, 97, 123, 125, 255]) | st.integers(0, 255),
)


@settings(max_examples=4 * settings.default.max_examples)
@given(st.lists(changes, min_size=1, max_size=6))
def test_random_damage_never_hides_an_intact_record_nor_invents_one(made: list[tuple[int, int, int]]) -> None:
    content = bytearray(BYTES)
    for start, length, value in made:
        end = min(start + length, len(content))
        content[start:end] = bytes([value]) * (end - start)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        path = Path(directory, "steps.jsonl")
        path.write_bytes(content)
        with opened(path) as journal:
            lines = set(path.read_bytes().split(b"\n"))
            start = 0
            for one in STORED:
                end = start + len(line_of(one))
                # Its own bytes and the newline before it are as they were written.
                intact = content[max(0, start - 1) : end] == BYTES[max(0, start - 1) : end]
                remembered = journal.find(one["key"])
                if intact:
                    assert remembered == (one if one["ok"] else None)
                elif remembered is not None:
                    assert remembered["key"] == one["key"]
                    assert remembered in [orjson.loads(line) for line in lines if is_json(line)]
                start = end
            damaged = journal.report.damaged_lines
            assert journal.report.records + len(damaged) == path.read_bytes().count(b"\n")
        torn = path.with_name("steps.jsonl.torn")
        kept = path.read_bytes() + (torn.read_bytes()[:-1] if torn.exists() else b"")
        assert kept == content, "nothing is rewritten or lost"
        append_all(path, record(9))
        assert found(path, [record(9)]) == [record(9)]


def is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


# --- disks that refuse


def disk_with_room_for(room: int, error: int, real_write: Write = os.write) -> Write:
    """A disk that takes `room` more bytes, the last write of them short, and then refuses."""
    left = room

    def write(fd: int, data: Any) -> int:
        nonlocal left
        if not left:
            raise OSError(error, os.strerror(error))
        n = real_write(fd, bytes(data)[:left])
        left -= n
        return n

    return write


async def refusals(journal: Journal, records: list[Record]) -> list[BaseException | None]:
    results = await asyncio.wait_for(asyncio.gather(*map(journal.append, records), return_exceptions=True), 5)
    return [result if isinstance(result, BaseException) else None for result in results]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_refused_write_leaves_whole_lines_and_stops_the_run(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    late = [record(n) for n in (2, 3, 4)]

    async def fill(room: int) -> None:
        with opened(path) as journal:
            await journal.append(record(0))
            await journal.append(record(1))
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", disk_with_room_for(room, error))
                refused = await refusals(journal, late)
                refused += await refusals(journal, late[:1])
            # There would be room again, but this run is over.
            refused += await refusals(journal, late[:1])
            assert [type(one) for one in refused] == [StorageFull] * 5
            assert os.strerror(error) in str(refused[0])
            assert str(path) in str(refused[0])
            assert all(journal.find(one["key"]) is None for one in late)
            assert journal.find(record(1)["key"]) == record(1)
        assert path.read_bytes() == file_of(record(0), record(1))

    async def main() -> None:
        for room in range(0, len(file_of(*late)), 7):
            path.unlink(missing_ok=True)
            await fill(room)

    asyncio.run(main())
    append_all(path, *late)
    assert found(path, late) == late


async def test_a_disk_that_will_not_even_truncate_still_answers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, length: int) -> None:
        raise OSError(errno.EIO, "gone")

    with opened(path) as journal:
        await journal.append(record(0))
        monkeypatch.setattr(os, "write", disk_with_room_for(30, errno.EIO))
        monkeypatch.setattr(os, "ftruncate", refuse)
        assert [type(one) for one in await refusals(journal, [record(1)])] == [StorageFull]
    monkeypatch.undo()
    assert path.read_bytes() == line_of(record(0)) + line_of(record(1))[:30]
    assert found(path, [record(0), record(1)]) == [record(0), None]


async def test_a_real_limit_of_the_operating_system(path: Path) -> None:
    """A file-size limit does what a full disk does: one short write, then a refusal."""
    first = len(line_of(record(0)))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(path) as journal:
        await journal.append(record(0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (first + 50, hard))
        try:
            refused = await refusals(journal, [record(1), record(2)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [type(one) for one in refused] == [StorageFull] * 2
    assert path.read_bytes() == line_of(record(0))


# --- groups, flushes and cancellation


async def test_appends_of_one_turn_of_the_loop_are_one_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    real_write = os.write

    def write(fd: int, data: Any) -> int:
        writes.append(len(data))
        return real_write(fd, data)

    with opened(path) as journal:
        monkeypatch.setattr(os, "write", write)
        for _ in range(2):
            await asyncio.gather(*(journal.append(record(n)) for n in range(100)))
        monkeypatch.undo()
    assert writes == [len(file_of(*map(record, range(100))))] * 2


@pytest.mark.parametrize("sync", [True, False])
def test_with_sync_a_step_is_on_the_disk_before_it_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    happened: list[str] = []

    def fsync(fd: int) -> None:
        happened.append("written" if path.read_bytes().endswith(line_of(record(1))) else "too early")
        time.sleep(0.01)
        happened.append("on disk")

    monkeypatch.setattr(os, "fsync", fsync)
    with opened(path, sync=sync) as journal:
        asyncio.run(journal.append(record(1)))
        happened.append("goes on")
        assert journal.find(record(1)["key"]) == record(1)
    assert happened == [*(["written", "on disk"] if sync else []), "goes on"]


def test_a_group_shares_one_flush(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes: list[bytes] = []

    def fsync(fd: int) -> None:
        flushes.append(path.read_bytes())
        time.sleep(0.01)

    async def one(journal: Journal, n: int) -> None:
        await asyncio.sleep(0.002 * (n % 3))
        await journal.append(record(n))
        assert any(line_of(record(n)) in content for content in flushes)

    async def main() -> None:
        with opened(path, sync=True) as journal:
            await asyncio.gather(*(one(journal, n) for n in range(60)))

    monkeypatch.setattr(os, "fsync", fsync)
    asyncio.run(main())
    assert len(flushes) <= 4, "three moments of arrival, sixty records"


def test_refused_flush_fails_all_waiting_appends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(fd: int) -> None:
        time.sleep(0.01)
        raise OSError(errno.EIO, "Input/output error")

    async def main() -> None:
        with opened(path, sync=True) as journal:
            refused = await refusals(journal, [record(n) for n in range(5)])
            refused += await refusals(journal, [record(9)])
        assert [type(one) for one in refused] == [StorageFull] * 6
        told = "cannot flush to the disk (Input/output error); check the disk and type the same command again"
        assert told in str(refused[0])

    monkeypatch.setattr(os, "fsync", fsync)
    asyncio.run(main())


@pytest.mark.parametrize("sync", [False, True])
async def test_a_cancelled_append_leaves_whole_lines(path: Path, sync: bool) -> None:
    with opened(path, sync=sync) as journal:
        for turns in range(6):
            tasks = [asyncio.create_task(journal.append(record(10 * turns + n))) for n in range(4)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
            assert ended[1::2] == [None, None]
            for n in (1, 3):
                assert journal.find(record(10 * turns + n)["key"]) == record(10 * turns + n)
        await journal.append(record(99))
    with opened(path) as journal:
        assert (journal.report.damaged_lines, journal.report.torn) == ([], None)
        for n in (1, 3, 11, 13, 51, 53, 99):
            assert journal.find(record(n)["key"]) == record(n)


# --- reading a log as such


def test_reading_skips_damage_and_stops_before_a_line_that_is_being_written(path: Path) -> None:
    assert list(read_records(path)) == []
    path.write_bytes(line_of(record(0)) + b"garbage\n[1]\n" + line_of(record(1)) + b'{"key":')
    assert list(read_records(path)) == [record(0), record(1)]


def test_deep_record_counts_as_absent(path: Path) -> None:
    deep = b'{"key":"' + b"c" * 32 + b'","ok":true,"response":' + b"[" * 300 + b"]" * 300 + b"}\n"
    good = b'{"key":"' + b"d" * 32 + b'","ok":true}\n'
    path.write_bytes(deep + good)
    assert [record["key"] for record in read_records(path)] == ["d" * 32]
    journal = Journal(path)
    assert journal.find("c" * 32) is None
    assert journal.find("d" * 32) is not None
    journal.close()


async def test_record_that_could_not_be_read_back_is_refused(path: Path) -> None:
    journal = Journal(path)
    with pytest.raises(StepError, match="the record of this step has 67,1.* bytes, of at most 67,108,864"):
        await journal.append({"key": "e" * 32, "ok": True, "request": "x" * (64 << 20)})
    await journal.append({"key": "f" * 32, "ok": True})
    journal.close()
    assert [record["key"] for record in read_records(path)] == ["f" * 32]


def test_notices_name_damaged_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"garbage\n" * 2 + b'{"key": "torn')
    journal = Journal(path)
    journal.close()
    torn, damaged = journal.report.notices(path)
    assert "steps.jsonl.torn" in torn
    assert "damaged lines: 2" in damaged
    assert "line 1, 2" in damaged


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 5))
def test_kept_keys_are_found_and_forgotten_ones_are_not(numbers: list[int], at_once: int) -> None:
    """Even numbers are kept and odd ones forgotten; the later of two records counts."""

    async def main(path: Path) -> None:
        with opened(path) as journal, pytest.MonkeyPatch.context() as patch:
            patch.setattr("cts_async.engine.journal.INDEXED_AT_ONCE", at_once)
            for i, n in enumerate(numbers):
                key = record(n)["key"]
                await journal.append(record(n, response=i))
                (journal.forget if n % 2 else journal.keep)([key])
            for n in range(13):
                last = [i for i, m in enumerate(numbers) if m == n]
                kept = journal.find(record(n)["key"])
                assert (kept and kept["response"]) == (last[-1] if last and n % 2 == 0 else None)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder, "j.jsonl")))


def test_journal_finds_records_of_its_sibling_journals(tmp_path: Path) -> None:
    append_all(tmp_path / "a.jsonl", record(1))
    append_all(tmp_path / "b.jsonl", record(2))
    with opened(tmp_path / "a.jsonl") as a, opened(tmp_path / "b.jsonl") as b:
        b.siblings = [a]
        assert b.find(record(1)["key"]) == record(1)
        assert b.find(record(2)["key"]) == record(2)
        assert b.raw(record(1)["key"]) == line_of(record(1))[:-1]
        assert a.find(record(2)["key"]) is None
        assert len(b) == 1


# --- lines of other processes


async def append_together(journal: Journal, records: list[Record], keys: list[str | None]) -> None:
    lines = list(map(line_of, records))
    await journal.append_lines(b"".join(lines), list(map(len, lines)), keys)


@pytest.mark.parametrize("sync", [False, True])
async def test_lines_of_other_processes_are_found_unchanged(path: Path, sync: bool) -> None:
    records = [record(0), record(1, ok=False), record(2)]

    with opened(path, sync=sync) as journal:
        await journal.append(record(8))
        await journal.append_lines(b"", [], [])
        await append_together(journal, records, [records[0]["key"], None, records[2]["key"]])
        assert path.read_bytes() == file_of(record(8), *records)
        assert [journal.find(one["key"]) for one in records] == [record(0), None, record(2)]
        assert journal.raw(record(2)["key"]) == line_of(record(2))[:-1]
        assert journal.raw(record(1)["key"]) is None
        journal.forget([record(0)["key"]])
    assert found(path, records) == [record(0), None, record(2)]


async def test_many_lines_of_other_processes_are_held_in_the_index(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cts_async.engine.journal.INDEXED_AT_ONCE", 4)

    with opened(path) as journal:
        for n in range(0, 30, 3):
            batch = [record(m) for m in range(n, n + 3)]
            await append_together(journal, batch, [line["key"] for line in batch])
        assert [journal.find(record(n)["key"]) for n in range(30)] == [record(n) for n in range(30)]
        assert len(journal) == 30
        assert len(journal._recent) < 4


async def test_refused_lines_of_other_processes_leave_none_of_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [record(n) for n in (1, 2)]

    with opened(path) as journal:
        await journal.append(record(0))
        room = len(line_of(late[0])) + 5
        monkeypatch.setattr(os, "write", disk_with_room_for(room, errno.ENOSPC))
        with pytest.raises(StorageFull, match="No space left"):
            await append_together(journal, late, [line["key"] for line in late])
        with pytest.raises(StorageFull):
            await journal.append(late[1])
        assert journal.find(late[0]["key"]) is None
    assert path.read_bytes() == file_of(record(0))


async def test_an_offset_leads_back_to_its_line(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log")
    records = [{"n": n, "text": "長" * 5_000 * n} for n in range(3)]
    offsets = [await log.append(one) for one in records]
    assert [log.read_line(offset) + b"\n" for offset in offsets] == [line_of(one) for one in records]
    log.close()


def test_put_refused_by_the_disk_is_reported_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def at_the_next_put() -> None:
        log = AppendLog(tmp_path / "log")
        await log.put({"n": 1})
        monkeypatch.setattr(os, "write", full)
        await asyncio.sleep(0.01)
        await log.put({"n": 2})

    async def at_the_close() -> None:
        log = AppendLog(tmp_path / "other")
        await log.put({"n": 1})
        log.close()

    for tell in (at_the_next_put, at_the_close):
        with pytest.raises(StorageFull, match="No space left"):
            asyncio.run(tell())


async def test_many_puts_are_written_soon_and_yield_to_other_tasks(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for n in range(2000):
        await log.put({"n": n})
    unwritten = 2000 - len(list(read_records(log.path)))
    task.cancel()
    log.close()
    assert unwritten < 200
    assert turns >= 10
    assert list(read_records(log.path)) == [{"n": n} for n in range(2000)]


# --- the file stays where it is


def deleted(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("aside"))


def replaced(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"another process's\n")


def files_in(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.mark.parametrize("lost", [deleted, moved, replaced])
async def test_nothing_is_appended_to_a_file_that_is_no_longer_there(
    tmp_path: Path, lost: Callable[[Path], None]
) -> None:
    log = AppendLog(tmp_path / "log")
    await log.append({"n": 1})
    lost(log.path)
    before = files_in(tmp_path)
    for _ in range(2):
        with pytest.raises(RunStopped, match="log: was deleted, moved or replaced") as raised:
            await asyncio.wait_for(log.append({"n": 2}), 5)
        assert raised.value.exit_code == EXIT_RESUMABLE
    log.close()
    assert files_in(tmp_path) == before
