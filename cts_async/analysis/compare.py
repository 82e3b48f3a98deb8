"""Systems on a board compared: leaderboard, paired tests, agreement of judges, and the instances worth a look."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from cts_async import scorer
from cts_async.analysis import stats
from cts_async.analysis.board import LABELS, NO_LABEL, REFERENCES, Array, Board
from cts_async.protocol.judge import REFERENCE_JUDGES, self_judged_roles
from cts_async.records import Coverage

if TYPE_CHECKING:
    from cts_async.analysis.stats import Numbers

_DECIMALS: Final = 9
"""The order of a sum changes its last digits, so means are compared rounded."""

# Leaderboard (paper, tables 2 and 6), with intervals of the differences (table 3)


@dataclass(frozen=True, slots=True)
class Standing:
    """One system under one judge, in points of restore_score_100."""

    system: str
    k: int
    """0 for the reference points, and if unknown."""
    scores: scorer.Summary
    gain: stats.Difference | None
    """Mean of the paired differences to the baseline; None for the baseline itself, and without a baseline or a shared
    instance."""
    n_common: int
    """Instances that every system of the leaderboard has a score for."""
    common_mean: float | None
    """The mean over these: means over each system's own instances may order two systems otherwise than their pairs."""
    judge_is: tuple[str, ...] = ()
    """Roles in which the judge wrote what it judges (see `protocol.judge.self_judged_roles`)."""
    p_holm: float | None = None
    """The adjusted p of the test against the baseline; None without one."""
    best: bool | None = None
    """True if it has the highest `common_mean`, or no test shows that the system with the highest is better than this
    one. None for references, which do not compete, and without a common instance."""
    testable: bool | None = None
    """True if enough instances differ from the system with the highest `common_mean` for a test to separate the two:
    only then "not separated" says anything. None for that system itself, and where `best` is None."""


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
        """The system with the highest mean over the common instances, then those that no test separates from it.

        () if none has a common mean.
        """
        return tuple(sorted((one for one in self.standings if one.best), key=_by_common_mean))

    @property
    def tied(self) -> tuple[Standing, ...]:
        """Of these, those that a test could have separated from the first one."""
        return tuple(one for one in self.best if one.testable)

    @property
    def untestable(self) -> tuple[Standing, ...]:
        """Of these, those that differ from the first one on too few instances for any test to separate them."""
        return tuple(one for one in self.best if one.testable is False)


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
    competing = [standing for standing in standings if standing.system not in references]
    rivals = [standing for standing in competing if standing.common_mean is not None]
    first = ""
    if rivals:
        first = min(rivals, key=_by_common_mean).system
    tests_of_first = _tests_of(first, every)
    worse = {test.other for test in every if test.system == first and test.significant}
    best = {rival.system: rival.system not in worse for rival in rivals}
    testable = {name: not test.hopeless for name, test in tests_of_first.items() if name in best}
    tests_of_baseline = _tests_of(baseline, pairs)
    completed = []
    for standing in standings:
        name = standing.system
        p_holm = tests_of_baseline[name].p_holm if name in tests_of_baseline else None
        completed.append(replace(standing, p_holm=p_holm, best=best.get(name), testable=testable.get(name)))
    return Judged(judge, baseline, tuple(completed), pairs)


def _tests_of(system: str, pairs: Sequence[PairTest]) -> dict[str, PairTest]:
    """Return the tests of one system, by the other one; in a pair of equal means either may come first."""
    tests = {}
    for test in pairs:
        if test.system == system:
            tests[test.other] = test
        elif test.other == system:
            tests[test.system] = test
    return tests


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
    return -round(one.common_mean or 0.0, _DECIMALS), one.system


