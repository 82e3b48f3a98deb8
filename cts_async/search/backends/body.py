"""The body of a web page: which kinds are read at all, and no more of it than allowed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, Literal

from cts_async.errors import ToolError
from cts_async.llm.http import UnknownEncoding, inflater

PageKind = Literal["html", "xml", "plain"]

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_XML: Final = frozenset({"text/xml", "application/xml"})
_PLAIN: Final = frozenset({"application/json", "application/ld+json", "application/x-ndjson"})
_BINARY: Final = re.compile(rb"%PDF-|PK\x03\x04|\x89PNG|\xff\xd8\xff|GIF8|\x1f\x8b|Rar!|\x7fELF|OggS|ID3")
_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_SNIFFED_BYTES: Final = 1024


def declared_kind(content_type: str) -> PageKind | None:
    """How a body of this content type is read, None if no type is given. ToolError ("not text") if not at all."""
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


def kind_of(content_type: str, data: bytes) -> PageKind:
    """How a body is read, by its type and its first bytes. ToolError ("not text") if it is binary."""
    declared = declared_kind(content_type)
    start = data[:_SNIFFED_BYTES].lstrip()
    if _BINARY.match(start) or (b"\0" in start and not start.startswith(_BOMS)):
        raise ToolError("the page is a PDF or another file that is not text", reason="not text")
    if declared:
        return declared
    return "html" if start.startswith(b"<") else "plain"


def charset_of(content_type: str) -> str:
    """The charset that a content type names, "" if none."""
    found = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.IGNORECASE)
    return found[1].lower() if found else ""


async def read_body(blocks: AsyncIterator[bytes], encoding: str, max_bytes: int) -> bytes:
    """Take and decompress a body. ToolError ("too large") as soon as either is more than `max_bytes`.

    What a block expands to is bounded before it is expanded: a bomb never takes the memory it asks for.
    """
    try:
        inflate = inflater(encoding)
    except UnknownEncoding:
        raise ToolError(
            f"the page is compressed in an unknown way ({encoding.strip()[:40]})", reason="not text"
        ) from None
    received = 0
    body = bytearray()
    async for block in blocks:
        received += len(block)
        try:
            body += inflate.feed(block, max_bytes + 1 - len(body)) if inflate else block
        except ValueError:
            raise ToolError("the page's compression is broken", reason="not text") from None
        if max(received, len(body)) > max_bytes:
            raise too_large(max_bytes)
    return bytes(body)


def too_large(max_bytes: int) -> ToolError:
    """The error for a page of more than `max_bytes`."""
    return ToolError(f"the page has more than {max_bytes:,} bytes", reason="too large")
