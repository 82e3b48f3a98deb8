"""One TSV in the format of MIMICS (Zamani et al., CIKM 2020): a row for each clarification pane, with labels.

MIMICS-ClickExplore has an engagement level, MIMICS-Manual an overall label of the options; cells are read without
quoting, as MIMICS-Duo has them. A label may be missing in a row, and a pane may stand twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Final

from cts_async.datasets.fields import listed, short
from cts_async.datasets.lines import MAX_LINE_BYTES
from cts_async.datasets.rows import Row, read_tsv
from cts_async.errors import InputError

LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "engagement": ("engagement_level",),
    "quality": ("options_overall_label", "OverallClarificationPaneQuality"),
    "rating": ("offline rating",),
}
"""The columns a label may stand in, best first."""
_OPTIONS: Final = tuple(f"option_{slot}" for slot in range(1, 6))


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A pane with the labels that were asked for, None where one is missing; a missing option is ""."""

    query: str
    question: str
    options: tuple[str, ...]
    labels: tuple[float | None, ...]


def read_pane_table(
    path: Path, labels: Sequence[str], *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[LabelledRow]:
    """Stream the rows with these of the `LABELS`. InputError names file and line of what cannot be understood."""
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
        *(LABELS[one] for one in labels),
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
