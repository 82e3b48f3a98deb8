"""Search and reading services behind an HTTP endpoint: Serper, the Jina reader, and any other by its table.

Sessions belong to the caller. A service that refuses the key or wants to be paid stops its part of the run
(`ProviderRefused`). What may pass is a `TransientError`, which the lane retries. Everything else is a `ToolError`,
which the agent sees. A model chooses the addresses that a reader is asked for: those that resolve to private
addresses here are not passed on, except for the table's `allow`.

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

import json
import re
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit

import aiohttp
import orjson
from yarl import URL

from cts_async import __version__, foreign_json
from cts_async.config import environment_override
from cts_async.errors import (
    CTSError,
    ProviderRefused,
    RateLimited,
    ToolError,
    TransientError,
    UsageError,
)
from cts_async.foreign_json import NestedTooDeeply
from cts_async.llm.http import (
    ENCODINGS,
    HttpEndpoint,
    HttpResponse,
    ResponseTooLarge,
    UnknownEncoding,
    encode_headers,
)
from cts_async.llm.limit_headers import reset_s, retry_after_s
from cts_async.llm.redact import SECRETS
from cts_async.records import language_of
from cts_async.search.backends import Hit, Page, PageReader
from cts_async.search.backends.addresses import AllowList, Lookup, check_target, page_host, system_lookup
from cts_async.search.backends.fetch import DirectReader, capped, charset_of
from cts_async.search.backends.unusable_answers import (
    bad_code,
    check_page,
    check_report,
    check_warnings,
    error_codes,
    error_message,
    failed_sources,
    has_only_a_message,
    http_status,
    meaning_of,
    text_value,
    value_at,
)
from cts_async.search.catalog import EngineSpec, ReaderSpec, ServiceSpec

SEARCH_REFUSALS: Final = frozenset({401, 402, 403, 404, 405, 410})
"""Statuses with which a search endpoint refuses every search: key, payment or address."""
READER_REFUSALS: Final = frozenset({401, 402})
"""Statuses with which a reader refuses every page; its other 4xx are about the page asked for."""

_TRANSIENT: Final = frozenset({408, 409, 425})
_LINE_CHARS: Final = 200
_SNIFFED_CHARS: Final = 2_000
"""A longer text of a reader is a page, even if it is JSON: services' errors are short."""


class NoResults(ToolError):
    """A service's way to say in an error that a search found nothing."""


# --- Exchanges


