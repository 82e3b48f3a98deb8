"""A forecast against sums made by hand, over the sample world."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking_runs import ANSWER, Models, asked_run, asking
from asking_runs import planned as asking_plan
from written_files import write_lines

from cts_async.config import RunConfig
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.dry_walk import look_up, walk_plan
from cts_async.protocol.forecast import (
    SAMPLE,
    Effort,
    Forecast,
    PastUsage,
    StepsForecast,
    StepUsage,
    forecast,
    manifest_forecast,
    read_past_usage,
)
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.systems import System
from cts_async.records import Mode, language_of

N, K, TURNS = 4, 2, 10
"""Half of 20 turns are assumed."""
PER_ORIG, PER_CLARIFY = TURNS + 1, 1 + K + 1 + TURNS + 1


def planned(directory: Path, table: str = "", **options: Any) -> Plan:
    """Everything is played by `fake`, without a key; `table` adds fields to its entry."""
    config = directory / "cts.toml"
    config.write_text(
        '[models.fake]\nbase_url = "http://a.example/v1"\nmodel = "fake-1"\nkey_env = "NOT_SET"\n'
        "max_concurrency = 4\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n" + table
    )
    asked = RunConfig(models=("fake",), every_role="fake", ks=(K,), limit=N, runs_dir=directory / "runs")
    return make_plan(replace(asked, **options), load_catalogue(config), {}, keyless=True)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path)


def kinds(made: Forecast, system: str) -> dict[str, StepsForecast]:
    return {work.kind: work for work in made.work if work.system == system}


def systems(plan: Plan) -> tuple[System, System]:
    orig, fake = plan.systems
    return orig, fake


def test_every_call_of_every_system_is_counted(plan: Plan) -> None:
    made = forecast(plan)
    assert made.left == {"orig": N, "fake-k2": N}
    assert made.of("orig").calls == N * PER_ORIG
    assert made.of("fake-k2").calls == N * PER_CLARIFY
    assert made.total.calls == N * (PER_ORIG + PER_CLARIFY)
    steps = {kind: work.steps for kind, work in kinds(made, "fake-k2").items()}
    assert steps == {"clarify": N, "answer": N * K, "rewrite": N, "search": N * TURNS, "judge": N}


def test_questions_during_the_search_are_turns_and_calls_of_the_user(tmp_path: Path) -> None:
    plan = planned(tmp_path, ask=("before", "during", "both"), max_asks=4, replies="yes-no")
    made = forecast(plan)
    asking = {kind: work.steps for kind, work in kinds(made, "orig+ask4-yesno").items()}
    assert asking == {"search": N * TURNS, "ask": N * 4, "judge": N}
    both = {kind: work.steps for kind, work in kinds(made, "fake-k2+ask4-yesno").items()}
    assert both == asking | {"clarify": N, "answer": N * K, "rewrite": N}
    replies = kinds(made, "orig+ask4-yesno")["ask"]
    # One after the other, 10 tokens each.
    assert (replies.in_a_row, replies.latency_s) == (4, pytest.approx(1 + 10 / 50))
    # Of 9 responses four are short: all turns after them read less.
    alone = kinds(made, "orig")["search"].each.input_tokens
    assert kinds(made, "orig+ask4-yesno")["search"].each.input_tokens < 0.75 * alone
    assert "at most 4 of its turns are questions, each with one call of the user" in " ".join(
        made.assumptions
    )


def test_agent_that_can_only_ask_takes_a_turn_for_each_question(tmp_path: Path) -> None:
    made = forecast(planned(tmp_path, models=(), references=(), ask=("during",), tools=("none",)))
    steps = {kind: work.steps for kind, work in kinds(made, "orig+ask3").items()}
    assert steps == {"search": N * 4, "ask": N * 3, "judge": N}


def test_code_that_asks_a_model_as_the_user_is_forecast_by_its_questions(tmp_path: Path) -> None:
    made = forecast(planned(tmp_path, models=(), references=(), ask=("during",), agent="baseline"))
    steps = {kind: work.steps for kind, work in kinds(made, "orig+ask3").items()}
    assert steps == {"ask": N * 3, "judge": N}


def test_replies_during_the_search_are_measured_by_themselves(tmp_path: Path) -> None:
    """The user's short replies are no turns of the search, whose steps they stand among."""
    models = Models([asking("Which season?", "For whom?"), ANSWER], lambda question: "winter")
    usages = read_past_usage(asked_run(tmp_path, models), ("lexical",)).usages
    steps = {key: usage.steps for key, usage in usages.items()}
    assert steps == {("search", "agent-1"): 2, ("ask", "user-1"): 2}


