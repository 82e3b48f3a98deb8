"""Parts of a text that matter for a few words: sentences, and the best stretch of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cts_async.search.backends.tokens import present

Span = tuple[int, int]

_SENTENCE_END: Final = re.compile(r"""[。！？；…]+[”’」』）"']*|(?<![.!?])[.!?]++["'”’)\]]*+(?=\s|\Z)|\n+""")
_BREAKS: Final = " \t，、,："


def sentence_spans(text: str, max_chars: int) -> list[Span]:
    """Give (start, end) of each sentence, trimmed, in order, none longer than `max_chars`."""
    spans: list[Span] = []
    start = 0
    for end in [match.end() for match in _SENTENCE_END.finditer(text)] + [len(text)]:
        spans.extend(_pieces(text, start, end, max(1, max_chars)))
        start = end
    return spans


def _pieces(text: str, start: int, end: int, max_chars: int) -> Iterator[Span]:
    while True:
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if end - start <= max_chars:
            break
        cut = _last_break(text, start, start + max_chars)
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _last_break(text: str, start: int, limit: int) -> int:
    """Find where to cut a long sentence: after a gap or comma in its second half, else at the limit."""
    cut = max(text.rfind(ch, start, limit) for ch in _BREAKS)
    return cut + 1 if cut - start >= (limit - start) // 2 else limit


def best_window(text: str, weights: Mapping[str, float], max_chars: int) -> str:
    """Give the stretch of whole sentences, at most `max_chars` long, whose different terms weigh most.

    The first of equals wins; a text with none of the terms gives its beginning, an empty one "".
    """
    spans = sentence_spans(text, max_chars)
    if not spans:
        return ""
    found = [present(text[start:end], weights) for start, end in spans]
    starts = [row for row, terms in enumerate(found) if terms] or [0]
    best = max(starts, key=lambda row: (_weight(spans, found, row, weights, max_chars), -row))
    return " ".join(_stretch(text, spans, best, max_chars).split())


def _weight(
    spans: list[Span], found: list[set[str]], first: int, weights: Mapping[str, float], max_chars: int
) -> float:
    terms = set().union(*found[first : _last(spans, first, max_chars) + 1])
    return sum(weight for term, weight in weights.items() if term in terms)


def _last(spans: list[Span], first: int, max_chars: int) -> int:
    last = first
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= max_chars:
        last += 1
    return last


def _stretch(text: str, spans: list[Span], first: int, max_chars: int) -> str:
    """Cut out the window from `first`; room left over is filled with what stands before it."""
    end = spans[_last(spans, first, max_chars)][1]
    while first > 0 and end - spans[first - 1][0] <= max_chars:
        first -= 1
    return text[spans[first][0] : end]
