"""Text comparison for the audit: what of q* a text reveals, and what a rewritten query adds.

Texts are compared in one width and case (NFKC, case-folded), without invisible characters, and with years in
digits. A *unit* is a word, a number or one ideograph; punctuation and space only separate units. Simplified and
traditional characters are different characters here.

`Secret` holds the parts of q* that a party must not have, given the texts that it was told:

- every *pair* of neighbouring units that occurs in none of these texts, and so every longer run with such a pair;
- every single *number* that occurs in none of them;
- every single *word* that occurs in none of them, except function words and words of the prompts, which every
  party reads. A single ideograph carries too little meaning; its pairs count.

`additions` finds the constraints of a rewritten query that no answer elicited (paper, section 3.2: no new
constraint in q-hat). An answer elicits its own text, and the text of its question too unless it is `unknown` or a
denial ("Do you mean Europe?", "yes"). Beyond q and what was elicited, a rewritten query may not contain:

- a number, or a name (a capitalised word, a known place, a 《title》);
- any other word of q*, except function words, words of the prompts and general words ("price", "办法");
- a run of Chinese that q* has too, with at least two new characters that belong to no general word.

It is a *leak* if q* has it while q, the questions and the answers do not: leaked, memorised, or a lucky guess;
the text alone cannot tell, so it counts as a violation. It is *unsupported* if q* does not have it either, or if a
question suggested it and nobody confirmed it. Words are compared without their endings and numbers in words like
numbers in digits, so that a paraphrase is no finding.

`disclosure` measures what an answer gives away of q* beyond what its question asks for (docs/usage.md, "What the user
gives away"): the share of q*'s content words that neither q nor the question has, and that the answer has.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Final, Literal, NamedTuple

from cts_async.records import UNKNOWN
from cts_async.search.terms import STOP_WORDS, fold, is_word, pieces, stem

_LISTS: Final = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

FUNCTION_WORDS: Final = STOP_WORDS | frozenset(_LISTS["function"].split())
PLACES: Final = frozenset(_LISTS["places"].split())
PLACES_HAN: Final = tuple(_LISTS["places_han"].split())
_FUNCTION_HAN: Final = frozenset(_LISTS["function_han"])
_THOUGHT_MARKS: Final = re.compile(_LISTS["thought_marks"], re.VERBOSE | re.IGNORECASE)
_GENERAL_STEMS: Final = frozenset(map(stem, _LISTS["general"].split()))
# The longest first, so that 有哪些 is removed as a whole and not as 哪些.
_GENERAL_HAN: Final = re.compile(
    "|".join(map(re.escape, sorted(_LISTS["general_han"].split(), key=len, reverse=True)))
)


# --- Numbers in words

_SMALL: Final = {
    **{word: n for n, word in enumerate(_LISTS["ones"].split())},
    **{word: 10 * n for n, word in enumerate(_LISTS["tens"].split(), 2)},
}
_LARGE: Final = {"thousand": 1_000, "million": 1_000_000}
_WORD: Final = "|".join(sorted([*_SMALL, "hundred", *_LARGE], key=len, reverse=True))
_ENGLISH: Final = re.compile(rf"\b(?:{_WORD})(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD}))*\b")

_DIGITS: Final = {sign: n for n, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "○": 0, "两": 2}
_UNITS: Final = {"十": 10, "百": 100, "千": 1_000}
_SIGN: Final = "[零〇○一二两三四五六七八九十百千万]"
_COUNTED: Final = "[个年月日天周层楼人名次种家元岁条位本部届级号项点小分公万]"
# A single sign is a number only in front of what is counted: 四楼 (fourth floor), but not 四川 (Sichuan).
_CHINESE: Final = re.compile(f"{_SIGN}{{2,}}|{_SIGN}(?={_COUNTED})")
_YEAR: Final = re.compile("[一二][〇零○一二三四五六七八九]{3}(?=年)")


def with_years_in_digits(text: str) -> str:
    """Replace years in ideographs: 二〇二三年 becomes 2023年."""
    return _YEAR.sub(lambda found: "".join(str(_DIGITS[sign]) for sign in found[0]), text)


def spelled_numbers(text: str) -> frozenset[str]:
    """Return the numbers that a *normalised* text spells in words, in digits; 1 is left out ("one" is a pronoun too)."""
    numbers = {*map(_english_number, _ENGLISH.findall(text)), *map(_chinese_number, _CHINESE.findall(text))}
    return frozenset(str(number) for number in numbers if number > 1)


def _english_number(words: str) -> int:
    total = part = 0
    for word in re.split(r"[\s-]+", words):
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "hundred":
            part = max(part, 1) * 100
        elif word in _LARGE:
            total, part = total + max(part, 1) * _LARGE[word], 0
    return total + part


def _chinese_number(signs: str) -> int:
    if not any(sign in _UNITS or sign == "万" for sign in signs):
        return int("".join(str(_DIGITS[sign]) for sign in signs))
    parts = reversed(signs.split("万"))
    return sum(_below_ten_thousand(part) * 10_000**power for power, part in enumerate(parts))


def _below_ten_thousand(signs: str) -> int:
    """十二 is 12, 三百零五 is 305; an empty part, as in front of 万 alone, is 0."""
    total = digit = 0
    for sign in signs:
        if sign in _UNITS:
            total, digit = total + (digit or 1) * _UNITS[sign], 0
        else:
            digit = _DIGITS[sign]
    return total + digit


# --- Units

# Ideographs and kana, as the inside of a character class: scripts without spaces between words.
_HAN: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNIT: Final = re.compile(
    rf"[{_HAN}]|\d+(?:[.,]\d+)*|(?:(?![{_HAN}])[^\W\d_])+(?:['’](?:(?![{_HAN}])[^\W\d_])+)?"
)
_IS_HAN: Final = re.compile(f"[{_HAN}]")
_INVISIBLE: Final = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]+"
)
_THOUSANDS: Final = re.compile(r",(?=\d{3}(?!\d))")


class Unit(NamedTuple):
    """A word, number or ideograph, and its position in the normalised text."""

    text: str
    start: int
    end: int

    @property
    def is_number(self) -> bool:
        return self.text[0].isdecimal()

    @property
    def is_han(self) -> bool:
        return _IS_HAN.match(self.text) is not None


def normalised(text: str) -> str:
    """Return the text in one width and case, without invisible characters, with years in digits."""
    return text.lower() if text.isascii() else _same_width(text).casefold()


def _same_width(text: str) -> str:
    """Return the text as `normalised` does, but in its own case."""
    return with_years_in_digits(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def units(text: str) -> list[Unit]:
    """Split a *normalised* text into units, in order; numbers lose their thousands separators."""
    return [Unit(_ungrouped(found[0]), found.start(), found.end()) for found in _UNIT.finditer(text)]


def unit_texts(text: str) -> list[str]:
    """Split any text into the texts of its units."""
    return [_ungrouped(unit) for unit in _UNIT.findall(normalised(text))]


def _ungrouped(unit: str) -> str:
    return _THOUSANDS.sub("", unit) if unit[0].isdecimal() else unit


def vocabulary_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of `texts` (the prompts), without numbers and single ideographs."""
    return frozenset(
        unit.text for text in texts for unit in units(normalised(text)) if not (unit.is_number or unit.is_han)
    )


