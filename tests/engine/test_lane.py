"""Lanes: admission order, concurrency, pauses, outages and status, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, get_args

import pytest
from engine_bench import Bench, Walk
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run_virtual

from cts_async.engine.events import (
    CircuitChanged,
    Event,
    Events,
    LaneInUse,
    LanePaused,
    LaneStatus,
    LimitLearned,
)
from cts_async.engine.lane import Lane, LaneLimits, Permit
from cts_async.engine.ratelimit import LimitKind, Quota, Quotas
from cts_async.engine.runner import Runner
from cts_async.engine.step import Executed, RetryPolicy, Step, step_key
from cts_async.errors import (
    Interrupted,
    NoCapacity,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    RequestForbidden,
    StepError,
    TimedOut,
    TransientError,
)

T = TypeVar("T")
KNOWN = LaneLimits(requests_per_min=60_000, kind="bucket")


async def answered(lane: Lane, quotas: Quotas | None = None, seconds: float = 0.0, seq: int = 0) -> Permit:
    permit = await lane.admit(seq)
    await asyncio.sleep(seconds)
    lane.succeeded(permit, None, quotas)
    return permit


DISPATCHERS: list[asyncio.Task[None]] = []


def started(lane: Lane) -> Lane:
    """Start the lane's dispatcher, which ends with the test's loop."""
    DISPATCHERS.append(asyncio.create_task(lane.dispatch()))
    return lane


def watched(limits: LaneLimits, kind: type[T]) -> tuple[Lane, list[T]]:
    """A started lane, and the events of this kind that it emits."""
    seen: list[T] = []
    events = Events(lambda event: seen.append(event) if isinstance(event, kind) else None)
    return started(Lane("x", limits, events)), seen


def status_of(lane: Lane) -> LaneStatus:
    return lane.status(asyncio.get_running_loop().time())


@in_virtual_time
async def test_concurrency_is_limited_and_the_oldest_goes_first() -> None:
    lane, seqs = started(Lane("x", LaneLimits(max_concurrency=2))), list(range(10))
    random.Random(5).shuffle(seqs)
    permits = await asyncio.gather(*(answered(lane, seconds=1.0, seq=seq) for seq in seqs))
    order = [seq for _, seq in sorted(zip((permit.number for permit in permits), seqs, strict=True))][2:]
    assert order == sorted(order)
    assert asyncio.get_running_loop().time() == pytest.approx(5.0)  # 10 seconds of work, two at a time


@in_virtual_time
async def test_429_pauses_the_lane_once_per_episode() -> None:
    lane, pauses = watched(KNOWN, LanePaused)
    burst = [await lane.admit(0) for _ in range(10)]
    for permit in burst:
        lane.failed(permit, RateLimited("429", retry_after_s=None, status=429), "k")
    await lane.admit(1)
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)
    assert [pause.seconds for pause in pauses] == [1.0], "ten refusals of one burst are one episode"


@pytest.mark.parametrize(
    ("first", "lasts_s", "hint"),
    [
        (None, 60.0, True),
        (TransientError("HTTP 503", status=503), 900.0, False),
        (RateLimited("HTTP 429", retry_after_s=0.0, status=429), 900.0, False),
        ("an answer", 900.0, False),
    ],
)
@in_virtual_time
async def test_a_provider_that_was_never_reached_is_given_up_after_a_minute(
    first: TransientError | str | None, lasts_s: float, hint: bool
) -> None:
    lane = started(Lane("x", LaneLimits(max_outage_s=900)))
    if isinstance(first, TransientError):
        lane.failed(await lane.admit(0), first, "k")
    elif first:
        lane.succeeded(await lane.admit(0), None)

    async def insist(i: int) -> None:
        while True:
            lane.failed(await lane.admit(i), TransientError("no connection", unsent=True), f"k{i}")

    with pytest.raises(ProviderDown) as caught:
        await asyncio.gather(*(insist(i) for i in range(8)))
    took_s = asyncio.get_running_loop().time()
    said = str(caught.value)
    assert took_s == pytest.approx(lasts_s, abs=16.0)
    assert ("base_url" in said and "HTTPS_PROXY" in said) is hint


@pytest.mark.parametrize("late", ["fails", "is refused", "is cancelled"])
@in_virtual_time
async def test_late_outcomes_do_not_admit_a_second_probe(late: str) -> None:
    lane = started(Lane("x", LaneLimits(max_concurrency=64, requests_per_min=6000, kind="bucket")))
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
    lane.stop(Interrupted("over"))
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (probes, lane.in_flight) == (1, 1)


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (TimedOut("no response within 120 s"), False),
        (TimedOut("no connection within 15 s", unsent=True), True),
        (TransientError("reset by peer"), True),
        (TransientError("HTTP 500", status=500), False),
        (TransientError("HTTP 503", status=503), True),
        (TransientError("HTTP 529", status=529), True),
    ],
)
@in_virtual_time
async def test_a_single_request_that_never_ends_is_no_outage(error: TransientError, outage: bool) -> None:
    lane = Lane("x", LaneLimits())
    assert any([lane.failed(await lane.admit(0), error, "same") for _ in range(5)]) == outage


# --- What answers teach ---


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


@pytest.mark.parametrize(
    ("limits", "quota", "admitted"),
    [
        (LaneLimits(), None, 8),
        # 14 of 20 a minute are left; a bucket of 20 keeps 20/60 * 0.4 s back.
        (LaneLimits(), Quota(20.0, 14.0, 30.0), 13),
        # The headers raise a catalogue's limit, but not a user's own.
        (LaneLimits(requests_per_min=10, kind="sliding"), Quota(40.0, 39.0, 60.0), 39),
        (LaneLimits(requests_per_min=10, kind="sliding", raisable=False), Quota(40.0, 39.0, 60.0), 9),
        (LaneLimits(requests_per_min=100, kind="sliding", raisable=False), Quota(5.0, 4.0, 60.0), 4),
        # Others use the account too.
        (LaneLimits(requests_per_min=100, kind="sliding"), Quota(100.0, 30.0, 60.0), 30),
    ],
)
@in_virtual_time
async def test_first_reply_limits_the_next_burst(
    limits: LaneLimits, quota: Quota | None, admitted: int
) -> None:
    learned: list[Event] = []
    lane = Lane("x", replace(limits, max_concurrency=500), Events(learned.append))
    if quota:
        await answered(lane, Quotas(requests=quota), seconds=1.0)
        lane.window.size = 500
    assert burst(lane) == admitted
    named = [event.per_min for event in learned if isinstance(event, LimitLearned)]
    assert named == (
        [quota.limit] if quota and quota.limit != limits.requests_per_min and admitted != 9 else []
    )


@pytest.mark.parametrize("kind", ["paced", "sliding", "bucket", "auto"])
@in_virtual_time
async def test_replaced_gate_wakes_its_waiter(kind: LimitKind) -> None:
    lane = started(Lane("x", LaneLimits(tokens_per_min=1000, kind=kind)))
    first = await lane.admit(0, 800.0)
    large = asyncio.create_task(lane.admit(0, 20_000.0))
    await asyncio.sleep(5.0)
    began = asyncio.get_running_loop().time()
    lane.succeeded(first, 800.0, Quotas(tokens=Quota(1_200_000.0, 1_200_000.0, 0.0)))
    await large
    # 20,000 a second instead of 16 a minute; the estimate may be a fifth too low.
    assert (asyncio.get_running_loop().time() - began) < 1.25


@in_virtual_time
async def test_of_several_models_on_one_account_the_lowest_limit_holds() -> None:
    lane, learned = watched(LaneLimits(requests_per_min=6000), LimitLearned)
    times = []
    for per_min in (60.0, 6000.0) * 30 + (6000.0,) * 90:
        await answered(lane, Quotas(requests=Quota(per_min)))
        times.append(asyncio.get_running_loop().time())
    # One a second (99 % of it), until a minute has passed in which nobody named the lower one.
    first_60 = times[59]
    all_150 = times[-1]
    assert first_60 == pytest.approx(59 / 0.99, rel=0.02)
    assert all_150 == pytest.approx(first_60 + 60.0, rel=0.02)
    assert [event.per_min for event in learned] == [60.0, 6000.0]


@in_virtual_time
async def test_requests_sent_meanwhile_are_not_charged_to_others() -> None:
    lane = Lane("x", LaneLimits(requests_per_min=100, kind="sliding", max_concurrency=500))
    first = await lane.admit(0)
    for seq in range(20):
        with pytest.raises(StopIteration):
            lane.admit(seq).send(None)
    # The server had counted all 21 when it answered the first.
    lane.succeeded(first, None, Quotas(requests=Quota(100.0, 79.0, 60.0)))

    assert burst(lane) == 79


@pytest.mark.parametrize("kind", ["sliding", "bucket"])
@in_virtual_time
async def test_usage_of_others_is_charged_once(kind: LimitKind) -> None:
    lane = Lane("x", LaneLimits(requests_per_min=100, kind=kind, max_concurrency=500))
    permits = [await lane.admit(0) for _ in range(20)]
    for n, permit in enumerate(permits, start=1):
        # Others had sent 30 when the first of ours arrived.
        lane.succeeded(permit, None, Quotas(requests=Quota(100.0, 70.0 - n, 60.0)))
    # 50 are left, and a difference of one is nobody's.
    assert burst(lane) == 51


@in_virtual_time
async def test_refusal_slows_a_paced_lane_without_a_pause() -> None:
    lane, pauses = watched(LaneLimits(requests_per_min=6000), LanePaused)
    await asyncio.sleep(100)
    lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=1.0, status=429), "k")
    began = asyncio.get_running_loop().time()
    for _ in range(100):
        await answered(lane)
    # 100 a second, of which 99 % times 95 % are used; those of the first 1.5 s take 5 % more.
    assert (asyncio.get_running_loop().time() - began) == pytest.approx(105 / 94.05, rel=0.03)
    assert pauses == []


@in_virtual_time
async def test_isolated_429_delays_its_own_request_only() -> None:
    lane, pauses = watched(LaneLimits(max_concurrency=64), LanePaused)
    await answered(lane)
    lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=20.0, status=429), "k")
    await lane.admit(0)
    assert (lane.window.size, status_of(lane).paused_s) == (7.5, 0.0)
    assert pauses == []


@in_virtual_time
async def test_frequent_429_pause_the_lane() -> None:
    lane = Lane("x", KNOWN)
    paused = []
    for _ in range(7):  # (1 - 1 / 64) ** 7 is below 90 %
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=1.5, status=429), "k")
        paused.append(status_of(lane).paused_s)
    assert paused == [0.0] * 6 + [1.5]


@in_virtual_time
async def test_refusals_by_an_overloaded_server_open_no_circuit_while_others_are_served() -> None:
    lane, opened = watched(replace(KNOWN, max_concurrency=64), CircuitChanged)
    burst = [await lane.admit(0) for _ in range(64)]
    for i, permit in enumerate(burst[32:]):
        lane.failed(permit, TransientError("503", status=503), f"k{i}")
    size = lane.window.size
    for permit in burst[:32]:
        lane.succeeded(permit, None)
    # The 7th refusal is overload, at 58 under way: half of them, since nothing was known.
    assert (size, lane.circuit.is_open) == (29.0, False)
    assert opened == []


@pytest.mark.parametrize(
    ("refused", "after_s", "outage"), [(7, 0.0, False), (8, 0.0, True), (5, 1.0, False), (5, 6.0, True)]
)
@in_virtual_time
async def test_refusals_open_the_circuit_where_all_others_are_refused_or_hang(
    refused: int, after_s: float, outage: bool
) -> None:
    lane = Lane("x", KNOWN)
    permits = [await lane.admit(0) for _ in range(8)]
    await asyncio.sleep(after_s)
    for i, permit in enumerate(permits[:refused]):
        lane.failed(permit, TransientError("503", status=503), f"k{i}")
    assert lane.circuit.is_open == outage


@in_virtual_time
async def test_circuit_that_was_opened_in_error_keeps_the_window() -> None:
    lane = Lane("x", LaneLimits(max_concurrency=64))
    for burst in (8, 10):
        for permit in [await lane.admit(0) for _ in range(burst)]:
            lane.succeeded(permit, None)
    permits = [await lane.admit(0) for _ in range(6)]
    for i, permit in enumerate(permits[1:]):
        lane.failed(permit, TransientError("500", status=500), f"k{i}")
    was_open, before = lane.circuit.is_open, lane.window.size
    lane.succeeded(permits[0], None)
    after = lane.window.size
    assert was_open
    assert before == after > 8


@in_virtual_time
async def test_timeout_halves_the_window_where_no_limit_is_known() -> None:
    lane = Lane("x", LaneLimits(max_concurrency=64))
    permits = [await lane.admit(0) for _ in range(8)]
    lane.failed(permits[0], TimedOut("no answer"), "k")
    assert lane.window.size == 4.0


@in_virtual_time
async def test_underestimates_make_the_next_charges_more_cautious() -> None:
    lane = Lane("x", LaneLimits(tokens_per_min=6000, kind="sliding"))
    permit = await lane.admit(0, 100.0)
    lane.succeeded(permit, 250.0)
    assert (await lane.admit(0, 100.0)).tokens == 250.0


def test_refused_tokens_come_back_where_bursts_are_allowed_and_not_into_an_even_flow() -> None:
    async def main(kind: LimitKind) -> float:
        lane = started(Lane("x", LaneLimits(tokens_per_min=6000, kind=kind)))  # 100 a second
        permit = await lane.admit(0, 2500.0)
        await asyncio.sleep(30.0)
        began = asyncio.get_running_loop().time()
        lane.failed(permit, RateLimited("429", retry_after_s=0.0, status=429), "k")
        for _ in range(2):
            lane.succeeded(await lane.admit(0, 2500.0), None)
        return asyncio.get_running_loop().time() - began

    # 2 x 3,000 (the estimate and its caution) fit into a window at once, and take 5,500 / 99 s or more evenly.
    assert run_virtual(lambda: main("sliding")) == pytest.approx(0.0, abs=0.1)
    assert run_virtual(lambda: main("paced")) > 50.0


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


@settings(max_examples=2 * settings.default.max_examples)
@given(limits, callers)
@in_virtual_time
async def test_all_callers_are_admitted_oldest_first(limits: LaneLimits, callers: list[Caller]) -> None:
    lane, sent = started(Lane("x", limits)), list[Sent]()
    work = [come_and_go(lane, caller, f"k{i}", sent) for i, caller in enumerate(callers)]
    await asyncio.wait_for(asyncio.gather(*work), PATIENCE_S)
    await asyncio.sleep(PATIENCE_S)  # what those who left asked for may have been waited for until now
    assert (lane.in_flight, lane.waiting) == (0, 0)
    assert in_order(sent)


@given(limits, callers, st.floats(0, 60))
@in_virtual_time
async def test_stop_at_any_time_releases_all_callers(
    limits: LaneLimits, callers: list[Caller], at_s: float
) -> None:
    lane = started(Lane("x", limits))
    asyncio.get_running_loop().call_later(at_s, lane.stop, Interrupted("stop"))
    work = [come_and_go(lane, caller, f"k{i}", []) for i, caller in enumerate(callers)]
    ends = await asyncio.gather(*work, return_exceptions=True)
    ended_at = asyncio.get_running_loop().time()
    assert all(end is None or isinstance(end, Interrupted) for end in ends)
    await asyncio.sleep(max(0.0, at_s - ended_at))  # the stop may come after the last of them
    assert (lane.in_flight, lane.waiting) == (0, 0)
    # Who is under way when it stops comes to an end; who comes later is turned away.
    assert ended_at <= max(at_s, 30.0) + 20.0


UNKNOWN, PACED = LaneLimits(), LaneLimits(requests_per_min=600)
Refuses = Callable[[int, float], bool]
"""Whether a job's request is refused at a time."""


