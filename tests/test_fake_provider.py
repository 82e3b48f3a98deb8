"""The fake provider itself: what it promises to those who are tested against it."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

import aiohttp
import orjson
import pytest
from fake_provider import FakeProvider, OutageKind, Settings, digest_of, fault_of, latency_of, outage_of

DIGESTS = [digest_of(str(i).encode()) for i in range(2001)]


def body(text: str = "hello") -> bytes:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": text}]
    return orjson.dumps({"model": "m", "messages": messages})


async def post(provider: FakeProvider, text: str = "hello", key: str = "") -> tuple[int, Any, Any]:
    """Status, headers and body of the answer; status 0 for a connection dropped."""
    head = {"Authorization": f"Bearer {key}"}
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{provider.url}/chat/completions", data=body(text), headers=head) as response,
        ):
            return response.status, response.headers, await response.read()
    except aiohttp.ClientError:
        return 0, {}, b""


def statuses(settings: Settings, *texts: str, key: str = "") -> tuple[list[int], FakeProvider]:
    """The statuses of requests sent one after the other, and the provider that saw them."""

    async def main() -> tuple[list[int], FakeProvider]:
        async with FakeProvider(settings) as provider:
            return [(await post(provider, text, key))[0] for text in texts], provider

    return asyncio.run(main())


# --- What is drawn --------------------------------------------------------------------------------------


def test_a_fault_is_drawn_by_body_and_sending() -> None:
    settings = Settings(faults={"500": 0.25, "html": 0.25})
    drawn = [[fault_of(settings, "agent", digest, nth) for digest in DIGESTS] for nth in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for fault, share in {"500": 0.25, "html": 0.25, "": 0.5}.items():
        assert drawn[0].count(fault) / len(DIGESTS) == pytest.approx(share, abs=0.03)


def test_latency_is_log_normal_around_its_median() -> None:
    settings = Settings(latency_s=0.8, latency_sigma=0.6)
    drawn = sorted(latency_of(settings, digest, 0) for digest in DIGESTS)
    assert statistics.median(drawn) == pytest.approx(0.8, rel=0.05)
    # One standard deviation above the median of a log-normal: 0.8 * e^0.6.
    assert drawn[round(0.8413 * 2000)] == pytest.approx(0.8 * 1.822, rel=0.06)
    assert latency_of(settings, DIGESTS[0], 0) == latency_of(settings, DIGESTS[0], 0)
    assert latency_of(Settings(latency_s=0.8), DIGESTS[0], 0) == 0.8


def test_an_outage_lasts_from_its_beginning_to_before_its_end() -> None:
    settings = Settings(outages=[(10.0, 15.0, "503"), (20.0, 30.0, "hang")])
    found = [outage_of(settings, age_s) for age_s in (9.9, 10.0, 14.0, 15.0, 20.0)]
    assert found == [None, ("503", 5.0), ("503", 1.0), None, ("hang", 10.0)]


# --- What is sent ---------------------------------------------------------------------------------------


def test_each_key_has_limits_of_its_own() -> None:
    async def main() -> tuple[list[int], FakeProvider]:
        async with FakeProvider(Settings(allowance={"requests_per_min": 1})) as provider:
            return [(await post(provider, key=key))[0] for key in ("a", "b", "a", "b")], provider

    found, provider = asyncio.run(main())
    assert found == [200, 200, 429, 429]
    assert provider.stats()["refused"] == 2


def test_a_refusal_has_the_providers_headers_and_is_remembered_with_its_wait() -> None:
    async def main() -> tuple[Any, FakeProvider]:
        async with FakeProvider(Settings(allowance={"requests_per_min": 1})) as provider:
            await post(provider)
            return (await post(provider))[1], provider

    head, provider = asyncio.run(main())
    assert (head["x-ratelimit-remaining-requests"], head["Retry-After"]) == ("0", "60")
    refused = provider.seen[1]
    assert refused.fault == "limit requests"
    assert refused.retry_at == pytest.approx(refused.at + 60)


def test_tokens_are_settled_by_what_an_answer_took() -> None:
    """11 tokens in (45 bytes), about 36 out: two calls leave no room for a third, three estimates would fit."""
    settings = Settings(allowance={"tokens_per_min": 100})
    found, _ = statuses(settings, "x" * 44, "x" * 44, "x" * 44)
    assert found == [200, 200, 429]


def test_a_body_answered_twice_is_paid_twice() -> None:
    found, provider = statuses(Settings(), "a", "a", "b", "a")
    assert found == [200] * 4
    stats = provider.stats()
    assert (stats["requests"], stats["paid"], stats["paid_twice"], stats["max_in_flight"]) == (4, 4, 2, 1)


def test_what_breaks_on_the_way_is_not_paid() -> None:
    found, provider = statuses(Settings(faults={"truncated": 1.0}), "a")
    assert found == [200]
    assert provider.stats()["paid"] == 0


def test_limits_refuse_before_faults_so_that_faults_do_not_depend_on_timing() -> None:
    _, provider = statuses(Settings(allowance={"requests_per_min": 1}), "a", "a", "a")
    assert provider.counts[digest_of(body("a"))] == 1


@pytest.mark.parametrize(("kind", "status"), [("refuse", 0), ("503", 503), ("hang", 0)])
def test_an_outage_answers_nobody(kind: OutageKind, status: int) -> None:
    settings = Settings(outages=[(0.0, 0.05, kind)], hang_s=5.0)
    found, provider = statuses(settings, "a")
    assert found == [status]
    assert provider.stats()["by_fault"] == {f"outage {kind}": 1}


def test_a_request_that_hangs_is_dropped_in_the_end() -> None:
    found, _ = statuses(Settings(faults={"hang": 1.0}, hang_s=0.02), "a")
    assert found == [0]


def test_a_date_asks_to_wait_at_least_as_long() -> None:
    found, provider = statuses(Settings(faults={"429": 1.0}, retry_after="date", retry_after_s=0.3), "a")
    assert found == [429]
    (seen,) = provider.seen
    assert seen.retry_at is not None
    assert seen.retry_at - seen.at >= 0.3
