"""Parsing replies: the form that a step expects, how it is found and repaired, and what was wrong with it.

Two rules. A reply is either parsed completely or rejected with a sentence for the model (`UnusableOutput.problem`);
nothing is guessed into a default. And a well-formed reply costs one `orjson.loads` and one loop: fences, prose,
thoughts and repairs are searched for only when that fails.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, TypeVar

from cts_async.errors import UnusableOutput
from cts_async.foreign_json import as_texts
from cts_async.llm.further import further_in_list
from cts_async.llm.json_text import answer_text, find_json, loads_or_none, only_string, strip_think_tags
from cts_async.records import AMBIGUITY_TYPES, DONT_KNOW, UNKNOWN, AmbiguityType, Answer

T_co = TypeVar("T_co", covariant=True)

MAX_QUESTION_CHARS: Final = 200
MAX_PHRASE_CHARS: Final = 120
MAX_ANSWER_CHARS: Final = 4_000
"""Far beyond a short phrase: an agent that asks would carry a longer one through its whole search."""
MAX_LINE_CHARS: Final = 200
MAX_REASONING_CHARS: Final = 1500


class Expect(Protocol[T_co]):
    """The form that a step's reply must have.

    `json_schema` and `grammar` (GBNF) let a server constrain its decoding; a server takes one of the two, and where
    both exist the grammar is the stricter. Both are part of the step's key, so a change of either makes every model
    that uses it execute its steps again. A form with thoughts of its own sets `keeps_thoughts = True`: `<think>` and
    its kind are left in the text that it parses. A form in which a reply may say more than is parsed has a method
    `further_in(text)`: what that is, by name (see `llm.further`).
    """

    @property
    def json_schema(self) -> dict[str, Any] | None: ...

    @property
    def grammar(self) -> str | None: ...

    def parse(self, text: str) -> T_co:
        """The value in `text`. Raises UnusableOutput with a `problem` that is a sentence for the model."""


# --- One phrase, one line, any text --------------------------------------------------------------------

PHRASES: Final = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))
_LABEL = re.compile(PHRASES["label"], re.IGNORECASE | re.VERBOSE)
_FENCE_LINE = re.compile(r"(?:```|~~~)[ \t]*[\w+-]*[ \t]*")
_QUOTE_MARK = re.compile(r"(?<!\w)'|'(?!\w)")
_BULLET = re.compile(r"\A[-*•>]\s+")
_UNKNOWN_SENTENCE = re.compile(rf"\W*{UNKNOWN}\W*(?:[.。(（].*)?", re.IGNORECASE | re.DOTALL)
_NEARLY_UNKNOWN_CLAUSE: Final = re.compile(PHRASES["unknown"], re.VERBOSE)
_NEARLY_UNKNOWN_SENTENCE: Final = re.compile(
    rf"\W*{PHRASES['unknown']}\W*(?:[.。(].*)?", re.VERBOSE | re.DOTALL
)
_CLAUSE_ENDS: Final = re.compile(r"[,、;:.。!?()—…]+|\s-+\s")
_NOT_SAID: Final = re.compile(PHRASES["not_said"], re.VERBOSE)
_MAX_UNKNOWN_CHARS: Final = 200


def _says_unknown(line: str, *, strict: bool) -> bool:
    """True if a reply is `unknown` or, unless `strict`, means the same: 未说明, "not specified", N/A.

    A synonym has to be the whole reply or its first sentence; next to the word itself ("没有提到年份，unknown") a clause
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
    clauses = [clause.strip(" \"'“”") for clause in _CLAUSE_ENDS.split(line)]
    clauses = list(filter(None, clauses))
    if not clauses:
        return False
    reasons = [clause for clause in clauses if not _NEARLY_UNKNOWN_CLAUSE.fullmatch(clause)]
    if reasons and UNKNOWN not in clauses:
        return False
    return all(map(_NOT_SAID.search, reasons))


