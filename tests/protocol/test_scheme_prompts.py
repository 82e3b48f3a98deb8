"""The prompts of AT-CoT: few-shot, alike but for what their schemes differ in, and short for a tiny model."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import get_args

import pytest

from cts_async.llm.scheme_forms import Choice
from cts_async.protocol.conversation import form_of, prompt_of, prompts_of
from cts_async.protocol.prompts import Prompt, Size, load_prompts
from cts_async.protocol.systems import System
from cts_async.records import SCHEMES, Language, Mode, Scheme

PROMPTS = load_prompts()
TALKING = [scheme for scheme in SCHEMES if scheme != "cts"]
OFFERING: tuple[Mode, ...] = ("respond", "select")
EVERY = list(product(TALKING, OFFERING, get_args(Language), get_args(Size)))


def prompt(scheme: Scheme, mode: Mode, language: Language, size: Size) -> Prompt:
    return PROMPTS.get(prompt_of(scheme, mode), language, size)


def examples(text: str) -> list[tuple[int, str]]:
    """K and the reply of every example."""
    return [(int(k), reply) for k, reply in re.findall(r"^K = (\d+)\n(\S.*)$", text, re.MULTILINE)]


def definitions(text: str) -> list[str]:
    return re.findall(r"^(?:- )?(?:semantic|generalize|specify)(?:（.*）)?[:：].*$", text, re.MULTILINE)


@pytest.mark.parametrize(("scheme", "mode", "language", "size"), EVERY)
def test_every_example_is_a_reply_of_the_form_asked_for(
    scheme: Scheme, mode: Mode, language: Language, size: Size
) -> None:
    found = examples(prompt(scheme, mode, language, size).text)
    assert len(found) == (3 if size == "small" or mode == "respond" else 2)
    for k, reply in found:
        clarified = form_of(scheme, mode, k).parse(reply)
        assert len(clarified.offered) == k
        assert bool(clarified.reasoning) == (scheme in ("cot", "at-cot"))
        assert bool(clarified.types) == (scheme == "at-cot")
        thoughts_first = {"reasoning": 0, "ambiguity_types": 1, "questions": 2, "queries": 2}
        places = [thoughts_first[key] for key in json.loads(reply)]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("mode", "language", "size"), list(product(OFFERING, get_args(Language), get_args(Size)))
)
def test_only_the_at_schemes_define_the_types_and_in_the_same_words(
    mode: Mode, language: Language, size: Size
) -> None:
    found = {scheme: definitions(prompt(scheme, mode, language, size).text) for scheme in TALKING}
    assert [len(found[scheme]) for scheme in TALKING] == [0, 3, 0, 3]
    assert found["at-standard"] == found["at-cot"]
    assert found["at-cot"] == definitions(prompt("at-cot", "respond", language, size).text)


@pytest.mark.parametrize("language", get_args(Language))
def test_the_examples_of_at_cot_show_every_type(language: Language) -> None:
    text = prompt("at-cot", "respond", language, "full").text
    shown = {
        name for k, reply in examples(text) for name in form_of("at-cot", "respond", k).parse(reply).types
    }
    assert shown == {"semantic", "generalize", "specify"}


@pytest.mark.parametrize("mode", OFFERING)
def test_the_schemes_ask_the_same_of_the_same_examples(mode: Mode) -> None:
    offered = [
        [
            form_of(scheme, mode, k).parse(reply).offered
            for k, reply in examples(prompt(scheme, mode, "en", "full").text)
        ]
        for scheme in TALKING
    ]
    assert offered[1:] == offered[:-1]


@pytest.mark.parametrize("size", get_args(Size))
@pytest.mark.parametrize("language", get_args(Language))
def test_the_selecting_users_examples_are_choices_among_what_they_offer(
    language: Language, size: Size
) -> None:
    text = PROMPTS.get("select_query", language, size).text.split("## user")[0]
    shown = re.findall(r"<offered_queries>\n(.*?)\n</offered_queries>\n(\{[^\n]*\})", text, re.DOTALL)
    for lines, reply in shown:
        offered = tuple(line.partition(". ")[2] for line in lines.splitlines())
        assert 0 <= Choice(offered).parse(reply) < len(offered)
    assert len(shown) == (1 if size == "small" else 2)


@pytest.mark.parametrize(
    ("scheme", "mode", "names"),
    [
        ("cts", "at-once", ["clarify", "answer", "rewrite"]),
        ("at-cot", "at-once", ["at_cot", "answer", "rewrite"]),
        ("at-standard", "respond", ["at_standard", "respond", "reformulate"]),
        ("cot", "select", ["cot_queries", "select_query"]),
    ],
)
def test_a_system_uses_the_prompts_of_its_scheme_and_mode(
    scheme: Scheme, mode: Mode, names: list[str]
) -> None:
    assert prompts_of(System("clarify", "gpt", 3, scheme, mode)) == names


def test_a_reference_point_clarifies_nothing() -> None:
    assert prompts_of(System("orig")) == []
