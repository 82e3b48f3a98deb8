"""What lies in shards comes into the journal exactly once: through crashes at any instant, damage and full disks."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run_virtual

from cts_async.engine.events import Event, Events, Notice
from cts_async.engine.journal import Journal
from cts_async.engine.run_dir import locked
from cts_async.engine.shards import (
    PROBE,
    SHARDS,
    merge,
    merge_all,
    recovered,
    shards_of,
    unmerged,
    until_free,
)
from cts_async.engine.step import step_key
from cts_async.errors import RunLocked, StorageFull

SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None
Files = dict[str, bytes]


def key(n: int) -> str:
    return step_key("step", n)


def record(n: int) -> dict[str, Any]:
    return {"key": key(n), "ok": True, "instance": f"q{n}", "step": "answer/1", "response": f"答案 {n}"}


def lines(*numbers: int) -> bytes:
    return b"".join(orjson.dumps(record(n)) + b"\n" for n in numbers)


def numbers_in(path: Path) -> list[int]:
    return [int(orjson.loads(line)["instance"][1:]) for line in path.read_bytes().splitlines()]


def world(directory: Path, files: Files) -> Path:
    """A run's directory with these files in it; the path of its journal."""
    (directory / SHARDS).mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory / "steps.jsonl"


def shard(path: Path, name: str) -> Path:
    return path.parent / SHARDS / name


@contextmanager
def opened(path: Path, open: Callable[..., Journal] = recovered) -> Iterator[Journal]:
    journal = open(path)
    try:
        yield journal
    finally:
        journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return world(tmp_path / "run", {"steps.jsonl": lines(0, 1)})


# --- merging


def test_what_was_in_a_shard_is_found_at_once_and_by_the_next_process(path: Path) -> None:
    one = shard(path, "w1-1.jsonl")
    one.write_bytes(lines(2, 3))
    with opened(path, Journal) as journal:
        assert merge(journal, one) == 2
        assert [journal.find(key(n)) for n in range(4)] == [record(n) for n in range(4)]
        assert journal.raw(key(3)) == lines(3)[:-1]
        assert (len(journal), journal.report.records) == (4, 4)
        assert not one.exists()
    with opened(path) as journal:
        assert [journal.find(key(n)) for n in range(4)] == [record(n) for n in range(4)]
    assert path.read_bytes() == lines(0, 1, 2, 3)


def test_a_merge_comes_after_what_is_just_being_appended(path: Path) -> None:
    one = shard(path, "w1-1.jsonl")
    one.write_bytes(lines(2))

    async def main() -> None:
        with opened(path, Journal) as journal:
            appended = asyncio.create_task(journal.append(record(7)))
            await asyncio.sleep(0)
            merge(journal, one)
            await appended
            await journal.append(record(8))
            assert [journal.find(key(n)) for n in (7, 2, 8)] == [record(n) for n in (7, 2, 8)]

    asyncio.run(main())
    assert path.read_bytes() == lines(0, 1, 7, 2, 8)


def test_a_shard_that_is_gone_has_been_merged(path: Path) -> None:
    with opened(path, Journal) as journal:
        assert merge(journal, shard(path, "w1-1.jsonl")) == 0


def test_an_empty_shard_is_removed(path: Path) -> None:
    shard(path, "w1-1.jsonl").touch()
    with opened(path):
        assert not (path.parent / SHARDS).exists()
    assert path.read_bytes() == lines(0, 1)


