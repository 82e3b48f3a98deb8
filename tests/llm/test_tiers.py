"""Cheaper tiers: what the catalogue says of them, how they are asked for, and what refusals and replies mean there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from llm_calls import FreeText

from cts_async.engine.events import Event, Events, Notice, StepEnded, Usage
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.errors import InputError, NoCapacity, ProviderRefused, RateLimited, TransientError, UsageError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import Catalogue, ModelSpec, Tier, load_catalogue
from cts_async.llm.model import Client, Model, ModelCall, ServedModels
from cts_async.llm.refusals import error_from_response, refuses_tier

TEXT = FreeText()
FLEX = Tier(0.5, {"service_tier": "flex"}, timeout_s=900.0, waits="minutes")
QUEUE = Tier(0.5, base_url="https://queue.example/v1/", timeout_s=3660.0, max_concurrency=200)
BATCH = Tier(0.4)
LIVE = ModelSpec(
    "mine",
    "openai",
    "https://a.example/v1",
    "m-1",
    None,
    "mine",
    8,
    timeout_s=120.0,
    idle_timeout_s=60.0,
    input_usd_per_mtok=2.0,
    output_usd_per_mtok=8.0,
    tiers={"flex": FLEX, "queue": QUEUE, "batch": BATCH},
)


# --- The catalogue


def catalogue_with(tmp_path: Path, text: str) -> Catalogue:
    file = tmp_path / "cts.toml"
    file.write_text(text)
    return load_catalogue(file)


def problem_with(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        catalogue_with(tmp_path, text)
    return str(caught.value).removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("name", "tier", "price", "url", "timeout_s"),
    [
        ("gpt", "flex", 0.5, "https://api.openai.com/v1", 900),
        ("gemini", "flex", 0.5, "https://generativelanguage.googleapis.com/v1beta/openai", 1200),
        ("qwen", "batch-chat", 0.5, "https://batch.dashscope.aliyuncs.com/compatible-mode/v1", 3660),
    ],
)
def test_cheap_asks_the_shipped_models_in_their_tier(
    name: str, tier: str, price: float, url: str, timeout_s: float
) -> None:
    spec = replace(load_catalogue(), cheap=True).resolve(name, {})
    assert (spec.tier, spec.base_url, spec.timeout_s) == (tier, url, timeout_s)
    assert spec.asked_tier is not None
    assert spec.asked_tier.price == price
    live = load_catalogue().resolve(name, {})
    assert live.tier == ""
    # A lane of its own, and the same replies.
    assert spec.account != live.account
    assert spec.identity == live.identity


@pytest.mark.parametrize(("name", "factor"), [("gpt", 0.5), ("claude", 0.5), ("qwen", 0.5), ("ernie", 0.4)])
def test_the_catalogue_has_the_prices_of_batches(name: str, factor: float) -> None:
    batch = load_catalogue().models[name].tiers["batch"]
    assert (batch.price, batch.is_ordinary_call) == (factor, False)


def test_a_model_without_a_cheap_tier_stays_live() -> None:
    spec = replace(load_catalogue(), cheap=True).resolve("claude", {})
    assert (spec.tier, spec.cheap_tier) == ("", "")


def test_a_tier_named_in_cts_toml_is_asked_without_cheap(tmp_path: Path) -> None:
    catalogue = catalogue_with(tmp_path, '[models.gpt]\ntier = "flex"\n')
    spec = catalogue.resolve("gpt:gpt-5.2-mini", {})
    assert (spec.tier, spec.model, spec.timeout_s) == ("flex", "gpt-5.2-mini", 900.0)


def test_a_users_tier_changes_the_shipped_one_field_by_field(tmp_path: Path) -> None:
    catalogue = catalogue_with(tmp_path, "[models.gpt.tiers.flex]\nprice = 0.6\nrequests_per_min = 90\n")
    tiers = catalogue.models["gpt"].tiers
    assert tiers["flex"].price == 0.6
    assert tiers["flex"].params == {"service_tier": "flex"}
    assert tiers["batch"].price == 0.5
    assert replace(catalogue, cheap=True).resolve("gpt", {}).requests_per_min == 90


def test_another_address_has_none_of_the_shipped_tiers(tmp_path: Path) -> None:
    """Else --cheap would send another host's key to DashScope."""
    catalogue = catalogue_with(tmp_path, '[models.qwen]\nbase_url = "https://mine.example/v1"\n')
    spec = replace(catalogue, cheap=True).resolve("qwen", {})
    assert (spec.base_url, spec.tier, spec.tiers) == ("https://mine.example/v1", "", {})


