"""What each answer of a search or reading service becomes, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_web import Handler, raw, served
from yarl import URL

from cts_async.errors import CTSError, ProviderRefused, RateLimited, TimedOut, ToolError, TransientError
from cts_async.llm.http import ConnectionPool
from cts_async.search.backends.endpoint import (
    READER_REFUSALS,
    SEARCH_REFUSALS,
    Answer,
    Service,
    ask,
    failure_of,
    json_of,
)

KEY = "secret-key-0123456789"
SEARCH = Service("mine", "MY_KEY", KEY, 5.0, SEARCH_REFUSALS)
READER = Service("mine", "MY_KEY", KEY, 5.0, READER_REFUSALS)


def failure(
    status: int, data: bytes = b"", headers: Mapping[str, str] | None = None, service: Service = SEARCH
) -> CTSError | None:
    return failure_of(service, "h.example", status, headers or {}, data, now=0.0)


@pytest.mark.parametrize(
    ("status", "data", "kind"),
    [
        (400, b"", ToolError),
        (400, b'{"message": "Not enough credits", "statusCode": 400}', ProviderRefused),
        (401, b"", ProviderRefused),
        (402, b"", ProviderRefused),
        (403, b"", ProviderRefused),
        (404, b"", ProviderRefused),
        (408, b"", TransientError),
        (409, b"", TransientError),
        (413, b"", ToolError),
        (422, b"", ToolError),
        (425, b"", TransientError),
        (429, b'{"message": "Too many requests"}', RateLimited),
        (429, b'{"message": "Monthly quota exceeded"}', ProviderRefused),
        (429, b'{"error": {"message": "insufficient balance"}}', ProviderRefused),
        (500, b"", TransientError),
        (502, b"<html>Bad gateway</html>", TransientError),
        (503, b"", TransientError),
        (529, b"", TransientError),
        (302, b"", ProviderRefused),
    ],
)
def test_each_status_of_a_search_engine_means_one_thing(
    status: int, data: bytes, kind: type[CTSError]
) -> None:
    assert type(failure(status, data)) is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ToolError),
        (401, ProviderRefused),
        (402, ProviderRefused),
        (403, ToolError),
        (404, ToolError),
        (422, ToolError),
        (429, RateLimited),
        (451, ToolError),
        (500, TransientError),
    ],
)
def test_a_reader_s_4xx_is_mostly_about_the_page(status: int, kind: type[CTSError]) -> None:
    error = failure(status, service=READER)
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
def test_how_long_to_wait_is_taken_from_the_headers(
    status: int, headers: dict[str, str], wait_s: float | None
) -> None:
    error = failure(status, headers=headers)
    assert isinstance(error, TransientError)
    assert (error.retry_after_s, error.status) == (wait_s, status)


@pytest.mark.parametrize(
    ("data", "said"),
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
def test_what_a_service_says_is_told_in_one_line_without_the_key(data: bytes, said: str) -> None:
    assert str(failure(400, data)) == said


def test_a_long_message_is_cut() -> None:
    assert len(str(failure(400, b"word " * 1000))) < 250


def test_an_error_under_http_200_is_one() -> None:
    for data in (b'{"error": "no such engine"}', b'{"error": {"message": "no such engine"}, "results": []}'):
        with pytest.raises(ToolError, match="no such engine") as caught:
            json_of(Answer({}, data), SEARCH, "h.example")
        assert caught.value.reason == "failed"
    with pytest.raises(ProviderRefused, match=r"out of credits \(key: MY_KEY\)"):
        json_of(Answer({}, b'{"error": "out of credits"}'), SEARCH, "h.example")
    assert json_of(Answer({}, b'{"error": null, "results": []}'), SEARCH, "h.example")["results"] == []


@pytest.mark.parametrize("word", ["credits", "billing", "payment", "balance"])
def test_no_page_s_address_says_that_a_bill_is_due(word: str) -> None:
    for data in (
        f'{{"message": "Failed to goto https://a.example/{word}: net::ERR_ABORTED"}}'.encode(),
        f'{{"message": "Domain \'{word}.example\' could not be resolved"}}'.encode(),
    ):
        assert type(failure(400, data, service=READER)) is ToolError
    with pytest.raises(ToolError):
        json_of(Answer({}, f'{{"error": "the page asks for {word}"}}'.encode()), READER, "h.example")
    assert type(failure(403, f'{{"message": "no {word}."}}'.encode(), service=READER)) is ProviderRefused


def test_json_that_was_cut_within_an_emoji_is_read() -> None:
    assert json_of(Answer({}, b'{"text": "cut \\ud83d"}'), SEARCH, "") == {"text": "cut ?"}


def test_json_in_the_charset_of_its_header_is_read() -> None:
    answer = Answer({"Content-Type": "application/json; charset=gbk"}, '{"text": "渡轮"}'.encode("gbk"))
    assert json_of(answer, SEARCH, "") == {"text": "渡轮"}


def test_json_without_a_bottom_is_none() -> None:
    with pytest.raises(TransientError, match="not JSON"):
        json_of(Answer({}, b"[" * 100_000), SEARCH, "")


def test_a_broken_body_may_pass() -> None:
    with pytest.raises(TransientError, match="not JSON"):
        json_of(Answer({}, b'{"organic": ['), SEARCH, "h.example")


def test_an_answer_s_text_is_read_by_its_charset() -> None:
    def text(content_type: str, data: bytes) -> str:
        return Answer({"Content-Type": content_type}, data).text

    assert text("text/plain; charset=gb18030", "渡轮".encode("gb18030")) == "渡轮"
    assert text("text/plain", "渡轮".encode()) == "渡轮"
    assert text("text/plain; charset=nonsense", b"a\xff") == "a\ufffd"


@pytest.mark.parametrize("codec", ["idna", "undefined", "punycode", "unicode_escape", "zlib", "utf-7"])
def test_a_codec_that_is_no_charset_gives_text_that_can_be_written_down(codec: str) -> None:
    answer = Answer({"Content-Type": f"text/plain; charset={codec}"}, b"a\xc3\xa9 \\ud800 +2AA- b")
    assert answer.text.encode().startswith(b"a")


# --- Over HTTP ------------------------------------------------------------------------------------------


async def asked(url: str, service: Service = SEARCH, body: Any = None) -> Answer:
    async with aiohttp.ClientSession() as session:
        return await ask(service, session, "POST", URL(f"{url}/s"), {"X-API-KEY": service.key}, body)


async def failing(handler: Handler, **changes: Any) -> CTSError:
    service = Service(**{**_fields(SEARCH), **changes})
    async with served(handler) as url:
        with pytest.raises(CTSError) as caught:
            await asked(url, service)
    assert KEY not in str(caught.value)
    return caught.value


def _fields(service: Service) -> dict[str, Any]:
    return {name: getattr(service, name) for name in service.__slots__}


async def test_a_request_carries_its_headers_and_its_json() -> None:
    sent: list[Mapping[str, str]] = []

    async def echo(request: web.Request) -> web.Response:
        sent.append(request.headers)
        return web.json_response({"body": await request.json()})

    async with served(echo) as url:
        data = json_of(await asked(url, body={"q": "渡轮"}), SEARCH, "")
    assert data == {"body": {"q": "渡轮"}}
    assert (sent[0]["X-API-KEY"], sent[0]["Content-Type"]) == (KEY, "application/json")
    assert sent[0]["User-Agent"].startswith("cts-async/")


async def test_a_key_that_is_sent_back_is_left_out_of_results_and_errors() -> None:
    service = Service("mine", "MY_KEY", "base64/key+0123==", 5.0, SEARCH_REFUSALS)
    said = f"{service.key} base64%2Fkey%2B0123%3D%3D"

    async def echo(request: web.Request) -> web.Response:
        status = 400 if await request.json() else 200
        return web.json_response({"message": said}, status=status)

    async with served(echo) as url:
        assert json_of(await asked(url, service, body=[]), service, "") == {"message": "(key) (key)"}
        with pytest.raises(ToolError, match=r"HTTP 400: \(key\) \(key\)$"):
            await asked(url, service, body=[1])


async def test_no_answer_in_time_may_pass() -> None:
    async def hang(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    error = await failing(hang, timeout_s=0.2)
    assert isinstance(error, TimedOut)
    assert "no whole answer within 0.2 s" in str(error)
    assert not error.unsent


async def test_a_drip_is_no_answer_in_time_either() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    assert isinstance(await failing(drip, timeout_s=0.3), TimedOut)


async def test_a_dropped_connection_may_pass() -> None:
    async with raw(b"") as url:
        with pytest.raises(TransientError, match="connection was lost") as caught:
            await asked(url)
    assert not caught.value.unsent


async def test_an_answer_that_breaks_off_may_pass() -> None:
    async with raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}") as url:
        with pytest.raises(TransientError, match="broke off") as caught:
            await asked(url)
    assert caught.value.status == 200  # there is a server: no outage


@pytest.mark.parametrize("encoding", ["br", "zstd"])
async def test_a_compression_that_was_not_asked_for_is_a_failure_of_that_call(encoding: str) -> None:
    async def packed(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip, deflate"
        return web.Response(body=b"no such thing", headers={"Content-Encoding": encoding})

    error = await failing(packed)
    assert isinstance(error, ToolError)
    assert f"compressed as '{encoding}'" in str(error)


async def test_a_search_is_sent_again_where_the_server_had_closed_the_connection() -> None:
    seen: list[bytes] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n{}"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read(1)
        writer.close()

    async with (
        await asyncio.start_server(once, "127.0.0.1", 0) as server,
        aiohttp.ClientSession(connector=ConnectionPool()) as session,
    ):
        url = URL("http://{}:{}/s".format(*server.sockets[0].getsockname()))
        for _ in range(3):
            assert (await ask(SEARCH, session, "POST", url, {}, {})).text == "{}"
    assert len(seen) == 3


async def test_what_is_no_http_may_pass() -> None:
    async with raw(b"SSH-2.0-OpenSSH\r\n\r\n") as url:
        with pytest.raises(TransientError, match="no valid HTTP answer"):
            await asked(url)


async def test_a_refused_connection_may_pass_and_was_not_sent() -> None:
    with pytest.raises(TransientError, match="no connection") as caught:
        await asked("http://127.0.0.1:9")
    assert caught.value.unsent


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    seen: list[str] = []

    async def move(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    assert isinstance(await failing(move), ProviderRefused)
    assert seen == ["/s"]


async def test_an_answer_without_end_is_not_taken() -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(bytes(10_000))
        return response

    error = await failing(flood, max_bytes=50_000)
    assert isinstance(error, ToolError)
    assert error.reason == "too large"
