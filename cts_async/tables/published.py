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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.board import Array, Board
from cts_async.analysis.compare import Standing, leaderboard
from cts_async.analysis.interactions import (
    Interactions,
    count_unknowns,
    region_turns,
    unknown_ranges,
)
from cts_async.analysis.stability import stability_intervals
from cts_async.analysis.stats import Difference, paired_difference, percentile_interval, wilson
from cts_async.runs.finished import FinishedRun, read_run
from cts_async.runs.manifest import ORIG
from cts_async.runs.selection import join_first
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
        return tuple(value for value in self.values if value.inside is not None and not value.repeated)

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
    systems, judges = _systems(board.entrants), judges or board.judges
    judge = paper_judge(judges)
    values: list[PublishedValue] = []
    # Tables 2, 3 and 6 are under one judge; table 9 has both.
    if judge:
        values += _scores(board, systems, judge, seed)
    values += _questions(_questioned(systems, interactions))
    for any_judge in judges:
        values += _judged(board, systems, any_judge, seed)
    values += _support(board.entrants, seed)
    if not values:
        return Published((), ())
    runs: list[FinishedRun] = []
    other_models: dict[str, None] = {}
    for group in systems.values():
        for run in group:
            runs.append(run)
            other_models |= dict.fromkeys(_other_model(run, "clarifier", run.players.get("clarifier", "")))
    values.sort(key=lambda value: value.table)
    return Published(tuple(values), tuple(_departures(board, runs, judge)), tuple(other_models))


def paper_judge(judges: Sequence[str]) -> str:
    """Return the judge that is the paper's, else the first one; "" for none."""
    for judge in judges:
        if paper_name(judge) == _fixed("judge"):
            return judge
    # Another judge's values are shown all the same, with a warning: the user sees what departs from the paper.
    return next(iter(judges), "")


# Who is who


def paper_name(name: str, model: str | None = None) -> str | None:
    """Return the paper's name for a model by its name in the catalogue, or by its id; None for any other model."""
    _, _, typed_id = name.partition(":")
    ids = [typed_id or name]
    if model:
        ids.append(model)
    for paper_model in paper()["models"]:
        if name in paper_model["names"]:
            return str(paper_model["system"])
        # Other people's names say nothing: their model's id does.
        for id in ids:
            if _is_model(id, paper_model["ids"]):
                return str(paper_model["system"])
    return None


def _is_model(id: str, paper_ids: Iterable[str]) -> bool:
    """True for one of the ids, behind a publisher's folder or not, with a date or not."""
    _, _, without_folder = id.rpartition("/")
    folded = _folded(without_folder)
    for paper_id in paper_ids:
        if re.fullmatch(rf"{re.escape(_folded(paper_id))}(?:\d{{4,8}})?", folded):
            return True
    return False


