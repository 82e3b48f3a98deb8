"""Keeps untrusted text inside its fence: no value can open or close a tag of its prompt, or a model's turn.

A model reads leniently, so what merely looks like a tag counts as one: any kind of angle bracket, also as an
HTML entity; any letters that look like the name's; and whatever nobody can see in between. Only the bracket in
front is replaced: the text stays readable, and any other markup in it stays as it was.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

BRACKETS: Final = "<＜﹤‹〈⟨《≪⋖˂ᐸ❮❬⦑⧼«⟪"
_ENTITY: Final = r"&\#0*60;?|&\#[xX]0*3[cC];?|&[lL][tT];?"
_OPENING: Final = rf"(?:[{BRACKETS}]|{_ENTITY})"
_INVISIBLE: Final = (
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u0483-\u0489\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u2028-\u202e\u2060-\u206f\u20d0-\u20ff\u2800\u3164\ufe00-\ufe0f"
    r"\ufe20-\ufe2f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]*+"
)
"""What shows nothing, and accents, which change no letter. Possessive: however much there is, it is looked at once."""
_SLASHES: Final = rf"(?:(?:[/／⁄∕⧸\\＼]|&\#0*47;?|&\#[xX]0*2[fF];?|&sol;){_INVISIBLE})*+"
_LIKE: Final = {
    "a": "аɑαᴀ", "b": "ЬьвβʙƄƅ", "c": "сϲⅽᴄ", "d": "ԁⅾᴅ", "e": "еɛεᴇ", "f": "ƒſꜰ", "g": "ɡցɢ", "h": "һнηʜ",
    "i": "іı1lιɪ", "j": "јᴊ", "k": "κкᴋ", "l": "1iıⅼιʟ", "m": "мμⅿᴍ", "n": "ոνɴ", "o": "оο0ᴏ", "p": "рρᴘ",
    "q": "ԛǫ", "r": "гʀ", "s": "ѕꜱ", "t": "τтᴛ", "u": "υսᴜ", "v": "νᴠ", "w": "ԝᴡ", "x": "хχ", "y": "уγυʏ",
    "z": "ζᴢ", "_": "-‐‑–—.·",
}  # fmt: skip
"""Letters of other alphabets, and digits, that pass for these."""
_STYLED: Final = (
    (0x2100, 0x2150),
    (0x2460, 0x2500),
    (0xFF01, 0xFF5F),
    (0x1D400, 0x1D800),
    (0x1F110, 0x1F190),
)
"""Where Unicode keeps letters in other dress: double-struck, circled, full-width, mathematical, squared."""
_TURN: Final = re.compile(
    r"<(?=[|｜])"  # <|im_start|>, <|eot_id|>, <｜User｜>
    r"|<(?=/?(?:s|bos|eos|unk|pad|mask|sop|eop|BOS_TOKEN|EOS_TOKEN|UNK|PAD|MASK)>)"
    r"|<(?=/?(?:start_of_turn|end_of_turn|turn)>|<SYS>>|</SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|TOOL_CONTENT|ARGS|CALL_ID|THINK|IMG"
    r"|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX|MODEL_SETTINGS)\])"
    r"|\[(?=gMASK\])"
)
"""The control tokens of chat templates: a server that finds one in a message may take it for the end of a turn.

Those in square brackets are Mistral's (`SpecialTokens` of mistral-common), but for the last one, which is GLM's.
"""
_MARKS: Final = f"<&[{BRACKETS[1:]}"
_ASCII_MARKS: Final = "<&["
_MARK: Final = re.compile(rf"[{re.escape(_MARKS)}]")


def fence_pattern(tags: Iterable[str]) -> re.Pattern[str] | None:
    """What a value must not hold: whatever stands for the bracket in front of one of `tags`; None for no tags."""
    names = [_name(tag) for tag in sorted(set(tags))]
    if not names:
        return None
    name = "|".join(names)
    return re.compile(rf"{_OPENING}(?={_INVISIBLE}{_SLASHES}(?:{name})(?!\w))", re.IGNORECASE)


def harmless(value: str, fence: re.Pattern[str] | None, opening: str = "&lt;") -> str:
    """`value` with the brackets of what could be taken for a tag of the fence, or a turn's mark, written out.

    `opening` stands for those that open a tag.
    """
    marks = _ASCII_MARKS if value.isascii() else _MARKS
    for mark in marks:
        if mark in value:
            break
    else:
        return value  # as nearly every text
    parts: list[str] = []
    done = 0
    for found in _MARK.finditer(value):
        start = found.start()
        opened = (fence and fence.match(value, start)) or _TURN.match(value, start)
        if opened and start >= done:
            parts += value[done:start], "&#91;" if opened[0] == "[" else opening
            done = opened.end()
    return "".join([*parts, value[done:]]) if parts else value


@lru_cache(maxsize=64)
def _name(tag: str) -> str:
    """A pattern of everything that reads as the tag's name."""
    return _INVISIBLE.join(_letter(letter) for letter in tag)


def _letter(letter: str) -> str:
    alike = re.escape(letter + _LIKE.get(letter, "") + _styled().get(letter, ""))
    return f"(?:[{alike}]{_INVISIBLE})*+" if letter == "_" else f"[{alike}]"


@lru_cache(maxsize=1)
def _styled() -> dict[str, str]:
    """By plain character, those that are the same in other dress."""
    found: dict[str, str] = {}
    for first, end in _STYLED:
        for styled in map(chr, range(first, end)):
            plain = unicodedata.normalize("NFKC", styled).casefold()
            if len(plain) == 1 and plain.isascii():
                found[plain] = found.get(plain, "") + styled
    return found
