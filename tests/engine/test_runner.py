"""The runner: order, retries, replay, stops, shared steps."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_bench import Bench, Walk, after, steps
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time, run_virtual

from cts_async.engine.events import (
    AttemptFailed,
    Event,
    Events,
    GroupHeldUp,
    Notice,
    StepEnded,
    Stopping,
    Usage,
)
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner, interrupted
from cts_async.engine.step import Executed, RetryPolicy, Step, step_key
from cts_async.errors import (
    EXIT_RESUMABLE,
    Interrupted,
    NoFreeDescriptor,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    StorageFull,
    ToolError,
    TooManyOpenFiles,
    TransientError,
    UnusableOutput,
    UsageError,
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "steps.jsonl")


# --- remembering


def test_a_step_is_executed_once_and_then_replayed(bench: Bench) -> None:
    walks = {"q1": steps(bench, "a", "b"), "q2": steps(bench, "a")}
    bench.run(walks)
    expected = {"q1": ["q1/a", "q1/b"], "q2": ["q2/a"]}
    assert bench.finished == expected
    assert sorted(bench.executed) == ["q1/a", "q1/b", "q2/a"]
    before, bench.finished = bench.path.read_bytes(), {}
    bench.executed.clear()
    bench.events.clear()
    bench.run(walks)
    assert bench.finished == expected
    assert bench.executed == []
    assert bench.elapsed_s == 0.0
    assert bench.path.read_bytes() == before
    ended = [event for event in bench.events if isinstance(event, StepEnded)]
    assert [(event.replayed, event.usage) for event in ended] == [(True, Usage())] * 3


def test_record_has_all_fields_of_its_step(bench: Bench) -> None:
    walk = steps(bench, "a", seconds=2.5, request={"k": 3}, model="m", value={"n": 1})
    bench.run({"q1": walk}, clock=lambda: 1234.5678)
    assert bench.journal() == [
        {
            "key": step_key("group", "q1", "a"),
            "ok": True,
            "instance": "q1",
            "step": "a",
            "model": "m",
            "request": {"k": 3},
            "response": {"n": 1},
            "latency_s": 2.5,
            "usage": {"input": 10, "output": 1},
            "time": 1234.568,
        }
    ]
    assert list(bench.journal()[0])[:2] == ["key", "ok"]


def test_record_that_can_no_longer_be_decoded_is_executed_again(bench: Bench) -> None:
    def strict(response: Any) -> Any:
        if response == "old":
            raise UnusableOutput("too old")
        return response

    bench.run({"q1": steps(bench, "a", value="old")})
    bench.finished = {}
    for executions in (2, 2):
        bench.run({"q1": steps(bench, "a", value="new", decode=strict)})
        assert bench.finished == {"q1": ["new"]}
        assert len(bench.executed) == executions
        bench.finished = {}


def test_a_finished_jobs_steps_leave_memory_but_not_the_file(bench: Bench) -> None:
    held: dict[str, int] = {}

    async def look(ctx: Context) -> list[Any]:
        done = await steps(bench, "a", "b")(ctx)
        held[ctx.job.id] = len(ctx.job.journal)
        return done

    bench.run(dict.fromkeys(("q1", "q2", "q3"), look), in_flight=1)
    assert held == {"q1": 2, "q2": 2, "q3": 2}, "never more than the job under way has made"
    bench.finished = {}
    bench.run({name: steps(bench, "a", "b") for name in ("q1", "q2", "q3")})
    assert len(bench.executed) == 6, "the next process finds them all"


# --- failures


def test_transient_failures_are_waited_out(bench: Bench) -> None:
    failures = [TransientError("reset", retry_after_s=5.0), TransientError("503", retry_after_s=7.0)]
    bench.run({"q1": steps(bench, "a", failures=failures)})
    assert bench.finished == {"q1": ["q1/a"]}
    # Three attempts of 1 s; 5 and 7 s asked for, and jitter below 1 and 2 s on top.
    assert 15.0 <= bench.elapsed_s <= 18.0
    (record,) = bench.journal()
    assert (record["ok"], record["attempts"]) == (True, 3)
    assert record["failed_attempts"] == [
        {"kind": "transient", "message": "reset", "latency_s": 1.0},
        {"kind": "transient", "message": "503", "latency_s": 1.0},
    ]


@pytest.mark.parametrize(
    ("error", "attempts", "kind"),
    [
        (TransientError("reset"), 3, "transient"),
        (RateLimited("slower"), 3, "rate_limited"),
        (UnusableOutput("not JSON", text="hm"), 3, "unusable_output"),
        (RejectedError("content refused", status=400), 1, "rejected"),
        (ToolError("no such page"), 1, "tool"),
    ],
)
def test_permanent_failure_fails_only_its_instance(
    bench: Bench, error: StepError, attempts: int, kind: str
) -> None:
    walks = {
        "q1": steps(bench, "a", "b"),
        "q2": steps(bench, "bad", "never", failures=[error] * 9),
        "q3": steps(bench, "a", "b", "c"),
    }
    bench.run(walks)
    assert bench.finished == {"q1": ["q1/a", "q1/b"], "q2": error, "q3": ["q3/a", "q3/b", "q3/c"]}
    assert error.step == "bad"
    assert bench.executed.count("q2/bad") == attempts
    assert "q2/never" not in bench.executed
    (record,) = bench.named("bad")
    assert (record["ok"], record["attempts"]) == (False, attempts)
    assert record["error"] == {"kind": kind, "message": str(error)}
    assert [one["kind"] for one in record["failed_attempts"]] == [kind] * attempts
    waits = [event.wait_s for event in bench.events if isinstance(event, AttemptFailed)]
    assert [wait is None for wait in waits] == [False] * (attempts - 1) + [True]
    # A failure is no result: asked again, the step is tried again.
    del bench.finished["q2"]
    bench.run({"q2": steps(bench, "bad", "never")})
    assert bench.finished["q2"] == ["q2/bad", "q2/never"]


def test_unusable_output_is_passed_to_the_next_attempt_and_all_usage_counts(bench: Bench) -> None:
    answers = iter(["prose", "[1]", "[1, 2]"])

    async def execute(problem: UnusableOutput | None) -> Executed:
        bench.problems.append(problem)
        return Executed(next(answers), Usage(100, 10))

    def decode(response: str) -> list[str]:
        if not response.startswith("["):
            raise UnusableOutput("no list", text=response)
        if "," not in response:
            raise UnusableOutput("one item instead of two", text=response)
        return response.strip("[]").split(", ")

    async def walk(ctx: Context) -> list[str]:
        return await ctx.step(Step("clarify", step_key("clarify"), execute, decode))

    bench.run({"q1": walk})
    assert bench.finished == {"q1": ["1", "2"]}
    assert [problem and problem.problem for problem in bench.problems] == [
        None,
        "no list",
        "one item instead of two",
    ]
    (record,) = bench.journal()
    assert record["usage"] == {"input": 300, "output": 30}
    assert [one["text"] for one in record["failed_attempts"]] == ["prose", "[1]"]
    assert [one["usage"] for one in record["failed_attempts"]] == [{"input": 100, "output": 10}] * 2


def test_a_job_draws_the_same_numbers_however_often_it_had_to_wait(bench: Bench) -> None:
    def walk(*failures: StepError) -> Walk:
        async def draw(ctx: Context) -> float:
            await ctx.step(bench.step(ctx, "a", failures=failures))
            return ctx.rng.random()

        return draw

    bench.run({"q1": walk(TransientError("reset"), TransientError("reset"))})
    (drawn,) = bench.finished.values()
    bench.finished = {}
    bench.run({"q1": walk()})
    assert bench.finished == {"q1": drawn}


def test_generator_of_a_job_depends_on_seed_group_and_id_alone() -> None:
    def drawn(seed: int, group: str, name: str) -> float:
        job = Job(group, name, None, None, None)  # type: ignore[arg-type]
        return Context(Runner(seed=seed), job, 5).rng.random()

    # Fixed numbers: the same in every process, whatever PYTHONHASHSEED is.
    assert drawn(0, "g", "q1") == random.Random("0/g/q1").random() == 0.7877702325691952
    assert len({drawn(*of) for of in [(0, "g", "q1"), (0, "g", "q2"), (0, "h", "q1"), (1, "g", "q1")]}) == 4


# --- stopping


def test_stop_finishes_what_is_in_flight_and_starts_nothing(bench: Bench) -> None:
    walks = {f"q{n}": steps(bench, "a", "b", seconds=10.0) for n in range(5)}
    with pytest.raises(Interrupted) as raised:
        bench.run(walks, in_flight=3, begin=after(4.0))
    assert raised.value.exit_code == EXIT_RESUMABLE
    assert bench.elapsed_s == 10.0
    assert bench.executed == ["q0/a", "q1/a", "q2/a"]
    assert [one["ok"] for one in bench.journal()] == [True] * 3
    assert bench.finished == {}
    assert sum(isinstance(event, Stopping) for event in bench.events) == 1
    bench.run(walks, in_flight=3)
    assert bench.finished == {f"q{n}": [f"q{n}/a", f"q{n}/b"] for n in range(5)}
    assert len(bench.executed) == len(set(bench.executed)) == 10


def test_stop_wakes_retries_and_records_their_attempts(bench: Bench) -> None:
    patient = steps(bench, "a", failures=[TransientError("maintenance", retry_after_s=86400.0)])
    with pytest.raises(Interrupted):
        bench.run({"q1": patient}, begin=after(60.0))
    assert bench.elapsed_s == 60.0
    (record,) = bench.journal()
    assert (record["ok"], record["error"]["kind"], record["attempts"]) == (False, "stopped", 1)


def test_stop_wakes_callers_waiting_for_the_lane(tmp_path: Path) -> None:
    lane = Lane("lane", LaneLimits(max_concurrency=1))
    bench = Bench(tmp_path / "steps.jsonl", lane)
    walks = {name: steps(bench, "a", seconds=10.0, lane=lane) for name in ("q1", "q2")}
    with pytest.raises(Interrupted):
        bench.run(walks, begin=after(4.0))
    assert (bench.executed, bench.elapsed_s) == (["q1/a"], 10.0)


def test_a_refusal_in_one_branch_stops_the_others_at_their_next_step(bench: Bench) -> None:
    async def walk(ctx: Context) -> None:
        await ctx.gather(
            [
                lambda: ctx.step(bench.step(ctx, "bad", failures=[ProviderRefused("unpaid")])),
                lambda: steps(bench, *"abcdef", seconds=2.0)(ctx),
            ]
        )

    with pytest.raises(ProviderRefused):
        bench.run({"q1": walk, "q2": steps(bench, *"abcdef", seconds=2.0)})
    assert sorted(bench.executed) == ["q1/a", "q1/bad", "q2/a"]
    assert sorted(one["instance"] for one in bench.journal()) == ["q1", "q2"]


def test_a_provider_that_is_gone_stops_only_the_groups_that_need_it(tmp_path: Path) -> None:
    """Two groups, each on a lane of its own; the first group's provider refuses its second job and all later ones."""
    bad, good = Lane("bad", LaneLimits()), Lane("good", LaneLimits())
    refused = ProviderRefused("the key is not valid")
    bench = Bench(tmp_path / "steps.jsonl", bad, good)
    walks = {
        f"{lane.name}/{i}": steps(bench, "a", lane=lane, failures=[refused] if i and lane is bad else [])
        for i in range(5)
        for lane in (bad, good)
    }
    with pytest.raises(ProviderRefused):
        bench.run(walks, in_flight=6)
    assert sorted(bench.finished) == ["bad/0", "good/0", "good/1", "good/2", "good/3", "good/4"]
    # Two requests in flight were refused: users read of it once.
    notices = [event for event in bench.events if isinstance(event, Notice)]
    assert notices == [Notice("the key is not valid; systems that do not use this provider continue")]
    assert [event for event in bench.events if isinstance(event, GroupHeldUp)] == [GroupHeldUp("bad", "bad")]


