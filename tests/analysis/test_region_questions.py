"""Region questions against counts made by hand."""

from __future__ import annotations

from made_interactions import row, system

from cts_async.analysis.interactions import cq_region_rate, region_turns, unknown_ranges

GPT = system(
    2,
    row("a", "region- time+"),
    row("b", "region- region-"),
    row("c", "region+ scope+"),
    row("d", "region,time- region+"),
    row("e", "time+ time-"),
)
KIMI = system(1, row("a", "region-"), row("b", "scope-"), clarifier="kimi")


def test_a_question_for_region_and_time_is_about_a_region_and_not_region_only() -> None:
    first, second = region_turns(GPT)
    assert (first.questions, first.about_region, first.region_only, first.region_only_unknown) == (5, 4, 3, 2)
    assert (second.questions, second.about_region, second.region_only, second.region_only_unknown) == (
        5,
        2,
        2,
        1,
    )
    assert (first.unknown_rate, second.unknown_rate) == (2 / 3, 1 / 2)


def test_the_region_rate_is_over_all_questions() -> None:
    assert cq_region_rate(region_turns(GPT)) == 6 / 10
    assert cq_region_rate([]) is None


def test_ranges_are_over_models_and_turns_of_one_k() -> None:
    one, two = unknown_ranges([*region_turns(GPT), *region_turns(KIMI)])
    assert (one.k, one.low, one.high) == (1, 1.0, 1.0)
    assert (two.k, two.low, two.high) == (2, 1 / 2, 2 / 3)
    assert (two.lowest.turn, two.highest.turn) == (2, 1)


def test_a_turn_without_region_only_questions_has_no_rate_and_no_part_in_the_range() -> None:
    turns = region_turns(system(1, row("a", "time+")))
    assert turns[0].unknown_rate is None
    assert unknown_ranges(turns) == ()
