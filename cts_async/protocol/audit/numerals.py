"""Numbers that a text spells in words: nine hundred, twenty-one, 三百, 二〇二三年."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ONES: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL: Final = {
    **{word: n for n, word in enumerate(_ONES)},
    **{word: 10 * n for n, word in enumerate(_TENS, 2)},
}
_LARGE: Final = {"thousand": 1_000, "million": 1_000_000}
_WORD: Final = "|".join(sorted([*_SMALL, "hundred", *_LARGE], key=len, reverse=True))
_ENGLISH: Final = re.compile(rf"\b(?:{_WORD})(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD}))*\b")

_DIGITS: Final = {sign: n for n, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "○": 0, "两": 2}
_UNITS: Final = {"十": 10, "百": 100, "千": 1_000}
_SIGN: Final = "[零〇○一二两三四五六七八九十百千万]"
_COUNTED: Final = "[个年月日天周层楼人名次种家元岁条位本部届级号项点小分公万]"
_CHINESE: Final = re.compile(f"{_SIGN}{{2,}}|{_SIGN}(?={_COUNTED})")
"""A single sign is a number in front of what is counted: 四楼, and not 四川."""
_YEAR: Final = re.compile("[一二][〇零○一二三四五六七八九]{3}(?=年)")


def with_years_in_digits(text: str) -> str:
    """The text with 2023年 for 二〇二三年."""
    return _YEAR.sub(lambda found: "".join(str(_DIGITS[sign]) for sign in found[0]), text)


def spelled(text: str) -> frozenset[str]:
    """The numbers that a *normalised* text spells, in digits; without one, which is an article as often."""
    numbers = {*map(_english, _ENGLISH.findall(text)), *map(_chinese, _CHINESE.findall(text))}
    return frozenset(str(number) for number in numbers if number > 1)


def _english(words: str) -> int:
    total = part = 0
    for word in re.split(r"[\s-]+", words):
        if word in _SMALL:
            part += _SMALL[word]
        elif word == "hundred":
            part = max(part, 1) * 100
        elif word in _LARGE:
            total, part = total + max(part, 1) * _LARGE[word], 0
    return total + part


def _chinese(signs: str) -> int:
    if not any(sign in _UNITS or sign == "万" for sign in signs):
        return int("".join(str(_DIGITS[sign]) for sign in signs))
    return sum(
        _below_ten_thousand(part) * power
        for part, power in zip(reversed(signs.split("万")), _powers(), strict=False)
    )


def _powers() -> Iterator[int]:
    power = 1
    while True:
        yield power
        power *= 10_000


def _below_ten_thousand(signs: str) -> int:
    """十二 is 12, 三百零五 is 305; an empty part, as in front of 万 alone, is 0."""
    total = digit = 0
    for sign in signs:
        if sign in _UNITS:
            total, digit = total + (digit or 1) * _UNITS[sign], 0
        else:
            digit = _DIGITS[sign]
    return total + digit
