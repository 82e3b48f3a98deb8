"""Panes read from MIMICS-Duo's four files, from tables in the format of MIMICS, and scores of panes."""

from __future__ import annotations

import tracemalloc
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
    LabelledRow,
    as_records,
    numbered,
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


def test_read_panes_returns_written_panes(tmp_path: Path) -> None:
    assert list(read_panes(write_panes(tmp_path, PANES))) == PANES


def test_columns_are_found_as_the_readme_spells_them_too(tmp_path: Path) -> None:
    files = tables(PANES)
    files[RATING][0] = [*files[RATING][0][:-1], "Offline rating"]
    files[ASPECTS][0] = [
        *files[ASPECTS][0][:-4],
        "coverage",
        "DIVERSITY",
        "understandability",
        "importance_order",
    ]
    assert list(read_panes(write_tables(tmp_path, files))) == PANES


def test_last_row_may_lack_the_columns_without_a_name(tmp_path: Path) -> None:
    """As the released file does."""
    files = tables(PANES)
    files[QUALITY][-1] = files[QUALITY][-1][:-8]
    assert list(read_panes(write_tables(tmp_path, files))) == PANES


def test_missing_directory_error_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory; name the one with Mimics-Click"):
        list(read_panes(tmp_path / "none"))


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (write_panes(tmp_path, PANES) / name).unlink()
    assert "no such file" in refusal(tmp_path, name, None)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("column", [0, 4, 7])
def test_missing_column_is_named(tmp_path: Path, name: str, column: int) -> None:
    files = tables(PANES)
    lost = files[name][0][column]
    files[name] = [row[:column] + row[column + 1 :] for row in files[name]]
    assert f"field {lost!r}: is missing; the columns here are 'q" in refusal(
        write_tables(tmp_path, files), name, 1
    )


