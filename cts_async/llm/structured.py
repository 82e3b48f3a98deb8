"""What a step expects of a model's text: find it, repair it, validate it, say what was wrong.

Two rules. A reply is either understood whole or refused with a sentence that can be told to the model
(`UnusableOutput.problem`); nothing is guessed into a default. And a well-formed reply costs one
`orjson.loads` and one loop: fences, prose, thoughts and repairs are looked for only when that fails.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import Found, find_json, loads_or_none, only_string, strip_thoughts
from cts_async.llm.questions import QuestionList
from cts_async.llm.reasoning import split_thoughts
from cts_async.records import COVERAGES, UNKNOWN, Answer, Coverage

__all__ = [
    "CoverageList",
    "Expect",
    "FreeText",
    "OneLine",
    "QuestionList",
    "ShortPhrase",
]

T_co = TypeVar("T_co", covariant=True)

MAX_PHRASE_CHARS: Final = 120
MAX_LINE_CHARS: Final = 200
MAX_NAMED: Final = 5
"""At most so many ids are named in one problem."""


class Expect(Protocol[T_co]):
    """The form a step's reply must have.

    `json_schema` and `grammar` (GBNF) let a server that understands them constrain its decoding; a server
    takes one of the two, and where both exist the grammar is the stricter. Neither may be modified. One whose
    form has thoughts of its own says so with `keeps_thoughts = True`: they are left in the text it parses.
    """

    @property
    def name(self) -> str:
        """A stable word for journals and step keys, with the parameters that change the form."""

    @property
    def json_schema(self) -> dict[str, Any] | None: ...

    @property
    def grammar(self) -> str | None: ...

    def parse(self, text: str) -> T_co:
        """Give the value in `text`, or raise UnusableOutput with a `problem` fit to be told to the model."""


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
    """Whether a reply is `unknown` or, unless `strict`, means nothing else: 未说明, "not specified", N/A.

    A near-unknown is the whole reply or its first sentence; beside the word itself ("没有提到年份，unknown") a
    clause that says why may be of any form. What merely holds such words ("未知数", "unknown soldier") is an answer.
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
    is what means the same and nothing else (未知, "not specified"); a phrase that merely holds such words is an
    ordinary answer. `strict`: only the word itself counts, as up to version 0.6, and for what people have answered.
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
    """The Rewriter's reply: exactly one non-empty line, without the quotes, fence or label around it."""

    name: ClassVar[str] = "line"
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str] = f"root ::= [^\\x00-\\x20\\x7F<] [^\\x00-\\x1F\\x7F]{{0,{MAX_LINE_CHARS - 1}}}\n"

    def parse(self, text: str) -> str:
        lines = list(_lines(text))
        if len(lines) != 1:
            got = f"{len(lines)} lines" if lines else "nothing"
            raise UnusableOutput(f"expected exactly one line with the rewritten query, got {got}", text=text)
        return lines[0]


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text that is not blank, unchanged."""

    name: ClassVar[str] = "text"
    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str | None] = None

    def parse(self, text: str) -> str:
        if not text or text.isspace():
            raise UnusableOutput("expected a text, got nothing", text=text)
        return text


def _lines(text: str) -> Iterator[str]:
    """The non-empty lines of a reply, thoughts and fences dropped, each out of its label and quotes."""
    for line in _plain(strip_thoughts(text)).splitlines():
        if not _FENCE_LINE.fullmatch(line.strip()) and (line := _unwrap(line)):
            yield line


def _plain(text: str) -> str:
    """The string in a reply that is JSON around a single one; any other reply as it is."""
    if not text.startswith(('"', "{", "[")):
        return text
    value = loads_or_none(text)
    if isinstance(value, (dict, list)) and len(value) == 1:
        value = only_string(value)
    return value if isinstance(value, str) else text


def _unwrap(line: str) -> str:
    """Take labels, bullets and surrounding quotes off until nothing more comes off."""
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
    """Whether the quotation ends before its end: `"a" or "b"`. An apostrophe within a word ends nothing."""
    if left == "'":
        return re.search(r"(?<!\w)'|'(?!\w)", inner) is not None
    return left in inner or right in inner


# --- The judge's labels ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CoverageList:
    """`{"results": [{"id", "coverage"}]}` with every id of `ids` exactly once; parses to pairs in that order.

    A bare array and a mapping `{"N1": "full"}` are understood; case and space of a label do not matter.
    Anything missing, repeated, unknown or not one of full, partial, none is a problem, never a label.

    The candidate answer that is judged may hold a finished verdict, in the hope that the judge quotes it. So the
    reply has to be the verdict and nothing else: one JSON value, perhaps in a code fence, with each label once,
    after no more than a phrase that announces it (`_ANNOUNCEMENT`). Any other text around the JSON may be the
    judge's verdict in words, of which the JSON is only a quotation. Ids that a candidate cannot guess instead of
    N1, N2, ... would change the key of every judging step, and cost small judges accuracy: of 72 easy labels, a model
    of 0.5 billion parameters got 62 right with plain ids and 56 with four hexadecimal digits.

    `ids` must be distinct and not empty (ValueError).
    """

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.ids or len(set(self.ids)) != len(self.ids):
            raise ValueError(f"nugget ids must be distinct and not empty: {self.ids!r}")

    @property
    def name(self) -> str:
        return "coverage"

    @property
    def json_schema(self) -> dict[str, Any]:
        return _coverage_schema(self.ids)

    @property
    def grammar(self) -> str:
        """One line of JSON in which ids and their order are fixed and only the labels are free."""
        return _coverage_grammar(self.ids)

    def parse(self, text: str) -> tuple[tuple[str, Coverage], ...]:
        ids = self.ids
        value = loads_or_none(text)
        if _says_all_once(text, len(ids)) and (exact := _as_asked(value, ids)) is not None:
            return exact
        found = _only_json(value if isinstance(value, str) else text)
        labels: dict[str, Coverage | None] = {}
        repeated: list[str] = []
        for key, label in _rows(found, text):
            if key in labels:
                repeated.append(key)
            labels[key] = _LABELS.get(label) or _label(label) if isinstance(label, str) else None
        if repeated or labels.keys() != frozenset(ids) or None in labels.values():
            raise UnusableOutput(_coverage_problem(ids, labels, repeated), text=text)
        if _labels_in(found, ids) > len(ids):
            raise UnusableOutput(f"{_ONLY_ONCE}, got more labels than ids", text=text)
        pairs = tuple([(key, labels[key]) for key in ids])
        return cast(tuple[tuple[str, Coverage], ...], pairs)


def _says_all_once(text: str, n: int) -> bool:
    """Whether JSON of the form asked for can have no key twice, of which a parser takes the last without a word."""
    return text.count('"coverage"') == n and text.count('"results"') == 1 and "\\" not in text


def _as_asked(value: Any, ids: tuple[str, ...]) -> tuple[tuple[str, Coverage], ...] | None:
    """The pairs of a reply in exactly the form and order asked for; None for any other."""
    try:
        pairs = [(item["id"], _LABELS[item["coverage"]]) for item in value["results"]]
    except (TypeError, KeyError):
        return None
    return tuple(pairs) if len(value) == 1 and tuple([key for key, _ in pairs]) == ids else None


_ONLY_ONCE: Final = "expected the results once, as JSON and nothing else"
_ANNOUNCEMENT: Final = re.compile(
    r"""(?: [\s*_\#`~:：,，.。!！-]
    | (?<![a-z])(?: here | is | are | the | my | your | final | json | results? | coverage | output | evaluation
        | assessments? | verdict | judge?ments? | labels? | sure | certainly | okay | ok | in | as | format | below
        | follows | based | strict | valid | it | they | this | these | you | go | following | response | reply | object
        | (?:for|of|on|against|about) \s (?:(?:the|each|all|every|gold|given) \s)* (?:nuggets? | candidate \s answer)
    )(?![a-z])
    | 's(?![a-z])
    | [以下是为的对] | 如下 | 评测 | 评估 | 评审 | 判断 | 结果 | 输出 | 格式 | 覆盖度? | 标签 | 信息点 | 每个 | 各个?
    | 好的 | 根据候选答案
    )*+""",
    re.IGNORECASE | re.VERBOSE,
)
"""What may stand in front of a verdict: words that can say no more than that it follows."""
_END: Final = re.compile(r"[\s`~.。]*")
_WORD: Final = re.compile(r"\w+")


def _only_json(text: str) -> Found:
    """The JSON in a reply that consists of it; UnusableOutput where anything is beside it that could mean something.

    Thoughts count as such at the very beginning only: further on, their tags may be quoted.
    """
    reply = split_thoughts(text)[1].strip("\ufeff \t\r\n")
    found = find_json(reply)
    alone = found.source == reply or (
        strip_thoughts(reply) == reply
        and _ANNOUNCEMENT.fullmatch(found.before)
        and _END.fullmatch(found.after)
    )
    if not alone:
        raise UnusableOutput(f"{_ONLY_ONCE}, got other text beside it", text=text)
    return found


def _labels_in(found: Found, ids: tuple[str, ...]) -> int:
    """How many labels stand in the JSON, as values; in broken JSON too many if it has words of its own.

    What was repaired may have been left out by that.
    """
    if found.repaired:
        words = [_WORD.findall(_folded(text)) for text in (found.source, " ".join(ids))]
        own = set(words[0]) - {"results", "id", "coverage", *COVERAGES, *words[1]}
        return len(ids) + 1 if own else sum(word in _LABELS for word in words[0])
    try:
        # As pairs: a key that is there twice is then counted twice.
        waiting: list[Any] = [json.loads(found.source, object_pairs_hook=list)]
    except RecursionError:  # nested deeper than any verdict is
        return len(ids) + 1
    n = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            n += _label(value) is not None
        elif isinstance(value, tuple):
            key, inner = value
            waiting += [inner] if key != "id" else []
        elif isinstance(value, list):
            waiting += value
    return n


_LABELS: Final[dict[str, Coverage]] = {label: label for label in COVERAGES}


def _label(text: str) -> Coverage | None:
    return _LABELS.get(_folded(text).strip())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _rows(found: Found, text: str) -> Iterable[tuple[str, object]]:
    """The (id, label) pairs of any of the understood forms, in the order given."""
    value: Any = found.value
    if isinstance(value, dict) and "results" in value:
        if len(value) > 1:  # the results may be a quotation, and the verdict stand beside it
            raise UnusableOutput(f"{_ONLY_ONCE}, got other keys beside results", text=text)
        value = value["results"]
    if isinstance(value, dict):
        return _one_row(value) or _mapping_rows(found)
    try:
        return [(_id(item["id"]), item.get("coverage")) for item in value]
    except (TypeError, KeyError, AttributeError):
        problem = 'expected {"results": [{"id": ..., "coverage": ...}, ...]}'
        raise UnusableOutput(f"{problem}, got an item without an id", text=text) from None


def _one_row(value: dict[str, Any]) -> list[tuple[str, object]]:
    """A lone `{"id", "coverage"}` object, as a list of one; empty if it is not that."""
    return [(_id(value["id"]), value["coverage"])] if value.keys() >= {"id", "coverage"} else []


def _mapping_rows(found: Found) -> list[tuple[str, object]]:
    """A mapping's pairs, also those of a key that is there twice."""
    pairs: Any = _pairs(found)
    if len(pairs) == 1 and pairs[0][0] == "results":
        pairs = pairs[0][1]
    return [(_id(key), label) for key, label in pairs]


def _pairs(found: Found) -> object:
    value = cast(dict[str, Any], found.value)
    if not found.repaired:
        return json.loads(found.source, object_pairs_hook=list)
    results = value.get("results")
    return list((results if isinstance(results, dict) else value).items())


def _id(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) else orjson.dumps(value).decode()


def _coverage_problem(ids: tuple[str, ...], labels: dict[str, Coverage | None], repeated: list[str]) -> str:
    """Everything that is wrong with the labels, in one sentence."""
    known = frozenset(ids)
    problems = [
        _named("missing ids", [key for key in ids if key not in labels]),
        _named("unknown ids", [key for key in labels if key not in known]),
        _named("ids given more than once", list(dict.fromkeys(repeated))),
        _named(
            "coverage is not full, partial or none for", [k for k in ids if k in labels and not labels[k]]
        ),
    ]
    return "expected every id exactly once; " + "; ".join(problem for problem in problems if problem)


def _named(what: str, ids: list[str]) -> str:
    """`what: a, b and 3 more`; an empty string where there are none."""
    shown = ", ".join(key if len(key) <= 40 else key[:39] + "…" for key in ids[:MAX_NAMED])
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return f"{what}: {shown}{more}" if ids else ""


@lru_cache(maxsize=256)
def _coverage_schema(ids: tuple[str, ...]) -> dict[str, Any]:
    properties = {"id": {"enum": list(ids)}, "coverage": {"enum": list(COVERAGES)}}
    item = object_schema(properties)
    results = {"type": "array", "items": item, "minItems": len(ids), "maxItems": len(ids)}
    return object_schema({"results": results})


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@lru_cache(maxsize=256)
def _coverage_grammar(ids: tuple[str, ...]) -> str:
    heads = ['{"id":' + orjson.dumps(key).decode() + ',"coverage":"' for key in ids]
    opening = ['{"results":[' + heads[0], *('"},' + head for head in heads[1:])]
    rule = " label ".join(_gbnf_literal(part) for part in opening)
    labels = " | ".join(f'"{label}"' for label in COVERAGES)
    return f"root ::= {rule} label {_gbnf_literal(chr(34) + '}]}')}\nlabel ::= {labels}\n"


def _gbnf_literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
