"""A worker's lots: used from the oldest on, in their time, and accounted for to the last request."""

from __future__ import annotations

from math import inf

import pytest

from cts_async.cluster.asks import Lot, LotReport
from cts_async.cluster.stock import Stock


def lot(number: int, requests: int, tokens: float = 0.0) -> Lot:
    return Lot(number, inf, requests, tokens, token_margin=1.25)


def test_lots_are_used_from_the_oldest_on() -> None:
    stock = Stock()
    stock.add(lot(1, 2), end=5.0)
    stock.add(lot(2, 2), end=6.0)
    taken = [stock.take(1.0, 0.0) for _ in range(5)]
    assert [one.lot.id if one else None for one in taken] == [1, 1, 2, 2, None]
    assert not stock.has_room(1.0, 0.0)


def test_a_request_that_a_lot_has_no_tokens_for_is_not_sent_of_it() -> None:
    """100 tokens of an estimate are charged as 125."""
    stock = Stock()
    stock.add(lot(1, 9, tokens=130.0), end=5.0)
    assert not stock.has_room(1.0, 105.0)
    assert stock.take(1.0, 100.0)
    assert stock.left == 8
    assert not stock.has_room(1.0, 5.0)
    assert stock.has_room(1.0, 4.0)


def test_nothing_is_sent_of_a_lot_after_its_end() -> None:
    stock = Stock()
    stock.add(lot(1, 9), end=5.0)
    assert stock.has_room(4.9, 0.0)
    assert not stock.has_room(5.0, 0.0)
    assert stock.next_end() == 5.0
    assert stock.expire(5.0)
    assert (stock.left, stock.next_end()) == (0, inf)


def test_what_became_of_a_lot_is_said_once_it_is_over_until_all_was_heard() -> None:
    stock = Stock()
    stock.add(lot(7, 3, tokens=400.0), end=5.0)
    first, second = stock.take(1.0, 100.0), stock.take(2.0, 80.0)
    assert first
    assert second
    first.served(125.0, 120.0)
    assert stock.reports(10.0) == ()
    stock.expire(5.0)
    said = stock.reports(10.0)
    # 120 of an estimate of 100: 1.2 times as many.
    assert said == (LotReport(7, 2, 225.0, 12.0, 1, 125.0, 120.0, 1.2),)
    assert stock.reports(10.0) == said, "it may have been lost on the way"
    stock.heard(said)
    assert stock.reports(10.0) == ()
    second.was_refused(100.0, 3.0)
    last = LotReport(7, 2, 225.0, 12.0, 2, 125.0, 120.0, 1.2, refused=1, refused_tokens=100.0, wait_s=3.0)
    assert stock.reports(10.0) == (last,)
    stock.heard((last,))
    assert stock.reports(10.0) == ()


def test_it_asks_for_a_third_of_a_second_and_the_way() -> None:
    """200 requests of 30 tokens in a second: 0.35 + 0.05 s are 80, less the 10 in stock."""
    stock = Stock()
    stock.add(lot(1, 10), end=5.0)
    for _ in range(200):
        stock.sent(30.0)
    assert stock.ahead(1.0, trip_s=0.05) == (70, pytest.approx(2100.0))
    assert stock.low, "10 are less than 200 * 0.2"
    assert not stock.dry, "and no less than 200 * 0.05"


def test_a_slow_worker_asks_for_nothing_ahead() -> None:
    """20 a second would be 5 in advance: not worth a lot."""
    stock = Stock()
    for _ in range(20):
        stock.sent(0.0)
    assert stock.ahead(1.0, trip_s=0.0) == (0, 0.0)


def test_a_pace_that_has_fallen_is_given_up_bit_by_bit() -> None:
    """100 a second, then none: 35, and seven tenths of it each time."""
    stock = Stock()
    for _ in range(100):
        stock.sent(0.0)
    asked = [stock.ahead(1.0 + n, trip_s=0.0)[0] for n in range(6)]
    assert asked == [35, 24, 17, 12, 8, 0]
