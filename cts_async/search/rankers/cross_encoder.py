"""A ranking put in another order by a model that reads query and document together.

AT-CoT (SIGIR 2025, section 4.4) retrieves 100 documents with BM25 and re-ranks them with MonoT5.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers.base import Ranked, Ranker
from cts_async.search.rankers.pair_scorer import open_pair_scorer

DEPTH: Final = 100
"""How many documents are re-ranked (AT-CoT, section 4.4)."""
BATCH: Final = 32
"""How many of them the model reads at once."""


class Scorer(Protocol):
    """A model's judgment of documents for one query; higher is better."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite number for each text, in order."""


class CrossEncoderRanker:
    """The `depth` best of `base`, re-ranked; what `base` ranks lower is not returned."""

    def __init__(
        self,
        base: Ranker,
        model_path: str | Path,
        corpus: Corpus,
        depth: int = DEPTH,
        *,
        scorer: Scorer | None = None,
    ) -> None:
        """Load the model at `model_path`, a folder or a name on the hub, unless there is a `scorer` already.

        `corpus` is where the texts of `base`'s documents stand. Raises UsageError where transformers and torch are
        not installed, and for a model that cannot score pairs.
        """
        self._base, self._corpus, self._depth = base, corpus, depth
        self._scorer = scorer or open_pair_scorer(model_path)
        self.name = f"{base.name}+{Path(model_path).name}"

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """At most `limit` of the `depth` documents, best first, ties in the order of `base`."""
        if limit < 1:
            return []
        ids = [found.id for found in self._base.rank(query, self._depth)]
        scores = self._scores(query, [self._text(id) for id in ids])
        ranked = [Ranked(id, score) for id, score in zip(ids, scores, strict=True)]
        return sorted(ranked, key=lambda found: -found.score)[:limit]

    def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Texts of like length go together, so that little of a batch is padding."""
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        scores = [0.0] * len(texts)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            found = self._scorer.score(query, [texts[at] for at in batch])
            for at, score in zip(batch, found, strict=True):
                scores[at] = score
        return scores

    def _text(self, id: str) -> str:
        page = self._corpus.document(id)
        return "" if page is None else f"{page.title} {page.text}".strip()
