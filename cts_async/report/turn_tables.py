"""Table 8 of AT-CoT (SIGIR 2025) as tables: retrieval by turn, scheme and mode, and the tests behind the marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from cts_async.analysis.generation import ALPHA
from cts_async.analysis.turn_retrieval import NOBODY_ASKED, Cell, SchemeTest, TurnRetrieval, mean_of
from cts_async.records import SCHEMES, Mode
from cts_async.report.generation_tables import MARKS
from cts_async.report.tables import Column, DataTable, Row, Show, number, text

_Published = Mapping[tuple[int, str], tuple[float, float]]
PUBLISHED_09_12: Final[_Published] = {
    (0, NOBODY_ASKED): (0.123, 0.123),
    (1, "standard"): (0.161, 0.232),
    (1, "at-standard"): (0.165, 0.230),
    (1, "cot"): (0.174, 0.238),
    (1, "at-cot"): (0.188, 0.244),
    (2, "standard"): (0.152, 0.223),
    (2, "at-standard"): (0.149, 0.228),
    (2, "cot"): (0.160, 0.226),
    (2, "at-cot"): (0.176, 0.233),
    (3, "standard"): (0.141, 0.212),
    (3, "at-standard"): (0.149, 0.213),
    (3, "cot"): (0.148, 0.216),
    (3, "at-cot"): (0.152, 0.213),
}
"""nDCG@10 on TREC Web Track 2009-2012, whose topics Qulac has: by turn and scheme (select, respond)."""
_PUBLISHED_MODES: Final[tuple[Mode, Mode]] = ("select", "respond")
PUBLISHED_MEASURE: Final = "nDCG@10"


def turn_tables(found: TurnRetrieval, caption: str, *, published: bool = False) -> Iterator[DataTable]:
    """A table for each measure, then the tests, which are not printed but are in JSON and CSV.

    `caption` says what was searched and who judged, in every row as well: a file by itself has to tell stand-in
    judgments from people's. With `published`, the paper's values stand beside nDCG@10.
    Nothing where no conversation made a query.
    """
    if not found.cells:
        return
    for measure in found.measures:
        yield turn_table(found, measure, caption, published=published and measure == PUBLISHED_MEASURE)
    tests = [*found.tests, *found.gains]
    columns = tuple(Column(name, text(name)) for name in SchemeTest.__slots__)
    rows = [asdict(test) | {"judgments": caption} for test in tests]
    yield DataTable(
        "turn_tests", "Paired t-tests", f"Holm within each measure; {caption}", columns, rows, shown=0
    )


def turn_table(found: TurnRetrieval, measure: str, caption: str, *, published: bool) -> DataTable:
    """Rows by turn and scheme, a column for each mode, and how many instances each mean is over."""
    modes = tuple(dict.fromkeys(cell.mode for cell in found.cells))
    rows = [{**row, "judgments": caption} for row in _rows(found, measure, modes, published=published)]
    columns = [
        Column("turn", lambda row: "" if row["turn"] == 0 else str(row["turn"])),
        Column("scheme", text("scheme"), numeric=False),
    ]
    for mode in modes:
        columns += [Column(mode, _marked(mode)), Column("n", _count(mode))]
        if published and mode in _PUBLISHED_MODES:
            columns.append(Column("paper", number(f"{mode}_published", ".3f")))
    legend = ", ".join(f"{mark} {scheme}" for scheme, mark in MARKS.items() if found.has(scheme))
    return DataTable(
        name=f"turns_{measure}",
        title=f"Retrieval by turn, {measure} (table 8)",
        caption=caption + (f"; better at p < {ALPHA} than: {legend}" if legend else ""),
        columns=columns,
        rows=rows,
        group="turn",
    )


def _rows(found: TurnRetrieval, measure: str, modes: Sequence[Mode], *, published: bool) -> Iterator[Row]:
    without = found.without[measure]
    first: dict[str, Any] = {"turn": 0, "scheme": NOBODY_ASKED}
    for mode in modes:
        first |= {mode: mean_of(without), f"{mode}_n": len(without), f"{mode}_over": []}
    yield first | (_published(0, NOBODY_ASKED, modes) if published else {})
    for turn in sorted({cell.turn for cell in found.cells}):
        for scheme in SCHEMES:
            cells = {mode: found.cell(mode, turn, scheme) for mode in modes}
            if any(cells.values()):
                row: dict[str, Any] = {"turn": turn, "scheme": scheme}
                for mode, cell in cells.items():
                    row |= _cell(found, measure, mode, cell)
                yield row | (_published(turn, scheme, modes) if published else {})


def _cell(found: TurnRetrieval, measure: str, mode: Mode, cell: Cell | None) -> dict[str, Any]:
    if cell is None:
        return {mode: None, f"{mode}_n": 0, f"{mode}_over": []}
    over = list(found.better_than(measure, cell))
    return {mode: cell.mean(measure), f"{mode}_n": cell.n(measure), f"{mode}_over": over}


def _published(turn: int, scheme: str, modes: Sequence[Mode]) -> dict[str, Any]:
    values = dict(zip(_PUBLISHED_MODES, PUBLISHED_09_12.get((turn, scheme), (None, None)), strict=True))
    return {f"{mode}_published": values[mode] for mode in modes if mode in values}


def _marked(mode: str) -> Show:
    """A mean, and behind it room for three marks so that the numbers stand below each other."""

    def show(row: Row) -> str:
        if row[mode] is None:
            return "-" + " " * len(MARKS)
        marks = "".join(mark for scheme, mark in MARKS.items() if scheme in row[f"{mode}_over"])
        return f"{row[mode]:.3f}{marks:<{len(MARKS)}}"

    return show


def _count(mode: str) -> Show:
    return lambda row: str(row[f"{mode}_n"])
