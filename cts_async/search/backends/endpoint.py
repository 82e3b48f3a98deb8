"""One exchange with a search or reading service, and the meaning of each answer in terms of our errors.

A service that refuses the key or wants to be paid stops its part of the run (`ProviderRefused`). What may pass is a
`TransientError`, which the lane retries. Everything else is a `ToolError`, which the agent is told.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson
from aiohttp.client_exceptions import ClientConnectorDNSError
from yarl import URL

from cts_async import __version__
from cts_async.errors import CTSError, ProviderRefused, RateLimited, TimedOut, ToolError, TransientError
from cts_async.llm.http import (
    ENCODINGS,
    BrokenResponse,
    HttpEndpoint,
    NotHTTP,
    ResponseTooLarge,
    UnknownEncoding,
    encode_headers,
    os_error_text,
)
from cts_async.llm.redact import SECRETS
from cts_async.llm.responses import reset_s, retry_after_s

SEARCH_REFUSALS: Final = frozenset({401, 402, 403, 404, 405})
"""Statuses with which a search endpoint refuses every search: key, payment or address."""
READER_REFUSALS: Final = frozenset({401, 402})
"""Statuses with which a reader refuses every page; its other 4xx are about the page asked for."""

_TRANSIENT: Final = frozenset({408, 409, 425})
_UNPAID: Final = re.compile(
    r"credits?\b|insufficient|billing|payment|\bbalance|(monthly|daily|plan)\W+(quota|limit)", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"\S*[./]\w\S*")
_LINE_CHARS: Final = 200

# --- Foreign text


def _one_line(text: str) -> str:
    """Return `text` on one line without control characters, cut with an ellipsis after `_LINE_CHARS` characters."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * _LINE_CHARS])
    line = " ".join(printable.split())
    return line if len(line) <= _LINE_CHARS else f"{line[: _LINE_CHARS - 1]}…"


def capped(text: str, max_chars: int, chars: int | None = None) -> str:
    """Strip `text` and cut it after `max_chars` characters, with a note that says so.

    `chars` is its full length, if it was cut before.
    """
    text = text.strip()
    chars = len(text) if chars is None else chars
    if chars <= max_chars:
        return text
    return f"{text[:max_chars].rstrip()}\n\n[Cut here: the page has {chars:,} characters.]"


def as_text(value: object) -> str:
    """Return a JSON string or number as text, "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()


# --- aiohttp's errors


@dataclass(frozen=True, slots=True)
class NetworkError:
    """Why there is no whole answer. `reason` as in `ToolError`.

    `transient`: another attempt may succeed. `unsent`: the request never left this machine.
    """

    reason: str
    text: str
    transient: bool = True
    unsent: bool = False


def network_error(error: aiohttp.ClientError | TimeoutError, timeout_s: float) -> NetworkError:
    """Translate an error of aiohttp; the text repeats nothing of the request, which could contain a key."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return NetworkError("timeout", "no connection in time", unsent=True)
        case TimeoutError():
            return NetworkError("timeout", f"no whole answer within {timeout_s:g} s")
        case ClientConnectorDNSError():
            # A name server that cannot answer now may do so later; a name that does not exist will not.
            cause = error.os_error
            later = isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN
            return NetworkError("dns", "its name cannot be resolved", transient=later, unsent=True)
        case aiohttp.ClientConnectorCertificateError():
            return NetworkError("tls", "its certificate is not valid", transient=False, unsent=True)
        case aiohttp.ClientSSLError():
            return NetworkError("tls", "no encrypted connection", transient=False, unsent=True)
        case aiohttp.ClientConnectorError():
            reason = os_error_text(error.os_error)
            return NetworkError("connection", f"no connection ({reason})", unsent=True)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return NetworkError("connection", "the connection was lost")
        case aiohttp.ClientPayloadError() if not isinstance(error, NotHTTP):
            return NetworkError("connection", "the answer broke off")
        case _:
            return NetworkError("connection", f"no valid HTTP answer ({type(error).__name__})")


# --- Exchanges


