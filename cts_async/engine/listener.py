"""A listening socket with bounded connections, for HTTP servers on the loopback.

Any user of the machine can connect to a port of the loopback. Each connection takes a descriptor, and one who opens
thousands and sends nothing would leave none for the run. So connections are accepted one by one, a new one in the
place of another where all are taken: first of the oldest that has not yet sent a request that was answered (a
stranger), then of the one that is idle longest. One in the middle of a request is never closed.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

FIRST_REQUEST_S: Final = 10.0
"""A stranger that has sent no whole request header in this time is disconnected. A client on this machine takes ms."""
FILES_SHARE: Final = 4
"""A server takes at most one in so many of the open files that the process may have."""
_NO_DESCRIPTOR_S: Final = 0.1
"""A pause after an accept that failed because there was no free descriptor."""


def connections_allowed(limit: int) -> int:
    """Return how many connections a server may have: `limit`, but not more than a quarter of the open files allowed."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limit
    return max(1, min(limit, soft // FILES_SHARE))


class BoundedListener:
    """Accepts connections for a server, at most `limit` at once; `factory` makes the protocol of each, as aiohttp does.

    The server tells it by `answering` which connections are in the middle of a request.
    """

    def __init__(self, limit: int, *, first_request_s: float = FIRST_REQUEST_S) -> None:
        self.limit = limit
        self._first_request_s = first_request_s
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        """In the order in which they were opened or last became idle."""

    @asynccontextmanager
    async def serving(
        self, sock: socket.socket, factory: Callable[[], asyncio.BaseProtocol]
    ) -> AsyncIterator[None]:
        """Accept connections at a listening socket, and close it at the end; open connections are left to the server."""
        sock.setblocking(False)
        accepting = asyncio.create_task(self._accept(sock, factory))
        try:
            yield
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])
            sock.close()

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Mark a connection as in the middle of a request that is served. Others, such as a test's, are ignored."""
        connection = None
        if transport is not None:
            connection = self._open.get(transport)
        if connection is None:
            yield
            return
        connection.begin()
        try:
            yield
        finally:
            connection.n_requests -= 1
            if connection.transport in self._open:  # to the end: it is the one that became idle last
                self._open[connection.transport] = self._open.pop(connection.transport)

    async def _accept(self, sock: socket.socket, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(sock)
            except OSError:  # no free descriptor, or the client has gone
                await asyncio.sleep(_NO_DESCRIPTOR_S)
                continue
            if not self._make_room():
                # All are in the middle of a request: those are never closed.
                client.close()
                continue
            with suppress(OSError):
                await loop.connect_accepted_socket(lambda: _Connection(self, factory()), client)

    def _make_room(self) -> bool:
        """Close a connection if there is no room for another; False if none can be closed."""
        if len(self._open) < self.limit:
            return True
        idle = [connection for connection in self._open.values() if connection.n_requests == 0]
        strangers = [connection for connection in idle if connection.is_stranger]
        if not idle:
            return False
        (strangers or idle)[0].abort()
        return True

    def opened(self, connection: _Connection) -> None:
        """Count a connection, and give it the time for its first request."""
        self._open[connection.transport] = connection
        loop = asyncio.get_running_loop()
        connection.timer = loop.call_later(self._first_request_s, connection.abort)

    def closed(self, connection: _Connection) -> None:
        """Count a connection no more."""
        self._open.pop(connection.transport, None)


class _Connection(asyncio.Protocol):
    """Passes everything on to the server's own protocol, and knows what the listener has to know."""

    transport: asyncio.Transport

    def __init__(self, listener: BoundedListener, protocol: asyncio.BaseProtocol) -> None:
        self._listener, self._protocol = listener, protocol
        self.n_requests = 0
        """Requests that are being answered."""
        self.timer: asyncio.TimerHandle | None = None
        """Runs until the first request that is served."""

    @property
    def is_stranger(self) -> bool:
        """True until a request of it was served."""
        return self.timer is not None

    def begin(self) -> None:
        """Note a request that is served."""
        self.n_requests += 1
        self._end_timer()

    def abort(self) -> None:
        """Close it at once."""
        self._listener.closed(self)
        self.transport.abort()

    def _end_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._listener.opened(self)
        self._protocol.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._end_timer()
        self._listener.closed(self)
        self._protocol.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)  # type: ignore[attr-defined]

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()  # type: ignore[attr-defined, no-any-return]

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
