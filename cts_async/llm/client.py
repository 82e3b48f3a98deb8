"""The one HTTP client: `chat(spec, request)` gives a Reply or raises what the failure means.

One pool of connections for all providers. They are limited by the lanes, not by the pool, and every
exchange has a deadline: a hung request cannot hold an instance for ever.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, Protocol, Self

import aiohttp

from cts_async import __version__
from cts_async.errors import (
    ContentRefused,
    CTSError,
    ParameterRefused,
    ProviderRefused,
    RejectedError,
    TimedOut,
    TransientError,
)
from cts_async.llm import anthropic, openai
from cts_async.llm.catalog import Api, ModelSpec
from cts_async.llm.http import (
    CONNECT_S,
    ENCODINGS,
    BrokenAnswer,
    Exchange,
    NotHTTP,
    Pool,
    UnknownEncoding,
    header_lines,
    reason_of,
)
from cts_async.llm.messages import ChatRequest, Reply
from cts_async.llm.redact import SECRETS
from cts_async.llm.responses import refused_parameter
from cts_async.values import value


class Adapter(Protocol):
    """A kind of API: a module with its path, and the shapes of its requests and answers."""

    @property
    def PATH(self) -> str: ...

    def headers(self, key: str) -> dict[str, str]: ...

    def body(self, spec: ModelSpec, request: ChatRequest) -> bytes: ...

    def reply(
        self, spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float
    ) -> Reply: ...


_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": ENCODINGS,
    "User-Agent": f"cts-async/{__version__}",
}
"""What every request says in its head, whichever API it is for."""
ADAPTERS: Final[Mapping[Api, Adapter]] = {"openai": openai, "anthropic": anthropic}


@value
class _Line:
    """Everything about calling one model that is the same for every call."""

    adapter: Adapter
    head: bytes
    exchange: Exchange


class Client:
    """Use as `async with Client(environ) as client`. Keys are read from `environ` and kept nowhere else."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._connector: Pool | None = None
        self._exchanges: dict[str, Exchange] = {}
        self._lines: dict[tuple[str, str, str], _Line] = {}
        self._refused: dict[tuple[str, str], tuple[str, ...]] = {}
        """Parameters that a server has refused, by its address and model id."""

    async def __aenter__(self) -> Self:
        self._connector = Pool(self._environ)
        self._session = aiohttp.ClientSession(connector=self._connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        """One attempt. Raises TransientError, RejectedError (StepErrors) or ProviderRefused (stops the run).

        A parameter that the server refuses (ParameterRefused) is never sent to it again.
        """
        dropped: tuple[str, ...] = ()
        if refused := self._refused.get((spec.base_url, spec.model)):
            dropped = tuple(name for name in refused if name in spec.sent(request.params))
            spec = replace(spec, drops=(*spec.drops, *dropped))
        key = self._environ.get(spec.key_env, "").strip() if spec.key_env else ""
        line = self._lines.get((spec.name, spec.base_url, key)) or self._line(spec, key)
        adapter = line.adapter
        body = adapter.body(spec, request)
        try:
            answer = await line.exchange.send(line.head, body, spec.timeout_s, spec.idle_timeout_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _failure(spec, line.exchange, error) from None
        # An error may repeat the key it was sent, and so may a careless gateway anywhere.
        data = SECRETS.body(answer.data, good=answer.status == 200)
        try:
            reply = adapter.reply(spec, answer.status, answer.headers, data, time.time())
        except RejectedError as error:
            parameter = refused_parameter(answer.status, data, spec.sent(request.params))
            if parameter is None or isinstance(error, ContentRefused):
                raise
            server = spec.base_url, spec.model
            self._refused[server] = tuple(dict.fromkeys((*self._refused.get(server, ()), parameter)))
            raise ParameterRefused(str(error), parameter=parameter, status=error.status) from None
        return replace(reply, dropped=dropped) if dropped else reply

    def proxy(self, spec: ModelSpec) -> str | None:
        """The proxy that leads to the model, as a person may see it. UsageError if it cannot be used."""
        proxy = self._exchange(spec.base_url + ADAPTERS[spec.api].PATH).proxy
        return str(proxy) if proxy else None

    async def reach(self, spec: ModelSpec, timeout_s: float) -> None:
        """Connect to the model's server, with TLS and through the proxy. Raises as `chat` does."""
        exchange = self._exchange(spec.base_url + ADAPTERS[spec.api].PATH)
        try:
            await exchange.reach(timeout_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _failure(replace(spec, timeout_s=timeout_s), exchange, error) from None

    def _line(self, spec: ModelSpec, key: str) -> _Line:
        if not key.isprintable():
            raise ProviderRefused(
                f"{spec.name}: {spec.key_env} is no key: it has line breaks or the like inside"
            )
        adapter = ADAPTERS[spec.api]
        head = header_lines({**_HEADERS, **adapter.headers(key)})
        SECRETS.add(key)
        line = _Line(adapter, head, self._exchange(spec.base_url + adapter.PATH))
        self._lines[spec.name, spec.base_url, key] = line
        return line

    def _exchange(self, url: str) -> Exchange:
        exchange = self._exchanges.get(url)
        if exchange is None:
            if self._session is None or self._connector is None:
                raise RuntimeError("the client is not open")
            exchange = self._exchanges[url] = Exchange(self._connector, self._session, url)
        return exchange


def _failure(spec: ModelSpec, exchange: Exchange, error: aiohttp.ClientError | TimeoutError) -> CTSError:
    """What it means that there is no whole answer."""
    if isinstance(error, TimeoutError):
        unsent = isinstance(error, aiohttp.ConnectionTimeoutError)
        return TimedOut(f"{spec.name}: {_deadline(error, spec, exchange)}", unsent=unsent)
    where = f"{spec.name}: {spec.base_url}"
    if refusal := exchange.refusal(error):
        return ProviderRefused(f"{where}: {refusal}; the same command resumes")
    if isinstance(error, UnknownEncoding):
        return RejectedError(f"{where}: {error}", status=200)
    # A server whose answer breaks off is there: that is no outage.
    status = 200 if isinstance(error, BrokenAnswer) else None
    unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError)
    reason = exchange.proxy_problem(error) or _plain(error)
    return TransientError(f"{where}: {reason}", status=status, unsent=unsent)


def _deadline(error: TimeoutError, spec: ModelSpec, exchange: Exchange) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        through = f" through the {exchange.proxy}" if exchange.proxy else ""
        return f"no connection to {spec.base_url}{through} within {min(CONNECT_S, spec.timeout_s):g} s"
    if isinstance(error, aiohttp.SocketTimeoutError) and spec.idle_timeout_s:
        return f"not a byte for {spec.idle_timeout_s:g} s"
    return f"no answer within {spec.timeout_s:g} s"


def _plain(error: aiohttp.ClientError) -> str:
    """An error's message on one line.

    Of an answer that could not be read nothing is quoted: its head may repeat that of the request, with the key.
    """
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{type(error).__name__} (HTTP {error.status})"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return f"no connection ({reason_of(error.os_error)})"
    if isinstance(error, (BrokenAnswer, NotHTTP, aiohttp.ClientSSLError)):
        return SECRETS.text(" ".join(str(error).split()))
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    return f"the connection was lost ({type(error).__name__})"
