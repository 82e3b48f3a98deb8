"""Every table of a report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from cts_async.engine.run_dir import sessions_of
from cts_async.protocol.run_files import RESULTS
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.comparison_tables import judged_tables, judges_tables
from cts_async.report.conversations import conversations_table
from cts_async.report.gathered import Gathered
from cts_async.report.result_columns import MOST, TOOLS, ranked
from cts_async.report.results import SMOKE_TEST
from cts_async.report.statistics import diagnosis_tables
from cts_async.report.summary import RunSummary
from cts_async.report.tables import Column, DataTable, Row, number, text

# Tables of whole runs: who played, cost, failures, tools

MOST_KINDS: Final = 200
"""Kinds of failures that are listed, the most frequent first."""
_MESSAGE_CHARS: Final = 200
_ROLES: Final = ("clarifier", "support", "agent")

NamedRuns = Sequence[tuple[str, RunSummary]]
"""Runs, each with its distinct name."""


def runs_table(runs: NamedRuns) -> DataTable:
    """The runs: when, over which data, by whom, and how far they got."""
    rows = [_run_row(name, run) for name, run in runs]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("began", lambda row: _day(row["began"]), numeric=False),
        Column("ended", lambda row: _day(row["ended"]), numeric=False),
        Column("data", text("data"), numeric=False),
        *(Column(role, text(role), numeric=False) for role in _ROLES),
        Column("judges", text("judges"), numeric=False),
        Column("done", lambda row: f"{row['done']}/{row['expected']}"),
        Column("failed", text("failed")),
        Column("missing", text("missing")),
    )
    caption = "done: instances with an outcome; missing: no line yet, the run is not over"
    return DataTable("what_was_run", "Runs, and who played", caption, columns, rows)


def _run_row(name: str, run: RunSummary) -> Row:
    identity, players = _mapping(run.manifest, "identity"), _mapping(run.manifest, "players")
    sessions = sessions_of(run.manifest) or [{}]
    n_failed = len(run.failures)
    return {
        "system": name + (" (smoke test)" if run.manifest.get("embedded") else ""),
        "directory": str(run.directory),
        "began": sessions[0].get("start"),
        "ended": sessions[-1].get("end"),
        "data": _mapping(identity, "data").get("name"),
        **{role: players.get(role) for role in _ROLES},
        "judges": ", ".join(scores.judge for scores in run.judges) or None,
        "done": run.n_done,
        "failed": n_failed,
        "missing": run.n_expected - run.n_done - n_failed,
        "expected": run.n_expected,
    }


def effort_table(runs: NamedRuns) -> DataTable:
    """Cost of the runs, with the mean of their scoring judge."""
    rows = [_effort_row(name, run) for name, run in runs]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("mean", number("mean", ".2f")),
        Column("calls", number("calls", ",")),
        Column("failed attempts", number("failed_attempts", ",")),
        Column("tokens in", number("input_tokens", ",")),
        Column("tokens out", number("output_tokens", ",")),
        Column("USD", number("cost_usd", ",.2f")),
        Column("USD/instance", number("usd_per_instance", ".4f")),
        Column("hours", number("hours", ".2f")),
    )
    caption = "mean: of the scoring judge. USD: - where a model has no price. hours: all sessions together"
    return DataTable("effort", "Cost and time", caption, columns, rows)


def _effort_row(name: str, run: RunSummary) -> Row:
    spent = run.spent
    cost = spent.cost_usd(run.manifest.get("prices") or {})
    finished = run.n_done + len(run.failures)
    return {
        "system": name,
        "mean": run.judges[0].summary.mean if run.judges else None,
        "calls": spent.calls,
        "failed_attempts": spent.failed_attempts,
        "input_tokens": sum(used["input"] for used in spent.tokens.values()),
        "output_tokens": sum(used["output"] for used in spent.tokens.values()),
        "cost_usd": cost,
        "usd_per_instance": cost / finished if cost is not None and finished else None,
        "hours": run.wall_s / 3600,
    }


def failures_table(runs: NamedRuns) -> DataTable:
    """Failures by step and kind, the most frequent first, each with one example."""
    counted = [row for name, run in runs for row in _failures_of(name, run)]
    rows = sorted(counted, key=lambda row: -row["n"])[:MOST_KINDS]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("step", text("step"), numeric=False),
        Column("kind", text("kind"), numeric=False),
        Column("n", text("n")),
        Column("for example", text("example"), numeric=False),
    )
    caption = f"counted apart and never as a score; every one stands in {RESULTS}"
    return DataTable("failures", "Failures by kind", caption, columns, rows)


def _failures_of(name: str, run: RunSummary) -> Iterator[Row]:
    counts, examples = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for line in run.failures:
        error = _mapping(line, "error")
        step = str(error.get("step") or "").partition("/")[0]
        cause = step, str(error.get("kind") or "failed")
        counts[cause] += 1
        example = f"{line['id']}: {error.get('message', '')}"[:_MESSAGE_CHARS]
        examples[cause] = min(example, examples.get(cause, example))
    for (step, kind), n in ranked(counts):
        yield {"system": name, "step": step, "kind": kind, "n": n, "example": examples[step, kind]}


def health_table(runs: NamedRuns) -> DataTable:
    """The share of searches and visits that worked; no rows if nothing was searched."""
    rows = [
        {
            "system": name,
            "tool": word,
            "asked": run.tools.asked.get(tool, 0),
            "failed": run.tools.n_failed(tool),
            "worked": run.tools.share(tool),
        }
        for name, run in runs
        for tool, word in TOOLS.items()
        if run.tools.asked.get(tool)
    ]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("tool", text("tool"), numeric=False),
        Column("asked", number("asked", ",")),
        Column("failed", number("failed", ",")),
        Column("worked", number("worked", ".1%")),
    )
    caption = "queries searched and pages visited by the agent, and those that a tool could not bring"
    return DataTable("tool_health", "Searches and visits", caption, columns, rows)


def causes_table(runs: NamedRuns) -> DataTable:
    """The most frequent causes of failed searches and visits of each run."""
    rows = [
        {"system": name, "tool": tool, "host": host, "reason": reason, "n": n}
        for name, run in runs
        for (tool, host, reason), n in ranked(run.tools.failed)[:MOST]
    ]
    columns = (
        *(Column(key, text(key), numeric=False) for key in ("system", "tool", "host", "reason")),
        Column("n", number("n", ",")),
    )
    caption = f"at most {MOST} causes a run"
    return DataTable("tool_failures", "Searches and visits that failed", caption, columns, rows)


def served_table(runs: NamedRuns) -> DataTable:
    """The models that answered, as servers named them, if that is not only the requested one."""
    rows = [
        {"system": name, "asked": asked, "served": served, "replies": n}
        for name, run in runs
        for asked, by in sorted(run.spent.served.items())
        if set(by) != {asked}
        for served, n in ranked(by)
    ]
    columns = (
        *(Column(key, text(key), numeric=False) for key in ("system", "asked", "served")),
        Column("replies", number("replies", ",")),
    )
    caption = "as servers call what answered"
    return DataTable("served_models", "Models that answered", caption, columns, rows)


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _day(stamp: object) -> str:
    """Format a time without seconds and zone: "2026-11-21 10:00"."""
    return str(stamp)[:16].replace("T", " ") if stamp else "-"


# All tables, in groups

Group: TypeAlias = Literal["runs", "scores", "judges", "questions", "effort", "failures", "conversations"]

_SCORED: Final = frozenset({"scores", "judges", "questions", "effort", "conversations"})
_UNUSUAL: Final = re.compile(r"[^\w.-]+")
_NAME_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Grouped:
    """A table and the group that it is shown in."""

    group: Group
    table: DataTable


def all_tables(gathered: Gathered) -> tuple[Grouped, ...]:
    """Return the tables that have rows, with distinct names that are valid for files and anchors."""
    found = [_marked(one, gathered) for one in _every(gathered) if one.table.rows]
    taken: set[str] = set()
    return tuple(_called(one, _free(one.table.name, taken)) for one in found)


def named_runs(gathered: Gathered) -> NamedRuns:
    """Return the summaries, each with its system's name on the board."""
    labels = (
        {entrant.directory: entrant.label for entrant in gathered.board.entrants} if gathered.board else {}
    )
    return [(labels.get(run.directory, run.label), run) for run in gathered.summaries]


