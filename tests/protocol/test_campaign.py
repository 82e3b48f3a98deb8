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

from cts_async.config import BudgetConfig, RunConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine import runner
from cts_async.engine.events import Event, Events, JobsFound, StepEnded
from cts_async.engine.journal import read_records
from cts_async.engine.run_dir import read_manifest
from cts_async.engine.step import RetryPolicy
from cts_async.errors import BudgetSpent, ProviderDown, ProviderRefused, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.audit import audit_run
from cts_async.protocol.plan import make_plan
from cts_async.protocol.results import failed, latest_results
from cts_async.protocol.run import run_plan
from cts_async.records import EmptyAnswers
from cts_async.report.summary import summarise_run, write_summary
from cts_async.scorer import score_file

N, K = 10, 2
TURNS = 2
"""Model calls of the fake agent: it searches once, then answers."""
KEY = "sk-right-0123456789"
EXPECTED_CALLS = N * ((1 + K + 1 + TURNS + 1) + (TURNS + 1))
SYSTEMS = ("orig", "fake-k2")
FAULTS_20_PERCENT = dict.fromkeys(FAULTS, 0.2 / len(FAULTS))


@pytest.fixture(autouse=True)
def _fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


def campaign(
    directory: Path, provider: FakeProvider, *, key: str = KEY, events: Events | None = None, **options: Any
) -> dict[str, Path]:
    """Run or resume; give the run directories by system. Raises what `cts run` would report."""
    config = directory / "cts.toml"

    async def main() -> dict[str, Path]:
        async with provider:
            config.write_text(
                f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\nkey_env = "FAKE_KEY"\n'
                "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 2.0\n"
            )
            asked = RunConfig(
                models=("fake",), every_role="fake", ks=(K,), limit=N, runs_dir=directory / "runs"
            )
            environ = {"FAKE_KEY": key}
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


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def again(provider: FakeProvider, **settings: Any) -> FakeProvider:
    """The same provider's behaviour on another port, with nothing counted yet."""
    return FakeProvider(replace(provider.settings, **settings))


# --- Without faults ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FakeProvider, dict[str, Path]]:
    directory = tmp_path_factory.mktemp("clean")
    provider = FakeProvider(Settings(unknown_share=0.5))
    return directory, provider, campaign(directory, provider)


def test_every_instance_is_scored(clean: tuple[Path, FakeProvider, dict[str, Path]]) -> None:
    directories = clean[2]
    assert tuple(directories) == SYSTEMS
    for path in directories.values():
        summary = orjson.loads((path / "summary.json").read_bytes())
        assert (summary["n_expected"], summary["n_scored"], summary["n_failed"]) == (N, N, 0)
        assert not any(failed(line) for line in lines(path / "results.jsonl"))


def test_nothing_is_asked_twice(clean: tuple[Path, FakeProvider, dict[str, Path]]) -> None:
    seen = clean[1].seen
    assert len(seen) == EXPECTED_CALLS
    roles = Counter(request.role for request in seen)
    assert roles == {"clarify": N, "answer": K * N, "rewrite": N, "agent": 2 * TURNS * N, "judge": 2 * N}


def test_a_summary_agrees_with_the_scorer_run_alone(
    clean: tuple[Path, FakeProvider, dict[str, Path]],
) -> None:
    for path in clean[2].values():
        command = [sys.executable, "-m", "cts_async.scorer", "--json", str(path / "results.jsonl")]
        alone = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[0]
        summary = orjson.loads((path / "summary.json").read_bytes())
        shared = ("n_scored", "n_failed", "mean", "p50", "p90", "min", "max")
        assert {name: alone[name] for name in shared} == {name: summary[name] for name in shared}
        assert summary["mean"] > 0


def test_costs_and_unknown_rates_are_those_of_the_replies(
    clean: tuple[Path, FakeProvider, dict[str, Path]],
) -> None:
    path = clean[2]["fake-k2"]
    summary = orjson.loads((path / "summary.json").read_bytes())
    answers = [line["answers"] for line in lines(path / "results.jsonl")]
    used = summary["tokens"]["fake-1"]
    assert summary["ua_unknown_rate"] == sum(reply.count("unknown") for reply in answers) / (K * N)
    assert 0 < summary["ua_unknown_rate"] < 1
    assert summary["cost_usd"] == pytest.approx((used["input"] + 2 * used["output"]) / 1e6)
    assert summary["calls"] == N * (1 + K + 1 + TURNS + 1)
    assert summary["failed_attempts"] == 0


