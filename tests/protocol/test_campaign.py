"""Whole runs of the sample world against a provider that speaks real HTTP, well and badly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_roles
import orjson
import pytest
from audited_runs import made, write
from fake_provider import FAULTS, THOUGHTS, FakeProvider, Settings
from written_files import read_lines

from cts_async.analysis.board import make_board
from cts_async.analysis.summary import summarise_run
from cts_async.config import BudgetConfig, JudgeConfig, RunConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine import runner
from cts_async.engine.events import Event, Events, JobsFound, StepEnded, Usage
from cts_async.engine.journal import read_records
from cts_async.engine.step import RetryPolicy
from cts_async.errors import BudgetSpent, ProviderDown, UsageError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.llm.model import Client
from cts_async.protocol.audit import audit_run
from cts_async.protocol.plan import make_plan
from cts_async.protocol.rejudge import plan_judging
from cts_async.protocol.run import run_plan
from cts_async.runs.finished import read_run
from cts_async.runs.manifest import manifest_of, require_manifest
from cts_async.runs.results import failed, latest_results
from cts_async.scorer import score_file
from cts_async.tables.summary import summary_json, write_summary

N, K = 10, 2
TURNS = 2
"""Model calls of the fake agent: it searches once, then answers."""
CLARIFIED, ORIG = 1 + K + 1 + TURNS + 1, TURNS + 1
"""Calls for an instance: clarify, answer, rewrite, search, judge; and search, judge."""
EXPECTED_CALLS = N * (CLARIFIED + ORIG)
KEY = "sk-right-0123456789"
SYSTEMS = ("orig", "fake-k2")
FAULTS_20_PERCENT = dict.fromkeys(FAULTS, 0.2 / len(FAULTS))
FAKE = (
    '[models.fake]\nbase_url = "{url}"\nmodel = "fake-1"\nkey_env = "FAKE_KEY"\n'
    "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 2.0\n"
)


@pytest.fixture(autouse=True)
def _fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


def campaign(
    directory: Path,
    provider: FakeProvider,
    *,
    model: str = "fake",
    table: str = FAKE,
    events: Events | None = None,
    **options: Any,
) -> dict[str, Path]:
    """Run or resume; give the run directories by system. Raises what `cts run` would report."""
    config = directory / "cts.toml"

    async def main() -> dict[str, Path]:
        async with provider:
            config.write_text(table.format(url=provider.url))
            asked = RunConfig(
                models=(model,), every_role=model, ks=(K,), limit=N, runs_dir=directory / "runs"
            )
            environ = {"FAKE_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
            plan = make_plan(replace(asked, **options), load_catalogue(config), environ)
            # The date is part of the agent's prompt: the same requests, and so the same faults, every day.
            plan = replace(plan, current_date="2033-01-15")
            try:
                await run_plan(plan, environ, events or Events())
            finally:
                for path in plan.systems.values():
                    write_summary(summarise_run(path))
            return {system.label: path for system, path in plan.systems.items()}

    return asyncio.run(main())


def results_of(run: Path) -> list[dict[str, Any]]:
    return list(latest_results(run / "results.jsonl").values())


def summary_of(run: Path) -> dict[str, Any]:
    summary: dict[str, Any] = orjson.loads((run / "summary.json").read_bytes())
    return summary


def counts(run: Path) -> tuple[int, int, float | None]:
    summary = summary_of(run)
    return summary["n_scored"], summary["n_failed"], summary["mean"]


def again(provider: FakeProvider, **settings: Any) -> FakeProvider:
    """The same provider's behaviour on another port, with nothing counted yet."""
    return FakeProvider(replace(provider.settings, **settings))


