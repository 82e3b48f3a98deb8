"""Two runs with different supporting models, small enough to compare by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import Row, made_run

from cts_async.analysis.runs import FinishedRun, read_run
from cts_async.analysis.stability import Stability, stability, text_similarity


def run(folder: Path, name: str, *rows: Row) -> FinishedRun:
    return read_run(made_run(folder, label="gpt-k1", rows=rows, name=name, players={"support": name}))


def row(id: str, question: str, answer: str, rewritten: str, query: str = "rents") -> Row:
    return Row(id, [question], [answer], blurred_query=query, rewritten_query=rewritten)


def test_table_11_by_hand(tmp_path: Path) -> None:
    ernie = run(
        tmp_path,
        "ernie",
        row("q1", "Where?", "unknown", "rents"),
        row("q2", "Where?", "Berlin", "rents in Berlin"),
        row("q3", "When?", "unknown", "rents 2024"),  # a year that nobody named
        row("q4", "Which kind?", "new ones", "rents of new flats"),
        row("q5", "Where?", "unknown", "rents"),  # fails in the other run
    )
    gpt = run(
        tmp_path,
        "gpt",
        row("q1", "where? ", "unknown", "rents"),  # the same question but for case and space
        row("q2", "Where?", "unknown", "rents"),  # the other status
        row("q3", "Which year?", "unknown", "rents"),  # another question
        row("q4", "Which kind?", "all kinds", "rents of new flats"),
        Row("q5", error="answer"),
    )
    assert stability(ernie, gpt, ("gpt-ernie", "gpt-gpt")) == Stability(
        run="gpt-ernie",
        other="gpt-gpt",
        n_questions=5,
        n_aligned=3,
        ua_agreement=2 / 3,
        n_rewrites=4,
        # 1; 2 * 5 / (15 + 5); 2 * 5 / (10 + 5); 1
        rewrite_similarity=pytest.approx((1 + 0.5 + 2 / 3 + 1) / 4),
        n_with_unknown=6,
        unknown_preservation=5 / 6,
        unsupported_years=1 / 9,
        unsupported_regions=0.0,
    )


def test_without_a_common_question_no_agreement_is_claimed(tmp_path: Path) -> None:
    first = run(tmp_path, "ernie", row("q1", "Where?", "unknown", "rents"))
    second = run(tmp_path, "gpt", row("q2", "Where?", "unknown", "rents"))
    found = stability(first, second, ("a", "b"))
    assert (found.n_aligned, found.ua_agreement, found.n_rewrites, found.rewrite_similarity) == (
        0,
        None,
        0,
        None,
    )
    assert found.unknown_preservation == 1.0


def test_of_a_question_asked_twice_the_first_answer_counts(tmp_path: Path) -> None:
    twice = Row("q1", ["Where?", "where?"], ["unknown", "Berlin"], rewritten_query="x")
    first = run(tmp_path, "ernie", twice)
    second = run(tmp_path, "gpt", row("q1", "Where?", "unknown", "x"))
    found = stability(first, second, ("a", "b"))
    assert (found.n_questions, found.n_aligned, found.ua_agreement) == (2, 1, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "similarity"),
    [
        ("", "", 1.0),
        ("abc", "", 0.0),
        ("abcd", "abef", 0.5),
        ("北京的大学", "北京大学", 8 / 9),
        ("Ferry  Times", "ferry times", 1.0),
        ("ＡＢ", "ab", 1.0),
    ],
)
def test_likeness_by_hand(a: str, b: str, similarity: float) -> None:
    assert text_similarity(a, b) == pytest.approx(similarity)


@given(st.text(max_size=12), st.text(max_size=12))
def test_likeness_is_symmetric_and_a_share(a: str, b: str) -> None:
    assert 0 <= text_similarity(a, b) == text_similarity(b, a) <= 1
    assert text_similarity(a, a) == 1.0
