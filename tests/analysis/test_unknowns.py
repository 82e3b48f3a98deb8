"""Unknown rates against counts made by hand."""

from __future__ import annotations

from made_interactions import row, system

from cts_async.analysis.interactions import Unknowns, count_unknowns


def test_two_turns_by_hand() -> None:
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


def test_at_one_question_the_rates_are_the_same() -> None:
    """Table 4's unknown rate is table 7's all_unknown at k = 1, as the paper prints them."""
    found = count_unknowns(system(1, row("a", "time+"), row("b", "time-"), row("c", "scope-")))
    assert found.ua_unknown_rate == found.all_unknown == 2 / 3


def test_more_questions_than_k_says_are_counted_all_the_same() -> None:
    found = count_unknowns(system(0, row("a", "time+ region-")))
    assert (found.known_cnt, found.by_turn) == ((0, 1, 0), ((1, 0), (1, 1)))


def test_no_instance_has_no_rate() -> None:
    found = count_unknowns(system(1, n_failed=2))
    assert (found.ua_unknown_rate, found.all_unknown, found.known_cnt) == (None, None, (0, 0))
