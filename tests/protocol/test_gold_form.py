"""The form of a golden reference: a reply is read, or refused with all that is wrong; a grammar holds a tiny model."""

from __future__ import annotations

import json
import re

import pytest

from cts_async.errors import UnusableOutput
from cts_async.protocol.gold.check import MOST_NUGGETS, MOST_QUOTES, GoldForm
from cts_async.protocol.gold.sources import NumberedSource

FERRY = NumberedSource(
    "S1", "https://a.example/ferry", "Ferry", "The ferry leaves at nine. The crossing takes an hour. Yes."
)
FARES = NumberedSource("S4", "https://a.example/fares", "", '船票单程9元。The "blue" fare\\price is lower.')
FORM = GoldForm((FERRY, FARES))
NUGGET = {"id": "N1", "text": "The ferry leaves at nine.", "weight": 3, "source_ids": ["S1"]}
REPLY = json.dumps({"query_intent": "Ferry times", "nuggets": [NUGGET]})


@pytest.mark.parametrize(
    "text",
    [
        REPLY,
        f"Here it is:\n```json\n{REPLY}\n```",
        f"<think>S1 says it</think>{REPLY}",
        REPLY.replace('"weight": 3', '"weight": "3",'),
    ],
)
def test_a_reply_is_read_in_every_usual_wrapping(text: str) -> None:
    gold = FORM.parse(text)
    assert [nugget.text for nugget in gold.nuggets] == ["The ferry leaves at nine."]
    assert gold.reference_urls == ("https://a.example/ferry",)


def test_all_that_is_wrong_is_told_in_one_sentence() -> None:
    bad = REPLY.replace('"S1"', '"S2"').replace('"weight": 3', '"weight": 7').replace("Ferry times", "")
    with pytest.raises(UnusableOutput) as caught:
        FORM.parse(bad)
    assert caught.value.problem == (
        "query_intent is empty; nuggets[0] (N1): weight must be 1, 2 or 3, is 7; "
        "nuggets[0] (N1): no source is called S2 (the sources are S1, S4)"
    )
    assert caught.value.text == bad


@pytest.mark.parametrize("text", ["no JSON here", REPLY[: REPLY.index("at nine")]])
def test_no_json_or_half_of_it_is_unusable(text: str) -> None:
    with pytest.raises(UnusableOutput):
        FORM.parse(text)


def test_the_schema_knows_the_sources_and_the_weights() -> None:
    nugget = FORM.json_schema["properties"]["nuggets"]["items"]["properties"]
    assert nugget["weight"]["enum"] == [1, 2, 3]
    assert nugget["source_ids"]["items"]["enum"] == ["S1", "S4"]


def choices(grammar: str, rule: str) -> list[str]:
    """The alternatives of a rule, each as the nugget that it writes, with weight 2."""
    (body,) = re.findall(rf"^{rule} ::= (.*)$", grammar, re.MULTILINE)
    return [_written(part) for part in body.split(" | ")]


def _written(expression: str) -> str:
    literals = re.findall(r'"((?:[^"\\]|\\.)*)"|(weight)', expression)
    return "".join("2" if word else re.sub(r"\\(.)", r"\1", text) for text, word in literals)


def test_the_grammar_lets_a_tiny_model_choose_among_the_sources_sentences() -> None:
    grammar = FORM.grammar
    assert grammar is not None
    nuggets = [
        json.loads('{"text":' + text)
        for rule in ("said1", "said2", "said3")
        for text in choices(grammar, rule)
    ]
    # "Yes." says too little. The sources take turns, and each third sentence goes to the same nugget.
    assert [(nugget["text"], *nugget["source_ids"], nugget["weight"]) for nugget in nuggets] == [
        ("The ferry leaves at nine.", "S1", 2),
        ('The "blue" fare\\price is lower.', "S4", 2),
        ("船票单程9元。", "S4", 2),
        ("The crossing takes an hour.", "S1", 2),
    ]


def test_no_sentence_stands_in_two_rules_and_not_too_many_in_all() -> None:
    many = NumberedSource("S1", "", "", " ".join(f"Boat number {n} leaves harbour today." for n in range(40)))
    twin = NumberedSource("S2", "", "", "Boat number 1 leaves harbour: today!")
    grammar = GoldForm((many, twin)).grammar
    assert grammar is not None
    rules = [f"said{n}" for n in range(1, MOST_NUGGETS + 1)]
    texts = [json.loads('{"text":' + text)["text"] for rule in rules for text in choices(grammar, rule)]
    assert len(texts) == len(set(texts)) == MOST_QUOTES
    assert sum("number 1 " in text for text in texts) == 1


def test_what_the_grammar_lets_through_is_good_gold() -> None:
    grammar = FORM.grammar
    assert grammar is not None
    (root,) = re.findall(r"^root ::= (.*)$", grammar, re.MULTILINE)
    for n in (1, 2, 3):
        root = root.replace(f" said{n} ", " " + json.dumps(choices(grammar, f"said{n}")[0]) + " ")
    text = _written(re.sub(r"(?<= )text(?= )", '"\\\\"Some words\\\\""', f" {root} "))
    gold = FORM.parse(text)
    assert len(gold.nuggets) == 3
    assert gold.query_intent == "Some words"


def test_every_rule_that_the_grammar_uses_is_there() -> None:
    grammar = FORM.grammar
    assert grammar is not None
    rules = dict(line.split(" ::= ", 1) for line in grammar.splitlines())
    bodies = [
        re.sub(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[\d,]+\}', " ", body) for body in rules.values()
    ]
    assert {word for body in bodies for word in re.findall(r"[^\s|]+", body)} == rules.keys() - {"root"}


def test_without_a_sentence_there_is_no_grammar() -> None:
    assert GoldForm((NumberedSource("S1", "", "", "Yes."),)).grammar is None
