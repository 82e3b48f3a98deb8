"""One request over aiohttp's connections, without the machinery of its session.

A session prepares every request anew for cookies, redirects, authentication and tracing, none of which an
API call has; that costs twice as much as the exchange itself. Here the request goes straight to a connection of
aiohttp's pool, and its own protocol and parser read the answer. What is used of aiohttp below its session
is not promised to stay the same, so pyproject.toml names the versions that are known to work.
"""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from collections.abc import Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from yarl import URL

from cts_async.llm.proxies import Proxies
from cts_async.llm.redact import SECRETS
from cts_async.values import value

CONNECT_S = 15.0
MAX_BYTES = 16_000_000
"""No answer is longer, unpacked: an endless one would take all memory long before its time is over."""
SERVER_KEEPS_S: Final = 5.0
"""How long a server keeps an idle connection unless it says so: the default of uvicorn and of Node."""
KEPT_SHARE: Final = 0.8
"""The share of that time in which a connection is used again: a later request could cross the server's goodbye."""
MAX_IDLE_S: Final = 60.0
STALE_S: Final = 5.0
"""A reused connection that is lost so soon, with no byte received, was closed before the request was read."""
LATE_S: Final = 0.1
"""A timer that fires later than this: the process was stopped, and sockets may hold answers."""
GRACE_S: Final = 0.2
"""How long sockets are read then before the deadline counts."""
ENCODINGS: Final = "gzip, deflate"
"""What can be unpacked: the most that a request may name in Accept-Encoding."""
NO_TRACES: list[aiohttp.tracing.Trace] = []


class NotHTTP(aiohttp.ClientPayloadError):
    """What came is no HTTP answer."""


class BrokenAnswer(aiohttp.ClientPayloadError):
    """The body of a good answer cannot be read: there is a server, which may do well with other requests."""


class TooLarge(BrokenAnswer):
    """An answer has more bytes than allowed."""


class UnknownEncoding(BrokenAnswer):
    """An answer is compressed in a way that was not asked for; the next one would be, too."""


class _Stale(Exception):
    """A connection from the pool turned out to be closed by the server."""


