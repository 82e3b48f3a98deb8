"""Requests of Tongyi DeepResearch's loop, field by field, to a fake model server and fake tools.

They were written from a description of its program (parameters, messages, limits, Serper's fields), not from this
package. What differs on purpose stands in docs/usage.md, "Tongyi DeepResearch".
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from fake_clone import SEARCH_LINE, VISIT_LINE, make_clone
from fake_web import served

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.model import input_tokens
from cts_async.protocol.audit import audit_run
from cts_async.protocol.plan import make_plan
from cts_async.protocol.prompt_import import read_clone
from cts_async.protocol.run import run_plan
from cts_async.runs.open_run import whole_run
from cts_async.runs.results import latest_results
from cts_async.runs.trace import whole_events

SEARCHES = (
    "<think>\nI look.\n</think>\n<tool_call>\n"
    '{"name": "search", "arguments": {"query": ["tower", "铁塔"]}}\n</tool_call>'
)
TWO_CALLS = (
    "<think>\nI read.\n</think>\n<tool_call>\n"
    '{"name": "visit", "arguments": {"url": ["https://a.example/"], "goal": "its year"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "search", "arguments": {"query": ["never"]}}\n</tool_call>'
)
ANSWERS = "<think>\nEnough.\n</think>\n<answer>In 1889.</answer>"
DEMAND = "Answer with the facts above, inside <answer></answer>. No tool calls are left."
# 100,000 tokens of ours: the program cuts a page to 95,000.
PAGE = "Built in 1889. " * 27_000
EVIDENCE = "It was built in 1889. " * 300
FIRST_RESPONSE = (
    "<tool_response>\nA Google search for 'tower' found 1 results:\n\n## Web Results\n"
    "1. [Tower](https://a.example/)\n\nA tower.\n=======\n"
    "A Google search for '铁塔' found 1 results:\n\n## Web Results\n1. [Tower](https://a.example/)\n\nA tower.\n"
    "</tool_response>"
)


@dataclass
class Program:
    """The servers that the program asks: the agent, the summariser, Serper and Jina; each request is kept."""

    turns: list[str]
    page: str = PAGE
    unread: int = 0
    """How many of the summariser's first replies are nothing that can be used, or refused as too long."""
    too_long: tuple[int, ...] = ()
    """Which of the agent's requests are refused as too long, counted from 1."""
    delay_s: float = 0.0
    """How long the agent's model takes for a turn."""
    agent: list[dict[str, Any]] = field(default_factory=list)
    summariser: list[dict[str, Any]] = field(default_factory=list)
    serper: list[dict[str, Any]] = field(default_factory=list)
    jina: list[tuple[str, str]] = field(default_factory=list)

    async def reply(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/agent/chat/completions":
            self.agent.append(await request.json())
            await asyncio.sleep(self.delay_s)
            if len(self.agent) in self.too_long:
                return _too_long()
            return _completion(self.turns[len(self.agent) - 1])
        if request.path == "/summariser/chat/completions":
            self.summariser.append(await request.json())
            if len(self.summariser) <= self.unread:
                return _too_long()
            body = {"rational": "r", "evidence": EVIDENCE, "summary": "Built in 1889."}
            return _completion(web.json_response(body).text or "")
        if request.path == "/search":
            self.serper.append(await request.json())
            result = {"title": "Tower", "link": "https://a.example/", "snippet": "A tower."}
            return web.json_response({"organic": [result]})
        self.jina.append((request.raw_path, request.headers["Accept"]))
        return web.Response(text=self.page)


def _too_long() -> web.Response:
    error = {"code": "context_length_exceeded", "message": "maximum context length exceeded"}
    return web.json_response({"error": error}, status=400)


def _completion(text: str) -> web.Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return web.json_response({"model": "Tongyi-DeepResearch-30B-A3B", "choices": [choice], "usage": usage})


def searched(folder: Path, program: Program, *, table: str = "", **options: Any) -> Path:
    """Search one query with these servers; gives the run directory."""

    async def main() -> Path:
        async with served(program.reply) as base:
            environ = {"TONGYI_BASE_URL": f"{base}/agent", "SERPER_API_KEY": "serper", "JINA_API_KEY": "jina"}
            data, config = folder / "data.jsonl", folder / "cts.toml"
            data.write_text(
                '{"id": "1", "fused_query": "When was it built?", "blurred_query": "When was it built?"}\n'
            )
            config.write_text(
                f'[models.summariser]\nbase_url = "{base}/summariser"\nmodel = "s-1"\n'
                f'{table}[search.serper]\nurl = "{base}/search"\n[visit.jina]\nurl = "{base}"\n'
            )
            asked = RunConfig(
                data=str(data),
                models=(),
                references=("orig",),
                agent="tongyi",
                visit_model="summariser",
                search="serper",
                visit="jina",
                no_judge=True,
                date="2026-11-26",
                runs_dir=folder / "runs",
                config_file=config,
            )
            plan = make_plan(replace(asked, **options), load_catalogue(config), environ)
            await run_plan(plan, environ, Events())
            (directory,) = plan.systems.values()
            return directory

    return asyncio.run(main())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Path]:
    program = Program([SEARCHES, TWO_CALLS, ANSWERS])
    return program, searched(tmp_path_factory.mktemp("tongyi"), program)


