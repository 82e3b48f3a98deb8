"""Rules for English clarifying questions: which types of constraint they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from cts_async.analysis.lexicon import (
    QUESTION_TYPES,
    Lexicon,
    QuestionType,
    lower_case_names,
    rules,
)

_WORDS, _PHRASES, _PATTERNS = rules("en")
_NOUNS, _WEAK, _VALUES, MENTIONS = (_WORDS[name] for name in ("nouns", "weak", "values", "mentions"))
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
    turns: list[tuple[tuple[int, int], QuestionType]] = []
    for turn, kind in _PHRASES:
        if (at := turn.search(text)) and not _within(at.start(), turns):
            turns.append((at.span(), kind))
    found = [(span[0], kind) for span, kind in turns]
    found += [placed for placed in [*_bound(text), *_offered(text)] if not _within(placed[0], turns)]
    if found:
        return [kind for _, kind in sorted(found, key=lambda placed: placed[0])]
    request = _PATTERNS["request"].search(text)
    return (request and _np_types(request["object"])) or _fallback(text)


def _within(at: int, turns: list[tuple[tuple[int, int], QuestionType]]) -> bool:
    return any(start <= at < end for (start, end), _ in turns)


def _bound(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types that question words, and words such as "specific", are bound to."""
    for found in _WH.finditer(text):
        for kind in _np_types(found["np"]) or _unnamed(found["wh"], found["np"]):
            yield found.start(), kind
    for found in _SPECIFIC.finditer(text):
        if not _WH.search(text[max(0, found.start() - 7) : found.start()]):
            for kind in _np_types(found["np"]) or (["entity"] if found["np"].strip(" ,") else ["scope"]):
                yield found.start(), kind
    for found in _PATTERNS["have"].finditer(text):
        for kind in _np_types(found["np"]):
            yield found.start(), kind


def _np_types(np: str) -> list[QuestionType]:
    """Return the types of the heads of a noun phrase: a head is last, or before 's or "of"."""
    if (part := _PATTERNS["part_of"].search(np)) and _PLACES.ending(part["place"]):
        return ["region"]
    if _PATTERNS["kind_of"].search(np):
        return ["scope"]
    whole = _PATTERNS["of"].split(np)[0]
    heads = [_NOUNS.last(part) or _WEAK.last(part) for part in _PATTERNS["join"].split(whole)]
    return [head for head in dict.fromkeys(heads) if head]


def _unnamed(wh: str, np: str) -> list[QuestionType]:
    """Return the type for an unknown noun: "which x" picks one of several, "what x" a part."""
    return ["entity"] if wh == "which" and np.strip() and not re.match(r"\s+of\b", np) else ["scope"]


def _offered(text: str) -> Iterator[tuple[int, QuestionType]]:
    """Yield the types in which the alternatives of "or" differ, if their words tell."""
    for clause in re.finditer(r"[^?;.!]+", text):
        if _WH.search(clause[0]):
            continue
        parts, at = _PATTERNS["or"].split(clause[0]), clause.start()
        for before, after in pairwise(parts):
            at += len(before)
            last = " ".join(before.split()[-3:])
            # "California's rules" is not an alternative; "Canada's or Australia's rules" are.
            kinds = {*_values(after), *_values(_PATTERNS["owned"].sub("", last))}
            if _PATTERNS["another"].fullmatch(after):
                kinds |= {kind for kind in (_NOUNS.last(last),) if kind}
            yield from ((at, kind) for kind in QUESTION_TYPES if kind in kinds)
            at += len("or")


def _values(text: str) -> Iterator[QuestionType]:
    """Yield the types of the values in a text: years, places, "latest", "nationwide" and the like."""
    if _PATTERNS["year"].search(text):
        yield "time"
    yield from (kind for lexicon in (_VALUES, _PLACES) for _, kind in lexicon.find(text))


def _fallback(text: str) -> list[QuestionType]:
    """Return the types of a question without a known question word."""
    if _PATTERNS["no_noun"].search(text):
        return ["scope"]
    if _PATTERNS["meant"].search(text):
        return ["entity"]
    if kind := _narrowed(text):
        return [kind]
    if _PATTERNS["wanted"].search(text) or _PATTERNS["or"].search(text):
        return ["scope"]
    return _last_nouns(text)


def _last_nouns(text: str) -> list[QuestionType]:
    """Return the types of the nouns that a text ends with: "The city and travel dates?" names two."""
    kinds: list[QuestionType] = []
    for part in reversed(_PATTERNS["join"].split(text.rstrip("?.! "))):
        if (kind := _NOUNS.last(" ".join(part.split()[-3:]))) is None:
            break
        kinds.insert(0, kind)
    return kinds


def _narrowed(text: str) -> QuestionType | None:
    """Return time or region if "do you want ..." offers to narrow the query to one."""
    if _PATTERNS["year"].search(text):
        return "time"
    if (kind := _VALUES.first(text)) and kind != "criterion":
        return kind
    within = _PATTERNS["within"].search(text)
    return _PLACES.first(within["place"]) if within else None
