"""What a run's manifest notes of each session, and that whoever reads it can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cts_async.engine.run_dir import read_manifest, sessions_of
from cts_async.engine.worker_status import WorkerStatus, census
from cts_async.errors import Interrupted, UsageError
from cts_async.protocol.run_files import noted
from cts_async.report.status import state_of_run
from cts_async.report.viewer.run import read_metadata


def sessions(directory: Path) -> list[Any]:
    return list(sessions_of(read_manifest(directory) or {}))


def interrupted_session(directory: Path) -> None:
    """A session that begins with one worker and is interrupted after another was lost."""
    workers = [WorkerStatus("w1", "node-a", 7, "idle")]
    with noted(directory, {}, {"n_expected": 4}, prompts={}, place="--name", also=lambda: census(workers)):
        assert "workers" not in sessions(directory)[0]
        workers.append(WorkerStatus("w2", "node-b", 8, "lost"))
        raise Interrupted("Ctrl-C")


def test_a_session_notes_its_workers_at_its_end_however_it_ends(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        interrupted_session(tmp_path)
    with noted(tmp_path, {}, {}, prompts={}, place="--name"):
        pass
    first, second = sessions(tmp_path)
    assert (first["workers"], first["hosts"], first["lost"], first["stopped"]) == (1, 1, 1, "Ctrl-C")
    assert sorted(second) == ["end", "start", "wall_s"]
    assert state_of_run(tmp_path).state == "stopped"
    about = read_metadata(tmp_path)
    assert about is not None
    assert (about.started, about.ended) == (first["start"], second["end"])


@pytest.mark.parametrize("name", ["results.jsonl", "per_item.jsonl"])
def test_results_without_a_manifest_are_nobodys(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"id": "q1", "restore_score_100": 50.0}\n')
    with (
        pytest.raises(UsageError, match=f"holds {name} but no run.json.*another --out, or move {name}"),
        noted(tmp_path, {"k": 3}, {}, prompts={}, place="--out"),
    ):
        pass
    assert read_manifest(tmp_path) is None
    (tmp_path / name).write_text("")  # opened, and killed before there was any
    with noted(tmp_path, {"k": 3}, {}, prompts={}, place="--out"):
        pass


def test_a_journal_without_a_manifest_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text("{}\n")
    with noted(tmp_path, {}, {}, prompts={}, place="--name"):
        pass
