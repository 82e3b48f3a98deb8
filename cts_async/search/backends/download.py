"""One attempt at a web page: its redirects followed by hand, each checked as the first address was.

A redirect from https to http is followed: no secret is sent either way, and http pages are read as well.
Cookies live for one attempt, since some hosts redirect for ever without them. Proxies of the environment are
not used: they would connect where nobody checks.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
import anyio
from yarl import URL

from cts_async.errors import ToolError, TransientError
from cts_async.llm.responses import retry_after_s
from cts_async.search.backends.addresses import AllowList
from cts_async.search.backends.body import PageKind, charset_of, declared_kind, kind_of, read_body, too_large
from cts_async.search.backends.network_errors import trouble_of
from cts_async.search.backends.resolver import CheckedResolver, Lookup, checked_url, system_lookup

CONNECT_S: Final = 10.0
PER_HOST: Final = 2
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PASSING: Final = frozenset({408, 425, 429})
_BLOCK: Final = 65_536


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one attempt may take and where it may go; `timeout_s` is for all its exchanges together."""

    timeout_s: float
    max_bytes: int
    max_redirects: int
    allow: AllowList
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Download:
    """A page as it came: the address it was found at in the end, its kind, the charset of its header or ""."""

    url: str
    kind: PageKind
    charset: str
    data: bytes


class HostTrouble(TransientError):
    """The page's own host could not answer now; another attempt may help. `reason` as in `ToolError`."""

    def __init__(self, message: str, reason: str, host: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.reason, self.host = reason, host


class HostSlots:
    """At most `PER_HOST` exchanges at a time with one host; hosts without any are forgotten."""

    def __init__(self) -> None:
        self._slots: dict[str, anyio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, host: str) -> AsyncIterator[None]:
        """Hold one of the host's places."""
        slot = self._slots.setdefault(host, anyio.Semaphore(PER_HOST))
        self._users[host] = self._users.get(host, 0) + 1
        try:
            async with slot:
                yield
        finally:
            self._users[host] -= 1
            if not self._users[host]:
                del self._slots[host], self._users[host]


async def download(url: str, bounds: Bounds, slots: HostSlots, lookup: Lookup = system_lookup) -> Download:
    """Get the page at `url`. HostTrouble if another attempt may help, else ToolError."""
    resolver = CheckedResolver(bounds.allow, lookup)
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=0)
    left_s = bounds.timeout_s
    target = checked_url(url, bounds.allow)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, trust_env=False, headers=bounds.headers
    ) as session:
        for _ in range(bounds.max_redirects + 1):
            host = target.host or ""
            async with slots.of(host):
                began = anyio.current_time()
                got = await _exchange(session, target, bounds, left_s)
                left_s -= anyio.current_time() - began
            if isinstance(got, Download):
                return got
            target = _next(target, got, bounds.allow)
    raise ToolError(f"more than {bounds.max_redirects} redirects", reason="redirects", host=host)


async def _exchange(
    session: aiohttp.ClientSession, url: URL, bounds: Bounds, left_s: float
) -> Download | str:
    """Ask once: the page, or where it says that the page is."""
    host = url.host or ""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
    try:
        with anyio.fail_after(max(0.0, left_s)):
            async with session.get(url, allow_redirects=False, timeout=timeout) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    return response.headers["Location"]
                _check_status(response, host)
                return await _page(response, bounds)
    except (aiohttp.ClientError, TimeoutError) as error:
        trouble = trouble_of(error, bounds.timeout_s)
        if trouble.passing:
            raise HostTrouble(f"{host}: {trouble.text}", trouble.reason, host) from None
        raise ToolError(f"{host}: {trouble.text}", reason=trouble.reason, host=host) from None
    except ToolError as error:
        error.host = error.host or host
        raise


def _check_status(response: aiohttp.ClientResponse, host: str) -> None:
    status = response.status
    if 200 <= status < 300:
        return
    reason, message = f"http {status}", f"{host} answered HTTP {status}"
    if status >= 500 or status in _PASSING:
        raise HostTrouble(message, reason, host, retry_after_s(response.headers, time.time()))
    raise ToolError(message, reason=reason, host=host)


async def _page(response: aiohttp.ClientResponse, bounds: Bounds) -> Download:
    content_type = response.headers.get("Content-Type", "")
    declared_kind(content_type)  # a film is refused before it is loaded
    if (response.content_length or 0) > bounds.max_bytes:
        raise too_large(bounds.max_bytes)
    blocks = response.content.iter_chunked(_BLOCK)
    data = await read_body(blocks, response.headers.get("Content-Encoding", ""), bounds.max_bytes)
    return Download(str(response.url), kind_of(content_type, data), charset_of(content_type), data)


def _next(current: URL, location: str, allow: AllowList) -> URL:
    """The address that a redirect leads to, checked."""
    try:
        target = str(current.join(URL(location.strip())))
    except (ValueError, IndexError):  # as in checked_url
        host = current.host or ""
        raise ToolError("a redirect to an invalid address", reason="redirects", host=host) from None
    return checked_url(target, allow)
