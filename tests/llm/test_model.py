"""A model in use: replies, prices, estimates of tokens, and which model served them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_calls import FreeText

from cts_async.engine.events import Events, Notice, Usage
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.prices import Prices
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import RetryPolicy
from cts_async.errors import StepError, UnusableOutput
from cts_async.llm.apis import ChatRequest, Message, Reply
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.coverage import CoverageList
from cts_async.llm.model import (
    Client,
    Model,
    ModelCall,
    ServedModels,
    TokenEstimate,
    input_tokens,
    is_other_model,
    model_prices,
    n_bytes,
)
from cts_async.llm.params import output_limit
from cts_async.llm.parsing import Choice, Expect

SPEC = ModelSpec("mine", "openai", "http://a.example/v1", "m-1", None, "mine", 8)
TEXT = FreeText()
GOOD = Reply("hello", "m-1", "stop", Usage(7, 2))


class Says:
    """A client that has its replies ready."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[ChatRequest] = []

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        self.asked.append(request)
        return self.replies.pop(0)


class Aloud(FreeText):
    """A form that thoughts belong to."""

    keeps_thoughts: ClassVar[bool] = True


def ask(
    directory: Path,
    client: Says,
    spec: ModelSpec = SPEC,
    served: ServedModels | None = None,
    expect: Expect[str] = TEXT,
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    """The value or the error that came of it, and the step's record."""
    ended: list[Any] = []

    async def walk(ctx: Context) -> str:
        talk = [{"role": "user", "content": "hi"}]
        return await model.ask(ctx, ModelCall("greet", talk, expect, {"q": "hi"}, **options))

    async def finish(result: Any) -> None:
        ended.append(result)

    async def main() -> None:
        journal = Journal(directory / "steps.jsonl")
        await Runner([lane]).run([Job("run", "s01", journal, walk, finish)])
        journal.close()

    directory.mkdir(exist_ok=True)
    lane = Lane("mine", LaneLimits())
    model = Model(spec, cast(Client, client), lane, served)
    asyncio.run(main())
    return ended[0], list(read_records(directory / "steps.jsonl"))[-1]


@pytest.mark.parametrize(
    ("text", "reasoning", "kept"),
    [
        ("hello", "", {}),
        ("hello", "They greet.", {"reasoning": "They greet."}),
        ("<think>\nThey greet.\n</think>\n\nhello", "", {"reasoning": "They greet."}),
        ("<think>So do I.</think>hello", "They greet.", {"reasoning": "They greet.\n\nSo do I."}),
    ],
)
def test_reasoning_is_recorded_with_the_answer(
    tmp_path: Path, text: str, reasoning: str, kept: dict[str, str]
) -> None:
    value, record = ask(tmp_path, Says(replace(GOOD, text=text, reasoning=reasoning)))
    assert (value, record["response"]) == ("hello", {"text": "hello", **kept})


def test_tags_that_belong_to_the_form_stay_in_the_text(tmp_path: Path) -> None:
    text = "<think>They greet.</think><answer>hello</answer>"
    value, record = ask(tmp_path, Says(replace(GOOD, text=text)), expect=Aloud())
    assert (value, record["response"]) == (text, {"text": text})


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply("", "m-1", "stop", None), "the reply was empty"),
        (Reply("", "m-1", "stop", None, reasoning="Hm."), "the reply was all reasoning and no answer"),
        (Reply("<think>Hm.</think>", "m-1", "stop", None), "the reply was all reasoning and no answer"),
        (Reply("hel", "m-1", "length", None), "the reply was cut off by its token limit; be shorter"),
        (
            Reply("<think>Hm, if", "m-1", "length", None),
            "the reply was cut off by its token limit before its answer began; be shorter",
        ),
    ],
)
def test_incomplete_answer_is_repaired(tmp_path: Path, reply: Reply, problem: str) -> None:
    client = Says(reply, GOOD)
    value, record = ask(tmp_path, client)
    assert value == "hello"
    assert [(failed["kind"], failed["message"]) for failed in record["failed_attempts"]] == [
        ("unusable_output", problem)
    ]
    complaint = client.asked[1].messages[-1]["content"]
    assert problem in complaint
    assert not any("Hm" in message["content"] for message in client.asked[1].messages)


