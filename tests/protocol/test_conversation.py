"""Conversations in each mode: who is told what, which steps are made, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from fake_roles import role_of, say

from cts_async.engine.events import Usage
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.runner import Context, Job, Runner
from cts_async.errors import StepError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import Model
from cts_async.protocol.conversation import (
    ModelAnswerer,
    ModelTurnClarifier,
    Participants,
    SupportModel,
    converse,
    form_of,
    prompt_of,
    prompts_of,
)
from cts_async.protocol.prompts import Prompt, load_prompts
from cts_async.protocol.roles import ModelRewriter, Role
from cts_async.protocol.systems import System
from cts_async.records import SCHEMES, Answer, ConversationTurn, Instance, Language, Mode, Scheme

SPEC = ModelSpec("m", "openai", "http://127.0.0.1:9/v1", "m-1", None, "m", 8)
FERRY = Instance("i1", "the price of the night ferry in winter", "ferry")


class Provider:
    """Speaks as `fake_roles` do, after `bad` replies to each request of the Clarifier."""

    def __init__(self, unknown_share: float = 0.0, bad: tuple[str, ...] = ()) -> None:
        self.unknown_share, self.bad = unknown_share, list(bad)
        self.asked: list[tuple[str, str]] = []
        """Role and user message of every request."""

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        user = str(request.messages[1]["content"])
        role = role_of(user)
        self.asked.append((role, user))
        text = self.bad.pop(0) if self.bad and role == "clarify_turn" else None
        text = say(role, request.messages, self.unknown_share) if text is None else text  # type: ignore[arg-type]
        return Reply(text, "m-1", "stop", Usage(1, 1))

    @property
    def roles(self) -> list[str]:
        return [role for role, _ in self.asked]


def talk_with(
    path: Path,
    system: System,
    provider: Provider | None = None,
    instance: Instance = FERRY,
    *,
    every_turn: bool = False,
) -> Any:
    """The turns of one conversation, or the error that ended it."""
    ended: list[Any] = []
    role = Role(Model(SPEC, provider or Provider(), None), load_prompts())  # type: ignore[arg-type]
    talk = Participants(ModelAnswerer(role), ModelRewriter(role), SupportModel(role), SupportModel(role))

    async def walk(ctx: Context) -> Any:
        return await converse(
            ctx, talk, ModelTurnClarifier(role, system), instance, system, every_turn=every_turn
        )

    async def finish(result: Any) -> None:
        ended.append(result)

    async def main() -> None:
        journal = Journal(path / "steps.jsonl")
        await Runner().run([Job("run", instance.id, journal, walk, finish)])
        journal.close()

    asyncio.run(main())
    return ended[0]


def steps(path: Path) -> list[str]:
    return [record["step"] for record in read_records(path / "steps.jsonl")]


def system(scheme: Any, mode: Any, k: int) -> System:
    return System("clarify", "m", k, scheme, mode)


def test_respond_asks_one_question_a_turn_with_the_conversation_so_far(tmp_path: Path) -> None:
    provider = Provider()
    turns = talk_with(tmp_path, system("standard", "respond", 2), provider)
    assert turns == (
        ConversationTurn(("Which time do you mean by ferry?",), answers=(Answer("winter", unknown=False),)),
        ConversationTurn(
            ("Which place do you mean by ferry?",),
            answers=(Answer("winter", unknown=False),),
            query="more about ferry winter winter",
        ),
    )
    assert steps(tmp_path) == ["clarify/1", "answer/1", "clarify/2", "answer/2", "reformulate/2"]
    first_turn = "Query: ferry\nQuestion 1: Which time do you mean by ferry?\nAnswer 1: winter"
    second_question, second_answer = provider.asked[2][1], provider.asked[3][1]
    assert f"<conversation>\n{first_turn}\n</conversation>" in second_question
    assert f"<conversation>\n{first_turn}\n</conversation>" in second_answer
    assert (
        f"{first_turn}\nQuestion 2: Which place do you mean by ferry?\nAnswer 2: winter\n"
        in provider.asked[4][1]
    )


def test_select_goes_on_from_the_query_that_was_chosen(tmp_path: Path) -> None:
    provider = Provider()
    priced = Instance("i1", "ferry by price and by place", "ferry")
    turns = talk_with(tmp_path, system("at-cot", "select", 2), provider, priced)
    first, second = turns
    assert first.offered == tuple(
        f"ferry by {aspect}" for aspect in ("time", "place", "kind", "price", "maker")
    )
    assert first.query == first.offered[first.chosen]
    assert first.query in ("ferry by place", "ferry by price")
    assert second.offered[0] == f"{first.query} by place"
    assert second.query == second.offered[second.chosen]
    assert steps(tmp_path) == ["clarify/1", "select/1", "clarify/2", "select/2"]
    asked = provider.asked[2][1]
    assert f"<blurred_query>\n{first.query}\n</blurred_query>\nK = 5" in asked
    assert f"Query: ferry\nOffered 1: {' | '.join(first.offered)}\nChosen 1: {first.query}\n" in asked
    assert "1. ferry by time\n2. ferry by place\n" in provider.asked[1][1]


def test_at_once_is_ctss_closed_book_with_another_prompt(tmp_path: Path) -> None:
    provider = Provider(unknown_share=1.0)
    (turn,) = talk_with(tmp_path, system("at-cot", "at-once", 2), provider)
    assert turn == ConversationTurn(
        ("Which time do you mean by ferry?", "Which place do you mean by ferry?"),
        ("specify",),
        "Nothing says which time is meant.",
        (Answer("unknown", unknown=True),) * 2,
        query="more about ferry",
    )
    assert sorted(steps(tmp_path)) == ["answer/1", "answer/2", "clarify/1", "rewrite"]
    assert provider.roles == ["clarify_turn", "answer", "answer", "rewrite"]
    for role, asked in provider.asked:
        assert (role == "answer") == (FERRY.intent in asked)
        if role == "answer":
            assert asked.count("Which") == 1


@pytest.mark.parametrize("mode", ["at-once", "respond", "select"])
@pytest.mark.parametrize("scheme", ["standard", "at-standard", "cot", "at-cot"])
def test_scheme_decides_on_reasoning_and_types_and_only_the_user_sees_the_intent(
    tmp_path: Path, scheme: str, mode: str
) -> None:
    provider = Provider()
    turns = talk_with(tmp_path, system(scheme, mode, 2), provider)
    for role, asked in provider.asked:
        assert (FERRY.intent in asked) == (role in ("answer", "respond", "select_query"))
    assert all(bool(turn.reasoning) == (scheme in ("cot", "at-cot")) for turn in turns)
    assert turns[0].types == (("specify",) if scheme == "at-cot" else ())
    assert turns[-1].query
    records = {record["step"]: record for record in read_records(tmp_path / "steps.jsonl")}
    name = scheme.replace("-", "_") + ("_queries" if mode == "select" else "")
    assert records["clarify/1"]["request"]["prompt"] == f"{name}.en"


def test_unusable_turn_is_retried_ten_times_and_then_fails(tmp_path: Path) -> None:
    for bad in (10, 11):
        (tmp_path / str(bad)).mkdir()
        provider = Provider(bad=("no idea",) * bad)
        ended = talk_with(tmp_path / str(bad), system("at-cot", "respond", 1), provider)
        records = read_records(tmp_path / str(bad) / "steps.jsonl")
        assert [record["attempts"] for record in records if record["step"] == "clarify/1"] == [11]
        if bad == 10:
            assert ended[0].types == ("specify",)
        else:
            assert isinstance(ended, StepError)
            assert ended.step == "clarify/1"


# --- The prompts of AT-CoT: few-shot, and alike except for what their schemes differ in.


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
