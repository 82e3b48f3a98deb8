"""Pages fetched directly: what is read, and everything that is refused, over real HTTP.

The servers listen on addresses of this machine that no page may reach, unless a test allows one of them: then the
others still stand for the private network around it.
"""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from fake_web import article, raw, served

from cts_async.errors import ToolError
from cts_async.search.backends.fetch import PER_HOST, DirectReader, TextExtractor
from cts_async.search.catalog import load_search

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
"""Another address of this machine, that tests do not allow."""

SPEC = replace(load_search().reader("direct"), allow=(HERE,), timeout_s=5.0)


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
            replace(SPEC, **changes), sleep=self._sleep, rng=random.Random(1), extractor=extractor, **extra
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
        self.asked: list[web.Request] = []

    async def reply(self, request: web.Request) -> web.Response:
        answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(request)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def html(text: str | None = None, **options: Any) -> web.Response:
    return web.Response(text=article() if text is None else text, content_type="text/html", **options)


def moved(to: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": to})


# --- What is read ---------------------------------------------------------------------------------------


async def test_a_page_s_title_and_main_text_are_read(extractor: TextExtractor) -> None:
    page = Page(html())
    async with served(page.reply) as url:
        found = await Fetching(extractor).reader.fetch(f"{url}/ferries#when")
    assert (found.url, found.id, found.title) == (f"{url}/ferries", f"{url}/ferries", "Ferries")
    assert "Sentence number 3 says that the ferry leaves at 3 o'clock from pier 3." in found.text
    (request,) = page.asked
    assert request.headers["User-Agent"].startswith("Mozilla/5.0 (compatible; cts-async/")
    assert request.headers["Accept-Encoding"] == "gzip, deflate"


async def test_the_user_agent_is_the_table_s(extractor: TextExtractor) -> None:
    page = Page(html())
    async with served(page.reply) as url:
        await Fetching(extractor, user_agent="me/1").reader.fetch(url)
    assert page.asked[0].headers["User-Agent"] == "me/1"


async def test_a_long_text_is_cut_and_says_so(extractor: TextExtractor) -> None:
    page = Page(web.Response(text="0123456789" * 10))
    async with served(page.reply) as url:
        found = await Fetching(extractor, max_chars=20).reader.fetch(url)
    assert found.text == "01234567890123456789\n\n[Cut here: the page has 100 characters.]"


@pytest.mark.parametrize(
    ("declared", "said"),
    [("text/html; charset=gbk", ""), ("text/html", '<meta charset="gb2312">'), ("text/html", "")],
)
async def test_a_chinese_page_of_another_charset_is_read(
    extractor: TextExtractor, declared: str, said: str
) -> None:
    lines = "".join(
        f"<p>第{i}班渡轮早上九点从旧码头开往小岛,星期一除外,成人票价四欧元。</p>" for i in range(10)
    )
    text = f"<html><head>{said}<title>渡轮时刻</title></head><body><article>{lines}</article></body></html>"
    page = Page(web.Response(body=text.encode("gbk"), headers={"Content-Type": declared}))
    async with served(page.reply) as url:
        found = await Fetching(extractor).reader.fetch(url)
    assert found.title == "渡轮时刻"
    assert "第3班渡轮早上九点从旧码头开往小岛" in found.text


async def test_a_compressed_page_is_read(extractor: TextExtractor) -> None:
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    page = Page(web.Response(body=gzip.compress(article().encode()), headers=headers))
    async with served(page.reply) as url:
        assert (await Fetching(extractor).reader.fetch(url)).title == "Ferries"


async def test_redirects_are_followed_and_the_last_address_is_the_page_s(extractor: TextExtractor) -> None:
    page = Page(moved("/a", 301), moved("b?x=1#c", 303), moved("c", 307), moved("d", 308), html())
    async with served(page.reply) as url:
        found = await Fetching(extractor).reader.fetch(f"{url}/start")
    assert found.url == f"{url}/d"
    assert [request.path_qs for request in page.asked] == ["/start", "/a", "/b?x=1", "/c", "/d"]


async def test_cookies_last_for_the_redirects_of_one_page_only(extractor: TextExtractor) -> None:
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
    assert cookies.asked[0].cookies == {}


# --- Where it does not go -------------------------------------------------------------------------------


def answering(*answers: Sequence[str]) -> Any:
    """A name server that answers each question with the next of `answers`, the last one for ever."""
    asked: list[str] = []

    async def lookup(host: str) -> Sequence[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return lookup


async def test_a_private_address_is_refused_without_a_request(extractor: TextExtractor) -> None:
    page = Page(html())
    async with served(page.reply, ELSEWHERE) as url:
        error = await Fetching(extractor).failure(url)
        port = url.rpartition(":")[2]
        for host in ("127.2", "2130706434", "0x7f000002", "[::ffff:127.0.0.2]", "１２７.0.0.2"):
            assert (await Fetching(extractor).failure(f"http://{host}:{port}/")).reason == "refused address"
    assert (error.reason, error.host) == ("refused address", ELSEWHERE)
    assert page.asked == []


async def test_a_redirect_to_a_private_address_is_refused_without_a_request(extractor: TextExtractor) -> None:
    private = Page(html())
    async with served(private.reply, ELSEWHERE) as target:
        port = target.rpartition(":")[2]
        for location in (target, f"//127.2:{port}/", f"http://2130706434:{port}/"):
            public = Page(moved(location))
            async with served(public.reply) as url:
                error = await Fetching(extractor).failure(url)
            assert error.reason == "refused address"
            assert len(public.asked) == 1
    assert private.asked == []


async def test_a_redirect_to_an_address_that_yarl_trips_over_is_a_failure(extractor: TextExtractor) -> None:
    async with served(Page(moved("http://[::1]@/")).reply) as url:
        assert (await Fetching(extractor).failure(url)).reason == "redirects"


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://a.example/", "javascript:1", "http://a@127.0.0.1/"]
)
async def test_a_redirect_to_something_else_than_a_web_page_is_refused(
    extractor: TextExtractor, location: str
) -> None:
    async with served(Page(moved(location)).reply) as url:
        assert (await Fetching(extractor).failure(url)).reason == "refused address"


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"], ["169.254.169.254"], ["::1"], ["fe80::1%eth0"], ["::ffff:127.0.0.1"], ["10.0.0.1", "::1"]],
)
async def test_a_name_with_private_addresses_only_is_refused(
    extractor: TextExtractor, addresses: list[str]
) -> None:
    error = await Fetching(extractor, lookup=answering(addresses), allow=()).failure("http://evil.example/")
    assert (error.reason, error.host) == ("refused address", "evil.example")
    assert "not a public address" in str(error)


