"""Which addresses a page may be fetched from: only those of the public internet, unless the user allows more.

A model chooses what is visited, and a page chooses where it redirects: without these checks either could read what
only this machine can reach (server-side request forgery). Names are judged by the addresses they resolve to. aiohttp
connects to the very addresses that its resolver returns, so a name that resolves to a public address when checked and
to a private one when connected to (DNS rebinding) has no second chance: there is one lookup, and its result is what
was checked. `checked_url` does the same for numeric addresses, which aiohttp does not look up.

Sources: IANA's special-purpose address registries (RFC 6890), the WHATWG URL standard's spellings of IPv4.
"""

from __future__ import annotations

import asyncio
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from cts_async.errors import ToolError

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

HTTPS_PORT: Final = 443
PUBLIC_PORTS: Final = frozenset({80, HTTPS_PORT})

REFUSED: Final[tuple[IPNetwork, ...]] = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's wire server, public only by its number
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays
        "224.0.0.0/4",  # multicast
        "::/3",  # unspecified, loopback, IPv4 mapped and embedded, NAT64 (64:ff9b::/96), discard
        "2001::/23",  # protocol assignments, with Teredo
        "2002::/16",  # 6to4, which embeds an IPv4 address
        "3fff::/20",  # documentation
        "4000::/2",  # not assigned
        "8000::/1",  # not assigned, unique local, link-local, site-local, multicast
    )
)
"""Networks without public hosts that `is_global` of some Python version counts as global."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAMES: Final = frozenset({"localhost", "localdomain", "local", "internal", "intranet", "lan", "home"})
# What IDNA takes for a dot besides "." (RFC 3490, section 3.1).
_DOTS: Final = str.maketrans("。．｡", "...")
# With underscores: RFC 952 has none, but names in use do.
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PART = re.compile(r"0x[0-9a-f]{0,60}|[0-9]{1,60}")
_MAX_NAME: Final = 253


def is_refused(address: IPAddress) -> bool:
    """True unless `address` is that of a public host."""
    # An address with a scope is of one link of this machine, whatever its digits say.
    if isinstance(address, IPv6Address) and address.scope_id:
        return True
    return not address.is_global or any(
        address in network for network in REFUSED if network.version == address.version
    )


def behind_nat64(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that an address of the well-known prefix stands for (RFC 6052); others unchanged.

    In IPv6-only networks, name servers return such an address for every host (DNS64).
    """
    if address.version == 6 and address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def spelled_address(host: str) -> IPAddress | None:
    """Return the address that `host` spells out; None if it is a name.

    IPv4 in all spellings that a browser or `inet_aton` accepts: 1 to 4 parts, each decimal, octal (`0177`) or
    hexadecimal (`0x7f`), the last one filling the rest. ValueError if it looks like an address but is none.
    """
    bare = host
    if host.startswith("[") and host.endswith("]"):
        bare = host[1:-1]
    if ":" in bare:
        return IPv6Address(bare)
    parts = bare.lower().removesuffix(".").split(".")
    if not re.match(r"[0-9]+$|0x", parts[-1], re.ASCII):
        return None
    numbers = [_number(part) for part in parts]
    value = numbers.pop()
    if len(numbers) > 3 or max(numbers, default=0) > 255 or value >= 256 ** (4 - len(numbers)):
        raise ValueError(f"{host!r} is not a valid address")
    for place, number in enumerate(numbers):
        value += number << (8 * (3 - place))
    return IPv4Address(value)


def _number(part: str) -> int:
    """Parse one part of an IPv4 address as the C library does; ValueError if it is invalid."""
    if not _PART.fullmatch(part):
        raise ValueError(f"{part!r} is not a part of an address")
    if part == "0x":  # which the C library takes for 0
        return 0
    if part.startswith("0x"):
        return int(part, 16)
    if part.startswith("0"):
        return int(part, 8)
    return int(part)


def canonical_host(host: str) -> str:
    """Return `host` as it is looked up: lower case, ASCII (IDNA), no final dot, addresses in standard spelling.

    ValueError if it is invalid.
    """
    import idna

    # Twice: NFKC makes some of these dots out of other characters.
    plain = unicodedata.normalize("NFKC", host.translate(_DOTS)).translate(_DOTS).lower()
    address = spelled_address(plain)
    if address is not None:
        return str(address)
    name = plain.removesuffix(".")
    if not name.isascii():
        name = idna.encode(name, uts46=True, transitional=False).decode("ascii")  # its errors are ValueErrors
    if len(name) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{host!r} is not a valid host name")
    return name


