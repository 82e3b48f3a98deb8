"""HTTP requests over aiohttp's connections, without the machinery of its session.

A session prepares every request for cookies, redirects, authentication and tracing, none of which an API call
has; that costs twice as much as the exchange itself. Here a request is written straight to a connection of aiohttp's
pool, and aiohttp's protocol and parser read the response. What is used of aiohttp below its session is not promised to
stay the same, so pyproject.toml names the versions that are known to work.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from math import inf
from types import MappingProxyType
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from yarl import URL

from cts_async.engine.processes import is_spare, may_open_more, open_files_limit
from cts_async.errors import (
    MORE_FILES,
    TOO_MANY_FILES,
    CTSError,
    NoFreeDescriptor,
    ProviderRefused,
    RejectedError,
    TimedOut,
    TransientError,
)
from cts_async.llm.proxies import proxy_for
from cts_async.llm.redact import SECRETS
from cts_async.records import value

CONNECT_S = 15.0
MAX_BYTES = 16_000_000
"""Longest response body, decompressed: an endless one would fill the memory long before its deadline."""
SERVER_KEEP_ALIVE_S: Final = 5.0
"""How long a server keeps an idle connection unless it says so: the default of uvicorn and of Node."""
KEEP_ALIVE_SHARE: Final = 0.8
"""The share of that time in which a connection is reused: a later request could cross the server's FIN on the wire."""
MAX_IDLE_S: Final = 60.0
STALE_S: Final = 5.0
"""A reused connection that is lost within this time, with no byte received, was closed before the request was read."""
LATE_S: Final = 0.1
"""A deadline seen later than this: the process was stopped (SIGSTOP, laptop lid), and sockets may hold responses."""
GRACE_S: Final = 0.2
"""How long sockets are read in that case before the deadline counts."""
CHECK_EVERY_S: Final = 0.05
"""How often the deadlines of all requests are compared with the clock: a timer for each costs 3 % of a call."""
ENCODINGS: Final = "gzip, deflate"
"""The content encodings that can be decompressed here: the most that a request may name in Accept-Encoding."""
NO_CONNECTION: Final = f"no connection, too many open files (ulimit -n is {{}}); {MORE_FILES}"
_NO_TRACES: list[aiohttp.tracing.Trace] = []
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class NotHTTP(aiohttp.ClientPayloadError):
    """The bytes received are no HTTP response."""


class BrokenResponse(aiohttp.ClientPayloadError):
    """The body of a successful response cannot be read: the server is there, and may serve other requests well."""


class ResponseTooLarge(BrokenResponse):
    """A response has more bytes than allowed."""


class UnknownEncoding(BrokenResponse):
    """A response is compressed with an encoding that was not offered; the next one would be, too."""


class LateHeaders(Mapping[str, str]):
    """The headers that the client reads, taken out of a head when one is first asked for: most responses need none."""

    __slots__ = ("_headers", "_text")

    def __init__(self, text: str) -> None:
        """`text` is the head in lower case."""
        self._text = text
        self._headers: dict[str, str] | None = None

    def _parsed(self) -> dict[str, str]:
        if self._headers is None:
            self._headers = dict(_READ_HEADERS.findall(self._text))
        return self._headers

    def __getitem__(self, name: str) -> str:
        return self._parsed()[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._parsed().get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._parsed()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())


