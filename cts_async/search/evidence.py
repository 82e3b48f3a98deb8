"""What a page says about a goal: the words in which it is told, and how to find them without a model.

The lexical way is deterministic and free. A model may do it instead (`Extractor`); where that fails, this is
what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cts_async.engine.runner import Context
from cts_async.search.backends import Page
from cts_async.search.backends.passages import Span, best_window, sentence_spans
from cts_async.search.backends.tokens import present, query_terms

_SENTENCE_CHARS: Final = 400
_SUMMARY_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a page says about a goal, and what that comes to."""

    evidence: str
    summary: str

    def within(self, max_chars: int) -> Evidence:
        """At most so much evidence, and half as much summary."""
        return Evidence(self.evidence[:max_chars], self.summary[: max(_SUMMARY_CHARS, max_chars // 2)])


class Extractor(Protocol):
    """A model that reads pages for a goal."""

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        """Read `page` as a durable step called `step`. Raises StepError where that cannot be done."""


def read_lexically(page: Page, goal: str, max_chars: int) -> Evidence:
    """The sentences that share most with the goal, at most `max_chars`, and the passage nearest to it."""
    return Evidence(extract_for_goal(page.text, goal, max_chars), summary_of(page, goal))


def summary_of(page: Page, goal: str) -> str:
    """Give the page's title and the passage nearest to the goal."""
    weights = dict.fromkeys(query_terms(goal), 1.0)
    passage = best_window(page.text, weights, _SUMMARY_CHARS)
    return f"{' '.join(page.title.split())}: {passage}" if page.title.strip() else passage


def extract_for_goal(text: str, goal: str, max_chars: int) -> str:
    """Give the sentences of a page that share most with `goal`, in page order, within `max_chars`.

    A page that fits is given whole. Terms that are rare on the page weigh more; among equals, and where
    nothing matches, what comes first is taken first.
    """
    text = text.strip()
    if len(text) <= max_chars:
        return text
    spans = sentence_spans(text, min(_SENTENCE_CHARS, max_chars))
    terms = query_terms(goal)
    order = _ranked([present(text[start:end], terms) for start, end in spans])
    return _assembled(text, _fitting(spans, order, max_chars))


def _ranked(found: Sequence[set[str]]) -> list[int]:
    """Give the rows with the heaviest terms first, equal ones in order."""
    holders: dict[str, int] = {}
    for terms in found:
        for term in terms:
            holders[term] = holders.get(term, 0) + 1
    weights = {term: math.log1p(len(found) / count) for term, count in holders.items()}
    scores = [math.fsum(weights[term] for term in terms) for terms in found]
    return sorted(range(len(found)), key=lambda row: -scores[row])


def _fitting(spans: Sequence[Span], order: Sequence[int], max_chars: int) -> list[Span]:
    """Take spans in `order` as long as they fit, each with one character between it and the next."""
    chosen: list[Span] = []
    room = max_chars + 1
    for row in order:
        start, end = spans[row]
        if end - start + 1 <= room:
            chosen.append(spans[row])
            room -= end - start + 1
    return sorted(chosen)


def _assembled(text: str, spans: Sequence[Span]) -> str:
    """Join sentences that are neighbours by a space, if one stood there, and others by a line break."""
    parts: list[str] = []
    before = 0
    for start, end in spans:
        gap = text[before:start]
        parts.append("" if not gap else " " if gap == " " else "\n")
        parts.append(text[start:end])
        before = end
    return "".join(parts).strip()
