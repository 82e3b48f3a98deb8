"""The size of a journal beside what it has to remember: a whole run, and `cts judge` over candidates.

Counted as needed are, for each step, its key (32 bytes) and its result: the text that a model wrote or a
tool gave back. New text of a request would count too, but there is none: what a role is told stands in the
data, in the results or in an earlier step. Everything else in the file (names, usage, times, digests,
escaped quotes, texts stored a second time) is overhead.

The models are canned: questions, thoughts, answers and labels of the length that real ones write.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.shared.result import Result, Row
from cts_async.config import JudgeConfig, RunConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Events, Usage
from cts_async.engine.journal import read_records
from cts_async.llm.apis import Reply
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.model import Client
from cts_async.protocol.plan import make_plan
from cts_async.protocol.rejudge import plan_judging, run_judging
from cts_async.protocol.run import run_plan
from cts_async.search.toolbox.search import format_search
from cts_async.search.tools import read_hits

K, TURNS, INSTANCES = 3, 6, 28
THOUGHT = (
    "The question asks for a fact that one page alone will hardly settle, so I compare what I found. " * 6
)
ANSWER = (
    "The ferry leaves the old harbour at nine and again at noon, daily except on Mondays in winter. " * 10
)
QUESTIONS = [f"Which {aspect} of the trip do you have in mind?" for aspect in ("season", "part", "purpose")]


def reply_to(messages: Any) -> str:
    """What a model of some role writes, told apart by what it is asked."""
    asked, turns = messages[1]["content"], sum(message["role"] == "assistant" for message in messages)
    if "<candidate_answer>" in asked:
        ids = re.findall(r"^(\S+): ", asked.partition("<nuggets>")[2], re.MULTILINE)
        return json.dumps({"results": [{"id": id, "coverage": "partial"} for id in ids]})
    if "<qa_pairs>" in asked:
        return "ferry from the old harbour to the island in winter, departure times and fares for a family"
    if "<clarification_question>" in asked:
        return "a family trip in winter"
    if "<blurred_query>" in asked:
        return json.dumps(QUESTIONS)
    if turns + 1 == TURNS:
        return f"<think>{THOUGHT}</think>\n<answer>{ANSWER}</answer>"
    words = ("ferry times", "harbour history", "island hotels", "winter fares", "museum hours")[turns]
    call = {"name": "search", "arguments": {"query": [words]}}
    return f"<think>{THOUGHT}</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"


async def chat(self: Client, spec: Any, request: Any) -> Reply:
    return Reply(reply_to(request.messages), spec.model, "stop", Usage(1234, 321))


def ratio(path: Path) -> tuple[int, float]:
    """Steps in a journal, and its bytes over what it had to remember."""
    steps = list(read_records(path))
    needed = sum(32 + len(result_of(step).encode()) for step in steps)
    return len(steps), path.stat().st_size / needed


def result_of(step: dict[str, Any]) -> str:
    """What a model wrote, or the agent was given to read."""
    response = step["response"]
    if "hits" in response:
        return format_search(step["request"]["query"], read_hits(response))
    return str(response["text"])


def a_run(folder: Path) -> Path:
    """Clarify, three answers, rewrite, six turns of search, one judge: over the sample world."""
    asked = RunConfig(
        models=("m",), every_role="m", ks=(K,), references=(), limit=INSTANCES, runs_dir=folder, name="run"
    )
    plan = make_plan(asked, load_catalogue(folder / "cts.toml"), {})
    asyncio.run(run_plan(plan, {}, Events()))
    return folder / "run" / "steps.jsonl"


def a_judging(folder: Path) -> Path:
    """The same nuggets against one candidate each."""
    gold = sample_dir() / "gold.jsonl"
    with (folder / "candidates.jsonl").open("w", encoding="utf-8") as out:
        for row in read_records(gold):
            out.write(json.dumps({"id": row["id"], "answer": ANSWER}) + "\n")
    asked = JudgeConfig(
        judges=("m",), gold=gold, candidates=str(folder / "candidates.jsonl"), out=folder / "judged"
    )
    asyncio.run(run_judging(plan_judging(asked, load_catalogue(folder / "cts.toml"), {}), {}, Events()))
    return folder / "judged" / "steps.jsonl"


def bench() -> Result:
    work: list[tuple[str, Callable[[Path], Path]]] = [
        (f"a whole run, k={K}, {TURNS} turns", a_run),
        ("cts judge over candidates", a_judging),
    ]
    rows = []
    with tempfile.TemporaryDirectory() as name, patch.object(Client, "chat", chat):
        folder = Path(name)
        (folder / "cts.toml").write_text(
            '[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "model-1"\n'
        )
        for label, make in work:
            steps, value = ratio(make(folder))
            rows.append(Row(label, value, "<=", 1.3, 2, f"{steps} steps"))
    return Result("journal_size: bytes of the journal / (keys + results)", rows)
