"""The viewer's web server: addresses, static files, long bodies, and the process that serves them."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from cts_async.errors import UsageError
from cts_async.report.viewer.boards import Boards
from cts_async.report.viewer.events import Watching
from cts_async.report.viewer.files import opened
from cts_async.report.viewer.guard import NO_RUN, Refused, add_headers, guarded
from cts_async.report.viewer.library import Indexing, Library
from cts_async.report.viewer.pages import Answers

LONG: Final = 1 << 20
MAX_LONG: Final = 8
_PIECE: Final = 1 << 18


class Sending:
    """Counts the long bodies under way."""

    def __init__(self) -> None:
        self._long = 0

    async def send(self, request: web.Request, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
        """The answer to a request. Raises Refused where too many long ones are under way."""
        if len(body) <= LONG:
            return web.Response(body=body, headers=headers)
        if self._long >= MAX_LONG:
            raise Refused(503, "too many long texts at once: ask again")
        self._long += 1
        try:
            return await _sent(request, body, headers)
        finally:
            self._long -= 1


async def _sent(request: web.Request, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "Content-Length": str(len(body))})
    await response.prepare(request)
    whole = memoryview(body)
    for start in range(0, len(body) if request.method == "GET" else 0, _PIECE):
        await response.write(whole[start : start + _PIECE])
    await response.write_eof()
    return response


STATIC: Final = Path(__file__).resolve().with_name("static")
INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".woff2": "font/woff2",
}


def page_file(request: web.Request, name: str) -> web.Response:
    """The file of that name, or 304 where the browser has it. Raises Refused for any other name."""
    known = {path.name: path for path in STATIC.iterdir()} if STATIC.is_dir() else {}
    path = known.get(name)
    if path is None or path.suffix not in _TYPES:
        raise Refused(404, "there is no such page")
    with opened(path) as fd, open(fd, "rb", closefd=False) as file:
        data = file.read()
    tag = f'"{blake2b(data, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    binary = path.suffix in (".png", ".woff2")
    return web.Response(
        body=data,
        content_type=_TYPES[path.suffix],
        charset=None if binary else "utf-8",
        headers=headers,
    )


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


HOST: Final = "127.0.0.1"
PORT: Final = 8518
MORE_PORTS: Final = 20
"""Ports that are tried after the usual one, where somebody has that already."""
CLOSE_S: Final = 2.0
MAX_ADDRESS: Final = 1 << 16
"""Bytes of an address: a part of a trace is named by what the agent wanted, in Chinese nine bytes a character."""
SWITCH_S: Final = 0.001
"""How long a thread that indexes may keep the others waiting."""


def viewed_folder(path: Path) -> Path:
    """The folder to be shown, without links. Raises UsageError where it is none."""
    try:
        folder = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise UsageError(
            f"{path}: no such folder; name the folder that runs are in, or one run (cts run writes into runs/)"
        ) from None
    if not folder.is_dir():
        raise UsageError(f"{path}: is no folder; name the folder that runs are in, or one run")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be read")
    return folder


def listening(port: int | None) -> socket.socket:
    """A socket on `port`; without one on the usual port, or the next that is free. Raises UsageError."""
    ports = [port] if port is not None else range(PORT, PORT + MORE_PORTS)
    for wanted in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, wanted))
            sock.listen(128)
        except OSError as error:
            sock.close()
            if port is not None:
                raise UsageError(f"--port {port}: {_why(error)}; choose another --port") from None
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"{HOST}:{wanted}: {_why(error)}") from None
        else:
            return sock
    raise UsageError(f"ports {PORT} to {PORT + MORE_PORTS - 1} are all in use; choose a free one with --port")


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "somebody listens there already"
    if error.errno == errno.EACCES:
        return "only root may listen there"
    return error.strerror or str(error)


def runner_of(folder: Path, port: int) -> web.AppRunner:
    """The server over a folder, to be set up and given a socket on that port."""
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_ours)
    return web.AppRunner(
        Server(folder, lambda: port).app(),
        access_log=None,
        logger=logger,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=CLOSE_S,
        max_line_size=MAX_ADDRESS,
    )


def _is_ours(record: logging.LogRecord) -> bool:
    """Not what somebody sent that is no HTTP: a browser that tries https first would fill the terminal with it."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def serve(folder: Path, sock: socket.socket, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `started` is told the address."""
    sys.setswitchinterval(SWITCH_S)
    port = int(sock.getsockname()[1])
    runner = runner_of(folder, port)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, stop.set)
        started(f"http://{HOST}:{port}/")
        await stop.wait()
    finally:
        await runner.cleanup()
