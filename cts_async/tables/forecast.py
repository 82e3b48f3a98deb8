"""Forecasts of runs and of judging, printed and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from cts_async.llm.model import dearest_prices
from cts_async.protocol.forecast import (
    PER_NUGGET,
    SENDING_S,
    TOKENS_PER_S,
    Effort,
    Forecast,
    PastUsage,
    StepsForecast,
    actual,
    total_of,
)
from cts_async.protocol.plan import Plan
from cts_async.protocol.rejudge import JudgePlan, JudgingForecast
from cts_async.protocol.systems import System
from cts_async.tables.output import duration, print_plainly
from cts_async.tables.table import Column, DataTable, print_table, text

Row = tuple[str, ...]
Runs = Mapping[System, PastUsage]
Timed = tuple[Effort, float]
"""An effort and its seconds."""


def planned_and_actual(plan: Plan, runs: Runs) -> tuple[Timed, Timed] | None:
    """Planned and actual effort of finished runs; None before the end, or without a stored forecast."""
    notes = [run.forecast for run in runs.values() if run.forecast]
    if len(notes) < len(plan.systems) or any(
        len(run.done) != (run.forecast or {}).get("instances") for run in runs.values()
    ):
        return None
    planned = Effort()
    for note in notes:
        known = note["cost_usd"] is not None
        tokens = note["input_tokens"], note["output_tokens"]
        planned += Effort(note["calls"], *tokens, note["known_cost_usd"], known)
    planned_s = max(float(note["time_s"]) for note in notes)
    return (planned, planned_s), (actual(plan, runs.values()), max(run.wall_s for run in runs.values()))


def comparison_line(plan: Plan, runs: Runs) -> str | None:
    """`planned_and_actual` in one line; None for runs without models, too."""
    compared = planned_and_actual(plan, runs)
    if compared is None or not any(effort.calls for effort, _ in compared):
        return None
    planned, took = (f"{_effort_text(effort)}, {duration(seconds)}" for effort, seconds in compared)
    unknown = " plus the unknown calls of your own roles" if plan.custom else ""
    return f"Planned: {planned}{unknown}. Took: {took}."


# --- As JSON


def forecast_json(plan: Plan, forecast: Forecast, runs: Runs) -> dict[str, Any]:
    """Return the content of the tables, and the steps of every system."""
    planned, took = planned_and_actual(plan, runs) or (None, None)
    return {
        "instances": plan.n_instances,
        **({"as_published": True} if plan.config.as_published else {}),
        "total": {
            **_timed_json(forecast.total, forecast.time_s),
            "most_cost_usd": forecast.most_usd,
            "bound_by": forecast.binding,
        },
        "accounts": [
            {
                "account": lane.name,
                "models": list(lane.models),
                **_timed_json(lane.effort, lane.time_s),
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
        **_tools_json(forecast),
        "assumptions": list(forecast.assumptions),
        **({"unknown": list(forecast.unknown)} if forecast.unknown else {}),
        "spent": actual(plan, runs.values()).as_json(),
        "planned": planned and _timed_json(*planned),
        "actual": took and _timed_json(*took),
    }


def _tools_json(forecast: Forecast) -> dict[str, Any]:
    """Search engines and page readers; no key without any that costs something."""
    tools = [
        {
            "tool": tool.model,
            "requests": round(tool.steps),
            "cost_usd": tool.effort.as_json()["cost_usd"],
        }
        for tool in forecast.tools
        if tool.each.cost_usd or not tool.each.priced
    ]
    return {"tools": tools} if tools else {}


def _timed_json(effort: Effort, seconds: float) -> dict[str, Any]:
    return {**effort.as_json(), "time_s": round(seconds, 1)}


# --- On a terminal


def print_forecast(console: Console, plan: Plan, forecast: Forecast, runs: Runs) -> None:
    """Print accounts, systems, kinds of steps, totals and assumptions."""
    say = partial(print_plainly, console)
    spent = actual(plan, runs.values())
    if any(forecast.left.values()):
        _print_table(
            console, ("account", "calls", "tokens in", "out", "cost", "time", "bound by"), _accounts(forecast)
        )
        systems = ((label, str(left), *_cells(forecast.of(label))) for label, left in forecast.left.items())
        _print_table(console, ("system", "instances", "calls", "tokens in", "out", "cost"), systems)
        _print_table(
            console, ("step", "by", "calls", "in/call", "out/call", "s/call", "from"), _steps(forecast.work)
        )
        time = f"at least {duration(forecast.time_s)}, bound by {forecast.binding}"
        total = _effort_text(forecast.total, forecast.most_usd)
        say(f"In all {total}; {time}. Spent before: {_effort_text(spent)}.")
        if forecast.unpriced:
            name, prices = dearest_prices()
            say(
                f"The price of {', '.join(forecast.unpriced)} is unknown (?): between nothing and that of {name}, the "
                f"dearest model of the catalogue (${prices.input_usd_per_mtok:g} and ${prices.output_usd_per_mtok:g} a "
                "million tokens). Give input_usd_per_mtok and output_usd_per_mtok in cts.toml."
            )
        for tool in forecast.tools:
            if not tool.each.priced and tool.steps:
                say(
                    f"The price of {tool.model} is unknown (?), for about {count(tool.steps)} requests: give "
                    "usd_per_1000 in its table of cts.toml."
                )
        if forecast.unknown:
            say(f"Not included: calls made by your own roles: {', '.join(forecast.unknown)}.")
        for warning in budget_warnings(plan, total_of(forecast.work), spent):
            say(warning)
        say("\n- ".join(("Assumed:", *forecast.assumptions)))
        if not any(work.observed for work in forecast.work):
            say("A first run with --limit 5 replaces these assumptions by measured values.")
    else:
        say(f"Nothing is left to do: {_effort_text(spent)} so far.")
    if line := comparison_line(plan, runs):
        say(line)


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


def _accounts(forecast: Forecast) -> Iterator[Row]:
    for lane in forecast.lanes:
        name = lane.name if len(lane.models) == 1 else f"{lane.name} (+{len(lane.models) - 1})"
        yield (name, *_cells(lane.effort), duration(lane.time_s), lane.binding)


def _steps(work: Iterable[StepsForecast]) -> Iterator[Row]:
    """A row for each kind of step and model, with the effort of one call."""
    rows: dict[tuple[str, str], list[StepsForecast]] = {}
    for one in work:
        rows.setdefault((one.kind, one.model), []).append(one)
    for (kind, model), same in rows.items():
        effort = total_of(same)
        calls = max(effort.calls, 1e-9)
        each = count(effort.input_tokens / calls), count(effort.output_tokens / calls)
        origin = f"{same[0].observed} seen" if same[0].observed else "assumed"
        yield (kind, model, count(effort.calls), *each, f"{same[0].latency_s:.1f}", origin)


def _print_table(console: Console, headings: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a table whose first column and some others are text, and all others numbers."""
    names = (headings[0], "by", "bound by", "from")
    columns = [Column(heading, text(heading), numeric=heading not in names) for heading in headings]
    named = [dict(zip(headings, row, strict=True)) for row in rows]
    print_table(console, DataTable("", "", "", columns, named))


