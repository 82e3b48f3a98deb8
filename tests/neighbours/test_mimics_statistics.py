"""Tables 6 to 11 and section 5.2 of MIMICS-Duo: on panes made by hand, and of the released files."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from made_panes import SHARED, pane, panes_of

from cts_async.neighbours.mimics_duo.panes import Pane, read_panes
from cts_async.neighbours.mimics_duo.statistics import (
    ENGAGEMENT,
    MISALIGNED,
    SD,
    TABLES,
    VERDICTS,
    Cell,
    Figures,
    aspect_distributions,
    aspect_reranking,
    column,
    label_correlations,
    mimics_table,
    option_counts,
    option_reranking,
    pane_reranking,
    pane_statistics,
    pearson,
    published,
    quality_distributions,
    query_sizes,
    sorted_within,
)
from cts_async.neighbours.mimics_duo.ties import Measured

needs_mimics = pytest.mark.skipif(not SHARED.exists(), reason=f"MIMICS-Duo is not here: {SHARED}")


@pytest.fixture(scope="module")
def panes() -> Sequence[Pane]:
    return list(read_panes(SHARED))


@pytest.fixture(scope="module")
def tables(panes: Sequence[Pane]) -> dict[str, dict[tuple[str, str], Cell]]:
    return {name: {(cell.row, cell.column): cell for cell in mimics_table(name, panes)} for name in TABLES}


Tables = dict[str, dict[tuple[str, str], Cell]]


def verdicts(cells: dict[tuple[str, str], Cell], verdict: str) -> list[tuple[str, str]]:
    return [key for key, cell in cells.items() if cell.verdict == verdict]


@pytest.mark.parametrize("name", TABLES)
@needs_mimics
def test_every_printed_cell_has_its_figure(tables: Tables, name: str) -> None:
    printed = {key for key, cell in tables[name].items() if cell.printed is not None}
    assert printed == set(published()[name].printed)


@pytest.mark.parametrize(("name", "n"), [("6", 10), ("8", 42), ("9", 28)])
@needs_mimics
def test_tables_without_chance_reproduce_in_every_cell(tables: Tables, name: str, n: int) -> None:
    assert len(verdicts(tables[name], "same")) == len(tables[name]) == n


@needs_mimics
def test_table_10_reproduces_except_engagement_cells(tables: Tables) -> None:
    wrong = verdicts(tables["10"], "differs")
    assert len(wrong) == 7
    assert all(ENGAGEMENT in key for key in wrong)
    assert tables["10"]["Coverage", ENGAGEMENT].value == pytest.approx(0.0016, abs=5e-5)


@needs_mimics
def test_those_seven_reproduce_with_engagement_sorted_within_each_query(tables: Tables) -> None:
    shifted = [cell for (row, _), cell in tables["10"].items() if row == MISALIGNED]
    assert [cell.verdict for cell in shifted] == ["same"] * 7


@needs_mimics
def test_cells_of_table_7_that_no_tie_touches_reproduce(tables: Tables) -> None:
    assert len(verdicts(tables["7"], "same")) == 9
    for key in [
        ("Offline Rating", "queries untied"),
        ("Offline Rating", "P@1 untied"),
        ("Quality Labelling", "panes untied"),
        ("Quality Labelling", "P@1 untied"),
        ("Worst Possible Case", "MRR untied"),
    ]:
        assert tables["7"][key].verdict == "same"


@needs_mimics
def test_three_cells_of_table_7_are_beyond_chance(tables: Tables) -> None:
    assert verdicts(tables["7"], "differs") == [
        ("Random Ranker", "MRR all"),
        ("Random Ranker", "MRR all, one"),
        ("Worst Possible Case", "MRR all"),
    ]


@needs_mimics
def test_random_rankers_p_at_1_is_the_mean_of_k_of_n(tables: Tables) -> None:
    chance = tables["7"]["Random Ranker", "P@1 all"].chance
    assert chance is not None
    assert (chance.exact, chance.exact_sd) == (
        pytest.approx(0.33168, abs=5e-6),
        pytest.approx(0.0264, abs=5e-5),
    )


@needs_mimics
def test_table_11_is_within_the_spread_of_single_draws(tables: Tables) -> None:
    assert len(verdicts(tables["11"], "ties")) == len(tables["11"]) == 30
    assert max(abs(cell.z or 0) for cell in tables["11"].values()) < 2.3


@needs_mimics
def test_section_5_2_reproduces_except_click_correlation(tables: Tables) -> None:
    assert verdicts(tables["5.2"], "differs") == [("Options by quality", "r, clicks")]
    assert tables["5.2"]["Options by quality", "P@1 clicks"].z == 0


@needs_mimics
def test_no_reading_of_that_correlation_is_the_printed_one(panes: Sequence[Pane]) -> None:
    from scipy.stats import kendalltau, spearmanr

    def both(chosen: Sequence[Pane]) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
        labels = np.array([float(label) for pane in chosen for label in pane.option_qualities])
        return labels, np.array([click for pane in chosen for click in pane.click_probabilities])

    everywhere, clicked = both(panes), both([pane for pane in panes if pane.engagement_level])
    found = [pearson(*everywhere), spearmanr(*everywhere)[0], kendalltau(*everywhere)[0], pearson(*clicked)]
    assert [round(float(r), 3) for r in found] == [0.049, 0.044, 0.039, 0.073]


@needs_mimics
def test_draws_lie_around_the_exact_expectations(tables: Tables) -> None:
    """Means of 1,000 draws and their standard deviations within five standard errors, in all cells with chance."""
    drawn = [cell for name in ("7", "11", "5.2") for cell in tables[name].values() if cell.chance]
    assert len(drawn) == 54
    for cell in drawn:
        assert cell.chance is not None
        error = cell.chance.exact_sd / (1 if cell.column.startswith(SD) else np.sqrt(1000))
        assert abs(cell.chance.mean - cell.chance.exact) < 5 * error


@needs_mimics
def test_same_seed_gives_the_same_digits(panes: Sequence[Pane], tables: Tables) -> None:
    again = [cell.as_row() for cell in mimics_table("11", panes)]
    assert again == [cell.as_row() for cell in tables["11"].values()]
    assert again != [cell.as_row() for cell in mimics_table("11", panes, seed=1)]


def drawn(exact: float, sd: float) -> Measured:
    return Measured(mean=exact + 0.001, sd=sd, exact=exact, exact_sd=sd)


@pytest.mark.parametrize(
    ("value", "printed", "verdict"),
    [
        (0.4214, "0.421", "same"),
        (0.4216, "0.421", "differs"),
        (1.2035, "1.2", "same"),
        (1034, "1034", "same"),
        (1035, "1034", "differs"),
        (-0.0012, "-0.001", "same"),
        (float("nan"), "0.5", "differs"),
        (0.5, None, None),
    ],
)
def test_without_chance_the_printed_digits_decide(value: float, printed: str | None, verdict: str) -> None:
    cell = Cell("row", "column", value, printed)
    assert (cell.verdict, cell.z, cell.chance) == (verdict, None, None)


def test_z_counts_from_the_edge_of_rounding() -> None:
    """0.382 is at least 0.3815 in truth: 0.0115 above 0.370, in steps of 0.005 that is 2.3."""
    cell = Cell("row", "column", drawn(0.370, 0.005), "0.382")
    assert (cell.z, cell.verdict) == (pytest.approx(2.3), "ties")


def test_below_the_expectation_z_is_negative() -> None:
    assert Cell("row", "column", drawn(0.394, 0.005), "0.382").z == pytest.approx(-2.3)


def test_printed_value_that_rounds_to_the_expectation_has_no_distance() -> None:
    assert Cell("row", "column", drawn(0.3823, 0.005), "0.382").z == 0


def test_mean_of_many_draws_must_be_nearer() -> None:
    once, often = (Cell("row", "column", drawn(0.370, 0.005), "0.382", repeats) for repeats in (1, 100))
    assert (once.verdict, often.verdict) == ("ties", "differs")
    assert often.z == pytest.approx(23)


def test_measure_that_no_tie_touches_has_no_chance_in_it() -> None:
    cell = Cell("row", "column", Measured(0.273, 0.0, 0.273, 0.0), "0.273")
    assert (cell.chance, cell.verdict, cell.value) == (None, "same", 0.273)


def test_row_for_programs_is_unrounded() -> None:
    assert Cell("a", "x", drawn(0.25, 0.125), "0.3").as_row() == {
        "row": "a",
        "column": "x",
        "published": 0.3,
        "value": 0.251,
        "sd": 0.125,
        "exact": 0.25,
        "exact_sd": 0.125,
        "z": 0.0,
        "verdict": "ties",
        "again": False,
    }


def test_every_verdict_is_explained() -> None:
    assert set(VERDICTS) == {"same", "ties", "differs"}


PANES = [*panes_of("q1", [0, 3, 1]), pane("q2", ("a", "b", "c", "d", "e"))]


def test_columns_follow_the_panes() -> None:
    assert column(PANES, "engagement_level").tolist() == [0, 3, 1, 0]
    assert query_sizes(PANES).tolist() == [3, 1]
    assert option_counts(PANES).tolist() == [2, 2, 2, 5]


def test_no_pane_has_no_query() -> None:
    assert query_sizes([]).tolist() == []


def test_means_and_deviations_are_over_queries_and_over_panes() -> None:
    """Queries have 3 and 1 panes: mean 2, sd sqrt(2). Panes have 2, 2, 2, 5 options: mean 2.75, sd 1.5."""
    figures = pane_statistics(PANES)
    assert figures["Queries", "number"] == 2
    assert figures["Query-clarification pairs", "number"] == 4
    assert figures["Clarifications per query", "mean"] == 2
    assert figures["Clarifications per query", "sd"] == pytest.approx(2**0.5)
    assert figures["Candidate answers", "mean"] == 2.75
    assert figures["Candidate answers", "sd"] == 1.5
    assert (figures["Candidate answers", "min"], figures["Candidate answers", "max"]) == (2, 5)


def test_one_query_alone_has_no_deviation() -> None:
    assert str(pane_statistics(panes_of("q", [1]))["Clarifications per query", "sd"]) == "nan"


LABELLED = [
    pane("q", ("a", "b"), pane_quality=5, option_qualities=(1, 4), coverage=2),
    pane("q", ("a", "b", "c"), pane_quality=3, option_qualities=(3, 4, 2), coverage=2),
    pane("q", ("a", "b", "c", "d"), pane_quality=4, option_qualities=(5, 4, 4, 1), coverage=2),
]


def test_second_number_is_the_variance_not_its_root() -> None:
    """Labels 1, 3, 5: mean 3, variance (4 + 0 + 4) / 2 = 4, and a third each."""
    figures = quality_distributions(LABELLED)
    assert figures["Candidate Ans. #1", "mean"] == 3
    assert figures["Candidate Ans. #1", "var"] == 4
    assert [figures["Candidate Ans. #1", str(label)] for label in range(1, 6)] == [
        pytest.approx(100 / 3),
        0,
        pytest.approx(100 / 3),
        0,
        pytest.approx(100 / 3),
    ]


def test_option_that_is_missing_is_left_out() -> None:
    """The third option is there twice, with labels 2 and 4."""
    figures = quality_distributions(LABELLED)
    assert figures["Candidate Ans. #3", "mean"] == 3
    assert figures["Candidate Ans. #3", "var"] == 2


def test_position_that_no_pane_has_gives_no_row() -> None:
    rows = {row for row, _ in quality_distributions(LABELLED)}
    assert rows == {"Clarification Pane", *(f"Candidate Ans. #{i}" for i in (1, 2, 3, 4))}


def test_one_label_has_no_variance() -> None:
    figures = quality_distributions(LABELLED)
    assert figures["Candidate Ans. #4", "mean"] == figures["Candidate Ans. #4", "1"] / 100 == 1
    assert str(figures["Candidate Ans. #4", "var"]) == "nan"


def test_aspects_have_the_names_of_the_paper() -> None:
    figures = aspect_distributions(LABELLED)
    assert (figures["Coverage", "2"], figures["Coverage", "var"]) == (100, 0)
    assert list(dict.fromkeys(row for row, _ in figures)) == [
        "Coverage",
        "Diversity",
        "Understandability",
        "Can. Ans. Order",
    ]


def test_r_is_one_for_a_line_up_and_minus_one_for_a_line_down() -> None:
    assert pearson(np.array([1, 2, 4]), np.array([3, 5, 9])) == pytest.approx(1)
    assert pearson(np.array([1, 2, 4]), np.array([9, 7, 3])) == pytest.approx(-1)


def test_r_by_hand() -> None:
    """Deviations (-1, 0, 1) and (-1, 1, 0): the sum of products is 1, both squares sum to 2, so r = 1/2."""
    assert pearson(np.array([1, 2, 3]), np.array([1, 3, 2])) == pytest.approx(0.5)


@pytest.mark.parametrize(("a", "b"), [([1, 1], [1, 2]), ([1, 2], [3, 3]), ([1], [2]), ([], [])])
def test_constant_column_has_no_correlation(a: list[int], b: list[int]) -> None:
    assert math.isnan(pearson(np.array(a), np.array(b)))


def test_sorting_within_queries_leaves_each_value_in_its_query() -> None:
    assert sorted_within(np.array([1, 3, 2, 0, 5]), np.array([3, 2])).tolist() == [3, 2, 1, 5, 0]


def test_engagement_is_taken_aligned_and_sorted_within_its_query() -> None:
    """Aligned, coverage falls as engagement rises; sorted in descending order beside it, it rises with it."""
    panes = [*panes_of("q1", [0, 2, 4], coverage=[5, 3, 1]), *panes_of("q2", [1, 3], coverage=[4, 2])]
    figures = label_correlations(panes)
    assert figures["Coverage", "Eng. Level"] == pytest.approx(-1)
    assert figures[MISALIGNED, "Coverage"] == pytest.approx(1)


def test_every_pair_is_there_once_and_seven_cells_again() -> None:
    figures = label_correlations(panes_of("q", [1, 2]))
    assert len(figures) == 28 + 7
    assert len({frozenset(pair) for pair in figures}) == 35


def test_options_are_compared_with_their_pane_and_with_their_clicks() -> None:
    """Mean labels 2 and 4 beside pane labels 1 and 5: r = 1. Labels 1, 3, 3, 5 beside clicks 1, 0, 0, 0:

    deviations (-2, 0, 0, 2) and (3/4, -1/4, -1/4, -1/4): products sum to -2, squares to 8 and 3/4, so r = -2 / sqrt(6).
    """
    panes = [
        pane("q", ("a", "b"), option_qualities=(1, 3), pane_quality=1, click_probabilities=(1.0, 0.0)),
        pane("q", ("c", "d"), option_qualities=(3, 5), pane_quality=5),
    ]
    figures = option_reranking(panes, draws=2)
    assert figures["Mean option quality", "r, pane quality"] == pytest.approx(1)
    assert figures["Options by quality", "r, clicks"] == pytest.approx(-2 / math.sqrt(8 * 0.75))


CLEAR = panes_of("clear", [5, 0, 0], offline_rating=[5, 3, 3], pane_quality=[1, 2, 3])
TIED_LABEL = panes_of("tied label", [0, 7, 0], offline_rating=[4, 4, 1], pane_quality=[1, 5, 1])
TIED_ENGAGEMENT = panes_of(
    "tied engagement", [3, 3, 0, 0], offline_rating=[1, 2, 3, 4], pane_quality=[4, 3, 2, 1]
)
RANKED = [*CLEAR, *TIED_LABEL, *TIED_ENGAGEMENT]


def exact(figures: Figures, row: str, column: str) -> float:
    figure = figures[row, column]
    assert isinstance(figure, Measured)
    return figure.exact


@pytest.fixture(scope="module")
def table() -> Figures:
    return pane_reranking(RANKED, draws=20)


def test_untied_queries_have_one_top_pane_in_both_lists(table: Figures) -> None:
    """By rating only the first query is so, by quality the first two."""
    assert (table["Offline Rating", "queries untied"], table["Offline Rating", "panes untied"]) == (1, 3)
    assert (table["Quality Labelling", "queries untied"], table["Quality Labelling", "panes untied"]) == (
        2,
        6,
    )


def test_rating_tied_at_the_top_is_right_half_the_time(table: Figures) -> None:
    """First for sure, first in half of the orders, and third: P@1 (1 + 1/2 + 0) / 3; MRR (1 + 3/4 + 1/3) / 3."""
    assert exact(table, "Offline Rating", "P@1 all") == pytest.approx(0.5)
    assert exact(table, "Offline Rating", "MRR all") == pytest.approx(25 / 36)


def test_one_ideal_pane_of_two_is_found_later(table: Figures) -> None:
    """The third query's ideal panes stand third and fourth: 1/3 or 1/4, 7/24 on average."""
    assert exact(table, "Offline Rating", "MRR all, one") == pytest.approx((1 + 3 / 4 + 7 / 24) / 3)


