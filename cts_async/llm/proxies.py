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


def proxy_for(url: URL, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for `url`, None if there is none. Raises UsageError if it is one that cannot be used."""
    variable = _variable(environ, url.scheme) or _variable(environ, "all")
    if not variable or _is_direct(url, environ):
        return None
    text = environ[variable].strip()
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


def _variable(environ: Mapping[str, str], scheme: str) -> str:
    """The variable that names the proxy of a scheme (or "all", or "no"); "" for none."""
    lower = f"{scheme}_proxy"
    upper = "" if scheme == "http" and "REQUEST_METHOD" in environ else lower.upper()
    variable = lower if lower in environ else upper
    return variable if environ.get(variable, "").strip() else ""


def _is_direct(url: URL, environ: Mapping[str, str]) -> bool:
    """True for this machine's own addresses and for what NO_PROXY names.

    That is a list of hosts, domains, `host:port` and networks (`10.0.0.0/8`); `*` is all of them.
    """
    host = url.host or ""
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or host.endswith(".localhost") or (address and address.is_loopback):
        return True
    entries = environ.get(_variable(environ, "no"), "").split(",")
    return any(_matches(entry.strip(), host, url.port, address) for entry in entries)


def _matches(entry: str, host: str, port: int | None, address: IPv4Address | IPv6Address | None) -> bool:
    """True if an entry of NO_PROXY names `host`, which is `address` unless it is a name."""
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
