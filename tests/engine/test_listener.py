"""Bounded connections of a server: idle ones of strangers make room, and no request is cut off."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from cts_async.engine.listener import BoundedListener, connections_allowed

REQUEST = b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n"


class Served:
    """A server with `most` connections; `/slow` is answered when `go` is set, `/refused` counts as not served."""

    def __init__(self, most: int, first_request_s: float = 60.0) -> None:
        self.listener = BoundedListener(most, first_request_s=first_request_s)
        self.go = asyncio.Event()
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Served]:
        runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        sock = socket.create_server(("127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        async with self.listener.serving(sock, runner.server):  # type: ignore[arg-type]
            yield self
        for writer in self.writers:
            writer.close()
        await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/refused":
            return web.Response(text="no")
        with self.listener.answering(request.transport):
            if request.path == "/slow":
                await self.go.wait()
            return web.Response(text="yes")

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return Client(reader, writer)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, path: bytes = b"") -> bytes:
        """The last word of the answer; b"" where the connection was closed."""
        try:
            self.writer.write(REQUEST % path)
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            return await self.reader.readexactly(length)
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 0.2) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


async def test_idle_strangers_make_room_for_who_asks() -> None:
    async with Served(8).running() as served:
        known = await served.connect()
        assert await known.ask() == b"yes"
        idle = [await served.connect() for _ in range(50)]
        for _ in range(5):
            client = await served.connect()
            assert await client.ask() == b"yes"
        closed = [await client.is_closed() for client in idle]
        assert all(closed[:40])
        assert await known.ask() == b"yes"  # strangers make room first


async def test_connection_in_the_middle_of_a_request_is_never_closed() -> None:
    async with Served(4).running() as served:
        busy = [await served.connect() for _ in range(4)]
        asking = [asyncio.create_task(client.ask(b"slow")) for client in busy]
        await asyncio.sleep(0.1)
        further = await served.connect()
        assert await further.is_closed()  # all are in use
        served.go.set()
        assert await asyncio.gather(*asking) == [b"yes"] * 4
        later = await served.connect()
        assert await later.ask() == b"yes"


async def test_stranger_without_a_served_request_is_closed_in_time() -> None:
    async with Served(8, first_request_s=0.3).running() as served:
        silent, slow, refused = [await served.connect() for _ in range(3)]
        slow.writer.write(b"GET / HT")
        assert await refused.ask(b"refused") == b"no"
        known = await served.connect()
        assert await known.ask() == b"yes"
        await asyncio.sleep(0.5)
        assert [await client.is_closed() for client in (silent, slow, refused)] == [True] * 3
        assert await known.ask() == b"yes"


@pytest.mark.parametrize(("soft", "most"), [(64, 16), (1024, 256), (4096, 512), (8, 2)])
def test_server_takes_a_quarter_of_the_open_files_at_most(
    monkeypatch: pytest.MonkeyPatch, soft: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert connections_allowed(512) == most
