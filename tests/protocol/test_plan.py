"""Where searches and visits go: options, then what a replayed run did, then what there is."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from audited_runs import made
from virtual_time import run_virtual

from cts_async.config import BudgetConfig, RunConfig
from cts_async.engine.budget import Budget, BudgetLimits
from cts_async.engine.events import Cost, Events
from cts_async.engine.journal import read_records
from cts_async.engine.prices import Prices
from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.protocol.forecast import forecast
from cts_async.protocol.plan import Plan, SearchPlan, make_plan, plan_search
from cts_async.protocol.prompts import load_prompts
from cts_async.protocol.run import open_budget, spent_before
from cts_async.protocol.systems import check_prices
from cts_async.records import AgentPrompt
from cts_async.runs.manifest import require_manifest
from cts_async.search.catalog import load_search

JINA = {"JINA_API_KEY": "k"}


def searching(
    environ: dict[str, str] | None = None, documents: Path | None = None, **options: Any
) -> SearchPlan:
    return plan_search(RunConfig(**options), load_search(), environ or {}, documents)


def planned(
    tmp_path: Path,
    environ: dict[str, str] | None = None,
    *,
    table: str = "",
    keyless: bool = False,
    keys_elsewhere: bool = False,
    **options: Any,
) -> Plan:
    """A plan in which `m` plays everybody; `table` adds fields to its entry."""
    config = tmp_path / "cts.toml"
    config.write_text(
        f'[models.m]\nbase_url = "http://a.example/v1"\nmodel = "m-1"\n{table}\n'
        '[models.reader]\nbase_url = "http://b.example/v1"\nmodel = "r-1"\ncontext_tokens = 4096\n'
    )
    asked = RunConfig(models=("m",), every_role="m", limit=2, runs_dir=tmp_path / "runs", config_file=config)
    models = load_catalogue(config)
    asked = replace(asked, **options)
    return make_plan(asked, models, environ or {}, keyless=keyless, keys_elsewhere=keys_elsewhere)


def identity(plan: Plan) -> dict[str, Any]:
    """The identity of the plan's first system."""
    return plan.identity(next(iter(plan.systems)))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "d", "url": "https://a.example", "title": "t", "text": "x"}\n')
    return path


@pytest.mark.parametrize(
    ("environ", "reader"), [({}, "direct"), (JINA, "jina"), ({"JINA_API_KEY": " "}, "direct")]
)
def test_jina_reads_the_web_where_its_key_is_set(
    environ: dict[str, str], reader: str, documents: Path
) -> None:
    made = searching(environ, documents, search="serper")
    assert (made.engine.name, made.reader.name, made.corpus) == ("serper", reader, None)
    assert made.web


def test_missing_keys_are_named_together_and_only_addresses_where_workers_have_the_keys(
    tmp_path: Path,
) -> None:
    asked: dict[str, Any] = {"models": ("gpt",), "every_role": "gpt", "search": "serper", "visit": "jina"}
    with pytest.raises(UsageError) as raised:
        planned(tmp_path, **asked)
    for missing in (
        "OPENAI_API_KEY (model, support",
        "SERPER_API_KEY (tools: serper)",
        "JINA_API_KEY (tools",
    ):
        assert missing in str(raised.value)
    made = planned(tmp_path, {}, keys_elsewhere=True, **asked)
    assert {spec.key_env for spec in made.specs.values()} == {"OPENAI_API_KEY"}
    assert made.specs["gpt"].base_url == planned(tmp_path, {}, keyless=True, **asked).specs["gpt"].base_url
    with pytest.raises(
        UsageError, match=r"^missing in the environment: WEBDANCER_BASE_URL \(agent: webdancer\)"
    ):
        planned(tmp_path, {}, keys_elsewhere=True, **asked, agent="webdancer")


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        ({}, None),
        ({"visit_model": "reader"}, "reader"),
        ({"search": "serper"}, "m"),
        (
            {"search": "serper", "support": "reader", "every_role": None, "agent": "m", "judges": ("m",)},
            "reader",
        ),
        ({"search": "serper", "visit_model": "lexical"}, None),
    ],
)
def test_pages_of_the_web_are_read_by_the_support_model_and_documents_by_their_words(
    tmp_path: Path, options: dict[str, Any], reader: str | None
) -> None:
    made = planned(tmp_path, {}, keyless=True, **options)
    (orig, *_) = made.systems
    assert made.roles.visit == reader
    assert made.players(orig).get("visit") == reader
    assert ("visit.en" in made.identity(orig)["prompts"]) == (reader is not None)


def test_a_model_s_context_bounds_the_conversation(tmp_path: Path) -> None:
    assert planned(tmp_path, {}).settings.max_input_tokens is None
    assert planned(tmp_path, {}, agent="reader").settings.max_input_tokens == 4096
    dancer = planned(tmp_path, {"WEBDANCER_BASE_URL": "http://c.example/v1"}, agent="webdancer")
    assert dancer.settings.max_input_tokens == 58_000
    # Of 4,096 tokens a reply may have 1,200.
    local = planned(tmp_path, {}, agent="local")
    assert local.settings.max_input_tokens == 2896


