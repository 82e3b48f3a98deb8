"""The audit of runs whose agent asks the user: clean ones are held, whatever is planted in one is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking_runs import ANSWER, INTENT, QUERY, SEARCH, Models, asked_run, asking
from audited_runs import Record, copied, plant, write
from custom_roles import script
from typed_commands import cts_in

from cts_async.engine.journal import read_records
from cts_async.errors import InputError
from cts_async.protocol import asking as pipeline_asking
from cts_async.protocol.audit import Audit, Finding, audit_run
from cts_async.protocol.audit.asking import INTRODUCTIONS

REPLIES = {"Which season?": "winter", "For whom?": "cyclists", "In winter?": "Yes."}
LAB = """
from cts_async import role

@role("agent")
async def find(view, llm, search, visit, ask):
    hits = await search(view.query)
    first = await ask("Which season?")
    again = await ask("which season")
    second = await ask("For whom?")
    await llm(f"{view.query}: {first.reply}, {second.reply}", model="agent")
    return hits[0].snippet
"""


def made(folder: Path, turns: list[str], **options: Any) -> Path:
    folder.mkdir()
    if options.get("ask", ("during",)) != ("during",):
        questions = folder / "gpt.jsonl"
        questions.write_text('{"id": "1", "questions": ["Which season?", "Which car?"]}\n')
        options |= {"models": ("local",), "ks": (2,), "given_questions": (questions,)}
    return asked_run(folder, Models(turns, lambda question: REPLIES.get(question, "unknown")), **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("asking")
    lab = script(folder, "my_lab.py", LAB)
    during = [SEARCH, asking("Which season?", "For whom?"), asking("Which SEASON", "More?"), ANSWER]
    # Escaped in the call, and with a thought that has the question, too.
    escaped = asking("Which season?").replace("W", "\\u0057").replace("I ask", "For whom? I ask")
    return {
        "during": made(folder / "during", during),
        "both": made(folder / "both", [escaped, ANSWER], ask=("both",)),
        "yes-no": made(folder / "yes-no", [asking("In winter?", "By car?"), ANSWER], replies="yes-no"),
        "forced": made(folder / "forced", [ANSWER, asking("Which season?"), ANSWER], min_asks=1),
        "last turn": made(folder / "last", [ANSWER, ANSWER], min_asks=1, max_turns=2),
        "published": made(folder / "published", [asking("For whom?"), ANSWER], agent_mode="as-published"),
        "injected": made(
            folder / "injected", [SEARCH, ANSWER], ask=("before",), inject_at=(0.25,), max_turns=4
        ),
        "at once": made(folder / "at-once", [ANSWER], ask=("before",), inject_at=(0.0,)),
        "ends before": made(folder / "ends", [ANSWER], ask=("before",), inject_at=(0.5,)),
        "custom": made(folder / "custom", [ANSWER], agent=f"{lab}:find"),
    }


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: copied(runs[name], tmp_path)


def violations(audit: Audit) -> list[Finding]:
    return [finding for finding in audit.findings if finding.violates]


def test_untouched_runs_of_every_kind_are_held(runs: dict[str, Path]) -> None:
    labels = {name: audit_run(run).label for name, run in runs.items()}
    assert labels == {
        "during": "orig+ask3",
        "both": "gpt-k2+ask3",
        "yes-no": "orig+ask3-yesno",
        "forced": "orig+ask3-min1",
        "last turn": "orig+ask3-min1",
        "published": "orig+ask3",
        "injected": "gpt-k2+inject25",
        "at once": "gpt-k2+inject0",
        "ends before": "gpt-k2+inject50",
        "custom": "orig+ask3",
    }
    for name, run in runs.items():
        audit = audit_run(run)
        assert (audit.findings, audit.n_held) == ([], 1), name


def test_agent_may_write_replies_behind_the_query_that_it_was_given(tmp_path: Path) -> None:
    """Of s01 the query ends with "times and fares", and the reply begins with "from North Quay"."""
    command = "run --all baseline -m baseline -k 2 --ask both --no-orig --limit 4 -q"
    assert cts_in(tmp_path, *command.split()).returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    # Instances go side by side: the journal has their steps in any order.
    searched = [
        record["request"]["query"]
        for record in read_records(run / "steps.jsonl")
        if (record["instance"], record["step"]) == ("s01", "search/tool/5/query/1")
    ]
    assert "times and fares from North Quay" in searched[0]
    audit = audit_run(run)
    assert (audit.findings, audit.n_held) == ([], 4)


# --- Planted in the journal


def asked(question: str) -> Callable[[Record], None]:
    return lambda record: record["request"]["fields"].update(clarification_question=question)


def replied(text: str) -> Callable[[Record], None]:
    return lambda record: record["response"].update(text=text)


def with_request(**values: object) -> Callable[[Record], None]:
    return lambda record: record["request"].update(values)


def with_fields(**values: str) -> Callable[[Record], None]:
    return lambda record: record["request"]["fields"].update(values)


def with_view(**values: object) -> Callable[[Record], None]:
    return lambda record: record["request"]["view"].update(values)


def noted(**values: str) -> Callable[[Record], None]:
    return lambda record: record["notes"]["calls"][0].update(values)


def injected(text: str) -> Callable[[Record], None]:
    return lambda record: record["request"].update(injected=record["request"]["injected"] + text)


LEAK = "its request contains text that occurs only in q*"
NOT_ASKED = "it is no question that the agent asked"
NOT_RECORDED = "the reply in its result, which the agent read, is not the recorded one"
NOT_NOTED = "what it notes that the agent asked and read before is not what its result has"
NOT_ELICITED = "the text that it was given is not exactly what was asked and answered before"


@pytest.mark.parametrize(
    ("name", "step", "change", "level", "problem"),
    [
        ("during", "search/turn/1", with_fields(question=INTENT), "leak", LEAK),
        (
            "during",
            "search/turn/1",
            with_fields(question=INTENT),
            "provenance",
            "the agent's question is not q",
        ),
        ("during", "search/turn/3", with_request(demand="night ferries"), "leak", LEAK),
        (
            "during",
            "search/turn/3",
            with_request(injected="cyclists"),
            "provenance",
            "the agent of this run is given no answers later",
        ),
        ("during", "search/ask/1", asked(INTENT), "provenance", NOT_ASKED),
        ("during", "search/ask/1", asked("Which season? For whom?"), "provenance", NOT_ASKED),
        (
            "during",
            "search/ask/2",
            asked("Which season?"),
            "provenance",
            "the user was asked this before, in search/ask/1",
        ),
        (
            "during",
            "search/ask/1",
            with_fields(conversation="For whom? cyclists"),
            "provenance",
            "its fields are not exactly clarification_question",
        ),
        (
            "during",
            "search/ask/1",
            with_request(asked="For whom?"),
            "provenance",
            "its request contains more than prompt and fields",
        ),
        (
            "during",
            "search/ask/1",
            with_request(on_record="0" * 16),
            "provenance",
            "what it saw besides what was asked is not q* alone",
        ),
        (
            "during",
            "search/ask/1",
            with_request(prompt="respond.en"),
            "provenance",
            "its prompt 'respond.en' is not this role's in this run",
        ),
        ("during", "search/ask/1", replied("summer"), "provenance", NOT_RECORDED),
        ("during", "search/ask/1", replied(INTENT), "provenance", NOT_RECORDED),
        ("during", "search/turn/3", noted(request=INTENT), "provenance", NOT_NOTED),
        ("during", "search/turn/3", noted(record="search/ask/2"), "provenance", NOT_NOTED),
        (
            "during",
            "search/turn/2",
            replied(ANSWER),
            "provenance",
            "its result says that the agent asked in this turn, which did not",
        ),
        ("both", "search/ask/1", asked("Which car?"), "provenance", NOT_ASKED),
        (
            "both",
            "search/turn/1",
            with_fields(question=QUERY),
            "provenance",
            "the agent's question is not the Rewriter's reply",
        ),
        (
            "yes-no",
            "search/ask/1",
            replied("maybe"),
            "provenance",
            "its reply is none of yes, no, i don't know",
        ),
        ("yes-no", "search/ask/1", replied("No."), "provenance", NOT_RECORDED),
        ("injected", "search/turn/2", injected(", night"), "provenance", NOT_ELICITED),
        ("injected", "search/turn/2", injected(", night"), "leak", LEAK),
        (
            "injected",
            "search/turn/2",
            lambda record: record["request"].pop("injected"),
            "provenance",
            "the agent was not given the answers, which were due before this turn",
        ),
        (
            "at once",
            "search/turn/1",
            with_fields(question=f"{QUERY} in winter"),
            "provenance",
            "the agent's question is not q",
        ),
        ("custom", "search", with_view(max_asks=4), "provenance", "max_asks is 4, but 3 in this run"),
        ("custom", "search", with_view(hint="night"), "leak", LEAK),
        (
            "custom",
            "search/llm/1",
            with_request(messages=[{"role": "user", "content": "night ferries for cyclists"}]),
            "leak",
            LEAK,
        ),
        (
            "custom",
            "search",
            lambda record: record["response"]["asks"][0].__setitem__(1, "summer"),
            "provenance",
            "what it says that the agent asked is not what its result has",
        ),
        ("custom", "search/ask/1", asked("By car?"), "provenance", NOT_ASKED),
    ],
)
def test_what_is_planted_in_a_step_is_found_there(
    copy: Callable[[str], Path],
    name: str,
    step: str,
    change: Callable[[Record], None],
    level: str,
    problem: str,
) -> None:
    run = copy(name)
    plant(run, "1", step, change)
    findings = {
        (found.level, found.instance, found.step, found.problem) for found in violations(audit_run(run))
    }
    assert (level, "1", step, problem) in findings


def test_step_beyond_the_most_questions_is_found(copy: Callable[[str], Path]) -> None:
    run = copy("during")
    plant(run, "1", "search/ask/2", lambda record: record.update(step="search/ask/4"))
    problems = {(found.step, found.problem) for found in violations(audit_run(run))}
    assert ("search/ask/4", "the agent of this run may ask the user 3 times") in problems
    missing = "its result has a question that is not recorded: the user was not asked it"
    assert ("search/ask/2", missing) in problems


def test_question_in_a_run_that_may_not_ask_is_found(copy: Callable[[str], Path]) -> None:
    run = copy("at once")
    records = list(read_records(run / "steps.jsonl"))
    (answer,) = [record for record in records if record["step"] == "answer/1"]
    write(run / "steps.jsonl", [*records, answer | {"step": "search/ask/1"}])
    assert [(found.step, found.problem) for found in violations(audit_run(run))] == [
        ("search/ask/1", "the agent of this run may not ask the user")
    ]


def test_answers_given_at_another_turn_are_found(copy: Callable[[str], Path]) -> None:
    run = copy("injected")
    text = next(
        r["request"]["injected"] for r in read_records(run / "steps.jsonl") if r["step"] == "search/turn/2"
    )
    plant(run, "1", "search/turn/1", with_request(injected=text))
    assert [(found.step, found.problem) for found in violations(audit_run(run))] == [
        ("search/turn/1", "it was given the answers before turn 1, and not before 2")
    ]


# --- Planted in the results


def change_result(run: Path, change: Callable[[Record], None]) -> None:
    (line,) = map(json.loads, (run / "results.jsonl").read_text().splitlines())
    change(line)
    write(run / "results.jsonl", [line])


def longer(line: Record) -> None:
    line["asks"].append({"question": "More?", "reply": "unknown", "turn": 3})


@pytest.mark.parametrize(
    ("name", "change", "step", "problem"),
    [
        ("during", lambda line: line["asks"][0].update(reply="summer"), "search/ask/1", NOT_RECORDED),
        (
            "during",
            lambda line: line["asks"][0].update(turn=1),
            "search/turn/1",
            "its result says that the agent asked in this turn, which did not",
        ),
        ("during", lambda line: line["asks"].pop(), "search/turn/4", NOT_NOTED),
        ("during", lambda line: line.pop("asks"), "results", "its result does not say what the agent asked"),
        ("during", longer, "results", "it has 4 asks, but the agent of this run may ask 3 times"),
        (
            "during",
            lambda line: line["search"].update(turns=9),
            "results",
            "its result has 9 turns, but the last of them is not recorded",
        ),
        (
            "during",
            lambda line: line["search"].update(asks_refused=2),
            "results",
            "its result has 2 asks_refused, but its turns note 1",
        ),
        (
            "forced",
            lambda line: line["search"].pop("early_answers"),
            "results",
            "its result has 0 early_answers, but its turns note 1",
        ),
        (
            "forced",
            lambda line: line.update(asks=[]),
            "results",
            "it has 0 asks, but the agent of this run has to ask 1 times",
        ),
        ("yes-no", lambda line: line["asks"][0].update(reply="maybe"), "search/ask/1", NOT_RECORDED),
        (
            "at once",
            lambda line: line.update(asks=[]),
            "results",
            "it has asks, but the agent of this run may not ask the user",
        ),
        (
            "injected",
            lambda line: line.update(injected_turn=1),
            "results",
            "it says that the agent was given the answers before turn 1",
        ),
        (
            "ends before",
            lambda line: line.update(injected_turn=1),
            "results",
            "it says that the agent was given the answers before turn 1",
        ),
        (
            "during",
            lambda line: line.update(injected_turn=None),
            "results",
            "it has an injected_turn, but the agent of this run is given no answers later",
        ),
        (
            "injected",
            lambda line: line.update(rewritten_query=INTENT),
            "results",
            "its result does not follow from its recorded steps",
        ),
        (
            "custom",
            lambda line: line["asks"][1].update(turn=4),
            "search",
            "what it says that the agent asked is not what its result has",
        ),
    ],
)
def test_what_is_planted_in_the_result_is_found(
    copy: Callable[[str], Path], name: str, change: Callable[[Record], None], step: str, problem: str
) -> None:
    run = copy(name)
    change_result(run, change)
    assert ("1", step, problem) in {
        (found.instance, found.step, found.problem) for found in violations(audit_run(run))
    }


def test_reply_that_recites_the_intent_is_a_leak_and_counts(copy: Callable[[str], Path]) -> None:
    run = copy("during")
    assert audit_run(run).n_known == 2  # of two steps: a repeated question has the same reply
    plant(run, "1", "search/ask/1", replied(INTENT))
    change_result(run, lambda line: line["asks"][0].update(reply=INTENT))
    change_result(run, lambda line: line["asks"][2].update(reply=INTENT))
    audit = audit_run(run)
    leaks = [(found.step, found.problem) for found in violations(audit) if found.level == "leak"]
    assert leaks == [("search/ask/1", "the answer is most of q*, not what the question asks for")]
    assert (audit.n_known, audit.n_over_informing) == (2, 1)


def test_unknown_way_of_asking_is_refused_and_not_called_held(copy: Callable[[str], Path]) -> None:
    run = copy("during")
    manifest = json.loads((run / "run.json").read_text())
    manifest["identity"]["asks"]["replies"] = "gestures"
    (run / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="this way of asking during the search cannot be audited"):
        audit_run(run)


def test_own_copies_of_what_the_pipeline_writes_are_equal() -> None:
    assert set(INTRODUCTIONS) == set(pipeline_asking._INTRODUCTION.values())