@dataclass
class Ended:
    """How a run went: jobs done and failed in order of their ends, requests sent, seconds it took."""

    done: list[int]
    failed: list[int]
    sent: list[int]
    stopped: str
    took_s: float


def run(
    folder: Path,
    limits: LaneLimits,
    asks_s: float | None,
    refuses: Refuses,
    jobs: int = 40,
    in_flight: int = 16,
    capacity_s: float | None = None,
) -> Ended:
    """`jobs` of one step each, 16 at a time; an answer takes half a second, a refusal a twentieth.

    With `capacity_s`, refusals are those of a tier with so much patience.
    """
    bench, lanes, sent, stopped = Bench(folder / "steps.jsonl"), list[Lane](), list[int](), ""

    def begin(runner: Runner) -> None:
        lanes.append(Lane("x", limits))  # in its loop
        runner.lanes += lanes

    def job(i: int) -> Walk:
        async def execute(_: object) -> Executed:
            sent.append(i)
            await asyncio.sleep(0.05)
            if refuses(i, asyncio.get_running_loop().time()):
                if capacity_s is not None:
                    raise NoCapacity("no room", patience_s=capacity_s, retry_after_s=asks_s, status=429)
                raise RateLimited("slower, please", retry_after_s=asks_s, status=429)
            await asyncio.sleep(0.45)
            return Executed({"text": ""})

        return lambda ctx: ctx.step(Step("ask", step_key(i), execute, dict, lane=lanes[0]))

    try:
        bench.run(
            {str(i): job(i) for i in range(jobs)}, begin=begin, in_flight=in_flight, policy=RetryPolicy()
        )
    except ProviderDown as down:
        stopped = str(down)
    failed = [int(i) for i, result in bench.finished.items() if isinstance(result, StepError)]
    done = [i for i in map(int, bench.finished) if i not in failed]
    return Ended(done, failed, sent, stopped, bench.elapsed_s)


