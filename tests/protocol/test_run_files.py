"""The files of a run directory: what other processes wrote, sessions in the manifest, and a full disk."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from cts_async.cluster.head import worker_counts
from cts_async.config import JudgeConfig
from cts_async.engine.events import Events, WorkerStatus
from cts_async.errors import Interrupted, StorageFull, UsageError
from cts_async.protocol.answers import Answers
from cts_async.protocol.gold import TRACES, TraceArchive
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.rejudge import JudgePlan, Target, open_verdicts
from cts_async.protocol.run_files import RunFiles, RunRecord, SessionNotes, recorded_session
from cts_async.protocol.versions import ChosenVersion, Reuse
from cts_async.runs.files import (
    JUDGMENTS,
    STEPS,
    is_conversation,
    judgments_path,
    matching,
    without,
)
from cts_async.runs.manifest import read_manifest, require_manifest
from cts_async.runs.selection import run_folders
from cts_async.watch.live import state_of_run

LINES = [b'{"id":"q1","n":1}\n', b'{"id":"q2","n":2}\n']
NO_SPACE = r"No space left on device\); make room and type the same command again"
TORN = b'{"key":'


@pytest.mark.parametrize("sync", [False, True])
def test_lines_of_other_processes_are_written_before_they_count(tmp_path: Path, sync: bool) -> None:
    async def main() -> None:
        files = RunFiles(tmp_path, sync=sync)
        await files.add_judgments("openai:gpt", b"".join(LINES))
        assert judgments_path(tmp_path, "openai:gpt").read_bytes() == b"".join(LINES)
        await files.add_results(b"".join(LINES), list(map(len, LINES)))
        files.close()
        assert (tmp_path / "results.jsonl").read_bytes() == b"".join(LINES)
        assert RunFiles(tmp_path).finished.failed("q2") is False

    asyncio.run(main())


def test_unmerged_steps_of_an_old_cluster_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "w1-1.jsonl").write_bytes(b"{}\n")
    problem = r"cts-async==0\.7\.0 can merge; resume the run with that version first"
    with pytest.raises(UsageError, match=problem), session(tmp_path):
        pass


# --- Sessions in the manifest


def session(
    directory: Path,
    identity: dict[str, Any] | None = None,
    *,
    notes: dict[str, Any] | None = None,
    prompts: dict[str, str] | None = None,
    option: str = "--name",
    session_notes: SessionNotes = dict,
) -> AbstractContextManager[None]:
    record = RunRecord(identity or {}, notes or {}, prompts or {}, option=option)
    return recorded_session(directory, record, session_notes)


def sessions(directory: Path) -> list[Any]:
    return list(require_manifest(directory).raw_sessions)


def interrupted_session(directory: Path) -> None:
    """A session that begins with one worker and is interrupted after another was lost."""
    workers = [WorkerStatus("w1", "node-a", 7, "idle")]
    with session(directory, notes={"n_expected": 4}, session_notes=lambda: worker_counts(workers)):
        assert "workers" not in sessions(directory)[0]
        workers.append(WorkerStatus("w2", "node-b", 8, "lost"))
        raise Interrupted("Ctrl-C")


def test_session_records_its_workers_when_it_ends(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        interrupted_session(tmp_path)
    with session(tmp_path):
        pass
    first, second = sessions(tmp_path)
    assert (first["workers"], first["hosts"], first["lost"], first["stopped"]) == (1, 1, 1, "Ctrl-C")
    assert sorted(second) == ["end", "start", "wall_s"]
    assert state_of_run(tmp_path).state == "stopped"
    manifest = require_manifest(tmp_path)
    assert (manifest.started, manifest.last_session.end) == (first["start"], second["end"])


@pytest.mark.parametrize("name", ["results.jsonl", "per_item.jsonl"])
def test_results_without_a_manifest_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"id": "q1", "restore_score_100": 50.0}\n')
    with (
        pytest.raises(UsageError, match=f"holds {name} but no run.json.*another --out, or move {name}"),
        session(tmp_path, {"k": 3}, option="--out"),
    ):
        pass
    assert read_manifest(tmp_path) is None
    (tmp_path / name).write_text("")  # opened, and killed before there was any
    with session(tmp_path, {"k": 3}, option="--out"):
        pass


# --- A full disk


def refuse(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Fills the disk: fsync, mkdir and write fail from then on."""

    def filled() -> None:
        for function in ("fsync", "mkdir", "write"):
            monkeypatch.setattr(os, function, refuse)

    return filled