@value
class HttpResponse:
    """A complete HTTP response.

    Headers are looked up in lower case. Those of a 200 are only what the client reads, in lower case with the space
    after the colon, unless all are asked for.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes


class HttpEndpoint:
    """Sends requests to one address over keep-alive connections of the session's `ConnectionPool`.

    The caller owns the session. Connections go through a proxy where the pool's environment names one. Raises
    UsageError if that proxy cannot be used, TypeError if the session has another kind of connector or is closed.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str | URL, method: str = "POST") -> None:
        if not isinstance(session.connector, ConnectionPool):
            raise TypeError("the session is closed, or has no ConnectionPool")
        self._connector = session.connector
        self._loop = asyncio.get_running_loop()
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._outbox: list[tuple[_Protocol, bytes]] = []
        address = URL(url)
        self.proxy = proxy_for(address, self._connector.environ)
        proxy_url: URL | None = None
        login: Mapping[str, str] = {}
        if self.proxy:
            proxy_url, login = self.proxy.url, self.proxy.headers
        # The connector reads from it only where to connect to, so one object serves all requests.
        self._target = _Target(
            method, address, loop=self._loop, session=session, proxy=proxy_url, proxy_headers=login
        )
        self._idle = self._connector.idle[self._target.connection_key]
        target = address.raw_path_qs
        headers = b""
        if self.proxy and address.scheme == "http":  # no tunnel: the proxy reads the request and forwards it
            target = f"http://{_host(address)}{target}"
            headers = encode_headers(login)
        self._head = f"{method} {target} HTTP/1.1\r\nHost: {_host(address)}\r\n".encode() + headers

    async def send(
        self,
        headers: bytes,
        body: bytes | None,
        total_s: float,
        idle_s: float | None = None,
        *,
        max_bytes: int | None = None,
        keep_headers: bool = False,
        reuse: bool = True,
    ) -> HttpResponse:
        """Send one request and return its complete response, within `total_s` and with no pause longer than `idle_s`.

        `headers` are the result of `encode_headers`. The body has at most `max_bytes` (MAX_BYTES), decompressed.
        `keep_headers` returns all headers also of a 200. On a reused connection, which the server may have closed
        meanwhile, a request is sent again; what must not be sent twice goes without `reuse`. Raises TimeoutError
        (aiohttp.ConnectionTimeoutError where nothing was sent yet) and aiohttp.ClientError.
        """
        if body is None:
            request = b"%b%b\r\n" % (self._head, headers)
        else:
            request = b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, headers, len(body), body)
        simple = idle_s is None and not keep_headers
        while True:
            connection, protocol = await self._connect(total_s, reuse=reuse)
            response: HttpResponse | None = None
            self._connector.begin_exchange(protocol, total_s)
            try:
                if simple:
                    expected = protocol.expect()
                    self._write(protocol, request)
                    response = await expected
                else:
                    protocol.set_response_params(
                        read_until_eof=True, read_timeout=idle_s, auto_decompress=False
                    )
                    self._write(protocol, request)
                    protocol.start_timeout()
                if response is None:
                    if max_bytes is None:
                        max_bytes = MAX_BYTES
                    response = await self._read(protocol, max_bytes)
                return response
            except HttpProcessingError as error:
                # The parser quotes what it cannot read, which may be the request's own head with the key.
                raise NotHTTP(f"no HTTP response ({type(error).__name__})") from None
            except aiohttp.ClientError as error:
                if protocol.deadline_passed:
                    raise TimeoutError from None
                if not (isinstance(error, _LOST) and protocol.is_stale()):
                    raise
                reuse = False  # a connection from the pool turned out to be closed by the server
            finally:
                self._connector.end_exchange(protocol)
                if response is None:
                    connection.close()
                elif protocol.finish(response):
                    self._idle.append((connection, protocol))
                else:
                    connection.release()

    async def _read(self, protocol: _Protocol, max_bytes: int) -> HttpResponse:
        """The response as aiohttp's parser reads it."""
        message, payload = await protocol.read()
        while 100 <= message.code < 200:  # interim ones, such as 103 Early Hints
            message, payload = await protocol.read()
        data = await _read_body(message, payload, max_bytes)
        if protocol.deadline_passed:
            # A body that only the connection's end delimits: the end we made ourselves is not its end.
            raise TimeoutError
        if message.code == 407:
            raise aiohttp.ClientHttpProxyError(self._target.request_info, (), status=407)
        return HttpResponse(message.code, message.headers, data)

    async def reach(self, total_s: float) -> None:
        """Connect as a request would, through the proxy and with TLS, and hang up. Raises as `send` does."""
        connection, _ = await self._connect(total_s, reuse=False)
        connection.close()

    async def _connect(self, total_s: float, *, reuse: bool) -> tuple[Connection, _Protocol]:
        """A connection ready to be written to; a new one unless `reuse`."""
        timeout = self._timeouts.get(total_s)
        if timeout is None:
            timeout = self._timeouts[total_s] = aiohttp.ClientTimeout(
                connect=min(2 * CONNECT_S, total_s), sock_connect=min(CONNECT_S, total_s)
            )
        while reuse and self._idle:
            connection, protocol = self._idle.pop()
            if protocol.may_be_reused(self._loop.time()):
                return connection, protocol
            connection.close()
        self._connector.begin_sweeping()
        while True:
            try:
                connection = await self._connector.connect(self._target, _NO_TRACES, timeout)
            except TimeoutError:
                raise aiohttp.ConnectionTimeoutError from None
            except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError):
                raise
            except aiohttp.ClientError:
                # What is left without a proxy is the server's; with one, it failed while the tunnel was asked for.
                if self.proxy is None:
                    raise
                reason = OSError(None, "its response to CONNECT is not an HTTP proxy's")
                raise aiohttp.ClientProxyConnectionError(self._target.connection_key, reason) from None
            pooled = connection.protocol
            if not isinstance(pooled, _Protocol):
                raise TypeError("the pool makes other connections")
            protocol = pooled
            if protocol.idle_since is None and protocol.has_spare_descriptor():
                connection.close()
                full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                raise aiohttp.ClientConnectorError(self._target.connection_key, full)
            if protocol.begin(reuse, self._loop.time()) and not protocol.should_close:
                return connection, protocol
            # Closed by the server, or about to be; or bytes came unasked, which would be taken for the response.
            connection.close()
            if protocol.idle_since is None:
                raise aiohttp.ServerDisconnectedError

    def failure(
        self,
        error: aiohttp.ClientError | TimeoutError,
        name: str,
        total_s: float,
        idle_s: float | None = None,
    ) -> CTSError:
        """The error that a failed `send` or `reach` with these timeouts stands for; `name` begins its message.

        Nothing of the response is repeated: its head may repeat that of the request, with the key.
        """
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            path = ""
            if self.proxy:
                path = f" through the {self.proxy}"
            text = f"{name}: no connection{path} within {min(CONNECT_S, total_s):g} s"
            return TimedOut(text, unsent=True)
        if isinstance(error, TimeoutError):
            if isinstance(error, aiohttp.SocketTimeoutError) and idle_s:
                return TimedOut(f"{name}: not a byte for {idle_s:g} s")
            return TimedOut(f"{name}: no response within {total_s:g} s")
        if lacks_descriptor(error):
            return NoFreeDescriptor(f"{name}: {NO_CONNECTION.format(open_files_limit())}")
        refusal = self._refusal(error)
        if refusal:
            return ProviderRefused(f"{name}: {refusal}; the same command resumes")
        if isinstance(error, UnknownEncoding):
            return RejectedError(f"{name}: {error}", status=200)
        text = f"{name}: {self._cause(error)}"
        if isinstance(error, BrokenResponse):
            # A server whose response breaks off is there: that is no outage.
            return TransientError(text, status=200)
        unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError)
        return TransientError(text, unsent=unsent)

    def _refusal(self, error: aiohttp.ClientError) -> str | None:
        """What the user has to put right before any request can succeed; None if another attempt may help."""
        host = self._target.url.host
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            owner = str(host)
            if self.proxy and error.host == self.proxy.url.host:
                owner = f"the {self.proxy}"
            why = getattr(error.certificate_error, "verify_message", "") or "not valid"
            trusted = os.environ.get("SSL_CERT_FILE") or "not set"
            return (
                f"the certificate of {owner} is refused ({why}). Check the address and this machine's clock, or "
                f"name a PEM file with the CA to trust in SSL_CERT_FILE (now {trusted})"
            )
        if isinstance(error, aiohttp.ClientHttpProxyError):
            proxy, variable = "a proxy on the way", "HTTPS_PROXY"
            if self.proxy:
                proxy, variable = f"the {self.proxy}", self.proxy.variable
            if error.status == 407:
                return f"{proxy} asks for a login (407). Set {variable} to http://USER:PASSWORD@HOST:PORT"
            # As from 500 on, another attempt may help.
            is_temporary = error.status in (408, 429)
            if 400 <= error.status < 500 and not is_temporary:
                return f"{proxy} refuses to connect to {host} ({error.status}). Have that allowed"
        return None

    def _cause(self, error: aiohttp.ClientError) -> str:
        """Why there is no complete response, on one line."""
        to_proxy = aiohttp.ClientProxyConnectionError | aiohttp.ClientConnectorDNSError
        if self.proxy and isinstance(error, to_proxy):
            return f"no connection to the {self.proxy}: {os_error_text(error.os_error)}"
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return f"the {self.proxy} cannot connect to {self._target.url.host} (HTTP {error.status})"
        if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
            return f"no connection ({os_error_text(error.os_error)})"
        if isinstance(error, (BrokenResponse, NotHTTP, aiohttp.ClientSSLError)):
            return SECRETS.text(" ".join(str(error).split()))
        return f"the connection was lost ({type(error).__name__})"

    def _write(self, protocol: _Protocol, request: bytes) -> None:
        """Write a request together with all others of this turn of the loop.

        Written one after the other without a pause, they wake a server on the same machine up once, not each time.
        """
        if not self._outbox:
            self._loop.call_soon(self._write_all)
        self._outbox.append((protocol, request))

    def _write_all(self) -> None:
        outbox, self._outbox = self._outbox, []
        for protocol, request in outbox:
            transport = protocol.transport
            if transport is not None and not transport.is_closing():
                transport.write(request)


