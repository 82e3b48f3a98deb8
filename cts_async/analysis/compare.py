"""Systems on a board compared: leaderboard, paired tests, agreement of judges, and the instances worth a look."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
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
        return any(standing.n_common < standing.scores.n_scored for standing in self.standings)

    @property
    def ranked(self) -> tuple[Standing, ...]:
        """The standings in the order of tables: within a budget the best mean over the common instances first."""
        if any(standing.common_mean is None for standing in self.standings):
            return self.standings

        def place(standing: Standing) -> tuple[bool, int, tuple[float, str]]:
            return standing.system != self.baseline, standing.k, _by_common_mean(standing)

        return tuple(sorted(self.standings, key=place))

    @property
    def best(self) -> tuple[Standing, ...]:
        """The system with the highest mean over the common instances, then those that no test separates from it.

        () if none has a common mean.
        """
        best = [standing for standing in self.standings if standing.best]
        return tuple(sorted(best, key=_by_common_mean))

    @property
    def tied(self) -> tuple[Standing, ...]:
        """Of these, those that a test could have separated from the first one."""
        return tuple(standing for standing in self.best if standing.testable)

    @property
    def untestable(self) -> tuple[Standing, ...]:
        """Of these, those that differ from the first one on too few instances for any test to separate them."""
        # None is the first one itself.
        return tuple(standing for standing in self.best if standing.testable is False)


def compare_under(
    board: Board, judge: str, baseline: str, *, against_baseline: bool = False, seed: int = 0
) -> Judged:
    """Compare the systems that a judge has scored; a `baseline` of "" is none.

    With `against_baseline` the family of tests is every system against the baseline, else all pairs. Which systems are
    tied with the best one is always decided by the tests of all pairs.
    """
    all_pairs = compare_pairs(board, judge, seed=seed)
    pairs = all_pairs
    if against_baseline:
        pairs = compare_pairs(board, judge, baseline, seed=seed)
    standings = leaderboard(board, judge, baseline, seed=seed)
    # orig and gold ask nothing: they are what the others are measured by, and do not compete.
    references = {entrant.label for entrant in board.entrants if entrant.system in REFERENCES}
    rivals: list[Standing] = []
    for standing in standings:
        if standing.system not in references and standing.common_mean is not None:
            rivals.append(standing)
    highest = ""
    if rivals:
        highest = min(rivals, key=_by_common_mean).system
    tests_of_highest = _tests_of(highest, all_pairs)
    # A pair has the higher mean over its own instances first, which need not be the highest common mean: such a system
    # is not worse, whatever the test says.
    worse = {test.other for test in all_pairs if test.system == highest and test.significant}
    tests_of_baseline = _tests_of(baseline, pairs)
    rival_names = {rival.system for rival in rivals}
    completed: list[Standing] = []
    for standing in standings:
        name = standing.system
        if name in tests_of_baseline:
            standing = replace(standing, p_holm=tests_of_baseline[name].p_holm)
        if name in rival_names:
            standing = replace(standing, best=name not in worse)
            if name in tests_of_highest:
                standing = replace(standing, testable=not tests_of_highest[name].hopeless)
        completed.append(standing)
    return Judged(judge, baseline, tuple(completed), pairs)


def _tests_of(system: str, pairs: Sequence[PairTest]) -> dict[str, PairTest]:
    """Return the tests of one system, by the other one; in a pair of equal means either may come first."""
    tests: dict[str, PairTest] = {}
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


def _by_common_mean(standing: Standing) -> tuple[float, str]:
    """Sort the highest mean first, and equal ones by name."""
    return -round(standing.common_mean or 0.0, _DECIMALS), standing.system


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
    standings: list[Standing] = []
    for column, (entrant, gain) in enumerate(zip(board.entrants, gains, strict=True)):
        values = scores[present[:, column], column]
        n_failed = entrant.n_failed_under(judge)
        n_expected = max(entrant.n_expected, len(values) + n_failed)
        summary = scorer.summarise(values.tolist(), n_failed, n_expected)
        if summary.mean is None:
            continue
        if entrant.label == baseline:
            gain = None
        standings.append(
            Standing(
                system=entrant.label,
                k=entrant.k,
                scores=summary,
                gain=gain,
                n_common=n_common,
                common_mean=stats.mean_or_none(scores[common, column]),
                judge_is=self_judged_roles(judge, entrant.players, entrant.models),
            )
        )

    def place(standing: Standing) -> tuple[bool, int, float]:
        return standing.system != baseline, standing.k, -(standing.scores.mean or 0)

    return tuple(sorted(standings, key=place))


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
        baseline_column = board.place(baseline)
        family = [(column, baseline_column) for column in columns if column != baseline_column]
    pairs: list[tuple[int, int]] = []
    for i, j in family:
        differences = scores[:, i] - scores[:, j]
        if baseline is None and not np.isnan(differences).all() and np.nanmean(differences) < 0:
            i, j = j, i
        pairs.append((i, j))
    return compare_family(board, judge, pairs, seed=seed)


def compare_family(
    board: Board, judge: str, family: Sequence[tuple[int, int]], *, seed: int = 0
) -> tuple[PairTest, ...]:
    """Test the first system of each pair, by columns of the board, against the second; the smallest p first.

    Pairs without a shared instance are left out: they are no tests.
    """
    scores = board.scores[judge]
    pairs = [(i, j) for i, j in family if not np.isnan(scores[:, i] - scores[:, j]).all()]
    tests = stats.sign_flip_tests(scores, pairs, seed=seed, flips=stats.flips_for(len(pairs)))
    # Holm's correction is for the pairs that could be tested.
    adjusted = stats.holm([test.p for test in tests])
    tested: list[PairTest] = []
    for (i, j), test, p_holm in zip(pairs, tests, adjusted, strict=True):
        differences = scores[:, i] - scores[:, j]
        differences = differences[~np.isnan(differences)]
        tested.append(_pair_test(board.systems[i], board.systems[j], differences, test, p_holm, len(pairs)))
    return tuple(sorted(tested, key=lambda pair: (pair.p, -abs(pair.difference), pair.system, pair.other)))


def _pair_test(
    system: str, other: str, differences: Array, test: stats.SignFlips, p_holm: float, n_tests: int
) -> PairTest:
    """Add the power of a test, at the strictest of Holm's levels, to its p."""
    n, mean = len(differences), float(differences.mean())
    alpha = stats.holm_alpha(n_tests)
    sd, detectable, n_needed = None, None, None
    if n > 1:
        sd = 0.0
        # Equal differences have a spread of 1e-15 in floats, which is none.
        if np.ptp(np.round(differences, _DECIMALS)):
            sd = float(differences.std(ddof=1))
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


