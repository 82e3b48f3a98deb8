"""Fetches pages from their own hosts, and extracts their text in separate processes.

Safe for any address: only http and https, only public addresses (`addresses.py`) unless the table's `allow` names
others, bounded in time, bytes and kinds. Redirects are followed by hand, each checked like the first address. A
redirect from https to http is followed: no secret is sent either way. Cookies live for one attempt, since some hosts
redirect forever without them. Proxies of the environment are not used: they would connect where nobody checks.
robots.txt is not consulted: a visit is one person's question for one page, not a crawl.

Extraction runs in other processes because a page can keep Python's interpreter lock for seconds, and C code that
parses may crash: in a thread either would stop every other instance of the run. A process is killed when its time is
over. It gets none of this one's environment except what Python needs to start, and so no key.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from weakref import WeakValueDictionary

import aiohttp
import anyio
import anyio.to_thread
import orjson
from aiohttp.client_exceptions import ClientConnectorDNSError
from yarl import URL

from cts_async import __version__
from cts_async.engine.processes import child_environment, open_files_limit, python_command
from cts_async.engine.step import RetryPolicy, full_jitter
from cts_async.errors import NoFreeDescriptor, ToolError, TransientError
from cts_async.llm.http import NO_CONNECTION, BrokenResponse, UnknownEncoding, inflater, lacks_descriptor
from cts_async.llm.limit_headers import retry_after_s
from cts_async.search.backends import Page
from cts_async.search.backends.addresses import AllowList, CheckedResolver, Lookup, checked_url, system_lookup
from cts_async.search.backends.unusable_answers import check_page
from cts_async.search.catalog import ReaderSpec

# --- The body of a page


PageKind = Literal["html", "xml", "plain"]

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_XML: Final = frozenset({"text/xml", "application/xml"})
_PLAIN: Final = frozenset({"application/json", "application/ld+json", "application/x-ndjson"})
# The first bytes of files that servers declare as text or not at all.
_BINARY: Final = re.compile(rb"%PDF-|PK\x03\x04|\x89PNG|\xff\xd8\xff|GIF8|\x1f\x8b|Rar!|\x7fELF|OggS|ID3")
# Of UTF-16, which is text although it has zero bytes.
_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_SNIFFED_BYTES: Final = 1024


def capped(text: str, max_chars: int, chars: int | None = None) -> str:
    """Strip `text` and cut it after `max_chars` characters, with a note that says so.

    `chars` is its full length, if it was cut before.
    """
    text = text.strip()
    if chars is None:
        chars = len(text)
    if chars <= max_chars:
        return text
    return f"{text[:max_chars].rstrip()}\n\n[Cut here: the page has {chars:,} characters.]"


def charset_of(content_type: str) -> str:
    """Return the charset that a content type names, "" if none."""
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE)
    if charset is None:
        return ""
    return charset[1].lower()


def declared_kind(content_type: str) -> PageKind | None:
    """Return how to read a body of this content type; None if there is no type. ToolError ("not text") if unreadable."""
    name = content_type.partition(";")[0].strip().lower()
    if not name or name == "application/octet-stream":
        return None
    if name in _HTML:
        return "html"
    if name in _XML or name.endswith("+xml"):
        return "xml"
    if name.startswith("text/") or name in _PLAIN or name.endswith("+json"):
        return "plain"
    raise ToolError(f"the page is {name[:80]}, not text", reason="not text")


def page_kind(content_type: str, data: bytes) -> PageKind:
    """Return how to read a body, from its type and its first bytes. ToolError ("not text") if it is binary."""
    declared = declared_kind(content_type)
    start = data[:_SNIFFED_BYTES].lstrip()
    if _BINARY.match(start) or (b"\0" in start and not start.startswith(_BOMS)):
        raise ToolError("the page is a PDF or another file that is not text", reason="not text")
    if declared:
        return declared
    if start.startswith(b"<"):
        return "html"
    return "plain"


async def read_body(blocks: AsyncIterator[bytes], encoding: str, max_bytes: int) -> bytes:
    """Receive and decompress a body. ToolError ("too large") as soon as either size exceeds `max_bytes`.

    Each block's expansion is bounded while it is decompressed: a bomb never gets the memory it would need.
    """
    try:
        inflate = inflater(encoding)
    except UnknownEncoding:
        raise ToolError(
            f"the page has an unknown content encoding ({encoding.strip()[:40]})", reason="not text"
        ) from None
    received = 0
    body = bytearray()
    async for block in blocks:
        received += len(block)
        try:
            if inflate is not None:
                # One byte more than allowed is enough to see that the page is too large.
                block = inflate.feed(block, max_bytes + 1 - len(body))
            body += block
        except BrokenResponse:
            raise ToolError("the page's compression is broken", reason="not text") from None
        if max(received, len(body)) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> ToolError:
    """Return the error for a page of more than `max_bytes`."""
    return ToolError(f"the page has more than {max_bytes:,} bytes", reason="too large")


# --- One exchange


CONNECT_S: Final = 10.0
PER_HOST: Final = 2
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRANSIENT: Final = frozenset({408, 425, 429})
_BLOCK: Final = 65_536


@dataclass(frozen=True, slots=True)
class Download:
    """A page as received: its final address, its kind, and the charset of its header or ""."""

    url: str
    kind: PageKind
    charset: str
    data: bytes


class HostUnavailable(TransientError):
    """The page's own host could not answer now; another attempt may succeed. `reason` as in `ToolError`."""

    def __init__(self, message: str, reason: str, host: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.reason, self.host = reason, host


def _network_failure(
    error: aiohttp.ClientError | TimeoutError, host: str, timeout_s: float
) -> TransientError | ToolError:
    if lacks_descriptor(error):
        return NoFreeDescriptor(f"{host}: {NO_CONNECTION.format(open_files_limit())}")
    match error:
        case TimeoutError():
            return HostUnavailable(f"{host}: no whole answer within {timeout_s:g} s", "timeout", host)
        case ClientConnectorDNSError():
            # A name server that cannot answer now may do so later; a name that does not exist will not.
            cause, text = error.os_error, f"{host}: its name cannot be resolved"
            if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN:
                return HostUnavailable(text, "dns", host)
            return ToolError(text, reason="dns", host=host)
        case aiohttp.ClientSSLError():
            return ToolError(f"{host}: no valid encrypted connection", reason="tls", host=host)
    return HostUnavailable(f"{host}: the connection failed ({type(error).__name__})", "connection", host)


def _check_status(response: aiohttp.ClientResponse, host: str) -> None:
    status = response.status
    if 200 <= status < 300:
        return
    reason, message = f"http {status}", f"{host} answered HTTP {status}"
    if status >= 500 or status in _TRANSIENT:
        raise HostUnavailable(message, reason, host, retry_after_s(response.headers, time.time()))
    raise ToolError(message, reason=reason, host=host)


async def _receive_page(response: aiohttp.ClientResponse, max_bytes: int) -> Download:
    content_type = response.headers.get("Content-Type", "")
    declared_kind(content_type)  # refuse a video before downloading it
    if (response.content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    blocks = response.content.iter_chunked(_BLOCK)
    data = await read_body(blocks, response.headers.get("Content-Encoding", ""), max_bytes)
    return Download(str(response.url), page_kind(content_type, data), charset_of(content_type), data)


def _redirect_target(current: URL, location: str, allow: AllowList) -> URL:
    """Return the checked address that a redirect leads to."""
    try:
        target = str(current.join(URL(location.strip())))
    except (ValueError, IndexError):  # as in checked_url
        host = current.host or ""
        raise ToolError("a redirect to an invalid address", reason="redirects", host=host) from None
    return checked_url(target, allow)


# --- Extraction of text


MAX_WORKERS: Final = 4
_PROGRAM: Final = Path(__file__).with_name("page_text.py")
# More than max_chars make: a page cannot fill this process either.
_MAX_ANSWER_BYTES: Final = 64_000_000


class TextExtractor:
    """At most `workers` processes, started when needed and kept for the next page. `close` ends them.

    They also end when the extractor is garbage collected, and with this process.
    """

    def __init__(self, timeout_s: float = 20.0, workers: int | None = None) -> None:
        self.timeout_s = timeout_s
        self._idle: list[_Worker] = []
        workers = workers or max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self._slots = anyio.Semaphore(workers)
        # Threads that only wait for a process: not anyio's default ones, which others need. Twice as many as
        # workers, because the thread of a page that timed out lasts a little longer than its slot.
        self._threads = anyio.CapacityLimiter(2 * workers)
        self.close = weakref.finalize(self, _kill_all, self._idle)
        """End all idle processes."""

    async def extract(self, data: bytes, kind: PageKind, charset: str, max_chars: int) -> tuple[str, str]:
        """Return the title and the text, cut after `max_chars` characters.

        ToolError ("too large" or "no text") for a page that takes longer than `timeout_s` or more memory than a
        process gets, or that has no text.
        """
        request = {"bytes": len(data), "kind": kind, "charset": charset, "max_chars": max_chars}
        async with self._slots:
            answer = await self._answer(json.dumps(request).encode() + b"\n" + data)
        # Empty where the page had its process crash, or run out of memory.
        text = str(answer.get("text", ""))
        if not text.strip():
            raise ToolError("the page has no readable text", reason="no text")
        return str(answer["title"]), capped(text, max_chars, int(answer["chars"]))

    async def _answer(self, request: bytes) -> dict[str, int | str]:
        if self._idle:
            worker = self._idle.pop()
        else:
            worker = _Worker()
        done = False
        try:
            with anyio.move_on_after(self.timeout_s):
                line = await anyio.to_thread.run_sync(
                    worker.ask, request, abandon_on_cancel=True, limiter=self._threads
                )
                if not line:
                    return {}
                done = True
                answer: dict[str, int | str] = orjson.loads(line)
                return answer
        finally:
            # An interrupted process would give its answer to the next page.
            if done:
                self._idle.append(worker)
            else:
                worker.kill()
        raise ToolError(f"reading the page takes longer than {self.timeout_s:g} s", reason="too large")


class _Worker:
    """One process, for one request at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            python_command(str(_PROGRAM)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C must reach only the parent, which finishes what is in flight
        )

    def ask(self, request: bytes) -> bytes:
        """Send a request and wait for its answer, one line; b"" if the process has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the process was started with pipes")
        try:
            stdin.write(request)
            stdin.flush()
            return stdout.readline(_MAX_ANSWER_BYTES)
        except (OSError, ValueError):  # the pipe is broken, or was closed by `kill`
            return b""

    def kill(self) -> None:
        """Kill the process; a thread that waits for it gets b""."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unsent data
                    pipe.close()


def _kill_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().kill()


# --- The page reader


ATTEMPTS: Final = 3
MAX_WAIT_S: Final = 10.0
"""Longer pauses that a host asks for are not waited for: the agent has other pages to read."""
_PAUSES: Final = RetryPolicy(base_s=1.0, cap_s=4.0)
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; cts-async/{__version__}; research)"


class DirectReader:
    """A `PageReader`. Transient failures of a page's host are retried here: they say nothing about other hosts.

    `lookup` resolves names; its results are checked too. `close` ends the processes that extract text; they also end
    when the reader is garbage collected.
    """

    def __init__(
        self,
        spec: ReaderSpec,
        *,
        lookup: Lookup = system_lookup,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        rng: random.Random | None = None,
        extractor: TextExtractor | None = None,
    ) -> None:
        self.name = spec.name
        self._spec, self._allow = spec, AllowList.parse(spec.allow)
        self._lookup, self._sleep, self._rng = lookup, sleep, rng or random.Random(spec.name)
        self._slots: WeakValueDictionary[str, anyio.Semaphore] = WeakValueDictionary()
        """`PER_HOST` exchanges at a time with each host; idle hosts are forgotten."""
        self._extractor = extractor or TextExtractor()
        self.close = self._extractor.close

    async def fetch(self, url: str) -> Page:
        """Return the page at `url`, after redirects; every failure is a ToolError."""
        page = await self._download(url)
        max_chars = self._spec.max_chars
        try:
            title, text = await self._extractor.extract(page.data, page.kind, page.charset, max_chars)
            # Walls come with status 200; taken for pages, they would be evidence.
            check_page(title, text, "")
        except ToolError as error:
            error.host = error.host or URL(page.url).host or ""
            raise
        return Page(page.url, page.url, title, text)

    async def _download(self, url: str) -> Download:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._attempt(url)
            except HostUnavailable as error:
                # Jitter on top of what the host asks for, since others were given the same time.
                wait_s = (error.retry_after_s or 0.0) + full_jitter(attempt - 1, _PAUSES, self._rng)
                if attempt == ATTEMPTS or wait_s > MAX_WAIT_S:
                    raise ToolError(str(error), reason=error.reason, host=error.host) from None
            await self._sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, url: str) -> Download:
        """Download the page at `url`. HostUnavailable if another attempt may succeed, else ToolError."""
        resolver = CheckedResolver(self._allow, self._lookup)
        # Without a cache: every connection goes to addresses that were checked for it. Slots limit their number.
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=0)
        left_s = self._spec.timeout_s
        target = checked_url(url, self._allow)
        async with aiohttp.ClientSession(
            # `read_body` decompresses within bounds. Proxies of the environment would connect where nobody checks.
            connector=connector,
            auto_decompress=False,
            trust_env=False,
            headers=_headers(self._spec),
        ) as session:
            for _ in range(self._spec.max_redirects + 1):
                host = target.host or ""
                slot = self._slots.setdefault(host, anyio.Semaphore(PER_HOST))
                async with slot:
                    began = anyio.current_time()
                    got = await self._exchange(session, target, left_s)
                    # The wait for a slot does not count: it is our own limit, not the host's delay.
                    left_s -= anyio.current_time() - began
                if isinstance(got, Download):
                    return got
                target = _redirect_target(target, got, self._allow)
        raise ToolError(f"more than {self._spec.max_redirects} redirects", reason="redirects", host=host)

    async def _exchange(self, session: aiohttp.ClientSession, url: URL, left_s: float) -> Download | str:
        """Send one request: return the page, or the address that it redirects to."""
        host = url.host or ""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        try:
            with anyio.fail_after(max(0.0, left_s)):
                async with session.get(url, allow_redirects=False, timeout=timeout) as response:
                    if response.status in _REDIRECTS and "Location" in response.headers:
                        return response.headers["Location"]
                    _check_status(response, host)
                    return await _receive_page(response, self._spec.max_bytes)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _network_failure(error, host, self._spec.timeout_s) from None
        except ToolError as error:
            error.host = error.host or host
            raise


def _headers(spec: ReaderSpec) -> dict[str, str]:
    return {
        "User-Agent": spec.user_agent or _USER_AGENT,
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5",
        "Accept-Encoding": "gzip, deflate",
        "Accept-Language": "en,zh;q=0.9,*;q=0.5",
    }