@dataclass(frozen=True, slots=True)
class ShortPhrase:
    """The User Answerer's reply: its first non-empty line without label and quotes.

    `unknown` is recognised in any case, quotes and punctuation, also as a first sentence that others follow, and so
    are its synonyms (未知, "not specified"); a phrase that only contains such words is an ordinary answer. `strict`:
    only the word itself counts, as up to version 0.6, and for answers of people. `exact`: only a reply that is the
    word and nothing else, compared character by character, as the paper has it; "Unknown." is an answer then.
    `with_marks`: marks of thoughts other than `<think>` stay in the text, as up to version 0.11.
    """

    strict: bool = False
    exact: bool = False
    with_marks: bool = False
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str] = (
        f'root ::= "{UNKNOWN}" | phrase\n'
        f"phrase ::= [^\\x00-\\x20\\x7F<] [^\\x00-\\x1F\\x7F]{{0,{MAX_PHRASE_CHARS - 1}}}\n"
    )

    def parse(self, text: str) -> Answer:
        line = next(_bare_lines(text, with_marks=self.with_marks), None)
        if line is None:
            raise UnusableOutput(f"expected a short answer or the word {UNKNOWN}, got nothing", text=text)
        if len(line) > MAX_ANSWER_CHARS:
            raise UnusableOutput(f"expected a short answer, got one of {len(line):,} characters", text=text)
        if self.exact:
            reply = answer_text(text).strip()
            if line == UNKNOWN:
                # Taken out of its quotes the word would be read as `unknown` wherever the answer is read again.
                line = reply
            return Answer(line, unknown=reply == UNKNOWN)
        if _says_unknown(line, strict=self.strict):
            return Answer(UNKNOWN, unknown=True)
        return Answer(line, unknown=False)


@dataclass(frozen=True, slots=True)
class YesNo:
    """The user's reply to an agent, "yes-no": exactly one of yes, no and "i don't know" (InteractComp).

    Case, quotes, punctuation and the apostrophe do not matter, and what means `unknown` (see `ShortPhrase`) is "i don't
    know". Anything else is unusable: neither a word within a sentence nor silence is taken for a no.
    """

    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str] = f'root ::= "yes" | "no" | "{DONT_KNOW}"\n'

    def parse(self, text: str) -> Answer:
        lines = list(_bare_lines(text))
        if len(lines) == 1:
            folded = unicodedata.normalize("NFKC", lines[0]).casefold()
            words = " ".join("".join(sign for sign in folded if sign.isalnum() or sign.isspace()).split())
            if words in _YES_NO:
                reply = _YES_NO[words]
                return Answer(reply, unknown=reply == DONT_KNOW)
            if _says_unknown(lines[0], strict=False):
                return Answer(DONT_KNOW, unknown=True)
        raise UnusableOutput(f"expected exactly yes, no or {DONT_KNOW}, and nothing else", text=text)


_YES_NO: Final = {
    "yes": "yes",
    "no": "no",
    "i dont know": DONT_KNOW,
    "i do not know": DONT_KNOW,
    "dont know": DONT_KNOW,
    "是": "yes",
    "是的": "yes",
    "否": "no",
    "不是": "no",
    "不知道": DONT_KNOW,
    "我不知道": DONT_KNOW,
}
"""The replies by what a model may write of them: letters alone, case folded."""


@dataclass(frozen=True, slots=True)
class OneLine:
    """The Rewriter's reply: exactly one non-empty line, without quotes, fence or label around it.

    `with_marks`: marks of thoughts other than `<think>` stay in the text, as up to version 0.11.
    """

    with_marks: bool = False
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str] = f"root ::= [^\\x00-\\x20\\x7F<] [^\\x00-\\x1F\\x7F]{{0,{MAX_LINE_CHARS - 1}}}\n"

    def parse(self, text: str) -> str:
        lines = list(_bare_lines(text, with_marks=self.with_marks))
        if len(lines) == 1:
            return lines[0]
        got = "nothing"
        if lines:
            got = f"{len(lines)} lines"
        raise UnusableOutput(f"expected exactly one line with the rewritten query, got {got}", text=text)


