"""What the agent's tools need of a search backend: two calls and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. `score` orders the hits of one query and means nothing across queries.

    `date` and `source` are what a web search engine adds to a result; empty where it said nothing.
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
    """Where searches go. Every error is a `CTSError`; only what is final is a `ToolError`."""

    @property
    def name(self) -> str:
        """A short word for traces and manifests, such as "corpus"."""

    @property
    def engine(self) -> str:
        """The search engine's proper name as the agent reads it ("Google"); empty for a plain search."""

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Give at most `limit` hits, best first; an empty list if nothing was found."""


class PageReader(Protocol):
    """Where visits go. Every error is a `CTSError`; only what is final is a `ToolError`."""

    @property
    def name(self) -> str:
        """A short word for traces and manifests, such as "corpus"."""

    async def fetch(self, url: str) -> Page:
        """Give the page at `url`, or raise `ToolError` if there is none to be had."""


class Backend(SearchEngine, PageReader, Protocol):
    """Both in one, as documents on this machine are."""
