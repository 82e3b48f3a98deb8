"""Learning to rank clarification panes, cross-validated by query (MIMICS-Duo, SIGIR 2022, section 3.1).

All that is learned comes from the training folds: document frequencies of the features, their smallest and largest
values, and the ranking. A label to train on and another to test on give the design of the paper's tables 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np

from cts_async.analysis.stats import holm, paired_t_test
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.mimics_duo.features import (
    FEATURES,
    IN_PAPER,
    PaneText,
    PaneWords,
    collections,
    features,
    words_of,
)
from cts_async.neighbours.mimics_duo.panes import LabelledRow, read_pane_table, read_panes
from cts_async.neighbours.mimics_duo.rankers import RANKERS, PaneRanker, RankingLists, decided
from cts_async.neighbours.mimics_duo.statistics import PANE_LABELS
from cts_async.neighbours.mimics_duo.ties import Array, expected_by_query, ideal_items, starts
from cts_async.report.tables import Column, DataTable, Row, Show, number, p_value, text

# --- The data --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelledPanes:
    """Panes in any order, each with the label to train on and the one to test on; higher is better."""

    panes: Sequence[PaneText]
    train: Sequence[float]
    test: Sequence[float]

    def __post_init__(self) -> None:
        if not len(self.panes) == len(self.train) == len(self.test):
            raise ValueError("every pane needs a label to train on and one to test on")


def read_labelled(data: Path, labels: tuple[str, str]) -> tuple[LabelledPanes, int]:
    """The panes that have both labels (to train, to test), and how many rows were read.

    `data` is the folder of MIMICS-Duo, or a TSV in the format of MIMICS. Raises InputError.
    """
    n_read = 0
    panes, train, test = [], [], []
    for row in read_pane_table(data, labels) if data.is_file() else _rows_of_duo(data, labels):
        n_read += 1
        to_train, to_test = row.labels
        if to_train is not None and to_test is not None:
            panes.append(PaneText(row.query, row.question, row.options))
            train.append(to_train)
            test.append(to_test)
    if not panes:
        raise InputError(data, f"has no pane with a label for {' and '.join(dict.fromkeys(labels))}")
    return LabelledPanes(panes, train, test), n_read


def _rows_of_duo(folder: Path, labels: tuple[str, str]) -> Iterator[LabelledRow]:
    fields = [field for one in labels for label, field in PANE_LABELS.items() if label == one]
    for pane in read_panes(folder):
        values = tuple(float(getattr(pane, field)) for field in fields)
        yield LabelledRow(pane.query, pane.question, pane.options, values)


def one_of_each(data: LabelledPanes, seed: int) -> LabelledPanes:
    """Each pane once, at its first place, with the labels of one of its rows at random."""
    places: dict[PaneText, list[int]] = {}
    for place, pane in enumerate(data.panes):
        places.setdefault(pane, []).append(place)
    rng = np.random.default_rng(seed)
    chosen = [rows[int(rng.integers(len(rows)))] if len(rows) > 1 else rows[0] for rows in places.values()]
    return LabelledPanes(
        list(places), [data.train[place] for place in chosen], [data.test[place] for place in chosen]
    )


# --- Cross-validation ------------------------------------------------------------------------------------

FOLDS: Final = 5
RANDOM: Final = "random"
WORST: Final = "worst"
"""References for the rankers: all panes in random order, and the ideal ones last."""


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """What each ranker, and `RANDOM` and `WORST`, reached on each query while it was in the fold left out.

    `precision` and `reciprocal` are P@1 and 1 / rank by ranker, over `queries`. `weights` are the features' weights
    by ranker, of each fold scaled to 1 in the sum of their sizes, and averaged over the folds.
    """

    queries: tuple[str, ...]
    panes: int
    """How many panes these queries have."""
    tied: int
    """Queries that are not tested: all their panes have the same label, or they have only one."""
    precision: Mapping[str, Array]
    reciprocal: Mapping[str, Array]
    weights: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class _Panes:
    """Panes ordered by query, as words, with both labels; `query` numbers the `names`."""

    names: tuple[str, ...]
    query: Array
    words: Sequence[PaneWords]
    train: Array
    test: Array


def cross_validate(
    data: LabelledPanes, rankers: Mapping[str, PaneRanker], *, folds: int = FOLDS, seed: int = 0
) -> CrossValidated:
    """Train and test each ranker `folds` times; UsageError where the data do not allow it."""
    panes = _ordered(data)
    if not 2 <= folds <= len(panes.names):
        raise UsageError(f"folds must be from 2 to the number of queries, {len(panes.names)}; not {folds}")
    fold = folds_of(len(panes.names), folds, seed)[panes.query]
    scores = {name: np.zeros(len(panes.query)) for name in rankers}
    weights = {name: np.zeros(len(FEATURES)) for name in rankers}
    for part in range(folds):
        held_out = fold == part
        rows = _normalised(panes.words, held_out)
        lists = _training(panes, rows, held_out)
        for name, ranker in rankers.items():
            learned = ranker.fit(lists, seed + part)
            scores[name][held_out] = learned.scores(rows[held_out])
            weights[name] += learned.weights / (np.abs(learned.weights).sum() or 1.0) / folds
    return _tested(panes, scores, weights)


def folds_of(queries: int, folds: int, seed: int) -> Array:
    """The fold of each query, (queries,) int: at random, and as even as can be."""
    return np.random.default_rng(seed).permutation(np.arange(queries) % folds)


def _ordered(data: LabelledPanes) -> _Panes:
    """The panes with those of a query together, queries in order of first appearance."""
    numbers: dict[str, int] = {}
    query = np.array([numbers.setdefault(pane.query, len(numbers)) for pane in data.panes], int)
    order = np.argsort(query, kind="stable")
    words = [words_of(data.panes[i]) for i in order]
    train, test = (np.asarray(labels, float)[order] for labels in (data.train, data.test))
    return _Panes(tuple(numbers), query[order], words, train, test)


def _normalised(words: Sequence[PaneWords], held_out: Array) -> Array:
    """All panes' features on the training panes' statistics and scale: those lie from 0 to 1, others may not."""
    known = collections([pane for pane, out in zip(words, held_out, strict=True) if not out])
    rows = features(words, known)
    low, high = rows[~held_out].min(axis=0), rows[~held_out].max(axis=0)
    normal: Array = (rows - low) / np.where(high > low, high - low, 1.0)
    return normal


def _training(panes: _Panes, rows: Array, held_out: Array) -> RankingLists:
    """The training panes of queries that prefer some pane to another; the rest teach nothing (section 3.1.1)."""
    learn = decided(panes.train, panes.query) & ~held_out
    if not learn.any():
        raise UsageError(
            "nothing to learn from: no query of the training folds has panes with different labels"
        )
    return RankingLists(rows[learn], panes.train[learn], panes.query[learn])


def _tested(panes: _Panes, scores: Mapping[str, Array], weights: Mapping[str, Array]) -> CrossValidated:
    tested = decided(panes.test, panes.query)
    if not tested.any():
        raise UsageError("nothing to test on: no query has panes with different labels")
    query = panes.query[tested]
    is_ideal = ideal_items(panes.test[tested], query)
    rankings = {name: found[tested] for name, found in scores.items()}
    rankings |= {RANDOM: np.zeros(len(query)), WORST: -is_ideal.astype(float)}
    reached = {name: expected_by_query(found, is_ideal, query) for name, found in rankings.items()}
    names = tuple(panes.names[number] for number in query[starts(query)])
    return CrossValidated(
        names,
        len(query),
        len(panes.names) - len(names),
        {name: precision for name, (precision, _) in reached.items()},
        {name: reciprocal for name, (_, reciprocal) in reached.items()},
        weights,
    )


# --- Tests and tables ------------------------------------------------------------------------------------


def t_tests(measure: str, values: Mapping[str, Array], pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Paired t-tests of left minus right, one family for Holm's correction; `values` are over the same queries."""
    tests = [paired_t_test(values[left].tolist(), values[right].tolist()) for left, right in pairs]
    adjusted = holm([test.p for test in tests])
    return [
        {"measure": measure, "left": left, "right": right, **asdict(test), "p_holm": p}
        for (left, right), test, p in zip(pairs, tests, adjusted, strict=True)
    ]