def test_request_has_the_program_s_parameters_and_no_others(run: tuple[Program, Path]) -> None:
    program, _ = run
    for request in program.agent:
        parameters = {name: value for name, value in request.items() if name != "messages"}
        assert parameters == {
            "model": "Tongyi-DeepResearch-30B-A3B",
            "temperature": 0.6,
            "top_p": 0.95,
            "presence_penalty": 1.1,
            "max_tokens": 10_000,
            "stop": ["\n<tool_response>", "<tool_response>"],
            "stream": False,
        }


def test_messages_are_system_question_turns_and_responses(run: tuple[Program, Path]) -> None:
    program, _ = run
    first, second, third = (request["messages"] for request in program.agent)
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0]["content"].endswith("\n\nCurrent date: 2026-11-26")
    assert '<tools>\n{"type": "function", "function": {"name": "search", ' in first[0]["content"]
    assert first[1]["content"] == "When was it built?"
    assert second == [
        *first,
        {"role": "assistant", "content": SEARCHES},
        {"role": "user", "content": FIRST_RESPONSE},
    ]
    # The whole turn stays; its first call alone is made.
    assert third[len(second)] == {"role": "assistant", "content": TWO_CALLS}
    assert third[-1] == {
        "role": "user",
        "content": "<tool_response>\n"
        "The useful information in https://a.example/ for user goal its year as follows:\n\n"
        f"Evidence in page:\n{EVIDENCE.strip()}\n\nSummary:\nBuilt in 1889.\n</tool_response>",
    }
    assert [request["q"] for request in program.serper].count("never") == 0


def test_serper_is_asked_for_the_place_and_language_of_the_query(run: tuple[Program, Path]) -> None:
    program, _ = run
    assert sorted(program.serper, key=lambda request: str(request["q"])) == [
        {"q": "tower", "location": "United States", "gl": "us", "hl": "en"},
        {"q": "铁塔", "location": "China", "gl": "cn", "hl": "zh-cn"},
    ]


def test_user_s_own_serper_fields_go_before_the_mode_s(tmp_path: Path) -> None:
    program = Program([SEARCHES, ANSWERS])
    searched(tmp_path, program, table='[search.serper.params]\ngl = "uk"\n')
    assert sorted(request["gl"] for request in program.serper) == ["uk", "uk"]


def test_page_is_fetched_as_text_and_cut_before_the_summariser(run: tuple[Program, Path]) -> None:
    program, _ = run
    assert program.jina == [("/https://a.example/", "*/*")]
    (request,) = program.summariser
    # Its length is bounded twice: the journal records 200,000 characters of a page.
    assert 190_000 < len(request["messages"][-1]["content"]) < 201_000


