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
    Figures,
    aspect_reranking,
    cell_columns,
    compared_cell,
    label_correlations,
    mimics_table,
    option_reranking,
    pane_reranking,
    pane_statistics,
    printed_cells,
    quality_distributions,
    reranked_table,
)
from cts_async.neighbours.mimics_duo.ties import Measured
from cts_async.tables.table import Row

needs_mimics = pytest.mark.skipif(not SHARED.exists(), reason=f"MIMICS-Duo is not here: {SHARED}")


@pytest.fixture(scope="module")
def panes() -> Sequence[Pane]:
    return list(read_panes(SHARED))


@pytest.fixture(scope="module")
def tables(panes: Sequence[Pane]) -> Tables:
    return {
        name: {(cell["row"], cell["column"]): cell for cell in mimics_table(name, panes).rows}
        for name in TABLES
    }


Tables = dict[str, dict[tuple[str, str], Row]]


def verdicts(cells: dict[tuple[str, str], Row], verdict: str) -> list[tuple[str, str]]:
    return [key for key, cell in cells.items() if cell["verdict"] == verdict]


@needs_mimics
def test_released_tables_reproduce_except_known_cells(tables: Tables) -> None:
    for name in TABLES:
        printed = {key for key, cell in tables[name].items() if cell["published"] is not None}
        assert printed == set(printed_cells(name))
    for name, n in (("6", 10), ("8", 42), ("9", 28)):  # without chance
        assert len(verdicts(tables[name], "same")) == len(tables[name]) == n
    wrong = verdicts(tables["10"], "differs")
    assert len(wrong) == 7
    assert all(ENGAGEMENT in key for key in wrong)
    assert tables["10"]["Coverage", ENGAGEMENT]["value"] == pytest.approx(0.0016, abs=5e-5)
    # Those seven reproduce with engagement sorted within each query.
    shifted = [cell for (row, _), cell in tables["10"].items() if row == MISALIGNED]
    assert [cell["verdict"] for cell in shifted] == ["same"] * 7
    assert len(verdicts(tables["7"], "same")) == 9
    assert verdicts(tables["7"], "differs") == [
        ("Random Ranker", "MRR all"),
        ("Random Ranker", "MRR all, one"),
        ("Worst Possible Case", "MRR all"),
    ]
    assert len(verdicts(tables["11"], "ties")) == len(tables["11"]) == 30
    assert max(abs(cell["z"]) for cell in tables["11"].values()) < 2.3
    assert verdicts(tables["5.2"], "differs") == [("Options by quality", "r, clicks")]
    assert tables["5.2"]["Options by quality", "P@1 clicks"]["z"] == 0


@needs_mimics
def test_draws_lie_around_the_exact_expectations(panes: Sequence[Pane], tables: Tables) -> None:
    """Means of 1,000 draws and their standard deviations within five standard errors, in all cells with chance."""
    random = tables["7"]["Random Ranker", "P@1 all"]  # the mean of k / n
    assert (random["exact"], random["exact_sd"]) == (
        pytest.approx(0.33168, abs=5e-6),
        pytest.approx(0.0264, abs=5e-5),
    )
    drawn = [cell for name in ("7", "11", "5.2") for cell in tables[name].values() if cell["exact_sd"]]
    assert len(drawn) == 54
    for cell in drawn:
        error = cell["exact_sd"] / (1 if cell["column"].startswith(SD) else np.sqrt(1000))
        assert abs(cell["value"] - cell["exact"]) < 5 * error
    assert mimics_table("11", panes).rows == list(tables["11"].values())
    assert mimics_table("11", panes, seed=1).rows != list(tables["11"].values())


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
    cell = compared_cell(("row", "column"), value, printed)
    assert (cell["verdict"], cell["z"], cell["sd"]) == (verdict, None, None)