@value
class Answer:
    """An HTTP answer, whole; header names are in any case. Of a plain 200 no header is kept."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class Exchange:
    """Sends requests to one address. Connections are kept alive in the connector's pool, which the caller owns.

    They go through a proxy where the connector is a Pool whose environment names one; UsageError if that one
    cannot be used.
    """

    def __init__(
        self,
        connector: aiohttp.BaseConnector,
        session: aiohttp.ClientSession,
        url: str | URL,
        method: str = "POST",
    ) -> None:
        self._connector = connector
        self._loop = asyncio.get_running_loop()
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._outbox: list[tuple[asyncio.Transport, bytes]] = []
        to = URL(url)
        self.proxy = connector.proxies.of(to) if isinstance(connector, Pool) else None
        login = self.proxy.headers if self.proxy else {}
        # The connector asks it only where to connect to: one serves for all requests.
        self._where = _Where(
            method,
            to,
            loop=self._loop,
            session=session,
            proxy=self.proxy.url if self.proxy else None,
            proxy_headers=login,
        )
        target = to.raw_path_qs
        if self.proxy and to.scheme == "http":  # no tunnel: the proxy reads the request and sends it on
            target = f"http://{_host(to)}{target}"
        else:
            login = {}
        self._head = f"{method} {target} HTTP/1.1\r\nHost: {_host(to)}\r\n".encode() + header_lines(login)

    async def send(
        self,
        headers: bytes,
        body: bytes | None,
        total_s: float,
        idle_s: float | None = None,
        *,
        max_bytes: int | None = None,
        keep_headers: bool = False,
    ) -> Answer:
        """Send `body`, if there is one, and read the whole answer within `total_s`, no pause in it longer than `idle_s`.

        An answer has at most `max_bytes` (MAX_BYTES), unpacked. `headers` are `header_lines`. Raises TimeoutError
        (ConnectionTimeoutError where nothing was sent yet) and aiohttp.ClientError.
        """
        if body is None:
            request = b"%b%b\r\n" % (self._head, headers)
        else:
            request = b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, headers, len(body), body)
        most = MAX_BYTES if max_bytes is None else max_bytes
        plain = idle_s is None and not keep_headers
        try:
            return await self._once(request, total_s, idle_s, most, plain=plain)
        except _Stale:
            return await self._once(request, total_s, idle_s, most, plain=plain, reuse=False)

    async def reach(self, total_s: float) -> None:
        """Connect as a request does, through the proxy and with TLS, and hang up. Raises as `send` does."""
        (await self._connect(total_s, reuse=False)).close()

    async def _once(
        self,
        request: bytes,
        total_s: float,
        idle_s: float | None,
        max_bytes: int,
        *,
        plain: bool,
        reuse: bool = True,
    ) -> Answer:
        """One exchange, over a new connection unless `reuse`. Raises _Stale where an old one was of no use."""
        connection = await self._connect(total_s, reuse=reuse)
        protocol = connection.protocol
        transport = protocol.transport if protocol is not None else None
        if protocol is None or transport is None:
            connection.close()
            raise aiohttp.ServerDisconnectedError
        answer: Answer | None = None
        deadline = _Deadline(self._loop, total_s, transport)
        try:
            expected = None
            if plain and isinstance(protocol, _Protocol):
                expected = protocol.expect()
            else:
                protocol.set_response_params(read_until_eof=True, read_timeout=idle_s, auto_decompress=False)
            self._send(transport, request)
            if expected is not None:
                answer = await expected
                if answer is not None:
                    return answer
            else:
                protocol.start_timeout()
            message, payload = await protocol.read()
            while 100 <= message.code < 200:
                message, payload = await protocol.read()
            data = await _body(message, payload, max_bytes)
            if deadline.passed:
                raise TimeoutError  # where only the connection's end delimits a body, this was not the end of it
            if message.code == 407:
                raise aiohttp.ClientHttpProxyError(self._where.request_info, (), status=407)
            answer = Answer(message.code, message.headers, data)
            return answer
        except HttpProcessingError as error:
            # The parser quotes what it cannot read, which may be the request's own head with the key.
            raise NotHTTP(f"no HTTP answer ({type(error).__name__})") from None
        except aiohttp.ClientError as error:
            if deadline.passed:
                raise TimeoutError from None
            if isinstance(error, _LOST) and isinstance(protocol, _Protocol) and protocol.is_stale():
                raise _Stale from None
            raise
        finally:
            deadline.cancel()
            if answer is not None:
                if isinstance(protocol, _Protocol):
                    protocol.ended(answer.headers)
                connection.release()
            else:
                connection.close()

    async def _connect(self, total_s: float, *, reuse: bool) -> Connection:
        """A connection that may be written to: a new one unless `reuse`."""
        timeout = self._timeouts.get(total_s)
        if timeout is None:
            timeout = self._timeouts[total_s] = aiohttp.ClientTimeout(
                connect=min(2 * CONNECT_S, total_s), sock_connect=min(CONNECT_S, total_s)
            )
        while True:
            try:
                connection = await self._connector.connect(self._where, NO_TRACES, timeout)
            except TimeoutError:
                raise aiohttp.ConnectionTimeoutError from None
            except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError):
                raise
            except aiohttp.ClientError:
                if self.proxy is None:
                    raise
                reason = OSError(None, "its answer to CONNECT is none of an HTTP proxy's")
                raise aiohttp.ClientProxyConnectionError(self._where.connection_key, reason) from None
            protocol = connection.protocol
            used = isinstance(protocol, _Protocol) and not protocol.begin(reuse, self._loop.time())
            if not used and protocol is not None and not protocol.should_close:
                return connection
            # Closed by the server, or about to be; or something came unasked, which would be taken for the answer.
            connection.close()
            if not isinstance(protocol, _Protocol) or protocol.idle_since is None:
                raise aiohttp.ServerDisconnectedError

    def refusal(self, error: aiohttp.ClientError) -> str | None:
        """What a person has to put right before any request can succeed, None if another attempt may help."""
        host = self._where.url.host
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            whose = f"the {self.proxy}" if self.proxy and error.host == self.proxy.url.host else str(host)
            why = getattr(error.certificate_error, "verify_message", "") or "not valid"
            trusted = os.environ.get("SSL_CERT_FILE", "")
            return (
                f"the certificate of {whose} is refused ({why}). Check the address and this machine's clock, or "
                f"name a PEM file with the CA to trust in SSL_CERT_FILE{f' (now {trusted})' if trusted else ''}"
            )
        if isinstance(error, aiohttp.ClientHttpProxyError):
            proxy = f"the {self.proxy}" if self.proxy else "a proxy on the way"
            variable = self.proxy.variable if self.proxy else "HTTPS_PROXY"
            if error.status == 407:
                return f"{proxy} asks for a login (407). Set {variable} to http://USER:PASSWORD@HOST:PORT"
            if 400 <= error.status < 500 and error.status not in (408, 429):
                return f"{proxy} refuses to connect to {host} ({error.status}). Have that allowed, or correct {variable}"
        return None

    def proxy_problem(self, error: aiohttp.ClientError) -> str | None:
        """What is wrong with the proxy, or between it and the server; None if it is something else."""
        if self.proxy is None:
            return None
        if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientConnectorDNSError):
            return f"no connection to the {self.proxy}: {reason_of(error.os_error)}"
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return f"the {self.proxy} cannot connect to {self._where.url.host} (HTTP {error.status})"
        return None

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


class _Deadline:
    """Aborts a connection after some seconds, but never before sockets have been read."""

    __slots__ = ("_loop", "_timer", "_transport", "passed")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, transport: asyncio.Transport) -> None:
        self._loop, self._transport, self.passed = loop, transport, False
        self._timer: asyncio.TimerHandle | None = loop.call_later(seconds, self._due)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None  # it refers to this, in a cycle that only the collector would free

    def _due(self) -> None:
        if self._timer is not None and self._loop.time() - self._timer.when() > LATE_S:
            self._timer = self._loop.call_later(GRACE_S, self._abort)
        else:
            self._abort()

    def _abort(self) -> None:
        self.passed = True
        self._transport.abort()


async def _body(message: RawResponseMessage, payload: aiohttp.StreamReader, max_bytes: int) -> bytes:
    """The whole body, unpacked; b"" where it cannot be had of an error, whose status says enough.

    Raises BrokenAnswer.
    """
    data = bytearray()
    try:
        async for block in payload.iter_any():
            data += block
            if len(data) > max_bytes:
                raise TooLarge(f"an answer of more than {max_bytes:,} bytes")
        return _unpacked(bytes(data), message.headers.get("Content-Encoding", ""), max_bytes)
    except (aiohttp.ClientPayloadError, HttpProcessingError) as error:
        if message.code >= 400:
            return b""
        if isinstance(error, BrokenAnswer):
            raise
        raise BrokenAnswer("the answer broke off") from None


def _unpacked(data: bytes, encoding: str, max_bytes: int) -> bytes:
    inflate = inflater(encoding)
    if inflate is None:
        return data
    try:
        data = inflate.feed(data, max_bytes + 1)
    except ValueError:
        raise BrokenAnswer("the answer's compression is broken") from None
    if len(data) > max_bytes:
        raise TooLarge(f"an answer of more than {max_bytes:,} bytes")
    return data


def inflater(encoding: str) -> Inflater | None:
    """What undoes a content encoding; None if there is nothing to undo. Raises UnknownEncoding."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Inflater()
        case other:
            # Only these were asked for; a chain of encodings would multiply what a bomb can do.
            named = SECRETS.text(other)[:40]
            raise UnknownEncoding(
                f"the answer is compressed as {named!r}, which was not asked for (Accept-Encoding: {ENCODINGS})"
            )