async def test_a_name_is_looked_up_once_and_connected_to_at_what_was_checked(
    extractor: TextExtractor,
) -> None:
    """DNS rebinding: a good address for the check, a private one for the connection."""
    good, private = Page(html()), Page(html("<p>secret</p>"))
    async with served(good.reply, HERE) as url:
        port = int(url.rpartition(":")[2])
        async with served(private.reply, ELSEWHERE, port):
            fetching = Fetching(extractor, lookup=answering([HERE], [ELSEWHERE]))
            found = await fetching.reader.fetch(f"http://rebind.example:{port}/")
            assert found.title == "Ferries"
            error = await fetching.failure(f"http://rebind.example:{port}/")
    assert (error.reason, error.host) == ("refused address", "rebind.example")
    assert (len(good.asked), private.asked) == (1, [])


async def test_a_name_that_turns_private_between_redirects_or_attempts_is_refused(
    extractor: TextExtractor,
) -> None:
    private = Page(html("<p>secret</p>"))
    gone = {"Connection": "close"}
    for first in (web.Response(status=503, headers=gone), moved("/next")):
        first.headers.update(gone)
        good = Page(first)
        async with served(good.reply, HERE) as url:
            port = int(url.rpartition(":")[2])
            async with served(private.reply, ELSEWHERE, port):
                fetching = Fetching(extractor, lookup=answering([HERE], [ELSEWHERE]))
                error = await fetching.failure(f"http://rebind.example:{port}/")
        assert error.reason == "refused address"
        assert len(good.asked) == 1
    assert private.asked == []


