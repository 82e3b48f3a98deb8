"""Forecasts of runs and of judging, printed and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.protocol.forecast import (
    PER_NUGGET,
    SENDING_S,
    TOKENS_PER_S,
    Effort,
    Forecast,
    Observed,
    Work,
    actual,
)
from cts_async.protocol.plan import Plan
from cts_async.protocol.rejudge import JudgePlan, JudgingForecast
from cts_async.protocol.systems import System
from cts_async.report.tables import NAME_WIDTH, print_whole
from cts_async.report.text import duration

Runs = Mapping[System, Observed]


@dataclass(frozen=True, slots=True)
class PlannedAndActual:
    """Planned and actual effort of a finished run."""

    planned: Effort
    planned_s: float
    actual: Effort
    actual_s: float

    def line(self) -> str:
        """Format both in one line."""
        return (
            f"Planned: {_effort_text(self.planned)}, {duration(self.planned_s)}. "
            f"Took: {_effort_text(self.actual)}, {duration(self.actual_s)}."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "planned": {**self.planned.as_json(), "time_s": round(self.planned_s, 1)},
            "actual": {**self.actual.as_json(), "time_s": round(self.actual_s, 1)},
        }


def compare(plan: Plan, runs: Runs) -> PlannedAndActual | None:
    """Compare planned and actual effort of a finished campaign; None before the end, or without a stored forecast."""
    notes = [run.forecast for run in runs.values() if run.forecast]
    if len(notes) < len(plan.systems) or any(
        len(run.done) != (run.forecast or {}).get("instances") for run in runs.values()
    ):
        return None
    planned = sum((_stored_effort(note) for note in notes), Effort())
    return PlannedAndActual(
        planned,
        max(float(note["time_s"]) for note in notes),
        actual(plan, runs.values()),
        max(run.wall_s for run in runs.values()),
    )


def _stored_effort(note: Mapping[str, Any]) -> Effort:
    return Effort(
        note["calls"],
        note["input_tokens"],
        note["output_tokens"],
        note["known_cost_usd"],
        note["cost_usd"] is not None,
    )


# --- As JSON


def forecast_json(plan: Plan, forecast: Forecast, runs: Runs) -> dict[str, Any]:
    """Return the content of the tables, and the steps of every system."""
    comparison = compare(plan, runs)
    return {
        "instances": plan.n_instances,
        "total": {
            **forecast.total.as_json(),
            "time_s": round(forecast.time_s, 1),
            "bound_by": forecast.binding,
        },
        "accounts": [
            {
                "account": lane.name,
                "models": list(lane.models),
                **lane.effort.as_json(),
                "time_s": round(lane.time_s, 1),
                "bound_by": lane.binding,
                "time_s_by_limit": {limit: round(time_s, 1) for limit, time_s in lane.under.items()},
            }
            for lane in forecast.lanes
        ],
        "systems": [
            {"system": label, "instances_left": left, **forecast.of(label).as_json()}
            for label, left in forecast.left.items()
        ],
        "steps": [
            {
                "system": work.system,
                "step": work.kind,
                "model": work.model,
                "steps": round(work.steps),
                **work.effort.as_json(),
                "latency_s": round(work.latency_s, 3),
                "observed_steps": work.observed,
            }
            for work in forecast.work
        ],
        "one_walk_s": round(forecast.chain_s, 1),
        "instances_in_flight": forecast.in_flight,
        "models_without_price": list(forecast.unpriced),
        "assumptions": list(forecast.assumptions),
        "spent": actual(plan, runs.values()).as_json(),
        **(comparison.as_json() if comparison else {"planned": None, "actual": None}),
    }


# --- On a terminal


def print_forecast(console: Console, plan: Plan, forecast: Forecast, runs: Runs) -> None:
    """Print accounts, systems, kinds of steps, totals and assumptions."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    spent = actual(plan, runs.values())
    if not any(forecast.left.values()):
        say(f"Nothing is left to do: {_effort_text(spent)} so far.")
    else:
        for table in (_accounts(forecast), _systems(forecast), _steps(forecast.work)):
            print_whole(console, table)
        say(
            f"In all {_effort_text(forecast.total)}; at least {duration(forecast.time_s)}, bound by {forecast.binding}."
            + (f" Spent before: {_effort_text(spent)}." if spent.calls else "")
        )
        if forecast.unpriced:
            say(
                f"The price of {', '.join(forecast.unpriced)} is unknown (?): give input_usd_per_mtok and "
                "output_usd_per_mtok in cts.toml."
            )
        for warning in budget_warnings(plan, forecast.total, spent):
            say(warning)
        say("Assumed:")
        for assumption in forecast.assumptions:
            say(f"- {assumption}")
    if comparison := compare(plan, runs):
        say(comparison.line())


def budget_warnings(plan: Plan, left: Effort, spent: Effort) -> list[str]:
    """Warn of every limit of the budget that the run is expected to reach."""
    asked, total = plan.config.budget, left + spent
    lines = (
        ("usd", asked.max_usd, total.cost_usd, money(total)),
        ("tokens", asked.max_tokens, total.tokens, count(total.tokens)),
        ("calls", asked.max_calls, total.calls, count(total.calls)),
    )
    return [
        f"--max-{name} {limit:g} is less than the expected {expected}: the run would stop early (exit 75)."
        for name, limit, value, expected in lines
        if limit is not None and value > limit
    ]


