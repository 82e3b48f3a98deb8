"""Right or wrong: InteractComp's made-up tasks through a whole run, its judges' form, the audit, and another judge."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from audited_runs import copied, plant
from fake_provider import FakeProvider, Settings
from interactcomp_runs import N, config_file, run_tasks
from made_interactcomp import made_tasks
from written_files import read_lines

from cts_async.analysis.summary import summarise_run
from cts_async.config import BudgetConfig, JudgeConfig
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.engine.step import step_key
from cts_async.errors import BudgetSpent, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol import plan
from cts_async.protocol.audit import audit_run
from cts_async.protocol.dry_walk import unasked_resources
from cts_async.protocol.judge import LexicalJudge, MatchJudge, check_form
from cts_async.protocol.rejudge import forecast_judging, plan_judging, run_judging
from cts_async.protocol.views import JudgeView
from cts_async.records import Nugget
from cts_async.runs.selection import RunPath
from cts_async.scorer import score_file
from cts_async.tables.comparison import compare_runs, comparison_tables
from cts_async.tables.rows import tables_of
from cts_async.tables.summary import summary_json

SYSTEMS = ("orig", "gold", "fake-k1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    folder = tmp_path_factory.mktemp("interactcomp")
    runs, _ = run_tasks(folder)
    return folder, runs


def test_labels_are_full_or_none_and_the_score_is_accuracy(world: tuple[Path, dict[str, Path]]) -> None:
    _, runs = world
    assert tuple(sorted(runs)) == tuple(sorted(SYSTEMS))
    for run in runs.values():
        n_right = 0
        for line in read_lines(run / "results.jsonl"):
            (nugget,) = line["nuggets"]
            answer = made_tasks(N)[int(line["id"]) - 1]["answer"]
            assert nugget["coverage"] == ("full" if answer in line["answer"] else "none")
            assert nugget["weight"] == 3
            n_right += nugget["coverage"] == "full"
        summary = score_file(run / "results.jsonl")
        assert (summary.n_scored, summary.mean) == (N, 100 * n_right / N)
        identity = json.loads((run / "run.json").read_text())["identity"]
        assert identity["judge_form"] == "match"
        assert not any(name.startswith("judge.") for name in identity["prompts"])
        assert (run / "prompts" / "match.en.txt").exists()
    # Told the context, the agent finds the document of each task: the ceiling.
    assert score_file(runs["gold"] / "results.jsonl").mean == 100


def test_run_that_was_stopped_pays_nothing_twice(tmp_path: Path) -> None:
    with pytest.raises(BudgetSpent):
        run_tasks(tmp_path, limit=2, references=(), budget=BudgetConfig(max_calls=7))
    _, n_calls = run_tasks(tmp_path, limit=2, references=())
    assert n_calls == 12 - 7


def test_run_is_resumed_without_a_call_and_another_form_reuses_all_but_the_judge(tmp_path: Path) -> None:
    runs, n_calls = run_tasks(tmp_path, limit=2, references=())
    assert n_calls == 2 * (1 + 1 + 1 + 2 + 1)  # clarify, answer, rewrite, two turns of the agent, judge
    assert run_tasks(tmp_path, limit=2, references=()) == (runs, 0)
    other, n_calls = run_tasks(tmp_path, limit=2, references=(), judge_form="nuggets")
    assert n_calls == 2
    manifest = json.loads((other["fake-k1"] / "run.json").read_text())
    assert "judge_form" not in manifest["identity"]
    assert any("judge" in change for change in manifest["changed"])


def test_run_that_asked_for_no_confidence_is_finished_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr(plan, "_asks_confidence", lambda dataset, extractor: False)
        with pytest.raises(BudgetSpent):
            run_tasks(tmp_path, limit=2, references=(), budget=BudgetConfig(max_calls=7))
    runs, n_calls = run_tasks(tmp_path, limit=2, references=())
    assert n_calls == 12 - 7
    assert "confidence" not in (runs["fake-k1"] / "results.jsonl").read_text()
    newer, _ = run_tasks(tmp_path, limit=2, references=(), new=True)
    assert '"confidence"' in (newer["fake-k1"] / "results.jsonl").read_text()


def test_forecast_asks_in_the_form_of_the_run(world: tuple[Path, dict[str, Path]]) -> None:
    folder, runs = world
    catalogue = load_catalogue(config_file(folder, "http://127.0.0.1:9"))
    config = JudgeConfig(judges=("other",), runs=(runs["orig"],))
    plan = plan_judging(config, catalogue, {})
    judge = unasked_resources(plan, {}, Events()).judge("other")
    assert isinstance(judge, MatchJudge)
    assert forecast_judging(plan).total.calls == N


def test_only_the_user_sees_the_context_and_judges_see_the_question(
    world: tuple[Path, dict[str, Path]],
) -> None:
    folder, runs = world
    for run in runs.values():
        audit = audit_run(run, f"interactcomp:{folder / 'tasks.jsonl'}")
        assert (audit.held, audit.n_held, audit.n_leaks) == (True, N, 0), audit.findings
    # The question alone is what the judge's step is keyed on: its digest is that of the three texts that it may see.
    task = made_tasks(1)[0]
    (line,) = [line for line in read_lines(runs["orig"] / "results.jsonl") if line["id"] == "1"]
    seen = {"query": task["question"], "correct_answer": task["answer"], "candidate_answer": line["answer"]}
    digests = set()
    for record in read_records(runs["orig"] / "steps.jsonl"):
        if record["step"] == "judge/fake":
            digests.add(record["request"]["on_record"])
    assert step_key(seen)[:16] in digests
    assert line["fused_query"] == f"{task['question']}\n{task['context']}"


def test_planted_leak_of_the_context_is_found(world: tuple[Path, dict[str, Path]], tmp_path: Path) -> None:
    folder, runs = world
    run = copied(runs["fake-k1"], tmp_path)

    def leak(record: dict[str, Any]) -> None:
        record["request"]["fields"]["blurred_query"] += " " + made_tasks(1)[0]["context"]

    plant(run, "1", "clarify", leak)
    audit = audit_run(run, f"interactcomp:{folder / 'tasks.jsonl'}")
    assert not audit.held
    leaks = [finding for finding in audit.findings if finding.level == "leak" and finding.instance == "1"]
    assert leaks
    assert all(finding.violates for finding in leaks)


def test_another_judge_is_asked_in_the_form_of_the_run(world: tuple[Path, dict[str, Path]]) -> None:
    folder, runs = world

    async def judge(**options: Any) -> None:
        async with FakeProvider(Settings()) as provider:
            config = JudgeConfig(judges=("other",), runs=(runs["gold"],), **options)
            plan = plan_judging(config, load_catalogue(config_file(folder, provider.url)), {})
            await run_judging(plan, {}, Events())

    asyncio.run(judge())
    for line in read_lines(runs["gold"] / "judgments" / "other.jsonl"):
        assert [nugget["coverage"] for nugget in line["nuggets"]] == ["full"]
    with pytest.raises(UsageError, match="asked in the form match; for another one repeat its cts run"):
        asyncio.run(judge(judge_form="nuggets"))


def test_candidates_are_judged_right_or_wrong(tmp_path: Path) -> None:
    gold, answers = tmp_path / "gold.jsonl", tmp_path / "answers.jsonl"
    rows = [
        {"id": f"q{n}", "query": f"who is {n}", "nuggets": [{"id": "N1", "text": f"Ada {n}", "weight": 3}]}
        for n in (1, 2)
    ]
    gold.write_text("\n".join(map(json.dumps, rows)))
    answers.write_text('{"id": "q1", "answer": "It is Ada 1."}\n{"id": "q2", "answer": "It is Bo."}\n')
    out = tmp_path / "judged"

    async def judge() -> None:
        async with FakeProvider(Settings()) as provider:
            config = JudgeConfig(
                judges=("other",),
                judge_form="match",
                gold=gold,
                candidates=str(answers),
                out=out,
                lexical=True,
            )
            plan = plan_judging(config, load_catalogue(config_file(tmp_path, provider.url)), {})
            await run_judging(plan, {}, Events())

    asyncio.run(judge())
    for file in (out / "per_item.jsonl", out / "judgments" / "lexical.jsonl"):
        labels = {line["id"]: line["nuggets"][0]["coverage"] for line in read_lines(file)}
        assert labels == {"q1": "full", "q2": "none"}
    assert json.loads((out / "run.json").read_text())["identity"]["judge_form"] == "match"


def test_form_needs_one_nugget_and_no_code_of_the_users() -> None:
    check_form("nuggets", ["mine"], {"mine"}, [3, 0])
    check_form("match", ["gpt"], {"mine"}, [1, 1])
    with pytest.raises(UsageError, match="exactly one nugget"):
        check_form("match", ["gpt"], (), [1, 2])
    with pytest.raises(UsageError, match="mine is code of yours"):
        check_form("match", ["mine"], {"mine"}, [1])


def test_lexical_judge_wants_every_word_of_the_answer() -> None:
    nuggets = (Nugget("answer", "The answer is Quillmere Works Ltd Ten", 3.0),)
    for answer, label in (
        ("quillmere works ltd ten", "full"),
        ("Quillmere Works Ltd", "none"),  # three of four words: nearly right is wrong
        ("the answer is here", "none"),
    ):
        judgment = asyncio.run(LexicalJudge(form="match").judge(None, JudgeView("q", nuggets, answer)))  # type: ignore[arg-type]
        assert judgment.coverage == (("answer", label),)


def test_agent_says_how_sure_it_is_and_the_judge_never_reads_it(world: tuple[Path, dict[str, Path]]) -> None:
    _, runs = world
    for run in runs.values():
        lines = list(read_lines(run / "results.jsonl"))
        assert all("Confidence" not in line["answer"] for line in lines)
        # The fake agent ends its answer so, and the digest of what the judge was asked has the answer without it.
        seen: dict[str, float | None] = {}
        for record in read_records(run / "steps.jsonl"):
            if record["step"].startswith("search/turn/"):
                last_line = record["response"]["text"].rpartition("\n")[2].removesuffix("</answer>")
                name, _, percent = last_line.partition(": ")
                seen[record["instance"]] = float(percent) if name == "Confidence" else None
        assert {line["id"]: line["confidence"] for line in lines} == seen
        prompt = (run / "prompts" / "agent.en.txt").read_text()
        assert prompt.index("Confidence: NN") < prompt.index("## user")
        assert (
            json.loads((run / "run.json").read_text())["identity"]["prompts"]["agent.en"]
            == sha256(prompt.encode()).hexdigest()
        )


def test_calibration_error_stands_in_summary_and_comparison(world: tuple[Path, dict[str, Path]]) -> None:
    _, runs = world
    compared = compare_runs([str(run) for run in runs.values()])
    tables = {table.name: table for table in comparison_tables(compared, main_only=True, all_pairs=False)}
    errors = {row["system"]: row["calibration_error"] for row in tables["confidence"].rows}
    for system, run in runs.items():
        lines = list(read_lines(run / "results.jsonl"))
        stated = [line for line in lines if line["confidence"] is not None]
        summary = summary_json(summarise_run(run))
        assert (summary["confidence"]["n_answers"], summary["confidence"]["n_stated"]) == (N, len(stated))
        # By hand, bin by bin.
        gaps = 0.0
        for low in range(0, 100, 20):
            inside = [line for line in stated if low <= line["confidence"] < low + 20 + (low == 80)]
            gaps += abs(sum(line["restore_score_100"] - line["confidence"] for line in inside))
        assert summary["confidence"]["calibration_error"] == pytest.approx(gaps / len(stated))
        assert errors[system] == summary["confidence"]["calibration_error"]
        n_unstated = N - len(stated)
        notices = [text for text in summary.get("notices", ()) if "state no confidence" in text]
        assert len(notices) == bool(n_unstated)


def test_scores_stand_by_domain(world: tuple[Path, dict[str, Path]]) -> None:
    _, runs = world
    compared = compare_runs([str(run) for run in runs.values()])
    tables = {table.name: table for table in comparison_tables(compared, main_only=True, all_pairs=False)}
    domains = [task["domain"] for task in made_tasks(N)]
    assert [row["domain"] for row in tables["domains"].rows] == sorted(domains)
    for row in tables["domains"].rows:
        (id,) = [str(task["id"]) for task in made_tasks(N) if task["domain"] == row["domain"]]
        (line,) = [line for line in read_lines(runs["orig"] / "results.jsonl") if line["id"] == id]
        assert line["domain"] == row["domain"]
        assert (row["n"], row["n_scored orig"], row["orig"]) == (1, 1, line["restore_score_100"])
    exported = tables_of([RunPath(runs["orig"], named=True, by_path=True)])
    assert [(row["id"], row["domain"]) for row in exported.instances] == [
        (str(task["id"]), task["domain"]) for task in made_tasks(N)
    ]
    assert "confidence" in exported.instances[0]


def test_code_of_the_users_states_a_confidence_as_a_model_does(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "from cts_async import role\n\n\n"
        "@role('agent', version='1')\n"
        "async def agent(view):\n"
        "    if 'no. 1 ' in view.query:\n"
        "        return 'Quillmere Works 1\\nConfidence: 70'\n"
        "    return 'Nobody knows'\n"
    )
    runs, _ = run_tasks(
        tmp_path, models=(), references=("orig",), ask=("never",), agent=f"{code}:agent", limit=2
    )
    lines = {line["id"]: line for line in read_lines(runs["orig"] / "results.jsonl")}
    assert (lines["1"]["answer"], lines["1"]["confidence"]) == ("Quillmere Works 1", 70)
    assert (lines["2"]["answer"], lines["2"]["confidence"]) == ("Nobody knows", None)
    assert [line["restore_score_100"] for line in lines.values()] == [100, 0]