def test_page_of_more_than_95_000_tokens_is_cut(tmp_path: Path) -> None:
    # 200,000 ideographs: three bytes each, four bytes a token by our estimate.
    program = Program([TWO_CALLS, ANSWERS], page="塔" * 200_000)
    searched(tmp_path, program)
    (request,) = program.summariser
    assert request["messages"][-1]["content"].count("塔") == 95_000 * 4 // 3


def test_page_that_cannot_be_read_is_tried_with_70_percent_three_times(tmp_path: Path) -> None:
    program = Program([TWO_CALLS, ANSWERS], page="x" * 10_000, unread=2)
    directory = searched(tmp_path, program)
    lengths = [request["messages"][-1]["content"].count("x") for request in program.summariser]
    assert lengths == [10_000, 7_000, 4_900]
    assert EVIDENCE.strip() in program.agent[1]["messages"][-1]["content"]
    # Another session reads what was read before, though the longer page could be read now.
    again = Program([], page="x" * 10_000)
    searched(tmp_path, again)
    assert (again.agent, again.summariser) == ([], [])
    assert audit_run(directory).held


def test_page_is_read_by_its_words_after_the_last_try(tmp_path: Path) -> None:
    program = Program([TWO_CALLS, ANSWERS], page="The year is 1889. " * 100, unread=99)
    searched(tmp_path, program)
    assert len(program.summariser) == 4
    assert "no model could read this page" in program.agent[1]["messages"][-1]["content"]


def test_beyond_the_token_limit_the_demand_takes_the_place_of_the_last_message(tmp_path: Path) -> None:
    first = Program([ANSWERS])
    (tmp_path / "first").mkdir()
    searched(tmp_path / "first", first)
    limit = int(input_tokens(first.agent[0]["messages"])) + 200
    table = f'[models.tongyi.agent]\nmode = "tongyi"\nmax_input_tokens = {limit}\n'
    program = Program([SEARCHES, TWO_CALLS, ANSWERS])
    directory = searched(tmp_path, program, table=table)
    second, last = program.agent[1]["messages"], program.agent[2]["messages"]
    # Nothing is cut before: the second request is whole.
    assert second[-1] == {"role": "user", "content": FIRST_RESPONSE}
    assert last == [
        *second,
        {"role": "assistant", "content": TWO_CALLS},
        {"role": "user", "content": DEMAND},
    ]
    (line,) = latest_results(directory / "results.jsonl").values()
    assert (line["answer"], line["search"]["forced"], line["search"]["model_calls"]) == ("In 1889.", True, 3)
    assert audit_run(directory).held
    opened = whole_run(directory, journal=True)
    assert opened is not None
    events = [(event.kind, event.request) for event in whole_events(opened, "1")]
    assert ("dropped", "search/turn/2") in events
    assert "forced" in [kind for kind, _ in events]


@pytest.mark.parametrize("too_long", [(2,), (2, 3)])
def test_conversation_that_the_server_refuses_ends_with_the_demand_once(
    tmp_path: Path, too_long: tuple[int, ...]
) -> None:
    program = Program([SEARCHES, "", ANSWERS], too_long=too_long)
    directory = searched(tmp_path, program)
    assert [request["messages"][-1]["content"] for request in program.agent[1:]] == [FIRST_RESPONSE, DEMAND]
    (line,) = latest_results(directory / "results.jsonl").values()
    if too_long == (2,):
        assert line["answer"] == "In 1889."
    else:
        assert "maximum context length exceeded" in line["error"]["message"]


def test_no_answer_is_demanded_at_the_last_call(tmp_path: Path) -> None:
    program = Program([SEARCHES, TWO_CALLS])
    directory = searched(tmp_path, program, max_turns=2)
    (line,) = latest_results(directory / "results.jsonl").values()
    assert line["error"]["kind"] == "no_answer"
    assert (len(program.agent), program.jina) == (2, [])


