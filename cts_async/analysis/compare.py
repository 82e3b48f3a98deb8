"""Systems on a board compared: leaderboard, paired tests, agreement of judges, and the instances worth a look."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from cts_async import scorer
from cts_async.analysis import stats
from cts_async.analysis.board import LABELS, NO_LABEL, REFERENCES, Array, Board
from cts_async.protocol.judge import self_judged_roles
from cts_async.records import Coverage

if TYPE_CHECKING:
    from cts_async.analysis.stats import Numbers


# Leaderboard (paper, tables 2 and 6), with intervals of the differences (table 3)


@dataclass(frozen=True, slots=True)
class Standing:
    """One system under one judge, in points of restore_score_100."""

    system: str
    k: int
    """0 for the reference points, and if unknown."""
    scores: scorer.Summary
    delta: stats.Difference | None
    """Mean of the paired differences to the baseline; None for the baseline itself, and without a baseline or a shared
    instance."""
    n_common: int
    """Instances that every system of the leaderboard has a score for."""
    common_mean: float | None
    """The mean over these: means over each system's own instances may order two systems otherwise than their pairs."""
    own_text: tuple[str, ...] = ()
    """Roles in which the judge wrote what it judges (see `protocol.judge.own_text`)."""
    p_holm: float | None = None
    """The adjusted p of the test against the baseline; None without one."""
    best: bool | None = None
    """True if it has the highest `common_mean`, or no test shows that the system with the highest is better than this
    one. None for references, which do not compete, and without a common instance."""


@dataclass(frozen=True, slots=True)
class Judged:
    """All systems compared under one judge: what terminal, report, viewer and LaTeX show."""

    judge: str
    baseline: str
    """"" for none."""
    standings: tuple[Standing, ...]
    """The baseline first, then by budget, best mean over their own instances first, as in JSON."""
    pairs: tuple[PairTest, ...]
    """The family of tests of Holm's correction."""

    @property
    def n_differs(self) -> bool:
        """True if some mean is over other instances than the common ones."""
        return any(one.n_common < one.scores.n_scored for one in self.standings)

    @property
    def ranked(self) -> tuple[Standing, ...]:
        """The standings in the order of tables: within a budget the best mean over the common instances first."""
        if any(one.common_mean is None for one in self.standings):
            return self.standings
        return tuple(
            sorted(
                self.standings,
                key=lambda one: (one.system != self.baseline, one.k, *_by_common_mean(one)),
            )
        )

    @property
    def best(self) -> tuple[Standing, ...]:
        """The system with the highest mean over the common instances, then those tied with it; () if none has one."""
        return tuple(sorted((one for one in self.standings if one.best), key=_by_common_mean))


def compare_under(
    board: Board, judge: str, baseline: str, *, against_baseline: bool = False, seed: int = 0
) -> Judged:
    """Compare the systems that a judge has scored; a `baseline` of "" is none.

    With `against_baseline` the family of tests is every system against the baseline, else all pairs. Which systems are
    tied with the best one is always decided by the tests of all pairs.
    """
    every = compare_pairs(board, judge, seed=seed)
    pairs = compare_pairs(board, judge, baseline, seed=seed) if against_baseline else every
    standings = leaderboard(board, judge, baseline, seed=seed)
    references = {entrant.label for entrant in board.entrants if entrant.system in REFERENCES}
    rivals = [one for one in standings if one.common_mean is not None and one.system not in references]
    first = min(rivals, key=_by_common_mean).system if rivals else ""
    worse = {test.other for test in every if test.system == first and test.significant}
    best = {one.system: one.system not in worse for one in rivals}
    tests = {
        test.system if test.other == baseline else test.other: test.p_holm
        for test in pairs
        if baseline in (test.system, test.other)
    }
    found = (replace(one, p_holm=tests.get(one.system), best=best.get(one.system)) for one in standings)
    return Judged(judge, baseline, tuple(found), pairs)


