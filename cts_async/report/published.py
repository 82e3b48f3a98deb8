"""Ours beside the paper's, for people and for programs: one sentence, a warning, and a table for each of the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from cts_async.analysis.published import SOURCE, BesidePaper, Published, beside_paper, paper
from cts_async.analysis.runs import ORIG, first_of
from cts_async.report.comparison import RunsCompared
from cts_async.report.diagnosis import board_interactions
from cts_async.report.tables import Column, DataTable, Row, number, text, text_columns, with_interval

_ONLY_IN: Final = {
    "turn": (5, 10),
    "judge": (9,),
    "published_low": (3,),
    "published_high": (3,),
}
"""Fields that other tables do not have."""
_REMARKS: Final = {
    8: "The paper's range is over seven models, ours over n; a range has no interval. At k = 2 the paper's own table 10 "
    "goes down to 0.787.",
    10: "At k = 1 it is table 5.",
    11: "The paper does not say at which k.",
}


def published_of(compared: RunsCompared) -> Published:
    """Compare the runs of a comparison with the paper, under its judges. Raises InputError."""
    judges = [one.judge for one in compared.judged]
    asked, _ = board_interactions(compared.board, None)
    return beside_paper(compared.board, asked, judges=judges, seed=compared.seed)


def sentence(found: Published) -> str:
    """Answer whether ours match the paper's values."""
    if not found.values:
        known = ", ".join(
            one["system"] for one in paper()["models"] if one["system"] != paper()["fixed"]["agent"]
        )
        return (
            f"Nothing to compare with the paper: none of these runs is {ORIG} with scores, or one of the Clarifiers "
            f"{known} at k = 1, 2 or 3 with answers."
        )
    counted = found.counted
    outside = [one for one in counted if not one.inside]
    if not counted:
        return "No value has an interval to compare with: one instance is not enough."
    inside = f"{len(counted) - len(outside)} of {len(counted)} published values lie in our 95 % intervals"
    inside += " (not comparable)" if found.departures else ""
    return f"{inside}; the others: {first_of([_named(one) for one in outside])}." if outside else f"{inside}."


def _named(one: BesidePaper) -> str:
    turn = "" if one.turn is None else f" turn {one.turn}"
    judge = "" if one.judge is None else f" by {one.judge}"
    k = f" k = {one.k}" if one.k else ""
    ours = f"{one.ours:.{one.decimals}f} [{one.low:.{one.decimals}f}, {one.high:.{one.decimals}f}]"
    return f"{one.system}{k}{turn} {one.measure}{judge} {one.published:.{one.decimals}f}, ours {ours}"


def published_lines(found: Published) -> Iterator[str]:
    """Yield the answer to "do I match the paper?", and a warning if the numbers are not comparable."""
    yield sentence(found)
    if found.departures:
        yield f"Not comparable with the paper: {'; '.join(found.departures)}."
    if found.other_models:
        yield f"Other Clarifiers than the paper's: {'; '.join(found.other_models)}."


def published_tables(found: Published) -> Iterator[DataTable]:
    """Yield a table for each table of the paper that ours has a value of, by its number and caption."""
    for table in sorted({one.table for one in found.values}):
        rows = [_row(one) for one in found.values if one.table == table]
        source = f"published: {SOURCE}, table {table}. in: the published value lies in our 95 % interval."
        columns = (
            *text_columns("system"),
            Column("k", lambda row: str(row["k"] or "-")),
            *(
                Column(name, text(name), numeric=name == "turn")
                for name in ("turn", "judge")
                if name in rows[0]
            ),
            *text_columns("measure"),
            Column("published", _published),
            Column("ours", _ours),
            Column("difference", _difference),
            Column("in", lambda row: {None: "-", True: "yes", False: "no"}[row["inside"]], numeric=False),
            Column("n", number("n", ",")),
            *text_columns("run"),
        )
        yield DataTable(
            f"published_{table}",
            f"Table {table} of the paper. {paper()['captions'][str(table)]}",
            source,
            columns,
            rows,
            group="run" if table != 9 else "judge",
            remarks=(_REMARKS[table],) if table in _REMARKS else (),
        )


def _row(one: BesidePaper) -> Row:
    fields = asdict(one) | {"difference": one.difference, "inside": one.inside}
    return {name: value for name, value in fields.items() if one.table in _ONLY_IN.get(name, (one.table,))}


def _published(row: Row) -> str:
    low, high = row.get("published_low"), row.get("published_high")
    return with_interval(row["published"], low, high, f".{row['decimals']}f")


def _ours(row: Row) -> str:
    return with_interval(row["ours"], row["low"], row["high"], f".{row['decimals']}f")


def _difference(row: Row) -> str:
    return format(row["difference"], f"+.{row['decimals']}f")


def published_json(found: Published) -> dict[str, Any]:
    """Return all numbers, unrounded."""
    counted = found.counted
    return {
        "source": SOURCE,
        "summary": sentence(found),
        "inside": sum(bool(one.inside) for one in counted),
        "counted": len(counted),
        "departures": list(found.departures),
        "other_models": list(found.other_models),
        "tables": {table.name: list(table.rows) for table in published_tables(found)},
    }
