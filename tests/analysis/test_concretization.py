"""What a rewrite made concrete without support, in tables worked by hand in both languages."""

from __future__ import annotations

import pytest

from cts_async.analysis.stability import Unsupported, unsupported, years_in


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
def test_years_of_a_text(text: str, years: set[str]) -> None:
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
def test_what_nobody_said(
    query: str, asked: dict[str, str], rewritten: str, years: set[str], regions: set[str]
) -> None:
    found = unsupported(query, list(asked), list(asked.values()), rewritten)
    assert found == Unsupported(frozenset(years), frozenset(regions))
    assert bool(found) == bool(years or regions)