TOP: Final = 10
ALPHA: Final = 0.05
UNCOMPARED: Final = (
    f"The paper's tables 3 to 5 are of MIMICS-ClickExplore and MIMICS-Manual with {IN_PAPER} features, "
    f"{IN_PAPER - len(FEATURES)} of them from Bing's result pages, which no data here have: no published value "
    "belongs beside these."
)
_BASELINES: Final = {RANDOM: "Random ranker", WORST: "Worst possible case"}
_MEASURES: Final = {"p_at_1": "P@1", "mrr": "MRR"}
"""By their keys in the rows of a table."""


@dataclass(frozen=True, slots=True)
class PaneRanking:
    """The result with its settings: `train` and `test` are the labels' names.

    `unlabelled` rows of the data were left out for want of a label, `repeated` ones since their pane occurs earlier.
    """

    found: CrossValidated
    train: str
    test: str
    folds: int
    seed: int
    unlabelled: int
    repeated: int

    @property
    def rankers(self) -> tuple[str, ...]:
        return tuple(self.found.weights)

    def tests(self, pairs: Sequence[tuple[str, str]]) -> list[Row]:
        """Paired t-tests over the queries; each measure is a family for Holm's correction."""
        measured = {"P@1": self.found.precision, "MRR": self.found.reciprocal}
        return [row for measure, values in measured.items() for row in t_tests(measure, values, pairs)]


