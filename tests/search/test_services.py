"""Serper, the Jina reader, and services described by a table."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_web import served
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import CTSError, ProviderRefused, RateLimited, ToolError, TransientError
from cts_async.search.backends import services
from cts_async.search.backends.addresses import AllowList, check_target
from cts_async.search.backends.base import EngineSpec, Hit, Page, ReaderSpec
from cts_async.search.backends.services import (
    HttpReader,
    JinaPage,
    JinaReader,
    Serper,
    filled,
    filled_url,
    jina_text,
    serper_hits,
    value_at,
)
from cts_async.search.catalog import load_search, open_engine, open_reader

KEY = "http-key-0123456789"
ENVIRON = {"BRAVE_API_KEY": KEY, "TAVILY_API_KEY": KEY, "FIRECRAWL_API_KEY": KEY, "MY_KEY": KEY}


def documented() -> str:
    """The example tables of the module's own docstring."""
    lines = (services.__doc__ or "").splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))


class Recorded:
    """A server that gives one answer and remembers what it was asked."""

    def __init__(self, answer: Any, *, text: str | None = None, status: int = 200) -> None:
        self.answer, self.text, self.status = answer, text, status
        self.method, self.path, self.headers, self.body = "", "", {}, None

    async def reply(self, request: web.Request) -> web.Response:
        self.method, self.path, self.headers = request.method, request.raw_path, dict(request.headers)
        self.body = await request.json() if request.can_read_body else None
        if self.text is not None:
            return web.Response(text=self.text, status=self.status)
        return web.json_response(self.answer, status=self.status)


async def searched(
    toml: str, name: str, server: Recorded, tmp_path: Path, query: str, limit: int = 10
) -> list[Hit]:
    """Search with the engine `name` of `toml`, whose addresses are all the fake server's."""
    async with served(server.reply) as url, aiohttp.ClientSession() as session:
        spec = load_search(moved(toml, url, tmp_path)).engine(name)
        return await open_engine(spec, ENVIRON, session).search(query, limit)


async def visited(toml: str, name: str, server: Recorded, tmp_path: Path, page: str) -> Page:
    async with served(server.reply) as url, aiohttp.ClientSession() as session:
        spec = load_search(moved(toml, url, tmp_path)).reader(name)
        return await open_reader(spec, ENVIRON, session).fetch(page)


def moved(toml: str, url: str, folder: Path) -> Path:
    for host in (
        "http://127.0.0.1:8888",
        "https://api.search.brave.com",
        "https://api.tavily.com",
        "http://h",
    ):
        toml = toml.replace(f'"{host}/', f'"{url}/')
    toml = toml.replace('"https://api.firecrawl.dev/', f'"{url}/')
    path = folder / "cts.toml"
    path.write_text(toml, encoding="utf-8")
    return path


async def test_searxng_as_documented(tmp_path: Path) -> None:
    found = {"title": "Ferries", "url": "https://a.org/", "content": "At nine.", "engine": "bing"}
    server = Recorded({"query": "x", "results": [{**found, "publishedDate": "2024-01-02"}]})
    hits = await searched(documented(), "searx", server, tmp_path, "a&b=c #渡轮")
    assert server.path == "/search?q=a%26b%3Dc%20%23%E6%B8%A1%E8%BD%AE&format=json"
    assert (server.method, server.body) == ("GET", None)
    assert hits == [Hit("https://a.org/", "https://a.org/", "Ferries", "At nine.", 1.0, "2024-01-02", "bing")]


async def test_brave_as_documented(tmp_path: Path) -> None:
    row = {"title": "T", "url": "https://a.org/", "description": "S", "profile": {"name": "A"}}
    server = Recorded({"web": {"results": [row]}})
    (hit,) = await searched(documented(), "brave", server, tmp_path, "ferry", limit=3)
    assert server.path == "/res/v1/web/search?q=ferry&count=3"
    assert server.headers["X-Subscription-Token"] == KEY
    assert "Authorization" not in server.headers
    assert (hit.snippet, hit.source, hit.date) == ("S", "A", "")


async def test_tavily_as_documented(tmp_path: Path) -> None:
    server = Recorded({"results": [{"title": "T", "url": "https://a.org/", "content": "S"}]})
    (hit,) = await searched(documented(), "tavily", server, tmp_path, "{limit} ferries", limit=3)
    assert server.method == "POST"
    assert server.body == {"query": "{limit} ferries", "max_results": 3}
    assert server.headers["Authorization"] == f"Bearer {KEY}"
    assert hit.snippet == "S"


