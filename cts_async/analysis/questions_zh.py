"""Rules for Chinese clarifying questions: which types of constraint they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cts_async.analysis.lexicon import (
    QUESTION_TYPES,
    QuestionType,
    lower_case_names,
    rules,
)

_WORDS, _PHRASES, _PATTERNS = rules("zh")
_NOUNS, _SHORT, _WEAK, _VALUES, MENTIONS = (
    _WORDS[name] for name in ("nouns", "short", "weak", "values", "mentions")
)
_PLACES: Final = [
    *_PATTERNS["areas"].pattern.split("|"),
    *(name for name in lower_case_names() if not name.isascii()),
]
_NAMED: Final = re.compile(
    rf"(?:{'|'.join(sorted(_PLACES, key=len, reverse=True))})(?!{_PATTERNS['institutions'].pattern})"
)


_END: Final = "。？！?!；;\n"

_AND: Final = "以及|(?<![涉普])及(?![格时])|和|与|跟|或者?|还有|、"
_ASKING: Final = "[哪何几谁某]|什么|多少|具体|特定"
"""Words that begin the next thing asked for, so that no phrase extends over them, as in 哪一年哪个地区."""


def _phrase(stops: str) -> str:
    """Return a pattern for the noun phrase after a question word, `np`, and what is joined to it, `more`."""
    np = rf"(?:(?!{_ASKING}|{_AND})[^的,{_END}{stops}]){{0,8}}"
    return rf"(?P<np>{np})(?P<more>(?:(?:{_AND}){np})*)"


EXAMPLES: Final = _PATTERNS["examples"]
_WH: Final = re.compile(
    r"(?P<wh>哪[一几]?[个些种类家款座位部届所本首支只场条台辆间项门份张]?|(?<!为)什么样?|何种|何|"
    rf"(?<![近前后这那])几[个种类家款]?|多少|多(?=[大高长久远])|谁){_phrase('是要想能可需在会为您你')}"
)
_SPECIFIC: Final = re.compile(
    r"(?:具体|特定|指定|限定|限制|某一?[个些种类]?|固定|明确|大致|大概|特别)(?:的|是|在|于)?"
    rf"{_phrase('是想能可需会您你还')}"
)
_SUBJECT_CHARS: Final = 40
"""Characters before a question word in which its subject is searched."""
_COUNTS: Final = frozenset({"哪", "哪一", "哪几", "几", "多", "多少"})

_CLASSIFIED: Final[dict[str, QuestionType]] = {
    **dict.fromkeys("种类些样", "scope"),
    **dict.fromkeys("个家款座位部所本首支只场台辆间项门张份条", "entity"),
    "届": "time",
}
"""The type for an unknown noun, by the question word's last character."""


def asked_types(text: str) -> list[QuestionType]:
    """Return the types that a question asks for, in the order asked; [] for none."""
    turns = [(at.span(), kind) for turn, kind in _PHRASES if (at := turn.search(text))]
    found = [(span[0], kind) for span, kind in turns]
    found += [
        placed
        for placed in [*_bound(text), *_offered(text)]
        if not any(start <= placed[0] <= end for (start, end), _ in turns)
    ]
    if found:
        return [kind for _, kind in sorted(found, key=lambda placed: placed[0])]
    return _requested(text) or [kind for kind in (_fallback(text),) if kind]


