"""`cts data mimics-duo` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_panes import panes_of, write_panes

import cts_async
from cts_async.neighbours.mimics_duo.panes import ASPECTS

PANES = [*panes_of("q1", [5, 0, 0]), *panes_of("q2", [0, 2, 0])]


def mimics_duo(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "COLUMNS": "80", "PYTHONUTF8": "1"}
    environ["PYTHONPATH"] = str(Path(cts_async.__file__).parents[1])
    command = [sys.executable, "-m", "cts_async.cli.main", "data", "mimics-duo", *words]
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a clone of the repository stands, which is where it is looked for."""
    return write_panes(tmp_path / "MIMICS-Duo", PANES)


def test_panes_come_out_and_go_in_again_with_scores(folder: Path) -> None:
    done = mimics_duo(folder.parent, "panes")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["query"], line["pane"]) for line in lines] == [
        (q, n) for q in ("q1", "q2") for n in (1, 2, 3)
    ]
    scored = "".join(json.dumps({**line, "score": line["engagement_level"]}) + "\n" for line in lines)
    (folder.parent / "scores.jsonl").write_text(scored)
    done = mimics_duo(folder.parent, "rerank", "MIMICS-Duo", "--scores", "scores.jsonl", "--json")
    first = json.loads(done.stdout)["reranking"][0]
    assert (first["ranking"], first["p_at_1_exact"], done.stderr) == ("scores", 1.0, "")


def test_tables_are_printed_in_80_columns(folder: Path) -> None:
    done = mimics_duo(folder.parent, "tables", "--table", "6", "--table", "11", "--draws", "10")
    assert done.returncode == 0, done.stderr
    assert "Table 6. Statistics" in done.stdout
    assert "Table 11. Panes ranked by aspects" in done.stdout
    assert "Table 7." not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tables", "nowhere"], "cts: nowhere: no such directory; name the one with Mimics-Click"),
        (
            ["tables", "--table", "12"],
            "cts: --table 12: must be one of 6, 7, 8, 9, 10, 11, 5.2",
        ),
        (
            ["panes", "--out", f"MIMICS-Duo/{ASPECTS}"],
            "is an input file of this command; choose another name",
        ),
        (
            ["rerank", "--scores", "s", "--ideal", "clicks"],
            "cts: --ideal clicks: must be one of engagement",
        ),
    ],
)
def test_a_mistake_is_one_line(folder: Path, words: list[str], said: str) -> None:
    done = mimics_duo(folder.parent, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