async def test_bing_s_kind_of_answer_with_the_key_in_the_address(tmp_path: Path) -> None:
    toml = """
    [search.bing]
    url = "http://h/v7.0/search?q={query}&key={key}"
    key_env = "MY_KEY"
    headers = { X-Lang = "de" }
    results = "webPages.value"
    fields = { title = "name", date = "datePublished" }
    """
    server = Recorded({"webPages": {"value": [{"name": "T", "url": "https://a.org/", "snippet": "S"}]}})
    (hit,) = await searched(toml, "bing", server, tmp_path, "ferry")
    assert server.path == f"/v7.0/search?q=ferry&key={KEY}"
    assert server.headers["X-Lang"] == "de"
    assert (hit.title, hit.snippet) == ("T", "S")
    assert await searched(toml, "bing", Recorded({"_type": "SearchResponse"}), tmp_path, "ferry") == []


ENGINE = '[search.m]\nurl = "http://h/?q={query}"\n'


async def test_an_answer_may_be_the_list_itself(tmp_path: Path) -> None:
    server = Recorded([{"url": "https://a.org/"}, {"url": "https://b.org/", "title": 7}, {"title": "no url"}])
    hits = await searched(ENGINE + 'results = ""', "m", server, tmp_path, "x", limit=2)
    assert [(hit.url, hit.title, hit.score) for hit in hits] == [
        ("https://a.org/", "https://a.org/", 1.0),
        ("https://b.org/", "7", 0.5),
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"results": {"a": 1}}, "'results' is not a list: correct results in cts.toml"),
        ({"results": [{"link": "https://a.org/"}]}, "no result has a 'url': correct fields.url in cts.toml"),
    ],
)
async def test_a_table_that_does_not_fit_the_answer_stops_the_run(
    tmp_path: Path, answer: Any, said: str
) -> None:
    with pytest.raises(ProviderRefused, match=said):
        await searched(ENGINE, "m", Recorded(answer), tmp_path, "x")


async def test_an_error_says_what_the_service_said_and_not_the_key(tmp_path: Path) -> None:
    toml = '[search.m]\nurl = "http://h/?q={query}&key={key}"\nkey_env = "MY_KEY"\n'
    server = Recorded({"detail": f"bad request: /?q=x&key={KEY}"}, status=422)
    with pytest.raises(ToolError, match=r"m: HTTP 422: bad request: /\?q=x&key=\(key\)"):
        await searched(toml, "m", server, tmp_path, "x")
    with pytest.raises(TransientError, match="not JSON"):
        await searched(toml, "m", Recorded(None, text="<html>"), tmp_path, "x")


async def test_a_reader_as_documented(tmp_path: Path) -> None:
    server = Recorded({"data": {"markdown": "# Ferries\nAt nine.", "metadata": {"title": "Ferries"}}})
    page = await visited(documented(), "firecrawl", server, tmp_path, "https://a.org/x?y=1")
    assert server.body == {"url": "https://a.org/x?y=1", "formats": ["markdown"]}
    assert page == Page("https://a.org/x?y=1", "https://a.org/x?y=1", "Ferries", "# Ferries\nAt nine.")


READER = '[visit.m]\nurl = "http://h/read?u={url}"\nmax_chars = 12\n'


async def test_a_reader_may_answer_with_the_text_itself(tmp_path: Path) -> None:
    server = Recorded(None, text="At nine. And at ten, too.")
    page = await visited(READER, "m", server, tmp_path, "https://a.org/?a=b&c=d#e")
    assert server.path == "/read?u=https%3A%2F%2Fa.org%2F%3Fa%3Db%26c%3Dd"
    assert page.text == "At nine. And\n\n[Cut here: the page has 25 characters.]"


