"""Marks of thoughts: each documented format is split, and what merely mentions a mark is not."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import UnusableOutput
from cts_async.llm.coverage import CoverageList
from cts_async.llm.json_text import split_thoughts
from cts_async.llm.parsing import OneLine, QuestionList, ShortPhrase
from cts_async.search.agent import AgentTurn
from cts_async.search.turn_format import final_answer, parse_turn
from cts_async.tagged_text import find_answer
from cts_async.thoughts import split_marks, unknown_mark

T = "The clear query names June."
HARMONY = f"<|channel|>analysis<|message|>{T}<|end|><|start|>assistant"
FORMATS = {
    "harmony": (f"{HARMONY}<|channel|>final<|message|>", ""),
    "harmony in full": (f"<|start|>assistant{HARMONY}<|channel|>final<|message|>", "<|return|>"),
    "harmony without analysis": ("<|channel|>final<|message|>", "<|return|>"),
    "harmony, two thoughts": (f"{HARMONY}{HARMONY}<|channel|>final<|message|>", "<|end|>"),
    "harmony with a form": (f"{HARMONY}<|channel|>final <|constrain|>json<|message|>", ""),
    "harmony, thought after the answer": (
        f"{HARMONY}<|channel|>final<|message|>",
        f"<|end|><|start|>{HARMONY}",
    ),
    "harmony opened by the template": (f"{T}<|end|><|start|>assistant<|channel|>final<|message|>", ""),
    "harmony, channel opened by the template": (
        f"analysis<|message|>{T}<|end|><|start|>assistant<|channel|>final<|message|>",
        "",
    ),
    "harmony, last channel opened by the template": ("final<|message|>", "<|return|>"),
    "harmony words": (f"analysis{T}assistantfinal", ""),
    "harmony words, two thoughts": (f"analysis{T}assistantcommentary{T}assistantfinal", ""),
    "harmony words opened by the template": (f"{T}assistantfinal", ""),
    "gemma": (f"<|channel>thought\n{T}<channel|>", "<turn|>"),
    "gemma with its turn": (f"<|turn>model\n<|channel>thought\n{T}\n<channel|>", ""),
    "gemma opened by the template": (f"{T}<channel|>", ""),
    "medgemma": (f"<unused94>thought\n{T}<unused95>", ""),
    "kimi": (f"◁think▷{T}◁/think▷", ""),
    "mistral": (f"[THINK]{T}[/THINK]", ""),
    "seed": (f"<seed:think>{T}</seed:think>", ""),
    "cohere": (f"<|START_THINKING|>{T}<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
    "openthinker": (
        f"<|begin_of_thought|>{T}<|end_of_thought|>\n<|begin_of_solution|>",
        "<|end_of_solution|>",
    ),
    "apertus": (f"<|inner_prefix|>{T}<|inner_suffix|>", ""),
    "longcat": (f"<longcat_think>{T}</longcat_think>", ""),
    "s1": (f"<|im_start|>think\n{T}\n<|im_start|>answer\n", "<|im_end|>"),
    "granite": (f"Here is my thought process: {T} Here is my response: ", ""),
    "reasoning": (f"<reasoning>{T}</reasoning>", ""),
    "think, then a box": (f"<think>{T}</think><|begin_of_box|>", "<|end_of_box|>"),
    "think twice": (f"<think>{T}</think>\n<think>{T}</think>", ""),
}


@pytest.mark.parametrize(("before", "after"), FORMATS.values(), ids=FORMATS)
def test_thoughts_of_every_format_are_no_part_of_an_answer(before: str, after: str) -> None:
    said = f"\n{before}\nunknown{after}"
    thoughts, answer = split_thoughts(said)
    assert answer == "unknown"
    assert T in thoughts or T not in before
    assert split_thoughts(answer) == ("", answer)
    # The forms read a custom role's text, and one that an earlier version stored, in the same way.
    assert ShortPhrase().parse(said).unknown
    assert OneLine().parse(f"{before}ferries in June{after}") == "ferries in June"
    assert QuestionList(1).parse(f'{before}["Which month?"]{after}') == ("Which month?",)
    verdict = '{"results": [{"id": "N1", "coverage": "none"}]}'
    assert CoverageList(("N1",)).parse(f"{before}{verdict}{after}") == (("N1", "none"),)


AGENT_FORMATS = {name: marks for name, marks in FORMATS.items() if not name.startswith("think")}
"""Without `<think>`, which the agent's own format has."""


@pytest.mark.parametrize(("before", "after"), AGENT_FORMATS.values(), ids=AGENT_FORMATS)
def test_agent_candidate_files_and_viewer_agree_on_thoughts(before: str, after: str) -> None:
    said = f"{before}<answer>\nAt nine.\n</answer>{after}"
    assert find_answer(said)[0] == final_answer(said)[0] == "At nine."
    _, kept = split_thoughts(said, tags=False)
    assert AgentTurn(must_answer=True).parse(kept) == kept
    assert find_answer(kept)[0] == "At nine."
    plain = f"{before}At nine.{after}"
    assert find_answer(plain)[0] == find_answer(split_thoughts(plain, tags=False)[1])[0] == "At nine."
    call = '<tool_call>{"name": "search", "arguments": {"query": ["ferry"]}}</tool_call>'
    turn = parse_turn(f"{before}{call}{after}")
    assert len(turn.calls) == 1
    if T in before:
        assert T in "".join(turn.thoughts)


