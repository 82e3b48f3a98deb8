"""The baseline without a model: its parts by hand, and the order of its systems on the sample world."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

import cts_async
from cts_async.analysis.question_types import read_question
from cts_async.baseline import QUESTIONS, answer, ask, rewrite, spans
from cts_async.protocol.views import AnswererView, ClarifierView, RewriterView

SYSTEMS = ("orig", "baseline-k1", "baseline-k2", "baseline-k3", "gold")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_template_asks_for_its_own_type(language: str) -> None:
    assert [(kind, read_question(text).types) for kind, text in QUESTIONS[language].items()] == [
        (kind, (kind,)) for kind in QUESTIONS[language]
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "Tidewheel Museum ticket prices for seniors in 2033",
            [("Tidewheel Museum ticket prices", "entity"), ("for seniors", "scope"), ("in 2033", "time")],
        ),
        (
            "are dogs allowed at Heron Marsh during the nesting season",
            [
                ("are dogs allowed", "entity"),
                ("at Heron Marsh", "region"),
                ("during the nesting season", "time"),
            ],
        ),
        (
            "vegetarian harbour pie recipe without fish",
            [("vegetarian harbour pie recipe", "entity"), ("without fish", "criterion")],
        ),
        ("老城区冬季垃圾分类", [("老城区", "region"), ("冬季", "time"), ("垃圾分类", "entity")]),
        (
            "65岁以上老人在白鹭湖的露营",
            [("65岁", "scope"), ("以上老人", "scope"), ("白鹭湖", "region"), ("露营", "entity")],
        ),
        ("", []),
    ],
)
def test_a_query_is_taken_apart_into_typed_spans(query: str, expected: list[tuple[str, str]]) -> None:
    assert list(spans(query)) == expected


def test_the_clarifier_asks_last_for_what_the_query_says() -> None:
    asked = asyncio.run(ask(ClarifierView("ferry timetable in winter", 3)))
    assert asked == [QUESTIONS["en"][kind] for kind in ("scope", "region", "entity")]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which date do you mean?", "in winter"),
        ("Which city or district?", "at Heron Marsh"),
        ("What is your budget?", "unknown"),
    ],
)
def test_the_user_quotes_what_the_question_asks_for(question: str, expected: str) -> None:
    view = AnswererView("are dogs allowed at Heron Marsh in winter", question)
    assert asyncio.run(answer(view)) == expected


def test_the_rewriter_appends_known_answers_once() -> None:
    pairs = (("a?", "in winter"), ("b?", "unknown"), ("c?", "in winter"))
    assert asyncio.run(rewrite(RewriterView("ferry times", pairs))) == "ferry times in winter"


def test_every_question_helps_on_the_sample_world(tmp_path: Path) -> None:
    """orig < one question <= two <= three < the intent itself; the interval of gold - orig is above 0."""
    runs = cts_async.run(
        "baseline",
        (1, 2, 3),
        every_role="baseline",
        references=("orig", "gold"),
        runs_dir=tmp_path,
        quiet=True,
    )
    scores = defaultdict(list)
    for row in runs.instances:
        scores[row["system"]].append(row["score"])
    assert {len(values) for values in scores.values()} == {28}
    orig, k1, k2, k3, gold = (fmean(scores[system]) for system in SYSTEMS)
    assert orig < k1 <= k2 <= k3 < gold
    compared = cts_async.compare(tmp_path)
    (judged,) = compared["judges"]
    (row,) = [row for row in judged["leaderboard"] if row["system"] == "gold"]
    assert row["delta"]["low"] > 0
