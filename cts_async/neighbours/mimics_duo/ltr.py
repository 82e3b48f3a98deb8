"""Learning to rank clarification panes (MIMICS-Duo, SIGIR 2022, section 3.1): cross-validated by query, or trained on
one collection and tested on another.

All that is learned comes from the training panes: document frequencies of the features, their smallest and largest
values, and the ranking. Two labels over one collection, or two collections, give the design of the paper's tables 3
and 4: MIMICS-ClickExplore has clicks, MIMICS-Manual labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final

import numpy as np
from rapidfuzz import fuzz

from cts_async.analysis.stats import holm, paired_t_test
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import published
from cts_async.neighbours.mimics_duo.panes import PaneText, read_pane_table, read_panes
from cts_async.neighbours.mimics_duo.rankers import RANKERS, PaneRanker, RankingLists, decided
from cts_async.neighbours.mimics_duo.statistics import PANE_LABELS
from cts_async.neighbours.mimics_duo.ties import Array, expected_by_query, ideal_items, starts
from cts_async.search.terms import terms
from cts_async.tables.table import Column, DataTable, Row, Show, number, p_value, text

# --- Features (section 3.1, table 2) ---------------------------------------------------------------------
#
# The paper has 110: three similarities of six inputs (query, related search, video title and description, document
# title, snippet) to six fields of a pane, the number of options, and whether the question is one. MIMICS-Duo ships only
# the query of those inputs, which leaves 3 x 6 + 2 = 20; the other 90 need Bing's result pages. Names are those of
# table 5.

MOST_OPTIONS: Final = 5
"""Of a pane of MIMICS and MIMICS-Duo, which have as many columns."""
K1: Final = 1.2
B: Final = 0.75
"""With `K1` the usual parameters of BM25."""
IN_PAPER: Final = 110
"""Features of the paper."""

_PAIRS: Final = (
    "Clarification Pane, Query",
    "Query, Clarification Question + Option1",
    "Query, Clarification Question + Option2",
    "Query, Clarification Question + Option3",
    "Query, Clarification Question + Option4",
    "Query, Clarification Question + Option5",
)
_SIMILARITIES: Final = ("BM25", "CosineSimilarity_TF-IDF", "Overall Matching Terms")


def _feature_names() -> tuple[str, ...]:
    names = [f"{similarity} ({pair})" for similarity, pair in product(_SIMILARITIES, _PAIRS)]
    names.append("The Number of Candidate Answers")
    names.append("The clarification is a Statement or a Question")
    return tuple(names)


FEATURES: Final = _feature_names()
"""The columns of `features`."""


@dataclass(frozen=True, slots=True)
class PaneWords:
    """The words of a pane: `fields` are the whole pane and the question with each option, None for a missing one."""

    query: list[str]
    fields: tuple[list[str] | None, ...]
    options: int
    is_question: bool


@dataclass(frozen=True, slots=True)
class Collection:
    """What n texts say of words: in how many texts each occurs, and how long a text is on average."""

    n: int
    frequency: Counter[str]
    mean_length: float

    @classmethod
    def from_texts(cls, texts: Sequence[Sequence[str]]) -> Collection:
        """Statistics of texts given as words; of no text at all every word is as rare as every other."""
        frequency: Counter[str] = Counter()
        n_words = 0
        for words in texts:
            frequency.update(set(words))
            n_words += len(words)
        mean_length = 0.0
        if texts:
            mean_length = n_words / len(texts)
        return cls(len(texts), frequency, mean_length)


def pane_words(pane: PaneText) -> PaneWords:
    """Cut a pane into words, lightly stemmed. Stop words stay: their frequency makes them count little."""
    question = terms(pane.question, keep_stops=True)
    whole = list(question)
    with_option: list[list[str] | None] = [None] * MOST_OPTIONS
    n_options = 0
    for place, option in enumerate(pane.options):
        if option.strip():
            words = terms(option, keep_stops=True)
            whole += words
            with_option[place] = question + words
            n_options += 1
    is_question = pane.question.rstrip().endswith(("?", "？"))
    return PaneWords(
        terms(pane.query, keep_stops=True), (whole,) + tuple(with_option), n_options, is_question
    )


def collections(panes: Sequence[PaneWords]) -> list[Collection]:
    """The statistics of each field over `panes`, in the order of `PaneWords.fields`."""
    statistics = []
    # A missing option is no text: it counts neither among the n texts nor in their mean length.
    for place in range(len(_PAIRS)):
        texts: list[list[str]] = []
        for pane in panes:
            words = pane.fields[place]
            if words is not None:
                texts.append(words)
        statistics.append(Collection.from_texts(texts))
    return statistics


def features(panes: Sequence[PaneWords], statistics: Sequence[Collection]) -> Array:
    """A row for each pane, shape (panes, len(FEATURES)); similarities to a missing option are 0."""
    rows = np.zeros((len(panes), len(FEATURES)))
    n_fields = len(_PAIRS)
    for row, pane in zip(rows, panes, strict=True):
        for place, (words, collection) in enumerate(zip(pane.fields, statistics, strict=True)):
            if words is not None:
                row[place] = bm25(pane.query, words, collection)
                row[n_fields + place] = tf_idf_cosine(pane.query, words, collection)
                row[2 * n_fields + place] = matching_terms(pane.query, words)
        row[-2:] = pane.options, pane.is_question
    return rows


def bm25(query: Sequence[str], words: Sequence[str], collection: Collection) -> float:
    """Robertson's BM25 of a text for the query's distinct words: k1 1.2, b 0.75, idf ln(1 + (n - df + .5)/(df + .5))."""
    counts = Counter(words)
    length = 1.0
    if collection.mean_length:
        length = len(words) / collection.mean_length
    score = 0.0
    for word in dict.fromkeys(query):
        tf = counts[word]
        if tf > 0:
            df = collection.frequency[word]
            idf = math.log1p((collection.n - df + 0.5) / (df + 0.5))
            score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length))
    return score


def tf_idf_cosine(query: Sequence[str], words: Sequence[str], collection: Collection) -> float:
    """The cosine of two tf * idf vectors, idf = 1 + ln((1 + n) / (1 + df)); 0 if either has no word."""
    query_vector, text_vector = _tf_idf_vector(query, collection), _tf_idf_vector(words, collection)
    squares = _dot(query_vector, query_vector) * _dot(text_vector, text_vector)
    if not squares:
        return 0.0
    return _dot(query_vector, text_vector) / math.sqrt(squares)


def _tf_idf_vector(words: Sequence[str], collection: Collection) -> dict[str, float]:
    weights = {}
    for word, tf in Counter(words).items():
        weights[word] = tf * (1 + math.log((1 + collection.n) / (1 + collection.frequency[word])))
    return weights


def _dot(left_vector: Mapping[str, float], right_vector: Mapping[str, float]) -> float:
    return sum(weight * right_vector.get(word, 0.0) for word, weight in left_vector.items())


def matching_terms(query: Sequence[str], words: Sequence[str]) -> float:
    """How alike two texts are, 0 to 1, with the words of each in alphabetical order.

    The paper's code takes the token sort ratio: twice the longest common subsequence, in characters, over both
    lengths.
    """
    return fuzz.ratio(" ".join(sorted(query)), " ".join(sorted(words))) / 100


# --- The data --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelledPanes:
    """Panes with a label to train on and one to test on (higher is better), those of a query together.

    `query` numbers the `names` of the queries, which are in order of first appearance.
    """

    names: tuple[str, ...]
    query: Array
    words: Sequence[PaneWords]
    train: Array
    test: Array
    unlabelled: int = 0
    """Rows of the data that were left out because they have no label."""
    repeated: int = 0
    """Rows that were left out since their pane occurs more than once."""


def read_labelled(data: Path, labels: tuple[str, str], seed: int) -> LabelledPanes:
    """Read the panes that have both labels (to train, to test), each once, with the labels of one of its rows at random.

    `data` is the folder of MIMICS-Duo, or a TSV in the format of MIMICS. Raises InputError.
    """
    rows: dict[PaneText, list[tuple[float, float]]] = {}
    n_unlabelled = n_repeated = 0
    labelled: Iterator[tuple[PaneText, Sequence[float | None]]]
    if data.is_file():
        labelled = read_pane_table(data, labels)
    else:
        labelled = _labelled_duo_panes(data, labels)
    for pane, (train, test) in labelled:
        if train is None or test is None:
            n_unlabelled += 1
            continue
        if pane in rows:
            n_repeated += 1
        rows.setdefault(pane, []).append((train, test))
    if not rows:
        raise InputError(data, f"has no pane with a label for {' and '.join(dict.fromkeys(labels))}")
    rng = np.random.default_rng(seed)
    drawn: dict[PaneText, tuple[float, float]] = {}
    for pane, labels_of_rows in rows.items():
        place = 0
        if len(labels_of_rows) > 1:
            place = int(rng.integers(len(labels_of_rows)))
        drawn[pane] = labels_of_rows[place]
    return labelled_panes(drawn, n_unlabelled, n_repeated)


def _labelled_duo_panes(
    folder: Path, labels: tuple[str, str]
) -> Iterator[tuple[PaneText, tuple[float, float]]]:
    train_field, test_field = PANE_LABELS[labels[0]], PANE_LABELS[labels[1]]
    for pane in read_panes(folder):
        text = PaneText(pane.query, pane.question, pane.options)
        yield text, (float(getattr(pane, train_field)), float(getattr(pane, test_field)))


def labelled_panes(
    labels: Mapping[PaneText, tuple[float, float]], unlabelled: int = 0, repeated: int = 0
) -> LabelledPanes:
    """Order panes with their labels by query."""
    panes_by_query: dict[str, list[PaneText]] = {}
    for pane in labels:
        panes_by_query.setdefault(pane.query, []).append(pane)
    words: list[PaneWords] = []
    query_numbers: list[int] = []
    train_labels: list[float] = []
    test_labels: list[float] = []
    for query_number, panes in enumerate(panes_by_query.values()):
        for pane in panes:
            train, test = labels[pane]
            words.append(pane_words(pane))
            query_numbers.append(query_number)
            train_labels.append(train)
            test_labels.append(test)
    return LabelledPanes(
        names=tuple(panes_by_query),
        query=np.array(query_numbers, int),
        words=words,
        train=np.array(train_labels, float),
        test=np.array(test_labels, float),
        unlabelled=unlabelled,
        repeated=repeated,
    )


# --- Cross-validation ------------------------------------------------------------------------------------

RANDOM: Final = "random"
WORST: Final = "worst"
"""References for the rankers: all panes in random order, and the ideal ones last."""


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """What each ranker, and `RANDOM` and `WORST`, reached on each query that it was not trained on.

    `by_measure` has "P@1" and "MRR" by ranker, over `queries`. `weights` are the features' weights by ranker, scaled to
    1 in the sum of their sizes; with several folds the mean over these.
    """

    queries: tuple[str, ...]
    panes: int
    """How many panes these queries have."""
    by_measure: Mapping[str, Mapping[str, Array]]
    weights: Mapping[str, Array]


def cross_validate(
    data: LabelledPanes, rankers: Mapping[str, PaneRanker], *, folds: int = 5, seed: int = 0
) -> HeldOutScores:
    """Train and test each ranker `folds` times; UsageError where the data do not allow it.

    Queries whose panes all have the same label, or that have only one, are not tested.
    """
    if not 2 <= folds <= len(data.names):
        raise UsageError(f"folds must be from 2 to the number of queries, {len(data.names)}; not {folds}")
    fold = folds_of(len(data.names), folds, seed)[data.query]
    scores = {name: np.zeros(len(data.query)) for name in rankers}
    weights = {name: np.zeros(len(FEATURES)) for name in rankers}
    for part in range(folds):
        held_out = fold == part
        rows = _normalised(data.words, held_out)
        # Queries that prefer no pane to another teach nothing (section 3.1.1).
        learn = decided(data.train, data.query) & ~held_out
        if not learn.any():
            problem = "nothing to learn from: no query of the training folds has panes with different labels"
            raise UsageError(problem)
        lists = RankingLists(rows[learn], data.train[learn], data.query[learn])
        for name, ranker in rankers.items():
            learned = ranker.fit(lists, seed + part)
            scores[name][held_out] = learned.scores(rows[held_out])
            weights[name] += _shares(learned.weights) / folds
    return _held_out_scores(data, scores, weights)


def transfer(
    trained_on: LabelledPanes, tested_on: LabelledPanes, rankers: Mapping[str, PaneRanker], *, seed: int = 0
) -> tuple[HeldOutScores, int]:
    """Train each ranker on one collection and test it on another (section 3.1.3, tables 3 and 4).

    Queries of the second collection are left out of the first, since the two may share some; the number of queries
    left out is returned, too. UsageError where nothing can be learned or tested.
    """
    shared = set(tested_on.names).intersection(trained_on.names)
    is_shared_query = np.array([name in shared for name in trained_on.names], bool)
    is_shared = is_shared_query[trained_on.query]
    learn = decided(trained_on.train, trained_on.query) & ~is_shared
    if not learn.any():
        raise UsageError(
            "nothing to learn from: no query that the test data does not have has panes with different labels"
        )
    words = list(trained_on.words) + list(tested_on.words)
    # What is tested gives neither document frequencies nor a scale.
    held_out = np.concatenate([is_shared, np.ones(len(tested_on.query), bool)])
    rows = _normalised(words, held_out)
    n_train = len(trained_on.query)
    lists = RankingLists(rows[:n_train][learn], trained_on.train[learn], trained_on.query[learn])
    scores, weights = {}, {}
    for name, ranker in rankers.items():
        learned = ranker.fit(lists, seed)
        scores[name] = learned.scores(rows[n_train:])
        weights[name] = _shares(learned.weights)
    return _held_out_scores(tested_on, scores, weights), len(shared)


def _shares(weights: Array) -> Array:
    """Scale weights to 1 in the sum of their sizes; of a ranker that learned nothing all are 0."""
    shares: Array = weights / (np.abs(weights).sum() or 1.0)
    return shares


def _held_out_scores(
    data: LabelledPanes, scores: Mapping[str, Array], weights: Mapping[str, Array]
) -> HeldOutScores:
    """P@1 and MRR of the panes' `scores` by ranker; UsageError if no query can be ranked wrongly."""
    tested = decided(data.test, data.query)
    if not tested.any():
        raise UsageError("nothing to test on: no query has panes with different labels")
    query = data.query[tested]
    is_ideal = ideal_items(data.test[tested], query)
    rankings = {name: pane_scores[tested] for name, pane_scores in scores.items()}
    # All tied: the expectation over random orders.
    rankings[RANDOM] = np.zeros(len(query))
    rankings[WORST] = -is_ideal.astype(float)
    by_measure: dict[str, dict[str, Array]] = {"P@1": {}, "MRR": {}}
    for name, ranking in rankings.items():
        by_measure["P@1"][name], by_measure["MRR"][name] = expected_by_query(ranking, is_ideal, query)
    names = tuple(data.names[number] for number in query[starts(query)])
    return HeldOutScores(names, len(query), by_measure, weights)