def test_run_scores_every_instance_once_and_is_resumed_for_nothing(tmp_path: Path) -> None:
    provider = FakeProvider(Settings(unknown_share=0.5))
    runs = campaign(tmp_path, provider)
    assert tuple(runs) == SYSTEMS
    roles = Counter(request.role for request in provider.seen)
    assert roles == {"clarify": N, "answer": K * N, "rewrite": N, "agent": 2 * TURNS * N, "judge": 2 * N}
    for run in runs.values():
        command = [sys.executable, "-m", "cts_async.scorer", "--json", str(run / "results.jsonl")]
        alone = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[0]
        summary = summary_of(run)
        assert (summary["n_expected"], summary["n_scored"], summary["n_failed"]) == (N, N, 0)
        shared = ("n_scored", "n_failed", "mean", "p50", "p90", "min", "max")
        assert {name: alone[name] for name in shared} == {name: summary[name] for name in shared}
        assert summary["mean"] > 0
    summary = summary_of(runs["fake-k2"])
    unknown = sum(line["answers"].count("unknown") for line in results_of(runs["fake-k2"]))
    assert 0 < unknown < K * N
    assert summary["ua_unknown_rate"] == unknown / (K * N)
    used = summary["tokens"]["fake-1"]
    assert summary["cost_usd"] == pytest.approx((used["input"] + 2 * used["output"]) / 1e6)
    assert (summary["calls"], summary["failed_attempts"]) == (N * CLARIFIED, 0)

    before = {name: latest_results(run / "results.jsonl") for name, run in runs.items()}
    written = [(run / "results.jsonl").read_bytes() for run in runs.values()]
    events: list[Event] = []
    second = again(provider)
    campaign(tmp_path, second, events=Events(events.append))
    assert second.seen == []
    assert events == [JobsFound(run.name, N) for run in runs.values()]
    assert [(run / "results.jsonl").read_bytes() for run in runs.values()] == written
    # Lost results are made again from the journal.
    for run in runs.values():
        (run / "results.jsonl").unlink()
    third = again(provider)
    campaign(tmp_path, third)
    assert third.seen == []
    assert {name: latest_results(run / "results.jsonl") for name, run in runs.items()} == before


# --- Faults


@pytest.mark.parametrize(
    ("faults", "seed"),
    [(FAULTS_20_PERCENT, 1), (FAULTS_20_PERCENT, 2), ({"empty": 0.25, "length": 0.2, "wrong_ids": 0.2}, 5)],
)
def test_every_instance_is_accounted_for_despite_faults(
    tmp_path: Path, faults: dict[str, float], seed: int
) -> None:
    provider = FakeProvider(Settings(faults=faults, retry_after_s=0.15, seed=seed))
    runs = campaign(tmp_path, provider)
    assert sum(bool(request.fault) for request in provider.seen) > 10
    ids = [line["id"] for line in read_lines(sample_dir() / "queries.jsonl")][:N]
    for run in runs.values():
        results = read_lines(run / "results.jsonl")
        assert sorted(line["id"] for line in results) == sorted(ids)
        records = read_lines(run / "steps.jsonl")
        assert all(list(record)[:2] == ["key", "ok"] for record in records)
        reasons = {(r["instance"], r["step"]): r["error"] for r in records if not r["ok"]}
        assert {line["id"] for line in results if failed(line)} == {instance for instance, _ in reasons}
        for line in filter(failed, results):
            error = line["error"]
            assert "restore_score_100" not in line
            assert reasons[line["id"], error["step"]] == {"kind": error["kind"], "message": error["message"]}
        assert any(map(failed, results)) == (faults is not FAULTS_20_PERCENT)
        spent = sum(record.get("attempts", 1) for record in records if "model" in record)
        assert spent == summary_of(run)["calls"]


@pytest.mark.parametrize(("fault", "retry_after_s"), [("429", 0.12), ("429", 1.2), ("503", 0.12)])
def test_nothing_is_sent_again_before_its_retry_after_has_passed(
    tmp_path: Path, fault: str, retry_after_s: float
) -> None:
    """Also where it is longer than the pause that a lane makes of its own accord (1 s)."""
    limit = 5 if retry_after_s < 1 else 2
    provider = FakeProvider(Settings(faults={fault: 0.15}, retry_after_s=retry_after_s, seed=4))
    campaign(tmp_path, provider, limit=limit)
    waited = 0
    for i, first in enumerate(provider.seen):
        if first.retry_at is None:
            continue
        second = next(later for later in provider.seen[i + 1 :] if later.digest == first.digest)
        assert second.at >= first.retry_at - 0.005
        waited += 1
    assert waited >= limit - 1