@pytest.mark.parametrize(
    ("expect", "text"),
    [
        (CoverageList(("N1",)), '{"a":' * 1015 + "1" + "}" * 1015),
        (CoverageList(("N1",)), '{"results":{"N1":' + "[" * 990 + "]" * 990 + "}}"),
        (Choice(("this", "that")), "[" * 1010 + "]" * 1010),
    ],
)
def test_reply_of_nothing_but_brackets_is_unusable(tmp_path: Path, expect: Expect[Any], text: str) -> None:
    error, record = ask(tmp_path, Says(*[replace(GOOD, text=text)] * 4), expect=expect)
    assert (type(error), len(record["failed_attempts"])) == (UnusableOutput, 4)
    assert record["usage"] == {"input": 4 * 7, "output": 4 * 2}


def test_a_refusal_ends_the_step_and_is_charged(tmp_path: Path) -> None:
    client = Says(Reply("", "m-1", "stop", Usage(7, 2), refused="the model refuses: no"))
    error, record = ask(tmp_path, client)
    assert isinstance(error, StepError)
    assert (error.kind, str(error), error.step) == ("refused", "the model refuses: no", "greet")
    assert not record["ok"]
    assert record["usage"] == {"input": 7, "output": 2}


def test_dropped_parameter_does_not_change_the_step_key(tmp_path: Path) -> None:
    """Neither the request nor its key has it, so that asking for it is remembered as not asking."""
    spec = replace(SPEC, drops=("temperature",))
    client = Says(GOOD)
    _, first = ask(tmp_path, client, spec)
    value, again = ask(tmp_path, Says(), spec, params={"temperature": 0.6})
    assert (value, again["key"]) == ("hello", first["key"])
    _, other = ask(tmp_path, Says(GOOD), SPEC, params={"temperature": 0.6})
    assert other["key"] != first["key"]


def test_default_parameters_are_sent_unless_set_and_change_no_key(tmp_path: Path) -> None:
    clients = [Says(GOOD) for _ in range(3)]
    zero = {"temperature": 0.0}
    _, plain = ask(tmp_path / "a", clients[0])
    _, defaulted = ask(tmp_path / "b", clients[1], defaults=zero)
    ask(tmp_path / "c", clients[2], defaults=zero, params={"temperature": 0.6})
    assert plain["key"] == defaulted["key"]
    assert [dict(client.asked[0].params) for client in clients] == [{}, zero, {"temperature": 0.6}]
    assert [client.asked[0].defaults for client in clients] == [set(), {"temperature"}, set()]
    assert SPEC.fixed_role_params == zero
    assert replace(SPEC, params={"temperature": 0.6}).fixed_role_params == {}
    assert replace(SPEC, drops=("temperature",)).fixed_role_params == {}


def test_a_model_keeps_the_parameters_of_different_calls_apart(tmp_path: Path) -> None:
    spec = replace(SPEC, text_params={"max_tokens": 50}, structured="json_schema")
    zero, warm = {"temperature": 0.0}, {"temperature": 0.6}
    coverage: Expect[Any] = CoverageList(("N1",))
    options: list[tuple[Expect[Any], dict[str, Any]]] = [
        (TEXT, {"params": zero}),
        (TEXT, {"params": zero}),
        (TEXT, {"params": warm}),
        (TEXT, {"params": warm, "defaults": zero}),
        (coverage, {"params": warm, "defaults": zero}),
        (coverage, {"defaults": zero}),
        (TEXT, {"defaults": zero}),
    ]
    calls: list[ModelCall[Any]] = []
    for expect, params in options:
        calls.append(ModelCall("greet", [{"role": "user", "content": "hi"}], expect, {}, **params))
    lane = Lane("mine", LaneLimits())
    ctx = Context(Runner(), Job("g", "i", Journal(tmp_path / "steps.jsonl"), _nothing, _nothing), 0)
    model = Model(spec, Says(), lane)
    for call in calls:
        step, alone = model.step(ctx, call), Model(spec, Says(), lane).step(ctx, call)
        assert (step.key, step.reuse, step.reserved) == (alone.key, alone.reuse, alone.reserved)
    assert len({model.step(ctx, call).key for call in calls}) == 5