async def test_of_several_addresses_only_the_good_ones_are_connected_to(extractor: TextExtractor) -> None:
    good, private = Page(html()), Page(html("<p>secret</p>"))
    async with served(good.reply, HERE) as url:
        port = int(url.rpartition(":")[2])
        async with served(private.reply, ELSEWHERE, port):
            fetching = Fetching(extractor, lookup=answering([ELSEWHERE, HERE]))
            assert (await fetching.reader.fetch(f"http://both.example:{port}/")).title == "Ferries"
    assert private.asked == []


async def test_ports_of_the_web_only_unless_allowed(extractor: TextExtractor) -> None:
    fetching = Fetching(extractor, lookup=answering(["93.184.216.34"]), allow=())
    error = await fetching.failure("http://public.example:6379/")
    assert (error.reason, str(error)) == ("refused address", "port 6379 of public.example is not visited")


async def test_proxies_of_the_environment_are_not_used(
    extractor: TextExtractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, page = Page(html("<p>proxied</p>")), Page(html())
    async with served(proxy.reply) as proxy_url, served(page.reply) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy_url)
        assert (await Fetching(extractor).reader.fetch(url)).title == "Ferries"
    assert proxy.asked == []


# --- What goes wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 451])
async def test_a_refusal_is_final(extractor: TextExtractor, status: int) -> None:
    page = Page(web.Response(status=status))
    fetching = Fetching(extractor)
    async with served(page.reply) as url:
        error = await fetching.failure(url)
    assert (error.reason, error.host, len(page.asked)) == (f"http {status}", HERE, 1)
    assert fetching.waits == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_trouble_of_the_host_s_is_tried_three_times(extractor: TextExtractor, status: int) -> None:
    page = Page(web.Response(status=status))
    fetching = Fetching(extractor)
    async with served(page.reply) as url:
        error = await fetching.failure(url)
    assert (error.reason, len(page.asked)) == (f"http {status}", 3)
    assert len(fetching.waits) == 2
    assert 0 <= fetching.waits[0] <= 1
    assert 0 <= fetching.waits[1] <= 2


async def test_trouble_that_passes_is_no_trouble(extractor: TextExtractor) -> None:
    page = Page(web.Response(status=503), web.Response(status=429), html())
    async with served(page.reply) as url:
        assert (await Fetching(extractor).reader.fetch(url)).title == "Ferries"
    assert len(page.asked) == 3


@pytest.mark.parametrize(("retry_after", "asked"), [("3", 3), ("600", 1)])
async def test_a_host_is_given_the_pause_it_asks_for_or_left(
    extractor: TextExtractor, retry_after: str, asked: int
) -> None:
    page = Page(web.Response(status=503, headers={"Retry-After": retry_after}))
    fetching = Fetching(extractor)
    async with served(page.reply) as url:
        await fetching.failure(url)
    assert len(page.asked) == asked
    assert all(wait >= 3 for wait in fetching.waits)


async def test_a_page_that_never_comes_is_given_up(extractor: TextExtractor) -> None:
    async def hang(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with served(hang) as url:
        error = await Fetching(extractor, timeout_s=0.1).failure(url)
    assert (error.reason, error.host) == ("timeout", HERE)


async def test_a_page_that_drips_is_given_up(extractor: TextExtractor) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"<p>")
            await asyncio.sleep(0.02)
        return response

    async with served(drip) as url:
        assert (await Fetching(extractor, timeout_s=0.2).failure(url)).reason == "timeout"


async def test_the_time_limit_is_for_all_redirects_together(extractor: TextExtractor) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.15)
        return moved("/")

    async with served(slow) as url:
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
async def test_an_answer_that_is_none_is_told(extractor: TextExtractor, answer: bytes, reason: str) -> None:
    async with raw(answer) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host) == (reason, HERE)


