"""Scores and labels of many runs over the same instances, in arrays: 8 bytes per score and per answer, 1 per label.

Texts are dropped, so a board of a hundred thousand instances and many runs stays small. Rows are in the order of the
instances' names, whatever order they finished in: the same runs always make the same board.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.errors import UsageError
from cts_async.records import Coverage
from cts_async.runs.finished import FinishedRun, Item, JudgedLabels, with_distinct_labels
from cts_async.runs.groups import version_layers
from cts_async.runs.manifest import ORIG
from cts_async.runs.selection import RunPath, join_first
from cts_async.scorer import restore_score_100

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
REFERENCES: Final = (ORIG, "gold")
"""The systems that ask nothing: they are not ranked among the others."""
LABELS: Final[tuple[Coverage, ...]] = ("none", "partial", "full")
"""A label is stored as its index in this tuple: ascending, as ordinal statistics need it."""
NO_LABEL: Final = -1
_CODES: Final[Mapping[str, int]] = {label: code for code, label in enumerate(LABELS)}


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """`scores[judge]` has the shape (instances, entrants), NaN for a missing score.

    `labels[judge]` has the shape (nuggets of all instances, entrants): indices of LABELS, or NO_LABEL.
    """

    ids: tuple[str, ...]
    entrants: tuple[FinishedRun, ...]
    """Distinct labels, without items."""
    judges: tuple[str, ...]
    """Most frequent scoring judge first."""
    scores: Mapping[str, Array]
    labels: Mapping[str, Array]
    remarks: tuple[str, ...] = ()
    """Facts about the runs' files that a reader of the scores has to know."""
    answers: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """Shape (instances, entrants): `Item.answer_mark` of each answer, 0 where there is none or it is not known."""
    n_nuggets: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Shape (instances,): how many rows of `labels` each instance has."""
    confidences: Array | None = None
    """Shape (instances, entrants): how sure the agent said it is, 0 to 100, NaN where it did not say; None if no agent
    was asked."""
    domains: tuple[str, ...] = ()
    """The field of knowledge of each instance, "" where it has none; empty if the data name none."""

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(entrant.label for entrant in self.entrants)

    def place(self, label: str) -> int:
        """Return the column of a system. Raises ValueError for an unknown name."""
        return self.systems.index(label)


def with_names(board: Board, names: Mapping[str, str]) -> Board:
    """Rename systems for readers: by their own name, or by their model's, which k follows (`GPT-5.2 (k=3)`)."""
    entrants: list[FinishedRun] = []
    for entrant in board.entrants:
        version_mark = f".v{entrant.version}"
        if entrant.label.endswith(version_mark):
            label = _name_for_readers(entrant.label.removesuffix(version_mark), names) + version_mark
        else:
            label = _name_for_readers(entrant.label, names)
        entrants.append(replace(entrant, label=label))
    # Two systems may have been given one name.
    return replace(board, entrants=tuple(with_distinct_labels(entrants)))


def _name_for_readers(label: str, names: Mapping[str, str]) -> str:
    """Return a system's name; the mark of other roles (`+support-kimi`) stays."""
    if label in names:
        return names[label]
    base, plus, mark = label.partition("+")
    if base in names:
        return names[base] + plus + mark
    model, separator, k = base.rpartition("-k")
    if separator and model in names:
        return f"{names[model]} (k={k}){plus}{mark}"
    return label


def make_board(runs: Iterable[FinishedRun]) -> Board:
    """Build a board from runs, releasing each once it is read. Raises UsageError if two disagree about the nuggets."""
    rows = _Rows()
    remarks: list[str] = []
    read_runs: dict[Path, FinishedRun] = {}
    columns: dict[Path, dict[str, _Column]] = {}
    answers: dict[Path, _Answers] = {}
    confidences: dict[Path, _Confidences] = {}
    for run in runs:
        by_judge = columns[run.directory] = {judge: _Column() for judge in run.judges}
        run_answers = answers[run.directory] = _Answers()
        if run.asks_confidence:
            confidences[run.directory] = _Confidences()
        for item in run.items.values():
            row = rows.row_of(item)
            run_answers.add(row, item.answer_mark)
            if item.confidence is not None and run.asks_confidence:
                confidences[run.directory].add(row, item.confidence)
            for judge, verdict in item.verdicts.items():
                codes = rows.codes(row, verdict, run.directory)
                by_judge[judge].add(row, rows.score(row, verdict, run.directory), codes)
        remarks += run.contradictions
        remarks += run.remarks
        # Without its texts, before the next run is read.
        read_runs[run.directory] = replace(run, items={})
    entrants = sorted(with_distinct_labels(read_runs.values()), key=_place)
    judges = _ranked_judges(entrants)
    order = _order_of_rows(rows)
    scores, labels = _scores_and_labels(
        rows, order, judges, [columns[entrant.directory] for entrant in entrants]
    )
    remarks += _remarks_on_settings(entrants, rows)
    return Board(
        ids=tuple(sorted(rows.names)),
        entrants=tuple(entrants),
        judges=judges,
        scores=scores,
        labels=labels,
        remarks=tuple(remarks),
        answers=_answer_marks(order, [answers[entrant.directory] for entrant in entrants]),
        n_nuggets=_nuggets_by_row(rows, order),
        confidences=_stated_confidences(order, [confidences.get(entrant.directory) for entrant in entrants]),
        domains=_domains(rows, order),
    )


