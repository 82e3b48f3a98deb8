"""Rewritten queries: stability under another supporting model, unsupported years and regions, added words (7.4)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final, TypedDict

from cts_async.analysis.lexicon import enclosing, regions_in
from cts_async.analysis.stats import Difference, clustered_mean
from cts_async.records import UNKNOWN, language_of
from cts_async.runs.finished import FinishedRun, Item
from cts_async.search.terms import fold, is_word, pieces, stem


@dataclass(frozen=True, slots=True)
class Stability:
    """Two runs of one Clarifier and budget with different supporting models: a row of table 11.

    Every rate is None if there is nothing that it could be a rate of.
    """

    run: str
    other: str
    n_questions: int
    """Questions of the run that asked more."""
    n_aligned: int
    """Questions that both runs asked about the same instance in the same words."""
    ua_agreement: float | None
    """Fraction of the aligned questions that both or neither User Answerer found unknown."""
    n_rewrites: int
    """Instances that both have rewritten."""
    rewrite_similarity: float | None
    """Mean `text_similarity` of their rewritten queries."""
    n_with_unknown: int
    """Rewritten queries of both runs with an unknown answer among theirs."""
    unknown_preservation: float | None
    """Fraction of these without an unsupported year or region: they left open what nobody had answered."""
    unsupported_years: float | None
    """Fraction of all rewritten queries of both runs that state a year which neither q nor a known answer names."""
    unsupported_regions: float | None
    """The same for regions."""


def stability(run: FinishedRun, other: FinishedRun, names: tuple[str, str]) -> Stability:
    """Compare two runs, called by `names` in the result."""
    aligned, similarities, preserved = (
        [value for _, value in pairs] for pairs in _observed(run, other).values()
    )
    additions = [added for _, added in _additions(run, other)]
    return Stability(
        run=names[0],
        other=names[1],
        n_questions=max(sum(len(item.questions) for item in one.items.values()) for one in (run, other)),
        n_aligned=len(aligned),
        ua_agreement=_mean(aligned),
        n_rewrites=len(similarities),
        rewrite_similarity=_mean(similarities),
        n_with_unknown=len(preserved),
        unknown_preservation=_mean(preserved),
        unsupported_years=_mean([bool(added.years) for added in additions]),
        unsupported_regions=_mean([bool(added.regions) for added in additions]),
    )


def stability_intervals(
    run: FinishedRun, other: FinishedRun, *, seed: int = 0
) -> dict[str, Difference | None]:
    """Return the values of table 11 with bootstrap 95 % intervals, instances resampled, by the fields of `Stability`."""
    return {
        name: clustered_mean([id for id, _ in pairs], [value for _, value in pairs], seed=seed)
        for name, pairs in _observed(run, other).items()
    }


def _observed(run: FinishedRun, other: FinishedRun) -> dict[str, list[tuple[str, float]]]:
    """Return what the values of table 11 are means of, each with its instance."""
    additions = _additions(run, other)
    return {
        "ua_agreement": list(_aligned_answers(run, other)),
        "rewrite_similarity": list(_similarities(run, other)),
        "unknown_preservation": [(item.id, not added) for item, added in additions if any(item.unknown)],
    }


def _additions(run: FinishedRun, other: FinishedRun) -> list[tuple[Item, Unsupported]]:
    """Return the instances that either run has rewritten, with what nothing supports in the rewritten query."""
    return [
        (item, unsupported(item.query, item.questions, item.answers, item.rewritten_query))
        for one in (run, other)
        for item in one.items.values()
        if item.questions and item.rewritten_query
    ]


def _similarities(run: FinishedRun, other: FinishedRun) -> Iterator[tuple[str, float]]:
    """Yield each instance that both have rewritten, with the likeness of their rewritten queries."""
    for id, item in run.items.items():
        theirs = other.items[id].rewritten_query if id in other.items else ""
        if item.rewritten_query and theirs:
            yield id, text_similarity(item.rewritten_query, theirs)


def text_similarity(a: str, b: str) -> float:
    """Return the likeness of two texts in [0, 1]: 2 * (longest common subsequence) / (sum of lengths), by characters.

    What difflib's ratio approximates, but symmetric. Width, case and white space do not count; two empty texts
    are alike.
    """
    from rapidfuzz.distance import Indel

    return float(Indel.normalized_similarity(_normalised(a), _normalised(b)))


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _aligned_answers(run: FinishedRun, other: FinishedRun) -> Iterator[tuple[str, bool]]:
    """Yield for every question asked in both runs its instance, and whether both answers are known or both unknown."""
    for id, item in run.items.items():
        if id in other.items:
            theirs = _unknown_by_question(other.items[id])
            for question, unknown in _unknown_by_question(item).items():
                if question in theirs:
                    yield id, unknown == theirs[question]


def _unknown_by_question(item: Item) -> dict[str, bool]:
    """Map normalised questions to whether the answer was unknown; of a repeated question the first counts."""
    pairs = zip(item.questions, item.unknown, strict=True)
    return {_normalised(question): unknown for question, unknown in reversed(list(pairs))}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# Unsupported years and regions. A year or region in q-hat is supported if q or a known answer names it, or names a place
# within that region (成都 supports 四川). A known answer that merely agrees ("yes", 是的) supports what its question
# names. Limits: other kinds of constraints are not checked, nor regions that are not in the gazetteer; 今年 ("this
# year") and a number are different years, since the current year is not known here.

_UNITS: Final = r"\s*(?:[元块万亿个人名米%]|公里|公斤|美元|(?:people|dollars|usd|euros?|km|kg|miles|words)\b)"
# 2024, but neither part of a longer number, nor an amount ($2000, 2000元, 2000 people), nor beside a Latin letter as in
# model numbers and digests (RTX2080, 3f2045a; À-ɏ has × as well). Years all the same: FY2023, 2020s, 2023Q1, and
# whatever stands before 年.
_NUMBER: Final = re.compile(
    r"(?<![\d$¥€£.])(?:(?:19|20)\d{2}(?=年)"
    r"|(?:(?<![a-zÀ-ɏ])|(?<=(?<![a-z])[fca]y))(?:19|20)\d{2}(?=(?:s|[qh][1-4])?(?![a-zÀ-ɏ\d]))"
    rf"(?!\.\d|{_UNITS}))",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(r"[一二][〇零○一二三四五六七八九]{3}(?=年)")
_SHORT: Final = re.compile(r"(?<!\d)(\d{2})(?=年(?!级|龄|前|后|内|来|间|以|期))|['’](\d{2})(?!\d)")
_RELATIVE: Final = {
    "this year": re.compile(r"今年|本年度?|\bthis year\b", re.IGNORECASE),
    "last year": re.compile(r"去年|\blast year\b", re.IGNORECASE),
    "next year": re.compile(r"明年|\bnext year\b", re.IGNORECASE),
}
_DIGITS: Final = str.maketrans("〇零○一二三四五六七八九", "000123456789")
_AGREES: Final = re.compile(
    r"(?:yes|yeah|yep|right|correct|true|exactly|是|是的|对|对的|没错|嗯|好的?|可以)\W*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Years and regions that a rewritten query states without support; falsy if there are none."""

    years: frozenset[str]
    regions: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.years or self.regions)


