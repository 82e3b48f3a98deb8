"""Stand-in judgments are what the intent's own text ranks best."""

from __future__ import annotations

from cts_async.analysis.retrieval import standin_qrels
from cts_async.search.rankers import Ranked


class Known:
    """Ranks what it was told, and counts how often it was asked."""

    name = "known"

    def __init__(self, rankings: dict[str, list[str]]) -> None:
        self.rankings, self.asked = rankings, 0

    def rank(self, query: str, limit: int) -> list[Ranked]:
        self.asked += 1
        return [Ranked(document, -float(place)) for place, document in enumerate(self.rankings[query])][
            :limit
        ]


def test_the_best_of_each_intent_count_alike() -> None:
    ranker = Known({"red foxes": ["d3", "d1", "d2"], "nothing": []})
    assert standin_qrels(ranker, {"1-1": "red foxes", "1-2": "nothing"}, 2) == {"1-1": {"d3": 1, "d1": 1}}


def test_an_intent_that_stands_twice_is_ranked_once() -> None:
    ranker = Known({"red foxes": ["d3"]})
    assert standin_qrels(ranker, {"1-1": "red foxes", "2-1": "red foxes"}, 5) == {
        "1-1": {"d3": 1},
        "2-1": {"d3": 1},
    }
    assert ranker.asked == 1
