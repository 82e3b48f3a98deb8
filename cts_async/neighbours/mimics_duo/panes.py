"""Clarification panes with labels: MIMICS-Duo (Tavakoli et al., SIGIR 2022), and tables in the format of MIMICS.

MIMICS-Duo is four TSV files with a row for each pane in each. The n-th row of each file is the same query, question and
options, and the rows of a query are contiguous. Cells are read without quoting. An empty option is missing, and then so
are its quality label and its clicks. Column names are compared by their letters and digits: the README and the files
differ in them, and the README has the descriptions of pane and option quality the wrong way round.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from cts_async.datasets.inspect import Contents, Inspected, Item, spread
from cts_async.datasets.io import (
    MAX_LINE_BYTES,
    TSV_SUFFIXES,
    Row,
    earlier_line,
    kind_of,
    listed,
    read_rows,
    read_tsv,
    short,
)
from cts_async.errors import InputError, UsageError

Impression: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Pane:
    """A clarification pane that a search engine showed for a query, with its online signals and workers' labels.

    MIMICS-Duo (Tavakoli et al., SIGIR 2022): the first three numbers are online signals, the others labels from
    1 to 5 by majority vote. Values of the options are in their order, from left to right.
    """

    query: str
    question: str
    options: tuple[str, ...]
    """The candidate answers, 2 to 5."""
    impression_level: Impression
    """How often the pane was shown."""
    engagement_level: int
    """Total click-through rate, 0 to 10; 0 is no click at all."""
    click_probabilities: tuple[float, ...]
    """Of each option, given that the pane was clicked, in [0, 1]."""
    offline_rating: int
    """Stars, given in comparison with the query's other panes (task 1)."""
    pane_quality: int
    """From very bad to very good (task 2)."""
    option_qualities: tuple[int, ...]
    coverage: int
    """This and the three below: how far a worker agrees that the pane has it (task 3)."""
    diversity: int
    understandability: int
    importance_order: int
    """The options are in the order of their importance."""


# --- MIMICS-Duo ------------------------------------------------------------------------------------------

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

    UsageError if there is no such directory; InputError, with file and line, for a file or column that is
    missing, rows that differ between the files, a pane that occurs twice, a query whose panes are not contiguous, fewer
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
    """Refuses repeated panes, and queries whose panes are not contiguous."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._panes: dict[str, int] = {}
        self._queries: dict[str, int] = {}
        self._query: str | None = None

    def check(self, cells: _Cells) -> None:
        key = "\t".join(cells.row[column] for column in _KEY)
        if (first := earlier_line(self._panes, key, cells.line)) is not None:
            raise cells.error(None, f"is the same pane as line {first}")
        query = cells.row["query"]
        if query != self._query and (first := earlier_line(self._queries, query, cells.line)) is not None:
            problem = f"the panes of {short(query)} are not contiguous: they begin at line {first}"
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


# --- Scores by which to rank panes -----------------------------------------------------------------------

_MANY: Final = 3


def numbered(panes: Iterable[Pane]) -> Iterator[tuple[int, Pane]]:
    """Each pane with its number among its query's, from 1."""
    number, query = 0, None
    for pane in panes:
        number = number + 1 if pane.query == query else 1
        query = pane.query
        yield number, pane


def as_records(panes: Iterable[Pane]) -> Iterator[dict[str, Any]]:
    """Each pane as a JSON object: its query, its number, and then its other fields by their names."""
    for number, pane in numbered(panes):
        fields = {field.name: getattr(pane, field.name) for field in dataclasses.fields(pane)}
        yield {"query": fields.pop("query"), "pane": number, **fields}


def read_pane_scores(
    path: Path, panes: Sequence[Pane], *, max_line_bytes: int = MAX_LINE_BYTES
) -> list[float]:
    """The score of each of `panes`, in their order, from JSON Lines, CSV or TSV with query, pane and score.

    `pane` is the number of the pane among its query's, from 1, as `as_records` gives it; `question` will do where one
    pane of the query has it. Lines may come in any order. InputError, with file and line, for a missing column, a query
    or pane that is not there, a pane scored twice, a score that is no finite number, and panes that have none.
    """
    places = _Places(panes)
    scores: list[float | None] = [None] * len(panes)
    lines: dict[int, int] = {}
    for line, row in _rows(path, max_line_bytes):
        place = places.of(path, line, row)
        if place in lines:
            problem = f"scores the pane of line {lines[place]} again"
            raise InputError(path, problem, line=line)
        lines[place] = line
        scores[place] = _score(path, line, row)
    found = [score for score in scores if score is not None]
    if len(found) < len(scores):
        raise InputError(path, places.unscored(scores))
    return found


