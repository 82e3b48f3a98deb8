"""Clean runs pass; whatever is planted in one is found, in English (s01) and in Chinese (s03)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from audited_runs import JSON, Record, copied, made, plant, record_of, write
from fake_provider import Settings
from hypothesis import given
from hypothesis import strategies as st

from cts_async.engine.journal import read_records
from cts_async.errors import InputError, UsageError
from cts_async.protocol.audit import Audit, Finding, audit_run

INSTANCES = 6
ENGLISH, CHINESE = "s01", "s03"
Q_STAR = {
    ENGLISH: "winter weekday ferry times and fares from North Quay to Brack Island",
    CHINESE: "考试季图书馆二楼安静区的座位预约办法和开放时间",
}
WORD = {ENGLISH: "weekday", CHINESE: "安静"}
"""Text of q* that nobody says in these runs."""
SYSTEMS = {
    "orig": "orig",
    "gold": "gold",
    "k2": "fake-k2",
    "respond": "fake-at-cot-respond-k2",
    "select": "fake-at-cot-select-k2",
    "at-once": "fake-at-cot-k2",
}
_, _, CTS, RESPOND, SELECT, AT_ONCE = SYSTEMS.values()
Planted = Callable[[str, Record], None]
"""Changes a record of an instance."""
Copy = Callable[[str], Path]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    modes = ("at-once", "respond", "select")
    folder, talks = tmp_path_factory.mktemp("audited"), tmp_path_factory.mktemp("conversations")
    return made(folder) | made(
        talks, Settings(unknown_share=0.4), schemes=("at-cot",), modes=modes, references=()
    )


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Copy:
    return lambda label: copied(runs[label], tmp_path)


@pytest.fixture
def run(copy: Copy) -> Path:
    return copy(CTS)


def violations(audit: Audit) -> list[Finding]:
    return [finding for finding in audit.findings if finding.violates]


def fields(record: Record) -> dict[str, str]:
    found: dict[str, str] = record["request"]["fields"]
    return found


def changed(**texts: str) -> Planted:
    """Fields with other texts, in which {q} is the instance's q* and {word} its WORD."""
    return lambda instance, record: fields(record).update(
        {name: text.format(q=Q_STAR.get(instance), word=WORD[instance]) for name, text in texts.items()}
    )


def extended(**texts: str) -> Planted:
    """Fields with more text at their end."""
    return lambda instance, record: fields(record).update(
        {name: fields(record)[name] + text.format(word=WORD[instance]) for name, text in texts.items()}
    )


def with_keys(**values: object) -> Planted:
    return lambda instance, record: record["request"].update(values)


def another_answer(instance: str, record: Record) -> None:
    lines = fields(record)["conversation"].split("\n")
    lines[2] = lines[2].partition(": ")[0] + ": the usual one"
    fields(record)["conversation"] = "\n".join(lines)


# --- Untouched ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "requests", "rewrites"),
    [("orig", 0, 0), ("gold", 0, 0), (CTS, 4, 1), (RESPOND, 5, 1), (SELECT, 4, 0), (AT_ONCE, 4, 1)],
)
def test_untouched_run_is_held(runs: dict[str, Path], system: str, requests: int, rewrites: int) -> None:
    audit = audit_run(runs[system])
    assert audit.findings == []
    assert (audit.n_held, audit.n_instances) == (INSTANCES, INSTANCES)
    assert audit.n_requests == INSTANCES * (requests + 2), "the fake agent takes two turns"
    assert audit.n_rewrites == INSTANCES * rewrites
    shares = "; unsupported constraints in 0 rewrites (0.0 %)" if rewrites else ""
    assert audit.verdict() == f"closed book: held for 6/6 instances; 0 leaks{shares}"


@pytest.mark.parametrize(
    "options",
    [
        {"ks": (1, 3), "limit": 28},
        {"ks": (1,), "max_turns": 2},
        {
            "ks": (3,),
            "schemes": ("standard", "at-standard", "cot"),
            "modes": ("respond", "select"),
            "references": (),
            "limit": 3,
        },
    ],
)
def test_other_k_schemes_modes_and_demands_are_held(tmp_path: Path, options: dict[str, Any]) -> None:
    for system, path in made(tmp_path, **options).items():
        audit = audit_run(path)
        assert (violations(audit), audit.n_held) == ([], options.get("limit", INSTANCES)), system
        if "max_turns" in options:
            demands = {record["request"].get("demand") for record in read_records(path / "steps.jsonl")}
            assert len(demands) == 3, "English, Chinese, and steps without"


