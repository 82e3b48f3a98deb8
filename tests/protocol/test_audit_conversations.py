"""Conversations by scheme and mode are held to the closed book; whatever is planted in one is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from audited_runs import Record, copied, made, plant, record_of, write
from fake_provider import Settings
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.engine.journal import read_records
from cts_async.errors import InputError
from cts_async.protocol.audit import Finding, audit_run

INSTANCES, K = 4, 2
ENGLISH, CHINESE = "s01", "s03"
Q_STAR = {
    ENGLISH: "winter weekday ferry times and fares from North Quay to Brack Island",
    CHINESE: "考试季图书馆二楼安静区的座位预约办法和开放时间",
}
WORD = {ENGLISH: "weekday", CHINESE: "安静"}
"""Text of q* that nobody says in these runs."""
both = pytest.mark.parametrize("instance", [ENGLISH, CHINESE])
RESPOND, SELECT, AT_ONCE = "fake-at-cot-respond-k2", "fake-at-cot-select-k2", "fake-at-cot-k2"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made(
        tmp_path_factory.mktemp("talks"),
        Settings(unknown_share=0.4),
        schemes=("at-cot",),
        modes=("at-once", "respond", "select"),
        references=(),
        limit=INSTANCES,
    )


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda label: copied(runs[label], tmp_path)


def fields(record: Record) -> dict[str, str]:
    found: dict[str, str] = record["request"]["fields"]
    return found


def violations(run: Path) -> list[Finding]:
    return [finding for finding in audit_run(run).findings if finding.violates]


def said(findings: list[Finding]) -> set[tuple[str, str, str]]:
    return {(finding.level, finding.step, finding.text) for finding in findings}


# --- Untouched ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "requests", "rewrites"), [(RESPOND, 2 * K + 1, 1), (SELECT, 2 * K, 0), (AT_ONCE, 2 + K, 1)]
)
def test_untouched_conversation_is_held(
    runs: dict[str, Path], system: str, requests: int, rewrites: int
) -> None:
    audit = audit_run(runs[system])
    assert audit.findings == []
    assert (audit.n_held, audit.n_instances) == (INSTANCES, INSTANCES)
    # The fake agent takes two turns.
    assert audit.n_requests == INSTANCES * (requests + 2)
    assert audit.n_rewrites == INSTANCES * rewrites


def test_every_scheme_and_mode_is_held_in_both_languages(tmp_path: Path) -> None:
    settings = Settings(unknown_share=0.4)
    schemes, modes = ("standard", "at-standard", "cot"), ("respond", "select")
    for system, path in made(
        tmp_path, settings, ks=(3,), schemes=schemes, modes=modes, references=(), limit=3
    ).items():
        assert audit_run(path).findings == [], system


# --- Planted -----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("system", "step", "field"),
    [
        (RESPOND, "clarify/1", "blurred_query"),
        (RESPOND, "clarify/2", "conversation"),
        (RESPOND, "reformulate/2", "conversation"),
        (SELECT, "clarify/1", "conversation"),
        (SELECT, "clarify/2", "blurred_query"),
        (SELECT, "search/turn/1", "question"),
        (AT_ONCE, "clarify/1", "conversation"),
        (AT_ONCE, "rewrite", "qa_pairs"),
    ],
)
def test_word_of_intent_that_nobody_said_is_a_leak(
    copy: Callable[[str], Path], instance: str, system: str, step: str, field: str
) -> None:
    def change(record: Record) -> None:
        fields(record)[field] += f" {WORD[instance]}"

    run = copy(system)
    plant(run, instance, step, change)
    found = violations(run)
    assert ("leak", step, WORD[instance]) in said(found)
    assert {(finding.instance, finding.step) for finding in found} == {(instance, step)}
    assert {finding.level for finding in found} == {"leak", "provenance"}


@both
def test_answer_may_be_known_only_after_its_turn(copy: Callable[[str], Path], instance: str) -> None:
    """What the user says at turn 2 stands in the reformulator's conversation, and must not in turn 2's question."""
    run = copy(RESPOND)

    def answer(record: Record) -> None:
        record["response"]["text"] = WORD[instance]

    def later(record: Record) -> None:
        fields(record)["blurred_query"] += f" {WORD[instance]}"

    plant(run, instance, "answer/2", answer)
    plant(run, instance, "clarify/2", later)
    assert ("leak", "clarify/2", WORD[instance]) in said(violations(run))
    assert not any(one.level == "leak" and one.step == "reformulate/2" for one in violations(run))


@pytest.mark.parametrize(
    ("system", "step", "problem"),
    [
        (RESPOND, "clarify/2", "its conversation is not exactly what was said before"),
        (RESPOND, "answer/2", "its conversation is not exactly what was said before"),
        (RESPOND, "reformulate/2", "its conversation is not exactly what was said before"),
        (SELECT, "clarify/2", "its conversation is not exactly what was said before"),
        (SELECT, "select/2", "its conversation is not exactly what was said before"),
    ],
)
@both
def test_changed_answer_in_conversation_is_found(
    copy: Callable[[str], Path], instance: str, system: str, step: str, problem: str
) -> None:
    run = copy(system)

    def change(record: Record) -> None:
        lines = fields(record)["conversation"].split("\n")
        lines[2] = lines[2].partition(": ")[0] + ": the usual one"
        fields(record)["conversation"] = "\n".join(lines)

    plant(run, instance, step, change)
    assert Finding("provenance", instance, step, problem) in violations(run)


@pytest.mark.parametrize(
    ("system", "step", "field", "text", "problem"),
    [
        (
            RESPOND,
            "answer/1",
            "clarification_question",
            "And?",
            "it was not asked exactly the question of turn 1",
        ),
        (
            SELECT,
            "select/1",
            "offered_queries",
            "1. ferries",
            "offered_queries is not exactly what the Clarifier",
        ),
        (SELECT, "clarify/2", "blurred_query", "ferries", "blurred_query is not the one chosen last"),
        (RESPOND, "clarify/2", "blurred_query", "ferries", "blurred_query is not that of the data"),
        (RESPOND, "clarify/1", "k", "2", "k is '2', but a turn of this run has 1"),
        (SELECT, "clarify/1", "k", "2", "k is '2', but a turn of this run has 5"),
        (RESPOND, "search/turn/1", "question", "ferries", "the agent's question is not the last turn's"),
        (AT_ONCE, "answer/2", "clarification_question", "And?", "it was not asked exactly question 2"),
    ],
)
def test_changed_field_is_found(
    copy: Callable[[str], Path], system: str, step: str, field: str, text: str, problem: str
) -> None:
    run = copy(system)
    plant(run, ENGLISH, step, lambda record: fields(record).update({field: text}))
    # What follows from an answer to another question does not follow from this one.
    finding = violations(run)[0]
    assert (finding.level, finding.step) == ("provenance", step)
    assert finding.problem.startswith(problem)


@pytest.mark.parametrize(
    ("system", "step"), [(RESPOND, "answer/1"), (SELECT, "select/1"), (AT_ONCE, "answer/1")]
)
def test_digest_of_another_intent_is_found(copy: Callable[[str], Path], system: str, step: str) -> None:
    run = copy(system)
    plant(run, ENGLISH, step, lambda record: record["request"].update(on_record="0" * 16))
    (finding,) = violations(run)
    assert finding.problem.endswith("is not q* alone")


@pytest.mark.parametrize("step", ["clarify/1", "reformulate/2", "answer/2"])
def test_prompt_of_another_role_is_found(copy: Callable[[str], Path], step: str) -> None:
    run = copy(RESPOND)
    plant(run, ENGLISH, step, lambda record: record["request"].update(prompt="cot.en"))
    (finding,) = violations(run)
    assert finding.problem == "its prompt 'cot.en' is not this role's in this run"


@pytest.mark.parametrize(
    ("system", "step"),
    [(RESPOND, "clarify/2"), (RESPOND, "answer/1"), (RESPOND, "reformulate/2"), (SELECT, "select/2")],
)
def test_missing_step_is_found(copy: Callable[[str], Path], system: str, step: str) -> None:
    run = copy(system)
    records = [r for r in read_records(run / "steps.jsonl") if (r["instance"], r["step"]) != (ENGLISH, step)]
    write(run / "steps.jsonl", records)
    missing = [finding for finding in violations(run) if finding.level == "missing"]
    assert [finding.problem for finding in missing] == [f"it has a result, but not these steps: {step}"]


def test_superfluous_turn_is_found(copy: Callable[[str], Path]) -> None:
    run = copy(RESPOND)
    more = {**record_of(run, ENGLISH, "clarify/2"), "step": "clarify/3", "key": "0" * 32}
    write(run / "steps.jsonl", [*read_records(run / "steps.jsonl"), more])
    assert "this run has no such turn" in {finding.problem for finding in violations(run)}


def test_unelicited_constraint_in_reformulation_is_unsupported(copy: Callable[[str], Path]) -> None:
    run = copy(RESPOND)

    def change(record: Record) -> None:
        record["response"]["text"] += " on Mondays at Brightwater"

    plant(run, ENGLISH, "reformulate/2", change)
    found = [one for one in audit_run(run).findings if one.level == "unsupported"]
    assert {(one.step, one.text) for one in found} == {
        ("reformulate/2", "mondays"),
        ("reformulate/2", "brightwater"),
    }


def test_repeated_turn_is_not_a_finding(copy: Callable[[str], Path]) -> None:
    """After damage a turn may have two replies; what follows has to follow from one of them."""
    run = copy(SELECT)
    again = record_of(run, ENGLISH, "clarify/1")
    reply = json.loads(again["response"]["text"])
    reply["queries"] = [f"{query} again" for query in reply["queries"]]
    again = {**again, "key": "0" * 32, "response": {"text": json.dumps(reply)}}
    write(run / "steps.jsonl", [*read_records(run / "steps.jsonl"), again])
    assert violations(run) == []


CHANGED: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    (RESPOND, lambda line: line["turns"][0].update(answers=["another"])),
    (RESPOND, lambda line: line["turns"][1].update(query="another")),
    (RESPOND, lambda line: line["turns"][0].update(types=["semantic"])),
    (RESPOND, lambda line: line["turns"][0].update(reasoning="another")),
    (RESPOND, lambda line: line.update(turns=line["turns"][:1])),
    (RESPOND, lambda line: line.update(scheme="cot")),
    (RESPOND, lambda line: line.update(questions=[])),
    (RESPOND, lambda line: line.update(rewritten_query="another")),
    (SELECT, lambda line: line["turns"][0].update(chosen=line["turns"][0]["chosen"] ^ 1)),
    (SELECT, lambda line: line["turns"][1]["offered"].reverse()),
    (SELECT, lambda line: line.update(turns=[])),
    (AT_ONCE, lambda line: line["turns"][0].update(query="another")),
    (AT_ONCE, lambda line: line["turns"][0]["answers"].append("another")),
]


@pytest.mark.parametrize(("system", "change"), CHANGED)
def test_result_that_does_not_follow_from_replies_is_found(
    copy: Callable[[str], Path], system: str, change: Callable[[dict[str, Any]], Any]
) -> None:
    run = copy(system)
    lines = list(read_records(run / "results.jsonl"))
    (line,) = [line for line in lines if line["id"] == ENGLISH]
    change(line)
    write(run / "results.jsonl", lines)
    assert violations(run) == [
        Finding("provenance", ENGLISH, "results", "its result does not follow from its recorded steps")
    ]


def test_unknown_scheme_is_refused(copy: Callable[[str], Path]) -> None:
    run = copy(RESPOND)
    manifest = json.loads((run / "run.json").read_text())
    manifest["identity"]["scheme"] = "haiku"
    (run / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="this scheme and mode cannot be audited: haiku, respond"):
        audit_run(run)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
STEPS = st.sampled_from(
    ["clarify/0", "clarify/9", "clarify/" + "9" * 25, "select/1", "reformulate/7", "answer/1"]
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([RESPOND, SELECT, AT_ONCE]), st.data())
def test_any_file_content_gets_a_verdict(runs: dict[str, Path], system: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        run = Path(shutil.copytree(runs[system], Path(folder) / "run"))
        name = data.draw(st.sampled_from(["steps.jsonl", "results.jsonl"]))
        records = list(read_records(run / name))
        damaged = data.draw(st.sampled_from(records))
        if name == "steps.jsonl":
            within = data.draw(st.sampled_from([damaged, damaged["request"], damaged["response"]]))
            damaged["step"] = data.draw(st.just(damaged["step"]) | STEPS)
        else:
            within = data.draw(st.sampled_from([damaged, *damaged["turns"]]))
        within[data.draw(st.sampled_from(sorted(within)))] = data.draw(JSON)
        write(run / name, records)
        assert audit_run(run).verdict().startswith("closed book: ")