@pytest.mark.parametrize(
    ("fault", "step", "problem"),
    [
        ("wrong_ids", "judge/fake", "N1"),
        ("wrong_count", "clarify", "exactly 2 strings, got 3"),
        ("half", "clarify", "exactly 2 strings"),
        ("length", "clarify", "token limit"),
        ("empty", "clarify", "empty"),
    ],
)
def test_failure_has_its_true_reason_and_no_score(
    tmp_path: Path, fault: str, step: str, problem: str
) -> None:
    provider = FakeProvider(Settings(faults={fault: 1.0}))
    run = campaign(tmp_path, provider, limit=2, references=())["fake-k2"]
    for line in results_of(run):
        assert (line["error"]["step"], line["error"]["kind"]) == (step, "unusable_output")
        assert problem in line["error"]["message"]
    assert counts(run) == (0, 2, None)


# --- Stops


def test_outage_stops_the_run_and_the_same_command_finishes_it(tmp_path: Path) -> None:
    provider = FakeProvider()
    answered = 0

    def pull_the_plug(event: object) -> None:
        nonlocal answered
        answered += isinstance(event, StepEnded) and bool(event.lane)
        provider.settings.outage = answered >= 30

    with pytest.raises(ProviderDown) as stopped:
        campaign(tmp_path, provider, events=Events(pull_the_plug), max_outage_s=0.5)
    assert stopped.value.exit_code == 75
    first = {request.digest for request in provider.seen}
    assert 30 <= len(provider.seen) < EXPECTED_CALLS
    second = again(provider, outage=False)
    runs = campaign(tmp_path, second, max_outage_s=0.5)
    assert not first & {request.digest for request in second.seen}
    assert len(provider.seen) + len(second.seen) == EXPECTED_CALLS
    for run in runs.values():
        assert summary_of(run)["n_scored"] == N


def test_failed_calls_count_towards_the_budget_of_all_sessions(tmp_path: Path) -> None:
    provider = FakeProvider(Settings(faults=FAULTS_20_PERCENT))
    for session, calls in ((provider, 60), (again(provider), 0)):
        with pytest.raises(BudgetSpent):
            campaign(tmp_path, session, budget=BudgetConfig(max_calls=60))
        assert len(session.seen) == calls


# --- The closed book


def world_with_canaries(directory: Path) -> Path:
    """The sample world, but each intent holds one word that stands nowhere else."""
    directory.mkdir()
    for name in ("queries.jsonl", "gold.jsonl"):
        with (directory / name).open("w", encoding="utf-8") as out:
            for row in read_records(sample_dir() / name):
                row["fused_query"] += f" quokka{row['id']}"
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
    (directory / "corpus.jsonl").write_bytes((sample_dir() / "corpus.jsonl").read_bytes())
    return directory


@pytest.mark.parametrize("unknown_share", [1.0, 0.5])
def test_intent_reaches_other_roles_only_through_answers(tmp_path: Path, unknown_share: float) -> None:
    world = world_with_canaries(tmp_path / "world")
    provider = FakeProvider(Settings(unknown_share=unknown_share, keep=True))
    results = results_of(campaign(tmp_path, provider, data=f"sample:{world}")["fake-k2"])
    revealed = {line["id"] for line in results if "quokka" in str(line["answers"])}
    assert bool(revealed) == (unknown_share < 1)
    questions = {question for line in results for question in line["questions"]}
    for request in provider.seen:
        text = "\n".join(message["content"] for message in request.messages or ())
        leaks = "quokka" in text
        if request.role in ("answer", "judge"):
            assert leaks
            assert request.role == "judge" or sum(question in text for question in questions) == 1
        elif request.role == "clarify":
            assert not leaks
        else:
            assert not leaks or any(f"quokka{id}" in text for id in revealed)


# --- The messages API, reasoning, refusals


CLAUDE = '[models.claude]\nbase_url = "{url}"\nrequests_per_min = 60000\ntokens_per_min = 60000000\n'
CHAT = CLAUDE.replace("\n", '\napi = "openai"\n', 1)
N_CLAUDE = 2


