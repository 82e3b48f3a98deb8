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
from itertools import pairwise, product
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

_ONES: Final = {word: n for n, word in enumerate(_LISTS["ones"].split())}
_TENS: Final = {word: 10 * n for n, word in enumerate(_LISTS["tens"].split(), 2)}
_SMALL: Final = _ONES | _TENS
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
    return _YEAR.sub(_year_in_digits, text)


def _year_in_digits(year: re.Match[str]) -> str:
    return "".join(str(_DIGITS[sign]) for sign in year[0])


def spelled_numbers(text: str) -> frozenset[str]:
    """Return the numbers that a *normalised* text spells in words, in digits; 1 is left out ("one" is a pronoun too)."""
    numbers = set(map(_english_number, _ENGLISH.findall(text)))
    numbers.update(map(_chinese_number, _CHINESE.findall(text)))
    return frozenset(str(number) for number in numbers if number > 1)


def _english_number(words: str) -> int:
    total = part = 0
    for word in re.split(r"[\s-]+", words):
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "hundred":
            part = max(part, 1) * 100  # a bare "hundred" is one hundred
        elif word in _LARGE:
            total += max(part, 1) * _LARGE[word]
            part = 0
    return total + part


def _chinese_number(signs: str) -> int:
    if not any(sign in _UNITS or sign == "万" for sign in signs):
        # Without a unit the signs are digits read one by one, as in a telephone number: 一二〇 is 120.
        return int("".join(str(_DIGITS[sign]) for sign in signs))
    number = 0
    for part in signs.split("万"):
        number = 10_000 * number + _below_ten_thousand(part)
    return number


def _below_ten_thousand(signs: str) -> int:
    """十二 is 12, 三百零五 is 305; an empty part, as in front of 万 alone, is 0."""
    total = digit = 0
    for sign in signs:
        if sign in _UNITS:
            total += (digit or 1) * _UNITS[sign]
            digit = 0
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
# Text of q* broken up by characters that nobody sees would otherwise be other units, and pass.
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
    if text.isascii():
        return text.lower()
    return _in_one_width(text).casefold()


