"""Datasets on a terminal: the kinds there are, what one holds, and its instances. Nobody's text moves the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.datasets.about import About
from cts_async.datasets.contents import Contents
from cts_async.report.plain import plain

_LABELS: Final = {"blurred_query": "q", "fused_query": "q*"}
"""What an item's fields are called in print; the others by their own names."""

Line = tuple[str, str]
"""A label, "" for none, and what it says."""


def print_kinds(console: Console, kinds: Iterable[About]) -> None:
    """A paragraph for each kind of dataset."""
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
    """What a dataset holds, a fact to a line."""
    lines = [("file", str(path)) for path in paths]
    lines += [("holds" if not number else "", fact.text) for number, fact in enumerate(contents.facts)]
    lines += [("note", note) for note in contents.notes]
    _print(console, title, lines)


def print_item(console: Console, item: Mapping[str, Any], *, whole: bool = False) -> None:
    """An instance or a pane; its lists of records are counted, or with `whole` printed."""
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
    """A pair of question and answer, or a nugget."""
    if "question" in record:
        return f"{record['question']} -> {record['answer']}"
    sources = f" [{', '.join(record['source_ids'])}]" if record.get("source_ids") else ""
    return f"{record['id']} (weight {record['weight']:g}): {record['text']}{sources}"


def _print(console: Console, title: str, lines: Iterable[Line]) -> None:
    """A title with labelled lines under it, folded in their column, and a free line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in lines:
        grid.add_row(Text(f"  {label}"), Text(plain(text)))
    console.print(Text(plain(title), style="bold"))
    console.print(grid)
    console.print()
