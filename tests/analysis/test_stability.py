"""Stability under another supporting model, and unsupported years and regions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import Row, made_run

from cts_async.analysis.stability import (
    Stability,
    Unsupported,
    segments,
    stability,
    stability_intervals,
    text_similarity,
    unsupported,
    years_in,
)
from cts_async.analysis.stats import Difference
from cts_async.runs.finished import FinishedRun, read_run


def run(folder: Path, name: str, *rows: Row) -> FinishedRun:
    return read_run(made_run(folder, label="gpt-k1", rows=rows, name=name, players={"support": name}))


def row(id: str, question: str, answer: str, rewritten: str, query: str = "rents") -> Row:
    return Row(id, [question], [answer], blurred_query=query, rewritten_query=rewritten)


def test_stability_matches_hand_calculation(tmp_path: Path) -> None:
    ernie = run(
        tmp_path,
        "ernie",
        row("q1", "Where?", "unknown", "rents"),
        row("q2", "Where?", "Berlin", "rents in Berlin"),
        row("q3", "When?", "unknown", "rents 2024"),  # a year that nobody named
        row("q4", "Which kind?", "new ones", "rents of new flats"),
        row("q5", "Where?", "unknown", "rents"),  # fails in the other run
    )
    gpt = run(
        tmp_path,
        "gpt",
        row("q1", "where? ", "unknown", "rents"),  # the same question but for case and space
        row("q2", "Where?", "unknown", "rents"),  # the other status
        row("q3", "Which year?", "unknown", "rents"),  # another question
        row("q4", "Which kind?", "all kinds", "rents of new flats"),
        Row("q5", error="answer"),
    )
    assert stability(ernie, gpt, ("gpt-ernie", "gpt-gpt")) == Stability(
        run="gpt-ernie",
        other="gpt-gpt",
        n_questions=5,
        n_aligned=3,
        ua_agreement=2 / 3,
        n_rewrites=4,
        # 1; 2 * 5 / (15 + 5); 2 * 5 / (10 + 5); 1
        rewrite_similarity=pytest.approx((1 + 0.5 + 2 / 3 + 1) / 4),
        n_with_unknown=6,
        unknown_preservation=5 / 6,
        unsupported_years=1 / 9,
        unsupported_regions=0.0,
    )


def test_intervals_are_of_the_same_values(tmp_path: Path) -> None:
    """Two instances of two questions each: one agrees twice, the other once."""
    asked = {"questions": ["Where?", "When?"], "blurred_query": "rents"}
    ernie = run(
        tmp_path,
        "ernie",
        Row("q1", answers=["Berlin", "unknown"], rewritten_query="rents in Berlin", **asked),
        Row("q2", answers=["unknown", "unknown"], rewritten_query="rents", **asked),
    )
    gpt = run(
        tmp_path,
        "gpt",
        Row("q1", answers=["Bonn", "unknown"], rewritten_query="rents in Berlin", **asked),
        Row("q2", answers=["unknown", "2024"], rewritten_query="rents 2024", **asked),
    )
    of, intervals = stability(ernie, gpt, ("a", "b")), stability_intervals(ernie, gpt)
    for name, found in intervals.items():
        assert found
        assert (found.mean, found.n) == (pytest.approx(getattr(of, name)), 2)
    assert intervals["ua_agreement"] == Difference(2, 0.75, 0.5, 1.0)
    # gpt's rewrite of q1 names a city that its own answer does not.
    assert intervals["unknown_preservation"] == Difference(2, 0.75, 0.5, 1.0)


def test_agreement_is_none_without_common_questions(tmp_path: Path) -> None:
    first = run(tmp_path, "ernie", row("q1", "Where?", "unknown", "rents"))
    second = run(tmp_path, "gpt", row("q2", "Where?", "unknown", "rents"))
    found = stability(first, second, ("a", "b"))
    assert (found.n_aligned, found.ua_agreement, found.n_rewrites, found.rewrite_similarity) == (
        0,
        None,
        0,
        None,
    )
    assert found.unknown_preservation == 1.0


def test_first_answer_of_repeated_question_counts(tmp_path: Path) -> None:
    twice = Row("q1", ["Where?", "where?"], ["unknown", "Berlin"], rewritten_query="x")
    first = run(tmp_path, "ernie", twice)
    second = run(tmp_path, "gpt", row("q1", "Where?", "unknown", "x"))
    found = stability(first, second, ("a", "b"))
    assert (found.n_questions, found.n_aligned, found.ua_agreement) == (2, 1, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "similarity"),
    [
        ("", "", 1.0),
        ("abc", "", 0.0),
        ("abcd", "abef", 0.5),
        ("北京的大学", "北京大学", 8 / 9),
        ("Ferry  Times", "ferry times", 1.0),
        ("ＡＢ", "ab", 1.0),
    ],
)
def test_text_similarity_matches_hand_calculation(a: str, b: str, similarity: float) -> None:
    assert text_similarity(a, b) == pytest.approx(similarity)


@given(st.text(max_size=12), st.text(max_size=12))
def test_text_similarity_is_symmetric_and_bounded(a: str, b: str) -> None:
    assert 0 <= text_similarity(a, b) == text_similarity(b, a) <= 1
    assert text_similarity(a, a) == 1.0


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("2024年的政策", {"2024"}),
        ("policies of 2024.", {"2024"}),
        ("二零二四年", {"2024"}),
        ("二〇二四年", {"2024"}),
        ("一九九八年", {"1998"}),
        ("1999-2001", {"1999", "2001"}),
        ("２０２４年", {"2024"}),
        ("今年和去年", {"this year", "last year"}),
        ("Next year or this year", {"next year", "this year"}),
        ("24年", set()),
        ("2000元以下的手机", set()),
        ("$2000 laptops, 2000 people, 2000.5", set()),
        ("order 20240501", set()),
        ("1800 or 2100", set()),
        ("RTX2080 price", set()),
        ("sha256 3f2045ab, e2045", set()),
        ("1920x1080, 1920×1080 or 2000x, Ünal2020é", set()),
        ("2080Ti显卡", set()),
        ("2023年和FY2021", {"2023", "2021"}),
        ("截至2023的数据，公元2019", {"2023", "2019"}),
        ("music of the 2020s", {"2020"}),
        ("2023Q1, 2022H2", {"2023", "2022"}),
        ("2023Q1营收", {"2023"}),
        ("NBA2024年赛程", {"2024"}),
        ("2000km away", set()),
        ("FY20234", set()),
        ("", set()),
    ],
)
def test_years_are_found_in_text(text: str, years: set[str]) -> None:
    assert years_in(text) == years


@pytest.mark.parametrize(
    ("query", "asked", "rewritten", "years", "regions"),
    [
        # kept open
        ("ferry times", {"Which year?": "unknown", "Where to?": "unknown"}, "all ferry times", set(), set()),
        # made up
        ("ferry times", {"Which year?": "unknown"}, "ferry times 2024 in Scotland", {"2024"}, {"Scotland"}),
        ("大学排名", {"哪个地区?": "unknown"}, "2024年北京大学排名", {"2024"}, {"Beijing"}),
        ("大学排名", {"哪一年?": "unknown"}, "今年的大学排名", {"this year"}, set()),
        # told by q or an answer, in whatever spelling
        ("ferry times 2024", {"Where to?": "Scotland"}, "2024 ferry times, Scotland", set(), set()),
        ("大学排名", {"哪一年?": "2024", "哪里?": "Beijing"}, "二零二四年北京的大学排名", set(), set()),
        ("大学排名", {"哪一年?": "24年"}, "2024年大学排名", set(), set()),
        # a city supports what it lies in, but not the reverse
        ("房价", {"哪个城市?": "成都"}, "中国四川成都的房价", set(), set()),
        ("房价", {"哪个省?": "四川"}, "四川成都的房价", set(), {"Chengdu"}),
        # to agree is to say what was asked
        ("大学排名", {"是2024年的吗?": "是的。"}, "2024年大学排名", set(), set()),
        ("rents", {"In Berlin?": "Yes"}, "rents in Berlin", set(), set()),
        ("rents", {"In Berlin?": "unknown"}, "rents in Berlin", set(), {"Berlin"}),
        ("rents", {"In Berlin?": "for students"}, "rents in Berlin for students", set(), {"Berlin"}),
        # 24年 in an answer is no other year
        ("大学排名", {"哪一年?": "24年"}, "2023年大学排名", {"2023"}, set()),
    ],
)
def test_unsupported_years_and_regions_are_found(
    query: str, asked: dict[str, str], rewritten: str, years: set[str], regions: set[str]
) -> None:
    found = unsupported(query, list(asked), list(asked.values()), rewritten)
    assert found == Unsupported(frozenset(years), frozenset(regions))
    assert bool(found) == bool(years or regions)


# Words of a rewritten query that are new


def marked(blurred: str, rewritten: str) -> str:
    """The rewritten query with what was added in brackets."""
    return "".join(
        f"[{one['text']}]" if one["added"] else one["text"] for one in segments(blurred, rewritten)
    )


@pytest.mark.parametrize(
    ("blurred", "rewritten", "expected"),
    [
        ("ferry timetable", "ferry timetable", "ferry timetable"),
        ("ferry timetable", "winter ferry timetable, 2033", "[winter] ferry timetable, [2033]"),
        ("ferry", "Timetable of the ferry, in winter!", "[Timetable of the] ferry, [in winter]!"),
        ("museum tickets", "Museum ticket prices for seniors", "Museum ticket [prices for seniors]"),
        ("图书馆座位", "大学图书馆二楼座位预约", "[大学]图书馆[二楼]座位[预约]"),
        ("Python", "Ｐｙｔｈｏｎ 教程", "Ｐｙｔｈｏｎ [教程]"),
        ("", "anything at all", "anything at all"),
        ("a", "", ""),
    ],
)
def test_added_words_are_marked(blurred: str, rewritten: str, expected: str) -> None:
    assert marked(blurred, rewritten) == expected


@given(st.text("ab 汉字,.é\n\x00", max_size=20), st.text("abc 汉字图书馆,.é\n\x00", max_size=40))
def test_segments_concatenate_to_the_query(blurred: str, rewritten: str) -> None:
    found = segments(blurred, rewritten)
    assert "".join(one["text"] for one in found) == rewritten
    assert all(one["text"] for one in found)
    kinds = [one["added"] for one in found]
    assert all(kinds[i] != kinds[i + 1] for i in range(len(kinds) - 1))


@given(st.text("ab 汉字,.", max_size=20))
def test_equal_query_has_no_added_words(query: str) -> None:
    assert not any(one["added"] for one in segments(query, query))


def test_overlong_query_is_not_marked() -> None:
    assert segments("ferry " * 4_000, "winter ferry") == [{"text": "winter ferry", "added": False}]