# --- Said by the user --------------------------------------------------------------------------------------


def answered(run: Path, instance: str, text: str) -> None:
    """Let the whole run follow from this answer to question 1, as version 0.11 took it: its text is searched."""
    before = str(record_of(run, instance, "answer/1")["response"]["text"])
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    (line,) = [line for line in lines if line["id"] == instance]
    line["answers"][0], line["rewritten_query"] = text, Q_STAR[instance]
    write(run / "results.jsonl", lines)
    plant(run, instance, "answer/1", lambda record: record["response"].update(text=text))
    pairs = fields(record_of(run, instance, "rewrite"))["qa_pairs"].replace(f"1: {before}\n", f"1: {text}\n")
    plant(run, instance, "rewrite", lambda record: fields(record).update(qa_pairs=pairs))
    plant(run, instance, "rewrite", lambda record: record["response"].update(text=Q_STAR[instance]))
    plant(run, instance, "search/turn/1", lambda record: fields(record).update(question=Q_STAR[instance]))


@pytest.mark.parametrize("instance", [ENGLISH, CHINESE])
@pytest.mark.parametrize(
    "said",
    [
        "<|channel|>analysis<|message|>The clear query is: {q}. It does not say this.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>unknown",
        "analysisThe clear query is: {q}. It does not say this.assistantfinalunknown",
        "The clear query is: {q}. It does not say this. unknown",
        "{q}",
    ],
)
def test_answer_with_the_intent_is_a_leak(run: Path, instance: str, said: str) -> None:
    answered(run, instance, said.format(q=Q_STAR[instance]))
    audit = audit_run(run)
    (leak,) = [finding for finding in violations(audit) if finding.level == "leak"]
    assert (leak.instance, leak.step) == (instance, "answer/1")
    assert leak.problem.startswith("the answer ")
    assert WORD[instance] in leak.text
    assert (audit.held, audit.n_over_informing) == (False, 1)
    assert f"over-informing answers: 1 of {audit.n_known} (" in audit.verdict()


@pytest.mark.parametrize("mark", ["<|channel|>analysis<|message|>", "analysis", "<|channel>thought "])
def test_thoughts_of_the_rewriter_are_a_violation(run: Path, mark: str) -> None:
    """As version 0.11 passed them on: with their marks they were searched for."""
    query = record_of(run, ENGLISH, "rewrite")["response"]["text"]
    thought = f"{mark}We rewrite it.{'<channel|>' if 'thought' in mark else 'assistantfinal'}{query}"
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["id"] == ENGLISH:
            line["rewritten_query"] = thought
    write(run / "results.jsonl", lines)
    plant(run, ENGLISH, "rewrite", lambda record: record["response"].update(text=thought))
    plant(run, ENGLISH, "search/turn/1", lambda record: fields(record).update(question=thought))
    found = violations(audit_run(run))
    assert [(finding.level, finding.step) for finding in found] == [("provenance", "rewrite")]
    assert found[0].problem.startswith("q-hat has a mark of thoughts")


def test_answer_that_is_a_mark_of_thoughts_is_a_violation(run: Path) -> None:
    """The first line of Gemma's thoughts, which tells nothing of the intent."""
    answered(run, ENGLISH, "<|channel>thought")
    found = [one for one in violations(audit_run(run)) if one.step == "answer/1"]
    assert [(one.level, one.text) for one in found] == [("provenance", "<|channel>")]


# --- Planted in a request ----------------------------------------------------------------------------------

