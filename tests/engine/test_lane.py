"""A lane keeps its account's limits, serves the oldest first, and lets everybody go when the run stops."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from virtual_time import run_virtual

from cts_async.engine.events import CircuitChanged, Events, LanePaused, LimitLearned
from cts_async.engine.lane import Lane, LaneLimits, Permit
from cts_async.engine.ratelimit import LimitKind, Quota, Quotas
from cts_async.errors import Interrupted, ProviderDown, RateLimited, TimedOut, TransientError

KNOWN = LaneLimits(requests_per_min=60_000, kind="bucket")


async def use(lane: Lane, seq: int, order: list[int], seconds: float = 1.0, tokens: float = 0.0) -> None:
    permit = await lane.admit(seq, tokens)
    order.append(seq)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        lane.abandoned(permit)
        raise
    lane.succeeded(permit, None)


async def with_dispatcher(lane: Lane, work: list[asyncio.Task[None]]) -> None:
    dispatcher = asyncio.create_task(lane.dispatch())
    try:
        await asyncio.gather(*work)
    finally:
        dispatcher.cancel()


def test_never_more_in_flight_than_allowed_and_the_oldest_goes_first() -> None:
    async def main() -> tuple[list[int], float]:
        lane, order = Lane("x", LaneLimits(max_concurrency=2)), []
        seqs = list(range(10))
        random.Random(5).shuffle(seqs)
        tasks = [asyncio.create_task(use(lane, seq, order)) for seq in seqs]
        await with_dispatcher(lane, tasks)
        return order[2:], asyncio.get_running_loop().time()

    order, elapsed = run_virtual(main)
    assert order == sorted(order)
    assert elapsed == pytest.approx(5.0)  # 10 seconds of work, two at a time


def test_a_large_request_does_not_starve_behind_small_ones() -> None:
    async def main() -> list[int]:
        lane, order = Lane("x", LaneLimits(tokens_per_min=6000, kind="bucket")), []
        await use(lane, 0, [], seconds=0, tokens=6000)  # the bucket is empty: 100 tokens a second
        big = asyncio.create_task(use(lane, 1, order, tokens=5000))
        small = [asyncio.create_task(use(lane, seq, order, tokens=100)) for seq in range(2, 12)]
        await with_dispatcher(lane, [big, *small])
        return order

    assert run_virtual(main)[0] == 1


def test_a_cancelled_waiter_takes_nothing_with_it() -> None:
    async def main() -> tuple[int, int]:
        lane, order = Lane("x", LaneLimits(max_concurrency=1)), []
        tasks = [asyncio.create_task(use(lane, seq, order)) for seq in range(6)]
        await asyncio.sleep(0.5)
        tasks[2].cancel()
        tasks[4].cancel()
        await with_dispatcher(lane, [t for i, t in enumerate(tasks) if i not in (2, 4)])
        return lane.in_flight, len(order)

    assert run_virtual(main) == (0, 4)


def test_429_pauses_everybody_once_per_episode() -> None:
    pauses: list[float] = []

    async def main() -> float:
        lane = Lane(
            "x", KNOWN, Events(lambda e: pauses.append(e.seconds) if isinstance(e, LanePaused) else None)
        )
        dispatcher = asyncio.create_task(lane.dispatch())
        burst = [await lane.admit(0) for _ in range(10)]
        for permit in burst:
            lane.failed(permit, RateLimited("429", retry_after_s=None, status=429), "k")
        await lane.admit(1)
        dispatcher.cancel()
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(1.0)
    assert pauses == [1.0], "ten refusals of one burst are one episode"


def test_nobody_sends_before_retry_after_has_passed() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits())
        dispatcher = asyncio.create_task(lane.dispatch())
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=7.5, status=429), "k")
        await lane.admit(0)
        dispatcher.cancel()
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(7.5)


def test_a_pause_longer_than_an_allowed_outage_stops_the_run_instead_of_waiting() -> None:
    async def main() -> None:
        lane = Lane("x", LaneLimits(max_outage_s=60))
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=86_400, status=429), "k")
        with pytest.raises(ProviderDown, match="86400 s"):
            await lane.admit(0)

    run_virtual(main)


def test_an_outage_stops_the_run_when_it_lasts_too_long() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits(max_outage_s=60))
        dispatcher = asyncio.create_task(lane.dispatch())

        async def insist(i: int) -> None:
            while True:
                lane.failed(await lane.admit(i), TransientError("refused"), f"k{i}")

        with pytest.raises(ProviderDown, match="refused"):
            await asyncio.gather(*(insist(i) for i in range(8)))
        dispatcher.cancel()
        return asyncio.get_running_loop().time()

    # A probe each second: the one that finds 60 s over is the last.
    assert run_virtual(main) == pytest.approx(60.0, abs=1.1)


@pytest.mark.parametrize(
    ("first", "lasts_s", "hint"),
    [
        (None, 60.0, True),
        (TransientError("HTTP 503", status=503), 900.0, False),
        (RateLimited("HTTP 429", retry_after_s=0.0, status=429), 900.0, False),
        ("an answer", 900.0, False),
    ],
)
def test_a_provider_that_was_never_reached_is_given_up_after_a_minute(
    first: TransientError | str | None, lasts_s: float, hint: bool
) -> None:
    async def main() -> tuple[float, str]:
        lane = Lane("x", LaneLimits(max_outage_s=900))
        dispatcher = asyncio.create_task(lane.dispatch())
        if isinstance(first, TransientError):
            lane.failed(await lane.admit(0), first, "k")
        elif first:
            lane.succeeded(await lane.admit(0), None)

        async def insist(i: int) -> None:
            while True:
                lane.failed(await lane.admit(i), TransientError("no connection", unsent=True), f"k{i}")

        with pytest.raises(ProviderDown) as caught:
            await asyncio.gather(*(insist(i) for i in range(8)))
        dispatcher.cancel()
        return asyncio.get_running_loop().time(), str(caught.value)

    took_s, said = run_virtual(main)
    assert took_s == pytest.approx(lasts_s, abs=16.0)
    assert ("base_url" in said and "HTTPS_PROXY" in said) is hint


@pytest.mark.parametrize("late", ["fails", "is refused", "is cancelled"])
def test_one_probe_at_a_time_though_what_was_sent_before_ends_meanwhile(late: str) -> None:
    async def main() -> tuple[int, int]:
        lane = Lane("x", LaneLimits(max_concurrency=64, requests_per_min=6000, kind="bucket"))
        dispatcher = asyncio.create_task(lane.dispatch())
        permits = [await lane.admit(0) for _ in range(10)]
        for i, permit in enumerate(permits[:5]):
            lane.failed(permit, TransientError("500", status=500), f"k{i}")
        waiting = [asyncio.create_task(lane.admit(0)) for _ in range(3)]
        await asyncio.sleep(1.5)
        probes = sum(task.done() for task in waiting)
        for permit in permits[5:]:
            if late == "fails":
                lane.failed(permit, TransientError("500", status=500), "late")
            elif late == "is refused":
                lane.failed(permit, RateLimited("429", retry_after_s=0.0, status=429), "late")
            else:
                lane.abandoned(permit)
            await asyncio.sleep(0.5)
        dispatcher.cancel()
        lane.stop(Interrupted("over"))
        await asyncio.gather(*waiting, return_exceptions=True)
        return probes, lane.in_flight

    assert run_virtual(main) == (1, 1)


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (TimedOut("no answer within 120 s"), False),
        (TimedOut("no connection within 15 s", unsent=True), True),
        (TransientError("reset by peer"), True),
    ],
)
def test_a_single_request_that_never_ends_is_no_outage(error: TransientError, outage: bool) -> None:
    async def main() -> bool:
        lane = Lane("x", LaneLimits())
        return any([lane.failed(await lane.admit(0), error, "same") for _ in range(5)])

    assert run_virtual(main) == outage


def test_stopping_lets_everybody_go() -> None:
    async def main() -> list[BaseException | None]:
        lane = Lane("x", LaneLimits(max_concurrency=1))
        await lane.admit(0)
        waiting = [asyncio.create_task(lane.admit(i)) for i in range(3)]
        await asyncio.sleep(0)
        lane.stop(Interrupted("stop"))
        await asyncio.wait(waiting)
        with pytest.raises(Interrupted):
            await lane.admit(9)
        return [task.exception() for task in waiting]

    assert all(isinstance(error, Interrupted) for error in run_virtual(main))


# --- What answers teach ---


async def answered(lane: Lane, quotas: Quotas | None = None, seconds: float = 0.0) -> Permit:
    permit = await lane.admit(0)
    await asyncio.sleep(seconds)
    lane.succeeded(permit, None, quotas)
    return permit


def burst(lane: Lane) -> int:
    """How many are let in at once, with nobody leaving."""
    before = lane.in_flight
    for seq in range(1000):
        admitting = lane.admit(seq)
        try:
            admitting.send(None)
        except StopIteration:
            continue
        admitting.close()
        return lane.in_flight - before
    return 1000


def test_where_nothing_is_known_it_begins_with_a_few() -> None:
    async def main() -> int:
        return burst(Lane("x", LaneLimits(max_concurrency=500)))

    assert run_virtual(main) == 8


def test_a_limit_is_learned_from_the_provider_s_own_word() -> None:
    learned: list[LimitLearned] = []

    async def main() -> int:
        events = Events(lambda e: learned.append(e) if isinstance(e, LimitLearned) else None)
        lane = Lane("x", LaneLimits(max_concurrency=500), events)
        await answered(lane, Quotas(requests=Quota(20.0, 14.0, 30.0)))
        lane.window.size = 500
        return burst(lane)

    # 20 a minute, 14 left; a bucket of 20 keeps 20/60 * 0.4 s back.
    assert run_virtual(main) == 13
    assert learned == [LimitLearned("x", "requests", 20.0)]


def test_a_catalogue_s_limit_is_raised_by_the_provider_s_word_and_a_user_s_own_is_not() -> None:
    async def main(raisable: bool) -> float:
        lane = Lane("x", LaneLimits(requests_per_min=10, kind="sliding", raisable=raisable))
        await answered(lane, Quotas(requests=Quota(40.0, 39.0, 60.0)))
        return burst(lane)

    assert run_virtual(lambda: main(True)) == 39
    assert run_virtual(lambda: main(False)) == 9


@pytest.mark.parametrize("kind", ["paced", "sliding", "bucket", "auto"])
def test_nobody_waits_at_a_gate_that_is_no_longer_there(kind: LimitKind) -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits(tokens_per_min=1000, kind=kind))
        dispatcher = asyncio.create_task(lane.dispatch())
        first = await lane.admit(0, 800.0)
        large = asyncio.create_task(lane.admit(0, 20_000.0))
        await asyncio.sleep(5.0)
        began = asyncio.get_running_loop().time()
        lane.succeeded(first, 800.0, Quotas(tokens=Quota(1_200_000.0, 1_200_000.0, 0.0)))
        await large
        dispatcher.cancel()
        return asyncio.get_running_loop().time() - began

    # 20,000 a second instead of 16 a minute; the estimate may be a fifth too low.
    assert run_virtual(main) < 1.25


def test_a_lower_limit_than_ours_is_taken_over_in_any_case() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits(requests_per_min=100, kind="sliding", raisable=False))
        await answered(lane, Quotas(requests=Quota(5.0, 4.0, 60.0)))
        return burst(lane)

    assert run_virtual(main) == 4


def test_of_several_models_on_one_account_the_lowest_limit_holds() -> None:
    learned: list[LimitLearned] = []

    async def main() -> tuple[float, float]:
        events = Events(lambda e: learned.append(e) if isinstance(e, LimitLearned) else None)
        lane = Lane("x", LaneLimits(requests_per_min=6000), events)
        dispatcher = asyncio.create_task(lane.dispatch())
        times = []
        for per_min in (60.0, 6000.0) * 30 + (6000.0,) * 90:
            await answered(lane, Quotas(requests=Quota(per_min)))
            times.append(asyncio.get_running_loop().time())
        dispatcher.cancel()
        return times[59], times[-1]

    # One a second (99 % of it), until a minute has passed in which nobody named the lower one.
    first_60, all_150 = run_virtual(main)
    assert first_60 == pytest.approx(59 / 0.99, rel=0.02)
    assert all_150 == pytest.approx(first_60 + 60.0, rel=0.02)
    assert [event.per_min for event in learned] == [60.0, 6000.0]


def test_what_others_use_of_the_account_is_left_to_them() -> None:
    async def main() -> int:
        lane = Lane("x", LaneLimits(requests_per_min=100, kind="sliding", max_concurrency=500))
        await answered(lane, Quotas(requests=Quota(100.0, 30.0, 60.0)), seconds=1.0)
        return burst(lane)

    assert run_virtual(main) == 30


def test_what_was_sent_meanwhile_is_not_taken_for_somebody_else_s() -> None:
    async def main() -> int:
        lane = Lane("x", LaneLimits(requests_per_min=100, kind="sliding", max_concurrency=500))
        first = await lane.admit(0)
        assert burst_of(lane, 20) == 20
        # The server had counted all 21 when it answered the first.
        lane.succeeded(first, None, Quotas(requests=Quota(100.0, 79.0, 60.0)))
        return burst(lane)

    def burst_of(lane: Lane, n: int) -> int:
        for seq in range(n):
            with pytest.raises(StopIteration):
                lane.admit(seq).send(None)
        return n

    assert run_virtual(main) == 79


@pytest.mark.parametrize("kind", ["sliding", "bucket"])
def test_what_others_use_is_charged_once_however_many_answers_tell_of_it(kind: LimitKind) -> None:
    async def main() -> int:
        lane = Lane("x", LaneLimits(requests_per_min=100, kind=kind, max_concurrency=500))
        permits = [await lane.admit(0) for _ in range(20)]
        for n, permit in enumerate(permits, start=1):
            # Others had sent 30 when the first of ours arrived.
            lane.succeeded(permit, None, Quotas(requests=Quota(100.0, 70.0 - n, 60.0)))
        return burst(lane)

    # 50 are left, and a difference of one is nobody's.
    assert run_virtual(main) == 51


def test_a_refusal_in_an_even_flow_makes_it_a_little_slower_and_pauses_nobody_else() -> None:
    pauses: list[float] = []

    async def main() -> float:
        events = Events(lambda e: pauses.append(e.seconds) if isinstance(e, LanePaused) else None)
        lane = Lane("x", LaneLimits(requests_per_min=6000), events)
        dispatcher = asyncio.create_task(lane.dispatch())
        await asyncio.sleep(100)
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=1.0, status=429), "k")
        began = asyncio.get_running_loop().time()
        for _ in range(100):
            await answered(lane)
        dispatcher.cancel()
        return asyncio.get_running_loop().time() - began

    # 100 a second, of which 99 % times 95 % are used; those of the first 1.5 s take 5 % more.
    assert run_virtual(main) == pytest.approx(105 / 94.05, rel=0.03)
    assert pauses == []


def test_isolated_429_delays_its_own_request_only() -> None:
    pauses: list[float] = []

    async def main() -> tuple[float, float]:
        events = Events(lambda e: pauses.append(e.seconds) if isinstance(e, LanePaused) else None)
        lane = Lane("x", LaneLimits(max_concurrency=64), events)
        await answered(lane)
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=20.0, status=429), "k")
        await lane.admit(0)
        return lane.window.size, lane.paused_s

    assert run_virtual(main) == (7.5, 0.0)
    assert pauses == []


def test_more_429_than_isolated_ones_pause_everybody() -> None:
    async def main() -> list[float]:
        lane = Lane("x", KNOWN)
        paused = []
        for _ in range(7):  # (1 - 1 / 64) ** 7 is below 90 %
            lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=1.5, status=429), "k")
            paused.append(lane.paused_s)
        return paused

    assert run_virtual(main) == [0.0] * 6 + [1.5]


def test_refusals_by_an_overloaded_server_open_no_circuit_while_others_are_served() -> None:
    opened: list[CircuitChanged] = []

    async def main() -> tuple[float, bool]:
        events = Events(lambda e: opened.append(e) if isinstance(e, CircuitChanged) else None)
        lane = Lane("x", replace(KNOWN, max_concurrency=64), events)
        burst = [await lane.admit(0) for _ in range(64)]
        for i, permit in enumerate(burst[32:]):
            lane.failed(permit, TransientError("503", status=503), f"k{i}")
        size = lane.window.size
        for permit in burst[:32]:
            lane.succeeded(permit, None)
        return size, lane.circuit.is_open

    # The 7th refusal is overload, at 58 under way: half of them, since nothing was known.
    assert run_virtual(main) == (29.0, False)
    assert opened == []


def test_refusals_of_everybody_under_way_open_the_circuit_with_the_last() -> None:
    async def main() -> list[bool]:
        lane, is_open = Lane("x", KNOWN), []
        for i, permit in enumerate([await lane.admit(0) for _ in range(8)]):
            lane.failed(permit, TransientError("503", status=503), f"k{i}")
            is_open.append(lane.circuit.is_open)
        return is_open

    assert run_virtual(main) == [False] * 7 + [True]


@pytest.mark.parametrize(("after_s", "outage"), [(1.0, False), (6.0, True)])
def test_refusals_beside_requests_that_nobody_answers_open_the_circuit_after_a_while(
    after_s: float, outage: bool
) -> None:
    async def main() -> bool:
        lane = Lane("x", KNOWN)
        permits = [await lane.admit(0) for _ in range(8)]
        await asyncio.sleep(after_s)
        for i, permit in enumerate(permits[:5]):
            lane.failed(permit, TransientError("503", status=503), f"k{i}")
        return lane.circuit.is_open

    assert run_virtual(main) == outage


def test_circuit_that_was_opened_in_error_keeps_the_window() -> None:
    async def main() -> tuple[bool, float, float]:
        lane = Lane("x", LaneLimits(max_concurrency=64))
        for burst in (8, 10):
            for permit in [await lane.admit(0) for _ in range(burst)]:
                lane.succeeded(permit, None)
        permits = [await lane.admit(0) for _ in range(6)]
        for i, permit in enumerate(permits[1:]):
            lane.failed(permit, TransientError("500", status=500), f"k{i}")
        was_open, before = lane.circuit.is_open, lane.window.size
        lane.succeeded(permits[0], None)
        return was_open, before, lane.window.size

    was_open, before, after = run_virtual(main)
    assert was_open
    assert before == after > 8


def test_one_that_is_refused_halves_what_may_be_under_way_where_no_limit_is_known() -> None:
    async def main() -> list[float]:
        lane = Lane("x", LaneLimits(max_concurrency=64))
        permits = [await lane.admit(0) for _ in range(8)]
        await asyncio.sleep(1.0)
        sizes = []
        for permit in permits[:3]:
            lane.failed(permit, RateLimited("429", retry_after_s=0.0, status=429), "k")
            sizes.append(lane.window.size)
        return sizes

    assert run_virtual(main) == [4.0, 4.0, 4.0]


def test_timeouts_are_a_sign_of_too_much_too() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits(max_concurrency=64))
        permits = [await lane.admit(0) for _ in range(8)]
        lane.failed(permits[0], TimedOut("no answer"), "k")
        return lane.window.size

    assert run_virtual(main) == 4.0


def test_underestimates_make_the_next_charges_more_cautious() -> None:
    async def main() -> float:
        lane = Lane("x", LaneLimits(tokens_per_min=6000, kind="sliding"))
        permit = await lane.admit(0, 100.0)
        lane.succeeded(permit, 250.0)
        return (await lane.admit(0, 100.0)).tokens

    assert run_virtual(main) == 250.0


def test_cancelling_anywhere_leaves_the_lane_as_it_was() -> None:
    async def main(seed: int) -> tuple[int, int, float]:
        rng = random.Random(seed)
        lane = Lane("x", LaneLimits(requests_per_min=600, tokens_per_min=60_000, max_concurrency=4))
        dispatcher = asyncio.create_task(lane.dispatch())
        order: list[int] = []
        tasks = [
            asyncio.create_task(use(lane, seq, order, seconds=rng.random(), tokens=rng.uniform(1, 2000)))
            for seq in range(40)
        ]
        for task in rng.sample(tasks, 25):
            await asyncio.sleep(rng.random() / 4)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Whoever comes now is served: no slot, turn or token was lost with those who went.
        began = asyncio.get_running_loop().time()
        await answered(lane)
        dispatcher.cancel()
        return lane.in_flight, lane.waiting, asyncio.get_running_loop().time() - began

    for seed in range(20):
        in_flight, waiting, waited_s = run_virtual(lambda seed=seed: main(seed))
        assert (in_flight, waiting) == (0, 0)
        assert waited_s < 25


def test_refused_tokens_come_back_where_bursts_are_allowed_and_not_into_an_even_flow() -> None:
    async def main(kind: LimitKind) -> float:
        lane = Lane("x", LaneLimits(tokens_per_min=6000, kind=kind))  # 100 a second
        dispatcher = asyncio.create_task(lane.dispatch())
        permit = await lane.admit(0, 2500.0)
        await asyncio.sleep(30.0)
        began = asyncio.get_running_loop().time()
        lane.failed(permit, RateLimited("429", retry_after_s=0.0, status=429), "k")
        for _ in range(2):
            lane.succeeded(await lane.admit(0, 2500.0), None)
        dispatcher.cancel()
        return asyncio.get_running_loop().time() - began

    # 2 x 3,000 (the estimate and its caution) fit into a window at once, and take 5,500 / 99 s or more evenly.
    assert run_virtual(lambda: main("sliding")) == pytest.approx(0.0, abs=0.1)
    assert run_virtual(lambda: main("paced")) > 50.0
