"""Whatever callers, answers and refusals come in whatever order: a lane lets everybody in, in the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run_virtual

from cts_async.engine.lane import Lane, LaneLimits, Permit
from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.errors import Interrupted, RateLimited, TimedOut, TransientError

PATIENCE_S = 20_000.0
"""Longer than any debt, pause or outage that the cases below can add up to."""

limits = st.builds(
    LaneLimits,
    requests_per_min=st.sampled_from([None, 30.0, 600.0, 6000.0]),
    tokens_per_min=st.sampled_from([None, 3000.0, 60_000.0]),
    max_concurrency=st.integers(1, 6),
    kind=st.sampled_from(["paced", "sliding", "bucket", "auto"]),
    window_s=st.sampled_from([60.0, 60.0, 10.0, 1.0]),
    max_outage_s=st.just(1e9),
    raisable=st.booleans(),
)
quotas = st.one_of(
    st.none(),
    st.builds(
        Quotas,
        st.none()
        | st.builds(
            Quota, st.sampled_from([20.0, 600.0]), st.none() | st.floats(0, 20), st.none() | st.floats(-5, 90)
        ),
        st.none()
        | st.builds(
            Quota,
            st.sampled_from([3000.0, 60_000.0]),
            st.none() | st.floats(0, 3000),
            st.none() | st.floats(-5, 90),
        ),
    ),
)
errors = st.one_of(
    st.builds(
        RateLimited,
        st.just("429"),
        retry_after_s=st.sampled_from([None, 0.0, 0.5, 1.5, 7.0]),
        status=st.just(429),
    ),
    st.builds(TransientError, st.just("503"), status=st.just(503)),
    st.builds(TransientError, st.just("reset")),
    st.builds(TimedOut, st.just("no answer")),
)


@dataclass(frozen=True)
class Caller:
    """Comes at `at_s`, and sends until it is answered: first with every one of `errors`, each after `seconds`."""

    at_s: float
    seq: int
    tokens: float
    seconds: float
    errors: list[TransientError]
    used: float | None
    quotas: Quotas | None
    leaves_at_s: float | None


callers = st.lists(
    st.builds(
        Caller,
        at_s=st.floats(0, 30),
        seq=st.integers(0, 5),
        tokens=st.sampled_from([0.0, 10.0, 800.0, 5000.0]),
        seconds=st.sampled_from([0.0, 0.3, 1.0, 20.0]),
        errors=st.lists(errors, max_size=4),
        used=st.sampled_from([None, 0.0, 10.0, 2000.0, 9000.0]),
        quotas=quotas,
        leaves_at_s=st.none() | st.none() | st.floats(0, 60),
    ),
    min_size=1,
    max_size=14,
)


@dataclass(frozen=True)
class Sent:
    seq: int
    asked_at: float
    permit: Permit


async def call(lane: Lane, caller: Caller, name: str, sent: list[Sent]) -> None:
    loop = asyncio.get_running_loop()
    for error in [*caller.errors, None]:
        asked_at = loop.time()
        permit = await lane.admit(caller.seq, caller.tokens)
        sent.append(Sent(caller.seq, asked_at, permit))
        try:
            await asyncio.sleep(caller.seconds)
        except asyncio.CancelledError:
            lane.abandoned(permit)
            raise
        if error is None:
            lane.succeeded(permit, caller.used, caller.quotas)
        else:
            lane.failed(permit, error, name)


async def come_and_go(lane: Lane, caller: Caller, name: str, sent: list[Sent]) -> None:
    await asyncio.sleep(caller.at_s)
    try:
        await asyncio.wait_for(call(lane, caller, name, sent), caller.leaves_at_s)
    except TimeoutError:
        return


def in_order(sent: list[Sent]) -> bool:
    """Whether nobody was let in while an older one had been waiting for some time."""
    by_number = sorted(sent, key=lambda one: one.permit.number)
    return not any(
        later.seq < earlier.seq and later.asked_at < earlier.permit.sent_at
        for i, earlier in enumerate(by_number)
        for later in by_number[i + 1 :]
    )


@settings(max_examples=150, deadline=None)
@given(limits, callers)
def test_everybody_is_let_in_in_the_end_and_the_oldest_first(
    limits: LaneLimits, callers: list[Caller]
) -> None:
    async def main() -> tuple[int, int, list[Sent]]:
        lane, sent = Lane("x", limits), list[Sent]()
        dispatcher = asyncio.create_task(lane.dispatch())
        work = [come_and_go(lane, caller, f"k{i}", sent) for i, caller in enumerate(callers)]
        await asyncio.wait_for(asyncio.gather(*work), PATIENCE_S)
        await asyncio.sleep(PATIENCE_S)  # what those who left asked for may have been waited for until now
        dispatcher.cancel()
        return lane.in_flight, lane.waiting, sent

    in_flight, waiting, sent = run_virtual(main)
    assert (in_flight, waiting) == (0, 0)
    assert in_order(sent)


@settings(max_examples=50, deadline=None)
@given(limits, callers, st.floats(0, 60))
def test_a_stop_at_any_time_lets_everybody_go(limits: LaneLimits, callers: list[Caller], at_s: float) -> None:
    async def main() -> tuple[int, int, float]:
        lane = Lane("x", limits)
        dispatcher = asyncio.create_task(lane.dispatch())
        asyncio.get_running_loop().call_later(at_s, lane.stop, Interrupted("stop"))
        work = [come_and_go(lane, caller, f"k{i}", []) for i, caller in enumerate(callers)]
        ends = await asyncio.gather(*work, return_exceptions=True)
        ended_at = asyncio.get_running_loop().time()
        assert all(end is None or isinstance(end, Interrupted) for end in ends)
        await asyncio.sleep(max(0.0, at_s - ended_at))  # the stop may come after the last of them
        dispatcher.cancel()
        return lane.in_flight, lane.waiting, ended_at

    in_flight, waiting, ended_at = run_virtual(main)
    assert (in_flight, waiting) == (0, 0)
    # Who is under way when it stops comes to an end; who comes later is turned away.
    assert ended_at <= max(at_s, 30.0) + 20.0