def _every(gathered: Gathered) -> Iterator[Grouped]:
    runs = named_runs(gathered)
    talks = [(talk.label, talk) for talk in gathered.talks]
    yield from _plain("runs", [runs_table([*runs, *talks])])
    if gathered.compared:
        yield from _of_scores(gathered.compared)
    if gathered.diagnosis:
        yield from _plain("questions", diagnosis_tables(gathered.diagnosis.diagnosis))
    yield from _plain(
        "effort",
        [
            effort_table(runs),
            health_table(runs),
            causes_table(runs),
            served_table([*runs, *talks]),
        ],
    )
    yield from _plain("failures", [failures_table([*runs, *talks])])
    if gathered.talks:
        yield from _plain("conversations", [conversations_table(gathered.talks)])
    if gathered.talked:
        yield from _plain("conversations", gathered.talked.tables)


def _of_scores(compared: RunsCompared) -> Iterator[Grouped]:
    first, *others = compared.judged
    yield from _plain("scores", judged_tables(first, compared, all_pairs=True))
    yield from _plain("judges", judges_tables(compared))
    for judged in others:
        yield from _plain("judges", _of_judge(judged, compared))


def _of_judge(judged: Judged, compared: RunsCompared) -> Iterator[DataTable]:
    """Yield a further judge's tables, with its name in theirs."""
    for table in judged_tables(judged, compared, all_pairs=True):
        name, title = f"{table.name}_{judged.judge}", f"{table.title}, judge {judged.judge}"
        yield replace(table, name=name, title=title)


