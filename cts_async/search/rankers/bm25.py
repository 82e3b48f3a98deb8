"""BM25 over a corpus file: Lucene's formula, k1 = 1.2, b = 0.75, as the agent's own search ranks.

AT-CoT (SIGIR 2025, section 4.4) retrieves with the same formula in Lucene, at pyserini's k1 = 0.9, b = 0.4.
"""

from __future__ import annotations

from pathlib import Path

from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers.base import Ranked, Ranker


class Bm25Ranker:
    """Documents that share a word with the query, stop words and word endings apart."""

    name = "bm25"

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """At most `limit` documents, best first, ties in file order; none where the query matches nothing."""
        return [Ranked(*found) for found in self._corpus.rank(query, limit)]


def open_bm25(path: Path) -> Ranker:
    """Index the corpus at `path`, or load its index from the cache. Raises `InputError` for a bad file."""
    return Bm25Ranker(Corpus.open(path))