def test_an_address_of_the_environment_has_no_tiers(tmp_path: Path) -> None:
    table = (
        '[models.mine]\nbase_url = "https://a.example/v1"\nbase_url_env = "MY_URL"\nmodel = "m"\n'
        '[models.mine.tiers.queue]\nprice = 0.5\nbase_url = "https://q.example/v1"\n'
    )
    catalogue = replace(catalogue_with(tmp_path, table), cheap=True)
    assert catalogue.resolve("mine", {}).base_url == "https://q.example/v1"
    moved = catalogue.resolve("mine", {"MY_URL": "https://b.example/v1"})
    assert (moved.base_url, moved.tier) == ("https://b.example/v1", "")
    fixed = catalogue_with(tmp_path, table.replace('model = "m"', 'model = "m"\ntier = "queue"'))
    with pytest.raises(UsageError, match="MY_URL sets another"):
        fixed.resolve("mine", {"MY_URL": "https://b.example/v1"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[models.claude]\ntier = "flex"\n',
            "cts.toml:2: field 'models.claude.tier': 'flex' is no tier of its ordinary call; it has none "
            "(add [models.claude.tiers.NAME])",
        ),
        (
            '[models.gpt]\ntier = "batch"\n',
            "cts.toml:2: field 'models.gpt.tier': 'batch' is no tier of its ordinary call; it has flex",
        ),
        (
            '[models.gpt.tiers.batch]\nbase_url = "https://a.example"\n',
            "cts.toml:1: field 'models.gpt.tiers.batch': is the batch interface, and takes neither params nor "
            "base_url; give the tier another name",
        ),
        (
            "[models.gpt.tiers.slow]\nparams = { temperature = 1.0 }\nprice = 0.1\n",
            "cts.toml:1: field 'models.gpt.tiers.slow.params.temperature': changes replies, and a tier must not: "
            "its steps are those of the model's other tiers",
        ),
        (
            '[models.gpt.tiers.slow]\nbase_url = "slow"\nprice = 0.1\n',
            "cts.toml:1: field 'models.gpt.tiers.slow.base_url': is not an http(s) address (http://HOST:PORT/...)",
        ),
        ("[models.gpt.tiers.slow]\n", "cts.toml:1: field 'models.gpt.tiers.slow.price': is missing"),
    ],
)
def test_a_tier_that_cannot_be_asked_for_is_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    assert problem_with(tmp_path, text) == problem


# --- What refusals mean


def raised(spec: ModelSpec, status: int, message: str, **fields: Any) -> Exception:
    body = orjson.dumps({"error": {"message": message, **fields}})
    return error_from_response(spec, status, {}, body, 0.0)


@pytest.mark.parametrize(
    ("status", "message", "fields"),
    [
        (429, "Resource Unavailable", {}),  # OpenAI
        (429, "busy", {"code": "resource_unavailable"}),
        (498, "over capacity", {"code": "capacity_exceeded"}),  # Groq
        (503, "The model is overloaded. Please try again later.", {}),  # Gemini
        (500, "There is not enough capacity for flex requests", {}),
    ],
)
def test_a_tier_without_capacity_is_waited_for(status: int, message: str, fields: dict[str, Any]) -> None:
    error = raised(LIVE.in_tier("flex"), status, message, **fields)
    assert isinstance(error, NoCapacity)
    assert error.patience_s == 3600.0
    # Asked live, the same words are what they were.
    assert not isinstance(raised(LIVE, status, message, **fields), NoCapacity)