@pytest.mark.parametrize("limits", [UNKNOWN, PACED])
@pytest.mark.parametrize("asks_s", [0.0, 1.0, None, 20.0])
def test_ten_minutes_of_refusals_cost_no_instance(
    tmp_path: Path, limits: LaneLimits, asks_s: float | None
) -> None:
    ended = run(tmp_path, limits, asks_s, lambda _, now: now < 600)
    assert (sorted(ended.done), ended.failed, ended.stopped) == (list(range(40)), [], "")
    # Pauses grow to 15 s where the provider asks for less, to 60 s where it says nothing.
    assert len(ended.sent) < 40 + 75
    assert ended.took_s < 600 + 120


@pytest.mark.parametrize("limits", [UNKNOWN, PACED])
@pytest.mark.parametrize("asks_s", [0.0, 1.0, None, 20.0])
def test_refusals_longer_than_max_outage_stop_the_run(
    tmp_path: Path, limits: LaneLimits, asks_s: float | None
) -> None:
    ended = run(tmp_path, limits, asks_s, lambda _, now: True)
    assert (ended.done, ended.failed) == ([], [])
    assert "x has refused all requests for 9" in ended.stopped
    assert "(slower, please); completed work is saved, the same command resumes" in ended.stopped
    assert 900 < ended.took_s <= 960