def compare_over_common(
    board: Board, judge: str, baseline: str, *, against_baseline: bool = False, seed: int = 0
) -> Judged:
    """Like `compare_under`, over the instances that every system with a score has one for: all have the same n."""
    scores = board.scores[judge]
    present = ~np.isnan(scores)
    common = scores.copy()
    common[~present[:, present.any(axis=0)].all(axis=1)] = np.nan
    over_common = replace(board, scores={judge: common})
    return compare_under(over_common, judge, baseline, against_baseline=against_baseline, seed=seed)


def _by_common_mean(one: Standing) -> tuple[float, str]:
    # The order of a sum changes its last digits, so means are compared rounded.
    return -round(one.common_mean or 0.0, 9), one.system


def leaderboard(board: Board, judge: str, baseline: str, *, seed: int = 0) -> tuple[Standing, ...]:
    """Return the systems that this judge has scored, untested: references first, then by budget, best mean first.

    A `baseline` of "" is none.
    """
    scores = board.scores[judge]
    deltas: Sequence[stats.Difference | None] = [None] * len(board.entrants)
    if baseline:
        deltas = stats.paired_differences(scores - scores[:, [board.place(baseline)]], seed=seed)
    present = ~np.isnan(scores)
    common = present[:, present.any(axis=0)].all(axis=1)
    n_common = int(common.sum())
    standings = []
    for column, (entrant, delta) in enumerate(zip(board.entrants, deltas, strict=True)):
        values = scores[present[:, column], column]
        n_failed = entrant.n_failed_under(judge)
        summary = scorer.summarise(values.tolist(), n_failed, max(entrant.n_expected, len(values) + n_failed))
        if summary.mean is not None:
            common_mean = stats.mean_or_none(scores[common, column])
            own_delta = None if entrant.label == baseline else delta
            own = self_judged_roles(judge, entrant.players, entrant.models)
            standings.append(
                Standing(entrant.label, entrant.k, summary, own_delta, n_common, common_mean, own)
            )
    return tuple(sorted(standings, key=lambda one: (one.system != baseline, one.k, -(one.scores.mean or 0))))


# Paired permutation tests. The tests of one judge are one family: all pairs, or every system against a baseline.


@dataclass(frozen=True, slots=True)
class PairTest:
    """`system` minus `other` over the n instances that both have a score for, in points of restore_score_100."""

    system: str
    other: str
    n: int
    difference: float
    sd: float | None
    """Standard deviation of the differences by instance (n - 1); None for n = 1, as is all that follows from it."""
    p: float
    exact: bool
    """True if p counts all choices of signs; else it is estimated from random ones, or by the normal distribution."""
    p_floor: float
    """The smallest p that this test could have given, whatever the difference."""
    p_holm: float
    detectable: float | None
    """The true difference that n instances show with power 0.8 at alpha .05; None if n is too small to show any."""
    detectable_holm: float | None
    """The same at alpha / tests: what Holm's strictest step asks for."""
    n_needed: int | None
    """Instances that the observed difference would need if it were the true one; None for a difference of 0."""

    @property
    def significant(self) -> bool:
        """True if the two differ at ALPHA after Holm's correction."""
        return self.p_holm <= stats.ALPHA


def compare_pairs(
    board: Board, judge: str, baseline: str | None = None, *, seed: int = 0
) -> tuple[PairTest, ...]:
    """Test a family of pairs, the smallest p first; pairs without a shared instance are left out.

    In each pair the system with the higher mean difference comes first; a baseline always comes second.
    """
    scores = board.scores[judge]
    columns = range(len(board.entrants))
    if baseline is None:
        family = list(combinations(columns, 2))
    else:
        fixed = board.place(baseline)
        family = [(i, fixed) for i in columns if i != fixed]
    present = ~np.isnan(scores)
    pairs = [(i, j) for i, j in family if (present[:, i] & present[:, j]).any()]
    if baseline is None:
        pairs = [(i, j) if np.nanmean(scores[:, i] - scores[:, j]) >= 0 else (j, i) for i, j in pairs]
    tests = stats.sign_flip_tests(scores, pairs, seed=seed, flips=stats.flips_for(len(pairs)))
    adjusted = stats.holm([test.p for test in tests])
    tested = []
    for (i, j), test, p_holm in zip(pairs, tests, adjusted, strict=True):
        differences = scores[:, i] - scores[:, j]
        names = board.systems[i], board.systems[j]
        tested.append(_pair(*names, differences[~np.isnan(differences)], test, p_holm, len(pairs)))
    return tuple(sorted(tested, key=lambda pair: (pair.p, -abs(pair.difference), pair.system, pair.other)))


