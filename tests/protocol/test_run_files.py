"""Lines that other processes made go where those of this one go, judgments before the results that count on them."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from cts_async.errors import StorageFull, UsageError
from cts_async.protocol.run_files import RunFiles, judgments_path

LINES = [b'{"id":"q1","n":1}\n', b'{"id":"q2","n":2}\n']


@pytest.mark.parametrize("sync", [False, True])
def test_a_judges_lines_are_in_the_file_before_anybody_goes_on(tmp_path: Path, sync: bool) -> None:
    async def main() -> None:
        files = RunFiles(tmp_path, sync=sync)
        await files.add_lines("openai:gpt", LINES)
        assert judgments_path(tmp_path, "openai:gpt").read_bytes() == b"".join(LINES)
        await files.add_lines(None, LINES)
        files.close()
        assert (tmp_path / "results.jsonl").read_bytes() == b"".join(LINES)
        assert RunFiles(tmp_path).finished.failed("q2") is False

    asyncio.run(main())


def test_results_that_the_disk_refused_are_told_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        files = RunFiles(tmp_path)
        await files.add_lines(None, LINES)
        monkeypatch.setattr(os, "write", full)
        files.close()

    with pytest.raises(StorageFull, match=r"results\.jsonl.*No space left"):
        asyncio.run(main())


def test_unmerged_steps_of_an_old_cluster_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "w1-1.jsonl").write_bytes(b"{}\n")
    with pytest.raises(
        UsageError, match=r"cts-async==0\.7\.0 can merge; resume the run with that version first"
    ):
        RunFiles(tmp_path)
