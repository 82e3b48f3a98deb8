"""Names are looked up, checked and connected to in one go.

aiohttp connects to the very addresses that its resolver gives it. A name that answers a public address when it
is checked and a private one when it is connected to (DNS rebinding) has no second chance here: there is one
look-up, and what it gave is what was checked. `checked_url` does the same for addresses in figures, which
aiohttp does not look up.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from cts_async.errors import ToolError
from cts_async.search.backends.addresses import (
    HTTPS_PORT,
    PUBLIC_PORTS,
    AllowList,
    behind_nat64,
    canonical_host,
    spelled_address,
)

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Gives the addresses of a name; OSError if there are none."""

MAX_URL_CHARS: Final = 8000
LOOKUP_S: Final = 5.0
"""A name server that takes longer counts as one that does not know the name."""
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]")


async def system_lookup(host: str) -> Sequence[str]:
    """Ask the system's resolver, in a thread."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


class CheckedResolver(AbstractResolver):
    """Gives only addresses that may be connected to; ToolError ("refused address") if a name has no other."""

    def __init__(self, allow: AllowList, lookup: Lookup = system_lookup) -> None:
        self._allow, self._lookup = allow, lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look `host` up and keep what `port` of it may be connected to; OSError if it has no address."""
        addresses = dict.fromkeys(await self._lookup(host))
        permitted = [text for text in addresses if self._allow.permits(host, ip_address(text), port)]
        if not permitted:
            raise _refused(host, port)
        return [_result(host, address, port) for address in permitted]

    async def close(self) -> None:
        """Nothing is kept open."""


async def check_target(text: str, allow: AllowList, lookup: Lookup = system_lookup) -> str:
    """Check an address that a page reader is to fetch for us; ToolError ("refused address") if it may not.

    Gives the address in the spelling that was checked: a reader with another parser could take `text` for another host.

    A name is refused for any private address that it has here, at whatever port. Out of reach are redirects that the
    reader follows, and what it resolves by itself: a name that this machine cannot resolve is left to the reader.
    """
    url = checked_url(text, allow, any_port=True)
    host = url.raw_host or ""
    if spelled_address(host) is not None:
        return str(url)
    try:
        async with asyncio.timeout(LOOKUP_S):
            addresses = await lookup(host)
    except (OSError, TimeoutError):
        return str(url)
    for address in addresses:
        if not allow.permits(host, behind_nat64(ip_address(address)), HTTPS_PORT):
            raise _refused(host, HTTPS_PORT)
    return str(url)


def checked_url(text: str, allow: AllowList, *, any_port: bool = False) -> URL:
    """The address to ask for, with its host in the one spelling that is checked and connected to.

    ToolError ("refused address") for anything but http(s) to a host that may be visited, at a port that may be.
    """
    if len(text) > MAX_URL_CHARS or _UNSAFE.search(text.strip()):
        raise _malformed()
    try:
        url = URL(text.strip()).with_fragment(None)
        host, port = url.raw_host or "", HTTPS_PORT if any_port else url.port or 0
        host = canonical_host(host)
        address = spelled_address(host)
    except (ValueError, IndexError):  # yarl trips over the latter in "http://[::1]@/"
        raise _malformed() from None
    if url.scheme not in ("http", "https"):
        raise ToolError("only http and https addresses can be visited", reason="refused address", host=host)
    if url.user is not None or url.password is not None:
        raise ToolError("addresses with user names are not visited", reason="refused address", host=host)
    if address is not None and not allow.permits(host, address, port):
        raise _refused(host, port)
    if problem := allow.host_problem(host):
        raise ToolError(f"{host} {problem}", reason="refused address", host=host)
    return url.with_host(host)


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6
    return ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )


def _refused(host: str, port: int) -> ToolError:
    if port not in PUBLIC_PORTS:
        return ToolError(f"port {port} of {host} is not visited", reason="refused address", host=host)
    return ToolError(f"{host} is not a public address", reason="refused address", host=host)


def _malformed() -> ToolError:
    return ToolError("this is not a valid http or https address", reason="refused address")
