"""Numbers in words."""

from __future__ import annotations

import pytest

from cts_async.protocol.audit.text import spelled_numbers, with_years_in_digits


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("under nine hundred dollars", {"900"}),
        ("twenty-one or two thousand and five", {"21", "2005"}),
        ("three million two hundred thousand", {"3200000"}),
        ("one of the tenth, often", set()),
        ("三百零五元，十二天，二楼", {"305", "12", "2"}),
        ("三万五千，两千", {"35000", "2000"}),
        ("二〇二三年", {"2023"}),
        ("万一，一个", set()),
        ("四川，四楼", {"4"}),
        ("", set()),
    ],
)
def test_numbers_are_read_from_words(text: str, numbers: set[str]) -> None:
    assert spelled_numbers(text) == numbers


def test_years_are_written_in_digits_and_nothing_else_is() -> None:
    assert with_years_in_digits("二〇二三年和三年，二零二三") == "2023年和三年，二零二三"
