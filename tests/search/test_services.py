"""Serper, the Jina reader, services described by a table, and what each answer of theirs means, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_web import Handler, raw, served
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from cts_async.errors import CTSError, ProviderRefused, RateLimited, TimedOut, ToolError, TransientError
from cts_async.llm.http import ConnectionPool, HttpResponse
from cts_async.search.backends import Hit, Page, services
from cts_async.search.backends.addresses import AllowList, check_target
from cts_async.search.backends.services import (
    HttpEngine,
    HttpReader,
    JinaReader,
    filled,
    filled_url,
    open_reader,
    text_of,
)
from cts_async.search.backends.unusable_answers import check_page, value_at
from cts_async.search.catalog import EngineSpec, ReaderSpec, load_search

KEY = "secret-key-0123456789"
ENVIRON = dict.fromkeys(
    ("BRAVE_API_KEY", "TAVILY_API_KEY", "FIRECRAWL_API_KEY", "SERPER_API_KEY", "JINA_API_KEY", "MY_KEY"), KEY
)
SPEC = {"name": "mine", "key_env": "MY_KEY", "timeout_s": 5.0}
SEARCH = HttpEngine(EngineSpec(**SPEC), ENVIRON, session=None)
READER = HttpReader(ReaderSpec(**SPEC), ENVIRON, session=None)
"""They read answers; there is no session to send anything."""

# --- The meaning of an answer


def answer(data: bytes, content_type: str = "") -> HttpResponse:
    return HttpResponse(200, {"Content-Type": content_type}, data)


def failure(
    status: int,
    data: bytes = b"",
    headers: Mapping[str, str] | None = None,
    service: HttpEngine | HttpReader = SEARCH,
) -> CTSError:
    return service.failure(HttpResponse(status, headers or {}, data), status, "h.example")


@pytest.mark.parametrize(
    ("service", "status", "data", "kind"),
    [
        (SEARCH, 400, b"", ToolError),
        (SEARCH, 400, b'{"message": "Not enough credits", "statusCode": 400}', ProviderRefused),
        *((SEARCH, status, b"", ProviderRefused) for status in (302, 401, 402, 403, 404)),
        *((SEARCH, status, b"", TransientError) for status in (408, 409, 425, 500, 503, 529)),
        *((SEARCH, status, b"", ToolError) for status in (413, 422)),
        (SEARCH, 429, b'{"message": "Too many requests"}', RateLimited),
        (SEARCH, 429, b'{"message": "Monthly quota exceeded"}', ProviderRefused),
        (SEARCH, 429, b'{"error": {"message": "insufficient balance"}}', ProviderRefused),
        (SEARCH, 502, b"<html>Bad gateway</html>", TransientError),
        # A reader's 4xx is mostly about the page.
        *((READER, status, b"", ToolError) for status in (400, 403, 404, 422, 451)),
        *((READER, status, b"", ProviderRefused) for status in (401, 402)),
        (READER, 429, b"", RateLimited),
        (READER, 500, b"", TransientError),
    ],
)
def test_status_maps_to_one_kind_of_error(
    service: HttpEngine | HttpReader, status: int, data: bytes, kind: type[CTSError]
) -> None:
    error = failure(status, data, service=service)
    assert type(error) is kind
    if isinstance(error, ToolError):
        assert (error.reason, error.host) == (f"http {status}", "h.example")


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (429, {"retry-after": "7"}, 7.0),
        (429, {"retry-after-ms": "250"}, 0.25),
        (429, {"x-ratelimit-reset": "12"}, 12.0),
        (429, {}, None),
        (503, {"retry-after": "3"}, 3.0),
        (503, {}, None),
    ],
)
def test_wait_is_read_from_headers(status: int, headers: dict[str, str], wait_s: float | None) -> None:
    error = failure(status, headers=headers)
    assert isinstance(error, TransientError)
    assert (error.retry_after_s, error.status) == (wait_s, status)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"message": "Bad \\u001b[31mquery"}', "mine: HTTP 400: Bad [31mquery"),
        (b'{"error": {"message": "no", "code": 3}}', "mine: HTTP 400: no"),
        (b'{"error": "no"}', "mine: HTTP 400: no"),
        (b'{"errors": [{"detail": "no"}]}', "mine: HTTP 400: no"),
        (b'{"x": 1}', "mine: HTTP 400"),
        (b"[1]", "mine: HTTP 400"),
        (b"plain\n\nwords", "mine: HTTP 400: plain words"),
        (b"\xff\xfe", "mine: HTTP 400: \ufffd\ufffd"),
        (f'{{"message": "key {KEY} is bad"}}'.encode(), "mine: HTTP 400: key (key) is bad"),
        (f"<p>{KEY}</p>".encode(), "mine: HTTP 400: <p>(key)</p>"),
    ],
)
def test_error_message_is_one_line_without_the_key(data: bytes, message: str) -> None:
    assert str(failure(400, data)) == message


def test_error_object_under_status_200_is_an_error() -> None:
    for data in (b'{"error": "no such engine"}', b'{"error": {"message": "no such engine"}}'):
        with pytest.raises(ToolError, match="no such engine") as caught:
            SEARCH.json_of(answer(data), "h.example")
        assert caught.value.reason == "failed"
    with pytest.raises(ProviderRefused, match=r"out of credits \(key: MY_KEY\)"):
        SEARCH.json_of(answer(b'{"error": "out of credits"}'), "h.example")
    assert SEARCH.json_of(answer(b'{"error": null, "results": []}'), "h.example")["results"] == []


@pytest.mark.parametrize("word", ["credits", "billing", "payment", "balance"])
def test_address_of_a_page_is_no_unpaid_bill(word: str) -> None:
    for data in (
        f'{{"message": "Failed to goto https://a.example/{word}: net::ERR_ABORTED"}}'.encode(),
        f'{{"message": "Domain \'{word}.example\' could not be resolved"}}'.encode(),
    ):
        assert type(failure(400, data, service=READER)) is ToolError
    with pytest.raises(ToolError):
        READER.json_of(answer(f'{{"error": "the page asks for {word}"}}'.encode()), "h.example")
    assert type(failure(403, f'{{"message": "no {word}."}}'.encode(), service=READER)) is ProviderRefused


def test_json_is_read_in_its_charset_and_with_half_an_emoji() -> None:
    assert SEARCH.json_of(answer(b'{"text": "cut \\ud83d"}'), "") == {"text": "cut ?"}
    gbk = answer('{"text": "渡轮"}'.encode("gbk"), "application/json; charset=gbk")
    assert SEARCH.json_of(gbk, "") == {"text": "渡轮"}
    for broken in (b"[" * 100_000, b'{"organic": ['):
        with pytest.raises(TransientError, match="not JSON"):
            SEARCH.json_of(answer(broken), "")


def test_text_is_read_in_its_charset() -> None:
    assert text_of(answer("渡轮".encode("gb18030"), "text/plain; charset=gb18030")) == "渡轮"
    assert text_of(answer("渡轮".encode(), "text/plain")) == "渡轮"
    assert text_of(answer(b"a\xff", "text/plain; charset=nonsense")) == "a\ufffd"
    for codec in ("idna", "undefined", "punycode", "unicode_escape", "zlib", "utf-7"):  # no charsets
        text = text_of(answer(b"a\xc3\xa9 \\ud800 +2AA- b", f"text/plain; charset={codec}"))
        assert text.encode().startswith(b"a")


# --- Exchanges


async def send(url: str, body: Any = None, timeout_s: float = 5.0, max_bytes: int = 50_000) -> HttpResponse:
    async with aiohttp.ClientSession(connector=ConnectionPool()) as session:
        spec = ReaderSpec(**SPEC | {"timeout_s": timeout_s}, max_bytes=max_bytes)
        return await HttpReader(spec, ENVIRON, session).ask("POST", URL(f"{url}/s"), {}, body)


async def test_key_sent_back_is_removed_from_results_and_errors() -> None:
    async def echo(request: web.Request) -> web.Response:
        status = 400 if await request.json() else 200
        return web.json_response({"message": f"{KEY} is wrong"}, status=status)

    async with served(echo) as url:
        assert b'"(key) is wrong"' in (await send(url, [])).data
        with pytest.raises(ToolError, match=r"HTTP 400: \(key\) is wrong$"):
            await send(url, [1])


def streaming(block: bytes, pause_s: float) -> Handler:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(block)
            await asyncio.sleep(pause_s)
        return response

    return stream


async def packed(request: web.Request) -> web.Response:
    assert request.headers["Accept-Encoding"] == "gzip, deflate"
    return web.Response(body=b"no such thing", headers={"Content-Encoding": "br"})


async def move(request: web.Request) -> web.Response:
    assert request.path == "/s"
    return web.Response(status=302, headers={"Location": "/elsewhere"})


@pytest.mark.parametrize(
    ("handler", "kind", "message"),
    [
        (streaming(b" ", 0.05), TimedOut, "no response within 0.3 s"),
        (streaming(bytes(10_000), 0), ToolError, "mine sent more than 50,000 bytes"),
        (packed, ToolError, "compressed as 'br'"),
        (move, ProviderRefused, "mine: HTTP 302: its address has moved; correct url in cts.toml"),
    ],
)
async def test_slow_endless_compressed_and_redirected_answers_fail(
    handler: Handler, kind: type[CTSError], message: str
) -> None:
    async with served(handler) as url:
        with pytest.raises(kind, match=message):
            await send(url, timeout_s=0.3)


async def test_broken_answer_is_transient() -> None:
    async with raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}") as url:
        with pytest.raises(TransientError, match="broke off") as caught:
            await send(url)
    assert (caught.value.unsent, caught.value.status) == (False, 200)  # there is a server: no outage
    with pytest.raises(TransientError, match="no connection") as caught:
        await send("http://127.0.0.1:9")
    assert caught.value.unsent


# --- Engines and readers of a table


class Recorded:
    """A server that gives one response and records the request."""

    def __init__(
        self, json: Any = None, *, text: str | None = None, status: int = 200, headers: Any = None
    ) -> None:
        self.json, self.text, self.status, self.sent = json, text, status, headers
        self.method, self.path, self.headers, self.body = "", "", {}, None

    async def reply(self, request: web.Request) -> web.Response:
        self.method, self.path, self.headers = request.method, request.raw_path, dict(request.headers)
        self.body = await request.json() if request.can_read_body else None
        if self.text is not None:
            return web.Response(text=self.text, status=self.status, headers=self.sent)
        return web.json_response(self.json, status=self.status, headers=self.sent)


HOSTS = (
    *("http://127.0.0.1:8888", "https://api.search.brave.com", "https://api.tavily.com", "http://h"),
    "https://api.firecrawl.dev",
)


def written(toml: str, url: str, folder: Path) -> Path:
    """A cts.toml whose addresses are all the fake server's."""
    for host in HOSTS:
        toml = toml.replace(f'"{host}/', f'"{url}/')
    path = folder / "cts.toml"
    path.write_text(toml, encoding="utf-8")
    return path


