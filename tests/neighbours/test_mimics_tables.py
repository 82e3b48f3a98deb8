"""Tables 6 to 11 and section 5.2 of the released files, cell by cell beside the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from made_panes import SHARED

from cts_async.neighbours.mimics_duo.panes import Pane, read_panes
from cts_async.neighbours.mimics_duo.statistics import (
    ENGAGEMENT,
    MISALIGNED,
    SD,
    TABLES,
    Cell,
    mimics_table,
    pearson,
    published,
)

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
def test_table_10_reproduces_but_for_the_cells_of_engagement(tables: Tables) -> None:
    wrong = verdicts(tables["10"], "differs")
    assert len(wrong) == 7
    assert all(ENGAGEMENT in key for key in wrong)
    assert tables["10"]["Coverage", ENGAGEMENT].value == pytest.approx(0.0016, abs=5e-5)


@needs_mimics
def test_those_seven_reproduce_with_engagement_sorted_within_each_query(tables: Tables) -> None:
    shifted = [cell for (row, _), cell in tables["10"].items() if row == MISALIGNED]
    assert [cell.verdict for cell in shifted] == ["same"] * 7


@needs_mimics
def test_the_cells_of_table_7_that_no_tie_touches_reproduce(tables: Tables) -> None:
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
def test_the_random_rankers_p_at_1_is_the_mean_of_k_of_n(tables: Tables) -> None:
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
def test_section_5_2_reproduces_but_for_the_correlation_with_clicks(tables: Tables) -> None:
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
def test_the_same_seed_gives_the_same_digits(panes: Sequence[Pane], tables: Tables) -> None:
    again = [cell.as_row() for cell in mimics_table("11", panes)]
    assert again == [cell.as_row() for cell in tables["11"].values()]
    assert again != [cell.as_row() for cell in mimics_table("11", panes, seed=1)]
