"""Rules for English clarifying questions: which types of constraint they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final

from cts_async.analysis.lexicon import QUESTION_TYPES, Lexicon, QuestionType, lower_case_names, rules

_WORDS, _PHRASES, _PATTERNS = rules("en")
_NOUNS, _WEAK, _VALUES, MENTIONS = _WORDS["nouns"], _WORDS["weak"], _WORDS["values"], _WORDS["mentions"]
_PLACES: Final = Lexicon(
    {
        "region": "us u.s u.s.a usa uk u.k eu america "
        + " ".join(name.replace(" ", "_") for name in lower_case_names() if name.isascii())
    },
    inflected=True,
)
"""Names of places that a question may offer."""
_NP: Final = rf"(?P<np>(?:\s+(?!(?:{_PATTERNS['stop'].pattern})\b)[\w&/,'.-]+){{0,6}})"
_BE: Final = r"(?:(?:'s|\s+(?:is|are|was|were|would be))\b(?:\s+(?:your|the|their|its|an?)\b)?)?"
EXAMPLES: Final = _PATTERNS["examples"]
_WH: Final = re.compile(rf"\b(?P<wh>which|what|whose){_BE}{_NP}")
_SPECIFIC: Final = re.compile(
    rf"\b(?:specific|particular|certain|single|given|preferred|exact|desired|target)\b{_NP}"
)


def asked_types(text: str) -> list[QuestionType]:
    """Return the types that a question asks for, in the order asked; [] for none."""
    if _PATTERNS["facet"].search(text):
        return ["scope"]
    phrases: list[tuple[int, int]] = []
    placed: list[tuple[int, QuestionType]] = []
    for phrase, kind in _PHRASES:
        match = phrase.search(text)
        if match and not _is_within(match.start(), phrases):
            phrases.append(match.span())
            placed.append((match.start(), kind))
    for position, kind in chain(_bound(text), _offered(text)):
        # The words of a phrase are not read for themselves: it has a type whatever noun is in it.
        if not _is_within(position, phrases):
            placed.append((position, kind))
    if placed:
        placed.sort(key=itemgetter(0))
        return [kind for _, kind in placed]
    request = _PATTERNS["request"].search(text)
    if request:
        kinds = _np_types(request["object"])
        if kinds:
            return kinds
    return _fallback(text)


def _is_within(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)


def _bound(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types that question words, and words such as "specific", are bound to."""
    for match in _WH.finditer(text):
        kinds = _np_types(match["np"]) or [_unknown_noun_type(match["wh"], match["np"])]
        for kind in kinds:
            yield match.start(), kind
    for match in _SPECIFIC.finditer(text):
        # "which specific ..." is bound to the question word, whose noun was read above.
        if _WH.search(text[max(0, match.start() - 7) : match.start()]):
            continue
        kinds = _np_types(match["np"])
        if not kinds and match["np"].strip(" ,"):
            kinds = ["entity"]
        for kind in kinds or ["scope"]:
            yield match.start(), kind
    for match in _PATTERNS["have"].finditer(text):
        for kind in _np_types(match["np"]):
            yield match.start(), kind


def _np_types(np: str) -> list[QuestionType]:
    """Return the types of the heads of a noun phrase: a head is last, or before 's or "of"."""
    part = _PATTERNS["part_of"].search(np)
    if part and _PLACES.ending(part["place"]):
        return ["region"]
    if _PATTERNS["kind_of"].search(np):
        return ["scope"]
    before_of = _PATTERNS["of"].split(np)[0]
    kinds: list[QuestionType] = []
    for joined in _PATTERNS["join"].split(before_of):
        kind = _NOUNS.last(joined) or _WEAK.last(joined)
        if kind and kind not in kinds:
            kinds.append(kind)
    return kinds


def _unknown_noun_type(wh: str, np: str) -> QuestionType:
    """Return the type for an unknown noun: "which x" picks one of several, "what x" a part."""
    has_noun = bool(np.strip()) and not re.match(r"\s+of\b", np)
    if wh == "which" and has_noun:
        return "entity"
    return "scope"


def _offered(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types in which the alternatives of "or" differ, if their words tell."""
    for clause in re.finditer(r"[^?;.!]+", text):
        if _WH.search(clause[0]):
            continue
        position = clause.start()
        for before, after in pairwise(_PATTERNS["or"].split(clause[0])):
            position += len(before)
            words_before = " ".join(before.split()[-3:])
            # "California's rules" is not an alternative; "Canada's or Australia's rules" are.
            kinds: set[QuestionType | None] = set(_values(after))
            kinds.update(_values(_PATTERNS["owned"].sub("", words_before)))
            # "this city or another one" names no second value: the noun before it tells the type.
            if _PATTERNS["another"].fullmatch(after):
                kinds.add(_NOUNS.last(words_before))
            for kind in QUESTION_TYPES:
                if kind in kinds:
                    yield position, kind
            position += len("or")


def _values(text: str) -> Iterator[QuestionType]:
    """Yield the types of the values in a text: years, places, "latest", "nationwide" and the like."""
    if _PATTERNS["year"].search(text):
        yield "time"
    for lexicon in (_VALUES, _PLACES):
        for _, kind in lexicon.find(text):
            yield kind


def _fallback(text: str) -> list[QuestionType]:
    """Return the types of a question without a known question word."""
    if _PATTERNS["no_noun"].search(text):
        return ["scope"]
    if _PATTERNS["meant"].search(text):
        return ["entity"]
    kind = _narrowed_type(text)
    if kind:
        return [kind]
    if _PATTERNS["wanted"].search(text) or _PATTERNS["or"].search(text):
        return ["scope"]
    return _last_nouns(text)


def _last_nouns(text: str) -> list[QuestionType]:
    """Return the types of the nouns that a text ends with: "The city and travel dates?" names two."""
    kinds: list[QuestionType] = []
    for part in reversed(_PATTERNS["join"].split(text.rstrip("?.! "))):
        kind = _NOUNS.last(" ".join(part.split()[-3:]))
        if kind is None:
            break
        kinds.insert(0, kind)
    return kinds


def _narrowed_type(text: str) -> QuestionType | None:
    """Return time or region if "do you want ..." offers to narrow the query to one."""
    if _PATTERNS["year"].search(text):
        return "time"
    kind = _VALUES.first(text)
    if kind and kind != "criterion":
        return kind
    within = _PATTERNS["within"].search(text)
    if within is None:
        return None
    return _PLACES.first(within["place"])