# --- What a party must not have


def _singles_and_pairs(texts: Iterable[str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Return all units of the texts, and all pairs of neighbours within one text."""
    singles: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for text in texts:
        found = unit_texts(text)
        singles.update(found)
        pairs.update(pairwise(found))
    return singles, pairs


@dataclass(frozen=True, slots=True)
class Secret:
    """The single units and the pairs of a text that must not occur elsewhere (rules: module docstring)."""

    singles: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str, known: Iterable[str], vocabulary: Collection[str] = frozenset()) -> Secret:
        """Build from `text` minus everything in the `known` texts; `vocabulary` lists further harmless words."""
        known_singles, known_pairs = _singles_and_pairs(known)
        own = units(normalised(text))
        singles = {
            unit.text
            for unit in own
            if unit.text not in known_singles
            and (
                unit.is_number or not (unit.is_han or unit.text in FUNCTION_WORDS or unit.text in vocabulary)
            )
        }
        pairs = frozenset(pairwise(unit.text for unit in own))
        return cls(frozenset(singles), pairs - known_pairs)

    def minus(self, known: Iterable[str]) -> Secret:
        """Return what of it none of the `known` texts has."""
        if not (self.singles or self.pairs):
            return self
        singles, pairs = _singles_and_pairs(known)
        return Secret(self.singles - singles, self.pairs - pairs)

    def spans(self, text: str) -> Iterator[str]:
        """Yield the longest pieces of `text` (normalised) that consist of secret units, in order."""
        text = normalised(text)
        found = units(text)
        secret = [unit.text in self.singles for unit in found]
        for i, (left, right) in enumerate(pairwise(found)):
            if (left.text, right.text) in self.pairs:
                secret[i] = secret[i + 1] = True
        start: int | None = None
        for i, unit in enumerate(found):
            if secret[i]:
                start = unit.start if start is None else start
                if i + 1 == len(found) or not secret[i + 1]:
                    yield text[start : unit.end]
                    start = None


# --- What a rewritten query adds

_DENIAL: Final = re.compile(r"(?:no|nope|not|none|neither|不|否|没|无|都不|并不|并非)(?![a-z])")
_TITLE: Final = re.compile(r"《([^《》]{1,60})》")


@dataclass(frozen=True, slots=True)
class Addition:
    """A constraint that no answer elicited, as written in the (normalised) rewritten query."""

    level: Literal["leak", "unsupported"]
    text: str


class _Texts:
    """A few texts, searchable for words without endings, for numbers and for pairs of characters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = "\n".join(normalised(text) for text in texts)
        singles, self.pairs = _singles_and_pairs(self.text.split("\n"))
        self.digits = {single for single in singles if single[0].isdecimal()}
        self.stems = {stem(single) for single in singles} | spelled_numbers(self.text)

    def has(self, unit: Unit) -> bool:
        return stem(unit.text.casefold()) in self.stems


def additions(
    q_hat: str,
    q: str,
    q_star: str,
    pairs: Sequence[tuple[str, str]],
    vocabulary: Collection[str] = frozenset(),
) -> list[Addition]:
    """Return the constraints of `q_hat` that the (question, answer) `pairs` did not elicit, each once."""
    answers = [answer for _, answer in pairs if answer != UNKNOWN]
    confirmed = [
        question
        for question, answer in pairs
        if answer != UNKNOWN and not _DENIAL.match(normalised(answer).strip())
    ]
    elicited = _Texts([q, *answers, *confirmed])
    mentioned = _Texts([q, *answers, *(question for question, _ in pairs)])
    intent = _Texts([q_star])
    found = [
        *_places_and_titles(q_hat, elicited, mentioned, intent),
        *_words(q_hat, elicited, mentioned, intent, vocabulary),
    ]
    # A number that q_hat has in words and q* in digits; `_words` compares the other spellings.
    spelled = spelled_numbers(normalised(q_hat)) & intent.digits - mentioned.stems
    found += [Addition("leak", number) for number in sorted(spelled)]
    runs = [
        run
        for run in _chinese_runs(q_hat, mentioned, intent)
        if not any(run in addition.text for addition in found)
    ]
    found = [addition for addition in found if not any(addition.text in run for run in runs)]
    return list(dict.fromkeys([*found, *(Addition("leak", run) for run in runs)]))


def _level(in_intent: bool, is_mentioned: bool) -> Literal["leak", "unsupported"]:
    return "leak" if in_intent and not is_mentioned else "unsupported"


def _places_and_titles(q_hat: str, elicited: _Texts, mentioned: _Texts, intent: _Texts) -> Iterator[Addition]:
    """Chinese names of places, and titles, found as substrings."""
    text = normalised(q_hat)
    titles = [title[1].strip() for title in _TITLE.finditer(text)]
    for name in [*(place for place in PLACES_HAN if place in text), *titles]:
        if name and name not in elicited.text:
            yield Addition(_level(name in intent.text, name in mentioned.text), name)


def _words(
    q_hat: str, elicited: _Texts, mentioned: _Texts, intent: _Texts, vocabulary: Collection[str]
) -> Iterator[Addition]:
    """Numbers, and words of scripts with spaces between them."""
    found = [unit for unit in units(_same_width(q_hat)) if not unit.is_han]
    names = _names(found)
    for unit in found:
        if elicited.has(unit):
            continue
        word = unit.text.casefold()
        in_intent, is_mentioned = intent.has(unit), mentioned.has(unit)
        ordinary = word in FUNCTION_WORDS or word in vocabulary or stem(word) in _GENERAL_STEMS
        if unit.is_number or unit in names:
            yield Addition(_level(in_intent, is_mentioned), word)
        elif in_intent and not is_mentioned and not ordinary:
            yield Addition("leak", word)


def _names(found: Sequence[Unit]) -> set[Unit]:
    """Return the words written as names: known places, and words capitalised in a text that mostly is not."""
    words = [unit for unit in found if not unit.is_number]
    capitalised = [unit for unit in words if unit.text[0].isupper()]
    places = {unit for unit in words if unit.text.casefold() in PLACES}
    if 2 * len(capitalised) > len(words):
        return places
    # The first word of a text is capitalised anyway, unless it is an abbreviation.
    names = {unit for unit in capitalised if unit.start or (len(unit.text) > 1 and unit.text.isupper())}
    return places | {unit for unit in names if unit.text.casefold() not in FUNCTION_WORDS}


def _chinese_runs(q_hat: str, mentioned: _Texts, intent: _Texts) -> Iterator[str]:
    """The longest runs of Chinese that q* has too and nobody mentioned, if they add a constraint."""
    text = normalised(q_hat)
    start = end = -1
    for left, right in pairwise([*units(text), Unit("", -1, -1)]):
        shared = left.is_han and right.start == left.end and (left.text, right.text) in intent.pairs
        if shared and (left.text, right.text) not in mentioned.pairs:
            start, end = (left.start if start < 0 else start), right.end
        elif start >= 0:
            # A constraint has two new characters that belong to no general word.
            rest = _GENERAL_HAN.sub("", text[start:end])
            if sum(char not in _FUNCTION_HAN and char not in mentioned.text for char in rest) >= 2:
                yield text[start:end]
            start = -1


# --- What an answer gives away

OVER_INFORMING: Final = 0.8
"""An answer that gives away more than this share of what is hidden over-informs (measured: docs/usage.md)."""
LEAST_HIDDEN: Final = 4
"""Hidden words below which the share says nothing: a single constraint ("for founding a food cooperative") has three."""
_MANY_HIDDEN: Final = 8
"""A short phrase that answers one question needs fewer words of q*: of 10,276 answers of people one had as many."""
_LEAST_REPEATED: Final = 2
"""Words of q that one who recites q* repeats; of a shorter q, q* in one piece and `_MANY_HIDDEN` words tell."""
_QUOTED: Final = 0.9
"""An answer with this share of q*'s units in one piece quotes q* ("the whole query", which prompts forbid)."""
_ALOUD: Final = 0.5
"""Share of what is hidden that makes a thought of an answer that has many words of its own."""
_OWN_WORDS: Final = 10
"""Content words that neither q*, q nor the question has: answers are made of q*'s words, thoughts are not."""
_OWN_WORDS_BEFORE_UNKNOWN: Final = 3
_ENDS_UNKNOWN: Final = re.compile(rf"{UNKNOWN}\W*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What one answer gives away. Words are content words, each once; they are compared without English endings."""

    hidden: tuple[str, ...]
    """Words of q* that neither q nor the question has."""
    told: tuple[str, ...]
    """Those of `hidden` that the answer has."""
    n_shared: int
    """Words that q* and q have in common."""
    n_repeated: int
    """Those that the answer has, though nobody need ask for them."""
    n_own: int
    """Words of the answer that neither q*, q nor the question has."""
    quotes: bool
    """True if the answer has nearly all of q* in one piece."""
    marks: str = ""
    """The first mark of a model's thoughts in the answer, such as `<|channel|>`; "" if there is none."""
    says_unknown: bool = False
    """True if the answer ends with `unknown`, after something else."""

    @property
    def share(self) -> float:
        """Fraction of the hidden words that the answer tells, 0..1; 0 if nothing is hidden."""
        return len(self.told) / len(self.hidden) if self.hidden else 0.0

    @property
    def over_informs(self) -> bool:
        """True if it tells nearly all that is hidden, and that is no short constraint; or if it has a `problem`."""
        return self.problem != "" or self._tells_all

    @property
    def _tells_all(self) -> bool:
        return self.share > OVER_INFORMING and len(self.hidden) >= LEAST_HIDDEN

    @property
    def problem(self) -> str:
        """Why the audit names it; "" for an answer that a good user could have given."""
        thinks = self.n_own >= _OWN_WORDS or (self.says_unknown and self.n_own >= _OWN_WORDS_BEFORE_UNKNOWN)
        if self.told and (self.marks or (self.share >= _ALOUD and thinks)):
            return "the answer thinks aloud about q*"
        # What q has already is no part of an answer. One who repeats it recites q*, which answers no question; one word
        # of it may be the noun that the answer is about ("waterproof hiking boots, size 38" to q "boots").
        repeats_q = self.n_repeated >= _LEAST_REPEATED and self.n_shared <= 2 * self.n_repeated
        recites = self._tells_all and repeats_q
        has_phrases = len(self.hidden) + self.n_shared >= LEAST_HIDDEN
        if recites or (self.quotes and len(self.hidden) > 1 and has_phrases):
            return "the answer is most of q*, not what the question asks for"
        if self._tells_all and len(self.hidden) >= _MANY_HIDDEN:
            return "the answer tells nearly all that q* has beyond q, not what the question asks for"
        return ""


def disclosure(answer: str, q: str, q_star: str, asked: Sequence[str]) -> Disclosure:
    """Measure what an answer gives away; `asked` is its question, and what was said before it in a conversation."""
    known, told, shared, intent = _Words([q, *asked]), _Words([answer]), _Words([q]), _Words([q_star])
    of_intent = _content_words(q_star)
    hidden = [word for word in of_intent if not known.has(word)]
    common = [word for word in of_intent if shared.has(word)]
    own = [word for word in _content_words(answer) if not (known.has(word) or intent.has(word))]
    return Disclosure(
        hidden=tuple(of_intent[word] for word in hidden),
        told=tuple(of_intent[word] for word in hidden if told.has(word)),
        n_shared=len(common),
        n_repeated=sum(told.has(word) for word in common),
        n_own=len(own),
        quotes=_quotes(answer, q_star),
        marks=mark_of_thoughts(answer, q_star),
        says_unknown=_ENDS_UNKNOWN.search(answer) is not None and answer.casefold() != UNKNOWN,
    )


def mark_of_thoughts(text: str, q_star: str) -> str:
    """Return the first mark of a model's thoughts in a text; "" if there is none, or if q* itself has one."""
    mark = _THOUGHT_MARKS.search(text)
    return mark[0] if mark and not _THOUGHT_MARKS.search(q_star) else ""


def _content_words(text: str) -> dict[str, str]:
    """Return the content words of a text in order, each once: in the form that is compared, and as they are written.

    Compared are words without their endings, and numbers in digits.
    """
    words: dict[str, str] = {}
    for piece in pieces(fold(normalised(text))):
        if not is_word(piece) or piece in FUNCTION_WORDS or _FUNCTION_HAN.issuperset(piece):
            continue
        number = next(iter(spelled_numbers(piece)), "")
        words.setdefault(number or stem(piece), piece)
    return words


class _Words:
    """A few texts, searchable for content words: Chinese ones wherever they stand, others as whole words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(fold(normalised(text)) for text in texts)
        words = [piece for piece in pieces(self._text) if is_word(piece)]
        self._stems = {stem(word) for word in words}.union(*map(spelled_numbers, words))

    def has(self, word: str) -> bool:
        return word in self._text if _IS_HAN.match(word) else word in self._stems


def _quotes(answer: str, q_star: str) -> bool:
    """True if the answer has a run of so many units of q* as `_QUOTED` says."""
    of_intent, of_answer = unit_texts(q_star), unit_texts(answer)
    length = ceil(_QUOTED * len(of_intent))
    said = f" {' '.join(of_answer)} "
    windows = (of_intent[start : start + length] for start in range(len(of_intent) - length + 1))
    return length > 0 and any(f" {' '.join(window)} " in said for window in windows)
