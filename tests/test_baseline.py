"""The baseline without a model: its parts by hand, and the order of its systems on the sample world."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from hashlib import blake2b
from pathlib import Path
from statistics import fmean

import pytest

import cts_async
from cts_async.analysis.question_types import read_question
from cts_async.baseline import (
    QUESTIONS,
    VERSION,
    answer,
    ask,
    is_ambiguous,
    rewrite,
    spans,
    yes_no_questions,
    yes_or_no,
)
from cts_async.protocol.audit import audit_run
from cts_async.protocol.custom.sources import custom_role
from cts_async.protocol.views import AnswererView, ClarifierView, RewriterView
from cts_async.search.backends import Page

README = Path(__file__).parents[1] / "README.md"
ASKING = README.with_name("docs") / "asking.md"
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


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Do you mean Heron Marsh in winter?", "yes"),
        ("Is it in winter?", "yes"),
        ("Do you mean in summer?", "no"),
        ("Do you mean at Sallow Lake?", "no"),
        # Nothing is said of a purpose, and of what it is called by another name nothing is certain.
        ("Is it for children?", "i don't know"),
        ("Do you mean cats?", "i don't know"),
        ("Which place do you mean?", "i don't know"),
        ("", "i don't know"),
    ],
)
def test_user_says_yes_to_what_the_intent_says_and_no_to_what_it_contradicts(
    question: str, reply: str
) -> None:
    intent = "are dogs allowed at Heron Marsh in winter"
    assert yes_or_no(intent, question) == reply
    assert asyncio.run(answer(AnswererView(intent, question, replies="yes-no"))) == reply


def test_user_replies_yes_no_to_chinese() -> None:
    replies = [yes_or_no("老城区冬季垃圾分类", f"您指的是{text}吗？") for text in ("冬季", "夏季", "厨余")]
    assert replies == ["yes", "no", "i don't know"]


WINTER = Page("d", "https://a.example/1", "Ferry timetable in winter", "The ferry leaves at nine.")
SUMMER = Page("d", "https://a.example/2", "Ferry timetable in summer", "The ferry leaves at ten.")


def test_query_is_ambiguous_where_it_cannot_tell_two_pages_apart() -> None:
    assert is_ambiguous("ferry timetable", [WINTER, SUMMER])
    assert not is_ambiguous("winter ferry timetable", [WINTER, SUMMER])
    # Best first: a second page that has more of the query's terms is a reason to ask, too.
    assert is_ambiguous("winter ferry timetable", [SUMMER, WINTER])
    assert not is_ambiguous("ferry timetable", [WINTER])


def test_yes_no_questions_name_what_the_query_leaves_open() -> None:
    assert yes_no_questions("ferry timetable", [WINTER, SUMMER]) == {
        "Do you mean in winter?": "in winter",
        "Do you mean in summer?": "in summer",
    }


def test_runs_of_earlier_versions_are_those_of_this_one() -> None:
    """What is added to the file changes neither results nor the identity of runs while its version is the same."""
    assert VERSION == "1"
    role = custom_role("baseline", "agent")
    assert role.sha256 == "254a66cb617624288c5b4f12f5082d942d7a2b25262af0f3fd356ae0bc048d09"


ANSWERS = "a92dd29ecc23c77a864e251d91e061c1"
"""Digest of the answers of orig and gold by version 1 of the baseline."""


def test_every_question_helps_on_the_sample_world(tmp_path: Path) -> None:
    """orig < one question <= two <= three < the intent itself; the interval of gold - orig is above 0.

    So it is during the search: never < yes or no < in words <= the intent.
    """
    runs = cts_async.run(
        "baseline",
        (1, 2, 3),
        every_role="baseline",
        references=("orig", "gold"),
        ask=("never", "before", "during"),
        runs_dir=tmp_path,
        quiet=True,
    )
    yes_no = cts_async.run(
        every_role="baseline", references=(), ask=("during",), replies="yes-no", runs_dir=tmp_path, quiet=True
    )
    scores = defaultdict(list)
    answers = defaultdict(list)
    for row in (*runs.instances, *yes_no.instances):
        scores[row["system"]].append(row["score"])
        answers[row["system"]].append(row["answer"])
    assert {len(values) for values in scores.values()} == {28}
    orig, k1, k2, k3, gold = (fmean(scores[system]) for system in SYSTEMS)
    assert orig < k1 <= k2 <= k3 < gold
    assert orig < fmean(scores["orig+ask3-yesno"]) < fmean(scores["orig+ask3"]) <= gold
    table = README.read_text(encoding="utf-8")
    asking = ASKING.read_text(encoding="utf-8")
    for system in ("orig+ask3-yesno", "orig+ask3"):
        n_asks = fmean(row["asks"] for row in (*runs.instances, *yes_no.instances) if row["system"] == system)
        assert f"| {system} | {n_asks:.2f} | {fmean(scores[system]):.2f} |" in asking
    for system in (*SYSTEMS, "orig+ask3"):
        assert f"| {system} | lexical | {fmean(scores[system]):.2f} |" in table
    digest = blake2b(repr([sorted(answers["orig"]), sorted(answers["gold"])]).encode(), digest_size=16)
    assert digest.hexdigest() == ANSWERS
    # What it searches with is its query and the replies that it was given.
    assert [audit_run(run).n_held for run in tmp_path.iterdir() if "+ask3" in run.name] == [28, 28]
    compared = cts_async.compare(tmp_path)
    (judged,) = compared["judges"]
    (row,) = [row for row in judged["leaderboard"] if row["system"] == "gold"]
    assert row["delta"]["low"] > 0
