"""Runs whose agent asks the user, against scripted models on the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web
from custom_roles import endpoint
from fake_web import served

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.run import run_plan

INTENT = "night ferries to Seal Island for cyclists in winter"
QUERY = "ferries to Seal Island"
DATA = (
    f'{{"id": "1", "fused_query": "{INTENT}", "blurred_query": "{QUERY}", "nuggets": '
    '[{"id": "N1", "text": "The winter ferry leaves at 23:10.", "weight": 2, "source_ids": ["S1"]}]}\n'
)
DOCUMENTS = (
    '{"id": "d1", "url": "https://ferry.example/winter", "title": "Winter timetable", '
    '"text": "The winter ferry to Seal Island leaves at 23:10. Bicycles travel free."}\n'
)

SEARCH = 'I look.\n</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["ferry"]}}\n</tool_call>'
ANSWER = "Enough.\n</think>\n<answer>\nThe winter ferry leaves at 23:10.\n</answer>"


def asking(*questions: str) -> str:
    """A turn of the agent that asks."""
    calls = []
    for question in questions:
        calls.append(
            f'<tool_call>\n{{"name": "ask", "arguments": {{"question": "{question}"}}}}\n</tool_call>'
        )
    return "\n".join(["I ask.\n</think>", *calls])


@dataclass
class Models:
    """An agent that says its turns in order, and a user that replies by a function of the question."""

    turns: Sequence[str]
    reply: Callable[[str], str] = lambda question: "unknown"
    agent: list[list[dict[str, str]]] = field(default_factory=list)
    """The conversations that the agent was sent."""
    user: list[list[dict[str, str]]] = field(default_factory=list)
    grammars: list[str] = field(default_factory=list)
    """Those that the agent's turns had to keep to."""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages = body["messages"]
        if body["model"] == "agent-1":
            self.agent.append(messages)
            self.grammars.append(body.get("grammar", ""))
            n_said = sum(message["role"] == "assistant" for message in messages)
            return completion(self.turns[n_said])
        if "<qa_pairs>" in messages[1]["content"]:
            return completion(f"{QUERY} in winter")
        self.user.append(messages)
        # A reply that cannot be used is asked for again below its question.
        question = messages[1]["content"].split("<clarification_question>\n")[1].split("\n</clar")[0]
        return completion(self.reply(question))


def completion(text: str) -> web.Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return web.json_response({"model": "m", "choices": [choice], "usage": usage})


def planned(folder: Path, base: str = "http://127.0.0.1:9", *, table: str = "", **options: Any) -> Plan:
    """The plan of a run whose agent, user and judge are `agent`, `user` and the lexical judge.

    `table` adds fields to the agent's entry.
    """
    data, documents, config = folder / "data.jsonl", folder / "documents.jsonl", folder / "cts.toml"
    data.write_text(DATA)
    documents.write_text(DOCUMENTS)
    config.write_text(
        f'[models.agent]\nbase_url = "{base}/v1"\nmodel = "agent-1"\n{table}'
        f'[models.user]\nbase_url = "{base}/v1"\nmodel = "user-1"\n'
    )
    asked = RunConfig(
        data=str(data),
        corpus=documents,
        models=(),
        references=(),
        ask=("during",),
        agent="agent",
        support="user",
        judges=("lexical",),
        date="2026-11-26",
        runs_dir=folder / "runs",
        config_file=config,
    )
    return make_plan(replace(asked, **options), load_catalogue(config), {})


async def play(folder: Path, players: Models, **options: Any) -> Path:
    """`asked_run`, in a running loop."""
    async with served(players.serve) as base:
        plan = planned(folder, base, **options)
        await run_plan(plan, {"PATH": "/usr/bin:/bin"}, Events())
        return list(plan.systems.values())[-1]


def asked_run(folder: Path, players: Models, **options: Any) -> Path:
    """Run the plan of these options with the players; gives the last system's run directory."""
    return asyncio.run(play(folder, players, **options))


def endpoint_run(folder: Path, players: Models, answer: Any, **options: Any) -> Path:
    """`asked_run`, with an endpoint that gives `answer(request)` as the agent."""

    async def main() -> Path:
        async with endpoint(answer) as url:
            return await play(folder, players, agent=url, **options)

    return asyncio.run(main())
