"""Clean runs pass; whatever is planted in one is found, in English (s01, s02) and in Chinese (s03, s06)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from audited_runs import Record, copied, made, plant, record_of, write

from cts_async.engine.journal import read_records
from cts_async.errors import InputError, UsageError
from cts_async.protocol.audit import Audit, Finding, audit_run

INSTANCES = 6
ENGLISH, CHINESE = "s01", "s03"
Q_STAR = {
    ENGLISH: "winter weekday ferry times and fares from North Quay to Brack Island",
    CHINESE: "考试季图书馆二楼安静区的座位预约办法和开放时间",
}
PIECE = {ENGLISH: "north quay", CHINESE: "考试季"}
"""Text that stands in q* and, whatever the User Answerer of these runs says, in no answer."""
both = pytest.mark.parametrize("instance", [ENGLISH, CHINESE])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(tmp_path_factory.mktemp("audited"))


@pytest.fixture
def run(runs: dict[str, Path], tmp_path: Path) -> Path:
    return copied(runs["fake-k2"], tmp_path)


def violations(audit: Audit) -> list[Finding]:
    return [finding for finding in audit.findings if finding.violates]


def leaked(audit: Audit, instance: str, step: str) -> str:
    """The texts that were found to leak in one step, and nowhere else."""
    leaks = [finding for finding in audit.findings if finding.level == "leak"]
    assert {(finding.instance, finding.step) for finding in leaks} == {(instance, step)}
    return " ".join(finding.text for finding in leaks)


def fields(record: Record) -> dict[str, str]:
    found: dict[str, str] = record["request"]["fields"]
    return found


# --- Untouched ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["orig", "gold", "fake-k2"])
def test_untouched_run_is_held(runs: dict[str, Path], system: str) -> None:
    audit = audit_run(runs[system])
    assert audit.findings == []
    assert (audit.n_held, audit.n_instances) == (INSTANCES, INSTANCES)
    # Clarify, two answers, rewrite; the fake agent takes two turns.
    assert audit.n_requests == INSTANCES * (6 if system == "fake-k2" else 2)


def test_verdict_is_one_line(runs: dict[str, Path]) -> None:
    assert audit_run(runs["orig"]).verdict() == "closed book: held for 6/6 instances; 0 leaks"
    said = audit_run(runs["fake-k2"]).verdict()
    assert (
        said == "closed book: held for 6/6 instances; 0 leaks; unsupported constraints in 0 rewrites (0.0 %)"
    )


def test_demand_for_an_answer_is_permitted(tmp_path: Path) -> None:
    for system, path in made(tmp_path, max_turns=2, ks=(1,)).items():
        demands = {record["request"].get("demand") for record in read_records(path / "steps.jsonl")}
        assert len(demands) == 3, "English, Chinese, and steps without"
        assert audit_run(path).held, system


def test_whole_sample_is_held_for_other_k(tmp_path: Path) -> None:
    for system, path in made(tmp_path, ks=(1, 3), limit=28).items():
        audit = audit_run(path)
        assert (violations(audit), audit.n_held) == ([], 28), system


# --- Planted -----------------------------------------------------------------------------------------------


@both
def test_intent_in_clarifier_request_is_a_leak(run: Path, instance: str) -> None:
    plant(run, instance, "clarify", lambda r: fields(r).update(blurred_query=Q_STAR[instance]))
    audit = audit_run(run)
    assert PIECE[instance] in leaked(audit, instance, "clarify")
    assert (audit.n_held, audit.held) == (INSTANCES - 1, False)
    assert audit.verdict().startswith("closed book: NOT held: proved for 5/6 instances; ")


@pytest.mark.parametrize(
    ("instance", "word"), [("s01", "weekday"), ("s03", "安静"), ("s04", "seniors"), ("s02", "Millwharf")]
)
def test_word_of_intent_in_rewriter_request_is_a_leak(run: Path, instance: str, word: str) -> None:
    def change(record: Record) -> None:
        fields(record)["blurred_query"] += f" {word}"

    # What is planted must not be what the User Answerer said.
    assert word not in fields(record_of(run, instance, "rewrite"))["qa_pairs"]
    plant(run, instance, "rewrite", change)
    assert leaked(audit_run(run), instance, "rewrite") == word.casefold()


@both
def test_extra_pair_in_rewriter_request_is_found(run: Path, instance: str) -> None:
    def change(record: Record) -> None:
        fields(record)["qa_pairs"] += "\nQuestion 3: Which one?\nAnswer 3: the usual one"

    plant(run, instance, "rewrite", change)
    (finding,) = violations(audit_run(run))
    assert finding == Finding(
        "provenance", instance, "rewrite", "qa_pairs is not exactly what was asked and answered"
    )


@both
def test_intent_in_agent_question_is_a_leak(run: Path, instance: str) -> None:
    plant(run, instance, "search/turn/1", lambda r: fields(r).update(question=Q_STAR[instance]))
    audit = audit_run(run)
    assert PIECE[instance] in leaked(audit, instance, "search/turn/1")
    assert "the agent's question is not the Rewriter's reply" in {f.problem for f in audit.findings}


def test_intent_in_question_of_orig_is_a_leak(runs: dict[str, Path], tmp_path: Path) -> None:
    run = copied(runs["orig"], tmp_path)
    plant(run, ENGLISH, "search/turn/1", lambda r: fields(r).update(question=Q_STAR[ENGLISH]))
    assert PIECE[ENGLISH] in leaked(audit_run(run), ENGLISH, "search/turn/1")


def test_gold_question_must_be_exactly_the_intent(runs: dict[str, Path], tmp_path: Path) -> None:
    run = copied(runs["gold"], tmp_path)
    plant(run, ENGLISH, "search/turn/1", lambda r: fields(r).update(question=f"{Q_STAR[ENGLISH]} in 2033"))
    (finding,) = audit_run(run).findings
    assert (finding.level, finding.problem) == ("provenance", "the agent's question is not q*")


@both
def test_intent_in_later_turn_is_a_leak(run: Path, instance: str) -> None:
    plant(
        run, instance, "search/turn/2", lambda r: r["request"].update(demand=f"Think of {Q_STAR[instance]}")
    )
    audit = audit_run(run)
    assert PIECE[instance] in leaked(audit, instance, "search/turn/2")
    assert "its request contains free text" in {finding.problem for finding in audit.findings}


def test_later_turn_may_name_steps(run: Path) -> None:
    notes = {
        "dropped": ["search/tool/1.1", "search/tool/1.2/page/3"],
        "chars": 1200,
        "again": False,
        "x": None,
    }
    plant(run, ENGLISH, "search/turn/2", lambda r: r["request"].update(notes))
    assert audit_run(run).findings == []
    plant(run, ENGLISH, "search/turn/2", lambda r: r["request"].update(dropped=["search/weekday"]))
    assert not audit_run(run).held


@both
def test_prompt_with_text_of_an_intent_is_a_leak(run: Path, instance: str) -> None:
    path = run / "prompts" / "clarify.en.txt"
    path.write_text(f"{path.read_text()}\nFor example: {Q_STAR[instance]}\n")
    audit = audit_run(run)
    assert leaked(audit, instance, "prompts")
    assert ("provenance", "prompts/clarify.en.txt") in {(f.level, f.step) for f in audit.findings}


def test_missing_prompt_and_prompt_of_another_role_are_found(run: Path) -> None:
    (run / "prompts" / "clarify.en.txt").unlink()
    assert [finding.level for finding in audit_run(run).findings] == ["missing"]
    plant(run, ENGLISH, "clarify", lambda r: r["request"].update(prompt="answer.en"))
    assert "provenance" in {finding.level for finding in audit_run(run).findings}


@both
def test_answerer_asked_two_questions_is_found(run: Path, instance: str) -> None:
    second = fields(record_of(run, instance, "answer/2"))["clarification_question"]

    def change(record: Record) -> None:
        fields(record)["clarification_question"] += f" {second}"

    plant(run, instance, "answer/1", change)
    problems = {(f.instance, f.step, f.problem) for f in violations(audit_run(run))}
    assert (instance, "answer/1", "it was not asked exactly question 1 of the Clarifier's reply") in problems


def test_answerer_that_saw_more_than_the_intent_is_found(run: Path) -> None:
    plant(run, ENGLISH, "answer/1", lambda r: r["request"].update(on_record="0123456789abcdef"))
    (finding,) = violations(audit_run(run))
    assert finding.problem == "what it saw besides what was asked is not q* alone"


@pytest.mark.parametrize("step", ["clarify", "rewrite"])
def test_unexpected_digest_in_request_is_found(run: Path, step: str) -> None:
    plant(run, ENGLISH, step, lambda r: r["request"].update(on_record="0123456789abcdef"))
    (finding,) = violations(audit_run(run))
    assert (finding.problem, finding.text) == (
        "its request contains more than prompt and fields",
        "on_record",
    )


def test_unelicited_constraints_in_rewritten_query_are_found(run: Path) -> None:
    said = record_of(run, ENGLISH, "rewrite")["response"]["text"] + " on a weekday in 1999"
    plant(run, ENGLISH, "rewrite", lambda r: r["response"].update(text=said))
    plant(run, ENGLISH, "search/turn/1", lambda r: fields(r).update(question=said))
    audit = audit_run(run)
    assert leaked(audit, ENGLISH, "rewrite") == "weekday"
    assert [f.text for f in audit.findings if f.level == "unsupported"] == ["1999"]
    assert audit.n_unsupported == 1
    assert audit.verdict().endswith("; 1 leak; unsupported constraints in 1 rewrites (16.7 %)")


# --- What is missing, damaged or done again ------------------------------------------------------------------


def test_result_without_its_steps_is_not_held(run: Path) -> None:
    records = [
        r for r in read_records(run / "steps.jsonl") if (r["instance"], r["step"]) != ("s02", "answer/1")
    ]
    write(run / "steps.jsonl", records)
    found = audit_run(run)
    assert ("missing", "it has a result, but not these steps: answer/1") in {
        (finding.level, finding.problem) for finding in found.findings
    }
    assert found.n_held == INSTANCES - 1
    (run / "steps.jsonl").unlink()
    found = audit_run(run)
    assert (found.n_held, found.n_instances) == (0, INSTANCES)
    assert "the journal is missing" in found.notes[0]


@pytest.mark.parametrize(("step", "held"), [("judge/ernie", False), ("rewrite", False), ("clarify", True)])
def test_failure_without_earlier_steps_is_not_held(run: Path, step: str, held: bool) -> None:
    """Who failed at the judge was asked, answered and searched before; who failed at the first step, nothing."""
    lines = list(read_records(run / "results.jsonl"))
    error = {"step": step, "kind": "rejected", "message": "refused"}
    write(run / "results.jsonl", [{**lines[0], "error": error}])
    write(run / "steps.jsonl", [r for r in read_records(run / "steps.jsonl") if "judge" in r["step"]])
    found = audit_run(run)
    assert (found.held, found.n_held, found.n_instances) == (held, int(held), 1)
    assert [(one.level, one.problem) for one in violations(found)] == (
        [] if held else [("missing", f"it failed at {step}, but no earlier step is recorded")]
    )


def test_damaged_lines_are_noted_and_repeated_steps_count(run: Path) -> None:
    path = run / "steps.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    numbers = {(r["instance"], r["step"]): i for i, r in enumerate(map(orjson.loads, lines))}
    clarify, turn = numbers[ENGLISH, "clarify"], numbers[CHINESE, "search/turn/2"]
    again = lines[clarify]
    lines[clarify] = again[: len(again) // 2] + b"\n"
    lines[turn] = lines[turn].replace(b'"response":{', b'"response":{{')
    path.write_bytes(b"".join([*lines, again]))
    audit = audit_run(run)
    assert audit.held
    assert f"damaged lines: 2 (line {min(clarify, turn) + 1}, {max(clarify, turn) + 1})" in audit.notes[0]


def test_repeated_step_with_another_reply_is_held(run: Path) -> None:
    """The Clarifier asked again: its first reply, and what followed from it, stays legal."""
    first = [r for r in read_records(run / "steps.jsonl") if r["instance"] == ENGLISH]
    other = json.loads(
        json.dumps(first, ensure_ascii=False).replace("Which time do you mean", "Which hour do you mean")
    )
    write(run / "steps.jsonl", [*read_records(run / "steps.jsonl"), *other])
    assert audit_run(run).held


def test_unfinished_run_is_audited_so_far(run: Path) -> None:
    write(run / "steps.jsonl", list(read_records(run / "steps.jsonl"))[:7])
    (run / "results.jsonl").write_text("")
    audit = audit_run(run)
    assert audit.held
    assert 0 < audit.n_instances < INSTANCES + 1


def test_result_that_does_not_follow_from_its_steps_is_found(run: Path) -> None:
    lines = list(read_records(run / "results.jsonl"))
    lines[0]["rewritten_query"] += " today"
    write(run / "results.jsonl", lines)
    (finding,) = audit_run(run).findings
    assert (finding.level, finding.step) == ("provenance", "results")


# --- The data ------------------------------------------------------------------------------------------------


def test_moved_data_is_replaced_by_results_or_option(run: Path, tmp_path: Path) -> None:
    manifest = orjson.loads((run / "run.json").read_bytes())
    manifest["data"]["spec"] = "sample:gone"
    (run / "run.json").write_bytes(orjson.dumps(manifest))
    audit = audit_run(run)
    assert audit.held
    assert "were taken from results.jsonl" in audit.notes[0]
    assert audit_run(run, data="sample").notes == ()


def test_data_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "s01", "fused_query": "a", "blurred_query": "b"}\n')
    with pytest.raises(UsageError, match="sha256 differs"):
        audit_run(run, data=str(other))


def test_directory_without_auditable_run_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run directory"):
        audit_run(tmp_path / "nowhere")
    manifest: dict[str, Any] = orjson.loads((run / "run.json").read_bytes())
    del manifest["identity"]["system"], manifest["identity"]["models"]["clarifier"]
    (run / "run.json").write_bytes(orjson.dumps(manifest))
    with pytest.raises(InputError, match="it has neither a Clarifier nor a search"):
        audit_run(run)
    shutil.rmtree(run)
