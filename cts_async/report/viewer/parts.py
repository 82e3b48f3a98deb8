"""The long texts in a journal's line, each under a name: what a trace shows of them and what is sent whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cts_async.errors import CTSError
from cts_async.protocol.visit import EvidenceForm
from cts_async.report.viewer.values import as_int, as_list, as_object, as_text
from cts_async.search.backends.base import Page
from cts_async.search.tools import Evidence, read_evidence, read_hits, read_lexically
from cts_async.search.turn_format import final_answer, format_search, parse_turn

Record = Mapping[str, Any]

LEXICAL: Final = "lexical"
MAX_SHARE: Final = 1_000_000


def text_of(record: Record, part: str) -> str | None:
    """One text of a record; None where it has none of that name."""
    name, _, more = part.partition("/")
    try:
        read = _READERS.get(name)
        return None if read is None else read(record, more)
    except (CTSError, ValueError):
        return None


def lexical(share: int, goal: str) -> str:
    """The name of what a page says about a goal by its words alone, in `share` characters at most."""
    return f"{LEXICAL}/{share}/{goal}"


def in_words(read: Evidence) -> str:
    """What was read of a page: the evidence, and what that comes to."""
    return "\n\n".join(filter(None, (read.evidence.strip(), read.summary.strip())))


def _response(record: Record) -> Mapping[str, Any]:
    return as_object(record.get("response"))


def _said(record: Record, more: str) -> str | None:
    return as_text(_response(record).get("text"))


def _reasoning(record: Record, more: str) -> str | None:
    return as_text(_response(record).get("reasoning"))


def _thought(record: Record, number: str) -> str | None:
    thoughts = parse_turn(_said(record, "") or "").thoughts
    place = int(number) if number.isdecimal() else 0
    return thoughts[place - 1] if 0 < place <= len(thoughts) else None


def _made_up(record: Record, more: str) -> str | None:
    return parse_turn(_said(record, "") or "").made_up or None


def _answer(record: Record, more: str) -> str | None:
    said = _said(record, "")
    return None if said is None else final_answer(said)[0]


def _demand(record: Record, more: str) -> str | None:
    return as_text(as_object(record.get("request")).get("demand"))


def _hits(record: Record, more: str) -> str | None:
    query = as_text(as_object(record.get("request")).get("query")) or ""
    return format_search(query, read_hits(_response(record)))


def _evidence(record: Record, more: str) -> str | None:
    return in_words(read_evidence(_response(record))[1])


def _reading(record: Record, more: str) -> str | None:
    said = _said(record, "")
    return None if said is None else in_words(EvidenceForm().parse(said))


def _lexical(record: Record, more: str) -> str | None:
    share, _, goal = more.partition("/")
    page, text = _response(record), _said(record, "")
    if text is None or not share.isdecimal() or len(share) > 9:
        return None
    url, title = as_text(page.get("url")) or "", as_text(page.get("title")) or ""
    return in_words(read_lexically(Page(url, url, title, text), goal, min(int(share), MAX_SHARE)))


def links_of(record: Record) -> list[tuple[str, str]]:
    """The addresses and titles that a search or a page brought."""
    response = _response(record)
    rows = [[text for text in as_list(row) if isinstance(text, str)] for row in as_list(response.get("hits"))]
    if rows:
        return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row]
    url = as_text(response.get("url")) or as_text(as_object(record.get("request")).get("url"))
    return [(url, as_text(response.get("title")) or "")] if url else []


def tokens_of(record: Record) -> tuple[int, int]:
    """Tokens of prompt and reply that a step was charged."""
    usage = as_object(record.get("usage"))
    return as_int(usage.get("input")), as_int(usage.get("output"))


_READERS: Final[Mapping[str, Callable[[Record, str], str | None]]] = {
    "text": _said,
    "reasoning": _reasoning,
    "thought": _thought,
    "made_up": _made_up,
    "answer": _answer,
    "demand": _demand,
    "hits": _hits,
    "evidence": _evidence,
    "reading": _reading,
    LEXICAL: _lexical,
}
