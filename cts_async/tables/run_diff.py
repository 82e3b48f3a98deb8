"""What differs between two runs, for people: settings side by side, texts by line, scores by instance.

Texts are prompts, code and what models wrote: on a terminal nothing in them is markup, and what is invisible is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any, Final

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.errors import cut_end
from cts_async.records import caveats_in
from cts_async.runs.manifest import Manifest
from cts_async.runs.run_changes import (
    ABSENT,
    RunChanges,
    ScoreChange,
    ScoreChanges,
    SettingChange,
    TextChange,
)
from cts_async.runs.versions import describe_changes, version_of
from cts_async.tables.output import counted, print_plainly, visible
from cts_async.tables.results import CAVEATS
from cts_async.tables.table import DataTable, Row, number_columns, print_facts, print_table, text_columns

SIDE_BY_SIDE: Final = 120
"""Columns of a terminal from which on texts are shown side by side: two of some 60."""
MOST_SCORES: Final = 10
_MOST_SETTINGS: Final = 100
_MAX_LINES: Final = 4_000
"""A longer text is not compared by line: difflib takes time by the square of it."""
_MAX_LINE: Final = 2_000
"""Characters of a line that are shown."""
_MAX_VALUE: Final = 300
"""Characters of a setting that are shown."""
_CONTEXT: Final = 3
_ALIKE: Final = 0.5
"""difflib's ratio from which on one line is a changed form of another, whose words are compared."""
_MAX_WORDS: Final = 500
"""Words, and spaces between them, of a longer line are not compared: difflib takes time by the square of them."""
_WORDS: Final = re.compile(r"(\s+)")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SHORT_DIGEST: Final = 12
_NO_LINE_FEED: Final = " [no newline at the end]"
"""Behind the last line of a text that ends without one."""
_STYLES: Final = {"-": "red", "+": "green", "@": "cyan"}
"""By the first character of a line of a unified diff."""
_EMPHASIS: Final = "bold underline"
"""Of words that differ within a line, also where there are no colours."""


def changes_json(changes: RunChanges) -> dict[str, Any]:
    """The changes as `--json` prints them; a text's `diff` is its unified diff."""
    texts: list[dict[str, Any]] = []
    for text in changes.texts:
        texts.append({"file": text.name, "status": text_status(text), "diff": list(unified_lines(text))})
    value: dict[str, Any] = {
        "before": str(changes.before.directory),
        "after": str(changes.after.directory),
        "changed": list(changes.after.changed),
        "settings": [_setting_json(change) for change in changes.settings],
        "notes": [_setting_json(change) for change in changes.notes],
        "texts": texts,
        "scores": None,
        "problems": list(changes.problems),
        "caveats": list(caveats_in([changes.before.caveat, changes.after.caveat])),
    }
    if changes.scores is not None:
        value["scores"] = _scores_json(changes.scores)
    return value


def _setting_json(change: SettingChange) -> dict[str, Any]:
    return {"name": change.name, "before": change.before, "after": change.after}


def _scores_json(scores: ScoreChanges) -> dict[str, Any]:
    return {
        "judge_before": scores.judge_before,
        "judge_after": scores.judge_after,
        "common": scores.n_common,
        "only_before": scores.n_before,
        "only_after": scores.n_after,
        "differ": len(scores.changes),
        "mean_change": scores.mean_change,
        "largest": [_score_row(score) for score in scores.changes[:MOST_SCORES]],
    }


def _score_row(score: ScoreChange) -> dict[str, Any]:
    return {"id": score.id, "before": score.before, "after": score.after, "change": score.change}


# --- On a terminal, or in a file


def print_changes(console: Console, changes: RunChanges) -> None:
    """Print what differs; texts side by side where the terminal is wide enough, else as unified diffs."""
    facts = [("before", _described(changes.before)), ("after", _described(changes.after))]
    if changes.after.changed:
        facts.append(("changed", describe_changes(changes.after.changed)))
    print_facts(console, "Two runs", facts)
    print_table(console, _settings_table("settings", "Settings that determine results", changes.settings))
    is_wide = console.is_terminal and console.width >= SIDE_BY_SIDE
    for text in changes.texts:
        print_plainly(console, visible(f"{text.name} ({text_status(text)})"), "bold")
        if is_wide and _is_comparable(text):
            _print_side_by_side(console, text)
        else:
            _print_unified(console, text)
        console.print()
    if changes.scores is not None:
        _print_scores(console, changes.scores)
    print_table(console, _settings_table("notes", "Notes (no result depends on them)", changes.notes))
    for problem in changes.problems:
        print_plainly(console, visible(problem), "yellow")
    if changes.is_empty:
        print_plainly(console, "No difference: settings, prompts, sources and scores are the same.")
    for caveat in caveats_in([changes.before.caveat, changes.after.caveat]):
        print_plainly(console, CAVEATS[caveat], "yellow")


def _described(manifest: Manifest) -> str:
    """`runs/ask.v2: version 2 of ask, last worked on 2030-03-17 10:00`."""
    version = version_of(manifest)
    text = f"{manifest.directory}: version {version.number} of {version.series}"
    if version.last_worked_on:
        text += f", last worked on {version.last_worked_on[:16].replace('T', ' ')}"
    return visible(text)


def _settings_table(name: str, title: str, changes: Sequence[SettingChange]) -> DataTable:
    rows: list[Row] = []
    for change in changes[:_MOST_SETTINGS]:
        rows.append(
            {
                "setting": _value_text(change.name),
                "before": _value_text(change.before),
                "after": _value_text(change.after),
            }
        )
    caption = ""
    if len(changes) > _MOST_SETTINGS:
        caption = f"the first {_MOST_SETTINGS} of {len(changes):,}; --json has all"
    columns = text_columns("setting", "before", "after")
    return DataTable(name, title, caption, columns, rows)