@pytest.mark.parametrize("limits", [UNKNOWN, PACED])
@pytest.mark.parametrize("asks_s", [None, 20.0])
def test_a_tier_without_capacity_is_waited_for_longer_than_an_outage(
    tmp_path: Path, limits: LaneLimits, asks_s: float | None
) -> None:
    """--max-outage is 900 s here, and the tier's own patience an hour."""
    ended = run(tmp_path, limits, asks_s, lambda _, now: now < 3000, capacity_s=3600.0)
    assert (sorted(ended.done), ended.failed, ended.stopped) == (list(range(40)), [], "")
    assert ended.took_s < 3000 + 120


def test_a_tier_without_capacity_stops_the_run_after_its_patience(tmp_path: Path) -> None:
    ended = run(tmp_path, PACED, None, lambda _, now: True, capacity_s=3600.0)
    assert (ended.done, ended.failed) == ([], [])
    assert "x has refused all requests for 36" in ended.stopped
    assert "(no room); completed work is saved, the same command resumes" in ended.stopped
    # A longer --max-outage counts in the place of the patience.
    (tmp_path / "steps.jsonl").unlink()
    ended = run(tmp_path, PACED, None, lambda _, now: True, capacity_s=60.0)
    assert "x has refused all requests for 9" in ended.stopped