def _accounts(forecast: Forecast) -> Table:
    table = _table("account", "calls", "tokens in", "out", "cost", "time", "bound by")
    for lane in forecast.lanes:
        name = lane.name if len(lane.models) == 1 else f"{lane.name} (+{len(lane.models) - 1})"
        table.add_row(Text(name), *_cells(lane.effort), duration(lane.time_s), lane.binding)
    return table


def _systems(forecast: Forecast) -> Table:
    table = _table("system", "instances", "calls", "tokens in", "out", "cost")
    for label, left in forecast.left.items():
        table.add_row(Text(label), str(left), *_cells(forecast.of(label)))
    return table


def _steps(work: Iterable[Work]) -> Table:
    """A row for each kind of step and model, with the effort of one call."""
    table = _table("step", "by", "calls", "in/call", "out/call", "s/call", "from")
    rows: dict[tuple[str, str], list[Work]] = {}
    for one in work:
        rows.setdefault((one.kind, one.model), []).append(one)
    for (kind, model), same in rows.items():
        effort = sum((one.effort for one in same), Effort())
        calls = max(effort.calls, 1e-9)
        origin = f"{same[0].observed} seen" if same[0].observed else "assumed"
        each = count(effort.input_tokens / calls), count(effort.output_tokens / calls)
        table.add_row(kind, Text(model), count(effort.calls), *each, f"{same[0].latency_s:.1f}", origin)
    return table


def _table(*headings: str) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), pad_edge=False)
    for i, heading in enumerate(headings):
        text = i == 0 or heading in ("by", "bound by", "from")
        if text:
            table.add_column(heading, overflow="fold", min_width=NAME_WIDTH)
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cells(effort: Effort) -> tuple[str, str, str, str]:
    return count(effort.calls), count(effort.input_tokens), count(effort.output_tokens), money(effort)


def _effort_text(effort: Effort) -> str:
    known = effort.priced or effort.cost_usd
    return (
        f"{count(effort.calls)} calls, {count(effort.tokens)} tokens, "
        f"{money(effort) if known else 'cost unknown'}"
    )


def count(value: float) -> str:
    """Format a count: `950`, `12.3k`, `4.56M`."""
    if value < 9999.5:
        return f"{value:,.0f}"
    return f"{value / 1e3:.1f}k" if value < 999_950 else f"{value / 1e6:.2f}M"


def money(effort: Effort) -> str:
    """Format cost: `$1.23`, `$1.23+?` if some price is unknown, `?` if every price is."""
    value = effort.cost_usd
    known = f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}"
    return known if effort.priced else f"{known}+?" if value else "?"


# Forecast of judging

HEADINGS = ("judge", "left", "distinct", "calls", "tokens in", "out", "cost")


def judging_forecast_json(plan: JudgePlan, forecast: JudgingForecast) -> dict[str, Any]:
    """Return the content of the table, unrounded except for tokens."""
    return {
        "systems": [{"system": one.name, "answers": len(one.answers)} for one in plan.targets],
        "answers": plan.n_answers,
        "total": {**forecast.total.as_json(), "time_s": round(forecast.time_s, 1)},
        "judges": [
            {
                "judge": one.judge,
                "answers_left": one.n_left,
                "distinct": one.n_questions,
                **one.work.effort.as_json(),
            }
            for one in forecast.judges
        ],
        "accounts": [
            {
                "account": lane.name,
                "models": list(lane.models),
                "time_s": round(lane.time_s, 1),
                "bound_by": lane.binding,
            }
            for lane in forecast.lanes
        ],
    }


def print_judging_forecast(console: Console, plan: JudgePlan, forecast: JudgingForecast) -> None:
    """Print each judge, the total and the assumptions."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    systems = len(plan.targets)
    say(f"{plan.n_answers:,} answers of {systems} {'system' if systems == 1 else 'systems'}.")
    if not forecast.judges:
        say("The lexical judge makes no calls and costs nothing.")
        return
    if not forecast.total.calls:
        say("All of them are judged: nothing is left to do.")
        return
    print_whole(console, _judging_table(forecast))
    times = [f"{lane.name} {duration(lane.time_s)}, bound by {lane.binding}" for lane in forecast.lanes]
    say(f"At least {duration(forecast.time_s)} ({'; '.join(times)}).")
    say(
        f"Assumed: {PER_NUGGET:g} tokens a nugget judged, no hidden reasoning; a call takes {SENDING_S:g} s and its "
        f"reply at {TOKENS_PER_S:g} tokens a second; none fails. Prompts are rendered over a sample of the answers."
    )


def _judging_table(forecast: JudgingForecast) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), pad_edge=False)
    table.add_column(HEADINGS[0], overflow="fold", min_width=NAME_WIDTH)
    for heading in HEADINGS[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for one in forecast.judges:
        effort = one.work.effort
        tokens = count(effort.input_tokens), count(effort.output_tokens)
        left = f"{one.n_left:,}", f"{one.n_questions:,}"
        table.add_row(Text(one.judge), *left, count(effort.calls), *tokens, money(effort))
    return table