def test_forecast_counts_pages_read_and_requests_to_tools(tmp_path: Path) -> None:
    made = forecast(planned(tmp_path, {}, keyless=True, search="serper", visit="jina", visit_model="reader"))
    # Ten turns of twenty, nine of them with a call: 4.5 pages of 3,396 tokens (4,096 less 700), 4.5 queries.
    visits = {work.system: work for work in made.work if work.kind == "visit"}
    assert visits["orig"].model == "reader"
    assert (visits["orig"].steps, visits["orig"].in_a_row) == (2 * 4.5, 4.5)
    # Reply without a limit: 700 tokens are kept for it, and 700 for the prompt around the page.
    assert 4096 - 1400 < visits["orig"].each.input_tokens < 4096 - 700
    assert visits["orig"].each.output_tokens == 350
    lanes = {lane.name: lane for lane in made.lanes}
    assert lanes["serper"].effort.calls == lanes["jina"].effort.calls == 2 * 2 * 4.5
    assert lanes["jina"].under["requests/min"] == pytest.approx(18 / 500 * 60)
    assert any("reader reads in one call" in assumption for assumption in made.assumptions)


# --- Run directories of a trial with the embedded model and of what is run after it, in the same folder of runs.


@pytest.fixture
def embedded(tmp_path: Path) -> dict[str, str]:
    """An environment with an embedded model that nobody starts."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    return {"CTS_LOCAL_MODEL": str(file)}


def names(config: RunConfig, environ: dict[str, str]) -> list[str]:
    plan = make_plan(config, load_catalogue(None), environ, keyless=True)
    return [directory.name for directory in plan.systems.values()]


def test_smoke_test_does_not_take_the_names_of_later_runs(embedded: dict[str, str]) -> None:
    trial, real = names(RunConfig(), embedded), names(RunConfig(models=("gpt",), ks=(3,)), embedded)
    assert trial == ["sample-orig+all-local", "sample-local-k1"]
    assert real == ["sample-orig", "sample-gpt-k3"]
    with_gpt = names(RunConfig(models=("local", "gpt")), embedded)
    # Beside a hosted Clarifier the paper's models answer, search and judge for the embedded one, too.
    assert with_gpt == [
        "sample-orig",
        "sample-local-k1+support-ernie+agent-webdancer+judge-ernie",
        "sample-gpt-k1",
    ]
    assert not set(trial) & set(with_gpt)


# --- Nuggets per call: part of a run's identity only where it changes what is asked


def test_nuggets_per_call_are_in_the_identity_where_a_list_is_split(tmp_path: Path) -> None:
    """No instance of the sample world has as many as 19 nuggets."""
    usual, more, few = (
        identity(planned(tmp_path, table=table, references=(), limit=8))
        for table in ("", "judge_nuggets = 19", "judge_nuggets = 2")
    )
    assert usual == more
    assert "nuggets_per_call" not in usual
    assert few["nuggets_per_call"] == {"m": 2}
    for wrong in ("0", "-1", "1.5", '"many"'):
        with pytest.raises(InputError, match=r"cts\.toml:4.*judge_nuggets"):
            planned(tmp_path, table=f"judge_nuggets = {wrong}")


def test_allowed_private_addresses_belong_to_the_identity_of_a_run() -> None:
    allowed = searching(search="serper", visit="direct", allow_addresses=("wiki.lan", "10.0.0.0/8"))
    assert allowed.reader.allow == ("wiki.lan", "10.0.0.0/8")
    assert allowed.identity["visit"]["allow"] == ["10.0.0.0/8", "wiki.lan"]
    through_jina = searching(JINA, search="serper", allow_addresses=("wiki.lan",))
    assert through_jina.reader.allow == ("wiki.lan",)
    with pytest.raises(UsageError, match="--allow-address applies to web pages only, but --visit is corpus"):
        searching(search="corpus", allow_addresses=("wiki.lan",))
    with pytest.raises(UsageError, match="--allow-address: .*neither a host nor a network"):
        searching(search="serper", allow_addresses=("10.0.0.0/99",))


# --- The prompt of the agent


PROMPTS = load_prompts()
TODAY = "2031-05-01"


def planned_with(**options: Any) -> Plan:
    asked = RunConfig(models=("gpt",), no_judge=True, **options)
    return make_plan(asked, load_catalogue(None), {}, keyless=True)


def agent_prompts(plan: Plan) -> list[str]:
    return [name for name in identity(plan)["prompts"] if name.startswith("agent")]


def test_webdancer_gets_its_native_prompt_and_the_run_records_it() -> None:
    plan = planned_with()
    assert plan.roles.agent == "webdancer"
    assert identity(plan)["agent_prompt"] == "native"
    assert agent_prompts(plan) == ["agent.native"]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("native", ["agent.native"]),
        ("en", ["agent.en", "agent.small.en"]),
        ("zh", ["agent.small.zh", "agent.zh"]),
        ("query", ["agent.en", "agent.small.en", "agent.small.zh", "agent.zh"]),
    ],
)
def test_agent_prompt_option_overrides_the_catalogue(choice: AgentPrompt, names: list[str]) -> None:
    assert agent_prompts(planned_with(agent_prompt=choice)) == names
    assert agent_prompts(planned_with(agent="gpt", agent_prompt=choice)) == names


def test_the_native_prompt_has_the_layout_of_webdancer_s_training() -> None:
    """Principles and date in the system message; format, tools and example in front of the question."""
    system, user = PROMPTS.agent("native", "q").render(question="Who?", current_date=TODAY)
    assert system["content"].endswith(f"\n\nCurrent date: {TODAY}")
    assert "# Tools" not in system["content"]
    assert user["content"].index("# Tools\n") < user["content"].index("Example:\n")
    assert user["content"].endswith("\n\nUser: Who?")


def test_date_option_is_in_the_prompt_and_stays_that_of_the_run(tmp_path: Path) -> None:
    first = made(tmp_path, limit=1, date="2019-07-04")["orig"]
    openings = [step for step in read_records(first / "steps.jsonl") if step["step"] == "search/turn/1"]
    assert [step["request"]["fields"]["current_date"] for step in openings] == ["2019-07-04"]
    journal = (first / "steps.jsonl").read_bytes()
    assert require_manifest(first).identity.current_date == "2019-07-04"
    # Resumed on another day, without the option: everything is remembered under the same date.
    assert made(tmp_path, limit=1)["orig"] == first
    assert (first / "steps.jsonl").read_bytes() == journal


# --- A budget begins with what the command's own journals say was spent


PRICES = Prices(1.0, 10.0)


def spec(name: str, *, priced: bool = True) -> ModelSpec:
    prices = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0} if priced else {}
    return ModelSpec(name, "openai", "http://a.example/v1", f"{name}-1", None, name, 8, **prices)


def record(
    step: str, model: str = "m-1", used: tuple[int, int] | None = (100, 10), **more: Any
) -> dict[str, Any]:
    usage = {} if used is None else {"usage": {"input": used[0], "output": used[1]}}
    return {"key": "0" * 32, "ok": True, "step": step, "model": model, "attempts": 1, **usage, **more}


def journal(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_every_attempt_of_every_journal_counts(tmp_path: Path) -> None:
    paths = [
        journal(
            tmp_path / "a.jsonl",
            record("clarify"),
            # Failed for good after three attempts, which were charged 250 + 30 together.
            record("rewrite", used=(250, 30), ok=False, attempts=3),
            {"key": "0" * 32, "ok": True, "step": "search/tool/1.1", "attempts": 1},  # a tool: no model, free
        ),
        journal(tmp_path / "b.jsonl", record("clarify", used=None, assumed={"tokens": 40.0, "usd": 0.5})),
        tmp_path / "missing.jsonl",
        # A stranger's journal gives nothing back, and what is no number is none.
        journal(
            tmp_path / "c.jsonl",
            record("clarify", used=(-9000, -9000), attempts=-50, assumed={"tokens": -1e9, "usd": -100.0}),
            record("clarify", model=["m-1"]),
            {**record("clarify"), "usage": [1, 2], "assumed": "all", "attempts": None},
        ),
    ]
    # 110 + 280 + 40 tokens; (350 x 1 + 40 x 10) / 1e6 dollars and the half assumed.
    assert spent_before(paths, {"m-1": PRICES}, lambda step: True) == Cost(5, 430, pytest.approx(0.50075))


def opened(
    asked: BudgetConfig, journals: list[Path], *judges: str, only_judges: bool = False
) -> Budget | None:
    async def main() -> Budget | None:
        config = SimpleNamespace(budget=asked)
        plan = SimpleNamespace(
            config=config,
            specs_by_model={spec("m").model: spec("m")},
            journals=journals,
            judges=judges,
            only_judges=only_judges,
        )
        return open_budget(plan, Events())  # type: ignore[arg-type]

    return run_virtual(main)


def test_a_command_counts_its_own_steps_only(tmp_path: Path) -> None:
    steps = [record("clarify"), record("search/turn/1"), record("judge/own"), record("judge/further")]
    path = journal(tmp_path / "a.jsonl", *steps)
    running = opened(BudgetConfig(max_calls=9), [path], "own")
    judging = opened(BudgetConfig(max_calls=9), [path], "further", only_judges=True)
    assert running
    assert judging
    assert (running.spent.calls, judging.spent.calls) == (3, 1)
    assert running.limits == BudgetLimits(max_calls=9)
    assert running.deadline is None


def test_a_deadline_moves_from_the_wall_clock_to_the_loops() -> None:
    budget = opened(BudgetConfig(deadline=time.time() + 1000.0), [])
    assert budget
    assert budget.deadline
    # The virtual loop began at 0.
    assert budget.deadline.at == pytest.approx(1000.0, abs=60.0)
    assert budget.limits == BudgetLimits()


def test_dollars_need_every_price_and_every_missing_one_is_named() -> None:
    check_prices([spec("cheap")])
    with pytest.raises(UsageError, match=r"price of dear, unknown:x: give input_usd_per_mtok and output_usd"):
        check_prices([spec("cheap"), spec("dear", priced=False), spec("unknown:x", priced=False)])
