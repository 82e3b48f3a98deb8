"""Regions are found in both languages, and only where they are named."""

from __future__ import annotations

import pytest

from cts_async.analysis.lexicon import enclosing, regions_in


@pytest.mark.parametrize(
    ("text", "regions"),
    [
        ("best universities for AI in europe", {"Europe"}),
        ("北京和上海的房价", {"Beijing", "Shanghai"}),
        ("Beijing 北京 BEIJING", {"Beijing"}),
        ("West Virginia", {"West Virginia"}),
        ("印度尼西亚的签证", {"Indonesia"}),
        ("Indiana Jones and indian food", {"Indiana"}),
        ("tax law in the US", {"United States"}),
        ("tell us about roast turkey", set()),
        ("flights to Turkey", {"Turkey"}),
        ("museums in Washington, D.C.", {"Washington DC"}),
        ("Xi'an noodles", {"Xi'an"}),
        ("新德里的天气", {"Delhi"}),
        ("湖南美食", {"Hunan"}),
        ("罗马尼亚语", {"Romania"}),
        ("ＣＨＩＮＡ", {"China"}),
        ("哪个城市好?", set()),
        ("", set()),
    ],
)
def test_regions_are_found_in_both_languages(text: str, regions: set[str]) -> None:
    assert regions_in(text) == regions


def test_city_lies_in_province_country_and_continent() -> None:
    assert list(enclosing("Chengdu")) == ["Sichuan", "China", "Asia"]
    assert list(enclosing("Munich")) == ["Germany", "Europe"]


def test_continent_lies_in_nothing() -> None:
    assert list(enclosing("Asia")) == []
