"""Leave that is let out ahead: only of plenty, counted as used until it is known, and given back to the last token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from virtual_time import run_virtual

from cts_async.cluster.asks import LotReport
from cts_async.cluster.lots import Lots
from cts_async.engine.account import Account, LaneLimits


def in_a_loop(body: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return body()

    return run_virtual(main)


def an_account(kind: Any, requests: float | None = None, tokens: float | None = None) -> tuple[Account, Lots]:
    account = Account(LaneLimits(requests, tokens, kind=kind), slack_s=0.5)
    return account, Lots(account)


@pytest.mark.parametrize("kind", ["sliding", "auto"])
def test_a_fifth_of_a_limit_is_never_let_out_ahead(kind: Any) -> None:
    def body() -> list[int]:
        _, lots = an_account(kind, requests=1000)
        let = [lots.let("a", n, 0.0, 300, 0.0) for n in range(4)]
        return [lot.requests if lot else 0 for lot in let]

    first, second, third, fourth = in_a_loop(body)
    assert (first, second, fourth) == (300, 300, 0)
    # A bucket, which it may be, has kept 0.9 s of its refill back: 15 less.
    assert third == {"sliding": 200, "auto": 185}[kind]


def test_tokens_are_charged_with_caution_and_bind_too() -> None:
    """Of 10,000 tokens 8,000 may go ahead: 100 estimated ones are charged as 120, so for 66 requests."""

    def body() -> Any:
        return an_account("sliding", requests=1000, tokens=10_000)[1].let("a", 1, 0.0, 100, 10_000.0)

    lot = in_a_loop(body)
    assert (lot.requests, lot.tokens, lot.token_margin) == (66, pytest.approx(66 * 120.0), 1.2)


def test_an_even_flow_has_no_more_out_than_three_thousandths_of_a_second() -> None:
    """10,000 a second, of which 99 % are used: 29 at once, whoever has them, until they are over."""

    async def main() -> list[int]:
        _, lots = an_account("paced", requests=600_000)
        await asyncio.sleep(1.0)
        let = [lots.let(worker, n, 1.0, 20, 0.0) for n, worker in enumerate("abb", 1)]
        lots.report(LotReport(1, 20, 0.0, 1.0))
        let.append(lots.let("a", 4, 1.0, 20, 0.0))
        return [lot.requests if lot else 0 for lot in let]

    assert run_virtual(main) == [20, 9, 0, 20]


def test_a_slow_even_flow_lets_nothing_out_ahead() -> None:
    async def main() -> Any:
        _, lots = an_account("paced", requests=60_000)
        await asyncio.sleep(1.0)
        return lots.let("a", 1, 1.0, 100, 0.0)

    assert run_virtual(main) is None


def test_what_was_not_used_comes_back_and_the_rest_is_dated() -> None:
    """100 of 1,000 are let out, 40 were sent at 0.2 s: they leave the window 60.4 s later, the others at once."""

    async def main() -> list[float]:
        account, lots = an_account("sliding", requests=1000)
        lots.let("a", 1, 0.0, 100, 0.0)
        rooms = [account.spare()[0]]
        report = LotReport(1, 40, 0.0, 0.2, ended=10)
        assert (lots.report(report).used, lots.requests) == (40, 0)
        rooms.append(account.spare()[0])
        assert lots.report(report).used == 0, "it is said twice"
        for until in (60.55, 60.65):
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            rooms.append(account.spare()[0])
        return rooms

    assert run_virtual(main) == [700.0, 760.0, 760.0, 800.0]


def test_tokens_take_the_place_of_their_estimates() -> None:
    """Ten requests of 100, charged as 1,200: six were sent for 720, of which five took 400 in all."""

    def body() -> list[float]:
        account, lots = an_account("sliding", tokens=10_000)
        lots.let("a", 1, 0.0, 10, 1000.0)
        rooms = [account.spare()[1]]
        lots.report(LotReport(1, 6, 720.0, 0.2, ended=2, charged=240.0, took=150.0))
        rooms.append(account.spare()[1])
        lots.report(LotReport(1, 6, 720.0, 0.2, ended=5, charged=600.0, took=400.0))
        rooms.append(account.spare()[1])
        return rooms

    # 8,000 without the reserve; less 1,200; less 720 - 90; less 720 - 200.
    assert in_a_loop(body) == pytest.approx([6800.0, 7370.0, 7480.0])


def test_an_estimate_that_was_too_low_raises_those_that_follow() -> None:
    def body() -> float:
        account, lots = an_account("sliding", tokens=100_000)
        lots.let("a", 1, 0.0, 10, 1000.0)
        lots.report(LotReport(1, 10, 1200.0, 0.2, ended=10, charged=1200.0, took=1100.0, worst=1.9))
        return account.token_margin

    assert in_a_loop(body) == 1.9


def test_what_was_refused_was_not_counted() -> None:
    def body() -> Any:
        lots = an_account("sliding", requests=1000, tokens=10_000)[1]
        lots.let("a", 1, 0.0, 10, 1000.0)
        new = lots.report(LotReport(1, 10, 1200.0, 0.2, ended=3, refused=2, refused_tokens=240.0))
        return new.refused, new.permit.tokens, new.permit.sent_at

    assert in_a_loop(body) == (2, 120.0, 0.2)


def test_a_lot_of_which_nobody_says_anything_stays_counted() -> None:
    def body() -> Any:
        account, lots = an_account("sliding", requests=1000)
        lots.let("a", 1, 0.0, 100, 0.0)
        lots.gone("a")
        forgotten = lots.forget(59.0), lots.forget(61.0)
        return forgotten, lots.requests, lots.report(LotReport(1, 5, 0.0, 0.1)).used, account.spare()[0]

    assert in_a_loop(body) == ((0, 100), 0, 0, 700.0)
