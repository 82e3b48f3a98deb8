"""Any HTTP endpoint for searches or visits, described in cts.toml and not in code.

SearXNG, then Brave, Tavily, and a reader:

    [search.searx]
    url = "http://127.0.0.1:8888/search?q={query}&format=json"
    fields = { snippet = "content", date = "publishedDate", source = "engine" }

    [search.brave]
    url = "https://api.search.brave.com/res/v1/web/search?q={query}&count={limit}"
    key_env = "BRAVE_API_KEY"
    key_header = "X-Subscription-Token"
    key_format = "{key}"
    results = "web.results"
    fields = { snippet = "description", date = "page_age", source = "profile.name" }

    [search.tavily]
    url = "https://api.tavily.com/search"
    key_env = "TAVILY_API_KEY"
    body = { query = "{query}", max_results = "{limit}" }
    fields = { snippet = "content", date = "published_date" }

    [visit.firecrawl]
    url = "https://api.firecrawl.dev/v1/scrape"
    key_env = "FIRECRAWL_API_KEY"
    body = { url = "{url}", formats = ["markdown"] }
    text = "data.markdown"
    title = "data.metadata.title"
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from cts_async.errors import ProviderRefused, ToolError
from cts_async.records import language_of
from cts_async.search.backends.addresses import AllowList, Lookup, check_target, page_host, system_lookup
from cts_async.search.backends.base import EngineSpec, Hit, HttpCall, Page, ReaderSpec
from cts_async.search.backends.endpoint import (
    READER_REFUSALS,
    SEARCH_REFUSALS,
    Answer,
    Service,
    as_text,
    ask,
    capped,
    failure_of,
    json_of,
)

# --- Serper


class Serper:
    """A `SearchEngine`. `session` is the caller's, to open and close."""

    def __init__(self, spec: EngineSpec, key: str, session: aiohttp.ClientSession) -> None:
        self.name, self.engine = spec.name, spec.engine
        self._spec, self._session, self._url = spec, session, URL(spec.url)
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, SEARCH_REFUSALS)

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Give at most `limit` of Google's results; the errors are those of `endpoint.ask`."""
        asked = {**self._spec.params, "q": query, "num": limit}
        if language_of(query) == "zh":
            asked |= self._spec.zh_params
        headers = {"X-API-KEY": self._service.key, "Accept": "application/json"}
        answer = await ask(self._service, self._session, "POST", self._url, headers, asked)
        data = json_of(answer, self._service, self._url.host or "")
        return hits_of(data)[:limit]


def hits_of(data: Any) -> list[Hit]:
    """The organic results of an answer, in its order; those without a link are left out."""
    organic = data.get("organic") if isinstance(data, dict) else None
    rows = [row for row in organic if isinstance(row, dict)] if isinstance(organic, list) else []
    return [_hit(row, 1 / rank) for rank, row in enumerate(rows, 1) if as_text(row.get("link"))]


def _hit(row: dict[str, Any], score: float) -> Hit:
    url = as_text(row["link"])
    title, snippet, date, source = (as_text(row.get(name)) for name in ("title", "snippet", "date", "source"))
    return Hit(url, url, title or url, snippet, score, date, source)


# --- Reader


_READER_URL_SAFE: Final = "%/:?[]@!$&'()*+,;=~"
_FIELD: Final = re.compile(r"(Title|URL Source|Published Time|Warning):[ \t]*(.*)")
_CONTENT: Final = "Markdown Content:"
_PAGE_ERROR: Final = re.compile(r"returned error (\d{3})\b")


@dataclass(frozen=True, slots=True)
class Read:
    """What the reader says of a page."""

    title: str
    text: str
    warning: str = ""


class JinaReader:
    """A `PageReader`. `session` is the caller's, to open and close. Addresses are checked as `HttpReader` does."""

    def __init__(
        self, spec: ReaderSpec, key: str, session: aiohttp.ClientSession, lookup: Lookup = system_lookup
    ) -> None:
        self.name = spec.name
        self._spec, self._session = spec, session
        self._allow, self._lookup = AllowList.parse(spec.allow), lookup
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, READER_REFUSALS, spec.max_bytes)

    async def fetch(self, url: str) -> Page:
        """Give the page; the errors are those of `endpoint.ask`, and ToolError if the page is an error or empty."""
        host = page_host(url)
        target = await check_target(url, self._allow, self._lookup)
        address = URL(f"{self._spec.url.rstrip('/')}/{quote(target, safe=_URL_SAFE)}", encoded=True)
        headers = {"Accept": "application/json"}
        if self._service.key:
            headers["Authorization"] = f"Bearer {self._service.key}"
        answer = await ask(self._service, self._session, "GET", address, headers, about=host)
        page = self._read(answer, host)
        if found := _PAGE_ERROR.search(page.warning):
            raise ToolError(f"the page answered HTTP {found[1]}", reason=f"http {found[1]}", host=host)
        if not page.text.strip():
            raise ToolError("the page has no readable text", reason="no text", host=host)
        return Page(url, url, page.title, capped(page.text, self._spec.max_chars))

    def _read(self, answer: Answer, host: str) -> Read:
        if "json" not in answer.headers.get("Content-Type", "").lower():
            return read_text(answer.text)
        data = json_of(answer, self._service, host)
        code = data.get("code") if isinstance(data, dict) else None
        if isinstance(code, int) and (
            failure := failure_of(self._service, host, code, answer.headers, answer.data, time.time())
        ):
            raise failure
        return read_json(data)


