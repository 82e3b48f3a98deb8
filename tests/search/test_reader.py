"""The Jina reader: what is sent, and which of its good answers are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_web import served

from cts_async.errors import CTSError, ProviderRefused, RateLimited, ToolError, TransientError
from cts_async.search.backends.base import Page, ReaderSpec
from cts_async.search.backends.services import JinaPage, JinaReader, jina_text

KEY = "jina-key-0123456789"
SPEC = ReaderSpec("jina", "jina", "", "JINA_API_KEY", "JINA_API_KEY", 8, 5.0)
TEXT = """Title: Ferries: a guide

URL Source: https://a.org/f

Published Time: 2024-01-02

Markdown Content:
They leave at nine.

Markdown Content: is a header.
"""


async def read(answer: web.Response, url: str = "https://a.org/f", key: str = KEY, **changes: Any) -> Any:
    """The page, and the request that got it."""
    seen: dict[str, Any] = {}

    async def reply(request: web.Request) -> web.Response:
        seen.update(path=request.raw_path, key=request.headers.get("Authorization"))
        seen.update(accept=request.headers["Accept"])
        return answer

    async with served(reply) as base, aiohttp.ClientSession() as session:
        reader = JinaReader(replace(SPEC, url=base, **changes), key, session)
        return await reader.fetch(url), seen


def page(**data: Any) -> web.Response:
    return web.json_response({"code": 200, "status": 20000, "data": data})


async def test_the_page_s_address_follows_the_reader_s() -> None:
    found, seen = await read(page(title="Ferries", content="At nine.", url="https://a.org/f"))
    assert seen == {"path": "/https://a.org/f", "key": f"Bearer {KEY}", "accept": "application/json"}
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