TOMORROW, SOON = 86_400.0, 50.0


@pytest.mark.parametrize(
    ("errors", "ended_at", "n_failed"),
    [
        # A pause longer than an outage may last stops the run at once, whoever learns of it.
        ([RateLimited("come back tomorrow", retry_after_s=TOMORROW, status=429)], 1.0, 0),
        ([TransientError("come back tomorrow", retry_after_s=TOMORROW, status=503)], 1.0, 0),
        # All are told to wait: the outage ends the run in time.
        ([TransientError("maintenance", retry_after_s=SOON, status=503)] * 6, 61.0, 0),
        # Two that never succeed, and no others left: HTTP 500 is their own fault, 503 the provider's.
        ([TransientError("HTTP 500", status=500)] * 2, None, 2),
        ([TransientError("HTTP 503", status=503)] * 2, None, 0),
    ],
)
def test_outage_stops_the_run_and_poisoned_requests_fail(
    tmp_path: Path, errors: list[StepError], ended_at: float | None, n_failed: int
) -> None:
    lanes = [Lane("bad", LaneLimits(max_outage_s=60.0)), Lane("good", LaneLimits())]
    bench = Bench(tmp_path / "steps.jsonl", *(lanes[:1] if ended_at is None else lanes))
    walks = {
        f"q{i}": steps(bench, "a", lane=lanes[0], failures=[error] * 999) for i, error in enumerate(errors)
    }
    with pytest.raises(ProviderDown) if not n_failed else nullcontext():
        bench.run(walks, policy=RetryPolicy())
    assert len(bench.finished) == n_failed
    if ended_at is not None:
        assert bench.elapsed_s == pytest.approx(ended_at)