async def _read_body(message: RawResponseMessage, payload: aiohttp.StreamReader, max_bytes: int) -> bytes:
    """The complete body, decompressed; b"" where that of an error cannot be read, whose status says enough.

    Raises BrokenResponse.
    """
    data = bytearray()
    try:
        async for block in payload.iter_any():
            data += block
            if len(data) > max_bytes:
                break
        else:
            inflate = inflater(message.headers.get("Content-Encoding", ""))
            if inflate:
                data = bytearray(inflate.feed(bytes(data), max_bytes + 1))
        if len(data) > max_bytes:
            raise ResponseTooLarge(f"a response of more than {max_bytes:,} bytes")
    except (aiohttp.ClientPayloadError, HttpProcessingError) as error:
        if message.code >= 400:
            return b""
        if isinstance(error, BrokenResponse):
            raise
        raise BrokenResponse("the response broke off") from None
    return bytes(data)


def inflater(encoding: str) -> Inflater | None:
    """A decompressor for a Content-Encoding; None for identity. Raises UnknownEncoding."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Inflater()
        case unknown:
            # Only these were offered; a chain of encodings would multiply what a decompression bomb can do.
            shown = SECRETS.text(unknown)[:40]
            raise UnknownEncoding(
                f"the response is compressed as {shown!r}, which was not offered (Accept-Encoding: {ENCODINGS})"
            )


class Inflater:
    """Decompresses gzip (several members too) and deflate with or without its header, a bounded amount at a time."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._begun = False

    def feed(self, block: bytes, room: int) -> bytes:
        """Decompress `block` to at most `room` bytes; anything beyond is dropped. Raises BrokenResponse."""
        out = bytearray()
        while block and len(out) < room:
            try:
                out += self._stream.decompress(block, room - len(out))
            except zlib.error:
                if self._begun:
                    raise BrokenResponse("the response's compression is broken") from None
                # Some servers send "deflate" without zlib's header.
                self._stream, self._begun = zlib.decompressobj(-zlib.MAX_WBITS), True
                continue
            self._begun, block = True, b""
            if self._stream.eof:
                block = self._stream.unused_data
                if not block.startswith(b"\x1f\x8b"):
                    break  # padding after the end
                self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        return bytes(out)


