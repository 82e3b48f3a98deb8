"""Table 8 by hand: two intents, rankings of three documents, one relevant each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from made_talks import made_talk

from cts_async.analysis.retrieval import (
    NOBODY_ASKED,
    TurnRetrieval,
    queries_to_rank,
    rankings,
    retrieve_turns,
)
from cts_async.runs.conversations import ConversationRun, read_conversation_run
from cts_async.search.backends import Ranked

BLURRED = {"1-1": "jaguar", "1-2": "jaguar"}
QRELS = {"1-1": {"cat": 1}, "1-2": {"car": 1}}
SECOND = 1 / math.log2(3)
"""nDCG@10 of the only relevant document at rank 2; at rank 3 it is 1 / log2(4) = 1/2."""


def found(*ids: str) -> list[Ranked]:
    return [Ranked(id, 10.0 - place) for place, id in enumerate(ids)]


RANKED = {
    "jaguar": found("os", "car", "cat"),
    "jaguar animal": found("cat", "os", "car"),
    "jaguar animals": found("os", "cat", "car"),
    "jaguar dealer": found("car", "os", "cat"),
    "jaguar nothing": [],
}


def talk(
    folder: Path, scheme: str, queries: Mapping[str, list[str]], mode: str = "respond"
) -> ConversationRun:
    rows = {
        id: [{"offered": ["Which?"], "answers": ["this"], "query": query} for query in turns]
        for id, turns in queries.items()
    }
    return read_conversation_run(made_talk(folder, scheme=scheme, mode=mode, rows=rows, queries=BLURRED, k=2))


@pytest.fixture
def table(tmp_path: Path) -> TurnRetrieval:
    standard = {"1-1": ["jaguar", "jaguar animals"], "1-2": ["jaguar", "jaguar dealer"]}
    at_cot = {"1-1": ["jaguar animal", "jaguar animal"], "1-2": ["jaguar dealer", "jaguar nothing"]}
    talks = [talk(tmp_path, "at-cot", at_cot), talk(tmp_path, "standard", standard)]
    return retrieve_turns(talks, BLURRED, RANKED, QRELS, ["nDCG@10", "MRR@10"])


def test_baseline_searches_q_itself(table: TurnRetrieval) -> None:
    """cat at rank 3 and car at rank 2."""
    assert table.without["nDCG@10"] == pytest.approx({"1-1": 0.5, "1-2": SECOND})
    assert table.without["MRR@10"] == pytest.approx({"1-1": 1 / 3, "1-2": 1 / 2})


def test_each_turn_has_mean_of_its_queries(table: TurnRetrieval) -> None:
    means = {(c.turn, c.scheme): c.mean("nDCG@10") for c in table.cells}
    assert means == {
        (1, "standard"): pytest.approx((0.5 + SECOND) / 2),
        (1, "at-cot"): pytest.approx(1.0),
        (2, "standard"): pytest.approx((SECOND + 1) / 2),
        (2, "at-cot"): pytest.approx((1 + 0) / 2),
    }
    assert {cell.n("MRR@10") for cell in table.cells} == {2}


def test_schemes_are_compared_pair_by_pair(table: TurnRetrieval) -> None:
    """Turn 1, differences 1/2 and 1 - SECOND: t = d / (s / sqrt 2), of which p is 1 - 2/pi atan |t| (1 degree)."""
    test = next(t for t in table.tests if (t.measure, t.turn) == ("nDCG@10", 1))
    one, other = 0.5, 1 - SECOND
    t = (one + other) / abs(one - other)
    assert (test.scheme, test.other, test.n) == ("at-cot", "standard", 2)
    assert test.difference == pytest.approx((one + other) / 2)
    assert test.t == pytest.approx(t)
    assert test.p == pytest.approx(1 - 2 / math.pi * math.atan(t))
    assert test.p_holm == pytest.approx(2 * test.p)  # the smaller of the two of this measure


def test_gains_over_q_form_their_own_family(table: TurnRetrieval) -> None:
    gains = {(g.turn, g.scheme): g for g in table.gains if g.measure == "MRR@10"}
    assert {g.other for g in gains.values()} == {NOBODY_ASKED}
    assert len(gains) == 4
    assert (gains[1, "standard"].difference, gains[1, "standard"].p) == (0.0, 1.0)
    assert gains[1, "at-cot"].difference == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_only_significant_improvements_are_marked(tmp_path: Path) -> None:
    """The same gain on every instance is p = 0."""
    blurred = {str(n): "jaguar" for n in range(3)}
    qrels = {id: {"cat": 1} for id in blurred}
    worse = talk(tmp_path, "cot", {id: ["jaguar"] for id in blurred})
    better = talk(tmp_path, "at-cot", {id: ["jaguar animal"] for id in blurred})
    table = retrieve_turns([worse, better], blurred, RANKED, qrels, ["nDCG@10"])
    marked = {cell.scheme: table.better_than("nDCG@10", cell) for cell in table.cells}
    assert marked == {"cot": (), "at-cot": ("cot",)}


def test_failed_conversation_is_in_no_mean_or_pair(tmp_path: Path) -> None:
    whole = talk(tmp_path, "standard", {"1-1": ["jaguar animal"], "1-2": ["jaguar dealer"]})
    partly = talk(tmp_path, "cot", {"1-1": ["jaguar animal"]})
    table = retrieve_turns([whole, partly], BLURRED, RANKED, QRELS, ["nDCG@10"])
    assert [(cell.scheme, cell.n("nDCG@10")) for cell in table.cells] == [("standard", 2), ("cot", 1)]
    assert [test.n for test in table.tests] == [1]


def test_instances_without_judgments_or_beyond_the_selection_are_left_out(tmp_path: Path) -> None:
    both = talk(tmp_path, "standard", {"1-1": ["jaguar animal"], "1-2": ["jaguar dealer"]})
    unjudged = retrieve_turns([both], BLURRED, RANKED, {"1-1": {"cat": 1}, "1-2": {}}, ["nDCG@10"])
    assert unjudged.cells[0].scores["nDCG@10"].keys() == unjudged.without["nDCG@10"].keys() == {"1-1"}
    selected = retrieve_turns([both], {"1-2": "jaguar"}, RANKED, QRELS, ["nDCG@10"])
    assert selected.cells[0].scores["nDCG@10"].keys() == {"1-2"}


def test_at_once_questions_are_not_queries(tmp_path: Path) -> None:
    asked = talk(tmp_path, "cot", {"1-1": [""]}, mode="at-once")
    assert queries_to_rank([asked], BLURRED) == ["jaguar"]
    table = retrieve_turns([asked], BLURRED, RANKED, QRELS, ["nDCG@10"])
    assert (table.cells, table.tests) == ((), ())


def test_every_distinct_query_is_ranked_once(tmp_path: Path) -> None:
    first = talk(tmp_path, "standard", {"1-1": ["jaguar animal", "jaguar"], "1-2": ["jaguar dealer", "x"]})
    assert queries_to_rank([first], BLURRED) == ["jaguar", "jaguar animal", "jaguar dealer", "x"]
    assert queries_to_rank([first], {"1-1": "jaguar"}) == ["jaguar", "jaguar animal"]


class _Tied:
    """Twenty documents, all but the first with the same score."""

    name = "tied"

    def rank(self, query: str, limit: int) -> list[Ranked]:
        return [Ranked(str(n), 2.0 if n == 0 else 1.0) for n in range(20)][:limit]


def test_ranking_is_truncated_at_largest_cutoff() -> None:
    ((query, one),) = rankings(_Tied(), ["q"], ["MRR@1"])
    assert (query, [found.id for found in one]) == ("q", ["0"])
    ((_, ties),) = rankings(_Tied(), ["q"], ["nDCG@2", "MRR@1"])
    assert len(ties) == 20  # which of the tied comes second is the evaluation's to say
    ((_, whole),) = rankings(_Tied(), ["q"], ["MRR@1", "MAP"])
    assert len(whole) == 20
