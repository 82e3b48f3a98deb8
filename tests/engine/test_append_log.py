"""What was appended to a log is in the file; what the disk refuses is told, now or in the end."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cts_async.engine.journal import AppendLog, line_of, read_jsonl
from cts_async.errors import EXIT_RESUMABLE, RunStopped, StorageFull


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        log = AppendLog(tmp_path / "log")
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StorageFull, match="No space left"):
            await asyncio.wait_for(log.append({"n": 1}), 5)
        log.close()

    asyncio.run(main())


def test_an_offset_leads_back_to_its_line(tmp_path: Path) -> None:
    async def main() -> None:
        log = AppendLog(tmp_path / "log")
        records = [{"n": n, "text": "長" * 5_000 * n} for n in range(3)]
        offsets = [await log.append(one) for one in records]
        assert [log.read_line(offset) + b"\n" for offset in offsets] == [line_of(one) for one in records]
        log.close()

    asyncio.run(main())


def test_what_is_put_is_written_without_anybody_waiting(tmp_path: Path) -> None:
    async def main() -> list[dict[str, Any]]:
        log = AppendLog(tmp_path / "log")
        for n in range(5):
            await log.put({"n": n})
        log.close()
        return list(read_jsonl(log.path))

    assert asyncio.run(main()) == [{"n": n} for n in range(5)]


def test_a_put_that_the_disk_refused_is_told_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_putting_very_many_holds_back_few_and_lets_others_work(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
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
        unwritten = 2000 - len(list(read_jsonl(log.path)))
        task.cancel()
        log.close()
        return unwritten, turns

    unwritten, turns = asyncio.run(main())
    assert unwritten < 200
    assert turns >= 10


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
def test_nothing_is_appended_to_a_file_that_is_no_longer_there(
    tmp_path: Path, lost: Callable[[Path], None]
) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_line_lost_without_a_waiting_caller_is_reported_by_close(tmp_path: Path) -> None:
    async def main() -> None:
        silent = AppendLog(tmp_path / "silent")
        await silent.put({"n": 1})
        silent.path.unlink()
        with pytest.raises(RunStopped, match="was deleted"):
            silent.close()

    asyncio.run(main())