def test_capacity_for_two_in_three_requests_costs_no_instance(tmp_path: Path) -> None:
    draws = random.Random(5)
    ended = run(tmp_path, PACED, None, lambda _, now: draws.random() < 0.33, capacity_s=3600.0)
    assert (sorted(ended.done), ended.failed, ended.stopped) == (list(range(40)), [], "")


@pytest.mark.parametrize("limits", [UNKNOWN, PACED])
@pytest.mark.parametrize("asks_s", [0.0, None, 20.0])
@pytest.mark.parametrize(
    ("jobs", "in_flight", "answers"), [(1, 16, 0), (2, 16, 0), (40, 2, 12), (40, 16, 39)]
)
def test_an_outage_is_one_however_few_steps_wait(
    tmp_path: Path, limits: LaneLimits, asks_s: float | None, jobs: int, in_flight: int, answers: int
) -> None:
    """An account whose quota ends after some answers: at once, in a run of two at a time, in the tail of a run."""
    ended = run(tmp_path, limits, asks_s, lambda i, _: i >= answers, jobs, in_flight)
    assert (sorted(ended.done), ended.failed) == (list(range(answers)), [])
    assert "x has refused all requests for 9" in ended.stopped
    assert 900 < ended.took_s < 1000


@pytest.mark.parametrize("jobs", [1, 3])
def test_refusals_shorter_than_an_outage_cost_no_instance_however_few_they_are(
    tmp_path: Path, jobs: int
) -> None:
    ended = run(tmp_path, UNKNOWN, 0.0, lambda _, now: now < 800, jobs)
    assert (sorted(ended.done), ended.failed, ended.stopped) == (list(range(jobs)), [], "")


