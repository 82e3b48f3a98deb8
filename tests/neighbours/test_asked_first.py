"""Which questions are compared with people's, and which retrieval beside them."""

from __future__ import annotations

from pathlib import Path

from made_talks import made_talk

from cts_async.analysis.conversations import Talk, read_talk
from cts_async.analysis.turn_retrieval import retrieve_turns
from cts_async.neighbours.at_cot.generation import Generated, asked_first, retrieved_first, source_of
from cts_async.search.rankers import Ranked

BLURRED = {"1-1": "jaguar", "1-2": "jaguar", "2-1": "ferry"}


def talk(folder: Path, scheme: str, mode: str, asked: dict[str, list[str]]) -> Talk:
    rows = {
        id: [
            {"offered": [question], "types": ["specify"], "query": f"{BLURRED[id]} {n}"}
            for n, question in enumerate(questions)
        ]
        for id, questions in asked.items()
    }
    return read_talk(made_talk(folder, scheme=scheme, mode=mode, rows=rows, queries=BLURRED))


def test_the_first_intent_that_was_talked_about_speaks_for_its_query(tmp_path: Path) -> None:
    asked = {"2-1": ["When?"], "1-2": ["Which?", "Why?"]}
    cot = talk(tmp_path, "cot", "respond", asked)
    assert asked_first([cot], BLURRED) == {
        "cot": {"jaguar": Generated(("Which?",), ("specify",)), "ferry": Generated(("When?",), ("specify",))}
    }
    assert asked_first([cot], {"1-2": "jaguar"}) == {"cot": {"jaguar": Generated(("Which?",), ("specify",))}}


def test_questions_asked_at_once_go_before_first_turns(tmp_path: Path) -> None:
    respond = talk(tmp_path, "cot", "respond", {"1-1": ["Which?"]})
    at_once = talk(tmp_path, "standard", "at-once", {"1-1": ["Who?"]})
    select = talk(tmp_path, "at-cot", "select", {"1-1": ["jaguar cat"]})
    assert source_of([respond, at_once, select]) == "at-once"
    assert asked_first([respond, at_once, select], BLURRED) == {
        "standard": {"jaguar": Generated(("Who?",), ("specify",))}
    }
    assert source_of([respond, select]) == "respond"


def test_offered_queries_are_no_questions(tmp_path: Path) -> None:
    select = talk(tmp_path, "at-cot", "select", {"1-1": ["jaguar cat"]})
    assert source_of([select]) is None
    assert asked_first([select], BLURRED) == {}


def test_retrieval_is_that_of_every_intent_after_the_first_response(tmp_path: Path) -> None:
    talks = [
        talk(tmp_path, "cot", "respond", {"1-1": ["a", "b"], "1-2": ["a", "b"]}),
        talk(tmp_path, "cot", "select", {"1-1": ["a", "b"]}),
    ]
    found_at = {"jaguar": [], "ferry": [], "jaguar 0": [Ranked("x", 1.0)], "jaguar 1": []}
    qrels = {"1-1": {"x": 1}, "1-2": {"y": 1}}
    found = retrieve_turns(talks, BLURRED, found_at, qrels, ["MRR@10"])
    assert retrieved_first(found, "MRR@10", BLURRED) == {"cot": {"jaguar": [1.0, 0.0]}}
