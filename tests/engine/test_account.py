"""An account that is charged for what others may send: by the latest time, until it is known when they did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run_virtual

from cts_async.cluster.limits import LEASE_S, LeasedAccount
from cts_async.engine.account import Account, LaneLimits

SLACK_S = 0.5


@in_virtual_time
async def test_permit_used_late_counts_from_its_latest_time() -> None:
    account = Account(LaneLimits(requests_per_min=60, kind="sliding"), SLACK_S)
    permits = [account.take(0.0, 0.0, by=SLACK_S) for _ in range(60)]
    assert not account.has_room(0.0)
    account.redate(permits[0].sent_at, 0.1, permits[:1])
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


@given(
    kind=st.sampled_from(["sliding", "bucket", "auto"]),
    batches=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=12), min_size=1, max_size=6),
    pause_s=st.sampled_from([0.0, 1.0, 20.0]),
)
def test_permits_taken_together_are_those_taken_one_by_one(
    kind: Any, batches: Sequence[Sequence[int]], pause_s: float
) -> None:
    limits = LaneLimits(requests_per_min=40, tokens_per_min=3_000, kind=kind)

    async def main() -> None:
        together, singly = Account(limits, SLACK_S), Account(limits, SLACK_S)
        for tokens in batches:
            now = asyncio.get_running_loop().time()
            permits = together.take_together(now, tokens, now + SLACK_S, [0.0] * len(tokens))
            # None is taken where they do not all fit, or one might be a probe.
            if permits:
                alone = [singly.take(now, amount, by=now + SLACK_S) for amount in tokens]
                for permit, single in zip(permits, alone, strict=True):
                    assert permit.rooms == pytest.approx(single.rooms)
                    assert (permit.number, permit.tokens) == (single.number, single.tokens)
                    assert (permit.sent_at, permit.probes) == (single.sent_at, single.probes)
                together.redate(permits[0].sent_at, now + 0.25, permits)
                for single in alone:
                    singly.redate(single.sent_at, now + 0.25, [single])
            for amount in (0, 100, 300, 1_000, 3_000):
                assert together.has_room(amount) == singly.has_room(amount)
            await asyncio.sleep(pause_s)

    run_virtual(main)


@given(
    kind=st.sampled_from(["sliding", "bucket", "auto"]),
    charges=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=1, max_size=6),
    lasting_s=st.sampled_from([0.0, 1.0, 20.0]),
)
def test_tokens_settled_together_leave_no_more_room_than_one_by_one(
    kind: Any, charges: Sequence[tuple[int, int]], lasting_s: float
) -> None:
    """And as much, where nothing was refilled in between: a full bucket takes nothing back."""
    limits = LaneLimits(tokens_per_min=3_000, kind=kind)

    async def main() -> None:
        together, singly = LeasedAccount(limits), Account(limits, LEASE_S)
        now = asyncio.get_running_loop().time()
        leased = [together.take(now, estimate) for estimate, _ in charges]
        taken = [singly.take(now, estimate, now + LEASE_S) for estimate, _ in charges]
        await asyncio.sleep(lasting_s)
        together.settle_together((permit, used) for permit, (_, used) in zip(leased, charges, strict=True))
        for account, permits in ((together, leased), (singly, taken)):
            for permit, (_, used) in zip(permits, charges, strict=True):
                account.served(permit, used)
        for amount in (0, 100, 500, 1_000, 2_000):
            if together.has_room(amount):
                assert singly.has_room(amount)
            if lasting_s == 0.0:
                assert together.has_room(amount) == singly.has_room(amount)

    run_virtual(main)


@in_virtual_time
async def test_paced_permits_are_not_taken_together() -> None:
    account = Account(LaneLimits(requests_per_min=6_000, kind="paced"))
    assert account.take_together(0.0, [0.0, 0.0], 0.1, [0.0, 0.0]) == []
    assert account.sent == 0


@in_virtual_time
async def test_reservations_of_permits_taken_together_are_counted_as_one_by_one() -> None:
    """Of 1,000 tokens a minute 400, 400 and 400 are reserved: the third exceeds them."""
    limits = LaneLimits(tokens_per_min=1_000, kind="sliding")
    together, singly = Account(limits, LEASE_S), Account(limits, LEASE_S)
    reserved = [[400.0, 400.0], [400.0], [0.0]]
    taken = [together.take_together(1.0, [1.0] * len(part), 1.5, part) for part in reserved]
    above = [permit.above for permits in taken for permit in permits]
    assert above == [False, False, True, False]
    assert above == [
        singly.take(1.0, 1.0, 1.5, reserved=amount).above for amount in (400.0, 400.0, 400.0, 0.0)
    ]
    assert [permit.reserved for permit in taken[0]] == [400.0, 400.0]
    assert {permit.leased_at for permits in taken for permit in permits} == {1.0}