def learn_ranking(
    data: Path, labels: tuple[str, str], rankers: Mapping[str, PaneRanker], *, folds: int, seed: int
) -> PaneRanking:
    """Read panes with labels (to train, to test) and cross-validate the rankers. Raises InputError and UsageError."""
    panes, n_read = read_labelled(data, labels)
    once = one_of_each(panes, seed)
    found = cross_validate(once, rankers, folds=folds, seed=seed)
    unlabelled, repeated = n_read - len(panes.panes), len(panes.panes) - len(once.panes)
    return PaneRanking(found, *labels, folds, seed, unlabelled, repeated)


def ranking_tables(ranking: PaneRanking, features_of: str) -> list[DataTable]:
    """The rankers, the matrix of their differences and the features that weigh most in `features_of` are printed.

    The settings, all tests and all weights are in JSON and CSV only.
    """
    weights = [row for name in ranking.rankers for row in _weighed(ranking, name)]
    against_random = ranking.tests([(name, RANDOM) for name in ranking.rankers])
    pairwise = ranking.tests(list(combinations(ranking.rankers, 2)))
    return [
        DataTable("data", "", "", (), [_settings(ranking)], shown=0),
        _rankers(ranking, against_random),
        _differences(ranking, pairwise),
        DataTable("tests", "", "", (), [*against_random, *pairwise], shown=0),
        _top_features(ranking, features_of),
        DataTable("features", "", "", (), weights, shown=0),
    ]


def notes(ranking: PaneRanking) -> Iterator[str]:
    """Notes on the tables."""
    if ranking.unlabelled:
        yield f"Left out for want of a label: {ranking.unlabelled:,} panes."
    if ranking.repeated:
        yield f"Panes that stand more than once count once, by one row at random: {ranking.repeated:,} rows left out."
    yield UNCOMPARED


def _settings(ranking: PaneRanking) -> Row:
    found = ranking.found
    return {
        "label": ranking.train,
        "test_label": ranking.test,
        "folds": ranking.folds,
        "seed": ranking.seed,
        "queries": len(found.queries),
        "panes": found.panes,
        "tied_queries": found.tied,
        "unlabelled_panes": ranking.unlabelled,
        "repeated_panes": ranking.repeated,
    }


