"""The viewer's web server: its addresses, which requests it answers, and the process that serves.

A page from another site can make a browser request any address. Its own name can never be one of ours, so DNS
rebinding ends at the Host header; Origin and Sec-Fetch-Site say which site a request comes from. The port in Host
proves nothing: behind `ssh -L` or a mapped port it is another than ours.

The event loop only accepts requests and sends answers. A few threads read files, count and search; one more indexes
what is left, a slice at a time, so that an answer never waits for a whole file.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from cts_async.engine.listener import BoundedListener, connections_allowed
from cts_async.errors import UsageError
from cts_async.pages.markup import Markup, Node, element
from cts_async.runs.index import FILE_CHANGED, NO_RUN, Json, Refused, file_name
from cts_async.viewer.instances import Parameters
from cts_async.viewer.leaderboards import Leaderboards, board_csv
from cts_async.viewer.library import Changes, Indexer, Library
from cts_async.viewer.pages import Endpoints
from cts_async.viewer.versions import chosen_versions, versions_of

T = TypeVar("T")

HOST: Final = "127.0.0.1"
PORT: Final = 8518
MORE_PORTS: Final = 20
"""Ports tried after PORT if it is in use."""
THREADS: Final = 4
SHUTDOWN_S: Final = 2.0
MAX_ADDRESS: Final = 1 << 16
"""Bytes of an address. A search for text may have 1,000 characters, nine bytes each."""
SWITCH_S: Final = 0.001
"""How long an indexing thread may hold the interpreter while others wait."""
HEAP_BYTES: Final = 1 << 22
"""Freed memory that glibc may keep in each of its heaps. By itself it comes to keep twice the largest block that was
ever freed: 205 MB instead of 177 MB after 100,000 instances."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
LARGE: Final = 1 << 20
"""Bytes; larger bodies are sent piece by piece, MAX_LARGE at a time: a slow client keeps all of its body in memory."""
MAX_LARGE: Final = 8
_PIECE: Final = 1 << 18
_API: Final = "/api/"
_TO_THE_RUNS: Final = Markup('<p><a href="/">To the runs</a></p>')
STATIC: Final = Path(__file__).resolve().with_name("static")
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_LOOPBACK: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
"""What Host may be. No DNS server can give these names another address, and browsers write every other spelling of
the address (127.1, 0x7f000001) as the first."""
MAX_REQUESTS: Final = 64
"""Requests answered at the same time; further ones are refused with 503."""
MAX_LISTENERS: Final = 32
MAX_CONNECTIONS: Final = 256
CROSS_ORIGIN: Final = "cross-origin request refused"
LISTENER: Final = web.AppKey("listener", BoundedListener)
EVERY_S: Final = 1.0
"""How often the folder is looked at for each page that listens for events."""
HEARTBEAT_S: Final = 15.0
"""A listener receives something at least this often, so that it notices a server that is gone."""
HEARTBEAT: Final = b": here\n\n"


