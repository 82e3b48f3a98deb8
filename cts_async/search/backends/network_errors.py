"""What aiohttp's exceptions mean, in a word for tables and a phrase for people. The seam to its errors."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import aiohttp
from aiohttp.client_exceptions import ClientConnectorDNSError

from cts_async.llm.http import NotHTTP, reason_of


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no whole answer. `reason` as in `ToolError`; `passing` says that another attempt may help.

    `unsent` says that the request never left.
    """

    reason: str
    text: str
    passing: bool = True
    unsent: bool = False


def trouble_of(error: aiohttp.ClientError | TimeoutError, timeout_s: float) -> Trouble:
    """Explain an error of aiohttp's; the text holds nothing of the request, which could hold a key."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return Trouble("timeout", "no connection in time", unsent=True)
        case TimeoutError():
            return Trouble("timeout", f"no whole answer within {timeout_s:g} s")
        case ClientConnectorDNSError():
            return _dns(error.os_error)
        case aiohttp.ClientConnectorCertificateError():
            return Trouble("tls", "its certificate is not valid", passing=False, unsent=True)
        case aiohttp.ClientSSLError():
            return Trouble("tls", "no encrypted connection", passing=False, unsent=True)
        case aiohttp.ClientConnectorError():
            return Trouble("connection", f"no connection ({reason_of(error.os_error)})", unsent=True)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return Trouble("connection", "the connection was lost")
        case aiohttp.ClientPayloadError() if not isinstance(error, NotHTTP):
            return Trouble("connection", "the answer broke off")
        case _:
            return Trouble("connection", f"no valid HTTP answer ({type(error).__name__})")


def _dns(error: OSError) -> Trouble:
    """A name server that cannot answer now may do so later; a name that does not exist will not."""
    later = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
    return Trouble("dns", "its name cannot be resolved", passing=later, unsent=True)
