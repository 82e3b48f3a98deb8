"""Agreement between judges: labels, scores and orderings of systems (paper, table 9)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cts_async.analysis.board import LABELS, NO_LABEL, Board
from cts_async.records import Coverage

if TYPE_CHECKING:
    import numpy as np

    Numbers = Sequence[float] | np.ndarray[Any, np.dtype[Any]]
    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# --- agreement
#
# How far two judges agree: in single labels beyond chance, and in the scores that the labels make.
#
# Cohen's kappa (Cohen 1960, "A coefficient of agreement for nominal scales"), and with quadratic weights over the
# order none < partial < full (Cohen 1968, "Weighted kappa"): a full taken for none weighs four times as much
# as a full taken for partial. 1 is full agreement, 0 is what chance brings, less is worse than chance.

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


# --- kendall
#
# Kendall's tau-b between two rankings of the same systems (Kendall 1945, on ties in ranking problems).


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Agreement of two orders in [-1, 1]: 1 is the same order, -1 the reverse.

    (concordant - discordant) / sqrt((pairs - ties in a) * (pairs - ties in b)); None where one of them has no
    order. Raises ValueError for unequal lengths.
    """
    if len(a) != len(b):
        raise ValueError("both must rank the same systems")
    balance = untied_a = untied_b = 0
    for i, j in combinations(range(len(a)), 2):
        x, y = _sign(a[i] - a[j]), _sign(b[i] - b[j])
        balance += x * y
        untied_a += x != 0
        untied_b += y != 0
    return balance / math.sqrt(untied_a * untied_b) if untied_a and untied_b else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


# --- krippendorff
#
# Krippendorff's alpha: agreement beyond chance of any number of judges, who may have left things out.
#
# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D: alpha = 1 - D_o / D_e from the coincidence
# matrix, with the nominal metric or the ordinal one (a difference is larger the more values lie between).
# 1 is full agreement, 0 is chance, less is worse than chance.

Level = Literal["nominal", "ordinal"]
MISSING = -1


def krippendorff_alpha(labels: Array, level: Level, n_values: int) -> float | None:
    """Alpha of `labels`, shape (things, judges), integers 0..n_values-1 in ascending order, or MISSING.

    A thing that fewer than two judges have labelled says nothing. None where no two judges have labelled the
    same thing, and where only one value was ever given: there is no disagreement to expect then.
    """
    import numpy as np

    given = np.column_stack([(labels == value).sum(axis=1, dtype=np.int16) for value in range(n_values)])
    # Few things differ in how often each value was given to them: every kind of thing is reckoned with once.
    places = (labels.shape[1] + 1) ** np.arange(n_values)
    kinds, times = np.unique(given[given.sum(axis=1) >= 2] @ places, return_counts=True)
    if not len(kinds):
        return None
    counts = kinds[:, None] // places % (labels.shape[1] + 1)
    weighted = counts * times[:, None] / (counts.sum(axis=1) - 1)[:, None]
    coincidences = counts.T @ weighted - np.diag(weighted.sum(axis=0))
    totals = (counts * times[:, None]).sum(axis=0).astype(float)
    n = totals.sum()
    difference = _nominal(n_values) if level == "nominal" else _ordinal(totals)
    expected = (np.outer(totals, totals) * difference).sum()
    if expected == 0:
        return None
    return float(1 - (n - 1) * (coincidences * difference).sum() / expected)


def _nominal(n_values: int) -> Array:
    import numpy as np

    return 1.0 - np.eye(n_values)


def _ordinal(totals: Array) -> Array:
    """Squared number of values given between two values, each end counting half."""
    import numpy as np

    up_to = np.cumsum(totals) - totals / 2
    return (up_to[:, None] - up_to) ** 2


# --- judges
#
# Do the conclusions depend on the judge? Scores and orderings by judge (paper, table 9), and agreement per nugget.


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """One judge's row of table 9."""

    judge: str
    means: tuple[float | None, ...]
    """By system, in the order of the board; None where it has scored nothing."""
    n_scored: tuple[int, ...]
    common_means: tuple[float | None, ...]
    """By system that every judge has scored, the mean over the instances that all of these have from all judges."""
    ordering: str
    """Those systems by their common means, best first: `gpt-k1 > ernie-k1 > orig`, with `=` between equals."""
    shares: Mapping[Coverage, float]
    """Of all its labels, how many are full, partial, none; empty where it gave none."""


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Kendall's tau between two judges' orderings; None where one of them has no order."""

    judge: str
    other: str
    tau: float | None


@dataclass(frozen=True, slots=True)
class Robustness:
    """Several judges of the same answers. Agreement is over the nuggets that both, or any two, have labelled."""

    systems: tuple[str, ...]
    n_common: int
    """Instances that every judge has scored of every system that all judges have scored: orders are by these."""
    judges: tuple[JudgeScores, ...]
    orders: tuple[OrderAgreement, ...]
    same_order: bool | None
    """None where fewer than two systems were scored by every judge: there is no order."""
    agreements: tuple[Agreement, ...]
    alpha_nominal: float | None
    """Krippendorff's alpha of all judges together."""
    alpha_ordinal: float | None


