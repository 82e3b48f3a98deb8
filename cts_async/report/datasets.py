"""Datasets and corpora on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.datasets.fields import short
from cts_async.datasets.inspect import Contents, Fact, Span, counted
from cts_async.datasets.io import MAX_LINE_BYTES, byte_lines, earlier_line
from cts_async.datasets.registry import Kind
from cts_async.errors import InputError
from cts_async.report.tables import Column, DataTable, number, text
from cts_async.report.text import plain
from cts_async.search.backends.base import Page
from cts_async.search.backends.corpus import parse_document
from cts_async.search.rankers import Ranked

# Kinds of datasets, contents and items. All text is untrusted and printed without control characters.

_LABELS: Final = {"blurred_query": "q", "fused_query": "q*"}
"""Printed names of fields, if not their own."""

Line = tuple[str, str]
"""A label, "" for none, and its text."""


def print_kinds(console: Console, kinds: Iterable[Kind]) -> None:
    """Print a paragraph for each kind of dataset."""
    for about in kinds:
        of = f"{about.paper}; {about.licence}" if about.paper else about.licence
        lines = [
            ("what", about.what),
            ("from", f"{about.source} ({of})"),
            ("--data" if about.taken else "name", about.spec),
            ("expects", about.expects),
            ("used by", "; ".join(about.uses)),
        ]
        _print(console, about.title, lines)


def print_contents(console: Console, title: str, paths: Sequence[Path], contents: Contents) -> None:
    """Print the contents of a dataset, one fact per line."""
    lines = [("file", str(path)) for path in paths]
    lines += [("holds" if not number else "", fact.text) for number, fact in enumerate(contents.facts)]
    lines += [("note", note) for note in contents.notes]
    _print(console, title, lines)


def print_item(console: Console, item: Mapping[str, Any], *, whole: bool = False) -> None:
    """Print an instance or a pane; lists of records are counted, or with `whole` printed."""
    _print(console, str(item["id"]), _item_lines(item, whole))


def _item_lines(item: Mapping[str, Any], whole: bool) -> Iterator[Line]:
    for name, value in item.items():
        label = _LABELS.get(name, name.replace("_", " "))
        if name == "id" or value is None or value in ([], ()):
            continue
        if not isinstance(value, list | tuple):
            yield label, str(value)
        elif not isinstance(value[0], dict):
            yield label, " | ".join(map(str, value))
        elif not whole:
            yield label, str(len(value))
        else:
            yield from ((label if not n else "", _record(record)) for n, record in enumerate(value))


def _record(record: Mapping[str, Any]) -> str:
    """Format a pair of question and answer, or a nugget."""
    if "question" in record:
        return f"{record['question']} -> {record['answer']}"
    sources = f" [{', '.join(record['source_ids'])}]" if record.get("source_ids") else ""
    return f"{record['id']} (weight {record['weight']:g}): {record['text']}{sources}"


def _print(console: Console, title: str, lines: Iterable[Line]) -> None:
    """Print a title, labelled lines folded in their column, and an empty line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in lines:
        grid.add_row(Text(f"  {label}"), Text(plain(value)))
    console.print(Text(plain(title), style="bold"))
    console.print(grid)
    console.print()


# Contents of a corpus: its documents are parsed as for searching, in bounded memory and without an index.


def corpus_contents(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Contents:
    """Count the documents. Raises InputError with the line for an invalid document, and for a repeated id or url."""
    seen: dict[str, dict[str, int]] = {"id": {}, "url": {}}
    length, empty = Span(), 0
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        if not line.raw.strip():
            continue
        page = parse_document(line.raw, path, line.number)
        for field, value in (("id", page.id), ("url", page.url)):
            if (earlier := earlier_line(seen[field], value, line.number)) is not None:
                problem = f"{short(value)} is already on line {earlier}"
                raise InputError(path, problem, line=line.number, field=field)
        length.add(len(page.text))
        empty += not page.text.strip()
    if not length.n:
        raise InputError(path, "contains no document")
    facts = (
        Fact("documents", length.n, counted(length.n, "document")),
        Fact("text_chars", length.as_json(), f"characters of text: {length}"),
        Fact("empty", empty, f"{empty:,} without text"),
    )
    return Contents(facts)


# Tables of a corpus


def facts_table(title: str, facts: Mapping[str, Any]) -> DataTable:
    """A row for each fact."""
    rows = [{"fact": name, "value": value} for name, value in facts.items()]
    columns = (
        Column("fact", text("fact"), numeric=False),
        Column("value", lambda row: _shown(row["value"]), numeric=False),
    )
    return DataTable("facts", title, "documents to search, one a line", columns, rows)


def documents_table(pages: Iterable[Page]) -> DataTable:
    """The first documents of the file."""
    rows = [{"id": page.id, "title": page.title, "url": page.url, "chars": len(page.text)} for page in pages]
    columns = (
        Column("id", text("id"), numeric=False),
        Column("chars", number("chars", ",")),
        Column("title", text("title"), numeric=False),
        Column("url", text("url"), numeric=False),
    )
    return DataTable("documents", "The first documents", "in the order of the file", columns, rows)


def found_table(ranker: str, found: Iterable[tuple[Ranked, Page]]) -> DataTable:
    """Ranked documents, best first."""
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
    caption = "scores are comparable within one query only"
    return DataTable("found", f"Ranked by {ranker}", caption, columns, rows)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
