"""One POST over aiohttp's connections, without the machinery of its session.

A session prepares every request anew for cookies, redirects, authentication and tracing, none of which an
API call has; that costs twice as much as the exchange itself. Here the request goes straight to a connection of
aiohttp's pool, and its own protocol and parser read the answer. What is used of aiohttp below its session
is not promised to stay the same, so pyproject.toml names the versions that are known to work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property, partial
from types import MappingProxyType

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from cts_async.values import value

CONNECT_S = 15.0
MAX_BYTES = 16_000_000
"""No answer is longer, unpacked: an endless one would take all memory long before its time is over."""
NO_TRACES: list[aiohttp.tracing.Trace] = []


class TooLarge(aiohttp.ClientPayloadError):
    """An answer has more than MAX_BYTES: there is a server, which may do well with other requests."""


class NotHttp(aiohttp.ClientPayloadError):
    """What came is no HTTP answer."""


@value
class Answer:
    """An HTTP answer, whole; header names are in any case. Of a plain 200 no header is kept."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class Exchange:
    """Posts to one address. Connections are kept alive in the connector's pool, which the caller owns."""

    def __init__(self, connector: aiohttp.BaseConnector, session: aiohttp.ClientSession, url: str) -> None:
        self._connector = connector
        self._loop = asyncio.get_running_loop()
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._outbox: list[tuple[asyncio.Transport, bytes]] = []
        # The connector asks it only where to connect to: one serves for all requests.
        self._where = _Where("POST", URL(url), loop=self._loop, session=session)
        to = self._where.url
        self._head = f"POST {to.raw_path_qs} HTTP/1.1\r\nHost: {_host(to)}\r\n".encode()

    async def post(self, headers: bytes, body: bytes, total_s: float, idle_s: float | None = None) -> Answer:
        """Send `body` and read the whole answer within `total_s`, no pause in it longer than `idle_s`.

        An answer has at most MAX_BYTES.
        `headers` are `header_lines`. Raises TimeoutError (ConnectionTimeoutError where nothing was sent yet) and
        aiohttp.ClientError.
        """
        timeout = self._timeouts.get(total_s)
        if timeout is None:
            timeout = self._timeouts[total_s] = aiohttp.ClientTimeout(
                connect=min(2 * CONNECT_S, total_s), sock_connect=min(CONNECT_S, total_s)
            )
        try:
            connection = await self._connector.connect(self._where, NO_TRACES, timeout)
        except TimeoutError:
            raise aiohttp.ConnectionTimeoutError from None
        protocol = connection.protocol
        if protocol is None or protocol.transport is None or protocol.should_close:
            # Gone, or something came unasked: it would be taken for the answer to this request.
            connection.close()
            raise aiohttp.ServerDisconnectedError
        transport = protocol.transport
        late = whole = False

        def give_up() -> None:
            nonlocal late
            late = True
            transport.abort()

        deadline = self._loop.call_later(total_s, give_up)
        try:
            plain = None
            if idle_s is None and isinstance(protocol, _Protocol):
                plain = protocol.expect()
            else:
                protocol.set_response_params(read_until_eof=True, read_timeout=idle_s)
            self._send(
                transport, b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, headers, len(body), body)
            )
            if plain is not None:
                answer = await plain
                if answer is not None:
                    whole = True
                    return answer
            else:
                protocol.start_timeout()
            message, payload = await protocol.read()
            while 100 <= message.code < 200:
                message, payload = await protocol.read()
            data = await _whole(payload)
            if late:
                raise TimeoutError  # where only the connection's end delimits a body, this was not the end of it
            whole = True
            return Answer(message.code, message.headers, data)
        except HttpProcessingError as error:
            # The parser quotes what it cannot read, which may be the request's own head with the key.
            raise NotHttp(f"no HTTP answer ({type(error).__name__})") from None
        except aiohttp.ClientError:
            if late:
                raise TimeoutError from None
            raise
        finally:
            deadline.cancel()
            if whole:
                connection.release()
            else:
                connection.close()

    def _send(self, transport: asyncio.Transport, request: bytes) -> None:
        """Send with whatever else this turn of the loop sends: one after the other wakes the server up once."""
        if not self._outbox:
            self._loop.call_soon(self._send_all)
        self._outbox.append((transport, request))

    def _send_all(self) -> None:
        outbox, self._outbox = self._outbox, []
        for transport, request in outbox:
            if not transport.is_closing():
                transport.write(request)


async def _whole(payload: aiohttp.StreamReader) -> bytes:
    data = bytearray()
    async for block in payload.iter_any():
        data += block
        if len(data) > MAX_BYTES:
            raise TooLarge(f"an answer of more than {MAX_BYTES:,} bytes")
    return bytes(data)


class _Protocol(ResponseHandler):
    """aiohttp's protocol with a short cut: an answer that comes plain and in one piece needs no parser.

    Servers on the same machine or network answer like that, and there the cost of a call counts.
    """

    _expecting: asyncio.Future[Answer | None] | None = None

    def expect(self) -> asyncio.Future[Answer | None]:
        """The answer to what is sent now; None if it is not plain, and to be read as aiohttp does."""
        self._expecting = self._loop.create_future()
        return self._expecting

    def data_received(self, data: bytes) -> None:
        expecting, self._expecting = self._expecting, None
        if expecting is None or expecting.done():
            super().data_received(data)
            return
        answer = _plain(data)
        if answer is None:
            self.set_response_params(read_until_eof=True)
            super().data_received(data)
        expecting.set_result(answer)

    def connection_lost(self, exc: BaseException | None) -> None:
        expecting, self._expecting = self._expecting, None
        if expecting is not None and not expecting.done():
            expecting.set_exception(aiohttp.ServerDisconnectedError())
        super().connection_lost(exc)


_NOT_PLAIN = (b"-encoding:", b"connection: close", b"ratelimit", b"\r\n ", b"\r\n\t")
_LENGTH = b"\r\ncontent-length: "


def _plain(data: bytes) -> Answer | None:
    """The answer that `data` is: 200, of the length it says, and no header in it that matters; else None."""
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        return None
    head = head.lower()
    for words in _NOT_PLAIN:
        if words in head:
            return None
    length = head.partition(_LENGTH)[2].partition(b"\r\n")[0]
    return Answer(200, _NONE, body) if length == b"%d" % len(body) else None


_NONE: Mapping[str, str] = MappingProxyType({})


def pool() -> aiohttp.TCPConnector:
    """Connections for exchanges, as many as are asked for."""
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
    connector._factory = partial(_Protocol, loop=asyncio.get_running_loop())  # type: ignore[assignment]
    return connector


class _Where(aiohttp.ClientRequest):
    """A request that only says where to; as it never changes, its key is made once."""

    @cached_property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent. Values must be printable."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode()


def _host(url: URL) -> str:
    host = url.host_subcomponent or ""
    return host if url.is_default_port() else f"{host}:{url.port}"