def lacks_descriptor(error: Exception) -> bool:
    """True if there is no connection because this process may open no more files."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return False
    if error.os_error.errno in TOO_MANY_FILES:
        return True
    # A look-up of a name that cannot open its socket fails in words of its own.
    return isinstance(error, aiohttp.ClientConnectorDNSError) and not may_open_more()


def os_error_text(error: OSError) -> str:
    """Why there is no connection, in the system's words."""
    # Negative ones are of name look-ups (EAI_...), which strerror does not know.
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


class _Protocol(ResponseHandler):
    """aiohttp's protocol with a shortcut: a response that comes simple and in one piece needs no parser or stream.

    Servers on the same machine or network respond like that, and there the cost of a call counts: reading a response
    with nine rate-limit headers through aiohttp's parser and stream costs 25 us, here 5.
    """

    _expecting: asyncio.Future[HttpResponse | None] | None = None
    idle_since: float | None = None
    """When the last response on it was complete; None on a new connection."""
    _keep_alive_s = KEEP_ALIVE_SHARE * SERVER_KEEP_ALIVE_S
    _received = False
    _began = 0.0
    """When the exchange began, by the loop's time."""
    _deadline = inf
    """The loop's time at which an exchange is given up."""
    _in_grace = False
    """Whether its deadline was put off; that is done once, or a loop that is always late would never end it."""
    deadline_passed = False

    def begin(self, reuse: bool, now: float) -> bool:
        """Start an exchange; False if the connection has been used before and must not be used again."""
        if self.idle_since is not None:
            is_expired = now - self.idle_since > self._keep_alive_s
            if is_expired or not reuse:
                return False
        self._received, self._began = False, now
        return True

    def may_be_reused(self, now: float) -> bool:
        """Start a further exchange; False if the connection is closed, or about to be."""
        is_expired = self.idle_since is not None and now - self.idle_since > self._keep_alive_s
        if self.transport is None or is_expired or self.should_close:
            return False
        self._received, self._began = False, now
        return True

    def has_spare_descriptor(self) -> bool:
        """True if its socket takes one of the last descriptors, which files of the run need."""
        if self.transport is None:
            return False
        socket = self.transport.get_extra_info("socket")
        return socket is not None and is_spare(socket.fileno())

    def begin_deadline(self, total_s: float) -> None:
        """Give the exchange that has begun so many seconds."""
        self._in_grace, self._deadline = False, self._began + total_s

    def check_deadline(self, now: float) -> None:
        """Abort the connection after its deadline, but never before its socket has been read."""
        if now < self._deadline:
            return
        if now - self._deadline > LATE_S and not self._in_grace:
            self._in_grace, self._deadline = True, now + GRACE_S
            return
        self.deadline_passed = True
        if self.transport is not None:
            self.transport.abort()

    def finish(self, response: HttpResponse) -> bool:
        """End an exchange with its complete response, which may say how long the connection is kept.

        Return whether another request may follow on it.
        """
        self.idle_since = self._loop.time()
        headers = response.headers
        if type(headers) is LateHeaders or headers is _NO_HEADERS:
            return True  # a simple one, without a word on the connection
        if "keep-alive" in headers:
            timeout = _KEEP_ALIVE_TIMEOUT.search(headers["keep-alive"])
            if timeout:
                self._keep_alive_s = min(KEEP_ALIVE_SHARE * int(timeout[1]), MAX_IDLE_S)
        return not self.should_close

    def is_stale(self) -> bool:
        """True where a lost connection was closed by the server while it was idle."""
        if self.idle_since is None or self._received:
            return False
        return self._loop.time() - self._began < STALE_S

    def _on_read_timeout(self) -> None:
        timer = self._read_timeout_handle
        if timer is not None and self._loop.time() - timer.when() > LATE_S:
            self._read_timeout_handle = self._loop.call_later(GRACE_S, super()._on_read_timeout)
        else:
            super()._on_read_timeout()

    def expect(self) -> asyncio.Future[HttpResponse | None]:
        """The response to what is sent now; None if it is not simple, and has to be read as aiohttp does."""
        self._expecting = self._loop.create_future()
        return self._expecting

    def data_received(self, data: bytes) -> None:
        self._received = True
        expecting, self._expecting = self._expecting, None
        if expecting is None or expecting.done():
            super().data_received(data)
            return
        response = _parse_simple(data)
        if response is None:
            self.set_response_params(read_until_eof=True, auto_decompress=False)
            super().data_received(data)
        expecting.set_result(response)

    def connection_lost(self, exc: BaseException | None) -> None:
        expecting, self._expecting = self._expecting, None
        if expecting is not None and not expecting.done():
            expecting.set_exception(aiohttp.ServerDisconnectedError())
        super().connection_lost(exc)


