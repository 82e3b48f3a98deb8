"""Pages fetched directly: what is read, everything that is refused, bodies, and extraction in processes; over real HTTP.

The servers listen on addresses of this machine that no page may reach, unless a test allows one of them: then the
others still stand for the private network around it.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import random
import socket
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fake_web import article, raw, served
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import ToolError
from cts_async.search.backends import fetch
from cts_async.search.backends.fetch import (
    PER_HOST,
    DirectReader,
    TextExtractor,
    page_kind,
    read_body,
)
from cts_async.search.catalog import load_search

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
"""Another address of this machine, that tests do not allow."""

SPEC = load_search().reader("direct").model_copy(update={"allow": (HERE,), "timeout_s": 5.0})


@pytest.fixture(scope="module")
def extractor() -> TextExtractor:
    return TextExtractor(workers=1)


class Fetching:
    """A reader that waits in no time, and remembers for how long it would have."""

    def __init__(self, extractor: TextExtractor, **changes: Any) -> None:
        self.waits: list[float] = []
        lookup = changes.pop("lookup", None)
        extra = {"lookup": lookup} if lookup else {}
        self.reader = DirectReader(
            SPEC.model_copy(update=changes),
            sleep=self._sleep,
            rng=random.Random(1),
            extractor=extractor,
            **extra,
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def failure(self, url: str) -> ToolError:
        with pytest.raises(ToolError) as caught:
            await self.reader.fetch(url)
        return caught.value


class Page:
    """A server's answers in turn, the last one for ever, and what it was asked."""

    def __init__(self, *answers: web.Response) -> None:
        self._answers = list(answers)
        self.requests: list[web.Request] = []

    async def reply(self, request: web.Request) -> web.Response:
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def html(text: str | None = None, **options: Any) -> web.Response:
    return web.Response(text=article() if text is None else text, content_type="text/html", **options)