def test_other_refusals_of_a_tier_are_those_of_the_model() -> None:
    spec = LIVE.in_tier("flex")
    limited = raised(spec, 429, "Rate limit reached for requests", code="rate_limit_exceeded")
    assert type(limited) is RateLimited
    assert type(raised(spec, 500, "internal error")) is TransientError
    assert type(raised(spec, 429, "no credit", code="insufficient_quota")) is ProviderRefused


@pytest.mark.parametrize(
    ("status", "error", "refuses"),
    [
        (400, {"message": "Invalid argument", "param": "service_tier"}, True),
        (400, {"message": "Flex is not available for this model; flex needs gpt-5."}, True),
        (422, {"message": "service_tier: extra fields not permitted"}, True),
        (400, {"message": "context too long"}, False),
        (500, {"message": "service_tier"}, False),
    ],
)
def test_a_refused_tier_is_told_by_its_parameter(status: int, error: dict[str, Any], refuses: bool) -> None:
    assert refuses_tier(status, orjson.dumps({"error": error}), FLEX) is refuses


# --- One question


class Says:
    """A client that has its replies ready."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.asked = list(replies), list[tuple[ModelSpec, ChatRequest]]()

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        self.asked.append((spec, request))
        return self.replies.pop(0)


def record_of(spec: ModelSpec, reply: Reply, directory: Path) -> tuple[Mapping[str, Any], list[Event], Says]:
    """The journal's line of one question, the events, and the client that was asked."""
    client, events = Says(reply), list[Event]()

    async def go() -> None:
        lane = Lane("mine", LaneLimits())
        emitter = Events(events.append)
        model = Model(spec, client, lane, ServedModels(emitter))  # type: ignore[arg-type]
        with closing(Journal(directory / "steps.jsonl")) as journal:

            async def walk(ctx: Context) -> str:
                call = ModelCall("ask", ({"role": "user", "content": "?"},), TEXT, {"prompt": "ask"})
                return await model.ask(ctx, call)

            async def finish(_: Any) -> None:
                return None

            await Runner([lane], events=emitter).run([Job("g", "q1", journal, walk, finish)])

    asyncio.run(go())
    (record,) = read_records(directory / "steps.jsonl")
    return record, events, client


def said(tier: str = "", usage: Usage = Usage(100, 10, 64)) -> Reply:  # noqa: B008
    return Reply("yes", "m-1", "stop", usage, tier=tier)


def test_a_reply_of_the_tier_is_charged_in_it_and_keeps_the_steps_key(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "flex").mkdir()
    live, _, _ = record_of(LIVE, said("default"), tmp_path / "live")
    flex, events, client = record_of(LIVE.in_tier("flex"), said("flex"), tmp_path / "flex")
    assert live["key"] == flex["key"]
    assert live["usage"] == {"input": 100, "output": 10, "cached": 64}
    assert flex["usage"] == {
        **live["usage"],
        "input@flex": 100,
        "output@flex": 10,
        "cached@flex": 64,
    }
    assert flex["response"] == live["response"] == {"text": "yes"}
    assert [request.params for _, request in client.asked] == [{"service_tier": "flex"}]
    # 110 tokens live: 100 * 2 + 10 * 8 = 280 millionths; half of that in flex.
    (usd,) = [event.usd for event in events if isinstance(event, StepEnded)]
    assert usd == pytest.approx(0.00014)


@pytest.mark.parametrize(("word", "noted"), [("default", "default"), ("", "not named")])
def test_a_reply_of_another_tier_is_charged_in_full_and_noted(tmp_path: Path, word: str, noted: str) -> None:
    record, events, _ = record_of(LIVE.in_tier("flex"), said(word), tmp_path)
    assert record["usage"] == {"input": 100, "output": 10, "cached": 64}
    assert record["response"] == {"text": "yes", "served_tier": noted}
    (usd,) = [event.usd for event in events if isinstance(event, StepEnded)]
    assert usd == pytest.approx(0.00028)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == [f"m-1 was asked in the tier flex, a reply says {noted}: priced in full"]