@pytest.mark.parametrize("name", FILES)
def test_row_that_is_cut_short_is_named(tmp_path: Path, name: str) -> None:
    files = tables(PANES)
    files[name][2] = files[name][2][:6]
    assert "has 6 cells where the header names" in refusal(write_tables(tmp_path, files), name, 3)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xb5\xe7", "is not UTF-8: byte 0xb5"),
        (b"\x00", "NUL byte"),
        (b"x" * 5000, "longer than 1000 bytes"),
    ],
)
def test_line_that_is_no_text_is_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    file = write_panes(tmp_path, PANES) / name
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:2], content, *lines[2:]]))
    with pytest.raises(InputError) as caught:
        list(read_panes(tmp_path, max_line_bytes=1000))
    assert str(caught.value).startswith(f"{file}:3: ")
    assert says in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_endless_line_is_refused_without_being_read(tmp_path: Path, name: str) -> None:
    with (write_panes(tmp_path, PANES) / name).open("r+b") as file:
        file.truncate(1 << 30)  # sparse: the last line is a gigabyte long
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"{name}:4: is longer than 1048576 bytes"):
        list(read_panes(tmp_path, max_line_bytes=1 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("name", FILES[1:])
def test_rows_in_another_order_are_refused_with_both_lines(tmp_path: Path, name: str) -> None:
    files = tables(PANES)
    files[name][2:] = reversed(files[name][2:])
    says = refusal(write_tables(tmp_path, files), name, 3)
    assert (
        f"field 'query': is 'q2' where {ONLINE}:3 has 'q1'; the four files must have the same panes" in says
    )


@pytest.mark.parametrize("name", FILES[1:])
def test_option_that_differs_is_named(tmp_path: Path, name: str) -> None:
    files = tables(PANES)
    files[name][3][4] = "Z"
    says = refusal(write_tables(tmp_path, files), name, 4)
    assert f"field 'option_3': is 'Z' where {ONLINE}:4 has 'z'" in says


@pytest.mark.parametrize("name", FILES)
def test_file_that_ends_too_early_is_named(tmp_path: Path, name: str) -> None:
    files = tables(PANES)
    files[name].pop()
    other = RATING if name == ONLINE else ONLINE
    says = refusal(write_tables(tmp_path, files), name, None)
    assert f"ends too early: {other} goes on at line 4" in says


def test_repeated_pane_is_refused_with_both_lines(tmp_path: Path) -> None:
    says = refusal(write_panes(tmp_path, [*PANES[:2], PANES[0]]), ONLINE, 4)
    assert "is the same pane as line 2" in says


def test_query_with_separated_panes_is_refused(tmp_path: Path) -> None:
    says = refusal(write_panes(tmp_path, [PANES[0], PANES[2], PANES[1]]), ONLINE, 4)
    assert "field 'query': the panes of 'q1' are not contiguous: they begin at line 2" in says


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    assert "has no rows" in refusal(write_panes(tmp_path, []), ONLINE, None)


@pytest.mark.parametrize("option", [["a", "", "", "", ""], ["a", "", "b", "", ""], ["", "", "", "", ""]])
def test_fewer_than_two_options_or_a_gap_is_refused(tmp_path: Path, option: list[str]) -> None:
    files = tables(PANES)
    for rows in files.values():
        rows[1][2:7] = option
    assert "is missing" in refusal(write_tables(tmp_path, files), ONLINE, 2)


@pytest.mark.parametrize(
    ("name", "column", "cell", "says"),
    [
        (ONLINE, 7, "often", "field 'impression_level': must be low, medium or high, is 'often'"),
        (ONLINE, 8, "11", "field 'engagement_level': must be a level from 0 to 10, is '11'"),
        (ONLINE, 8, "", "field 'engagement_level': must be a level from 0 to 10, is ''"),
        (ONLINE, 9, "nan", "field 'option_cctr_1': must be a probability from 0 to 1, is 'nan'"),
        (ONLINE, 10, "1.5", "field 'option_cctr_2': must be a probability from 0 to 1, is '1.5'"),
        (ONLINE, 11, "x", "field 'option_cctr_3': must be a probability from 0 to 1, is 'x'"),
        (ONLINE, 13, "0.5", "has clicks on an option that is missing"),
        (RATING, 7, "0", "field 'offline rating': must be a label from 1 to 5, is '0'"),
        (QUALITY, 8, "", "field 'Quality_Option2': must be a label from 1 to 5, is ''"),
        (QUALITY, 9, "4", "field 'Quality_Option3': labels an option that is missing: '4'"),
        (QUALITY, 12, "6", "field 'OverallClarificationPaneQuality': must be a label from 1 to 5, is '6'"),
        (ASPECTS, 10, "3.5", "field 'Importance Order': must be a label from 1 to 5, is '3.5'"),
    ],
)
def test_cell_out_of_range_is_named(tmp_path: Path, name: str, column: int, cell: str, says: str) -> None:
    files = tables(PANES)
    files[name][1][column] = cell
    assert says in refusal(write_tables(tmp_path, files), name, 2)


@needs_mimics
def test_release_is_1034_panes_of_306_queries() -> None:
    panes = list(read_panes(SHARED))
    assert (len(panes), len({one.query for one in panes})) == (1034, 306)
    assert sum('""' in one.question for one in panes) == 4
    assert sum(len(one.options) for one in panes) == 3709


def test_huge_cell_is_shortened_in_the_error(tmp_path: Path) -> None:
    files = tables(PANES)
    files[RATING][2][1] = "x" * 1_000_000
    with pytest.raises(InputError) as caught:
        list(read_panes(write_tables(tmp_path, files)))
    assert caught.value.line == 3
    assert len(str(caught.value)) < 800


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


def scores_refusal(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read_pane_scores(path, SCORED, **options)
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_panes_are_numbered_within_their_query() -> None:
    assert [number for number, _ in numbered(SCORED)] == [1, 2, 1]


def test_pane_record_starts_with_query_and_number() -> None:
    record = next(iter(as_records(SCORED)))
    assert list(record)[:4] == ["query", "pane", "question", "options"]
    assert (record["query"], record["pane"], record["options"]) == ("q1", 1, ("a", "b"))


def test_scores_are_returned_in_pane_order(write: Write) -> None:
    assert read_pane_scores(write("s.jsonl", ROWS), SCORED) == [2.5, 0.5, -1.0]


@pytest.mark.parametrize(("name", "sign"), [("s.tsv", "\t"), ("s.csv", ",")])
def test_tables_are_read_too(write: Write, name: str, sign: str) -> None:
    lines = [sign.join(("query", "pane", "score")), *(sign.join(map(str, row.values())) for row in ROWS)]
    assert read_pane_scores(write(name, "\n".join(lines)), SCORED) == [2.5, 0.5, -1.0]


def test_question_names_a_pane_where_its_query_asks_it_once(write: Write) -> None:
    rows = [*ROWS[1:], {"query": "q2", "question": "Who?", "score": 7}]
    assert read_pane_scores(write("s.jsonl", rows), SCORED) == [2.5, 0.5, 7.0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"pane": 1, "score": 1}, "field 'query': is missing; the fields here are 'pane', 'score'"),
        ({"query": 3, "pane": 1, "score": 1}, "field 'query': must be text, is a number"),
        ({"query": "q3", "pane": 1, "score": 1}, "field 'query': no pane is for 'q3'"),
        ({"query": "q1", "score": 1}, "field 'pane': is missing; the fields here are 'query', 'score'"),
        ({"query": "q1", "pane": None, "score": 1}, "field 'pane': is empty"),
        ({"query": "q1", "pane": 3, "score": 1}, "field 'pane': must be a pane of 'q1', 1 to 2, is 3"),
        ({"query": "q1", "pane": 0, "score": 1}, "field 'pane': must be a pane of 'q1', 1 to 2, is 0"),
        ({"query": "q1", "pane": "x", "score": 1}, "field 'pane': must be a pane of 'q1', 1 to 2, is 'x'"),
        (
            {"query": "q1", "question": "Which?", "score": 1},
            "2 panes of 'q1' ask 'Which?'; say which by `pane`",
        ),
        ({"query": "q1", "question": "Why?", "score": 1}, "no pane of 'q1' asks 'Why?'"),
        ({"query": "q1", "pane": 1}, "field 'score': is missing; the fields here are 'query', 'pane'"),
        ({"query": "q1", "pane": 1, "score": "high"}, "field 'score': must be a finite number, is 'high'"),
        ({"query": "q1", "pane": 1, "score": True}, "field 'score': must be a finite number, is True"),
        ({"query": "q1", "pane": 1, "score": None}, "field 'score': must be a finite number, is None"),
        ({"query": "q1", "pane": 1, "score": "inf"}, "field 'score': must be a finite number, is 'inf'"),
        ({"query": "q2", "pane": 1, "score": 1}, "scores the pane of line 1 again"),
    ],
)
def test_line_that_cannot_be_used_is_named(write: Write, row: dict[str, Any], says: str) -> None:
    error = scores_refusal(write("s.jsonl", [ROWS[0], row]))
    assert error.line == 2
    assert says in str(error)


