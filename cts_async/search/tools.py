"""What the agent reads after a tool call: WebDancer's texts of search results and visited pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cts_async.search.backends import Hit

SEPARATOR: Final = "\n=======\n"
MESSAGE_CHARS: Final = 300
"""How much of an error's message the agent is told; it may quote a server."""


def format_search(query: str, hits: Sequence[Hit], engine: str = "") -> str:
    """Give the results of one query; `engine` is the search engine's name, empty for a plain search."""
    if not hits:
        return f"No results found for '{_line(query)}'. Try a more general query."
    kind = f"A {engine} search" if engine else "A search"
    head = f"{kind} for '{_line(query)}' found {len(hits)} results:\n\n## Web Results\n"
    return head + "\n\n".join(_entry(number, hit) for number, hit in enumerate(hits, 1))


def _entry(number: int, hit: Hit) -> str:
    url = hit.url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    lines = [f"{number}. [{_line(hit.title)}]({url})"]
    lines += [f"Date published: {_line(hit.date)}"] if hit.date else []
    lines += [f"Source: {_line(hit.source)}"] if hit.source else []
    lines += [_line(hit.snippet)] if hit.snippet else []
    return "\n".join(lines)


def format_visit(url: str, goal: str, evidence: str, summary: str) -> str:
    """Give what one page says about the goal."""
    return (
        f"The useful information in {_line(url)} for user goal {_line(goal)} as follows:\n\n"
        f"Evidence in page:\n{evidence}\n\nSummary:\n{summary}\n"
    )


def format_failure(what: str, message: str) -> str:
    """Say that `what` ("the page https://x") failed, and why."""
    return f"Error: {_line(what)} failed: {_line(message)[:MESSAGE_CHARS].rstrip('.')}."


def _line(text: str) -> str:
    return " ".join(text.split())
