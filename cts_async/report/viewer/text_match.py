"""A search for text in lines of JSON: whatever its case, in any script, without parsing most lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cts_async.report.viewer.files import record_in

_SEARCHED: Final = (
    *("id", "blurred_query", "fused_query", "questions", "answers", "rewritten_query", "answer", "turns"),
    *("error", "query"),
)
_ODD: Final = (b"\\u", "\u212a".encode(), "\u0130".encode())
"""Letters that are written as escapes, and the two other ones that turn into ASCII in lower case."""


class Needle:
    """What is looked for. `in_line` tells whether a line has it, anywhere in what was asked, answered or failed."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._piece = _certain(self._text).encode(errors="surrogatepass")

    def in_line(self, raw: bytes) -> bool:
        """Whether a results line has the text."""
        folded = raw.lower()
        if self._piece not in folded and not any(mark in folded or mark in raw for mark in _ODD):
            return False
        line = record_in(raw)
        return line is not None and any(self._text in text.lower() for text in searched(line))


def searched(line: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a line that a search goes through."""
    waiting: list[Any] = [line.get(name) for name in reversed(_SEARCHED)]
    while waiting:  # no recursion: anybody's JSON may be as deep as he likes
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())


def _certain(text: str) -> str:
    """The longest piece of it that stands in JSON as it is, where nothing is escaped, once ASCII is in lower case."""
    pieces = [""]
    for character in text:
        if _plain(character):
            pieces[-1] += character
        else:
            pieces.append("")
    return max(pieces, key=len)


def _plain(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and character not in '"\\/'
    return character.lower() == character.upper() and not character.isspace()