def _remarks_on_settings(entrants: Sequence[FinishedRun], rows: _Rows) -> Iterator[str]:
    """Yield what makes the scores of some runs other than those of the rest."""
    published = [entrant.label for entrant in entrants if entrant.as_published]
    if published:
        labels = "all runs"
        if len(published) < len(entrants):
            labels = join_first(published)
        yield f"Made with --as-published: {labels}."
    labels_by_mode: dict[str, list[str]] = {}
    for entrant in entrants:
        if entrant.agent_mode:
            labels_by_mode.setdefault(entrant.agent_mode, []).append(entrant.label)
    # Only runs that were both named by their paths stand side by side in different modes.
    if len(labels_by_mode) > 1:
        modes = [f"{mode} ({join_first(labels)})" for mode, labels in labels_by_mode.items()]
        yield f"Agent modes differ, and with them what a difference is due to: {'; '.join(modes)}."
    sharing = [entrant.label for entrant in entrants if entrant.shares_sampled]
    if sharing:
        yield (
            f"Common random numbers (--share-sampled): systems share sampled steps ({join_first(sharing)}), so that "
            "differences have less noise than between independent runs."
        )
    if rows.differing:
        differences = join_first(list(rows.differing.values()))
        yield (
            f"Weights differ between runs, so not all were judged by the same gold: {differences}. Scores are "
            "recomputed with the weights named first."
        )


def newest_directories(board: Board) -> set[Path]:
    """Return the directories of the newest version of each run: what counts runs together must not count older ones."""
    layers = version_layers(RunPath(entrant.directory, named=False) for entrant in board.entrants)
    return {run.path for layer in layers[:1] for run in layer}


def notes_on_origs(board: Board, baseline: str) -> Iterator[str]:
    """Say which of several runs of orig the differences are to, where their answers are not the same."""
    origs = [entrant.label for entrant in board.entrants if entrant.system == ORIG]
    if len(origs) < 2 or baseline not in origs:
        return
    marks = board.answers[:, board.place(baseline)]
    differing: list[str] = []
    for label in origs:
        other_marks = board.answers[:, board.place(label)]
        # 0: no answer, or one of which nothing is known.
        both = (marks != 0) & (other_marks != 0)
        n_differ = int((marks[both] != other_marks[both]).sum())
        if n_differ:
            differing.append(f"{label} on {n_differ} of the {int(both.sum())} instances that both have")
    if differing:
        yield (
            f"Several runs are orig: differences are to {baseline}, the newest; its answers are not those of "
            f"{join_first(differing)}."
        )


class _Rows:
    """Assigns rows to instances, and holds their nuggets and weights."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.nuggets: list[tuple[str, ...]] = []
        """By row; empty until a run has labels for it."""
        self._weights: list[tuple[Mapping[str, float], Path] | None] = []
        """By row, the weights that count and the run they are from."""
        self.differing: dict[int, str] = {}
        """The first difference of each row whose weights differ between runs."""
        self.domains: dict[int, str] = {}
        """By row, for instances whose data name a domain."""
        self._by_id: dict[str, int] = {}
        self._by_intent: dict[str, int] = {}
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Equal tuples of nugget ids as one object: most instances number their nuggets alike (N1, N2, ...)."""

    def row_of(self, item: Item) -> int:
        """Return the item's row: by its id, or by its intent if one of the files has no other id for it."""
        row = self._row_of(item)
        if item.domain:
            self.domains.setdefault(row, item.domain)
        return row

    def _row_of(self, item: Item) -> int:
        if item.id in self._by_id:
            return self._by_id[item.id]
        if item.id == item.intent and item.intent in self._by_intent:
            return self._by_intent[item.intent]
        # An earlier file named it by its intent alone: now its id is known.
        if item.intent in self._by_id:
            row = self._by_id.pop(item.intent)
            self._by_id[item.id], self.names[row] = row, item.id
            return row
        row = len(self.names)
        self._by_id[item.id] = row
        self.names.append(item.id)
        self.nuggets.append(())
        self._weights.append(None)
        self._by_intent.setdefault(item.intent, row)
        return row

    def codes(self, row: int, verdict: JudgedLabels, directory: Path) -> list[int]:
        """Return the label codes in the order of the row's nuggets; none for a verdict without labels."""
        ids = tuple(verdict.coverage)
        if not ids:
            return []
        if not self.nuggets[row]:
            self.nuggets[row] = self._shared.setdefault(ids, ids)
        nuggets = self.nuggets[row]
        if ids != nuggets and set(ids) != set(nuggets):
            raise UsageError(
                f"{directory}: {self.names[row]} was judged by other nuggets than in the other runs; "
                "compare runs with the same gold"
            )
        return [_CODES[verdict.coverage[id]] for id in nuggets]

    def score(self, row: int, verdict: JudgedLabels, directory: Path) -> float:
        """Return the score by the weights of the first run that has any: all runs are compared by one gold."""
        if not verdict.weights:  # a table of scores alone
            return verdict.score
        row_weights = self._weights[row]
        if row_weights is None:
            row_weights = self._weights[row] = (verdict.weights, directory)
        weights, weights_from = row_weights
        if weights == verdict.weights:
            return verdict.score
        if row not in self.differing:
            differing = [id for id in weights if weights[id] != verdict.weights[id]]
            id = differing[0]
            self.differing[row] = (
                f"nugget {id!r} of {self.names[row]!r} weighs {weights[id]:g} in {weights_from} and "
                f"{verdict.weights[id]:g} in {directory}"
            )
        return restore_score_100((weights[id], label) for id, label in verdict.coverage.items())


