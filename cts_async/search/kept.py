"""What a journal keeps of searches and visits, as data from which the agent's text is made anew."""

from __future__ import annotations

from typing import Any, Final

from cts_async.errors import UnusableOutput
from cts_async.search.backends import Hit, Page
from cts_async.search.evidence import Evidence

TITLE_CHARS: Final = 300
SNIPPET_CHARS: Final = 1_000
"""Some engines give whole pages for snippets, ten of them for each of three queries; pages are for visits."""


def hit_row(hit: Hit) -> list[str]:
    """`[url, title, snippet, date, source]`, each no longer than needed; what is empty at the end is left out."""
    date, source = hit.date[:TITLE_CHARS], hit.source[:TITLE_CHARS]
    row = [hit.url, hit.title[:TITLE_CHARS], hit.snippet[:SNIPPET_CHARS], date, source]
    while len(row) > 1 and not row[-1]:
        row.pop()
    return row


def read_hits(response: Any) -> list[Hit]:
    """The hits of a remembered search, best first. Raises UnusableOutput for anything else."""
    try:
        rows = [[str(cell) for cell in row] + [""] * (5 - len(row)) for row in response["hits"]]
        return [
            Hit(url, url, title, snippet, 0.0, date, source) for url, title, snippet, date, source in rows
        ]
    except (KeyError, TypeError, ValueError):
        raise UnusableOutput("no search results") from None


def read_page(response: Any) -> Page:
    """A remembered page. Raises UnusableOutput for anything else."""
    try:
        url, title, text = (str(response[name]) for name in ("url", "title", "text"))
    except (KeyError, TypeError):
        raise UnusableOutput("no page") from None
    return Page(url, url, title, text)


def read_evidence(response: Any) -> tuple[str, Evidence]:
    """The title of a page, and what was read of it. Raises UnusableOutput for anything else."""
    try:
        title, evidence, summary = (str(response[name]) for name in ("title", "evidence", "summary"))
    except (KeyError, TypeError):
        raise UnusableOutput("no evidence") from None
    return title, Evidence(evidence, summary)