def leaderboard(board: Board, judge: str, baseline: str, *, seed: int = 0) -> tuple[Standing, ...]:
    """Return the systems that this judge has scored, untested: references first, then by budget, best mean first.

    A `baseline` of "" is none.
    """
    scores = board.scores[judge]
    gains: Sequence[stats.Difference | None] = [None] * len(board.entrants)
    if baseline:
        gains = stats.paired_differences(scores - scores[:, [board.place(baseline)]], seed=seed)
    present = ~np.isnan(scores)
    common = present[:, present.any(axis=0)].all(axis=1)
    n_common = int(common.sum())
    standings = []
    for column, (entrant, gain) in enumerate(zip(board.entrants, gains, strict=True)):
        values = scores[present[:, column], column]
        n_failed = entrant.n_failed_under(judge)
        summary = scorer.summarise(values.tolist(), n_failed, max(entrant.n_expected, len(values) + n_failed))
        if summary.mean is not None:
            common_mean = stats.mean_or_none(scores[common, column])
            own_gain = None if entrant.label == baseline else gain
            own = self_judged_roles(judge, entrant.players, entrant.models)
            standings.append(
                Standing(entrant.label, entrant.k, summary, own_gain, n_common, common_mean, own)
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
    n_tests: int
    """The size of the family that Holm's correction is for."""
    n_differ: int
    """Instances whose difference is not 0."""
    detectable_holm: float | None
    """The true difference that n instances show with power 0.8 at ALPHA / n_tests (see `stats.holm_alpha`); None if too
    few of them differ to show any, and if all differ by the same."""
    n_needed_holm: int | None
    """Instances that the observed difference would need for it if it were the true one; None for a difference of 0."""

    @property
    def significant(self) -> bool:
        """True if the two differ at ALPHA after Holm's correction."""
        return self.p_holm <= stats.ALPHA

    @property
    def hopeless(self) -> bool:
        """True if too few instances differ for any p to reach ALPHA / n_tests, the strictest of Holm's levels.

        False for what is significant: beside smaller p values Holm's correction asks less of the later ones.
        """
        return not self.significant and self.n_tests * self.p_floor > stats.ALPHA


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
    alpha = stats.holm_alpha(n_tests)
    sd, detectable, n_needed = None, None, None
    if n > 1:
        # Equal differences have a spread of 1e-15 in floats, which is none.
        sd = float(differences.std(ddof=1)) if np.ptp(np.round(differences, _DECIMALS)) else 0.0
        detectable = stats.detectable_difference(n, sd, n_differ=test.n_differ, alpha=alpha)
        share = test.n_differ / n
        n_needed = stats.instances_needed(mean, sd, share_differing=share, alpha=alpha)
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
        n_tests=n_tests,
        n_differ=test.n_differ,
        detectable_holm=detectable,
        n_needed_holm=n_needed,
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
    n_distinct: int
    """Nuggets of distinct queries and answers: an answer that several systems share is judged once and copied, so the
    labels are fewer independent observations than `n_nuggets` says."""
    exact: float | None
    kappa: float | None
    kappa_quadratic: float | None
    score_r: float | None


def agreement_of(
    judge: str, other: str, pairs: LabelPairs, scores: Numbers, other_scores: Numbers, n_distinct: int
) -> Agreement:
    """Compute the agreement from both judges' pairs of labels by nugget, and scores by answer.

    `n_distinct` is what `count_distinct` gives for these answers.
    """
    n = sum(pairs.values())
    equal = sum(count for (one, two), count in pairs.items() if one == two)
    return Agreement(
        judge=judge,
        other=other,
        n_answers=len(scores),
        n_nuggets=n,
        n_distinct=n_distinct,
        exact=equal / n if n else None,
        kappa=cohen_kappa(pairs),
        kappa_quadratic=cohen_kappa(pairs, "quadratic"),
        score_r=stats.correlation(scores, other_scores),
    )


def count_distinct(answers: Array, n_nuggets: Array) -> int:
    """Count the nuggets of distinct answers from the fingerprint and the number of labelled nuggets of each answer.

    Both have the same shape. Nothing is known of an answer with the fingerprint 0: each counts as another one. Of equal
    answers the one with the most labels counts.
    """
    known = answers != 0
    distinct, places = np.unique(answers[known], return_inverse=True)
    most = np.zeros(len(distinct), int)
    np.maximum.at(most, places, n_nuggets[known])
    return int(most.sum() + n_nuggets[~known].sum())


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
    """Instances that every counted judge scored of every system that all of them scored: orderings are by these. Where
    only one judge is counted, all judges."""
    judges: tuple[JudgeMeans, ...]
    counted: tuple[str, ...]
    """The judges that statements about "the judges" are about: `counted_judges`."""
    orders: tuple[OrderAgreement, ...]
    same_order: bool | None
    """Whether the counted judges order the systems alike; None if they are fewer than two, or share fewer than two
    systems."""
    agreements: tuple[Agreement, ...]
    alpha_nominal: float | None
    """Krippendorff's alpha of the counted judges together; None for fewer than two."""
    alpha_ordinal: float | None

    @property
    def references(self) -> tuple[str, ...]:
        """The judges that are shown beside the counted ones."""
        return tuple(judge.judge for judge in self.judges if judge.judge not in self.counted)


def counted_judges(judges: Sequence[str], named: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the judges that a statement about "the judges" is about.

    One that compares words is a reference for the others, as orig is for systems, and no opinion of its own. It counts
    where a user has `named` it for this comparison, or where there is no other judge.
    """
    models = tuple(judge for judge in judges if judge not in REFERENCE_JUDGES or judge in named)
    return models or tuple(judges)


def robustness(board: Board, judges: Sequence[str], named: Sequence[str] = ()) -> Robustness | None:
    """Compare the judges; None for fewer than two. `named` are those that the user chose (see `counted_judges`)."""
    if len(judges) < 2:
        return None
    counted = counted_judges(judges, named)
    # Instances that a reference lacks must not take away from what the judges are compared by.
    ordering_judges = counted if len(counted) > 1 else judges
    present = ~np.isnan(np.stack([board.scores[judge] for judge in ordering_judges]))
    shared: list[int] = np.flatnonzero(present.any(axis=1).all(axis=0)).tolist()
    common = present[:, :, shared].all(axis=(0, 2)) & bool(shared)
    if not common.any():
        shared = []
    means = [_judge_means(board, judge, common, shared) for judge in judges]
    labels = np.column_stack([board.labels[judge].ravel() for judge in counted])
    orderings = {mean.ordering for mean in means if mean.judge in counted}
    same_order = None
    if len(shared) > 1 and len(counted) > 1:
        same_order = len(orderings) == 1
    return Robustness(
        systems=board.systems,
        n_common=int(common.sum()),
        judges=tuple(means),
        counted=counted,
        orders=tuple(_order_agreement(a, b) for a, b in combinations(means, 2)),
        same_order=same_order,
        agreements=tuple(_board_agreement(board, a, b) for a, b in combinations(judges, 2)),
        alpha_nominal=krippendorff_alpha(labels, "nominal", len(LABELS)),
        alpha_ordinal=krippendorff_alpha(labels, "ordinal", len(LABELS)),
    )


def _judge_means(board: Board, judge: str, common: Array, shared: Sequence[int]) -> JudgeMeans:
    """One judge's means; of the `shared` systems also over the `common` instances, if it has scored all of these."""
    scores, codes = board.scores[judge], board.labels[judge]
    scored = ~np.isnan(scores)
    common_means: list[float | None] = [None] * len(board.systems)
    for i in shared:
        if scored[common, i].all():
            common_means[i] = stats.mean_or_none(scores[common, i])
    counts = np.bincount(codes[codes != NO_LABEL], minlength=len(LABELS))
    shares = (counts / max(1, counts.sum())).tolist()
    ordered = [
        (name, mean) for name, mean in zip(board.systems, common_means, strict=True) if mean is not None
    ]
    return JudgeMeans(
        judge,
        means=tuple(
            stats.mean_or_none(column[there]) for column, there in zip(scores.T, scored.T, strict=True)
        ),
        n_scored=tuple(scored.sum(axis=0).tolist()),
        common_means=tuple(common_means),
        ordering=_ordering([name for name, _ in ordered], [round(mean, _DECIMALS) for _, mean in ordered]),
        shares=dict(zip(LABELS, shares, strict=True)) if counts.any() else {},
    )


def _order_agreement(judge: JudgeMeans, other: JudgeMeans) -> OrderAgreement:
    """Compare two judges' means of the systems that both have over the common instances."""
    pairs = [
        (round(one, _DECIMALS), round(two, _DECIMALS))
        for one, two in zip(judge.common_means, other.common_means, strict=True)
        if one is not None and two is not None
    ]
    tau = kendall_tau([one for one, _ in pairs], [two for _, two in pairs])
    return OrderAgreement(judge.judge, other.judge, tau)


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
    n_distinct = count_distinct(board.answers, _labelled_by_both(board, judge, other))
    return agreement_of(judge, other, label_pairs(codes), x[scored], y[scored], n_distinct)


def _labelled_by_both(board: Board, judge: str, other: str) -> Array:
    """Count the nuggets of each answer that both have labelled, shape (instances, entrants)."""
    both = (board.labels[judge] != NO_LABEL) & (board.labels[other] != NO_LABEL)
    instances = np.repeat(np.arange(len(board.ids)), board.n_nuggets)
    n_nuggets = np.zeros((len(board.ids), len(board.entrants)), int)
    for column, labelled in enumerate(both.T):
        n_nuggets[:, column] = np.bincount(instances[labelled], minlength=len(board.ids))
    return n_nuggets


def label_pairs(codes: Array) -> Counter[tuple[str, str]]:
    """Count pairs of labels from codes 3 * first + second, each an index of LABELS."""
    n = len(LABELS)
    counts = np.bincount(codes, minlength=n * n)
    return Counter({(LABELS[i // n], LABELS[i % n]): int(count) for i, count in enumerate(counts) if count})
