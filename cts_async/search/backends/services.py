"""Search and reading services behind an HTTP endpoint: Serper, the Jina reader, and any other by its table.

Sessions belong to the caller. Errors are those of `endpoint.ask`. A model chooses the addresses that a reader is
asked for: those that resolve to private addresses here are not passed on, except for the table's `allow`.

A table in cts.toml describes any other service. SearXNG, Brave, Tavily, and a reader:

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
from typing import Any, Final, NamedTuple
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


class _Engine:
    """A search engine of the catalogue."""

    def __init__(self, spec: EngineSpec, key: str, session: aiohttp.ClientSession) -> None:
        self.name, self.engine = spec.name, spec.engine
        self._spec, self._session = spec, session
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, SEARCH_REFUSALS)


class _Reader:
    """A page reader of the catalogue."""

    def __init__(
        self, spec: ReaderSpec, key: str, session: aiohttp.ClientSession, lookup: Lookup = system_lookup
    ) -> None:
        self.name = spec.name
        self._spec, self._session = spec, session
        self._allow, self._lookup = AllowList.parse(spec.allow), lookup
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, READER_REFUSALS, spec.max_bytes)

    async def _checked(self, url: str) -> tuple[str, str]:
        """Return the host of `url` and its checked spelling; ToolError if it must not be visited."""
        return page_host(url), await check_target(url, self._allow, self._lookup)

    def _page(self, url: str, host: str, title: str, text: str) -> Page:
        if not text.strip():
            raise ToolError("the page has no readable text", reason="no text", host=host)
        return Page(url, url, title, capped(text, self._spec.max_chars))


# --- Serper


class Serper(_Engine):
    """Google's results through Serper: POST {"q", "num"} with the key in `X-API-KEY`.

    Of the answer the `organic` results are used, as in WebDancer.
    """

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return at most `limit` of Google's results."""
        url, asked = URL(self._spec.url), {**self._spec.params, "q": query, "num": limit}
        if language_of(query) == "zh":
            asked |= self._spec.zh_params
        headers = {"X-API-KEY": self._service.key, "Accept": "application/json"}
        answer = await ask(self._service, self._session, "POST", url, headers, asked)
        return serper_hits(json_of(answer, self._service, url.host or ""))[:limit]


def serper_hits(data: Any) -> list[Hit]:
    """Return the organic results of an answer, in order; those without a link are left out."""
    organic = data.get("organic") if isinstance(data, dict) else None
    rows = [row for row in organic if isinstance(row, dict)] if isinstance(organic, list) else []
    hits = []
    for rank, row in enumerate(rows, 1):
        names = ("link", "title", "snippet", "date", "source")
        url, title, snippet, date, source = (as_text(row.get(name)) for name in names)
        if url:
            hits.append(Hit(url, url, title or url, snippet, 1 / rank, date, source))
    return hits


# --- The Jina reader

_JINA_FIELD: Final = re.compile(r"(Title|URL Source|Published Time|Warning):[ \t]*(.*)")
_JINA_CONTENT: Final = "Markdown Content:"
_PAGE_ERROR: Final = re.compile(r"returned error (\d{3})\b")
_JINA_URL_SAFE: Final = "%/:?[]@!$&'()*+,;=~"


class JinaPage(NamedTuple):
    """A page as the Jina reader returned it."""

    title: str
    text: str
    warning: str = ""