def read_json(data: Any) -> Read:
    """The page in the reader's JSON; empty if it is not there."""
    page = data.get("data") if isinstance(data, dict) else None
    if not isinstance(page, dict):
        return Read("", "")
    return Read(*(as_text(page.get(name)) for name in ("title", "content", "warning")))


def read_text(text: str) -> Read:
    """The page in the reader's text format; a text without it is the page itself."""
    head, content, body = text.partition(_CONTENT)
    if not content:
        return Read("", text)
    fields = {found[1]: found[2].strip() for line in head.splitlines() if (found := _FIELD.match(line))}
    return Read(fields.get("Title", ""), body.strip(), fields.get("Warning", ""))


# --- Http


_PLACE: Final = re.compile(r"\{(query|limit|url|key)\}")
_URL_SAFE: Final = "%/:?#[]@!$&'()*+,;=~"


class HttpEngine:
    """A `SearchEngine` as its table describes it. `session` is the caller's, to open and close."""

    def __init__(self, spec: EngineSpec, key: str, session: aiohttp.ClientSession) -> None:
        self.name, self.engine = spec.name, spec.engine
        self._spec, self._session = spec, session
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, SEARCH_REFUSALS)

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Give at most `limit` results; the errors are those of `endpoint.ask`.

        ProviderRefused if the answer is not as the table says, which no further search would change.
        """
        values = {"query": query, "limit": str(limit), "key": self._service.key}
        answer = await _ask(self._service, self._session, self._spec.url, self._spec.call, values)
        data = json_of(answer, self._service, urlsplit(self._spec.url).hostname or "")
        return self._hits(data)[:limit]

    def _hits(self, data: Any) -> list[Hit]:
        """Results of an answer; an answer without the path has none, as several services say it so."""
        rows = value_at(data, self._spec.results)
        if rows is None:
            return []
        if not isinstance(rows, list):
            raise ProviderRefused(
                f"{self.name}: {self._spec.results!r} is no list: correct results in cts.toml"
            )
        hits = [hit for rank, row in enumerate(rows, 1) if (hit := self._hit(row, 1 / rank))]
        if rows and not hits:
            where = self._spec.fields["url"]
            raise ProviderRefused(f"{self.name}: no result has a {where!r}: correct fields.url in cts.toml")
        return hits

    def _hit(self, row: Any, score: float) -> Hit | None:
        found = {
            name: as_text(value_at(row, path)) if path else "" for name, path in self._spec.fields.items()
        }
        url = found["url"]
        if not url:
            return None
        return Hit(url, url, found["title"] or url, found["snippet"], score, found["date"], found["source"])


class HttpReader:
    """A `PageReader` as its table describes it. `session` is the caller's, to open and close.

    A model chooses the addresses: those that `lookup` finds private are not passed on, but for the table's `allow`.
    """

    def __init__(
        self, spec: ReaderSpec, key: str, session: aiohttp.ClientSession, lookup: Lookup = system_lookup
    ) -> None:
        self.name = spec.name
        self._spec, self._session = spec, session
        self._allow, self._lookup = AllowList.parse(spec.allow), lookup
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, READER_REFUSALS, spec.max_bytes)

    async def fetch(self, url: str) -> Page:
        """Give the page; the errors are those of `endpoint.ask`, and ToolError if it has no text."""
        host = page_host(url)
        target = await check_target(url, self._allow, self._lookup)
        values = {"url": target, "key": self._service.key}
        answer = await _ask(self._service, self._session, self._spec.url, self._spec.call, values, host)
        title, text = "", answer.text
        if self._spec.text:
            data = json_of(answer, self._service, host)
            text = as_text(value_at(data, self._spec.text))
            title = as_text(value_at(data, self._spec.title)) if self._spec.title else ""
        if not text.strip():
            raise ToolError("the page has no readable text", reason="no text", host=host)
        return Page(url, url, title, capped(text, self._spec.max_chars))


def value_at(data: Any, path: str) -> Any:
    """What stands in JSON `data` at a dotted path, whose numbers are places in lists; None if nothing does."""
    for part in path.split(".") if path else ():
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data


def filled_url(template: str, values: Mapping[str, str]) -> URL:
    """`template` with its places filled, percent-encoded, so that no value can change the address's structure."""
    parts = _PLACE.split(template)
    texts = [
        quote(part, safe=_URL_SAFE) if i % 2 == 0 else quote(values.get(part, ""), safe="")
        for i, part in enumerate(parts)
    ]
    return URL("".join(texts), encoded=True)


def filled(template: Any, values: Mapping[str, str]) -> Any:
    """A body's template with its places filled, in strings at any depth; `"{limit}"` alone becomes a number."""
    if isinstance(template, Mapping):
        return {name: filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if template == "{limit}":
        return int(values["limit"])
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


async def _ask(
    service: Service,
    session: aiohttp.ClientSession,
    url: str,
    call: HttpCall,
    values: Mapping[str, str],
    about: str = "",
) -> Answer:
    key = {"key": service.key}
    headers = {"Accept": "application/json, text/plain;q=0.9, */*;q=0.5"}
    headers |= {name: filled(value, key) for name, value in call.headers.items()}
    if call.key_header and service.key:
        headers[call.key_header] = filled(call.key_format, key)
    body = None if call.body is None else filled(call.body, values)
    return await ask(service, session, call.method, filled_url(url, values), headers, body, about=about)