def robustness(board: Board, judges: Sequence[str]) -> Robustness | None:
    """What the judges agree in; None for fewer than two."""
    if len(judges) < 2:
        return None
    means = {judge: _means(board.scores[judge]) for judge in judges}
    shared = [i for i in range(len(board.entrants)) if all(means[judge][i] is not None for judge in judges)]
    n_common, common = _common_means(board, judges, shared)
    if not n_common:
        shared = []
    # What differs in the last digits only, by the order of a sum, is equal.
    ranked = {judge: [round(common[judge][i] or 0.0, 9) for i in shared] for judge in judges}
    names = [board.systems[i] for i in shared]
    orderings = {judge: _ordering(names, ranked[judge]) for judge in judges}
    return Robustness(
        systems=board.systems,
        n_common=n_common,
        judges=tuple(_judge(board, judge, means[judge], common[judge], orderings[judge]) for judge in judges),
        orders=tuple(
            OrderAgreement(a, b, kendall_tau(ranked[a], ranked[b])) for a, b in combinations(judges, 2)
        ),
        same_order=len(set(orderings.values())) == 1 if len(shared) > 1 else None,
        agreements=tuple(_agreement(board, a, b) for a, b in combinations(judges, 2)),
        alpha_nominal=_alpha(board, judges, "nominal"),
        alpha_ordinal=_alpha(board, judges, "ordinal"),
    )


def _means(scores: Array) -> tuple[float | None, ...]:
    import numpy as np

    columns = (column[~np.isnan(column)] for column in scores.T)
    return tuple(math.fsum(column) / len(column) if len(column) else None for column in columns)


def _common_means(
    board: Board, judges: Sequence[str], shared: Sequence[int]
) -> tuple[int, dict[str, tuple[float | None, ...]]]:
    """How many instances all judges have scored of all `shared` systems, and by judge the systems' means over them."""
    import numpy as np

    scores = np.stack([board.scores[judge] for judge in judges])
    common = ~np.isnan(scores[:, :, shared]).any(axis=(0, 2))
    n = int(common.sum()) if len(shared) else 0
    return n, {
        judge: tuple(
            math.fsum(column[common]) / n if n and i in shared else None for i, column in enumerate(of.T)
        )
        for judge, of in zip(judges, scores, strict=True)
    }


def _ordering(names: Sequence[str], means: Sequence[float]) -> str:
    ranked = sorted(zip(means, names, strict=True), key=lambda one: (-one[0], one[1]))
    words = [name for _, name in ranked[:1]]
    for (before, _), (mean, name) in pairwise(ranked):
        words += ["=" if mean == before else ">", name]
    return " ".join(words)


def _judge(
    board: Board,
    judge: str,
    means: tuple[float | None, ...],
    common_means: tuple[float | None, ...],
    ordering: str,
) -> JudgeScores:
    import numpy as np

    labels = board.labels[judge]
    given = np.bincount(labels[labels != NO_LABEL], minlength=len(LABELS))
    shares = (
        {label: float(given[code] / given.sum()) for code, label in enumerate(LABELS)} if given.sum() else {}
    )
    n_scored = tuple(int(n) for n in (~np.isnan(board.scores[judge])).sum(axis=0))
    return JudgeScores(judge, means, n_scored, common_means, ordering, shares)


def _agreement(board: Board, judge: str, other: str) -> Agreement:
    import numpy as np

    a, b = board.labels[judge].ravel(), board.labels[other].ravel()
    both = (a != NO_LABEL) & (b != NO_LABEL)
    pairs_of = a[both] * np.int8(len(LABELS)) + b[both]
    counts = np.bincount(pairs_of, minlength=len(LABELS) ** 2).reshape(len(LABELS), -1)
    pairs = {
        (here, there): int(counts[i, j])
        for i, here in enumerate(LABELS)
        for j, there in enumerate(LABELS)
        if counts[i, j]
    }
    x, y = board.scores[judge].ravel(), board.scores[other].ravel()
    scored = ~np.isnan(x) & ~np.isnan(y)
    return agreement_of(judge, other, pairs, x[scored], y[scored])


def _alpha(board: Board, judges: Sequence[str], level: Level) -> float | None:
    import numpy as np

    return krippendorff_alpha(
        np.column_stack([board.labels[judge].ravel() for judge in judges]), level, len(LABELS)
    )