def _bare_lines(text: str, *, with_marks: bool = False) -> Iterator[str]:
    """The non-empty lines of a reply without thoughts and fences, each without label and quotes."""
    if with_marks:
        answer = strip_think_tags(text)
    else:
        answer = answer_text(text)
    for line in _without_json(answer).splitlines():
        if _FENCE_LINE.fullmatch(line.strip()):
            continue
        bare = _unwrap(line)
        if bare:
            yield bare


def _without_json(text: str) -> str:
    """The string in a reply that is JSON around a single string; any other reply unchanged."""
    if not text.startswith(('"', "{", "[")):
        return text
    value = loads_or_none(text)
    if isinstance(value, (dict, list)) and len(value) == 1:
        value = only_string(value)
    if isinstance(value, str):
        return value
    return text


def _unwrap(line: str) -> str:
    """Remove labels, bullets and surrounding quotes until nothing more can be removed."""
    previous = None
    while line != previous:
        previous = line
        line = _unquote(_BULLET.sub("", line.strip(), count=1).strip())
        if line == previous:
            line = _LABEL.sub("", line, count=1)
    if any(map(str.isalnum, line)):
        return line
    # A rule (---), a lone bracket or quote: nothing that could be an answer or a query.
    return ""


def _unquote(line: str) -> str:
    """Remove one pair of quotes around the whole line; those of `"a" or "b"` end before it does, and stay."""
    for opening, closing in PHRASES["wrappers"]:
        is_long_enough = len(line) >= len(opening) + len(closing)
        if not (is_long_enough and line.startswith(opening) and line.endswith(closing)):
            continue
        inner = line[len(opening) : -len(closing)]
        if opening == "'":
            # An apostrophe within a word ends no quotation.
            ends_within = _QUOTE_MARK.search(inner) is not None
        else:
            ends_within = opening in inner or closing in inner
        if not ends_within:
            return inner
    return line


# --- Questions and queries ------------------------------------------------------------------------------

_NUMBERING = re.compile(
    r"\A(?:[Qq]?\d{1,2}\s*[.)、:：．）](?!\d)|[(（]\d{1,2}[)）]|[Qq]uestion\s+\d{1,2}\s*[.:：)]|[-*•](?=\s))\s*"
)
# These rules keep a tiny model to the point: an opening letter, no address, a question mark at the end of a question,
# some 80 tokens of reasoning.
_ITEM_RULES: Final = {
    "question": r'question ::= "\"" [A-Z\u4E00-\u9FFF] [^"\\/?？:\x00-\x1F\x7F]{5,90} ("?" | "？") "\""',
    "query": r'query ::= "\"" [A-Za-z0-9\u4E00-\u9FFF] [^"\\/?？:\x00-\x1F\x7F]{3,70} "\""',
}
_REASONING_RULE: Final = r'reasoning ::= "\"" [A-Z\u4E00-\u9FFF] [^"\\\x00-\x1F\x7F]{20,240} "\""'


class _Wrong(Exception):
    """What is wrong with a reply, as the rest of a sentence that says what was expected."""


@dataclass(frozen=True, slots=True)
class QuestionList:
    """The Clarifier's reply: a JSON array of exactly `k` non-empty, distinct questions; parses to them in order.

    `{"questions": [...]}` and arrays of `{"question": ...}` are accepted, and leading numbers removed. Two questions
    are the same if they differ only in case, width, punctuation or spacing.
    """

    k: int

    @property
    def grammar(self) -> str:
        return f'root ::= "[" {_items_rule("question", self.k)} "]"\n{_ITEM_RULES["question"]}\n'

    @property
    def json_schema(self) -> dict[str, Any]:
        return _texts_schema(self.k)

    def parse(self, text: str) -> tuple[str, ...]:
        reply = find_json(text)
        try:
            items = _list_in(reply.value, "questions")
            if items is None:
                raise _Wrong("got an object")
            if reply.cut_off:
                raise _Wrong("but the reply is cut off")
            return _texts_in(items, self.k, "question")
        except _Wrong as wrong:
            form = f"a JSON array of exactly {_n_strings(self.k)}"
            raise UnusableOutput(f"expected {form}, {wrong}", text=text) from None

    def further_in(self, text: str) -> dict[str, Any]:
        return further_in_list(text, "questions", "question")