def test_the_first_reason_to_stop_counts(bench: Bench) -> None:
    def begin(runner: Runner) -> None:
        after(1.0, ProviderRefused("first"))(runner)
        after(2.0, interrupted())(runner)

    with pytest.raises(ProviderRefused, match="first"):
        bench.run({"q1": steps(bench, "a", "b", seconds=5.0)}, begin=begin)


@in_virtual_time
async def test_a_stream_of_jobs_may_stop_the_run_too(bench: Bench) -> None:
    journal = Journal(bench.path)

    def jobs() -> Iterator[Job]:
        yield from bench.jobs({"q1": steps(bench, "a")}, journal)
        raise StorageFull("no room for the next one")

    with pytest.raises(StorageFull):
        await Runner(in_flight=2).run(jobs())
    journal.close()
    assert bench.finished == {"q1": ["q1/a"]}


def test_a_full_disk_stops_the_run_and_the_same_command_resumes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write
    walks = {f"q{n}": steps(bench, "a", "b", "c", seconds=1.0 + n / 10) for n in range(6)}

    def write(fd: int, data: Any) -> int:
        if bench.path.stat().st_size > 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(fd, bytes(data)[:300])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with pytest.raises(StorageFull) as raised:
            bench.run(walks)
    assert raised.value.exit_code == EXIT_RESUMABLE
    remembered = {f"{one['instance']}/{one['step']}" for one in bench.journal()}
    assert 0 < len(remembered) < 18
    assert bench.path.read_bytes().endswith(b"}\n")
    bench.executed.clear()
    bench.run(walks)
    assert set(bench.executed).isdisjoint(remembered)
    assert bench.finished == {f"q{n}": [f"q{n}/a", f"q{n}/b", f"q{n}/c"] for n in range(6)}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UsageError("x.jsonl: cannot write (Read-only file system)"), "x.jsonl: cannot write (Read-only"),
        (
            OSError(errno.EMFILE, "Too many open files"),
            "(Too many open files); raise the limit (ulimit -n 1024)",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "x.jsonl"),
            "x.jsonl: cannot use (Permission denied)",
        ),
    ],
)
@pytest.mark.parametrize("where", ["step", "branch", "walk", "finish", "stream"])
def test_no_error_is_a_usage_error_once_the_run_has_begun(
    bench: Bench, where: str, error: Exception, said: str
) -> None:
    """What is in flight is finished and recorded, nothing is begun, and the same command resumes."""

    async def walk(ctx: Context) -> Any:
        if where == "walk":
            raise error
        broken = bench.step(ctx, "a", failures=[error])
        if where == "branch":
            return await ctx.gather(
                [lambda: ctx.step(broken), lambda: ctx.step(bench.step(ctx, "b", seconds=5.0))]
            )
        return await ctx.step(broken)

    async def finish(_: Any) -> None:
        raise error

    def stream(journal: Journal) -> Iterator[Job]:
        yield from bench.jobs({"q0": steps(bench, "slow", seconds=3.0)}, journal)
        if where == "stream":
            raise error
        ends = {"finish": finish} if where == "finish" else {}
        for job in bench.jobs({"q1": steps(bench, "a") if where == "finish" else walk}, journal):
            yield replace(job, **ends)
        yield from bench.jobs({f"q{n}": steps(bench, "late", seconds=9.0) for n in range(2, 9)}, journal)

    async def main() -> None:
        journal = Journal(bench.path)
        try:
            await Runner(in_flight=2).run(stream(journal))
        finally:
            journal.close()

    with pytest.raises(RunStopped) as raised:
        run_virtual(main)
    assert raised.value.exit_code == EXIT_RESUMABLE
    assert said in str(raised.value)
    assert bench.finished["q0"] == ["q0/slow"], "it was in flight"
    assert ("q1/b" in bench.done) == (where == "branch"), "it was paid for"
    assert len(bench.executed) <= 4


