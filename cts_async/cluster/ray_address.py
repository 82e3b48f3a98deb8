"""Where a Ray cluster is, as a person writes it: `auto`, `host:port`, or `ray://host:port` for Ray's client."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from cts_async.errors import UsageError

AUTO: Final = "auto"
CLIENT: Final = "ray"
VARIABLE: Final = "RAY_ADDRESS"
CONNECT_S: Final = 4.0
"""How long a host may take to accept a connection."""


@dataclass(frozen=True, slots=True)
class Address:
    """`host` is "" where Ray itself finds out which cluster this machine belongs to."""

    text: str
    """As Ray takes it."""
    host: str = ""
    port: int = 0
    client: bool = False
    """Whether Ray's client server is spoken to, which takes a machine that is no node of the cluster."""


def read_address(text: str) -> Address:
    """Raises UsageError for what is no address."""
    text = text.strip()
    if text == AUTO:
        return Address(text)
    scheme, sign, rest = text.rpartition("://")
    url = urlsplit(f"//{rest}")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if (sign and scheme != CLIENT) or not host or not port or url.netloc != rest or url.username is not None:
        raise UsageError(f"--ray {text}: write it as auto, HOST:6379 or ray://HOST:10001")
    return Address(text, host, port, client=bool(sign))


def address_meant(text: str, environ: Mapping[str, str]) -> Address:
    """The address that somebody has typed: `auto` is what RAY_ADDRESS says, if it is set, as everywhere in Ray.

    Raises UsageError for what is no address.
    """
    address = read_address(text)
    set_to = environ.get(VARIABLE, "").strip()
    if address.host or set_to in ("", AUTO):
        return address
    try:
        return read_address(set_to)
    except UsageError:
        raise UsageError(
            f"--ray {AUTO}: {VARIABLE} is {set_to}, which is no HOST:6379 or ray://HOST:10001"
        ) from None


def check_listening(address: Address) -> None:
    """Raises UsageError where nobody takes a connection at `address`: Ray itself would try for minutes."""
    if not address.host:
        return
    try:
        socket.create_connection((address.host, address.port), CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or f"no answer within {CONNECT_S:g} s"
        raise UsageError(
            f"--ray {address.text}: {reason}; is Ray running there (ray start --head), at that port?"
        ) from None
