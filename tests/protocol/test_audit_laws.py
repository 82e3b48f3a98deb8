"""For any instance: an untouched run is clean, and two neighbours of q* planted in any request are found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from audited_runs import JSON, Record, write
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.datasets import sha256_of
from cts_async.engine.step import step_key
from cts_async.protocol.audit import audit_run
from cts_async.protocol.prompts import load_prompts
from cts_async.protocol.roles import qa_pairs, request_json
from cts_async.protocol.views import RewriterView
from cts_async.records import language_of

WORDS = ["ferry", "winter", "North", "the", "of", "with", "2033", "65", "Straße", "time", *"图书馆二楼的安静"]
TOKENS = st.lists(st.sampled_from(WORDS), min_size=2, max_size=8)
PROMPTS = load_prompts()
USED = [
    f"{role}.{language}" for role in ("clarify", "answer", "rewrite", "agent") for language in ("en", "zh")
]
"""The prompts of these runs; an audit splits each of them into words."""
AUDITED = ("clarify", "answer/1", "rewrite", "search/turn/1", "search/turn/2")


def text_of(tokens: Sequence[str]) -> str:
    """Words apart, ideographs together."""
    text = tokens[0]
    for left, right in pairwise(tokens):
        text += right if len(left) == len(right) == 1 else f" {right}"
    return text


@dataclass(frozen=True)
class Walk:
    """One instance's walk with k = 2, in tokens; an empty answer is `unknown`."""

    intent: list[str]
    query: list[str]
    questions: tuple[list[str], list[str]]
    answers: tuple[list[str], list[str]]

    @property
    def q_hat(self) -> str:
        return " ".join([text_of(self.query), *(text_of(answer) for answer in self.answers if answer)])

    def told(self, step: str) -> list[list[str]]:
        """What those whom `step` asks may know."""
        return (
            [self.query] if step == "clarify" else [self.query, *self.questions, *filter(None, self.answers)]
        )

    def secrets(self, step: str) -> list[tuple[str, str]]:
        """Neighbours in q* that stand nowhere in what was told; q-hat, too, has some by joining texts."""
        known = {pair for tokens in self.told(step) for pair in pairwise(map(str.casefold, tokens))}
        joined = [*self.query, *(token for answer in self.answers for token in answer)]
        if step.startswith("search"):
            known |= set(pairwise(map(str.casefold, joined)))
        return [pair for pair in pairwise(self.intent) if tuple(map(str.casefold, pair)) not in known]

    def records(self) -> list[Record]:
        questions = [f"{'Which' if i else 'When'} {text_of(q)}?" for i, q in enumerate(self.questions)]
        answers = [text_of(answer) if answer else "unknown" for answer in self.answers]
        q, q_star = text_of(self.query), text_of(self.intent)
        language = language_of(q)
        pairs = qa_pairs(RewriterView(q, tuple(zip(questions, answers, strict=True))), language)
        asked = [
            request_json(
                f"answer.{language_of(q_star)}",
                {"clear_query": q_star, "clarification_question": question},
                ("clear_query",),
            )
            for question in questions
        ]
        opening = {"question": self.q_hat, "current_date": "2031-01-01"}
        return [
            record(
                "clarify",
                request_json(f"clarify.{language}", {"blurred_query": q, "k": "2"}),
                json.dumps(questions),
            ),
            record("answer/1", asked[0], answers[0]),
            record("answer/2", asked[1], answers[1]),
            record(
                "rewrite",
                request_json(f"rewrite.{language}", {"blurred_query": q, "qa_pairs": pairs}),
                self.q_hat,
            ),
            record("search/turn/1", {"prompt": f"agent.{language}", "fields": opening}, "a call"),
            record("search/turn/2", {"after": "search/turn/1"}, "<answer>Nine.</answer>"),
        ]


def record(step: str, request: Record, reply: str) -> Record:
    return {
        "key": step_key(step),
        "ok": True,
        "instance": "q1",
        "step": step,
        "request": request,
        "response": {"text": reply},
    }


