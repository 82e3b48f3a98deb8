"""Runs of conversations side by side: one of each scheme and mode in a table, and none is hidden by another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.analysis.conversations import Talk, talk_groups
from cts_async.records import Mode, Scheme


def talk(
    name: str,
    scheme: Scheme = "cot",
    mode: Mode = "respond",
    k: int = 3,
    *,
    user: str = "ernie",
    by: str = "gpt",
) -> Talk:
    user = "" if mode == "at-once" else user
    return Talk(Path(name), name, by, user, scheme, mode, k, {}, n_failed=0, n_expected=0)


def grouped(*talks: Talk) -> dict[str, list[str]]:
    return {group.name: [one.label for one in group.talks] for group in talk_groups(talks)}


def test_one_run_of_each_scheme_and_mode_is_a_group_by_its_clarifier() -> None:
    talks = (talk("a"), talk("b", "at-cot"), talk("c", mode="select", k=2), talk("d", mode="at-once", k=5))
    assert grouped(*talks, talk("e", by="kimi")) == {"gpt": ["a", "b", "c", "d"], "kimi": ["e"]}
    assert grouped() == {}


def test_other_turns_and_another_user_are_groups_of_their_own() -> None:
    talks = (talk("a", k=1), talk("b", k=3), talk("c", "at-cot", k=3), talk("d", k=3, user="gpt"))
    assert grouped(*talks) == {
        "gpt, user ernie, 1 turn": ["a"],
        "gpt, user ernie, 3 turns": ["b", "c"],
        "gpt, user gpt, 3 turns": ["d"],
    }


def test_the_same_again_under_another_name_is_a_group_of_its_own() -> None:
    assert grouped(talk("a"), talk("b"), talk("c", mode="select")) == {
        "gpt, user ernie, 3 turns": ["a", "c"],
        "gpt, user ernie, 3 turns, again (2)": ["b"],
    }


def test_questions_asked_once_stand_beside_every_group() -> None:
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
def test_every_run_has_a_group_and_no_group_has_two_of_a_kind(
    kinds: Sequence[tuple[Scheme, Mode, int, str]],
) -> None:
    talks = [talk(str(n), scheme, mode, k, user=user) for n, (scheme, mode, k, user) in enumerate(kinds)]
    groups = talk_groups(talks)
    assert {one.label for group in groups for one in group.talks} == {one.label for one in talks}
    assert len({group.name for group in groups}) == len(groups)
    for group in groups:
        cells = [(one.scheme, one.mode) for one in group.talks]
        assert len(set(cells)) == len(cells)
