"""Replies of a conversation's turns as models really write them, and what each form makes of them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import Choice, Clarification, Clarified, ambiguity_type
from cts_async.records import AMBIGUITY_TYPES

ASK = Clarification(2)
OFFER = Clarification(3, "queries")
COT = Clarification(1, reasoning=True)
AT_COT = Clarification(1, reasoning=True, types=True)
CARS = Choice(("blue cars", "red cars", "cars of 1960"))


def thought(types: object, question: str = "Which year?") -> str:
    return json.dumps({"reasoning": "It is wide.", "ambiguity_types": types, "questions": [question]})


@pytest.mark.parametrize(
    "text",
    [
        '{"questions": ["Which year?", "Which country?"]}',
        '["Which year?", "Which country?"]',
        'Sure:\n```json\n{"questions": ["1. Which year?", "2. Which country?"]}\n```',
        '{"questions": [{"question": "Which year?"}, {"question": "Which country?"}]}',
        '{"reasoning": "It is wide.", "questions": ["Which year?", "Which country?"]}',
        '{"ambiguity_types": ["specify"], "clarifying_questions": ["Which year?", "Which country?"]}',
        "{'questions': ['Which year?', 'Which country?',]}",
        '{"Questions": ["Which year?", "Which country?"], "Notes": ["none"]}',
        '[{"reasoning": "It is wide.", "questions": ["Which year?", "Which country?"]}]',
        '{"output": {"reasoning": "It is wide.", "questions": ["Which year?", "Which country?"]}}',
    ],
)
def test_questions_however_they_are_wrapped(text: str) -> None:
    assert ASK.parse(text) == Clarified(("Which year?", "Which country?"))


@pytest.mark.parametrize(
    "text", ['{"question": "Which year?"}', '{"questions": "Which year?"}', '["Which year?"]']
)
def test_one_question_needs_no_list(text: str) -> None:
    assert Clarification(1).parse(text).offered == ("Which year?",)


@pytest.mark.parametrize(
    ("form", "text", "problem"),
    [
        (ASK, '["a"]', 'expected {"questions": [exactly 2 strings]}, got 1'),
        (ASK, '["a", "a!"]', "2 strings]}, but items 1 and 2 are the same"),
        (ASK, '["a", 7]', "but item 2 is not a string"),
        (ASK, '{"questions": ["Which year?", "Which', "but the reply is cut off"),
        (ASK, '{"a": 1, "b": 2}', 'but "questions" is missing'),
        (OFFER, '["a", "b", " "]', 'expected {"queries": [exactly 3 strings]}, but item 3 is empty'),
        (
            COT,
            '{"questions": ["a"]}',
            '"reasoning": text, "questions": [exactly 1 string]}, but "reasoning" is',
        ),
        (COT, '["a"]', 'but "reasoning" is missing or empty'),
        (AT_COT, '{"reasoning": "x", "questions": ["a"]}', 'but "ambiguity_types" is missing'),
        (AT_COT, thought([]), 'but "ambiguity_types" is missing'),
        (AT_COT, thought(["Temporal"]), "has 'Temporal', which is none of semantic, generalize, specify"),
        (AT_COT, thought(["specify", ""]), "has ''"),
        (AT_COT, thought([[1]]), "which is none of"),
    ],
)
def test_problem_is_a_sentence_for_the_model(form: Clarification, text: str, problem: str) -> None:
    with pytest.raises(UnusableOutput) as caught:
        form.parse(text)
    assert problem in caught.value.problem
    assert caught.value.text == text


def test_of_queries_that_are_the_same_the_user_is_shown_the_first() -> None:
    assert OFFER.parse('["red cars", "cars", "Red Cars!"]').offered == ("red cars", "cars")


def test_reasoning_is_one_line_and_only_where_requested() -> None:
    text = json.dumps({"reasoning": " It is\n wide. ", "questions": ["Which year?"]})
    assert COT.parse(text) == Clarified(("Which year?",), reasoning="It is wide.")
    assert Clarification(1).parse(text) == Clarified(("Which year?",))


@pytest.mark.parametrize(
    ("types", "read"),
    [
        (["semantic"], ("semantic",)),
        (["Specify", "SEMANTIC", "specification"], ("specify", "semantic")),
        ("Semantic, Specify and generalize", ("semantic", "specify", "generalize")),
        (["Generalise"], ("generalize",)),
        (["语义", "具体化"], ("semantic", "specify")),
        ("语义歧义、泛化", ("semantic", "generalize")),
        (["specify: no year is given", "语义（semantic）"], ("specify", "semantic")),
        ([{"type": "Semantics", "why": "it is a name"}], ("semantic",)),
    ],
)
def test_types_are_understood_in_any_case_number_and_language(types: object, read: tuple[str, ...]) -> None:
    assert AT_COT.parse(thought(types)).types == read


@pytest.mark.parametrize("types_key", ["Ambiguity Types", "ambiguityTypes", "AMBIGUITY-TYPES"])
def test_keys_are_understood_in_any_case(types_key: str) -> None:
    text = json.dumps({"Reasoning": "It is wide.", types_key: ["specify"], "Questions": ["Which year?"]})
    assert AT_COT.parse(text) == Clarified(("Which year?",), ("specify",), "It is wide.")


def test_a_chinese_reply_may_have_chinese_keys() -> None:
    text = '{"推理": "范围太大。", "歧义类型": ["具体化"], "问题": ["哪一年？"]}'
    assert AT_COT.parse(text) == Clarified(("哪一年？",), ("specify",), "范围太大。")


def test_reasoning_in_several_texts_is_one() -> None:
    text = json.dumps({"reasoning": ["It is wide.", "I ask\nwhen."], "questions": ["Which year?"]})
    assert COT.parse(text).reasoning == "It is wide. I ask when."


def test_query_items_may_be_objects() -> None:
    items = [{"query": text, "type": "specify"} for text in ("red cars", "cars", "blue cars")]
    assert OFFER.parse(json.dumps({"queries": items})).offered == ("red cars", "cars", "blue cars")
    with pytest.raises(UnusableOutput, match="item 1 is not a string"):  # a query is no question
        Clarification(1).parse('{"questions": [{"query": "cars", "ask": "Which year?"}]}')


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Semantic ambiguity", "semantic"),
        ("Semantics", "semantic"),
        ("Generalization", "generalize"),
        ("generalizing", "generalize"),
        ("Specifying", "specify"),
        ("specialization", "specify"),
        ("ＳＰＥＣＩＦＹ", "specify"),
        ("泛化性", "generalize"),
        ("细化", "specify"),
        ("", None),
        ("unspecified", None),
        ("not semantic", None),
        ("general", None),
    ],
)
def test_a_type_by_its_names(text: str, name: str | None) -> None:
    assert ambiguity_type(text) == name


@given(st.text(max_size=60))
def test_no_text_names_a_type_that_there_is_not(text: str) -> None:
    assert ambiguity_type(text) in (*AMBIGUITY_TYPES, None)


@pytest.mark.parametrize(
    "text",
    [
        "2",
        "2.",
        "#2",
        "Query 2",
        "第2条",
        '{"choice": 2}',
        '{"choice": "2"}',
        '{"query": 2}',
        '{"Choice": 2, "Reason": "It fits."}',
        '{"number": 2, "query": "red cars"}',
        '{"理由": "合适", "选择": 2}',
        '"red cars"',
        "Red cars.",
        "2. red cars",
        '{"choice": "2. Red cars"}',
        '```json\n{"choice": 2}\n```',
        "[2]",
        "<think>1?</think>2",
    ],
)
def test_a_choice_by_number_or_in_its_own_words(text: str) -> None:
    assert CARS.parse(text) == 1


@pytest.mark.parametrize(
    "text", ["0", "-1", "4", "1 or 2", "green cars", "", '{"choice": null}', "2. blue cars", "-", "[1, 2]"]
)
def test_invalid_choice_is_unusable(text: str) -> None:
    with pytest.raises(UnusableOutput, match="expected the number of a query from 1 to 3"):
        CARS.parse(text)


def test_a_choice_whose_words_are_a_number_is_that_offer() -> None:
    assert Choice(("2", "1")).parse("1") == 1


@pytest.mark.parametrize("offer", ["java [island]", "regex [a-z", "set {1, 2"])
def test_a_choice_in_words_that_have_brackets(offer: str) -> None:
    assert Choice(("tea", offer)).parse(offer) == 1


def test_nothing_offered_is_no_choice() -> None:
    with pytest.raises(ValueError, match="nothing is offered"):
        Choice(())


def test_a_schema_has_its_parts_in_the_papers_order() -> None:
    schema = AT_COT.json_schema
    assert list(schema["properties"]) == schema["required"] == ["reasoning", "ambiguity_types", "questions"]
    assert schema["properties"]["ambiguity_types"]["items"]["enum"] == list(AMBIGUITY_TYPES)
    assert list(OFFER.json_schema["properties"]) == ["queries"]
    assert CARS.json_schema["properties"]["choice"]["enum"] == [1, 2, 3]


def as_pattern(grammar: str) -> str:
    """The regular expression that a grammar without recursion amounts to."""
    rules = dict(re.findall(r"^(\w+) ::= (.*)$", grammar, re.MULTILINE))
    token = re.compile(
        r'("(?:[^"\\]|\\.)*")|(\[(?:[^\]\\]|\\.)*\](?:\{[\d,]+\})?)|(\w+)|(\{[\d,]+\}|[()|])|\s+'
    )

    def expand(rule: str) -> str:
        parts = []
        for found in token.finditer(rule):
            quoted, chars, name, mark = found.groups()
            if quoted:
                parts.append(re.escape(re.sub(r"\\(.)", r"\1", quoted[1:-1])))
            elif chars:
                parts.append(chars)
            elif name:
                parts.append(f"(?:{expand(rules[name])})")
            elif mark:
                parts.append("(?:" if mark == "(" else mark)
        return "".join(parts)

    return expand(rules["root"])


@pytest.mark.parametrize(
    ("form", "reply"),
    [
        (ASK, '{"questions": ["Which year do you mean?", "Which country is it?"]}'),
        (OFFER, '{"queries": ["red cars", "cars of 1960", "cheap cars"]}'),
        (Clarification(1), '{"questions": ["您想了解哪个国家？"]}'),
        (
            COT,
            '{"reasoning": "Nothing says which year it is about.", "questions": ["Which year do you mean?"]}',
        ),
        (
            AT_COT,
            '{"reasoning": "Nothing says which year it is about.", "ambiguity_types": ["semantic", "specify"], '
            '"questions": ["Which year do you mean?"]}',
        ),
        (CARS, '{"choice": 3}'),
    ],
)
def test_a_grammar_allows_good_replies_and_no_endless_ones(form: Clarification | Choice, reply: str) -> None:
    pattern = as_pattern(form.grammar)
    assert re.fullmatch(pattern, reply)
    form.parse(reply)
    assert not re.search(r"[*+]", re.sub(r"\\.", "", form.grammar)), "every repetition is bounded"
    assert not re.fullmatch(pattern, reply.replace("{", "{ ", 1))
    assert not re.fullmatch(pattern, reply[:-2] + "x" * 400 + reply[-2:])


@pytest.mark.parametrize("types", [["semantic"], ["generalize", "specify"], list(AMBIGUITY_TYPES)])
def test_the_grammar_knows_every_set_of_types(types: list[str]) -> None:
    rule = re.search(r"^types ::= (.*)$", AT_COT.grammar, re.MULTILINE)
    assert rule is not None
    assert json.dumps(types).replace('"', '\\"') in rule[1]