def claude(directory: Path, table: str = CLAUDE, **settings: Any) -> tuple[FakeProvider, Path, list[Any]]:
    """Run `claude` in every role: the provider, the Clarifier's run, and the results of both systems by instance."""
    provider = FakeProvider(Settings(key=KEY, **settings))
    runs = campaign(directory, provider, model="claude", table=table, limit=N_CLAUDE)
    results = [sorted(results_of(run), key=lambda line: str(line["id"])) for run in runs.values()]
    return provider, runs["claude-k2"], results


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeProvider, Path, list[Any]]:
    return claude(tmp_path_factory.mktemp("plain"))


def test_claude_plays_every_role_over_the_messages_api(plain: tuple[FakeProvider, Path, list[Any]]) -> None:
    provider, run, _ = plain
    summary = summary_of(run)
    assert (summary["n_scored"], summary["n_failed"], summary["calls"]) == (N_CLAUDE, 0, N_CLAUDE * CLARIFIED)
    assert [seen.fault for seen in provider.seen] == [""] * N_CLAUDE * (CLARIFIED + ORIG)
    assert summary["tokens"].keys() == {"claude-sonnet-4-5-20250929"}


@pytest.mark.parametrize("table", [CLAUDE, CHAT])
@pytest.mark.parametrize("where", ["apart", "in the text"])
def test_reasoning_changes_no_result_and_is_recorded(
    plain: tuple[FakeProvider, Path, list[Any]], tmp_path: Path, table: str, where: str
) -> None:
    _, run, results = claude(tmp_path, table, thoughts=where)
    assert results == plain[2]
    for step in read_lines(run / "steps.jsonl"):
        if "model" in step and not (where == "in the text" and step["step"].startswith("search/")):
            assert step["response"]["reasoning"] == THOUGHTS
            assert THOUGHTS not in step["response"]["text"]


@pytest.mark.parametrize("table", [CLAUDE, CHAT])
def test_refusal_fails_its_instance_at_once_and_is_no_score(tmp_path: Path, table: str) -> None:
    provider, run, results = claude(tmp_path, table, refuses="judge")
    for line in (*results[0], *results[1]):
        assert line["error"]["kind"] == "refused"
        assert "refuses" in line["error"]["message"]
        assert "restore_score_100" not in line
    assert counts(run) == (0, N_CLAUDE, None)
    assert len(provider.seen) == N_CLAUDE * (CLARIFIED + ORIG), "nobody asks again"
    judged = [step for step in read_lines(run / "steps.jsonl") if step["step"].startswith("judge/")]
    assert all(step["usage"]["input"] > 0 for step in judged), "a refusal is charged all the same"


# --- Schemes and modes


MODES = {"modes": ("at-once", "respond", "select"), "schemes": ("at-cot",), "references": (), "limit": 2}
AT_ONCE, RESPOND, SELECT = "fake-at-cot-k2", "fake-at-cot-respond-k2", "fake-at-cot-select-k2"


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("talks"), Settings(unknown_share=0.0), **MODES)


def test_result_has_the_turns_of_its_conversation(talks: dict[str, Path]) -> None:
    for label, mode in ((AT_ONCE, "at-once"), (RESPOND, "respond")):
        for line in results_of(talks[label]):
            assert (line["scheme"], line["mode"], line["k"]) == ("at-cot", mode, K)
            turns = line["turns"]
            assert len(turns) == (1 if mode == "at-once" else K)
            assert line["questions"] == [question for turn in turns for question in turn["offered"]]
            assert line["answers"] == [answer for turn in turns for answer in turn["answers"]]
            assert len(line["questions"]) == K
            assert turns[0]["types"] == ["specify"]
            assert turns[0]["reasoning"] == "Nothing says which time is meant."
            assert turns[-1]["query"] == line["rewritten_query"]
            assert all("chosen" not in turn for turn in turns)
    selected = results_of(talks[SELECT])
    for line in selected:
        assert (line["questions"], line["answers"]) == ([], [])
        assert [turn["query"] for turn in line["turns"]] == [
            turn["offered"][turn["chosen"]] for turn in line["turns"]
        ]
    openings = [r for r in read_records(talks[SELECT] / "steps.jsonl") if r["step"] == "search/turn/1"]
    searched = {record["instance"]: record["request"]["fields"]["question"] for record in openings}
    assert searched == {line["id"]: line["rewritten_query"] for line in selected}
    assert searched == {line["id"]: line["turns"][-1]["query"] for line in selected}