_NUMBER_BETWEEN: Final = re.compile(
    r"(?<=[?？.。!！:：])\s+(?=(?:[Qq]?\d{1,2}[.)、:：．）]|[(（]\d{1,2}[)）])\s*\D)"
)
"""Where a numbered question begins within a line."""
_CLOSING: Final = "\"'”’」』*_)）"
_QUESTION: Final = re.compile(
    # A quotation that ends with a question mark within a sentence ends no sentence: What does "why?" mean?
    rf".+?[?？]+(?![{re.escape(_CLOSING)}]+\s*[a-z,，])[{re.escape(_CLOSING)}]*"
)
_PREAMBLE: Final = re.compile(r"\A[^?？]{0,120}(?:questions?\b|问题)[^?？:：]{0,60}[:：]\s*", re.IGNORECASE)


def questions_in(text: str, k: int) -> list[str]:
    """Return the first `k` distinct questions in a model's free reply, without numbers, bullets, quotes or preamble.

    It may be JSON, a list with one question a line, or several questions on one line. Where anything ends with a
    question mark only that counts, else each line does. Fewer than `k` where the reply has no more.
    """
    text = answer_text(text)
    items = _questions_of_json(text) or _questions_of_lines(text)
    questions: dict[str, str] = {}
    for item in items:
        # Numbers stand within bullets and quotes, and around them: 1. "Which year?" and **2. Which one?**
        without_bullet = _unwrap(" ".join(item.split()))
        question = _unwrap(_NUMBERING.sub("", without_bullet, count=1))
        folded = comparable(question)
        if folded:
            questions.setdefault(folded, question)
    return list(questions.values())[:k]


def _questions_of_json(text: str) -> list[str]:
    """The texts of a list in JSON; [] where there is none, or where only the text around it asks anything."""
    try:
        items = _list_in(find_json(text).value, "questions") or []
    except UnusableOutput:
        return []
    questions: list[str] = []
    for item in items:
        question = _text_of(item, "question")
        if isinstance(question, str):
            questions.append(question)
    if _asks(text) and not any(map(_asks, questions)):
        return []
    return questions


def _questions_of_lines(text: str) -> list[str]:
    """The questions in free text; each line where nothing ends with a question mark, but for those that announce."""
    pieces: list[str] = []
    for line in text.splitlines():
        if not _FENCE_LINE.fullmatch(line.strip()):
            pieces += _NUMBER_BETWEEN.split(line)
    if not any(map(_asks, pieces)):
        return [piece for piece in pieces if not piece.rstrip().endswith((":", "："))]
    questions: list[str] = []
    for piece in pieces:
        questions += [_PREAMBLE.sub("", sentence) for sentence in _QUESTION.findall(piece)]
    return questions


def _asks(text: str) -> bool:
    return "?" in text or "？" in text


@dataclass(frozen=True, slots=True)
class Clarified:
    """A Clarifier's reply at one turn of a conversation: its offers, best first, and its thoughts.

    `types` are the ambiguity types that it names, each once, in its order; empty, like `reasoning`, where its scheme
    does not ask for them.
    """

    offered: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """A field of the object that a Clarifier replies with."""

    key: str
    schema: dict[str, Any]
    grammar: str
    rule: str
    """The GBNF rule that `grammar` refers to."""
    form: str
    """The field's value in the sentence that says what was expected."""


