"""What tokens cost; every expected price is worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from cts_async.engine.events import Usage
from cts_async.engine.prices import Prices, cost_terms, is_priced, usage_json

GPT = Prices(1.75, 14.0, 0.175, None, {"flex": 0.5, "batch": 0.5})
CLAUDE = Prices(3.0, 15.0, 0.30, 3.75, {"batch": 0.5})
QWEN = Prices(0.28, 1.12, 0.056, None, {"batch-chat": 0.5})
ERNIE = Prices(0.11, 0.44, tiers={"batch": 0.4})
BARE = Prices(1.0, 10.0)
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("prices", "usage", "usd"),
    [
        # 2,000 * 1.75 + 100 * 14 = 3,500 + 1,400
        (GPT, Usage(2000, 100), 0.0049),
        # 464 * 1.75 + 1,536 * 0.175 + 100 * 14 = 812 + 268.8 + 1,400
        (GPT, Usage(2000, 100, 1536), 0.0024808),
        # Half of both of these.
        (GPT, Usage(2000, 100).in_tier("flex"), 0.00245),
        (GPT, Usage(2000, 100, 1536).in_tier("flex"), 0.0012404),
        (GPT, Usage(2000, 100).in_tier("batch"), 0.00245),
        # A tier of which no price is known is paid in full.
        (GPT, Usage(2000, 100).in_tier("priority"), 0.0049),
        # One attempt in flex, the next one served as default: 0.00245 + 0.0049
        (GPT, Usage(2000, 100).in_tier("flex") + Usage(2000, 100), 0.00735),
        # 100 * 3 + 1,900 * 3.75 + 50 * 15 = 300 + 7,125 + 750: the first of several candidates.
        (CLAUDE, Usage(2000, 50, 0, 1900), 0.008175),
        # 100 * 3 + 1,900 * 0.30 + 50 * 15 = 300 + 570 + 750: the next one.
        (CLAUDE, Usage(2000, 50, 1900), 0.00162),
        # 200 * 3 + 1,500 * 0.30 + 300 * 3.75 = 600 + 450 + 1,125: a turn of an agent.
        (CLAUDE, Usage(2000, 0, 1500, 300), 0.002175),
        # 744 * 0.28 + 256 * 0.056 + 10 * 1.12 = 208.32 + 14.336 + 11.2, and half of it
        (QWEN, Usage(1000, 10, 256), 0.000233856),
        (QWEN, Usage(1000, 10, 256).in_tier("batch-chat"), 0.000116928),
        # 0.4 * (1,000 * 0.11 + 100 * 0.44) = 0.4 * 154
        (ERNIE, Usage(1000, 100).in_tier("batch"), 0.0000616),
        # Without a price of its own, a cache costs what other input does.
        (BARE, Usage(MILLION, MILLION, 900_000, 50_000), 11.0),
        (GPT, Usage(), 0.0),
    ],
)
def test_each_token_is_paid_at_the_price_of_its_kind_and_tier(
    prices: Prices, usage: Usage, usd: float
) -> None:
    assert prices.usd(usage) == pytest.approx(usd, rel=1e-12)
    # What the journal says of it costs the same.
    assert sum(cost_terms(usage_json(usage), prices.by_kind)) == pytest.approx(usd, rel=1e-12)


@pytest.mark.parametrize(
    ("usage", "written"),
    [
        (Usage(), {"input": 0, "output": 0}),
        (Usage(7, 2), {"input": 7, "output": 2}),
        (Usage(7, 2, 3), {"input": 7, "output": 2, "cached": 3}),
        (Usage(7, 2, 0, 4), {"input": 7, "output": 2, "cache_write": 4}),
        (
            Usage(7, 2, 3).in_tier("flex"),
            {"input": 7, "output": 2, "cached": 3, "input@flex": 7, "output@flex": 2, "cached@flex": 3},
        ),
        # Two attempts in flex and one that was served as default.
        (
            Usage(7, 2).in_tier("flex") + Usage(5, 1) + Usage(10, 0).in_tier("flex"),
            {"input": 22, "output": 3, "input@flex": 17, "output@flex": 2},
        ),
    ],
)
def test_usage_is_written_with_further_fields_only_where_they_are_not_zero(
    usage: Usage, written: dict[str, int]
) -> None:
    assert usage_json(usage) == written


def test_the_table_of_a_manifest_has_what_is_known() -> None:
    assert BARE.by_kind == {"input": 1.0, "output": 10.0}
    assert CLAUDE.by_kind == {
        "input": 3.0,
        "output": 15.0,
        "cached": 0.30,
        "cache_write": 3.75,
        "@batch": 0.5,
    }


@pytest.mark.parametrize(
    ("kind", "priced"),
    [
        ("input", True),
        ("cached", True),
        ("cached@flex", True),
        ("output", False),
        ("gold", False),
        ("", False),
    ],
)
def test_a_kind_is_priced_by_the_price_of_input_or_output(kind: str, priced: bool) -> None:
    prices: dict[str, Any] = {"input": 1.0, "output": None, "cached": 0.1}
    assert is_priced(kind, prices) is priced


def test_a_journal_that_reads_more_from_the_cache_than_was_sent_earns_nothing() -> None:
    assert sum(cost_terms({"input": 10, "cached": 1000}, {"input": 1.0, "output": 1.0})) == 1000 / 1e6
    # More in a tier than in all is no refund, either.
    prices = {"input": 1.0, "output": 1.0, "@flex": 0.5}
    assert sum(cost_terms({"input": 10, "input@flex": 100}, prices)) == 50 / 1e6
