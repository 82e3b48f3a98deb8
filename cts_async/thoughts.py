"""A model's thoughts apart from its answer, by the marks that servers leave in the text of a reply (thoughts.toml).

Only marks at the head of a text count, and the structure that follows them: further on, a mark may be quoted from a page
or a candidate answer. Replies of all roles, stored texts and files of candidate answers are read by these functions.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Split", "split_marks", "unknown_mark"]


@dataclass(frozen=True, slots=True)
class Split:
    """A text with marks at its head: its thoughts, and where its answer begins and ends (characters)."""

    thoughts: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """An opening and a closing mark; see thoughts.toml."""

    opens: re.Pattern[str]
    closes: re.Pattern[str]
    alone: bool
    paired: bool
    tag: bool
    is_answer: bool


_TABLE: Final = tomllib.loads(Path(__file__).with_name("thoughts.toml").read_text("utf-8"))


def _read_mark(row: dict[str, Any], *, is_answer: bool) -> _Mark:
    return _Mark(
        re.compile(row["opens"]),
        re.compile(row["closes"]),
        bool(row.get("alone")),
        bool(row.get("paired")),
        bool(row.get("tag")),
        is_answer,
    )


_MARKS: Final = (
    *(_read_mark(row, is_answer=False) for row in _TABLE["thoughts"]),
    *(_read_mark(row, is_answer=True) for row in _TABLE["answers"]),
)
_TURN: Final = re.compile(_TABLE["turns"]["opens"])
_TURN_END: Final = re.compile(rf"(?:\s*(?:{_TABLE['turns']['closes']}))+\s*\Z")
_SPACE: Final = re.compile(r"\s*")
_ALONE: Final = tuple(mark for mark in _MARKS if mark.alone)
_UNKNOWN: Final = re.compile(_TABLE["unknown"]["mark"])
_WORDS: Final = tuple(re.compile(pattern) for pattern in _TABLE["unknown"]["words"])
_FORMATTING: Final = frozenset(_TABLE["unknown"]["formatting"])
# What a head with a mark can begin with, and what a closing mark without its opening has in it: nearly every reply has
# neither, and is looked at no further.
_HEADS: Final = tuple("<[◁【acthH")
_ALONE_HINTS: Final = ("|>", "<unused95>", "▷", "[/THINK]", "seed:think", "longcat_think", "assistantfinal")
_JSON_HEADS: Final = ("{", "[", '"', "<")


def split_marks(text: str, *, tags: bool = True) -> Split | None:
    """Find the thoughts at the head of a text; None if it has no known marks there.

    Without `tags`, `<think>` and its kind are left in the text, for forms that they belong to. A thought that is never
    closed leaves an empty answer.
    """
    position = _skip_space(text, 0)
    if not text.startswith(_HEADS, position):
        return _split_alone(text, position)
    thoughts: list[str] = []
    end = len(text)
    begun = False
    while position < end:
        turn = _TURN.match(text, position)
        if turn:
            position, begun = _skip_space(text, turn.end()), True
            continue
        mark, opening = _mark_at(text, position, tags)
        if mark is None or opening is None:
            break
        begun = True
        closing = mark.closes.search(text, opening.end(), end)
        if mark.is_answer:
            position = _skip_space(text, opening.end())
            if closing:
                end = max(position, closing.start())
            break
        if closing is None:
            thoughts.append(text[opening.end() : end].strip())
            position = end
            break
        thoughts.append(text[opening.end() : closing.start()].strip())
        position = _skip_space(text, closing.end())
    if not begun:
        return _split_alone(text, position)
    return _whole_split(text, thoughts, position, end)


def unknown_mark(text: str, known: frozenset[str] = frozenset()) -> str:
    """The mark of no known format at the head of a text; "" if there is none.

    `known` are the names of tags in angle brackets that belong to the text's form.
    """
    position = _skip_space(text, 0)
    if not text.startswith(("<", "[", "◁", "【"), position):
        return ""
    if mark := _UNKNOWN.match(text, position):
        return mark[0]
    for words in _WORDS:
        first = words.match(text, position)
        if first is None:
            continue
        name = first[0].strip("<>[]◁▷【】/").lower()
        if name in known or name in _FORMATTING:
            return ""
        for second in words.finditer(text, first.end()):
            if text[second.end() :].strip() and text[first.end() : second.start()].strip():
                return first[0]
        return ""
    return ""


def _mark_at(text: str, position: int, tags: bool) -> tuple[_Mark | None, re.Match[str] | None]:
    """The mark that opens at a position, and its match."""
    for mark in _MARKS:
        if mark.tag and not tags:
            continue
        opening = mark.opens.match(text, position)
        if opening is None:
            continue
        if mark.paired and not mark.closes.search(text, opening.end()):
            continue  # ordinary words
        return mark, opening
    return None, None


def _split_alone(text: str, position: int) -> Split | None:
    """Split a text whose thought was opened by the chat template, where the closing mark can be nothing else."""
    if text.startswith(_JSON_HEADS, position):
        return None  # a value or a tag may quote it
    for hint in _ALONE_HINTS:
        if hint in text:
            break
    else:
        return None
    for mark in _ALONE:
        # Of a thought the closing mark ends it, of an answer the opening mark begins it.
        found = (mark.opens if mark.is_answer else mark.closes).search(text, position)
        if found is None:
            continue
        if not mark.is_answer and mark.opens.search(text, position, found.start()):
            continue  # both are quoted
        end = len(text)
        if mark.is_answer and (closing := mark.closes.search(text, found.end())):
            end = closing.start()
        start = _skip_space(text, found.end())
        thought = _TURN_END.sub("", re.sub(rf"(?:{_TURN.pattern})\Z", "", text[position : found.start()]))
        return _whole_split(text, [thought.strip()], start, max(start, end))
    return None


def _whole_split(text: str, thoughts: list[str], start: int, end: int) -> Split:
    """A split without the marks that end the model's turn."""
    if closed := _TURN_END.search(text, start, end):
        end = closed.start()
    return Split(tuple(thought for thought in thoughts if thought), min(start, end), end)


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