@dataclass(frozen=True, slots=True)
class Clarification:
    """A Clarifier's reply at one turn of AT-CoT: `{"reasoning", "ambiguity_types", "questions" or "queries"}`.

    The parts stand in the order of the paper's equations (SIGIR 2025, section 3.2), the first two only where the
    scheme asks for them; without both, a bare array is accepted. Exactly `k` non-empty texts. Questions have to be
    distinct; of queries that are the same the first is kept. Types are understood in any case, number and either
    language; an unknown one is a problem.
    """

    k: int
    list_key: Literal["questions", "queries"] = "questions"
    reasoning: bool = False
    types: bool = False

    @property
    def json_schema(self) -> dict[str, Any]:
        return object_schema({part.key: part.schema for part in self._parts()})

    @property
    def grammar(self) -> str:
        parts = self._parts()
        fields = ' ", " '.join(part.grammar for part in parts)
        lines = [f'root ::= "{{" {fields} "}}"']
        lines += [part.rule for part in parts]
        return "\n".join(lines) + "\n"

    def _parts(self) -> list[_Part]:
        # Order, spelling and limits are part of the step's key.
        parts = []
        if self.reasoning:
            schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_REASONING_CHARS}
            grammar = literal('"reasoning": ') + " reasoning"
            parts.append(_Part("reasoning", schema, grammar, _REASONING_RULE, "text"))
        if self.types:
            types = {"type": "string", "enum": list(AMBIGUITY_TYPES)}
            schema = {"type": "array", "items": types, "minItems": 1, "maxItems": 3}
            grammar = literal(f'"{_TYPES_KEY}"') + ' ": " types'
            parts.append(_Part(_TYPES_KEY, schema, grammar, _types_rule(), "[...]"))
        grammar = literal(f'"{self.list_key}"') + f' ": [" {_items_rule(self._item_key, self.k)} "]"'
        rule = _ITEM_RULES[self._item_key]
        form = f"[exactly {_n_strings(self.k)}]"
        parts.append(_Part(self.list_key, _texts_schema(self.k), grammar, rule, form))
        return parts

    @property
    def _item_key(self) -> str:
        if self.list_key == "questions":
            return "question"
        return "query"

    def parse(self, text: str) -> Clarified:
        reply = find_json(text)
        try:
            if reply.cut_off:
                raise _Wrong("but the reply is cut off")
            return self._read(_unwrapped(reply.value))
        except _Wrong as wrong:
            form = ", ".join(f'"{part.key}": {part.form}' for part in self._parts())
            raise UnusableOutput(f"expected {{{form}}}, {wrong}", text=text) from None

    def further_in(self, text: str) -> dict[str, Any]:
        fields = further_in_list(text, self.list_key, self._item_key)
        read: tuple[str, ...] = ()
        if self.reasoning:
            read += _THOUGHT_KEYS
        if self.types:
            read += _TYPE_KEYS
        return {name: value for name, value in fields.items() if _plain_key(name) not in read}

    def _read(self, value: dict[str, Any] | list[Any]) -> Clarified:
        reasoning = ""
        types: tuple[AmbiguityType, ...] = ()
        if isinstance(value, dict):
            value = {_plain_key(name): part for name, part in value.items()}
            # Taken out also where the scheme does not ask for them: what is left may be the only list or text.
            thoughts = _pop_any(value, _THOUGHT_KEYS)
            names_of_types = _pop_any(value, _TYPE_KEYS)
            if self.reasoning:
                reasoning = _one_line(thoughts)
            if self.types:
                types = _types_in(names_of_types)
        if self.reasoning and not reasoning:
            raise _Wrong('but "reasoning" is missing or empty')
        if self.types and not types:
            raise _Wrong(f'but "{_TYPES_KEY}" is missing')
        items = _list_in(value, self.list_key)
        if items is None and isinstance(value, dict):
            text = only_string(value)
            if text is not None:
                items = [text]
        if items is None:
            raise _Wrong(f'but "{self.list_key}" is missing')
        return Clarified(_texts_in(items, self.k, self._item_key), types, reasoning)


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's choice, `{"choice": 2}`: one of the texts `offered`, by its number from 1 or in its own words.

    Parses to an index from 0. A bare number or text is understood too. `offered` must not be empty (ValueError).
    """

    offered: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.offered:
            raise ValueError("nothing is offered")

    @property
    def json_schema(self) -> dict[str, Any]:
        return object_schema({"choice": {"type": "integer", "enum": list(range(1, len(self.offered) + 1))}})

    @property
    def grammar(self) -> str:
        numbers = " | ".join(f'"{n}"' for n in range(1, len(self.offered) + 1))
        opening = literal('{"choice": ')
        return f'root ::= {opening} number "}}"\nnumber ::= {numbers}\n'

    def parse(self, text: str) -> int:
        choice = _choice_in(answer_text(text))
        offered = [comparable(offer) for offer in self.offered]
        if comparable(choice) in offered:
            return offered.index(comparable(choice))
        number = _NUMBER.match(choice.casefold())
        if number:
            index = int(number[1]) - 1
            words_behind = comparable(choice[number.end() :])
            # Behind the number may stand its query again; any other words may contradict it.
            if 0 <= index < len(offered) and words_behind in ("", offered[index]):
                return index
        form = f"the number of a query from 1 to {len(self.offered)}"
        raise UnusableOutput(f"expected {form}, got {choice[:60]!r}", text=text)


_NUMBER: Final = re.compile(
    r"(?!-\d)\W*(?:query|choice|option|number|no\.?|查询|候选|选择|选|第)*\s*[#:：]?\s*(\d{1,3})\s*[.)、号条]?\W*"
)
_CHOICE_KEYS: Final = ("choice", "chosen", "number", "选择")


def _choice_in(text: str) -> str:
    """The number or text in a reply, taken out of its JSON if there is any."""
    value = loads_or_none(text)
    if value is None and ("{" in text or "[" in text):
        try:
            value = find_json(text).value
        except UnusableOutput:  # the brackets belong to an offer
            return text
    if isinstance(value, dict):
        fields = {_plain_key(name): part for name, part in value.items()}
        if len(fields) > 1:
            value = _pop_any(fields, _CHOICE_KEYS)
        else:
            value = next(iter(fields.values()), "")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return text
    return str(value)


def _n_strings(k: int) -> str:
    return f"{k} string{'s' * (k != 1)}"


def _list_in(value: object, key: str) -> list[Any] | None:
    """The array itself, the one under `key`, or the only one in an object; else None."""
    if isinstance(value, dict) and key in value:
        value = value[key]
    elif isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        if len(lists) == 1:
            return lists[0]
    if isinstance(value, list):
        return value
    return None


def _text_of(item: object, key: str) -> object:
    """The text of an item of a list: it may be an object that has it under `key`, or has only one text."""
    if isinstance(item, dict):
        return item.get(key, only_string(item))
    return item


def _texts_in(items: list[Any], k: int, key: str) -> tuple[str, ...]:
    """The texts of exactly `k` items, without leading numbers. Raises _Wrong, also if two questions are the same.

    Of equal queries the first counts.
    """
    if len(items) != k:
        raise _Wrong(f"got {len(items)}")
    texts: list[str] = []
    numbers: dict[str, int] = {}
    for n, item in enumerate(items, 1):
        text = _text_of(item, key)
        if not isinstance(text, str):
            raise _Wrong(f"but item {n} is not a string")
        text = _NUMBERING.sub("", " ".join(text.split()), count=1)
        folded = comparable(text)
        if not folded:
            raise _Wrong(f"but item {n} is empty")
        if folded not in numbers:
            numbers[folded] = n
            texts.append(text)
        elif key != "query":
            raise _Wrong(f"but items {numbers[folded]} and {n} are the same")
    return tuple(texts)


def comparable(text: str) -> str:
    """A text without case, width, punctuation, spaces and control characters, for comparing."""
    # Again after folding, which may leave a text that is not in normal form.
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(ch for ch in plain if unicodedata.category(ch)[0] not in "PZC")


def _unwrapped(value: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """The object in a value that holds nothing else: `[{...}]`, `{"result": {...}}`; any other value as it is."""
    while len(value) == 1:
        if isinstance(value, dict):
            (inner,) = value.values()
        else:
            (inner,) = value
        # An object of one field is the form itself, {"questions": [...]}, not a wrapper of it.
        if not isinstance(inner, dict) or len(inner) < 2:
            break
        value = inner
    return value


def _plain_key(name: str) -> str:
    """A key as the forms spell it: `Ambiguity Types` and `ambiguityTypes` are `ambiguity_types`."""
    return re.sub(r"[\s_-]+|(?<=[a-z])(?=[A-Z])", "_", name.strip()).casefold()


def _pop_any(value: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """Remove the first of `keys` that the object has, and return its value; "" for none."""
    for key in keys:
        if key in value:
            return value.pop(key)
    return ""


def _one_line(value: Any) -> str:
    """A text, or several, on one line; "" for anything else."""
    if isinstance(value, str):
        value = [value]
    return " ".join(" ".join(as_texts(value)).split())


# --- Ambiguity types ------------------------------------------------------------------------------------

_TYPES_KEY: Final = "ambiguity_types"
_TYPE_KEYS: Final = (_TYPES_KEY, "ambiguity_type", "types", "type", "歧义类型", "类型")
_THOUGHT_KEYS: Final = ("reasoning", "reason", "explanation", "analysis", "thought", "推理", "理由", "分析")
_TYPE_NAMES: Final = {
    type_: re.compile(rf"(?:{PHRASES['ambiguity_types'][type_]})(?:types?|ambiguit(?:y|ies)|性|歧义|类型)*")
    for type_ in AMBIGUITY_TYPES
}
_BETWEEN: Final = re.compile(r"[,，、;；/&+|]|\band\b|和")
_REMARK: Final = re.compile(r"\s[-–—]\s|[:：(（]")


def _types_in(value: Any) -> tuple[AmbiguityType, ...]:
    """The types that are named, in any case, number or form, in English or Chinese, each once.

    Raises _Wrong for an unknown one.
    """
    if isinstance(value, list):
        items = value
    elif value:
        items = [value]
    else:
        items = []
    types: dict[AmbiguityType, None] = {}
    for item in items:
        if isinstance(item, dict):
            item = _pop_any(dict(item), _TYPE_KEYS)
        names = _REMARK.split(str(item))[0]
        for name in _BETWEEN.split(names):
            # Once more: normalized, a full-width bracket or colon begins a remark, too.
            plain = _REMARK.split(unicodedata.normalize("NFKC", name), maxsplit=1)[0]
            types[_type_called(comparable(plain), name)] = None
    return tuple(types)


def _type_called(name: str, shown: str) -> AmbiguityType:
    for type_, names in _TYPE_NAMES.items():
        if names.fullmatch(name):
            return type_
    allowed = ", ".join(AMBIGUITY_TYPES)
    raise _Wrong(f'but "{_TYPES_KEY}" has {shown.strip()[:40]!r}, which is none of {allowed}')


# --- JSON schemas, and GBNF, the grammar notation of llama.cpp -----------------------------------------


def literal(text: str) -> str:
    """The GBNF literal of a text of one line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _items_rule(item: str, k: int) -> str:
    if k > 1:
        return f'{item} (", " {item}){{{k - 1}}}'
    return item


def _types_rule() -> str:
    """The GBNF rule of the arrays of types: each non-empty set of them, in the order of the taxonomy."""
    arrays: list[str] = []
    for subset in range(1, 1 << len(AMBIGUITY_TYPES)):
        names = [name for bit, name in enumerate(AMBIGUITY_TYPES) if subset >> bit & 1]
        arrays.append(literal(json.dumps(names)))
    return f"types ::= {' | '.join(arrays)}"


def _texts_schema(k: int) -> dict[str, Any]:
    item = {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARS}
    return {"type": "array", "items": item, "minItems": k, "maxItems": k}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def wording_of_unknown(text: str) -> Literal["exact", "paraphrased", ""]:
    """Return how a reply of the User Answerer says `unknown`; "" for an answer, and for an unusable reply.

    Thoughts before the reply are no part of its wording.
    """
    try:
        if answer_text(text).strip() == UNKNOWN:
            return "exact"
        if ShortPhrase().parse(text).unknown:
            return "paraphrased"
    except UnusableOutput:
        pass
    return ""