def _rankers(ranking: PaneRanking, tests: Sequence[Row]) -> DataTable:
    found = ranking.found
    p_holm = {(test["measure"], test["left"]): test["p_holm"] for test in tests}
    rows = [
        {
            "ranker": name,
            "title": _title(name),
            "p_at_1": float(found.precision[name].mean()),
            "mrr": float(found.reciprocal[name].mean()),
            **{f"p_{key}_vs_random": p_holm.get((measure, name)) for key, measure in _MEASURES.items()},
        }
        for name in (*ranking.rankers, *_BASELINES)
    ]
    columns = (
        Column("ranker", text("title"), numeric=False),
        Column("P@1", number("p_at_1", ".3f")),
        Column("MRR", number("mrr", ".3f")),
        Column("p of P@1", _p("p_p_at_1_vs_random")),
        Column("p of MRR", _p("p_mrr_vs_random")),
    )
    tested = "" if ranking.test == ranking.train else f", tested on {ranking.test}"
    caption = (
        f"{len(found.queries):,} queries with {found.panes:,} panes; {found.tied:,} more have panes that are all "
        f"tied. {ranking.folds} folds by query, seed {ranking.seed}. MRR is of the first pane with the highest "
        "label; tied scores give the mean over all orders. p: paired t-test against the random ranker, Holm's "
        "correction over the rankers."
    )
    return DataTable("rankers", f"Rankers trained on {ranking.train}{tested}", caption, columns, rows)


def _differences(ranking: PaneRanking, tests: Sequence[Row]) -> DataTable:
    """Rankers against rankers: P@1 above the diagonal, MRR below it."""
    names = ranking.rankers
    cells: dict[tuple[str, str], float] = {}
    for test in tests:
        left, right = test["left"], test["right"]
        cells[(left, right) if test["measure"] == "P@1" else (right, left)] = test["p_holm"]
    rows = [
        {"ranker": f"{place} {_title(name)}", **{other: cells.get((name, other)) for other in names}}
        for place, name in enumerate(names, 1)
    ]
    columns = [Column("ranker", text("ranker"), numeric=False)]
    columns += [Column(str(place), _p(name)) for place, name in enumerate(names, 1)]
    caption = (
        "p of a paired t-test over the queries, Holm's correction over the pairs: P@1 above the diagonal, MRR below. "
        + " ".join(_significant(measure, tests) for measure in _MEASURES.values())
    )
    return DataTable("differences", "Do they differ?", caption, columns, rows if len(names) > 1 else [])


def _significant(measure: str, tests: Sequence[Row]) -> str:
    family = [test for test in tests if test["measure"] == measure]
    corrected, alone = (sum(test[key] < ALPHA for test in family) for key in ("p_holm", "p"))
    return f"{measure}: {corrected} of {len(family)} at p < {ALPHA}, {alone} uncorrected."


def _top_features(ranking: PaneRanking, name: str) -> DataTable:
    columns = (Column("feature", text("feature"), numeric=False), Column("weight", number("weight", ".3f")))
    caption = (
        f"Of {len(FEATURES)}. Share of all weights, mean over the folds; below 0 more of it ranks lower. "
        "Trees cannot tell the direction."
    )
    title = f"The {TOP} features with the highest weight in {_title(name)}"
    return DataTable("top_features", title, caption, columns, _weighed(ranking, name)[:TOP])


def _weighed(ranking: PaneRanking, name: str) -> list[Row]:
    weights = dict(zip(FEATURES, ranking.found.weights[name].tolist(), strict=True))
    return [
        {"ranker": name, "feature": feature, "weight": weights[feature]}
        for feature in sorted(FEATURES, key=lambda feature: -abs(weights[feature]))
    ]


def _title(name: str) -> str:
    return _BASELINES.get(name) or RANKERS[name].title


def _p(key: str) -> Show:
    """A p-value with a star below ALPHA."""
    written = p_value(key)
    return lambda row: written(row) + ("*" if row[key] is not None and row[key] < ALPHA else "")