def unsupported(
    blurred_query: str, questions: Sequence[str], answers: Sequence[str], rewritten_query: str
) -> Unsupported:
    """Find the years and regions of the rewritten query that nothing it was made from supports."""
    sources = [blurred_query, *_known_answers(questions, answers)]
    years = years_in(rewritten_query) - {year for text in sources for year in years_in(text)}
    # Years of two digits, as 24年 and '24, may be spans as well: only the rewritten query tells.
    found = (_SHORT.findall(unicodedata.normalize("NFKC", text)) for text in sources)
    short = {before or after for pairs in found for before, after in pairs}
    named = {region for text in sources for region in regions_in(text)}
    supported = named | {outer for region in named for outer in enclosing(region)}
    return Unsupported(
        frozenset(year for year in years if year[2:] not in short),
        regions_in(rewritten_query) - supported,
    )


def years_in(text: str) -> frozenset[str]:
    """Return the years that a text names: "2024" for 2024 and 二零二四年, "this year" for 今年; 24年 alone is none."""
    normalised = unicodedata.normalize("NFKC", text)
    years = set(_NUMBER.findall(normalised))
    years |= {year.translate(_DIGITS) for year in _CHINESE.findall(normalised)}
    return frozenset(years | {year for year, pattern in _RELATIVE.items() if pattern.search(normalised)})


def _known_answers(questions: Sequence[str], answers: Sequence[str]) -> list[str]:
    """Return every known answer, together with its question if it only agrees."""
    return [
        f"{question} {answer}" if _AGREES.fullmatch(answer.strip()) else answer
        for question, answer in zip(questions, answers, strict=True)
        if answer != UNKNOWN
    ]


# Words of a rewritten query that the blurred query does not have


class Segment(TypedDict):
    """A part of a text, and whether the other text does not have it."""

    text: str
    added: bool


MAX_CHARS: Final = 20_000
"""Longer texts are returned unmarked."""


def segments(blurred: str, rewritten: str) -> list[Segment]:
    """Split the rewritten query into segments, marked or not; nothing is marked if there is nothing to compare with.

    Words are compared without regard to case, width, accents and English endings; Chinese ones by where they stand
    in the blurred query, however that is cut into words.
    """
    if not blurred.strip() or max(len(blurred), len(rewritten)) > MAX_CHARS:
        return [{"text": rewritten, "added": False}] if rewritten else []
    folded = fold(blurred)
    known = {stem(fold(piece)) for piece in pieces(blurred) if is_word(piece)}
    parts = list(pieces(rewritten))
    added = [_is_added(part, folded, known) for part in parts]
    # What is between two added words counts as added, too; what is next to another word does not.
    before = accumulate(added, _nearest)
    after = [*accumulate(reversed(added), _nearest)][::-1]
    joined = ((part, bool(left and right)) for part, left, right in zip(parts, before, after, strict=True))
    return [
        {"text": "".join(part for part, _ in same), "added": added}
        for added, same in groupby(joined, key=itemgetter(1))
    ]


def _nearest(word: bool | None, part: bool | None) -> bool | None:
    return word if part is None else part


def _is_added(piece: str, blurred: str, known: set[str]) -> bool | None:
    """True for a word that the blurred query does not have; None for what is not a word."""
    if not is_word(piece):
        return None
    if language_of(piece) == "zh":
        return fold(piece) not in blurred
    return stem(fold(piece)) not in known