@pytest.mark.parametrize("lone", [False, True])
def test_too_few_descriptors_lower_concurrency_and_are_no_outage(tmp_path: Path, lone: bool) -> None:
    """Five connections fit; a lane that cannot open even one ends the run, with the limit named."""
    lanes, open_now = list[Lane](), 0

    def begin(runner: Runner) -> None:
        limits = LaneLimits(max_concurrency=40, requests_per_min=60_000, kind="bucket")
        lanes.append(Lane("x", limits, runner.events))
        runner.lanes += lanes

    def job(i: int) -> Walk:
        async def execute(_: object) -> Executed:
            nonlocal open_now
            if lone or open_now == 5:
                raise NoFreeDescriptor("x: too many open files (ulimit -n is 64)")
            open_now += 1
            await asyncio.sleep(1.0)
            open_now -= 1
            return Executed({"text": ""}, Usage(1, 1))

        return lambda ctx: ctx.step(Step("ask", step_key(i), execute, dict, model="m", lane=lanes[0]))

    bench = Bench(tmp_path / "steps.jsonl")
    ended = pytest.raises(TooManyOpenFiles, match="ulimit -n is 64") if lone else nullcontext()
    with ended:
        bench.run({str(i): job(i) for i in range(40)}, begin=begin, in_flight=40, policy=RetryPolicy())
    assert not lanes[0].circuit.is_open
    notices = [event.text for event in bench.events if isinstance(event, Notice)]
    assert notices == ["x: too many open files (ulimit -n is 64); until then fewer requests are sent at once"]
    if not lone:
        assert len(bench.finished) == 40
        assert lanes[0].window.ceiling == 5
        assert bench.elapsed_s == 8.0
        assert sum(record.get("attempts", 1) for record in bench.journal()) == 40


