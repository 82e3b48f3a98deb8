"""What a provider's headers say of its limits: OpenAI's and Qianfan's names, and Anthropic's.

A limit below 1 is a gateway's way of saying nothing, and so is a reset that has passed (without the answer's
`Date`, by a clock that differs from ours). Most replies of servers nearby have no headers at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from cts_async.engine.quota import Quota, Quotas
from cts_async.llm.retry_after import server_time, until_s


def quotas(headers: Mapping[str, str], now: float) -> Quotas | None:
    """The limits that the headers (names in any case) name, at the wall-clock time `now`; None if none."""
    if not headers:
        return None
    if "x-ratelimit-limit-requests" in headers or "x-ratelimit-limit-tokens" in headers:
        return _both(headers, "x-ratelimit-{1}-{0}", server_time(headers, now))
    if any(name in headers for name in _ANTHROPIC):
        return _anthropic(headers, server_time(headers, now))
    return None


_TOKENS: Final = ("tokens", "input-tokens", "output-tokens")
_NAME: Final = "anthropic-ratelimit-{0}-{1}"
_ANTHROPIC: Final = tuple(_NAME.format(what, "limit") for what in ("requests", *_TOKENS))


def _anthropic(headers: Mapping[str, str], now: float) -> Quotas | None:
    """Requests, and one limit of tokens for three that hold at once: of all, of those in, of those out.

    An account counts tokens in and out together. The lower of the limits of all and of those in keeps both,
    and its share that is left is that of the scarcest of the three.
    """
    requests = _quota(headers, _NAME, "requests", now)
    kinds = [quota for what in _TOKENS if (quota := _quota(headers, _NAME, what, now))]
    named = [quota.limit for what in _TOKENS[:2] if (quota := _quota(headers, _NAME, what, now))]
    tokens = _scarcest(min(named), kinds) if named else None
    return Quotas(requests, tokens) if requests or tokens else None


def _scarcest(limit: float, kinds: Sequence[Quota]) -> Quota:
    """A quota of `limit` with the smallest share left that any of `kinds` has."""
    said = [(quota.remaining / quota.limit, quota) for quota in kinds if quota.remaining is not None]
    if not said:
        return Quota(limit)
    share, quota = min(said, key=lambda pair: pair[0])
    return Quota(limit, limit * share, quota.reset_s)


def _both(headers: Mapping[str, str], name: str, now: float) -> Quotas | None:
    requests, tokens = _quota(headers, name, "requests", now), _quota(headers, name, "tokens", now)
    return Quotas(requests, tokens) if requests or tokens else None


def _quota(headers: Mapping[str, str], name: str, what: str, now: float) -> Quota | None:
    limit = _number(headers.get(name.format(what, "limit")))
    if limit is None or limit < 1:
        return None
    left = _number(headers.get(name.format(what, "remaining")))
    reset = headers.get(name.format(what, "reset"))
    reset_s = until_s(reset, now) if reset else None
    return Quota(
        limit,
        left if left is not None and 0 <= left <= limit else None,
        reset_s if reset_s is not None and reset_s >= 0 else None,
    )


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None
