"""Forecasts as tables and JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from cts_async.config import BudgetConfig, RunConfig
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.forecast import Effort, PastUsage, StepUsage, forecast
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.systems import System
from cts_async.tables.forecast import (
    budget_warnings,
    comparison_line,
    count,
    forecast_json,
    money,
    planned_and_actual,
    print_forecast,
)

NOTED = {"calls": 100, "input_tokens": 20_000, "output_tokens": 3_000, "cost_usd": 0.5, "known_cost_usd": 0.5}


def a_plan(directory: Path, **options: Any) -> Plan:
    config = directory / "cts.toml"
    config.write_text(
        '[models.fake]\nbase_url = "http://a.example/v1"\nmodel = "fake-1"\nrequests_per_min = 20\n'
        "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
        '[models.free]\nbase_url = "http://b.example/v1"\nmodel = "free-1"\n'
        '[search.mine]\nurl = "http://c.example/?q={query}"\nusd_per_1000 = 2.0\n'
    )
    asked = RunConfig(
        models=("fake",),
        support="fake",
        judges=("fake",),
        agent="fake",
        limit=2,
        config_file=config,
        **options,
    )
    return make_plan(asked, load_catalogue(config), {}, keyless=True)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return a_plan(tmp_path, runs_dir=tmp_path / "runs")


def over(plan: Plan, **changes: Any) -> dict[System, PastUsage]:
    """Both systems' two instances done, with 90 calls each, in 75 s."""
    usages = {("search", "fake-1"): StepUsage(80, 90, 10_000, 1_000, 80.0)}
    done = {instance.id for instance in plan.instances()}
    note = {"instances": 2, **NOTED, "time_s": 60.0}
    fields = {"usages": usages, "done": done, "forecast": note, "wall_s": 75.4, **changes}
    return {system: PastUsage(**fields) for system in plan.systems}


def printed(plan: Plan, runs: dict[System, PastUsage], width: int = 80) -> str:
    out = io.StringIO()
    print_forecast(Console(file=out, width=width), plan, forecast(plan, runs), runs)
    return out.getvalue()


@pytest.mark.parametrize(
    ("value", "output"),
    [(0, "0"), (950.4, "950"), (9999.4, "9,999"), (12_345, "12.3k"), (4_560_000, "4.56M")],
)
def test_counts_are_abbreviated(value: float, output: str) -> None:
    assert count(value) == output


@pytest.mark.parametrize(
    ("effort", "output"),
    [
        (Effort(cost_usd=1234.5), "$1,234.50"),
        (Effort(cost_usd=0.0312), "$0.0312"),
        (Effort(), "$0.00"),
        (Effort(cost_usd=2.0, priced=False), "$2.00+?"),
        (Effort(priced=False), "?"),
    ],
)
def test_money_marks_unknown_prices(effort: Effort, output: str) -> None:
    assert money(effort) == output


def test_forecast_prints_accounts_systems_steps_and_assumptions(plan: Plan) -> None:
    output = printed(plan, {})
    # orig: 10 turns and a judgement; fake-k1: three calls more; of two instances each.
    for expected in ("requests/min", "orig", "fake-k1", "clarify", "assumed", "In all 50 calls", "Assumed:"):
        assert expected in output
    assert "2:30" in output  # 50 calls at 20 a minute
    for assumption in forecast(plan).assumptions:
        assert assumption in output
    tables = output.split("In all")[0]
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= 80


def test_queries_and_pages_are_priced_or_said_to_be_unknown(tmp_path: Path) -> None:
    """Two systems of two instances: ten turns, 4.5 queries and pages each, 18 in all; $2 for 1,000 queries."""
    plan = a_plan(tmp_path, runs_dir=tmp_path, search="mine", visit="jina")
    models = forecast_json(plan, forecast(plan), {})["total"]["known_cost_usd"] - 18 * 0.002
    found = forecast_json(plan, forecast(plan), {})
    assert found["total"]["cost_usd"] is None
    assert found["tools"] == [
        {"tool": "mine", "requests": 18, "cost_usd": 0.036},
        {"tool": "jina", "requests": 18, "cost_usd": None},
    ]
    assert models == pytest.approx(sum(one["known_cost_usd"] for one in found["systems"]), abs=1e-6)
    output = " ".join(printed(plan, {}).split())
    assert f"tokens, at least ${found['total']['known_cost_usd']:.4f}; at least" in output
    assert "The price of jina is unknown (?), for about 18 requests: give usd_per_1000" in output
    assert "The price of mine" not in output
    assert "A first run with --limit 5 replaces these assumptions by measured values." in output
    assert "--limit 5" not in printed(plan, over(plan, done=set()))


