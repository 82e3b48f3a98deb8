"""How alike a generated and an annotated question are: the `Scorer` that clarification generation is measured with.

`BertScore` (its own file, extra `[bertscore]`) is what AT-CoT uses; `TokenF1` needs nothing, and is another measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from cts_async.search.terms import terms

if TYPE_CHECKING:
    import numpy as np

    Matrix: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Scorer(Protocol):
    """Compares every generated question with every annotated one."""

    @property
    def name(self) -> str:
        """What it is called wherever its numbers are shown, with all that determines them."""

    @property
    def is_bertscore(self) -> bool:
        """Whether its numbers may stand beside AT-CoT's published ones."""

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Matrix:
        """The M x N matrix S of equation 5: S[i, j] compares generated[i] with annotated[j]; 1 is the same."""


class TokenF1:
    """The F1 of the words that two questions share, each as often as both have it (as SQuAD 1.1 compares answers).

    Words are those of `search.backends.tokens.terms`: folded, lightly stemmed, Chinese cut by jieba; function words
    count. A text without words scores 0. Not BERTScore: a paraphrase in other words scores 0 here.
    """

    name = "token F1, not BERTScore"
    is_bertscore = False

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Matrix:
        """F1 = 2 |shared| / (|generated| + |annotated|), in [0, 1]."""
        import numpy as np

        rows, columns = (
            [Counter(terms(text, keep_stops=True)) for text in side] for side in (generated, annotated)
        )
        matrix = np.zeros((len(rows), len(columns)))
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                matrix[i, j] = _f1(row, column)
        return matrix


def _f1(a: Counter[str], b: Counter[str]) -> float:
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 0.0