def test_panes_without_a_score_are_named(write: Write) -> None:
    error = scores_refusal(write("s.jsonl", ROWS[:1]))
    assert "has no score for 'q1' pane 1, 'q1' pane 2; every pane needs one" in str(error)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("s.jsonl", b'{"query": "q1"\n', "not valid JSON"),
        ("s.jsonl", b"\xff\xfe{", "is UTF-16"),
        ("s.tsv", b"query\tpane\tscore\nq1\t1\n", "has 2 cells"),
        ("s.tsv", b"query\tpane\tscore\nq1\t1\t\xb5\n", "is not UTF-8"),
        ("s.csv", b"query,pane,score\n" + 2000 * b"x", "longer than 1000 bytes"),
    ],
)
def test_broken_file_is_refused(write: Write, name: str, content: bytes, says: str) -> None:
    assert says in str(scores_refusal(write(name, content), max_line_bytes=1000))


HEADER = (
    "query\tquestion\toption_1\toption_2\toption_3\toption_4\toption_5\timpression_level\tengagement_level\n"
)
ROW = 'q\tWhich "aco" do you mean?\ta\tb\t\t\t\tlow\t7\n'


def table_refusal(path: Path, *labels: str, max_line_bytes: int = 10_000) -> str:
    with pytest.raises(InputError) as caught:
        list(read_pane_table(path, labels or ("engagement",), max_line_bytes=max_line_bytes))
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def test_row_is_a_pane_with_the_labels_asked_for(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW)
    row = LabelledRow("q", 'Which "aco" do you mean?', ("a", "b", "", "", ""), (7.0, 7.0))
    assert list(read_pane_table(path, ("engagement", "engagement"))) == [row]


def test_labels_are_read_from_columns_of_manual_and_duo(write: Write) -> None:
    for column in ("options_overall_label", "OverallClarificationPaneQuality"):
        path = write("panes.tsv", (HEADER + ROW).replace("engagement_level", column))
        assert [row.labels for row in read_pane_table(path, ("quality",))] == [(7.0,)]


def test_label_may_be_missing(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW.replace("7", ""))
    assert [row.labels for row in read_pane_table(path, ("engagement",))] == [(None,)]


def test_missing_column_is_named_with_those_that_are_there(write: Write) -> None:
    path = write("panes.tsv", HEADER + ROW)
    said = table_refusal(path, "quality")
    assert said.startswith(":1: field 'options_overall_label or OverallClarificationPaneQuality': is missing")
    assert "engagement_level" in said


@pytest.mark.parametrize("label", ["high", "nan", "inf"])
def test_label_that_is_no_number_is_refused(write: Write, label: str) -> None:
    path = write("panes.tsv", HEADER + ROW + ROW.replace("7", label))
    assert table_refusal(path) == f":3: field 'engagement_level': must be a number, is '{label}'"


def test_empty_query_is_refused(write: Write) -> None:
    assert table_refusal(write("panes.tsv", HEADER + ROW[1:])) == ":2: field 'query': is empty"


def test_row_too_short_is_refused(write: Write) -> None:
    assert table_refusal(write("panes.tsv", HEADER + "q\tw\n")) == ":2: has 2 cells where the header names 9"


def test_file_without_rows_is_refused(write: Write) -> None:
    assert table_refusal(write("panes.tsv", HEADER)) == ": has no rows"


def test_another_encoding_is_named_with_its_line(write: Write) -> None:
    assert table_refusal(
        write("panes.tsv", (HEADER + ROW.replace("a\t", "é\t")).encode("latin-1"))
    ).startswith(":2: ")


def test_line_without_end_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "panes.tsv"
    with path.open("wb") as file:
        file.write(HEADER.encode())
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        assert table_refusal(path).startswith(":2: ")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
