"""Grounding: how much of a nugget its cited sources say, worked out by hand in both languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.gold.check import GROUNDED_AT, Grounding, ground, grounding_json
from cts_async.protocol.gold.sources import NumberedSource
from cts_async.records import Nugget


def source(id: str, text: str, title: str = "") -> NumberedSource:
    return NumberedSource(id, f"https://a.example/{id}", title, text)


def check(text: str, *sources: str, cites: tuple[str, ...] = ("S1",)) -> Grounding:
    numbered = [source(f"S{n}", said) for n, said in enumerate(sources, 1)]
    (checked,) = ground([Nugget("N1", text, 3.0, cites)], numbered)
    return checked


NUGGET = "The museum opened in 1997 and receives 1,200 visitors daily."
# Its terms: museum, open, 1997, receiv, 1200, visitor, daili.


@pytest.mark.parametrize(
    ("said", "recall", "terms", "numbers", "grounded"),
    [
        ("Opening in 1997, the museum received 1200 visitors daily.", 7 / 7, (), (), True),
        ("The museum, open since 1997, has 1200 visitors.", 5 / 7, ("receives", "daily"), (), True),
        ("The museum opened in 1998 and receives 1200 visitors daily.", 6 / 7, (), ("1997",), False),
        ("The museum opened in 1997 and receives visitors daily.", 6 / 7, (), ("1,200",), False),
        (
            "In 1997 it had 1200 seats.",
            2 / 7,
            ("museum", "opened", "receives", "visitors", "daily"),
            (),
            False,
        ),
        ("", 0.0, ("museum", "opened", "receives", "visitors", "daily"), ("1997", "1,200"), False),
    ],
)
def test_english_by_hand(
    said: str, recall: float, terms: tuple[str, ...], numbers: tuple[str, ...], grounded: bool
) -> None:
    checked = check(NUGGET, said)
    assert checked.recall == pytest.approx(recall)
    assert (checked.missing_terms, checked.missing_numbers) == (terms, numbers)
    assert checked.grounded is grounded


@pytest.mark.parametrize(
    ("said", "recall", "terms", "numbers", "grounded"),
    [
        # 门票 and 10, then 元: the nugget's terms are 门票, 票价, 10, 元.
        ("门票价格：10元。", 1.0, (), (), True),
        ("门票10元", 3 / 4, ("票价",), (), True),
        ("票价12元", 2 / 4, ("门票",), ("10",), False),
    ],
)
def test_chinese_by_hand(
    said: str, recall: float, terms: tuple[str, ...], numbers: tuple[str, ...], grounded: bool
) -> None:
    checked = check("门票价10元", said)
    assert checked.recall == recall
    assert (checked.missing_terms, checked.missing_numbers) == (terms, numbers)
    assert checked.grounded is grounded


def test_grounded_begins_exactly_at_the_threshold() -> None:
    assert GROUNDED_AT == 0.5
    assert check("red green blue black", "red green").grounded
    assert not check("red green blue black white", "red green").grounded


def test_cited_sources_count_together_and_titles_too() -> None:
    assert check("red green blue black", "red", "green", cites=("S1", "S2")).recall == 0.5
    (checked,) = ground([Nugget("N1", "red green", 1.0, ("S1",))], [source("S1", "green", title="red")])
    assert checked.recall == 1.0


def test_a_source_not_cited_that_says_it_better_is_named() -> None:
    checked = check("red green blue black", "red", "red green blue", "red green")
    assert (checked.recall, checked.better_source, checked.better_recall) == (0.25, "S2", 0.75)


def test_a_source_that_says_as_much_as_the_cited_ones_is_no_better() -> None:
    assert check("red green", "red", "green").better_source is None


def test_a_nugget_that_cites_nobody_known_says_nothing() -> None:
    checked = check("red green", "red", cites=("S9",))
    assert (checked.recall, checked.better_source) == (0.0, "S1")


def test_a_nugget_without_any_word_is_not_grounded() -> None:
    assert check("...", "red").recall == 0.0


def test_the_record_has_the_mean_and_leaves_out_what_is_empty() -> None:
    nuggets = [Nugget("N1", "red green", 3.0, ("S1",)), Nugget("N2", "blue 7", 1.0, ("S1",))]
    checked = ground(nuggets, [source("S1", "red green blue")])
    assert grounding_json(checked) == {
        "threshold": 0.5,
        "mean": 0.75,
        "ungrounded": ["N2"],
        "nuggets": [{"id": "N1", "recall": 1.0}, {"id": "N2", "recall": 0.5, "missing_numbers": ["7"]}],
    }


words = st.text(st.sampled_from("ab 12.年门票价的"), max_size=30)


@given(words, st.lists(words, min_size=1, max_size=4), words)
def test_more_evidence_never_lowers_recall(nugget: str, texts: list[str], more: str) -> None:
    cites = tuple(f"S{n}" for n in range(1, len(texts) + 1))
    before = check(nugget, *texts, cites=cites)
    after = check(nugget, *texts, more, cites=(*cites, f"S{len(cites) + 1}"))
    assert 0.0 <= before.recall <= after.recall <= 1.0
    assert set(after.missing_terms) <= set(before.missing_terms)
    assert set(after.missing_numbers) <= set(before.missing_numbers)


@given(words.filter(lambda text: any(ch.isalnum() for ch in text)))
def test_a_statement_grounds_itself(text: str) -> None:
    assert check(text, text).recall == 1.0