async def searched(
    toml: str, name: str, server: Recorded, folder: Path, query: str = "ferry", limit: int = 10
) -> list[Hit]:
    async with served(server.reply) as url, aiohttp.ClientSession(connector=ConnectionPool()) as session:
        spec = load_search(written(toml, url, folder)).engine(name)
        return await HttpEngine(spec, ENVIRON, session).search(query, limit)


async def visited(toml: str, name: str, server: Recorded, folder: Path, page: str) -> Page:
    async with served(server.reply) as url, aiohttp.ClientSession(connector=ConnectionPool()) as session:
        spec = load_search(written(toml, url, folder)).reader(name)
        return await open_reader(spec, ENVIRON, session).fetch(page)


DOCUMENTED = "\n".join(
    line.removeprefix("    ") for line in (services.__doc__ or "").splitlines() if line.startswith("    ")
)
"""The example tables of the module's own docstring."""
ENGINE = '[search.m]\nurl = "http://h/?q={query}"\n'
READER_TABLE = '[visit.m]\nurl = "http://h/read?u={url}"\nmax_chars = 12\n'


async def test_searxng_table_as_documented(tmp_path: Path) -> None:
    found = {"title": "Ferries", "url": "https://a.org/", "content": "At nine.", "engine": "bing"}
    server = Recorded({"query": "x", "results": [{**found, "publishedDate": "2024-01-02"}]})
    hits = await searched(DOCUMENTED, "searx", server, tmp_path, "a&b=c #渡轮")
    assert server.path == "/search?q=a%26b%3Dc%20%23%E6%B8%A1%E8%BD%AE&format=json"
    assert (server.method, server.body) == ("GET", None)
    assert hits == [Hit("https://a.org/", "https://a.org/", "Ferries", "At nine.", 1.0, "2024-01-02", "bing")]


