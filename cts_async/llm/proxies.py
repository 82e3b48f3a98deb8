"""The proxies that the environment names: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in either case.

Read as urllib and curl do: lower case wins, and an empty value means none. HTTP_PROXY in capitals is ignored in
a CGI script, where a visitor's header `Proxy:` sets it (CVE-2016-5385). This machine's own addresses never use
a proxy. SOCKS is not supported.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Self

from yarl import URL

from cts_async.errors import UsageError
from cts_async.llm.redact import SECRETS


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy: the variable that names it, its address without credentials, and the header that has these."""

    variable: str
    url: URL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"proxy {self.url} ({self.variable})"


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which proxy leads to which address."""

    named: Mapping[str, tuple[str, str]] = field(repr=False)
    """Variable and value by scheme, or by "all"."""
    bypassed: tuple[str, ...] = ()
    """Hosts, domains, `host:port` and networks (`10.0.0.0/8`) that are reached without one; `*` is all of them."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read the variables; what they hold is checked when it is used."""
        named: dict[str, tuple[str, str]] = {}
        for scheme in ("https", "http", "all", "no"):
            lower = f"{scheme}_proxy"
            upper = "" if scheme == "http" and "REQUEST_METHOD" in environ else lower.upper()
            variable = lower if lower in environ else upper
            if text := environ.get(variable, "").strip():
                named[scheme] = variable, text
        _, bypassed = named.pop("no", ("", ""))
        return cls(named, tuple(entry.strip() for entry in bypassed.split(",") if entry.strip()))

    def of(self, url: URL) -> Proxy | None:
        """The proxy for `url`, None if there is none; UsageError if it is one that cannot be used."""
        named = self.named.get(url.scheme) or self.named.get("all")
        if named is None or self._is_direct(url.host or "", url.port):
            return None
        variable, text = named
        try:
            proxy = URL(text if "://" in text else f"http://{text}")
            known, host, _ = proxy.scheme in ("http", "https"), proxy.host, proxy.port
        except ValueError:
            known, host = True, None
        if not known:
            raise UsageError(
                f"{variable}: {proxy.scheme.upper()} proxies are not supported. Name an HTTP proxy in "
                f"{url.scheme.upper()}_PROXY, or hosts that need none in NO_PROXY."
            )
        if not host:  # not quoted: it may hold a password
            raise UsageError(f"{variable} is no proxy's address: write http://HOST:PORT.")
        login = {}
        if proxy.user is not None or proxy.password is not None:
            credentials = f"{proxy.user or ''}:{proxy.password or ''}"
            SECRETS.add(proxy.password or "")
            SECRETS.add(credentials)
            login["Proxy-Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
        return Proxy(variable, proxy.origin(), login)

    def _is_direct(self, host: str, port: int | None) -> bool:
        """True where no proxy is to be used."""
        try:
            address = ip_address(host)
        except ValueError:
            address = None
        if host == "localhost" or host.endswith(".localhost") or (address and address.is_loopback):
            return True
        return any(_matches(entry, host, port, address) for entry in self.bypassed)


def _matches(entry: str, host: str, port: int | None, address: IPv4Address | IPv6Address | None) -> bool:
    """Whether an entry of NO_PROXY means `host`, which is `address` where it is none of a name."""
    if entry == "*":
        return True
    name, _, only = entry.rpartition(":")
    if name and only.isdecimal() and (":" not in name or name.endswith("]")):
        if int(only) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if address is None:
        name = entry.removeprefix("*").lstrip(".").lower()
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False