def _pair(
    system: str, other: str, differences: Array, test: stats.SignFlips, p_holm: float, n_tests: int
) -> PairTest:
    n, mean = len(differences), float(differences.mean())
    sd = float(differences.std(ddof=1)) if n > 1 else None
    return PairTest(
        system=system,
        other=other,
        n=n,
        difference=mean,
        sd=sd,
        p=test.p,
        exact=test.exact,
        p_floor=test.floor,
        p_holm=p_holm,
        detectable=None if sd is None else stats.detectable_difference(n, sd),
        detectable_holm=None
        if sd is None
        else stats.detectable_difference(n, sd, alpha=stats.ALPHA / n_tests),
        n_needed=None if sd is None else stats.instances_needed(mean, sd),
    )


# Extreme instances


@dataclass(frozen=True, slots=True)
class Extreme:
    """An instance of a system, its score and gain in the measure's own unit, and one or more reasons to look at it."""

    id: str
    score: float
    gain: float | None
    """Over the baseline; None without a baseline, or if that has no score for it."""
    why: tuple[str, ...]


def extremes(board: Board, judge: str, system: str, baseline: str, most: int) -> tuple[Extreme, ...]:
    """Return up to `most` instances for each reason, each once: losses, gains, lowest and highest scores.

    Among equals the first by name is taken. A loss is below 0 and a gain above; a system has none over itself, and
    a `baseline` of "" is none. Failed instances have no score and are never among them.
    """
    scores = board.scores[judge][:, board.place(system)]
    gains = np.full_like(scores, np.nan)
    if baseline and baseline != system:
        gains = scores - board.scores[judge][:, board.place(baseline)]
    return extremes_of(board.ids, scores, gains, most)


