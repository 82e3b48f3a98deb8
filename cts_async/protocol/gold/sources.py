"""The evidence of a search as the extractor sees it: sources with ids, within a budget.

A source is one address with all texts that the search found there. Ids S1, S2, ... follow the order in which addresses
first appear, so they do not depend on the budget. A source that does not fit is left out or cut at its end, and the
selection records which ones and how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import orjson

from cts_async.llm.catalog import ModelSpec
from cts_async.records import Source, Turn

CUT: Final = " …"
"""Marks the end of a text that was cut."""
PAGE_WEIGHT: Final = 3
"""A page that the agent chose to read counts more than one search result of many."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Limits of the evidence; characters are those of texts, without ids, links and titles."""

    max_sources: int = 60
    chars_per_source: int = 4_000
    total_chars: int = 60_000
    """Some 15,000 tokens of English or 60,000 of Chinese: half of the context of the paper's extractor."""


SMALL: Final = SourceLimits(max_sources=4, chars_per_source=240, total_chars=800)
"""For the embedded model: its context of 4,096 tokens holds little more in Chinese."""


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A source with its id; `text` is all that the search found there, in order, `uses` how often it was used."""

    id: str
    url: str
    title: str
    text: str
    uses: int = field(default=1, compare=False)
    last: int = field(default=0, compare=False)
    """The last turn that found it, from 0."""

    @property
    def key(self) -> str:
        """Distinguishes it from other sources, see `source_key`."""
        return same_address(self.url) or self.text

    @property
    def evidence(self) -> str:
        """The text that can support a statement, with the title."""
        return f"{self.title}\n{self.text}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The sources that the extractor sees, and what the limits left out."""

    sources: tuple[NumberedSource, ...]
    dropped: tuple[str, ...] = ()
    """Ids left out, least used first."""
    cut: tuple[tuple[str, int], ...] = ()
    """Ids whose text was shortened, with the number of characters cut."""


def limits_for(spec: ModelSpec) -> SourceLimits:
    """The limits that suit a model."""
    return SMALL if spec.prompt_size == "small" else SourceLimits()


def collect(turns: Iterable[Turn]) -> tuple[NumberedSource, ...]:
    """All sources of a trace, one for each address (or text without an address), in order of appearance."""
    found: dict[str, list[tuple[int, Source]]] = {}
    for number, turn in enumerate(turns):
        for source in turn.sources:
            if source.text.strip():
                found.setdefault(source_key(source), []).append((number, source))
    return tuple(_evidence(f"S{n}", pieces) for n, pieces in enumerate(found.values(), 1))


def source_key(source: Source) -> str:
    """Distinguishes sources: the address, or without one the text."""
    return _writable(same_address(source.url) or source.text.strip())


def same_address(url: str) -> str:
    """An address normalised for comparison: without fragment and final slash, host in lower case."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # a bracket that is no IPv6 address
        return url.strip()
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def select(sources: Sequence[NumberedSource], limits: SourceLimits) -> Selection:
    """The most used sources that fit, in order of their ids, each shortened to its share of characters.

    The least used ones are dropped first, among equals the one found longest ago. At least one source is kept, if
    necessary shortened to the whole budget.
    """
    allowed = max(1, min(limits.chars_per_source, limits.total_chars))
    ranked = sorted(sources, key=lambda source: (-source.uses, -source.last, _number(source)))
    kept: set[str] = set()
    room = limits.total_chars
    for source in ranked[: max(1, limits.max_sources)]:
        size = min(len(source.text), allowed)
        if size <= room:
            kept.add(source.id)
            room -= size
    chosen = [source for source in sources if source.id in kept]
    return Selection(
        sources=tuple(_shortened(source, allowed) for source in chosen),
        dropped=tuple(source.id for source in reversed(ranked) if source.id not in kept),
        cut=tuple((source.id, len(source.text) - allowed) for source in chosen if len(source.text) > allowed),
    )


def source_lines(sources: Sequence[NumberedSource], *, small: bool = False) -> str:
    """The sources as text, one a line, so that no text can pass for another source.

    JSON objects, or with `small` only `S1: text`.
    """
    if small:
        return "\n".join(f"{source.id}: {' '.join(source.text.split())}" for source in sources)
    return "\n".join(orjson.dumps(source_json(source)).decode() for source in sources)


def source_json(source: NumberedSource) -> dict[str, Any]:
    """A source as recorded."""
    return {"id": source.id, "url": source.url, "title": source.title, "text": source.text}


def _evidence(id: str, pieces: Sequence[tuple[int, Source]]) -> NumberedSource:
    sources = [source for _, source in pieces]
    return NumberedSource(
        id=id,
        url=_writable(next((source.url.strip() for source in sources if source.url.strip()), "")),
        title=_writable(next((" ".join(s.title.split()) for s in sources if s.title.strip()), "")),
        text=_writable("\n".join(_distinct([source.text.strip() for source in sources]))),
        uses=sum(PAGE_WEIGHT if source.kind == "page" else 1 for source in sources),
        last=max(number for number, _ in pieces),
    )


def _writable(text: str) -> str:
    """The text with lone surrogates replaced, with which cut texts may end: UTF-8 cannot encode them."""
    return text.encode(errors="replace").decode()


def _distinct(texts: Sequence[str]) -> list[str]:
    """The texts in order, without those contained in another, such as a snippet of a page read later."""
    different = list(dict.fromkeys(texts))
    return [text for text in different if not any(text in other for other in different if other != text)]


def _shortened(source: NumberedSource, most: int) -> NumberedSource:
    if len(source.text) <= most:
        return source
    text = source.text[:most].rstrip() + CUT
    return NumberedSource(source.id, source.url, source.title, text, source.uses, source.last)


def _number(source: NumberedSource) -> int:
    return int(source.id.removeprefix("S"))
