"""Pages through the Jina reader, WebDancer's: GET https://r.jina.ai/{url} with a bearer key.

It fetches, renders and cleans a page on its own machines. Asked for JSON it gives `data.title` and
`data.content`; servers that do not speak JSON give lines `Title:`, `URL Source:`, `Markdown Content:`.
A page that its own host answered with an error comes as a good answer with a warning: that is an error here.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from cts_async.errors import ToolError
from cts_async.search.backends.addresses import AllowList, page_host
from cts_async.search.backends.base import Page
from cts_async.search.backends.endpoint import (
    READER_REFUSALS,
    Answer,
    Service,
    ask,
    failure_of,
    json_of,
)
from cts_async.search.backends.resolver import Lookup, check_target, system_lookup
from cts_async.search.backends.specs import ReaderSpec
from cts_async.search.backends.text import as_text, capped

_URL_SAFE: Final = "%/:?[]@!$&'()*+,;=~"
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