def moved(to: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": to})


# --- What is read ---------------------------------------------------------------------------------------


async def test_title_and_main_text_are_read_after_transient_failures(extractor: TextExtractor) -> None:
    packed = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    page = Page(
        web.Response(status=503),
        web.Response(status=429),
        web.Response(body=gzip.compress(article().encode()), headers=packed),
    )
    async with served(page.reply) as url:
        found = await Fetching(extractor).reader.fetch(f"{url}/ferries#when")
    assert (found.url, found.id, found.title) == (f"{url}/ferries", f"{url}/ferries", "Ferries")
    assert "Sentence number 3 says that the ferry leaves at 3 o'clock from pier 3." in found.text
    request = page.requests[2]
    assert request.headers["User-Agent"].startswith("Mozilla/5.0 (compatible; cts-async/")
    assert request.headers["Accept-Encoding"] == "gzip, deflate"
    async with served(page.reply) as url:
        await Fetching(extractor, user_agent="me/1").reader.fetch(url)
    assert page.requests[3].headers["User-Agent"] == "me/1"


async def test_page_is_read_in_the_charset_of_its_header_and_cut_with_a_note(
    extractor: TextExtractor,
) -> None:
    page = Page(
        web.Response(
            body=("渡轮九点开" * 20).encode("gbk"), headers={"Content-Type": "text/plain; charset=GBK"}
        )
    )
    async with served(page.reply) as url:
        found = await Fetching(extractor, max_chars=10).reader.fetch(url)
    assert found.text == "渡轮九点开" * 2 + "\n\n[Cut here: the page has 100 characters.]"


async def test_redirects_are_followed_to_the_final_address(extractor: TextExtractor) -> None:
    page = Page(moved("/a", 301), moved("b?x=1#c", 303), moved("c", 307), moved("d", 308), html())
    async with served(page.reply) as url:
        found = await Fetching(extractor).reader.fetch(f"{url}/start")
    assert found.url == f"{url}/d"
    assert [request.path_qs for request in page.requests] == ["/start", "/a", "/b?x=1", "/c", "/d"]


async def test_cookies_live_for_one_page_only(extractor: TextExtractor) -> None:
    async def wall(request: web.Request) -> web.Response:
        if "seen" in request.cookies:
            return html()
        answer = moved("/")
        answer.set_cookie("seen", "1")
        return answer

    async with served(wall, "127.0.0.1") as url:
        port = url.rpartition(":")[2]
        fetching = Fetching(extractor, lookup=answering([HERE]), allow=("wall.example",))
        assert (await fetching.reader.fetch(f"http://wall.example:{port}/")).title == "Ferries"
        cookies = Page(html())
    async with served(cookies.reply) as url:
        port = url.rpartition(":")[2]
        await fetching.reader.fetch(f"http://wall.example:{port}/")
    assert cookies.requests[0].cookies == {}


# --- Where it does not go -------------------------------------------------------------------------------


def answering(*answers: Sequence[str]) -> Any:
    """A name server that answers each question with the next of `answers`, the last one for ever."""
    asked: list[str] = []

    async def lookup(host: str) -> Sequence[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return lookup


async def test_private_address_is_refused_without_a_request(extractor: TextExtractor) -> None:
    page = Page(html())
    async with served(page.reply, ELSEWHERE) as url:
        error = await Fetching(extractor).failure(url)
        port = url.rpartition(":")[2]
        for host in ("127.2", "2130706434", "0x7f000002", "[::ffff:127.0.0.2]", "１２７.0.0.2"):
            assert (await Fetching(extractor).failure(f"http://{host}:{port}/")).reason == "refused address"
    assert (error.reason, error.host) == ("refused address", ELSEWHERE)
    assert page.requests == []


async def test_redirect_to_private_address_is_refused_without_a_request(extractor: TextExtractor) -> None:
    private = Page(html())
    async with served(private.reply, ELSEWHERE) as target:
        port = target.rpartition(":")[2]
        for location in (target, f"//127.2:{port}/", f"http://2130706434:{port}/"):
            public = Page(moved(location))
            async with served(public.reply) as url:
                error = await Fetching(extractor).failure(url)
            assert error.reason == "refused address"
            assert len(public.requests) == 1
    assert private.requests == []


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"], ["169.254.169.254"], ["::1"], ["fe80::1%eth0"], ["::ffff:127.0.0.1"], ["10.0.0.1", "::1"]],
)
async def test_name_with_only_private_addresses_or_at_another_port_is_refused(
    extractor: TextExtractor, addresses: list[str]
) -> None:
    fetching = Fetching(extractor, lookup=answering(addresses, ["93.184.216.34"]), allow=())
    error = await fetching.failure("http://evil.example/")
    assert (error.reason, str(error)) == ("refused address", "evil.example is not a public address")
    error = await fetching.failure("http://evil.example:6379/")
    assert (error.host, str(error)) == ("evil.example", "port 6379 of evil.example is not visited")


@asynccontextmanager
async def both_served(good: Page, private: Page) -> AsyncIterator[str]:
    """Serve two pages at the same port of the permitted and of the other address; gives the port."""
    async with served(good.reply, HERE) as url:
        port = url.rpartition(":")[2]
        async with served(private.reply, ELSEWHERE, int(port)):
            yield port


async def test_dns_rebinding_cannot_reach_a_private_address(extractor: TextExtractor) -> None:
    """DNS rebinding: a good address for the check, a private one for the connection."""
    good, private = Page(html()), Page(html("<p>secret</p>"))
    fetching = Fetching(extractor, lookup=answering([HERE], [ELSEWHERE]))
    async with both_served(good, private) as port:
        assert (await fetching.reader.fetch(f"http://rebind.example:{port}/")).title == "Ferries"
        error = await fetching.failure(f"http://rebind.example:{port}/")
    assert (error.reason, error.host) == ("refused address", "rebind.example")
    assert (len(good.requests), private.requests) == (1, [])


async def test_name_that_turns_private_between_requests_is_refused(extractor: TextExtractor) -> None:
    private = Page(html("<p>secret</p>"))
    gone = {"Connection": "close"}
    for first in (web.Response(status=503, headers=gone), moved("/next")):
        first.headers.update(gone)
        good = Page(first)
        fetching = Fetching(extractor, lookup=answering([HERE], [ELSEWHERE]))
        async with both_served(good, private) as port:
            error = await fetching.failure(f"http://rebind.example:{port}/")
        assert error.reason == "refused address"
        assert len(good.requests) == 1
    assert private.requests == []


async def test_only_public_addresses_of_a_name_are_used(extractor: TextExtractor) -> None:
    good, private = Page(html()), Page(html("<p>secret</p>"))
    fetching = Fetching(extractor, lookup=answering([ELSEWHERE, HERE]))
    async with both_served(good, private) as port:
        assert (await fetching.reader.fetch(f"http://both.example:{port}/")).title == "Ferries"
    assert private.requests == []


async def test_environment_proxies_are_not_used(
    extractor: TextExtractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, page = Page(html("<p>proxied</p>")), Page(html())
    async with served(proxy.reply) as proxy_url, served(page.reply) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy_url)
        assert (await Fetching(extractor).reader.fetch(url)).title == "Ferries"
    assert proxy.requests == []


# --- What goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        *((web.Response(status=status), f"http {status}") for status in (400, 403, 404)),
        *((html(text), "no text") for text in ("", "<html><script>x()</script></html>")),
        (web.Response(status=204), "no text"),
        (moved("http://[::1]@/"), "redirects"),
        (moved("http://a@127.0.0.1/"), "refused address"),
        *(
            (moved(to), "refused address")
            for to in ("file:///etc/passwd", "ftp://a.example/", "javascript:1")
        ),
        *(
            (web.Response(body=body, headers={"Content-Type": content_type}), "not text")
            for content_type, body in (
                ("application/pdf", b"%PDF-1.7"),
                ("text/html", b"%PDF-1.7"),
                ("image/png", b""),
                ("", b"\x89PNG\r\n\x1a\n\0"),
            )
        ),
    ],
)
async def test_bad_answer_is_final(extractor: TextExtractor, answer: web.Response, reason: str) -> None:
    page, fetching = Page(answer), Fetching(extractor)
    async with served(page.reply) as url:
        error = await fetching.failure(url)
    assert (error.reason, len(page.requests), fetching.waits) == (reason, 1, [])
    assert error.host == HERE or reason == "refused address"


