"""JSON in a model's text (whole, fenced, amid prose, or broken and repaired), and its thoughts apart from its answer.

A well-formed reply costs one `orjson.loads`; everything else is searched for only when that fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from cts_async.errors import UnusableOutput
from cts_async.foreign_json import as_texts, check_depth, loads
from cts_async.thoughts import split_marks, unknown_mark

MAX_REPAIR_CHARS: Final = 20_000
MAX_REPAIR_WORK: Final = 24_000_000
"""Characters times brackets and quotes: json_repair goes back at each, which takes about a second for this product."""
MAX_SPANS: Final = 5
"""Bracketed spans that are tried, the longest first."""


@dataclass(frozen=True, slots=True)
class FoundJson:
    """A JSON array or object found in text.

    `source` is the text it was read from; `repaired` if that was not valid JSON, and `cut_off` if it ended inside a
    string, so that its last string is incomplete. `before` and `after` are the text around it, without thoughts and
    without its code fence, whose `label` is "json" in most cases.
    """

    value: dict[str, Any] | list[Any]
    source: str
    repaired: bool = False
    cut_off: bool = False
    before: str = ""
    after: str = ""
    label: str = ""


_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THOUGHT_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"(```|~~~)[ \t]*([\w+-]*)[ \t]*\n?(.*?)\1", re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_BRACKET_OR_QUOTE = re.compile(r'[\[\]{}"]')
_STRING_REST = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)
_LIKE_JSON = re.compile(r"""\[\s*["'“‘{\[\]\d-]|\{\s*(?:["'“‘}]|\w+\s*:)""")
_HALVES: Final = str.maketrans("，：［］｛｝", ",:[]{}")
# A string may be unclosed: looked for again at each quote, it would take quadratic time.
_STRING_OR_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|([，：［］｛｝])')
_CLOSES: Final = {"]": "[", "}": "{"}


def find_json(text: str) -> FoundJson:
    """Find the JSON array or object in a model's reply; raises UnusableOutput if there is none.

    The whole text if it is JSON; else the longest fenced block that is; else the longest bracketed span, repaired if
    necessary.
    """
    value = loads_or_none(text)
    if isinstance(value, (dict, list)):
        return FoundJson(value, text)
    inner = text
    if isinstance(value, str):  # JSON that was written as JSON once more
        inner = value
    inner = answer_text(inner)
    reply = _whole(inner) or _fenced(inner) or _half_width(inner) or _bracketed(inner)
    if reply is None:
        raise UnusableOutput("expected JSON, but the reply holds none", text=text)
    return reply


def answer_text(text: str) -> str:
    """A reply without its thoughts. Raises UnusableOutput where a mark of no known format opens it."""
    answer = strip_thoughts(text)
    mark = unknown_mark(answer)
    if mark:
        raise UnusableOutput(unknown_mark_problem(mark), text=text)
    return answer


def unknown_mark_problem(mark: str) -> str:
    """The sentence for the model whose reply begins with a mark of no known format."""
    return f"it begins with the mark {mark}, so that thoughts and answer cannot be told apart; give the answer alone"


def strip_thoughts(text: str) -> str:
    """Remove thoughts and surrounding space: by any known marks at the head, and `<think>…</think>` anywhere.

    The latter also where a thought is never opened or never closed.
    """
    split = split_marks(text)
    if split:
        text = text[split.start : split.end]
    return strip_think_tags(text)


def strip_think_tags(text: str) -> str:
    """Remove `<think>…</think>` and surrounding space; other marks of thoughts stay, as up to version 0.11."""
    if "<" in text:
        end = 0
        for closing in _THOUGHT_END.finditer(text):
            end = closing.end()
        # Up to the last closing tag: what is outside of pairs, behind the last tag that closes what was never opened.
        answer = _THOUGHT_END.split(_THOUGHT.sub("", text[:end]))[-1]
        # Behind it: what stands in front of a thought that is never closed.
        text = answer + _THOUGHT_START.split(text[end:], maxsplit=1)[0]
    return text.strip("\ufeff \t\r\n")


def loads_or_none(text: str) -> object:
    """The JSON value of a text; None if it is none, or nested too deeply to be a reply."""
    try:
        return loads(text)
    except ValueError:
        return None


def only_string(value: dict[str, Any] | list[Any]) -> str | None:
    """The string in a JSON array or object that holds exactly one; else None."""
    if isinstance(value, dict):
        value = list(value.values())
    strings = as_texts(value)
    if len(strings) == 1:
        return strings[0]
    return None


def _whole(text: str) -> FoundJson | None:
    value = loads_or_none(text)
    if isinstance(value, (dict, list)):
        return FoundJson(value, text)
    return None


def _fenced(text: str) -> FoundJson | None:
    """The longest fenced block that is JSON; of equally long ones the last, which is the reply's final version."""
    longest: FoundJson | None = None
    for fence in _FENCE.finditer(text):
        block = _whole(fence[3])
        if block and (longest is None or len(block.source) >= len(longest.source)):
            before, after = text[: fence.start()], text[fence.end() :]
            longest = replace(block, before=before, after=after, label=fence[2])
    return longest


def _half_width(text: str) -> FoundJson | None:
    """The JSON in a text with full-width brackets, commas or colons (Chinese models); strings stay unchanged."""
    halved = _STRING_OR_MARK.sub(_half, text)
    if halved == text:
        return None
    halved_json = _bracketed(halved)
    # What needs other repairs, too, is repaired from the text as it is.
    if halved_json is None or halved_json.repaired:
        return None
    return replace(halved_json, repaired=True)


def _half(string_or_mark: re.Match[str]) -> str:
    if string_or_mark[1]:
        return string_or_mark[1].translate(_HALVES)
    return string_or_mark[0]


def _bracketed(text: str) -> FoundJson | None:
    """The longest bracketed span that is JSON or can be repaired into it."""
    # Of equally long ones the last, as in `_fenced`.
    spans = sorted(_spans(text), key=lambda span: (span[0] - span[1], -span[0]))
    for start, end, cut_off in spans[:MAX_SPANS]:
        source = text[start:end]
        span_json = _whole(source)
        if span_json is None and _LIKE_JSON.match(source):
            span_json = _repaired(source, cut_off)
        if span_json:
            return replace(span_json, before=text[:start], after=text[end:])
    return None


def _spans(text: str) -> list[tuple[int, int, bool]]:
    """The outermost bracketed spans in order: start, end, and whether the text ends within one of its strings.

    The last one may be unclosed.
    """
    opened: list[int] = []
    spans: list[tuple[int, int, bool]] = []
    position, end, cut_off = 0, len(text), False
    while True:
        # Outside of brackets a quote is one of the prose, and may have no second one.
        marks = _BRACKET_OR_QUOTE if opened else _BRACKET
        match = marks.search(text, position)
        if match is None:
            break
        position, mark = match.end(), match[0]
        if mark == '"':
            string = _STRING_REST.match(text, position)
            cut_off = string is None
            position = string.end() if string else end
        elif mark in "[{":
            opened.append(match.start())
        elif opened and text[opened[-1]] == _CLOSES[mark]:
            start = opened.pop()
            # Spans within this one, of which only the outermost counts.
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, position, False))
    if opened:
        spans.append((opened[0], end, cut_off))
    return spans


