"""What questions ask for, beside labels given by hand; how often the rules agree is stated here, type by type."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled_questions import HELD_OUT, TUNED, Labelled

from cts_async.analysis.question_types import QUESTION_TYPES, Reading, labelled, read_question


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


def test_agreement_with_the_questions_that_the_rules_were_written_with() -> None:
    assert (exactly(TUNED), len(TUNED)) == (131, 132)
    assert agreement(TUNED) == {
        "time": (28, 28, 28),
        "region": (30, 30, 30),
        "entity": (24, 24, 24),
        "scope": (29, 30, 29),
        "criterion": (22, 22, 22),
        "other": (4, 4, 4),
    }


def test_agreement_with_questions_that_the_rules_had_not_met() -> None:
    assert (exactly(HELD_OUT), len(HELD_OUT)) == (65, 70)
    assert agreement(HELD_OUT) == {
        "time": (14, 16, 14),
        "region": (15, 15, 16),
        "entity": (12, 12, 12),
        "scope": (16, 18, 16),
        "criterion": (10, 11, 12),
        "other": (1, 1, 2),
    }


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
def test_region_only_is_asking_for_nothing_but_a_region(
    question: str, region_only: bool, mentions: bool
) -> None:
    reading = read_question(question)
    assert (reading.region_only, reading.mentions_region) == (region_only, mentions)


def test_what_is_asked_counts_and_not_what_is_mentioned() -> None:
    assert read_question("您想查询哪个城市2024年的缴费标准？").types == ("region",)
    assert read_question("您想了解上海医保的哪些方面？").types == ("scope",)
    assert read_question("Which year's prices in London do you need?").types == ("time",)


def test_the_primary_type_is_what_is_asked_first() -> None:
    assert read_question("您想看哪一年、哪个省的分数线？").primary == "time"
    assert read_question("您想看哪个省、哪一年的分数线？").primary == "region"


def test_width_case_and_quotes_make_no_difference() -> None:
    assert read_question("ＷＨＩＣＨ　ｃｉｔｙ？") == read_question("which city?")
    assert read_question("Which city’s tax?") == read_question("which city's tax?")


@pytest.mark.parametrize("text", ["", "   ", "？", "ok", "……"])
def test_a_text_that_asks_nothing_is_other(text: str) -> None:
    assert read_question(text) == Reading(("other",), mentions_region=False)


def test_own_labels_make_a_reading() -> None:
    assert labelled(["region", "time", "region"]) == Reading(("region", "time"), mentions_region=True)
    assert labelled(["region"]).region_only
    assert labelled([]) == Reading(("other",), mentions_region=False)


@given(st.text(max_size=80))
def test_any_text_has_a_type_and_the_types_are_distinct(text: str) -> None:
    reading = read_question(text)
    assert 1 <= len(set(reading.types)) == len(reading.types)
    assert set(reading.types) <= set(QUESTION_TYPES)
    assert not ("other" in reading.types and len(reading.types) > 1)
    assert reading.mentions_region or "region" not in reading.types