@pytest.mark.parametrize(
    ("server", "page", "reason"),
    [
        (Recorded(None, text=" \n"), "https://a.org/", "no text"),
        (Recorded(None, text="gone", status=404), "https://a.org/", "http 404"),
        (Recorded(None, text="x"), "file:///etc/passwd", "refused address"),
        (Recorded(None, text="x"), "https://", "refused address"),
        (Recorded(None, text="x"), "http://[", "refused address"),
    ],
)
async def test_a_page_that_cannot_be_had_is_told(
    tmp_path: Path, server: Recorded, page: str, reason: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await visited(READER, "m", server, tmp_path, page)
    assert caught.value.reason == reason
    assert caught.value.host == ("a.org" if page == "https://a.org/" else "")


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


async def targeted(page: str, kind: str = "http", allow: tuple[str, ...] = ()) -> list[str]:
    """What a reader on loopback was asked for, and why it was not asked."""
    asked: list[str] = []

    async def reply(request: web.Request) -> web.Response:
        asked.append(request.query.get("u") or request.path.removeprefix("/"))
        return (
            web.json_response({"data": {"content": "secret"}})
            if kind == "jina"
            else web.Response(text="secret")
        )

    async with served(reply) as url, aiohttp.ClientSession() as session:
        place = f"{url}/?u={{url}}" if kind == "http" else url
        spec = ReaderSpec("m", kind, place, None, "m", 8, 5.0, allow=allow)
        reader = (HttpReader if kind == "http" else JinaReader)(spec, "", session, look_up)
        try:
            await reader.fetch(page)
        except ToolError as error:
            asked.append(error.reason)
    return asked


@pytest.mark.parametrize("kind", ["http", "jina"])
@pytest.mark.parametrize(
    "page",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:6379/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0251.0376.0251.0376/",
        "http://①②⑦.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://0/",
        "http://localhost:6379/",
        "http://LOCALHOST./",
        "http://metadata.google.internal/",
        "http://private.example/",
        "https://metadata.example:8443/",
        "http://mixed.example/",
        "http://dns64-private.example/",
        "http://scoped.example/",
        "http://bücher.example/",
        "http://public.example@127.0.0.1/",
        "http://127.0.0.1\\@public.example/",
        "http://127.0.0.1%00.public.example/",
        "http://100.100.100.200/",
    ],
)
async def test_a_reader_is_not_asked_for_a_private_address(page: str, kind: str) -> None:
    assert await targeted(page, kind) == ["refused address"]


@pytest.mark.parametrize("kind", ["http", "jina"])
@pytest.mark.parametrize(
    "page",
    [
        "http://public.example/",
        "http://public.example:8080/a",
        "http://93.184.216.34/",
        "http://dns64.example/",
        "http://resolved-by-the-reader-only.example/",
    ],
)
async def test_a_reader_is_asked_for_what_is_public_or_unknown_here(page: str, kind: str) -> None:
    assert await targeted(page, kind) == [page]


async def test_a_table_may_allow_private_pages() -> None:
    allow = ("private.example", "127.0.0.0/8")
    for page in ("http://private.example:8080/", "http://127.0.0.1:9/", "http://mixed.example/"):
        assert await targeted(page, allow=allow) == [page]
    assert await targeted("http://metadata.example/", allow=allow) == ["refused address"]