def test_the_same_command_again_asks_nothing(clean: tuple[Path, FakeProvider, dict[str, Path]]) -> None:
    directory, provider, paths = clean
    before = [path.joinpath("results.jsonl").read_bytes() for path in paths.values()]
    second = again(provider)
    told: list[Event] = []
    campaign(directory, second, events=Events(told.append))
    assert second.seen == []
    assert told == [JobsFound(path.name, N) for path in paths.values()]
    assert [path.joinpath("results.jsonl").read_bytes() for path in paths.values()] == before


def test_lost_results_are_made_again_from_the_journal_for_free(tmp_path: Path) -> None:
    provider = FakeProvider()
    paths = campaign(tmp_path, provider, limit=4)
    before = {name: latest_results(path / "results.jsonl") for name, path in paths.items()}
    for path in paths.values():
        (path / "results.jsonl").unlink()
    second = again(provider)
    campaign(tmp_path, second, limit=4)
    assert second.seen == []
    assert {name: latest_results(path / "results.jsonl") for name, path in paths.items()} == before


# --- With faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "seed"),
    [(FAULTS_20_PERCENT, 1), (FAULTS_20_PERCENT, 2), ({"empty": 0.25, "length": 0.2, "wrong_ids": 0.2}, 3)],
)
def test_a_bad_day_leaves_every_instance_accounted_for(
    tmp_path: Path, faults: dict[str, float], seed: int
) -> None:
    provider = FakeProvider(Settings(faults=faults, retry_after_s=0.15, seed=seed))
    paths = campaign(tmp_path, provider)
    assert sum(bool(request.fault) for request in provider.seen) > 10
    ids = [line["id"] for line in lines(sample_dir() / "queries.jsonl")][:N]
    for path in paths.values():
        results = lines(path / "results.jsonl")
        assert sorted(line["id"] for line in results) == sorted(ids)
        records = lines(path / "steps.jsonl")
        assert all(list(record)[:2] == ["key", "ok"] for record in records)
        reasons = {(r["instance"], r["step"]): r["error"] for r in records if not r["ok"]}
        assert {line["id"] for line in results if failed(line)} == {instance for instance, _ in reasons}
        for line in filter(failed, results):
            error = line["error"]
            assert "restore_score_100" not in line
            assert reasons[line["id"], error["step"]] == {"kind": error["kind"], "message": error["message"]}
        assert any(map(failed, results)) == (faults is not FAULTS_20_PERCENT)
        spent = sum(record.get("attempts", 1) for record in records if "model" in record)
        assert spent == orjson.loads((path / "summary.json").read_bytes())["calls"]


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
def test_a_failure_tells_its_true_reason_and_is_no_score(
    tmp_path: Path, fault: str, step: str, problem: str
) -> None:
    provider = FakeProvider(Settings(faults={fault: 1.0}))
    path = campaign(tmp_path, provider, limit=2, references=())["fake-k2"]
    for line in lines(path / "results.jsonl"):
        assert (line["error"]["step"], line["error"]["kind"]) == (step, "unusable_output")
        assert problem in line["error"]["message"]
    summary = orjson.loads((path / "summary.json").read_bytes())
    assert (summary["n_scored"], summary["n_failed"], summary["mean"]) == (0, 2, None)


# --- Stops ------------------------------------------------------------------------------------------------


def test_a_wrong_key_stops_the_run_and_the_right_one_finishes_it(tmp_path: Path) -> None:
    provider = FakeProvider(Settings(key=KEY))
    with pytest.raises(ProviderRefused, match="FAKE_KEY") as stopped:
        campaign(tmp_path, provider, key="sk-wrong-0123456789")
    assert stopped.value.exit_code == 75
    assert {request.fault for request in provider.seen} == {"401"}
    second = again(provider)
    paths = campaign(tmp_path, second)
    assert len(second.seen) == EXPECTED_CALLS
    for path in paths.values():
        assert orjson.loads((path / "summary.json").read_bytes())["n_scored"] == N


def test_no_file_of_a_run_holds_the_key(tmp_path: Path) -> None:
    wrong = "sk-wrong-0123456789"
    with pytest.raises(ProviderRefused) as stopped:
        campaign(tmp_path, FakeProvider(Settings(key=KEY)), key=wrong)
    campaign(tmp_path, FakeProvider(Settings(key=KEY, faults=FAULTS_20_PERCENT, retry_after_s=0.05)), limit=4)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert wrong not in str(stopped.value)
    assert wrong.encode() not in written
    assert KEY.encode() not in written