# Transfer and content encodings, the end of the connection, and folded header lines need the real parser. A tab stands
# for a folded line wherever it is: hardly any head has one, and a single character is found at once.
_NOT_SIMPLE = ("\t", "-encoding:", "connection: close", "\r\n ")
_LENGTH = "\r\ncontent-length: "
_READ_HEADERS = re.compile(r"\r\n((?:x|anthropic)-ratelimit-[^:\r]*|date|keep-alive):([^\r]*)")
_KEEP_ALIVE_TIMEOUT: Final = re.compile(r"timeout\s*=\s*\"?(\d{1,9})")
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


def _parse_simple(data: bytes) -> HttpResponse | None:
    """The response if `data` is all of it: 200, of the length it says, with nothing that needs the parser; else None."""
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        return None
    text = head.decode("latin-1").lower()
    for words in _NOT_SIMPLE:
        if words in text:
            return None
    length = text.partition(_LENGTH)[2].partition("\r\n")[0]
    if length != str(len(body)):  # as text: a server may send more digits than Python turns into a number
        return None
    if "\r\nkeep-alive: " in text:
        return HttpResponse(200, dict(_READ_HEADERS.findall(text)), body)
    if "ratelimit" in text:
        return HttpResponse(200, LateHeaders(text), body)
    return HttpResponse(200, _NO_HEADERS, body)


