"""People's answers in the User Answerer's place: durable, named in the run, audited, and free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audited_runs import copied, made, plant
from hypothesis import given
from hypothesis import strategies as st
from made_clariq import clariq_file
from made_runs import changed_manifest

from cts_async.config import RunConfig
from cts_async.datasets import open_dataset
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.journal import read_records
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.audit import audit_run
from cts_async.protocol.forecast import forecast, read_past_usage
from cts_async.protocol.human_answers import (
    THRESHOLD,
    best_match,
    human_reply,
    read_human_answers,
)
from cts_async.protocol.plan import Plan, make_plan
from cts_async.search.asking import normalised_question

PAIRS = (
    ("which time of day", "at night"),
    ("are you travelling by car", "i dont know"),
    ("are you travelling by car", "no"),
    ("is it for today", ""),
)
_NIGHT = "7\tferries\t\t4\tF01\tWhen do night ferries leave North Quay?\t"
_COST = "7\tferries\t\t4\tF02\tWhat does a ferry cost for a van?\t"
ROWS = (
    _NIGHT + "Q00010\twhich time do you mean by ferries\tat night please",
    _COST + "Q00010\twhich time do you mean by the ferries\tany time",
    _COST + "Q00011\tdo you want which place you mean by ferries\t",
)
"""The fake Clarifier asks "Which time do you mean by ferries?", then the same about the place."""
KNOWN_TO_F01 = "which time do you mean by ferries"


def options(folder: Path, **more: Any) -> dict[str, Any]:
    data = f"clariq:{clariq_file(folder / 'dev.tsv', ROWS)}"
    corpus = sample_dir() / "corpus.jsonl"
    return {"data": data, "answers": "clariq", "corpus": corpus, "no_judge": True, "limit": None, **more}


# --- One answer


def test_matching_question_gets_the_human_answer_and_others_unknown() -> None:
    known = {"text": "at night", "question": "which time of day", "similarity": 100.0}
    assert human_reply("Which time of day?", PAIRS) == known
    assert human_reply("Which island?", PAIRS) == {"text": "unknown", "question": None}
    assert human_reply("Which island?", ())["text"] == "unknown"
    assert human_reply("Is it for today?", PAIRS)["text"] == "unknown"


def test_answers_belong_to_their_data(tmp_path: Path) -> None:
    dataset = open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv')},need=4")
    assert read_human_answers(RunConfig(), dataset) is None
    pairs = read_human_answers(RunConfig(answers="clariq"), dataset)
    assert pairs is not None
    assert pairs["F02"][1] == ("are you travelling by car", "yes")
    with pytest.raises(UsageError, match="--answers qulac: these data have the answers of clariq"):
        read_human_answers(RunConfig(answers="qulac"), dataset)


# --- A run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("people")
    return made(folder, references=("orig",), **options(folder))


@pytest.fixture
def run(runs: dict[str, Path], tmp_path: Path) -> Path:
    return copied(runs["fake-k2"], tmp_path)


def plan_of(folder: Path, **more: Any) -> Plan:
    config = folder / "cts.toml"
    config.write_text('[models.fake]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "fake-1"\n')
    given = {"ks": (2,), "references": ("orig",), **options(folder, **more)}
    asked = RunConfig(models=("fake",), every_role="fake", runs_dir=folder / "runs", **given)
    return make_plan(asked, load_catalogue(config), {})


def test_run_name_tells_the_source_of_answers_except_for_references(runs: dict[str, Path]) -> None:
    assert runs["orig"].name == "clariq-orig+agent-fake"
    assert runs["fake-k2"].name == "clariq-fake-k2+all-fake+answers-clariq"
    identities = {
        label: json.loads((run / "run.json").read_text())["identity"] for label, run in runs.items()
    }
    assert identities["fake-k2"]["answers"] == {"of": "clariq", "similarity": 85.0}
    assert "answers" not in identities["orig"]
    assert not any(name.startswith("answer") for name in identities["fake-k2"]["prompts"])
    answers = {line["id"]: line["answers"] for line in read_records(runs["fake-k2"] / "results.jsonl")}
    assert answers == {"F01": ["at night please", "unknown"], "F02": ["any time", "unknown"]}
    audit = audit_run(runs["fake-k2"])
    assert (audit.findings, audit.n_held, audit.n_instances) == ([], 2, 2)


def test_human_answers_take_no_model_calls(runs: dict[str, Path], tmp_path: Path) -> None:
    assert {kind for kind, _ in read_past_usage(runs["fake-k2"], ()).usages} == {
        "clarify",
        "rewrite",
        "search",
    }
    predicted = forecast(plan_of(tmp_path))
    assert {work.kind for work in predicted.work} == {"clarify", "rewrite", "search"}
    assert "answers: people's, from clariq; no calls" in predicted.assumptions
    assert "answer" in {work.kind for work in forecast(plan_of(tmp_path, answers=None)).work}


def test_a_step_is_remembered_and_not_done_again(runs: dict[str, Path], tmp_path: Path) -> None:
    run = copied(runs["fake-k2"].parent, tmp_path) / runs["fake-k2"].name
    steps, results = (run / "steps.jsonl").read_bytes(), list(read_records(run / "results.jsonl"))
    (run / "results.jsonl").unlink()
    again = made(tmp_path, references=("orig",), **options(runs["fake-k2"].parents[1]))
    assert again["fake-k2"] == run
    assert (run / "steps.jsonl").read_bytes() == steps
    assert sorted(read_records(run / "results.jsonl"), key=str) == sorted(results, key=str)


# --- Its audit


NOBODY = "this answer was not given to the question it was matched with"
OTHER = {"text": "any time", "question": "which time do you mean by the ferries"}


@pytest.mark.parametrize(
    ("step", "change", "level", "problem"),
    [
        ("answer/1", {"response": {"text": "North Quay", "question": KNOWN_TO_F01}}, "provenance", NOBODY),
        ("answer/1", {"response": OTHER}, "provenance", NOBODY),
        ("answer/1", {"hint": "North Quay"}, "provenance", "its request contains more than the question"),
        (
            "rewrite",
            {"blurred_query": "ferries from North Quay"},
            "leak",
            "its request contains text that occurs only in q*",
        ),
    ],
)
def test_planted_text_is_found(
    run: Path, step: str, change: dict[str, Any], level: str, problem: str
) -> None:
    def planted(record: dict[str, Any]) -> None:
        request = record["request"]
        target = record if "response" in change else request["fields"] if step == "rewrite" else request
        target.update(change)

    plant(run, "F01", step, planted)
    found = {(one.level, one.instance, one.step, one.problem) for one in audit_run(run).findings}
    assert (level, "F01", step, problem) in found


def test_without_the_data_nothing_is_proved(run: Path) -> None:
    with changed_manifest(run) as manifest:
        manifest["data"]["spec"] = "clariq:/nowhere/dev.tsv"
    audit = audit_run(run)
    assert not audit.held
    assert "people's answers cannot be read: name the data with --data" in {
        finding.problem for finding in audit.findings
    }


# --- Which annotated question a Clarifier's question is: equal ones first, then similar ones.


KNOWN = (
    "are you looking for reviews of the pampered chef",
    "do you want to know which ferry takes cars",
    "are you looking for jobs at the pampered chef",
    "do you want to know which ferry takes cars",
)


@pytest.mark.parametrize(
    ("question", "index"),
    [
        ("Are you interested in reviews of the pampered chef?", 0),
        ("are you lokoing for reviews of the pampered chef", 0),
        ("would you like jobs at the pampered chef", 2),
        ("could you tell me, do you want to know which ferry takes cars", 1),
    ],
)
def test_the_same_question_in_other_words_is_found(question: str, index: int) -> None:
    match = best_match(question, KNOWN)
    assert match is not None
    assert match[0] == index
    assert THRESHOLD <= match[1] < 100


@given(st.text(), st.lists(st.text(), max_size=5))
def test_match_is_a_known_question_and_similar_enough(question: str, known: list[str]) -> None:
    match = best_match(question, known)
    if match is not None:
        assert 0 <= match[0] < len(known)
        assert THRESHOLD <= match[1] <= 100
    assert (best_match(question, [question]) is not None) == bool(normalised_question(question))
