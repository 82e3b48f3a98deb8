"""JSON in a model's text (whole, fenced, amid prose, or broken and repaired), and its thoughts apart from its answer.

A well-formed reply costs one `orjson.loads`; everything else is searched for only when that fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from cts_async.errors import UnusableOutput
from cts_async.foreign_json import check_depth, loads
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
    inner = answer_text(value if isinstance(value, str) else text)
    found = _whole(inner) or _fenced(inner) or _half_width(inner) or _bracketed(inner)
    if found is None:
        raise UnusableOutput("expected JSON, but the reply holds none", text=text)
    return found


def answer_text(text: str) -> str:
    """A reply without its thoughts. Raises UnusableOutput where a mark of no known format opens it."""
    answer = strip_thoughts(text)
    if mark := unknown_mark(answer):
        raise UnusableOutput(unknown_mark_problem(mark), text=text)
    return answer


def unknown_mark_problem(mark: str) -> str:
    """The sentence for the model whose reply begins with a mark of no known format."""
    return f"it begins with the mark {mark}, so that thoughts and answer cannot be told apart; give the answer alone"


def strip_thoughts(text: str) -> str:
    """Remove thoughts and surrounding space: by any known marks at the head, and `<think>…</think>` anywhere.

    The latter also where a thought is never opened or never closed.
    """
    if split := split_marks(text):
        text = text[split.start : split.end]
    return strip_think_tags(text)


def strip_think_tags(text: str) -> str:
    """Remove `<think>…</think>` and surrounding space; other marks of thoughts stay, as up to version 0.11."""
    if "<" in text:
        end = max((match.end() for match in _THOUGHT_END.finditer(text)), default=0)
        thoughts = _THOUGHT_END.split(_THOUGHT.sub("", text[:end]))[-1]
        text = thoughts + _THOUGHT_START.split(text[end:], maxsplit=1)[0]
    return text.strip("\ufeff \t\r\n")


def loads_or_none(text: str) -> object:
    """The JSON value of a text; None if it is none, or nested too deeply to be a reply."""
    try:
        return loads(text)
    except ValueError:
        return None


def only_string(value: dict[str, Any] | list[Any]) -> str | None:
    """The string in a JSON array or object that holds exactly one; else None."""
    parts = value.values() if isinstance(value, dict) else value
    strings = [part for part in parts if isinstance(part, str)]
    return strings[0] if len(strings) == 1 else None


def _whole(text: str) -> FoundJson | None:
    value = loads_or_none(text)
    return FoundJson(value, text) if isinstance(value, (dict, list)) else None


def _fenced(text: str) -> FoundJson | None:
    """The longest fenced block that is JSON; of equally long ones the last, which is the reply's final version."""
    blocks = [
        replace(found, before=text[: match.start()], after=text[match.end() :], label=match[2])
        for match in _FENCE.finditer(text)
        if (found := _whole(match[3]))
    ]
    return max(reversed(blocks), key=lambda found: len(found.source), default=None)


def _half_width(text: str) -> FoundJson | None:
    """The JSON in a text with full-width brackets, commas or colons (Chinese models); strings stay unchanged."""
    halved = _STRING_OR_MARK.sub(lambda match: match[0].translate(_HALVES) if match[1] else match[0], text)
    found = _bracketed(halved) if halved != text else None
    return replace(found, repaired=True) if found and not found.repaired else None


def _bracketed(text: str) -> FoundJson | None:
    """The longest bracketed span that is JSON or can be repaired into it."""
    spans = sorted(_spans(text), key=lambda span: (span[0] - span[1], -span[0]))
    for start, end, cut_off in spans[:MAX_SPANS]:
        source = text[start:end]
        found = _whole(source) or (_repaired(source, cut_off) if _LIKE_JSON.match(source) else None)
        if found:
            return replace(found, before=text[:start], after=text[end:])
    return None


def _spans(text: str) -> list[tuple[int, int, bool]]:
    """The outermost bracketed spans in order: start, end, and whether the text ends within one of its strings.

    The last one may be unclosed.
    """
    opened: list[int] = []
    spans: list[tuple[int, int, bool]] = []
    position, end, cut_off = 0, len(text), False
    while match := (_BRACKET_OR_QUOTE if opened else _BRACKET).search(text, position):
        position, mark = match.end(), match[0]
        if mark == '"':
            rest = _STRING_REST.match(text, position)
            cut_off = rest is None
            position = rest.end() if rest else end
        elif mark in "[{":
            opened.append(match.start())
        elif opened and text[opened[-1]] == _CLOSES[mark]:
            start = opened.pop()
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
    if (
        text.startswith("{") and "<" not in text
    ):  # as the replies of judges: no mark begins so, and none can follow
        return "", text
    if split := split_marks(text, tags=tags):
        return "\n\n".join(split.thoughts), text[split.start : split.end]
    if not tags or "<" not in text:
        return "", text
    closed = _CLOSED_ONLY.search(text)
    if closed is None or re.search(rf"<{closed[1]}>", text[: closed.start()], re.IGNORECASE):
        return "", text
    return text[: closed.start()].strip(), text[closed.end() :].lstrip()
