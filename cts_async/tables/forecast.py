"""Forecasts of runs and of judging, printed and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from rich.console import Console

from cts_async.llm.model import dearest_prices
from cts_async.protocol.forecast import (
    PER_NUGGET,
    SENDING_S,
    TOKENS_PER_S,
    Effort,
    Forecast,
    LaneForecast,
    PastUsage,
    ReusedEffort,
    StepsForecast,
    WayForecast,
    actual,
    forecast,
    planned_effort,
    total_of,
)
from cts_async.protocol.plan import Plan
from cts_async.protocol.rejudge import JudgePlan, JudgingForecast
from cts_async.protocol.systems import System
from cts_async.protocol.versions import ChosenVersion
from cts_async.tables.output import counted, duration, print_plainly
from cts_async.tables.table import Column, DataTable, print_table, text

Row = tuple[str, ...]
Runs = Mapping[System, PastUsage]
Timed = tuple[Effort, float]
"""An effort and its seconds."""


def planned_and_actual(plan: Plan, runs: Runs) -> tuple[Timed, Timed] | None:
    """Planned and actual effort of finished runs; None before the end, or without a stored forecast.

    What was reused is in neither.
    """
    planned, planned_s, wall_s = Effort(), 0.0, 0.0
    work: tuple[StepsForecast, ...] = ()
    if any(run.reused for run in runs.values()):
        work = forecast(plan).work
    for system, run in runs.items():
        if not run.forecast or len(run.done) != run.forecast.get("instances"):
            return None
        system_work = [steps for steps in work if steps.system == system.label]
        compared = planned_effort(plan, run, system_work)
        if compared is None:
            return None
        effort, time_s = compared
        planned += effort
        # The systems of a command run at the same time.
        planned_s = max(planned_s, time_s)
        wall_s = max(wall_s, run.wall_s)
    # A system that has not begun has no effort to compare yet.
    if len(runs) < len(plan.systems):
        return None
    return (planned, planned_s), (actual(plan, runs.values()), wall_s)


def comparison_line(plan: Plan, runs: Runs) -> str | None:
    """`planned_and_actual` in one line; None for runs without models, too."""
    compared = planned_and_actual(plan, runs)
    if compared is None:
        return None
    (planned, planned_s), (took, took_s) = compared
    # A baseline plays every role without a model.
    if not planned.calls and not took.calls:
        return None
    planned_text = f"{_effort_text(planned)}, {duration(planned_s)}"
    if plan.custom:
        planned_text += " plus the unknown calls of your own roles"
    return f"Planned: {planned_text}. Took: {_effort_text(took)}, {duration(took_s)}."


# --- As JSON


def forecast_json(plan: Plan, forecast: Forecast, runs: Runs) -> dict[str, Any]:
    """Return the content of the tables, and the steps of every system."""
    result: dict[str, Any] = {"instances": plan.n_instances}
    if plan.config.as_published:
        result["as_published"] = True
    if plan.searches and plan.settings.switches:
        result["agent_mode"] = plan.settings.mode
        result["agent_switches"] = list(plan.settings.switches)
    result["total"] = _timed_json(forecast.total, forecast.time_s) | {
        "most_cost_usd": forecast.most_usd,
        "bound_by": forecast.binding,
        "reused": forecast.all_reused.as_json(),
    }
    result["accounts"] = [_account_json(lane) for lane in forecast.lanes]
    # By system what is left to do: a run that is resumed pays only for that.
    result["systems"] = []
    versions = {system.label: version for system, version in plan.versions.items()}
    for label, n_left in forecast.left.items():
        system: dict[str, Any] = {"system": label, "instances_left": n_left}
        system |= forecast.of(label).as_json()
        system |= _version_json(versions[label])
        system["reused"] = forecast.reused.get(label, ReusedEffort()).as_json()
        result["systems"].append(system)
    result["steps"] = [_steps_json(work) for work in forecast.work]
    if len(forecast.ways) > 1:
        result["ways"] = _ways_json(forecast.ways)
    result["one_walk_s"] = round(forecast.chain_s, 1)
    result["instances_in_flight"] = forecast.in_flight
    result["models_without_price"] = list(forecast.unpriced)
    tools = _tools_json(forecast)
    if tools:
        result["tools"] = tools
    result["assumptions"] = list(forecast.assumptions)
    if forecast.unknown:
        result["unknown"] = list(forecast.unknown)
    if forecast.changed_roles:
        result["at_most"] = list(forecast.changed_roles)
    result["spent"] = actual(plan, runs.values()).as_json()
    result["planned"] = result["actual"] = None
    compared = planned_and_actual(plan, runs)
    if compared:
        (planned, planned_s), (took, took_s) = compared
        result["planned"] = _timed_json(planned, planned_s)
        result["actual"] = _timed_json(took, took_s)
    return result


def _version_json(version: ChosenVersion) -> dict[str, Any]:
    """Which version of its run a system's is, and for a new one what changed."""
    row: dict[str, Any] = {"run": version.directory.name, "version": version.number}
    if version.is_new and version.changed_from:
        row["changed"] = list(version.changed)
        row["changed_from"] = version.changed_from
    return row