def test_only_conversations_record_scheme_and_mode_and_their_prompts(
    talks: dict[str, Path], tmp_path: Path
) -> None:
    usual = made(tmp_path, limit=1, references=())["fake-k2"]
    identity = json.loads((usual / "run.json").read_text())["identity"]
    assert identity.keys().isdisjoint({"scheme", "mode"})
    assert {name.split(".")[0] for name in identity["prompts"]} >= {"clarify", "answer", "rewrite"}
    assert "turns" not in results_of(usual)[0]
    identity = json.loads((talks[RESPOND] / "run.json").read_text())["identity"]
    assert (identity["scheme"], identity["mode"]) == ("at-cot", "respond")
    roles = {"at_cot", "respond", "reformulate", "agent", "judge"}
    assert {name.split(".")[0] for name in identity["prompts"]} == roles
    assert {path.stem for path in (talks[RESPOND] / "prompts").iterdir()} == set(identity["prompts"])


@pytest.mark.parametrize("kept", [1, 4, 9])
def test_interrupted_conversation_is_resumed_in_its_middle(tmp_path: Path, kept: int) -> None:
    whole = {
        label: (run, list(read_records(run / "steps.jsonl")), results_of(run))
        for label, run in made(tmp_path, **MODES).items()
    }
    for run, steps, _ in whole.values():
        write(run / "steps.jsonl", steps[:kept])
        (run / "results.jsonl").unlink()
    for label, run in made(tmp_path, **MODES).items():
        _, steps, results = whole[label]
        resumed = list(read_records(run / "steps.jsonl"))
        assert sorted(record["key"] for record in resumed) == sorted(record["key"] for record in steps)
        assert sorted(map(json.dumps, results_of(run))) == sorted(map(json.dumps, results))


# --- Searches that end without an answer: failed, or scored 0 where that was asked for


N_SILENT, SILENT = 3, {"limit": 3, "references": ()}


@pytest.fixture
def silent_about_enrolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent searches for the sample's second query (s02), and then has nothing but thoughts."""
    usual = fake_roles._ANSWERS["agent"]

    def agent(asked: str, messages: fake_roles.Messages, unknown_share: float) -> str:
        reply = usual(asked, messages, unknown_share)
        silent = "how to enrol a child" in asked and "<answer>" in reply
        return "<think>I cannot say.</think>" if silent else reply

    monkeypatch.setattr(fake_roles, "_ANSWERS", {**fake_roles._ANSWERS, "agent": agent})


@pytest.mark.usefixtures("silent_about_enrolling")
def test_search_without_an_answer_fails_by_default(tmp_path: Path) -> None:
    run = campaign(tmp_path, FakeProvider(), **SILENT)["fake-k2"]
    error = latest_results(run / "results.jsonl")["s02"]["error"]
    assert (error["step"], error["kind"]) == ("search/turn/2", "unusable_output")
    assert counts(run)[:2] == (N_SILENT - 1, 1)
    assert "empty_answers" not in require_manifest(run).raw_identity