def extremes(board: Board, judge: str, system: str, baseline: str, n_each: int) -> tuple[Extreme, ...]:
    """Return up to `n_each` instances for each reason, each once: losses, gains, lowest and highest scores.

    Among equals the first by name is taken. A loss is below 0 and a gain above; a system has none over itself, and
    a `baseline` of "" is none. Failed instances have no score and are never among them.
    """
    scores = board.scores[judge][:, board.place(system)]
    gains = np.full_like(scores, np.nan)
    if baseline and baseline != system:
        gains = scores - board.scores[judge][:, board.place(baseline)]
    return extremes_of(board.ids, scores, gains, n_each)


def extremes_of(ids: Sequence[str], scores: Array, gains: Array, n_each: int) -> tuple[Extreme, ...]:
    """Like `extremes`, for any scores and gains in the order of `ids`, NaN where there is none."""
    half = min(n_each, (int(np.isfinite(scores).sum()) + 1) // 2)  # no instance is both lowest and highest
    lowest = _smallest(scores, half)
    rows_by_reason = {
        "greatest loss": _smallest(gains, n_each, below=0),
        "greatest gain": _smallest(-gains, n_each, below=0),
        "lowest score": lowest,
        "highest score": [row for row in _smallest(-scores, half) if row not in lowest],
    }
    reasons_by_row: dict[int, list[str]] = {}
    for reason, rows in rows_by_reason.items():
        for row in rows:
            reasons_by_row.setdefault(row, []).append(reason)
    instances: list[Extreme] = []
    for row, reasons in reasons_by_row.items():
        gain: float | None = None
        if not np.isnan(gains[row]):
            gain = float(gains[row])
        instances.append(Extreme(ids[row], float(scores[row]), gain, tuple(reasons)))
    return tuple(instances)


def _smallest(values: Array, n_rows: int, below: float = float("inf")) -> list[int]:
    """Return the rows of the smallest values under `below`, smallest first, NaN excluded."""
    rows = np.flatnonzero(values < below)
    # A stable sort: among equals the first by name is taken.
    smallest: list[int] = rows[np.argsort(values[rows], kind="stable")][:n_rows].tolist()
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
    n = n_equal = 0
    for (label, other_label), count in pairs.items():
        n += count
        if label == other_label:
            n_equal += count
    exact: float | None = None
    if n:
        exact = n_equal / n
    return Agreement(
        judge=judge,
        other=other,
        n_answers=len(scores),
        n_nuggets=n,
        n_distinct=n_distinct,
        exact=exact,
        kappa=cohen_kappa(pairs),
        kappa_quadratic=cohen_kappa(pairs, "quadratic"),
        score_r=stats.correlation(scores, other_scores),
    )


def count_distinct(answers: Array, n_nuggets: Array) -> int:
    """Count the nuggets of distinct answers from the fingerprint and the number of labelled nuggets of each answer.

    Both have the same shape. Nothing is known of an answer with the fingerprint 0: each counts as another one. Of equal
    answers the one with the most labels counts.
    """
    has_mark = answers != 0
    distinct, places = np.unique(answers[has_mark], return_inverse=True)
    n_of_distinct = np.zeros(len(distinct), int)
    np.maximum.at(n_of_distinct, places, n_nuggets[has_mark])
    return int(n_of_distinct.sum() + n_nuggets[~has_mark].sum())


def cohen_kappa(pairs: LabelPairs, weights: Weights = None) -> float | None:
    """Return Cohen's kappa, 1 - sum(w o) / sum(w e) of observed and expected counts, from counted pairs of labels.

    Cohen 1960, "A coefficient of agreement for nominal scales"; with quadratic weights over none < partial < full
    Cohen 1968, "Weighted kappa": a full against a none weighs four times as much as a full against a partial. 1 is
    full agreement, 0 is chance. None without labels, and if both judges always gave one and the same label.
    """
    ranks: dict[str, int] = {label: rank for rank, label in enumerate(LABELS)}

    def weight(label: str, other_label: str) -> int:
        if weights is None:
            return int(label != other_label)
        return (ranks[label] - ranks[other_label]) ** 2

    rows: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    observed = expected = 0
    for (label, other_label), n in pairs.items():
        rows[label] += n
        columns[other_label] += n
        observed += weight(label, other_label) * n
    for label, n in rows.items():
        for other_label, m in columns.items():
            expected += weight(label, other_label) * n * m
    if not expected:
        return None
    # Whole numbers up to here: the only rounding is that of this division.
    return 1 - observed * rows.total() / expected


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two rankings of the same systems (Kendall 1945): 1 is the same order, -1 the reverse.

    (concordant - discordant) / sqrt((pairs - ties in a) * (pairs - ties in b)); None if one of them has no order.
    Raises ValueError for unequal lengths. scipy's differs in the last digit in half of the cases.
    """
    if len(a) != len(b):
        raise ValueError("both must rank the same systems")
    balance = untied_a = untied_b = 0
    for i, j in combinations(range(len(a)), 2):
        sign_a = (a[i] > a[j]) - (a[i] < a[j])
        sign_b = (b[i] > b[j]) - (b[i] < b[j])
        balance += sign_a * sign_b
        untied_a += sign_a != 0
        untied_b += sign_b != 0
    if not untied_a or not untied_b:
        return None
    return balance / math.sqrt(untied_a * untied_b)


def krippendorff_alpha(labels: Array, level: Level, n_values: int) -> float | None:
    """Return Krippendorff's alpha of any number of judges, who may have left things out.

    Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D: alpha = 1 - D_o / D_e from the
    coincidence matrix, with the nominal metric or the ordinal one (the squared number of values given between two
    values, each end counting half). `labels` has the shape (things, judges): integers 0..n_values-1 in ascending
    order, negative for missing. A thing with fewer than two labels is ignored. None if no two judges labelled the
    same thing, or if only one value was ever given.
    """
    n_judges = np.column_stack([(labels == value).sum(axis=1, dtype=np.int16) for value in range(n_values)])
    # Many things have the same counts of values, so each distinct row of counts is processed once.
    bases = (labels.shape[1] + 1) ** np.arange(n_values)
    codes, times = np.unique(n_judges[n_judges.sum(axis=1) >= 2] @ bases, return_counts=True)
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
        return tuple(means.judge for means in self.judges if means.judge not in self.counted)


def counted_judges(judges: Sequence[str], requested: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the judges that a statement about "the judges" is about.

    One that compares words is a reference for the others, as orig is for systems, and no opinion of its own. It counts
    where a user has `requested` it for this comparison, or where there is no other judge.
    """
    models = tuple(judge for judge in judges if judge not in REFERENCE_JUDGES or judge in requested)
    return models or tuple(judges)


def robustness(board: Board, judges: Sequence[str], requested: Sequence[str] = ()) -> Robustness | None:
    """Compare the judges; None for fewer than two. The user has `requested` some of them (see `counted_judges`)."""
    if len(judges) < 2:
        return None
    counted = counted_judges(judges, requested)
    # Instances that a reference lacks must not take away from what the judges are compared by.
    ordering_judges: Sequence[str] = counted
    if len(counted) < 2:
        ordering_judges = judges
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
    share_by_label: dict[Coverage, float] = {}
    if counts.any():
        share_by_label = dict(zip(LABELS, shares, strict=True))
    means: list[float | None] = []
    for column in range(len(board.systems)):
        means.append(stats.mean_or_none(scores[scored[:, column], column]))
    return JudgeMeans(
        judge,
        means=tuple(means),
        n_scored=tuple(scored.sum(axis=0).tolist()),
        common_means=tuple(common_means),
        ordering=_ordering(board.systems, common_means),
        shares=share_by_label,
    )


def _order_agreement(means: JudgeMeans, other_means: JudgeMeans) -> OrderAgreement:
    """Compare two judges' means of the systems that both have over the common instances."""
    a: list[float] = []
    b: list[float] = []
    for mean, other_mean in zip(means.common_means, other_means.common_means, strict=True):
        if mean is not None and other_mean is not None:
            a.append(round(mean, _DECIMALS))
            b.append(round(other_mean, _DECIMALS))
    return OrderAgreement(means.judge, other_means.judge, kendall_tau(a, b))


def _ordering(systems: Sequence[str], means: Sequence[float | None]) -> str:
    """Write the order of the systems that have a mean: `gpt-k1 > ernie-k1 = orig`."""
    ranked: list[tuple[float, str]] = []
    for system, mean in zip(systems, means, strict=True):
        if mean is not None:
            ranked.append((-round(mean, _DECIMALS), system))
    ranked.sort()
    ordering = ""
    for place, (negative_mean, system) in enumerate(ranked):
        if place and negative_mean == ranked[place - 1][0]:
            ordering += " = "
        elif place:
            ordering += " > "
        ordering += system
    return ordering


def _board_agreement(board: Board, judge: str, other_judge: str) -> Agreement:
    labels, other_labels = board.labels[judge].ravel(), board.labels[other_judge].ravel()
    labelled = (labels != NO_LABEL) & (other_labels != NO_LABEL)
    pairs = label_pairs(labels[labelled] * np.int8(len(LABELS)) + other_labels[labelled])
    scores, other_scores = board.scores[judge].ravel(), board.scores[other_judge].ravel()
    scored = ~np.isnan(scores) & ~np.isnan(other_scores)
    n_distinct = count_distinct(board.answers, _labelled_by_both(board, judge, other_judge))
    return agreement_of(judge, other_judge, pairs, scores[scored], other_scores[scored], n_distinct)


def _labelled_by_both(board: Board, judge: str, other_judge: str) -> Array:
    """Count the nuggets of each answer that both have labelled, shape (instances, entrants)."""
    labelled = (board.labels[judge] != NO_LABEL) & (board.labels[other_judge] != NO_LABEL)
    instances = np.repeat(np.arange(len(board.ids)), board.n_nuggets)
    n_nuggets = np.zeros((len(board.ids), len(board.entrants)), int)
    for column, labelled_nuggets in enumerate(labelled.T):
        n_nuggets[:, column] = np.bincount(instances[labelled_nuggets], minlength=len(board.ids))
    return n_nuggets


def label_pairs(codes: Array) -> Counter[tuple[str, str]]:
    """Count pairs of labels from codes 3 * first + second, each an index of LABELS."""
    n = len(LABELS)
    counts = Counter[tuple[str, str]]()
    for code, count in enumerate(np.bincount(codes, minlength=n * n).tolist()):
        if count:
            counts[LABELS[code // n], LABELS[code % n]] = count
    return counts
