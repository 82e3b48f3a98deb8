"""Every table that a report has, under names that no other has, in the groups that they are read in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from cts_async.report import run_tables
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.comparison_tables import Told, judged_tables, judges_tables
from cts_async.report.data_table import DataTable, Row
from cts_async.report.diagnosis import tables_of
from cts_async.report.gathered import Gathered
from cts_async.report.run_tables import Named
from cts_async.report.table import SMOKE_TEST
from cts_async.report.talk_report import conversations_table

Group: TypeAlias = Literal["runs", "scores", "judges", "questions", "effort", "failures", "conversations"]

_SCORED: Final = frozenset({"scores", "judges", "questions", "effort", "conversations"})
_UNUSUAL: Final = re.compile(r"[^\w.-]+")
_NAME_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Grouped:
    """A table with what is to be read after it, and where it belongs."""

    group: Group
    told: Told


def all_tables(gathered: Gathered) -> tuple[Grouped, ...]:
    """The tables that have rows. Names are distinct, and good for files and anchors."""
    found = [_marked(one, gathered) for one in _every(gathered) if one.told.table.rows]
    taken: set[str] = set()
    return tuple(_called(one, _free(one.told.table.name, taken)) for one in found)


def named_runs(gathered: Gathered) -> Named:
    """The summaries, each under its system's name on the board."""
    labels = (
        {entrant.directory: entrant.label for entrant in gathered.board.entrants} if gathered.board else {}
    )
    return [(labels.get(run.directory, run.label), run) for run in gathered.summaries]


def _every(gathered: Gathered) -> Iterator[Grouped]:
    runs = named_runs(gathered)
    talks = [(talk.label, talk) for talk in gathered.talks]
    yield from _plain("runs", [run_tables.runs_table([*runs, *talks])])
    if gathered.compared:
        yield from _of_scores(gathered.compared)
    if gathered.diagnosis:
        yield from _plain("questions", tables_of(gathered.diagnosis.diagnosis))
    yield from _plain(
        "effort",
        [
            run_tables.effort_table(runs),
            run_tables.health_table(runs),
            run_tables.causes_table(runs),
            run_tables.served_table([*runs, *talks]),
        ],
    )
    yield from _plain("failures", [run_tables.failures_table([*runs, *talks])])
    if gathered.talks:
        yield from _plain("conversations", [conversations_table(gathered.talks)])
    if gathered.talked:
        yield from _plain("conversations", gathered.talked.tables)


def _of_scores(compared: RunsCompared) -> Iterator[Grouped]:
    first, *others = compared.judged
    yield from (Grouped("scores", told) for told in judged_tables(first, compared, all_pairs=True))
    yield from (Grouped("judges", told) for told in judges_tables(compared))
    for judged in others:
        yield from (Grouped("judges", told) for told in _of_judge(judged, compared))


def _of_judge(judged: Judged, compared: RunsCompared) -> Iterator[Told]:
    """A further judge's tables, with its name in theirs."""
    for told in judged_tables(judged, compared, all_pairs=True):
        table = told.table
        named = replace(
            table, name=f"{table.name}_{judged.judge}", title=f"{table.title}, judge {judged.judge}"
        )
        yield replace(told, table=named)


def _plain(group: Group, tables: Iterable[DataTable]) -> Iterator[Grouped]:
    return (Grouped(group, Told(table)) for table in tables)


def _marked(one: Grouped, gathered: Gathered) -> Grouped:
    """A table of scores that the embedded model played for says so, wherever it is taken; its rows do as well."""
    if one.group not in _SCORED or not gathered.embedded:
        return one
    played = _embedded_by_name(gathered)
    rows = [{**row, "smoke_test": _is_smoke(row, played)} for row in one.told.table.rows]
    table = replace(one.told.table, rows=rows)
    return replace(one, told=Told(table, (*one.told.remarks, smoke_test(gathered))))


def _is_smoke(row: Row, played: Mapping[str, bool]) -> bool:
    """Whether the embedded model played for a system that the row names; for some system, where it names none."""
    named = [played[value] for value in row.values() if isinstance(value, str) and value in played]
    return any(named) or not named


def _embedded_by_name(gathered: Gathered) -> dict[str, bool]:
    """Of every system whether the embedded model played for it."""
    runs = (*named_runs(gathered), *((talk.label, talk) for talk in gathered.talks))
    return {name: bool(run.manifest.get("embedded")) for name, run in runs}


def smoke_test(gathered: Gathered) -> str:
    """Which systems' scores say nothing, and why."""
    embedded = _embedded_by_name(gathered)
    played = [name for name, by_it in embedded.items() if by_it]
    whose = "" if len(played) == len(embedded) else f" It played for {', '.join(played)}."
    return SMOKE_TEST + whose


def _called(one: Grouped, name: str) -> Grouped:
    return replace(one, told=replace(one.told, table=replace(one.told.table, name=name)))


def _free(name: str, taken: set[str]) -> str:
    """`name` as a file may be called on any system, with a number where another table has it already."""
    usual = _UNUSUAL.sub("_", name).strip("._")[:_NAME_CHARS] or "table"
    free, n = usual, 2
    while free.casefold() in taken:
        free, n = f"{usual}_{n}", n + 1
    taken.add(free.casefold())
    return free
