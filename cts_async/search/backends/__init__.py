"""What the agent's tools need of a search backend: hits, pages, and where both come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


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


class Ranked(NamedTuple):
    """A document and its score; higher is better."""

    id: str
    score: float


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
