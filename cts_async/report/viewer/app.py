"""The viewer's server: its addresses, each answered by a function that a worker thread runs.

The loop only takes requests and sends answers. What reads files, counts or looks for text runs in a few threads,
and what is left to index in one more, a slice at a time, so that an answer never waits for a whole file.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from cts_async.report.viewer.answers import Answers
from cts_async.report.viewer.boards import Boards
from cts_async.report.viewer.guard import add_headers, guarded
from cts_async.report.viewer.indexing import Indexing
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.page_files import INDEX, page_file
from cts_async.report.viewer.refusal import NO_RUN, Refused
from cts_async.report.viewer.sending import Sending
from cts_async.report.viewer.watching import Watching

T = TypeVar("T")

THREADS: Final = 4


class Server:
    """Handlers over one folder. `port` tells which port they are asked on, once that is known."""

    def __init__(self, root: Path, port: Callable[[], int]) -> None:
        self.library = Library(root)
        self.answers = Answers(self.library)
        self._port = port
        self._threads = ThreadPoolExecutor(THREADS, "viewer")
        self._indexing = Indexing(self.library, self.answers.prepare)
        self._watching = Watching(self.library, self._work, self._indexing.wake)
        self._boards = Boards()
        self._sending = Sending()

    def app(self) -> web.Application:
        """The application; it is to be run once."""
        app = web.Application(
            middlewares=[guarded(self._port)], logger=logging.getLogger(__name__), client_max_size=1024
        )
        app.on_response_prepare.append(add_headers)
        app.on_shutdown.append(self._end)
        app.on_cleanup.append(self._close)
        app.router.add_get("/", partial(self._page, INDEX))
        app.router.add_get("/static/{name}", self._static)
        for name, answer in self.answers.by_name().items():
            app.router.add_get(f"/api/{name}", partial(self._json, answer))
        app.router.add_get("/api/leaderboard", self._leaderboard)
        app.router.add_get("/api/events", self._events)
        app.router.add_get("/api/text", self._text)
        app.router.add_get("/api/download", self._download)
        return app

    async def _json(
        self, answer: Callable[[dict[str, str]], Any], request: web.Request
    ) -> web.StreamResponse:
        asked = _asked(request)
        body = await self._work(lambda: _written(answer(asked)))
        self._indexing.wake()
        return await self._sending.send(request, body, {"Content-Type": "application/json"})

    async def _leaderboard(self, request: web.Request) -> web.Response:
        data_sha = _asked(request).get("data", "")
        runs = await self._work(partial(self.library.over, data_sha))
        if not runs:
            raise Refused(404, "there are no runs over these data here")
        board = await self._boards.of(data_sha, runs)
        return web.Response(body=orjson.dumps(board), content_type="application/json")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        run = _asked(request).get("run", "")
        if run and run not in (await self._work(self.library.find)).runs:
            raise Refused(404, NO_RUN)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        async with self._watching.listening(run) as events:
            await response.prepare(request)
            if request.method == "GET":
                with suppress(ConnectionError):
                    async for event in events:
                        await response.write(event)
        with suppress(ConnectionError):
            await response.write_eof()
        return response

    async def _text(self, request: web.Request) -> web.StreamResponse:
        asked = _asked(request)
        body = await self._work(lambda: self.answers.text(asked).encode(errors="replace"))
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if asked.get("download"):
            named = f"{asked.get('run', '')}-{asked.get('at', '')}"
            headers["Content-Disposition"] = _attached(named, "txt")
        return await self._sending.send(request, body, headers)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """An instance's steps as they stand in the journal, line by line, at the pace of whoever takes them."""
        asked = _asked(request)
        while await self._work(partial(self.answers.read_on, asked)):
            pass  # a file that holds the steps known by now would look like all of them
        name, lines = await self._work(partial(self.answers.download, asked))
        response = web.StreamResponse(
            headers={
                "Content-Type": "application/jsonl",
                "Content-Disposition": _attached(name, "jsonl"),
            }
        )
        await response.prepare(request)
        while request.method == "GET" and (line := await self._work(partial(next, lines, None))) is not None:
            await response.write(line)
        await response.write_eof()
        return response

    async def _page(self, name: str, request: web.Request) -> web.Response:
        return await self._work(partial(page_file, request, name))

    async def _static(self, request: web.Request) -> web.Response:
        return await self._page(request.match_info["name"], request)

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _end(self, app: web.Application) -> None:
        await self._watching.close()
        await self._boards.close()

    async def _close(self, app: web.Application) -> None:
        self._indexing.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _written(value: Any) -> bytes:
    """A value as JSON; bytes are that already."""
    return value if isinstance(value, bytes) else orjson.dumps(value)


def _attached(text: str, kind: str) -> str:
    """A header that makes a file of an answer; in its name is nothing but letters, digits, dots and hyphens."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-.")[:100] or "steps"
    return f'attachment; filename="{name}.{kind}"'


def _asked(request: web.Request) -> dict[str, str]:
    """The address' parameters. Raises Refused for one that is there twice, or is no text."""
    asked: dict[str, str] = {}
    for name, value in request.query.items():
        if name in asked:
            raise Refused(400, f"{name}: is there twice")
        asked[name] = value
    return asked
