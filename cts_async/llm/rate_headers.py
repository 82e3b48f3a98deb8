"""What a provider's headers say of its limits: OpenAI's and Qianfan's names, and Anthropic's.

A limit of 0 or less is a gateway's way of saying nothing. Without such headers a reply costs two lookups.
"""

from __future__ import annotations

from collections.abc import Mapping

from cts_async.engine.quota import Quota, Quotas
from cts_async.llm.retry_after import until_s


def quotas(headers: Mapping[str, str], now: float) -> Quotas | None:
    """The limits that the headers (names in any case) name, at the wall-clock time `now`; None if none."""
    if "x-ratelimit-limit-requests" in headers or "x-ratelimit-limit-tokens" in headers:
        return _both(headers, "x-ratelimit-{1}-{0}", now)
    if "anthropic-ratelimit-requests-limit" in headers or "anthropic-ratelimit-tokens-limit" in headers:
        return _both(headers, "anthropic-ratelimit-{0}-{1}", now)
    return None


def _both(headers: Mapping[str, str], name: str, now: float) -> Quotas | None:
    requests, tokens = _quota(headers, name, "requests", now), _quota(headers, name, "tokens", now)
    return Quotas(requests, tokens) if requests or tokens else None


def _quota(headers: Mapping[str, str], name: str, what: str, now: float) -> Quota | None:
    limit = _number(headers.get(name.format(what, "limit")))
    if limit is None or limit <= 0:
        return None
    left = _number(headers.get(name.format(what, "remaining")))
    reset = headers.get(name.format(what, "reset"))
    return Quota(
        limit,
        left if left is not None and 0 <= left <= limit else None,
        until_s(reset, now) if reset else None,
    )


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
