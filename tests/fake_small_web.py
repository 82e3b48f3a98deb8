"""A small web on loopback: a search endpoint, a page reader, and models that search, visit and answer.

The web counts what it is asked. The models are canned: the agent searches for its question, visits what it
found and two pages that do not exist, and answers with what it was last told.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from cts_async.engine.events import Usage
from cts_async.llm.apis import Reply

PAGE = "The ferry leaves at nine. " + "Gulls cry. " * 100


@dataclass
class FakeWeb:
    """`async with FakeWeb() as web`: `web.table` is what cts.toml says of it."""

    status: dict[str, int] = field(default_factory=dict)
    """HTTP status by a word in a query or an address; 200 for others."""
    asked: Counter[str] = field(default_factory=Counter)
    """Queries ("search q") and pages ("page https://...") by how often they were asked for."""
    port: int | None = None
    """Its address is part of what a run is: the same one again for a run that resumes."""
    _server: TestServer | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/search", self._search)
        app.router.add_post("/read", self._read)
        self._server = TestServer(app, port=self.port)
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            await self._server.close()

    @property
    def table(self) -> str:
        if self._server is None:
            raise RuntimeError("the web is not open")
        url = str(self._server.make_url("")).rstrip("/")
        return (
            f'[search.fake]\nkind = "http"\nurl = "{url}/search?q={{query}}"\nengine = "Fake"\n'
            "fields = { snippet = 'snippet' }\n"
            f'[visit.fake]\nkind = "http"\nurl = "{url}/read"\nbody = {{ url = "{{url}}" }}\n'
            'text = "text"\ntitle = "title"\n'
        )

    async def _search(self, request: web.Request) -> web.Response:
        query = request.query["q"]
        self.asked[f"search {query}"] += 1
        rows = [
            {"title": f"About {query}", "url": f"https://a.example/{n}", "snippet": "Ferries."}
            for n in (1, 2)
        ]
        return web.json_response({"results": rows}, status=self._status(query))

    async def _read(self, request: web.Request) -> web.Response:
        url = (await request.json())["url"]
        self.asked[f"page {url}"] += 1
        return web.json_response({"title": "Ferry", "text": PAGE}, status=self._status(url))

    def _status(self, asked: str) -> int:
        return next((status for word, status in self.status.items() if word in asked), 200)


@dataclass
class FakeModels:
    """Stands in for `Client.chat`; `asked` counts calls by role, `broken` roles answer with what is no JSON."""

    asked: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)
    stop_at: str = ""
    """The role at whose first call `error` is raised."""
    error: Exception | None = None

    async def __call__(self, client: object, spec: Any, request: Any) -> Reply:
        role, text = self._say(request.messages)
        if role == self.stop_at and self.error:
            raise self.error
        self.asked[role] += 1
        text = "no JSON at all" if role in self.broken else text
        return Reply(text, spec.model, "stop", Usage(100, 10))

    def _say(self, messages: Any) -> tuple[str, str]:
        asked = messages[1]["content"]
        if "<candidate_answer>" in asked:
            ids = re.findall(r"^(\S+): ", asked.partition("<nuggets>")[2], re.MULTILINE)
            return "judge", json.dumps({"results": [{"id": id, "coverage": "full"} for id in ids]})
        if "<page>" in asked:
            return "visit", '{"rational": "r", "evidence": "It leaves at nine.", "summary": "At nine."}'
        told = [m["content"] for m in messages[2:] if "<tool_response>" in m["content"]]
        if not told:
            query = asked.rpartition("User:")[2].strip()
            return "agent", call_text("search", query=[query, "ferry gone"])
        if len(told) == 1:
            urls = ["https://a.example/1", "https://a.example/gone", "https://b.example/gone"]
            return "agent", call_text("visit", url=urls, goal="when")
        return "agent", "<think>Enough.</think><answer>At nine.</answer>"


def call_text(name: str, **arguments: Any) -> str:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<think>Look.</think>\n<tool_call>\n{body}\n</tool_call>"