def extremes_of(ids: Sequence[str], scores: Array, gains: Array, most: int) -> tuple[Extreme, ...]:
    """Like `extremes`, for any scores and gains in the order of `ids`, NaN where there is none."""
    half = min(most, (int(np.isfinite(scores).sum()) + 1) // 2)  # no instance is both lowest and highest
    lowest = _smallest(scores, half)
    reasons: dict[int, list[str]] = {}
    for why, rows in (
        ("greatest loss", _smallest(gains, most, below=0)),
        ("greatest gain", _smallest(-gains, most, below=0)),
        ("lowest score", lowest),
        ("highest score", [row for row in _smallest(-scores, half) if row not in lowest]),
    ):
        for row in rows:
            reasons.setdefault(row, []).append(why)
    return tuple(
        Extreme(ids[row], float(scores[row]), None if np.isnan(gains[row]) else float(gains[row]), tuple(why))
        for row, why in reasons.items()
    )


def _smallest(values: Array, most: int, below: float = float("inf")) -> list[int]:
    """Return the rows of the smallest values under `below`, smallest first, NaN excluded."""
    rows = np.flatnonzero(values < below)
    smallest: list[int] = rows[np.argsort(values[rows], kind="stable")][:most].tolist()
    return smallest


# Agreement between judges: labels beyond chance, scores and orderings of systems (paper, table 9)

Weights = Literal["quadratic"] | None
Level = Literal["nominal", "ordinal"]
LabelPairs = Mapping[tuple[str, str], int]
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


def agreement_of(
    judge: str, other: str, pairs: LabelPairs, scores: Numbers, other_scores: Numbers
) -> Agreement:
    """Compute the agreement from both judges' pairs of labels by nugget, and scores by answer."""
    n = sum(pairs.values())
    equal = sum(count for (one, two), count in pairs.items() if one == two)
    return Agreement(
        judge=judge,
        other=other,
        n_answers=len(scores),
        n_nuggets=n,
        exact=equal / n if n else None,
        kappa=cohen_kappa(pairs),
        kappa_quadratic=cohen_kappa(pairs, "quadratic"),
        score_r=stats.correlation(scores, other_scores),
    )


def cohen_kappa(pairs: LabelPairs, weights: Weights = None) -> float | None:
    """Return Cohen's kappa, 1 - sum(w o) / sum(w e) of observed and expected counts, from counted pairs of labels.

    Cohen 1960, "A coefficient of agreement for nominal scales"; with quadratic weights over none < partial < full
    Cohen 1968, "Weighted kappa": a full against a none weighs four times as much as a full against a partial. 1 is
    full agreement, 0 is chance. None without labels, and if both judges always gave one and the same label.
    """
    ranks: dict[str, int] = {label: rank for rank, label in enumerate(LABELS)}
    rows: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    for (one, two), n in pairs.items():
        rows[one] += n
        columns[two] += n

    def weight(one: str, two: str) -> int:
        if weights is None:
            return int(one != two)
        return (ranks[one] - ranks[two]) ** 2

    observed = sum(weight(one, two) * n for (one, two), n in pairs.items())
    expected = sum(weight(one, two) * n * m for one, n in rows.items() for two, m in columns.items())
    # Whole numbers up to here: the only rounding is that of this division.
    return 1 - observed * rows.total() / expected if expected else None


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two rankings of the same systems (Kendall 1945): 1 is the same order, -1 the reverse.

    (concordant - discordant) / sqrt((pairs - ties in a) * (pairs - ties in b)); None if one of them has no order.
    Raises ValueError for unequal lengths. scipy's differs in the last digit in half of the cases.
    """
    if len(a) != len(b):
        raise ValueError("both must rank the same systems")
    balance = untied_a = untied_b = 0
    for i, j in combinations(range(len(a)), 2):
        x, y = (a[i] > a[j]) - (a[i] < a[j]), (b[i] > b[j]) - (b[i] < b[j])
        balance += x * y
        untied_a += x != 0
        untied_b += y != 0
    return balance / math.sqrt(untied_a * untied_b) if untied_a and untied_b else None


def krippendorff_alpha(labels: Array, level: Level, n_values: int) -> float | None:
    """Return Krippendorff's alpha of any number of judges, who may have left things out.

    Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D: alpha = 1 - D_o / D_e from the
    coincidence matrix, with the nominal metric or the ordinal one (the squared number of values given between two
    values, each end counting half). `labels` has the shape (things, judges): integers 0..n_values-1 in ascending
    order, negative for missing. A thing with fewer than two labels is ignored. None if no two judges labelled the
    same thing, or if only one value was ever given.
    """
    given = np.column_stack([(labels == value).sum(axis=1, dtype=np.int16) for value in range(n_values)])
    # Many things have the same counts of values, so each distinct row of counts is processed once.
    bases = (labels.shape[1] + 1) ** np.arange(n_values)
    codes, times = np.unique(given[given.sum(axis=1) >= 2] @ bases, return_counts=True)
    if not len(codes):
        return None
    counts = codes[:, None] // bases % (labels.shape[1] + 1)
    weighted = counts * times[:, None] / (counts.sum(axis=1) - 1)[:, None]
    coincidences = counts.T @ weighted - np.diag(weighted.sum(axis=0))
    totals = (counts * times[:, None]).sum(axis=0).astype(float)
    n = totals.sum()
    if level == "nominal":
        difference = 1.0 - np.eye(n_values)
    else:
        up_to = np.cumsum(totals) - totals / 2
        difference = (up_to[:, None] - up_to) ** 2
    expected = (np.outer(totals, totals) * difference).sum()
    if expected == 0:
        return None
    return float(1 - (n - 1) * (coincidences * difference).sum() / expected)


# Robustness to the judge


@dataclass(frozen=True, slots=True)
class JudgeMeans:
    """One judge's row of table 9."""

    judge: str
    means: tuple[float | None, ...]
    """By system, in the order of the board; None if the judge scored none of its answers."""
    n_scored: tuple[int, ...]
    common_means: tuple[float | None, ...]
    """By system that every judge has scored, the mean over the instances that all of these have from all judges."""
    ordering: str
    """Those systems by their common means, best first: `gpt-k1 > ernie-k1 > orig`, with `=` between equals."""
    shares: Mapping[Coverage, float]
    """Shares of full, partial and none among all its labels; empty without labels."""


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Kendall's tau between two judges' orderings; None if one of them has no order."""

    judge: str
    other: str
    tau: float | None


@dataclass(frozen=True, slots=True)
class Robustness:
    """Several judges of the same answers. Agreement is over the nuggets that both, or any two, have labelled."""

    systems: tuple[str, ...]
    n_common: int
    """Instances that every judge scored of every system that all judges scored: orderings are by these."""
    judges: tuple[JudgeMeans, ...]
    orders: tuple[OrderAgreement, ...]
    same_order: bool | None
    """None if fewer than two systems were scored by every judge."""
    agreements: tuple[Agreement, ...]
    alpha_nominal: float | None
    """Krippendorff's alpha of all judges together."""
    alpha_ordinal: float | None


def robustness(board: Board, judges: Sequence[str]) -> Robustness | None:
    """Compare the judges; None for fewer than two."""
    if len(judges) < 2:
        return None
    present = ~np.isnan(np.stack([board.scores[judge] for judge in judges]))  # (judges, instances, systems)
    shared = np.flatnonzero(present.any(axis=1).all(axis=0)).tolist()
    common = present[:, :, shared].all(axis=(0, 2)) & bool(shared)
    if not common.any():
        shared = []
    found, ranked = [], {}
    for judge, scored in zip(judges, present, strict=True):
        columns, codes = board.scores[judge].T, board.labels[judge]
        common_means = [
            stats.mean_or_none(column[common]) if i in shared else None for i, column in enumerate(columns)
        ]
        # The order of a sum changes its last digits, so means are compared rounded.
        ranked[judge] = [round(common_means[i] or 0.0, 9) for i in shared]
        counts = np.bincount(codes[codes != NO_LABEL], minlength=len(LABELS))
        shares = (counts / max(1, counts.sum())).tolist()
        one = JudgeMeans(
            judge,
            means=tuple(
                stats.mean_or_none(column[there]) for column, there in zip(columns, scored.T, strict=True)
            ),
            n_scored=tuple(scored.sum(axis=0).tolist()),
            common_means=tuple(common_means),
            ordering=_ordering([board.systems[i] for i in shared], ranked[judge]),
            shares=dict(zip(LABELS, shares, strict=True)) if counts.any() else {},
        )
        found.append(one)
    labels = np.column_stack([board.labels[judge].ravel() for judge in judges])
    pairs = list(combinations(judges, 2))
    return Robustness(
        systems=board.systems,
        n_common=int(common.sum()),
        judges=tuple(found),
        orders=tuple(OrderAgreement(a, b, kendall_tau(ranked[a], ranked[b])) for a, b in pairs),
        same_order=len({one.ordering for one in found}) == 1 if len(shared) > 1 else None,
        agreements=tuple(_board_agreement(board, a, b) for a, b in pairs),
        alpha_nominal=krippendorff_alpha(labels, "nominal", len(LABELS)),
        alpha_ordinal=krippendorff_alpha(labels, "ordinal", len(LABELS)),
    )


def _ordering(names: Sequence[str], means: Sequence[float]) -> str:
    ranked = sorted(zip(means, names, strict=True), key=lambda one: (-one[0], one[1]))
    words = [name for _, name in ranked[:1]]
    for (before, _), (mean, name) in pairwise(ranked):
        words += ["=" if mean == before else ">", name]
    return " ".join(words)


def _board_agreement(board: Board, judge: str, other: str) -> Agreement:
    a, b = board.labels[judge].ravel(), board.labels[other].ravel()
    both = (a != NO_LABEL) & (b != NO_LABEL)
    codes = a[both] * np.int8(len(LABELS)) + b[both]
    x, y = board.scores[judge].ravel(), board.scores[other].ravel()
    scored = ~np.isnan(x) & ~np.isnan(y)
    return agreement_of(judge, other, label_pairs(codes), x[scored], y[scored])


def label_pairs(codes: Array) -> Counter[tuple[str, str]]:
    """Count pairs of labels from codes 3 * first + second, each an index of LABELS."""
    n = len(LABELS)
    counts = np.bincount(codes, minlength=n * n)
    return Counter({(LABELS[i // n], LABELS[i % n]): int(count) for i, count in enumerate(counts) if count})
