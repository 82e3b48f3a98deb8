"""Clarification panes with labels: MIMICS-Duo (Tavakoli et al., SIGIR 2022), and tables in the format of MIMICS.

MIMICS-Duo is four TSV files with a row for each pane in each. The n-th row of each file is the same query, question and
options, and the rows of a query are contiguous. Cells are read without quoting. An empty option is missing, and then so
are its quality label and its clicks. Column names are compared by their letters and digits: the README and the files
differ in them, and the README has the descriptions of pane and option quality the wrong way round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, TypeAdapter

from cts_async.datasets.inspect import spread
from cts_async.datasets.io import TSV_SUFFIXES, read_rows, read_table, short
from cts_async.datasets.kinds import Contents, Inspected, Item
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import Text, checked, read_columns

Label: TypeAlias = Annotated[int, Field(ge=1, le=5)]
Probability: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Pane:
    """A clarification pane that a search engine showed for a query, with its online signals and workers' labels.

    MIMICS-Duo (Tavakoli et al., SIGIR 2022): the first three numbers are online signals, the others labels from
    1 to 5 by majority vote. Values of the options are in their order, from left to right.
    """

    query: Text
    question: Text
    options: Annotated[tuple[str, ...], Field(min_length=2)]
    """The candidate answers, 2 to 5."""
    impression_level: Literal["low", "medium", "high"]
    """How often the pane was shown."""
    engagement_level: Annotated[int, Field(ge=0, le=10)]
    """Total click-through rate, 0 to 10; 0 is no click at all."""
    click_probabilities: tuple[Probability, ...]
    """Of each option, given that the pane was clicked, in [0, 1]."""
    offline_rating: Label
    """Stars, given in comparison with the query's other panes (task 1)."""
    pane_quality: Label
    """From very bad to very good (task 2)."""
    option_qualities: tuple[Label, ...]
    coverage: Label
    """This and the three below: how far a worker agrees that the pane has it (task 3)."""
    diversity: Label
    understandability: Label
    importance_order: Label
    """The options are in the order of their importance."""


class PaneText(NamedTuple):
    """The text of a pane. A missing option is the empty string, or left out at the end."""

    query: str
    question: str
    options: tuple[str, ...]


# --- MIMICS-Duo ------------------------------------------------------------------------------------------

ONLINE, RATING, QUALITY, ASPECTS = FILES = (
    "Mimics-ClickExploreSampling.tsv",
    "Task1-OfflineRating.tsv",
    "Task2-QualityLabelling.tsv",
    "Task3-AspectLabelling.tsv",
)
"""The files as the repository has them, github.com/Leila-Ta/MIMICS-Duo."""

_OPTIONS: Final = tuple(f"option_{slot}" for slot in range(1, 6))
_CLICKS: Final = tuple(f"option_cctr_{slot}" for slot in range(1, 6))
_QUALITIES: Final = tuple(f"Quality_Option{slot}" for slot in range(1, 6))
_KEY: Final = ("query", "question") + _OPTIONS
"""The text of a pane, which every file has."""
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    ONLINE: ("impression_level", "engagement_level") + _CLICKS,
    RATING: ("offline_rating",),
    QUALITY: _QUALITIES + ("pane_quality",),
    ASPECTS: ("coverage", "diversity", "understandability", "importance_order"),
}
"""What each file has beside that, under our names."""
_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "offline_rating": ("offline rating", "rating"),
    "pane_quality": ("OverallClarificationPaneQuality", "overall quality", "pane quality"),
    "importance_order": ("importance order", "candidate answer order", "answer order", "order"),
}
"""Their spellings of the columns that we call otherwise."""
_PANE: Final = TypeAdapter(Pane)


