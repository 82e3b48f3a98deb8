"""The prompts of AT-CoT: few-shot, and alike except for what their schemes differ in."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import get_args

import pytest

from cts_async.llm.scheme_forms import Choice
from cts_async.protocol.conversation import form_of, prompt_of, prompts_of
from cts_async.protocol.prompts import Prompt, load_prompts
from cts_async.protocol.systems import System
from cts_async.records import SCHEMES, Language, Mode, Scheme

PROMPTS = load_prompts()
TALKING = [scheme for scheme in SCHEMES if scheme != "cts"]
OFFERING: tuple[Mode, ...] = ("respond", "select")
EVERY = list(product(TALKING, OFFERING, get_args(Language)))


def prompt(scheme: Scheme, mode: Mode, language: Language) -> Prompt:
    return PROMPTS.get(prompt_of(scheme, mode), language)


def examples(text: str) -> list[tuple[int, str]]:
    """K and the reply of every example."""
    return [(int(k), reply) for k, reply in re.findall(r"^K = (\d+)\n(\S.*)$", text, re.MULTILINE)]


def definitions(text: str) -> list[str]:
    return re.findall(r"^(?:- )?(?:semantic|generalize|specify)(?:（.*）)?[:：].*$", text, re.MULTILINE)


@pytest.mark.parametrize(("scheme", "mode", "language"), EVERY)
def test_every_example_is_a_valid_reply(scheme: Scheme, mode: Mode, language: Language) -> None:
    found = examples(prompt(scheme, mode, language).text)
    assert len(found) == (3 if mode == "respond" else 2)
    for k, reply in found:
        clarified = form_of(scheme, mode, k).parse(reply)
        assert len(clarified.offered) == k
        assert bool(clarified.reasoning) == (scheme in ("cot", "at-cot"))
        assert bool(clarified.types) == (scheme == "at-cot")
        thoughts_first = {"reasoning": 0, "ambiguity_types": 1, "questions": 2, "queries": 2}
        places = [thoughts_first[key] for key in json.loads(reply)]
        assert places == sorted(places)


@pytest.mark.parametrize(("mode", "language"), list(product(OFFERING, get_args(Language))))
def test_only_at_schemes_define_ambiguity_types_in_the_same_words(mode: Mode, language: Language) -> None:
    found = {scheme: definitions(prompt(scheme, mode, language).text) for scheme in TALKING}
    assert [len(found[scheme]) for scheme in TALKING] == [0, 3, 0, 3]
    assert found["at-standard"] == found["at-cot"]
    assert found["at-cot"] == definitions(prompt("at-cot", "respond", language).text)


@pytest.mark.parametrize("language", get_args(Language))
def test_at_cot_examples_show_every_ambiguity_type(language: Language) -> None:
    text = prompt("at-cot", "respond", language).text
    shown = {
        name for k, reply in examples(text) for name in form_of("at-cot", "respond", k).parse(reply).types
    }
    assert shown == {"semantic", "generalize", "specify"}


@pytest.mark.parametrize("mode", OFFERING)
def test_schemes_have_the_same_examples(mode: Mode) -> None:
    offered = [
        [
            form_of(scheme, mode, k).parse(reply).offered
            for k, reply in examples(prompt(scheme, mode, "en").text)
        ]
        for scheme in TALKING
    ]
    assert offered[1:] == offered[:-1]


@pytest.mark.parametrize("language", get_args(Language))
def test_selector_examples_choose_among_the_offered_queries(
    language: Language,
) -> None:
    text = PROMPTS.get("select_query", language).text.split("## user")[0]
    shown = re.findall(r"<offered_queries>\n(.*?)\n</offered_queries>\n(\{[^\n]*\})", text, re.DOTALL)
    for lines, reply in shown:
        offered = tuple(line.partition(". ")[2] for line in lines.splitlines())
        assert 0 <= Choice(offered).parse(reply) < len(offered)
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("scheme", "mode", "names"),
    [
        ("cts", "at-once", ["clarify", "answer", "rewrite"]),
        ("at-cot", "at-once", ["at_cot", "answer", "rewrite"]),
        ("at-standard", "respond", ["at_standard", "respond", "reformulate"]),
        ("cot", "select", ["cot_queries", "select_query"]),
    ],
)
def test_system_uses_the_prompts_of_its_scheme_and_mode(scheme: Scheme, mode: Mode, names: list[str]) -> None:
    assert prompts_of(System("clarify", "gpt", 3, scheme, mode)) == names


def test_reference_point_has_no_clarifying_prompts() -> None:
    assert prompts_of(System("orig")) == []
