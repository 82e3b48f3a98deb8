"""The one HTTP client: `chat(spec, request)` returns a Reply or raises the error that the failure stands for.

One pool of connections serves all providers. The lanes limit them, not the pool, and every request has a deadline: one
that hangs cannot hold an instance for ever.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import aiohttp

from cts_async import __version__
from cts_async.errors import (
    ContentRefused,
    ParameterRefused,
    ProviderRefused,
    RejectedError,
)
from cts_async.llm.apis import Api, load_api
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.http import (
    ENCODINGS,
    ConnectionPool,
    HttpEndpoint,
    encode_headers,
)
from cts_async.llm.messages import ChatRequest, Reply
from cts_async.llm.redact import SECRETS
from cts_async.llm.responses import refused_parameter
from cts_async.values import value

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": ENCODINGS,
    "User-Agent": f"cts-async/{__version__}",
}


@value
class _Route:
    """Everything about calling one model that is the same for every call."""

    api: Api
    head: bytes
    endpoint: HttpEndpoint


class Client:
    """Use as `async with Client(environ) as client`. Keys are read from `environ` and stored nowhere else."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._pool: ConnectionPool | None = None
        self._endpoints: dict[str, HttpEndpoint] = {}
        self._routes: dict[tuple[str, str, str], _Route] = {}
        self._refused: dict[tuple[str, str], tuple[str, ...]] = {}
        """Parameters that a server has refused, by its address and model id."""

    async def __aenter__(self) -> Self:
        self._pool = ConnectionPool(self._environ)
        self._session = aiohttp.ClientSession(connector=self._pool)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        """Make one attempt. Raises TransientError, RejectedError (StepErrors) or ProviderRefused (stops the run).

        A parameter that the server refuses (ParameterRefused) is never sent to it again.
        """
        dropped: tuple[str, ...] = ()
        if refused := self._refused.get((spec.base_url, spec.model)):
            dropped = tuple(name for name in refused if name in spec.sent(request.params))
            spec = replace(spec, drops=(*spec.drops, *dropped))
        key = self._environ.get(spec.key_env, "").strip() if spec.key_env else ""
        route = self._routes.get((spec.name, spec.base_url, key)) or self._route(spec, key)
        body = route.api.body(spec, request)
        try:
            response = await route.endpoint.send(route.head, body, spec.timeout_s, spec.idle_timeout_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            where = f"{spec.name}: {spec.base_url}"
            raise route.endpoint.failure(error, where, spec.timeout_s, spec.idle_timeout_s) from None
        # An error may repeat the key it was sent, and so may a careless gateway anywhere.
        data = SECRETS.body(response.data, good=response.status == 200)
        try:
            reply = route.api.reply(spec, response.status, response.headers, data, time.time())
        except RejectedError as error:
            parameter = refused_parameter(response.status, data, spec.sent(request.params))
            if parameter is None or isinstance(error, ContentRefused):
                raise
            server = spec.base_url, spec.model
            self._refused[server] = tuple(dict.fromkeys((*self._refused.get(server, ()), parameter)))
            raise ParameterRefused(str(error), parameter=parameter, status=error.status) from None
        return replace(reply, dropped=dropped) if dropped else reply

    def proxy(self, spec: ModelSpec) -> str | None:
        """The proxy that leads to the model, as a person may see it. Raises UsageError if it cannot be used."""
        proxy = self._endpoint(spec.base_url + load_api(spec.api).PATH).proxy
        return str(proxy) if proxy else None

    async def reach(self, spec: ModelSpec, timeout_s: float) -> None:
        """Connect to the model's server, with TLS and through the proxy. Raises as `chat` does."""
        endpoint = self._endpoint(spec.base_url + load_api(spec.api).PATH)
        try:
            await endpoint.reach(timeout_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise endpoint.failure(error, f"{spec.name}: {spec.base_url}", timeout_s) from None

    def _route(self, spec: ModelSpec, key: str) -> _Route:
        if not key.isprintable():
            raise ProviderRefused(
                f"{spec.name}: {spec.key_env} is no key: it has line breaks or other control characters inside"
            )
        api = load_api(spec.api)
        head = encode_headers({**_HEADERS, **api.headers(key)})
        SECRETS.add(key)
        route = _Route(api, head, self._endpoint(spec.base_url + api.PATH))
        self._routes[spec.name, spec.base_url, key] = route
        return route

    def _endpoint(self, url: str) -> HttpEndpoint:
        endpoint = self._endpoints.get(url)
        if endpoint is None:
            if self._session is None or self._pool is None:
                raise RuntimeError("the client is not open")
            endpoint = self._endpoints[url] = HttpEndpoint(self._pool, self._session, url)
        return endpoint
