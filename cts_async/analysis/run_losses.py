"""Where an instance of a finished run lost its points: what its trace holds, read from the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cts_async.analysis.losses import Document, Label, NuggetLoss, QueryForms, nugget_losses
from cts_async.errors import CTSError
from cts_async.foreign_json import as_list, as_object, as_text, as_texts
from cts_async.records import COVERAGES, DONT_KNOW, UNKNOWN
from cts_async.runs.gold_texts import GoldNugget
from cts_async.runs.open_run import OpenRun
from cts_async.runs.results import nuggets_of
from cts_async.runs.trace import Event, journal_bytes, whole_events
from cts_async.search.tools import read_hits

MAX_TRACE_BYTES: Final = 4_000_000
"""Of an instance in the journal, three times that of 20 long pages. Words of 20 MB take 4 s, before a page is shown."""
_FETCHING: Final = ("search", "visit", "page", "source")
"""Kinds of events with documents: an instance without any has no trace of where its points were lost."""


def instance_losses(
    run: OpenRun, line: Mapping[str, Any], verdict: Mapping[str, Any], gold: Mapping[str, GoldNugget]
) -> tuple[NuggetLoss, ...]:
    """Attribute what the answer in `line`, a line of results, lost by `verdict`, a judge's line on it."""
    labels: list[Label] = []
    for row in nuggets_of({"judge": verdict}):
        coverage = row["coverage"]["judge"]
        # Files may be edited: a label of another word has no points to lose.
        if coverage in COVERAGES:
            labels.append(Label(row["id"], row["weight"], coverage))
    if not labels:
        return ()
    return nugget_losses(labels, gold, documents_of(run, str(line.get("id"))), query_forms(line))


def query_forms(line: Mapping[str, Any]) -> QueryForms:
    """Return the queries of a line of results; "" for one that it does not have.

    What the agent was told during its search counts as searched for: it stands in no query that a line has.
    """
    searched = as_text(line.get("rewritten_query")) or ""
    if searched:
        searched = "\n".join([searched, *_told(line)])
    return QueryForms(
        intent=as_text(line.get("fused_query")) or "",
        query=as_text(line.get("blurred_query")) or "",
        searched=searched,
    )


def _told(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield the questions with known replies that the agent had beside its query."""
    pairs: list[tuple[str, str]] = []
    if line.get("injected_turn") is not None:
        pairs += zip(as_texts(line.get("questions")), as_texts(line.get("answers")), strict=False)
    for ask in map(as_object, as_list(line.get("asks"))):
        pairs.append((as_text(ask.get("question")) or "", as_text(ask.get("reply")) or ""))
    for question, reply in pairs:
        # The question as well: "yes" alone tells nothing.
        if reply not in (UNKNOWN, DONT_KNOW):
            yield f"{question} {reply}"


def documents_of(run: OpenRun, id: str) -> list[Document] | None:
    """The search results and pages of an instance, in order; None without any, and for more than `MAX_TRACE_BYTES`.

    What a custom agent fetched, or reports as its sources, counts as read by it.
    """
    if journal_bytes(run, id) > MAX_TRACE_BYTES:
        return None
    events = whole_events(run, id)
    kinds = {event.kind for event in events}
    if kinds.isdisjoint(_FETCHING):
        return None
    documents: list[Document] = []
    # Where pages are visited with a goal, the agent reads only what was extracted of the page.
    unread: dict[str, str] = {}
    for number, event in enumerate(events, 1):
        url, _, title = event.request.partition("\n")
        if event.kind == "search":
            documents += _search_results(event, number)
        elif event.kind == "page" and "visit" in kinds:
            unread[url] = event.whole_text()
        elif event.kind in ("page", "visit") and event.step:
            title = as_text(as_object(event.step.record.get("response")).get("title")) or ""
            text = event.whole_text()
            documents.append(Document(url, title, text, "page", number, unread=unread.get(url, "")))
        elif event.kind == "source":
            documents.append(Document(url, title, event.text, "page", number))
    return documents


def _search_results(event: Event, number: int) -> list[Document]:
    """Return the results of a search; none of one that failed, or whose record is damaged."""
    if not event.step:
        return []
    try:
        hits = read_hits(event.step.record.get("response"))
    except CTSError:
        return []
    documents: list[Document] = []
    for rank, hit in enumerate(hits, 1):
        documents.append(Document(hit.url, hit.title, hit.snippet, "snippet", number, rank))
    return documents
