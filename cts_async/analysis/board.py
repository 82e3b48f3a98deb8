"""Scores and labels of many runs over the same instances, in arrays: 8 bytes per score, 1 per label.

Texts are dropped, so a board of a hundred thousand instances and many runs stays small. Rows are in the order of the
instances' names, whatever order they finished in: the same runs always make the same board.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.runs import FinishedRun, Item, Verdict, first_of, label_with_mark
from cts_async.errors import UsageError
from cts_async.records import Coverage
from cts_async.scorer import restore_score_100

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

LABELS: Final[tuple[Coverage, ...]] = ("none", "partial", "full")
"""A label is stored as its index in this tuple: ascending, as ordinal statistics need it."""
NO_LABEL: Final = -1
_CODES: Final[Mapping[str, int]] = {label: code for code, label in enumerate(LABELS)}


@dataclass(frozen=True, slots=True)
class Entrant:
    """A run on the board: its identity and its progress."""

    label: str
    """Its distinct name on the board."""
    system: str
    """Its name in its own manifest."""
    directory: Path
    clarifier: str
    """Empty for the reference points, and if unknown."""
    k: int
    support: str
    agent: str
    judges: tuple[str, ...]
    n_done: int
    n_failed: int
    n_expected: int
    judge_failures: Mapping[str, int]
    embedded: bool
    data: Mapping[str, Any]

    @property
    def n_missing(self) -> int:
        """Instances without a line yet."""
        return self.n_expected - self.n_done - self.n_failed

    def n_failed_under(self, judge: str) -> int:
        """Failed answers of a judge; an instance without an answer counts as failed under every judge."""
        return self.n_failed + self.judge_failures.get(judge, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """`scores[judge]` has the shape (instances, entrants), NaN for a missing score.

    `labels[judge]` has the shape (nuggets of all instances, entrants): indices of LABELS, or NO_LABEL.
    """

    ids: tuple[str, ...]
    entrants: tuple[Entrant, ...]
    judges: tuple[str, ...]
    """Most frequent scoring judge first."""
    scores: Mapping[str, Array]
    labels: Mapping[str, Array]
    remarks: tuple[str, ...] = ()
    """Facts about the runs' files that a reader of the scores has to know."""

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(entrant.label for entrant in self.entrants)

    def place(self, label: str) -> int:
        """Return the column of a system. Raises ValueError for an unknown name."""
        return self.systems.index(label)


def make_board(runs: Iterable[FinishedRun]) -> Board:
    """Build a board from runs, releasing each once it is read. Raises UsageError if two disagree about the nuggets."""
    rows, remarks = _Rows(), list[str]()
    found: list[tuple[Entrant, dict[str, _Column]]] = []
    for run in runs:
        columns = {judge: _Column() for judge in run.judges}
        for item in run.items.values():
            row = rows.of(item)
            for judge, verdict in item.verdicts.items():
                codes = rows.codes(row, verdict, run.directory)
                columns[judge].add(row, rows.score(row, verdict, run.directory), codes)
        remarks += run.remarks
        found.append((_entrant(run), columns))
    found = _named_apart(found)
    found.sort(key=lambda pair: _order(pair[0]))
    entrants = tuple(entrant for entrant, _ in found)
    judges = _ranked_judges(entrants)
    scores, labels = _filled(rows, judges, [columns for _, columns in found])
    remarks += rows.differing_weights()
    return Board(tuple(sorted(rows.names)), entrants, judges, scores, labels, tuple(remarks))


