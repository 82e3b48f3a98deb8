"""One POST over a pooled connection: whatever a server does, the answer is whole or the error is clear."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import aiohttp
import pytest

import cts_async
from cts_async.llm.http import ConnectionPool, HttpEndpoint, HttpResponse, encode_headers

T = TypeVar("T")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Runs each test on either loop."""
    return "asyncio", {"use_uvloop": request.param}


class Server:
    """Speaks raw bytes: `answers` are given to the requests of each connection in turn, and then it closes."""

    def __init__(self, *answers: bytes, then_close: bool = True) -> None:
        self.answers, self.then_close = answers, then_close
        self.connections = 0
        self.requests: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            for answer in self.answers:
                self.requests.append(await read_request(reader))
                self.asked.set()
                writer.write(answer)
                await writer.drain()
            if not self.then_close:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(size)


@asynccontextmanager
async def exchange(server: Server) -> AsyncIterator[HttpEndpoint]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession(connector=ConnectionPool()) as session:
            yield HttpEndpoint(session, f"http://127.0.0.1:{port}/v1/chat?x=1")
    finally:
        listening.close()


async def posted(
    server: Server, times: int = 1, total_s: float = 5.0, idle_s: float | None = None
) -> list[HttpResponse]:
    async with exchange(server) as to:
        return [
            await to.send(encode_headers({"X-Name": "value"}), b"body", total_s, idle_s) for _ in range(times)
        ]


async def test_request_has_the_form_of_http() -> None:
    server = Server(OK)
    await posted(server)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/chat?x=1 HTTP/1.1"
    assert lines[1].startswith(b"Host: 127.0.0.1:")
    assert lines[2:] == [b"X-Name: value", b"Content-Length: 4"]
    assert body == b"body"


async def test_connections_are_kept_alive_unless_the_server_closes_them() -> None:
    kept, closed = Server(OK, OK, OK), Server(OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
    for server, connections in ((kept, 1), (closed, 3)):
        assert [(got.status, got.data) for got in await posted(server, times=3)] == [(200, b"ok")] * 3
        assert server.connections == connections


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: "
        + str(len(gzip.compress(b"hello", mtime=0))).encode()
        + b"\r\n\r\n"
        + gzip.compress(b"hello", mtime=0),
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["chunked", "gzip", "until the end", "after early hints", "HTTP/1.0"],
)
async def test_every_way_to_send_a_body_is_read_whole(answer: bytes) -> None:
    (got,) = await posted(Server(answer))
    assert (got.status, got.data) == (200, b"hello")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nonly this",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["nothing", "half a body", "half a chunk", "no HTTP", "no gzip"],
)
async def test_incomplete_response_is_an_error(answer: bytes) -> None:
    with pytest.raises(aiohttp.ClientError):
        await posted(Server(answer))


HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nonly this"