def test_shards_come_in_the_order_in_which_they_were_written(path: Path) -> None:
    names = ("w2-1.jsonl", "w1-9.jsonl", "w1-10.jsonl", "w10-1.jsonl")
    for second, name in enumerate(names):
        shard(path, name).write_bytes(lines(10 + second))
        os.utime(shard(path, name), (second // 2, second // 2))
    assert [one.name for one in shards_of(path)] == ["w2-1.jsonl", "w1-9.jsonl", "w10-1.jsonl", "w1-10.jsonl"]
    assert [one.name for one in shards_of(path, "w1")] == ["w1-9.jsonl", "w1-10.jsonl"]
    assert unmerged(path) == 4


def test_the_token_of_a_killed_head_is_removed(tmp_path: Path) -> None:
    (tmp_path / PROBE).write_text("token")
    recovered(tmp_path / "steps.jsonl").close()
    assert not (tmp_path / PROBE).exists()


def test_a_run_without_shards_is_opened_as_ever(tmp_path: Path) -> None:
    with opened(tmp_path / "steps.jsonl") as journal:
        merge_all(journal)
        assert len(journal) == 0
    assert os.listdir(tmp_path) == ["steps.jsonl"]


def test_a_shard_cut_at_any_byte_keeps_every_whole_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    whole = lines(2, 3)
    for cut in range(len(whole) + 1):
        name = f"shards/w-{cut}.jsonl"
        path = world(tmp_path / str(cut), {"steps.jsonl": lines(0), name: whole[:cut]})
        kept = whole[: whole[:cut].rfind(b"\n") + 1]
        torn = path.with_name("steps.jsonl.torn")
        with opened(path) as journal:
            assert path.read_bytes() == lines(0) + kept
            assert journal.report.torn == (torn if cut > len(kept) else None)
        if cut > len(kept):
            assert torn.read_bytes() == whole[len(kept) : cut] + b"\n"


damage = st.sampled_from(
    [b"garbage\n", b"\0" * 40 + b"\n", b'{"key":17,"ok":true}\n', b"\n", b'{"ok":true}\n']
)
part = st.tuples(
    st.lists(st.none() | damage, max_size=6), st.sampled_from([b"", b'{"key":"', "答".encode()[:2]])
)


@settings(max_examples=80, deadline=None)
@given(part, st.lists(part, max_size=4), st.booleans())
def test_a_journal_and_its_shards_become_exactly_their_union(
    first: tuple[list[bytes | None], bytes], rest: list[tuple[list[bytes | None], bytes]], live: bool
) -> None:
    """Intact lines are found, damaged ones stay and are reported with their numbers, torn ones are set aside."""
    files: Files = {}
    expected, n = b"", 0
    for number, (parts, torn) in enumerate([first, *rest]):
        content = b""
        for damaged in parts:
            content += lines(n) if damaged is None else damaged
            n += damaged is None
        files[f"shards/w-{number}.jsonl" if number else "steps.jsonl"] = content + torn
        expected += content
    with tempfile.TemporaryDirectory(dir=SHM) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        path = world(Path(folder, "run"), files)
        for number in range(1, len(rest) + 1):
            os.utime(shard(path, f"w-{number}.jsonl"), (0, 0))
        with opened(path, Journal if live else recovered) as journal:
            merge_all(journal)
            assert path.read_bytes() == expected
            assert [journal.find(key(i)) for i in range(n)] == [record(i) for i in range(n)]
            assert (len(journal), journal.report.records) == (n, n)
            damaged_lines = [
                i for i, line in enumerate(expected.splitlines(), 1) if not line.startswith(b'{"key":"')
            ]
            assert journal.report.damaged_lines == damaged_lines
        assert os.listdir(path.parent / SHARDS) == [] if (path.parent / SHARDS).exists() else True


def test_many_small_shards_are_all_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    with opened(path, Journal) as journal:
        for n in range(2, 70):
            shard(path, f"w-{n}.jsonl").write_bytes(lines(n))
            merge(journal, shard(path, f"w-{n}.jsonl"))
        assert [journal.find(key(n)) for n in range(70)] == [record(n) for n in range(70)]
        assert len(journal) == 70


def test_of_two_records_of_a_step_the_one_merged_later_counts(path: Path) -> None:
    other = {**record(1), "response": "later"}
    shard(path, "w-1.jsonl").write_bytes(orjson.dumps(other) + b"\n")
    with opened(path) as journal:
        assert journal.find(key(1)) == other


# --- crashes


CALLS = ("rename", "unlink", "fsync", "copy_file_range", "pwrite", "rmdir")


@contextmanager
def watched(directory: Path, step: int) -> Iterator[list[Files]]:
    """What a crash would leave: the files before and after each call that changes them, copies in small pieces."""
    states: list[Files] = []

    def look() -> None:
        found = {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*.jsonl*")}
        if not states or states[-1] != found:
            states.append(found)

    def around(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            look()
            if name == "copy_file_range":
                args = (*args[:2], min(step, args[2]), *args[3:])
            done = None if name == "fsync" else real(*args, **more)
            look()
            return done

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, around(name, getattr(os, name)))
        look()
        yield states
        look()


def states_of(files: Files, step: int) -> list[Files]:
    """Every state that opening a run of these files goes through."""
    with tempfile.TemporaryDirectory(dir=SHM) as folder:
        path = world(Path(folder, "run"), files)
        with watched(path.parent, step) as states, opened(path):
            pass
    return states


def steps_after(files: Files) -> Counter[int]:
    with tempfile.TemporaryDirectory(dir=SHM) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        path = world(Path(folder, "run"), files)
        with opened(path) as journal:
            assert journal.report.damaged_lines == []
            assert unmerged(path) == 0
        return Counter(numbers_in(path))


LEFT = {
    "steps.jsonl": lines(0, 1),
    "shards/w1-1.jsonl": lines(2, 3),
    "shards/w2-1.jsonl": lines(4, 5) + b'{"key":"torn',
}
ONCE = Counter(range(6))


def test_a_crash_at_any_byte_of_a_merge_loses_nothing_and_doubles_nothing() -> None:
    states = states_of(LEFT, step=1)
    assert len(states) > len(lines(2, 3, 4, 5)), "each byte that is copied is a state"
    for state in states:
        assert steps_after(state) == ONCE


def test_so_does_a_second_crash_while_the_first_is_made_good() -> None:
    again = [state for first in states_of(LEFT, step=50) for state in states_of(first, step=50)]
    assert len(again) > 100
    for state in again:
        assert steps_after(state) == ONCE


def test_a_power_cut_that_undoes_a_removal_keeps_what_was_appended_since() -> None:
    marked = f"shards/w1-1.jsonl.at-{len(lines(0, 1))}"
    assert steps_after({"steps.jsonl": lines(0, 1, 2, 3, 4, 5), marked: lines(2, 3)}) == ONCE


def test_a_power_cut_that_undoes_the_journals_end_merges_again() -> None:
    marked = f"shards/w1-1.jsonl.at-{len(lines(0, 1, 2))}"
    assert steps_after({"steps.jsonl": lines(0, 1), marked: lines(2, 3, 4, 5)}) == ONCE


def test_a_copy_that_a_power_cut_garbled_is_left_and_done_again(tmp_path: Path) -> None:
    zeros = b"\0" * 30 + b"\n"
    marked = f"shards/w1-1.jsonl.at-{len(lines(0))}"
    path = world(tmp_path / "run", {"steps.jsonl": lines(0) + zeros, marked: lines(1, 2)})
    with opened(path) as journal:
        assert journal.report.damaged_lines == [2]
        assert journal.find(key(2)) == record(2)
    assert path.read_bytes() == lines(0) + zeros + lines(1, 2)


def test_with_sync_each_move_is_on_the_disk_before_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            where = Path(os.readlink(f"/proc/self/fd/{args[0]}")).name if name == "fsync" else ""
            done.append(f"{name} {where}".strip())
            return real(*args, **more)

        return call

    shard(path, "w-1.jsonl").write_bytes(lines(2))
    journal = Journal(path, sync=True)
    for name in CALLS:
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    merge(journal, shard(path, "w-1.jsonl"))
    journal.close()
    assert done == [
        "rename",
        "fsync shards",
        "copy_file_range",
        "fsync steps.jsonl",
        "unlink",
        "fsync shards",
    ]


# --- copying


@pytest.mark.parametrize("copied", [0, 33])
def test_where_the_kernel_cannot_copy_or_breaks_off_it_is_done_by_hand(
    path: Path, monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    real, calls = os.copy_file_range, 0

    def copy(source: int, target: int, size: int, *places: int) -> int:
        nonlocal calls
        calls += 1
        if calls > (copied > 0):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return real(source, target, copied, *places)

    monkeypatch.setattr(os, "copy_file_range", copy)
    shard(path, "w-1.jsonl").write_bytes(lines(2, 3))
    with opened(path) as journal:
        assert journal.find(key(3)) == record(3)
    assert path.read_bytes() == lines(0, 1, 2, 3)


@pytest.mark.parametrize("truncates", [True, False])
def test_a_full_disk_leaves_journal_and_shard_and_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncates: bool
) -> None:
    refused = OSError(errno.ENOSPC, "No space left on device")

    def full(*_: object) -> int:
        raise refused

    def fill(path: Path, room: int) -> None:
        left, real = room, os.copy_file_range

        def copy(source: int, target: int, size: int, *places: int) -> int:
            nonlocal left
            if not left:
                raise refused
            n = real(source, target, min(size, left), *places)
            left -= n
            return n

        journal = Journal(path)
        with monkeypatch.context() as patched:
            patched.setattr(os, "copy_file_range", copy)
            patched.setattr(os, "pwrite", full)
            if not truncates:
                patched.setattr(os, "ftruncate", full)
            with pytest.raises(StorageFull, match="No space left"):
                merge(journal, shard(path, "w-1.jsonl"))
        assert path.read_bytes() == lines(0) + (b"" if truncates else lines(1, 2)[:room])
        assert journal.find(key(1)) is None
        with pytest.raises(StorageFull):
            asyncio.run(journal.append(record(9)))
        journal.close()

    for room in range(0, len(lines(1, 2)), 11):
        path = world(tmp_path / str(room), {"steps.jsonl": lines(0), "shards/w-1.jsonl": lines(1, 2)})
        fill(path, room)
        assert unmerged(path) == 1
        with opened(path) as journal:
            assert (len(journal), journal.report.torn) == (3, None)
        assert path.read_bytes() == lines(0, 1, 2)


# --- workers that still write


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the shard until its input ends."""
    code = "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True)"
    command = [sys.executable, "-S", "-c", f"{code}; sys.stdin.read()", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_shard_that_is_being_written_is_named_and_the_others_are_merged(path: Path) -> None:
    held, free = shard(path, "w1-1.jsonl"), shard(path, "w2-1.jsonl")
    held.write_bytes(lines(2))
    free.write_bytes(lines(3))
    with writing(held) as process:
        with pytest.raises(RunLocked, match=r"shards/w1-1\.jsonl: a worker is still writing it"):
            recovered(path)
        assert path.read_bytes() == lines(0, 1, 3)
        process.kill()
        process.wait()
        with opened(path) as journal:
            assert [journal.find(key(n)) for n in range(4)] == [record(n) for n in range(4)]


def test_a_run_waits_for_the_workers_of_a_head_that_is_gone(path: Path) -> None:
    shard(path, "w1-1.jsonl").write_bytes(lines(2))
    told: list[Event] = []

    async def main(process: subprocess.Popen[bytes]) -> None:
        heard = asyncio.Event()
        events = Events(lambda event: (told.append(event), heard.set()))
        waiting = asyncio.create_task(until_free([path.parent], events))
        await heard.wait()
        assert not waiting.done()
        process.kill()
        await asyncio.wait_for(waiting, 20)

    with writing(shard(path, "w1-1.jsonl")) as process:
        asyncio.run(main(process))
    (notice,) = told
    assert isinstance(notice, Notice)
    assert "w1-1.jsonl: waiting for a worker to finish" in notice.text
    with opened(path) as journal:
        assert len(journal) == 3


def test_it_waits_so_long_and_no_longer(path: Path) -> None:
    shard(path, "w1-1.jsonl").touch()

    async def main() -> float:
        await until_free([path.parent, path.parent], Events(), patience_s=30)
        return asyncio.get_running_loop().time()

    with shard(path, "w1-1.jsonl").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run_virtual(main) == pytest.approx(30, abs=0.1)


def test_nobody_waits_for_the_workers_of_a_head_that_lives(path: Path) -> None:
    shard(path, "w1-1.jsonl").touch()

    async def main() -> float:
        await until_free([path.parent], Events())
        return asyncio.get_running_loop().time()

    with locked(path.parent), shard(path, "w1-1.jsonl").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run_virtual(main) < 0.01