class _Places:
    """Where in the list of panes a row's pane stands."""

    def __init__(self, panes: Sequence[Pane]) -> None:
        self._names = [(pane.query, number) for number, pane in numbered(panes)]
        self._by_number = {name: place for place, name in enumerate(self._names)}
        self._by_question: dict[tuple[str, str], list[int]] = {}
        for place, pane in enumerate(panes):
            self._by_question.setdefault((pane.query, pane.question), []).append(place)

    def of(self, path: Path, line: int, row: Row) -> int:
        query = _score_text(path, line, row, "query")
        if (query, 1) not in self._by_number:
            raise InputError(path, f"no pane is for {short(query)}", line=line, field="query")
        if row.get("pane") not in (None, ""):
            return self._numbered(path, line, query, row["pane"])
        if "question" in row:
            return self._by_text(path, line, query, _score_text(path, line, row, "question"))
        problem = "is empty" if "pane" in row else f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field="pane")

    def _numbered(self, path: Path, line: int, query: str, value: object) -> int:
        text = str(value).strip()
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
        place = self._by_number.get((query, number))
        if place is None:
            last = max(pane for name, pane in self._names if name == query)
            problem = f"must be a pane of {short(query)}, 1 to {last}, is {short(value)}"
            raise InputError(path, problem, line=line, field="pane")
        return place

    def _by_text(self, path: Path, line: int, query: str, question: str) -> int:
        places = self._by_question.get((query, question), [])
        if len(places) != 1:
            many = (
                f"{len(places)} panes of {short(query)} ask" if places else f"no pane of {short(query)} asks"
            )
            problem = f"{many} {short(question)}; say which by `pane`, its number among the query's, from 1"
            raise InputError(path, problem, line=line, field="question")
        return places[0]

    def unscored(self, scores: Sequence[float | None]) -> str:
        missing = [name for name, score in zip(self._names, scores, strict=True) if score is None]
        named = ", ".join(f"{short(query)} pane {number}" for query, number in missing[:_MANY])
        more = f" and {len(missing) - _MANY} more" if len(missing) > _MANY else ""
        return f"has no score for {named}{more}; every pane needs one"


def _rows(path: Path, max_line_bytes: int) -> Iterator[tuple[int, Row]]:
    if path.suffix.lower() in TSV_SUFFIXES:
        return read_tsv(path, quoting=False, max_line_bytes=max_line_bytes)
    return read_rows(path, max_line_bytes=max_line_bytes)


def _score_text(path: Path, line: int, row: Row, field: str) -> str:
    if field not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field=field)
    if not isinstance(row[field], str):
        raise InputError(path, f"must be text, is {kind_of(row[field])}", line=line, field=field)
    return str(row[field]).strip()


def _score(path: Path, line: int, row: Row) -> float:
    if "score" not in row:
        problem = f"is missing; the fields here are {listed(row)}"
        raise InputError(path, problem, line=line, field="score")
    value = row["score"]
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise InputError(path, f"must be a finite number, is {short(value)}", line=line, field="score")
    return score


# --- A table in the format of MIMICS (Zamani et al., CIKM 2020) ------------------------------------------

TABLE_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "engagement": ("engagement_level",),
    "quality": ("options_overall_label", "OverallClarificationPaneQuality"),
    "rating": ("offline rating",),
}
"""The columns of a label, in the order in which they are looked for."""


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A pane with the labels wanted, None where one is missing; a missing option is ""."""

    query: str
    question: str
    options: tuple[str, ...]
    labels: tuple[float | None, ...]


def read_pane_table(
    path: Path, labels: Sequence[str], *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[LabelledRow]:
    """Stream the rows of a table with these of the `TABLE_LABELS`.

    There is a row for each pane: MIMICS-ClickExplore has an engagement level, MIMICS-Manual an overall label of the
    options. Cells are read without quoting. A label may be missing in a row, and a pane may occur twice. InputError
    names file and line of what cannot be understood.
    """
    columns: list[str] | None = None
    for line, row in read_tsv(path, quoting=False, max_line_bytes=max_line_bytes):
        columns = columns or _columns(path, row, labels)
        query, question, *rest = (row[name].strip() for name in columns)
        for name, cell in (("query", query), ("question", question)):
            if not cell:
                raise InputError(path, "is empty", line=line, field=name)
        options, cells = rest[: len(_OPTIONS)], rest[len(_OPTIONS) :]
        found = [_number(path, line, *cell) for cell in zip(columns[-len(labels) :], cells, strict=True)]
        yield LabelledRow(query, question, tuple(options), tuple(found))
    if columns is None:
        raise InputError(path, "has no rows")


def _columns(path: Path, row: Row, labels: Sequence[str]) -> list[str]:
    """The names here of query, question, options and labels, in this order."""
    found = []
    for spellings in (
        ("query",),
        ("question",),
        *((name,) for name in _OPTIONS),
        *(TABLE_LABELS[one] for one in labels),
    ):
        name = next((name for name in spellings if name in row), None)
        if name is None:
            problem = f"is missing; the columns here are {listed(row)}"
            raise InputError(path, problem, line=1, field=" or ".join(spellings))
        found.append(name)
    return found


def _number(path: Path, line: int, column: str, cell: str) -> float | None:
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InputError(path, f"must be a number, is {short(cell)}", line=line, field=column)
    return value


# --- `cts data show | validate | convert mimics-duo:DIR` -------------------------------------------------


def open_panes(target: str, gold: Path | None = None) -> Inspected:
    """Open the panes in the folder `target` as items to inspect; there are no instances among them."""
    if not target:
        raise UsageError("mimics-duo needs a path: mimics-duo:DIR, the folder with its four TSV files")
    if gold is not None:
        raise UsageError("--gold: mimics-duo has no instances that nuggets could belong to")
    folder = Path(target).expanduser()
    paths = tuple(folder / name for name in FILES)
    contents, items = partial(pane_contents, folder), partial(_pane_items, folder)
    return Inspected("mimics-duo", "MIMICS-Duo", paths, contents, items)


def pane_contents(folder: Path) -> Contents:
    """What the four files hold, joined. Raises InputError."""
    panes, options, queries, clicked = 0, list[int](), set(), 0
    for pane in read_panes(folder):
        panes += 1
        options.append(len(pane.options))
        queries.add(hash(pane.query))
        clicked += pane.engagement_level > 0
    return Contents(
        {
            "panes": panes,
            "queries": len(queries),
            "options": {"total": sum(options), **spread(options)},
            "clicked": clicked,
            "files": len(FILES),
        }
    )


def _pane_items(folder: Path) -> Iterator[Item]:
    for number, pane in enumerate(read_panes(folder), start=1):
        yield {"id": str(number), **dataclasses.asdict(pane)}