def _plain(group: Group, tables: Iterable[DataTable]) -> Iterator[Grouped]:
    return (Grouped(group, table) for table in tables)


def _marked(one: Grouped, gathered: Gathered) -> Grouped:
    """Mark a table of scores made with the embedded model, in a remark and in every row."""
    if one.group not in _SCORED or not gathered.embedded:
        return one
    played = _embedded_by_name(gathered)
    rows = [{**row, "smoke_test": _is_smoke(row, played)} for row in one.table.rows]
    remarks = (*one.table.remarks, smoke_test(gathered))
    return replace(one, table=replace(one.table, rows=rows, remarks=remarks))


def _is_smoke(row: Row, played: Mapping[str, bool]) -> bool:
    """True if the embedded model played for a system that the row names, or if the row names none."""
    named = [played[value] for value in row.values() if isinstance(value, str) and value in played]
    return any(named) or not named


def _embedded_by_name(gathered: Gathered) -> dict[str, bool]:
    """Map every system to whether the embedded model played for it."""
    runs = (*named_runs(gathered), *((talk.label, talk) for talk in gathered.talks))
    return {name: bool(run.manifest.get("embedded")) for name, run in runs}


def smoke_test(gathered: Gathered) -> str:
    """Explain which systems' scores are a smoke test."""
    embedded = _embedded_by_name(gathered)
    played = [name for name, by_it in embedded.items() if by_it]
    whose = "" if len(played) == len(embedded) else f" It played for {', '.join(played)}."
    return SMOKE_TEST + whose


def _called(one: Grouped, name: str) -> Grouped:
    return replace(one, table=replace(one.table, name=name))


def _free(name: str, taken: set[str]) -> str:
    """Make `name` valid for files on any system, and distinct by a number."""
    usual = _UNUSUAL.sub("_", name).strip("._")[:_NAME_CHARS] or "table"
    free, n = usual, 2
    while free.casefold() in taken:
        free, n = f"{usual}_{n}", n + 1
    taken.add(free.casefold())
    return free
