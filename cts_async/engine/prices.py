"""What calls cost: tokens by kind as the journal writes them, and their price in US dollars.

Kinds are "input" and "output", and parts of the input that have prices of their own: "cached" (read from the provider's
cache) and "cache_write" (written to it). What was charged in a tier other than the ordinary one (a slower tier, a batch)
is counted in these, and once more as "input@TIER", "cached@TIER" and so on. So a reader that knows no tiers still counts
every token, and one that does knows which of them were cheaper.

Prices are a table by kind, in dollars per million tokens; "@TIER" is a factor over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cts_async.engine.events import Usage

TIER_MARK: Final = "@"
INPUT, OUTPUT, CACHED, CACHE_WRITE = "input", "output", "cached", "cache_write"
_PRICED_AS: Final = {INPUT: INPUT, OUTPUT: OUTPUT, CACHED: INPUT, CACHE_WRITE: INPUT}
"""By kind, the kind whose price has to be known: where a cache has no price of its own, its tokens are input."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; a cache without prices of its own (None) costs what other input does."""

    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cached_usd_per_mtok: float | None = None
    cache_write_usd_per_mtok: float | None = None
    tiers: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By tier, the factor over all these prices."""

    @property
    def by_kind(self) -> dict[str, float | None]:
        """The table of prices that a manifest has; without what is not known."""
        return price_table(
            self.input_usd_per_mtok,
            self.output_usd_per_mtok,
            self.cached_usd_per_mtok,
            self.cache_write_usd_per_mtok,
            self.tiers,
        )

    def usd(self, usage: Usage) -> float:
        """The price of `usage`."""
        # On the way of every call, most of which have neither caches nor tiers.
        if usage.cached_tokens or usage.cache_write_tokens or usage.tiers:
            return sum(cost_terms(usage_json(usage), self.by_kind))
        return (
            usage.input_tokens * self.input_usd_per_mtok + usage.output_tokens * self.output_usd_per_mtok
        ) / 1e6


def price_table(
    input: float | None,
    output: float | None,
    cached: float | None,
    cache_write: float | None,
    tiers: Mapping[str, float],
) -> dict[str, float | None]:
    """Prices by kind, as a manifest has them; only input and output are written where they are unknown, as None."""
    table: dict[str, float | None] = {INPUT: input, OUTPUT: output}
    if cached is not None:
        table[CACHED] = cached
    if cache_write is not None:
        table[CACHE_WRITE] = cache_write
    for tier, factor in tiers.items():
        table[f"{TIER_MARK}{tier}"] = factor
    return table


def usage_json(usage: Usage) -> dict[str, int]:
    """Tokens by kind; the usual two are always there, all others only where there are any."""
    tokens = {INPUT: usage.input_tokens, OUTPUT: usage.output_tokens}
    if usage.cached_tokens:
        tokens[CACHED] = usage.cached_tokens
    if usage.cache_write_tokens:
        tokens[CACHE_WRITE] = usage.cache_write_tokens
    for tier, part in usage.tiers:
        for kind, n_tokens in usage_json(part).items():
            if n_tokens:
                key = f"{kind}{TIER_MARK}{tier}"
                tokens[key] = tokens.get(key, 0) + n_tokens
    return tokens


def is_priced(kind: str, prices: Mapping[str, float | None]) -> bool:
    """True if tokens of this kind, of any tier, have a known price."""
    priced_as = _PRICED_AS.get(kind.partition(TIER_MARK)[0])
    return priced_as is not None and prices.get(priced_as) is not None


def cost_terms(tokens: Mapping[str, float], prices: Mapping[str, float | None]) -> list[float]:
    """The dollars of tokens by kind, as terms of a sum; every kind has to be priced (`is_priced`).

    A tier without a factor is charged in full.
    """
    ordinary: dict[str, float] = {}
    by_tier: dict[str, dict[str, float]] = {}
    for key, n_tokens in tokens.items():
        kind, _, tier = key.partition(TIER_MARK)
        if tier:
            by_tier.setdefault(tier, {})[kind] = n_tokens
        else:
            ordinary[kind] = n_tokens
    terms: list[float] = []
    for tier, part in by_tier.items():
        factor = prices.get(f"{TIER_MARK}{tier}")
        if factor is None:
            continue  # at the ordinary price, as which its tokens are counted already
        terms += _terms_of_tier(part, prices, factor)
        for kind, n_tokens in part.items():
            ordinary[kind] = max(0, ordinary.get(kind, 0) - n_tokens)
    return _terms_of_tier(ordinary, prices, 1.0) + terms


def _terms_of_tier(
    tokens: Mapping[str, float], prices: Mapping[str, float | None], factor: float
) -> list[float]:
    """The dollars of tokens of one tier by kind, as terms of a sum."""
    input_price = prices.get(INPUT) or 0.0
    terms: list[float] = []
    n_uncached = tokens.get(INPUT, 0)
    for kind in (CACHED, CACHE_WRITE):
        n_tokens = tokens.get(kind, 0)
        if not n_tokens:
            continue
        n_uncached -= n_tokens
        price = prices.get(kind)
        if price is None:
            price = input_price
        terms.append(n_tokens * price * factor / 1e6)
    # More read from a cache than was sent: what a journal says may be anything, and is not paid back.
    terms.append(max(0, n_uncached) * input_price * factor / 1e6)
    terms.append(tokens.get(OUTPUT, 0) * (prices.get(OUTPUT) or 0.0) * factor / 1e6)
    return terms