def _spellings(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns to read, as `read_columns` takes them."""
    spellings: dict[str, tuple[str, ...]] = {}
    for name in names:
        spellings[name] = _SPELLINGS.get(name, (name,))
    return spellings


def _file_with(field: str) -> str:
    """Return the file that has a field of a pane; the first one for what all of them have."""
    # The one field of another file than the first that is made of several columns.
    if field == "option_qualities":
        return QUALITY
    for file, columns in _COLUMNS.items():
        if field in columns:
            return file
    return ONLINE


def read_panes(folder: Path) -> Iterator[Pane]:
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
    streams = []
    for name in FILES:
        columns = _spellings(_KEY + _COLUMNS[name])
        streams.append(read_columns(folder / name, columns, quoting=False))
    panes: set[PaneText] = set()
    queries: set[str] = set()
    current_query = ""
    # Not `zip`, which would drop the rows that a longer file has beyond the others.
    for rows in zip_longest(*streams):
        line, cells = _joined_row(folder, rows)
        pane = _pane(folder, line, cells)
        text = PaneText(pane.query, pane.question, pane.options)
        if text in panes:
            raise InputError(folder / ONLINE, "is the same pane as an earlier line", line=line)
        if pane.query in queries and pane.query != current_query:
            problem = f"the panes of {short(pane.query)} are not contiguous"
            raise InputError(folder / ONLINE, problem, line=line, field="query")
        panes.add(text)
        queries.add(pane.query)
        current_query = pane.query
        yield pane
    if not panes:
        raise InputError(folder / ONLINE, "has no rows")


def _joined_row(
    folder: Path, rows: Sequence[tuple[int, dict[str, str]] | None]
) -> tuple[int, dict[str, str]]:
    """The line and all cells of one pane; InputError where a file has ended or is of another pane."""
    present_rows = [row for row in rows if row is not None]
    # A file may have ended, but not all of them.
    line, expected = present_rows[0]
    joined: dict[str, str] = {}
    for name, row in zip(FILES, rows, strict=True):
        if row is None:
            raise InputError(folder / name, f"ends before line {line}, which another file has")
        line_in_file, cells = row
        for column in _KEY:
            if cells[column] != expected[column]:
                problem = f"is {short(cells[column])} where {ONLINE}:{line} has {short(expected[column])}; "
                problem += "the four files must have the same panes in the same order"
                raise InputError(folder / name, problem, line=line_in_file, field=column)
        joined |= cells
    return line, joined


def _pane(folder: Path, line: int, cells: dict[str, str]) -> Pane:
    """Check the cells of a row; InputError names the file that has the wrong one."""
    options = _options(cells)
    n = len(options)
    if "" in options:
        n = options.index("")
    for option, quality, clicks in zip(_OPTIONS[n:], _QUALITIES[n:], _CLICKS[n:], strict=True):
        # The release writes 0 or 0.0 for the clicks of a missing option.
        has_clicks = bool(cells[clicks].strip("0."))
        if cells[option] or cells[quality] or has_clicks:
            problem = "is missing, yet has a label or clicks, or an option after it"
            raise InputError(folder / ONLINE, problem, line=line, field=_OPTIONS[n])
    values: dict[str, Any] = dict(cells)
    for column in _OPTIONS + _CLICKS + _QUALITIES:
        del values[column]
    values["impression_level"] = cells["impression_level"].casefold()
    values["options"] = options[:n]
    values["click_probabilities"] = tuple(cells[column] for column in _CLICKS[:n])
    values["option_qualities"] = tuple(cells[column] for column in _QUALITIES[:n])
    try:
        return checked(_PANE, values, folder, line=line)
    except InputError as error:
        # A value of an option is named with its place: `option_qualities.2`.
        field, _, _ = (error.field or "").partition(".")
        raise InputError(folder / _file_with(field), error.problem, line=line, field=error.field) from None


def _options(cells: Mapping[str, str]) -> tuple[str, ...]:
    """All five options of a row, "" for a missing one."""
    return tuple(cells[column] for column in _OPTIONS)


# --- Scores by which to rank panes -----------------------------------------------------------------------


def numbered(panes: Iterable[Pane]) -> Iterator[tuple[int, Pane]]:
    """Each pane with its number among its query's, from 1."""
    for _, panes_of_query in groupby(panes, key=attrgetter("query")):
        yield from enumerate(panes_of_query, 1)


def as_records(panes: Iterable[Pane]) -> Iterator[dict[str, Any]]:
    """Each pane as a JSON object: its query, its number, and then its other fields by their names."""
    for number, pane in numbered(panes):
        record: dict[str, Any] = {"query": pane.query, "pane": number}
        for field in dataclasses.fields(pane):
            record[field.name] = getattr(pane, field.name)
        yield record


@dataclass(frozen=True, slots=True)
class _Score:
    """A line of a file of scores."""

    query: Text
    pane: int
    score: Annotated[float, Field(allow_inf_nan=False)]


_SCORE: Final = TypeAdapter(_Score)


def read_pane_scores(path: Path, panes: Sequence[Pane]) -> list[float]:
    """The score of each of `panes`, in their order, from JSON Lines, CSV or TSV with query, pane and score.

    `pane` is the number of the pane among its query's, from 1, as `as_records` gives it. Lines may come in any order.
    InputError, with file and line, for a missing column, a query or pane that is not there, a pane scored twice, a
    score that is no finite number, and panes that have none.
    """
    keys = [(pane.query, number) for number, pane in numbered(panes)]
    in_data = set(keys)
    scores: dict[tuple[str, int], float] = {}
    rows = read_rows(path)
    # A TSV is read as the release's files are: a quotation mark in a query is a character of it.
    if path.suffix.lower() in TSV_SUFFIXES:
        rows = read_table(path, "TSV", quoting=False)
    for line, row in rows:
        pane_score = checked(_SCORE, row, path, line=line)
        key = (pane_score.query, pane_score.pane)
        pane_name = f"pane {pane_score.pane} of {short(pane_score.query)}"
        if key not in in_data:
            problem = f"{pane_name} is not in the data: panes count from 1"
            raise InputError(path, problem, line=line, field="pane")
        if key in scores:
            raise InputError(path, f"{pane_name} is scored twice", line=line, field="pane")
        scores[key] = pane_score.score
    missing = [key for key in keys if key not in scores]
    if missing:
        query, number = missing[0]
        raise InputError(
            path, f"has no score for {len(missing):,} panes, the first is pane {number} of {short(query)}"
        )
    return [scores[key] for key in keys]


# --- A table in the format of MIMICS (Zamani et al., CIKM 2020) ------------------------------------------

TABLE_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "engagement": ("engagement_level",),
    "quality": ("options_overall_label", "OverallClarificationPaneQuality"),
    "rating": ("offline rating",),
}
"""The columns of a label, in the order in which they are looked for."""
_LABEL: Final = TypeAdapter(Annotated[float, Field(allow_inf_nan=False)])