def _in_one_width(text: str) -> str:
    """Return the text as `normalised` does, but in its own case."""
    return with_years_in_digits(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def units(text: str) -> list[Unit]:
    """Split a *normalised* text into units, in order; numbers lose their thousands separators."""
    return [Unit(_ungrouped(match[0]), match.start(), match.end()) for match in _UNIT.finditer(text)]


def unit_texts(text: str) -> list[str]:
    """Split any text into the texts of its units."""
    return [_ungrouped(unit) for unit in _UNIT.findall(normalised(text))]


def _ungrouped(unit: str) -> str:
    """Return a number without its thousands separators, and any other unit as it is."""
    if not unit[0].isdecimal():
        return unit
    return _THOUSANDS.sub("", unit)


def vocabulary_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of `texts` (the prompts), without numbers and single ideographs."""
    found: set[str] = set()
    for text in texts:
        found.update(unit_texts(text))
    return frozenset(unit for unit in found if not (unit[0].isdecimal() or _IS_HAN.match(unit)))


# --- What a party must not have


def _singles_and_pairs(texts: Iterable[str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Return all units of the texts, and all pairs of neighbours within one text."""
    singles: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for text in texts:
        units_of_text = unit_texts(text)
        singles.update(units_of_text)
        pairs.update(pairwise(units_of_text))
    return singles, pairs


def joined_ends(texts: Sequence[str]) -> list[str]:
    """Return the end of each text with the beginning of each other one.

    Who has been told all of them may write one after the other: "tram fares" and "for students" have "fares for".
    """
    ends: list[str] = []
    beginnings: list[str] = []
    for text in texts:
        units_of_text = unit_texts(text)
        if units_of_text:
            beginnings.append(units_of_text[0])
            ends.append(units_of_text[-1])
    return [f"{end} {beginning}" for end, beginning in product(ends, beginnings)]


@dataclass(frozen=True, slots=True)
class Secret:
    """The single units and the pairs of a text that must not occur elsewhere (rules: module docstring)."""

    singles: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def hidden(
        cls, text: str, public_texts: Iterable[str], vocabulary: Collection[str] = frozenset()
    ) -> Secret:
        """Build from `text` minus everything in the public texts; `vocabulary` lists further harmless words."""
        public_singles, public_pairs = _singles_and_pairs(public_texts)
        secret_units = units(normalised(text))
        singles = set()
        for unit in secret_units:
            if unit.text in public_singles:
                continue
            harmless = unit.is_han or unit.text in FUNCTION_WORDS or unit.text in vocabulary
            if unit.is_number or not harmless:
                singles.add(unit.text)
        pairs = frozenset(pairwise(unit.text for unit in secret_units))
        return cls(frozenset(singles), pairs - public_pairs)

    def minus(self, texts: Iterable[str]) -> Secret:
        """Return what of it none of the texts has."""
        if not (self.singles or self.pairs):
            return self
        singles, pairs = _singles_and_pairs(texts)
        return Secret(self.singles - singles, self.pairs - pairs)

    def spans(self, text: str) -> Iterator[str]:
        """Yield the longest pieces of `text` (normalised) that consist of secret units, in order."""
        text = normalised(text)
        text_units = units(text)
        is_secret = [unit.text in self.singles for unit in text_units]
        for i, (unit, follower) in enumerate(pairwise(text_units)):
            if (unit.text, follower.text) in self.pairs:
                is_secret[i] = is_secret[i + 1] = True
        start: int | None = None
        for i, unit in enumerate(text_units):
            if not is_secret[i]:
                continue
            if start is None:
                start = unit.start
            ends_span = i + 1 == len(text_units) or not is_secret[i + 1]
            if ends_span:
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


class _ConstraintIndex:
    """A few texts, searchable for words without endings, for numbers and for pairs of characters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = "\n".join(normalised(text) for text in texts)
        singles, self.pairs = _singles_and_pairs(self.text.split("\n"))
        self.digits = {single for single in singles if single[0].isdecimal()}
        self.stems = {stem(single) for single in singles} | spelled_numbers(self.text)

    def has(self, unit: Unit) -> bool:
        return stem(unit.text.casefold()) in self.stems


class _Comparison:
    """The texts that a rewritten query is compared with, each indexed once."""

    def __init__(self, query: str, intent: str, pairs: Sequence[tuple[str, str]]) -> None:
        questions, answers, confirmed = [], [], []
        for question, answer in pairs:
            questions.append(question)
            if answer == UNKNOWN:
                continue
            answers.append(answer)
            if not _DENIAL.match(normalised(answer).strip()):
                confirmed.append(question)
        self.elicited = _ConstraintIndex([query, *answers, *confirmed])
        self.mentioned = _ConstraintIndex([query, *answers, *questions])
        self.intent = _ConstraintIndex([intent])

    def level(self, unit: Unit) -> Literal["leak", "unsupported"]:
        """Return the level of a word or number that was not elicited."""
        if self.intent.has(unit) and not self.mentioned.has(unit):
            return "leak"
        return "unsupported"

    def level_of_name(self, name: str) -> Literal["leak", "unsupported"]:
        """Return the level of a place or title; it is found as a substring, since Chinese has no spaces."""
        if name in self.intent.text and name not in self.mentioned.text:
            return "leak"
        return "unsupported"


def additions(
    rewritten: str,
    query: str,
    intent: str,
    pairs: Sequence[tuple[str, str]],
    vocabulary: Collection[str] = frozenset(),
) -> list[Addition]:
    """Return the constraints of a rewritten query that the (question, answer) `pairs` did not elicit, each once."""
    texts = _Comparison(query, intent, pairs)
    constraints = [*_new_places_and_titles(rewritten, texts), *_new_words(rewritten, texts, vocabulary)]
    # A number that q-hat has in words and q* in digits; `_new_words` compares the other spellings.
    spelled = spelled_numbers(normalised(rewritten)) & texts.intent.digits - texts.mentioned.stems
    constraints += [Addition("leak", number) for number in sorted(spelled)]
    # Where a run of Chinese and a name, title or number overlap, only the longer of them is named.
    names = [constraint.text for constraint in constraints]
    runs = [run for run in _chinese_runs(rewritten, texts) if not _is_part(run, names)]
    longest = [constraint for constraint in constraints if not _is_part(constraint.text, runs)]
    longest += [Addition("leak", run) for run in runs]
    return list(dict.fromkeys(longest))


def _is_part(text: str, longer_texts: Iterable[str]) -> bool:
    return any(text in longer for longer in longer_texts)


def _new_places_and_titles(rewritten: str, texts: _Comparison) -> Iterator[Addition]:
    """Yield Chinese names of places, and titles, that were not elicited."""
    text = normalised(rewritten)
    names = [place for place in PLACES_HAN if place in text]
    names += [title[1].strip() for title in _TITLE.finditer(text)]
    for name in names:
        if name and name not in texts.elicited.text:
            yield Addition(texts.level_of_name(name), name)


def _new_words(rewritten: str, texts: _Comparison, vocabulary: Collection[str]) -> Iterator[Addition]:
    """Yield numbers, and words of scripts with spaces between them, that were not elicited."""
    # In its own case: names are told from other words by their capitals.
    words = [unit for unit in units(_in_one_width(rewritten)) if not unit.is_han]
    names = _names(words)
    for unit in words:
        if texts.elicited.has(unit):
            continue
        word = unit.text.casefold()
        level = texts.level(unit)
        if unit.is_number or unit in names:
            yield Addition(level, word)
            continue
        # Any other word may be a paraphrase of the Rewriter's: only what q* alone has is a finding.
        ordinary = word in FUNCTION_WORDS or word in vocabulary or stem(word) in _GENERAL_STEMS
        if level == "leak" and not ordinary:
            yield Addition("leak", word)


def _names(units_in_case: Sequence[Unit]) -> set[Unit]:
    """Return the words written as names: known places, and words capitalised in a text that mostly is not."""
    words = [unit for unit in units_in_case if not unit.is_number]
    capitalised = [unit for unit in words if unit.text[0].isupper()]
    names = {unit for unit in words if unit.text.casefold() in PLACES}
    if 2 * len(capitalised) > len(words):
        return names
    for unit in capitalised:
        # The first word of a text is capitalised anyway, unless it is an abbreviation.
        is_abbreviation = len(unit.text) > 1 and unit.text.isupper()
        starts_text = unit.start == 0
        if starts_text and not is_abbreviation:
            continue
        if unit.text.casefold() not in FUNCTION_WORDS:
            names.add(unit)
    return names


_END: Final = Unit("", -1, -1)
"""Follows the last unit of a text, so that a run which reaches the end is closed like any other."""


def _chinese_runs(rewritten: str, texts: _Comparison) -> Iterator[str]:
    """Yield the longest runs of Chinese that q* has too and nobody mentioned, if they add a constraint."""
    text = normalised(rewritten)
    start = end = -1
    for unit, follower in pairwise([*units(text), _END]):
        pair = (unit.text, follower.text)
        are_neighbours = unit.is_han and follower.start == unit.end
        if are_neighbours and pair in texts.intent.pairs and pair not in texts.mentioned.pairs:
            if start < 0:
                start = unit.start
            end = follower.end
        elif start >= 0:
            run = text[start:end]
            if _adds_constraint(run, texts.mentioned.text):
                yield run
            start = -1


def _adds_constraint(run: str, mentioned: str) -> bool:
    """True if a run of Chinese has two new characters that belong to no general word."""
    remainder = _GENERAL_HAN.sub("", run)
    n_new = sum(char not in _FUNCTION_HAN and char not in mentioned for char in remainder)
    return n_new >= 2


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
    disclosed: tuple[str, ...]
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
        if not self.hidden:
            return 0.0
        return len(self.disclosed) / len(self.hidden)

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
        if self.disclosed and (self.marks or self._thinks):
            return "the answer thinks aloud about q*"
        if self._recites or self._quotes_phrases:
            return "the answer is most of q*, not what the question asks for"
        if self._tells_all and len(self.hidden) >= _MANY_HIDDEN:
            return "the answer tells nearly all that q* has beyond q, not what the question asks for"
        return ""

    @property
    def _thinks(self) -> bool:
        # What stands before a final "unknown" was no answer: fewer words show that it was a thought.
        least = _OWN_WORDS_BEFORE_UNKNOWN if self.says_unknown else _OWN_WORDS
        return self.share >= _ALOUD and self.n_own >= least

    @property
    def _recites(self) -> bool:
        # What q has already is no part of an answer. One who repeats it recites q*, which answers no question; one word
        # of it may be the noun that the answer is about ("waterproof hiking boots, size 38" to q "boots").
        repeats_query = self.n_repeated >= _LEAST_REPEATED and self.n_shared <= 2 * self.n_repeated
        return self._tells_all and repeats_query

    @property
    def _quotes_phrases(self) -> bool:
        # A q* of one or two words is quoted by every answer that names its constraint.
        has_phrases = len(self.hidden) > 1 and len(self.hidden) + self.n_shared >= LEAST_HIDDEN
        return self.quotes and has_phrases


def disclosure(answer: str, query: str, intent: str, context: Sequence[str]) -> Disclosure:
    """Measure what an answer gives away; `context` is its question, and what was said before in a conversation."""
    words_of_context, words_of_query = _Words([query, *context]), _Words([query])
    words_of_answer, words_of_intent = _Words([answer]), _Words([intent])
    hidden, disclosed = [], []
    n_shared = n_repeated = 0
    for word, written in _content_words(intent).items():
        is_told = words_of_answer.has(word)
        if not words_of_context.has(word):
            hidden.append(written)
            if is_told:
                disclosed.append(written)
        if words_of_query.has(word):
            n_shared += 1
            n_repeated += is_told
    n_own = 0
    for word in _content_words(answer):
        if not words_of_context.has(word) and not words_of_intent.has(word):
            n_own += 1
    return Disclosure(
        hidden=tuple(hidden),
        disclosed=tuple(disclosed),
        n_shared=n_shared,
        n_repeated=n_repeated,
        n_own=n_own,
        quotes=_quotes(answer, intent),
        marks=mark_of_thoughts(answer, intent),
        says_unknown=_ENDS_UNKNOWN.search(answer) is not None and answer.casefold() != UNKNOWN,
    )


def stands_in(text: str, query: str) -> bool:
    """True if a query has all content words of a text, which has some; English endings do not count."""
    words, words_of_query = _content_words(text), _Words([query])
    return bool(words) and all(words_of_query.has(word) for word in words)


def mark_of_thoughts(text: str, intent: str) -> str:
    """Return the first mark of a model's thoughts in a text; "" if there is none, or if q* itself has one."""
    mark = _THOUGHT_MARKS.search(text)
    # An intent may be about such marks ("what does <|channel|> mean"): then they are what the user says.
    if mark is None or _THOUGHT_MARKS.search(intent):
        return ""
    return mark[0]


def _content_words(text: str) -> dict[str, str]:
    """Return the content words of a text in order, each once: in the form that is compared, and as they are written.

    Compared are words without their endings, and numbers in digits.
    """
    words: dict[str, str] = {}
    for piece in pieces(fold(normalised(text))):
        if not is_word(piece) or piece in FUNCTION_WORDS or _FUNCTION_HAN.issuperset(piece):
            continue
        numbers = spelled_numbers(piece)
        compared = min(numbers) if numbers else stem(piece)
        words.setdefault(compared, piece)
    return words


class _Words:
    """A few texts, searchable for content words: Chinese ones wherever they stand, others as whole words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(fold(normalised(text)) for text in texts)
        words = [piece for piece in pieces(self._text) if is_word(piece)]
        self._stems = {stem(word) for word in words}.union(*map(spelled_numbers, words))

    def has(self, word: str) -> bool:
        if _IS_HAN.match(word):
            return word in self._text
        return word in self._stems


def _quotes(answer: str, intent: str) -> bool:
    """True if the answer has a run of so many units of q* as `_QUOTED` says."""
    intent_units = unit_texts(intent)
    length = ceil(_QUOTED * len(intent_units))
    if length == 0:
        return False
    # Spaces around both: units are compared whole, "park" is no quotation from "parking".
    spoken = f" {' '.join(unit_texts(answer))} "
    for start in range(len(intent_units) - length + 1):
        window = intent_units[start : start + length]
        if f" {' '.join(window)} " in spoken:
            return True
    return False
