"""A model's thoughts apart from its answer, by the marks that servers leave in the text of a reply (thoughts.toml).

Only marks at the head of a text count, and the structure that follows them: further on, a mark may be quoted from a page
or a candidate answer. Replies of all roles, stored texts and files of candidate answers are read by these functions.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
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


def _read_marks(rows: Sequence[dict[str, Any]], *, is_answer: bool) -> tuple[_Mark, ...]:
    marks: list[_Mark] = []
    for row in rows:
        mark = _Mark(
            opens=re.compile(row["opens"]),
            closes=re.compile(row["closes"]),
            alone=bool(row.get("alone")),
            paired=bool(row.get("paired")),
            tag=bool(row.get("tag")),
            is_answer=is_answer,
        )
        marks.append(mark)
    return tuple(marks)


_MARKS: Final = _read_marks(_TABLE["thoughts"], is_answer=False) + _read_marks(
    _TABLE["answers"], is_answer=True
)
_ALONE: Final = tuple(mark for mark in _MARKS if mark.alone)
_TURN: Final = re.compile(_TABLE["turns"]["opens"])
_TURN_AT_END: Final = re.compile(rf"(?:{_TABLE['turns']['opens']})\Z")
_TURN_CLOSED: Final = re.compile(rf"(?:{_TABLE['turns']['closes']})\Z")
_LONGEST_CLOSING: Final = 40
"""Characters; longer than any mark that ends a turn."""
_SPACE: Final = re.compile(r"\s*")
_UNKNOWN: Final = re.compile(_TABLE["unknown"]["mark"])
_WORDS: Final = tuple(map(re.compile, _TABLE["unknown"]["words"]))
_STRING_END: Final = re.compile(r'"\s*[,:\]}]')
_FORMATTING: Final = frozenset(_TABLE["unknown"]["formatting"])
# What a head with a mark can begin with, and what a closing mark without its opening has in it: nearly every reply has
# neither, and is looked at no further.
_HEADS: Final = frozenset("<[◁【acfthH")
_ANGLE_HINTS: Final = ("|>", "<unused95>", "seed:think", "longcat_think")
_BRACKETS: Final = ("<", "[", "◁", "【")
# A value or a tag may quote a closing mark, and is no thought.
_JSON_HEADS: Final = ("{", "[", '"', "<")
# JSON, as most replies of judges and Clarifiers are: no mark begins so, and nothing is searched for.
_NO_MARK: Final = frozenset('{"')


def split_marks(text: str, *, tags: bool = True) -> Split | None:
    """Find the thoughts at the head of a text; None if it has no known marks there.

    Without `tags`, `<think>` and its kind are left in the text, for forms that they belong to. A thought that is never
    closed leaves an empty answer.
    """
    first_char = text[:1]
    if first_char in _NO_MARK:
        return None
    position = 0
    if first_char.isspace():
        position = _skip_space(text, 0)
        first_char = text[position : position + 1]
    if first_char not in _HEADS:
        return _split_alone(text, position)
    thoughts: list[str] = []
    end = len(text)
    has_mark = False
    while position < end:
        turn = _TURN.match(text, position)
        if turn:
            has_mark = True
            position = _skip_space(text, turn.end())
            continue
        mark, opening = _mark_at(text, position, tags)
        if mark is None or opening is None:
            break
        has_mark = True
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
    if not has_mark:
        return _split_alone(text, position)
    return _without_turn_end(text, thoughts, position, end)


def unknown_mark(text: str, own_tags: frozenset[str] = frozenset()) -> str:
    """The mark of no known format at the head of a text; "" if there is none.

    `own_tags` are the names of tags in angle brackets that belong to the text's form.
    """
    position = _skip_space(text, 0)
    if not text.startswith(_BRACKETS, position):
        return ""
    mark = _UNKNOWN.match(text, position)
    if mark:
        return mark[0]
    for words in _WORDS:
        word = words.match(text, position)
        if word is None:
            continue
        name = word[0].strip("<>[]◁▷【】/").lower()
        if name in own_tags or name in _FORMATTING:
            return ""
        if _has_second(text, words, word.end()):
            return word[0]
        return ""
    return ""


def _has_second(text: str, words: re.Pattern[str], position: int) -> bool:
    """True if another bracketed word follows, with text before and behind it: the first one opened a thought."""
    for second in words.finditer(text, position):
        if text[position : second.start()].strip() and text[second.end() :].strip():
            return True
    return False


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
    if not _has_hint(text) or text.startswith(_JSON_HEADS, position):
        return None
    for mark in _ALONE:
        # Of a thought the closing mark ends it, of an answer the opening mark begins it.
        separates = mark.opens if mark.is_answer else mark.closes
        separator = separates.search(text, position)
        if separator is None or _is_in_json(text, separator):
            continue
        if not mark.is_answer and mark.opens.search(text, position, separator.start()):
            continue  # both are quoted
        start = _skip_space(text, separator.end())
        end = len(text)
        if mark.is_answer:
            closing = mark.closes.search(text, separator.end())
            if closing:
                end = max(start, closing.start())
        # The answer's own turn may have been opened, and the thought's closed, in front of the separator.
        thought = _TURN_AT_END.sub("", text[position : separator.start()])
        thought = thought[: _end_without_marks(thought, 0, len(thought))].strip()
        return _without_turn_end(text, [thought], start, end)
    return None


def _is_in_json(text: str, mark: re.Match[str]) -> bool:
    """True for a mark that is a whole string of JSON behind some words."""
    return text.endswith('"', 0, mark.start()) and _STRING_END.match(text, mark.end()) is not None


def _has_hint(text: str) -> bool:
    """True if a closing mark without its opening may be in the text."""
    # Every candidate answer comes here: one search for each rare character, and no loop for ordinary prose.
    if ">" in text and any(hint in text for hint in _ANGLE_HINTS):
        return True
    if "[" in text and "[/THINK]" in text:
        return True
    return "assistantfinal" in text or "▷" in text


def _without_turn_end(text: str, thoughts: list[str], start: int, end: int) -> Split:
    """A split without empty thoughts and the marks that end the model's turn."""
    end = _end_without_marks(text, start, end)
    return Split(tuple(filter(None, thoughts)), min(start, end), end)


def _end_without_marks(text: str, start: int, end: int) -> int:
    """The end of text[start:end] without the marks that end a turn, and the space around them; `end` if it has none."""
    # Backwards, a mark at a time: one pattern for all of them would try each character of a long run of spaces.
    without_marks = end
    while True:
        end_of_text = _skip_space_back(text, start, without_marks)
        closing = _TURN_CLOSED.search(text[max(start, end_of_text - _LONGEST_CLOSING) : end_of_text])
        if closing is None:
            return without_marks
        without_marks = _skip_space_back(text, start, end_of_text - len(closing[0]))


def _skip_space_back(text: str, start: int, end: int) -> int:
    """The position behind the last character of text[start:end] that is no space."""
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def _skip_space(text: str, position: int) -> int:
    """The position of the first character at or behind `position` that is no space."""
    space = _SPACE.match(text, position)
    if space is None:
        return position
    return space.end()
