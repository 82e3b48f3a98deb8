"""Do the conclusions depend on the judge? Scores and orderings by judge (paper, table 9), and agreement per nugget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.analysis.agreement import Agreement, agreement_of
from cts_async.analysis.board import LABELS, NO_LABEL, Board
from cts_async.analysis.kendall import kendall_tau
from cts_async.analysis.krippendorff import Level, krippendorff_alpha
from cts_async.records import Coverage

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


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
