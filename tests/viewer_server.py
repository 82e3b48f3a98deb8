"""The viewer's server on a real port, in a thread of its own, and somebody who asks it over HTTP.

It looks at the folder more often than the real one, so that nobody has to wait, and always answers with everything.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

from aiohttp import web

from cts_async.viewer import app, leaderboards, library, pages
from cts_async.viewer.app import runner_of
from cts_async.viewer.library import Library

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Asker:
    """`get` asks as a page of the server's own does; `send` whatever it is told to."""

    port: int

    def get(self, path: str, **asked: object) -> Any:
        """The JSON at `/api/PATH`; what is wrong is an AssertionError."""
        answer = self.api(path, **asked)
        assert answer.status == 200, answer.body
        return answer.json

    def until(self, path: str, is_there: Any, **asked: object) -> Any:
        """The first answer that `is_there` accepts."""
        for _ in range(400):
            found = self.get(path, **asked)
            if is_there(found):
                return found
            threading.Event().wait(0.02)
        raise AssertionError(f"never there: {found}")

    def api(self, path: str, **asked: object) -> Answer:
        return self.send("GET", f"/api/{path}?{urlencode(asked)}")

    def send(self, method: str, target: str, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, target, headers=named)
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def raw(self, request: str) -> Answer:
        """Send a request as it is, which http.client might refuse to write."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as client:
            client.sendall(request.encode())
            response = http.client.HTTPResponse(client)
            response.begin()
            return Answer(response.status, dict(response.headers), response.read())

    @contextmanager
    def listening(self, **asked: object) -> Iterator[Iterator[tuple[str, Any]]]:
        """The events that come, each with its data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"/api/events?{urlencode(asked)}")
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield _events(response)
        finally:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    while line := response.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


async def compute_here(subject: str, paths: Mapping[str, str]) -> Any:
    """Compute a leaderboard or a difference without a child process, which takes a second to start."""
    return json.loads(await asyncio.to_thread(leaderboards.numbers_of, subject, paths))


@contextmanager
def viewer(root: Path, *, computes_here: bool = False) -> Iterator[Asker]:
    """Serve `root` until the block ends. With `computes_here` leaderboards are computed without child processes."""
    compute = compute_here if computes_here else leaderboards._compute_in_child
    sock = socket.create_server(("127.0.0.1", 0))
    port = int(sock.getsockname()[1])
    loop = asyncio.new_event_loop()
    ready, ended = threading.Event(), asyncio.Event()

    async def main() -> None:
        runner = runner_of(Library(root))
        await runner.setup()
        await web.SockSite(runner, sock).start()
        ready.set()
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    with (
        patch.object(app, "EVERY_S", 0.05),
        patch.object(library, "FOUND_S", 0.02),
        patch.object(library, "COUNT_S", TIMEOUT_S),
        patch.object(pages, "FIRST_S", TIMEOUT_S),
        patch.object(leaderboards, "_compute_in_child", compute),
    ):
        thread.start()
        try:
            assert ready.wait(TIMEOUT_S)
            yield Asker(port)
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join(TIMEOUT_S)
            loop.close()