async def _nothing(argument: Any) -> None:
    """Neither steps nor a record."""


def test_system_setting_changes_key_and_identity_only_where_it_is_set(tmp_path: Path) -> None:
    _, usual = ask(tmp_path, Says(GOOD))
    spec = replace(SPEC, system="user")
    _, other = ask(tmp_path, Says(GOOD), spec)
    assert usual["key"] != other["key"]
    assert SPEC.identity == {"model": "m-1", "api": "openai", "params": {}}
    assert spec.identity == {**SPEC.identity, "system": "user"}


def test_reply_of_another_model_is_recorded_and_noticed_once_for_each_pair(tmp_path: Path) -> None:
    events: list[Any] = []
    served = ServedModels(Events(events.append))
    for n, name in enumerate(("m-0", "m-1-2025-12-11", "m-0", "m-\x1b[31mred")):
        reply = replace(GOOD, model=name)
        _, record = ask(tmp_path, Says(reply), served=served, params={"seed": n})
        assert record["response"].get("served_model") == name
    assert events == [
        Notice("m-1 was requested, m-0 replies"),
        Notice("m-1 was requested, m-?[31mred replies"),
    ]


def test_replies_without_usage_are_noticed_once(tmp_path: Path) -> None:
    events: list[Any] = []
    served = ServedModels(Events(events.append))
    for n in range(2):
        _, record = ask(tmp_path, Says(replace(GOOD, usage=None)), served=served, params={"seed": n})
        assert "usage" not in record
    assert events == [
        Notice("m-1: a reply names no tokens; its tokens and dollars are unknown, and in no sum"),
    ]


@pytest.mark.parametrize(("policy", "times"), [(None, 4), (RetryPolicy(max_unusable=1), 2)])
def test_a_step_may_have_a_patience_of_its_own(
    tmp_path: Path, policy: RetryPolicy | None, times: int
) -> None:
    client = Says(*[Reply(" ", "m-1", "stop", Usage(7, 2))] * 5)
    ended, record = ask(tmp_path, client, policy=policy)
    assert isinstance(ended, UnusableOutput)
    assert record["attempts"] == len(client.asked) == times


def test_prices_and_output_limit_of_a_model() -> None:
    priced = replace(SPEC, input_usd_per_mtok=0.5, output_usd_per_mtok=0.0)
    assert model_prices(priced) == Prices(0.5, 0.0)
    assert model_prices(replace(priced, output_usd_per_mtok=None)) is model_prices(SPEC) is None
    assert output_limit({}) is output_limit({"max_tokens": None}) is None
    assert output_limit({"max_tokens": 300, "temperature": 0.0}) == 300
    assert output_limit({"max_completion_tokens": 400}) == 400
    assert output_limit({"max_tokens": 300, "max_output_tokens": 500}) == 500