def test_an_outage_stops_the_run_and_the_same_command_finishes_it(tmp_path: Path) -> None:
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
    paths = campaign(tmp_path, second, max_outage_s=0.5)
    assert not first & {request.digest for request in second.seen}
    assert len(provider.seen) + len(second.seen) == EXPECTED_CALLS
    for path in paths.values():
        assert orjson.loads((path / "summary.json").read_bytes())["n_scored"] == N


# --- The closed book --------------------------------------------------------------------------------------


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
def test_the_intent_reaches_nobody_but_through_an_answer(tmp_path: Path, unknown_share: float) -> None:
    world = world_with_canaries(tmp_path / "world")
    provider = FakeProvider(Settings(unknown_share=unknown_share, keep=True))
    path = campaign(tmp_path, provider, data=f"sample:{world}")["fake-k2"]
    told = {
        i for i, line in latest_results(path / "results.jsonl").items() if "quokka" in str(line["answers"])
    }
    assert bool(told) == (unknown_share < 1)
    for request in provider.seen:
        text = json.dumps(request.messages, ensure_ascii=False)
        leaks = "quokka" in text
        if request.role in ("answer", "judge"):
            assert leaks
        elif request.role == "clarify":
            assert not leaks
        else:
            assert not leaks or any(f"quokka{i}" in text for i in told)


def test_the_answerer_sees_one_question_at_a_time(tmp_path: Path) -> None:
    provider = FakeProvider(Settings(keep=True))
    path = campaign(tmp_path, provider, limit=3, references=())["fake-k2"]
    questions = [q for line in lines(path / "results.jsonl") for q in line["questions"]]
    for request in provider.seen:
        if request.role == "answer":
            text = "".join(message["content"] for message in request.messages or ())
            assert sum(question in text for question in questions) == 1


# --- Budgets ----------------------------------------------------------------------------------------------


def test_failed_calls_count_and_no_session_crosses_the_line(tmp_path: Path) -> None:
    provider = FakeProvider(Settings(faults=FAULTS_20_PERCENT))
    budget = BudgetConfig(max_calls=60)
    with pytest.raises(BudgetSpent):
        campaign(tmp_path, provider, budget=budget)
    assert len(provider.seen) == 60
    # What was asked stands in the journals, failures too: the same command has nothing left to spend.
    second = again(provider)
    with pytest.raises(BudgetSpent):
        campaign(tmp_path, second, budget=budget)
    assert second.seen == []


# --- Models of every habit: the messages API, reasoning, refusals


N_MODELS = 2
KEY = "sk-right-0123456789"
CLARIFIED, ORIG = 6, 3
"""Calls for an instance: clarify, answer, rewrite, two turns, judge; and two turns, judge."""
CLAUDE = '[models.claude]\nbase_url = "{url}"\nrequests_per_min = 60000\ntokens_per_min = 60000000\n'
CHAT = '[models.claude]\napi = "openai"\nbase_url = "{url}"\nrequests_per_min = 60000\ntokens_per_min = 60000000\n'


class Ran:
    """A run that has ended: its files, what was said meanwhile, and the provider."""

    def __init__(self, directory: Path, provider: FakeProvider, said: list[Event]) -> None:
        self.provider, self.said = provider, said
        self.results = [self._lines(directory, system, "results.jsonl") for system in ("orig", "claude-k1")]
        self.steps = self._lines(directory, "claude-k1", "steps.jsonl")
        self.summary = write_summary(summarise_run(directory / "runs" / "sample-claude-k1+all-claude"))

    @staticmethod
    def _lines(directory: Path, system: str, name: str) -> list[dict[str, Any]]:
        path = directory / "runs" / f"sample-{system}+all-claude" / name
        return sorted(map(json.loads, path.read_text().splitlines()), key=lambda line: line.get("id", ""))


def ran(directory: Path, toml: str = CLAUDE, **settings: Any) -> Ran:
    """Run the sample world's first instances with `claude` in every role."""
    said: list[Event] = []
    provider = FakeProvider(Settings(key=KEY, **settings))

    async def main() -> None:
        async with provider:
            config = directory / "cts.toml"
            config.write_text(toml.format(url=provider.url))
            asked = RunConfig(
                models=("claude",), every_role="claude", limit=N_MODELS, runs_dir=directory / "runs"
            )
            environ = {"ANTHROPIC_API_KEY": KEY}
            plan = make_plan(asked, load_catalogue(config), environ)
            await run_plan(plan, environ, Events(said.append))

    asyncio.run(main())
    return Ran(directory, provider, said)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("plain"))


