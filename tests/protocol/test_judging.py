"""Which questions repeat, how many calls that saves, and what files of candidates are called."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UsageError
from cts_async.protocol.answers import Answers, Judging, NoAnswer, Repeats, Wanted
from cts_async.protocol.rejudge import names_of
from cts_async.records import Instance, Nugget


def judging(answer: str, query: str = "q", n_nuggets: int = 1, id: str = "") -> Judging:
    nuggets = tuple(Nugget(f"N{n}", f"text {n}", 1) for n in range(n_nuggets))
    return Judging(Instance(id, query, "", nuggets), answer, None if answer else NoAnswer("empty"))


def nothing(wanted: Wanted) -> Iterator[Judging]:
    return iter(())


def system(*judgings: Judging) -> Answers:
    return Answers(
        nothing,
        array("q", range(len(judgings))),
        array("q", [one.digest for one in judgings]),
        array("q"),
    )


A, B, C, NONE = judging("a"), judging("b"), judging("c"), judging("")


def test_a_question_is_query_nuggets_and_answer_together() -> None:
    same = judging("a", id="another id")
    others = [judging("a", "r"), judging("a", n_nuggets=2), judging("b")]
    assert same.digest == A.digest
    assert A.digest not in [other.digest for other in others]
    assert (NONE.digest, A.digest != 0) == (0, True)


def test_repeats_by_hand() -> None:
    """Of a b a / b b c, and two failures, b three times and a twice: 6 asked, 3 of them again."""
    repeats = Repeats([system(A, B, NONE, A), system(B, B, C, NONE)])
    assert (repeats.n_asked, repeats.n_repeated) == (6, 3)
    assert [one in repeats for one in (A, B, C, NONE)] == [True, True, False, False]
    assert Repeats([system(NONE)]).n_asked == 0


@given(st.lists(st.lists(st.sampled_from("abcdef "), max_size=8), max_size=4))
def test_repeats_are_what_a_count_finds(answers: list[list[str]]) -> None:
    asked = [answer for own in answers for answer in own if answer.strip()]
    systems = [system(), *(system(*(judging(answer.strip()) for answer in own)) for own in answers)]
    repeats = Repeats(systems)
    assert (repeats.n_asked, repeats.n_repeated) == (len(asked), len(asked) - len(set(asked)))
    for answer in set(asked):
        assert (judging(answer) in repeats) == (asked.count(answer) > 1)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["r/one.jsonl"], ["one"]),
        (["r/one.jsonl", "r/two.jsonl"], ["one", "two"]),
        (["a/x.jsonl", "b/x.jsonl", "b/y.jsonl"], ["a-x", "b-x", "y"]),
        (["a/c/x.jsonl", "b/c/x.jsonl"], ["a-c-x", "b-c-x"]),
        (["runs/gpt-k1/results.jsonl", "runs/orig/results.jsonl"], ["gpt-k1", "orig"]),
        (["out/per_item.jsonl"], ["out"]),
        (["a/prompts.jsonl", "judgments.csv"], ["a-prompts", "w-judgments"]),
    ],
)
def test_names_are_as_short_as_they_can_be(files: list[str], names: list[str]) -> None:
    assert names_of([Path("/w", file) for file in files]) == names


PARTS = st.lists(st.sampled_from(["a", "b", "x", "prompts", "results", "a-x"]), min_size=1, max_size=3)


@given(st.lists(PARTS.map(lambda parts: Path("/", *parts[:-1], f"{parts[-1]}.jsonl")), unique=True))
def test_names_are_distinct_and_can_be_directories_or_the_file_is_refused(files: list[Path]) -> None:
    try:
        names = [name.casefold() for name in names_of(files)]
    except UsageError:
        return
    assert len(set(names)) == len(files)
    assert not {"prompts", "judgments", ""} & set(names)
    assert not any("/" in name for name in names)


@pytest.mark.parametrize(
    "files", [["x.jsonl", "X.jsonl"], ["/prompts.jsonl"], ["a/x.jsonl", "a-x.jsonl", "c/a/x.jsonl"]]
)
def test_file_after_which_no_directory_can_be_named_is_refused(files: list[str]) -> None:
    with pytest.raises(UsageError, match="no directory can be named after"):
        names_of([Path("/", file) for file in files])
