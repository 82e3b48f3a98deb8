"""Each provider's headers are read as limits, and nonsense as nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from multidict import CIMultiDict

from cts_async.engine.quota import Quota, Quotas
from cts_async.llm.rate_headers import quotas

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        (
            {
                "x-ratelimit-limit-requests": "500",
                "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-limit-tokens": "30000",
                "x-ratelimit-remaining-tokens": "29000",
                "x-ratelimit-reset-tokens": "1m2s",
            },
            Quotas(Quota(500, 499, 0.12), Quota(30000, 29000, 62.0)),
        ),
        ({"X-Ratelimit-Limit-Tokens": "1000"}, Quotas(None, Quota(1000))),
        (
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:30Z",
            },
            Quotas(Quota(50, 0, 10.0)),
        ),
        ({"x-ratelimit-limit-requests": "-1"}, None),
        ({"x-ratelimit-limit-requests": "0", "x-ratelimit-limit-tokens": "many"}, None),
        (
            {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "-1"},
            Quotas(Quota(10)),
        ),
    ],
)
def test_limits_are_read_from_headers(headers: Mapping[str, str], expected: Quotas | None) -> None:
    assert quotas(CIMultiDict(headers), NOW) == expected
