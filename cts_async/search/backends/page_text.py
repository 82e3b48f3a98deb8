"""A program that extracts the readable text of pages; it may hang, grow or crash without harm to its parent.

It imports nothing of this package. It reads requests from standard input, each a line of JSON
`{"bytes": n, "kind": "html" | "xml" | "plain", "charset": "", "max_chars": n}` followed by the page's n bytes, and
writes a line of JSON for each: `{"title": "", "text": "", "chars": n}`, where `chars` is the full length, or `{}`.

charset_normalizer, which trafilatura's `detect_encoding` calls, is asked only where nothing is declared: it knows no
header, took a page with `<meta charset=shift_jis>` for GB18030, and ten times as long.
"""

from __future__ import annotations

import codecs
import json
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, Final

_MEMORY_BYTES: Final = 2 << 30
_META_BYTES: Final = 4096
_META = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,400}?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDER: Final = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""The charset that a label means in practice (WHATWG's encoding standard)."""
_CHARSETS: Final = re.compile(
    r"utf-8|ascii|gb2312|gbk|gb18030|hz|big5|big5hkscs|euc_jp|euc_kr|shift_jis|iso2022_jp"
    r"|cp\d+|iso8859-\d+|koi8-[rut]|mac-\w+|tis-620"
)
"""Charsets of pages. Python also has codecs that are no charsets, with which a page could do harm."""
_SERVER_DEFAULT: Final = "cp1252"
"""Many servers declare this by default, so the page's own declaration is preferred."""


def decoded(data: bytes, charset: str) -> str:
    """Decode a page by its byte order mark, the charset of its header, its own declaration, else by detection.

    The first charset that fits all bytes is used; if none does, the first that was named, with replacements.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(name, "replace")
    charsets = list(dict.fromkeys(_named_charsets(data, charset)))
    charsets.sort(key=lambda name: name == _SERVER_DEFAULT)
    for name in charsets + ["utf-8"]:
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    if charsets:
        return data.decode(charsets[0], "replace")
    return data.decode(_guessed(data), "replace")


def _named_charsets(data: bytes, charset: str) -> Iterator[str]:
    labels = [charset]
    declaration = _META.search(data[:_META_BYTES])
    if declaration:
        labels.append(declaration[1].decode("ascii", "replace"))
    for label in filter(None, labels):
        try:
            name = codecs.lookup(label).name
        except (LookupError, ValueError):
            continue
        # A page may declare any codec of Python, such as one that decompresses.
        if _CHARSETS.fullmatch(name):
            yield _WIDER.get(name, name)


def _guessed(data: bytes) -> str:
    """Detect the charset of text that is not UTF-8 and declares none."""
    from trafilatura.utils import detect_encoding

    # The beginning shows the charset, and detection takes time for each byte.
    sample = data[:20_000]
    for name in detect_encoding(sample):
        return _WIDER.get(codecs.lookup(name).name, str(name))
    if _fits(sample, "gb18030"):
        return "gb18030"
    return _SERVER_DEFAULT


def _fits(sample: bytes, name: str) -> bool:
    """True if `sample`, perhaps cut within a character, is text in this charset."""
    try:
        codecs.getincrementaldecoder(name)().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def page_text(data: bytes, kind: str, charset: str) -> tuple[str, str]:
    """Return title and readable text of a page, "" for either if there is none."""
    text = decoded(data, charset)
    if kind == "plain":
        return "", text
    if kind == "html":
        return _html(text)
    return _xml(text)


def _html(text: str) -> tuple[str, str]:
    """Return title and main text as trafilatura finds it; if it finds none, all text."""
    import trafilatura
    from lxml import etree
    from lxml.html import HTMLParser, document_fromstring

    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        tree = document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.LxmlError:  # an empty document
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())
    main = trafilatura.extract(
        tree, output_format="txt", favor_recall=True, include_tables=True, include_comments=False
    )
    # Pages of links and forms have no main text, and may hold the answer.
    return title, main or trafilatura.html2txt(tree)


def _xml(text: str) -> tuple[str, str]:
    """Return the text of all elements (feeds etc.). Entities and external documents are not followed."""
    from lxml import etree

    # A page must neither read files of this machine nor grow by entities that expand.
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, recover=True
    )
    try:
        tree = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        tree = None
    if tree is None:
        return "", ""
    title = " ".join((tree.findtext(".//{*}title") or "").split())
    lines: list[str] = []
    for part in tree.itertext():
        line = " ".join(part.split())
        if line:
            lines.append(line)
    return title, "\n".join(lines)


def answer_to(data: bytes, kind: str, charset: str, max_chars: int) -> dict[str, object]:
    """Return the answer to one request; {} for a page that cannot be read."""
    try:
        title, text = page_text(data, kind, charset)
    # The limit below was met: the process goes on with the next page.
    except (MemoryError, RecursionError):
        return {}
    text = text.strip()
    return {"title": title[:1000], "text": text[:max_chars], "chars": len(text)}


def limit_memory() -> None:
    """Limit the memory of this process: a page may grow without end while it is parsed."""
    # macOS has no such limit, and refuses to set one.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until standard input ends."""
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["bytes"])
        answer = answer_to(data, request["kind"], request["charset"], request["max_chars"])
        answers.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        answers.flush()


if __name__ == "__main__":
    limit_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)
