"""A disk that is full when a run's files are opened: it can be typed again, and nothing that was there is harmed."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cts_async.engine.run_dir import read_manifest, sessions_of
from cts_async.errors import StorageFull
from cts_async.protocol.gold.build import TRACES, TraceArchive
from cts_async.protocol.judge_plan import Target, opened_targets
from cts_async.protocol.run_files import JUDGMENTS, STEPS, RunFiles, noted

NO_ROOM = r"No space left on device\); make room and type the same command again"
TORN = b'{"key":'


def refuse(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing reaches the disk any more, and no folder can be made."""
    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "mkdir", refuse)


def session(directory: Path, prompts: dict[str, str]) -> None:
    with noted(directory, {}, {}, prompts=prompts, place="--name"):
        pass


@pytest.mark.parametrize("name", ["steps.jsonl", "results.jsonl"])
def test_a_torn_line_that_cannot_be_kept_aside_stays_and_the_run_can_be_resumed(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    (tmp_path / name).write_bytes(TORN)
    request.getfixturevalue("full")
    with pytest.raises(StorageFull, match=NO_ROOM):
        RunFiles(tmp_path)
    assert (tmp_path / name).read_bytes() == TORN


def test_so_it_is_with_the_journal_of_several_files_of_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / STEPS).write_bytes(TORN)
    target = Target("x", tmp_path / "x", answers=None, scoring="mine", identity={}, shared_journal=True)  # type: ignore[arg-type]

    monkeypatch.setattr("cts_async.engine.journal.set_torn_tail_aside", refuse)
    with (
        pytest.raises(StorageFull, match=NO_ROOM),
        opened_targets([target], tmp_path, {}, {}, judges={}, prompts={}, sync=False),
    ):
        pass


def test_so_it_is_with_archived_traces(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / TRACES).write_bytes(TORN)
    request.getfixturevalue("full")
    with pytest.raises(StorageFull, match=NO_ROOM):
        TraceArchive(tmp_path)


def test_a_folder_of_judgments_that_cannot_be_made_can_be_made_later(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def main() -> None:
        files = RunFiles(tmp_path)
        request.getfixturevalue("full")
        with pytest.raises(StorageFull, match=f"{JUDGMENTS}.*{NO_ROOM}"):
            await files.add_judgment("lexical", {"id": "q1"})
        files.close()

    asyncio.run(main())


def test_a_prompt_without_room_leaves_the_earlier_one_whole_and_a_note_of_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(tmp_path, {"judge.en": "Judge."})
    replace = os.replace

    def full_for_prompts(temporary: str, name: str, **folders: int) -> None:
        if name.endswith(".txt"):
            refuse()
        replace(temporary, name, **folders)

    monkeypatch.setattr(os, "replace", full_for_prompts)
    session(tmp_path, {"judge.en": "Judge."})  # what is there already needs no room
    with pytest.raises(StorageFull, match=NO_ROOM):
        session(tmp_path, {"judge.en": "Judge anew."})
    assert [file.read_text() for file in (tmp_path / "prompts").iterdir()] == ["Judge."]
    *_, last = sessions_of(read_manifest(tmp_path) or {})
    assert last["end"]
    assert "No space left" in last["stopped"]
