"""Qulac's tables: what is printed of figures, conversations and gains, and what a program gets."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cts_async.neighbours.qulac.collection import Figure, figures_table
from cts_async.neighbours.qulac.gains import (
    Evaluated,
    evaluated,
    gain_notes,
    oracle_table,
    question_gains,
    questions_table,
)
from cts_async.neighbours.qulac.records import counts_table
from cts_async.report.tables import DataTable, print_table

VALUES = {"1-1-0-0": 0.5, "1-1-1-1": 0.7, "1-1-1-0": 0.25, "1-1-2-1": 0.1, "1-1-1-2-1": 1.0}
WITHOUT = {"1-1-1-1": 0.7, "1-1-1-0": 0.25, "1-1-2-1": 0.1}


def printed(table: DataTable) -> list[list[str]]:
    out = io.StringIO()
    print_table(Console(file=out, width=80, color_system=None), table)
    return [line.split() for line in out.getvalue().splitlines() if line.strip()]


def test_record_ids_say_what_was_evaluated() -> None:
    assert list(evaluated(VALUES)) == [
        Evaluated("1-1", (), None, False, 0.5),
        Evaluated("1-1", (), 1, True, 0.7),
        Evaluated("1-1", (), 1, False, 0.25),
        Evaluated("1-1", (), 2, True, 0.1),
        Evaluated("1-1", (1,), 2, True, 1.0),
    ]


def test_a_figure_stands_beside_the_published_one_with_its_digits() -> None:
    table = figures_table([Figure("a", 2_639, 2_639), Figure("b", 8.21, 8.2121, 2), Figure("c", 4, 4.5)])
    assert printed(table)[-3:] == [
        ["a", "2,639", "2,639", "ok"],
        ["b", "8.21", "8.21", "ok"],
        ["c", "4", "4.5", "differs"],
    ]
    assert [row["reproduced"] for row in table.rows] == [True, True, False]


def test_conversations_are_counted_by_length_and_together() -> None:
    assert printed(counts_table({1: 1_000, 2: 5}))[-3:] == [["1", "1,000"], ["2", "5"], ["all", "1,005"]]


def test_the_oracle_s_row_has_no_question_worst_mean_best_and_gain() -> None:
    table = oracle_table({"P1": question_gains(evaluated(VALUES))})
    assert printed(table)[-2:] == [
        ["P1", "0", "1", "0.5000", "0.1000", "0.4000", "0.7000", "+0.2000"],
        ["P1", "1", "1", "0.5000", "1.0000", "1.0000", "1.0000", "+0.5000"],
    ]
    assert table.rows[0]["against"] == "the original query alone"


def test_p_values_of_all_metrics_are_corrected_together() -> None:
    """Two tests with t = 0.2 / (0.1 / sqrt(3)) = 3.4641 and p = 1 - t / sqrt(2 + t^2) = 0.07418: each p is doubled."""
    values = {f"1-{i}-0-0": 0.5 for i in (1, 2, 3)} | {f"1-{i}-1-1": 0.5 + i / 10 for i in (1, 2, 3)}
    found = question_gains(evaluated(values), test=True)
    table = oracle_table({"P1": found, "P3": found})
    assert [row["p_holm"] for row in table.rows] == [pytest.approx(2 * row["p"]) for row in table.rows]
    assert printed(table)[-1][-2:] == ["3.46", "0.1484"]
    assert "chance alone lifts it above none" in table.caption, (
        "a best of many is better even where nothing helps"
    )


def test_questions_come_from_the_best_to_the_worst() -> None:
    table = questions_table("P1", question_gains(evaluated(VALUES)))
    assert table.name == "questions_P1"
    assert printed(table)[-3:] == [
        ["1-1", "2", "1", "1", "1.0000", "+0.5000", "-", "-"],
        ["1-1", "1", "0", "1", "0.7000", "+0.2000", "0.2500", "-0.2500"],
        ["1-1", "2", "0", "1", "0.1000", "-0.4000", "-", "-"],
    ]


def test_without_the_original_query_the_tables_and_a_note_say_what_gains_are_over() -> None:
    found = {"P1": question_gains(evaluated(WITHOUT)), "P3": question_gains(evaluated(VALUES))}
    table = oracle_table(found)
    assert [row["against"] for row in table.rows] == [
        "the best question without its answer",
        *["the original query alone"] * 2,
    ]
    assert "none: the original query alone, or the best question without its answer" in table.caption
    (note,) = gain_notes(found)
    assert note.startswith(
        "P1: 1 facet has no record of the original query alone (1-1-0-0), so gains are over"
    )
    questions = questions_table("P1", found["P1"])
    assert "gain over the same question without its answer" in questions.caption
    assert [row["gain"] for row in questions.rows] == [pytest.approx(0.45), None]


def test_facets_that_gain_leaves_out_are_told() -> None:
    values = {"1-1-1-1": 0.5, "1-1-1-0": 0.2, "1-2-1-1": 0.9}
    found = {"P1": question_gains(evaluated(values))}
    (row,) = oracle_table(found).rows
    assert (row["best"], row["none"], row["gain"]) == pytest.approx((0.7, 0.2, 0.3))
    assert (row["facets"], row["facets_with_none"]) == (2, 1)
    assert gain_notes(found)[1].startswith(
        "P1, 0 past: only 1 of 2 facets have a record of the best question without"
    )