@pytest.mark.parametrize("where", ["walk", "execute", "decode"])
def test_a_bug_is_no_failure_and_escapes(bench: Bench, where: str) -> None:
    def decode(response: Any) -> Any:
        return response["no such field"] if where == "decode" else response

    async def walk(ctx: Context) -> None:
        if where == "walk":
            raise KeyError("walk")
        failures = [KeyError("x")] * (where == "execute")
        await ctx.step(bench.step(ctx, "a", value={}, failures=failures, decode=decode))

    with pytest.raises(ExceptionGroup) as raised:
        bench.run({"q1": walk, "q2": steps(bench, "a", seconds=99.0)})
    assert raised.group_contains(KeyError)


# --- flow


@in_virtual_time
async def test_jobs_are_taken_only_by_free_workers(bench: Bench) -> None:
    pulled: list[str] = []
    ahead: list[int] = []

    journal = Journal(bench.path)
    walks = {f"q{n}": steps(bench, "a", seconds=1.0 + n % 7) for n in range(200)}

    def jobs() -> Iterator[Job]:
        for job in bench.jobs(walks, journal):
            pulled.append(job.id)
            ahead.append(len(pulled) - len(bench.finished))
            yield job

    await Runner(in_flight=8).run(jobs())
    journal.close()
    assert len(bench.finished) == 200
    assert max(ahead) == 8


