"""Lexical nugget scoring: worked examples in both languages, and the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.protocol.judge import FULL_AT, PARTIAL_AT, _stem, lexical_coverage, terms_of
from cts_async.records import Coverage


def coverage(nugget: str, answer: str) -> tuple[Coverage, float]:
    return lexical_coverage(nugget, terms_of(answer).every)


def recall(nugget: str, answer: str) -> float:
    return coverage(nugget, answer)[1]


# -- English ------------------------------------------------------------------------------------------

NUGGET = "The museum opened in 1997 and receives 1,200 visitors daily."
# Its terms: museum, open, 1997, receiv, 1200, visitor, daili. "the", "in" and "and" are stop words.


@pytest.mark.parametrize(
    ("answer", "label", "share"),
    [
        ("Opening in 1997, the museum received 1200 visitors a day.", "full", 6 / 7),  # misses daili
        ("The MUSEUM (opened 1997) has 1,200 daily visitors.", "full", 6 / 7),  # misses receiv
        # Misses 1200: five words and a year are 6 of 7, but the number is a critical qualifier.
        ("The museum opened in 1997 and receives many visitors daily.", "partial", 6 / 7),
        ("A museum with daily visitors.", "partial", 3 / 7),  # museum, visitor, daili: 0.43
        ("A museum for visitors.", "none", 2 / 7),
        ("Nothing of the sort.", "none", 0.0),
    ],
)
def test_an_english_nugget_by_hand(answer: str, label: str, share: float) -> None:
    assert coverage(NUGGET, answer) == (label, share)


def test_the_labels_begin_exactly_at_their_thresholds() -> None:
    assert (FULL_AT, PARTIAL_AT) == (0.75, 0.4)
    assert coverage("red green blue black", "red green blue") == ("full", 0.75)
    assert coverage("red green blue black white", "red green") == ("partial", 0.4)
    assert coverage("red green blue", "red") == ("none", 1 / 3)


@pytest.mark.parametrize(
    "forms",
    [
        "city cities",
        "movie movies",
        "box boxes",
        "class classes",
        "bus buses",
        "plan plans planned planning",
        "make makes making",
        "use uses used using",
        "study studies studied studying",
        "fall falls falling",
        "need needs needed needing",
        "go goes going",
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({_stem(form) for form in forms.split()}) == 1


# -- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,200", "1200"),
        ("1,234,567.80", "1234567.8"),
        ("１，２００", "1200"),
        ("05", "5"),
        ("0", "00"),
        ("0.50", "0.5"),
        ("2.0", "2"),
        ("14：30", "14:30"),
        ("09:30", "9:30"),
        ("10km", "10 km"),
        ("12%", "12 percent"),
        ("2024-03-05", "2024年3月5日"),
        ("2024.03.05", "2024/3/5"),
        ("第１２届", "第12届"),
        ("CO₂", "co2"),
    ],
)
def test_spellings_of_one_number_are_one_term(one: str, other: str) -> None:
    assert coverage(one, other) == coverage(other, one) == ("full", 1.0)


@pytest.mark.parametrize(
    ("nugget", "answer"),
    [
        ("1.5", "15"),
        ("3.5", "3 and 5"),
        ("14:30", "14 30"),
        ("2019,2020", "20192020"),
        ("120", "1200"),
        ("0", ""),
    ],
)
def test_different_numbers_stay_different(nugget: str, answer: str) -> None:
    assert coverage(nugget, answer) == ("none", 0.0)


def test_a_missing_number_caps_the_label_not_the_recall() -> None:
    nugget = "The tallest tower in the old harbour city is 333 metres high"
    answer = "The tallest tower in the old harbour city is 330 metres high"
    # tallest, tower, old, harbour, city, metres, high of those and 333.
    assert coverage(nugget, answer) == ("partial", 7 / 8)


# -- Chinese ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nugget", "answer", "label", "share"),
    [
        # 是 and 的 break the nugget into 北京, 中国, 首都: a pair each.
        ("北京是中国的首都", "中国首都北京", "full", 1.0),
        # 公司 司总 总部 部位 位(于)杭州: pairs 公司 司总 总部 部位 + 杭州; the answer lacks 部位.
        ("公司总部位于杭州", "这家公司总部在杭州。", "full", 4 / 5),
        ("公司总部位于杭州", "总部设在杭州", "partial", 2 / 5),  # 总部, 杭州
        ("公司总部位于杭州", "总部设在上海", "none", 1 / 5),
        # 2023, 营收 收增 增长, 12, percent: all there.
        ("2023年营收增长了12%", "该公司２０２３年的营收增长12％", "full", 1.0),
        ("2023年营收增长了12%", "2022年营收增长12%", "partial", 5 / 6),
    ],
)
def test_a_chinese_nugget_by_hand(nugget: str, answer: str, label: str, share: float) -> None:
    assert coverage(nugget, answer) == (label, share)


# -- edges --------------------------------------------------------------------------------------------


# Letters without accents or case surprises, Chinese, digits and punctuation.
texts = st.text(alphabet="abcdeings yst 0123456789.,:%中国首都的了是年月，。ＡＢ１２é", max_size=60)


@given(texts, texts)
def test_recall_is_a_share_and_the_label_follows_it(nugget: str, answer: str) -> None:
    label, share = coverage(nugget, answer)
    assert 0 <= share <= 1
    assert (label == "none") == (share < PARTIAL_AT)
    assert label != "full" or share >= FULL_AT
    assert coverage(nugget, answer) == (label, share)


@given(texts)
def test_a_text_covers_itself(text: str) -> None:
    assert coverage(text, text) in {("full", 1.0), ("none", 0.0)}


@given(texts, texts, texts)
def test_saying_more_never_loses_coverage(nugget: str, answer: str, more: str) -> None:
    assert recall(nugget, f"{answer}\n{more}") >= recall(nugget, answer)