def folds_of(queries: int, folds: int, seed: int) -> Array:
    """The fold of each query, (queries,) int: at random, and as even as can be."""
    return np.random.default_rng(seed).permutation(np.arange(queries) % folds)


def _normalised(words: Sequence[PaneWords], held_out: Array) -> Array:
    """All panes' features on the training panes' statistics and scale: those lie from 0 to 1, others may not."""
    training_panes: list[PaneWords] = []
    for pane, is_held_out in zip(words, held_out, strict=True):
        if not is_held_out:
            training_panes.append(pane)
    rows = features(words, collections(training_panes))
    low, high = rows[~held_out].min(axis=0), rows[~held_out].max(axis=0)
    # A feature that is the same in all training panes becomes 0 there.
    normalised: Array = (rows - low) / np.where(high > low, high - low, 1.0)
    return normalised


# --- Tests and tables ------------------------------------------------------------------------------------

TOP: Final = 10
ALPHA: Final = 0.05
_FEATURES_NOTE: Final = (
    f"The paper's tables 3 to 5 are of MIMICS-ClickExplore and MIMICS-Manual with {IN_PAPER} features, "
    f"{IN_PAPER - len(FEATURES)} of them from Bing's result pages, which no data here have: its values show the order "
    "of size, not what to expect."
)
_BASELINES: Final = {RANDOM: "Random ranker", WORST: "Worst possible case"}