@in_virtual_time
async def test_the_oldest_instance_is_served_first_so_little_is_half_done(bench: Bench) -> None:
    journal = Journal(bench.path)
    lane = Lane("lane", LaneLimits(max_concurrency=1))
    walks = {f"q{n}": steps(bench, "a", "b", "c", lane=lane) for n in range(10)}
    half_done = 0

    def watch(event: Event) -> None:
        nonlocal half_done
        begun = {label.split("/")[0] for label in bench.executed}
        half_done = max(half_done, len(begun - set(bench.finished)))

    await Runner([lane], events=Events(watch), in_flight=10).run(bench.jobs(walks, journal))
    journal.close()
    assert list(bench.finished) == [f"q{n}" for n in range(10)]
    assert half_done <= 3, "the one served, the one that takes its gap, the one just done"


def test_gather_runs_side_by_side_and_keeps_the_order(bench: Bench) -> None:
    async def walk(ctx: Context) -> list[Any]:
        calls = [lambda n=n: ctx.step(bench.step(ctx, f"answer/{n}", seconds=10.0 - n)) for n in range(5)]
        return await ctx.gather(calls)

    bench.run({"q1": walk})
    assert bench.finished == {"q1": [f"q1/answer/{n}" for n in range(5)]}
    assert bench.elapsed_s == 10.0
    assert bench.done == [f"q1/answer/{n}" for n in (4, 3, 2, 1, 0)]


def test_gather_waits_for_all_calls_before_it_fails(bench: Bench) -> None:
    early, late = RejectedError("early"), RejectedError("late")

    async def walk(ctx: Context) -> None:
        await ctx.gather(
            [
                lambda: ctx.step(bench.step(ctx, "good", seconds=9.0)),
                lambda: ctx.step(bench.step(ctx, "late", seconds=5.0, failures=[late])),
                lambda: ctx.step(bench.step(ctx, "early", failures=[early])),
            ]
        )

    bench.run({"q1": walk})
    assert bench.finished == {"q1": late}, "the first in order, not in time"
    assert bench.elapsed_s == 9.0
    assert [one["ok"] for one in bench.named("good")] == [True]


# --- resuming, as a law