class HttpService:
    """Sends the requests that a table describes, and reads the answers."""

    refusals: ClassVar[frozenset[int]]
    """Statuses that refuse every request from now on."""

    def __init__(
        self,
        spec: ServiceSpec,
        environ: Mapping[str, str],
        session: aiohttp.ClientSession,
        max_bytes: int = 5_000_000,
    ) -> None:
        """UsageError if the key is missing in `environ`. An answer has at most `max_bytes`."""
        key = environment_override(spec.key_env, environ)
        if spec.key_env and not key:
            raise UsageError(f"{spec.name} needs a key: set {spec.key_env}")
        if not key.isprintable() or not key.isascii():
            raise UsageError(
                f"{spec.key_env} is not a valid key: it contains line breaks or non-ASCII characters"
            )
        SECRETS.add(key)
        self.name, self._service, self._key = spec.name, spec, key
        self._session, self._max_bytes = session, max_bytes

    async def ask_filled(
        self, values: Mapping[str, str], further: Mapping[str, Any] | None = None, *, about: str = ""
    ) -> HttpResponse:
        """Send the request of the table; `further` are fields of its body besides those of the table."""
        spec, key = self._service, {"key": self._key}
        headers = {"Accept": "application/json, text/plain;q=0.9, */*;q=0.5"}
        headers |= {name: filled(value, key) for name, value in spec.headers.items()}
        if spec.key_header and self._key:
            headers[spec.key_header] = filled(spec.key_format, key)
        echo = values.get("query") or values.get("url") or ""
        values = dict(values) | key
        body = None
        if spec.body is not None:
            body = dict(further or {}) | filled(spec.body, values)
        return await self.ask(
            spec.method, filled_url(spec.url, values), headers, body, about=about, echo=echo
        )

    async def ask(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: object = None,
        *,
        about: str = "",
        echo: str = "",
    ) -> HttpResponse:
        """Send one request, with `body` as JSON unless it is None, and return a whole good answer without keys.

        `about` is the host that the request is about, by default the service's own: a ToolError names it. `echo` is
        what was asked for, which an error may quote. Redirects are not followed, as they would carry the key elsewhere.
        """
        host, timeout_s = about or url.host or "", self._service.timeout_s
        # A table may spell a header as it likes: it is sent once.
        sent = {"user-agent": ("User-Agent", f"cts-async/{__version__}")}
        sent["accept-encoding"] = "Accept-Encoding", ENCODINGS
        for name, value in headers.items():
            sent[name.lower()] = name, value
        data = None
        if body is not None:
            sent["content-type"] = "Content-Type", "application/json"
            data = orjson.dumps(body)
        exchange = HttpEndpoint(self._session, url, method)
        try:
            answer = await exchange.send(
                encode_headers(dict(sent.values())),
                data,
                timeout_s,
                max_bytes=self._max_bytes,
                keep_headers=True,
            )
        except ResponseTooLarge:
            text = f"{self.name} sent more than {self._max_bytes:,} bytes"
            raise ToolError(text, reason="too large", host=host) from None
        except UnknownEncoding as error:
            raise ToolError(f"{self.name}: {error}", reason="not text", host=host) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise exchange.failure(error, f"{self.name}: {url.host}", timeout_s) from None
        good = 200 <= answer.status < 300
        answer = HttpResponse(answer.status, answer.headers, SECRETS.body(answer.data, good=good))
        if not good:
            raise self.failure(answer, answer.status, host, echo=echo)
        return answer

    def failure(self, answer: HttpResponse, status: int, host: str, *, echo: str = "") -> CTSError:
        """Return the error that `answer` means; its `status` may stand in the body. 200: there is an `error` in it."""
        body, time_s = _error_body(answer.data), time.time()
        message = text_value(body)
        if isinstance(body, Mapping):
            message = error_message(body)
        text = f"{self.name}: HTTP {status}"
        line = _one_line(message)
        if line:
            text += f": {line}"
        # Followed, it would carry the key to another host, and every further request with it.
        if 300 <= status < 400:
            return ProviderRefused(f"{text}: its address has moved; correct url in cts.toml")
        wait_s = retry_after_s(answer.headers, time_s)
        if status >= 500 or status in _TRANSIENT:
            return TransientError(text, retry_after_s=wait_s, status=status)
        meaning = None
        if not self._is_about_the_page(status):
            meaning = meaning_of(status, message, error_codes(body), echo=echo)
        # SerpApi answers a search that finds nothing with an error.
        if meaning == "no results" and self.refusals is SEARCH_REFUSALS:
            return NoResults(text, reason="no results", host=host)
        if meaning == "wait" or (status == 429 and meaning is None):
            # Without Retry-After the largest of the reset headers says when requests are accepted again.
            if wait_s is None:
                wait_s = reset_s(answer.headers, time_s)
            return RateLimited(text, retry_after_s=wait_s, status=status)
        if meaning in ("unpaid", "key") or status in self.refusals:
            if self._service.key_env:
                text += f" (key: {self._service.key_env})"
            return ProviderRefused(text)
        if status == 200:
            return ToolError(text, reason="failed", host=host)
        return ToolError(text, reason=f"http {status}", host=host)

    def _is_about_the_page(self, status: int) -> bool:
        """True for a reader's errors about pages: they may quote the page, whose words are not the service's."""
        # 432 and 433 are Tavily's: the limit of the plan, and of what is paid for by use.
        if self.refusals is SEARCH_REFUSALS or status in (429, 432, 433):
            return False
        return status == 200 or status > 403

    def json_of(self, answer: HttpResponse, host: str, *, echo: str = "") -> Any:
        """Return the answer's JSON; TransientError if it is none. An `error` in it counts, even with HTTP 200."""
        try:
            data = _loads(answer)
        except NestedTooDeeply as error:
            raise ToolError(f"{self.name}: {error}", reason="failed", host=host) from None
        except ValueError:
            raise TransientError(f"{self.name}: the answer is not JSON") from None
        # Providers send an `error` with status 200, too; an answer that has one is never a result.
        if isinstance(data, dict) and data.get("error"):
            raise self.failure(answer, http_status(bad_code(data)) or 200, host, echo=echo)
        return data


def text_of(answer: HttpResponse) -> str:
    """Return the body as encodable text, without keys; bytes that do not fit its charset are replaced."""
    try:
        text = answer.data.decode(charset_of(answer.headers.get("Content-Type", "")) or "utf-8", "replace")
    except (LookupError, UnicodeError):  # Python has codecs that are no charset, and some raise anyway
        text = answer.data.decode("utf-8", "replace")
    return SECRETS.text(text.encode(errors="replace").decode())


