"""Panes read from MIMICS-Duo's four files, from tables in the format of MIMICS, and scores of panes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_panes import SHARED, pane, tables, write_panes, write_tables

from cts_async.errors import InputError, UsageError
from cts_async.neighbours.mimics_duo.panes import (
    ASPECTS,
    FILES,
    ONLINE,
    QUALITY,
    RATING,
    PaneText,
    read_pane_scores,
    read_pane_table,
    read_panes,
)

PANES = [
    pane("q1", ("a", "b"), engagement_level=3, click_probabilities=(0.25, 0.75), option_qualities=(5, 1)),
    pane("q1", ("a", "b", "c", "d", "e"), impression_level="high", offline_rating=5, pane_quality=4),
    pane("q2", ("x", "y", "z"), question='Which ""aco"" do you mean?', coverage=1, diversity=2),
]
needs_mimics = pytest.mark.skipif(not SHARED.exists(), reason=f"MIMICS-Duo is not here: {SHARED}")


def refusal(folder: Path, file: str, line: int | None) -> str:
    with pytest.raises(InputError) as caught:
        list(read_panes(folder))
    where = folder / file if line is None else f"{folder / file}:{line}"
    assert str(caught.value).startswith(f"{where}: ")
    return str(caught.value)


def test_panes_are_read_as_written_or_as_the_readme_spells_their_columns(tmp_path: Path) -> None:
    """The last row may lack the columns without a name, as that of the released file does."""
    files = tables(PANES)
    assert list(read_panes(write_tables(tmp_path, files))) == PANES
    files[RATING][0] = [*files[RATING][0][:-1], "Offline rating"]
    spelt = ["coverage", "DIVERSITY", "understandability", "importance_order"]
    files[ASPECTS][0] = [*files[ASPECTS][0][:-4], *spelt]
    files[QUALITY][-1] = files[QUALITY][-1][:-8]
    assert list(read_panes(write_tables(tmp_path, files))) == PANES


@pytest.mark.parametrize("name", FILES)
def test_missing_or_broken_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no such directory; name the one with Mimics-Click"):
        list(read_panes(tmp_path / "none"))
    file = write_panes(tmp_path, PANES) / name
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:2], b"\xb5\xe7", *lines[2:]]))
    assert "is not UTF-8: byte 0xb5" in refusal(tmp_path, name, 3)
    file.write_bytes(b"\n".join([*lines[:2], lines[2][:8]]))
    assert "cells where the header names" in refusal(tmp_path, name, 3)
    file.unlink()
    assert "no such file" in refusal(tmp_path, name, None)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("column", [0, 4, 7])
def test_missing_column_is_named(tmp_path: Path, name: str, column: int) -> None:
    files = tables(PANES)
    files[name] = [row[:column] + row[column + 1 :] for row in files[name]]
    found = refusal(write_tables(tmp_path, files), name, 1)
    assert "the column is missing; the columns are 'q" in found


@pytest.mark.parametrize("name", FILES[1:])
def test_files_that_are_not_aligned_are_refused(tmp_path: Path, name: str) -> None:
    files = tables(PANES)
    files[name][2:] = reversed(files[name][2:])
    found = refusal(write_tables(tmp_path, files), name, 3)
    assert (
        f"field 'query': is 'q2' where {ONLINE}:3 has 'q1'; the four files must have the same panes" in found
    )
    files = tables(PANES)
    files[name][3][4] = "Z" * 1_000_000
    found = refusal(write_tables(tmp_path, files), name, 4)
    assert "field 'option_3': is 'ZZZ" in found
    assert len(found) < 800
    files = tables(PANES)
    files[name].pop()
    assert "ends before line 4, which another file has" in refusal(write_tables(tmp_path, files), name, None)


def test_repeated_and_separated_panes_are_refused(tmp_path: Path) -> None:
    again = write_panes(tmp_path, [*PANES[:2], PANES[0]])
    assert "is the same pane as an earlier line" in refusal(again, ONLINE, 4)
    apart = write_panes(tmp_path, [PANES[0], PANES[2], PANES[1]])
    assert "field 'query': the panes of 'q1' are not contiguous" in refusal(apart, ONLINE, 4)
    assert "has no rows" in refusal(write_panes(tmp_path, []), ONLINE, None)


@pytest.mark.parametrize("option", [["a", "", "", "", ""], ["a", "", "b", "", ""], ["", "", "", "", ""]])
def test_fewer_than_two_options_or_a_gap_is_refused(tmp_path: Path, option: list[str]) -> None:
    files = tables(PANES)
    for rows in files.values():
        rows[1][2:7] = option
    assert "field 'option" in refusal(write_tables(tmp_path, files), ONLINE, 2)


@pytest.mark.parametrize(
    ("name", "column", "cell", "says"),
    [
        (ONLINE, 7, "often", "field 'impression_level': must be 'low', 'medium' or 'high', is 'often'"),
        (ONLINE, 8, "11", "field 'engagement_level': must be less than or equal to 10, is '11'"),
        (ONLINE, 8, "", "field 'engagement_level': must be a valid integer"),
        (ONLINE, 9, "nan", "field 'click_probabilities.0': must be a finite number"),
        (ONLINE, 10, "1.5", "field 'click_probabilities.1': must be less than or equal to 1, is '1.5'"),
        (RATING, 7, "0", "field 'offline_rating': must be greater than or equal to 1, is '0'"),
        (QUALITY, 8, "", "field 'option_qualities.1': must be a valid integer"),
        (QUALITY, 12, "6", "field 'pane_quality': must be less than or equal to 5, is '6'"),
        (ASPECTS, 10, "3.5", "field 'importance_order': must be a valid integer"),
    ],
)
def test_cell_out_of_range_is_named(tmp_path: Path, name: str, column: int, cell: str, says: str) -> None:
    files = tables(PANES)
    files[name][1][column] = cell
    assert says in refusal(write_tables(tmp_path, files), name, 2)


@pytest.mark.parametrize(("name", "column"), [(ONLINE, 13), (QUALITY, 9)])
def test_label_or_click_of_a_missing_option_is_refused(tmp_path: Path, name: str, column: int) -> None:
    files = tables(PANES)
    files[name][1][column] = "1"
    message = "field 'option_3': is missing, yet has a label or clicks, or an option after it"
    assert message in refusal(write_tables(tmp_path, files), ONLINE, 2)


@needs_mimics
def test_release_is_1034_panes_of_306_queries() -> None:
    panes = list(read_panes(SHARED))
    assert (len(panes), len({one.query for one in panes})) == (1034, 306)
    assert sum('""' in one.question for one in panes) == 4
    assert sum(len(one.options) for one in panes) == 3709


Write = Callable[..., Path]

SCORED = [
    pane("q1", ("a", "b"), question="Which?"),
    pane("q1", ("c", "d"), question="Which?"),
    pane("q2", ("a", "b"), question="Who?"),
]
ROWS = [
    {"query": "q2", "pane": 1, "score": -1},
    {"query": "q1", "pane": "2", "score": "0.5"},
    {"query": "q1", "pane": 1, "score": 2.5},
]


def scores_refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_pane_scores(path, SCORED)
    assert str(caught.value).startswith(str(path))
    return caught.value


@pytest.mark.parametrize(("name", "sign"), [("s.jsonl", ""), ("s.tsv", "\t"), ("s.csv", ",")])
def test_scores_are_returned_in_pane_order(write: Write, name: str, sign: str) -> None:
    lines = [sign.join(("query", "pane", "score")), *(sign.join(map(str, row.values())) for row in ROWS)]
    content = "\n".join(lines) if sign else ROWS
    assert read_pane_scores(write(name, content), SCORED) == [2.5, 0.5, -1.0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"pane": 1, "score": 1}, "field 'query': is missing"),
        ({"query": 3, "pane": 1, "score": 1}, "field 'query': must be a valid string, is 3"),
        ({"query": "q3", "pane": 1, "score": 1}, "field 'pane': pane 1 of 'q3' is not in the data"),
        ({"query": "q1", "score": 1}, "field 'pane': is missing"),
        ({"query": "q1", "pane": 3, "score": 1}, "field 'pane': pane 3 of 'q1' is not in the data"),
        ({"query": "q1", "pane": "x", "score": 1}, "field 'pane': must be a valid integer"),
        ({"query": "q1", "pane": 1}, "field 'score': is missing"),
        ({"query": "q1", "pane": 1, "score": "high"}, "field 'score': must be a valid number"),
        ({"query": "q1", "pane": 1, "score": "nan"}, "field 'score': must be a finite number, is 'nan'"),
        ({"query": "q2", "pane": 1, "score": 1}, "pane 1 of 'q2' is scored twice"),
    ],
)
def test_wrong_score_is_located(write: Write, row: dict[str, Any], says: str) -> None:
    error = scores_refusal(write("s.jsonl", [ROWS[0], row]))
    assert error.line == 2
    assert says in str(error)


def test_every_pane_needs_a_score(write: Write) -> None:
    message = "has no score for 2 panes, the first is pane 1 of 'q1'"
    assert message in str(scores_refusal(write("s.jsonl", ROWS[:1])))


HEADER = (
    "query\tquestion\toption_1\toption_2\toption_3\toption_4\toption_5\timpression_level\tengagement_level\n"
)
ROW = 'q\tWhich "aco" do you mean?\ta\tb\t\t\t\tlow\t7\n'


def table_refusal(path: Path, *labels: str) -> str:
    with pytest.raises(InputError) as caught:
        list(read_pane_table(path, labels or ("engagement",)))
    return str(caught.value).removeprefix(str(path))


def test_row_is_a_pane_with_the_labels_asked_for(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW + ROW.replace("7", ""))
    pane = PaneText("q", 'Which "aco" do you mean?', ("a", "b", "", "", ""))
    assert list(read_pane_table(path, ("engagement", "engagement"))) == [
        (pane, [7.0, 7.0]),
        (pane, [None, None]),
    ]
    for column in ("options_overall_label", "OverallClarificationPaneQuality"):
        path = write("panes.tsv", (HEADER + ROW).replace("engagement_level", column))
        assert [labels for _, labels in read_pane_table(path, ("quality",))] == [[7.0]]


def test_table_that_is_not_in_the_format_of_mimics_is_refused(write: Write) -> None:
    message = table_refusal(write("panes.tsv", HEADER + ROW), "quality")
    assert message.startswith(
        ":1: field 'options_overall_label or OverallClarificationPaneQuality': the column"
    )
    for label, says in (("high", "must be a valid number"), ("inf", "must be a finite number")):
        path = write("panes.tsv", HEADER + ROW + ROW.replace("7", label))
        assert table_refusal(path).startswith(":3: ")
        assert says in table_refusal(path)
    assert table_refusal(write("panes.tsv", HEADER + ROW[1:])) == ":2: query or question is empty"
    assert table_refusal(write("panes.tsv", HEADER + "q\tw\n")) == ":2: has 2 cells where the header names 9"
    assert table_refusal(write("panes.tsv", HEADER)) == ": has no rows"
