"""Forms of the AT-CoT conversation: what a Clarifier offers at a turn, and which offer the user chooses.

A turn's reply is one JSON object whose parts stand in the order of the paper's equations (SIGIR 2025, section
3.2): what is thought before (a), then the clarifications (c). The grammars bound every part, so that a tiny
model comes to an end.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final, Literal

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import Found, find_json, loads_or_none, only_string, strip_thoughts
from cts_async.llm.parsing import (
    MAX_QUESTION_CHARS,
    QUESTION_RULE,
    folded,
    json_string,
    listed,
    literal,
    object_schema,
    repetition,
    texts_in,
)
from cts_async.records import AMBIGUITY_TYPES, AmbiguityType

__all__ = ["Choice", "Clarification", "Clarified", "ambiguity_type"]

What = Literal["questions", "queries"]

MAX_REASONING_CHARS: Final = 1500
_TYPES_KEY: Final = "ambiguity_types"
_THOUGHT_KEYS: Final = ("reasoning", "reason", "explanation", "analysis", "thought", "推理", "理由", "分析")
_TYPE_KEYS: Final = (_TYPES_KEY, "ambiguity_type", "types", "type", "歧义类型", "类型")

# What a constrained model may think and offer at most: some 80 tokens, and one line each.
_REASONING_RULE: Final = r'reasoning ::= "\"" [A-Z\u4E00-\u9FFF] [^"\\\x00-\x1F\x7F]{20,240} "\""'
_QUERY_RULE: Final = r'query ::= "\"" [A-Za-z0-9\u4E00-\u9FFF] [^"\\/?？:\x00-\x1F\x7F]{3,70} "\""'
_SUBSETS: Final = tuple(
    tuple(name for bit, name in enumerate(AMBIGUITY_TYPES) if mask >> bit & 1) for mask in range(1, 8)
)


@dataclass(frozen=True, slots=True)
class Clarified:
    """A Clarifier's reply at one turn: what it offers, best first, and what it thought before.

    `types` are the ambiguity types it named, each once, in its order; empty, like `reasoning`, where its scheme
    does not ask for them.
    """

    offered: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Clarification:
    """`{"reasoning", "ambiguity_types", "questions" or "queries"}`, the first two where asked for; a Clarified.

    Exactly `k` non-empty texts. Questions have to be distinct; of queries that are the same the user is shown
    one, so that fewer may be offered. Types are understood in any case, number and either language; an unknown
    one is a problem, never left out. Without reasoning and types a bare array will do.
    """

    k: int
    what: What = "questions"
    reasoning: bool = False
    types: bool = False

    @property
    def name(self) -> str:
        before = "".join(
            part for part, there in (("reasoning+", self.reasoning), ("types+", self.types)) if there
        )
        return f"{before}{self.what}/{self.k}"

    @property
    def json_schema(self) -> dict[str, Any]:
        item = {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARS}
        properties: dict[str, Any] = {}
        if self.reasoning:
            properties["reasoning"] = {"type": "string", "minLength": 1, "maxLength": MAX_REASONING_CHARS}
        if self.types:
            named = {"type": "string", "enum": list(AMBIGUITY_TYPES)}
            properties[_TYPES_KEY] = {"type": "array", "items": named, "minItems": 1, "maxItems": 3}
        properties[self.what] = {"type": "array", "items": item, "minItems": self.k, "maxItems": self.k}
        return object_schema(properties)

    @property
    def grammar(self) -> str:
        rules = [_REASONING_RULE] * self.reasoning + [_types_rule()] * self.types
        parts = [f'{literal(chr(34) + "reasoning" + chr(34) + ": ")} reasoning ", "'] * self.reasoning
        parts += [f'{json_string(_TYPES_KEY)} ": " types ", "'] * self.types
        item, rule = ("question", QUESTION_RULE) if self.what == "questions" else ("query", _QUERY_RULE)
        more = f' (", " {item}){{{self.k - 1}}}' if self.k > 1 else ""
        parts.append(f'{json_string(self.what)} ": [" {item}{more} "]"')
        return "\n".join([f'root ::= "{{" {" ".join(parts)} "}}"', *rules, rule, ""])

    def parse(self, text: str) -> Clarified:
        found = find_json(text)
        problem, clarified = self._read(found)
        if problem or clarified is None:
            raise UnusableOutput(f"expected {self._wanted()}, {problem}", text=text)
        return clarified

    def _wanted(self) -> str:
        parts = ['"reasoning": text'] * self.reasoning + [f'"{_TYPES_KEY}": [...]'] * self.types
        parts.append(f'"{self.what}": [exactly {self.k} string{"s" * (self.k != 1)}]')
        return "{" + ", ".join(parts) + "}"

    def _read(self, found: Found) -> tuple[str, Clarified | None]:
        if found.cut_off:
            return "but the reply is cut off", None
        value, reasoning, types = _unwrapped(found.value), "", list[AmbiguityType]()
        if isinstance(value, dict):
            value = {_key(name): part for name, part in value.items()}
            reasoning, named = _thought(_taken(value, _THOUGHT_KEYS)), _taken(value, _TYPE_KEYS)
            problem, types = _types_in(named) if self.types else ("", [])
            if problem:
                return problem, None
        if self.reasoning and not reasoning:
            return 'but "reasoning" is missing or empty', None
        if self.types and not types:
            return f'but "{_TYPES_KEY}" is missing', None
        problem, offered = self._offered(value)
        return problem, None if problem else Clarified(offered, tuple(types), reasoning * self.reasoning)

    def _offered(self, value: dict[str, Any] | list[Any]) -> tuple[str, tuple[str, ...]]:
        items = listed(value, self.what)
        if items is None and isinstance(value, dict) and (only := only_string(value)) is not None:
            items = [only]
        if items is None:
            return f'but "{self.what}" is missing', ()
        problem, texts = texts_in(items, self.k, "question" if self.what == "questions" else "query")
        if self.what == "questions":
            same = repetition(texts)
            return (f"but {same}" if same else problem), texts
        distinct: dict[str, str] = {}
        for text in texts:
            distinct.setdefault(folded(text), text)
        return problem, tuple(distinct.values())


def _types_rule() -> str:
    """Each non-empty set of types, in the order of the taxonomy."""
    sets = ("[" + ", ".join(f'"{name}"' for name in names) + "]" for names in _SUBSETS)
    return f"types ::= {' | '.join(map(literal, sets))}"


def _unwrapped(value: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """The object in a value that holds nothing else: `[{...}]`, `{"result": {...}}`; any other value as it is."""
    while len(value) == 1:
        (inner,) = value.values() if isinstance(value, dict) else value
        if not isinstance(inner, dict) or len(inner) < 2:
            break
        value = inner
    return value


def _key(name: str) -> str:
    """A key as the forms spell it: `Ambiguity Types` and `ambiguityTypes` are `ambiguity_types`."""
    return re.sub(r"[\s_-]+|(?<=[a-z])(?=[A-Z])", "_", name.strip()).casefold()


def _taken(value: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """What stands under the first of `keys`, whose value is taken out of the object."""
    return next((value.pop(key) for key in keys if key in value), "")


def _thought(value: Any) -> str:
    """What was thought, on one line: a text, or several; "" for anything else."""
    texts = value if isinstance(value, list) else [value]
    return " ".join(word for text in texts if isinstance(text, str) for word in text.split())


# --- Ambiguity types ------------------------------------------------------------------------------------

_NAMES: Final[tuple[tuple[AmbiguityType, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(rf"(?:{pattern})(?:types?|ambiguit(?:y|ies)|性|歧义|类型)*"))
    for name, pattern in zip(
        AMBIGUITY_TYPES,
        (
            r"semantic(?:s|al|ally)?|语义",
            r"generali[sz](?:e[sd]?|ing|ations?)|泛化|概括|一般化",
            r"specif(?:y|ies|ied|ying|ications?)|speciali[sz](?:e[sd]?|ing|ations?)|具体化?|细化|特化",
        ),
        strict=True,
    )
)
_BETWEEN: Final = re.compile(r"[,，、;；/&+|]|\band\b|和")
_REMARK: Final = re.compile(r"\s[-–—]\s|[:：(（]")


def ambiguity_type(text: str) -> AmbiguityType | None:
    """The type that `text` names, in any case, number or form, in English or Chinese; None for no type."""
    named = folded(_REMARK.split(unicodedata.normalize("NFKC", text), maxsplit=1)[0])
    return next((name for name, pattern in _NAMES if pattern.fullmatch(named)), None)


def _types_in(value: Any) -> tuple[str, list[AmbiguityType]]:
    """What is wrong with the types named ("" if nothing is), and the types, each once."""
    items = value if isinstance(value, list) else [value] if value else []
    items = [next((item[key] for key in _TYPE_KEYS if key in item), "") if isinstance(item, dict) else item
             for item in items]  # fmt: skip
    found: dict[AmbiguityType, None] = {}
    for text in (part for item in items for part in _BETWEEN.split(_REMARK.split(str(item))[0])):
        named = ambiguity_type(text)
        if named is None:
            allowed = ", ".join(AMBIGUITY_TYPES)
            return f'but "{_TYPES_KEY}" has {text.strip()[:40]!r}, which is none of {allowed}', []
        found[named] = None
    return "", list(found)


# --- The user's choice ----------------------------------------------------------------------------------

_NUMBER: Final = re.compile(
    r"(?!-\d)\W*(?:query|choice|option|number|no\.?|查询|候选|选择|选|第)*\s*[#:：]?\s*(\d{1,3})\s*[.)、号条]?\W*"
)
_CHOICE_KEYS: Final = ("choice", "chosen", "number", "选择")


@dataclass(frozen=True, slots=True)
class Choice:
    """`{"choice": 2}`: one of the texts `offered`, by its number from 1 or in its own words; an index from 0.

    A bare number or text is understood too. `offered` must not be empty (ValueError).
    """

    offered: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.offered:
            raise ValueError("nothing is offered")

    @property
    def name(self) -> str:
        return f"choice/{len(self.offered)}"

    @property
    def json_schema(self) -> dict[str, Any]:
        return object_schema({"choice": {"type": "integer", "enum": list(range(1, len(self.offered) + 1))}})

    @property
    def grammar(self) -> str:
        numbers = " | ".join(f'"{n}"' for n in range(1, len(self.offered) + 1))
        return f'root ::= {literal(chr(123) + chr(34) + "choice" + chr(34) + ": ")} number "}}"\nnumber ::= {numbers}\n'

    def parse(self, text: str) -> int:
        said = _said(strip_thoughts(text))
        wanted = f"expected the number of a query from 1 to {len(self.offered)}"
        same = [n for n, offer in enumerate(self.offered) if folded(offer) == folded(said)]
        if same:
            return same[0]
        number = _NUMBER.match(said.casefold())
        if number is None or not self._is(number[1], said[number.end() :]):
            raise UnusableOutput(f"{wanted}, got {said[:60]!r}", text=text)
        return int(number[1]) - 1

    def _is(self, number: str, rest: str) -> bool:
        """Whether `number` is one of an offer, and nothing else follows it but that offer."""
        n = int(number)
        return 1 <= n <= len(self.offered) and folded(rest) in ("", folded(self.offered[n - 1]))


def _said(text: str) -> str:
    """The number or text in a reply, out of its JSON if there is any."""
    value = loads_or_none(text)
    if value is None and ("{" in text or "[" in text):
        try:
            value = find_json(text).value
        except UnusableOutput:  # brackets of an offer's own
            return text
    if isinstance(value, dict):
        named = {_key(name): part for name, part in value.items()}
        value = _taken(named, _CHOICE_KEYS) if len(named) > 1 else next(iter(named.values()), "")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return text if value is None else str(value)