LEAK = "its request contains text that occurs only in q*"
FREE_TEXT = "its request contains free text"
NOT_OF_DATA = "blurred_query is not that of the data"
NOT_CHOSEN = "blurred_query is not the one chosen last"
NOT_THE_PAIRS = "qa_pairs is not exactly what was asked and answered"
NOT_SAID = "its conversation is not exactly what was said before"
NOT_THE_OFFER = "offered_queries is not exactly what the Clarifier offered at turn 1"
NOT_ASKED = "it was not asked exactly question {} of the Clarifier's reply"
NOT_THE_QUERY = "the agent's question is not {}"
NOT_Q_STAR = "what it saw besides what was asked is not q* alone"
MORE = "its request contains more than prompt and fields"
OTHER_ROLE = "its prompt 'cot.en' is not this role's in this run"
DIGEST, OTHER_PROMPT = with_keys(on_record="0123456789abcdef"), with_keys(prompt="cot.en")
FOUND: list[tuple[str, Planted, tuple[str, ...]]] = [
    # The whole intent, or a word of it that nobody said.
    ("k2:clarify", changed(blurred_query="{q}"), (LEAK, NOT_OF_DATA)),
    ("k2:rewrite respond:clarify/1", extended(blurred_query=" {word}"), (LEAK, NOT_OF_DATA)),
    ("k2:search/turn/1", changed(question="{q}"), (LEAK, NOT_THE_QUERY.format("the Rewriter's reply"))),
    ("orig:search/turn/1", changed(question="{q}"), (LEAK, NOT_THE_QUERY.format("q"))),
    ("select:search/turn/1", extended(question=" {word}"), (LEAK, NOT_THE_QUERY.format("the last turn's"))),
    ("k2:search/turn/2", with_keys(demand=f"Think of {' '.join(WORD.values())}"), (LEAK, FREE_TEXT)),
    ("k2:search/turn/2", with_keys(dropped=["search/tool/1.1", "search/elsewhere"]), (FREE_TEXT,)),
    (
        "respond:clarify/2 respond:reformulate/2 select:clarify/1 at-once:clarify/1",
        extended(conversation=" {word}"),
        (LEAK, NOT_SAID),
    ),
    ("select:clarify/2", extended(blurred_query=" {word}"), (LEAK, NOT_CHOSEN)),
    ("at-once:rewrite", extended(qa_pairs=" {word}"), (LEAK, NOT_THE_PAIRS)),
    # What the data and the recorded replies do not say.
    ("gold:search/turn/1", changed(question="{q} in 2033"), (NOT_THE_QUERY.format("q*"),)),
    ("respond:search/turn/1", changed(question="ferries"), (NOT_THE_QUERY.format("the last turn's"),)),
    ("k2:rewrite", extended(qa_pairs="\nQuestion 3: Which one?\nAnswer 3: the usual one"), (NOT_THE_PAIRS,)),
    (
        "respond:clarify/2 respond:answer/2 respond:reformulate/2 select:clarify/2 select:select/2",
        another_answer,
        (NOT_SAID,),
    ),
    ("k2:answer/1", extended(clarification_question=" And?"), (NOT_ASKED.format(1),)),
    ("at-once:answer/2", changed(clarification_question="And?"), (NOT_ASKED.format(2),)),
    (
        "respond:answer/1",
        changed(clarification_question="And?"),
        ("it was not asked exactly the question of turn 1",),
    ),
    ("select:select/1", changed(offered_queries="1. ferries"), (NOT_THE_OFFER,)),
    ("select:clarify/2", changed(blurred_query="ferries"), (NOT_CHOSEN,)),
    ("respond:clarify/2", changed(blurred_query="ferries"), (NOT_OF_DATA,)),
    ("respond:clarify/1", changed(k="2"), ("k is '2', but a turn of this run has 1",)),
    ("select:clarify/1", changed(k="2"), ("k is '2', but a turn of this run has 5",)),
    # Another form.
    ("k2:answer/1 respond:answer/1 select:select/1 at-once:answer/1", DIGEST, (NOT_Q_STAR,)),
    ("k2:clarify k2:rewrite", DIGEST, (MORE,)),
    ("k2:clarify respond:clarify/1 respond:reformulate/2 respond:answer/2", OTHER_PROMPT, (OTHER_ROLE,)),
]


@pytest.mark.parametrize("instance", [ENGLISH, CHINESE])
@pytest.mark.parametrize(
    ("place", "change", "problems"),
    [(place, change, problems) for places, change, problems in FOUND for place in places.split()],
)
def test_planted_text_in_a_request_is_a_finding(
    copy: Copy, place: str, instance: str, change: Planted, problems: tuple[str, ...]
) -> None:
    system, _, step = place.partition(":")
    run = copy(SYSTEMS[system])
    plant(run, instance, step, partial(change, instance))
    audit = audit_run(run)
    found = violations(audit)
    assert {finding.instance for finding in found} == {instance}
    if "And?" in str(record_of(run, instance, step)) or NOT_THE_OFFER in problems:
        # What follows from the recorded question or offer does not follow from the changed one.
        found = [finding for finding in found if finding.step == step]
    assert {(one.step, one.level, one.problem) for one in found} == {
        (step, "leak" if problem == LEAK else "provenance", problem) for problem in problems
    }
    leaked = " ".join(finding.text for finding in found if finding.level == "leak")
    assert (WORD[instance] in leaked) == (LEAK in problems)
    assert audit.verdict().startswith("closed book: NOT held: proved for 5/6 instances; ")