@pytest.mark.parametrize(
    ("status", "retry_after", "asked", "least"),
    [*((status, "", 3, 0) for status in (408, 429, 500, 503)), (503, "3", 3, 3), (503, "600", 1, 600)],
)
async def test_transient_status_is_tried_three_times_unless_the_pause_is_too_long(
    extractor: TextExtractor, status: int, retry_after: str, asked: int, least: int
) -> None:
    page = Page(web.Response(status=status, headers={"Retry-After": retry_after} if retry_after else {}))
    fetching = Fetching(extractor)
    async with served(page.reply) as url:
        error = await fetching.failure(url)
    assert (error.reason, len(page.requests), len(fetching.waits)) == (f"http {status}", asked, asked - 1)
    assert all(least <= wait <= least + number for number, wait in enumerate(fetching.waits, 1))


async def test_time_limit_covers_the_whole_page_and_all_redirects(extractor: TextExtractor) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"<p>")
            await asyncio.sleep(0.02)
        return response

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.15)
        return moved("/")

    for handler in (drip, slow):
        async with served(handler) as url:
            error = await Fetching(extractor, timeout_s=0.4, max_redirects=20).failure(url)
        assert error.reason == "timeout"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 999\r\n\r\n<p>x", "connection"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "connection"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", "connection"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n", "redirects"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\xff\xfe\r\nContent-Length: 0\r\n\r\n", "redirects"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "http 302"),
    ],
)
async def test_invalid_response_is_reported(extractor: TextExtractor, answer: bytes, reason: str) -> None:
    async with raw(answer) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host) == (reason, HERE)


async def test_refused_connection_is_retried_and_a_tls_failure_is_not(extractor: TextExtractor) -> None:
    fetching = Fetching(extractor)
    assert (await fetching.failure(f"http://{HERE}:9/")).reason == "connection"
    assert len(fetching.waits) == 2
    async with served(Page(html()).reply) as url:
        assert (await fetching.failure(url.replace("http:", "https:"))).reason == "tls"
    assert len(fetching.waits) == 2