@dataclass(frozen=True, slots=True)
class Design:
    """What is learned from and tested on: a collection each, with a label; without `test_data` folds of the first."""

    data: Path
    label: str
    test_label: str
    test_data: Path | None = None
    folds: int = 5
    seed: int = 0


def ranking_report(
    design: Design, rankers: Mapping[str, PaneRanker], features_of: str
) -> tuple[list[DataTable], list[str]]:
    """Read labelled panes, train and test the rankers as `design` says, and return tables and notes.

    The rankers, the matrix of their differences and the features that weigh most in `features_of` are printed; the
    settings, all tests and all weights are in JSON and CSV only. Raises InputError and UsageError.
    """
    seed = design.seed
    notes = []
    shared = 0
    folds = None
    if design.test_data is None:
        folds = design.folds
        panes = read_labelled(design.data, (design.label, design.test_label), seed)
        notes += _notes_on_left_out(panes)
        scores = cross_validate(panes, rankers, folds=design.folds, seed=seed)
    else:
        trained_on = read_labelled(design.data, (design.label, design.label), seed)
        panes = read_labelled(design.test_data, (design.test_label, design.test_label), seed)
        for path, collection in ((design.data, trained_on), (design.test_data, panes)):
            for note in _notes_on_left_out(collection):
                notes.append(f"{path}: {note}")
        scores, shared = transfer(trained_on, panes, rankers, seed=seed)
        notes.append(f"Queries of the test data that the training data has, too, and leaves out: {shared:,}.")
    settings: dict[str, Any] = {
        "label": design.label,
        "test_label": design.test_label,
        "folds": folds,
        "seed": seed,
        "queries": len(scores.queries),
        "panes": scores.panes,
        "tied_queries": len(panes.names) - len(scores.queries),
        "unlabelled_panes": panes.unlabelled,
        "shared_queries": shared,
        "repeated_panes": panes.repeated,
    }
    # Corrected apart: those against chance over the rankers, those of rankers over their pairs.
    against_random = t_tests(scores, [(name, RANDOM) for name in rankers])
    pairwise = t_tests(scores, list(combinations(rankers, 2)))
    weights: list[Row] = []
    for name in rankers:
        weights += _feature_rows(scores, name)
    tables = [
        DataTable("data", "", "", (), [settings], shown=0),
        _rankers_table(scores, settings, against_random, paper_columns(design)),
        _differences_table(list(rankers), pairwise),
        DataTable("tests", "", "", (), against_random + pairwise, shown=0),
        _features_table(scores, features_of),
        DataTable("features", "", "", (), weights, shown=0),
    ]
    notes.append(_FEATURES_NOTE)
    return tables, notes


