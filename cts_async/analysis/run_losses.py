"""Where an instance of a finished run lost its points: what its trace holds, read from the journal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from cts_async.analysis.losses import Document, Label, NuggetLoss, QueryForms, nugget_losses
from cts_async.errors import CTSError
from cts_async.foreign_json import as_object, as_text
from cts_async.records import COVERAGES
from cts_async.runs.gold_texts import GoldNugget
from cts_async.runs.open_run import OpenRun
from cts_async.runs.results import nuggets_of
from cts_async.runs.trace import Event, journal_bytes, whole_events
from cts_async.search.tools import read_hits

MAX_TRACE_BYTES: Final = 4_000_000
"""Of an instance in the journal, three times that of 20 long pages. Words of 20 MB take 4 s, before a page is shown."""


def instance_losses(
    run: OpenRun, line: Mapping[str, Any], verdict: Mapping[str, Any], gold: Mapping[str, GoldNugget]
) -> tuple[NuggetLoss, ...]:
    """Attribute what the answer in `line`, a line of results, lost by `verdict`, a judge's line on it."""
    labels = [
        Label(row["id"], row["weight"], row["coverage"]["judge"])
        for row in nuggets_of({"judge": verdict})
        if row["coverage"]["judge"] in COVERAGES
    ]
    if not labels:
        return ()
    return nugget_losses(labels, gold, documents_of(run, str(line.get("id"))), queries_of(line))


def queries_of(line: Mapping[str, Any]) -> QueryForms:
    fused, blurred, rewritten = (
        as_text(line.get(f"{name}_query")) or "" for name in ("fused", "blurred", "rewritten")
    )
    return QueryForms(fused, blurred, rewritten)


def documents_of(run: OpenRun, id: str) -> list[Document] | None:
    """The search results and pages of an instance, in order; None without any, and for more than `MAX_TRACE_BYTES`.

    What a custom agent fetched, or reports as its sources, counts as read by it.
    """
    if journal_bytes(run, id) > MAX_TRACE_BYTES:
        return None
    events = whole_events(run, id)
    if not any(event.kind in ("search", "visit", "page", "source") for event in events):
        return None
    found: list[Document] = []
    fetched: dict[str, str] = {}
    """Pages of which the agent reads only what was extracted for its goal."""
    extracts = any(event.kind == "visit" for event in events)
    for n, event in enumerate(events, 1):
        url, _, about = event.request.partition("\n")
        if event.kind == "search":
            found += _results(event, n)
        elif event.kind == "page" and extracts:
            fetched[url] = event.whole_text()
        elif event.kind in ("page", "visit") and event.step:
            title = as_text(as_object(event.step.record.get("response")).get("title")) or ""
            found.append(Document(url, title, event.whole_text(), "page", n, unread=fetched.get(url, "")))
        elif event.kind == "source":
            found.append(Document(url, about, event.text, "page", n))
    return found


def _results(event: Event, n: int) -> list[Document]:
    with suppress(CTSError):
        hits = read_hits(event.step.record.get("response")) if event.step else ()
        return [
            Document(hit.url, hit.title, hit.snippet, "snippet", n, rank) for rank, hit in enumerate(hits, 1)
        ]
    return []
