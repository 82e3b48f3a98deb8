"""Exports of the viewer's pages: what is in them, and where they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run

from cts_async.cli.view import view
from cts_async.errors import UsageError
from cts_async.viewer.static_export import without_paths

ROWS = [Row("a", score=50.0), Row("</script>\u2028b", error="search")]
COMMANDS = {
    "cts run --data jsonl:/home/ann/My/q.jsonl -m ~/lab/my_lab.py:ask": "cts run --data jsonl:q.jsonl -m my_lab.py:ask",
    "cts judge --gold=/data/g.jsonl --out '/home/ann/Eve Runs/x'": "cts judge --gold=g.jsonl --out 'Eve Runs/x'",
    "https://api.example/v1 50/50 and/or runs/x a / b": "https://api.example/v1 50/50 and/or runs/x a / b",
    "exec:/usr/bin/python /home/ann/": "exec:python ",
}


def recorded(folder: Path) -> dict[str, Any]:
    """Every answer of an export by its key."""
    found = {}
    for path in (folder / "data").iterdir():
        for line in path.read_text("utf-8").split("\n")[:-1]:
            key, value = json.loads(f"[{line.removeprefix('recorded(').removesuffix(');')}]")
            found[key] = json.loads(value)
    return found


def test_export_holds_the_chosen_runs_without_paths_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [made_run(tmp_path / "runs", label=label, rows=ROWS) for label in ("orig", "gpt-k2", "other-k1")]
    with changed_manifest(runs[0]) as manifest:
        manifest |= {"command": f"cts run --data {tmp_path}/q.jsonl", "data": {"path": f"{tmp_path}/q.jsonl"}}
    out = tmp_path / "out"

    view(runs[0], runs[1:], export=out)
    assert re.fullmatch(
        rf"exported 3 runs, 6 instances, 0\.\d MB: {out}/index\.html\n", capsys.readouterr().out
    )
    view(runs[0], runs[1:2], export=out)

    answers = recorded(out)
    assert [row["name"] for row in answers["runs"]["runs"]] == ["made-gpt-k2", "made-orig"]
    assert answers["run\nrun=made-orig"]["manifest"]["command"] == "cts run --data q.jsonl"
    assert [row["id"] for row in answers["instances\nrun=made-orig"]["rows"]] == ["a", "</script>\u2028b"]
    assert answers["instance\nid=a\nrun=made-gpt-k2"]["scores"][0]["score"] == 50.0
    assert not [key for key in answers if "other" in key]
    there, back = (
        answers[f"difference\nruns={names}"] for names in ("made-gpt-k2,made-orig", "made-orig,made-gpt-k2")
    )
    assert (there["judges"][0]["n"], there["judges"][0]["difference"]) == (1, 0.0)
    assert back["runs"] == ["made-orig", "made-gpt-k2"]
    written = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert str(tmp_path).encode() not in written
    assert b"</script>\xe2" not in written
    assert b"import {" not in (out / "static" / "main.js").read_bytes()


def test_exported_difference_is_reversed_with_the_order_of_its_runs(tmp_path: Path) -> None:
    """gpt has 10 more on each of six instances; a comma in a name is escaped, as the page does."""
    rows = [Row(f"q{i}", score=float(i)) for i in range(6)]
    more = [Row(f"q{i}", score=float(i + 10)) for i in range(6)]
    made_run(tmp_path / "runs", label="orig", rows=rows, name="a,b")
    made_run(tmp_path / "runs", label="gpt-k2", rows=more)
    view(tmp_path / "runs", export=tmp_path / "out")
    answers = recorded(tmp_path / "out")
    for names, ten in (("a%2Cb,made-gpt-k2", -10.0), ("made-gpt-k2,a%2Cb", 10.0)):
        (found,) = answers[f"difference\nruns={names}"]["judges"]
        assert [found[name] for name in ("difference", "low", "high")] == [pytest.approx(ten), None, None]
        assert (found["n"], found["p"]) == (6, 2 / 64)


@pytest.mark.parametrize(("text", "shown"), COMMANDS.items())
def test_paths_are_cut_to_their_last_part(text: str, shown: str) -> None:
    assert without_paths({"command": [text]}) == {"command": [shown]}


def test_export_touches_no_folder_but_its_own(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=ROWS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "index.html").write_text("mine")
    (tmp_path / "link").symlink_to(elsewhere)
    for target, problem in (
        (elsewhere, "no earlier export"),
        (tmp_path / "link", "symbolic link"),
        (run, "not empty"),
    ):
        with pytest.raises(UsageError, match=problem):
            view(run, export=target)
    out = tmp_path / "out"
    view(run, export=out)
    (out / "data" / "00000000.js").symlink_to(elsewhere / "index.html")
    (out / "CNAME").write_text("runs.example")
    view(run, export=out)
    assert (elsewhere / "index.html").read_text() == "mine"
    assert (out / "CNAME").exists()
    with pytest.raises(UsageError, match="no --port"):
        view(run, export=out, port=9000)
    with pytest.raises(UsageError, match="no runs"):
        view(elsewhere, export=out)
