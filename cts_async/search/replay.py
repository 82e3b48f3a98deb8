"""A frozen web: searches and visits answered from the journals of earlier runs, and from nothing else.

A query is found by its text and a page by its address, whichever instance asked for it; the earliest record
counts. Memory holds 16 bytes for each, the records stay in their files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.engine.journal import record_at
from cts_async.errors import ToolError, UnusableOutput
from cts_async.search.backends.base import Hit, Page
from cts_async.search.backends.index import canonical_url
from cts_async.search.tools import read_hits, read_page

NOT_RECORDED: Final = "not recorded"
_TOOL: Final = b'"step":"search/tool/'
_OFFSET_BITS: Final = 48
"""Of a place; the bits above them number the journal."""


class Recorded:
    """A search engine and a page reader in one. `engine` is the name that the agent reads over results."""

    name: Final = "replay"

    def __init__(self, journals: Sequence[Path], engine: str = "") -> None:
        """Index the journals. Raises OSError where one cannot be read."""
        self.engine = engine
        self._journals = tuple(journals)
        fingerprints, places = array("Q"), array("Q")
        for number, path in enumerate(self._journals):
            for offset, names in _recorded(path):
                for name in names:
                    fingerprints.append(_fingerprint(name))
                    places.append(number << _OFFSET_BITS | offset)
        self._fingerprints, self._places = _sorted(fingerprints, places)

    async def search(self, query: str, limit: int) -> list[Hit]:
        """The hits that were recorded for `query`, `limit` at most. Raises ToolError if there are none."""
        for record in self._records(_query(query)):
            try:
                return read_hits(record["response"])[:limit]
            except UnusableOutput:
                continue
        raise ToolError(f"{NOT_RECORDED} in the replayed runs", reason=NOT_RECORDED, host=self.name)

    async def fetch(self, url: str) -> Page:
        """The page that was recorded at `url`, however that is spelled. Raises ToolError if there is none."""
        alike: Page | None = None
        for record in self._records(_address(url)):
            try:
                page = read_page(record["response"])
            except UnusableOutput:
                continue
            if url in (page.url, record["request"]["url"]):
                return page
            alike = alike or page
        if alike is None:
            raise ToolError(f"{NOT_RECORDED} in the replayed runs", reason=NOT_RECORDED, host=_host(url))
        return alike

    def _records(self, name: str) -> Iterator[dict[str, Any]]:
        """The records called `name`, the earliest first."""
        wanted = _fingerprint(name)
        at = bisect_left(self._fingerprints, wanted)
        while at < len(self._fingerprints) and self._fingerprints[at] == wanted:
            number, offset = divmod(self._places[at], 1 << _OFFSET_BITS)
            record = record_at(self._journals[number], offset)
            if name in _names(record):
                yield record
            at += 1


def _recorded(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Where the lines of finished searches and visits begin, and under which names each is found."""
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if _TOOL in line and line.endswith(b"\n"):
                try:
                    names = _names(orjson.loads(line))
                except orjson.JSONDecodeError:
                    names = []
                if names:
                    yield offset, names
            offset += len(line)


def _names(record: Any) -> list[str]:
    """A page is found by the address that was asked for and by the one it came from; other records by none."""
    try:
        if not record["ok"] or not record["step"].startswith("search/tool/"):
            return []
        request, response = record["request"], record["response"]
        if "hits" in response:
            return [_query(request["query"])]
        if "text" in response:
            return list(dict.fromkeys((_address(request["url"]), _address(response["url"]))))
    except (KeyError, TypeError, AttributeError):
        pass
    return []


def _query(text: str) -> str:
    return f"query {' '.join(text.split())}"


def _address(url: str) -> str:
    return f"page {canonical_url(url)}"


def _host(url: str) -> str:
    return canonical_url(url).partition("/")[0]


def _fingerprint(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest(), "big")


def _sorted(fingerprints: array[int], places: array[int]) -> tuple[memoryview, memoryview]:
    """Both by fingerprint, equal ones in the order given."""
    import numpy as np

    if not fingerprints:
        return memoryview(b""), memoryview(b"")
    keys: Any = np.frombuffer(fingerprints, np.uint64)
    where: Any = np.frombuffer(places, np.uint64)
    order = np.argsort(keys, kind="stable")
    return memoryview(keys[order]), memoryview(where[order])
