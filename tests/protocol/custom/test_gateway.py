"""The gateway: a foreign agent's models, searches and pages go through the run's lanes and journal."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yarl
from aiohttp import web
from custom_roles import command, played, played_by, script
from fake_provider import FakeProvider, Settings

from cts_async.engine.events import Event, Events, Notice
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
    (line,) = played_by(tmp_path, _agent_with_tools, role="agent", limit=1)
    assert "error" not in line


async def _agent_whose_tools_fail(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answers as if nothing had happened."""
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(asked["visit_url"], json={"url": "https://nowhere.example/"}) as response:
                assert response.status == 400
        async with session.post(asked["search_url"], json={"q": "ferry"}) as response:
            assert response.status == 200
    return {"id": asked["id"], "answer": "hello"}


def test_failed_visits_of_a_foreign_agent_are_counted(tmp_path: Path) -> None:
    (line,) = played_by(tmp_path, _agent_whose_tools_fail, role="agent", limit=1)
    tools = line["search"]["tools"]
    assert (tools["searches"], tools["visits"]) == (1, 2)
    assert [(row["tool"], row["host"], row["n"]) for row in tools["failed"]] == [
        ("visit", "nowhere.example", 2)
    ]


def deep(levels: int) -> bytes:
    """A request whose message is nested as deeply as that."""
    nested = b'{"a":' * levels + b"1" + b"}" * levels
    return b'{"model": "fake", "messages": [{"role": "user", "content": [%b]}]}' % nested


CHAT = "/v1/chat/completions"
HELLO = b'{"model": "fake", "messages": [{"role": "user", "content": "hi"}]}'
ATTACKS: list[tuple[str, str, bytes, int]] = [
    ("POST", "/../guessed/v1/chat/completions", HELLO, 404),
    ("POST", "", b"", 404),
    ("POST", "/v1/embeddings", b"{}", 404),
    ("GET", CHAT, b"", 405),
    ("DELETE", "/search", b"", 405),
    ("POST", "/v1/models", b"{}", 405),
    ("POST", CHAT, b"hello", 400),
    ("POST", CHAT, b"[1]", 400),
    ("POST", CHAT, b"\xff\xfe", 400),
    ("POST", CHAT, deep(300), 400),
    ("POST", CHAT, deep(2000), 400),
    ("POST", CHAT, b'{"model": "fake", "messages": ["hi"]}', 400),
    ("POST", CHAT, b'{"model": "fake", "messages": [{"role": "user"}]}', 400),
    ("POST", CHAT, b'{"model": "fake", "messages": [{"role": "user", "content": ["hi"]}]}', 400),
    ("POST", CHAT, b'{"model": 7, "messages": [{"role": "user", "content": "hi"}]}', 400),
    ("POST", CHAT, b'{"model": "fake", "messages": {}}', 400),
    ("POST", CHAT, HELLO[:-1] + b', "max_tokens": -1e99}', 400),
    ("POST", CHAT, HELLO[:-1] + b', "max_tokens": -1000000}', 400),
    ("POST", CHAT, HELLO[:-1] + b', "max_completion_tokens": 9999999999999999}', 400),
    ("POST", CHAT, HELLO[:-1] + b', "best_of": 20}', 400),
    ("POST", CHAT, HELLO[:-1] + b', "max_tokens": null}', 200),
    ("POST", CHAT, HELLO[:-1] + b', "stream": true, "stream_options": [1]}', 200),
    ("POST", "/search", b'{"q": "ferry", "num": "many"}', 200),
    ("POST", "/search", b'{"q": ["ferry"]}', 400),
    ("POST", "/search", b'{"q": "  "}', 400),
    ("POST", "/visit", b'{"url": {"a": 1}}', 400),
    ("POST", "/visit", b'{"url": "file:///etc/passwd"}', 400),
    ("POST", "/search", b'{"q": "' + b"x" * (65 << 20) + b'"}', 413),
]