def _value_text(value: Any) -> str:
    """A value of a manifest, in one line; of a digest its beginning."""
    if isinstance(value, str):
        if _DIGEST.fullmatch(value):
            return f"{value[:_SHORT_DIGEST]}…"
        return cut_end(visible(value), _MAX_VALUE)
    if value == ABSENT:
        return ABSENT
    return cut_end(visible(orjson.dumps(value, default=str).decode()), _MAX_VALUE)


def _print_scores(console: Console, scores: ScoreChanges) -> None:
    line = f"scores differ in {len(scores.changes):,} of {counted(scores.n_common, 'common instance')}"
    if scores.changes and scores.mean_change is not None:
        line += f"; mean change over all {scores.n_common:,}: {scores.mean_change:+.2f}"
    for n, run in ((scores.n_before, "before"), (scores.n_after, "after")):
        if n:
            line += f"; {counted(n, 'instance')} scored only {run}"
    if scores.judge_before != scores.judge_after:
        line += f"; judged by {scores.judge_before}, then by {scores.judge_after}"
    print_plainly(console, "Scores", "bold")
    print_plainly(console, visible(line))
    rows: list[Row] = []
    for score in scores.changes[:MOST_SCORES]:
        rows.append(_score_row(score) | {"id": visible(score.id)})
    columns = text_columns("id") + number_columns(before=".2f", after=".2f", change="+.2f")
    title = ""
    if len(scores.changes) > MOST_SCORES:
        title = f"The {MOST_SCORES} largest changes"
    print_table(console, DataTable("scores", title, "", columns, rows))
    if not rows:
        console.print()


# --- Texts


def text_status(text: TextChange) -> str:
    """Whether a text changed, or only one of the runs has it."""
    if text.before is None:
        return "only after"
    if text.after is None:
        return "only before"
    return "changed"


def _lines(text: str | None) -> list[str]:
    """The lines of a text, split at line feeds only: whatever else breaks a line is shown."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += _NO_LINE_FEED
    return lines


def _is_comparable(text: TextChange) -> bool:
    return max(len(_lines(text.before)), len(_lines(text.after))) <= _MAX_LINES


def unified_lines(text: TextChange) -> Iterator[str]:
    """The lines of a unified diff, without its first two, and without line feeds."""
    if not _is_comparable(text):
        yield f"@@ not compared: more than {_MAX_LINES:,} lines @@"
        return
    lines = unified_diff(_lines(text.before), _lines(text.after), n=_CONTEXT, lineterm="")
    for place, line in enumerate(lines):
        if place >= 2:
            yield line


def _print_unified(console: Console, text: TextChange) -> None:
    for line in unified_lines(text):
        style = _STYLES.get(line[:1], "")
        console.print(Text(_shown_line(line), style=style), soft_wrap=True, highlight=False)


def _shown_line(line: str) -> str:
    return cut_end(visible(line), _MAX_LINE).replace("\t", "    ")


def _print_side_by_side(console: Console, text: TextChange) -> None:
    """Print both texts in columns, with a few unchanged lines around what differs."""
    before, after = _lines(text.before), _lines(text.after)
    grid = Table.grid(padding=(0, 1), expand=True)
    for _ in range(2):
        grid.add_column(ratio=1, overflow="fold")
    groups = SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT)
    for place, group in enumerate(groups):
        if place:
            grid.add_row(Text("…", style="cyan"), Text("…", style="cyan"))
        for kind, start, end, start_after, end_after in group:
            for left_cell, right_cell in _paired(kind, before[start:end], after[start_after:end_after]):
                grid.add_row(left_cell, right_cell)
    console.print(grid)


def _paired(kind: str, before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[Text, Text]]:
    """The cells of a group of lines; lines that replace each other stand beside each other."""
    if kind == "equal":
        for line in before:
            cell = Text(f"  {_shown_line(line)}")
            yield cell, cell
        return
    n_replaced = min(len(before), len(after))
    for line_before, line_after in zip(before[:n_replaced], after[:n_replaced], strict=True):
        yield _word_changes(line_before, line_after)
    for line in before[n_replaced:]:
        yield Text(f"- {_shown_line(line)}", style=_STYLES["-"]), Text()
    for line in after[n_replaced:]:
        yield Text(), Text(f"+ {_shown_line(line)}", style=_STYLES["+"])


def _word_changes(line_before: str, line_after: str) -> tuple[Text, Text]:
    """Two lines, one of which replaces the other: the words that differ stand out."""
    # With the spaces between them, which are part of what is shown.
    words_before = _WORDS.split(_shown_line(line_before))
    words_after = _WORDS.split(_shown_line(line_after))
    cell_before, cell_after = Text("- ", style=_STYLES["-"]), Text("+ ", style=_STYLES["+"])
    # Frequent words count, too: a line is no text of thousands of lines, for which difflib leaves them out.
    matcher = SequenceMatcher(None, words_before, words_after, autojunk=False)
    if max(len(words_before), len(words_after)) > _MAX_WORDS or matcher.ratio() < _ALIKE:
        cell_before.append("".join(words_before))
        cell_after.append("".join(words_after))
        return cell_before, cell_after
    for kind, start, end, start_after, end_after in matcher.get_opcodes():
        style = ""
        if kind != "equal":
            style = _EMPHASIS
        cell_before.append("".join(words_before[start:end]), style)
        cell_after.append("".join(words_after[start_after:end_after]), style)
    return cell_before, cell_after