async def test_a_name_server_that_hangs_holds_a_visit_up_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang(host: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr("cts_async.search.backends.addresses.LOOKUP_S", 0.05)
    await check_target("http://public.example/", AllowList(), hang)


@pytest.mark.parametrize(
    ("path", "value"),
    [("", {"a": [{"b": 1}]}), ("a.0.b", 1), ("a", [{"b": 1}]), ("a.1.b", None), ("a.b", None), ("x.y", None)],
)
def test_a_dotted_path_leads_to_a_value_or_nowhere(path: str, value: Any) -> None:
    assert value_at({"a": [{"b": 1}]}, path) == value


def test_places_are_filled_at_any_depth_once() -> None:
    template = {"q": "{query}!", "n": "{limit}", "deep": [{"k": "{key}", "x": 1, "y": None}], "z": "{other}"}
    values = {"query": "{key}", "limit": "3", "key": "K"}
    assert filled(template, values) == {
        "q": "{key}!",
        "n": 3,
        "deep": [{"k": "K", "x": 1, "y": None}],
        "z": "{other}",
    }


@given(st.text(st.characters(codec="utf-8")))
def test_no_query_changes_the_address_it_is_put_into(query: str) -> None:
    url = filled_url("http://h:1/a/{query}?q={query}&n={limit}", {"query": query, "limit": "3"})
    assert (url.host, url.port, url.raw_path.count("/"), url.raw_fragment) == ("h", 1, 2, "")
    assert url.query["q"] == query
    assert list(url.query) == ["q", "n"]


SERPER_KEY = "serper-key-0123456789"
SPEC = EngineSpec("serper", "serper", "", "SERPER_API_KEY", "SERPER_API_KEY", 8, 5.0, engine="Google")
ANSWER = {
    "searchParameters": {"q": "ferry", "type": "search"},
    "answerBox": {"answer": "ignored"},
    "organic": [
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
    ],
    "credits": 1,
}


async def serper_searched(answer: web.Response, query: str = "ferry", limit: int = 10, **changes: Any) -> Any:
    """The hits, and the request that got them."""
    seen: dict[str, Any] = {}

    async def reply(request: web.Request) -> web.Response:
        seen.update(method=request.method, path=request.path, key=request.headers["X-API-KEY"])
        seen.update(body=await request.json())
        return answer

    async with served(reply) as url, aiohttp.ClientSession() as session:
        engine = Serper(replace(SPEC, url=f"{url}/search", **changes), SERPER_KEY, session)
        assert (engine.name, engine.engine) == ("serper", "Google")
        return await engine.search(query, limit), seen


async def test_the_request_is_webdancer_s_with_a_number_of_results() -> None:
    _, seen = await serper_searched(web.json_response(ANSWER))
    assert seen == {"method": "POST", "path": "/search", "key": SERPER_KEY, "body": {"q": "ferry", "num": 10}}


async def test_organic_results_are_taken_in_order() -> None:
    hits, _ = await serper_searched(web.json_response(ANSWER))
    assert hits == [
        Hit("https://a.org/f", "https://a.org/f", "Ferries", "They leave at nine.", 1.0, "2 Mar 2024", ""),
        Hit("https://b.org/", "https://b.org/", "https://b.org/", "", 1 / 3, "", "B News"),
    ]


async def test_no_more_results_than_asked_for() -> None:
    hits, seen = await serper_searched(web.json_response(ANSWER), limit=1)
    assert [hit.url for hit in hits] == ["https://a.org/f"]
    assert seen["body"]["num"] == 1


@pytest.mark.parametrize(
    ("query", "sent"), [("ferry", {"gl": "us"}), ("渡轮几点", {"gl": "cn", "hl": "zh-cn"})]
)
async def test_country_and_language_may_depend_on_the_query_s(query: str, sent: dict[str, str]) -> None:
    params = {"params": {"gl": "us"}, "zh_params": {"gl": "cn", "hl": "zh-cn"}}
    _, seen = await serper_searched(web.json_response(ANSWER), query, **params)
    assert seen["body"] == {"q": query, "num": 10, **sent}


@pytest.mark.parametrize("answer", [{}, {"organic": []}, {"organic": None}, [], {"organic": [{}]}])
def test_nothing_found_is_an_empty_list(answer: Any) -> None:
    assert serper_hits(answer) == []


async def test_a_key_that_is_refused_stops_the_search_and_names_its_variable() -> None:
    denied = web.json_response({"message": f"Unauthorized. {SERPER_KEY}", "statusCode": 403}, status=403)
    with pytest.raises(
        ProviderRefused, match=r"serper: HTTP 403: Unauthorized. \(key\) \(key: SERPER_API_KEY\)"
    ):
        await serper_searched(denied)


async def test_spent_credits_stop_the_search() -> None:
    spent = web.json_response({"message": "Not enough credits", "statusCode": 400}, status=400)
    with pytest.raises(ProviderRefused, match="Not enough credits"):
        await serper_searched(spent)


async def test_a_query_that_cannot_be_searched_is_the_agent_s_to_change() -> None:
    bad = web.json_response({"message": "Query too long", "statusCode": 400}, status=400)
    with pytest.raises(ToolError, match="Query too long") as caught:
        await serper_searched(bad)
    assert (caught.value.reason, caught.value.host) == ("http 400", "127.0.0.1")


async def test_too_fast_means_slower() -> None:
    fast = web.json_response({"message": "Too many requests"}, status=429, headers={"Retry-After": "2"})
    with pytest.raises(RateLimited) as caught:
        await serper_searched(fast)
    assert caught.value.retry_after_s == 2.0


READER_KEY = "jina-key-0123456789"
READER_SPEC = ReaderSpec("jina", "jina", "", "JINA_API_KEY", "JINA_API_KEY", 8, 5.0)
TEXT = """Title: Ferries: a guide

URL Source: https://a.org/f

Published Time: 2024-01-02

Markdown Content:
They leave at nine.

Markdown Content: is a header.
"""


async def read(
    answer: web.Response, url: str = "https://a.org/f", key: str = READER_KEY, **changes: Any
) -> Any:
    """The page, and the request that got it."""
    seen: dict[str, Any] = {}

    async def reply(request: web.Request) -> web.Response:
        seen.update(path=request.raw_path, key=request.headers.get("Authorization"))
        seen.update(accept=request.headers["Accept"])
        return answer

    async with served(reply) as base, aiohttp.ClientSession() as session:
        reader = JinaReader(replace(READER_SPEC, url=base, **changes), key, session)
        return await reader.fetch(url), seen


def page(**data: Any) -> web.Response:
    return web.json_response({"code": 200, "status": 20000, "data": data})


async def test_the_page_s_address_follows_the_reader_s() -> None:
    found, seen = await read(page(title="Ferries", content="At nine.", url="https://a.org/f"))
    assert seen == {"path": "/https://a.org/f", "key": f"Bearer {READER_KEY}", "accept": "application/json"}
    assert found == Page("https://a.org/f", "https://a.org/f", "Ferries", "At nine.")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://a.org/?q=a b&c=d#part", "/https://a.org/?q=a+b&c=d"),
        ("https://zh.example/渡轮", "/https://zh.example/%E6%B8%A1%E8%BD%AE"),
        ("https://a.org/%E6%B8%A1", "/https://a.org/%E6%B8%A1"),
    ],
)
async def test_an_address_is_sent_whole_but_for_its_fragment(url: str, path: str) -> None:
    _, seen = await read(page(content="x"), url)
    assert seen["path"] == path