def _cells(effort: Effort) -> tuple[str, str, str, str]:
    return count(effort.calls), count(effort.input_tokens), count(effort.output_tokens), money(effort)


def _effort_text(effort: Effort, most_usd: float | None = None) -> str:
    """Calls, tokens and dollars; `most_usd` is the upper end of a range if a price is unknown."""
    known = money(replace(effort, priced=True))
    if effort.priced:
        cost = known
    elif most_usd is not None:
        cost = f"{known} to {money(Effort(cost_usd=most_usd))}"
    else:
        cost = f"at least {known}" if effort.cost_usd else "cost unknown"
    return f"{count(effort.calls)} calls, {count(effort.tokens)} tokens, {cost}"


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


# --- The forecast of judging


def judging_forecast_json(plan: JudgePlan, forecast: JudgingForecast) -> dict[str, Any]:
    """Return the content of the table, unrounded except for tokens."""
    return {
        "systems": [{"system": one.name, "answers": len(one.answers)} for one in plan.targets],
        "answers": plan.n_answers,
        "total": _timed_json(forecast.total, forecast.time_s),
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
    say = partial(print_plainly, console)
    say(f"{plan.n_answers:,} answers of {', '.join(target.name for target in plan.targets)}.")
    if not forecast.total.calls:
        say("Nothing is left that needs calls.")
        return
    rows = (
        (one.judge, f"{one.n_left:,}", f"{one.n_questions:,}", *_cells(one.work.effort))
        for one in forecast.judges
    )
    _print_table(console, ("judge", "left", "distinct", "calls", "tokens in", "out", "cost"), rows)
    times = [f"{lane.name} {duration(lane.time_s)}, bound by {lane.binding}" for lane in forecast.lanes]
    say(f"At least {duration(forecast.time_s)} ({'; '.join(times)}).")
    say(
        f"Assumed: {PER_NUGGET:g} tokens a nugget judged, no hidden reasoning; a call takes {SENDING_S:g} s and its "
        f"reply at {TOKENS_PER_S:g} tokens a second; none fails. Prompts are rendered over a sample of the answers."
    )
