"""No line is ever crossed, all of it is used, and when the time is up everything is in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from engine_bench import Bench, after
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run_virtual

from cts_async.engine.budget import NOTHING, REMEMBERED, Budget, BudgetLimits, Deadline, amount
from cts_async.engine.events import BudgetUsed, Cost, Events, Usage
from cts_async.engine.journal import Journal
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.prices import Prices
from cts_async.engine.runner import Context, interrupted
from cts_async.engine.step import Step, is_unsent
from cts_async.errors import (
    EXIT_RESUMABLE,
    BudgetSpent,
    DeadlineReached,
    Interrupted,
    NoFreeDescriptor,
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    TimedOut,
    TransientError,
)

PRICES = Prices(input_usd_per_mtok=1_000.0, output_usd_per_mtok=10_000.0)
"""A thousandth of a dollar a token in, a hundredth a token out."""
CHARGED = Usage(50, 5)


# --- The limits by themselves


def test_on_the_line_is_within_it_and_beyond_is_not() -> None:
    limits = BudgetLimits(max_calls=3, max_tokens=100, max_usd=0.3)
    assert limits.exceeded(Cost(3, 100, 0.1 + 0.2)) is None  # 0.30000000000000004
    assert limits.exceeded(Cost(4, 101, 1.0)) == "calls"
    assert limits.exceeded(Cost(3, 101, 1.0)) == "tokens"
    assert limits.exceeded(Cost(3, 100, 0.3001)) == "usd"
    assert BudgetLimits().exceeded(Cost(10**9, 1e12, 1e9)) is None


def test_prices_are_dollars_per_million_tokens() -> None:
    # 200 x 0.001 + 30 x 0.01
    assert PRICES.usd(Usage(200, 30)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("line", "value", "said"),
    [
        ("usd", 12.345, "$12.35"),
        ("usd", 0.0312, "$0.0312"),
        ("usd", 0.0, "$0.00"),
        ("calls", 1234, "1,234"),
        ("tokens", 9_876_543.2, "9,876,543"),
    ],
)
def test_amounts_read_well(line: str, value: float, said: str) -> None:
    assert amount(line, value) == said


async def attempted(
    budget: Budget,
    log: list[str],
    name: str,
    seq: int,
    most: Cost,
    true: Cost,
    seconds: float,
    after: float = 0,
) -> None:
    """An attempt that reserves, takes its time, and settles."""
    await asyncio.sleep(after)
    try:
        await budget.reserve(seq, most)
    except RunStopped as stopped:
        log.append(f"{name} {type(stopped).__name__}")
        return
    log.append(f"{name} sent at {asyncio.get_running_loop().time():.3f}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        budget.settle(most, most)
        raise
    budget.settle(most, true)


def attempts(limits: BudgetLimits, *plans: tuple[Any, ...]) -> tuple[list[str], Cost]:
    """What happened to attempts side by side (name, seq, most, true, seconds[, after]), and what was spent."""

    async def main() -> tuple[list[str], Cost]:
        budget, log = Budget(limits), list[str]()
        await asyncio.gather(*(attempted(budget, log, *plan) for plan in plans))
        return log, budget.spent

    return run_virtual(main)


def tokens(n: float) -> Cost:
    return Cost(1, n)


@pytest.mark.parametrize(
    ("used", "end_of_b", "spent"),
    [
        # 100 tokens; both reserve 80, but the first uses 15: after 2 s there is room for the second.
        (15, "b sent at 2.000", Cost(2, 75)),
        # The first uses 30 of 80: then 30 + 80 lies beyond 100, and nothing more can return.
        (30, "b BudgetSpent", Cost(1, 30)),
    ],
)
def test_returned_reservation_is_used_by_the_next(used: float, end_of_b: str, spent: Cost) -> None:
    plans = ("a", 0, tokens(80), tokens(used), 2.0), ("b", 1, tokens(80), tokens(60), 1.0)
    assert attempts(BudgetLimits(max_tokens=100), *plans) == (["a sent at 0.000", end_of_b], spent)


def test_the_oldest_waits_in_front_and_small_ones_do_not_overtake_it() -> None:
    log, _ = attempts(
        BudgetLimits(max_tokens=100),
        ("running", 0, tokens(90), tokens(10), 3.0),
        ("young", 5, tokens(20), tokens(20), 1.0, 1.0),
        ("old", 2, tokens(85), tokens(5), 1.0, 2.0),
        ("small", 9, tokens(5), tokens(5), 1.0, 2.0),
    )
    # At 3 s 90 are left: the old one's 85 fit, then the young one's 20 do not, and the small one waits behind it.
    assert log == ["running sent at 0.000", "old sent at 3.000", "young sent at 4.000", "small sent at 4.000"]


@in_virtual_time
async def test_budget_error_names_limit_and_spending() -> None:
    budget = Budget(BudgetLimits(max_calls=50, max_usd=1.5), Cost(12, 0, 1.48))
    with pytest.raises(BudgetSpent) as caught:
        await budget.reserve(0, Cost(1, 500, 0.03))
    error = caught.value
    assert error.exit_code == EXIT_RESUMABLE
    assert str(error) == (
        "the budget is spent: $1.48 of --max-usd $1.50, and the next call may cost $0.03; "
        "the same command with a higher --max-usd resumes"
    )


@in_virtual_time
async def test_waiter_cancelled_after_its_grant_returns_it() -> None:
    budget = Budget(BudgetLimits(max_calls=1))
    await budget.reserve(0, Cost(1))
    waiter = asyncio.create_task(budget.reserve(1, Cost(1)))
    await asyncio.sleep(0)
    budget.settle(Cost(1), NOTHING)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert (budget.in_flight, budget.reserved, budget.spent) == (0, NOTHING, NOTHING)
    await budget.reserve(2, Cost(1))


@in_virtual_time
async def test_stopped_budget_grants_no_reservation() -> None:
    budget = Budget(BudgetLimits(max_calls=1))
    await budget.reserve(0, Cost(1))
    waiter = asyncio.create_task(budget.reserve(1, Cost(1)))
    await asyncio.sleep(0)
    budget.stop(interrupted())
    with pytest.raises(Interrupted):
        await waiter
    with pytest.raises(Interrupted):
        await budget.reserve(2, NOTHING)


PLAN = st.tuples(
    st.integers(0, 20),  # seq
    st.integers(0, 60),  # tokens reserved
    st.floats(0, 1),  # share of them that is really used
    st.integers(0, 9),  # seconds in flight
    st.integers(0, 9),  # starts after
    st.booleans(),  # cancelled in the middle
)


@given(st.lists(PLAN, max_size=25), st.integers(0, 6), st.integers(0, 150), st.floats(0, 3))
@settings(max_examples=2 * settings.default.max_examples)
@in_virtual_time
async def test_no_interleaving_crosses_a_line(
    plans: Sequence[tuple[int, int, float, int, int, bool]], max_calls: int, max_tokens: int, max_usd: float
) -> None:
    limits = BudgetLimits(max_calls, max_tokens, max_usd)

    budget = Budget(limits)

    async def attempt(seq: int, most: int, share: float, seconds: int, after: int, cancel: bool) -> None:
        reserved, true = (Cost(1, n, n * 0.01) for n in (most, int(most * share)))
        task = asyncio.create_task(attempted(budget, [], "", seq, reserved, true, seconds, after))
        if cancel:
            await asyncio.sleep(after + seconds / 2)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert limits.exceeded(budget.spent) is None
        assert limits.exceeded(budget.spent + budget.reserved) is None

    await asyncio.gather(*(attempt(*plan) for plan in plans))
    assert (budget.in_flight, budget.reserved) == (0, NOTHING)


@given(st.lists(st.tuples(st.integers(1, 60), st.floats(0, 3)), max_size=25), st.integers(0, 150))
@in_virtual_time
async def test_a_line_is_crossed_by_no_more_than_attempts_exceeded_their_reservations(
    plans: Sequence[tuple[int, float]], max_tokens: int
) -> None:
    excess = 0.0
    budget = Budget(BudgetLimits(max_tokens=max_tokens))

    async def attempt(seq: int, most: int, factor: float) -> None:
        nonlocal excess
        with suppress(BudgetSpent):
            await budget.reserve(seq, tokens(most))
            await asyncio.sleep(most)
            excess += max(0.0, most * factor - most)
            budget.settle(tokens(most), tokens(most * factor))

    await asyncio.gather(*(attempt(i, *plan) for i, plan in enumerate(plans)))
    assert budget.spent.tokens <= max_tokens + excess + 1e-6


@given(st.lists(st.integers(0, 40), min_size=1, max_size=20), st.integers(0, 200))
@in_virtual_time
async def test_unspent_budget_is_less_than_the_next_reservation(costs: list[int], max_tokens: int) -> None:
    """Everything reserves 40 and uses what it uses: the run ends early only where 40 more could cross."""

    budget = Budget(BudgetLimits(max_tokens=max_tokens))

    async def attempt(seq: int, true: int) -> None:
        with suppress(BudgetSpent):
            await budget.reserve(seq, tokens(40))
            await asyncio.sleep(1 + true)
            budget.settle(tokens(40), tokens(true))

    await asyncio.gather(*(attempt(*plan) for plan in enumerate(costs)))
    if budget.spent.calls < len(costs):
        assert budget.spent.tokens + 40 > max_tokens


# --- The deadline by itself


def test_a_step_starts_while_half_of_its_lanes_latest_attempts_would_end_in_time() -> None:
    deadline = Deadline(100.0, "noon")
    deadline.check("unknown", 99.9)
    for latency_s in (10.0, 20.0, 60.0):
        deadline.learn("slow", latency_s)
    deadline.check("slow", 79.0)  # 21 s are left, half take 20 at most
    deadline.check("unknown", 99.9)
    with pytest.raises(DeadlineReached, match="noon.*too near.*resumes"):
        deadline.check("slow", 81.0)
    with pytest.raises(DeadlineReached):
        deadline.check("unknown", 100.0)
    for latency_s in [90.0] * REMEMBERED + [1.0] * REMEMBERED:
        deadline.learn("lane", latency_s)
    deadline.check("lane", 98.0)  # only the latest attempts count


# --- In a run


class BudgetBench(Bench):
    """A run under a budget: every attempt reserves 100 + 10 tokens ($0.20) and is charged `CHARGED`."""

    budget = Budget(BudgetLimits())
    stopped: RunStopped | None = None

    def step(self, ctx: Context, name: str, lane: Lane, **options: Any) -> Step[str]:
        estimates = {"tokens": 55.0, "most_usage": lambda _: Usage(100, 10), "prices": PRICES}
        return super().step(
            ctx, name, lane=lane, **{"value": name, "charged": CHARGED, **estimates, **options}
        )

    def run_jobs(
        self,
        walk: Callable[[Context, Sequence[Lane]], Awaitable[Any]],
        limits: BudgetLimits | None = None,
        *,
        jobs: int = 1,
        deadline: float | None = None,
        spent: Cost = NOTHING,
        **options: Any,
    ) -> None:
        """Run `jobs` walks anew; a run that ends early leaves its reason in `stopped`."""
        events = Events(self.events.append)
        lanes = self.lanes = [Lane(name, LaneLimits(), events) for name in ("slow", "quick")]
        until = None if deadline is None else Deadline(deadline, "noon")
        self.budget = Budget(limits or BudgetLimits(), spent, deadline=until, events=events)
        self.finished, self.stopped = {}, None
        walks = {f"q{number}": lambda ctx: walk(ctx, lanes) for number in range(jobs)}
        try:
            self.run(walks, events=events, budget=self.budget, **options)
        except RunStopped as stopped:
            self.stopped = stopped
        assert all(lane.in_flight == 0 for lane in lanes)
        assert (self.budget.in_flight, self.budget.reserved) == (0, NOTHING)


@pytest.fixture
def bench(tmp_path: Path) -> BudgetBench:
    return BudgetBench(tmp_path / "steps.jsonl")


def two_steps(bench: BudgetBench, **options: Any) -> Callable[[Context, Sequence[Lane]], Awaitable[Any]]:
    async def walk(ctx: Context, lanes: Sequence[Lane]) -> str:
        await ctx.step(bench.step(ctx, "a", lanes[0], **options))
        return await ctx.step(bench.step(ctx, "b", lanes[0], **options))

    return walk


def test_a_run_stops_before_the_line_with_everything_in_flight_finished(bench: BudgetBench) -> None:
    bench.run_jobs(two_steps(bench), BudgetLimits(max_calls=5), jobs=4)
    assert isinstance(bench.stopped, BudgetSpent)
    # The four first steps, then the oldest one's second.
    assert bench.executed == ["q0/a", "q1/a", "q2/a", "q3/a", "q0/b"]
    assert bench.finished == {"q0": "b"}
    assert [record["ok"] for record in bench.journal()] == [True] * 5
    assert bench.budget.spent == Cost(5, 275, pytest.approx(0.5))


def test_dollars_count_charges_not_reservations(bench: BudgetBench) -> None:
    # Each reserves $0.20 and is charged $0.10: of a dollar, 9 can be made before the tenth could cross it.
    bench.run_jobs(two_steps(bench), BudgetLimits(max_usd=1.05), jobs=8)
    assert len(bench.executed) == 9
    assert bench.budget.spent.usd == pytest.approx(0.9)
    assert isinstance(bench.stopped, BudgetSpent)
    assert "--max-usd $1.05" in str(bench.stopped)


def test_spending_of_earlier_sessions_counts_and_replayed_steps_cost_nothing(bench: BudgetBench) -> None:
    bench.run_jobs(two_steps(bench), BudgetLimits(max_calls=3), jobs=1, spent=Cost(2))
    assert bench.executed == ["q0/a"]
    assert isinstance(bench.stopped, BudgetSpent)
    bench.run_jobs(two_steps(bench), BudgetLimits(max_calls=1))
    assert bench.stopped is None
    bench.run_jobs(two_steps(bench), BudgetLimits(max_calls=0))
    assert (bench.stopped, bench.executed) == (None, ["q0/a", "q0/b"])


def test_a_budget_that_is_enough_changes_nothing(bench: BudgetBench) -> None:
    bench.run_jobs(
        two_steps(bench), BudgetLimits(max_calls=16, max_tokens=10_000, max_usd=100.0), jobs=8, deadline=1e6
    )
    assert bench.stopped is None
    assert len(bench.finished) == 8
    assert bench.elapsed_s == 2.0
    used = [event for event in bench.events if isinstance(event, BudgetUsed)]
    assert len(used) == 16
    assert used[-1] == BudgetUsed(bench.budget.spent, 16, 10_000, 100.0)


@pytest.mark.parametrize(
    ("error", "spent_calls", "spent_tokens"),
    [
        # The second attempt, if there is one, is charged 55.
        (RateLimited("slower"), 2, 55),
        (RejectedError("no", status=400), 1, 0),
        (TransientError("busy", status=503), 2, 55),
        (TransientError("connection reset"), 2, 110 + 55),
        (TransientError("broken body", status=200), 2, 110 + 55),
        # What never left this machine is no call.
        (TransientError("connection refused", unsent=True), 1, 55),
        (TimedOut("no connection", unsent=True), 1, 55),
        (NoFreeDescriptor("too many open files"), 1, 55),
    ],
)
def test_a_failed_attempt_counts_as_its_provider_charges(
    bench: BudgetBench, error: StepError, spent_calls: int, spent_tokens: int
) -> None:
    async def walk(ctx: Context, lanes: Sequence[Lane]) -> str:
        return await ctx.step(bench.step(ctx, "a", lanes[0], failures=[error]))

    bench.run_jobs(walk, BudgetLimits(max_calls=10))
    assert (bench.budget.spent.calls, bench.budget.spent.tokens) == (spent_calls, spent_tokens)
    (record,) = bench.journal()
    assert record["attempts"] == spent_calls
    assert [failed.get("unsent", False) for failed in record["failed_attempts"]] == [is_unsent(error)]
    assumed = {"tokens": 110, "usd": pytest.approx(0.2)} if spent_tokens > 110 else None
    assert record.get("assumed") == assumed


def test_unknown_usage_keeps_the_reservation(bench: BudgetBench) -> None:
    bench.run_jobs(two_steps(bench, charged=None), BudgetLimits(max_calls=10))
    assert bench.budget.spent == Cost(2, 220, pytest.approx(0.4))
    assert [record["assumed"]["tokens"] for record in bench.journal()] == [110, 110]


def test_interrupt_wakes_callers_waiting_for_budget(bench: BudgetBench) -> None:
    bench.run_jobs(two_steps(bench, seconds=10.0), BudgetLimits(max_tokens=250), jobs=8, begin=after(5.0))
    assert isinstance(bench.stopped, Interrupted)
    assert bench.executed == ["q0/a", "q1/a"]
    assert bench.elapsed_s == 10.0


def test_deadline_cancels_and_counts_attempts_in_flight(bench: BudgetBench) -> None:
    bench.run_jobs(
        two_steps(bench, seconds=4.0), BudgetLimits(max_calls=10), jobs=2, deadline=6.0, in_flight=1
    )
    assert isinstance(bench.stopped, DeadlineReached)
    assert bench.elapsed_s == 4.0  # 2 s are left, an attempt takes 4: nothing more was started
    bench.run_jobs(two_steps(bench, seconds=4.0), BudgetLimits(max_calls=10), deadline=3.0)
    assert isinstance(bench.stopped, DeadlineReached)
    assert "has come" in str(bench.stopped)
    assert bench.elapsed_s == 3.0
    cancelled = bench.journal()[-1]
    assert (cancelled["ok"], cancelled["step"], cancelled["attempts"]) == (False, "b", 1)
    assert cancelled["error"] == {"kind": "cancelled", "message": "the run was stopped at once"}
    assert cancelled["failed_attempts"][0]["latency_s"] == 3.0
    assert cancelled["assumed"] == {"tokens": 110, "usd": pytest.approx(0.2)}
    assert bench.budget.spent.tokens == 110
    # And the same command goes on from there.
    bench.run_jobs(two_steps(bench), BudgetLimits(max_calls=10))
    assert bench.stopped is None
    assert bench.finished == {"q0": "b"}


class SlowJournal(Journal):
    """Takes ten seconds to say that a record is there."""

    async def append(self, record: Mapping[str, Any]) -> None:
        await super().append(record)
        await asyncio.sleep(10.0)


def test_step_cancelled_while_being_written_is_recorded_once(bench: BudgetBench) -> None:
    async def walk(ctx: Context, lanes: Sequence[Lane]) -> str:
        return await ctx.step(bench.step(ctx, "a", lanes[0], failures=[TransientError("reset")]))

    bench.run_jobs(walk, BudgetLimits(max_calls=10), deadline=6.0, journal_type=SlowJournal)
    assert isinstance(bench.stopped, DeadlineReached)
    (record,) = bench.journal()
    assert (record["ok"], record["attempts"]) == (True, 2)
    assert bench.budget.spent.calls == 2


def test_near_the_deadline_quick_lanes_go_on_and_no_job_begins(bench: BudgetBench) -> None:
    async def walk(ctx: Context, lanes: Sequence[Lane]) -> str:
        slow, quick = lanes
        if ctx.job.id != "q1":
            await ctx.step(bench.step(ctx, "slow", slow, seconds=10.0))
        for name in ("b", "c", "d"):
            await ctx.step(bench.step(ctx, name, quick, seconds=3.0))
        return await ctx.step(bench.step(ctx, "end", slow, seconds=10.0))

    bench.run_jobs(walk, jobs=3, deadline=22.0, in_flight=2)
    # q1's last step and q2's first, begun at 9 and 19 s; at 19 s 3 are left: too little for 10, so q0 ends there.
    assert isinstance(bench.stopped, DeadlineReached)
    assert "too near" in str(bench.stopped)
    assert bench.executed == ["q0/slow", "q1/b", "q1/c", "q1/d", "q1/end", "q0/b", "q0/c", "q0/d"]
    assert bench.finished == {"q1": "end"}
    assert bench.elapsed_s == 19.0


@given(st.randoms(use_true_random=False), st.integers(0, 12), st.floats(0, 2), st.floats(0.1, 12))
def test_no_run_crosses_a_line_whatever_fails_and_whenever_it_ends(
    tmp_path_factory: pytest.TempPathFactory, rng: random.Random, max_calls: int, max_usd: float, until: float
) -> None:
    bench = BudgetBench(tmp_path_factory.mktemp("run") / "steps.jsonl")
    faults: list[Callable[[], Exception]] = [
        lambda: RateLimited("slower", retry_after_s=1.0),
        lambda: TransientError("reset"),
        lambda: TransientError("refused", unsent=True),
        lambda: NoFreeDescriptor("too many open files"),
        lambda: RejectedError("no", status=400),
    ]
    limits = BudgetLimits(max_calls=max_calls, max_usd=max_usd)

    async def walk(ctx: Context, lanes: Sequence[Lane]) -> str:
        for name in ("a", "b"):
            failures = [rng.choice(faults)() for _ in range(rng.randint(0, 2))]
            charged = Usage(rng.randint(0, 100), rng.randint(0, 10))
            step = bench.step(
                ctx, name, rng.choice(lanes), seconds=rng.random() * 3, charged=charged, failures=failures
            )
            await ctx.step(step)
        return "done"

    bench.run_jobs(walk, limits, jobs=5, deadline=until)
    assert limits.exceeded(bench.budget.spent) is None
    # The journal says the same: what a later session would read is what this one counted.
    records = bench.journal()
    assert sum(record.get("attempts", 1) for record in records) == bench.budget.spent.calls
    used = sum(
        record["usage"]["input"] + record["usage"]["output"] for record in records if "usage" in record
    )
    assumed = sum(record["assumed"]["tokens"] for record in records if "assumed" in record)
    assert used + assumed == pytest.approx(bench.budget.spent.tokens)
