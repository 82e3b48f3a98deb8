"""Runs by what users type: a path, or a name in the folder of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import Row, made_run

from cts_async.errors import InputError
from cts_async.runs.files import run_named


def test_runs_are_named_by_path_or_by_name(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", name="ask", rows=[Row("a", score=50.0)])
    (tmp_path / "folder").mkdir()
    assert run_named("ask", tmp_path) == run_named(str(run), tmp_path / "none") == run
    with pytest.raises(InputError, match="folder: not a run directory"):
        run_named("folder", tmp_path)
    with pytest.raises(InputError, match=r"aks: no such run, here or in .*; did you mean ask\?"):
        run_named("aks", tmp_path)