async def test_brave_table_as_documented(tmp_path: Path) -> None:
    row = {"title": "T", "url": "https://a.org/", "description": "S", "profile": {"name": "A"}}
    server = Recorded({"web": {"results": [row]}})
    (hit,) = await searched(DOCUMENTED, "brave", server, tmp_path, limit=3)
    assert server.path == "/res/v1/web/search?q=ferry&count=3"
    assert server.headers["X-Subscription-Token"] == KEY
    assert "Authorization" not in server.headers
    assert (hit.snippet, hit.source, hit.date) == ("S", "A", "")


async def test_tavily_table_as_documented(tmp_path: Path) -> None:
    server = Recorded({"results": [{"title": "T", "url": "https://a.org/", "content": "S"}]})
    (hit,) = await searched(DOCUMENTED, "tavily", server, tmp_path, "{limit} ferries", limit=3)
    assert server.method == "POST"
    assert server.body == {"query": "{limit} ferries", "max_results": 3}
    assert server.headers["Authorization"] == f"Bearer {KEY}"
    assert server.headers["Content-Type"] == "application/json"
    assert server.headers["User-Agent"].startswith("cts-async/")
    assert hit.snippet == "S"


async def test_firecrawl_table_as_documented(tmp_path: Path) -> None:
    server = Recorded({"data": {"markdown": "# Ferries\nAt nine.", "metadata": {"title": "Ferries"}}})
    page = await visited(DOCUMENTED, "firecrawl", server, tmp_path, "https://a.org/x?y=1")
    assert server.body == {"url": "https://a.org/x?y=1", "formats": ["markdown"]}
    assert page == Page("https://a.org/x?y=1", "https://a.org/x?y=1", "Ferries", "# Ferries\nAt nine.")