def test_unknown_price_of_a_model_gives_a_range(tmp_path: Path) -> None:
    """At the most each token costs what it costs at claude: $3 and $15 a million, the dearest of the catalogue."""
    config = a_plan(tmp_path, runs_dir=tmp_path / "runs").config
    unpriced = replace(config, models=("free",), support="free", judges=("free",), agent="free")
    plan = make_plan(unpriced, load_catalogue(config.config_file), {}, keyless=True)
    total = forecast(plan).total
    most = (3 * total.input_tokens + 15 * total.output_tokens) / 1e6
    assert forecast_json(plan, forecast(plan), {})["total"]["most_cost_usd"] == pytest.approx(most)
    output = " ".join(printed(plan, {}).split())
    assert f"tokens, $0.00 to ${most:.4f}; at least" in output
    assert (
        "between nothing and that of claude, the dearest model of the catalogue ($3 and $15 a million"
        in output
    )


def test_judge_of_its_own_text_is_noticed(plan: Plan) -> None:
    assert plan.remarks == (
        "fake judges its own text, as agent and clarifier: LLM judges tend to prefer their own text (Panickssery et "
        "al. 2024). Use --judge for another judge.",
    )


def test_insufficient_budget_is_warned_about(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, budget=BudgetConfig(max_usd=0.5, max_calls=10), runs_dir=tmp_path)
    # 0.3 to come and 0.3 spent; 5 calls to come and 5 spent are just enough.
    output = budget_warnings(plan, Effort(5, 0, 0, 0.3), Effort(5, 0, 0, 0.3))
    assert output == ["--max-usd 0.5 is less than the expected $0.6000: the run would stop early (exit 75)."]
    assert len(budget_warnings(plan, Effort(6), Effort(5))) == 1


def test_planned_and_actual_are_compared_at_the_end(plan: Plan) -> None:
    # Two systems with 90 calls, 10,000 tokens in and 1,000 out: 2 x (0.01 + 0.01) dollars.
    line = comparison_line(plan, over(plan))
    assert line == (
        "Planned: 200 calls, 46.0k tokens, $1.00, 1:00. Took: 180 calls, 22.0k tokens, $0.0400, 1:15."
    )
    own = replace(plan, custom={"my_lab.ask": {}})
    assert comparison_line(own, over(plan)) == line.replace(
        "1:00.", "1:00 plus the unknown calls of your own roles."
    )
    assert "Nothing is left to do" in printed(plan, over(plan))
    assert line in printed(plan, over(plan))
    unknown = {"instances": 2, **NOTED, "cost_usd": None, "time_s": 60.0}
    assert "Planned: 200 calls, 46.0k tokens, at least $1.00, 1:00." in printed(
        plan, over(plan, forecast=unknown)
    )


@pytest.mark.parametrize(
    ("tokens", "took"),
    [
        ((1000, 100), "180 calls, at least 2,200 tokens, at least $0.0040"),  # 2 x (0.001 + 0.001) dollars
        ((0, 0), "180 calls, tokens unknown, cost unknown"),
    ],
)
def test_replies_without_usage_are_no_tokens_for_nothing(
    plan: Plan, tokens: tuple[int, int], took: str
) -> None:
    runs = over(plan)
    for run in runs.values():
        for usage in run.usages.values():
            usage.input_tokens, usage.output_tokens, usage.n_without_usage = *tokens, 5
    line = comparison_line(plan, runs)
    assert line is not None
    assert line.endswith(f"Took: {took}, 1:15.")


@pytest.mark.parametrize("changes", [{"done": {"s01"}}, {"forecast": None}])
def test_no_comparison_before_the_end_or_without_forecast(plan: Plan, changes: dict[str, Any]) -> None:
    assert planned_and_actual(plan, over(plan, **changes)) is None
    assert planned_and_actual(plan, {}) is None


def test_forecast_json_is_complete_and_adds_up(plan: Plan) -> None:
    runs: dict[System, PastUsage] = {}
    value = json.loads(orjson.dumps(forecast_json(plan, forecast(plan), runs)))
    assert (value["instances"], value["total"]["calls"]) == (2, 50)
    assert value["total"]["bound_by"] == "fake: requests/min"
    for part in ("accounts", "systems", "steps"):
        assert sum(row["calls"] for row in value[part]) == 50
        assert sum(row["cost_usd"] for row in value[part]) == pytest.approx(
            value["total"]["cost_usd"], abs=1e-5
        )
    assert value["accounts"][0]["time_s_by_limit"]["requests/min"] == 150.0
    assert (value["planned"], value["actual"]) == (None, None)
    done = forecast_json(plan, forecast(plan, over(plan)), over(plan))
    assert done["total"]["calls"] == 0
    assert (done["planned"]["calls"], done["actual"]["calls"]) == (200, 180)
