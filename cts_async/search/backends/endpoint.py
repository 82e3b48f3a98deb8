"""One exchange with a search or reading service, and what each of its answers means.

The seam between such services and our errors. A service that is refusing the key or is paid no more stops its
part of the run; what may pass is a `TransientError`, for the lane to try again; the rest is a `ToolError`,
told to the agent.
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

# --- Text


_LINE_CHARS: Final = 200


def one_line(text: str, limit: int = _LINE_CHARS) -> str:
    """`text` on one line without control characters, cut with an ellipsis after `limit` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def capped(text: str, max_chars: int, chars: int | None = None) -> str:
    """`text` without surrounding space; what is longer than `max_chars` is cut there, and a note says so.

    `chars` is its full length where it comes cut already.
    """
    text = text.strip()
    chars = len(text) if chars is None else chars
    if chars <= max_chars:
        return text
    return f"{text[:max_chars].rstrip()}\n\n[Cut here: the page has {chars:,} characters.]"


def as_text(value: object) -> str:
    """A JSON value as text: "" for what is neither a string nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()


# --- Network errors


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
            return Trouble("connection", f"no connection ({os_error_text(error.os_error)})", unsent=True)
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


# --- Endpoint


SEARCH_REFUSALS: Final = frozenset({401, 402, 403, 404, 405})
"""With these a search endpoint refuses every search: key, bill or address."""
READER_REFUSALS: Final = frozenset({401, 402})
"""With these a reader refuses every page; its other 4xx are about the page asked for."""

_TRANSIENT: Final = frozenset({408, 409, 425})
_UNPAID: Final = re.compile(
    r"credits?\b|insufficient|billing|payment|\bbalance|(monthly|daily|plan)\W+(quota|limit)", re.IGNORECASE
)

_ADDRESS: Final = re.compile(r"\S*[./]\w\S*")


@dataclass(frozen=True, slots=True)
class Service:
    """Who is asked, with which key ("" for none), and how long and how large an answer may be."""

    name: str
    key_env: str | None
    key: str
    timeout_s: float
    refusals: frozenset[int]
    max_bytes: int = 5_000_000

    def __post_init__(self) -> None:
        SECRETS.add(self.key)

    @property
    def reads_pages(self) -> bool:
        """Whether its errors are about pages, and may repeat what others wrote."""
        return 404 not in self.refusals


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is not an error."""

    headers: Mapping[str, str]
    data: bytes

    @property
    def charset(self) -> str:
        """The charset that its content type names, else UTF-8."""
        found = re.search(r"charset=[\"']?([\w.:-]+)", self.headers.get("Content-Type", ""), re.IGNORECASE)
        return found[1] if found else "utf-8"

    @property
    def text(self) -> str:
        """The body as text that can be written down; bytes that do not fit are replaced."""
        try:
            text = self.data.decode(self.charset, "replace")
        except (LookupError, UnicodeError):  # Python has codecs that are no charset, and some do not replace
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
    """Send one request, `body` as JSON if there is one, and take a whole good answer.

    `about` is the host that the request is about, by default the service's own: a ToolError names it.
    Redirects are not followed, as they would carry the key elsewhere.
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
    """What it means that there is no whole answer."""
    where = f"{service.name}: {url.host}"
    trouble = trouble_of(error, service.timeout_s)
    if isinstance(error, TimeoutError):
        through = f" through the {exchange.proxy}" if trouble.unsent and exchange.proxy else ""
        return TimedOut(f"{where}: {trouble.text}{through}", unsent=trouble.unsent)
    if refusal := exchange.refusal(error):
        return ProviderRefused(f"{where}: {refusal}; the same command resumes")
    problem = exchange.proxy_problem(error)
    # A server whose answer breaks off is there: that is no outage.
    status = 200 if isinstance(error, BrokenResponse) else None
    return TransientError(
        f"{where}: {problem or trouble.text}", status=status, unsent=trouble.unsent or problem is not None
    )


def json_of(answer: Answer, service: Service, host: str) -> Any:
    """The answer's JSON. TransientError if it is none; an `error` in it is one, even under HTTP 200."""
    try:
        data = _loads(answer)
    except ValueError:
        raise TransientError(f"{service.name}: the answer is not JSON") from None
    if isinstance(data, dict) and data.get("error"):
        raise _said(service, host, 200, _message(answer.data, service), "failed")
    return data


def _loads(answer: Answer) -> Any:
    """JSON, also of a text that was cut within a character (half of a surrogate pair) or is not UTF-8.

    ValueError if it is none.
    """
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
    """What an answer with this status means, None if it is a good one. `now` is the wall clock's."""
    if 200 <= status < 300:
        return None
    message = _message(data, service)
    if status < 400:
        return ProviderRefused(
            f"{service.name}: HTTP {status}: its address has moved; correct url in cts.toml"
        )
    if status >= 500 or status in _TRANSIENT:
        wait_s = retry_after_s(headers, now)
        return TransientError(
            f"{service.name}: HTTP {status}{_colon(message)}", retry_after_s=wait_s, status=status
        )
    if status == 429 and not _UNPAID.search(message):
        wait_s = retry_after_s(headers, now)
        wait_s = reset_s(headers, now) if wait_s is None else wait_s
        return RateLimited(f"{service.name}: HTTP 429{_colon(message)}", retry_after_s=wait_s, status=429)
    return _said(service, host, status, message, f"http {status}")


def _said(service: Service, host: str, status: int, message: str, reason: str) -> CTSError:
    """A final refusal: of everything from now on, or of this one request."""
    # A page chooses its own address: what stands in one is not the service's word for a bill that is due.
    unpaid = status <= 403 and _UNPAID.search(_ADDRESS.sub("", message))
    if service.reads_pages and status == 200:
        unpaid = None
    if status in service.refusals or status in (402, 429) or unpaid:
        key = f" (key: {service.key_env})" if service.key_env else ""
        return ProviderRefused(f"{service.name}: HTTP {status}{_colon(message)}{key}")
    return ToolError(f"{service.name}: HTTP {status}{_colon(message)}", reason=reason, host=host)


def _message(data: bytes, service: Service) -> str:
    """What an error's body says, in one line and without the key."""
    data = SECRETS.body(data)
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        body = data[:2000].decode("utf-8", "replace")
    if isinstance(body, dict):
        error = body.get("error") or body.get("errors") or body
        error = error[0] if isinstance(error, list) and error else error
        parts = (
            [error.get(name) for name in ("message", "detail", "name", "code")]
            if isinstance(error, dict)
            else []
        )
        body = next((as_text(part) for part in parts if as_text(part)), as_text(error))
    return one_line(as_text(body))


def _colon(message: str) -> str:
    return f": {message}" if message else ""
