"""The Clarifier's list of questions, and the pieces of it that other forms need."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import Found, find_json, only_string

__all__ = [
    "MAX_QUESTION_CHARS",
    "QUESTION_RULE",
    "QuestionList",
    "folded",
    "listed",
    "repetition",
    "texts_in",
]

MAX_QUESTION_CHARS: Final = 200

_NUMBERING = re.compile(
    r"\A(?:[Qq]?\d{1,2}\s*[.)、:：．）](?!\d)|[(（]\d{1,2}[)）]|[Qq]uestion\s+\d{1,2}\s*[.:：)]|[-*•](?=\s))\s*"
)


# An opening letter, no address, and a question mark at the end: what keeps a tiny model to questions.
QUESTION_RULE: Final = (
    r'question ::= "\"" [A-Z\u4E00-\u9FFF] [^"\\/?？:\x00-\x1F\x7F]{5,90} ("?" | "？") "\""'
)


@dataclass(frozen=True, slots=True)
class QuestionList:
    """A JSON array of exactly `k` questions, non-empty and distinct; parses to them in order.

    `{"questions": [...]}` and arrays of `{"question": ...}` are understood, leading numbers dropped.
    Two questions are the same if they differ only in case, width, punctuation or spacing.
    """

    k: int

    @property
    def name(self) -> str:
        return f"questions/{self.k}"

    @property
    def grammar(self) -> str:
        more = f' (", " question){{{self.k - 1}}}' if self.k > 1 else ""
        return f'root ::= "[" question{more} "]"\n{QUESTION_RULE}\n'

    @property
    def json_schema(self) -> dict[str, Any]:
        item = {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARS}
        return {"type": "array", "items": item, "minItems": self.k, "maxItems": self.k}

    def parse(self, text: str) -> tuple[str, ...]:
        found = find_json(text)
        problem, questions = self._read(found)
        if problem:
            raise UnusableOutput(problem, text=text)
        return questions

    def _read(self, found: Found) -> tuple[str, tuple[str, ...]]:
        wanted = f"expected a JSON array of exactly {self.k} string{'s' * (self.k != 1)}"
        items = listed(found.value, "questions")
        if items is None:
            return f"{wanted}, got an object", ()
        if found.cut_off:
            return f"{wanted}, but the reply is cut off", ()
        problem, questions = texts_in(items, self.k)
        if same := repetition(questions):
            return f"expected distinct questions, but {same}", ()
        return (f"{wanted}, {problem}" if problem else ""), questions


def listed(value: object, key: str) -> list[Any] | None:
    """The array itself, the one under `key`, or the only one in an object; None if there is none of these."""
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        value = value.get(key, lists[0] if len(lists) == 1 else None)
    return value if isinstance(value, list) else None


def texts_in(items: list[Any], k: int, key: str = "question") -> tuple[str, tuple[str, ...]]:
    """What is wrong with the items ("" if nothing is), and the `k` texts that they are, numbers dropped.

    An item may be an object that has its text under `key`, or no other text.
    """
    if len(items) != k:
        return f"got {len(items)}", ()
    texts: list[str] = []
    for n, item in enumerate(items, 1):
        text = _text(item, key)
        if text is None:
            return f"but item {n} is not a string", ()
        if not folded(text):
            return f"but item {n} is empty", ()
        texts.append(text)
    return "", tuple(texts)


def _text(item: object, key: str) -> str | None:
    if isinstance(item, dict):
        item = item.get(key, only_string(item))
    return _NUMBERING.sub("", " ".join(item.split()), count=1) if isinstance(item, str) else None


def repetition(questions: tuple[str, ...]) -> str:
    """`items 1 and 3 are the same`; "" where all are distinct."""
    seen: dict[str, int] = {}
    for n, question in enumerate(questions, 1):
        first = seen.setdefault(folded(question), n)
        if first != n:
            return f"items {first} and {n} are the same"
    return ""


def folded(text: str) -> str:
    """What is left of a text without case, width, punctuation, spaces and control characters."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(ch for ch in plain if unicodedata.category(ch)[0] not in "PZC")