def walks(answers: st.SearchStrategy[list[str]]) -> st.SearchStrategy[Walk]:
    return st.builds(
        Walk,
        intent=TOKENS,
        query=TOKENS,
        questions=st.tuples(TOKENS, TOKENS),
        answers=st.tuples(answers, answers),
    )


LEAST_TOLD = 4
"""Words of q* in the shortest answer that can be named: fewer are an answer, however short q* is."""
BRIEF = walks(st.lists(st.sampled_from(WORDS), max_size=LEAST_TOLD - 1))
WALKS = walks(TOKENS | st.just([]))
"""Answers may tell all of q*, as no good user does."""


def audited(walk: Walk, records: list[Record]) -> Any:
    """The audit of a run with this one instance."""
    with TemporaryDirectory() as folder:
        run = Path(folder)
        queries = run / "queries.jsonl"
        row = {"id": "q1", "fused_query": text_of(walk.intent), "blurred_query": text_of(walk.query)}
        queries.write_text(json.dumps(row))
        identity = {
            "system": "fake-k2",
            "k": 2,
            "models": {"clarifier": {}},
            "current_date": "2031-01-01",
            "data": {"sha256": sha256_of(queries)},
            "prompts": {name: PROMPTS.sha256[name] for name in USED},
        }
        (run / "run.json").write_text(json.dumps({"identity": identity, "data": {"spec": str(queries)}}))
        (run / "prompts").mkdir()
        for name in USED:
            (run / "prompts" / f"{name}.txt").write_text(PROMPTS.text(name))
        write(run / "steps.jsonl", records)
        return audit_run(run)


@given(BRIEF)
def test_untouched_run_with_short_answers_is_clean(walk: Walk) -> None:
    assert audited(walk, walk.records()).findings == []


@given(WALKS)
def test_untouched_run_has_no_findings_but_answers_with_much_of_the_intent(walk: Walk) -> None:
    for finding in audited(walk, walk.records()).findings:
        role, _, turn = finding.step.partition("/")
        assert (finding.level, role) == ("leak", "answer")
        told = set(map(str.casefold, walk.answers[int(turn) - 1])) & set(map(str.casefold, walk.intent))
        assert len(told) >= LEAST_TOLD


@pytest.mark.parametrize("now", ["unknown", "未说明"])
def test_near_unknown_answer_is_clean_in_both_readings(now: str) -> None:
    walk = Walk(["渡轮", "时间"], ["渡轮"], (["出发"], ["返回"]), (["未说明"], []))
    records = walk.records()
    pairs = records[3]["request"]["fields"]
    pairs["qa_pairs"] = pairs["qa_pairs"].replace("未说明", now)
    assert audited(walk, records).findings == []


@settings(max_examples=2 * settings.default.max_examples)
@given(WALKS, st.sampled_from(AUDITED), st.data())
def test_planted_neighbours_of_the_intent_are_found(walk: Walk, step: str, data: st.DataObject) -> None:
    secrets = walk.secrets(step)
    if not secrets:
        return
    planted = " ".join(data.draw(st.sampled_from(secrets)))
    records = walk.records()
    request = next(r["request"] for r in records if r["step"] == step)
    fields = request.setdefault("fields", {"note": ""})
    name = data.draw(st.sampled_from(sorted(fields)))
    place = data.draw(st.integers(0, len(fields[name])))
    fields[name] = f"{fields[name][:place]} {planted} {fields[name][place:]}"
    audit = audited(walk, records)
    assert not audit.held
    assert ("q1", step) in {(finding.instance, finding.step) for finding in audit.findings}
    if step != "answer/1":  # who sees q* anyway is only held to the form
        leaks = [finding.text for finding in audit.findings if finding.level == "leak"]
        assert any(planted.casefold() in text for text in leaks)


@given(WALKS, st.data())
def test_any_journal_content_gets_a_verdict(walk: Walk, data: st.DataObject) -> None:
    records = walk.records()
    damaged = data.draw(st.sampled_from(records))
    within = data.draw(st.sampled_from([damaged, damaged["request"], damaged["response"]]))
    within[data.draw(st.sampled_from(sorted(within)))] = data.draw(JSON)
    assert audited(walk, records).verdict().startswith("closed book: ")
