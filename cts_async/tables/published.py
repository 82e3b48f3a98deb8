"""Ours beside the values of the paper's tables 2 to 11 (published.toml): one sentence, a warning, and tables.

A published value lies in our interval if a paper that had drawn other instances like ours could well have printed it.
Means, differences, percentiles and table 11 have bootstrap intervals (see `stats`); a share of instances with one
answer each has Wilson's, which also holds where the share is 0 or 1. All are 95 % intervals, widened by half a unit of
the last printed digit.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.board import Array, Board
from cts_async.analysis.compare import leaderboard
from cts_async.analysis.interactions import (
    Interactions,
    count_unknowns,
    region_turns,
    unknown_ranges,
)
from cts_async.analysis.stability import stability_intervals
from cts_async.analysis.stats import Difference, paired_difference, percentile_interval, wilson
from cts_async.runs.finished import ORIG, FinishedRun, first_of, read_run
from cts_async.tables.comparison import RunsCompared
from cts_async.tables.diagnosis import board_interactions
from cts_async.tables.table import Column, DataTable, Row, Show, number, text, text_columns, with_interval

DATA: Final = "hard518"
SOURCE: Final = "Huang et al., KDD 2026"


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """One published value and ours: points of restore_score_100, shares in 0..1, or counts."""

    table: int
    """Its table in the paper."""
    system: str
    """The paper's name."""
    k: int
    """0 for orig."""
    run: str
    """Our run or runs."""
    measure: str
    published: float
    ours: float
    low: float | None
    """Our 95 % interval; None if there is none."""
    high: float | None
    n: int
    """What ours is taken over: instances, questions about a region (tables 5 and 10), systems (table 8)."""
    turn: int | None = None
    judge: str | None = None
    published_low: float | None = None
    """The paper's own interval (table 3)."""
    published_high: float | None = None
    decimals: int = 3
    """Printed decimals."""
    repeated: bool = False
    """True for what an earlier table has already: it is counted once."""

    @property
    def difference(self) -> float:
        return self.ours - self.published

    @property
    def inside(self) -> bool | None:
        """True if the published value lies in our interval; None without one."""
        if self.low is None or self.high is None:
            return None
        half = 0.5 * 10.0**-self.decimals + 1e-9
        return self.low - half <= self.published <= self.high + half


@dataclass(frozen=True, slots=True)
class Published:
    """All values that could be compared, in the order of the tables, and why they may not be comparable."""

    values: tuple[PublishedValue, ...]
    departures: tuple[str, ...]
    """How data and fixed roles differ from the paper's, so that no value is comparable; empty if they do not."""
    other_models: tuple[str, ...] = ()
    """Clarifiers of a known name whose model is another than the paper's."""

    @property
    def counted(self) -> tuple[PublishedValue, ...]:
        """The values with an interval, each once."""
        return tuple(one for one in self.values if one.inside is not None and not one.repeated)

    @property
    def n_without_interval(self) -> int:
        """How many values could not be compared, each counted once."""
        return sum(value.inside is None and not value.repeated for value in self.values)


@cache
def paper() -> Mapping[str, Any]:
    """Return what published.toml holds."""
    text = Path(__file__).with_name("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def compare_with_paper(
    board: Board, interactions: Sequence[Interactions], *, judges: Sequence[str] = (), seed: int = 0
) -> Published:
    """Compare the runs of a board that are systems of the paper, under `judges` (all without any).

    `interactions` are those of the board's Clarifiers, by their labels. Raises InputError for a run that cannot be
    read (table 11).
    """
    runs, judges = _systems(board.entrants), judges or board.judges
    first = next((one for one in judges if called(one) == _fixed("judge")), next(iter(judges), ""))
    asked = {one.label: one for one in interactions}
    values = [
        *(_scores(board, runs, first, seed) if first else ()),
        *_questions(
            [(key, asked[run.label]) for key, group in runs.items() for run in group if run.label in asked]
        ),
        *(value for judge in judges for value in _judged(board, runs, judge, seed)),
        *_support(board.entrants, seed),
    ]
    used = [run for group in runs.values() for run in group]
    if not values:
        return Published((), ())
    others = {
        what: None
        for run in used
        for what in _other_model(run, "clarifier", run.players.get("clarifier", ""))
    }
    return Published(
        tuple(sorted(values, key=lambda one: one.table)),
        tuple(_departures(board, used, first)),
        tuple(others),
    )