@in_virtual_time
async def test_time_in_which_nobody_asks_is_no_outage() -> None:
    lane = started(Lane("x", LaneLimits(max_outage_s=900)))
    for step in ("a", "b", "c"):
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=0.0, status=429), step)
        await asyncio.sleep(1000)
    assert lane.stopped is None
    for _ in range(2):
        lane.failed(await lane.admit(0), RateLimited("429", retry_after_s=0.0, status=429), "c")
        await lane.sleep(901)
    assert "has refused all requests for 9" in str(lane.stopped)


@pytest.mark.parametrize(
    ("forbidden", "stopped"), [({3}, ""), ({3, 4, 20}, ""), (set(range(30, 40)), "4 different")]
)
def test_403_of_a_few_requests_ends_those_and_of_all_stops_the_run(
    tmp_path: Path, forbidden: set[int], stopped: str
) -> None:
    bench, lanes = Bench(tmp_path / "steps.jsonl"), list[Lane]()

    def begin(runner: Runner) -> None:
        lanes.append(Lane("x", LaneLimits(max_concurrency=2)))
        runner.lanes += lanes

    def job(i: int) -> Walk:
        async def execute(_: object) -> Executed:
            await asyncio.sleep(0.5)
            if i in forbidden:
                raise RequestForbidden("x: HTTP 403: no", status=403)
            return Executed({"text": ""})

        return lambda ctx: ctx.step(Step("ask", step_key(i), execute, dict, lane=lanes[0]))

    ended = ""
    try:
        bench.run({str(i): job(i) for i in range(40)}, begin=begin, in_flight=4)
    except ProviderRefused as refused:
        ended = str(refused)
    failed = {int(i): error.kind for i, error in bench.finished.items() if isinstance(error, StepError)}
    if stopped:
        assert failed == dict.fromkeys(range(30, 33), "refused"), "each command gets on by some"
        assert stopped in ended
    else:
        assert (failed, ended, len(bench.finished)) == (dict.fromkeys(forbidden, "refused"), "", 40)