def _folded(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


def _fixed(role: str) -> str:
    return str(paper()["fixed"][role])


def _system(run: FinishedRun) -> str | None:
    # The paper asks before the search, and rewrites the answers into the query.
    if run.asks_anew:
        return None
    if run.system == ORIG and not run.clarifier:
        return ORIG
    if not run.clarifier and not run.k:
        return None
    if not run.clarifier:  # answers of others, named after their system: ebk1, gpt-k2
        return paper_name(re.sub(r"[-_]?k[1-9]$", "", run.system))
    if run.clarifier != run.players.get("clarifier"):  # with prompts of the user's, or another scheme
        return None
    return paper_name(run.clarifier, run.models.get("clarifier"))


_Systems: TypeAlias = Mapping[tuple[str, int], Sequence[FinishedRun]]
"""Our runs by the paper's system and budget."""


def _systems(runs: Iterable[FinishedRun]) -> _Systems:
    """Group runs by the system and budget of the paper that they are, those with the most of its fixed roles only."""
    groups: dict[tuple[str, int], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        name = _system(run)
        # The paper's budgets; -k takes no other, but answers of others may have any in their names.
        if name == ORIG or (name and run.k in (1, 2, 3)):
            groups[name, run.k].append(run)
    systems: dict[tuple[str, int], list[FinishedRun]] = {}
    for key, group in groups.items():
        # Beside a run with the paper's supporting model, one with another model is no reproduction (table 11 has both).
        n_others = [len(_other_roles(run)) for run in group]
        systems[key] = [run for run, n in zip(group, n_others, strict=True) if n == min(n_others)]
    return systems


_ROLES: Final = {"support": "support", "answerer": "support", "rewriter": "support", "agent": "agent"}
"""The paper's fixed roles by ours."""


def _other_roles(run: FinishedRun) -> dict[str, str]:
    """Return the players that are not the paper's, by role, as far as the run names them."""
    players: dict[str, str] = {}
    for role, name in run.players.items():
        if role in _ROLES and paper_name(name, run.models.get(role)) != _fixed(_ROLES[role]):
            players[role] = name
    return players


# Tables 2, 3, 6 and 9


def _scores(board: Board, systems: _Systems, judge: str, seed: int) -> Iterator[PublishedValue]:
    orig = ""
    for run in systems.get((ORIG, 0), ()):
        orig = run.label
        break
    measures: dict[str, dict[str, Difference | None]] = {}
    runs: dict[str, FinishedRun] = {}
    for group in systems.values():
        for run in group:
            runs[run.label] = run
    for standing in leaderboard(board, judge, orig, seed=seed):
        run_of_paper = runs.get(standing.system)
        if run_of_paper is not None:
            scores = _column(board, judge, run_of_paper)
            measures[standing.system] = _measures(standing, scores, seed)
    for printed in paper()["scores"]:
        for run in _runs_of(printed, systems):
            for measure, value in measures.get(run.label, {}).items():
                yield from _value(printed, run.label, measure, value)
    for printed in paper()["intervals"]:
        for run in _runs_of(printed, systems):
            gain = measures.get(run.label, {}).get("delta")
            ends = {"published_low": printed["low"], "published_high": printed["high"]}
            # Table 2 has the same difference, without its interval.
            yield from _value(printed, run.label, "delta", gain, **ends, repeated=True)


def _measures(standing: Standing, scores: Array, seed: int) -> dict[str, Difference | None]:
    """Return what tables 2 and 6 print of a system, under the paper's names (`delta` is our gain)."""
    measures = {
        # An interval of the mean is that of the difference to 0.
        "mean": paired_difference(scores, [0.0] * len(scores), seed=seed),
        "delta": standing.gain,
    }
    for q, value in ((50, standing.scores.p50), (90, standing.scores.p90)):
        if value is not None:
            low, high = percentile_interval(scores, q, seed=seed) or (None, None)
            measures[f"p{q}"] = Difference(len(scores), value, low, high)
    return measures


def _judged(board: Board, systems: _Systems, judge: str, seed: int) -> Iterator[PublishedValue]:
    """Table 9; of the paper's own judge table 2 has the same means."""
    name = paper_name(judge)
    for printed in paper()["judges"]:
        if printed["judge"] != name:
            continue
        for run in _runs_of(printed, systems):
            scores = _column(board, judge, run)
            mean = paired_difference(scores, [0.0] * len(scores), seed=seed)
            repeated = name == _fixed("judge")
            yield from _value(printed, run.label, "mean", mean, judge=name, decimals=2, repeated=repeated)


def _column(board: Board, judge: str, run: FinishedRun) -> Array:
    column = board.scores[judge][:, board.place(run.label)]
    return column[~np.isnan(column)]


def _runs_of(printed: Mapping[str, Any], systems: _Systems) -> Sequence[FinishedRun]:
    return systems.get((printed["system"], printed["k"]), ())


def _value(
    printed: Mapping[str, Any], run: str, measure: str, estimate: Difference | None, **fields: Any
) -> Iterator[PublishedValue]:
    """Yield the comparison of one printed value, if it is printed and we have it."""
    if estimate is not None and measure in printed:
        yield PublishedValue(
            table=printed["table"],
            system=printed["system"],
            k=printed["k"],
            run=run,
            measure=measure,
            published=printed[measure],
            ours=estimate.mean,
            low=estimate.low,
            high=estimate.high,
            n=estimate.n,
            **fields,
        )


# Tables 4, 5, 7, 8 and 10

_Questioned: TypeAlias = Sequence[tuple[tuple[str, int], Interactions]]
"""Questions and answers by system and budget."""


def _questioned(systems: _Systems, interactions: Iterable[Interactions]) -> _Questioned:
    """Return the interactions of runs that are systems of the paper."""
    by_label = {interaction.label: interaction for interaction in interactions}
    questioned: list[tuple[tuple[str, int], Interactions]] = []
    for key, group in systems.items():
        for run in group:
            if run.label in by_label:
                questioned.append((key, by_label[run.label]))
    return questioned


def _questions(questioned: _Questioned) -> Iterator[PublishedValue]:
    for key, system in questioned:
        yield from _answer_shares(key, system)
        yield from _region_shares(key, system)
        yield from _known_counts(key, system)
    yield from _ranges(questioned)


def _answer_shares(key: tuple[str, int], system: Interactions) -> Iterator[PublishedValue]:
    """Table 4: the share of unknown answers, and of questions about a region."""
    unknowns = count_unknowns(system)
    n_questions = n_about_region = 0
    for turn in region_turns(system):
        n_questions += turn.questions
        n_about_region += turn.about_region
    for printed in _rows_of("answers", key):
        unknown_rate = _share(unknowns.unknown, unknowns.answers)
        yield from _value(printed, system.label, "ua_unknown_rate", unknown_rate)
        yield from _value(printed, system.label, "cq_region_rate", _share(n_about_region, n_questions))


def _region_shares(key: tuple[str, int], system: Interactions) -> Iterator[PublishedValue]:
    """Tables 5 and 10: questions about nothing but a region by turn, and the share of their answers that is unknown."""
    turns = {turn.turn: turn for turn in region_turns(system)}
    for printed in _rows_of("regions", key):
        turn = turns.get(printed["turn"])
        if turn is None:
            continue
        # Printed as a count, whose interval is that of the share.
        n_region = _share(turn.region_only, turn.questions, times=turn.questions)
        yield from _value(printed, system.label, "region_only", n_region, turn=turn.turn, decimals=0)
        unknown_rate = _share(turn.region_only_unknown, turn.region_only)
        yield from _value(printed, system.label, "region_only_unknown", unknown_rate, turn=turn.turn)


def _known_counts(key: tuple[str, int], system: Interactions) -> Iterator[PublishedValue]:
    """Table 7: the share of instances with 0, 1, ... known answers."""
    unknowns = count_unknowns(system)
    for printed in _rows_of("known", key):
        # At k = 1 these are table 4's share of unknown answers, and what is left of it.
        repeated = printed["k"] == 1
        for n_known, n_instances in enumerate(unknowns.known_cnt):
            measure = f"known_cnt_{n_known}"
            if n_known == 0:
                measure = "all_unknown"
            share = _share(n_instances, unknowns.n)
            yield from _value(printed, system.label, measure, share, repeated=repeated)


def _ranges(questioned: _Questioned) -> Iterator[PublishedValue]:
    """Table 8. The ends of a range over a few turns have no interval worth the name."""
    ranges = unknown_ranges(turn for _, system in questioned for turn in region_turns(system))
    for printed in paper()["region_ranges"]:
        systems: set[str] = set()
        for (name, k), _ in questioned:
            if k == printed["k"]:
                systems.add(name)
        for measure, turn in zip(("lowest", "highest"), ranges.get(printed["k"], ()), strict=False):
            if turn.unknown_rate is not None:
                end = Difference(len(systems), turn.unknown_rate, None, None)
                yield from _value(printed, f"{turn.label}, turn {turn.turn}", measure, end)


def _rows_of(table: str, key: tuple[str, int]) -> Iterator[Mapping[str, Any]]:
    for row in paper()[table]:
        if (row["system"], row["k"]) == key:
            yield row


def _share(part: int, n: int, times: float = 1.0) -> Difference | None:
    """A share of n, or its multiple, with Wilson's interval."""
    interval = wilson(part, n)
    if interval is None:
        return None
    low, high = interval
    return Difference(n, times * part / n, times * low, times * high)


# Table 11


def _support(runs: Sequence[FinishedRun], seed: int) -> Iterator[PublishedValue]:
    """Pairs of supporting models of one Clarifier, at the smallest k that has both: the paper does not say which."""
    by_pair: dict[tuple[str, int], FinishedRun] = {}
    # Runs with the paper's agent first: of several the first one counts.
    for run in sorted(runs, key=lambda run: "agent" in _other_roles(run)):
        support = run.players.get("support")
        if run.clarifier and support and not run.asks_anew:
            pair = f"{_system(run)}-{paper_name(support, run.models.get('support'))}"
            by_pair.setdefault((pair, run.k), run)
    for printed in paper()["support"]:
        pair, compared_pair = printed["pair"]
        shared_ks: list[int] = []
        for name, k in by_pair:
            if name == pair and (compared_pair, k) in by_pair:
                shared_ks.append(k)
        if not shared_ks:
            continue
        k = min(shared_ks)
        run, compared_run = by_pair[pair, k], by_pair[compared_pair, k]
        measures = stability_intervals(
            read_run(run.directory, without=("answer",)),
            read_run(compared_run.directory, without=("answer",)),
            seed=seed,
        )
        row = dict(printed)
        row["system"], row["k"] = f"{pair} vs. {compared_pair}", k
        for measure, estimate in measures.items():
            yield from _value(row, f"{run.label}, {compared_run.label}", measure, estimate)


# How the runs differ from the paper's


def _departures(board: Board, runs: Sequence[FinishedRun], judge: str) -> Iterator[str]:
    """Yield what keeps the numbers from being comparable; the runs concerned are named where not all are."""
    names = _data_names(runs) - {DATA}
    if names:
        yield f"the data are {', '.join(sorted(names))} instead of Hard518"
    labels: dict[str, list[str]] = defaultdict(list)
    other_models: dict[str, None] = {}
    for run in runs:
        n = run.n_done
        # Failures have no score, so even a run over the whole data may have fewer.
        if judge in run.judges:
            n = len(_column(board, judge, run))
        if n != paper()["n"]:
            labels[f"n = {n} instead of {paper()['n']}"].append(run.label)
        for role, name in _other_roles(run).items():
            labels[f"{role} {name} instead of {_fixed(_ROLES[role])}"].append(run.label)
        for role, name in run.players.items():
            if role in _ROLES or role == f"judge {judge}":
                other_models |= dict.fromkeys(_other_model(run, role, name))
    for departure, departing in labels.items():
        if len(departing) == len(runs):
            yield departure
        else:
            yield f"{departure} ({join_first(departing)})"
    if judge and paper_name(judge) != _fixed("judge"):
        yield f"judge {judge} instead of {_fixed('judge')}"
    yield from other_models


def _other_model(run: FinishedRun, role: str, name: str) -> Iterator[str]:
    """Describe the model of a role that has a name of the paper's models, if its id is another's."""
    id = run.models.get(role)
    if not id:
        return
    for paper_model in paper()["models"]:
        if name in paper_model["names"] and not _is_model(id, paper_model["ids"]):
            yield f"{name} is {id} instead of {paper_model['model']}"


def is_hard518(board: Board) -> bool:
    """True if a run is over as many instances as Hard518 has, and no run is over data of another name."""
    # Candidates that were judged alone have no name of their data.
    names = _data_names(board.entrants)
    return names <= {DATA} and any(run.n_expected == paper()["n"] for run in board.entrants)


def _data_names(runs: Iterable[FinishedRun]) -> set[str]:
    """Return the names of the data of runs, as far as they have one."""
    return {run.data.name for run in runs if run.data.name}


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
    judges = [judged.judge for judged in compared.judged]
    interactions, _ = board_interactions(compared.board, None)
    return compare_with_paper(compared.board, interactions, judges=judges, seed=compared.seed)


def sentence(published: Published) -> str:
    """Answer whether ours match the paper's values."""
    if not published.values:
        names = [model["system"] for model in paper()["models"]]
        # The agent is no Clarifier of the paper.
        names.remove(paper()["fixed"]["agent"])
        return (
            f"Nothing to compare with the paper: none of these runs is {ORIG} with scores, or one of the Clarifiers "
            f"{', '.join(names)} at k = 1, 2 or 3 with answers."
        )
    counted = published.counted
    outside = [value for value in counted if not value.inside]
    if not counted:
        return "No value has an interval to compare with: that takes several instances that differ."
    inside = f"{len(counted) - len(outside)} of {len(counted)} published values lie in our 95 % intervals"
    # The sentence is JSON's `summary`, too, where no warning stands below it.
    if published.departures:
        inside += " (not comparable)"
    if outside:
        inside += f"; the others: {join_first([_value_text(value) for value in outside])}"
    if published.n_without_interval:
        inside += f"; {published.n_without_interval} more have no interval: too few instances, or all alike"
    return f"{inside}."


def _value_text(value: PublishedValue) -> str:
    """`GPT k = 2 turn 1 region_only by ERNIE 12.3, ours 11.0 [10.1, 11.9]`, as far as a value has these parts."""
    name = value.system
    if value.k:
        name += f" k = {value.k}"
    if value.turn is not None:
        name += f" turn {value.turn}"
    name += f" {value.measure}"
    if value.judge is not None:
        name += f" by {value.judge}"
    digits = f".{value.decimals}f"
    estimate = f"{value.ours:{digits}} [{value.low:{digits}}, {value.high:{digits}}]"
    return f"{name} {value.published:{digits}}, ours {estimate}"


def published_lines(published: Published) -> Iterator[str]:
    """Yield the answer to "do I match the paper?", and a warning if the numbers are not comparable."""
    yield sentence(published)
    if published.departures:
        yield f"Not comparable with the paper: {'; '.join(published.departures)}."
    if published.other_models:
        yield f"Other Clarifiers than the paper's: {'; '.join(published.other_models)}."


def published_tables(published: Published) -> Iterator[DataTable]:
    """Yield a table for each table of the paper that ours has a value of, by its number and caption."""
    rows_by_table: dict[int, list[Row]] = {}
    for value in published.values:
        rows_by_table.setdefault(value.table, []).append(_row(value))
    for table, rows in sorted(rows_by_table.items()):
        columns = list(text_columns("system"))
        columns.append(Column("k", lambda row: str(row["k"] or "-")))
        if "turn" in rows[0]:
            columns.append(Column("turn", text("turn")))
        if "judge" in rows[0]:
            columns.append(Column("judge", text("judge"), numeric=False))
        columns += text_columns("measure")
        columns.append(Column("published", _with_ends("published", "published_")))
        columns.append(Column("ours", _with_ends("ours", "")))
        columns.append(Column("difference", lambda row: format(row["difference"], f"+.{row['decimals']}f")))
        columns.append(Column("in", lambda row: _INSIDE[row["inside"]], numeric=False))
        columns.append(Column("n", number("n", ",")))
        columns += text_columns("run")
        group = "run"
        if table == 9:  # the judges are what it compares
            group = "judge"
        remarks: tuple[str, ...] = ()
        if table in _REMARKS:
            remarks = (_REMARKS[table],)
        yield DataTable(
            f"published_{table}",
            f"Table {table} of the paper. {paper()['captions'][str(table)]}",
            f"published: {SOURCE}, table {table}. in: the published value lies in our 95 % interval.",
            columns,
            rows,
            group=group,
            remarks=remarks,
        )


_INSIDE: Final = {None: "-", True: "yes", False: "no"}


def _row(value: PublishedValue) -> Row:
    row = asdict(value)
    row["difference"] = value.difference
    row["inside"] = value.inside
    for name, tables in _ONLY_IN.items():
        if value.table not in tables:
            del row[name]
    return row


def _with_ends(name: str, ends: str) -> Show:
    """Show a value with the interval in the fields `ends`low and `ends`high, with the printed decimals."""
    return lambda row: with_interval(
        row[name], row.get(f"{ends}low"), row.get(f"{ends}high"), f".{row['decimals']}f"
    )


def published_json(published: Published) -> dict[str, Any]:
    """Return all numbers, unrounded."""
    counted = published.counted
    tables: dict[str, list[Row]] = {}
    for table in published_tables(published):
        tables[table.name] = list(table.rows)
    return {
        "source": SOURCE,
        "summary": sentence(published),
        "inside": sum(bool(value.inside) for value in counted),
        "counted": len(counted),
        "departures": list(published.departures),
        "other_models": list(published.other_models),
        "tables": tables,
    }