@pytest.mark.parametrize(("instance", "word"), [("s04", "seniors"), ("s02", "Millwharf")])
def test_leaked_word_is_named_alone(run: Path, instance: str, word: str) -> None:
    plant(run, instance, "rewrite", partial(extended(blurred_query=f" {word}"), ENGLISH))
    assert word not in fields(record_of(run, instance, "rewrite"))["qa_pairs"], (
        "the User Answerer did not say it"
    )
    assert [one.text for one in violations(audit_run(run)) if one.level == "leak"] == [word.casefold()]


def test_later_turn_may_name_steps(run: Path) -> None:
    notes = {"dropped": ["search/tool/1.2/page/3"], "chars": 1200, "again": False, "x": None}
    plant(run, ENGLISH, "search/turn/2", lambda record: record["request"].update(notes))
    assert audit_run(run).findings == []


@pytest.mark.parametrize("instance", [ENGLISH, CHINESE])
def test_answer_of_a_later_turn_is_a_leak_before_it(copy: Copy, instance: str) -> None:
    """An answer of turn 2 stands in the reformulator's conversation, and must not in turn 2's question."""
    run = copy(RESPOND)
    plant(run, instance, "answer/2", lambda record: record["response"].update(text=WORD[instance]))
    plant(run, instance, "clarify/2", partial(extended(blurred_query=" {word}"), instance))
    leaks = [(one.step, one.text) for one in violations(audit_run(run)) if one.level == "leak"]
    assert leaks == [("clarify/2", WORD[instance])]


@pytest.mark.parametrize("instance", [ENGLISH, CHINESE])
def test_changed_or_missing_prompt_is_found(run: Path, instance: str) -> None:
    path = run / "prompts" / "clarify.en.txt"
    path.write_text(f"{path.read_text()}\nFor example: {Q_STAR[instance]}\n")
    assert {(one.level, one.instance, one.step) for one in audit_run(run).findings} == {
        ("provenance", "", "prompts/clarify.en.txt"),
        ("leak", instance, "prompts"),
    }
    path.unlink()
    assert [one.level for one in audit_run(run).findings] == ["missing"]


# --- Planted in a reply, a result or the list of steps -------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "step", "added", "leaked", "unsupported"),
    [
        (CTS, "rewrite", " on a weekday in 1999", {"weekday"}, {"1999"}),
        (RESPOND, "reformulate/2", " on Mondays at Brightwater", set(), {"mondays", "brightwater"}),
    ],
)
def test_constraints_that_no_answer_elicited_are_found(
    copy: Copy, system: str, step: str, added: str, leaked: set[str], unsupported: set[str]
) -> None:
    run = copy(system)
    query = record_of(run, ENGLISH, step)["response"]["text"] + added
    plant(run, ENGLISH, step, lambda record: record["response"].update(text=query))
    plant(run, ENGLISH, "search/turn/1", lambda record: fields(record).update(question=query))
    audit = audit_run(run)
    for level, texts in (("leak", leaked), ("unsupported", unsupported)):
        assert {(one.step, one.text) for one in audit.findings if one.level == level} == {
            (step, text) for text in texts
        }
    count = "1 leak" if leaked else "0 leaks"
    assert audit.verdict().endswith(f"; {count}; unsupported constraints in 1 rewrites (16.7 %)")


TURNS: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    (CTS, lambda line: line.update(rewritten_query="another")),
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


@pytest.mark.parametrize(("system", "change"), TURNS)
def test_result_that_does_not_follow_from_replies_is_found(
    copy: Copy, system: str, change: Callable[[dict[str, Any]], Any]
) -> None:
    run = copy(system)
    lines = {line["id"]: line for line in read_records(run / "results.jsonl")}
    change(lines[ENGLISH])
    write(run / "results.jsonl", [*lines.values()])
    problem = "its result does not follow from its recorded steps"
    assert violations(audit_run(run)) == [Finding("provenance", ENGLISH, "results", problem)]


@pytest.mark.parametrize(
    ("system", "step"),
    [
        (CTS, "answer/1"),
        (RESPOND, "clarify/2"),
        (RESPOND, "answer/1"),
        (RESPOND, "reformulate/2"),
        (SELECT, "select/2"),
    ],
)
def test_missing_step_is_found(copy: Copy, system: str, step: str) -> None:
    run = copy(system)
    records = [r for r in read_records(run / "steps.jsonl") if (r["instance"], r["step"]) != (ENGLISH, step)]
    write(run / "steps.jsonl", records)
    audit = audit_run(run)
    missing = [finding for finding in violations(audit) if finding.level == "missing"]
    assert [one.problem for one in missing] == [f"it has a result, but not these steps: {step}"]
    assert audit.n_held == INSTANCES - 1


