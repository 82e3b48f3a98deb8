"""Conversations are read from results and grouped into tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_talks import made_talk

from cts_async.analysis.retrieval import comparable_groups
from cts_async.errors import InputError
from cts_async.records import Answer, ConversationTurn, Mode, Scheme
from cts_async.runs.conversations import ConversationRun, read_conversation_run, turn_of


def test_run_is_read_with_its_turns(tmp_path: Path) -> None:
    asked = {
        "offered": ["Which kind?"],
        "types": ["specify"],
        "reasoning": "broad",
        "answers": ["red"],
        "query": "red wine",
    }
    talk = read_conversation_run(made_talk(tmp_path, scheme="at-cot", rows={"1-1": [asked]}, failed=["1-2"]))
    assert (talk.scheme, talk.mode, talk.k, talk.clarifier) == ("at-cot", "respond", 3, "gpt")
    answer = Answer("red", unknown=False)
    turn = ConversationTurn(("Which kind?",), ("specify",), "broad", (answer,), None, "red wine")
    assert talk.conversations == {"1-1": (turn,)}


def test_missing_parts_of_a_turn_are_empty() -> None:
    assert turn_of({"offered": ["a", "b"], "chosen": 1, "query": "b"}) == ConversationTurn(
        ("a", "b"), chosen=1, query="b"
    )
    assert turn_of({"offered": ["Who?"], "answers": ["unknown"]}).answers == (
        Answer("unknown", unknown=True),
    )


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("Who?", "turn: Input should be a valid dictionary"),
        ({"offered": "Who?"}, "offered: Input should be a valid tuple"),
        ({"offered": ["Who?"], "types": ["vague"]}, "types.0: Input should be 'semantic', 'generalize' or"),
        ({"offered": ["a"], "chosen": 1}, "chosen must be the index of an offered query, not 1"),
        ({"offered": ["a"], "answers": [3]}, "answers.0: Input should be a valid string"),
    ],
)
def test_malformed_turn_is_reported(tmp_path: Path, turn: Any, problem: str) -> None:
    run = made_talk(tmp_path, scheme="cot", rows={"7": [turn]})
    with pytest.raises(InputError, match=rf"results.jsonl: field 'turns': 7: {problem}"):
        read_conversation_run(run)


def test_run_without_turns_is_refused(tmp_path: Path) -> None:
    run = made_talk(tmp_path, scheme="cot", rows={"7": []})
    (run / "results.jsonl").write_text('{"id":"7","questions":["Who?"]}\n')
    with pytest.raises(InputError, match=r"7: no conversation: turns are missing"):
        read_conversation_run(run)
    with pytest.raises(InputError, match="not a run directory"):
        read_conversation_run(tmp_path / "nowhere")


def test_unknown_scheme_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown scheme 'tree' or mode 'respond'"):
        read_conversation_run(made_talk(tmp_path, scheme="tree", rows={}))


def talk(
    name: str,
    scheme: Scheme = "cot",
    mode: Mode = "respond",
    k: int = 3,
    *,
    user: str = "ernie",
    by: str = "gpt",
) -> ConversationRun:
    user = "" if mode == "at-once" else user
    return ConversationRun(Path(name), by, user, scheme, mode, k, {})


def grouped(*talks: ConversationRun) -> dict[str, list[str]]:
    return {name: [one.directory.name for one in group] for name, group in comparable_groups(talks)}


def test_runs_of_distinct_schemes_and_modes_form_one_group() -> None:
    talks = (talk("a"), talk("b", "at-cot"), talk("c", mode="select", k=2), talk("d", mode="at-once", k=5))
    assert grouped(*talks, talk("e", by="kimi")) == {"gpt": ["a", "b", "c", "d"], "kimi": ["e"]}
    assert grouped() == {}


def test_other_users_and_turn_counts_form_own_groups() -> None:
    talks = (talk("a", k=1), talk("b", k=3), talk("c", "at-cot", k=3), talk("d", k=3, user="gpt"))
    assert grouped(*talks) == {
        "gpt, user ernie, 1 turn": ["a"],
        "gpt, user ernie, 3 turns": ["b", "c"],
        "gpt, user gpt, 3 turns": ["d"],
    }


def test_repeated_run_forms_its_own_group() -> None:
    assert grouped(talk("a"), talk("b"), talk("c", mode="select")) == {
        "gpt, user ernie, 3 turns": ["a", "c"],
        "gpt, user ernie, 3 turns, again (2)": ["b"],
    }


def test_at_once_runs_join_every_group() -> None:
    asked = talk("q", mode="at-once", k=5)
    assert grouped(talk("a", k=2), talk("b", k=3), asked) == {
        "gpt, user ernie, 2 turns": ["a", "q"],
        "gpt, user ernie, 3 turns": ["b", "q"],
    }
    assert grouped(talk("a"), asked, talk("r", mode="at-once", k=1)) == {
        "gpt, user ernie, 3 turns": ["a"],
        "gpt, 5 questions at once": ["q"],
        "gpt, 1 question at once": ["r"],
    }


RUNS = st.tuples(
    st.sampled_from(get_args(Scheme)),
    st.sampled_from(get_args(Mode)),
    st.integers(1, 2),
    st.sampled_from(["ernie", "gpt"]),
)


@settings(deadline=None)  # a busy machine is no fault of the groups
@given(st.lists(RUNS, max_size=8))
def test_every_run_is_grouped_and_no_group_repeats_a_scheme_and_mode(
    kinds: Sequence[tuple[Scheme, Mode, int, str]],
) -> None:
    talks = [talk(str(n), scheme, mode, k, user=user) for n, (scheme, mode, k, user) in enumerate(kinds)]
    groups = comparable_groups(talks)
    assert {one.directory for _, group in groups for one in group} == {one.directory for one in talks}
    assert len({name for name, _ in groups}) == len(groups)
    for _, group in groups:
        cells = [(one.scheme, one.mode) for one in group]
        assert len(set(cells)) == len(cells)