def benchmark(bench: Bench, n_jobs: int, n_answers: int, on_done: Callable[[], None]) -> dict[str, Walk]:
    """Walks like the real ones: a question, answers side by side, draws, and steps that depend on them.

    Attempts fail now and then: unreachable, slowed down, unusable, and one instance for good.
    """

    async def walk(ctx: Context) -> dict[str, Any]:
        async def ask(name: str, value: Any) -> Any:
            chance = random.Random(f"{ctx.job.id}/{name}")
            kinds: list[StepError] = [TransientError("reset"), RateLimited("slower"), UnusableOutput("prose")]
            failures = [kinds[chance.randrange(3)] for _ in range(chance.choice([0, 0, 1, 2]))]
            if ctx.job.id == "q3" and name == "rewrite":
                failures = [RejectedError("refused")]
            made = bench.step(ctx, name, value=value, seconds=chance.uniform(0, 5), failures=failures)
            result = await ctx.step(made)
            on_done()
            return result

        topic = await ask("clarify", ctx.rng.randrange(10**9))
        drawn = [ctx.rng.random() for _ in range(n_answers)]
        answers = await ctx.gather(
            [lambda n=n: ask(f"answer/{n}", [topic, drawn[n]]) for n in range(n_answers)]
        )
        return {"answers": answers, "rewrite": await ask("rewrite", len(answers) + ctx.rng.random())}

    return {f"q{n}": walk for n in range(n_jobs)}


def outcome(finished: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (result.kind, result.step, str(result)) if isinstance(result, StepError) else result
        for name, result in finished.items()
    }


@given(
    n_jobs=st.integers(1, 7),
    n_answers=st.integers(0, 4),
    in_flight=st.integers(1, 5),
    stops=st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=6),
)
def test_a_run_stopped_anywhere_ends_like_one_that_was_not(
    n_jobs: int, n_answers: int, in_flight: int, stops: list[tuple[int, bool]]
) -> None:
    """Stopped politely or killed after any number of steps, any number of times."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        whole = Bench(Path(directory, "whole.jsonl"))
        whole.run(benchmark(whole, n_jobs, n_answers, lambda: None), in_flight=in_flight)
        bench = Bench(Path(directory, "steps.jsonl"))
        for countdown, politely in [*stops, (10**9, True)]:
            remembered = {f"{one['instance']}/{one['step']}" for one in bench.journal() if one["ok"]}
            bench.executed.clear()
            with suppress(Interrupted, asyncio.CancelledError):
                bench.run(**stopped_after(bench, n_jobs, n_answers, countdown, politely), in_flight=in_flight)
            assert remembered.isdisjoint(bench.executed)
        assert outcome(bench.finished) == outcome(whole.finished)
        if all(politely for _, politely in stops):
            assert sorted(bench.done) == sorted(whole.done), "in flight is finished: nothing is paid twice"


def stopped_after(
    bench: Bench, n_jobs: int, n_answers: int, countdown: int, politely: bool
) -> dict[str, Any]:
    """Walks that stop their runner, or kill it, after `countdown` steps."""
    stop: Callable[[], object] = lambda: None  # noqa: E731

    def begin(runner: Runner) -> None:
        nonlocal stop
        task = asyncio.current_task()
        assert task
        stop = (lambda: runner.stop(interrupted())) if politely else task.cancel
        if countdown == 0:
            stop()

    def on_done() -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            stop()

    return {"walks": benchmark(bench, n_jobs, n_answers, on_done), "begin": begin}


class World:
    """Jobs that each make one step, named by what it is about; every execution takes a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executed: list[str] = []
        self.ended: dict[str, Any] = {}
        self.at: dict[str, float] = {}
        self.replayed = 0
        self.refuse: set[str] = set()

    async def walk(self, ctx: Context, about: str) -> Any:
        async def execute(problem: UnusableOutput | None) -> Executed:
            self.executed.append(about)
            await asyncio.sleep(1.0)
            if about in self.refuse:
                raise RejectedError(f"{about} is refused")
            return Executed(f"verdict on {about}")

        return await ctx.step(
            Step(name="judge", key=step_key(about), execute=execute, decode=lambda response: response)
        )

    def jobs(self, abouts: Iterable[str], journal: Journal, group: str = "g") -> Iterator[Job]:
        for i, about in enumerate(abouts):
            name = f"{group}{i}"
            walk, finish = partial(self.walk, about=about), partial(self.finish, name)
            yield Job(group, name, journal, walk, finish, shared=True)

    async def finish(self, name: str, ended: Any) -> None:
        self.ended[name] = ended
        self.at[name] = round(asyncio.get_running_loop().time(), 3)

    def run(self, *streams: Sequence[str], widths: Sequence[int] = (), stop_after_s: float = 99.0) -> None:
        """Each stream in a group, and with a journal, of its own; the journals lie beside each other."""

        async def main() -> None:
            journals = [Journal(self.folder / f"{i}.jsonl") for i in range(len(streams))]
            for journal in journals:
                journal.siblings = [other for other in journals if other is not journal]
            runner = Runner(events=Events(self.hear), in_flight=4)
            asyncio.get_running_loop().call_later(stop_after_s, runner.stop, interrupted())
            jobs = [self.jobs(abouts, journals[i], "abc"[i]) for i, abouts in enumerate(streams)]
            try:
                await runner.run(*jobs, in_flight=widths)
            finally:
                for journal in journals:
                    journal.close()

        run_virtual(main)

    def hear(self, event: object) -> None:
        self.replayed += isinstance(event, StepEnded) and event.replayed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_shared_step_runs_once(world: World) -> None:
    """Four at once: x runs, two wait for it, y runs; the last x comes when it is done."""
    world.run(["x", "x", "x", "y", "x"])
    assert sorted(world.executed) == ["x", "y"]
    assert [world.ended[f"a{i}"] for i in range(5)] == [f"verdict on {c}" for c in "xxxyx"]
    assert set(world.at.values()) == {1.0}
    assert world.replayed == 3
    assert len(list(read_records(world.folder / "0.jsonl"))) == 2