async def test_without_a_key_none_is_sent() -> None:
    _, seen = await read(page(content="x"), key="")
    assert seen["key"] is None


async def test_the_text_format_is_understood_as_well() -> None:
    found, _ = await read(web.Response(text=TEXT))
    assert (found.title, found.text) == (
        "Ferries: a guide",
        "They leave at nine.\n\nMarkdown Content: is a header.",
    )


async def test_a_long_page_is_cut_and_says_so() -> None:
    found, _ = await read(page(content="word " * 10), max_chars=9)
    assert found.text == "word word\n\n[Cut here: the page has 49 characters.]"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page(content="Not Found", warning="Target URL returned error 404: Not Found"), "http 404"),
        (
            web.Response(text="Title: x\n\nWarning: Target URL returned error 403\n\nMarkdown Content:\nno"),
            "http 403",
        ),
        (page(content=" "), "no text"),
        (page(), "no text"),
        (web.json_response({"code": 200, "data": None}), "no text"),
        (web.Response(text=""), "no text"),
        (
            web.json_response({"code": 422, "message": "Failed to goto https://a.org/f"}, status=422),
            "http 422",
        ),
        (web.json_response({"code": 451, "message": "domain is blocked"}, status=451), "http 451"),
        (web.json_response({"code": 404, "message": "no such page", "data": None}), "http 404"),
    ],
)
async def test_a_page_that_cannot_be_had_is_told_with_its_host(answer: web.Response, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        await read(answer)
    assert (caught.value.reason, caught.value.host) == (reason, "a.org")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, ProviderRefused),
        (402, ProviderRefused),
        (429, RateLimited),
        (503, TransientError),
        (524, TransientError),
    ],
)
async def test_trouble_of_the_reader_s_own_is_not_the_page_s(status: int, kind: type[CTSError]) -> None:
    with pytest.raises(kind):
        await read(web.json_response({"message": "no"}, status=status))


async def test_only_web_pages_are_sent_to_the_reader() -> None:
    with pytest.raises(ToolError, match="only http and https") as caught:
        await read(page(content="x"), "file:///etc/passwd")
    assert caught.value.reason == "refused address"


@pytest.mark.parametrize("answer", [[], {"data": []}, {"data": {"title": "T"}}])
async def test_json_without_content_is_a_page_without_text(answer: object) -> None:
    with pytest.raises(ToolError, match="no readable text"):
        await read(web.json_response(answer))


def test_text_format_is_parsed_leniently() -> None:
    assert jina_text("just text") == JinaPage("", "just text")
    assert jina_text("Title:\nMarkdown Content:\nC") == JinaPage("", "C")