def read_pane_table(path: Path, labels: Sequence[str]) -> Iterator[tuple[PaneText, list[float | None]]]:
    """Stream the panes of a table with these of the `TABLE_LABELS`; None for a label that a row does not have.

    There is a row for each pane: MIMICS-ClickExplore has an engagement level, MIMICS-Manual an overall label of the
    options. Cells are read without quoting. A pane may occur twice. InputError names file and line of what cannot be
    understood.
    """
    columns = _spellings(_KEY)
    for label in labels:
        columns[label] = TABLE_LABELS[label]
    line = 0
    for line, cells in read_columns(path, columns, quoting=False):
        if not (cells["query"] and cells["question"]):
            raise InputError(path, "query or question is empty", line=line)
        values: list[float | None] = []
        for label in labels:
            value = None
            if cells[label]:
                value = checked(_LABEL, cells[label], path, line=line)
            values.append(value)
        yield PaneText(cells["query"], cells["question"], _options(cells)), values
    if not line:
        raise InputError(path, "has no rows")


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
    queries: set[str] = set()
    n_options: list[int] = []
    n_clicked = 0
    for pane in read_panes(folder):
        queries.add(pane.query)
        n_options.append(len(pane.options))
        if pane.engagement_level > 0:
            n_clicked += 1
    options: dict[str, Any] = {"total": sum(n_options)}
    return Contents(
        {
            "panes": len(n_options),
            "queries": len(queries),
            "options": options | spread(n_options),
            "clicked": n_clicked,
            "files": len(FILES),
        }
    )


def _pane_items(folder: Path) -> Iterator[Item]:
    for number, pane in enumerate(read_panes(folder), start=1):
        item: dict[str, Any] = {"id": str(number)}
        yield item | dataclasses.asdict(pane)