async def test_key_may_stand_in_the_address(tmp_path: Path) -> None:
    toml = """
    [search.bing]
    url = "http://h/v7.0/search?q={query}&key={key}"
    key_env = "MY_KEY"
    headers = { X-Lang = "de" }
    results = "webPages.value"
    fields = { title = "name", date = "datePublished" }
    """
    server = Recorded({"webPages": {"value": [{"name": "T", "url": "https://a.org/", "snippet": "S"}]}})
    (hit,) = await searched(toml, "bing", server, tmp_path)
    assert (server.path, server.headers["X-Lang"]) == (f"/v7.0/search?q=ferry&key={KEY}", "de")
    assert (hit.title, hit.snippet) == ("T", "S")
    assert await searched(toml, "bing", Recorded({"_type": "SearchResponse"}), tmp_path) == []
    refusing = Recorded({"detail": f"bad request: /?q=x&key={KEY}"}, status=422)
    with pytest.raises(ToolError, match=r"bing: HTTP 422: bad request: /\?q=x&key=\(key\)"):
        await searched(toml, "bing", refusing, tmp_path)


async def test_answer_may_be_the_list_itself(tmp_path: Path) -> None:
    server = Recorded([{"url": "https://a.org/"}, {"url": "https://b.org/", "title": 7}, {"title": "no url"}])
    hits = await searched(ENGINE + 'results = ""', "m", server, tmp_path, limit=2)
    assert [(hit.url, hit.title, hit.score) for hit in hits] == [
        ("https://a.org/", "https://a.org/", 1.0),
        ("https://b.org/", "7", 0.5),
    ]


async def test_table_that_does_not_fit_the_answer_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ProviderRefused, match="'results' is not a list: correct results in cts.toml"):
        await searched(ENGINE, "m", Recorded({"results": {"a": 1}}), tmp_path)
    with pytest.raises(ProviderRefused, match="no result has a 'url': correct fields.url in cts.toml"):
        await searched(ENGINE, "m", Recorded({"results": [{"link": "https://a.org/"}]}), tmp_path)


async def test_reader_may_answer_with_the_text_itself(tmp_path: Path) -> None:
    server = Recorded(text="At nine. And at ten, too.")
    page = await visited(READER_TABLE, "m", server, tmp_path, "https://a.org/?a=b&c=d#e")
    assert server.path == "/read?u=https%3A%2F%2Fa.org%2F%3Fa%3Db%26c%3Dd"
    assert page.text == "At nine. And\n\n[Cut here: the page has 25 characters.]"


