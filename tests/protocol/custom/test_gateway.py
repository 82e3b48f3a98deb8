"""The gateway: a foreign agent's models, searches and pages go through the run's lanes and journal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from custom_roles import command, endpoint, play, played, script
from fake_provider import FakeProvider, Settings

from cts_async.engine.journal import read_records

AGENT = """
import json, sys, urllib.request

def post(address, **body):
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return response.read().decode()

for line in sys.stdin:
    asked = json.loads(line)
    query = asked["view"]["query"]
    hits = json.loads(post(asked["search_url"], q=query, num=2))["organic"]
    page = json.loads(post(asked["visit_url"], url=hits[0]["link"]))
    messages = [{"role": "user", "content": [{"type": "text", "text": "Sum up: " + page["text"][:200]}]}]
    events = post(asked["base_url"] + "/chat/completions", model="fake", messages=messages, stream=True)
    chunks = [json.loads(one[6:]) for one in events.split("\\n\\n") if one.startswith("data: {")]
    said = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert events.rstrip().endswith("data: [DONE]") and len(hits) == 2 and said
    source = {"url": page["url"], "title": page["title"], "text": page["text"]}
    print(json.dumps({"id": asked["id"], "answer": page["text"][:300], "sources": [source]}), flush=True)
"""


def steps(directory: Path) -> list[dict[str, Any]]:
    return list(read_records(directory / "runs/run/steps.jsonl"))


def test_a_foreign_agent_searches_reads_and_asks_through_the_run(tmp_path: Path) -> None:
    agent = command(script(tmp_path, "agent.py", AGENT))
    lines = played(tmp_path, "baseline", FakeProvider(Settings()), agent=agent)
    assert [line.get("error") for line in lines] == [None] * 4
    names = [record["step"] for record in steps(tmp_path) if record["instance"] == "s01"]
    assert [name for name in names if name.startswith("search")] == [
        "search/tool/1/query/1",
        "search/tool/2/page/1",
        "search/llm/1",
        "search",
    ]
    (record,) = [one for one in steps(tmp_path) if one["instance"] == "s01" and one["step"] == "search"]
    assert record["response"]["model_calls"] == 1
    assert record["response"]["text"] == lines[0]["answer"]
    assert all(line["restore_score_100"] > 0 for line in lines[:1])


async def _agent_with_tools(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Asks with tools offered, and a request that no client should send twice."""
    tools = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]
    body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    async with aiohttp.ClientSession() as session:
        answers = []
        for path, payload in [
            ("/chat/completions", body),
            ("/chat/completions", {"model": "nobody", "messages": [{"role": "user", "content": "hi"}]}),
            ("/chat/completions", {"model": "fake"}),
            ("/chat/completions", {**body, "n": 2}),
        ]:
            async with session.post(asked["base_url"] + path, json=payload) as response:
                answers.append((response.status, await response.json()))
        async with session.get(asked["base_url"] + "/models") as response:
            models = [one["id"] for one in (await response.json())["data"]]
        other = asked["base_url"].rsplit("/", 2)[0] + "/guessed/v1/models"
        async with session.get(other) as response:
            assert response.status == 404
        async with session.post(asked["visit_url"], json={"url": "https://nowhere.example/"}) as response:
            missing = response.status
    assert "fake" in models
    assert missing == 400
    assert [status for status, _ in answers] == [200, 400, 400, 400]
    assert "unknown model 'nobody'" in answers[1][1]["error"]["message"]
    choice = answers[0][1]["choices"][0]
    (called,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert (called["function"]["name"], json.loads(called["function"]["arguments"])) == (
        "search",
        {"query": "hi"},
    )
    return {"id": asked["id"], "answer": "hello"}


def test_the_gateway_answers_errors_in_openais_shape(tmp_path: Path) -> None:
    async def run() -> list[dict[str, Any]]:
        async with endpoint(_agent_with_tools) as url:
            return await play(tmp_path, "baseline", FakeProvider(Settings()), agent=url, limit=1)

    (line,) = asyncio.run(run())
    assert "error" not in line


DYING_AGENT = """
import json, pathlib, sys, urllib.request

marker = pathlib.Path(__file__).with_name("died.txt")
for line in sys.stdin:
    asked = json.loads(line)
    said = []
    for n in range(3):
        if n == 2 and not marker.exists():
            marker.touch()
            sys.exit(1)
        body = {"model": "fake", "messages": [{"role": "user", "content": "the same"}], "seed": 1}
        request = urllib.request.Request(asked["base_url"] + "/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request) as response:
            said.append(json.load(response)["choices"][0]["message"]["content"])
    print(json.dumps({"id": asked["id"], "answer": " ".join(said)}), flush=True)
"""


def test_what_an_agent_that_died_had_asked_is_answered_from_the_journal(tmp_path: Path) -> None:
    """It dies after two of three equal questions; begun again, it is given their answers in their order."""
    provider = FakeProvider(Settings())
    agent = command(script(tmp_path, "agent.py", DYING_AGENT))
    (line,) = played(tmp_path, "baseline", provider, agent=agent, limit=1)
    assert "error" not in line
    assert len(provider.seen) == 3
    asked = [one for one in steps(tmp_path) if one["step"].startswith("search/llm")]
    assert len({one["key"] for one in asked}) == len(asked) == 3