def _bound(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types that question words, and words such as 具体 and 某个, are bound to."""
    for found in _WH.finditer(text):
        before = text[max(0, found.start() - _SUBJECT_CHARS) : found.start()]
        kinds = [*_wh_types(found["wh"], found["np"], before), *_joined(found["more"])]
        yield from ((found.start(), kind) for kind in kinds)
    for found in _SPECIFIC.finditer(text):
        if kind := _noun(found["np"]) or _WEAK.first(found["np"]):
            yield from ((found.start(), one) for one in (kind, *_joined(found["more"])))


def _joined(more: str) -> Iterator[QuestionType]:
    """Yield the types of nouns that "and" or "or" joins to an earlier one: 哪个城市和年份 asks for both."""
    return (kind for part in re.split(_AND, more) if (kind := _noun(part)))


def _wh_types(wh: str, np: str, before: str) -> Sequence[QuestionType]:
    """Return the type of a question word with the noun after it, or else with its subjects."""
    if wh == "谁":
        return ["entity"]
    if wh in ("哪", "何") and np[:1] in tuple("里儿处地"):
        return ["region"]
    if wh + np[:1] == "何时" or (wh in _COUNTS and _PATTERNS["spell"].match(np)):
        return ["time"]
    if wh in ("几", "多", "多少"):
        return _counted(np, before)
    bound = _noun(np)
    if bound == "entity" and wh[-1] == "类":
        return ["scope"]
    if bound == "region" and _PATTERNS["no_place"].search(before):
        return ["scope"]
    if bound:
        return [bound]
    return _subjects(before) or [kind for kind in (_WEAK.first(np) or _unnamed(wh, before),) if kind]


def _noun(np: str) -> QuestionType | None:
    return _NOUNS.first(np) or _SHORT.first(np[:1])


def _subjects(before: str) -> list[QuestionType]:
    """Return the types of subjects that a question word asks for, as in "预算大概是", "地区和时间分别是"."""
    clause = re.split(rf"[,{_END}]", _PATTERNS["link"].sub("", before))[-1]
    kinds: list[QuestionType] = []
    for part in reversed(re.split(_AND, clause)):
        kind = _NOUNS.ending(part[-8:])
        if kind is None:
            break
        kinds.insert(0, kind)
        if "的" in part:  # further left it may belong to this word: 国家和地方的标准
            break
    return kinds


def _counted(np: str, before: str) -> Sequence[QuestionType]:
    kind = _noun(np)
    if kind == "entity" or np[:2] in ("个人", "口人"):
        return ["scope"]  # how many people it is for
    return [kind] if kind else _subjects(before) or ["criterion"]


def _unnamed(wh: str, before: str) -> QuestionType | None:
    if _PATTERNS["meant"].search(before[-4:]) and wh[-1] != "届":
        return "entity"
    return _CLASSIFIED.get(wh[-1], "scope")


def _offered(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types in which the alternatives of 还是 differ, if their words tell."""
    for clause in re.finditer(rf"[^{_END}]+", text):
        before, sign, after = clause[0].partition("还是")
        if not sign:
            continue
        at = clause.start() + len(before)
        kinds = {*_values(after), *_last_value(before)}
        yield from ((at, kind) for kind in QUESTION_TYPES if kind in kinds)
        if not kinds and _PATTERNS["preference"].search(before):
            yield at, "criterion"
        elif not kinds and not _WH.search(before) and _WH.search(after.partition(",")[2]):
            yield at, "scope"  # two questions: 单日票还是年票,大概什么时候去


def _values(text: str) -> Iterator[QuestionType]:
    """Yield the types of the values in a text: years, places, 最新, 国内 and the like."""
    if _PATTERNS["year"].search(text):
        yield "time"
    if _NAMED.search(text):
        yield "region"
    yield from (kind for _, kind in _VALUES.find(text))


def _last_value(before: str) -> Iterator[QuestionType]:
    """Yield the types of a value that the first alternative ends with: 最新的 counts, 最新的政策 does not."""
    tail = before.rstrip(",的")
    if (year := _PATTERNS["year"].search(tail[-6:])) and tail.endswith(year[0]):
        yield "time"
    if (place := _NAMED.search(tail[-5:])) and tail.endswith(place[0]):
        yield "region"
    if kind := _VALUES.ending(tail):
        yield kind


def _requested(text: str) -> list[QuestionType]:
    """Return the types that 请告诉我… or …能告诉我吗 names, or that the text ends with: 城市和年份分别是?"""
    text = text.rstrip(_END)
    if request := _PATTERNS["request"].search(text):
        named = request["object"].rstrip("吗呢么吧")
        text = named or text[: request.start()]
    return _subjects(text)


def _fallback(text: str) -> QuestionType | None:
    """Return the type of a question without a known question word."""
    if _PATTERNS["meant"].search(text) and ("还是" in text or _PATTERNS["polar"].search(text)):
        return "entity"
    if "还是" in text:
        return "scope"
    if value := next(_values(text), None):
        return value
    if _PATTERNS["polar"].search(text):
        return "scope" if _PATTERNS["wanted"].search(text) else None
    return _NOUNS.last(text.rstrip(_END)[-6:])
