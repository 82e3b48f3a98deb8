"""Each provider's headers are read as limits, and nonsense as nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from multidict import CIMultiDict

from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.llm.responses import quotas_in

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
        (
            {  # our clock is ten seconds ahead of theirs
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "10",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:10Z",
            },
            Quotas(Quota(50, 10, None)),
        ),
        ({"x-ratelimit-limit-requests": "-1"}, None),
        ({"x-ratelimit-limit-requests": "0.5", "x-ratelimit-limit-tokens": "1e-3"}, None),
        ({"x-ratelimit-limit-requests": "inf", "x-ratelimit-limit-tokens": "nan"}, None),
        ({"x-ratelimit-limit-requests": "0", "x-ratelimit-limit-tokens": "many"}, None),
        (
            {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "-1"},
            Quotas(Quota(10)),
        ),
    ],
)
def test_limits_are_read_from_headers(headers: Mapping[str, str], expected: Quotas | None) -> None:
    assert quotas_in(CIMultiDict(headers), NOW) == expected


def anthropic(**said: str) -> CIMultiDict[str]:
    """`input_tokens_limit="9"` as `anthropic-ratelimit-input-tokens-limit: 9`."""
    return CIMultiDict(
        {f"Anthropic-RateLimit-{name.replace('_', '-')}": value for name, value in said.items()}
    )


def test_anthropic_s_three_limits_of_tokens_are_kept_as_one() -> None:
    """24,000 of 30,000 in are left, 0.8; of those out 2,000 of 8,000, 0.25: a quarter of the lower limit."""
    headers = anthropic(
        tokens_limit="38000",
        tokens_remaining="26000",
        tokens_reset="2023-11-14T22:13:50Z",
        input_tokens_limit="30000",
        input_tokens_remaining="24000",
        input_tokens_reset="2023-11-14T22:13:32Z",
        output_tokens_limit="8000",
        output_tokens_remaining="2000",
        output_tokens_reset="2023-11-14T22:14:05Z",
    )
    assert quotas_in(headers, NOW) == Quotas(None, Quota(30000, 7500.0, 45.0))


def test_a_workspace_s_stricter_limit_of_all_tokens_holds() -> None:
    headers = anthropic(tokens_limit="10000", tokens_remaining="5000", input_tokens_limit="30000")
    assert quotas_in(headers, NOW) == Quotas(None, Quota(10000, 5000.0))


def test_a_limit_of_tokens_out_alone_says_nothing_of_all_tokens() -> None:
    assert quotas_in(anthropic(output_tokens_limit="8000", output_tokens_remaining="0"), NOW) is None


def test_limits_without_what_is_left_are_limits() -> None:
    headers = anthropic(input_tokens_limit="30000", requests_limit="50")
    assert quotas_in(headers, NOW) == Quotas(Quota(50), Quota(30000))


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_resets_are_measured_against_the_answer_s_own_date(skew_s: float) -> None:
    headers = CIMultiDict(
        {
            "Date": "Tue, 14 Nov 2023 22:13:20 GMT",
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:30Z",
        }
    )
    assert quotas_in(headers, NOW + skew_s) == Quotas(Quota(50, 0, 10.0))