@pytest.mark.parametrize(
    "text",
    [
        f"<|channel|>analysis<|message|>{T}",
        f"{HARMONY}<|channel|>commentary<|message|>{T}",
        f"<|channel|>analysis<|message|>{T}<|end|>",
        f"<|channel|>analysis<|message|>It quotes <|end|> here.{T}",
        f"analysis{T}",
        f"<|channel>thought\n{T}",
        f"thought\n{T}",
        f"[THINK]{T}",
        f"◁think▷{T}",
        f"<seed:think>{T}",
        f"<|START_THINKING|>{T}",
    ],
)
def test_thought_that_is_never_closed_leaves_no_answer(text: str) -> None:
    thoughts, answer = split_thoughts(text)
    assert (T in thoughts, answer) == (True, "")
    assert find_answer(text)[0] == ""
    with pytest.raises(UnusableOutput):
        ShortPhrase().parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "analysis of ferry prices",
        "analysis: ferries in June",
        "Here is my response: June",
        "commentary on Homer",
        "It writes <|channel|>analysis<|message|>x first.",
        "The marks are [THINK] and [/THINK] in Mistral's format.",
        '["What does <channel|> mean?"]',
        '{"quote": "a[/THINK]b"}',
        "<answer>Kimi writes ◁think▷ x ◁/think▷ y.</answer>",
        "[unknown]",
        "[Ferry](https://a.example/) and [Bus](https://b.example/)",
        "<strong>June</strong> 2026",
        "[1] ferries [2] buses",
        "1 < 2 |> 3",
        "<query>ferries</query>",
    ],
)
def test_text_that_only_mentions_marks_stays_as_it_is(text: str) -> None:
    assert split_marks(text) is None
    assert unknown_mark(text, frozenset({"answer"})) == ""


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (f"<|think|>{T}<|end|>unknown", "<|think|>"),
        (f"<|begin_of_reason|>{T}", "<|begin_of_reason|>"),
        (f"<｜Reason｜>{T}", "<｜Reason｜>"),
        (f"<reason|>{T}", "<reason|>"),
        (f"<plan>{T}</plan>unknown", "<plan>"),
        (f"[REASON]{T}[/REASON] unknown", "[REASON]"),
        (f"[Analysis] {T} [Final] unknown", "[Analysis]"),
        (f"◁reason▷{T}◁/reason▷unknown", "◁reason▷"),
        (f"<think>Hm.</think><|plan|>{T}", "<|plan|>"),
    ],
)
def test_reply_that_begins_with_an_unknown_mark_is_unusable(text: str, mark: str) -> None:
    for form in (ShortPhrase(), OneLine(), QuestionList(1)):
        with pytest.raises(UnusableOutput) as caught:
            form.parse(text)
        assert f"begins with the mark {mark}" in caught.value.problem
    with pytest.raises(UnusableOutput, match="mark"):
        AgentTurn(must_answer=False).parse(text)


def test_agent_s_words_before_a_call_need_no_known_mark() -> None:
    call = '<tool_call>{"name": "search", "arguments": {"query": ["ferry"]}}</tool_call>'
    said = f"<plan>{T}</plan>{call}"
    assert AgentTurn(must_answer=False).parse(said) == said
    with pytest.raises(UnusableOutput, match="mark"):
        AgentTurn(must_answer=False).parse(f"<|plan|>{T}{call}")


MARKS = (
    "<|channel|>",
    "analysis",
    "<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "final",
    "<|channel>",
    "<channel|>",
)
words = st.lists(
    st.sampled_from([*MARKS, "[THINK]", "[/THINK]", "<think>", "</think>", "◁/think▷", " June ", "\n"])
)


@given(words.map("".join) | st.text())
def test_any_text_is_split_into_parts_of_itself_and_its_answer_is_split_no_further(text: str) -> None:
    split = split_marks(text)
    if split is not None:
        assert 0 <= split.start <= split.end <= len(text)
        assert all(thought in text for thought in split.thoughts)
    find_answer(text)
    unknown_mark(text)
    with suppress(UnusableOutput):
        AgentTurn(must_answer=False).parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{T}</think>a{' ' * 100_000}b",
        f"<|channel|>analysis<|message|>{' ' * 100_000}b",
        f"<|channel|>final<|message|>{'<|end|> ' * 20_000}",
    ],
    ids=["space in the answer", "space in an open thought", "many ends"],
)
def test_long_hostile_text_is_split_in_linear_time(text: str) -> None:
    began = time.thread_time()

    split_thoughts(text)

    assert time.thread_time() - began < 2.0  # quadratic patterns took a minute


def test_mark_that_json_quotes_behind_words_stays() -> None:
    text = 'Here it is:\n{"questions": ["assistantfinal", "[/THINK]"]}'

    assert split_thoughts(text) == ("", text)
