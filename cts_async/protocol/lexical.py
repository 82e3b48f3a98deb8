"""Judge nuggets without a model: term recall in the manner of POURPRE.

POURPRE (Lin & Demner-Fushman, 2005, "Automatically Evaluating Answers to Definition Questions") scores a
nugget by the share of its terms that occur in the answer. Here the answer is taken as a whole, terms
count once and equally (the paper's idf weights are left out), and the share becomes one of the coverage
judge's three labels. It is deterministic, costs nothing and suits smoke tests, baselines and sanity
checks of an LLM judge. It does not understand: a negated, contradicted or rearranged statement
has the same terms, and neither synonyms nor spelled-out numbers ("twelve", "十二", 1.2万) are recognised.

What a term is:

- English and other alphabets: words in lower case without accents, minus a short stop list, reduced by
  `_stem`. "not", "no" and "without" are kept as terms.
- Numbers, of either width: 1,200 = 1200 = １，２００, 2.50 = 2.5, 05 = 5. A time such as 14:30 is one term; a
  date such as 2024-03-05, 2024.3.5 or 2024年3月5日 is its three numbers.
- Chinese: the pairs of neighbouring characters of each unbroken run, a lone character being its own term;
  the commonest function characters break a run. Pairs need no dictionary.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from cts_async.records import Coverage, Judgment, Nugget

__all__ = ["FULL_AT", "PARTIAL_AT", "Terms", "judge_lexically", "lexical_coverage", "spelling", "terms_of"]

FULL_AT: Final = 0.75
"""Recall from which a nugget counts as fully covered.

An atomic nugget has some four to twelve terms, and a faithful paraphrase changes about one word in four
to six. In Chinese one changed word of two characters costs three pairs, which is a quarter of twelve.
"""

PARTIAL_AT: Final = 0.4
"""Recall from which a nugget counts as partially covered.