@pytest.mark.parametrize(
    ("exact", "repeats", "z", "verdict"),
    [
        (0.370, 1, 2.3, "ties"),  # 0.382 is at least 0.3815: 0.0115 above 0.370, in steps of 0.005
        (0.394, 1, -2.3, "ties"),
        (0.3823, 1, 0, "ties"),  # it rounds to what is printed
        (0.370, 100, 23, "differs"),  # a mean of many draws must be nearer
    ],
)
def test_z_counts_from_the_edge_of_rounding(exact: float, repeats: int, z: float, verdict: str) -> None:
    figure = Measured(mean=exact + 0.001, sd=0.005, exact=exact, exact_sd=0.005)
    cell = compared_cell(("row", "column"), figure, "0.382", repeats=repeats)
    assert (cell["z"], cell["verdict"]) == (pytest.approx(z), verdict)


PANES = [*panes_of("q1", [0, 3, 1]), pane("q2", ("a", "b", "c", "d", "e"))]


def test_means_and_deviations_are_over_queries_and_over_panes() -> None:
    """Queries have 3 and 1 panes: mean 2, sd sqrt(2). Panes have 2, 2, 2, 5 options: mean 2.75, sd 1.5."""
    per_query, options = "Clarifications per query", "Candidate answers"
    assert pane_statistics(PANES) == {
        ("Queries", "number"): 2,
        ("Query-clarification pairs", "number"): 4,
        (per_query, "mean"): 2,
        (per_query, "sd"): pytest.approx(2**0.5),
        (per_query, "min"): 1,
        (per_query, "max"): 3,
        (options, "mean"): 2.75,
        (options, "sd"): 1.5,
        (options, "min"): 2,
        (options, "max"): 5,
    }
    assert str(pane_statistics(panes_of("q", [1]))[per_query, "sd"]) == "nan"


LABELLED = [
    pane("q", ("a", "b"), pane_quality=5, option_qualities=(1, 4), coverage=2),
    pane("q", ("a", "b", "c"), pane_quality=3, option_qualities=(3, 4, 2), coverage=2),
    pane("q", ("a", "b", "c", "d"), pane_quality=4, option_qualities=(5, 4, 4, 1), coverage=2),
]


def test_quality_of_panes_and_positions_by_hand() -> None:
    """First options 1, 3, 5: mean 3, variance (4 + 0 + 4) / 2 = 4, and a third each; the third is there twice."""
    figures = quality_distributions(LABELLED)
    assert (figures["Candidate Ans. #1", "mean"], figures["Candidate Ans. #1", "var"]) == (3, 4)
    thirds = [figures["Candidate Ans. #1", str(label)] for label in range(1, 6)]
    assert thirds == pytest.approx([100 / 3, 0, 100 / 3, 0, 100 / 3])
    assert (figures["Candidate Ans. #3", "mean"], figures["Candidate Ans. #3", "var"]) == (3, 2)
    assert figures["Candidate Ans. #4", "mean"] == 1
    assert math.isnan(figures["Candidate Ans. #4", "var"])  # one label has no variance
    # A position that no pane has gives no row.
    rows = {row for row, _ in figures}
    assert rows == {"Clarification Pane", *(f"Candidate Ans. #{i}" for i in (1, 2, 3, 4))}


def test_engagement_is_taken_aligned_and_sorted_within_its_query() -> None:
    """Aligned, coverage falls as engagement rises; sorted in descending order beside it, it rises with it."""
    panes = [*panes_of("q1", [0, 2, 4], coverage=[5, 3, 1]), *panes_of("q2", [1, 3], coverage=[4, 2])]
    figures = label_correlations(panes)
    assert figures["Coverage", "Eng. Level"] == pytest.approx(-1)
    assert figures[MISALIGNED, "Coverage"] == pytest.approx(1)
    assert len(figures) == len({frozenset(pair) for pair in figures}) == 28 + 7


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


