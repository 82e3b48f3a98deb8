"""Figures of questions and of turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_figures import named, traces
from made_runs import Row, made_run
from made_talks import INTENTS, QRELS, RANKED, three_talks

from cts_async.analysis.diagnose import Frontier, FrontierPoint
from cts_async.analysis.retrieval import TurnRetrieval, retrieve_turns
from cts_async.analysis.stats import Difference, wilson
from cts_async.pages.plots import Drawn, figures
from cts_async.pages.plots.figure import N_COLOURS
from cts_async.pages.plots.questions import thinned
from cts_async.tables.diagnosis import diagnose_named

CITY, YEAR, U = "您想查哪个城市？", "您想查哪一年？", "unknown"


@pytest.fixture
def found(tmp_path: Path) -> Drawn:
    """orig scores 10 everywhere; gpt asks one question, kimi two."""
    made_run(tmp_path, label="orig", rows=[Row(id, score=10.0) for id in "abcd"])
    rows = [
        Row("a", [CITY], [U], score=10.0),
        Row("b", [CITY], ["北京"], score=30.0),
        Row("c", [YEAR], [U], score=10.0),
        Row("d", error="search"),
    ]
    made_run(tmp_path, label="gpt-k1", rows=rows)
    rows = [
        Row("a", [CITY, YEAR], [U, "2024"], score=20.0),
        Row("b", [YEAR, CITY], [U, U], score=0.0),
    ]
    made_run(tmp_path, label="kimi-k2", rows=rows, n_expected=2, embedded=True)
    return figures(diagnosed=diagnose_named([str(tmp_path)]))


def by_name(found: Drawn, name: str) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in traces(named(found, name))}


def test_unknown_answers_turn_by_turn(found: Drawn) -> None:
    """gpt: 2 of 3; kimi: 2 of 2 at the first turn, 1 of 2 at the second. Failed instances count nowhere."""
    lines = by_name(found, "unknown_by_turn")
    gpt, kimi = lines["gpt-k1"], lines["kimi-k2 (smoke test)"]
    assert gpt["y"] == [pytest.approx(200 / 3)]
    assert kimi["y"] == [100.0, 50.0]
    assert (gpt["x"], kimi["x"]) == ([0.94], [1.06, 2.0])  # beside each other, and alone on the tick
    assert gpt["hovertext"] == ["gpt-k1, turn 1<br>66.7%<br>2 of 3"]
    low, high = wilson(2, 3) or (0, 0)
    assert gpt["error_y"]["array"] == [pytest.approx(100 * high - 200 / 3)]
    assert gpt["error_y"]["arrayminus"] == [pytest.approx(200 / 3 - 100 * low)]


def test_unknown_answers_about_regions(found: Drawn) -> None:
    """gpt asks twice for a city, and is answered once; kimi once at each turn, in vain."""
    lines = by_name(found, "region_unknown_by_turn")
    assert lines["gpt-k1"]["y"] == [50.0]
    assert lines["kimi-k2 (smoke test)"]["y"] == [100.0, 100.0]


def test_types_of_questions_are_shares_of_all(found: Drawn) -> None:
    bars = by_name(found, "question_types")
    assert bars["region"]["x"] == [pytest.approx(200 / 3), 50.0]
    assert bars["time"]["x"] == [pytest.approx(100 / 3), 50.0]
    assert bars["other"]["x"] == [0.0, 0.0]
    assert sum(bar["x"][0] for bar in bars.values()) == pytest.approx(100)


def test_answerability_by_type_and_budget(found: Drawn) -> None:
    """k = 1: no year, one of two cities; k = 2: one of two years, no city."""
    points = by_name(found, "answerability")
    assert points["k = 1"]["x"] == [0.0, 50.0]
    assert points["k = 2"]["x"] == [50.0, 0.0]
    assert named(found, "answerability").alt.startswith(
        "time, k = 1, 0.0%, 0 of 1; region, k = 1, 50.0%, 1 of 2"
    )


def test_gain_by_known_answers(found: Drawn) -> None:
    """gpt: 0 without an answer, +20 with one; kimi: -10 and +10."""
    lines = by_name(found, "known_answers")
    assert lines["gpt-k1"]["y"] == [0.0, 20.0]
    assert lines["kimi-k2 (smoke test)"]["y"] == [-10.0, 10.0]


def test_the_frontier_goes_from_never_to_always(found: Drawn) -> None:
    """gpt: 10 when nobody is asked, (10 + 30 + 10) / 3 when all are."""
    gpt = by_name(found, "ask_or_not")["gpt-k1"]
    assert (gpt["x"][0], gpt["y"][0]) == (0.0, 10.0)
    assert (gpt["x"][-1], gpt["y"][-1]) == (100.0, pytest.approx(50 / 3))
    assert gpt["marker"]["size"][0] == gpt["marker"]["size"][-1] == 10


def test_a_long_frontier_is_thinned_and_keeps_its_ends_and_its_best() -> None:
    points = tuple(FrontierPoint(None, i / 1_000, 50.0 + (i == 333)) for i in range(1_001))
    nothing = Difference(1, 0.0, 0.0, 0.0)
    frontier = Frontier(1_000, points, 0.0, points[333], points[0], nothing)
    drawn = thinned(frontier)
    assert len(drawn) == 102
    assert (drawn[0], drawn[-1]) == (points[0], points[-1])
    assert points[333] in drawn


@pytest.fixture
def turned(tmp_path: Path) -> TurnRetrieval:
    return retrieve_turns(three_talks(tmp_path), INTENTS, RANKED, QRELS, ["MRR@10"])


def test_lines_are_means_by_turn(turned: TurnRetrieval) -> None:
    """q finds cat second: 1/2; good finds it first, bad never."""
    figure = named(figures(turns=[turned]), "turns_MRR-10")
    standard, at_cot, select = traces(figure)
    assert [(line["name"], line["yaxis"]) for line in (standard, at_cot, select)] == [
        ("standard", "y"),
        ("at-cot", "y"),
        ("at-cot", "y2"),
    ]
    assert (standard["y"], at_cot["y"], select["y"]) == ([0.5, 0.0], [1.0, 1.0], [1.0, 0.0])
    assert [shape["y0"] for shape in figure.spec["layout"]["shapes"]] == [0.5, 0.5]
    assert figure.alt.startswith("The highest MRR@10 is 1.000, of at-cot in mode respond after turn 1")
    places = [place for place, trace in enumerate(figure.spec["data"]) if trace.get("name") == "at-cot"]
    assert [place % N_COLOURS for place in places] == [1, 1], "one colour in all panels"
    assert (at_cot["showlegend"], select["showlegend"]) == (True, False)


def test_figure_names_judgments_and_smoke_test(turned: TurnRetrieval) -> None:
    found = figures(turns=[turned], judgments="bm25, pseudo-judgments", embedded_talks={"gpt"})
    figure = named(found, "turns_MRR-10")
    assert figure.title == "MRR@10 by turn (smoke test)"
    assert figure.spec["layout"]["yaxis"]["title"]["text"] == "MRR@10 (smoke test)"
    assert figure.caption.endswith(" Retrieval: bm25, pseudo-judgments.")


def test_two_clarifiers_have_figures_of_their_own(turned: TurnRetrieval) -> None:
    other = replace(turned, clarifier="通义/max", name="通义/max")
    names = [figure.name for figure in figures(turns=[turned, other]).figures]
    assert names == ["turns_MRR-10_1-gpt", "turns_MRR-10_2-通义-max"]