class _Rows:
    """Assigns rows to instances, and holds their nuggets and weights."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.nuggets: list[tuple[str, ...]] = []
        """By row; empty until a run has labels for it."""
        self._weights: list[tuple[Mapping[str, float], Path] | None] = []
        """By row, the weights that count and the run they are from."""
        self._differing: dict[int, str] = {}
        """The first difference of each row whose weights differ between runs."""
        self._by_id: dict[str, int] = {}
        self._by_query: dict[str, int] = {}
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def of(self, item: Item) -> int:
        """Return the item's row: by its id, or by its query if one of the files has no other id for it."""
        row = self._by_id.get(item.id)
        if row is None and item.id == item.fused_query:
            row = self._by_query.get(item.fused_query)
        elif row is None and (row := self._by_id.pop(item.fused_query, None)) is not None:
            self._by_id[item.id], self.names[row] = row, item.id
        if row is None:
            row = self._by_id[item.id] = len(self.names)
            self.names.append(item.id)
            self.nuggets.append(())
            self._weights.append(None)
            self._by_query.setdefault(item.fused_query, row)
        return row

    def codes(self, row: int, verdict: Verdict, where: Path) -> list[int]:
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

    def score(self, row: int, verdict: Verdict, where: Path) -> float:
        """Return the score by the weights of the first run that has any: all runs are compared by one gold."""
        if not verdict.weights:  # a table of scores alone
            return verdict.score
        known, whose = self._weights[row] = self._weights[row] or (verdict.weights, where)
        if known == verdict.weights:
            return verdict.score
        if row not in self._differing:
            id = next(id for id in known if known[id] != verdict.weights[id])
            self._differing[row] = (
                f"nugget {id!r} of {self.names[row]!r} weighs {known[id]:g} in {whose} and "
                f"{verdict.weights[id]:g} in {where}"
            )
        return restore_score_100((known[id], label) for id, label in verdict.coverage.items())

    def differing_weights(self) -> list[str]:
        """Describe weights that differ between runs."""
        if not self._differing:
            return []
        texts = [self._differing[row] for row in sorted(self._differing, key=self.names.__getitem__)]
        return [
            f"Weights differ between runs, so not all were judged by the same gold: {first_of(texts)}. Scores are "
            "recomputed with the weights named first."
        ]


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


def _filled(
    rows: _Rows, judges: Sequence[str], columns: Sequence[Mapping[str, _Column]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    import numpy as np

    order = np.array(sorted(range(len(rows.names)), key=rows.names.__getitem__), np.int64)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    lengths = np.array([len(rows.nuggets[row]) for row in order], np.int64)
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


def _entrant(run: FinishedRun) -> Entrant:
    return Entrant(
        label=run.label,
        system=run.label,
        directory=run.directory,
        clarifier=run.clarifier,
        k=run.k,
        support=run.players.get("support", ""),
        agent=run.players.get("agent", ""),
        judges=run.judges,
        n_done=len(run.items),
        n_failed=run.n_failed,
        n_expected=run.n_expected,
        judge_failures=run.judge_failures,
        embedded=run.embedded,
        data=run.data,
    )


Found = tuple[Entrant, dict[str, _Column]]


def _named_apart(found: Sequence[Found]) -> list[Found]:
    """Rename systems of equal names: by the mark of the directory (`+support-gpt`), its name, or its path."""
    for name in (
        lambda e: label_with_mark(e.label, e.directory),
        lambda e: e.directory.name,
        lambda e: str(e.directory),
    ):
        times = Counter(entrant.label for entrant, _ in found)
        found = [(e if times[e.label] == 1 else replace(e, label=name(e)), columns) for e, columns in found]
    return list(found)


def _order(entrant: Entrant) -> tuple[int, int, str]:
    """Sort references first, then by budget and name."""
    reference = ("orig", "gold").index(entrant.system) if entrant.system in ("orig", "gold") else 2
    return reference, entrant.k, entrant.label


def _ranked_judges(entrants: Sequence[Entrant]) -> tuple[str, ...]:
    """Order judges by how many runs they scored first, then by how many they judged at all."""
    first = Counter(entrant.judges[0] for entrant in entrants if entrant.judges)
    judged = Counter(judge for entrant in entrants for judge in entrant.judges)
    return tuple(sorted(judged, key=lambda judge: (-first[judge], -judged[judge], judge)))
