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
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from cts_async.report.viewer.answers import Answers
from cts_async.report.viewer.guard import add_headers, guarded
from cts_async.report.viewer.indexing import Indexing
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.page_files import INDEX, page_file
from cts_async.report.viewer.refusal import Refused

T = TypeVar("T")

THREADS: Final = 4
MAX_URL: Final = 8190
"""Bytes of an address; aiohttp refuses longer ones."""


class Server:
    """Handlers over one folder. `port` tells which port they are asked on, once that is known."""

    def __init__(self, root: Path, port: Callable[[], int]) -> None:
        self.library = Library(root)
        self.answers = Answers(self.library)
        self._port = port
        self._threads = ThreadPoolExecutor(THREADS, "viewer")
        self._indexing = Indexing(self.library)

    def app(self) -> web.Application:
        """The application; it is to be run once."""
        app = web.Application(
            middlewares=[guarded(self._port)], logger=logging.getLogger(__name__), client_max_size=1024
        )
        app.on_response_prepare.append(add_headers)
        app.on_cleanup.append(self._close)
        app.router.add_get("/", partial(self._page, INDEX))
        app.router.add_get("/static/{name}", self._static)
        for name, answer in self.answers.by_name().items():
            app.router.add_get(f"/api/{name}", partial(self._json, answer))
        app.router.add_get("/api/text", self._text)
        app.router.add_get("/api/download", self._download)
        return app

    async def _json(self, answer: Callable[[dict[str, str]], Any], request: web.Request) -> web.Response:
        value = await self._work(partial(answer, _asked(request)))
        self._indexing.wake()
        body = value if isinstance(value, bytes) else orjson.dumps(value)
        return web.Response(body=body, content_type="application/json")

    async def _text(self, request: web.Request) -> web.Response:
        text = await self._work(partial(self.answers.text, _asked(request)))
        body = await self._work(partial(text.encode, errors="replace"))
        return web.Response(body=body, content_type="text/plain", charset="utf-8")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """An instance's steps as they stand in the journal, line by line, at the pace of whoever takes them."""
        name, lines = await self._work(partial(self.answers.download, _asked(request)))
        response = web.StreamResponse(
            headers={
                "Content-Type": "application/jsonl",
                "Content-Disposition": f'attachment; filename="{_file_name(name)}.jsonl"',
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

    async def _close(self, app: web.Application) -> None:
        self._indexing.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _file_name(text: str) -> str:
    """A name that is one anywhere: what is neither letter, digit, dot nor hyphen becomes a hyphen."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-.")[:100] or "steps"


def _asked(request: web.Request) -> dict[str, str]:
    """The address' parameters. Raises Refused for one that is there twice, or is no text."""
    asked: dict[str, str] = {}
    for name, value in request.query.items():
        if name in asked:
            raise Refused(400, f"{name}: is there twice")
        asked[name] = value
    return asked
