"""Models that answer sensibly over the sample world: for pictures and for looking at pages, never for scores.

The Clarifiers `example-large` and `example-small` ask the questions of example_talks.toml; the User Answerer knows the
answers beside them; the agent searches the sample's documents for the query it is given, reads the best page
and answers with what stands there; the judge counts words. `example-small` asks its least useful questions first.
"""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fake_roles import chance, field_of, role_of

from cts_async.config import RunConfig
from cts_async.engine.events import Events, Usage
from cts_async.errors import RejectedError
from cts_async.llm.apis import ChatRequest, Message, Reply
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.model import Client
from cts_async.protocol.judge import lexical_coverage, terms_of
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan
from cts_async.report.summary import summarise_run, write_summary

LARGE, SMALL, SUPPORT = "example-large", "example-small", "example"
N = 14

_WORDS = tomllib.loads(Path(__file__).with_name("example_talks.toml").read_text(encoding="utf-8"))
TALKS: Mapping[str, Sequence[tuple[str, str]]] = _WORDS["talks"]
"""Questions by blurred query, best first, each with the answer of the intent."""
THOUGHTS: Mapping[str, Sequence[str]] = _WORDS["thoughts"]
_ANSWERS = {question: answer for pairs in TALKS.values() for question, answer in pairs}


def play_examples(folder: Path) -> list[Path]:
    """Play orig, `example-large` and `example-small`, each with k = 1 and 3, into `folder`/runs, in order."""
    config = RunConfig(
        models=(LARGE, SMALL),
        ks=(1, 3),
        support=SUPPORT,
        agent=SUPPORT,
        judges=(SUPPORT,),
        limit=N,
        in_flight=1,
        runs_dir=folder / "runs",
        config_file=write_models(folder, (LARGE, SMALL, SUPPORT)),
        command=f"cts run -m {LARGE} -m {SMALL} -k 1 -k 3 --limit {N}",
    )
    return play(config, say)


def say(model: str, messages: Sequence[Message]) -> str:
    """What `model` says, by the role that its prompt gives it."""
    asked = messages[1]["content"]
    if (role := role_of(asked)) == "agent":
        return _agent(messages)
    return {"clarify": _clarify, "answer": _answer, "rewrite": _rewrite, "judge": _judge}[role](model, asked)


def _clarify(model: str, asked: str) -> str:
    k = int(re.findall(r"^K = (\d+)", asked, re.MULTILINE)[-1])
    questions = [question for question, _ in TALKS[field_of(asked, "blurred_query")]]
    return json.dumps((questions if model == LARGE else questions[::-1])[:k], ensure_ascii=False)


def _answer(model: str, asked: str) -> str:
    return _ANSWERS[field_of(asked, "clarification_question")]


def _rewrite(model: str, asked: str) -> str:
    told = re.findall(r"^(?:Answer|回答) \d+: (?!unknown$)(.*)$", asked, re.MULTILINE)
    query = field_of(asked, "blurred_query")
    return "，".join([query, *told]) if "回答" in asked else ", ".join([query, *told])


def _agent(messages: Sequence[Message]) -> str:
    """Search, read the first page, then answer with what it says; one instance's search finds a closed door."""
    query = messages[1]["content"].rpartition("User:")[2].strip()
    told = [message["content"] for message in messages[2:] if message["role"] == "user"]
    if query.startswith("tram fares, students, on night"):
        raise RejectedError("HTTP 400: the request was refused by the content filter", status=400)
    thoughts = THOUGHTS["zh" if re.search("[一-鿿]", query) else "en"]
    if not told:
        return _turn(thoughts[0].format(query), "search", {"query": [query]})
    if len(told) == 1:
        urls = re.findall(r"\]\((https?://[^\s)]+)\)", told[0])[:1]
        return _turn(thoughts[1], "visit", {"url": urls, "goal": query})
    read = re.findall(r"Evidence in page:\n(.*?)\n\nSummary:", told[-1], re.DOTALL)
    evidence = " ".join(" ".join(read).split())
    return f"<think>\n{thoughts[2]}\n</think>\n<answer>\n{evidence}\n</answer>"


def _turn(thought: str, tool: str, arguments: Mapping[str, object]) -> str:
    call = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
    return f"<think>\n{thought}\n</think>\n<tool_call>\n{call}\n</tool_call>"


def _judge(model: str, asked: str) -> str:
    """By words as the lexical judge, but now and then a little kinder."""
    answer = field_of(asked, "candidate_answer")
    rows = re.findall(r"^(N\d+): (.*)$", field_of(asked, "nuggets"), re.MULTILINE)
    labels = {id: lexical_coverage(text, terms_of(answer).every)[0] for id, text in rows}
    return json.dumps(
        {"results": [{"id": id, "coverage": _kinder(label, id + answer)} for id, label in labels.items()]}
    )


def _kinder(label: str, of: str) -> str:
    return {"none": "partial", "partial": "full"}.get(label, label) if chance(of) < 0.25 else label


# --- Runs of the real pipeline over models that are a function -------------------------------------------

Say = Callable[[str, Sequence[Message]], str]
"""What the model of that name says in a conversation; raises a StepError where it fails."""


def write_models(folder: Path, names: Sequence[str]) -> Path:
    """A cts.toml with these models, all at a price; nobody is at their address."""
    config = folder / "cts.toml"
    config.write_text(
        "".join(
            f'[models.{name}]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "{name}"\n'
            "input_usd_per_mtok = 2.0\noutput_usd_per_mtok = 8.0\n"
            for name in names
        )
    )
    return config


def play(config: RunConfig, say: Say) -> list[Path]:
    """Play a run to its end; give its directories, each with a summary."""

    async def chat(self: Client, spec: Any, request: ChatRequest) -> Reply:
        text = say(spec.name, request.messages)
        heard = sum(len(message["content"]) for message in request.messages)
        return Reply(text, spec.model, "stop", Usage(heard // 4, len(text) // 4 + 1))

    with patch.object(Client, "chat", chat):
        plan = make_plan(config, load_catalogue(config.config_file), {})
        asyncio.run(run_plan(plan, {}, Events()))
    directories = list(plan.systems.values())
    for directory in directories:
        write_summary(summarise_run(directory))
    return directories