def _account_json(lane: LaneForecast) -> dict[str, Any]:
    row: dict[str, Any] = {"account": lane.name, "models": list(lane.models)}
    row |= _timed_json(lane.effort, lane.time_s)
    row["bound_by"] = lane.binding
    row["time_s_by_limit"] = {}
    for limit, time_s in lane.under.items():
        row["time_s_by_limit"][limit] = round(time_s, 1)
    return row


def _steps_json(work: StepsForecast) -> dict[str, Any]:
    row: dict[str, Any] = {
        "system": work.system,
        "step": work.kind,
        "model": work.model,
        "steps": round(work.steps),
    }
    row |= work.effort.as_json()
    row["latency_s"] = round(work.latency_s, 3)
    row["observed_steps"] = work.observed
    return row


def _tools_json(forecast: Forecast) -> list[dict[str, Any]]:
    """Search engines and page readers that cost something."""
    tools: list[dict[str, Any]] = []
    for tool in forecast.tools:
        if tool.each.cost_usd or not tool.each.priced:
            cost_usd = tool.effort.as_json()["cost_usd"]
            tools.append({"tool": tool.model, "requests": round(tool.steps), "cost_usd": cost_usd})
    return tools


def _timed_json(effort: Effort, seconds: float) -> dict[str, Any]:
    return effort.as_json() | {"time_s": round(seconds, 1)}


def _ways_json(ways: Sequence[WayForecast]) -> list[dict[str, Any]]:
    """The cost of each way to ask the models, and what a reply waits for."""
    rows: list[dict[str, Any]] = []
    for way in ways:
        cost = way.effort.as_json()
        row: dict[str, Any] = {"way": way.way}
        row["cost_usd"], row["known_cost_usd"] = cost["cost_usd"], cost["known_cost_usd"]
        row["tiers"], row["waits"] = dict(way.tiers), list(way.waits)
        rows.append(row)
    return rows


# --- On a terminal


def print_forecast(console: Console, plan: Plan, forecast: Forecast, runs: Runs) -> None:
    """Print accounts, systems, kinds of steps, totals and assumptions."""
    say = partial(print_plainly, console)
    spent = actual(plan, runs.values())
    for version in plan.versions.values():
        if version.announcement:
            say(version.announcement)
    reused = reused_text(forecast.all_reused)
    if not any(forecast.left.values()):
        say(f"Nothing is left to do: {_effort_text(spent)} so far.")
    elif not forecast.total.calls and reused and not forecast.unknown:
        say(f"No call is left to make. {reused}")
    else:
        _print_table(
            console, ("account", "calls", "tokens in", "out", "cost", "time", "bound by"), _accounts(forecast)
        )
        headings: tuple[str, ...] = ("system", "instances", "calls", "tokens in", "out", "cost")
        if reused:
            headings += ("reused",)
        _print_table(console, headings, _systems(forecast, with_reused=bool(reused)))
        _print_table(
            console, ("step", "by", "calls", "in/call", "out/call", "s/call", "from"), _steps(forecast.work)
        )
        time = f"at least {duration(forecast.time_s)}, bound by {forecast.binding}"
        total = _effort_text(forecast.total, forecast.most_usd)
        say(f"In all {total}; {time}. Spent before: {_effort_text(spent)}.")
        if reused:
            say(reused)
        if forecast.changed_roles:
            say(
                f"At most: what {', '.join(forecast.changed_roles)} replies is known once it is called, and what "
                "follows from the same replies as before is reused, too."
            )
        for remark in _price_remarks(forecast):
            say(remark)
        _print_ways(console, forecast.ways, batched="cts judge --batch")
        if forecast.unknown:
            say(f"Not included: calls made by your own roles: {', '.join(forecast.unknown)}.")
        for warning in budget_warnings(plan, total_of(forecast.work), spent):
            say(warning)
        say("\n- ".join(chain(["Assumed:"], forecast.assumptions)))
        if not any(work.observed for work in forecast.work):
            say("A first run with --limit 5 replaces these assumptions by measured values.")
    comparison = comparison_line(plan, runs)
    if comparison:
        say(comparison)