@pytest.mark.usefixtures("silent_about_enrolling")
def test_search_without_an_answer_scores_0_without_a_judge_with_the_option(tmp_path: Path) -> None:
    provider = FakeProvider()
    run = campaign(tmp_path, provider, **SILENT, empty_answers="zero")["fake-k2"]
    line, summary = latest_results(run / "results.jsonl")["s02"], summary_of(run)
    assert (line["answer"], line["restore_score_100"]) == ("", 0.0)
    assert {nugget["coverage"] for nugget in line["nuggets"]} == {"none"}
    assert line["questions"]
    assert (line["search"]["model_calls"], line["search"]["searches"]) == (2, 1)
    assert sum(request.role == "judge" for request in provider.seen) == N_SILENT - 1
    assert (summary["n_scored"], summary["n_failed"], summary["min"]) == (N_SILENT, 0, 0.0)
    assert summary["judges"]["lexical"]["n_scored"] == N_SILENT
    assert summary["mean"] == score_file(run / "results.jsonl").mean
    assert not [finding for finding in audit_run(run).findings if finding.instance == "s02"]
    # The choice belongs to the run.
    assert require_manifest(run).raw_identity["empty_answers"] == "zero"
    second = again(provider)
    campaign(tmp_path, second, **SILENT, empty_answers="zero")
    assert second.seen == []
    # Without it another version, in which that search is asked for its answer again: a failure is not reused.
    third = again(provider)
    other = campaign(tmp_path, third, **SILENT)["fake-k2"]
    assert manifest_of(other).changed == ("empty answers (zero, now none)",)
    assert {request.role for request in third.seen} == {"agent"}


@pytest.mark.parametrize("as_published", [False, True])
def test_run_as_published_plays_the_paper_to_the_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_published: bool
) -> None:
    """One question is answered "Not specified.", the other exactly `unknown`; the gold has 6 nuggets."""
    asked: list[tuple[str, str, float]] = []

    async def chat(self: Client, spec: ModelSpec, request: ChatRequest) -> Reply:
        role = fake_roles.role_of(request.messages[1]["content"])
        asked.append((role, request.messages[0]["content"], spec.sent(request.params)["temperature"]))
        text = fake_roles.say(role, list(request.messages), 1.0)
        if role == "answer" and "Which time" in request.messages[1]["content"]:
            text = "Not specified."
        return Reply(text, spec.model, "stop", Usage(10, 10))

    monkeypatch.setattr(Client, "chat", chat)
    config = tmp_path / "cts.toml"
    table = FAKE.format(url="http://127.0.0.1:9/v1")
    config.write_text(table + "judge_nuggets = 4\nparams = { temperature = 0.7 }\n")
    options: dict[str, Any] = {"models": ("fake",), "every_role": "fake", "ks": (K,), "limit": 1}
    options |= {"runs_dir": tmp_path / "runs", "references": (), "as_published": as_published}
    plan = make_plan(RunConfig(**options), load_catalogue(config), {"FAKE_KEY": KEY})
    asyncio.run(run_plan(plan, {"FAKE_KEY": KEY}, Events()))
    (run,) = plan.systems.values()
    (line,) = results_of(run)
    assert line["answers"] == (["Not specified.", "unknown"] if as_published else ["unknown"] * 2)
    assert sum(role == "judge" for role, _, _ in asked) == (1 if as_published else 2)
    sampled = {role: temperature for role, _, temperature in asked}
    zero = ("clarify", "answer", "rewrite", "judge")
    assert sampled == {"agent": 0.7, **dict.fromkeys(zero, 0.0 if as_published else 0.7)}
    told = next(system for role, system, _ in asked if role == "answer")
    assert ("open question" in told.casefold()) != as_published
    identity = require_manifest(run).raw_identity
    assert identity.get("as_published", False) == as_published
    assert ("nuggets_per_call" in identity) != as_published
    assert run.name.endswith("+as-published") == as_published
    assert audit_run(run).held
    assert summary_json(summarise_run(run))["unknown_paraphrased"] == 1
    found = make_board([read_run(run)])
    assert any("--as-published" in remark for remark in found.remarks) == as_published
    judging = JudgeConfig(runs=(run,), judges=("gpt",))
    remarks = plan_judging(judging, load_catalogue(None), {}, keyless=True).remarks
    assert any("--nuggets-per-call" in remark for remark in remarks) == as_published


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schemes": ("at-cot",)}, "leave out --scheme and --mode"),
        ({"answers": "qulac"}, "there are no human answers for sample"),
    ],
)
def test_what_the_paper_does_not_have_is_refused_as_published(options: dict[str, Any], problem: str) -> None:
    config = RunConfig(models=("gpt",), every_role="gpt", as_published=True, **options)
    with pytest.raises(UsageError, match=problem):
        make_plan(config, load_catalogue(None), {}, keyless=True)
