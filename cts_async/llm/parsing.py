"""Parsing replies: the form that a step expects, how it is found and repaired, and what was wrong with it.

Two rules. A reply is either parsed completely or rejected with a sentence for the model (`UnusableOutput.problem`);
nothing is guessed into a default. And a well-formed reply costs one `orjson.loads` and one loop: fences, prose,
thoughts and repairs are searched for only when that fails.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeVar

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import (
    Found,
    find_json,
    loads_or_none,
    only_string,
    strip_thoughts,
)
from cts_async.records import UNKNOWN, Answer

T_co = TypeVar("T_co", covariant=True)

MAX_QUESTION_CHARS: Final = 200
MAX_PHRASE_CHARS: Final = 120
MAX_LINE_CHARS: Final = 200


class Expect(Protocol[T_co]):
    """The form that a step's reply must have.

    `json_schema` and `grammar` (GBNF) let a server constrain its decoding; a server takes one of the two, and where
    both exist the grammar is the stricter. Both are part of the step's key, so a change of either makes every model
    that uses it execute its steps again. A form with thoughts of its own sets `keeps_thoughts = True`: they are left
    in the text that it parses.
    """

    @property
    def name(self) -> str:
        """A stable name for journals and step keys, with the parameters that change the form."""

    @property
    def json_schema(self) -> dict[str, Any] | None: ...

    @property
    def grammar(self) -> str | None: ...

    def parse(self, text: str) -> T_co:
        """The value in `text`. Raises UnusableOutput with a `problem` that is a sentence for the model."""


# --- One phrase, one line, any text --------------------------------------------------------------------

_LABEL = re.compile(
    r"""\A[*_`]{0,3}(?:
    (?:(?:sure|okay|certainly)\W+)?(?:here(?:'s|\ is)\ (?:the|your|my)\ )?
    (?:(?:final|user|user's|short|rewritten|refined|clarified|revised|specific|retrieval-ready|single)[ _]+)*
    (?:answer|query|rewrite|output|result|search\ query|query\ sentence|a)(?:\ is)?
    |(?:最终|用户)?的?(?:(?:改写|重写)后?的?(?:查询语句|查询|检索词|搜索词|问题|句子|结果)?|回答|答案|答|查询|输出|结果)[是为]?
    )[*_`]{0,3}\s*[:：]\s*[*_`]{0,3}""",
    re.IGNORECASE | re.VERBOSE,
)
_WRAPPERS: Final = (
    ("**", "**"), ("__", "__"), ("```", "```"), ("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"),
    ("「", "」"), ("『", "』"), ("*", "*"), ("＂", "＂"), ("«", "»"),
)  # fmt: skip
_FENCE_LINE = re.compile(r"(?:```|~~~)[ \t]*[\w+-]*[ \t]*")
_BULLET = re.compile(r"\A[-*•>]\s+")
_UNKNOWN_SENTENCE = re.compile(rf"\W*{UNKNOWN}\W*(?:[.。(（].*)?", re.IGNORECASE | re.DOTALL)
_NEARLY_UNKNOWN: Final = rf"""(?:
    {UNKNOWN} | n/a | n\.a
    | (?:(?:it|this|that)(?:\ is|['’]s)\ )?
      (?:un(?:specified|stated|mentioned)
      | not\ (?:(?:explicitly|clearly)\ )?(?:specified|stated|mentioned|provided|given|known|indicated|applicable))
      (?:\ (?:in|by)\ (?:the|my)\ (?:clear\ )?(?:query|question|request))?
    | (?:the|my)\ (?:clear\ )?query\ (?:does\ not|doesn['’]t)\ (?:specify|say|state|mention)(?:\ (?:it|this|that))?
    | (?:i\ )?(?:do\ not|don['’]t)\ know | no\ (?:idea|information)
    | (?:(?:清晰)?(?:查询|意图|问题)(?:中|里)?|我|用户)?(?:并|也|都|尚)?
      (?:未知 | 未明确 | 不知道 | 不清楚 | 不详 | 不明 | 无法确定
      | (?:未|没有?)(?:明确|具体)?(?:说明|提到|提及|指定|指明|给出|写明|注明|提供) | 没有?说)
    )"""
_NEARLY_UNKNOWN_CLAUSE: Final = re.compile(_NEARLY_UNKNOWN, re.VERBOSE)
_NEARLY_UNKNOWN_SENTENCE: Final = re.compile(rf"\W*{_NEARLY_UNKNOWN}\W*(?:[.。(].*)?", re.VERBOSE | re.DOTALL)
_CLAUSE_ENDS: Final = re.compile(r"[,、;:.。!?()—…]+|\s-+\s")
_NOT_SAID: Final = re.compile(
    r"\b(?:not|no)\b.*\b(?:specif(?:y|ied)|stated?|mention(?:ed)?|sa(?:y|id)|indicated?|provided?|given|information)\b"
    r"|n['’]t (?:specify|state|mention|say|know)"
    r"|(?:未|没|不|无).{0,6}(?:说明|提到|提及|指定|指明|给出|写明|提供|知道|清楚|信息)"
)
_MAX_UNKNOWN_CHARS: Final = 200


def _says_unknown(line: str, *, strict: bool) -> bool:
    """True if a reply is `unknown` or, unless `strict`, means the same: 未说明, "not specified", N/A.

    A synonym has to be the whole reply or its first sentence; beside the word itself ("没有提到年份，unknown") a clause
    that gives the reason may have any form. A reply that only contains such words ("未知数", "unknown soldier") is an
    answer.
    """
    line = unicodedata.normalize("NFKC", line).replace("_", " ").strip()
    if _UNKNOWN_SENTENCE.fullmatch(line):
        return True
    if strict or len(line) > _MAX_UNKNOWN_CHARS:
        return False
    line = " ".join(line.casefold().split())
    if _NEARLY_UNKNOWN_SENTENCE.fullmatch(line):
        return True
    clauses = [stripped for clause in _CLAUSE_ENDS.split(line) if (stripped := clause.strip(" \"'“”"))]
    others = [clause for clause in clauses if not _NEARLY_UNKNOWN_CLAUSE.fullmatch(clause)]
    if others and UNKNOWN not in clauses:
        return False
    return bool(clauses) and all(_NOT_SAID.search(clause) for clause in others)