class Server:
    """Request handlers over runs."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.answers = Endpoints(self.library)
        self._threads = ThreadPoolExecutor(THREADS, "viewer")
        self._indexer = Indexer(self.library, self.answers.prepare)
        self._leaderboards = Leaderboards()
        self._n_large = 0
        """Large bodies being sent."""
        self._n_listeners = 0
        self.listener = BoundedListener(connections_allowed(MAX_CONNECTIONS))
        self._ending = asyncio.Event()
        """Set when the server ends."""

    def app(self) -> web.Application:
        """The application, to be run once."""
        app = web.Application(
            middlewares=[guarded(self.listener)],
            logger=logging.getLogger(__name__),
            client_max_size=1024,
        )
        app[LISTENER] = self.listener
        app.on_response_prepare.append(add_headers)
        app.on_shutdown.append(self._shut_down)
        app.on_cleanup.append(self._clean_up)
        app.router.add_get("/", self._static)
        app.router.add_get("/static/{name}", self._static)
        for name, answer in self.answers.by_name().items():
            app.router.add_get(f"/api/{name}", partial(self._json, answer))
        app.router.add_get("/api/leaderboard", self._leaderboard)
        app.router.add_get("/api/difference", self._difference)
        app.router.add_get("/api/events", self._events)
        app.router.add_get("/api/text", self._text)
        app.router.add_get("/api/download", partial(self._file, self.answers.download, "application/jsonl"))
        app.router.add_get("/api/csv", self._csv)
        return app

    async def _json(
        self, answer: Callable[[dict[str, str]], Any], request: web.Request
    ) -> web.StreamResponse:
        parameters = _parameters(request)

        def body() -> bytes:
            value = answer(parameters)
            # A journal line is sent as it stands in its file.
            if isinstance(value, bytes):
                return value
            return orjson.dumps(value)

        content = await self._in_thread(body)
        self._indexer.wake()
        return await self._send(request, content, {"Content-Type": "application/json"})

    async def _leaderboard(self, request: web.Request) -> web.Response:
        board = await self._board(_parameters(request))
        return web.Response(body=orjson.dumps(board), content_type="application/json")

    async def _difference(self, request: web.Request) -> web.Response:
        from cts_async.viewer.matrix import two_runs

        runs = await self._in_thread(partial(two_runs, self.library, _parameters(request)))
        difference = await self._leaderboards.difference(runs)
        return web.Response(body=orjson.dumps(difference), content_type="application/json")

    async def _board(self, parameters: Parameters) -> Json:
        data_sha = parameters.get("data", "")
        # Named by what `cts demo` prints: an address with digests would be two lines long.
        if not data_sha:
            data_sha = await self._in_thread(self.library.shown_data)
        runs = await self._in_thread(partial(chosen_versions, self.library, data_sha, parameters))
        if not runs:
            raise Refused(404, "no runs over these data")
        board = await self._leaderboards.leaderboard(data_sha, runs)
        names = [place.name for place, _ in runs]
        board["versions"] = await self._in_thread(partial(versions_of, self.library, names))
        return board

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """A run's row whenever its files change, as server-sent events; of all runs if none is named."""
        run = _parameters(request).get("run", "")
        if run and await self._in_thread(partial(self.library.get, run)) is None:
            raise Refused(404, NO_RUN)
        if self._n_listeners >= MAX_LISTENERS:
            raise Refused(503, "too many pages are open: close one")
        self._n_listeners += 1
        try:
            response = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            )
            await response.prepare(request)
            if request.method == "GET":
                with suppress(ConnectionError):
                    await self._send_changes(response, Changes(self.library, run))
            with suppress(ConnectionError):
                await response.write_eof()
            return response
        finally:
            self._n_listeners -= 1

    async def _send_changes(self, response: web.StreamResponse, changes: Changes) -> None:
        """Send changes until the server ends, or the client closes the connection (ConnectionError)."""
        await response.write(HEARTBEAT)
        written = time.monotonic()
        while not self._ending.is_set():
            try:
                events = await self._in_thread(changes.next)
            # A bug, or a folder removed at this moment: the next look may succeed.
            except Exception:
                logging.getLogger(__name__).exception("looking for changes failed")
                events = b""
            if events or time.monotonic() - written >= HEARTBEAT_S:
                await response.write(events or HEARTBEAT)
                written = time.monotonic()
            self._indexer.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._ending.wait()

    async def _text(self, request: web.Request) -> web.StreamResponse:
        parameters = _parameters(request)
        body = await self._in_thread(lambda: self.answers.text(parameters).encode(errors="replace"))
        return await self._send(request, body, {"Content-Type": "text/plain; charset=utf-8"})

    async def _csv(self, request: web.Request) -> web.StreamResponse:
        """The instances of runs that pass the filters, or a leaderboard once it is computed."""
        parameters = _parameters(request)
        if "run" in parameters or "runs" in parameters:
            return await self._file(self.answers.csv, "text/csv; charset=utf-8", request)
        board = await self._board(parameters)
        while board["computing"] and not board["boards"]:
            board = await self._board(parameters)
        name = file_name(f"{board['data']}-leaderboard", "csv")
        return await self._send_file(request, name, "text/csv; charset=utf-8", board_csv(board))

    async def _file(
        self,
        answer: Callable[[dict[str, str]], tuple[str, Iterator[bytes]] | None],
        kind: str,
        request: web.Request,
    ) -> web.StreamResponse:
        """A file, once all of it is indexed: one that ends early would look complete."""
        parameters = _parameters(request)
        file = await self._in_thread(partial(answer, parameters))
        # Each try indexes a part of what is left.
        while file is None:
            file = await self._in_thread(partial(answer, parameters))
        name, pieces = file
        return await self._send_file(request, name, kind, pieces)

    async def _send_file(
        self, request: web.Request, name: str, kind: str, pieces: Iterator[bytes]
    ) -> web.StreamResponse:
        """Send a file to be saved, piece by piece at the client's pace."""
        headers = {"Content-Type": kind, "Content-Disposition": f'attachment; filename="{name}"'}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        # HEAD asks for the headers only, for which nothing is read.
        if request.method == "GET":
            piece = await self._in_thread(partial(next, pieces, None))
            while piece is not None:
                await response.write(piece)
                piece = await self._in_thread(partial(next, pieces, None))
        await response.write_eof()
        return response

    async def _static(self, request: web.Request) -> web.FileResponse:
        """A file of the page. Raises Refused for any other name."""
        path = STATIC / request.match_info.get("name", "index.html")
        if path.suffix not in _TYPES or path.parent != STATIC or not path.is_file():
            raise Refused(404, "no such page")
        kind = f"{_TYPES[path.suffix]}; charset=utf-8"
        return web.FileResponse(path, headers={"Content-Type": kind, "Cache-Control": "no-cache"})

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _send(
        self, request: web.Request, body: bytes, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send a body. Raises Refused if too many large ones are being sent."""
        if len(body) <= LARGE:
            return web.Response(body=body, headers=headers)
        if self._n_large >= MAX_LARGE:
            raise Refused(503, "too many large answers at once: try again")
        self._n_large += 1
        try:
            response = web.StreamResponse(headers=headers)
            # Set here, as aiohttp knows it only of bodies that it has whole.
            response.content_length = len(body)
            await response.prepare(request)
            if request.method == "GET":
                # Slices of a view copy nothing.
                view = memoryview(body)
                for start in range(0, len(body), _PIECE):
                    await response.write(view[start : start + _PIECE])
            await response.write_eof()
            return response
        finally:
            self._n_large -= 1

    async def _shut_down(self, app: web.Application) -> None:
        self._ending.set()
        await self._leaderboards.close()

    async def _clean_up(self, app: web.Application) -> None:
        self._indexer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


# --- Checks of requests


def guarded(listener: BoundedListener) -> Middleware:
    """A middleware that refuses forbidden requests, and answers every failure: see `_failure`."""
    active = 0

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal active
        active += 1
        try:
            if not _is_for_this_machine(request):
                return _other_host(request)
            _check(request)
            if active > MAX_REQUESTS:
                raise Refused(503, "too many requests: try again")
            with listener.answering(request.transport):
                return await handler(request)
        except Refused as refused:
            return _failure(request, refused.status, refused.message)
        except web.HTTPException as error:
            return _failure(request, error.status, error.reason.lower())
        except asyncio.CancelledError:
            raise
        except ConnectionError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            # The page was left: nobody receives this, and raised it would be logged as an error of ours.
            return web.Response()
        except Exception as error:
            # Part of the answer is sent: the client must see it break off.
            if request.writer.output_size:
                raise ConnectionAbortedError from error
            if isinstance(error, FileNotFoundError):
                return _failure(request, 409, FILE_CHANGED)
            # A bug. Its message may contain a path, which the client does not learn.
            request.app.logger.exception("%s failed", request.path)
            return _failure(request, 500, f"internal error ({type(error).__name__})")
        finally:
            active -= 1

    return guard


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers of every answer."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    if request.path.startswith(_API):
        response.headers["Cache-Control"] = "no-store"
    with suppress(KeyError):
        del response.headers["Server"]


def _is_for_this_machine(request: web.Request) -> bool:
    """Whether the request names this machine, at any port: in its one Host header, and in an absolute address."""
    hosts = request.headers.getall("Host", [])
    # "GET http://name/path": its name overrides Host (RFC 9112, 3.2.2).
    if not request.raw_path.startswith("/"):
        _, _, host_and_path = request.raw_path.partition("://")
        hosts.append(host_and_path.partition("/")[0])
    return bool(hosts) and all(_LOOPBACK.fullmatch(host) for host in hosts)


def _check(request: web.Request) -> None:
    """Refuse a request that is not one of the page's own, or of a link to the page. Raises Refused."""
    if request.method not in ("GET", "HEAD"):
        raise Refused(405, "only GET and HEAD are allowed")
    # Another port is another origin: it must be the very one that this browser reaches us by.
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() != f"http://{request.headers['Host']}".lower():
        raise Refused(403, CROSS_ORIGIN)
    # Links from other sites may lead to the page, but not to its data.
    site = request.headers.get("Sec-Fetch-Site")
    if request.path.startswith(_API) and site in ("cross-site", "same-site"):
        raise Refused(403, CROSS_ORIGIN)


def _failure(request: web.Request, status: int, message: str) -> web.Response:
    """One line of JSON for a script, a page for a person."""
    headers: dict[str, str] = {}
    # Required with this status (RFC 9110, 15.5.6).
    if status == 405:
        headers["Allow"] = "GET, HEAD"
    if request.path.startswith(_API):
        body = orjson.dumps({"error": message})
        return web.Response(body=body, status=status, content_type="application/json", headers=headers)
    return _error_page(status, f"{message[:1].upper()}{message[1:]}.", _TO_THE_RUNS, headers)


def _other_host(request: web.Request) -> web.Response:
    """Refuse a request under a name that DNS may give to anybody, and say how the page is reached instead."""
    port = request.get_extra_info("sockname", (HOST, PORT))[1]
    forward = element("code", f"ssh -L {port}:{HOST}:{port} NAME")
    steps = element(
        "ul",
        element(
            "li",
            "On the computer that runs the viewer, or where its port is forwarded to: open ",
            element("code", f"http://localhost:{port}/"),
            ", with the port that you forward if it is another.",
        ),
        element(
            "li", "On another computer, forward the port with ", forward, ", then open that address there."
        ),
        element(
            "li",
            "Behind a proxy, let it send the header ",
            element("code", f"Host: localhost:{port}"),
            ". Whoever reaches the proxy can then read your runs.",
        ),
        element(
            "li",
            "For a web server, write the pages as files: ",
            element("code", "cts view --export DIR"),
            ".",
        ),
    )
    message = (
        "This viewer answers only to the names localhost, 127.0.0.1 and [::1], at any port: a web site could give "
        "any other name this machine's address, and read your runs through your browser."
    )
    return _error_page(403, message, steps)


def _error_page(
    status: int, message: str, help: Node, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A page for a person, without scripts or styles: those may be refused, too."""
    title = f"cts view: {HTTPStatus(status).phrase.lower()} ({status})"
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
        ),
        element("body", element("h1", title), element("p", message), help),
        lang="en",
    )
    text = f"<!doctype html>\n{page}\n"
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=headers)


def _parameters(request: web.Request) -> dict[str, str]:
    """The parameters of an address. Raises Refused for one that is given twice."""
    parameters: dict[str, str] = {}
    for name, value in request.query.items():
        if name in parameters:
            raise Refused(400, f"{name}: is given twice")
        parameters[name] = value
    return parameters


# --- Serving


def viewed(paths: Sequence[Path], *, newest_only: bool = False) -> Library:
    """The runs in these folders, or only the newest version of each. Raises UsageError if one is no readable folder."""
    folders = [viewed_folder(path) for path in paths]
    return Library(Path(os.path.commonpath(folders)), folders, newest_only=newest_only)


def viewed_folder(path: Path) -> Path:
    """The folder to show, links resolved. Raises UsageError if it is not a readable folder."""
    try:
        folder = path.resolve(strict=True)
        if not folder.is_dir():
            raise NotADirectoryError
    except (OSError, RuntimeError):
        raise UsageError(
            f"{path}: no such folder, or not a folder; name the folder that contains runs, or one run "
            "(cts run writes into runs/)"
        ) from None
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be read")
    return folder


def listening(port: int | None) -> socket.socket:
    """A socket on `port`; for None on PORT or the next free one. Raises UsageError."""
    ports: Sequence[int] = range(PORT, PORT + MORE_PORTS)
    if port is not None:
        ports = [port]
    for candidate in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # A viewer that has just ended leaves connections behind, which would keep the port for a minute.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, candidate))
            sock.listen(128)
        except OSError as error:
            sock.close()
            if port is not None:
                raise UsageError(f"--port {port}: {_reason(error)}; choose another --port") from None
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"{HOST}:{candidate}: {_reason(error)}") from None
        else:
            return sock
    raise UsageError(f"ports {PORT} to {PORT + MORE_PORTS - 1} are all in use; choose a free one with --port")


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "already in use"
    if error.errno == errno.EACCES:
        return "only root may use it"
    return error.strerror or str(error)


def runner_of(library: Library) -> web.AppRunner:
    """The server over runs, to be set up and given a socket."""
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_not_malformed_request)
    return web.AppRunner(
        Server(library).app(),
        access_log=None,
        logger=logger,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_S,
        max_line_size=MAX_ADDRESS,
    )


def _is_not_malformed_request(record: logging.LogRecord) -> bool:
    """False for requests that are not HTTP: a browser that tries https first would fill the terminal."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def serve(library: Library, sock: socket.socket, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `started` receives the address."""
    sys.setswitchinterval(SWITCH_S)
    _return_freed_memory()
    port = int(sock.getsockname()[1])
    runner = runner_of(library)
    await runner.setup()
    try:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, stop.set)
        factory = cast("Callable[[], asyncio.BaseProtocol]", runner.server)
        async with runner.app[LISTENER].serving(sock, factory):
            started(f"http://{HOST}:{port}/")
            await stop.wait()
    finally:
        await runner.cleanup()


def _return_freed_memory() -> None:
    # Other C libraries than glibc have no such function.
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, HEAP_BYTES)
        mallopt(_M_MMAP_THRESHOLD, HEAP_BYTES)