async def test_nobody_there_is_told(extractor: TextExtractor) -> None:
    fetching = Fetching(extractor)
    assert (await fetching.failure(f"http://{HERE}:9/")).reason == "connection"
    assert len(fetching.waits) == 2


async def test_a_name_that_does_not_exist_is_not_tried_again(extractor: TextExtractor) -> None:
    import socket

    async def lookup(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def later(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    for ask, waits in ((lookup, 0), (later, 2)):
        fetching = Fetching(extractor, lookup=ask)
        error = await fetching.failure("http://nowhere.example/")
        assert (error.reason, error.host, len(fetching.waits)) == ("dns", "nowhere.example", waits)


async def test_a_host_without_encryption_is_told(extractor: TextExtractor) -> None:
    async with served(Page(html()).reply) as url:
        error = await Fetching(extractor).failure(url.replace("http:", "https:"))
    assert error.reason == "tls"


async def test_redirects_without_end_are_given_up(extractor: TextExtractor) -> None:
    page = Page(moved("/"))
    async with served(page.reply) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host, len(page.asked)) == ("redirects", HERE, 6)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_huge_page_is_refused(extractor: TextExtractor, declared: bool) -> None:
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


async def test_a_compressed_bomb_is_refused(extractor: TextExtractor) -> None:
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    page = Page(web.Response(body=gzip.compress(bytes(100_000_000)), headers=headers))
    async with served(page.reply) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host) == ("too large", HERE)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/pdf", b"%PDF-1.7"),
        ("text/html", b"%PDF-1.7"),
        ("image/png", b""),
        ("", b"\x89PNG\r\n\x1a\n\0"),
    ],
)
async def test_a_page_that_is_no_text_is_refused(
    extractor: TextExtractor, content_type: str, body: bytes
) -> None:
    async with served(Page(web.Response(body=body, headers={"Content-Type": content_type})).reply) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host) == ("not text", HERE)


@pytest.mark.parametrize(
    "answer", [html(""), html("<html><script>x()</script></html>"), web.Response(status=204)]
)
async def test_a_page_without_text_is_told(extractor: TextExtractor, answer: web.Response) -> None:
    async with served(Page(answer).reply) as url:
        error = await Fetching(extractor).failure(url)
    assert (error.reason, error.host) == ("no text", HERE)


@pytest.mark.parametrize(
    "page", ["<div>" * 200_000, "<b><i>" * 50_000, "<a href='" * 100_000, "&" * 1_000_000]
)
async def test_a_hostile_page_is_survived(extractor: TextExtractor, page: str) -> None:
    fetching = Fetching(extractor)
    async with served(Page(html(page), html()).reply) as url:
        try:
            await fetching.reader.fetch(url)
        except ToolError as error:
            assert error.reason in ("no text", "too large")  # noqa: PT017
        assert (await fetching.reader.fetch(url)).title == "Ferries"


# --- Manners --------------------------------------------------------------------------------------------


@pytest.fixture
async def crowd() -> AsyncIterator[tuple[str, list[int]]]:
    """A server that counts how many it serves at a time."""
    now = 0
    most = [0]

    async def count(_: web.Request) -> web.Response:
        nonlocal now
        now += 1
        most[0] = max(most[0], now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.Response(text="x")

    async with served(count) as url:
        yield url, most


async def test_a_host_is_asked_twice_at_once_at_most(
    extractor: TextExtractor, crowd: tuple[str, list[int]]
) -> None:
    url, most = crowd
    reader = Fetching(extractor, timeout_s=2.0).reader
    await asyncio.gather(*(reader.fetch(f"{url}/{number}") for number in range(10)))
    assert most == [PER_HOST]
    assert reader._slots._slots == {}


async def test_a_cancelled_fetch_gives_its_place_back(extractor: TextExtractor) -> None:
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
        assert reader._slots._slots == {}
        assert (await reader.fetch(f"{url}/free")).text == "x"