def test_retry_after_suffices_while_others_are_served(tmp_path: Path) -> None:
    ended = run(tmp_path, UNKNOWN, 1.0, lambda _, now: now % 10 < 1)
    # 40 answers of half a second, at least 8 at a time, and a second's pause now and then.
    assert ended.failed == []
    assert ended.took_s < 20


@pytest.mark.parametrize("asks_s", [1.0, None])
def test_request_that_is_always_refused_queues_behind_others(tmp_path: Path, asks_s: float | None) -> None:
    ended = run(tmp_path, PACED, asks_s, lambda i, _: i == 0)
    assert (sorted(ended.done), ended.failed) == (list(range(1, 40)), [0])
    assert ended.sent.count(0) == 41  # the first time, and 40 retries
    # All others are done before it is given up; it was their elder all the time.
    last_of_others = len(ended.sent) - 1 - next(k for k, i in enumerate(reversed(ended.sent)) if i)
    assert ended.sent[: last_of_others + 1].count(0) < 20


def test_many_that_are_always_refused_do_not_keep_the_others_from_their_turn(tmp_path: Path) -> None:
    ended = run(tmp_path, PACED, None, lambda i, _: i < 6)
    assert sorted(ended.done) == list(range(6, 40))
    assert ended.failed == []
    assert "refused all requests" in ended.stopped


# --- Status ---------------------------------------------------------------------------------------------


@in_virtual_time
async def test_status_counts_requests_in_flight_and_waiting() -> None:
    limits = LaneLimits(max_concurrency=2, requests_per_min=600, kind="sliding")
    lane = started(Lane("gpt", limits))
    first, _ = await lane.admit(0, 100), await lane.admit(1, 100)
    third = asyncio.ensure_future(lane.admit(2, 100))
    lane.succeeded(first, 80.0)
    await third
    waiting = asyncio.ensure_future(lane.admit(3, 100))
    await asyncio.sleep(0)
    assert status_of(lane).waiting == 1
    lane.stop(Interrupted("Ctrl-C"))
    with pytest.raises(Interrupted):
        await waiting
    status = status_of(lane)
    assert (status.in_flight, status.places, status.waiting) == (2, 2, 0)
    assert (status.sent, status.tokens) == (3, 80.0)
    # An interrupt does not mean that the provider is gone.
    assert (status.gone, status.reason, status.probe_s, status.paused_s) == (False, "", None, 0.0)


@in_virtual_time
async def test_first_request_emits_an_event_that_gives_the_status() -> None:
    events: list[Event] = []
    lane = Lane("gpt", LaneLimits(), Events(events.append))
    for n in range(3):
        await lane.admit(n)
    (in_use,) = events
    assert isinstance(in_use, LaneInUse)
    assert (in_use.lane, in_use.ask().sent, in_use.ask().in_flight) == ("gpt", 3, 3)


@in_virtual_time
async def test_status_shows_refusals_outages_and_a_gone_provider() -> None:
    lane = started(Lane("gpt", LaneLimits()))
    lane.failed(await lane.admit(0), RateLimited("slower", retry_after_s=30.0), "step")
    await asyncio.sleep(10.0)
    status = status_of(lane)
    assert (status.answers_429, status.paused_s) == (1, pytest.approx(20.0))
    await lane.admit(1)
    assert asyncio.get_running_loop().time() == pytest.approx(30.0), "Retry-After is obeyed"
    lane = started(Lane("gpt", LaneLimits(requests_per_min=600)))
    lane.failed(await lane.admit(0), RateLimited("slower", retry_after_s=30.0), "step")
    assert status_of(lane).requests_per_min == pytest.approx(570.0)
    lane = started(Lane("gpt", LaneLimits()))
    for n in range(5):
        permit = await lane.admit(n)
        lane.failed(permit, TransientError("HTTP 503", status=503), f"step {n}")
    status = status_of(lane)
    assert (status.probe_s, status.reason, status.gone) == (pytest.approx(1.0), "HTTP 503", False)
    lane.stop(ProviderRefused("HTTP 401"))
    status = status_of(lane)
    assert (status.gone, status.reason, status.probe_s) == (True, "HTTP 401", None)


