"""Scores and labels of many runs over the same instances, in arrays: 8 bytes per score and per answer, 1 per label.

Texts are dropped, so a board of a hundred thousand instances and many runs stays small. Rows are in the order of the
instances' names, whatever order they finished in: the same runs always make the same board.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.errors import UsageError
from cts_async.records import Coverage
from cts_async.runs.finished import FinishedRun, Item, JudgedLabels, with_distinct_labels
from cts_async.runs.manifest import ORIG
from cts_async.runs.selection import join_first
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

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(entrant.label for entrant in self.entrants)

    def place(self, label: str) -> int:
        """Return the column of a system. Raises ValueError for an unknown name."""
        return self.systems.index(label)


def with_names(board: Board, names: Mapping[str, str]) -> Board:
    """Rename systems for readers: by their own name, or by their model's, which k follows (`GPT-5.2 (k=3)`)."""
    entrants = (replace(entrant, label=_called(entrant.label, names)) for entrant in board.entrants)
    return replace(board, entrants=tuple(with_distinct_labels(entrants)))


def _called(label: str, names: Mapping[str, str]) -> str:
    """Return a system's name; the mark of other roles (`+support-kimi`) stays."""
    base, plus, mark = label.partition("+")
    model, asked, k = base.rpartition("-k")
    if label in names:
        return names[label]
    if base in names:
        return names[base] + plus + mark
    if asked and model in names:
        return f"{names[model]} (k={k}){plus}{mark}"
    return label


def make_board(runs: Iterable[FinishedRun]) -> Board:
    """Build a board from runs, releasing each once it is read. Raises UsageError if two disagree about the nuggets."""
    rows, remarks = _Rows(), list[str]()
    found: dict[Path, tuple[FinishedRun, dict[str, _Column]]] = {}
    answers: dict[Path, _Answers] = {}
    for run in runs:
        columns = {judge: _Column() for judge in run.judges}
        answered = answers[run.directory] = _Answers()
        for item in run.items.values():
            row = rows.of(item)
            answered.add(row, item.answer_mark)
            for judge, verdict in item.verdicts.items():
                codes = rows.codes(row, verdict, run.directory)
                columns[judge].add(row, rows.score(row, verdict, run.directory), codes)
        remarks += (*run.contradictions, *run.remarks)
        found[run.directory] = replace(run, items={}), columns
    entrants = sorted(with_distinct_labels(run for run, _ in found.values()), key=_order)
    judges = _ranked_judges(entrants)
    order = _order_of_rows(rows)
    scores, labels = _filled(rows, order, judges, [found[entrant.directory][1] for entrant in entrants])
    marks = _filled_marks(order, [answers[entrant.directory] for entrant in entrants])
    if published := [entrant.label for entrant in entrants if entrant.as_published]:
        which = "all runs" if len(published) == len(entrants) else join_first(published)
        remarks.append(f"Made with --as-published: {which}.")
    if rows.differing:
        which = join_first(list(rows.differing.values()))
        remarks.append(
            f"Weights differ between runs, so not all were judged by the same gold: {which}. Scores are recomputed with "
            "the weights named first."
        )
    return Board(
        tuple(sorted(rows.names)),
        tuple(entrants),
        judges,
        scores,
        labels,
        tuple(remarks),
        marks,
        _nuggets_by_row(rows, order),
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
        self._by_id: dict[str, int] = {}
        self._by_query: dict[str, int] = {}
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def of(self, item: Item) -> int:
        """Return the item's row: by its id, or by its query if one of the files has no other id for it."""
        row = self._by_id.get(item.id)
        if row is None and item.id == item.intent:
            row = self._by_query.get(item.intent)
        elif row is None and (row := self._by_id.pop(item.intent, None)) is not None:
            self._by_id[item.id], self.names[row] = row, item.id
        if row is None:
            row = self._by_id[item.id] = len(self.names)
            self.names.append(item.id)
            self.nuggets.append(())
            self._weights.append(None)
            self._by_query.setdefault(item.intent, row)
        return row

    def codes(self, row: int, verdict: JudgedLabels, where: Path) -> list[int]:
        """Return the label codes in the order of the row's nuggets."""
        ids = tuple(verdict.coverage)
        if ids and not self.nuggets[row]:
            self.nuggets[row] = self._known.setdefault(ids, ids)
        nuggets = self.nuggets[row]
        if ids and ids != nuggets and set(ids) != set(nuggets):
            raise UsageError(
                f"{where}: {self.names[row]} was judged by other nuggets than in the other runs; "
                "compare runs with the same gold"
            )
        return [_CODES[verdict.coverage[id]] for id in nuggets] if ids else []

    def score(self, row: int, verdict: JudgedLabels, where: Path) -> float:
        """Return the score by the weights of the first run that has any: all runs are compared by one gold."""
        if not verdict.weights:  # a table of scores alone
            return verdict.score
        known, whose = self._weights[row] = self._weights[row] or (verdict.weights, where)
        if known == verdict.weights:
            return verdict.score
        if row not in self.differing:
            id = next(id for id in known if known[id] != verdict.weights[id])
            self.differing[row] = (
                f"nugget {id!r} of {self.names[row]!r} weighs {known[id]:g} in {whose} and "
                f"{verdict.weights[id]:g} in {where}"
            )
        return restore_score_100((known[id], label) for id, label in verdict.coverage.items())


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


def _order_of_rows(rows: _Rows) -> Array:
    """The rows in the order of their instances' names."""
    return np.array(sorted(range(len(rows.names)), key=rows.names.__getitem__), np.int64)


def _nuggets_by_row(rows: _Rows, order: Array) -> Array:
    return np.array([len(rows.nuggets[row]) for row in order], np.int64)


def _places(order: Array) -> Array:
    """For each row its place in that order."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _filled_marks(order: Array, columns: Sequence[_Answers]) -> Array:
    """The fingerprints of all answers, shape (instances, entrants); 0 where there is no answer."""
    places = _places(order)
    marks = np.zeros((len(order), len(columns)), np.int64)
    for number, column in enumerate(columns):
        marks[places[np.array(column.rows, np.int64)], number] = np.array(column.marks, np.int64)
    return marks


def _filled(
    rows: _Rows, order: Array, judges: Sequence[str], columns: Sequence[Mapping[str, _Column]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    place = _places(order)
    lengths = _nuggets_by_row(rows, order)
    starts = np.cumsum(lengths) - lengths
    scores = {judge: np.full((len(order), len(columns)), np.nan) for judge in judges}
    labels = {judge: np.full((int(lengths.sum()), len(columns)), NO_LABEL, np.int8) for judge in judges}
    for number, by_judge in enumerate(columns):
        for judge, column in by_judge.items():
            at = place[np.array(column.rows, np.int64)]
            scores[judge][at, number] = np.array(column.scores)
            n = np.array(column.lengths, np.int64)
            within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
            labels[judge][np.repeat(starts[at], n) + within, number] = np.array(column.codes, np.int8)
    return scores, labels


def _order(entrant: FinishedRun) -> tuple[int, int, str]:
    """Sort references first, then by budget and name."""
    reference = REFERENCES.index(entrant.system) if entrant.system in REFERENCES else 2
    return reference, entrant.k, entrant.label


def _ranked_judges(entrants: Sequence[FinishedRun]) -> tuple[str, ...]:
    """Order judges by how many runs they scored first, then by how many they judged at all."""
    first = Counter(entrant.judges[0] for entrant in entrants if entrant.judges)
    judged = Counter(judge for entrant in entrants for judge in entrant.judges)
    return tuple(sorted(judged, key=lambda judge: (-first[judge], -judged[judge], judge)))
