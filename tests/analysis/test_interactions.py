"""Counts over questions and answers, by hand."""

from __future__ import annotations

from made_interactions import row, system

from cts_async.analysis.interactions import (
    TypeProfile,
    Unknowns,
    count_unknowns,
    cq_region_rate,
    region_turns,
    type_profiles,
    unknown_ranges,
)
from cts_async.analysis.stats import wilson


def test_unknowns_of_two_turns_match_hand_calculation() -> None:
    """Of 8 answers 5 are unknown; of 4 instances 2 have none known, 1 has one, 1 has two."""
    rows = [
        row("a", "time+ region+"),
        row("b", "time+ region-"),
        row("c", "time- region-"),
        row("d", "time- region-"),
    ]
    found = count_unknowns(system(2, *rows, n_failed=3))
    assert found == Unknowns(n=4, answers=8, unknown=5, known_cnt=(2, 1, 1), by_turn=((4, 2), (4, 3)))
    assert found.ua_unknown_rate == 5 / 8
    assert found.all_unknown == 2 / 4
    assert [found.known_cnt_rate(j) for j in range(4)] == [0.5, 0.25, 0.25, None]


def test_questions_beyond_k_are_counted() -> None:
    found = count_unknowns(system(0, row("a", "time+ region-")))
    assert (found.known_cnt, found.by_turn) == ((0, 1, 0), ((1, 0), (1, 1)))


GPT = system(
    2,
    row("a", "region- time+"),
    row("b", "region- region-"),
    row("c", "region+ scope+"),
    row("d", "region,time- region+"),
    row("e", "time+ time-"),
)
KIMI = system(1, row("a", "region-"), row("b", "scope-"), clarifier="kimi")


def test_question_for_region_and_time_is_not_region_only() -> None:
    first, second = region_turns(GPT)
    assert (first.questions, first.about_region, first.region_only, first.region_only_unknown) == (5, 4, 3, 2)
    assert (second.questions, second.about_region, second.region_only, second.region_only_unknown) == (
        5,
        2,
        2,
        1,
    )
    assert (first.unknown_rate, second.unknown_rate) == (2 / 3, 1 / 2)


def test_region_rate_is_over_all_questions() -> None:
    assert cq_region_rate(region_turns(GPT)) == 6 / 10
    assert cq_region_rate([]) is None


def test_unknown_range_is_over_models_and_turns_of_a_k() -> None:
    found = unknown_ranges([*region_turns(GPT), *region_turns(KIMI)])
    assert list(found) == [1, 2]
    assert [turn.unknown_rate for turn in found[1]] == [1.0, 1.0]
    assert [(turn.unknown_rate, turn.turn) for turn in found[2]] == [(1 / 2, 2), (2 / 3, 1)]


def test_turn_without_region_only_questions_is_not_in_the_range() -> None:
    turns = region_turns(system(1, row("a", "time+")))
    assert turns[0].unknown_rate is None
    assert unknown_ranges(turns) == {}


def test_profiles_count_primary_types_and_shares_add_up() -> None:
    two = system(2, row("a", "region- time+"), row("b", "region,time+ region-"))
    one = system(1, row("a", "time-"), clarifier="kimi")
    found = {profile.kind: profile for profile in type_profiles([two, one])}
    assert found["region"] == TypeProfile("region", n=3, of=5, known=1, by_turn=((2, 1), (1, 0)))
    assert found["time"] == TypeProfile("time", n=2, of=5, known=1, by_turn=((1, 0), (1, 1)))
    assert found["region"].share == 3 / 5
    assert found["region"].answerability == 1 / 3
    assert found["region"].interval == wilson(1, 3)
    assert sum(profile.share or 0 for profile in found.values()) == 1


def test_unasked_type_has_no_answerability() -> None:
    profiles = type_profiles([system(1, row("a", "time-"))])
    assert [p.kind for p in profiles] == ["time", "region", "entity", "scope", "criterion", "other"]
    assert (profiles[1].n, profiles[1].answerability, profiles[1].interval) == (0, None, None)
    assert type_profiles([])[0].share is None
