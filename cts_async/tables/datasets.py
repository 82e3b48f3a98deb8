"""Datasets and corpora on a terminal."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from cts_async.datasets.inspect import spread
from cts_async.datasets.io import unreadable
from cts_async.datasets.kinds import Contents, Kind
from cts_async.search.backends import Page, Ranked
from cts_async.search.backends.corpus import read_documents
from cts_async.tables.table import Column, DataTable, number_columns, print_facts, text_columns

# --- Kinds of datasets, contents and items. All text is untrusted and printed without control characters.

_LABELS: Final = {"blurred_query": "q", "fused_query": "q*"}
"""Printed names of fields, if not their own."""


def print_kinds(console: Console, kinds: Iterable[Kind]) -> None:
    """Print a paragraph for each kind of dataset."""
    for kind in kinds:
        source = f"{kind.source} ({kind.licence})"
        if kind.paper:
            source = f"{kind.source} ({kind.paper}; {kind.licence})"
        spec_label = "name"
        if kind.taken:
            spec_label = "--data"
        lines = [
            ("what", kind.what),
            ("from", source),
            (spec_label, kind.spec),
            ("expects", kind.expects),
            ("used by", "; ".join(kind.uses)),
        ]
        print_facts(console, kind.title, lines)


def print_contents(console: Console, title: str, paths: Sequence[Path], contents: Contents) -> None:
    """Print the contents of a dataset, one fact per line."""
    lines: list[tuple[str, str]] = []
    for path in paths:
        lines.append(("file", str(path)))
    lines += fact_lines(contents)
    for note in contents.notes:
        lines.append(("note", note))
    print_facts(console, title, lines)


def fact_lines(contents: Contents) -> list[tuple[str, str]]:
    """Return the name and the value of each fact: `("nuggets", "total 12, min 2, mean 3.0, max 4")`."""
    return [(name.replace("_", " "), _shown(value)) for name, value in contents.facts.items()]


def print_item(console: Console, item: Mapping[str, Any], *, whole: bool = False) -> None:
    """Print an instance or a pane; lists of records are counted, or with `whole` printed."""
    print_facts(console, str(item["id"]), _item_lines(item, whole))


def _item_lines(item: Mapping[str, Any], whole: bool) -> Iterator[tuple[str, str]]:
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
            for record in value:
                yield label, _shown(record)


def corpus_contents(path: Path) -> Contents:
    """Count the documents, without an index. Raises InputError with the line for an invalid document."""
    lengths = array("q")
    empty = 0
    try:
        with path.open("rb") as stream:
            for _, _, page in read_documents(stream, path):
                lengths.append(len(page.text))
                empty += not page.text.strip()
    except OSError as error:
        raise unreadable(path, error) from None
    return Contents({"documents": len(lengths), "text_chars": spread(lengths), "empty": empty})


# --- Tables of a corpus


def facts_table(title: str, facts: Mapping[str, Any]) -> DataTable:
    """A row for each fact."""
    rows = [{"fact": name, "value": value} for name, value in facts.items()]
    columns = text_columns("fact") + (Column("value", lambda row: _shown(row["value"]), numeric=False),)
    return DataTable("facts", title, "documents to search, one a line", columns, rows)


def documents_table(pages: Iterable[Page]) -> DataTable:
    """The first documents of the file."""
    rows: list[dict[str, Any]] = []
    for page in pages:
        rows.append({"id": page.id, "title": page.title, "url": page.url, "chars": len(page.text)})
    columns = text_columns("id") + number_columns(chars=",") + text_columns("title", "url")
    return DataTable("documents", "The first documents", "in the order of the file", columns, rows)


def found_table(ranker: str, pages: Iterable[tuple[Ranked, Page]]) -> DataTable:
    """Ranked documents, best first."""
    rows: list[dict[str, Any]] = []
    for rank, (ranked, page) in enumerate(pages, start=1):
        rows.append(
            {"rank": rank, "id": ranked.id, "score": ranked.score, "title": page.title, "url": page.url}
        )
    columns = number_columns(rank="d", score=".4f") + text_columns("id", "title", "url")
    caption = "scores are comparable within one query only"
    return DataTable("found", f"Ranked by {ranker}", caption, columns, rows)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "-"
        case True:
            return "yes"
        case False:
            return "no"
        case float():
            return f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
        case list():
            return ", ".join(map(_shown, value))
    return str(value)