def _loads(answer: HttpResponse) -> Any:
    """Parse JSON, also if it was cut within a surrogate pair or is not UTF-8; ValueError if it is no JSON."""
    try:
        return foreign_json.loads(answer.data)
    except NestedTooDeeply:
        raise
    except ValueError:
        pass
    try:
        text = json.dumps(json.loads(text_of(answer)), ensure_ascii=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return foreign_json.loads(text.encode(errors="replace"))


def _error_body(data: bytes) -> Any:
    """Return the body of an error without keys: its JSON, else its beginning as text."""
    data = SECRETS.body(data)
    try:
        return foreign_json.loads(data)
    except ValueError:
        return data[:2000].decode("utf-8", "replace")


def _one_line(text: str) -> str:
    """Return the beginning of a foreign text in one printable line."""
    # Four times as many, since blanks and control characters are removed from them.
    printable = ""
    for char in text[: 4 * _LINE_CHARS]:
        if char.isprintable():
            printable += char
        else:
            printable += " "
    line = " ".join(printable.split())
    if len(line) <= _LINE_CHARS:
        return line
    return f"{line[: _LINE_CHARS - 1]}…"


# --- Engines and readers


class HttpEngine(HttpService):
    """A search engine that a `[search.NAME]` table describes, Serper among them."""

    refusals = SEARCH_REFUSALS

    def __init__(self, spec: EngineSpec, environ: Mapping[str, str], session: aiohttp.ClientSession) -> None:
        super().__init__(spec, environ, session)
        self.engine, self._spec = spec.engine, spec

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return at most `limit` results.

        ProviderRefused if the answer does not have the shape in the table: no further search would change that.
        """
        spec = self._spec
        further: dict[str, Any] = {}
        if spec.kind == "serper":
            further |= spec.params
            # WebDancer's successor sets Serper's country and language by the query's language, too.
            if language_of(query) == "zh":
                further |= spec.zh_params
        host = urlsplit(spec.url).hostname or ""
        try:
            answer = await self.ask_filled({"query": query, "limit": str(limit)}, further)
            data = self.json_of(answer, host, echo=query)
            if not value_at(data, spec.results):
                self._check_empty(answer, data, host, query)
        except NoResults:
            return []
        return self._hits(data)[:limit]

    def _check_empty(self, answer: HttpResponse, data: Any, host: str, query: str) -> None:
        """Raise what an answer without results says of its failure; return if nothing was found indeed.

        Services report errors with status 200, too: a code, a message in the place of the list, or sources that did
        not answer.
        """
        code = bad_code(data)
        # A code that is no HTTP status, without words that say what it means: a number of the service's own.
        is_own_code = bool(code) and code != "false" and http_status(code) is None
        if is_own_code and not has_only_a_message(data):
            text = f"{self.name}: answered with the code {_one_line(code)} and no results"
            raise ToolError(text, reason="failed", host=host)
        if code or (value_at(data, self._spec.results) is None and has_only_a_message(data)):
            raise self.failure(answer, http_status(code) or 200, host, echo=query)
        sources = failed_sources(data)
        if sources:
            text = f"{self.name}: no results, because its sources failed: {_one_line(sources)}"
            raise ToolError(text, reason="sources failed", host=host)

    def _hits(self, data: Any) -> list[Hit]:
        rows = value_at(data, self._spec.results)
        if rows is None:  # how several services say that there are no results
            return []
        if not isinstance(rows, list):
            raise ProviderRefused(
                f"{self.name}: {self._spec.results!r} is not a list: correct results in cts.toml"
            )
        paths, hits = self._spec.hit_fields, []
        for rank, row in enumerate(rows, 1):
            # Services give no scores that could be compared: the rank stands for one.
            texts = {name: _text_at(row, path) for name, path in paths}
            url, title = texts["url"], texts["title"]
            if url:
                hits.append(
                    Hit(url, url, title or url, texts["snippet"], 1 / rank, texts["date"], texts["source"])
                )
        if rows and not hits:
            raise ProviderRefused(
                f"{self.name}: no result has a {paths.url!r}: correct fields.url in cts.toml"
            )
        return hits


class HttpReader(HttpService):
    """A page reader that a `[visit.NAME]` table describes."""

    refusals = READER_REFUSALS

    def __init__(
        self,
        spec: ReaderSpec,
        environ: Mapping[str, str],
        session: aiohttp.ClientSession,
        lookup: Lookup = system_lookup,
    ) -> None:
        super().__init__(spec, environ, session, spec.max_bytes)
        self._spec, self._allow, self._lookup = spec, AllowList.parse(spec.allow), lookup

    async def fetch(self, url: str) -> Page:
        """Return the page; ToolError if its address must not be visited, or if it has no text."""
        host, target = page_host(url), await check_target(url, self._allow, self._lookup)
        title, text = await self._read(host, target)
        if not text.strip():
            raise ToolError("the page has no readable text", reason="no text", host=host)
        check_page(title, text, host)
        return Page(url, url, title, capped(text, self._spec.max_chars))

    async def _read(self, host: str, target: str) -> tuple[str, str]:
        """Return title and text of the page at the checked address `target`."""
        answer = await self.ask_filled({"url": target}, about=host)
        if not self._spec.text:
            text = text_of(answer)
            self._check_text(answer, text, host)
            return "", text
        data = self.json_of(answer, host)
        text = text_value(value_at(data, self._spec.text))
        check_report(data, text, host)
        code = bad_code(data)
        # Beside a text a code is a remark: the page was read.
        if code and not text:
            raise self.failure(answer, http_status(code) or 200, host)
        return _text_at(data, self._spec.title), text

    def _check_text(self, answer: HttpResponse, text: str, host: str) -> None:
        """Raise what the text of an answer says of its failure: an error as JSON, or a warning in its first lines."""
        check_warnings(text[:_SNIFFED_CHARS], text, host)
        if not text.startswith("{") or len(text) > _SNIFFED_CHARS:
            return
        try:
            data = foreign_json.loads(text)
        except ValueError:
            return
        code = bad_code(data)
        # Without a message it may be a page of JSON that happens to have a field of this name.
        if code and error_message(data):
            raise self.failure(answer, http_status(code) or 200, host)


# --- The Jina reader

# All that addresses are made of but "#", which would begin a fragment of the request: that is not sent.
_JINA_URL_SAFE: Final = "%/:?[]@!$&'()*+,;=~"


_JINA_WARNING: Final = re.compile(r"^Warning: (.+)", re.MULTILINE)
"""In the head of the text form."""


class JinaReader(HttpReader):
    """WebDancer's page reader: GET https://r.jina.ai/{url} with a bearer key.

    It fetches, renders and cleans a page on its own machines. Asked for JSON it returns `data.title` and
    `data.content`. A page whose own host answered with an error comes with status 200 and a warning: that is an error
    here.
    """

    plain_pages = False
    """Ask for text, as the published demo does: lines for title and address, then the page."""

    async def _read(self, host: str, target: str) -> tuple[str, str]:
        address = URL(f"{self._spec.url.rstrip('/')}/{quote(target, safe=_JINA_URL_SAFE)}", encoded=True)
        headers = {"Accept": "application/json"}
        if self.plain_pages:
            headers["Accept"] = "*/*"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        answer = await self.ask("GET", address, headers, about=host)
        # Asked for JSON, it may answer with text all the same: that is the page itself.
        if "json" not in answer.headers.get("Content-Type", "").lower():
            text = text_of(answer)
            self._check_text(answer, text, host)
            warned = _JINA_WARNING.search(text.partition("\nMarkdown Content:")[0])
            if self.plain_pages and warned:
                check_warnings(warned[1], text, host)
            return "", text
        data = self.json_of(answer, host)
        code = value_at(data, "code")
        # The status of the page's own host stands in the body of an answer of status 200.
        if isinstance(code, int) and not 200 <= code < 300:
            raise self.failure(answer, code, host)
        title, text, warning = (
            text_value(value_at(data, f"data.{name}")) for name in ("title", "content", "warning")
        )
        check_warnings(warning, text, host)
        return title, text


def open_reader(
    spec: ReaderSpec,
    environ: Mapping[str, str],
    session: aiohttp.ClientSession,
    *,
    plain_pages: bool = False,
) -> PageReader:
    """Open a page reader of the web. UsageError if its key is missing. `direct` makes its own sessions.

    `plain_pages` as in AgentSettings.
    """
    if spec.kind == "direct":
        return DirectReader(spec)
    if spec.kind == "jina":
        jina = JinaReader(spec, environ, session)
        jina.plain_pages = plain_pages
        return jina
    return HttpReader(spec, environ, session)


# --- Templates of requests, paths into answers

_URL_SAFE: Final = "%/:?#[]@!$&'()*+,;=~"
_PLACEHOLDER: Final = re.compile(r"\{(query|limit|url|key)\}")


def filled_url(template: str, values: Mapping[str, str]) -> URL:
    """Fill a template with percent-encoded values, so that no value can change the structure of the address."""
    texts: list[str] = []
    for i, part in enumerate(_PLACEHOLDER.split(template)):
        if i % 2 == 0:  # between placeholders, whose names stand at the odd places
            texts.append(quote(part, safe=_URL_SAFE))
        else:
            texts.append(quote(values.get(part, ""), safe=""))
    return URL("".join(texts), encoded=True)


def _text_at(value: Any, path: str) -> str:
    """Return the text at a path of a table; "" for no path."""
    if not path:
        return ""
    return text_value(value_at(value, path))


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
    # In one pass: a query that contains "{key}" must not be filled again.
    return _PLACEHOLDER.sub(lambda name: values.get(name[1], name[0]), template)