async def test_unknown_name_is_not_retried(extractor: TextExtractor) -> None:
    async def lookup(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def later(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    for ask, waits in ((lookup, 0), (later, 2)):
        fetching = Fetching(extractor, lookup=ask)
        error = await fetching.failure("http://nowhere.example/")
        assert (error.reason, error.host, len(fetching.waits)) == ("dns", "nowhere.example", waits)


async def test_endless_redirects_are_given_up(extractor: TextExtractor) -> None:
    page = Page(moved("/"))
    async with served(page.reply) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host, len(page.requests)) == ("redirects", HERE, 6)


@pytest.mark.parametrize("declared", [True, False])
async def test_huge_page_is_refused(extractor: TextExtractor, declared: bool) -> None:
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        if declared:
            response.content_length = 50_000_000
        await response.prepare(request)
        while sent < 50_000_000:
            await response.write(bytes(100_000))
            sent += 100_000
        return response

    async with served(flood) as url:
        error = await Fetching(extractor, max_bytes=1_000_000).failure(url)
    assert (error.reason, error.host) == ("too large", HERE)
    assert sent < 40_000_000


@pytest.mark.parametrize(
    "page", ["<div>" * 200_000, "<b><i>" * 50_000, "<a href='" * 100_000, "&" * 1_000_000]
)
async def test_hostile_page_does_not_harm_the_reader(extractor: TextExtractor, page: str) -> None:
    fetching = Fetching(extractor)
    async with served(Page(html(page), html()).reply) as url:
        try:
            await fetching.reader.fetch(url)
        except ToolError as error:
            assert error.reason in ("no text", "too large")  # noqa: PT017
        assert (await fetching.reader.fetch(url)).title == "Ferries"


# --- Manners --------------------------------------------------------------------------------------------


async def test_at_most_two_requests_per_host_at_once(extractor: TextExtractor) -> None:
    served_now, most = 0, 0

    async def count(_: web.Request) -> web.Response:
        nonlocal served_now, most
        served_now += 1
        most = max(most, served_now)
        await asyncio.sleep(0.02)
        served_now -= 1
        return web.Response(text="x")

    reader = Fetching(extractor, timeout_s=2.0).reader
    async with served(count) as url:
        await asyncio.gather(*(reader.fetch(f"{url}/{number}") for number in range(10)))
    assert most == PER_HOST
    assert not reader._slots


async def test_cancelled_fetch_releases_its_slot(extractor: TextExtractor) -> None:
    arrived = asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        if request.path == "/free":
            return web.Response(text="x")
        arrived.set()
        await asyncio.sleep(60)
        return web.Response()

    reader = Fetching(extractor).reader
    async with served(hang) as url:
        tasks = [asyncio.create_task(reader.fetch(f"{url}/hang")) for _ in range(4)]
        await arrived.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await reader.fetch(f"{url}/free")).text == "x"


# --- The body of a page

TEXT = b"The ferry leaves at nine. " * 100


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


async def blocks_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(data: bytes, encoding: str = "", max_bytes: int = 100_000, size: int = 7) -> bytes:
    return await read_body(blocks_of(data, size), encoding, max_bytes)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("gzip", gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:])),
        ("gzip", gzip.compress(TEXT) + bytes(20)),
    ],
    # A compressed body holds the time at which it was made, and a test's name has to be the same in every process.
    ids=[
        *("plain", "identity", "gzip", "X-GZIP", "deflate", "raw deflate", "gzip in two parts"),
        "gzip with a tail",
    ],
)
@pytest.mark.parametrize("size", [64, 100_000])
async def test_body_is_decompressed(encoding: str, data: bytes, size: int) -> None:
    assert await read(data, encoding, size=size) == TEXT


async def test_limit_applies_to_received_size() -> None:
    empty = gzip.compress(b"") * 10_000
    with pytest.raises(ToolError, match="more than 100,000 bytes"):
        await read(empty, "gzip", 100_000, size=65_536)