class Inflater:
    """gzip (several members too) and deflate with or without its header, a bounded piece at a time."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._begun = False

    def feed(self, block: bytes, room: int) -> bytes:
        """Decompress `block` to at most `room` bytes; what goes beyond them is lost. ValueError if it is broken."""
        out = bytearray()
        while block and len(out) < room:
            out += self._piece(block, room - len(out))
            block = b""
            if self._stream.eof:
                block = self._stream.unused_data
                if not block.startswith(b"\x1f\x8b"):
                    break  # padding after the end
                self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        return bytes(out)

    def _piece(self, block: bytes, room: int) -> bytes:
        try:
            piece = self._stream.decompress(block, room)
        except zlib.error:
            if self._begun:
                raise ValueError("broken compression") from None
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            self._begun = True
            return self._piece(block, room)
        self._begun = True
        return piece


def reason_of(error: OSError) -> str:
    """Why there is no connection, in the system's words."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


class _Protocol(ResponseHandler):
    """aiohttp's protocol with a short cut: an answer that comes plain and in one piece needs no parser.

    Servers on the same machine or network answer like that, and there the cost of a call counts.
    """

    _expecting: asyncio.Future[Answer | None] | None = None
    idle_since: float | None = None
    """When its last answer was whole; None on a new connection."""
    _keep_s = KEPT_SHARE * SERVER_KEEPS_S
    _heard = False
    _began = 0.0

    def begin(self, reuse: bool, now: float) -> bool:
        """Start an exchange; False if the connection has served before and must not be used again."""
        if self.idle_since is not None and (not reuse or now - self.idle_since > self._keep_s):
            return False
        self._heard, self._began = False, now
        return True

    def ended(self, headers: Mapping[str, str]) -> None:
        """The answer was whole, and has these headers."""
        self.idle_since = self._loop.time()
        if headers and (found := _KEEP_ALIVE.search(headers.get("keep-alive", ""))):
            self._keep_s = min(KEPT_SHARE * int(found[1]), MAX_IDLE_S)

    def is_stale(self) -> bool:
        """True where a lost connection was closed by the server while it was idle."""
        return self.idle_since is not None and not self._heard and self._loop.time() - self._began < STALE_S

    def _on_read_timeout(self) -> None:
        timer = self._read_timeout_handle
        if timer is not None and self._loop.time() - timer.when() > LATE_S:
            self._read_timeout_handle = self._loop.call_later(GRACE_S, super()._on_read_timeout)
        else:
            super()._on_read_timeout()

    def expect(self) -> asyncio.Future[Answer | None]:
        """The answer to what is sent now; None if it is not plain, and to be read as aiohttp does."""
        self._expecting = self._loop.create_future()
        return self._expecting

    def data_received(self, data: bytes) -> None:
        self._heard = True
        expecting, self._expecting = self._expecting, None
        if expecting is None or expecting.done():
            super().data_received(data)
            return
        answer = _plain(data)
        if answer is None:
            self.set_response_params(read_until_eof=True, auto_decompress=False)
            super().data_received(data)
        expecting.set_result(answer)

    def connection_lost(self, exc: BaseException | None) -> None:
        expecting, self._expecting = self._expecting, None
        if expecting is not None and not expecting.done():
            expecting.set_exception(aiohttp.ServerDisconnectedError())
        super().connection_lost(exc)


_NOT_PLAIN = (b"-encoding:", b"connection: close", b"ratelimit", b"\r\n ", b"\r\n\t")
_LENGTH, _KEEPS = b"\r\ncontent-length: ", b"\r\nkeep-alive: "
_KEEP_ALIVE: Final = re.compile(r"timeout\s*=\s*\"?(\d{1,9})")
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


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
    if length != b"%d" % len(body):  # as text: a server may send more digits than Python turns into a number
        return None
    if _KEEPS not in head:
        return Answer(200, _NONE, body)
    keeps = head.partition(_KEEPS)[2].partition(b"\r\n")[0]
    return Answer(200, {"keep-alive": keeps.decode(errors="replace")}, body)


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Pool(aiohttp.TCPConnector):
    """Connections for exchanges, as many as are asked for, through the proxies that `environ` names."""

    def __init__(self, environ: Mapping[str, str] = _NONE) -> None:
        # The longest time for an idle one; `_Protocol.begin` decides for each.
        super().__init__(limit=0, ttl_dns_cache=300, keepalive_timeout=MAX_IDLE_S)
        self._factory = partial(_Protocol, loop=asyncio.get_running_loop())  # type: ignore[assignment]
        self.proxies = Proxies.from_environ(environ)


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
