"""An account that is charged for what others may send: by the latest time, until it is known when they did."""

from __future__ import annotations

import asyncio

from virtual_time import in_virtual_time

from cts_async.engine.account import Account, LaneLimits

SLACK_S = 0.5


@in_virtual_time
async def test_permit_used_late_counts_from_its_latest_time() -> None:
    account = Account(LaneLimits(requests_per_min=60, kind="sliding"), SLACK_S)
    permits = [account.take(0.0, 0.0, by=SLACK_S) for _ in range(60)]
    assert not account.has_room(0.0)
    account.redate(permits[0], 0.1)
    account.give_back(permits[1])
    assert account.has_room(0.0), "one was never sent"
    account.take(0.2, 0.0, by=0.2 + SLACK_S)
    await asyncio.sleep(0.1 + 60.4)
    assert account.has_room(0.0), "one was sent at 0.1"
    account.take(60.5, 0.0, by=61.0)
    assert not account.has_room(0.0), "the others count as sent at 0.5"
    await asyncio.sleep(0.4)
    assert account.has_room(0.0)


@in_virtual_time
async def test_bucket_reserves_capacity_for_permits_used_late() -> None:
    # 60 at once and 1 a second: 0.4 s for the way there and 0.5 s for being sent later are 0.9 of the 60.
    account, sent = Account(LaneLimits(requests_per_min=60, kind="bucket"), SLACK_S), 0
    while account.has_room(0.0):
        account.take(0.0, 0.0, by=SLACK_S)
        sent += 1
    assert sent == 59