def test_a_reply_of_another_tier_with_a_price_is_charged_so_and_noted(tmp_path: Path) -> None:
    tiers = {**LIVE.tiers, "priority": Tier(2.0, {"service_tier": "priority"})}
    spec = replace(LIVE, tiers=tiers).in_tier("flex")
    _, events, _ = record_of(spec, said("priority", Usage(100, 10)), tmp_path)
    # 100 * 2 + 10 * 8 = 280 millionths, twice.
    (usd,) = [event.usd for event in events if isinstance(event, StepEnded)]
    assert usd == pytest.approx(0.00056)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == ["m-1 was asked in the tier flex, a reply says priority: priced as such"]


def test_a_tier_with_an_address_of_its_own_is_charged_by_that(tmp_path: Path) -> None:
    record, _, client = record_of(LIVE.in_tier("queue"), said("", Usage(100, 10)), tmp_path)
    assert record["usage"] == {"input": 100, "output": 10, "input@queue": 100, "output@queue": 10}
    ((spec, request),) = client.asked
    assert (spec.base_url, dict(request.params)) == ("https://queue.example/v1", {})
    assert (spec.timeout_s, spec.idle_timeout_s, spec.max_concurrency) == (3660.0, None, 200)


def test_a_tier_that_nobody_asked_for_is_charged_by_the_replys_word(tmp_path: Path) -> None:
    """A project's default, or parameters of code that plays a role."""
    record, _, _ = record_of(LIVE, said("flex", Usage(100, 10)), tmp_path)
    assert record["usage"]["input@flex"] == 100
    assert "served_tier" not in record["response"]


@pytest.mark.parametrize(
    ("price", "marks", "usd"),
    [
        # The prompt is at most 64 + 8 + 0.5 = 73 tokens, the reply 4,096: 73 * 2 + 4,096 * 8 = 32,914 millionths.
        (0.5, False, 0.032914),
        (2.0, False, 0.065828),
        # All of the prompt written to the cache at 2.5: 73 * 2.5 + 32,768 = 32,950.5
        (0.5, True, 0.0329505),
    ],
)
def test_a_budget_sets_aside_the_full_price_or_the_tiers_if_that_is_higher(
    price: float, marks: bool, usd: float
) -> None:
    tiers = {"other": Tier(price, {"service_tier": "other"})}
    spec = replace(LIVE, tiers=tiers, cache_marks=marks, cache_write_usd_per_mtok=2.5).in_tier("other")

    async def step_cost() -> float:
        model = Model(spec, Says(), Lane("mine", LaneLimits()))  # type: ignore[arg-type]
        call = ModelCall("ask", ({"role": "user", "content": "?"},), TEXT, {}, repeated_chars=1)
        job = SimpleNamespace(id="q1")
        step = model.step(SimpleNamespace(job=job), call)  # type: ignore[arg-type]
        assert step.most_usage is not None
        return step.cost(step.most_usage(None)).usd

    assert asyncio.run(step_cost()) == pytest.approx(usd, abs=2e-9)


def test_a_refused_tier_stops_the_provider_with_one_line() -> None:
    error = Client({}).explain_rejection(
        raised(LIVE.in_tier("flex"), 400, "service_tier is invalid"),  # type: ignore[arg-type]
        LIVE.in_tier("flex"),
        ChatRequest(()),
        b"{}",
        b'{"error": {"message": "service_tier is invalid"}}',
    )
    assert isinstance(error, ProviderRefused)
    assert str(error) == (
        "mine: HTTP 400: service_tier is invalid (the tier flex is refused for m-1: ask it live, without --cheap and "
        "without tier in cts.toml; the same command resumes)"
    )