@in_virtual_time
async def test_status_shows_the_limits_as_configured() -> None:
    for kind in get_args(LimitKind):
        limits = LaneLimits(requests_per_min=600, tokens_per_min=90_000, kind=kind, window_s=10.0)
        status = status_of(Lane("gpt", limits))
        assert (status.requests_per_min, status.tokens_per_min) == pytest.approx((600.0, 90_000.0))
    status = status_of(Lane("gpt", LaneLimits()))
    assert (status.requests_per_min, status.tokens_per_min) == (None, None)


# --- Answers that came together


@settings(max_examples=150, deadline=None)
@given(
    limits=st.sampled_from(
        [
            LaneLimits(max_concurrency=6),
            LaneLimits(max_concurrency=300),
            LaneLimits(tokens_per_min=2_000, max_concurrency=6, kind="sliding"),
            LaneLimits(requests_per_min=100, tokens_per_min=4_000, max_concurrency=6, kind="auto"),
        ]
    ),
    steps=st.lists(
        st.tuples(
            st.integers(1, 9),
            st.lists(st.none() | st.integers(0, 300), max_size=9),
            st.sampled_from(["", "", "", "429", "503", "403"]),
        ),
        max_size=12,
    ),
)
def test_answers_that_came_together_leave_the_lane_as_one_by_one(
    limits: LaneLimits, steps: list[tuple[int, list[int | None], str]]
) -> None:
    """Whatever was refused before, where nobody waits."""

    async def run(*, together: bool) -> list[object]:
        lane = started(Lane("gpt", limits))
        permits: list[Permit] = []
        states: list[object] = []
        seq = 0
        for n_asked, all_tokens, failure in steps:
            asking = []
            for _ in range(min(n_asked, int(lane.window.size) - lane.in_flight)):
                asking.append(asyncio.ensure_future(lane.admit(seq, 100.0, reserved=400.0)))
                seq += 1
            await asyncio.sleep(0.5)
            permits += [request.result() for request in asking if request.done()]
            for request in asking:
                request.cancel()
            if failure == "403" and permits:
                lane.forbidden(permits.pop(0), RequestForbidden("403", status=403), "k")
            elif failure and permits:
                error = (
                    RateLimited("429", status=429) if failure == "429" else TransientError("503", status=503)
                )
                lane.failed(permits.pop(0), error, "k")
            answers = list(zip(permits, all_tokens, strict=False))
            del permits[: len(answers)]
            if together:
                lane.succeeded_together(answers)
            else:
                for permit, tokens in answers:
                    lane.succeeded(permit, tokens)
            window, account = vars(lane.window).copy(), lane._account
            del window["_share"], window["_noise"]
            states += [
                lane.status(asyncio.get_running_loop().time()),
                window,
                account._margin,
                account._refusals,
            ]
            states += [lane.window._share.total, lane.window._noise.weight, lane.in_flight, lane._alive_at]
        return states

    assert run_virtual(lambda: run(together=True)) == run_virtual(lambda: run(together=False))


async def test_who_waits_is_let_in_when_all_answers_are_recorded() -> None:
    lane = started(Lane("gpt", LaneLimits(max_concurrency=8)))
    permits = [await lane.admit(0, 100.0) for _ in range(8)]
    waiting = [asyncio.ensure_future(lane.admit(seq, 100.0)) for seq in range(5, 0, -1)]
    await asyncio.sleep(0)
    lane.succeeded_together([(permit, 100.0) for permit in permits[:3]])
    await asyncio.sleep(0)
    assert [request.done() for request in waiting] == [False, False, True, True, True], "the oldest first"
    assert lane.in_flight == 8
    lane.succeeded_together([(permit, 100.0) for permit in permits[3:]])
    await asyncio.sleep(0)
    assert all(request.done() for request in waiting)
    assert (lane.in_flight, lane.waiting) == (5, 0)
    for request in waiting:
        request.cancel()
