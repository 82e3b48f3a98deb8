"""Retrieval by turn: a panel for each mode, a line for each scheme."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_figures import named, traces
from talked_turns import INTENTS, QRELS, RANKED, three_talks

from cts_async.analysis.turn_retrieval import TurnRetrieval, retrieve_turns
from cts_async.report.plots import Material, figures
from cts_async.report.plots.style import N_COLOURS


@pytest.fixture
def found(tmp_path: Path) -> TurnRetrieval:
    return retrieve_turns(three_talks(tmp_path), INTENTS, RANKED, QRELS, ["MRR@10"])


def test_lines_are_means_by_turn(found: TurnRetrieval) -> None:
    """q finds cat second: 1/2; good finds it first, bad never."""
    figure = named(figures(Material(turns=[found])), "turns_MRR-10")
    standard, at_cot, select = traces(figure)
    assert [(line["name"], line["yaxis"]) for line in (standard, at_cot, select)] == [
        ("standard", "y"),
        ("at-cot", "y"),
        ("at-cot", "y2"),
    ]
    assert (standard["y"], at_cot["y"], select["y"]) == ([0.5, 0.0], [1.0, 1.0], [1.0, 0.0])
    assert [shape["y0"] for shape in figure.spec["layout"]["shapes"]] == [0.5, 0.5]
    assert figure.alt.startswith("The highest MRR@10 is 1.000, of at-cot in mode respond after turn 1")


def test_who_judged_and_that_it_is_a_smoke_test_stand_with_the_figure(found: TurnRetrieval) -> None:
    material = Material(turns=[found], judgments="bm25, stand-ins", embedded_talks=frozenset({"gpt"}))
    figure = named(figures(material), "turns_MRR-10")
    assert figure.title == "MRR@10 by turn (smoke test)"
    assert figure.spec["layout"]["yaxis"]["title"]["text"] == "MRR@10 (smoke test)"
    assert figure.caption.endswith(" Retrieval: bm25, stand-ins.")


def test_two_clarifiers_have_figures_of_their_own(found: TurnRetrieval) -> None:
    other = replace(found, clarifier="通义/max", name="通义/max")
    names = [figure.name for figure in figures(Material(turns=[found, other])).figures]
    assert names == ["turns_MRR-10_1-gpt", "turns_MRR-10_2-通义-max"]


def test_a_scheme_has_one_colour_and_one_name_in_all_panels(found: TurnRetrieval) -> None:
    data = named(figures(Material(turns=[found])), "turns_MRR-10").spec["data"]
    places = [place for place, trace in enumerate(data) if trace.get("name") == "at-cot"]
    assert [place % N_COLOURS for place in places] == [1, 1]
    assert [data[place]["showlegend"] for place in places] == [True, False]