def _notes_on_left_out(panes: LabelledPanes) -> list[str]:
    notes = []
    if panes.unlabelled:
        notes.append(f"Left out, without a label: {panes.unlabelled:,} panes.")
    if panes.repeated:
        notes.append(f"Duplicate panes are counted once, by a random row: {panes.repeated:,} rows left out.")
    return notes


def paper_columns(design: Design) -> Mapping[str, tuple[float, float]]:
    """P@1 and MRR by ranker as tables 3 and 4 print them for this design; none where they have no such column.

    A collection is known by its label: clicks are MIMICS-ClickExplore's, labels of options MIMICS-Manual's. Values
    belong beside a design with two collections only: MIMICS-Duo's own folds are another experiment.
    """
    if design.test_data is None:
        return {}
    tables = published("mimics_duo")["learning_to_rank"]
    printed = tables.get(f"{design.label}-{design.test_label}", {})
    return {name: (values[0], values[1]) for name, values in printed.items()}


def t_tests(scores: HeldOutScores, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Paired t-tests of each pair over the queries; each measure is a family for Holm's correction."""
    rows: list[Row] = []
    for measure, values in scores.by_measure.items():
        tests = []
        for ranker, rival in pairs:
            tests.append(paired_t_test(values[ranker].tolist(), values[rival].tolist()))
        adjusted = holm([test.p for test in tests])
        for (ranker, rival), test, p_holm in zip(pairs, tests, adjusted, strict=True):
            row: dict[str, Any] = {"measure": measure, "left": ranker, "right": rival}
            row |= asdict(test)
            row["p_holm"] = p_holm
            rows.append(row)
    return rows


def _rankers_table(
    scores: HeldOutScores, settings: Row, tests: Sequence[Row], paper: Mapping[str, tuple[float, float]]
) -> DataTable:
    p_holm = {(test["measure"], test["left"]): test["p_holm"] for test in tests}
    rows = []
    for name in list(scores.weights) + list(_BASELINES):
        row: dict[str, Any] = {
            "ranker": name,
            "title": _title(name),
            "p_at_1": float(scores.by_measure["P@1"][name].mean()),
            "mrr": float(scores.by_measure["MRR"][name].mean()),
            "p_p_at_1_vs_random": p_holm.get(("P@1", name)),
            "p_mrr_vs_random": p_holm.get(("MRR", name)),
        }
        if paper:
            row["published_p_at_1"], row["published_mrr"] = paper.get(name, (None, None))
        rows.append(row)
    columns = [
        Column("ranker", text("title"), numeric=False),
        Column("P@1", number("p_at_1", ".3f")),
        Column("MRR", number("mrr", ".3f")),
        Column("p of P@1", _starred_p_value("p_p_at_1_vs_random")),
        Column("p of MRR", _starred_p_value("p_mrr_vs_random")),
    ]
    if paper:
        columns.append(Column("paper P@1", number("published_p_at_1", ".3f")))
        columns.append(Column("paper MRR", number("published_mrr", ".3f")))
    training = "Trained on other data"
    if settings["folds"] is not None:
        training = f"{settings['folds']} folds by query"
    caption = (
        f"{settings['queries']:,} queries with {settings['panes']:,} panes; in {settings['tied_queries']:,} more all "
        f"panes are tied. {training}, seed {settings['seed']}. MRR is of the first pane with "
        "the highest label; tied scores give the mean over all orders. p: paired t-test against the random ranker, "
        "Holm's correction over the rankers."
    )
    title = f"Rankers trained on {settings['label']}, tested on {settings['test_label']}"
    return DataTable("rankers", title, caption, columns, rows)


def _differences_table(names: Sequence[str], tests: Sequence[Row]) -> DataTable:
    """Rankers against rankers: P@1 above the diagonal, MRR below it."""
    cells: dict[tuple[str, str], float] = {}
    for test in tests:
        cell = (test["left"], test["right"])
        if test["measure"] == "MRR":
            cell = (test["right"], test["left"])
        cells[cell] = test["p_holm"]
    rows: list[Row] = []
    columns = [Column("ranker", text("ranker"), numeric=False)]
    for place, name in enumerate(names, 1):
        row: dict[str, Any] = {"ranker": f"{place} {_title(name)}"}
        for rival in names:
            row[rival] = cells.get((name, rival))
        rows.append(row)
        columns.append(Column(str(place), _starred_p_value(name)))
    # A ranker alone differs from none.
    if len(names) == 1:
        rows = []
    n_significant = sum(test["p_holm"] < ALPHA for test in tests)
    caption = (
        "p of a paired t-test over the queries, Holm's correction over the pairs: P@1 above the diagonal, MRR below. "
        f"{n_significant} of {len(tests)} at p < {ALPHA}."
    )
    return DataTable("differences", "Do they differ?", caption, columns, rows)


def _features_table(scores: HeldOutScores, name: str) -> DataTable:
    columns = (Column("feature", text("feature"), numeric=False), Column("weight", number("weight", ".3f")))
    caption = (
        f"Of {len(FEATURES)}. Share of all weights, mean over the folds; below 0 more of it ranks lower. "
        "Trees cannot tell the direction."
    )
    title = f"The {TOP} features with the highest weight in {_title(name)}"
    return DataTable("top_features", title, caption, columns, _feature_rows(scores, name)[:TOP])


def _feature_rows(scores: HeldOutScores, name: str) -> list[Row]:
    """Return the features with their weights in a ranker, the heaviest first."""
    rows: list[Row] = []
    for feature, weight in zip(FEATURES, scores.weights[name].tolist(), strict=True):
        rows.append({"ranker": name, "feature": feature, "weight": weight})
    return sorted(rows, key=_size_of_weight, reverse=True)


def _size_of_weight(row: Row) -> float:
    size: float = abs(row["weight"])
    return size


def _title(name: str) -> str:
    return _BASELINES.get(name) or RANKERS[name].title


def _starred_p_value(key: str) -> Show:
    """A p-value with a star below ALPHA."""
    show_p_value = p_value(key)

    def show(row: Row) -> str:
        p = row[key]
        if p is not None and p < ALPHA:
            return f"{show_p_value(row)}*"
        return show_p_value(row)

    return show
