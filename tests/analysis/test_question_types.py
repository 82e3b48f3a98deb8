"""The rules for types of questions, against labels given by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.analysis.question_types import QUESTION_TYPES, OwnLabels, Reading, read_question
from cts_async.records import language_of

Labelled = tuple[tuple[str, ...], str]


def read_labelled() -> dict[str, list[Labelled]]:
    """Read labelled_questions.tsv: types and question, by set."""
    sets: dict[str, list[Labelled]] = {}
    for line in Path(__file__).with_name("labelled_questions.tsv").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, types, question = line.split("\t")
            sets.setdefault(name, []).append((tuple(types.split("+")), question))
    return sets


QUESTIONS = read_labelled()


def agreement(questions: Sequence[Labelled]) -> dict[str, tuple[int, int, int]]:
    """By type: (right, found by the rules, given by hand), a question counting for each of its types."""
    read = [(set(types), set(read_question(question).types)) for types, question in questions]
    return {
        kind: (
            sum(kind in by_hand and kind in by_rule for by_hand, by_rule in read),
            sum(kind in by_rule for _, by_rule in read),
            sum(kind in by_hand for by_hand, _ in read),
        )
        for kind in QUESTION_TYPES
    }


def exactly(questions: Sequence[Labelled]) -> int:
    """Questions with all types, and no others, and the same primary one."""
    found = [(types, read_question(question)) for types, question in questions]
    return sum(set(types) == set(reading.types) and types[0] == reading.primary for types, reading in found)


def test_rules_agree_with_labels_they_were_written_with_and_with_held_out_ones() -> None:
    tuned, held_out = QUESTIONS["tuned"], QUESTIONS["held_out"]
    assert (exactly(tuned), len(tuned), exactly(held_out), len(held_out)) == (131, 132, 65, 70)
    expected = {
        "time": ((28, 28, 28), (14, 16, 14)),
        "region": ((30, 30, 30), (15, 15, 16)),
        "entity": ((24, 24, 24), (12, 12, 12)),
        "scope": ((29, 30, 29), (16, 18, 16)),
        "criterion": ((22, 22, 22), (10, 11, 12)),
        "other": ((4, 4, 4), (1, 1, 2)),
    }
    first, second = agreement(tuned), agreement(held_out)
    assert {kind: (first[kind], second[kind]) for kind in QUESTION_TYPES} == expected


def region_agreement(questions: Sequence[Labelled]) -> tuple[int, int, int, int]:
    """Region-only questions: (right, found by the rules, given by hand); questions whose whole label is found."""
    read = [(set(label), read_question(question)) for label, question in questions]
    only = [(label == {"region"}, reading.region_only) for label, reading in read]
    whole = [
        label == {kind if kind in ("region", "time") else "more" for kind in r.types} for label, r in read
    ]
    return (
        sum(hand and rule for hand, rule in only),
        sum(rule for _, rule in only),
        sum(hand for hand, _ in only),
        sum(whole),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first", {"zh": (12, 12, 12, 36), "en": (12, 12, 12, 36)}),
        ("second", {"zh": (12, 12, 12, 36), "en": (11, 11, 12, 35)}),
        ("third", {"zh": (11, 11, 12, 34), "en": (11, 11, 12, 35)}),
    ],
)
def test_region_only_agrees_with_labels_made_beforehand(
    name: str, expected: dict[str, tuple[int, int, int, int]]
) -> None:
    for language, counts in expected.items():
        chosen = [labelled for labelled in QUESTIONS[name] if language_of(labelled[1]) == language]
        assert len(chosen) == 36
        assert region_agreement(chosen) == counts


@pytest.mark.parametrize(
    ("question", "types"),
    [
        ("您指的是哪一年哪个地区的？", ("time", "region")),
        ("您想查询哪个城市哪一年的标准？", ("region", "time")),
        ("想看哪个地方什么时候的天气？", ("region", "time")),
        ("您关注的地区和时间范围是什么？", ("region", "time")),
        ("您想查的城市和年份分别是？", ("region", "time")),
        ("您要查询的年份、城市是什么？", ("time", "region")),
        ("您想了解哪个城市和年份的数据？", ("region", "time")),
        ("您有具体的城市或年份要求吗？", ("region", "time")),
        ("请告诉我您所在的城市以及出行日期", ("region", "time")),
        ("何时何地？", ("time", "region")),
        ("国家和地方政策的标准是什么？", ("criterion",)),
        ("您想了解近几年哪个城市的房价？", ("region",)),
        ("In which city, which year?", ("region", "time")),
        ("Where and when?", ("region", "time")),
        ("For which state, and as of when?", ("region", "time")),
        ("Could you give me the country and the year?", ("region", "time")),
        ("Could you give me more details about the country's economy?", ("scope",)),
        ("Which area of Texas law?", ("scope",)),
        ("The city and travel dates?", ("region", "time")),
        ("您想从哪个城市出发？", ("region",)),
        ("西北大学还是东北大学？", ("entity",)),
        ("您想问大脑的哪个区域？", ("scope",)),
        ("Which region of the brain?", ("scope",)),
        ("Do you want California's laws or the federal ones?", ("scope",)),
        ("Is it for your city or another one?", ("region",)),
        ("Is it for your laptop or another one?", ("entity",)),
        ("Is it this year or next, and here or abroad?", ("time", "region")),
        # what is mentioned does not count
        ("您想查询哪个城市2024年的缴费标准？", ("region",)),
        ("您想了解上海医保的哪些方面？", ("scope",)),
        ("Which year's prices in London do you need?", ("time",)),
        ("您想问的是RTX2080还是RTX3080？", ("scope",)),
    ],
)
def test_all_types_of_a_question_are_found(question: str, types: tuple[str, ...]) -> None:
    assert read_question(question).types == types


def test_long_text_of_question_words_takes_linear_time() -> None:
    started = time.process_time()
    read_question("哪" * 20_000)
    assert time.process_time() - started < 5  # 0.3 s; with the whole text before each of them 39 s


@pytest.mark.parametrize(
    ("question", "region_only", "mentions"),
    [
        ("您想了解哪个城市的落户政策？", True, True),
        ("您想了解哪个城市、哪一年的最低工资标准？", False, True),
        ("您想了解哪些方面，比如价格、地点？", False, True),  # mentioned, not asked
        ("您想了解中国银行的哪款理财产品？", False, False),
        ("您想查哪一年的城市规划？", False, False),
        ("Which city's tax rates do you need?", True, True),
        ("Which city and which year?", False, True),
        ("Do you want to know where the museum is?", False, True),
        ("Which state of decay do you mean?", False, False),
        ("您想了解什么时候的数据？", False, False),
    ],
)
def test_region_only_means_nothing_but_a_region(question: str, region_only: bool, mentions: bool) -> None:
    reading = read_question(question)
    assert (reading.region_only, reading.mentions_region) == (region_only, mentions)


def test_width_case_and_quotes_do_not_matter() -> None:
    assert read_question("ＷＨＩＣＨ　ｃｉｔｙ？") == read_question("which city?")
    assert read_question("Which city’s tax?") == read_question("which city's tax?")


@pytest.mark.parametrize("text", ["", "   ", "？", "ok", "……"])
def test_text_without_question_is_other(text: str) -> None:
    assert read_question(text) == Reading(("other",), mentions_region=False)


@given(st.text(max_size=80))
def test_every_text_has_distinct_types(text: str) -> None:
    reading = read_question(text)
    assert 1 <= len(set(reading.types)) == len(reading.types)
    assert set(reading.types) <= set(QUESTION_TYPES)
    assert not ("other" in reading.types and len(reading.types) > 1)
    assert reading.mentions_region or "region" not in reading.types


def test_own_label_overrides_rules_and_is_counted() -> None:
    read = OwnLabels({"which city?": ["time", "scope"]})
    assert read(" which city? ").types == ("time", "scope")
    assert read("which year?") == read_question("which year?")
    read("which year?")
    assert read.note == "types: 1 of 2 distinct questions by label, the others by the rules"