A third of a nugget's terms often merely name the topic, which any answer on it repeats; "partial" asks
for the core statement, hence for more than that, while up to half may be the qualifiers that it lacks.
"""

_HAN: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN: Final = re.compile(
    rf"""
    (?P<number>
        [0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?![0-9])        # 14:30
      | [0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?(?![0-9])      # 1,200.5
      | [0-9]+(?:\.[0-9]+)*                                     # 12, 3.5 and the dotted 3.5.1
    )[年月日号]?
  | (?P<han>[{_HAN}]+)
  | (?P<word>[^\W\d_{_HAN}][^\W_{_HAN}]*|%)
    """,
    re.VERBOSE,
)
_TOKENS: Final = re.compile(re.sub(r"\(\?P<\w+>", "(?:", _TOKEN.pattern), re.VERBOSE)
"""The same without names: found all at once."""
_GROUPING_COMMA: Final = re.compile("(?<=[０-９])，(?=[０-９]{3}(?![０-９]))")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_FUNCTION_CHARACTERS: Final = re.compile("[的了是在和与及或于而也被把吗呢吧啊]")
_STOP_TEXT: Final = """
    a an the and or but if then than so as of at by for from in into on onto to up with about over under
    is am are was were be been being do does did done has have had having can could may might must shall
    should will would it its he she they them his her their theirs him we us our you your i me my this that
    these those there here who whom whose which what when where why how also such some any each s t d ll re
    ve m
"""
_STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
_VOWEL: Final = re.compile("[aeiouy]")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a text is made of: `content` counts, `numbers` are critical, `every` also has the empty words."""

    content: frozenset[str]
    numbers: frozenset[str]
    every: frozenset[str]


def lexical_coverage(nugget_text: str, answer: str) -> tuple[Coverage, float]:
    """Give (label, recall): the share in [0, 1] of the nugget's distinct terms that occur in the answer.

    The label is "full" from `FULL_AT`, "partial" from `PARTIAL_AT`, else "none". A nugget some of whose
    numbers are missing is "partial" at most: a critical qualifier is missing. A nugget of nothing but
    stop words is judged by those; one without any word, and an empty answer, give ("none", 0.0).
    """
    return _coverage(nugget_text, terms_of(answer).every)


def judge_lexically(nuggets: Sequence[Nugget], answer: str) -> Judgment:
    """Label every nugget, in order, by `lexical_coverage`; the answer is taken apart only once."""
    found = terms_of(answer).every
    return Judgment("lexical", tuple((nugget.id, _coverage(nugget.text, found)[0]) for nugget in nuggets))


def _coverage(nugget_text: str, found: frozenset[str]) -> tuple[Coverage, float]:
    nugget = _nugget_terms(nugget_text)
    wanted = nugget.content or nugget.every
    recall = len(wanted & found) / len(wanted) if wanted else 0.0
    return _label(recall, numbers_complete=nugget.numbers <= found), recall


def _label(recall: float, *, numbers_complete: bool) -> Coverage:
    if recall < PARTIAL_AT:
        return "none"
    return "full" if recall >= FULL_AT and numbers_complete else "partial"


def terms_of(text: str) -> Terms:
    """Take a text apart; an empty one gives no terms."""
    content: set[str] = set()
    numbers: set[str] = set()
    empty: set[str] = set()
    for token in set(_TOKENS.findall(_normalised(text))):
        # English has few different words, and each is taken apart once; numbers and runs of Chinese are many.
        found = _known_word(token) if token.isascii() and token.isalpha() else _token(token)
        content.update(found.content)
        numbers.update(found.numbers)
        empty.update(found.every)
    content |= numbers
    return Terms(frozenset(content), frozenset(numbers), frozenset(content | empty))


def spelling(text: str) -> dict[str, str]:
    """How the text writes each of its content terms, in order: `{"citi": "cities", "1200": "1,200"}`."""
    spelled: dict[str, str] = {}
    for token in _TOKEN.finditer(_normalised(text)):
        if han := token["han"]:
            terms = {pair: pair for pair in sorted(_pairs(han), key=han.index)}
        elif word := token["word"]:
            terms = {} if word in _STOP_WORDS else {_stem(word): word}
        else:
            numbers = _numbers(token["number"])
            terms = {n: token["number"] if len(numbers) == 1 else n for n in numbers}
        for term, written in terms.items():
            spelled.setdefault(term, written)
    return spelled


def _token(token: str) -> Terms:
    """One token's terms; `every` has the empty ones only."""
    found = _TOKEN.fullmatch(token)
    assert found
    if han := found["han"]:
        return Terms(frozenset(_pairs(han)), _NONE, frozenset(han))
    if word := found["word"]:
        stem = frozenset((_stem(word),))
        return Terms(_NONE, _NONE, stem) if word in _STOP_WORDS else Terms(stem, _NONE, _NONE)
    return Terms(_NONE, frozenset(_numbers(found["number"])), _NONE)


_NONE: Final[frozenset[str]] = frozenset()
_known_word: Final = lru_cache(maxsize=8192)(_token)
# Many answers are judged by the same nuggets.
_nugget_terms: Final = lru_cache(maxsize=8192)(terms_of)


def _normalised(text: str) -> str:
    """Fold case, width, accents and bold marks. A full-width comma stays a break unless it groups digits."""
    text = text.lower().replace("**", "")
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKD", _GROUPING_COMMA.sub(",", text).replace("，", "、"))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def _pairs(han: str) -> set[str]:
    """Give the terms of an unbroken run of Chinese characters."""
    pairs: set[str] = set()
    for run in _FUNCTION_CHARACTERS.split(han):
        if len(run) == 1:
            pairs.add(run)
        pairs.update(map("".join, pairwise(run)))
    return pairs


def _numbers(digits: str) -> list[str]:
    """Give the numbers in a number token: one, or the parts of a date or version such as 2024.03.05."""
    return [_number(part) for part in (digits.split(".") if digits.count(".") > 1 else [digits])]


def _number(digits: str) -> str:
    """Give one spelling per number or time: no thousands separators, no zeros that mean nothing."""
    if ":" in digits:
        return digits[1:] if digits[0] == "0" and digits[1] != ":" else digits
    whole, _, fraction = digits.replace(",", "").partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _stem(word: str) -> str:
    """Take the commonest English endings off a lower-case word, so that its forms meet; not a real stem.

    Plural -ies, -es, -s (Harman's S-stemmer), then -ing or -ed after a vowel, a last -e, the second of
    a doubled last consonant, and -y becomes -i: cities = city = citi, planned = planning = plan,
    makes = making = mak. Words with digits or letters beyond a-z are left alone.
    """
    if word == "%":
        return "percent"
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    return _without_last_letter(_without_suffix(_singular(word)))


def _singular(word: str) -> str:
    if len(word) < 4 or word.endswith(("ss", "us")):
        return word
    if word.endswith("ies") and word[-4] not in "ae":
        return word[:-3] + "y"
    return word.removesuffix("s")


def _without_suffix(word: str) -> str:
    for suffix in ("ing", "ed"):
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) >= 2 and _VOWEL.search(rest) and not word.endswith("eed"):
            return rest
    return word


def _without_last_letter(word: str) -> str:
    if len(word) > 2 and word[-1] == "e":
        word = word[:-1]
    if word[-1] == word[-2] and word[-1] not in "aeiou":
        return word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word[-1] == "y" else word
