"""Requests of a search as published, field by field: those of WebDancer's public demo.

The servers and what they expect were written from a description of the demo (its parameters, messages, tool texts), not
from this package. What differs on purpose stands in docs/usage.md, "The agent as published".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fake_clone import SEARCH_LINE, VISIT_LINE, make_clone
from fake_web import served

from cts_async.config import RunConfig
from cts_async.engine.events import Events
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
    "I look for it.\n</think>\n<tool_call>\n"
    '{"name": "search", "arguments": {"query": ["tower", "spire"]}}\n</tool_call>'
)
VISITS = (
    "I read it.\n</think>\n<tool_call>\n"
    '{"name": "visit", "arguments": {"url": "https://a.example/tower_(paris)", "goal": "its year"}}\n</tool_call>'
)
# The demo runs the second call, since what counts stands behind the last thought; the first one stays in its history.
INVENTS = (
    'So.\n</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["never"]}}\n</tool_call>\n'
    "<tool_response>\nIn 1870.\n</tool_response>\n<think>\nI check.\n</think>\n<tool_call>\n"
    '{"name": "search", "arguments": {"query": ["check"]}}\n</tool_call>'
)
DROPPED = "\n<tool_response>\nIn 1871.\n</tool_response>"
ANSWERS = "Enough.\n</think>\n<answer>\nIn 1889.\n</answer>"

SNIPPET = "It was built in 1889. " + "Iron. " * 300
PAGE = (
    "Title: The tower\n\nURL Source: https://a.example/tower_(paris)\n\nMarkdown Content:\n"
    + "It was built in 1889. " * 5_000
)
EVIDENCE = "It was built in 1889. " * 300

FIRST_RESPONSE = (
    "<tool_response>\n"
    "A Google search for 'tower' found 2 results:\n\n## Web Results\n"
    "1. [Tower (1889)](https://a.example/tower_(paris))\nDate published: Mar 1, 2020\nSource: A\n\n"
    f"{SNIPPET.strip()}\n\n"
    "2. [Towers](https://b.example/)\n\nMany."
    "\n=======\n"
    "A Google search for 'spire' found 1 results:\n\n## Web Results\n"
    "1. [Spire](https://c.example/)\n\nOne."
    "\n</tool_response>"
)
SECOND_RESPONSE = (
    "<tool_response>\n"
    "The useful information in https://a.example/tower_(paris) for user goal its year as follows:\n\n"
    f"Evidence in page:\n{EVIDENCE.strip()}\n\nSummary:\nBuilt in 1889.\n"
    "</tool_response>"
)
ORGANIC: dict[str, list[dict[str, str]]] = {
    "tower": [
        {
            "title": "Tower (1889)",
            "link": "https://a.example/tower_(paris)",
            "snippet": SNIPPET,
            "date": "Mar 1, 2020",
            "source": "A",
        },
        {"title": "Towers", "link": "https://b.example/", "snippet": "Many."},
    ],
    "spire": [{"title": "Spire", "link": "https://c.example/", "snippet": "One."}],
    "never": [{"title": "Never", "link": "https://e.example/", "snippet": "No."}],
    "check": [{"title": "Check", "link": "https://d.example/", "snippet": "1889."}],
}


@dataclass
class Demo:
    """The servers that the demo asks: WebDancer, the extractor, Serper and Jina; each request is kept."""

    turns: list[str]
    agent: list[dict[str, Any]] = field(default_factory=list)
    extractor: list[dict[str, Any]] = field(default_factory=list)
    serper: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    jina: list[tuple[str, str, str, str]] = field(default_factory=list)

    async def reply(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/agent/chat/completions":
            self.agent.append(await request.json())
            return _completion(self.turns[len(self.agent) - 1])
        if request.path == "/extractor/chat/completions":
            self.extractor.append(await request.json())
            body = {"rational": "r", "evidence": EVIDENCE, "summary": "Built in 1889."}
            return _completion(web.json_response(body).text or "")
        if request.path == "/search":
            asked = await request.json()
            self.serper.append((request.method, asked, request.headers["X-API-KEY"]))
            return web.json_response({"organic": ORGANIC[asked["q"]]})
        headers = request.headers
        self.jina.append((request.method, request.raw_path, headers["Authorization"], headers["Accept"]))
        return web.Response(text=PAGE)


def _completion(text: str) -> web.Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return web.json_response({"model": "WebDancer-32B", "choices": [choice], "usage": usage})


def searched(folder: Path, demo: Demo, *, table: str = "", **options: Any) -> Path:
    """Search one query with these servers; gives the run directory."""

    async def main() -> Path:
        async with served(demo.reply) as base:
            environ = {
                "WEBDANCER_BASE_URL": f"{base}/agent",
                "SERPER_API_KEY": "serper-key",
                "JINA_API_KEY": "jina-key",
            }
            data, config = folder / "data.jsonl", folder / "cts.toml"
            data.write_text(
                '{"id": "1", "fused_query": "When was it built?", "blurred_query": "When was it built?"}\n'
            )
            config.write_text(
                f'[models.extractor]\nbase_url = "{base}/extractor"\nmodel = "qwen2.5-72b-instruct"\n'
                'params = { response_format = { type = "json_object" } }\n'
                '[roles]\nvisit = "extractor"\n'
                f'{table}[search.serper]\nurl = "{base}/search"\n[visit.jina]\nurl = "{base}"\n'
            )
            asked = RunConfig(
                data=str(data),
                models=(),
                references=("orig",),
                agent="webdancer",
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
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Demo, Path]:
    demo = Demo([SEARCHES, VISITS, INVENTS + DROPPED, ANSWERS])
    return demo, searched(tmp_path_factory.mktemp("published"), demo)


def test_request_has_the_demo_s_parameters_and_no_others(run: tuple[Demo, Path]) -> None:
    demo, _ = run
    for request in demo.agent:
        parameters = {name: value for name, value in request.items() if name != "messages"}
        assert parameters == {
            "model": "WebDancer-32B",
            "temperature": 0.6,
            "top_p": 0.95,
            "top_k": -1,
            "repetition_penalty": 1.1,
            "max_tokens": 32768,
            # The demo streams, which changes no text; `params = { stream = true }` does so here.
            "stream": False,
        }


def test_messages_are_system_question_turns_and_tool_responses_as_user_turns(run: tuple[Demo, Path]) -> None:
    demo, _ = run
    first, second, third, last = (request["messages"] for request in demo.agent)
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[0]["content"].endswith("\n\nCurrent date: 2026-11-26")
    assert first[1]["content"].endswith("\n\nUser: When was it built?")
    assert '<tools>\n{"type": "function", "function": {"name": "search", ' in first[1]["content"]
    assert second == [
        *first,
        {"role": "assistant", "content": SEARCHES},
        {"role": "user", "content": FIRST_RESPONSE},
    ]
    assert third[len(second) :] == [
        {"role": "assistant", "content": VISITS},
        {"role": "user", "content": SECOND_RESPONSE},
    ]
    # What was invented behind the last call is gone, what stands before the last thought is not.
    check = "A Google search for 'check' found 1 results:\n\n## Web Results\n1. [Check](https://d.example/)\n\n1889."
    assert last[len(third) :] == [
        {"role": "assistant", "content": INVENTS},
        {"role": "user", "content": f"<tool_response>\n{check}\n</tool_response>"},
    ]


def test_serper_is_asked_with_the_query_alone(run: tuple[Demo, Path]) -> None:
    demo, _ = run
    assert sorted(demo.serper, key=lambda asked: str(asked[1])) == [
        ("POST", {"q": "check"}, "serper-key"),
        ("POST", {"q": "spire"}, "serper-key"),
        ("POST", {"q": "tower"}, "serper-key"),
    ]


def test_jina_is_asked_for_its_text_form_with_a_bearer_key(run: tuple[Demo, Path]) -> None:
    demo, _ = run
    assert demo.jina == [("GET", "/https://a.example/tower_(paris)", "Bearer jina-key", "*/*")]


def test_extractor_gets_the_whole_page_in_json_mode_at_its_own_temperature(run: tuple[Demo, Path]) -> None:
    demo, _ = run
    (request,) = demo.extractor
    messages = request.pop("messages")
    json_mode = {"type": "json_object"}
    assert request == {"model": "qwen2.5-72b-instruct", "response_format": json_mode, "stream": False}
    # 110,000 characters: in strict mode the first 80,000.
    assert PAGE.strip() in messages[-1]["content"]
    assert "its year" in messages[-1]["content"]


def test_answer_is_that_of_the_tag_and_the_audit_holds(run: tuple[Demo, Path]) -> None:
    _, directory = run
    (line,) = latest_results(directory / "results.jsonl").values()
    assert (line["answer"], line["search"]["forced"], line["search"]["model_calls"]) == ("In 1889.", False, 4)
    assert line["search"]["made_up"] == 1
    opened = whole_run(directory, journal=True)
    assert opened is not None
    (invented,) = [event.text for event in whole_events(opened, "1") if event.kind == "invented"]
    assert (
        invented == "<tool_response>\nIn 1870.\n</tool_response>\n<tool_response>\nIn 1871.\n</tool_response>"
    )
    assert audit_run(directory).held


def test_long_conversation_is_cut_and_audit_and_trace_know(tmp_path: Path) -> None:
    demo = Demo([SEARCHES, VISITS, INVENTS + DROPPED, ANSWERS])
    opening = input_tokens(searched_opening(tmp_path / "whole"))
    # Room for the opening, and for half of what the visit brings.
    limit = int(opening) + 900
    table = f'[models.webdancer]\nagent = {{ mode = "as-published", max_input_tokens = {limit} }}\n'
    directory = searched(tmp_path, demo, table=table)
    sent = [request["messages"] for request in demo.agent]
    assert max(map(input_tokens, sent)) <= limit
    # The first step is gone, and the latest response has lost its middle; both of its ends are there.
    assert [message["content"] for message in sent[2][2:-1]] == [VISITS]
    latest = sent[2][-1]["content"]
    assert latest.startswith(SECOND_RESPONSE[:500])
    assert latest.endswith(SECOND_RESPONSE[-500:])
    assert audit_run(directory).held
    opened = whole_run(directory, journal=True)
    assert opened is not None
    room = [
        (event.kind, event.request) for event in whole_events(opened, "1") if event.kind in ("cut", "dropped")
    ]
    assert room[:2] == [("dropped", "search/turn/1"), ("cut", "search/turn/2")]


def searched_opening(folder: Path) -> list[dict[str, str]]:
    """The messages of a first request."""
    folder.mkdir()
    demo = Demo([ANSWERS])
    searched(folder, demo)
    messages: list[dict[str, str]] = demo.agent[0]["messages"]
    return messages


def test_no_answer_is_demanded_at_the_last_call(tmp_path: Path) -> None:
    demo = Demo([SEARCHES, VISITS])
    directory = searched(tmp_path, demo, max_turns=2)
    assert demo.agent[1]["messages"][-1] == {"role": "user", "content": FIRST_RESPONSE}
    (line,) = latest_results(directory / "results.jsonl").values()
    assert (line["error"]["kind"], demo.jina) == ("no_answer", [])


def test_strict_mode_differs_in_every_text_of_a_tool(tmp_path: Path) -> None:
    demo = Demo([SEARCHES, VISITS, INVENTS + DROPPED, ANSWERS])
    searched(tmp_path, demo, agent_mode="strict")
    messages = demo.agent[-1]["messages"]
    assert "https://a.example/tower_%28paris%29)\nDate published: Mar 1, 2020\nSource: A\nIt was" in str(
        messages[3]["content"]
    )
    assert len(messages[3]["content"]) < len(FIRST_RESPONSE) - 700
    assert len(messages[5]["content"]) < len(SECOND_RESPONSE) - 2_000
    # The turn ends before the first invention: its first call is the one that is made.
    assert messages[6]["content"] == INVENTS.partition("\n<tool_response>")[0]
    assert demo.jina[0][3] == "application/json"
    assert "the rest is left out here" in demo.extractor[0]["messages"][-1]["content"]


def test_imported_prompts_are_what_agent_and_extractor_are_sent(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name, data in read_clone("webdancer", make_clone(tmp_path / "clone")).files.items():
        (own / name).write_bytes(data)
    demo = Demo([VISITS, ANSWERS])
    searched(tmp_path, demo, prompts=(str(own),))
    system, user = demo.agent[0]["messages"]
    assert system["content"].startswith("You seek. Give up never.\n\nIt is [2026-11-26] now.\n\n# Tools\n\n")
    assert f"\n<tools>\n{SEARCH_LINE}\n{VISIT_LINE}\n</tools>\n" in system["content"]
    assert user["content"].endswith("</tool_call>\n\nUser: When was it built?")
    (request,) = demo.extractor
    (message,) = request["messages"]
    assert message["content"].startswith("Read this:\nTitle: The tower\n\nURL Source: ")
    assert message["content"].endswith('\n\nFor this: its year\n{\n  "evidence": "string"\n}')
