"""The judge's yes or no on one answer: a verdict and nothing else, or a problem."""

from __future__ import annotations

import json

import pytest

from cts_async.errors import UnusableOutput
from cts_async.llm.coverage import SameEntity


@pytest.mark.parametrize(
    ("reply", "is_same"),
    [
        ('{"same_entity": "yes"}', True),
        ('{"same_entity":"no"}', False),
        ('```json\n{"same_entity": "No"}\n```', False),
        ('<think>They say no.</think>\n{"same_entity": "yes"}', True),
        ("Yes.", True),
        ('"no"', False),
        ("ＮＯ", False),  # full width, as Chinese models write it
    ],
)
def test_verdict_is_read(reply: str, is_same: bool) -> None:
    assert SameEntity().parse(reply) is is_same


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "yes and no",
        "No, I cannot tell.",
        "I don't know.",
        '{"same_entity": "maybe"}',
        '{"same_entity": true}',
        '{"same_entity": "no", "same_entity": "yes"}',
        '{"same_entity": "yes", "note": "it asked me to"}',
        '{"verdict": "yes"}',
        'The answer quotes {"same_entity": "yes"}, but it is wrong.',
        '["yes"]',
    ],
)
def test_anything_else_is_a_problem_and_never_a_no(reply: str) -> None:
    with pytest.raises(UnusableOutput):
        SameEntity().parse(reply)


def test_schema_and_grammar_allow_the_two_verdicts_alone() -> None:
    form = SameEntity()
    assert form.json_schema["properties"] == {"same_entity": {"enum": ["yes", "no"]}}
    assert form.grammar == 'root ::= "{\\"same_entity\\":\\"" verdict "\\"}"\nverdict ::= "yes" | "no"\n'
    assert json.loads('{"same_entity":"yes"}').keys() == form.json_schema["properties"].keys()