def page_host(url: str) -> str:
    """Return the host of an http(s) address; ToolError if it is not one."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme.lower() not in ("http", "https"):
        raise ToolError("only http and https addresses can be visited", reason="refused address")
    return host


@dataclass(frozen=True, slots=True)
class AllowList:
    """Hosts and networks that may be private, and may be asked at any port."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPNetwork, ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Self:
        """Parse names (`wiki.lan`), addresses and networks (`10.1.0.0/16`); ValueError names an invalid one."""
        hosts: set[str] = set()
        networks: list[IPNetwork] = []
        for entry in entries:
            try:
                networks.append(ip_network(entry.strip().strip("[]")))
            except ValueError:
                hosts.add(_allowed_name(entry))
        return cls(frozenset(hosts), tuple(networks))

    def host_problem(self, host: str) -> str | None:
        """Return why the canonical `host` must not even be looked up; None if it may."""
        if host in self.hosts:
            return None
        # Who allows a network may name its hosts: their addresses are checked once they are looked up.
        if host.rpartition(".")[2] in _LOCAL_NAMES and not self.networks:
            return "is a name of this machine or its network"
        return None

    def permits(self, host: str, address: IPAddress, port: int) -> bool:
        """True if the canonical `host` may be contacted at `address`, which it resolved to or is, and `port`."""
        if host in self.hosts or any(address in network for network in self.networks):
            return True
        return port in PUBLIC_PORTS and not is_refused(address)


def _allowed_name(entry: str) -> str:
    try:
        name = canonical_host(entry.strip())
        if spelled_address(name) is None:
            return name
    except ValueError:
        pass
    raise ValueError(f"{entry!r} is neither a host nor a network such as 10.1.0.0/16")


# --- Lookups


Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name; OSError if there are none."""

MAX_URL_CHARS: Final = 8000
LOOKUP_S: Final = 5.0
"""Seconds after which a name counts as unknown."""
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]")


async def system_lookup(host: str) -> Sequence[str]:
    """Ask the system's resolver, in a thread."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[-1][0]) for entry in entries]


class CheckedResolver(AbstractResolver):
    """Returns only addresses that may be connected to; ToolError ("refused address") if a name has none."""

    def __init__(self, allow: AllowList, lookup: Lookup = system_lookup) -> None:
        self._allow, self._lookup = allow, lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look `host` up and keep the addresses permitted at `port`; OSError if it has no address."""
        addresses = dict.fromkeys(await self._lookup(host))
        permitted = [text for text in addresses if self._allow.permits(host, ip_address(text), port)]
        if not permitted:
            raise _refused(host, port)
        return [_resolve_result(host, address, port) for address in permitted]

    async def close(self) -> None:
        """Do nothing: no resource is held."""


async def check_target(text: str, allow: AllowList, lookup: Lookup = system_lookup) -> str:
    """Check an address that a page reader is to fetch for us; ToolError ("refused address") if it must not.

    Returns the address as checked: a reader with another parser could read another host in `text`.

    A name is refused if any of its addresses, as resolved here, is private, whatever the port. Not covered are
    redirects that the reader follows, and its own lookups: a name that this machine cannot resolve is passed on.
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
        # Of the address only: the port is the reader's matter, and it is not in our network.
        if not allow.permits(host, behind_nat64(ip_address(address)), HTTPS_PORT):
            raise _refused(host, HTTPS_PORT)
    return str(url)


def checked_url(text: str, allow: AllowList, *, any_port: bool = False) -> URL:
    """Parse and check an address; its host is in the one spelling that is checked and connected to.

    ToolError ("refused address") for anything except http(s) to a permitted host and port.
    """
    # A backslash is a slash to some parsers: they would read another host than this one.
    if len(text) > MAX_URL_CHARS or _UNSAFE.search(text.strip()):
        raise _malformed()
    try:
        url = URL(text.strip()).with_fragment(None)
        port = url.port or 0
        if any_port:
            port = HTTPS_PORT
        host = canonical_host(url.raw_host or "")
        address = spelled_address(host)
    except (ValueError, IndexError):  # yarl raises the latter for "http://[::1]@/"
        raise _malformed() from None
    if url.scheme not in ("http", "https"):
        raise ToolError("only http and https addresses can be visited", reason="refused address", host=host)
    if url.user is not None or url.password is not None:
        raise ToolError("addresses with user names are not visited", reason="refused address", host=host)
    if address is not None and not allow.permits(host, address, port):
        raise _refused(host, port)
    problem = allow.host_problem(host)
    if problem:
        raise ToolError(f"{host} {problem}", reason="refused address", host=host)
    return url.with_host(host)


def _resolve_result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET
    if ip_address(address).version == 6:
        family = socket.AF_INET6
    # AI_NUMERICHOST: aiohttp is not to look the address up once more.
    return ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )


def _refused(host: str, port: int) -> ToolError:
    if port not in PUBLIC_PORTS:
        return ToolError(f"port {port} of {host} is not visited", reason="refused address", host=host)
    return ToolError(f"{host} is not a public address", reason="refused address", host=host)


def _malformed() -> ToolError:
    return ToolError("this is not a valid http or https address", reason="refused address")
