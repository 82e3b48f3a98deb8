"""Rewritten queries: stability under another supporting model, unsupported years and regions, added words (7.4)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypedDict

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


def stability(run: FinishedRun, other_run: FinishedRun, names: tuple[str, str]) -> Stability:
    """Compare two runs, called by `names` in the result."""
    values = _values_by_measure(run, other_run)
    aligned, similarities = values["ua_agreement"], values["rewrite_similarity"]
    preserved = values["unknown_preservation"]
    with_years: list[Value] = []
    with_regions: list[Value] = []
    for item, added in _additions(run, other_run):
        with_years.append((item.id, bool(added.years)))
        with_regions.append((item.id, bool(added.regions)))
    return Stability(
        run=names[0],
        other=names[1],
        n_questions=max(_count_questions(run), _count_questions(other_run)),
        n_aligned=len(aligned),
        ua_agreement=_mean(aligned),
        n_rewrites=len(similarities),
        rewrite_similarity=_mean(similarities),
        n_with_unknown=len(preserved),
        unknown_preservation=_mean(preserved),
        unsupported_years=_mean(with_years),
        unsupported_regions=_mean(with_regions),
    )


def _count_questions(run: FinishedRun) -> int:
    return sum(len(item.questions) for item in run.items.values())


def _mean(values: Sequence[Value]) -> float | None:
    if not values:
        return None
    return sum(value for _, value in values) / len(values)


def stability_intervals(
    run: FinishedRun, other_run: FinishedRun, *, seed: int = 0
) -> dict[str, Difference | None]:
    """Return the values of table 11 with bootstrap 95 % intervals, instances resampled, by the fields of `Stability`."""
    intervals: dict[str, Difference | None] = {}
    for measure, values in _values_by_measure(run, other_run).items():
        ids: list[str] = []
        numbers: list[float] = []
        for id, number in values:
            ids.append(id)
            numbers.append(number)
        # Answers of one instance depend on each other: instances are resampled, and not answers.
        intervals[measure] = clustered_mean(ids, numbers, seed=seed)
    return intervals


Value: TypeAlias = tuple[str, float]
"""The id of an instance, and one value of a measure on it; of what is true or false, 1 or 0."""


def _values_by_measure(run: FinishedRun, other_run: FinishedRun) -> dict[str, list[Value]]:
    """Return what the values of table 11 are means of, by the fields of `Stability`."""
    preserved: list[Value] = []
    for item, added in _additions(run, other_run):
        if any(item.unknown):
            preserved.append((item.id, not added))
    return {
        "ua_agreement": list(_aligned_answers(run, other_run)),
        "rewrite_similarity": list(_similarities(run, other_run)),
        "unknown_preservation": preserved,
    }


def _additions(run: FinishedRun, other_run: FinishedRun) -> Iterator[tuple[Item, Unsupported]]:
    """Yield the instances that either run has rewritten, with what nothing supports in the rewritten query."""
    for items in (run.items, other_run.items):
        for item in items.values():
            if item.questions and item.rewritten_query:
                yield item, unsupported(item.query, item.questions, item.answers, item.rewritten_query)


def _similarities(run: FinishedRun, other_run: FinishedRun) -> Iterator[Value]:
    """Yield each instance that both have rewritten, with the likeness of their rewritten queries."""
    for id, item in run.items.items():
        other_item = other_run.items.get(id)
        if other_item is not None and item.rewritten_query and other_item.rewritten_query:
            yield id, text_similarity(item.rewritten_query, other_item.rewritten_query)


def text_similarity(a: str, b: str) -> float:
    """Return the likeness of two texts in [0, 1]: 2 * (longest common subsequence) / (sum of lengths), by characters.

    What difflib's ratio approximates, but symmetric. Width, case and white space do not count; two empty texts
    are alike.
    """
    from rapidfuzz.distance import Indel

    return float(Indel.normalized_similarity(_normalised(a), _normalised(b)))


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _aligned_answers(run: FinishedRun, other_run: FinishedRun) -> Iterator[Value]:
    """Yield for every question asked in both runs its instance, and whether both answers are known or both unknown."""
    for id, item in run.items.items():
        if id not in other_run.items:
            continue
        other_unknown = _unknown_by_question(other_run.items[id])
        for question, unknown in _unknown_by_question(item).items():
            if question in other_unknown:
                yield id, unknown == other_unknown[question]


def _unknown_by_question(item: Item) -> dict[str, bool]:
    """Map normalised questions to whether the answer was unknown; of a repeated question the first counts."""
    unknown_by_question: dict[str, bool] = {}
    for question, unknown in zip(item.questions, item.unknown, strict=True):
        unknown_by_question.setdefault(_normalised(question), unknown)
    return unknown_by_question


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
    query: str, questions: Sequence[str], answers: Sequence[str], rewritten_query: str
) -> Unsupported:
    """Find the years and regions of the rewritten query that nothing it was made from supports."""
    years: set[str] = set()
    two_digits: set[str] = set()
    regions: set[str] = set()
    for source in (query, *_known_answers(questions, answers)):
        years |= years_in(source)
        # Years of two digits, as 24年 and '24, may be spans as well: only the rewritten query tells.
        for before_sign, after_apostrophe in _SHORT.findall(unicodedata.normalize("NFKC", source)):
            two_digits.add(before_sign or after_apostrophe)
        for region in regions_in(source):
            regions.add(region)
            regions.update(enclosing(region))
    added_years = years_in(rewritten_query) - years
    return Unsupported(
        frozenset(year for year in added_years if year[2:] not in two_digits),
        regions_in(rewritten_query) - regions,
    )


def years_in(text: str) -> frozenset[str]:
    """Return the years that a text names: "2024" for 2024 and 二零二四年, "this year" for 今年; 24年 alone is none."""
    normalised = unicodedata.normalize("NFKC", text)
    years = set(_NUMBER.findall(normalised))
    for year in _CHINESE.findall(normalised):
        years.add(year.translate(_DIGITS))
    for year, pattern in _RELATIVE.items():
        if pattern.search(normalised):
            years.add(year)
    return frozenset(years)


def _known_answers(questions: Sequence[str], answers: Sequence[str]) -> Iterator[str]:
    """Yield every known answer, together with its question if it only agrees."""
    for question, answer in zip(questions, answers, strict=True):
        if answer == UNKNOWN:
            continue
        if _AGREES.fullmatch(answer.strip()):
            yield f"{question} {answer}"
        else:
            yield answer


# Words of a rewritten query that the query does not have


class Segment(TypedDict):
    """A part of a text, and whether the other text does not have it."""

    text: str
    added: bool


MAX_CHARS: Final = 20_000
"""Of the longer text; longer ones are returned unmarked."""


def segments(query: str, rewritten: str) -> list[Segment]:
    """Split the rewritten query into segments, marked or not; nothing is marked if there is nothing to compare with.

    Words are compared without regard to case, width, accents and English endings; Chinese ones by where they stand
    in the query, however that is cut into words.
    """
    if not rewritten:
        return []
    if not query.strip() or max(len(query), len(rewritten)) > MAX_CHARS:
        return [{"text": rewritten, "added": False}]
    folded = fold(query)
    stems = {stem(fold(piece)) for piece in pieces(query) if is_word(piece)}
    rewritten_pieces = list(pieces(rewritten))
    added = [_is_added(piece, folded, stems) for piece in rewritten_pieces]
    # What is between two added words counts as added, too; what is next to another word does not.
    word_before = _nearest_words(added)
    word_after = reversed(_nearest_words(added[::-1]))
    marked: list[Segment] = []
    for piece, before, after in zip(rewritten_pieces, word_before, word_after, strict=True):
        is_added = bool(before and after)
        if marked and marked[-1]["added"] == is_added:
            marked[-1]["text"] += piece
        else:
            marked.append({"text": piece, "added": is_added})
    return marked


def _nearest_words(added: Sequence[bool | None]) -> list[bool | None]:
    """Return the mark of each word, and for what is not a word that of the word before it; None if there is none."""
    marks: list[bool | None] = []
    word: bool | None = None
    for mark in added:
        if mark is not None:
            word = mark
        marks.append(word)
    return marks


def _is_added(piece: str, folded_query: str, query_stems: set[str]) -> bool | None:
    """True for a word that the query does not have; None for what is not a word."""
    if not is_word(piece):
        return None
    if language_of(piece) == "zh":
        return fold(piece) not in folded_query
    return stem(fold(piece)) not in query_stems
