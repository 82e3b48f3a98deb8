"""A frozen web: searches and visits answered from the journals of earlier runs, and from nothing else.

A query is found by its text and a page by its address, whichever instance asked for it; the earliest record
counts. Only names and positions are kept in memory; the records are read from their files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from cts_async.engine.journal import placed_records, record_at
from cts_async.errors import ToolError, UnusableOutput
from cts_async.search.backends import Hit, Page
from cts_async.search.backends.corpus import canonical_url
from cts_async.search.tools import read_hits, read_page

NOT_RECORDED: Final = "not recorded"


class Recorded:
    """A search engine and a page reader in one. `engine` is the name that the agent reads above results."""

    name: Final = "replay"

    def __init__(self, journals: Sequence[Path], engine: str = "") -> None:
        """Index the finished searches and visits of the journals. Raises OSError if one cannot be read."""
        self.engine = engine
        self._places: dict[str, list[tuple[Path, int]]] = {}
        for path in journals:
            for offset, record in placed_records(path):
                for name in _names(record):
                    self._places.setdefault(name, []).append((path, offset))

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return the hits recorded for `query`, at most `limit`. Raises ToolError if there are none."""
        for record in self._records(_query_name(query)):
            try:
                return read_hits(record["response"])[:limit]
            except UnusableOutput:
                continue
        raise _not_recorded(self.name)

    async def fetch(self, url: str) -> Page:
        """Return the page recorded at `url`, in any spelling of it. Raises ToolError if there is none."""
        similar: Page | None = None
        for record in self._records(_page_name(url)):
            try:
                page = read_page(record["response"])
            except UnusableOutput:
                continue
            if url in (page.url, record["request"]["url"]):
                return page
            similar = similar or page
        if similar is None:
            raise _not_recorded(canonical_url(url).partition("/")[0])
        return similar

    def _records(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the records called `name`, the earliest first; the files may have changed since they were indexed."""
        for path, offset in self._places.get(name, ()):
            record = record_at(path, offset)
            if name in _names(record):
                yield record


def _not_recorded(host: str) -> ToolError:
    return ToolError(f"{NOT_RECORDED} in the replayed runs", reason=NOT_RECORDED, host=host)


def _names(record: Any) -> list[str]:
    """Return the names of a record: a page has those of its requested and of its final address."""
    try:
        if not record["ok"] or not record["step"].startswith("search/tool/"):
            return []
        request, response = record["request"], record["response"]
        if "hits" in response:
            return [_query_name(request["query"])]
        if "text" in response:
            return list(dict.fromkeys((_page_name(request["url"]), _page_name(response["url"]))))
    except (KeyError, TypeError, AttributeError):
        pass
    return []


def _query_name(text: str) -> str:
    return f"query {' '.join(text.split())}"


def _page_name(url: str) -> str:
    return f"page {canonical_url(url)}"
