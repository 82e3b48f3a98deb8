"""Learned rankings of clarification panes as tables: how good they are, whether they differ, what counts in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Final

from cts_async.analysis.cross_validation import RANDOM, WORST, CrossValidated
from cts_async.analysis.paired_tests import ComparedPair, t_tests
from cts_async.analysis.pane_features import FEATURES, IN_PAPER
from cts_async.analysis.pane_rankers import RANKERS
from cts_async.report.tables import Column, DataTable, Row, Show, number, p_value, text

TOP: Final = 10
ALPHA: Final = 0.05
UNCOMPARED: Final = (
    f"The paper's tables 3 to 5 are of MIMICS-ClickExplore and MIMICS-Manual with {IN_PAPER} features, "
    f"{IN_PAPER - len(FEATURES)} of them from Bing's result pages, which no data here have: no published value "
    "belongs beside these."
)
_BASELINES: Final = {RANDOM: "Random ranker", WORST: "Worst possible case"}
_MEASURES: Final = ("P@1", "MRR")


@dataclass(frozen=True, slots=True)
class PaneRanking:
    """What was found, and how: `train` and `test` are the labels' names, `panes` and `unlabelled` rows of the data."""

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

    def tests(self, pairs: Sequence[tuple[str, str]]) -> dict[str, list[ComparedPair]]:
        """Paired t-tests over the queries, by measure; each measure is a family for Holm's correction."""
        measured = (self.found.precision, self.found.reciprocal)
        return {name: t_tests(values, pairs) for name, values in zip(_MEASURES, measured, strict=True)}

    @property
    def against_random(self) -> dict[str, list[ComparedPair]]:
        """Every ranker against the random one's expectation."""
        return self.tests([(name, RANDOM) for name in self.rankers])

    @property
    def pairwise(self) -> dict[str, list[ComparedPair]]:
        """Every ranker against every other."""
        return self.tests(list(combinations(self.rankers, 2)))


def tables(ranking: PaneRanking, features_of: str) -> list[DataTable]:
    """The rankers, the matrix of their differences and the features that weigh most in `features_of` are printed.

    What it is of, all tests and all weights stand in JSON and CSV only.
    """
    return [
        DataTable("data", "", "", (), [_settings(ranking)], shown=0),
        _rankers(ranking),
        _differences(ranking),
        DataTable("tests", "", "", (), list(_tests(ranking)), shown=0),
        _top_features(ranking, features_of),
        DataTable(
            "features",
            "",
            "",
            (),
            [row for name in ranking.rankers for row in _weighed(ranking, name)],
            shown=0,
        ),
    ]


def notes(ranking: PaneRanking) -> Iterator[str]:
    """What to know beside the tables."""
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


def _rankers(ranking: PaneRanking) -> DataTable:
    found, against = ranking.found, ranking.against_random
    by_name = {measure: {pair.left: pair.p_holm for pair in pairs} for measure, pairs in against.items()}
    rows = [
        {
            "ranker": name,
            "title": _title(name),
            "p_at_1": float(found.precision[name].mean()),
            "mrr": float(found.reciprocal[name].mean()),
            **{f"p_{key}_vs_random": by_name[measure].get(name) for key, measure in _KEYS},
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


_KEYS: Final = (("p_at_1", "P@1"), ("mrr", "MRR"))


def _differences(ranking: PaneRanking) -> DataTable:
    """Rankers against rankers: P@1 above the diagonal, MRR below it."""
    names, tests = ranking.rankers, ranking.pairwise
    cells: dict[tuple[str, str], float] = {}
    for pair in tests["P@1"]:
        cells[pair.left, pair.right] = pair.p_holm
    for pair in tests["MRR"]:
        cells[pair.right, pair.left] = pair.p_holm
    rows = [
        {"ranker": f"{place} {_title(name)}", **{other: cells.get((name, other)) for other in names}}
        for place, name in enumerate(names, 1)
    ]
    columns = [Column("ranker", text("ranker"), numeric=False)]
    columns += [Column(str(place), _p(name)) for place, name in enumerate(names, 1)]
    caption = (
        "p of a paired t-test over the queries, Holm's correction over the pairs: P@1 above the diagonal, MRR below. "
        + " ".join(_counted(measure, pairs) for measure, pairs in tests.items())
    )
    return DataTable("differences", "Do they differ?", caption, columns, rows if len(names) > 1 else [])


def _counted(measure: str, pairs: Sequence[ComparedPair]) -> str:
    corrected = sum(pair.p_holm < ALPHA for pair in pairs)
    alone = sum(pair.test.p < ALPHA for pair in pairs)
    return f"{measure}: {corrected} of {len(pairs)} at p < {ALPHA}, {alone} uncorrected."


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


def _tests(ranking: PaneRanking) -> Iterator[Row]:
    for family in (ranking.against_random, ranking.pairwise):
        for measure, pairs in family.items():
            for pair in pairs:
                named = {"measure": measure, "left": pair.left, "right": pair.right}
                yield {**named, **asdict(pair.test), "p_holm": pair.p_holm}


def _title(name: str) -> str:
    return _BASELINES.get(name) or RANKERS[name].title


def _p(key: str) -> Show:
    """A p-value with a star below ALPHA."""
    written = p_value(key)
    return lambda row: written(row) + ("*" if row[key] is not None and row[key] < ALPHA else "")
