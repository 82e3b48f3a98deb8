"""Judgments for a corpus that nobody judged: what an intent's own description finds best counts as relevant.

They are stand-ins and no relevance judgments. They say how close a query comes to the ranking of the full
description under the same model, on the same corpus; they can compare ways to ask and to reformulate, and say
nothing of whether the documents are any good. Whatever shows a number made with them has to say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cts_async.search.rankers import Ranker

STANDIN: Final = "stand-in judgments (what the intent's own text ranks best), not relevance judgments"
"""How tables and files call them."""


def standins_have_one_grade(level: int, qrels: str) -> str:
    """Why a relevance level above 1 is refused with stand-ins."""
    return (
        f"--relevance-level {level}: {qrels} has grade 1 only; name a file of graded judgments with --qrels"
    )


def standin_qrels(ranker: Ranker, intents: Mapping[str, str], depth: int) -> dict[str, dict[str, int]]:
    """Give key -> document id -> 1 for the `depth` documents that `ranker` ranks best for each intent.

    Grades are binary: an order within the best would be one more thing that nobody judged. An intent that finds
    nothing has no judgments, and so is left out by `evaluate`.
    """
    texts = dict.fromkeys(intents.values())
    found = {text: [ranked.id for ranked in ranker.rank(text, depth)] for text in texts}
    return {key: dict.fromkeys(found[text], 1) for key, text in intents.items() if found[text]}