@pytest.mark.parametrize(
    ("name", "opened"), [("steps.jsonl", RunFiles), ("results.jsonl", RunFiles), (TRACES, TraceArchive)]
)
def test_torn_line_stays_in_place_when_the_disk_is_full(
    tmp_path: Path, name: str, opened: Callable[[Path], object], fill: Callable[[], None]
) -> None:
    (tmp_path / name).write_bytes(TORN)
    fill()
    with pytest.raises(StorageFull, match=NO_SPACE):
        opened(tmp_path)
    assert (tmp_path / name).read_bytes() == TORN


def test_full_disk_is_an_error_for_a_journal_of_several_candidate_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / STEPS).write_bytes(TORN)
    target = Target("x", tmp_path / "x", Answers(lambda wanted: iter(())), "mine", {}, shared_journal=True)

    monkeypatch.setattr("cts_async.engine.journal.set_torn_tail_aside", refuse)
    plan = JudgePlan(
        config=JudgeConfig(),
        out=tmp_path,
        specs={},
        judges=("mine",),
        targets=(target,),
        repeats=None,  # type: ignore[arg-type]
        identity={},
        prompts=PromptSet(tmp_path, {}),
        reuse=Reuse(tmp_path / "nowhere"),
        version=ChosenVersion(tmp_path),
    )
    with pytest.raises(StorageFull, match=NO_SPACE), open_verdicts(plan, Events()):
        pass


def test_full_disk_is_an_error_for_a_new_folder_and_for_results_when_files_are_closed(
    tmp_path: Path, fill: Callable[[], None]
) -> None:
    async def main() -> None:
        files = RunFiles(tmp_path)
        await files.add_results(b"".join(LINES), list(map(len, LINES)))
        fill()
        with pytest.raises(StorageFull, match=f"{JUDGMENTS}.*{NO_SPACE}"):
            await files.add_judgments("lexical", b"".join(LINES))
        with pytest.raises(StorageFull, match=r"results\.jsonl.*No space left"):
            files.close()

    asyncio.run(main())


def test_full_disk_keeps_the_earlier_prompt_and_records_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(tmp_path, prompts={"judge.en": "Judge."}):
        pass
    replace = os.replace

    def full_for_prompts(temporary: str, name: str, **folders: int) -> None:
        if name.endswith(".txt"):
            refuse()
        replace(temporary, name, **folders)

    monkeypatch.setattr(os, "replace", full_for_prompts)
    with session(tmp_path, prompts={"judge.en": "Judge."}):  # an unchanged file is not written again
        pass
    with pytest.raises(StorageFull, match=NO_SPACE), session(tmp_path, prompts={"judge.en": "Judge anew."}):
        pass
    assert [file.read_text() for file in (tmp_path / "prompts").iterdir()] == ["Judge."]
    last = require_manifest(tmp_path).last_session
    assert last.end
    assert "No space left" in last.stopped


# --- What a user names as runs: directories, folders of them, patterns


def made(folder: Path, system: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"identity": {"system": system}}))
    return folder


def test_a_folder_stands_for_its_runs_and_a_run_for_itself(tmp_path: Path) -> None:
    a, b = made(tmp_path / "runs" / "a", "orig"), made(tmp_path / "runs" / "b", "gpt-k1")
    (tmp_path / "runs" / "notes").mkdir()
    assert run_folders([tmp_path / "runs"]) == [a, b]
    assert run_folders([b, tmp_path / "runs" / "a*"]) == [b, a]
    assert run_folders([tmp_path / "nowhere"]) == [tmp_path / "nowhere"]


def test_built_gold_is_left_out_unless_there_is_nothing_else(tmp_path: Path) -> None:
    run, gold = made(tmp_path / "runs" / "a", "orig"), made(tmp_path / "runs" / "gold", "goldbuild")
    assert run_folders([tmp_path / "runs"]) == run_folders([gold, run]) == [run]
    assert run_folders([gold]) == [gold]


def test_conversations_are_no_answers_unless_there_is_nothing_else(tmp_path: Path) -> None:
    run, talk = made(tmp_path / "a", "orig"), made(tmp_path / "b", "gpt-cot-respond-k3")
    (talk / "run.json").write_text(json.dumps({"identity": {"system": "gpt-cot-respond-k3", "task": "talk"}}))
    assert is_conversation(talk)
    assert not is_conversation(run)
    assert run_folders([tmp_path]) == [run, talk]  # an audit looks at both
    assert without([run, talk], is_conversation) == [run]
    assert without([talk], is_conversation) == [talk]


def test_a_pattern_of_nothing_is_left_to_who_reads_it(tmp_path: Path) -> None:
    assert run_folders([tmp_path / "none*"]) == [tmp_path / "none*"]
    assert matching(tmp_path / "none*") == []
    (tmp_path / "a[1]").mkdir()
    assert matching(tmp_path / "a[1]") == [tmp_path / "a[1]"]