def test_whatever_a_client_sends_is_answered_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers: list[tuple[str, int, str]] = []
    ended: list[str] = []

    async def attack(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        base = asked["base_url"].removesuffix("/v1")
        ended.append(base)
        async with aiohttp.ClientSession() as session:
            for method, path, body, _ in ATTACKS:
                headers = {"Host": "evil.example"} if "guessed" in path else {}
                address = yarl.URL(base + path, encoded=True)
                async with session.request(
                    method, address, data=io.BytesIO(body), headers=headers
                ) as response:
                    answers.append((path, response.status, await response.text()))
            async with session.post(ended[0] + "/search", json={"q": "ferry"}) as response:
                answers.append(("ended", response.status, await response.text()))
        return {"id": asked["id"], "answer": "nothing found"}

    lines = played_by(tmp_path, attack, role="agent", limit=2, in_flight=1)
    assert [line.get("error") for line in lines] == [None, None]
    expected = [*((path, status) for _, path, _, status in ATTACKS)]
    assert [answer[:2] for answer in answers] == [*expected, ("ended", 200), *expected, ("ended", 404)]
    for path, status, text in answers:
        if status != 200:
            error = json.loads(text)["error"]["message"]
            assert error, path
            assert "\n" not in error
            assert len(error) < 400
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


IMPATIENT = """
import json, socket, sys, urllib.request

def post(address, body, timeout):
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.load(response)["choices"][0]["message"]["content"]

for line in sys.stdin:
    asked = json.loads(line)
    body = json.dumps({"model": "fake", "messages": [{"role": "user", "content": "slowly"}]}).encode()
    gave_up = 0
    while True:
        try:
            # Patient at last: who gives up as the reply arrives has paid for it.
            said = post(asked["base_url"] + "/chat/completions", body, 0.2 if gave_up < 2 else 30)
            break
        except TimeoutError:
            gave_up += 1
    assert gave_up == 2
    print(json.dumps({"id": asked["id"], "answer": said}), flush=True)
"""


def test_a_client_that_gives_up_and_asks_again_pays_once(tmp_path: Path) -> None:
    provider = FakeProvider(Settings(latency_s=1.0))
    agent = command(script(tmp_path, "agent.py", IMPATIENT))
    (line,) = played(tmp_path, "baseline", provider, agent=agent, limit=1)
    assert "error" not in line
    assert provider.paid.total() == 1


PERSISTENT = """
import json, sys, time, urllib.error, urllib.request

for line in sys.stdin:
    asked = json.loads(line)
    said = []
    while len(said) < 2:
        message = {"role": "user", "content": PROMPT}
        body = json.dumps({"model": "fake", "messages": [message]}).encode()
        request = urllib.request.Request(asked["base_url"] + "/chat/completions", body)
        try:
            with urllib.request.urlopen(request) as response:
                said.append(json.load(response)["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as error:
            assert error.headers["x-should-retry"] == "false"
    print(json.dumps({"id": asked["id"], "answer": said[1]}), flush=True)
"""


class RefusesFirst(FakeProvider):
    """Refuses the first request that it gets."""

    async def _sent(self, request: Any, *rest: Any) -> Any:
        if len(self.seen) == 1:
            return web.json_response({"error": {"message": "no"}}, status=400)
        return await super()._sent(request, *rest)


def begun_again(directory: Path, agent: str, provider: FakeProvider) -> str:
    """The notice of a run resumed as if it had been killed just before the agent replied."""
    log = directory / "runs/run/steps.jsonl"
    kept = [line for line in log.read_bytes().splitlines(True) if b'"step":"search"' not in line]
    log.write_bytes(b"".join(kept))
    (directory / "runs/run/results.jsonl").write_bytes(b"")
    seen: list[Event] = []
    (line,) = played(directory, "baseline", provider, agent=agent, limit=1, events=Events(seen.append))
    assert "error" not in line
    (notice,) = [one.text for one in seen if isinstance(one, Notice) and "begun again" in one.text]
    assert notice.startswith(agent)
    return notice.removeprefix(f"{agent}: ")


def test_a_question_that_failed_is_asked_again_under_its_number(tmp_path: Path) -> None:
    """Refused, then answered twice: begun again, its first question is the one that was answered first."""
    agent = command(script(tmp_path, "agent.py", PERSISTENT.replace("PROMPT", "'the same'")))
    first, second = RefusesFirst(), FakeProvider()
    played(tmp_path, "baseline", first, agent=agent, limit=1)
    assert first.paid.total() == 2
    notice = begun_again(tmp_path, agent, second)
    assert notice == "1 call was begun again: 2 of 2 model calls answered from the journal"
    assert len(second.seen) == 0
    (record,) = [one for one in steps(tmp_path) if one["step"] == "search"]
    assert (record["response"]["model_calls"], record["response"]["replayed"]) == (2, 2)


def test_agent_with_the_time_in_its_prompts_gets_a_note(tmp_path: Path) -> None:
    agent = command(script(tmp_path, "agent.py", PERSISTENT.replace("PROMPT", "f'It is {time.time_ns()}'")))
    provider = FakeProvider()
    played(tmp_path, "baseline", FakeProvider(), agent=agent, limit=1)
    notice = begun_again(tmp_path, agent, provider)
    assert notice.startswith("asked something else when its call was begun again: nothing could be replayed")
    assert provider.paid.total() == 2


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
    seen: list[Event] = []
    (line,) = played(tmp_path, "baseline", provider, agent=agent, limit=1, events=Events(seen.append))
    assert "error" not in line
    assert len(provider.seen) == 3
    (notice,) = [one.text for one in seen if isinstance(one, Notice) and "begun again" in one.text]
    assert notice == f"{agent}: 1 call was begun again: 2 of 2 model calls answered from the journal"
    asked = [one for one in steps(tmp_path) if one["step"].startswith("search/llm")]
    assert len({one["key"] for one in asked}) == len(asked) == 3