def test_claude_plays_every_role_over_the_messages_api(plain: Ran) -> None:
    assert (plain.summary["n_scored"], plain.summary["n_failed"]) == (N_MODELS, 0)
    assert [seen.fault for seen in plain.provider.seen] == [""] * N_MODELS * (CLARIFIED + ORIG)
    assert plain.summary["calls"] == N_MODELS * CLARIFIED
    assert plain.summary["tokens"].keys() == {"claude-sonnet-4-5-20250929"}


@pytest.mark.parametrize("toml", [CLAUDE, CHAT])
@pytest.mark.parametrize("where", ["apart", "in the text"])
def test_what_a_model_thinks_changes_nothing_and_is_kept(
    plain: Ran, tmp_path: Path, toml: str, where: str
) -> None:
    thinker = ran(tmp_path, toml, thoughts=where)
    assert thinker.results == plain.results
    for step in thinker.steps:
        if "model" in step and not (where == "in the text" and step["step"].startswith("search/")):
            assert step["response"]["reasoning"] == THOUGHTS
            assert THOUGHTS not in step["response"]["text"]


@pytest.mark.parametrize("toml", [CLAUDE, CHAT])
def test_a_refusal_fails_its_instance_at_once_and_is_no_score(tmp_path: Path, toml: str) -> None:
    refused = ran(tmp_path, toml, refuses="judge")
    for line in (*refused.results[0], *refused.results[1]):
        assert line["error"]["kind"] == "refused"
        assert "refuses" in line["error"]["message"]
        assert "restore_score_100" not in line
    assert (refused.summary["n_scored"], refused.summary["n_failed"], refused.summary["mean"]) == (
        0,
        N_MODELS,
        None,
    )
    assert len(refused.provider.seen) == N_MODELS * (CLARIFIED + ORIG), "nobody asks again"
    judged = [step for step in refused.steps if step["step"].startswith("judge/")]
    assert all(step["usage"]["input"] > 0 for step in judged), "a refusal is charged all the same"


# --- Schemes and modes


N_TALKS, K = 2, 2
MODES = {
    "modes": ("at-once", "respond", "select"),
    "schemes": ("at-cot",),
    "references": (),
    "limit": N_TALKS,
}
AT_ONCE, RESPOND, SELECT = "fake-at-cot-k2", "fake-at-cot-respond-k2", "fake-at-cot-select-k2"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("talks"), Settings(unknown_share=0.0), **MODES)


def latest_lines(run: Path) -> list[dict[str, Any]]:
    return list(latest_results(run / "results.jsonl").values())


def test_a_line_has_its_turns_and_what_was_asked_and_answered(runs: dict[str, Path]) -> None:
    for label, mode in ((AT_ONCE, "at-once"), (RESPOND, "respond")):
        for line in latest_lines(runs[label]):
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


def test_in_select_nothing_was_asked_and_the_last_choice_is_searched(runs: dict[str, Path]) -> None:
    for line in latest_lines(runs[SELECT]):
        assert (line["questions"], line["answers"]) == ([], [])
        for turn in line["turns"]:
            assert turn["query"] == turn["offered"][turn["chosen"]]
        assert line["rewritten_query"] == line["turns"][-1]["query"]
    openings = [r for r in read_records(runs[SELECT] / "steps.jsonl") if r["step"] == "search/turn/1"]
    searched = {record["instance"]: record["request"]["fields"]["question"] for record in openings}
    assert searched == {line["id"]: line["rewritten_query"] for line in latest_lines(runs[SELECT])}