def _price_remarks(forecast: Forecast) -> Iterator[str]:
    """Say which prices are unknown, what they may be, and where to give them."""
    if forecast.unpriced:
        name, prices = dearest_prices()
        yield (
            f"The price of {', '.join(forecast.unpriced)} is unknown (?): between nothing and that of {name}, the "
            f"dearest model of the catalogue (${prices.input_usd_per_mtok:g} and ${prices.output_usd_per_mtok:g} a "
            "million tokens). Give input_usd_per_mtok and output_usd_per_mtok in cts.toml."
        )
    for tool in forecast.tools:
        if not tool.each.priced and tool.steps:
            yield (
                f"The price of {tool.model} is unknown (?), for about {count(tool.steps)} requests: give "
                "usd_per_1000 in its table of cts.toml."
            )


def budget_warnings(plan: Plan, remaining: Effort, spent: Effort) -> list[str]:
    """Warn of every limit of the budget that the run is expected to reach."""
    # A budget is that of all executions of a run, not of this one.
    budget, total = plan.config.budget, remaining + spent
    lines = (
        ("usd", budget.max_usd, total.cost_usd, money(total)),
        ("tokens", budget.max_tokens, total.tokens, count(total.tokens)),
        ("calls", budget.max_calls, total.calls, count(total.calls)),
    )
    warnings: list[str] = []
    for name, limit, value, expected in lines:
        if limit is not None and value > limit:
            warnings.append(
                f"--max-{name} {limit:g} is less than the expected {expected}: the run would stop early (exit 75)."
            )
    return warnings


def _accounts(forecast: Forecast) -> Iterator[Row]:
    for lane in forecast.lanes:
        name = lane.name
        # Models that share an account share its limits, so they have one line.
        if len(lane.models) > 1:
            name += f" (+{len(lane.models) - 1})"
        yield (name,) + _cells(lane.effort) + (duration(lane.time_s), lane.binding)


def _systems(forecast: Forecast, *, with_reused: bool) -> Iterator[Row]:
    for label, n_left in forecast.left.items():
        row: Row = (label, str(n_left)) + _cells(forecast.of(label))
        if with_reused:
            row += (count(forecast.reused.get(label, ReusedEffort()).steps),)
        yield row


def reused_text(reused: ReusedEffort) -> str:
    """Say what is taken from other runs, and what it cost there; "" if nothing is."""
    if not reused.steps:
        return ""
    steps, calls = counted(reused.steps, "step"), counted(reused.calls, "call")
    cost = money(Effort(cost_usd=reused.priced_usd, priced=reused.priced))
    return f"Reused from other runs: {steps}; their {calls} cost {cost} there and nothing here."


def _steps(works: Iterable[StepsForecast]) -> Iterator[Row]:
    """A row for each kind of step and model, with the effort of one call."""
    groups: dict[tuple[str, str], list[StepsForecast]] = {}
    for work in works:
        groups.setdefault((work.kind, work.model), []).append(work)
    for (kind, model), group in groups.items():
        effort = total_of(group)
        calls = max(effort.calls, 1e-9)
        origin = "assumed"
        if group[0].observed:
            origin = f"{group[0].observed} seen"
        yield (
            kind,
            model,
            count(effort.calls),
            count(effort.input_tokens / calls),
            count(effort.output_tokens / calls),
            f"{group[0].latency_s:.1f}",
            origin,
        )