@pytest.mark.parametrize(
    ("requested", "same", "others"),
    [
        (
            "gpt-5.2",
            ["gpt-5.2", "", "gpt-5.2-2025-12-11"],
            ["gpt-4o", "gpt-5.2-mini", "gpt-5.2-mini-2025-12-11"],
        ),
        ("gpt-4", ["gpt-4-0613"], []),
        ("gpt-5", [], ["gpt-5.2"]),
        # The name alone does not say that it is the snapshot that was requested.
        ("gpt-5.2-2025-12-11", [], ["gpt-5.2-2026-01-30", "gpt-5.2"]),
        ("claude-sonnet-4-5", ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929"], []),
        ("claude-sonnet-4-5-latest", ["claude-sonnet-4-5-20250929"], []),
        ("claude-sonnet-4", [], ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929"]),
        ("gemini-2.5-pro", ["models/gemini-2.5-pro", "gemini-2.5-pro-001", "gemini-2.5-pro-05-06"], []),
        ("gemini-2.5-pro", [], ["gemini-2.5-pro-preview-05-06"]),
        ("openai/gpt-5.2", ["gpt-5.2"], []),
        ("deepseek-v3", ["deepseek-ai/DeepSeek-V3"], []),
        ("qwen-max", ["qwen-max-2507"], []),
        ("llama3", ["llama3:latest"], []),
        ("ernie-4.5-turbo", [], ["ernie-4.5-turbo-128k"]),
        ("m", [], ["m-4096", "m-32"]),
    ],
)
def test_snapshot_is_the_requested_model_and_any_other_name_is_not(
    requested: str, same: list[str], others: list[str]
) -> None:
    assert [is_other_model(requested, served) for served in same + others] == (
        [False] * len(same) + [True] * len(others)
    )


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,30}", fullmatch=True),
    st.dates(date(2020, 1, 1), date(2099, 12, 31)),
)
def test_every_name_is_its_own_and_any_day_s_snapshot_is_it(name: str, day: date) -> None:
    assert not is_other_model(name, name)
    assert not is_other_model(name, f"{name}-{day.isoformat()}")
    assert not is_other_model(name, f"{name}-{day:%Y%m%d}")


# --- Estimates of tokens, by hand

PROMPT: tuple[Message, ...] = ({"role": "user", "content": "x" * 400},)


def learned(*charges: tuple[str, int, int], prompt: tuple[Message, ...] = PROMPT) -> TokenEstimate:
    """An estimate after calls of (step, input tokens, output tokens)."""
    estimate = TokenEstimate()
    for step, charged, output in charges:
        estimate.learn(step, len(prompt), n_bytes(prompt), Usage(charged, output))
    return estimate


def total(estimate: TokenEstimate, step: str, prompt: tuple[Message, ...] = PROMPT) -> float:
    return estimate.total(step, len(prompt), n_bytes(prompt))


def test_first_estimate_is_a_quarter_token_per_byte_and_a_usual_reply() -> None:
    assert total(TokenEstimate(), "judge/x") == 8 + 100 + 256
    assert total(TokenEstimate(), "judge/x", ({"role": "user", "content": "轮渡" * 50},)) == 8 + 75 + 256
    assert (input_tokens(PROMPT), input_tokens(PROMPT, per_byte=0.5)) == (8 + 100, 8 + 200)


def test_estimate_converges_to_what_is_charged_for_each_kind_of_step() -> None:
    assert total(learned(*[("judge/x", 208, 40)] * 100), "judge/y") == pytest.approx(248, rel=0.01)
    kinds = learned(("answer/1", 108, 3), ("search/turn/1", 108, 300))
    assert [total(kinds, step) for step in ("answer/2", "search/turn/7", "rewrite")] == [
        pytest.approx(tokens) for tokens in (111, 408, 108 + 256)
    ]
    assert total(learned(*[("rewrite", 0, 0)] * 100), "rewrite") > 0, "however odd the usage"
    assert total(learned(("rewrite", 5, 5), prompt=()), "rewrite", ()) == 5


def test_most_is_twice_as_much_text_and_the_reply_limit_or_twice_the_longest_reply() -> None:
    # 64 for what the server adds, 8 for the message, half a token for each of 400 bytes.
    assert TokenEstimate().most_usage("judge/x", PROMPT, 300) == Usage(272, 300)
    for replies, expected in (((), 4096), ((900, 20), 1800), ((20,), 1024)):
        estimate = learned(*[("judge/x", 100, n) for n in replies])
        assert estimate.most_usage("judge/y", PROMPT, None).output_tokens == expected
        assert estimate.most_usage("clarify", PROMPT, None).output_tokens == 4096


def test_most_rises_with_the_densest_prompt_seen_and_never_falls() -> None:
    per_byte = ("judge/x", 64 + 8 + 400, 1)
    for charges in ([per_byte], [per_byte, ("judge/x", 64 + 8 + 40, 1)]):
        assert learned(*charges).most_usage("judge/x", PROMPT, 10).input_tokens == 64 + 8 + 600