def test_search_ends_when_its_calls_have_taken_its_minutes_also_when_resumed(tmp_path: Path) -> None:
    table = '[models.tongyi.agent]\nmode = "tongyi"\nmax_minutes = 0.0005\n'
    program = Program([SEARCHES, ANSWERS], delay_s=0.05)
    directory = searched(tmp_path, program, table=table)
    (line,) = latest_results(directory / "results.jsonl").values()
    assert line["error"]["kind"] == "no_answer"
    assert "its 0.0005 minutes are used up" in line["error"]["message"]
    assert len(program.agent) == 1
    # A turn that is remembered takes no time now, and counts with what it took.
    again = Program([])
    directory = searched(tmp_path, again, table=table)
    (line,) = latest_results(directory / "results.jsonl").values()
    assert (line["error"]["kind"], again.agent) == ("no_answer", [])


def test_imported_prompts_are_what_agent_and_summariser_are_sent(tmp_path: Path) -> None:
    imported = read_clone("tongyi", make_clone(tmp_path / "clone"))
    own = tmp_path / "own"
    own.mkdir()
    for name, data in imported.files.items():
        (own / name).write_bytes(data)
    program = Program([TWO_CALLS, ANSWERS], page="Built in 1889.")
    directory = searched(tmp_path, program, prompts=(str(own),))
    assert program.agent[0]["messages"] == [
        {
            "role": "system",
            "content": f"You research deeply.\n\n# Tools\n\n<tools>\n{SEARCH_LINE}\n{VISIT_LINE}\n</tools>\n\n"
            "Current date: 2026-11-26",
        },
        {"role": "user", "content": "When was it built?"},
    ]
    (summary,) = program.summariser
    assert summary["messages"] == [{"role": "user", "content": "Read Built in 1889. for its year."}]
    assert directory.name.endswith("+prompts-own")
    assert SEARCH_LINE in (directory / "prompts/agent.tongyi.txt").read_text()
    assert audit_run(directory).held
    # As a named set for the players that are named with it.
    named = Program([ANSWERS])
    searched(tmp_path, named, prompts=(f"theirs={own}",), agent="tongyi@theirs", runs_dir=tmp_path / "named")
    assert named.agent[0]["messages"] == program.agent[0]["messages"]


def test_token_limit_is_counted_by_the_model_s_tokenizer_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Letters:
        """A tokenizer that has a token for each letter."""

        @classmethod
        def from_str(cls, text: str) -> Letters:
            return cls()

        def no_truncation(self) -> None:
            pass

        def encode(self, text: str, *, add_special_tokens: bool) -> SimpleNamespace:
            return SimpleNamespace(ids=list(text))

    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=Letters))
    (tmp_path / "tokenizer.json").write_text("{}")
    program = Program([SEARCHES, ANSWERS])
    # By our estimate the conversation has about a quarter of that.
    table = '[models.tongyi.agent]\nmode = "tongyi"\nmax_input_tokens = 2000\ntokenizer = "tokenizer.json"\n'
    directory = searched(tmp_path, program, table=table)
    messages = program.agent[1]["messages"]
    assert input_tokens(messages) < 800
    assert messages[-1] == {"role": "user", "content": DEMAND}
    agent = json.loads((directory / "run.json").read_text())["identity"]["agent"]
    assert agent["tokenizer"] == hashlib.sha256(b"{}").hexdigest()


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (
            '{ mode = "tongyi", tokenizer = 1 }',
            "agent.tokenizer in cts.toml is 1; write the path of a tokenizer.json",
        ),
        ('{ mode = "tongyi", tokenizer = "none.json" }', r"none\.json"),
        ('{ mode = "as-published", tokenizer = "x" }', "does not go with cut_in_middle"),
    ],
)
def test_tokenizer_that_cannot_be_used_is_said_before_the_first_call(
    tmp_path: Path, agent: str, problem: str
) -> None:
    program = Program([])
    with pytest.raises(UsageError, match=problem):
        searched(tmp_path, program, table=f"[models.tongyi]\nagent = {agent}\n")
    assert program.agent == []
