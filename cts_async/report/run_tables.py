"""What runs were, what they took, what failed: tables of whole runs, beside those of their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cts_async.engine.run_dir import sessions_of
from cts_async.protocol.run_files import RESULTS
from cts_async.report.data_table import Column, DataTable, Row, number, text
from cts_async.report.ranked import ranked
from cts_async.report.summary import RunSummary
from cts_async.report.tool_health import MOST, TOOLS

MOST_KINDS: Final = 200
"""Kinds of failures that are told, the most frequent ones."""
_MESSAGE_CHARS: Final = 200
_ROLES: Final = ("clarifier", "support", "agent")

Named = Sequence[tuple[str, RunSummary]]
"""Runs, each with the name that no other has."""


def runs_table(runs: Named) -> DataTable:
    """Which runs these are: when, over what, by whom, and how far they got."""
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


def effort_table(runs: Named) -> DataTable:
    """What runs cost, beside what they scored under their scoring judge."""
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


def failures_table(runs: Named) -> DataTable:
    """Failures by step and kind, the most frequent first, each with the reason of the first by id."""
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


def health_table(runs: Named) -> DataTable:
    """Which share of searches and visits worked: scores fall with it. No rows where nothing was searched."""
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


def causes_table(runs: Named) -> DataTable:
    """Where and why searches and visits failed, the most frequent causes of each run."""
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


def served_table(runs: Named) -> DataTable:
    """Which models answered, by their own word, where that is not the one asked for alone."""
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
    """A time without seconds and zone: "2026-11-21 10:00"."""
    return str(stamp)[:16].replace("T", " ") if stamp else "-"
