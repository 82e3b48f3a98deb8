"""MIMICS-Duo (Tavakoli et al., SIGIR 2022): four TSV files, a row for each pane in each, joined into panes.

The files go row by row: the n-th row of each is the same query, question and options, and a query's rows stand
together. Cells are read without quoting. An empty option is missing, and then so are its quality label and its
clicks. Names of columns are compared by their letters and digits: the README and the files differ in them, and
the README has the descriptions of pane and option quality the wrong way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeVar

from cts_async.datasets.fields import listed, short
from cts_async.datasets.lines import MAX_LINE_BYTES
from cts_async.datasets.rows import Row, read_tsv
from cts_async.datasets.unique import FirstLines
from cts_async.errors import InputError, UsageError
from cts_async.records import Impression, Pane

ONLINE, RATING, QUALITY, ASPECTS = FILES = (
    "Mimics-ClickExploreSampling.tsv",
    "Task1-OfflineRating.tsv",
    "Task2-QualityLabelling.tsv",
    "Task3-AspectLabelling.tsv",
)
"""The files as the repository has them, github.com/Leila-Ta/MIMICS-Duo."""

SLOTS: Final = range(1, 6)
"""A pane has room for five options."""
_OPTIONS: Final = tuple(f"option_{slot}" for slot in SLOTS)
_CLICKS: Final = tuple(f"option_cctr_{slot}" for slot in SLOTS)
_QUALITIES: Final = tuple(f"Quality_Option{slot}" for slot in SLOTS)
_KEY: Final = ("query", "question", *_OPTIONS)
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    ONLINE: (*_KEY, "impression_level", "engagement_level", *_CLICKS),
    RATING: (*_KEY, "offline rating"),
    QUALITY: (*_KEY, *_QUALITIES, "OverallClarificationPaneQuality"),
    ASPECTS: (*_KEY, "Coverage", "Diversity", "Understandability", "Importance Order"),
}
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "offline rating": ("rating",),
    "OverallClarificationPaneQuality": ("overall quality", "pane quality"),
    "Importance Order": ("candidate answer order", "answer order", "order"),
}
_IMPRESSIONS: Final[Mapping[str, Impression]] = {"low": "low", "medium": "medium", "high": "high"}
_LABELS: Final = {str(label): label for label in range(1, 6)}
_LEVELS: Final = {str(level): level for level in range(11)}

T = TypeVar("T")


def read_panes(folder: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Pane]:
    """Stream the panes of a directory with the four files, in file order.

    UsageError where there is no such directory; InputError, with file and line, for a file or column that is
    missing, rows that differ between the files, a pane that stands twice, a query whose panes stand apart, fewer
    than two options, or a label, level or probability out of its range.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: no such directory; name the one with {FILES[0]} and its like, "
            "from https://github.com/Leila-Ta/MIMICS-Duo"
        )
    paths = [folder / name for name in FILES]
    streams = [_cells(path, max_line_bytes) for path in paths]
    seen = _Seen(paths[0])
    last: list[_Cells] = []
    for row in zip_longest(*streams):
        online, rating, quality, aspects = last = _aligned(paths, row)
        seen.check(online)
        yield _pane(online, rating, quality, aspects)
    if not last:
        raise InputError(paths[0], "has no rows")


@dataclass(frozen=True, slots=True)
class _Cells:
    """One row of one file, by the columns' names in _COLUMNS, without outer white space."""

    path: Path
    line: int
    row: Mapping[str, str]

    def one_of(self, allowed: Mapping[str, T], column: str, what: str) -> T:
        value = allowed.get(self.row[column].casefold())
        if value is None:
            raise self.error(column, f"must be {what}, is {short(self.row[column])}")
        return value

    def label(self, column: str) -> int:
        return self.one_of(_LABELS, column, "a label from 1 to 5")

    def probability(self, column: str) -> float:
        try:
            value = float(self.row[column])
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1:
            raise self.error(column, f"must be a probability from 0 to 1, is {short(self.row[column])}")
        return value

    def error(self, column: str | None, problem: str) -> InputError:
        return InputError(self.path, problem, line=self.line, field=column)