def test_only_who_converses_says_scheme_and_mode_and_keeps_those_prompts(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    usual = made(tmp_path, limit=1, references=())["fake-k2"]
    identity = json.loads((usual / "run.json").read_text())["identity"]
    assert identity.keys().isdisjoint({"scheme", "mode"})
    assert {name.split(".")[0] for name in identity["prompts"]} >= {"clarify", "answer", "rewrite"}
    assert "turns" not in latest_lines(usual)[0]
    identity = json.loads((runs[RESPOND] / "run.json").read_text())["identity"]
    assert (identity["scheme"], identity["mode"]) == ("at-cot", "respond")
    roles = {"at_cot", "respond", "reformulate", "agent", "judge"}
    assert {name.split(".")[0] for name in identity["prompts"]} == roles
    assert {path.stem for path in (runs[RESPOND] / "prompts").iterdir()} == set(identity["prompts"])


@pytest.mark.parametrize("kept", [1, 4, 9])
def test_a_run_that_was_cut_off_goes_on_in_the_middle_of_a_conversation(tmp_path: Path, kept: int) -> None:
    first = made(tmp_path, **MODES)
    whole = {
        label: (list(read_records(run / "steps.jsonl")), latest_lines(run)) for label, run in first.items()
    }
    for label, run in first.items():
        write(run / "steps.jsonl", whole[label][0][:kept])
        (run / "results.jsonl").unlink()
    for label, run in made(tmp_path, **MODES).items():
        steps, results = whole[label]
        again = list(read_records(run / "steps.jsonl"))
        assert sorted(record["key"] for record in again) == sorted(record["key"] for record in steps)
        assert sorted(map(json.dumps, latest_lines(run))) == sorted(map(json.dumps, results))


# --- Searches that end without an answer: failed, or scored 0 where that was asked for


N_SILENT, SILENT = 3, "s02"


@pytest.fixture
def silent_about_enrolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent searches for the sample's second query, and then has nothing but thoughts."""
    usual = fake_roles._ANSWERS["agent"]

    def agent(asked: str, messages: fake_roles.Messages, unknown_share: float) -> str:
        said = usual(asked, messages, unknown_share)
        silent = "how to enrol a child" in asked and "<answer>" in said
        return "<think>I cannot say.</think>" if silent else said

    monkeypatch.setattr(fake_roles, "_ANSWERS", {**fake_roles._ANSWERS, "agent": agent})
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


def played(folder: Path, empty_answers: EmptyAnswers) -> tuple[Path, dict[str, Any], int]:
    """A run of one Clarifier: its directory, what is in its summary, and how often judges were asked."""

    async def main() -> tuple[Path, dict[str, Any], int]:
        async with FakeProvider(Settings()) as provider:
            config = folder / "cts.toml"
            config.write_text(f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\n')
            asked = RunConfig(
                models=("fake",),
                every_role="fake",
                references=(),
                limit=N_SILENT,
                runs_dir=folder / "runs",
                empty_answers=empty_answers,
            )
            plan = make_plan(asked, load_catalogue(config), {})
            await run_plan(plan, {}, Events())
            (directory,) = plan.systems.values()
            n_judged = sum(request.role == "judge" for request in provider.seen)
            return directory, write_summary(summarise_run(directory)), n_judged

    return asyncio.run(main())


@pytest.mark.usefixtures("silent_about_enrolling")
def test_a_search_without_an_answer_fails_unless_told_otherwise(tmp_path: Path) -> None:
    directory, summary, _ = played(tmp_path, "fail")
    line = latest_results(directory / "results.jsonl")[SILENT]
    assert (line["error"]["step"], line["error"]["kind"]) == ("search/turn/2", "unusable_output")
    assert (summary["n_scored"], summary["n_failed"]) == (N_SILENT - 1, 1)
    assert "empty_answers" not in (read_manifest(directory) or {})["identity"]


@pytest.mark.usefixtures("silent_about_enrolling")
def test_a_search_without_an_answer_is_scored_0_without_a_judge(tmp_path: Path) -> None:
    directory, summary, n_judged = played(tmp_path, "zero")
    line = latest_results(directory / "results.jsonl")[SILENT]
    assert (line["answer"], line["restore_score_100"]) == ("", 0.0)
    assert {nugget["coverage"] for nugget in line["nuggets"]} == {"none"}
    assert line["questions"]
    assert (line["search"]["model_calls"], line["search"]["searches"]) == (2, 1)
    assert n_judged == N_SILENT - 1
    assert (summary["n_scored"], summary["n_failed"], summary["min"]) == (N_SILENT, 0, 0.0)
    assert summary["judges"]["lexical"]["n_scored"] == N_SILENT
    assert summary["mean"] == score_file(directory / "results.jsonl").mean
    assert not [finding for finding in audit_run(directory).findings if finding.instance == SILENT]


@pytest.mark.usefixtures("silent_about_enrolling")
def test_that_choice_belongs_to_the_run(tmp_path: Path) -> None:
    directory, _, _ = played(tmp_path, "zero")
    assert (read_manifest(directory) or {})["identity"]["empty_answers"] == "zero"
    _, summary, n_judged = played(tmp_path, "zero")
    assert (summary["n_scored"], n_judged) == (N_SILENT, 0)
    with pytest.raises(UsageError, match="empty_answers"):
        played(tmp_path, "fail")