# Who is who


def called(name: str, model: str | None = None) -> str | None:
    """Return the paper's name for a model by its name in the catalogue, or by its id; None for any other model."""
    ids = [one for one in (model, name.partition(":")[2] or name) if one]
    for one in paper()["models"]:
        if name in one["names"] or any(_is_model(id, one["ids"]) for id in ids):
            return str(one["system"])
    return None


def _is_model(id: str, known: Iterable[str]) -> bool:
    """True for one of the ids, behind a publisher's folder or not, with a date or not."""
    own = _folded(id.rpartition("/")[2])
    return any(re.fullmatch(rf"{re.escape(_folded(one))}(?:\d{{4,8}})?", own) for one in known)


def _folded(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


def _fixed(role: str) -> str:
    return str(paper()["fixed"][role])


def _system(run: FinishedRun) -> str | None:
    if run.system == ORIG and not run.clarifier:
        return ORIG
    if not run.clarifier:  # answers of others, named after their system: ebk1, gpt-k2
        return called(re.sub(r"[-_]?k[1-9]$", "", run.system)) if run.k else None
    unusual = run.clarifier != run.players.get("clarifier")
    return None if unusual else called(run.clarifier, run.models.get("clarifier"))


_Systems: TypeAlias = Mapping[tuple[str, int], Sequence[FinishedRun]]
"""Our runs by the paper's system and budget."""


def _systems(runs: Iterable[FinishedRun]) -> _Systems:
    """Group runs by the system and budget of the paper that they are, those with the most of its fixed roles only."""
    found: dict[tuple[str, int], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        name = _system(run)
        if name == ORIG or (name and run.k in (1, 2, 3)):
            found[name, run.k].append(run)
    for key, group in found.items():
        fewest = min(len(_other_roles(run)) for run in group)
        found[key] = [run for run in group if len(_other_roles(run)) == fewest]
    return dict(found)


_ROLES: Final = {"support": "support", "answerer": "support", "rewriter": "support", "agent": "agent"}
"""The paper's fixed roles by ours."""


def _other_roles(run: FinishedRun) -> dict[str, str]:
    """Return the players that are not the paper's, by role, as far as the run names them."""
    return {
        role: name
        for role, name in run.players.items()
        if role in _ROLES and called(name, run.models.get(role)) != _fixed(_ROLES[role])
    }


# Tables 2, 3, 6 and 9


def _scores(board: Board, runs: _Systems, judge: str, seed: int) -> Iterator[PublishedValue]:
    orig = next((run.label for run in runs.get((ORIG, 0), ())), "")
    standings = {one.system: one for one in leaderboard(board, judge, orig, seed=seed)}
    found: dict[str, dict[str, Difference | None]] = {}
    for run in (run for group in runs.values() for run in group if run.label in standings):
        summary, gain = standings[run.label].scores, standings[run.label].gain
        scores = _column(board, judge, run)
        found[run.label] = {
            "mean": paired_difference(scores, [0.0] * len(scores), seed=seed),
            "delta": gain,
            **{
                f"p{q}": Difference(
                    len(scores), value, *(percentile_interval(scores, q, seed=seed) or (None, None))
                )
                for q, value in ((50, summary.p50), (90, summary.p90))
                if value is not None
            },
        }
    for printed in paper()["scores"]:
        for run in _runs_of(printed, runs):
            for measure, ours in found.get(run.label, {}).items():
                yield from _value(printed, run.label, measure, ours)
    for printed in paper()["intervals"]:
        for run in _runs_of(printed, runs):
            gain = found.get(run.label, {}).get("delta")
            ends = {"published_low": printed["low"], "published_high": printed["high"]}
            yield from _value(printed, run.label, "delta", gain, **ends, repeated=True)


def _judged(board: Board, runs: _Systems, judge: str, seed: int) -> Iterator[PublishedValue]:
    """Table 9; of the paper's own judge table 2 has the same means."""
    for printed in paper()["judges"]:
        for run in _runs_of(printed, runs) if printed["judge"] == called(judge) else ():
            scores = _column(board, judge, run)
            ours = paired_difference(scores, [0.0] * len(scores), seed=seed)
            again = printed["judge"] == _fixed("judge")
            yield from _value(
                printed, run.label, "mean", ours, judge=printed["judge"], decimals=2, repeated=again
            )


def _column(board: Board, judge: str, run: FinishedRun) -> Array:
    column = board.scores[judge][:, board.place(run.label)]
    return column[~np.isnan(column)]


def _runs_of(printed: Mapping[str, Any], runs: _Systems) -> Sequence[FinishedRun]:
    return runs.get((printed["system"], printed["k"]), ())


def _value(
    printed: Mapping[str, Any], run: str, measure: str, ours: Difference | None, **more: Any
) -> Iterator[PublishedValue]:
    """Yield the comparison of one printed value, if it is printed and we have it."""
    if ours is not None and measure in printed:
        yield PublishedValue(
            table=printed["table"],
            system=printed["system"],
            k=printed["k"],
            run=run,
            measure=measure,
            published=printed[measure],
            ours=ours.mean,
            low=ours.low,
            high=ours.high,
            n=ours.n,
            **more,
        )


# Tables 4, 5, 7, 8 and 10

_Asked: TypeAlias = Sequence[tuple[tuple[str, int], Interactions]]
"""Questions and answers by system and budget."""


def _questions(asked: _Asked) -> Iterator[PublishedValue]:
    for key, system in asked:
        unknowns, turns = count_unknowns(system), region_turns(system)
        n_questions, about_region = (
            sum(getattr(turn, name) for turn in turns) for name in ("questions", "about_region")
        )
        for printed in _rows_of("answers", key):
            shares = {
                "ua_unknown_rate": _share(unknowns.unknown, unknowns.answers),
                "cq_region_rate": _share(about_region, n_questions),
            }
            for measure, share in shares.items():
                yield from _value(printed, system.label, measure, share)
        for printed in _rows_of("regions", key):
            for turn in (turn for turn in turns if turn.turn == printed["turn"]):
                only, unknown = turn.region_only, turn.region_only_unknown
                asked_for = _share(only, turn.questions, times=turn.questions)
                yield from _value(printed, system.label, "region_only", asked_for, turn=turn.turn, decimals=0)
                yield from _value(
                    printed, system.label, "region_only_unknown", _share(unknown, only), turn=turn.turn
                )
        for printed in _rows_of("known", key):
            for count, n in enumerate(unknowns.known_cnt):
                measure = f"known_cnt_{count}" if count else "all_unknown"
                # At k = 1 these are table 4's share of unknown answers, and what is left of it.
                yield from _value(
                    printed, system.label, measure, _share(n, unknowns.n), repeated=printed["k"] == 1
                )
    yield from _ranges(asked)


def _ranges(asked: _Asked) -> Iterator[PublishedValue]:
    """Table 8. The ends of a range over a few turns have no interval worth the name."""
    ranges = unknown_ranges(turn for _, system in asked for turn in region_turns(system))
    for printed in paper()["region_ranges"]:
        n = len({name for (name, k), _ in asked if k == printed["k"]})
        for measure, turn in zip(("lowest", "highest"), ranges.get(printed["k"], ()), strict=False):
            ours = None if turn.unknown_rate is None else Difference(n, turn.unknown_rate, None, None)
            yield from _value(printed, f"{turn.label}, turn {turn.turn}", measure, ours)


def _rows_of(name: str, key: tuple[str, int]) -> Iterator[Mapping[str, Any]]:
    return (row for row in paper()[name] if (row["system"], row["k"]) == key)


def _share(part: int, n: int, times: float = 1.0) -> Difference | None:
    """A share of n, or its multiple, with Wilson's interval."""
    interval = wilson(part, n)
    return interval and Difference(n, times * part / n, times * interval[0], times * interval[1])


# Table 11


def _support(runs: Sequence[FinishedRun], seed: int) -> Iterator[PublishedValue]:
    """Pairs of supporting models of one Clarifier, at the smallest k that has both: the paper does not say which."""
    played: dict[tuple[str, int], list[FinishedRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: "agent" in _other_roles(run)):
        support = run.players.get("support")
        if run.clarifier and support:
            names = _system(run), called(support, run.models.get("support"))
            played["{}-{}".format(*names), run.k].append(run)
    for printed in paper()["support"]:
        first, second = printed["pair"]
        k = min((k for name, k in played if name == first and (second, k) in played), default=None)
        if k is None:
            continue
        one, other = (read_run(played[name, k][0].directory, without=("answer",)) for name in (first, second))
        row = {**printed, "system": f"{first} vs. {second}", "k": k}
        where = f"{played[first, k][0].label}, {played[second, k][0].label}"
        for measure, ours in stability_intervals(one, other, seed=seed).items():
            yield from _value(row, where, measure, ours)


# How the runs differ from the paper's


def _departures(board: Board, runs: Sequence[FinishedRun], judge: str) -> Iterator[str]:
    """Yield what keeps the numbers from being comparable; the runs concerned are named where not all are."""

    def of(labels: Collection[str]) -> str:
        return "" if len(labels) == len(runs) else f" ({first_of(list(labels))})"

    names = {run.data.name for run in runs if run.data.name} - {DATA}
    if names:
        yield f"the data are {', '.join(sorted(names))} instead of Hard518"
    found: dict[str, list[str]] = defaultdict(list)
    models: dict[str, None] = {}
    for run in runs:
        n = len(_column(board, judge, run)) if judge in run.judges else run.n_done
        if n != paper()["n"]:
            found[f"n = {n} instead of {paper()['n']}"].append(run.label)
        for role, name in _other_roles(run).items():
            found[f"{role} {name} instead of {_fixed(_ROLES[role])}"].append(run.label)
        for role, name in run.players.items():
            if role in _ROLES or role == f"judge {judge}":
                models |= dict.fromkeys(_other_model(run, role, name))
    yield from (what + of(labels) for what, labels in found.items())
    if judge and called(judge) != _fixed("judge"):
        yield f"judge {judge} instead of {_fixed('judge')}"
    yield from models


def _other_model(run: FinishedRun, role: str, name: str) -> Iterator[str]:
    """Describe the model of a role that has a name of the paper's models, if its id is another's."""
    id = run.models.get(role)
    for one in paper()["models"]:
        if id and name in one["names"] and not _is_model(id, one["ids"]):
            yield f"{name} is {id} instead of {one['model']}"


def is_hard518(board: Board) -> bool:
    """True if a run is over as many instances as Hard518 has, and no run is over data of another name."""
    names = {run.data.name for run in board.entrants if run.data.name}
    return names <= {DATA} and any(run.n_expected == paper()["n"] for run in board.entrants)


# --- For people and for programs


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
    return compare_with_paper(compared.board, asked, judges=judges, seed=compared.seed)


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
        return "No value has an interval to compare with: that takes several instances that differ."
    inside = f"{len(counted) - len(outside)} of {len(counted)} published values lie in our 95 % intervals"
    if found.departures:
        inside += " (not comparable)"
    if outside:
        inside += f"; the others: {first_of([_named(one) for one in outside])}"
    if found.n_without_interval:
        inside += f"; {found.n_without_interval} more have no interval: too few instances, or all alike"
    return f"{inside}."


def _named(one: PublishedValue) -> str:
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
            Column("published", _with_ends("published", "published_")),
            Column("ours", _with_ends("ours", "")),
            Column("difference", lambda row: format(row["difference"], f"+.{row['decimals']}f")),
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


def _row(one: PublishedValue) -> Row:
    fields = asdict(one) | {"difference": one.difference, "inside": one.inside}
    return {name: value for name, value in fields.items() if one.table in _ONLY_IN.get(name, (one.table,))}


def _with_ends(name: str, ends: str) -> Show:
    """Show a value with the interval in the fields `ends`low and `ends`high, with the printed decimals."""
    return lambda row: with_interval(
        row[name], row.get(f"{ends}low"), row.get(f"{ends}high"), f".{row['decimals']}f"
    )


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