def _print_table(console: Console, headings: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a table whose first column and some others are text, and all others numbers."""
    textual = (headings[0], "by", "bound by", "from", "option", "models", "waits")
    columns = [Column(heading, text(heading), numeric=heading not in textual) for heading in headings]
    named_rows = [dict(zip(headings, row, strict=True)) for row in rows]
    print_table(console, DataTable("", "", "", columns, named_rows))


def _print_ways(console: Console, ways: Sequence[WayForecast], *, batched: str) -> None:
    """Print what the work costs live, with --cheap and by batches; nothing where live is the only way.

    `batched` is the command that asks by batches.
    """
    if len(ways) < 2:
        return
    live_usd = ways[0].effort.cost_usd
    options = {"live": "", "cheap": "--cheap", "batch": batched}
    rows: list[Row] = []
    for way in ways:
        share = ""
        if live_usd:
            share = f"{way.effort.cost_usd / live_usd:.0%}"
        models = ", ".join(f"{model} {tier}" for model, tier in way.tiers.items()) or "all"
        rows.append((way.way, options[way.way], money(way.effort), share, models, "; ".join(way.waits)))
    _print_table(console, ("way", "option", "cost", "of live", "models", "waits"), rows)


def _cells(effort: Effort) -> tuple[str, str, str, str]:
    return count(effort.calls), count(effort.input_tokens), count(effort.output_tokens), money(effort)


def _effort_text(effort: Effort, most_usd: float | None = None) -> str:
    """Calls, tokens and dollars; `most_usd` is the upper end of a range if a price is unknown."""
    # A price that nobody gave is no price of 0: where one is missing, the sum is a lower end only.
    least = money(replace(effort, priced=True))
    if effort.priced:
        cost = least
    elif most_usd is not None:
        cost = f"{least} to {money(Effort(cost_usd=most_usd))}"
    elif effort.cost_usd:
        cost = f"at least {least}"
    else:
        cost = "cost unknown"
    tokens = f"{count(effort.tokens)} tokens"
    if not effort.all_counted and effort.tokens:
        tokens = f"at least {tokens}"
    elif not effort.all_counted:
        tokens = "tokens unknown"
    return f"{count(effort.calls)} calls, {tokens}, {cost}"


def count(value: float) -> str:
    """Format a count: `950`, `12.3k`, `4.56M`."""
    # By rounded values, so that no count is printed as 10,000 or 1000.0k.
    if value < 9999.5:
        return f"{value:,.0f}"
    if value < 999_950:
        return f"{value / 1e3:.1f}k"
    return f"{value / 1e6:.2f}M"


def money(effort: Effort) -> str:
    """Format cost: `$1.23`, `$1.23+?` if some price is unknown, `?` if every price is."""
    usd = effort.cost_usd
    if not usd and not effort.priced:
        return "?"
    text = f"${usd:,.2f}"
    if 0 < usd < 1:
        text = f"${usd:.4f}"
    if not effort.priced:
        text += "+?"
    return text


# --- The forecast of judging


def judging_forecast_json(plan: JudgePlan, forecast: JudgingForecast) -> dict[str, Any]:
    """Return the content of the table, unrounded except for tokens."""
    judges: list[dict[str, Any]] = []
    for judge in forecast.judges:
        row: dict[str, Any] = {
            "judge": judge.judge,
            "answers_left": judge.n_left,
            "distinct": judge.n_questions,
        }
        row |= judge.work.effort.as_json()
        row["reused"] = judge.reused.as_json()
        judges.append(row)
    accounts: list[dict[str, Any]] = []
    for lane in forecast.lanes:
        accounts.append(
            {
                "account": lane.name,
                "models": list(lane.models),
                "time_s": round(lane.time_s, 1),
                "bound_by": lane.binding,
            }
        )
    result: dict[str, Any] = {
        "systems": [{"system": target.name, "answers": len(target.answers)} for target in plan.targets],
        "answers": plan.n_answers,
        "total": _timed_json(forecast.total, forecast.time_s) | {"reused": forecast.all_reused.as_json()},
        "judges": judges,
        "accounts": accounts,
    }
    if len(forecast.ways) > 1:
        result["ways"] = _ways_json(forecast.ways)
    return result


def print_judging_forecast(console: Console, plan: JudgePlan, forecast: JudgingForecast) -> None:
    """Print each judge, the total and the assumptions."""
    say = partial(print_plainly, console)
    say(f"{plan.n_answers:,} answers of {', '.join(target.name for target in plan.targets)}.")
    if plan.version.announcement:
        say(plan.version.announcement)
    reused = reused_text(forecast.all_reused)
    if not forecast.total.calls:
        say(f"Nothing is left that needs calls. {reused}".rstrip())
        return
    rows: list[Row] = []
    for judge in forecast.judges:
        # Equal answers are asked about once: the calls are those of the distinct ones.
        numbers = f"{judge.n_left:,}", f"{judge.n_questions:,}"
        row: Row = (judge.judge,) + numbers + _cells(judge.work.effort)
        if reused:
            row += (count(judge.reused.steps),)
        rows.append(row)
    headings: tuple[str, ...] = ("judge", "left", "distinct", "calls", "tokens in", "out", "cost")
    if reused:
        headings += ("reused",)
    _print_table(console, headings, rows)
    if reused:
        say(reused)
    _print_ways(console, forecast.ways, batched="--batch")
    times = [f"{lane.name} {duration(lane.time_s)}, bound by {lane.binding}" for lane in forecast.lanes]
    say(f"At least {duration(forecast.time_s)} ({'; '.join(times)}).")
    say(
        f"Assumed: {PER_NUGGET:g} tokens a nugget judged, no hidden reasoning; a call takes {SENDING_S:g} s and its "
        f"reply at {TOKENS_PER_S:g} tokens a second; none fails. Prompts are rendered over a sample of the answers."
    )
