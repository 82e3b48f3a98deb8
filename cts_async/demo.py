"""A made-up campaign over the sample world: what `cts demo` shows before anybody has a key.

Its models are scripts behind an OpenAI-style endpoint of this process on the loopback, so that the ordinary pipeline
plays, with costs, tokens, latencies and one failure. Clarifiers ask the questions of demo.toml (`made-up-b` never
the best one), the User Answerer knows their answers, the agent quotes the first page found, and the judge counts
words. No score is a model's: the names say so, and `demo` in run.json marks the runs wherever they are shown.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from cts_async import foreign_json
from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.llm.apis import Message
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.judge import lexical_coverage, terms_of
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.run import run_plan
from cts_async.records import UNKNOWN, language_of

GOOD, POOR, SUPPORT = "made-up-a", "made-up-b", "made-up"
N_INSTANCES: Final = 14
"""Instances of the sample world that demo.toml has questions for."""
PRICES: Final = {GOOD: (2.5, 10.0), POOR: (0.15, 0.6), SUPPORT: (1.0, 4.0)}
"""Dollars per million tokens, input and output."""
LATENCY_S: Final = (0.003, 0.009)
"""The shortest and the longest time to a reply."""
IN_FLIGHT: Final = 5
"""An instance of each system: results then stand nearly in the order of the instances."""
RAISED_SHARE: Final = 0.25
"""Share of labels that the judge raises above those of the lexical judge."""
REFUSED: Final = "tram fares, students, on night"
"""How the query begins for which the agent's model refuses to reply: a failure is never a score."""


def plan_demo(folder: Path) -> Plan:
    """Plan orig and both Clarifiers with one and three questions, with run directories in `folder`."""
    config = RunConfig(
        models=(GOOD, POOR),
        ks=(1, 3),
        support=SUPPORT,
        agent=SUPPORT,
        judges=(SUPPORT,),
        limit=N_INSTANCES,
        in_flight=IN_FLIGHT,
        runs_dir=folder,
        command="cts demo",
    )
    return make_plan(config, Catalogue({name: _model(name) for name in PRICES}), {})


def _model(name: str) -> ModelSpec:
    """A scripted model; `play` gives it the address of its endpoint."""
    input_usd, output_usd = PRICES[name]
    return ModelSpec(
        name=name,
        api="openai",
        base_url="http://127.0.0.1/v1",
        model=name,
        key_env=None,
        account=SUPPORT,
        max_concurrency=32,
        input_usd_per_mtok=input_usd,
        output_usd_per_mtok=output_usd,
        demo=True,
    )


async def play(plan: Plan, environ: Mapping[str, str], events: Events) -> None:
    """Play or resume a plan of `plan_demo`. The environment is not used: no key, no proxy, no other address."""
    async with _endpoint() as address:
        specs = {name: replace(spec, base_url=address) for name, spec in plan.specs.items()}
        await run_plan(replace(plan, specs=specs), {}, events)


# --- The endpoint