class JinaReader(_Reader):
    """WebDancer's page reader: GET https://r.jina.ai/{url} with a bearer key.

    It fetches, renders and cleans a page on its own machines. Asked for JSON it returns `data.title` and
    `data.content`; servers that do not speak JSON return lines `Title:`, `URL Source:`, `Markdown Content:`. A page
    whose own host answered with an error comes with status 200 and a warning: that is an error here.
    """

    async def fetch(self, url: str) -> Page:
        """Return the page; ToolError if it is an error page or empty."""
        host, target = await self._checked(url)
        address = URL(f"{self._spec.url.rstrip('/')}/{quote(target, safe=_JINA_URL_SAFE)}", encoded=True)
        headers = {"Accept": "application/json"}
        if self._service.key:
            headers["Authorization"] = f"Bearer {self._service.key}"
        answer = await ask(self._service, self._session, "GET", address, headers, about=host)
        page = self._read(answer, host)
        if found := _PAGE_ERROR.search(page.warning):
            raise ToolError(f"the page answered HTTP {found[1]}", reason=f"http {found[1]}", host=host)
        return self._page(url, host, page.title, page.text)

    def _read(self, answer: Answer, host: str) -> JinaPage:
        if "json" not in answer.headers.get("Content-Type", "").lower():
            return jina_text(answer.text)
        data = json_of(answer, self._service, host)
        code = data.get("code") if isinstance(data, dict) else None
        if isinstance(code, int) and (
            failure := failure_of(self._service, host, code, answer.headers, answer.data, time.time())
        ):
            raise failure
        page = data.get("data") if isinstance(data, dict) else None
        if not isinstance(page, dict):
            return JinaPage("", "")
        return JinaPage(*(as_text(page.get(name)) for name in ("title", "content", "warning")))


def jina_text(text: str) -> JinaPage:
    """Parse the reader's text format; a text without it is the page itself."""
    head, content, body = text.partition(_JINA_CONTENT)
    if not content:
        return JinaPage("", text)
    fields = {found[1]: found[2].strip() for line in head.splitlines() if (found := _JINA_FIELD.match(line))}
    return JinaPage(fields.get("Title", ""), body.strip(), fields.get("Warning", ""))


# --- Services described by a table

_URL_SAFE: Final = "%/:?#[]@!$&'()*+,;=~"
_PLACEHOLDER: Final = re.compile(r"\{(query|limit|url|key)\}")


class HttpEngine(_Engine):
    """A search engine that a `[search.NAME]` table describes."""

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return at most `limit` results.

        ProviderRefused if the answer does not have the shape in the table: no further search would change that.
        """
        values = {"query": query, "limit": str(limit), "key": self._service.key}
        answer = await _ask(self._service, self._session, self._spec.url, self._spec.call, values)
        data = json_of(answer, self._service, urlsplit(self._spec.url).hostname or "")
        return self._hits(data)[:limit]

    def _hits(self, data: Any) -> list[Hit]:
        rows = value_at(data, self._spec.results)
        if rows is None:  # how several services say that there are no results
            return []
        if not isinstance(rows, list):
            raise ProviderRefused(
                f"{self.name}: {self._spec.results!r} is not a list: correct results in cts.toml"
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


class HttpReader(_Reader):
    """A page reader that a `[visit.NAME]` table describes."""

    async def fetch(self, url: str) -> Page:
        """Return the page; ToolError if it has no text."""
        host, target = await self._checked(url)
        values = {"url": target, "key": self._service.key}
        answer = await _ask(self._service, self._session, self._spec.url, self._spec.call, values, host)
        title, text = "", answer.text
        if self._spec.text:
            data = json_of(answer, self._service, host)
            text = as_text(value_at(data, self._spec.text))
            title = as_text(value_at(data, self._spec.title)) if self._spec.title else ""
        return self._page(url, host, title, text)


def value_at(data: Any, path: str) -> Any:
    """Return the value at a dotted path in JSON `data`, where numbers index lists; None if there is none."""
    for part in path.split(".") if path else ():
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data


def filled_url(template: str, values: Mapping[str, str]) -> URL:
    """Fill a template with percent-encoded values, so that no value can change the structure of the address."""
    parts = _PLACEHOLDER.split(template)
    texts = [
        quote(part, safe=_URL_SAFE) if i % 2 == 0 else quote(values.get(part, ""), safe="")
        for i, part in enumerate(parts)
    ]
    return URL("".join(texts), encoded=True)


def filled(template: Any, values: Mapping[str, str]) -> Any:
    """Fill a body's template in strings at any depth; `"{limit}"` alone becomes a number."""
    if isinstance(template, Mapping):
        return {name: filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if template == "{limit}":
        return int(values["limit"])
    return _PLACEHOLDER.sub(lambda name: values.get(name[1], name[0]), template)


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
