"""What the agent's tools need of a search backend, and the specs from which backends are opened.

A spec holds no key; `search/catalog.py` reads specs from TOML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. `score` orders the hits of one query and cannot be compared across queries.

    `date` and `source` are "" if the engine does not report them.
    """

    id: str
    url: str
    title: str
    snippet: str
    score: float
    date: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The readable text of one page."""

    id: str
    url: str
    title: str
    text: str


class SearchEngine(Protocol):
    """Where searches go. Every error is a `CTSError`; a `ToolError` is final for this query."""

    @property
    def name(self) -> str:
        """A short word for traces and manifests, such as "corpus"."""

    @property
    def engine(self) -> str:
        """The engine's proper name as the agent reads it ("Google"); "" for a plain search."""

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return at most `limit` hits, best first; [] if nothing was found."""


class PageReader(Protocol):
    """Where visits go. Every error is a `CTSError`; a `ToolError` is final for this page."""

    @property
    def name(self) -> str:
        """A short word for traces and manifests, such as "corpus"."""

    async def fetch(self, url: str) -> Page:
        """Return the page at `url`; ToolError if it cannot be had."""


# --- Specs

EngineKind = Literal["serper", "http", "corpus"]
ReaderKind = Literal["jina", "direct", "http", "corpus"]
Method = Literal["GET", "POST"]


@dataclass(frozen=True, slots=True)
class HttpCall:
    """The request to a generic HTTP endpoint.

    `{query}`, `{limit}`, `{url}` and `{key}` in the spec's url, in header values and in the body's strings are
    replaced by their values; in the url they are percent-encoded.
    """

    method: Method = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: Mapping[str, Any] | None = field(default=None, hash=False)
    """Sent as JSON. A string that is `{limit}` and nothing else becomes a number."""
    key_header: str = ""
    """The header that carries the key in `key_format`; "" if `{key}` stands elsewhere or none is needed."""
    key_format: str = "Bearer {key}"


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A search engine. Entries with the same `account` share its limits; None is an unknown limit.

    `timeout_s` covers one whole answer.
    """

    name: str
    kind: EngineKind
    url: str
    key_env: str | None
    account: str
    max_concurrency: int
    timeout_s: float
    requests_per_min: float | None = None
    engine: str = ""
    """The engine's proper name as the agent reads it, such as "Google"."""
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """serper: further fields of the request, such as `gl` (country) and `hl` (language)."""
    zh_params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """serper: the same for a query in Chinese, over `params`."""
    call: HttpCall = HttpCall()
    results: str = "results"
    """http: dotted path from the answer to its list of results ("webPages.value"); "" if the answer is the list."""
    fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    """http: dotted path within a result to each of title, url, snippet, date and source."""
    path: Path | None = None
    """corpus: the documents; None for those of the run (`--corpus`)."""

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the results, as JSON values. A step's key depends on it; limits are not part of it."""
        if self.kind == "serper":
            return {"kind": "serper", "url": self.url, "params": {**self.params}, "zh": {**self.zh_params}}
        if self.kind == "corpus":
            return {"kind": "corpus"}
        asked = {"kind": "http", "url": self.url, "body": self.call.body, "headers": {**self.call.headers}}
        return {**asked, "results": self.results, "fields": {**self.fields}}


@dataclass(frozen=True, slots=True)
class ReaderSpec:
    """A page reader. Accounts and limits as in `EngineSpec`.

    `timeout_s` covers one whole answer; for `direct`, one attempt with all its redirects.
    """

    name: str
    kind: ReaderKind
    url: str
    key_env: str | None
    account: str
    max_concurrency: int
    timeout_s: float
    requests_per_min: float | None = None
    max_bytes: int = 5_000_000
    """Limit of an answer, both as received and after decompression; a larger one is refused."""
    max_chars: int = 100_000
    """Limit of a page's text; a longer one is cut, with a note."""
    call: HttpCall = HttpCall()
    text: str = ""
    """http: dotted path from the answer to the page's text; "" if the answer is the text."""
    title: str = ""
    """http: dotted path to its title; "" if there is none."""
    max_redirects: int = 5
    allow: tuple[str, ...] = ()
    """Hosts and networks of pages that may be private, and at any port ("wiki.lan", "10.1.0.0/16")."""
    user_agent: str = ""
    path: Path | None = None
    """corpus: the documents; None for those of the run (`--corpus`)."""

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the text, as JSON values. A step's key depends on it; limits are not part of it."""
        if self.kind == "corpus":
            return {"kind": "corpus"}
        read = {"kind": self.kind, "url": self.url, "max_bytes": self.max_bytes, "max_chars": self.max_chars}
        if self.kind != "http":
            return read
        asked = {"body": self.call.body, "headers": {**self.call.headers}}
        return {**read, **asked, "text": self.text, "title": self.title}