def test_failure_of_a_shared_step_is_shared(world: World) -> None:
    world.refuse = {"x"}
    world.run(["x", "x", "y", "x", "x", "x"])
    assert sorted(world.executed) == ["x", "y"]
    assert {str(world.ended[f"a{i}"]) for i in (0, 1, 3, 4, 5)} == {"x is refused"}
    world.refuse.clear()
    world.run(["x", "x"])
    assert world.executed.count("x") == 2, "the next session asks once more"


def test_streams_share_steps_across_their_journals(world: World) -> None:
    world.run(["x", "y"], ["y", "x", "z"])
    assert sorted(world.executed) == ["x", "y", "z"]
    assert len(world.ended) == 5
    world.executed.clear()
    world.run(["x", "y", "z"], ["z", "y", "x"])
    assert world.executed == [], "either journal has what the other lacks"


def test_stop_ends_jobs_waiting_for_a_shared_step(world: World) -> None:
    """Stopped in the first second: what is in flight is finished, and nothing more is begun."""
    with pytest.raises(RunStopped, match="interrupted"):
        world.run(["x", "x", "x", "x", "y"], stop_after_s=0.5)
    assert world.executed == ["x"]
    assert len(world.ended) == 4


def test_a_slow_stream_holds_up_no_other(world: World) -> None:
    """One worker takes 5 s for its five; four others do their eight in 2 s meanwhile."""
    world.run([f"s{i}" for i in range(5)], [f"f{i}" for i in range(8)], widths=[1, 4])
    assert [world.at[f"a{i}"] for i in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert max(world.at[f"b{i}"] for i in range(8)) == 2.0


def test_jobs_that_share_nothing_forget_and_shared_ones_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept moves into the index, 16 bytes a step, and is found there."""
    monkeypatch.setattr("cts_async.engine.journal.INDEXED_AT_ONCE", 3)
    world = World(tmp_path)
    world.run([f"q{i % 10}" for i in range(40)])
    assert sorted(world.executed) == sorted(f"q{i}" for i in range(10))
