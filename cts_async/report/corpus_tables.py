"""Tables of a corpus: what is in the file, and what a ranker finds in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cts_async.report.data_table import Column, DataTable, number, text
from cts_async.search.backends.base import Page
from cts_async.search.rankers import Ranked


def facts_table(title: str, facts: Mapping[str, Any]) -> DataTable:
    """One row for each fact."""
    rows = [{"fact": name, "value": value} for name, value in facts.items()]
    columns = (
        Column("fact", text("fact"), numeric=False),
        Column("value", lambda row: _shown(row["value"]), numeric=False),
    )
    return DataTable("facts", title, "documents to search, one a line", columns, rows)


def documents_table(pages: Iterable[Page]) -> DataTable:
    """The first documents of a file."""
    rows = [{"id": page.id, "title": page.title, "url": page.url, "chars": len(page.text)} for page in pages]
    columns = (
        Column("id", text("id"), numeric=False),
        Column("chars", number("chars", ",")),
        Column("title", text("title"), numeric=False),
        Column("url", text("url"), numeric=False),
    )
    return DataTable("documents", "The first documents", "in the order of the file", columns, rows)


def found_table(ranker: str, found: Iterable[tuple[Ranked, Page]]) -> DataTable:
    """What was found, best first."""
    rows = [
        {"rank": rank, "id": one.id, "score": one.score, "title": page.title, "url": page.url}
        for rank, (one, page) in enumerate(found, 1)
    ]
    columns = (
        Column("rank", number("rank", "d")),
        Column("score", number("score", ".4f")),
        Column("id", text("id"), numeric=False),
        Column("title", text("title"), numeric=False),
        Column("url", text("url"), numeric=False),
    )
    caption = "scores compare documents for this query, and nothing else"
    return DataTable("found", f"Ranked by {ranker}", caption, columns, rows)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
