"""Which words stand how often in which documents of a corpus, counted once and held in flat arrays."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from cts_async.search.backends.base import Page
from cts_async.search.backends.tokens import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TermIndex:
    """Rows are documents in corpus order.

    The postings of the term with number n are `rows[bounds[n]:bounds[n + 1]]`, ascending, and the same stretch of
    `counts`. `lengths` are words in a document, `total` those in all documents.
    """

    ids: tuple[str, ...]
    vocabulary: dict[str, int]
    bounds: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    lengths: NDArray[np.int64]
    total: int

    @classmethod
    def build(cls, documents: Iterable[Page]) -> Self:
        """Count the words of title and text. Stop words count in titles only, where they may be all there is."""
        import numpy as np

        ids: list[str] = []
        vocabulary: dict[str, int] = {}
        numbers, counts, held = array("i"), array("i"), array("q")
        for page in documents:
            found = Counter(terms(page.title, keep_stops=True) + terms(page.text))
            ids.append(page.id)
            numbers.extend(vocabulary.setdefault(term, len(vocabulary)) for term in found)
            counts.extend(found.values())
            held.append(len(found))
        by_document = np.array(numbers, dtype=np.int32)
        rows = np.repeat(np.arange(len(ids), dtype=np.int32), np.array(held, dtype=np.int64))
        how_often = np.array(counts, dtype=np.int32)
        lengths = np.bincount(rows, how_often, len(ids)).astype(np.int64)
        order = np.argsort(by_document, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(by_document, minlength=len(vocabulary)))])
        return cls(
            *(tuple(ids), vocabulary, bounds.astype(np.int64), rows[order], how_often[order], lengths),
            total=int(lengths.sum()),
        )

    def postings(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Give the rows that hold the term with this number, and how often each does."""
        stretch = slice(int(self.bounds[number]), int(self.bounds[number + 1]))
        return self.rows[stretch], self.counts[stretch]
