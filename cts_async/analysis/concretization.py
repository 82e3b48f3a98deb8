"""Years and regions that a rewritten query states although nobody gave them (paper, section 7.4).

A year or region in q-hat is supported if q or a known answer names it, or names a place within that region
(成都 supports 四川). A known answer that merely agrees ("yes", 是的) supports what its question names. Limits: other
kinds of constraints are not looked at, nor regions that are not in `gazetteer`; 今年 ("this year") and a number
are different years, since nobody says here what year it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cts_async.analysis.gazetteer import enclosing, regions_in
from cts_async.records import UNKNOWN

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
    """What a rewritten query made concrete without support; both empty where it kept to what it was told."""

    years: frozenset[str]
    regions: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.years or self.regions)


def unsupported(
    blurred_query: str, questions: Sequence[str], answers: Sequence[str], rewritten_query: str
) -> Unsupported:
    """The years and regions of the rewritten query that nothing it was made from supports."""
    told = [blurred_query, *_told(questions, answers)]
    years = years_in(rewritten_query) - {year for text in told for year in years_in(text)}
    short = {year for text in told for year in _short_years(text)}
    named = {region for text in told for region in regions_in(text)}
    supported = named | {outer for region in named for outer in enclosing(region)}
    return Unsupported(
        frozenset(year for year in years if year[2:] not in short),
        regions_in(rewritten_query) - supported,
    )


def years_in(text: str) -> frozenset[str]:
    """The years that a text names: "2024" for 2024 and 二零二四年, "this year" for 今年; 24年 is none by itself."""
    shown = unicodedata.normalize("NFKC", text)
    years = set(_NUMBER.findall(shown))
    years |= {year.translate(_DIGITS) for year in _CHINESE.findall(shown)}
    return frozenset(years | {year for year, pattern in _RELATIVE.items() if pattern.search(shown)})


def _short_years(text: str) -> set[str]:
    """Years of two digits, as 24年 and '24: whether that is a year or a span only what is made of it shows."""
    return {a or b for a, b in _SHORT.findall(unicodedata.normalize("NFKC", text))}


def _told(questions: Sequence[str], answers: Sequence[str]) -> list[str]:
    """Every known answer; with its question where it only agrees."""
    return [
        f"{question} {answer}" if _AGREES.fullmatch(answer.strip()) else answer
        for question, answer in zip(questions, answers, strict=True)
        if answer != UNKNOWN
    ]
