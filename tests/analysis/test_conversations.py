"""Conversations read back from the lines of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_talks import made_talk

from cts_async.analysis.conversations import read_talk, turn_of
from cts_async.errors import InputError
from cts_async.records import Answer, ConversationTurn


def test_a_run_is_read_with_its_turns(tmp_path: Path) -> None:
    asked = {
        "offered": ["Which kind?"],
        "types": ["specify"],
        "reasoning": "broad",
        "answers": ["red"],
        "query": "red wine",
    }
    talk = read_talk(made_talk(tmp_path, scheme="at-cot", rows={"1-1": [asked]}, failed=["1-2"]))
    assert (talk.scheme, talk.mode, talk.k, talk.clarifier) == ("at-cot", "respond", 3, "gpt")
    assert (talk.n_failed, talk.n_expected, talk.name) == (1, 2, "at-cot respond")
    conversation = talk.conversations["1-1"]
    assert conversation.blurred_query == "the query of 1-1"
    assert conversation.turns == (
        ConversationTurn(
            ("Which kind?",), ("specify",), "broad", (Answer("red", unknown=False),), None, "red wine"
        ),
    )
    assert talk.of(frozenset({"1-2"})) == {}


def test_what_a_turn_has_not_is_empty() -> None:
    assert turn_of({"offered": ["a", "b"], "chosen": 1, "query": "b"}) == ConversationTurn(
        ("a", "b"), chosen=1, query="b"
    )
    assert turn_of({"offered": ["Who?"], "answers": ["unknown"]}).answers == (
        Answer("unknown", unknown=True),
    )


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("Who?", "a turn has to be an object"),
        ({"offered": "Who?"}, "offered has to be a list of texts"),
        ({"offered": ["Who?"], "types": ["vague"]}, "types have to be of semantic, generalize, specify"),
        ({"offered": ["a"], "chosen": 1}, "chosen has to be the place of an offered query, is 1"),
        ({"offered": ["a"], "answers": [3]}, "answers has to be a list of texts"),
    ],
)
def test_a_turn_that_cannot_be_understood_is_named(tmp_path: Path, turn: Any, problem: str) -> None:
    run = made_talk(tmp_path, scheme="cot", rows={"7": [turn]})
    with pytest.raises(InputError, match=rf"results.jsonl: field 'turns': 7: {problem}"):
        read_talk(run)


def test_a_run_without_turns_is_no_conversation(tmp_path: Path) -> None:
    run = made_talk(tmp_path, scheme="cot", rows={"7": []})
    (run / "results.jsonl").write_text('{"id":"7","questions":["Who?"]}\n')
    with pytest.raises(InputError, match=r"7: no conversation \(turns are missing\)"):
        read_talk(run)
    with pytest.raises(InputError, match="not a run directory"):
        read_talk(tmp_path / "nowhere")


def test_a_scheme_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the scheme 'tree' with mode 'respond' is none that there is"):
        read_talk(made_talk(tmp_path, scheme="tree", rows={}))
