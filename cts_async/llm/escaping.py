"""Keeps untrusted text inside its fence: no value can open or close a tag of its prompt, or a model's turn.

A model reads leniently, so what merely looks like a tag counts as one: any kind of angle bracket, also as an
HTML entity; any letters that look like the name's; and whatever nobody can see in between. Only the bracket in
front is replaced: the text stays readable, and any other markup in it stays as it was.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Final

_TABLES: Final = tomllib.loads(Path(__file__).with_name("escaping.toml").read_text("utf-8"))
BRACKETS: Final[str] = _TABLES["brackets"]
_ENTITY: Final = r"&\#0*60;?|&\#[xX]0*3[cC];?|&[lL][tT];?"
_OPENING: Final = rf"(?:[{BRACKETS}]|{_ENTITY})"
_INVISIBLE: Final = f"[{_TABLES['invisible']}]*+"
"""Possessive: however much there is, it is looked at once."""
_SLASHES: Final = rf"(?:(?:[/／⁄∕⧸\\＼]|&\#0*47;?|&\#[xX]0*2[fF];?|&sol;){_INVISIBLE})*+"
_TURN: Final = re.compile(
    r"<(?=[|｜])"  # <|im_start|>, <|eot_id|>, <｜User｜>
    rf"|<(?=(?:/?(?:{'|'.join(_TABLES['angle_tokens'])})|</?SYS>)>)"
    rf"|\[(?=(?:/?(?:{'|'.join(_TABLES['square_tokens'])})|gMASK)\])"
    rf"|{'|'.join(f'{re.escape(token[0])}(?={re.escape(token[1:])})' for token in _TABLES['other_tokens'])}"
)
_OTHER_MARKS: Final = BRACKETS[1:]
_MARKS: Final = f"<&[]{_OTHER_MARKS}"
_WRITTEN_OUT: Final = {"[": "&#91;", "]": "&#93;"}
_MARK: Final = re.compile(rf"[{re.escape(_MARKS)}]")


def harmless(value: str, tags: frozenset[str], opening: str = "&lt;") -> str:
    """`value` with the brackets of what could be taken for one of the fence's `tags`, or a turn's mark, written out.

    `opening` stands for those that open a tag.
    """
    # Mark by mark, which is quicker than the pattern: nearly every text has none.
    has_mark = "<" in value or "&" in value or "[" in value or "]" in value
    if not has_mark and (value.isascii() or not any(mark in value for mark in _OTHER_MARKS)):
        return value
    fence = fence_pattern(tags)
    parts: list[str] = []
    done = 0
    for bracket in _MARK.finditer(value):
        start = bracket.start()
        opened = None
        if fence:
            opened = fence.match(value, start)
        if opened is None:
            opened = _TURN.match(value, start)
        if opened and start >= done:
            parts += value[done:start], _WRITTEN_OUT.get(opened[0], opening)
            done = opened.end()
    parts.append(value[done:])
    return "".join(parts)


@lru_cache(maxsize=64)
def fence_pattern(tags: frozenset[str]) -> re.Pattern[str] | None:
    """What a value must not hold: whatever stands for the bracket in front of one of `tags`; None for no tags.

    Made when a value has a bracket: 5 ms a prompt, which most commands never need.
    """
    if not tags:
        return None
    name = "|".join(map(_name_pattern, sorted(tags)))
    return re.compile(rf"{_OPENING}(?={_INVISIBLE}{_SLASHES}(?:{name})(?!\w))", re.IGNORECASE)


@lru_cache(maxsize=64)
def _name_pattern(tag: str) -> str:
    """A pattern of everything that reads as the tag's name."""
    return _INVISIBLE.join(_letter_pattern(letter) for letter in tag)


def _letter_pattern(letter: str) -> str:
    alike = re.escape(letter + _TABLES["like"].get(letter, "") + _styled_letters().get(letter, ""))
    if letter == "_":
        # A name without its underscores, or with more of them, reads as the same.
        return f"(?:[{alike}]{_INVISIBLE})*+"
    return f"[{alike}]"


@lru_cache(maxsize=1)
def _styled_letters() -> dict[str, str]:
    """By plain character, those that are the same in other dress: bold, italic, circled, of full width."""
    alike: dict[str, str] = {}
    for start, end in _TABLES["styled"]:
        for styled in map(chr, range(start, end)):
            plain = unicodedata.normalize("NFKC", styled).casefold()
            if len(plain) == 1 and plain.isascii():
                alike[plain] = alike.get(plain, "") + styled
    return alike
