"""Is a corpus sound? Its documents are parsed as searching it would, in bounded memory and without an index."""

from __future__ import annotations

from pathlib import Path

from cts_async.datasets.contents import Contents, Fact, Span, counted
from cts_async.datasets.fields import short
from cts_async.datasets.lines import MAX_LINE_BYTES, byte_lines
from cts_async.datasets.unique import FirstLines
from cts_async.errors import InputError
from cts_async.search.backends.index import parse_document


def corpus_contents(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Contents:
    """Count the documents. InputError with the line for what is none, and for an id or url that stands twice."""
    seen = {"id": FirstLines(), "url": FirstLines()}
    length, empty = Span(), 0
    for line in byte_lines(path, max_line_bytes=max_line_bytes):
        if not line.raw.strip():
            continue
        page = parse_document(line.raw, path, line.number)
        for field, value in (("id", page.id), ("url", page.url)):
            if (earlier := seen[field].add(value, line.number)) is not None:
                problem = f"{short(value)} stands already on line {earlier}"
                raise InputError(path, problem, line=line.number, field=field)
        length.add(len(page.text))
        empty += not page.text.strip()
    if not length.n:
        raise InputError(path, "holds no document")
    facts = (
        Fact("documents", length.n, counted(length.n, "document")),
        Fact("text_chars", length.as_json(), f"characters of text: {length}"),
        Fact("empty", empty, f"{empty:,} without text"),
    )
    return Contents(facts)