@pytest.mark.parametrize(
    ("answer", "total_s", "idle_s", "error"),
    [
        (b"", 0.1, None, TimeoutError),
        (HALF, 0.1, None, TimeoutError),
        (HALF, 60.0, 0.1, aiohttp.SocketTimeoutError),
        # The end that we make ourselves at the deadline is not the body's.
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonly this", 0.1, None, TimeoutError),
    ],
)
async def test_deadline_holds_for_the_complete_response_and_for_pauses(
    answer: bytes, total_s: float, idle_s: float | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await posted(Server(answer, then_close=False), total_s=total_s, idle_s=idle_s)


async def test_a_loop_that_is_always_late_gives_up_all_the_same() -> None:
    server = Server(b"", then_close=False)
    async with exchange(server) as to:
        request = asyncio.ensure_future(to.send(b"", b"first", 0.05))
        await server.asked.wait()
        for _ in range(4):
            # Later than the deadline, and later than what was given in addition.
            asyncio.get_running_loop().call_soon(time.sleep, 0.35)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert request.done()
        with pytest.raises(TimeoutError):
            await request


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_that_has_no_body_is_not_waited_for(status: str) -> None:
    server = Server(f"HTTP/1.1 {status}\r\n\r\n".encode(), OK, then_close=False)
    answers = await posted(server, times=2)
    assert [(a.status, a.data) for a in answers] == [(int(status[:3]), b""), (200, b"ok")]
    assert server.connections == 1


async def test_unsolicited_response_is_discarded() -> None:
    server = Server(OK, OK, then_close=False)
    async with exchange(server) as to:
        await to.send(b"", b"first", 5.0)
        server.writers[0].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(0.05)
        assert [(await to.send(b"", b"later", 5.0)).status for _ in range(2)] == [200, 200]
    assert server.connections == 2


async def test_a_cancelled_exchange_does_not_leave_its_answer_to_the_next() -> None:
    server = Server(b"", then_close=False)
    async with exchange(server) as to:
        first = asyncio.ensure_future(to.send(b"", b"first", 5.0))
        await server.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        server.answers = (OK,)
        assert (await to.send(b"", b"second", 5.0)).data == b"ok"
    assert server.connections == 2


async def post_to(port: int) -> None:
    async with aiohttp.ClientSession(connector=ConnectionPool()) as session:
        await HttpEndpoint(session, f"http://127.0.0.1:{port}").send(b"", b"", 0.1)


async def test_a_refused_connection_is_a_client_error() -> None:
    with pytest.raises(aiohttp.ClientConnectorError):
        await post_to(9)


async def test_a_connection_that_does_not_come_about_is_a_timeout_of_its_own() -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more than it queues: the next is left without an answer
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        with pytest.raises(aiohttp.ConnectionTimeoutError):
            await post_to(full.getsockname()[1])


# --- Idle connections -----------------------------------------------------------------------------------------


class Closing(Server):
    """Closes each connection at its second request without a byte of answer, after it has read it or not."""

    def __init__(self, answer: bytes = OK, *, reset: bool = False, says: bytes = b"") -> None:
        super().__init__(answer)
        self.reset, self.says = reset, says

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.requests.append(await read_request(reader))
        writer.write(self.answers[0])
        if self.answers[0] and await reader.read(1):
            writer.write(self.says)
            if self.reset:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("idle_s", [None, 5.0])
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("answer", [OK, CHUNKED])
async def test_a_reused_connection_that_closes_without_a_byte_is_one_more_try_on_a_new_one(
    answer: bytes, reset: bool, idle_s: float | None
) -> None:
    server = Closing(answer, reset=reset)
    assert [got.data for got in await posted(server, times=4, idle_s=idle_s)] == [b"ok"] * 4
    assert (server.connections, len(server.requests)) == (4, 4)


async def test_many_connections_closed_at_once_are_replaced_without_a_failure() -> None:
    server = Server(OK, then_close=False)
    async with exchange(server) as to:
        await asyncio.gather(*(to.send(b"", b"body", 5.0) for _ in range(16)))
        for writer in server.writers:
            writer.close()
        # Sent before the goodbyes are read.
        answers = await asyncio.gather(*(to.send(b"", b"body", 5.0) for _ in range(16)))
    assert server.connections == 32
    assert [answer.data for answer in answers] == [b"ok"] * 16


async def test_connection_that_closes_is_a_failure_if_it_is_new_or_within_a_response() -> None:
    with pytest.raises(aiohttp.ClientError):
        await posted(Closing(says=b"HTTP/1.1 200"), times=2)

    class Dying(Closing):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await super().serve(reader, writer)
            self.answers = (b"",)

    new, replaced = Server(b""), Dying()
    for server, times in ((new, 1), (replaced, 2)):
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await posted(server, times)
        assert server.connections == times


@pytest.mark.parametrize(
    ("says", "idle_s", "connections"),
    [
        (b"", 3.9, 1),
        (b"", 4.1, 2),
        (b"Keep-Alive: timeout=2\r\n", 1.5, 1),
        (b"Keep-Alive: timeout=2\r\n", 1.7, 2),
        (b"Keep-Alive: timeout=30, max=100\r\n", 23.0, 1),
        (b"Keep-Alive: timeout=30, max=100\r\n", 25.0, 2),
        (b"Keep-Alive: timeout=30\r\nX-RateLimit-Limit: 9\r\n", 23.0, 1),
        (b"Keep-Alive: max=100\r\n", 4.1, 2),
    ],
)
async def test_a_connection_is_used_again_while_its_server_keeps_it(
    monkeypatch: pytest.MonkeyPatch, says: bytes, idle_s: float, connections: int
) -> None:
    answer = OK.replace(b"Content-Length", says + b"Content-Length")
    server = Server(answer, answer, then_close=False)

    loop = asyncio.get_running_loop()
    async with exchange(server) as to:
        await to.send(b"", b"body", 5.0)
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now + idle_s)
        await to.send(b"", b"body", 5.0)
    assert server.connections == connections


# --- A process that stood still ----------------------------------------------------------------------------------

STOPPED = """
import asyncio, sys, uvloop
from cts_async.llm.http import HttpEndpoint, ConnectionPool
import aiohttp

async def main(url):
    async with aiohttp.ClientSession(connector=ConnectionPool()) as session:
        to = HttpEndpoint(session, url)
        calls = [to.send(b"", b"body", 1.0, idle_s) for idle_s in (None, 1.0, 60.0) for _ in range(4)]
        for got in await asyncio.gather(*calls, return_exceptions=True):
            print(getattr(got, "data", got))

with asyncio.Runner(loop_factory=uvloop.new_event_loop if sys.argv[2] == "uvloop" else None) as runner:
    runner.run(main(sys.argv[1]))
"""


async def test_answers_that_came_while_the_process_was_stopped_are_read(
    anyio_backend: tuple[str, dict[str, bool]],
) -> None:
    loop = "uvloop" if anyio_backend[1]["use_uvloop"] else "asyncio"
    asked, resumed, answers = asyncio.Semaphore(0), asyncio.Event(), cycle([OK, CHUNKED])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.release()
        await resumed.wait()
        writer.write(next(answers))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        environ = {**os.environ, "PYTHONPATH": str(Path(cts_async.__file__).parents[1])}
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STOPPED, url, loop, env=environ, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(12):
            await asked.acquire()
        child.send_signal(signal.SIGSTOP)
        resumed.set()
        await asyncio.sleep(1.3)
        child.send_signal(signal.SIGCONT)
        printed, _ = await asyncio.wait_for(child.communicate(), 10)
    assert printed.decode().split() == ["b'ok'"] * 12
    assert asked.locked(), "something was asked twice"