def _cells(path: Path, max_line_bytes: int) -> Iterator[_Cells]:
    names: Mapping[str, str] | None = None
    for line, row in read_tsv(path, quoting=False, max_line_bytes=max_line_bytes):
        names = names or _names(path, row)
        yield _Cells(path, line, {ours: row[theirs].strip() for ours, theirs in names.items()})


def _names(path: Path, row: Row) -> Mapping[str, str]:
    """What this file calls our columns."""
    theirs = {_fold(name): name for name in reversed(row)}
    found = {}
    for column in _COLUMNS[path.name]:
        spellings = (column, *_ALSO.get(column, ()))
        name = next((theirs[_fold(one)] for one in spellings if _fold(one) in theirs), None)
        if name is None:
            raise InputError(path, f"is missing; the columns here are {listed(row)}", line=1, field=column)
        found[column] = name
    return found


def _fold(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def _aligned(paths: list[Path], row: tuple[_Cells | None, ...]) -> list[_Cells]:
    """The four files' rows of one pane; InputError where one has ended or is of another pane."""
    there = [cells for cells in row if cells is not None]
    first = there[0]
    for path, cells in zip(paths, row, strict=True):
        if cells is None:
            problem = f"ends too early: {first.path.name} goes on at line {first.line}"
            raise InputError(path, problem)
        for column in _KEY:
            if cells.row[column] != first.row[column]:
                here, there_is = (short(one.row[column], 200) for one in (cells, first))
                problem = (
                    f"is {here} where {first.path.name}:{first.line} has {there_is}; "
                    "the four files must have the same panes in the same order"
                )
                raise cells.error(column, problem)
    return there


class _Seen:
    """Refuses a pane that stands twice, and a query whose panes do not stand together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._panes, self._queries = FirstLines(), FirstLines()
        self._query: str | None = None

    def check(self, cells: _Cells) -> None:
        key = "\t".join(cells.row[column] for column in _KEY)
        if (first := self._panes.add(key, cells.line)) is not None:
            raise cells.error(None, f"is the same pane as line {first}")
        query = cells.row["query"]
        if query != self._query and (first := self._queries.add(query, cells.line)) is not None:
            problem = f"the panes of {short(query)} do not stand together: they begin at line {first}"
            raise cells.error("query", problem)
        self._query = query


def _pane(online: _Cells, rating: _Cells, quality: _Cells, aspects: _Cells) -> Pane:
    for column in ("query", "question"):
        if not online.row[column]:
            raise online.error(column, "is empty")
    options = _options(online)
    clicks = tuple(online.probability(column) for column in _CLICKS)
    if any(clicks[len(options) :]):
        raise online.error(_CLICKS[len(options)], "has clicks on an option that is missing")
    aspect = partial(_Cells.label, aspects)
    return Pane(
        query=online.row["query"],
        question=online.row["question"],
        options=options,
        impression_level=online.one_of(_IMPRESSIONS, "impression_level", "low, medium or high"),
        engagement_level=online.one_of(_LEVELS, "engagement_level", "a level from 0 to 10"),
        click_probabilities=clicks[: len(options)],
        offline_rating=rating.label("offline rating"),
        pane_quality=quality.label("OverallClarificationPaneQuality"),
        option_qualities=_option_qualities(quality, len(options)),
        coverage=aspect("Coverage"),
        diversity=aspect("Diversity"),
        understandability=aspect("Understandability"),
        importance_order=aspect("Importance Order"),
    )


def _options(cells: _Cells) -> tuple[str, ...]:
    options = tuple(cells.row[column] for column in _OPTIONS)
    there = options.index("") if "" in options else len(options)
    if there < 2:
        raise cells.error(_OPTIONS[there], "is missing: a pane has at least two options")
    if any(options[there:]):
        raise cells.error(_OPTIONS[there], "is missing, and an option follows")
    return options[:there]


def _option_qualities(cells: _Cells, n_options: int) -> tuple[int, ...]:
    for column in _QUALITIES[n_options:]:
        if cells.row[column]:
            raise cells.error(column, f"labels an option that is missing: {short(cells.row[column])}")
    return tuple(cells.label(column) for column in _QUALITIES[:n_options])