@dataclass(frozen=True, slots=True)
class ShortPhrase:
    """The User Answerer's reply: its first non-empty line without label and quotes.

    `unknown` is recognised in any case, quotes and punctuation, also as a first sentence that others follow, and so
    are its synonyms (未知, "not specified"); a phrase that only contains such words is an ordinary answer. `strict`:
    only the word itself counts, as up to version 0.6, and for answers of people.
    """

    strict: bool = False
    name: ClassVar[str] = "phrase"
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str] = (
        f'root ::= "{UNKNOWN}" | phrase\n'
        f"phrase ::= [^\\x00-\\x20\\x7F<] [^\\x00-\\x1F\\x7F]{{0,{MAX_PHRASE_CHARS - 1}}}\n"
    )

    def parse(self, text: str) -> Answer:
        line = next(_lines(text), None)
        if line is None:
            raise UnusableOutput(f"expected a short answer or the word {UNKNOWN}, got nothing", text=text)
        if _says_unknown(line, strict=self.strict):
            return Answer(UNKNOWN, unknown=True)
        return Answer(line, unknown=False)


@dataclass(frozen=True, slots=True)
class OneLine:
    """The Rewriter's reply: exactly one non-empty line, without quotes, fence or label around it."""

    name: ClassVar[str] = "line"
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str] = f"root ::= [^\\x00-\\x20\\x7F<] [^\\x00-\\x1F\\x7F]{{0,{MAX_LINE_CHARS - 1}}}\n"

    def parse(self, text: str) -> str:
        lines = list(_lines(text))
        if len(lines) != 1:
            got = f"{len(lines)} lines" if lines else "nothing"
            raise UnusableOutput(f"expected exactly one line with the rewritten query, got {got}", text=text)
        return lines[0]


def _lines(text: str) -> Iterator[str]:
    """The non-empty lines of a reply without thoughts and fences, each without label and quotes."""
    for line in _plain(strip_thoughts(text)).splitlines():
        if not _FENCE_LINE.fullmatch(line.strip()) and (line := _unwrap(line)):
            yield line


def _plain(text: str) -> str:
    """The string in a reply that is JSON around a single string; any other reply unchanged."""
    if not text.startswith(('"', "{", "[")):
        return text
    value = loads_or_none(text)
    if isinstance(value, (dict, list)) and len(value) == 1:
        value = only_string(value)
    return value if isinstance(value, str) else text


def _unwrap(line: str) -> str:
    """Remove labels, bullets and surrounding quotes until nothing more can be removed."""
    previous = None
    while line != previous:
        previous = line
        line = _unquote(_BULLET.sub("", line.strip(), count=1).strip())
        if line == previous:
            line = _LABEL.sub("", line, count=1)
    return line if any(ch.isalnum() for ch in line) else ""


def _unquote(line: str) -> str:
    for left, right in _WRAPPERS:
        inner = line[len(left) : -len(right)]
        whole = line.startswith(left) and line.endswith(right) and len(line) >= len(left) + len(right)
        if whole and not _ends_within(inner, left, right):
            return inner
    return line


def _ends_within(inner: str, left: str, right: str) -> bool:
    """True if the quotation ends before the text does: `"a" or "b"`. An apostrophe within a word does not end it."""
    if left == "'":
        return re.search(r"(?<!\w)'|'(?!\w)", inner) is not None
    return left in inner or right in inner


# --- The Clarifier's questions ---

_NUMBERING = re.compile(
    r"\A(?:[Qq]?\d{1,2}\s*[.)、:：．）](?!\d)|[(（]\d{1,2}[)）]|[Qq]uestion\s+\d{1,2}\s*[.:：)]|[-*•](?=\s))\s*"
)


# An opening letter, no address, and a question mark at the end: this keeps a tiny model to questions.
QUESTION_RULE: Final = (
    r'question ::= "\"" [A-Z\u4E00-\u9FFF] [^"\\/?？:\x00-\x1F\x7F]{5,90} ("?" | "？") "\""'
)


@dataclass(frozen=True, slots=True)
class QuestionList:
    """The Clarifier's reply: a JSON array of exactly `k` non-empty, distinct questions; parses to them in order.

    `{"questions": [...]}` and arrays of `{"question": ...}` are accepted, and leading numbers removed. Two questions
    are the same if they differ only in case, width, punctuation or spacing.
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
    """The array itself, the one under `key`, or the only one in an object; else None."""
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        value = value.get(key, lists[0] if len(lists) == 1 else None)
    return value if isinstance(value, list) else None


def texts_in(items: list[Any], k: int, key: str = "question") -> tuple[str, tuple[str, ...]]:
    """The problem with the items ("" for none), and their `k` texts without leading numbers.

    An item may be an object that has its text under `key`, or has only one text.
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
    """A text without case, width, punctuation, spaces and control characters, for comparing."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(ch for ch in plain if unicodedata.category(ch)[0] not in "PZC")


# --- JSON schemas and GBNF, the grammar notation of llama.cpp ---


def literal(text: str) -> str:
    """The GBNF literal of a text of one line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def json_string(text: str) -> str:
    """The GBNF literal of `text` as a JSON string."""
    return literal(orjson.dumps(text).decode())


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
