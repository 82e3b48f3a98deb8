"""Pages fetched from their own hosts by this machine, their text found by trafilatura.

Safe to point anywhere: only http and https, only public addresses (`addresses.py`) unless the table's `allow`
names others, bounded in time, bytes and kinds. At most two exchanges at a time go to one host. robots.txt is not
consulted: a visit is one person's question for one page, not a crawl.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from yarl import URL

from cts_async import __version__
from cts_async.engine.step import RetryPolicy, full_jitter
from cts_async.errors import ToolError
from cts_async.search.backends.addresses import AllowList
from cts_async.search.backends.base import Page
from cts_async.search.backends.download import Bounds, Download, HostSlots, HostTrouble, download
from cts_async.search.backends.extraction import Extractor
from cts_async.search.backends.resolver import Lookup, system_lookup
from cts_async.search.backends.specs import ReaderSpec
from cts_async.search.backends.text import capped

ATTEMPTS: Final = 3
MAX_WAIT_S: Final = 10.0
"""A host that asks for a longer pause is not waited for: the agent has other pages to read."""
_PAUSES: Final = RetryPolicy(base_s=1.0, cap_s=4.0)
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; cts-async/{__version__}; research)"


class DirectReader:
    """A `PageReader`. Trouble of a page's own host is retried here, as it says nothing about any other host.

    `lookup` gives the addresses of a name; they are checked whatever it gives. `close` ends the processes that
    extract text; they end by themselves when the reader is no longer used.
    """

    def __init__(
        self,
        spec: ReaderSpec,
        *,
        lookup: Lookup = system_lookup,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        rng: random.Random | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        self.name = spec.name
        self._max_chars = spec.max_chars
        self._bounds = Bounds(
            spec.timeout_s, spec.max_bytes, spec.max_redirects, AllowList.parse(spec.allow), _headers(spec)
        )
        self._lookup, self._sleep, self._rng = lookup, sleep, rng or random.Random(spec.name)
        self._slots = HostSlots()
        self._extractor = extractor or Extractor()
        self.close = self._extractor.close

    async def fetch(self, url: str) -> Page:
        """Give the page at `url`, which may be another one's after redirects; every failure is a ToolError."""
        page = await self._download(url)
        try:
            found = await self._extractor.extract(page.data, page.kind, page.charset, self._max_chars)
        except ToolError as error:
            error.host = error.host or URL(page.url).host or ""
            raise
        return Page(page.url, page.url, found.title, capped(found.text, self._max_chars, found.chars))

    async def _download(self, url: str) -> Download:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await download(url, self._bounds, self._slots, self._lookup)
            except HostTrouble as error:
                wait_s = (error.retry_after_s or 0.0) + full_jitter(attempt - 1, _PAUSES, self._rng)
                if attempt == ATTEMPTS or wait_s > MAX_WAIT_S:
                    raise ToolError(str(error), reason=error.reason, host=error.host) from None
            await self._sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")


def _headers(spec: ReaderSpec) -> dict[str, str]:
    return {
        "User-Agent": spec.user_agent or _USER_AGENT,
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5",
        "Accept-Encoding": "gzip, deflate",
        "Accept-Language": "en,zh;q=0.9,*;q=0.5",
    }
