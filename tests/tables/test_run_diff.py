"""What a terminal, a file and `--json` show of the differences between two runs."""

from __future__ import annotations

import io
from pathlib import Path

from made_runs import Row, changed_manifest, made_run
from rich.console import Console

from cts_async.runs.run_changes import RunChanges, TextChange, compare_two
from cts_async.tables import run_diff
from cts_async.tables.run_diff import changes_json, print_changes, unified_lines

SOURCE = "def ask(view):\n    return [f'Which {view.query}?']\n"
MENDED = "def ask(view):\n    return [f'Which one, {view.query}?']\n"


def two_runs(folder: Path, before: str = SOURCE, after: str = MENDED) -> RunChanges:
    runs = []
    for name, source, k, score in (("ask", before, 1, 50.0), ("ask.v2", after, 2, 60.0)):
        run = made_run(folder, label="gpt-k1", name=name, k=k, rows=[Row("a", score=score)])
        (run / "sources").mkdir()
        (run / "sources" / "ask.clarifier.py").write_text(source)
        runs.append(run)
    with changed_manifest(runs[1]) as manifest:
        manifest |= {"run_version": 2, "changed": ["clarifier (my_lab.py)"], "changed_from": "ask"}
    return compare_two(*runs)


def printed(changes: RunChanges, width: int = 80, *, terminal: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, emoji=False)
    if terminal:
        console = Console(file=file, width=width, force_terminal=True, color_system="standard", emoji=False)
    print_changes(console, changes)
    return file.getvalue()


def test_file_gets_a_unified_diff(tmp_path: Path) -> None:
    lines = printed(two_runs(tmp_path)).splitlines()
    start = lines.index("sources/ask.clarifier.py (changed)")
    assert lines[start + 1 : start + 5] == [
        "@@ -1,2 +1,2 @@",
        " def ask(view):",
        "-    return [f'Which {view.query}?']",
        "+    return [f'Which one, {view.query}?']",
    ]
    assert "scores differ in 1 of 1 common instance; mean change over all 1: +10.00" in lines
    assert next(line.split() for line in lines if line.startswith("k ")) == ["k", "1", "2"]


def test_wide_terminal_shows_texts_side_by_side(tmp_path: Path) -> None:
    changes = two_runs(tmp_path)
    (row,) = [line for line in printed(changes, 120, terminal=True).splitlines() if "Which" in line]
    assert row.startswith("\x1b[31m- ")
    assert "\x1b[32m+ " in row
    assert "\x1b[1;4;32mone," in row, "the word that is new stands out"
    narrow = printed(changes, 119, terminal=True)
    assert "\x1b[32m+    return" in narrow
    assert "@@ -1,2 +1,2 @@" in narrow


def test_texts_are_neither_markup_nor_control_sequences(tmp_path: Path) -> None:
    hostile = "[red]x[/red] :smile: \x1b]0;title\x07 \u202e \r\n\x85 end"
    changes = two_runs(tmp_path, hostile, "y")
    for width in (80, 120):
        shown = printed(changes, width, terminal=False)
        assert "[red]x[/red] :smile: [U+001B]]0;title[U+0007] [U+202E] [U+000D]" in shown
        assert "[U+0085] end [no newline at the end]" in shown
        colours = printed(changes, width, terminal=True)
        assert "\x1b]0" not in colours
        assert "\u202e" not in colours


def test_long_texts_are_not_compared_by_line() -> None:
    text = TextChange("prompts/a.txt", "x\n" * (run_diff._MAX_LINES + 1), "y\n")
    assert list(unified_lines(text)) == ["@@ not compared: more than 4,000 lines @@"]


def test_text_that_only_one_run_has_is_shown_whole() -> None:
    assert list(unified_lines(TextChange("a", None, "x\ny\n"))) == ["@@ -0,0 +1,2 @@", "+x", "+y"]
    assert list(unified_lines(TextChange("a", "x", ""))) == ["@@ -1 +0,0 @@", "-x [no newline at the end]"]


def test_equal_runs_are_said_to_be_equal(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k1", rows=[Row("a", score=50.0)])
    assert printed(compare_two(run, run)).splitlines()[-1] == (
        "No difference: settings, prompts, sources and scores are the same."
    )


def test_json_has_every_change(tmp_path: Path) -> None:
    value = changes_json(two_runs(tmp_path))
    assert value["changed"] == ["clarifier (my_lab.py)"]
    assert value["settings"] == [{"name": "k", "before": 1, "after": 2}]
    assert value["texts"][0]["file"] == "sources/ask.clarifier.py"
    assert value["texts"][0]["diff"][0] == "@@ -1,2 +1,2 @@"
    assert value["scores"]["mean_change"] == 10.0
    assert value["scores"]["largest"] == [{"id": "a", "before": 50.0, "after": 60.0, "change": 10.0}]