async def test_bomb_is_refused_in_bounded_memory() -> None:
    """200 MB of zeros in 200 kB: a thousandth of it is expanded, and no more."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(200)) + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(ToolError) as caught:
            await read(bomb, "gzip", 200_000, size=len(bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "too large"
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("encoding", "data"),
    [("br", b"x"), ("gzip, gzip", b"x"), ("gzip", b"not compressed"), ("deflate", b"\xff" * 50)],
)
async def test_body_with_broken_compression_is_not_text(encoding: str, data: bytes) -> None:
    with pytest.raises(ToolError) as caught:
        await read(data, encoding, size=1000)
    assert caught.value.reason == "not text"


@given(st.binary(max_size=300), st.sampled_from(["", "gzip", "deflate"]), st.integers(1, 200))
def test_any_body_is_within_the_limit_or_refused(data: bytes, encoding: str, max_bytes: int) -> None:
    try:
        body = asyncio.run(read(data, encoding, max_bytes))
    except ToolError:
        return
    assert len(body) <= max_bytes


@pytest.mark.parametrize(
    ("kind", "content_types", "data"),
    [
        ("html", ["text/html; charset=utf-8", "TEXT/HTML", "application/xhtml+xml"], b"x"),
        ("xml", ["application/xml", "application/rss+xml"], b"x"),
        ("plain", ["text/plain", "text/markdown", "application/json", "application/ld+json"], b"<x>"),
        ("html", ["", "application/octet-stream"], b"\n <!doctype html>"),
        *(("plain", [""], data) for data in (b"plain", b"", "\ufeff<p>x".encode("utf-16-le"))),
        *(
            ("not text", ["text/html", ""], data)
            for data in (b"%PDF-1.7", b"\x89PNG\r\n", b"PK\x03\x04", b"MZ\x90\x00\x03\x00", b"\x1f\x8b\x08")
        ),
        ("not text", ["image/png", "application/zip"], b"x"),
    ],
)
def test_kind_follows_content_type_and_first_bytes(kind: str, content_types: list[str], data: bytes) -> None:
    def kind_of(content_type: str) -> str:
        try:
            return page_kind(content_type, data)
        except ToolError as error:
            return error.reason

    assert {kind_of(content_type) for content_type in content_types} == {kind}


# --- Extraction in other processes

STUBBORN = """
import os, sys, time
sys.stdin.buffer.readline()
{action}
"""


def replace_program(monkeypatch: pytest.MonkeyPatch, folder: Path, action: str) -> None:
    """Let the processes do `action` with every request."""
    program = folder / "program.py"
    program.write_text(STUBBORN.format(action=action), encoding="utf-8")
    monkeypatch.setattr(fetch, "_PROGRAM", program)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_text(path: Path) -> None:
    """Wait until a process has written something there."""
    while not path.exists() or not path.read_text():
        time.sleep(0.01)


async def test_process_is_reused_and_ends_with_the_extractor() -> None:
    extractor = TextExtractor(workers=1)
    pids = set()
    for text in ("one", "two", "three"):
        assert await extractor.extract(text.encode(), "plain", "", 99) == ("", text)
        pids |= {worker._process.pid for worker in extractor._idle}
    assert len(pids) == 1
    del extractor
    gc.collect()
    assert not alive(pids.pop())


async def test_concurrent_pages_return_to_their_callers() -> None:
    extractor = TextExtractor(workers=2)
    pages = [f"page {number} " * 2000 for number in range(12)]
    found = await asyncio.gather(*(extractor.extract(page.encode(), "plain", "", 8) for page in pages))
    assert [text.splitlines()[0] for _, text in found] == [page[:8].strip() for page in pages]
    assert len(extractor._idle) <= 2
    extractor.close()


async def test_hanging_process_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extractor = TextExtractor(timeout_s=0.3)
    with monkeypatch.context() as patch:
        replace_program(patch, tmp_path, "time.sleep(600)")
        with pytest.raises(ToolError, match=r"takes longer than 0.3 s") as caught:
            await extractor.extract(bytes(1_000_000), "html", "", 99)
    assert caught.value.reason == "too large"
    assert extractor._idle == []
    extractor.timeout_s = 20.0
    assert await extractor.extract(b"next", "plain", "", 99) == ("", "next")
    extractor.close()


@pytest.mark.parametrize(
    "action", ["os.abort()", "sys.exit(0)", "print('{}', flush=True)", "sys.stdout.write('{}')"]
)
async def test_crashed_process_costs_one_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str
) -> None:
    extractor = TextExtractor()
    with monkeypatch.context() as patch:
        replace_program(patch, tmp_path, action)
        with pytest.raises(ToolError) as caught:
            await extractor.extract(b"<p>x</p>", "html", "", 99)
    assert caught.value.reason == "no text"
    extractor.close()


async def test_cancelled_extraction_kills_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ids = tmp_path / "pid"
    replace_program(
        monkeypatch, tmp_path, f"open({str(ids)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    extractor = TextExtractor()
    task = asyncio.create_task(extractor.extract(b"x", "html", "", 99))
    await asyncio.to_thread(wait_for_text, ids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int(ids.read_text()))
    assert extractor._idle == []


async def test_processes_receive_no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    names = tmp_path / "names"
    replace_program(monkeypatch, tmp_path, f"open({str(names)!r}, 'w').write(' '.join(os.environ))")
    extractor = TextExtractor()
    with pytest.raises(ToolError):
        await extractor.extract(b"x", "html", "", 99)
    assert "OPENAI_API_KEY" not in names.read_text()


async def test_hostile_page_does_not_block_the_loop() -> None:
    """Many seconds of parsing, given up after one; meanwhile the loop keeps turning."""
    extractor = TextExtractor(timeout_s=1.0)
    page = b"<html><body>" + b"<div></div>" * 450_000
    task = asyncio.create_task(extractor.extract(page, "html", "", 99))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(ToolError):
        await task
    assert turns > 5


def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    """Even one that is killed: the pipe that they read from ends."""
    code = (
        "import asyncio, os, signal\n"
        "from cts_async.search.backends.fetch import TextExtractor\n"
        "extractor = TextExtractor()\n"
        "asyncio.run(extractor.extract(b'x', 'plain', '', 9))\n"
        "print(extractor._idle[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + 30
    while alive(pid) and time.monotonic() < deadline and not _is_zombie(pid):
        time.sleep(0.02)
    assert not alive(pid) or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Ended, and not yet collected by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
