"""How far two judges agree: in single labels beyond chance, and in the scores that the labels make.

Cohen's kappa (Cohen 1960, "A coefficient of agreement for nominal scales"), and with quadratic weights over the
order none < partial < full (Cohen 1968, "Weighted kappa"): a full taken for none weighs four times as much
as a full taken for partial. 1 is full agreement, 0 is what chance brings, less is worse than chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from cts_async.records import Coverage

if TYPE_CHECKING:
    import numpy as np

    Numbers = Sequence[float] | np.ndarray[Any, np.dtype[Any]]

Weights = Literal["quadratic"] | None

ASCENDING: Final[tuple[Coverage, ...]] = ("none", "partial", "full")
"""The labels in the order that quadratic weights go by."""

Pairs = Mapping[tuple[Any, Any], int]
"""How often the first judge gave one label where the second gave the other."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two judges over what both have judged. A coefficient is None where it is not defined.

    `exact` is the share of equal labels, `score_r` Pearson's correlation of the answers' scores.
    """

    judge: str
    other: str
    n_answers: int
    n_nuggets: int
    exact: float | None
    kappa: float | None
    kappa_quadratic: float | None
    score_r: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def cohen_kappa(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    weights: Weights = None,
    *,
    order: Sequence[Hashable] = ASCENDING,
) -> float | None:
    """Kappa of two judges' labels, `a[i]` and `b[i]` being about the same thing.

    None for no labels, and where both always gave one and the same, since chance alone explains that.
    `order` matters to weights only; ValueError for a label outside it, or unequal lengths.
    """
    if len(a) != len(b):
        raise ValueError("labels must be of the same things")
    return kappa_of(Counter(zip(a, b, strict=True)), weights, order=order)


def kappa_of(pairs: Pairs, weights: Weights = None, *, order: Sequence[Hashable] = ASCENDING) -> float | None:
    """`cohen_kappa` from counts: 1 - sum(w o) / sum(w e), o observed and e expected by chance."""
    rows: Counter[Hashable] = Counter()
    columns: Counter[Hashable] = Counter()
    for (here, there), n in pairs.items():
        rows[here] += n
        columns[there] += n
    weight = _disagreement(weights, order, {*rows, *columns})
    observed = sum(weight(here, there) * n for (here, there), n in pairs.items())
    expected = sum(weight(h, t) * n * m for h, n in rows.items() for t, m in columns.items())
    # Whole numbers up to here: the only rounding is that of this division.
    return 1 - observed * rows.total() / expected if expected else None


def agreement_of(judge: str, other: str, pairs: Pairs, scores: Numbers, other_scores: Numbers) -> Agreement:
    """Both judges' pairs of labels by nugget and scores by answer, put into figures."""
    n = sum(pairs.values())
    equal = sum(count for (here, there), count in pairs.items() if here == there)
    return Agreement(
        judge=judge,
        other=other,
        n_answers=len(scores),
        n_nuggets=n,
        exact=equal / n if n else None,
        kappa=kappa_of(pairs),
        kappa_quadratic=kappa_of(pairs, "quadratic"),
        score_r=correlation(scores, other_scores),
    )


def correlation(a: Numbers, b: Numbers) -> float | None:
    """Pearson's r in [-1, 1]; None for fewer than two pairs, and where one side never varies.

    The same to the last digit in whatever order the pairs are. ValueError for unequal lengths.
    """
    import numpy as np

    if len(a) != len(b):
        raise ValueError("scores must be of the same answers")
    if len(a) < 2:
        return None
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    x, y = (np.asarray(side, float) for side in (a, b))
    order = np.lexsort((y, x))
    x, y = x[order] - x[order].mean(), y[order] - y[order].mean()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def _disagreement(weights: Weights, order: Sequence[Hashable], used: set[Hashable]) -> Any:
    """Two labels to what their difference weighs."""
    if weights is None:
        return lambda here, there: int(here != there)
    place = {label: i for i, label in enumerate(order)}
    if strange := used - place.keys():
        raise ValueError(f"labels without a place in the order {tuple(order)}: {sorted(map(str, strange))}")
    return lambda here, there: (place[here] - place[there]) ** 2