def test_table_7_by_hand(table: Figures) -> None:
    # Untied are the queries with one top pane in both lists: by rating the first, by quality the first two.
    assert (table["Offline Rating", "queries untied"], table["Offline Rating", "panes untied"]) == (1, 3)
    assert table["Quality Labelling", "queries untied"] == 2
    assert table["Quality Labelling", "panes untied"] == 6
    # By rating first for sure, first in half of the orders, and third; of two ideal panes one stands third or fourth.
    assert exact(table, "Offline Rating", "P@1 all") == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert exact(table, "Offline Rating", "MRR all") == pytest.approx((1 + 3 / 4 + 1 / 3) / 3)
    assert exact(table, "Offline Rating", "MRR all, one") == pytest.approx((1 + 3 / 4 + 7 / 24) / 3)
    # By quality last of three, then first, for sure.
    found = table["Quality Labelling", "MRR untied"]
    assert isinstance(found, Measured)
    assert (found.mean, found.sd, found.exact_sd) == (pytest.approx(2 / 3), pytest.approx(0), 0)
    assert exact(table, "Quality Labelling", "P@1 untied") == 0.5
    # The random ranker finds k of n: 1/3, 1/3 and 2/4. Of one query P@1 is 1 with chance 1/3, sd sqrt(2) / 3.
    assert exact(table, "Random Ranker", "P@1 all") == pytest.approx(7 / 18)
    assert exact(table, "Random, by quality", "P@1 untied") == pytest.approx(1 / 3)
    assert exact(table, "Random, by rating", "sd of P@1 untied") == pytest.approx(2**0.5 / 3)
    # The worst case has ranks 3, 3 and, of two ideal panes in the last two places, 3.
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


# --- Tables in print -------------------------------------------------------------------------------------

FEW = [
    *panes_of("q1", [5, 0, 0], offline_rating=[1, 2, 2], coverage=[1, 2, 5]),
    *panes_of("q2", [1, 1, 0], offline_rating=[3, 1, 1], coverage=[4, 4, 2]),
]


def test_cell_shows_published_found_spread_expectation_and_z() -> None:
    """With as many digits as are printed, and no fewer than two."""
    printed = {("Coverage", "P@1"): "0.369", ("Coverage", "MRR"): "0.9", ("Diversity", "mean"): "1.18"}
    figures = [Measured(0.374, 0.021, 0.3737, 0.0213), Measured(0.5, 0.1, 0.5, 0.1), 1.2]
    rows = [
        compared_cell(key, figure, value)
        for (key, value), figure in zip(printed.items(), figures, strict=True)
    ]
    assert [[column.show(row) for column in cell_columns(rows, printed)] for row in rows] == [
        ["Coverage", "P@1", "0.369", "0.374", "0.021", "0.374", "-0.2", "~"],
        ["", "MRR", "0.9", "0.50", "0.10", "0.50", "+3.5", "≠"],
        ["Diversity", "mean", "1.18", "1.20", "-", "-", "-", "≠"],
    ]


@needs_mimics
def test_published_cell_under_two_readings_is_marked(tables: Tables) -> None:
    again = {name: [key for key, cell in tables[name].items() if cell["again"]] for name in TABLES}
    assert {name: [row for row, _ in keys] for name, keys in again.items() if keys} == {
        "7": ["Offline Rating", "Quality Labelling", "Random Ranker", "Random Ranker"],
        "10": ["Eng. Level, sorted"] * 7,
    }
    for row, measure in again["7"]:
        earlier = tables["7"][row, measure.removesuffix(", one")]
        assert tables["7"][row, measure]["published"] == earlier["published"]


def test_reranking_includes_random_and_worst() -> None:
    """By these scores q1's ideal pane is first for sure; in q2 the third pane, which is not ideal."""
    table = reranked_table(FEW, [3, 1, 2, 0, 1, 2], "engagement", draws=20, seed=0)
    exact = [(row["ranking"], row["queries"], row["counts"], row["p_at_1_exact"]) for row in table.rows]
    assert exact[:3] == [
        ("scores", "all", "any", 0.5),
        ("scores", "all", "one", 0.5),
        ("scores", "untied", "any", 1.0),
    ]
    assert exact[3] == ("random", "all", "any", pytest.approx(0.5))
    assert exact[4] == ("random", "all", "one", pytest.approx(1 / 3))
    assert exact[6:] == [
        ("worst", "all", "any", 0.0),
        ("worst", "all", "one", 0.0),
        ("worst", "untied", "any", 0.0),
    ]


def test_without_an_untied_query_its_line_is_empty() -> None:
    table = reranked_table(FEW, [1] * 6, "quality", draws=20, seed=0)
    assert (table.rows[2]["n_queries"], table.rows[2]["mrr_exact"]) == (0, None)
    assert [column.show(table.rows[2]) for column in table.columns] == [
        "scores",
        "untied 0",
        "any",
        *"------",
    ]
