"""The proxies that the environment names: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in either case.

Read as urllib and curl do: lower case wins, and an empty value means none. HTTP_PROXY in capitals is ignored in
a CGI script, where a visitor's header `Proxy:` sets it (CVE-2016-5385). This machine's own addresses never use
a proxy. SOCKS is not supported. urllib itself serves `os.environ` alone, and reads neither networks (10.0.0.0/8) nor
`*.example.com` in NO_PROXY.
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
    variable = _variable_for(url.scheme, environ) or _variable_for("all", environ)
    if not variable or _is_direct(url, environ):
        return None
    proxy = _proxy_address(variable, environ[variable].strip())
    if proxy.scheme not in ("http", "https"):
        raise UsageError(
            f"{variable}: {proxy.scheme.upper()} proxies are not supported. Name an HTTP proxy in "
            f"{url.scheme.upper()}_PROXY, or hosts that need none in NO_PROXY."
        )
    if not proxy.host:
        raise _no_address(variable)
    login: dict[str, str] = {}
    if proxy.user is not None or proxy.password is not None:
        credentials = f"{proxy.user or ''}:{proxy.password or ''}"
        # A proxy that refuses may repeat them in its error's page.
        SECRETS.add(proxy.password or "")
        SECRETS.add(credentials)
        login["Proxy-Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
    return Proxy(variable, proxy.origin(), login)


def _proxy_address(variable: str, text: str) -> URL:
    """The address in a variable, where `proxy:3128` stands for `http://proxy:3128`. Raises UsageError."""
    if "://" not in text:
        text = f"http://{text}"
    try:
        address = URL(text)
        # Read here, where they may raise: a port beyond 65535, a host that is none.
        _ = address.host, address.port
    except ValueError:
        raise _no_address(variable) from None
    return address


def _no_address(variable: str) -> UsageError:
    # The address is not quoted: it may hold a password.
    return UsageError(f"{variable} is no proxy's address: write http://HOST:PORT.")


def _variable_for(scheme: str, environ: Mapping[str, str]) -> str:
    """The variable that names the proxy of a scheme (or "all", or "no"); "" for none."""
    variable = f"{scheme}_proxy"
    if variable not in environ:
        if scheme == "http" and "REQUEST_METHOD" in environ:  # a CGI script
            return ""
        variable = variable.upper()
    if environ.get(variable, "").strip():
        return variable
    return ""


def _is_direct(url: URL, environ: Mapping[str, str]) -> bool:
    """True for this machine's own addresses and for what NO_PROXY names.

    That is a list of hosts, domains, `host:port` and networks (`10.0.0.0/8`); `*` is all of them.
    """
    host = url.host or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is not None and address.is_loopback:
        return True
    entries = environ.get(_variable_for("no", environ), "").split(",")
    return any(_is_named_by(entry.strip(), host, url.port, address) for entry in entries)


def _is_named_by(entry: str, host: str, port: int | None, address: IPv4Address | IPv6Address | None) -> bool:
    """True if an entry of NO_PROXY names `host`, which is `address` unless it is a name."""
    if entry == "*":
        return True
    name, _, digits = entry.rpartition(":")
    # An IPv6 address has colons, too: a port follows one in brackets only.
    is_host = bool(name) and (":" not in name or name.endswith("]"))
    if is_host and digits.isdecimal():
        if int(digits) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if address is None:
        name = entry.removeprefix("*").lstrip(".").lower()
        if not name:  # as between two commas
            return False
        return host == name or host.endswith(f".{name}")
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False
