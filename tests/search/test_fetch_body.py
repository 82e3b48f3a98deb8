"""The body of a page: no more of it than allowed, however it is wrapped, and only text."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import ToolError
from cts_async.search.backends.fetch import charset_of, declared_kind, kind_of, read_body

TEXT = b"The ferry leaves at nine. " * 100


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


async def blocks_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def taken(data: bytes, encoding: str = "", max_bytes: int = 100_000, size: int = 7) -> bytes:
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
        "plain",
        "identity",
        "gzip",
        "X-GZIP",
        "deflate",
        "raw deflate",
        "gzip in two parts",
        "gzip with a tail",
    ],
)
@pytest.mark.parametrize("size", [64, 100_000])
async def test_a_body_comes_as_it_was_written(encoding: str, data: bytes, size: int) -> None:
    assert await taken(data, encoding, size=size) == TEXT


@pytest.mark.parametrize(("max_bytes", "fits"), [(len(TEXT), True), (len(TEXT) - 1, False)])
@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_the_limit_is_on_what_a_body_expands_to(encoding: str, max_bytes: int, fits: bool) -> None:
    data = gzip.compress(TEXT) if encoding else TEXT
    if fits:
        assert await taken(data, encoding, max_bytes) == TEXT
        return
    with pytest.raises(ToolError) as caught:
        await taken(data, encoding, max_bytes)
    assert caught.value.reason == "too large"


async def test_the_limit_is_on_what_comes_over_the_wire_too() -> None:
    empty = gzip.compress(b"") * 10_000
    with pytest.raises(ToolError, match="more than 100,000 bytes"):
        await taken(empty, "gzip", 100_000, size=65_536)


async def test_a_bomb_never_takes_the_memory_that_it_asks_for() -> None:
    """200 MB of zeros in 200 kB: a thousandth of it is expanded, and no more."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(200)) + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(ToolError) as caught:
            await taken(bomb, "gzip", 200_000, size=len(bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "too large"
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("encoding", "data"),
    [("br", b"x"), ("gzip, gzip", b"x"), ("gzip", b"not compressed"), ("deflate", b"\xff" * 50)],
)
async def test_a_body_that_cannot_be_unwrapped_is_no_text(encoding: str, data: bytes) -> None:
    with pytest.raises(ToolError) as caught:
        await taken(data, encoding, size=1000)
    assert caught.value.reason == "not text"


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("text/html; charset=utf-8", "html"),
        ("TEXT/HTML", "html"),
        ("application/xhtml+xml", "html"),
        ("application/xml", "xml"),
        ("application/rss+xml", "xml"),
        ("text/plain", "plain"),
        ("text/markdown", "plain"),
        ("application/json", "plain"),
        ("application/ld+json", "plain"),
        ("application/octet-stream", None),
        ("", None),
    ],
)
def test_a_content_type_says_how_a_page_is_read(content_type: str, kind: str | None) -> None:
    assert declared_kind(content_type) == kind


@pytest.mark.parametrize(
    "content_type", ["application/pdf", "image/png", "video/mp4", "application/zip", "x"]
)
def test_a_page_of_another_type_is_not_read(content_type: str) -> None:
    with pytest.raises(ToolError, match=f"is {content_type}, not text") as caught:
        declared_kind(content_type)
    assert caught.value.reason == "not text"


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\n <!doctype html>", "html"), (b"<html>", "html"), (b"plain", "plain"), (b"", "plain")],
)
def test_without_a_type_the_first_bytes_say_it(data: bytes, kind: str) -> None:
    assert kind_of("", data) == kind


@pytest.mark.parametrize(
    "data", [b"%PDF-1.7", b"\x89PNG\r\n", b"PK\x03\x04", b"MZ\x90\x00\x03\x00", b"\x1f\x8b\x08"]
)
@pytest.mark.parametrize("content_type", ["text/html", ""])
def test_a_file_that_calls_itself_a_page_is_no_text(content_type: str, data: bytes) -> None:
    with pytest.raises(ToolError) as caught:
        kind_of(content_type, data)
    assert caught.value.reason == "not text"


def test_zeros_are_text_in_utf_16() -> None:
    assert kind_of("text/html", "\ufeff<p>x".encode("utf-16-le")) == "html"


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/html; charset=GBK", "gbk"),
        ('text/html; charset="utf-8"', "utf-8"),
        ("text/html;Charset = big5; x=y", "big5"),
        ("text/html", ""),
    ],
)
def test_the_charset_is_taken_from_the_content_type(content_type: str, charset: str) -> None:
    assert charset_of(content_type) == charset


@given(st.binary(max_size=300), st.sampled_from(["", "gzip", "deflate"]), st.integers(1, 200))
def test_any_bytes_are_a_body_within_the_limit_or_a_plain_refusal(
    data: bytes, encoding: str, max_bytes: int
) -> None:
    import asyncio

    try:
        body = asyncio.run(taken(data, encoding, max_bytes))
    except ToolError:
        return
    assert len(body) <= max_bytes