def repairable(text: str) -> bool:
    """True if json_repair handles `text` quickly: its time may grow quadratically, and it blocks the event loop."""
    marks = sum(map(text.count, '{}[]"'))
    return len(text) <= MAX_REPAIR_CHARS and len(text) * marks <= MAX_REPAIR_WORK


def _repaired(source: str, cut_off: bool) -> FoundJson | None:
    """What json_repair makes of `source`; None where that would take long or yields nothing."""
    if not repairable(source):
        return None
    from json_repair import repair_json

    try:
        value = repair_json(source, return_objects=True, skip_json_loads=True)
        check_depth(value)
        orjson.dumps(value)  # a TypeError for lone surrogates and huge integers
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(value, (dict, list)) or not value:
        return None
    return FoundJson(value, source, repaired=True, cut_off=cut_off)


THOUGHT_TAGS: Final = frozenset({"think", "thinking", "thought"})
_NAMES: Final = "|".join(sorted(THOUGHT_TAGS))
_CLOSED_ONLY: Final = re.compile(rf"\n</({_NAMES})>[ \t]*(?:\n|\Z)", re.IGNORECASE)
"""For replies whose chat template opened the thought: its end stands on a line of its own."""


def split_thoughts(text: str, *, tags: bool = True) -> tuple[str, str]:
    """Return (thoughts, answer); without thoughts the answer is `text` as it is.

    Only thoughts at the very beginning count: further on, a mark may be quoted from a page or a candidate. A thought
    that is never closed was cut off, and leaves no answer. Without `tags`, `<think>` and its kind stay in the answer.
    """
    # As the replies of judges are: no mark begins so, and none can follow.
    if text.startswith("{") and "<" not in text:
        return "", text
    split = split_marks(text, tags=tags)
    if split:
        return "\n\n".join(split.thoughts), text[split.start : split.end]
    if not tags or "<" not in text:
        return "", text
    closed = _CLOSED_ONLY.search(text)
    if closed is None or re.search(rf"<{closed[1]}>", text[: closed.start()], re.IGNORECASE):
        return "", text
    return text[: closed.start()].strip(), text[closed.end() :].lstrip()