class ConnectionPool(aiohttp.TCPConnector):
    """Connections for `HttpEndpoint`, as many as are asked for, through the proxies that `environ` names."""

    def __init__(self, environ: Mapping[str, str] = _NO_HEADERS) -> None:
        # The longest time that any may be idle; `_Protocol.begin` decides for each.
        super().__init__(limit=0, ttl_dns_cache=300, keepalive_timeout=MAX_IDLE_S)
        self._factory = partial(_Protocol, loop=asyncio.get_running_loop())  # type: ignore[assignment]
        self.environ = environ
        self.idle: defaultdict[ConnectionKey, list[tuple[Connection, _Protocol]]] = defaultdict(list)
        """Connections that wait for their next request, the latest last. The pool's own way to them costs 20 calls."""
        self._sweep: asyncio.TimerHandle | None = None
        self._exchanging: set[_Protocol] = set()
        """Connections whose response is awaited."""
        self._deadline_check: asyncio.TimerHandle | None = None

    def begin_exchange(self, protocol: _Protocol, total_s: float) -> None:
        """Note that a request is sent on a connection, whose response has to be complete in `total_s` seconds."""
        protocol.begin_deadline(total_s)
        self._exchanging.add(protocol)
        if self._deadline_check is None:
            self._deadline_check = self._loop.call_later(CHECK_EVERY_S, self._check_deadlines)

    def end_exchange(self, protocol: _Protocol) -> None:
        """Note that its response is there, or no longer awaited."""
        self._exchanging.discard(protocol)

    def _check_deadlines(self) -> None:
        self._deadline_check = None
        now = self._loop.time()
        for protocol in tuple(self._exchanging):
            protocol.check_deadline(now)
        if self._exchanging:
            self._deadline_check = self._loop.call_later(CHECK_EVERY_S, self._check_deadlines)

    def begin_sweeping(self) -> None:
        """Look after a while whether connections are idle for too long."""
        if self._sweep is None:
            self._sweep = self._loop.call_later(MAX_IDLE_S, self._close_idle)

    def _close_idle(self) -> None:
        """Close what has been idle for too long: a burst's connections must not be held until the end."""
        self._sweep = None
        now = self._loop.time()
        for connections in self.idle.values():
            used: list[tuple[Connection, _Protocol]] = []
            for connection, protocol in connections:
                if now - (protocol.idle_since or now) < MAX_IDLE_S:
                    used.append((connection, protocol))
                else:
                    connection.close()
            connections[:] = used
        if any(self.idle.values()):
            self._sweep = self._loop.call_later(MAX_IDLE_S, self._close_idle)

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections, the idle ones too."""
        for timer in (self._sweep, self._deadline_check):
            if timer is not None:
                timer.cancel()
        for connections in self.idle.values():
            for connection, _ in connections:
                connection.close()
            connections.clear()
        await super().close(abort_ssl=abort_ssl)


class _Target(aiohttp.ClientRequest):
    """A request that only says where to connect to; as it never changes, its key is made once."""

    @cached_property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent. Values must be printable."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode()


def _host(url: URL) -> str:
    host = url.host_subcomponent or ""
    if url.is_default_port():
        return host
    return f"{host}:{url.port}"
