"""Rules for Chinese clarifying questions: which types of constraint they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final

from cts_async.analysis.lexicon import QUESTION_TYPES, QuestionType, lower_case_names, rules

_WORDS, _PHRASES, _PATTERNS = rules("zh")
_NOUNS, _SHORT, _WEAK = _WORDS["nouns"], _WORDS["short"], _WORDS["weak"]
_VALUES, MENTIONS = _WORDS["values"], _WORDS["mentions"]
_PLACES: Final = _PATTERNS["areas"].pattern.split("|")
_PLACES.extend(name for name in lower_case_names() if not name.isascii())
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

_CLASSIFIERS: Final[dict[QuestionType, str]] = {
    "scope": "种类些样",
    "entity": "个家款座位部所本首支只场台辆间项门张份条",
    "time": "届",
}
"""Last characters of question words by the type that they give an unknown noun."""


def asked_types(text: str) -> list[QuestionType]:
    """Return the types that a question asks for, in the order asked; [] for none."""
    phrases: list[tuple[int, int]] = []
    placed: list[tuple[int, QuestionType]] = []
    for phrase, kind in _PHRASES:
        match = phrase.search(text)
        if match:
            phrases.append(match.span())
            placed.append((match.start(), kind))
    for position, kind in chain(_bound(text), _offered(text)):
        # The words of a phrase, and what follows it at once, are not read for themselves.
        if not any(start <= position <= end for start, end in phrases):
            placed.append((position, kind))
    if placed:
        placed.sort(key=itemgetter(0))
        return [kind for _, kind in placed]
    kinds = _requested(text)
    if kinds:
        return kinds
    fallback = _fallback(text)
    if fallback is None:
        return []
    return [fallback]


def _bound(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types that question words, and words such as 具体 and 某个, are bound to."""
    for match in _WH.finditer(text):
        before = text[max(0, match.start() - _SUBJECT_CHARS) : match.start()]
        for kind in chain(_wh_types(match["wh"], match["np"], before), _joined_types(match["more"])):
            yield match.start(), kind
    for match in _SPECIFIC.finditer(text):
        specific = _noun_type(match["np"]) or _WEAK.first(match["np"])
        if specific is None:
            continue
        yield match.start(), specific
        for kind in _joined_types(match["more"]):
            yield match.start(), kind


def _joined_types(joined: str) -> Iterator[QuestionType]:
    """Yield the types of nouns that "and" or "or" joins to an earlier one: 哪个城市和年份 asks for both."""
    for part in re.split(_AND, joined):
        kind = _noun_type(part)
        if kind:
            yield kind


def _wh_types(wh: str, np: str, before: str) -> Sequence[QuestionType]:
    """Return the type of a question word with the noun after it, or else with its subjects."""
    if wh == "谁":
        return ["entity"]
    if wh in ("哪", "何") and np[:1] in tuple("里儿处地"):
        return ["region"]
    if wh + np[:1] == "何时":
        return ["time"]
    # 多久, 几天, 多少年: a count of time is how long, and no amount.
    if wh in _COUNTS and _PATTERNS["spell"].match(np):
        return ["time"]
    if wh in ("几", "多", "多少"):
        return _quantity_types(np, before)
    bound = _noun_type(np)
    # 哪类签证 asks for a kind of visa, and not for one of several visas.
    if bound == "entity" and wh[-1] == "类":
        return ["scope"]
    # 大脑的哪个区域 and the like: things with regions that are not places.
    if bound == "region" and _PATTERNS["no_place"].search(before):
        return ["scope"]
    if bound:
        return [bound]
    subjects = _subject_types(before)
    if subjects:
        return subjects
    return [_WEAK.first(np) or _unknown_noun_type(wh, before)]


def _noun_type(np: str) -> QuestionType | None:
    """Return the type of a noun phrase: of its first noun, or of the single character that it begins with."""
    return _NOUNS.first(np) or _SHORT.first(np[:1])


def _subject_types(before: str) -> list[QuestionType]:
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


def _quantity_types(np: str, before: str) -> Sequence[QuestionType]:
    """Return the types of "how many" and "how much": an unknown amount is a criterion."""
    kind = _noun_type(np)
    if kind == "entity" or np[:2] in ("个人", "口人"):
        return ["scope"]  # how many people it is for
    if kind:
        return [kind]
    return _subject_types(before) or ["criterion"]


def _unknown_noun_type(wh: str, before: str) -> QuestionType:
    """Return the type of a question word with an unknown noun, by the classifier that it ends with."""
    if _PATTERNS["meant"].search(before[-4:]) and wh[-1] != "届":
        return "entity"
    for kind, classifiers in _CLASSIFIERS.items():
        if wh[-1] in classifiers:
            return kind
    return "scope"


def _offered(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types in which the alternatives of 还是 differ, if their words tell."""
    for clause in re.finditer(rf"[^{_END}]+", text):
        before, sign, after = clause[0].partition("还是")
        if not sign:
            continue
        position = clause.start() + len(before)
        kinds = set(_values(after))
        kinds.update(_ending_values(before))
        for kind in QUESTION_TYPES:
            if kind in kinds:
                yield position, kind
        if kinds:
            continue
        if _PATTERNS["preference"].search(before):
            yield position, "criterion"
        elif not _WH.search(before) and _WH.search(after.partition(",")[2]):
            yield position, "scope"  # two questions: 单日票还是年票,大概什么时候去


def _values(text: str) -> Iterator[QuestionType]:
    """Yield the types of the values in a text: years, places, 最新, 国内 and the like."""
    if _PATTERNS["year"].search(text):
        yield "time"
    if _NAMED.search(text):
        yield "region"
    for _, kind in _VALUES.find(text):
        yield kind


def _ending_values(before: str) -> Iterator[QuestionType]:
    """Yield the types of a value that the first alternative ends with: 最新的 counts, 最新的政策 does not."""
    tail = before.rstrip(",的")
    year = _PATTERNS["year"].search(tail[-6:])
    if year and tail.endswith(year[0]):
        yield "time"
    place = _NAMED.search(tail[-5:])
    if place and tail.endswith(place[0]):
        yield "region"
    kind = _VALUES.ending(tail)
    if kind:
        yield kind


def _requested(text: str) -> list[QuestionType]:
    """Return the types that 请告诉我… or …能告诉我吗 names, or that the text ends with: 城市和年份分别是?"""
    text = text.rstrip(_END)
    request = _PATTERNS["request"].search(text)
    if request:
        requested = request["object"].rstrip("吗呢么吧")
        # …能告诉我吗 has its object before it.
        text = requested or text[: request.start()]
    return _subject_types(text)


def _fallback(text: str) -> QuestionType | None:
    """Return the type of a question without a known question word."""
    offers = "还是" in text
    is_polar = _PATTERNS["polar"].search(text) is not None
    if (offers or is_polar) and _PATTERNS["meant"].search(text):
        return "entity"
    if offers:
        return "scope"
    # Is it for 2024? Offers to narrow the query to a value.
    for kind in _values(text):
        return kind
    if is_polar and _PATTERNS["wanted"].search(text):
        return "scope"
    if is_polar:
        return None
    return _NOUNS.last(text.rstrip(_END)[-6:])
