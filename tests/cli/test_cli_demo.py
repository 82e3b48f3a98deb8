"""`cts demo`: what it plays, that it opens what is there, and that nothing of it passes for a model's score."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from typed_commands import Cts

from cts_async.viewer.library import Library

SYSTEMS = ("orig", "made-up-a-k1", "made-up-b-k1", "made-up-a-k3", "made-up-b-k3")


@pytest.fixture
def played(cts: Cts, tmp_path: Path) -> list[str]:
    """The lines that `cts demo` prints."""
    done = cts("demo", "--no-view")
    assert (done.code, done.err) == (0, "Playing 5 made-up systems over 14 instances\n")
    return done.out.splitlines()


def test_demo_plays_once_and_is_marked_in_every_output(played: list[str], cts: Cts, tmp_path: Path) -> None:
    assert played[0] == "restore_score_100 (made up)"
    made_up = "Made up: scripts played every role (cts demo). No number here is a model's score."
    assert played[-4:] == [
        made_up,
        "Look closer: cts compare cts-demo, cts diagnose cts-demo, cts report cts-demo",
        "Run your own: export OPENAI_API_KEY=...; cts run --all gpt -k 3 --limit 5",
        "Delete it: rm -r cts-demo",
    ]
    runs = sorted((tmp_path / "cts-demo").iterdir())
    summaries = {run: json.loads((run / "summary.json").read_text()) for run in runs}
    assert [one["made_up"] for one in summaries.values()] == [True] * 5
    # Of 70 instances one fails: the search of the tram fares with all three answers is refused.
    assert (
        sorted((one["n_scored"], one["n_failed"]) for one in summaries.values()) == [(13, 1)] + [(14, 0)] * 4
    )
    assert all(one["cost_usd"] > 0 for one in summaries.values())

    journals = {run: (run / "steps.jsonl").read_bytes() for run in runs}
    assert cts("demo", "--no-view").out.splitlines()[0] == played[0]
    assert {run: (run / "steps.jsonl").read_bytes() for run in runs} == journals

    compared = cts("compare", "cts-demo").out
    assert compared.count(" (made up)\n") == compared.count("─\n") > 3
    assert made_up in compared
    found = json.loads(cts("compare", "cts-demo", "--json").out)
    assert {one["system"]: one["made_up"] for one in found["systems"]} == dict.fromkeys(SYSTEMS, True)
    assert cts("status", "cts-demo").out.count(" by made-up (made up)") == 5
    assert made_up in cts("diagnose", "cts-demo").out

    cts("report", "cts-demo", "--tables", "tables")
    page = (tmp_path / "cts-demo" / "report.html").read_text()
    assert 'class="warning" role="note">Made up: ' in page
    figures = json.loads(
        page.partition('type="application/json" id="figures">')[2].partition("</script>")[0]
    )["figures"]
    marks = [[one["text"] for one in figure["layout"]["annotations"]] for figure in figures.values()]
    assert len(marks) > 10
    assert all("made up" in texts for texts in marks)
    tables = list((tmp_path / "tables").glob("*.tex"))
    assert len(tables) > 10
    assert [one.name for one in tables if "(made up)" not in one.read_text().partition("\\label")[0]] == []
    cts("export", "cts-demo", "--layout", "hf", "--out", "hf")
    assert "> **Made up.**" in (tmp_path / "hf" / "README.md").read_text()


def test_demo_opens_the_viewer_on_the_leaderboard(
    played: list[str], cts: Cts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(library: Library, sock: socket.socket, started: Callable[[str], None]) -> None:
        sock.close()
        started("http://127.0.0.1:1/")

    monkeypatch.setattr("cts_async.viewer.app.serve", serve)
    last = cts("demo").out.splitlines()[-1]
    assert last == f"{tmp_path / 'cts-demo'}: http://127.0.0.1:1/#/leaderboard (Ctrl-C stops it)"


def test_demo_leaves_other_folders_alone(cts: Cts, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine.txt").write_text("")
    done = cts("demo", "--out", "runs", "--no-view")
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "cts: --out runs: holds other files; name a new folder\n",
    )
    assert len(list((tmp_path / "runs").iterdir())) == 1
    (tmp_path / "file").touch()
    done = cts("demo", "--out", "file")
    assert (done.code, done.err) == (2, "cts: --out file: is a file; name a folder\n")