def test_dry_walk_looks_up_the_replies_of_an_interrupted_search(tmp_path: Path) -> None:
    models = Models([asking("Which season?"), ANSWER], lambda question: "winter")
    run = asked_run(tmp_path, models)
    (run / "results.jsonl").unlink()
    steps = (run / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (run / "steps.jsonl").write_bytes(b"".join(steps[:-1]))
    plan = asking_plan(tmp_path)
    walks, notices = look_up(walk_plan, plan, {})
    (walk,) = walks.values()
    ((progress, n),) = walk.progress.items()
    assert (dict(progress.found), progress.missing, n, notices) == (
        {"search": 1, "ask": 1},
        {"search"},
        1,
        [],
    )
    left = {work.kind: work.steps for work in forecast(plan, walks=walks).work}
    assert left == {"search": 9, "ask": 2}


def test_prompts_are_counted_as_they_will_be_sent(plan: Plan) -> None:
    instances = list(plan.instances())
    rendered = [
        plan.prompts.get("clarify", language_of(query)).render(blurred_query=query, k=K)
        for query in (instance.query for instance in instances)
    ]
    by_hand = [sum(8 + len(message["content"].encode()) / 4 for message in messages) for messages in rendered]
    work = kinds(forecast(plan), "fake-k2")["clarify"]
    assert work.each.input_tokens == pytest.approx(sum(by_hand) / N)
    # Two questions of 25 tokens, 10 around them; 1 s and 50 tokens a second.
    assert work.each.output_tokens == 60
    assert work.latency_s == pytest.approx(2.2)
    assert work.each.cost_usd == pytest.approx((work.each.input_tokens * 1.0 + 60 * 10.0) / 1e6)


def english(directory: Path, rows: int) -> dict[str, Any]:
    """Options for data of as many English rows, without gold."""
    lines = "".join(f"q{i},the winter ferry times of line {i},ferry times\n" for i in range(rows))
    (directory / "many.csv").write_text("id,fused_query,blurred_query\n" + lines)
    document = '{"id": "d", "url": "https://a.example", "title": "t", "text": "x"}\n'
    (directory / "docs.jsonl").write_text(document)
    corpus = directory / "docs.jsonl"
    return {"data": str(directory / "many.csv"), "corpus": corpus, "limit": None, "no_judge": True}


def test_a_turn_reads_all_turns_before_it_again(tmp_path: Path) -> None:
    options = english(tmp_path, N)
    one, ten = (
        kinds(forecast(planned(tmp_path, max_turns=turns, **options)), "orig")["search"] for turns in (1, 20)
    )
    # A turn says 250 and is given 3,750 characters, which are 938 tokens of English, in two messages of 8:
    # the tenth reads nine of those, so the ten read 4.5 on average. The first reads the opening only.
    assert (one.steps, ten.steps) == (N, N * TURNS)
    assert ten.each.input_tokens - one.each.input_tokens == pytest.approx(4.5 * (250 + 937.5 + 16))
    assert (one.each.output_tokens, ten.each.output_tokens) == (500, 275)


@pytest.mark.parametrize(("allowed", "assumed"), [(1, 1), (3, 3), (4, 4), (8, 4), (9, 5), (20, 10)])
def test_a_search_takes_half_of_its_turns_or_all_of_a_few(tmp_path: Path, allowed: int, assumed: int) -> None:
    made = forecast(planned(tmp_path, max_turns=allowed))
    assert kinds(made, "orig")["search"].steps == N * assumed


def test_time_of_an_instance_is_its_longest_chain_of_steps(plan: Plan) -> None:
    made = forecast(plan)
    nuggets = [len(instance.nuggets) for instance in plan.instances()]
    judge_s = 1 + (12 * sum(nuggets) / N + 10) / 50
    # Clarifier 2.2, the answers side by side 1.2, rewriter 1.8, ten turns of 6.5.
    assert made.chain_s == pytest.approx(2.2 + 1.2 + 1.8 + 65.0 + judge_s)
    # Enough for a lane of 4: 6 instances; both systems' walks, 6 at a time.
    assert made.in_flight == 6
    assert made.in_flight_s == pytest.approx(N * (made.chain_s + 65.0 + judge_s) / 6)


@pytest.mark.parametrize(
    ("table", "binding", "time_s"),
    [
        ("requests_per_min = 6\n", "requests/min", N * (PER_ORIG + PER_CLARIFY) * 10),
        ("requests_per_min = 6000\ntokens_per_min = 1000\n", "tokens/min", None),
        ("requests_per_min = 6000\n", "concurrency", None),
    ],
)
def test_the_tightest_limit_of_an_account_binds(
    tmp_path: Path, table: str, binding: str, time_s: float | None
) -> None:
    (lane,) = forecast(planned(tmp_path, table)).lanes
    assert lane.binding == binding
    expected = {"tokens/min": lane.effort.tokens / 1000 * 60, "concurrency": lane.under["concurrency"]}
    assert lane.time_s == pytest.approx(expected.get(binding, time_s))


def test_forecast_takes_as_long_as_its_slowest_part(tmp_path: Path) -> None:
    slow = forecast(planned(tmp_path, "requests_per_min = 1\n"))
    assert (slow.binding, slow.time_s) == ("fake: requests/min", N * (PER_ORIG + PER_CLARIFY) * 60)
    one = forecast(planned(tmp_path, limit=1, references=()))
    assert (one.binding, one.time_s) == ("one instance's walk", one.chain_s)


def test_models_of_one_account_share_its_limits(tmp_path: Path) -> None:
    other = '[models.other]\nbase_url = "http://a.example/v1"\nmodel = "o-1"\nkey_env = "NOT_SET"\n'
    made = forecast(planned(tmp_path, "requests_per_min = 60\n" + other, judges=("other",)))
    (lane,) = made.lanes
    assert lane.models == ("fake", "other")
    assert lane.under["requests/min"] == N * (PER_ORIG + PER_CLARIFY)
    # The judge has no price: of the rest the cost is known.
    assert made.unpriced == ("other",)
    assert not made.total.priced
    assert made.total.as_json()["cost_usd"] is None
    assert made.total.as_json()["known_cost_usd"] > 0


def test_large_data_is_sampled_evenly_and_counted_in_full(tmp_path: Path) -> None:
    made = forecast(planned(tmp_path, **english(tmp_path, 1001)))
    assert made.of("orig").calls == 1001 * TURNS
    assert "rendered over 167 of 1001 instances" in made.assumptions[0]  # every sixth
    assert SAMPLE >= 167
    assert "judge" not in {work.kind for work in made.work}


# --- What a run shows


def test_finished_work_is_subtracted_from_the_forecast(plan: Plan) -> None:
    orig, fake = systems(plan)
    ids = [instance.id for instance in plan.instances()]
    begun = Counter({("clarify", "fake-1"): 1, ("answer", "fake-1"): 2, ("search", "fake-1"): 3})
    runs = {orig: PastUsage(done=set(ids)), fake: PastUsage(done=set(ids[:1]), begun=begun)}
    made = forecast(plan, runs)
    assert made.left == {"orig": 0, "fake-k2": 3}
    assert made.of("orig").calls == 0
    steps = {kind: work.steps for kind, work in kinds(made, "fake-k2").items()}
    assert steps == {"clarify": 2, "answer": 4, "rewrite": 3, "search": 27, "judge": 3}


def test_past_usage_replaces_assumptions(plan: Plan) -> None:
    orig, fake = systems(plan)
    runs = {
        # Four judgements in five calls, 400 + 100 tokens and 2 s each.
        orig: PastUsage({("judge", "fake-1"): StepUsage(3, 4, 1200, 300, 6.0)}, searches=2, turns=6),
        fake: PastUsage({("judge", "fake-1"): StepUsage(1, 1, 400, 100, 2.0)}, searches=2, turns=6),
    }
    made = forecast(plan, runs)
    for system in ("orig", "fake-k2"):
        judge = kinds(made, system)["judge"]
        assert judge.each == Effort(1.25, 400, 100, pytest.approx((400 + 1000) / 1e6))
        assert (judge.latency_s, judge.observed) == (2.0, 4)
        assert judge.effort.calls == N * 1.25
        assert kinds(made, system)["search"].steps == N * 3
        assert kinds(made, system)["search"].observed == 0
    assert "judge by fake (4 steps)" in made.assumptions[-1]


def test_a_manifest_keeps_the_first_forecast_until_instances_are_added(plan: Plan, tmp_path: Path) -> None:
    orig, _ = systems(plan)
    made = forecast(plan)
    first = manifest_forecast(plan, made, orig)
    assert first["instances"] == N
    assert first["calls"] == N * PER_ORIG
    assert first["time_s"] == round(made.time_s, 1)
    directory = plan.systems[orig]
    directory.mkdir(parents=True)
    (directory / "run.json").write_text('{"forecast": {"instances": 4, "calls": 7}}')
    assert manifest_forecast(plan, made, orig) == {"instances": 4, "calls": 7}
    more = planned(tmp_path, limit=5)
    assert manifest_forecast(more, forecast(more), orig)["calls"] == 5 * PER_ORIG


TALKS: dict[str, dict[str, float]] = {
    "fake-cot-k2": {"clarify": N, "answer": N * K, "rewrite": N},
    "fake-cot-respond-k2": {"clarify": N * K, "answer": N * K, "reformulate": N},
    "fake-cot-select-k2": {"clarify": N * K, "select": N * K},
}


def test_the_calls_of_a_conversation_are_those_of_its_turns(tmp_path: Path) -> None:
    made = forecast(planned(tmp_path, schemes=("cot",), modes=("at-once", "respond", "select")))
    search = {"search": N * TURNS, "judge": N}
    for label, talk in TALKS.items():
        assert {kind: work.steps for kind, work in kinds(made, label).items()} == talk | search


def test_averages_are_of_the_replies_that_name_their_tokens(plan: Plan) -> None:
    _, fake = systems(plan)
    # Of four judgements one named no tokens: three had 1,200 + 300. Of four questions none did.
    counted = StepUsage(4, 4, 1200, 300, 8.0, n_without_usage=1)
    uncounted = StepUsage(4, 4, 0, 0, 4.0, n_without_usage=4)
    shown = {("judge", "fake-1"): counted, ("clarify", "fake-1"): uncounted}
    made, before = forecast(plan, {fake: PastUsage(shown)}), forecast(plan)
    assert kinds(made, "fake-k2")["judge"].each == Effort(1, 400, 100, pytest.approx((400 + 1000) / 1e6))
    clarify = kinds(made, "fake-k2")["clarify"]
    assert clarify.each == kinds(before, "fake-k2")["clarify"].each
    assert (clarify.latency_s, clarify.observed) == (1.0, 4)


def test_past_usage_of_one_scheme_is_not_used_for_another(tmp_path: Path) -> None:
    """A Clarifier that thinks first writes more; whoever judges has the same to do."""
    plan = planned(tmp_path, schemes=("standard", "at-cot"), modes=("respond",), references=())
    standard, _ = plan.systems
    shown = {
        ("clarify", "fake-1"): StepUsage(4, 4, 400, 40, 4.0),
        ("judge", "fake-1"): StepUsage(4, 4, 800, 80, 4.0),
    }
    made, before = forecast(plan, {standard: PastUsage(shown)}), forecast(plan)
    assert kinds(made, "fake-standard-respond-k2")["clarify"].each.output_tokens == 10
    label = "fake-at-cot-respond-k2"
    assert kinds(made, label)["clarify"] == kinds(before, label)["clarify"]
    assert kinds(made, label)["judge"].each.output_tokens == 20


@pytest.mark.parametrize(("mode", "step", "n"), [("respond", "reformulate", N), ("select", "select", N * K)])
def test_support_is_counted_where_others_answer_and_rewrite(
    tmp_path: Path, mode: Mode, step: str, n: int
) -> None:
    """Only a Rewriter of the user's own reformulates; a model that rewrites leaves it, and choosing, to the support."""
    players = {"answerer": "gpt", "rewriter": "claude", "every_role": None, "support": "fake"}
    plan = planned(tmp_path, schemes=("cot",), modes=(mode,), **players)
    work = kinds(forecast(plan), f"fake-cot-{mode}-k2")[step]
    assert (work.model, work.steps) == ("fake", n)


def test_turns_are_sequential_and_their_prompts_grow(tmp_path: Path) -> None:
    options = {"schemes": ("at-cot",), "modes": ("respond",), "references": (), "ks": (3,)}
    plan = planned(tmp_path, **options, **english(tmp_path, 1))
    (work,) = [work for work in forecast(plan).work if work.kind == "clarify"]
    assert work.in_a_row == 3
    # Reasoning of 80, types and the JSON of 10 each, a question of 25.
    assert work.each.output_tokens == 125
    middle = f"Query: ferry times\nQuestion 1: {'x' * 100}\nAnswer 1: {'x' * 40}"
    prompt = plan.prompts.get("at_cot", "en")
    sent = prompt.render(conversation=middle, blurred_query="ferry times", k=1)
    by_hand = sum(8 + len(message["content"].encode()) / 4 for message in sent)
    assert work.each.input_tokens == pytest.approx(by_hand)


# --- What a run's files show: counted by hand.


def step(instance: str, name: str, used: tuple[int, int], latency_s: float, **more: Any) -> dict[str, Any]:
    usage = {"input": used[0], "output": used[1]}
    record = {"key": "0" * 32, "ok": True, "instance": instance, "step": name, "model": "m-1", "usage": usage}
    return {**record, "latency_s": latency_s, "attempts": 1, **more}


def a_run(directory: Path) -> None:
    """q1 is done, q2 has failed, q3 has asked its question."""
    forecast = {"instances": 3, "calls": 12}
    sessions = [{"wall_s": 2.5}, {"wall_s": None}, {"wall_s": 4.0}]
    (directory / "run.json").write_text(json.dumps({"forecast": forecast, "sessions": sessions}))
    write_lines(
        directory / "results.jsonl",
        {"id": "q1", "search": {"model_calls": 4}},
        {"id": "q2", "error": {"step": "clarify", "kind": "rejected", "message": "no"}},
    )
    write_lines(
        directory / "steps.jsonl",
        step("q1", "clarify", (100, 20), 2.0),
        step("q1", "search/turn/1", (300, 30), 1.0),
        step("q1", "search/turn/2", (500, 10), 3.0),
        {"key": "0" * 32, "ok": True, "instance": "q1", "step": "search/tool/1.1", "latency_s": 9.0},
        step("q1", "judge/m", (50, 5), 1.0),
        step("q1", "judge/other", (999, 99), 1.0),  # added by another command
        step("q2", "clarify", (100, 60), 0.0, ok=False, attempts=3),
        step("q3", "clarify", (120, 40), 4.0, attempts=2),
    )


def test_steps_are_summed_by_kind_and_model(tmp_path: Path) -> None:
    a_run(tmp_path)
    run = read_past_usage(tmp_path, ["m"])
    assert run.usages == {
        ("clarify", "m-1"): StepUsage(steps=2, calls=6, input_tokens=320, output_tokens=120, latency_s=6.0),
        ("search", "m-1"): StepUsage(steps=2, calls=2, input_tokens=800, output_tokens=40, latency_s=4.0),
        ("judge", "m-1"): StepUsage(steps=1, calls=1, input_tokens=50, output_tokens=5, latency_s=1.0),
    }
    assert (run.searches, run.turns) == (1, 4)
    assert run.wall_s == 6.5
    assert run.forecast == {"instances": 3, "calls": 12}


@pytest.mark.parametrize("search", [4, {"model_calls": "four"}, {"model_calls": None}])
def test_search_of_another_form_shows_no_turns(tmp_path: Path, search: Any) -> None:
    a_run(tmp_path)
    write_lines(tmp_path / "results.jsonl", {"id": "q1", "search": search})
    assert (read_past_usage(tmp_path, ["m"]).searches, read_past_usage(tmp_path, ["m"]).turns) == (1, 0)