@asynccontextmanager
async def _endpoint() -> AsyncIterator[str]:
    """Serve the scripted models on a free loopback port; yields the base URL."""
    runner = web.ServerRunner(web.Server(_reply, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def _reply(request: web.BaseRequest) -> web.StreamResponse:
    """Answer a chat completion; the same conversation always gets the same reply."""
    asked = foreign_json.loads(await request.read())
    model, messages = asked["model"], asked["messages"]
    text = say(model, messages)
    shortest, longest = LATENCY_S
    await asyncio.sleep(shortest + (longest - shortest) * _chance(model, messages[-1]["content"]))
    if text is None:
        error = {"message": "the request was refused by the content filter", "code": "content_filter"}
        return _json({"error": error}, 400)
    n_input = sum(len(message["content"]) for message in messages) // 4
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": n_input, "completion_tokens": len(text) // 4 + 1}
    return _json({"model": model, "choices": [choice], "usage": usage}, 200)


def _json(body: Mapping[str, Any], status: int) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


# --- The scripts


@cache
def scripts() -> Mapping[str, Any]:
    """Read demo.toml: (question, answer) pairs by underspecified query; vague questions and thoughts by language."""
    return tomllib.loads(Path(__file__).with_name("demo.toml").read_text(encoding="utf-8"))


def say(model: str, messages: Sequence[Message]) -> str | None:
    """The reply of `model` in the role that its prompt gives it; None where it refuses."""
    prompt = messages[1]["content"]
    if "<qa_pairs>" in prompt:
        return _rewrite(prompt)
    if "<clear_query>" in prompt:
        return _answer(prompt)
    if "<nuggets>" in prompt:
        return _judge(prompt)
    if "<blurred_query>" in prompt:
        return _clarify(model, prompt)
    return _search(messages)


def _clarify(model: str, prompt: str) -> str:
    k = int(re.findall(r"^K = (\d+)", prompt, re.MULTILINE)[-1])
    query = _field(prompt, "blurred_query")
    questions = [question for question, _ in scripts()["talks"][query]]
    if model == POOR:  # never asks the best one
        questions = [questions[2], scripts()["vague"][language_of(query)], questions[1]]
    return _dumps(questions[:k])


def _answer(prompt: str) -> str:
    asked = _field(prompt, "clarification_question")
    pairs = (pair for pairs in scripts()["talks"].values() for pair in pairs)
    return next((answer for question, answer in pairs if question == asked), UNKNOWN)


def _rewrite(prompt: str) -> str:
    known = re.findall(r"^(?:Answer|回答) \d+: (?!unknown$)(.*)$", prompt, re.MULTILINE)
    query = _field(prompt, "blurred_query")
    return ("，" if language_of(query) == "zh" else ", ").join([query, *known])


def _search(messages: Sequence[Message]) -> str | None:
    """Search for the query, read the first page, then answer with what it says."""
    query = messages[1]["content"].rpartition("User:")[2].strip()
    if query.startswith(REFUSED):
        return None
    thoughts = scripts()["thoughts"][language_of(query)]
    results = [message["content"] for message in messages[2:] if message["role"] == "user"]
    if not results:
        return _call(thoughts[0].format(query), "search", {"query": [query]})
    if len(results) == 1:
        urls = re.findall(r"\]\((https?://[^\s)]+)\)", results[0])[:1]
        return _call(thoughts[1], "visit", {"url": urls, "goal": query})
    read = re.findall(r"Evidence in page:\n(.*?)\n\nSummary:", results[-1], re.DOTALL)
    evidence = " ".join(" ".join(read).split())
    return f"<think>\n{thoughts[2]}\n</think>\n<answer>\n{evidence}\n</answer>"


def _call(thought: str, tool: str, arguments: Mapping[str, object]) -> str:
    call = _dumps({"name": tool, "arguments": arguments})
    return f"<think>\n{thought}\n</think>\n<tool_call>\n{call}\n</tool_call>"


def _judge(prompt: str) -> str:
    """Label as the lexical judge does, but raise some by one step."""
    answer = _field(prompt, "candidate_answer")
    found = terms_of(answer).every
    rows = []
    for id, text in re.findall(r"^(N\d+): (.*)$", _field(prompt, "nuggets"), re.MULTILINE):
        label = lexical_coverage(text, found)[0]
        if _chance(id + answer) < RAISED_SHARE:
            label = "partial" if label == "none" else "full"
        rows.append({"id": id, "coverage": label})
    return _dumps({"results": rows})


def _field(prompt: str, tag: str) -> str:
    """The text between `<tag>` and `</tag>`."""
    found = re.search(rf"<{tag}>\s*(.*?)\s*</{tag}>", prompt, re.DOTALL)
    return found[1] if found else ""


def _chance(*parts: str) -> float:
    """A number in [0, 1) that depends on `parts` alone."""
    return zlib.crc32("\x1f".join(parts).encode()) / 2**32


def _dumps(value: object) -> str:
    return orjson.dumps(value).decode()