@pytest.mark.parametrize(
    ("server", "page", "reason"),
    [
        (Recorded(text=" \n"), "https://a.org/", "no text"),
        (Recorded(text="gone", status=404), "https://a.org/", "http 404"),
        *((Recorded(text="x"), url, "refused address") for url in ("file:///etc", "https://", "http://[")),
    ],
)
async def test_unreadable_page_is_a_tool_error(
    tmp_path: Path, server: Recorded, page: str, reason: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await visited(READER_TABLE, "m", server, tmp_path, page)
    assert caught.value.reason == reason
    assert caught.value.host == ("a.org" if page == "https://a.org/" else "")


# --- Services of no use: in their own words, by the kind of error that follows

SERPAPI_EMPTY = {
    "search_metadata": {"status": "Success"},
    "error": "Google hasn't returned any results for this query.",
}
SUSPENDED = [["brave", "Suspended: too many requests"], ["google", "Suspended: CAPTCHA"]]
ANSWERS = [
    # What stops: bills, quotas of days and months, keys.
    (400, {"message": "Not enough credits", "statusCode": 400}, ProviderRefused),  # Serper
    (429, {"error": "Your account has run out of searches."}, ProviderRefused),  # SerpApi
    # Tavily
    (432, {"detail": {"error": "This request exceeds your plan's set usage limit."}}, ProviderRefused),
    (433, {"detail": {"error": "You have exceeded your pay-as-you-go limit."}}, ProviderRefused),
    # Exa
    (402, {"error": "You have exceeded your credits limit.", "tag": "NO_MORE_CREDITS"}, ProviderRefused),
    (422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": "Check it."}}, ProviderRefused),  # Brave
    (403, {"error": {"code": "403", "message": "Out of call volume quota."}}, ProviderRefused),  # Bing
    (410, {}, ProviderRefused),  # Bing since August 2025
    # Google
    (400, {"error": {"code": 400, "message": "API key not valid. Please pass one."}}, ProviderRefused),
    (
        429,
        {"error": {"message": "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of x"}},
        ProviderRefused,
    ),
    (200, {"code": "403", "message": "You do not have enough money"}, ProviderRefused),  # Bocha
    (200, {"code": 60400, "message": "Insufficient credits"}, ProviderRefused),  # iFlow
    # Zhipu
    (429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, ProviderRefused),
    (400, {"error": [{"code": 101, "msg": "Insufficient credit"}]}, ProviderRefused),  # Kagi
    (200, {"success": False, "error": {"code": 104, "type": "usage_limit_reached"}}, ProviderRefused),
    # What passes by itself.
    (
        429,
        {"error": {"code": "RATE_LIMITED", "detail": "Request rate limit exceeded for plan."}},
        RateLimited,
    ),
    (429, {"error": {"message": "Quota exceeded for limit 'Queries per minute per user'"}}, RateLimited),
    (429, {"message": "5 queries per second are exceeded: buy more credits"}, RateLimited),
    (403, {"error": {"errors": [{"reason": "rateLimitExceeded"}], "message": "Slow"}}, RateLimited),
    (200, {"code": "429", "message": "You have reached the request limit"}, RateLimited),  # Bocha
    (200, {"code": 503, "message": "busy"}, TransientError),
    # One failed search.
    (200, {"results": [], "unresponsive_engines": SUSPENDED}, ToolError),  # SearXNG
    (200, {"code": 10013, "msg": "engine error"}, ToolError),
    (200, {"code": 10013, "results": []}, ToolError),
    (200, {"success": False, "results": []}, ToolError),
    (200, {"search_metadata": {"status": "Error"}, "error": "We couldn't get valid results."}, ToolError),
    (200, {"message": "engine is not configured"}, ToolError),
    (400, {"message": "the query 'monthly quota of visas' is not valid"}, ToolError),  # the query's words
    # What found nothing, and says so in many ways.
    (200, SERPAPI_EMPTY, None),
    (200, {"results": [], "unresponsive_engines": []}, None),
    (200, {"code": 90002, "message": "No results found"}, None),
    (404, {"message": "no results"}, None),
    (200, {"code": 200, "msg": "success", "results": None}, None),
    (200, {"code": 1, "message": "ok", "results": []}, None),
    (200, {"_type": "SearchResponse"}, None),
    (200, {"status": "success", "message": "billing is up to date", "results": []}, None),
]


@pytest.mark.parametrize(("status", "body", "kind"), ANSWERS)
async def test_answer_without_results_fails_by_its_kind(
    tmp_path: Path, status: int, body: Any, kind: type[CTSError] | None
) -> None:
    query = "monthly quota of visas"
    if kind is None:
        assert await searched(ENGINE, "m", Recorded(body, status=status), tmp_path, query) == []
        return
    with pytest.raises(CTSError) as caught:
        await searched(ENGINE, "m", Recorded(body, status=status), tmp_path, query)
    assert type(caught.value) is kind


async def test_results_beside_a_remark_are_results(tmp_path: Path) -> None:
    body = {
        "results": [{"url": "https://a.org/"}],
        "unresponsive_engines": SUSPENDED,
        "code": 7,
        "message": "x",
    }
    assert len(await searched(ENGINE, "m", Recorded(body), tmp_path)) == 1
    with pytest.raises(ToolError, match=r"sources failed: brave \(Suspended: too many requests\), google \("):
        await searched(ENGINE, "m", Recorded({**body, "results": [], "code": 0, "message": ""}), tmp_path)


async def test_deep_answer_is_a_failed_search(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ToolError, match="nested deeper than 100 levels"):
        await searched(ENGINE, "m", Recorded({"results": [{"url": deep}]}), tmp_path)
    with pytest.raises(ToolError, match="HTTP 400"):
        await searched(ENGINE, "m", Recorded({"message": deep}, status=400), tmp_path)


# --- What sites show in the place of a page

_SENTENCES = "Ferries leave at nine from the old pier. " * 60
CLOUDFLARE = (
    "Verify you are human by completing the action below.\na.org reviews the security of your connection."
)
NOT_PAGES = [
    ("Just a moment...", "example.org\nVerifying you are human. This may take a few seconds.", "captcha"),
    ("", CLOUDFLARE, "captcha"),
    ("Just a moment...", "Enable JavaScript and cookies to continue", "captcha"),
    ("", "# Our systems have detected unusual traffic from your computer network.", "captcha"),
    (
        "Amazon.com",
        "Enter the characters you see below\nSorry, we just need to make sure you're not a robot.",
        "captcha",
    ),
    ("百度安全验证", "网络不给力，请稍后重试\n问题反馈", "captcha"),
    ("", "当前环境异常，完成验证后即可继续访问。\n去验证", "captcha"),
    (
        "Bloomberg - Are you a robot?",
        "Please click the box below to let us know you're not a robot.",
        "captcha",
    ),
    (
        "Access Denied",
        'You don\'t have permission to access "http://x/" on this server.\nReference #18.2',
        "access denied",
    ),
    ("", "Access Denied\nYou don't have permission to access this page.", "access denied"),
    ("", "Sorry, you have been blocked\nYou are unable to access example.org", "access denied"),
    ("", "Request unsuccessful. Incapsula incident ID: 1234-5678", "access denied"),
    ("Before you continue to Google Search", "Sign in", "cookie wall"),
    ("", "We value your privacy\nWe and our partners store data. Accept all | Manage options", "cookie wall"),
    ("App", "You need to enable JavaScript to run this app.", "needs javascript"),
    ("404 Not Found", "nginx", "not found"),
]
PAGES = [
    ("CAPTCHA - Wikipedia", "A CAPTCHA is a test to tell whether a user is human. " + _SENTENCES),
    ("What is a captcha?", "Sites show captchas to verify you are human. A checkbox is the usual form."),
    (
        "How to fix 'Just a moment...'",
        "If you see 'Checking your browser before accessing', clear the cookies.",
    ),
    ("Just a Moment", "Lyrics of the song. Just a moment, give me just a moment."),
    ("Access Denied (film)", "Access Denied is a film of 1997 about a hacker."),
    ("Cookie policy", "We use cookies to count visits. Your browser can delete them at any time."),
    ("Ferries", "This website uses cookies. Accept all. Reject all.\n" + _SENTENCES),
    (
        "Turn on JavaScript",
        "To enable JavaScript in Firefox, open about:config and search for javascript.enabled.",
    ),
    ("HTTP 404", "The 404 status means that the server found no page at the address that was asked for."),
    ("Ferries", "The ferry leaves at nine."),
]


@pytest.mark.parametrize(("title", "text", "reason"), NOT_PAGES)
def test_wall_in_the_place_of_a_page_is_a_failed_visit(title: str, text: str, reason: str) -> None:
    with pytest.raises(ToolError, match="instead of the page") as caught:
        check_page(title, text, "h.example")
    assert (caught.value.reason, caught.value.host) == (reason, "h.example")


@pytest.mark.parametrize(("title", "text"), PAGES)
def test_page_about_walls_is_a_page(title: str, text: str) -> None:
    check_page(title, text, "h.example")


FIRECRAWL = {"data": {"markdown": "Forbidden", "metadata": {"title": "T", "statusCode": 403}}}
JINA_TEXT = (
    "Title: T\n\nURL Source: https://a.org/\n\nWarning: Target URL returned error 403: Forbidden\n\nText"
)


@pytest.mark.parametrize(
    ("toml", "name", "server", "kind", "reason"),
    [
        (DOCUMENTED, "firecrawl", Recorded(FIRECRAWL), ToolError, "http 403"),
        (
            DOCUMENTED,
            "firecrawl",
            Recorded({"data": {"metadata": {"error": "timed out"}}}),
            ToolError,
            "no text",
        ),
        (DOCUMENTED, "firecrawl", Recorded({"success": False, "error": "no such page"}), ToolError, "failed"),
        (DOCUMENTED, "firecrawl", Recorded({"code": 402, "message": "Top up"}), ProviderRefused, ""),
        (READER_TABLE, "m", Recorded(text=JINA_TEXT), ToolError, "http 403"),
        (READER_TABLE, "m", Recorded(text=CLOUDFLARE), ToolError, "captcha"),
        (READER_TABLE, "m", Recorded({"code": 402, "message": "recharge"}), ProviderRefused, ""),
        (READER_TABLE, "m", Recorded({"code": 404, "message": "no page"}), ToolError, "http 404"),
    ],
)
async def test_reader_that_read_nothing_is_a_failed_visit(
    tmp_path: Path, toml: str, name: str, server: Recorded, kind: type[CTSError], reason: str
) -> None:
    with pytest.raises(kind) as caught:
        await visited(toml, name, server, tmp_path, "https://a.org/")
    assert getattr(caught.value, "reason", "") == reason


# --- Private addresses are not passed on to readers

NAMES = {
    "public.example": ["93.184.216.34", "2606:2800:220:1::1"],
    "private.example": ["10.1.2.3"],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["93.184.216.34", "127.0.0.1"],
    "dns64.example": ["64:ff9b::5db8:d822", "93.184.216.34"],
    "dns64-private.example": ["64:ff9b::7f00:1"],
    "scoped.example": ["fe80::1%2"],
    "xn--bcher-kva.example": ["192.168.1.1"],
}


async def look_up(host: str) -> list[str]:
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]


async def requested(page: str, kind: str = "http", allow: tuple[str, ...] = ()) -> list[str]:
    """What a reader on loopback was asked for, and why it was not asked."""
    found: list[str] = []

    async def reply(request: web.Request) -> web.Response:
        found.append(request.query.get("u") or request.path.removeprefix("/"))
        return (
            web.json_response({"data": {"content": "secret"}})
            if kind == "jina"
            else web.Response(text="secret")
        )

    async with served(reply) as url, aiohttp.ClientSession(connector=ConnectionPool()) as session:
        place = f"{url}/?u={{url}}" if kind == "http" else url
        spec = ReaderSpec(name="m", kind=kind, url=place, account="m", allow=allow)
        try:
            await (HttpReader if kind == "http" else JinaReader)(spec, {}, session, look_up).fetch(page)
        except ToolError as error:
            found.append(error.reason)
    return found


PRIVATE = [
    *("http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:6379/", "http://127.1/"),
    *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0251.0376.0251.0376/"),
    *("http://①②⑦.0.0.1/", "http://[::1]/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/"),
    *("http://0/", "http://localhost:6379/", "http://LOCALHOST./", "http://metadata.google.internal/"),
    *("http://private.example/", "https://metadata.example:8443/", "http://mixed.example/"),
    *("http://dns64-private.example/", "http://scoped.example/", "http://bücher.example/"),
    *("http://public.example@127.0.0.1/", "http://127.0.0.1\\@public.example/"),
    *("http://127.0.0.1%00.public.example/", "http://100.100.100.200/"),
]
PUBLIC = [
    "http://public.example/",
    "http://public.example:8080/a",
    "http://93.184.216.34/",
    "http://dns64.example/",
    "http://resolved-by-the-reader-only.example/",
]


@pytest.mark.parametrize(
    ("kind", "page"),
    [*(("http", page) for page in PRIVATE), ("jina", PRIVATE[0]), ("jina", "http://private.example/")],
)
async def test_reader_is_not_sent_a_private_address(kind: str, page: str) -> None:
    assert await requested(page, kind) == ["refused address"]


@pytest.mark.parametrize("kind", ["http", "jina"])
async def test_reader_is_sent_public_and_unknown_addresses(kind: str) -> None:
    for page in PUBLIC:
        assert await requested(page, kind) == [page]


async def test_allow_list_permits_private_pages() -> None:
    allow = ("private.example", "127.0.0.0/8")
    for page in ("http://private.example:8080/", "http://127.0.0.1:9/", "http://mixed.example/"):
        assert await requested(page, allow=allow) == [page]
    assert await requested("http://metadata.example/", allow=allow) == ["refused address"]


async def test_hanging_name_server_delays_a_visit_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(host: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr("cts_async.search.backends.addresses.LOOKUP_S", 0.05)
    await check_target("http://public.example/", AllowList(), hang)


# --- Templates


@pytest.mark.parametrize(
    ("path", "value"),
    [("", {"a": [{"b": 1}]}), ("a.0.b", 1), ("a", [{"b": 1}]), ("a.1.b", None), ("a.b", None), ("x.y", None)],
)
def test_dotted_path_leads_to_a_value_or_none(path: str, value: Any) -> None:
    assert value_at({"a": [{"b": 1}]}, path) == value


def test_placeholders_are_filled_once_at_any_depth() -> None:
    template = {"q": "{query}!", "n": "{limit}", "deep": [{"k": "{key}", "x": 1, "y": None}], "z": "{other}"}
    values = {"query": "{key}", "limit": "3", "key": "K"}
    expected = {"q": "{key}!", "n": 3, "deep": [{"k": "K", "x": 1, "y": None}], "z": "{other}"}
    assert filled(template, values) == expected


@given(st.text(st.characters(codec="utf-8")))
def test_query_cannot_change_the_structure_of_an_address(query: str) -> None:
    url = filled_url("http://h:1/a/{query}?q={query}&n={limit}", {"query": query, "limit": "3"})
    assert (url.host, url.port, url.raw_path.count("/"), url.raw_fragment) == ("h", 1, 2, "")
    assert url.query["q"] == query
    assert list(url.query) == ["q", "n"]


# --- Serper

SERPER = '[search.serper]\nurl = "http://h/search"\n'
ORGANIC = [
    {
        "title": "Ferries",
        "link": "https://a.org/f",
        "snippet": "They leave at nine.",
        "date": "2 Mar 2024",
        "position": 1,
    },
    {"title": "No link"},
    {"link": "https://b.org/", "source": "B News", "snippet": None},
    "not a result",
]


async def test_serper_returns_organic_results_in_order(tmp_path: Path) -> None:
    server = Recorded({"answerBox": {"answer": "ignored"}, "organic": ORGANIC, "credits": 1})
    assert await searched(SERPER, "serper", server, tmp_path) == [
        Hit("https://a.org/f", "https://a.org/f", "Ferries", "They leave at nine.", 1.0, "2 Mar 2024", ""),
        Hit("https://b.org/", "https://b.org/", "https://b.org/", "", 1 / 3, "", "B News"),
    ]
    assert (server.method, server.path, server.headers["X-API-KEY"]) == ("POST", "/search", KEY)
    assert server.body == {"q": "ferry", "num": 10}
    assert "Authorization" not in server.headers
    (hit,) = await searched(SERPER, "serper", server, tmp_path, limit=1)
    assert (hit.url, server.body["num"]) == ("https://a.org/f", 1)
    for nothing in ({}, {"organic": []}, {"organic": None}, []):
        assert await searched(SERPER, "serper", Recorded(nothing), tmp_path) == []


async def test_serper_params_follow_the_language_of_the_query(tmp_path: Path) -> None:
    toml = SERPER + 'params = { gl = "us" }\nzh_params = { gl = "cn", hl = "zh-cn" }\n'
    server = Recorded({"organic": ORGANIC})
    for query, sent in (("ferry", {"gl": "us"}), ("渡轮几点", {"gl": "cn", "hl": "zh-cn"})):
        await searched(toml, "serper", server, tmp_path, query)
        assert server.body == {"q": query, "num": 10, **sent}


# --- The Jina reader

JINA = ReaderSpec(name="jina", kind="jina", url="", account="jina", key_env="JINA_API_KEY", timeout_s=5.0)


async def read(server: Recorded, url: str = "https://a.org/f", **changes: Any) -> Page:
    async with served(server.reply) as base, aiohttp.ClientSession(connector=ConnectionPool()) as session:
        return await JinaReader(JINA.model_copy(update={"url": base, **changes}), ENVIRON, session).fetch(url)


def page(**data: Any) -> Recorded:
    return Recorded({"code": 200, "status": 20000, "data": data})


async def test_jina_request_and_page() -> None:
    server = page(title="Ferries", content="At nine.", url="https://a.org/f")
    assert await read(server) == Page("https://a.org/f", "https://a.org/f", "Ferries", "At nine.")
    assert server.path == "/https://a.org/f"
    assert (server.headers["Authorization"], server.headers["Accept"]) == (
        f"Bearer {KEY}",
        "application/json",
    )
    await read(server, key_env="")
    assert "Authorization" not in server.headers
    assert (await read(Recorded(text="just text"))).text == "just text"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://a.org/?q=a b&c=d#part", "/https://a.org/?q=a+b&c=d"),
        ("https://zh.example/渡轮", "/https://zh.example/%E6%B8%A1%E8%BD%AE"),
        ("https://a.org/%E6%B8%A1", "/https://a.org/%E6%B8%A1"),
    ],
)
async def test_jina_is_sent_the_whole_address_without_its_fragment(url: str, path: str) -> None:
    server = page(content="x")
    await read(server, url)
    assert server.path == path


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (page(content="Not Found", warning="Target URL returned error 404: Not Found"), "http 404"),
        (page(content=" "), "no text"),
        *(
            (Recorded(json), "no text")
            for json in ([], {"code": 200, "data": None}, {"data": {"title": "T"}})
        ),
        (Recorded(text=""), "no text"),
        (Recorded({"code": 422, "message": "Failed to goto https://a.org/f"}, status=422), "http 422"),
        (Recorded({"code": 404, "message": "no such page", "data": None}), "http 404"),
    ],
)
async def test_unreadable_page_is_reported_with_its_host(server: Recorded, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        await read(server)
    assert (caught.value.reason, caught.value.host) == (reason, "a.org")