def test_quality_without_ties_is_certain(table: Figures) -> None:
    """Last of three, then first: P@1 1/2, MRR (1/3 + 1) / 2."""
    found = table["Quality Labelling", "MRR untied"]
    assert isinstance(found, Measured)
    assert (found.mean, found.sd, found.exact_sd) == (pytest.approx(2 / 3), pytest.approx(0), 0)
    assert exact(table, "Quality Labelling", "P@1 untied") == 0.5


def test_random_ranker_finds_k_of_n(table: Figures) -> None:
    """1/3, 1/3 and 2/4."""
    assert exact(table, "Random Ranker", "P@1 all") == pytest.approx(7 / 18)
    assert exact(table, "Random, by quality", "P@1 untied") == pytest.approx(1 / 3)


def test_spread_of_draws_follows_their_mean(table: Figures) -> None:
    """One query of three panes: P@1 is 1 with chance 1/3, sd sqrt(2)/3."""
    assert exact(table, "Random, by rating", "sd of P@1 untied") == pytest.approx(2**0.5 / 3)


def test_worst_case_has_the_ideal_panes_last(table: Figures) -> None:
    """Ranks 3, 3 and, of two ideal panes in the last two places, 3. Untied by quality: 3 and 3."""
    assert exact(table, "Worst Possible Case", "P@1 all") == 0
    assert exact(table, "Worst Possible Case", "MRR all") == pytest.approx(1 / 3)
    assert exact(table, "Worst Possible Case", "MRR untied") == pytest.approx(1 / 3)


def test_without_an_untied_query_there_are_no_untied_figures() -> None:
    table = pane_reranking(TIED_ENGAGEMENT, draws=2)
    assert ("Offline Rating", "P@1 untied") not in table
    assert table["Offline Rating", "queries untied"] == 0


def aspects(**labels: list[int]) -> list[Pane]:
    return panes_of("q", [0, 9, 0], pane_quality=[5, 5, 1], offline_rating=[1, 2, 3], **labels)


def test_each_aspect_is_ranked_against_three_ideal_rankings() -> None:
    """Coverage puts the second pane first: the most engaging one, one of the two best, second by rating."""
    table = aspect_reranking(aspects(coverage=[2, 3, 1]), draws=20)
    assert exact(table, "Coverage", "P@1 engagement") == 1
    assert exact(table, "Coverage", "P@1 quality") == 0.5
    assert exact(table, "Coverage", "MRR quality") == 0.75
    assert exact(table, "Coverage", "MRR rating") == pytest.approx(1 / 3)


def test_constant_aspect_equals_random_ranker() -> None:
    table = aspect_reranking(aspects(), draws=20)
    for name in ("P@1 engagement", "MRR quality"):
        assert exact(table, "Diversity", name) == exact(table, "Random Ranker", name)
