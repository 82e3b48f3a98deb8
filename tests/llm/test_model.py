"""What a model's calls may cost at most, as its catalogue entry and its parameters say."""

from __future__ import annotations

from typing import Any

import pytest

from cts_async.engine.step import Prices
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import output_limit, prices_of


def spec(**prices: float) -> ModelSpec:
    return ModelSpec("mine", "openai", "http://a.example/v1", "m-1", None, "mine", 8, **prices)


def test_prices_are_known_only_if_both_are() -> None:
    assert prices_of(spec(input_usd_per_mtok=0.5, output_usd_per_mtok=0.0)) == Prices(0.5, 0.0)
    assert prices_of(spec(input_usd_per_mtok=0.5)) is None
    assert prices_of(spec()) is None


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({}, None),
        ({"max_tokens": 300, "temperature": 0.0}, 300),
        ({"max_completion_tokens": 400}, 400),
        ({"max_tokens": 300, "max_output_tokens": 500}, 500),
        ({"max_tokens": None}, None),
    ],
)
def test_a_replys_limit_is_found_under_each_of_its_names(params: dict[str, Any], limit: int | None) -> None:
    assert output_limit(params) == limit