@dataclass(frozen=True, slots=True)
class Service:
    """Whom to ask, with which key ("" for none), and the limits of an answer."""

    name: str
    key_env: str | None
    key: str
    timeout_s: float
    refusals: frozenset[int]
    """Statuses that refuse every request from now on."""
    max_bytes: int = 5_000_000

    def __post_init__(self) -> None:
        SECRETS.add(self.key)

    @property
    def reads_pages(self) -> bool:
        """True if its errors are about pages, and may quote them."""
        return 404 not in self.refusals


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a 2xx status."""

    headers: Mapping[str, str]
    data: bytes

    @property
    def charset(self) -> str:
        """The charset that its content type names, else UTF-8."""
        found = re.search(r"charset=[\"']?([\w.:-]+)", self.headers.get("Content-Type", ""), re.IGNORECASE)
        return found[1] if found else "utf-8"

    @property
    def text(self) -> str:
        """The body as encodable text, without keys; bytes that do not fit the charset are replaced."""
        try:
            text = self.data.decode(self.charset, "replace")
        except (
            LookupError,
            UnicodeError,
        ):  # Python has codecs that are no charset, and some that raise anyway
            text = self.data.decode("utf-8", "replace")
        return SECRETS.text(text.encode(errors="replace").decode())


async def ask(
    service: Service,
    session: aiohttp.ClientSession,
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: object = None,
    *,
    about: str = "",
) -> Answer:
    """Send one request, with `body` as JSON unless it is None, and return a whole good answer.

    `about` is the host that the request is about, by default the service's own: a ToolError names it. Redirects are
    not followed, as they would carry the key elsewhere.
    """
    host = about or url.host or ""
    sent = {"User-Agent": f"cts-async/{__version__}", "Accept-Encoding": ENCODINGS, **headers}
    data = None
    if body is not None:
        sent["Content-Type"] = "application/json"
        data = orjson.dumps(body)
    if session.connector is None:
        raise RuntimeError("the session is closed")
    exchange = HttpEndpoint(session.connector, session, url, method)
    try:
        answer = await exchange.send(
            encode_headers(sent), data, service.timeout_s, max_bytes=service.max_bytes, keep_headers=True
        )
    except ResponseTooLarge:
        raise ToolError(
            f"{service.name} sent more than {service.max_bytes:,} bytes", reason="too large", host=host
        ) from None
    except UnknownEncoding as error:
        raise ToolError(f"{service.name}: {error}", reason="not text", host=host) from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _no_answer(service, exchange, url, error) from None
    content = SECRETS.body(answer.data, good=200 <= answer.status < 300)
    if failure := failure_of(service, host, answer.status, answer.headers, content, time.time()):
        raise failure
    return Answer(answer.headers, content)


def _no_answer(
    service: Service, exchange: HttpEndpoint, url: URL, error: aiohttp.ClientError | TimeoutError
) -> CTSError:
    where = f"{service.name}: {url.host}"
    found = network_error(error, service.timeout_s)
    if isinstance(error, TimeoutError):
        through = f" through the {exchange.proxy}" if found.unsent and exchange.proxy else ""
        return TimedOut(f"{where}: {found.text}{through}", unsent=found.unsent)
    if refusal := exchange.refusal(error):
        return ProviderRefused(f"{where}: {refusal}; the same command resumes")
    proxy_problem = exchange.proxy_problem(error)
    # A server whose answer breaks off can be reached: that does not count as an outage.
    status = 200 if isinstance(error, BrokenResponse) else None
    unsent = found.unsent or proxy_problem is not None
    return TransientError(f"{where}: {proxy_problem or found.text}", status=status, unsent=unsent)


def json_of(answer: Answer, service: Service, host: str) -> Any:
    """Return the answer's JSON; TransientError if it is none. An `error` in it counts, even with HTTP 200."""
    try:
        data = _loads(answer)
    except ValueError:
        raise TransientError(f"{service.name}: the answer is not JSON") from None
    if isinstance(data, dict) and data.get("error"):
        raise _refusal(service, host, 200, _message(answer.data), "failed")
    return data


def _loads(answer: Answer) -> Any:
    """Parse JSON, also if it was cut within a surrogate pair or is not UTF-8; ValueError if it is no JSON."""
    try:
        return orjson.loads(answer.data)
    except orjson.JSONDecodeError:
        pass
    try:
        text = json.dumps(json.loads(answer.text), ensure_ascii=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return orjson.loads(text.encode(errors="replace"))


def failure_of(
    service: Service, host: str, status: int, headers: Mapping[str, str], data: bytes, now: float
) -> CTSError | None:
    """Return the error that an answer with this status means; None for 2xx. `now` is Unix time in seconds."""
    if 200 <= status < 300:
        return None
    message = _message(data)
    if status < 400:
        return ProviderRefused(
            f"{service.name}: HTTP {status}: its address has moved; correct url in cts.toml"
        )
    if status >= 500 or status in _TRANSIENT:
        wait_s = retry_after_s(headers, now)
        text = f"{service.name}: HTTP {status}{_colon(message)}"
        return TransientError(text, retry_after_s=wait_s, status=status)
    if status == 429 and not _UNPAID.search(message):
        wait_s = retry_after_s(headers, now)
        wait_s = reset_s(headers, now) if wait_s is None else wait_s
        return RateLimited(f"{service.name}: HTTP 429{_colon(message)}", retry_after_s=wait_s, status=429)
    return _refusal(service, host, status, message, f"http {status}")


def _refusal(service: Service, host: str, status: int, message: str, reason: str) -> CTSError:
    """Return a final refusal: of everything from now on, or of this one request."""
    # A page chooses its own address: "payment" in an address is not the service's word for an unpaid bill.
    unpaid = status <= 403 and _UNPAID.search(_ADDRESS.sub("", message))
    if service.reads_pages and status == 200:
        unpaid = None
    if status in service.refusals or status in (402, 429) or unpaid:
        key = f" (key: {service.key_env})" if service.key_env else ""
        return ProviderRefused(f"{service.name}: HTTP {status}{_colon(message)}{key}")
    return ToolError(f"{service.name}: HTTP {status}{_colon(message)}", reason=reason, host=host)


def _message(data: bytes) -> str:
    """Return the message in an error's body, in one line and without keys."""
    data = SECRETS.body(data)
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        body = data[:2000].decode("utf-8", "replace")
    if isinstance(body, dict):
        error = body.get("error") or body.get("errors") or body
        error = error[0] if isinstance(error, list) and error else error
        names = ("message", "detail", "name", "code")
        texts = [as_text(error.get(name)) for name in names] if isinstance(error, dict) else []
        body = next((text for text in texts if text), as_text(error))
    return _one_line(as_text(body))


def _colon(message: str) -> str:
    return f": {message}" if message else ""
