"""The deep-search loop: budgets, tools, fallbacks, and a trace that says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cts_async.engine.journal import Journal
from cts_async.engine.runner import Context, Job, Runner
from cts_async.errors import StepError, ToolError, UnusableOutput
from cts_async.records import Trace
from cts_async.search.agent import Agent, AgentSettings
from cts_async.search.backends import Hit, Page
from cts_async.search.toolbox import Toolbox

OPENING = ({"role": "system", "content": "find"}, {"role": "user", "content": "User: when?"})
SEARCH = '<think>look</think><tool_call>{"name": "search", "arguments": {"query": ["ferry"]}}</tool_call>'
VISIT = (
    '<think>read</think><tool_call>{"name": "visit", "arguments": '
    '{"url": "https://a.example/1", "goal": "time"}}</tool_call>'
)
ANSWER = "<think>known</think><answer>At nine.</answer>"


class Script:
    """A model that says its lines in order, and keeps what it was shown."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.shown, self.news = list(lines), [], []
        self.spec = SimpleNamespace(structured="none")

    async def ask(
        self, ctx: Context, step: str, messages: Sequence[Any], expect: Any, *, request: Any, key_on: Any
    ) -> str:
        self.shown.append([dict(message) for message in messages])
        self.news.append(request)
        return expect.parse(self.lines.pop(0))


class Documents:
    """Two documents; counts what it is asked; fails for what it is told to."""

    name, engine = "documents", ""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken, self.searches, self.fetches = broken, [], []

    async def search(self, query: str, limit: int) -> list[Hit]:
        self.searches.append(query)
        if self.broken:
            raise ToolError("the index is gone")
        return [Hit("1", "https://a.example/1", "Ferry", "The ferry leaves at nine.", 1.0)][:limit]

    async def fetch(self, url: str) -> Page:
        self.fetches.append(url)
        return Page("1", url, "Ferry", "The ferry leaves at nine. It is blue.")


def run_agent(tmp_path: Path, script: Script, documents: Documents, **settings: int) -> Trace | StepError:
    ended: list[Any] = []
    limits = AgentSettings(**settings)
    agent = Agent(script, Toolbox(documents, documents, "digest", limits), limits)  # type: ignore[arg-type]

    async def finish(result: Any) -> None:
        ended.append(result)

    async def main() -> None:
        journal = Journal(tmp_path / "steps.jsonl")
        job = Job(
            "run",
            "s1",
            journal,
            lambda ctx: agent.run(ctx, "when?", OPENING, "en", {"prompt": "agent.en"}),
            finish,
        )
        await Runner().run([job])
        journal.close()

    asyncio.run(main())
    return ended[0]


def test_it_searches_reads_and_answers(tmp_path: Path) -> None:
    script = Script(SEARCH, VISIT, ANSWER)
    trace = run_agent(tmp_path, script, Documents())
    assert isinstance(trace, Trace)
    assert (trace.answer, trace.answer_from, trace.model_calls, trace.forced) == ("At nine.", "tag", 3, False)
    assert [turn.kind for turn in trace.turns] == ["think", "search", "think", "visit", "think", "answer"]
    assert "leaves at nine" in script.shown[1][-1]["content"]
    assert script.shown[2][:2] == list(OPENING)


def test_a_step_stores_only_what_is_new_in_the_conversation(tmp_path: Path) -> None:
    script = Script(SEARCH, VISIT, ANSWER)
    run_agent(tmp_path, script, Documents())
    assert script.news == [{"prompt": "agent.en"}, {"after": "search/turn/1"}, {"after": "search/turn/2"}]


def test_the_last_call_of_the_budget_demands_the_answer_and_the_trace_says_so(tmp_path: Path) -> None:
    script = Script(SEARCH, VISIT, ANSWER)
    trace = run_agent(tmp_path, script, Documents(), max_turns=3)
    assert isinstance(trace, Trace)
    assert trace.forced
    assert "forced" in [turn.kind for turn in trace.turns]
    assert "No tool calls are left" in script.shown[2][-1]["content"]


def test_it_stops_at_the_first_turn_without_a_call(tmp_path: Path) -> None:
    trace = run_agent(tmp_path, Script("<think>easy</think>It is nine."), Documents())
    assert isinstance(trace, Trace)
    assert (trace.answer, trace.answer_from, trace.model_calls) == ("It is nine.", "last_turn", 1)


def test_a_tiny_model_is_reminded_of_the_question(tmp_path: Path) -> None:
    script = Script(SEARCH, ANSWER)
    run_agent(tmp_path, script, Documents(), repeat_question=True)
    assert script.shown[1][-1]["content"].endswith("</tool_response>\nQuestion: when?")


def test_a_repeated_call_is_answered_from_memory(tmp_path: Path) -> None:
    documents = Documents()
    run_agent(tmp_path, Script(SEARCH, SEARCH, VISIT, VISIT, ANSWER), documents)
    assert documents.searches == ["ferry"]
    assert documents.fetches == ["https://a.example/1"]


def test_a_failed_tool_is_told_and_never_remembered(tmp_path: Path) -> None:
    script = Script(SEARCH, ANSWER)
    run_agent(tmp_path, script, Documents(broken=True))
    assert "Error" in script.shown[1][-1]["content"]
    assert b'"ok":true' not in (tmp_path / "steps.jsonl").read_bytes()


def test_an_unreadable_call_is_told_as_such(tmp_path: Path) -> None:
    script = Script('<tool_call>{"name": "fly", "arguments": {}}</tool_call>', ANSWER)
    trace = run_agent(tmp_path, script, Documents())
    assert isinstance(trace, Trace)
    assert [turn.kind for turn in trace.turns][:1] == ["invalid"]
    assert "could not be read" in script.shown[1][-1]["content"]


def test_nothing_but_thoughts_is_no_answer(tmp_path: Path) -> None:
    ended = run_agent(tmp_path, Script("<think>hm</think>"), Documents())
    assert isinstance(ended, UnusableOutput)


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_it_never_calls_the_model_more_often_than_allowed(tmp_path: Path, budget: int) -> None:
    script = Script(*[SEARCH] * (budget - 1), ANSWER, ANSWER)
    trace = run_agent(tmp_path, script, Documents(), max_turns=budget)
    assert isinstance(trace, Trace)
    assert trace.model_calls == budget == len(script.shown)