def test_missing_journal_proves_nothing(run: Path) -> None:
    (run / "steps.jsonl").unlink()
    audit = audit_run(run)
    assert (audit.n_held, audit.n_instances) == (0, INSTANCES)
    assert "the journal is missing" in audit.notes[0]


def test_superfluous_turn_is_found(copy: Copy) -> None:
    run = copy(RESPOND)
    more = {**record_of(run, ENGLISH, "clarify/2"), "step": "clarify/3", "key": "0" * 32}
    write(run / "steps.jsonl", [*read_records(run / "steps.jsonl"), more])
    assert "this run has no such turn" in {finding.problem for finding in violations(audit_run(run))}


@pytest.mark.parametrize(("step", "held"), [("judge/ernie", False), ("rewrite", False), ("clarify", True)])
def test_failure_without_earlier_steps_is_not_held(run: Path, step: str, held: bool) -> None:
    """Who failed at the judge was asked, answered and searched before; who failed at the first step, nothing."""
    lines = list(read_records(run / "results.jsonl"))
    error = {"step": step, "kind": "rejected", "message": "refused"}
    queries = {name: lines[0][name] for name in ("id", "system", "fused_query", "blurred_query")}
    write(run / "results.jsonl", [{**queries, "error": error}])
    write(run / "steps.jsonl", [r for r in read_records(run / "steps.jsonl") if "judge" in r["step"]])
    found = audit_run(run)
    assert (found.held, found.n_held, found.n_instances) == (held, int(held), 1)
    assert [(one.level, one.problem) for one in violations(found)] == (
        [] if held else [("missing", f"it failed at {step}, but no earlier step is recorded")]
    )


# --- What is damaged, done again or not finished -------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("system", "step", "old", "new"),
    [
        (CTS, None, "Which time do you mean", "Which hour do you mean"),
        (SELECT, "clarify/1", "timetable by", "times by"),
    ],
)
def test_repeated_steps_with_other_replies_are_held(
    copy: Copy, system: str, step: str | None, old: str, new: str
) -> None:
    """The Clarifier asked again: its first reply, and what followed from it, stays legal."""
    run = copy(system)
    records = list(read_records(run / "steps.jsonl"))
    first = [r for r in records if r["instance"] == ENGLISH and step in (None, r["step"])]
    other = json.loads(json.dumps(first, ensure_ascii=False).replace(old, new))
    assert other != first
    write(run / "steps.jsonl", [*records, *other])
    assert audit_run(run).held


def test_unfinished_run_is_audited_so_far(run: Path) -> None:
    write(run / "steps.jsonl", list(read_records(run / "steps.jsonl"))[:7])
    (run / "results.jsonl").write_text("")
    audit = audit_run(run)
    assert audit.held
    assert 0 < audit.n_instances <= INSTANCES


STEPS = st.sampled_from(
    ["clarify/0", "clarify/9", "clarify/" + "9" * 25, "select/1", "reformulate/7", "answer/1"]
)


@given(st.sampled_from([RESPOND, SELECT, AT_ONCE]), st.data())
def test_any_file_content_gets_a_verdict(runs: dict[str, Path], system: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        run = copied(runs[system], Path(folder))
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


# --- The manifest and the data -------------------------------------------------------------------------------


def with_manifest(run: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    manifest = orjson.loads((run / "run.json").read_bytes())
    change(manifest)
    (run / "run.json").write_bytes(orjson.dumps(manifest))
    return run


def test_moved_data_is_replaced_by_results_or_option(run: Path) -> None:
    with_manifest(run, lambda manifest: manifest["data"].update(spec="sample:gone"))
    audit = audit_run(run)
    assert audit.held
    assert "were taken from results.jsonl" in audit.notes[0]
    assert audit_run(run, data="sample").notes == ()


def test_run_that_cannot_be_audited_is_refused(copy: Copy, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "s01", "fused_query": "a", "blurred_query": "b"}\n')
    with pytest.raises(UsageError, match="sha256 differs"):
        audit_run(copy("orig"), data=str(other))
    with pytest.raises(InputError, match="not a run directory"):
        audit_run(tmp_path / "nowhere")
    haiku = with_manifest(copy(RESPOND), lambda manifest: manifest["identity"].update(scheme="haiku"))
    with pytest.raises(InputError, match="this scheme and mode cannot be audited: haiku, respond"):
        audit_run(haiku)
    judged = with_manifest(copy(CTS), lambda manifest: manifest["identity"].update(system=None, models={}))
    with pytest.raises(InputError, match="it has neither a Clarifier nor a search"):
        audit_run(judged)
