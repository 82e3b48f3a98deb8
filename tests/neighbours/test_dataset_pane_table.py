"""A TSV of panes in MIMICS' format; whatever does not fit is named with file and line."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from cts_async.errors import InputError
from cts_async.neighbours.mimics_duo.panes import LabelledRow, read_pane_table

HEADER = (
    "query\tquestion\toption_1\toption_2\toption_3\toption_4\toption_5\timpression_level\tengagement_level\n"
)
ROW = 'q\tWhich "aco" do you mean?\ta\tb\t\t\t\tlow\t7\n'
Write = Callable[..., Path]


def refusal(path: Path, *labels: str, max_line_bytes: int = 10_000) -> str:
    with pytest.raises(InputError) as caught:
        list(read_pane_table(path, labels or ("engagement",), max_line_bytes=max_line_bytes))
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def test_a_row_is_a_pane_with_the_labels_asked_for(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW)
    row = LabelledRow("q", 'Which "aco" do you mean?', ("a", "b", "", "", ""), (7.0, 7.0))
    assert list(read_pane_table(path, ("engagement", "engagement"))) == [row]


def test_labels_stand_where_mimics_manual_and_duo_have_them(write: Write) -> None:
    for column in ("options_overall_label", "OverallClarificationPaneQuality"):
        path = write("panes.tsv", (HEADER + ROW).replace("engagement_level", column))
        assert [row.labels for row in read_pane_table(path, ("quality",))] == [(7.0,)]


def test_a_label_may_be_missing(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW.replace("7", ""))
    assert [row.labels for row in read_pane_table(path, ("engagement",))] == [(None,)]


def test_a_missing_column_is_named_with_those_that_are_there(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW)
    said = refusal(path, "quality")
    assert said.startswith(":1: field 'options_overall_label or OverallClarificationPaneQuality': is missing")
    assert "engagement_level" in said


@pytest.mark.parametrize("label", ["high", "nan", "inf"])
def test_a_label_that_is_no_number_is_refused(write: Write, label: str) -> None:
    path = write("panes.tsv", HEADER + ROW + ROW.replace("7", label))
    assert refusal(path) == f":3: field 'engagement_level': must be a number, is '{label}'"


def test_an_empty_query_is_refused(write: Write) -> None:
    assert refusal(write("panes.tsv", HEADER + ROW[1:])) == ":2: field 'query': is empty"


def test_a_row_too_short_is_refused(write: Write) -> None:
    assert refusal(write("panes.tsv", HEADER + "q\tw\n")) == ":2: has 2 cells where the header names 9"


def test_a_file_without_rows_is_refused(write: Write) -> None:
    assert refusal(write("panes.tsv", HEADER)) == ": has no rows"


def test_another_encoding_is_named_with_its_line(write: Write) -> None:
    assert refusal(write("panes.tsv", (HEADER + ROW.replace("a\t", "é\t")).encode("latin-1"))).startswith(
        ":2: "
    )


def test_a_line_without_end_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "panes.tsv"
    with path.open("wb") as file:
        file.write(HEADER.encode())
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        assert refusal(path).startswith(":2: ")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