# Arrays of numbers instead of lists: a million scores take 8 MB, and not 32.


class _Column:
    """Scores and labels of one run under one judge, in the order of its file."""

    def __init__(self) -> None:
        self.rows, self.scores = array("q"), array("d")
        self.codes, self.lengths = array("b"), array("q")

    def add(self, row: int, score: float, codes: Sequence[int]) -> None:
        self.rows.append(row)
        self.scores.append(score)
        self.codes.extend(codes)
        self.lengths.append(len(codes))


class _Answers:
    """Fingerprints of one run's answers, in the order of its file."""

    def __init__(self) -> None:
        self.rows, self.marks = array("q"), array("q")

    def add(self, row: int, mark: int) -> None:
        self.rows.append(row)
        self.marks.append(mark)


class _Confidences:
    """The confidences that one run's agent stated, in the order of its file."""

    def __init__(self) -> None:
        self.rows, self.confidences = array("q"), array("d")

    def add(self, row: int, confidence: float) -> None:
        self.rows.append(row)
        self.confidences.append(confidence)


def _stated_confidences(order: Array, columns: Sequence[_Confidences | None]) -> Array | None:
    """Return all confidences, shape (instances, entrants); None if no run's agent was asked."""
    if not any(columns):
        return None
    places = _places(order)
    confidences = np.full((len(order), len(columns)), np.nan)
    for number, column in enumerate(columns):
        if column is not None:
            confidences[places[np.array(column.rows, np.int64)], number] = np.array(column.confidences)
    return confidences


def _domains(rows: _Rows, order: Array) -> tuple[str, ...]:
    if not rows.domains:
        return ()
    return tuple(rows.domains.get(row, "") for row in order.tolist())


def _order_of_rows(rows: _Rows) -> Array:
    """Return the rows in the order of their instances' names."""
    return np.array(sorted(range(len(rows.names)), key=rows.names.__getitem__), np.int64)


def _nuggets_by_row(rows: _Rows, order: Array) -> Array:
    return np.array([len(rows.nuggets[row]) for row in order], np.int64)


def _places(order: Array) -> Array:
    """Return for each row its place in that order."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _answer_marks(order: Array, columns: Sequence[_Answers]) -> Array:
    """Return the fingerprints of all answers, shape (instances, entrants); 0 where there is no answer."""
    places = _places(order)
    marks = np.zeros((len(order), len(columns)), np.int64)
    for number, column in enumerate(columns):
        marks[places[np.array(column.rows, np.int64)], number] = np.array(column.marks, np.int64)
    return marks


def _scores_and_labels(
    rows: _Rows, order: Array, judges: Sequence[str], columns: Sequence[Mapping[str, _Column]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Fill the arrays of a board from the columns of each entrant, by judge."""
    places = _places(order)
    lengths = _nuggets_by_row(rows, order)
    starts = np.cumsum(lengths) - lengths
    scores: dict[str, Array] = {}
    labels: dict[str, Array] = {}
    for judge in judges:
        scores[judge] = np.full((len(order), len(columns)), np.nan)
        labels[judge] = np.full((int(lengths.sum()), len(columns)), NO_LABEL, np.int8)
    for number, by_judge in enumerate(columns):
        for judge, column in by_judge.items():
            instances = places[np.array(column.rows, np.int64)]
            scores[judge][instances, number] = np.array(column.scores)
            # The labels of an answer go to the rows of its instance's nuggets, which stand one after the other.
            n = np.array(column.lengths, np.int64)
            within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
            nuggets = np.repeat(starts[instances], n) + within
            labels[judge][nuggets, number] = np.array(column.codes, np.int8)
    return scores, labels


def _place(entrant: FinishedRun) -> tuple[int, int, str]:
    """Sort references first, then by budget and name."""
    reference = len(REFERENCES)
    if entrant.system in REFERENCES:
        reference = REFERENCES.index(entrant.system)
    return reference, entrant.k, entrant.label


def _ranked_judges(entrants: Sequence[FinishedRun]) -> tuple[str, ...]:
    """Order judges by how many runs they scored first, then by how many they judged at all."""
    n_scored: Counter[str] = Counter()
    n_judged: Counter[str] = Counter()
    for entrant in entrants:
        n_judged.update(entrant.judges)
        n_scored.update(entrant.judges[:1])
    return tuple(sorted(n_judged, key=lambda judge: (-n_scored[judge], -n_judged[judge], judge)))
