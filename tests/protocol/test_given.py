"""Given questions and rewritten queries, and runs that stop before the search."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_runs import plant
from fake_provider import FakeProvider, Settings

import cts_async
from cts_async.cluster.work import CampaignWork
from cts_async.config import BudgetConfig, RunConfig
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.errors import InputError, RunStopped, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.pages.contents import gather
from cts_async.protocol.answers import answers_of_run
from cts_async.protocol.audit import audit_run
from cts_async.protocol.forecast import forecast
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.run import run_plan
from cts_async.runs.files import has_no_answers
from cts_async.runs.finished import read_run
from cts_async.runs.manifest import require_manifest
from cts_async.tables.comparison import compare_runs
from cts_async.tables.diagnosis import diagnose_named
from cts_async.tables.export import export_runs
from cts_async.viewer.leaderboards import leaderboards_of

Write = Callable[[str, str], Path]

DATA = 'fused_query,blurred_query\n"cheap hotels in Berlin",hotels\n"trains to unknown",trains\n'
QUESTIONS = (
    "fused_query,clarification_question_1,clarification_question_2,clarification_question_3\n"
    '"trains to unknown",Where to?,When?,\n'
    '"cheap hotels in Berlin",Which city?,Which year?,How many stars?\n'
)
NAMED = "knows", "silent"
"""Two models: one answers each question with the last word of the intent, the other with `unknown`."""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        Path(name).write_text(text, encoding="utf-8")
        return Path(name)

    Path("empty").mkdir()
    write("data.csv", DATA)
    write("asked.csv", QUESTIONS)
    return write


def configure(knows: str = "http://a.invalid/v1", silent: str = "http://b.invalid/v1") -> None:
    tables = (
        f'[models.{name}]\nbase_url = "{url}"\nmodel = "{name}-1"\n'
        for name, url in zip(NAMED, (knows, silent), strict=True)
    )
    Path("cts.toml").write_text("".join(tables))


def planned(**options: Any) -> Plan:
    if not Path("cts.toml").exists():
        configure()
    config = Path("cts.toml")
    given = {"data": "data.csv", "every_role": "knows", "references": (), **options}
    if given["data"] == "data.csv":
        given = {"no_judge": True, "corpus": _documents(), **given}
    return make_plan(RunConfig(config_file=config, **given), load_catalogue(config), {})


def _documents() -> Path:
    path = Path("docs.jsonl")
    path.write_text(
        '{"id": "d", "url": "https://a.example", "title": "Berlin", "text": "Hotels in Berlin."}\n'
    )
    return path


def ran(**options: Any) -> Path:
    """Run one system against the fake provider; its directory."""

    async def main() -> Path:
        async with (
            FakeProvider(Settings(unknown_share=0.0)) as knows,
            FakeProvider(Settings(unknown_share=1.0)) as silent,
        ):
            configure(knows.url, silent.url)
            plan = planned(**options)
            await run_plan(plan, {}, Events())
            return list(plan.systems.values())[-1]

    return asyncio.run(main())


def lines(run: Path) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in read_records(run / "results.jsonl")}


def steps(run: Path) -> list[str]:
    return sorted(f"{record['instance']} {record['step']}" for record in read_records(run / "steps.jsonl"))


GIVEN: dict[str, Any] = {"given_questions": (Path("asked.csv"),), "ks": (2,)}

# --- Questions


def test_given_questions_are_asked_in_the_clarifiers_place(write: Write) -> None:
    run = ran(**GIVEN)
    assert run == Path("runs/data-asked-k2+questions+all-knows")
    found = lines(run)["q0001"]
    assert found["questions"] == ["Which city?", "Which year?"]
    assert found["answers"] == ["Berlin", "Berlin"]
    assert found["rewritten_query"] == "more about hotels Berlin Berlin"
    assert not [step for step in steps(run) if "clarify" in step]
    assert (run / "prompts" / "clarify.en.txt").exists() is False


def test_table_11_compares_supporting_models_over_the_same_questions(write: Write) -> None:
    runs = [ran(**GIVEN, support=name, stop_after="rewrite", every_role=None) for name in NAMED]
    (found,) = compare_runs([str(run) for run in runs]).stabilities
    assert (found.run, found.other) == ("asked-knows k2", "asked-silent k2")
    assert (found.n_aligned, found.n_questions) == (4, 4)
    # hotels: known twice against unknown twice; trains: its last word is "unknown", so both say so.
    assert found.ua_agreement == 2 / 4
    # "more about hotels Berlin Berlin" (31) and "more about hotels" (17): 2 * 17 / 48; trains: equal.
    assert found.rewrite_similarity == pytest.approx((34 / 48 + 1) / 2)
    assert (found.n_with_unknown, found.unknown_preservation) == (3, 1.0)


def test_questions_of_an_earlier_run_keep_their_clarifiers_name(write: Write) -> None:
    first = ran(models=("knows",), ks=(2,), stop_after="questions", every_role="knows")
    assert first.name == "data-knows-k2+stop-after-questions"
    second = ran(given_questions=(first,), ks=(1,), every_role=None, support="silent", stop_after="answers")
    assert second.name == "data-knows-k1+questions+stop-after-answers+support-silent"
    asked = {id: line["questions"] for id, line in lines(first).items()}
    assert {id: line["questions"] for id, line in lines(second).items()} == {
        id: questions[:1] for id, questions in asked.items()
    }
    assert read_run(second).clarifier == "knows"


def test_exported_questions_are_given_again(write: Write) -> None:
    first = ran(models=("knows",), ks=(2,), stop_after="rewrite", every_role="knows")
    export_runs(["runs"], "release", Path("out"))
    assert not Path("out/candidates").exists()
    plan = planned(given_questions=(Path("out/clarify_only"),), ks=(2,), stop_after="answers")
    assert [system.label for system in plan.systems] == ["knows-k2"]
    asked = {id: tuple(line["questions"]) for id, line in lines(first).items()}
    assert plan.given["knows"].texts == asked


def test_last_line_of_an_instance_counts_in_an_earlier_run(write: Write) -> None:
    first = ran(models=("knows",), stop_after="questions", every_role="knows")
    line = {**lines(first)["q0001"], "questions": ["Since when?"]}
    with (first / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    plan = planned(given_questions=(first,), stop_after="answers")
    assert plan.given["knows"].texts["q0001"] == ("Since when?",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", '{"id": "q0001", "questions": ["a?"]}\n{"id": "q0002", "questions": ["b?"]}\n'),
        ("q.csv", 'id,questions\nq0001,"[""a?""]"\nq0002,"[""b?""]"\n'),
        ("q.csv", "query_id,cq\nq0002,b?\nq0001,a?\n"),
        ("q.csv", "blurred query,question\nhotels,a?\n  trains ,b?\n"),
        ("q.jsonl", '{"intent": "cheap hotels in Berlin", "q1": " a?\\n"}\n{"id": "q0002", "q1": "b?"}\n'),
    ],
)
def test_rows_are_joined_by_id_intent_or_query(write: Write, name: str, text: str) -> None:
    given = planned(given_questions=(write(name, text),)).given["q"]
    assert given.texts == {"q0001": ("a?",), "q0002": ("b?",)}


@pytest.mark.parametrize("named", ["release", "release/*.csv"])
def test_folder_or_pattern_of_files_names_a_clarifier_each(write: Write, named: str) -> None:
    Path("release").mkdir()
    for name in ("bob", "ada"):
        write(f"release/{name}.csv", QUESTIONS)
    write("release/README.md", "what this is")
    plan = planned(given_questions=(Path(named),), ks=(1, 2))
    assert [system.label for system in plan.systems] == ["ada-k1", "ada-k2", "bob-k1", "bob-k2"]


def test_changed_file_is_another_system(write: Write) -> None:
    run = ran(**GIVEN, stop_after="answers")
    write("asked.csv", QUESTIONS.replace("Which city", "What city"))
    other = ran(**GIVEN, stop_after="answers")
    assert other.name == f"{run.name}.v2"
    assert lines(run)["q0001"]["questions"][0] == "Which city?"
    assert lines(other)["q0001"]["questions"][0] == "What city?"


def test_interrupted_run_with_given_questions_repeats_no_step(write: Write) -> None:
    with pytest.raises(RunStopped):
        ran(**GIVEN, budget=BudgetConfig(max_calls=4), in_flight=1)
    run = Path("runs/data-asked-k2+questions+all-knows")
    before = [record["key"] for record in read_records(run / "steps.jsonl")]
    assert before
    assert ran(**GIVEN) == run
    keys = [record["key"] for record in read_records(run / "steps.jsonl")]
    assert keys[: len(before)] == before
    assert len(set(keys)) == len(keys)
    assert len(lines(run)) == 2


def test_given_texts_travel_to_the_workers_with_the_plan(write: Write) -> None:
    plan = planned(**GIVEN, stop_after="rewrite")
    work = pickle.loads(pickle.dumps(CampaignWork.from_plan(plan)))
    assert work.plan.given == plan.given
    assert not work.plan.searches


def test_forecast_counts_no_calls_for_what_is_given_or_left_out(write: Write) -> None:
    def kinds(**options: Any) -> dict[str, float]:
        return {work.kind: work.steps for work in forecast(planned(**options)).work}

    assert kinds(**GIVEN, stop_after="rewrite") == {"answer": 4, "rewrite": 2}
    assert kinds(**GIVEN, stop_after="answers") == {"answer": 4}
    assert kinds(models=("knows",), stop_after="questions") == {"clarify": 2}
    assert set(kinds(**GIVEN)) == {"answer", "rewrite", "search"}
    assert set(kinds(given_rewrites=(rewrites(write),))) == {"search"}


def test_given_questions_from_python(write: Write) -> None:
    options: dict[str, Any] = {"every_role": "baseline", "data": "data.csv", "stop_after": "answers"}
    tables = cts_async.run(k=2, given_questions="asked.csv", quiet=True, **options)
    asked = [(row["question_1"], row["question_2"], row["answer"]) for row in tables.instances]
    assert asked == [("Which city?", "Which year?", None), ("Where to?", "When?", None)]
    assert {row["clarifier"] for row in tables.instances} == {"asked"}


# --- Rewritten queries


def rewrites(write: Write) -> Path:
    text = '{"id": "q0001", "query": "hotels by the lake"}\n{"id": "q0002", "query": "night trains"}\n'
    return write("mine.jsonl", text)


def test_given_rewrites_are_searched_and_nothing_is_asked(write: Write) -> None:
    run = ran(given_rewrites=(rewrites(write),))
    assert read_run(run).system == "mine-rewrites"
    found = lines(run)
    assert [found[id]["rewritten_query"] for id in sorted(found)] == ["hotels by the lake", "night trains"]
    assert all(not line["questions"] and not line["answers"] and line["k"] == 0 for line in found.values())
    assert {step.split()[1].split("/")[0] for step in steps(run)} == {"search"}
    assert require_manifest(run).given.source == "mine.jsonl"
    assert audit_run(run).held


def test_rewrites_of_an_earlier_run_are_searched_again(write: Write) -> None:
    first = ran(models=("knows",), stop_after="rewrite", every_role="knows")
    again = ran(given_rewrites=(first,))
    assert read_run(again).system == "knows-k1-rewrites"
    queries = {id: line["rewritten_query"] for id, line in lines(first).items()}
    assert {id: line["rewritten_query"] for id, line in lines(again).items()} == queries


# --- The closed book


@pytest.mark.parametrize("stop_after", [None, "answers", "rewrite"])
def test_audit_proves_the_closed_book_with_given_questions(write: Write, stop_after: Any) -> None:
    audit = audit_run(ran(**GIVEN, stop_after=stop_after))
    assert audit.findings == []
    assert (audit.n_held, audit.n_instances) == (2, 2)
    assert [note.partition(":")[0] for note in audit.notes] == ["questions from asked.csv"]


def test_audit_proves_the_closed_book_without_a_search(write: Write) -> None:
    run = ran(models=("knows",), ks=(2,), stop_after="questions", every_role="knows")
    assert audit_run(run).held


def test_audit_finds_a_question_that_was_not_given(write: Write) -> None:
    run = ran(**GIVEN, stop_after="rewrite")

    def change(record: dict[str, Any]) -> None:
        record["request"]["fields"]["clarification_question"] = "Which lake?"

    plant(run, "q0001", "answer/1", change)
    problems = {finding.problem for finding in audit_run(run).findings}
    assert "it was not asked exactly question 1 of the Clarifier's reply" in problems


def test_audit_finds_a_query_that_was_not_given(write: Write) -> None:
    run = ran(given_rewrites=(rewrites(write),))

    def change(record: dict[str, Any]) -> None:
        record["request"]["fields"]["question"] = "cheap hotels in Berlin"

    plant(run, "q0001", "search/turn/1", change)
    found = [finding for finding in audit_run(run).findings if finding.instance == "q0001"]
    assert "the agent's question is not the one that was given" in {finding.problem for finding in found}
    assert "leak" in {finding.level for finding in found}


def test_audit_says_when_the_given_file_has_changed(write: Write) -> None:
    run = ran(**GIVEN, stop_after="answers")
    write("asked.csv", QUESTIONS + "x,secret?,,\n")
    (finding,) = audit_run(run).findings
    assert finding.level == "missing"
    assert "not the file this run was made with" in finding.problem
    assert "secret" not in finding.problem


# --- Runs without a search


def test_runs_that_stop_early_have_what_was_done_and_no_score(write: Write) -> None:
    of_data = {"id", "system", "fused_query", "blurred_query", "k"}
    asked = lines(ran(models=("knows",), stop_after="questions", every_role="knows"))["q0001"]
    assert asked.keys() == of_data | {"questions"}
    answered = lines(ran(models=("knows",), stop_after="answers", every_role="knows"))["q0001"]
    assert answered.keys() == of_data | {"questions", "answers"}
    rewritten = lines(ran(models=("knows",), stop_after="rewrite", every_role="knows"))["q0001"]
    assert rewritten.keys() == of_data | {"questions", "answers", "rewritten_query"}


def test_runs_that_stop_early_need_neither_gold_nor_documents_nor_agent(write: Write) -> None:
    plan = planned(models=("knows",), every_role=None, support="knows", corpus=None, stop_after="rewrite")
    (system,) = plan.systems
    assert set(plan.specs) == {"knows"}
    assert plan.players(system) == {"clarifier": "knows", "support": "knows"}
    assert {"agent", "tools", "current_date"}.isdisjoint(plan.identity(system))


def test_runs_that_stop_early_cannot_be_judged_or_compared_but_diagnosed(write: Write) -> None:
    runs = [ran(models=("knows",), ks=(k,), stop_after="answers", every_role="knows") for k in (1, 2)]
    with pytest.raises(UsageError, match="a run that stopped after answers has no answers to judge"):
        answers_of_run(runs[0], None)
    with pytest.raises(UsageError, match="searched nothing"):
        compare_runs([str(run) for run in runs])
    found = diagnose_named([str(run) for run in runs]).diagnosis.systems
    # Known are the answers about hotels; the last word of the other intent is "unknown".
    assert [one.unknowns.ua_unknown_rate for one in found] == [1 / 2, 2 / 4]


def test_runs_that_stop_early_are_on_no_leaderboard(write: Write) -> None:
    early = ran(models=("knows",), stop_after="rewrite", every_role="knows")
    whole = ran(models=("knows",), every_role="knows", data="sample", limit=2)
    assert has_no_answers(early)
    assert not has_no_answers(whole)
    assert leaderboards_of({"early": early})["problem"] == "runs without an agent have no scores"


def test_report_of_runs_that_stop_early_says_why_there_are_no_scores(write: Write) -> None:
    gathered = gather([str(ran(models=("knows",), stop_after="answers", every_role="knows"))])
    assert gathered.compared is None
    assert any("stopped before the search" in note for note in gathered.notes)
    assert [summary.n_done for summary in gathered.summaries] == [2]


def test_questions_that_nobody_answered_are_left_out_of_a_diagnosis(write: Write) -> None:
    run = ran(models=("knows",), stop_after="questions", every_role="knows")
    with pytest.raises(UsageError, match="no user answered its questions, left out"):
        diagnose_named([str(run)])


# --- What a person gets wrong


@pytest.mark.parametrize(
    ("text", "ks", "problem"),
    [
        (
            "id,question\nq0001,a?\n",
            (1,),
            r"q.csv: .*no questions for 1 of 2 instances .*'q0002'.*--limit 1 ",
        ),
        ("id,question\nx,a?\n", (1,), r"q.csv: .*no questions for 2 of 2 instances .*rows are joined by id"),
        ("id,question\nq0001,a?\nq0002,b?\n", (2,), r"q.csv:2: .*'q0001': has 1 question, but -k is 2"),
        ("id,q1,q2\nq0001,a?,c?\nq0002,,b?\n", (2,), r"q.csv:3: .*'q0002': question 1 is empty"),
        ("id,error,q1\nq0001,timeout,\n", (1,), r"q.csv:2: .*'q0001': it failed .*timeout"),
        ("id,text\nq0001,a?\n", (1,), r"q.csv:2: field 'questions': is missing; the fields here are"),
        ("id,fused_query,q1\nq0001,another,a?\n", (1,), r"q.csv:2: field 'fused_query': 'q0001' has another"),
        ("id,q1\n", (1,), "q.csv: .*is empty"),
        ("text,q1\nx,a?\n", (1,), r"q.csv:2: field 'id': is missing"),
    ],
)
def test_unusable_questions_are_named_before_anything_starts(
    write: Write, text: str, ks: tuple[int, ...], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        planned(given_questions=(write("q.csv", text),), ks=ks)
    assert not Path("runs").exists()


def test_failed_instance_of_an_earlier_run_is_named_with_its_line(write: Write) -> None:
    first = ran(models=("knows",), stop_after="questions", every_role="knows")
    error = {"step": "clarify", "kind": "timed_out", "message": "no reply"}
    with (first / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "q0002", "error": error}) + "\n")
    with pytest.raises(InputError, match=r"results.jsonl:3: .*'q0002': it failed \(clarify.*--retry-failed"):
        planned(given_questions=(first,))


def test_two_rewritten_queries_of_one_instance_are_refused(write: Write) -> None:
    path = write("two.jsonl", '{"id": "q0001", "query": "a"}\n{"id": "q0001", "query": "b"}\n')
    with pytest.raises(InputError, match=r"two.jsonl:2: .*'q0001' is already on line 1"):
        planned(given_rewrites=(path,))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({**GIVEN, "models": ("silent",)}, "--questions replaces the Clarifier: omit --model silent"),
        ({**GIVEN, "given_rewrites": (Path("asked.csv"),)}, "--questions and --rewrites"),
        ({**GIVEN, "stop_after": "questions"}, "nothing is left to do"),
        ({**GIVEN, "schemes": ("cot",), "modes": ("respond",)}, "asked at once only"),
        ({**GIVEN, "given_questions": (Path("asked.csv"), Path("./asked.csv"))}, "both called asked"),
        ({"given_rewrites": (Path("asked.csv"),), "ks": (3,)}, "--rewrites asks no questions: omit -k"),
        (
            {"given_rewrites": (Path("asked.csv"),), "stop_after": "rewrite"},
            "--rewrites starts with the search",
        ),
        ({"stop_after": "rewrite", "references": ("gold",)}, "--gold-query: .*ends before the search"),
        ({"given_questions": (Path("nowhere.csv"),)}, "nowhere.csv: no such file or run"),
        ({"given_questions": (Path("empty"),)}, "not a run directory"),
    ],
)
def test_contradicting_options_are_refused(write: Write, options: dict[str, Any], problem: str) -> None:
    with pytest.raises((UsageError, InputError), match=problem):
        planned(**options)


def test_run_of_orig_has_no_questions_to_give(write: Write) -> None:
    run = ran(references=("orig",), models=("knows",))
    orig = next(path for path in run.parent.iterdir() if "orig" in path.name)
    with pytest.raises(InputError, match="a run of orig asked no questions"):
        planned(given_questions=(orig,))
