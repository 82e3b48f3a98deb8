"""The progress of a command from the engine's events: numbers worked out by hand, on a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from cts_async.analysis.stats import RunningMean, t_975
from cts_async.engine import events as of
from cts_async.engine.events import WorkerStatus
from cts_async.errors import RejectedError
from cts_async.watch.progress import MAX_NOTICES, LastMinute, Pace, Progress, RunGroup

RUNS = Path("runs")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(*totals: tuple[str, int], clock: Clock | None = None) -> Progress:
    groups = [RunGroup(name, n, (RUNS / name,), RUNS / name / "results.jsonl") for name, n in totals]
    return Progress(groups, clock=clock or Clock(), wall=lambda: 1_000.0 + (clock.now if clock else 0.0))


def emit(progress: Progress, *events: of.Event) -> None:
    for event in events:
        progress(event)


def job(group: str, id: str, steps: int = 1, *, failed: bool = False) -> Sequence[of.Event]:
    """A job's events: steps of 100 tokens for a tenth of a cent each."""
    step = of.StepEnded(group, id, "clarify", "gpt", False, 0.5, of.Usage(90, 10), 0.001)
    failure = RejectedError("no") if failed else None
    return [of.GroupBegan(group), *[step] * steps, of.JobEnded(group, id, failure)]


def jobs(group: str, n: int) -> list[of.Event]:
    return [event for i in range(n) for event in job(group, f"q{i}")[1:]]


def part(progress: Progress, name: str) -> Any:
    (found,) = (one for one in progress.live()["parts"] if one["name"] == name)
    return found


def values(row: Any, *names: str) -> list[Any]:
    return [row[name] for name in names]


def test_ends_that_come_together_count_as_one_by_one() -> None:
    ends = [
        of.StepEnded("a", "q1", "clarify", "gpt", False, 0.5, of.Usage(90, 10), 0.001),
        of.StepEnded("b", "q7", "judge/gpt", "gpt", False, 0.5, of.Usage(30, 1), 0.002),
        of.StepEnded("a", "q1", "rewrite", "gpt", True, 0.0, of.Usage(), reused=True),
        of.StepEnded("a", "q1", "search/tool/1", "", False, 0.1, of.Usage()),
        of.JobEnded("a", "q1", None),
        of.JobEnded("b", "q7", RejectedError("no")),
    ]
    singly, together = made(("a", 10), ("b", 4)), made(("a", 10), ("b", 4))
    seen: list[of.Event] = []
    of.Events(together, seen.append).emit_ends(ends)
    emit(singly, *ends)
    assert seen == ends, "a subscriber that takes no batches gets each"
    assert together.live() == singly.live()
    names = ("n_done", "n_failed", "calls", "replayed", "reused", "tokens")
    assert values(part(together, "a"), *names) == [1, 0, 1, 0, 1, 100]
    assert values(part(together, "b"), *names) == [1, 1, 1, 0, 0, 31]
    assert together.live()["spent_usd"] == pytest.approx(0.003)


def test_ends_that_come_as_sums_count_as_one_by_one() -> None:
    ends = [
        of.StepEnded("a", "q1", "clarify", "gpt", False, 0.5, of.Usage(90, 10), 0.001),
        of.StepEnded("a", "q1", "rewrite", "gpt", True, 0.0, of.Usage(), reused=True),
        of.StepEnded("a", "q1", "answer/1", "ua", True, 0.0, of.Usage()),
        of.StepEnded("a", "q1", "search/tool/1", "", False, 0.1, of.Usage()),
        of.JobEnded("a", "q1", None),
        of.StepEnded("a", "q2", "clarify", "gpt", False, 0.5, of.Usage(30, 1), 0.002),
        of.JobEnded("a", "q2", RejectedError("no")),
        *jobs("a", 2),
    ]
    sums = of.EndedSums("a")
    for end in ends:
        if isinstance(end, of.StepEnded):
            sums.add_step(end)
        elif isinstance(end, of.JobEnded):
            sums.add_job(failed=end.failure is not None)
    clock = Clock()
    singly, together = made(("a", 10), clock=clock), made(("a", 10), clock=clock)
    emit(singly, of.GroupBegan("a"))
    emit(together, of.GroupBegan("a"))
    clock.now = 10.0
    emit(singly, *ends)
    assert of.Events(together).takes_sums
    assert not of.Events(together, [].append).takes_sums
    of.Events(together).emit_sums(sums)
    assert together.live() == singly.live()
    names = ("n_done", "n_failed", "calls", "replayed", "reused", "tokens")
    assert values(part(together, "a"), *names) == [4, 1, 4, 1, 1, 331]
    assert part(together, "a")["eta_s"] is not None


async def test_ends_are_held_back_for_one_turn_of_the_loop_and_come_in_order() -> None:
    seen: list[of.Event] = []
    events = of.Events(seen.append)
    first, second = of.JobEnded("a", "q1", None), of.JobEnded("a", "q2", None)
    events.emit_soon(first)
    events.emit_soon(second)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [first, second]
    # Another event does not overtake them, nor do ends that came together.
    notice, third = of.Notice("the provider answers again"), of.JobEnded("a", "q3", None)
    events.emit_soon(first)
    events.emit(notice)
    events.emit_soon(second)
    events.emit_ends([third])
    assert seen[2:] == [first, notice, second, third]
    await asyncio.sleep(0)
    events.flush()
    assert len(seen) == 6, "each comes once"


def test_events_are_counted_by_group_and_in_total() -> None:
    progress = made(("a", 10), ("b", 4))
    assert progress.begun == []
    emit(progress, of.JobsFound("a", 7, failed=2), *job("a", "q8", 2), *job("b", "q1", failed=True))
    emit(progress, of.StepEnded("b", "q2", "rewrite", "gpt", True, 0.0, of.Usage()))
    emit(progress, of.StepEnded("b", "q2", "search/tool/1", "", False, 0.1, of.Usage()))
    emit(progress, of.AttemptFailed("b", "q2", "answer/1", "gpt", "transient", "503", 1.0))
    emit(progress, of.AttemptFailed("b", "q2", "answer/1", "gpt", "transient", "503", None))
    live = progress.live()
    assert values(live, "n_done", "n_expected", "n_failed") == [9, 14, 3]
    assert values(live, "calls", "replayed", "retries", "tokens") == [3, 1, 1, 300]
    assert values(live, "started", "time") == [1_000.0, 1_000.0]
    names = ("n_done", "n_failed", "calls", "replayed", "retries")
    assert values(part(progress, "b"), *names) == [1, 1, 1, 1, 1]
    one = progress.live(["b"])
    assert [of_one["name"] for of_one in one["parts"]] == ["b"]
    assert values(one, "n_done", "n_expected", "calls") == [1, 4, 1]
    # What is spent is the command's.
    assert one["spent_usd"] == pytest.approx(0.003)


def test_time_left_is_known_after_three_instances() -> None:
    clock = Clock()
    progress = made(("a", 20), clock=clock)
    emit(progress, of.JobsFound("a", 10))
    for n in range(3):
        clock.now += 10.0
        assert part(progress, "a")["eta_s"] is None
        emit(progress, *job("a", f"q{n}", 4))
    # The first one began at 10 s. Two thirds of what happened since took 20 s for three instances; seven are left.
    assert part(progress, "a")["eta_s"] == pytest.approx(20.0 / 3 * 7)


def test_time_left_is_that_of_the_slowest_group() -> None:
    clock = Clock()
    progress = made(("a", 6), ("b", 3), clock=clock)
    emit(progress, of.GroupBegan("a"), of.GroupBegan("b"))
    clock.now = 6.0
    emit(progress, *jobs("a", 3))
    assert progress.live()["eta_s"] is None
    emit(progress, *jobs("b", 3))
    assert part(progress, "b")["eta_s"] == 0.0
    assert progress.live()["eta_s"] == pytest.approx(6.0)


def test_outage_does_not_count_towards_the_pace() -> None:
    clock = Clock()
    progress = made(("a", 10), clock=clock)
    emit(progress, of.GroupBegan("a"))
    clock.now = 6.0
    emit(progress, *jobs("a", 3), of.CircuitChanged("gpt", open=True, reason="503"))
    clock.now = 906.0
    assert part(progress, "a")["eta_s"] is None
    emit(progress, of.CircuitChanged("gpt", open=False, reason="back"))
    assert part(progress, "a")["eta_s"] == pytest.approx(14.0)  # seven of two seconds each


def test_mean_is_of_all_scores_of_the_first_judge() -> None:
    progress = made(("out, ernie", 10), ("out, gpt", 10))
    progress.add_scores("out, gpt", [10.0])
    assert values(progress.live(), "mean", "mean_high") == [None, None]
    progress.add_scores("out, ernie", [40.0])
    assert values(progress.live(), "mean", "mean_high") == [40.0, None]
    progress.add_scores("out, ernie", [50.0, 60.0])
    assert values(progress.live(), "n_scored", "mean") == [3, 50.0]
    assert values(progress.live(), "mean_low", "mean_high") == pytest.approx([25.16, 74.84], abs=0.01)


def test_group_names_the_provider_it_waits_for() -> None:
    progress = made(("orig", 2), ("gpt-k1", 2), ("done", 1))
    emit(progress, of.StepEnded("orig", "q1", "search/turn/1", "webdancer", False, 0.5, of.Usage()))
    emit(progress, of.AttemptFailed("gpt-k1", "q1", "answer/1", "ernie", "transient", "503", 1.0))
    emit(progress, *job("done", "q1"))
    for lane in ("ernie", "gpt"):
        emit(progress, of.CircuitChanged(lane, open=True, reason="503"))
    notes = {one["name"]: one["note"] for one in progress.live()["parts"]}
    assert notes == {"orig": "", "gpt-k1": "waiting for ernie", "done": ""}
    assert progress.live()["note"] == "waiting for ernie"
    emit(progress, of.GroupHeldUp("gpt-k1", "ernie"))
    assert values(part(progress, "gpt-k1"), "note", "eta_s") == ["held up: ernie is gone", None]


def test_budget_counts_all_sessions() -> None:
    progress = made(("a", 4))
    emit(progress, *job("a", "q1"), of.BudgetUsed(of.Cost(4, 6000, 0.52), 10, None, 2.0))
    live = progress.live()
    assert values(live, "spent_usd", "spent_calls", "spent_tokens") == [0.52, 4, 6000]
    assert values(live, "max_usd", "max_calls", "max_tokens") == [2.0, 10, None]


def test_notice_is_returned_once_and_old_ones_are_dropped() -> None:
    progress = made(("a", 4))
    emit(
        progress, *job("a", "q1"), of.LanePaused("gpt", 0.2), of.LanePaused("gpt", 12.0), of.Notice("line 3")
    )
    assert progress.notices() == ["gpt: rate limited (429), pausing 12 s", "line 3"]
    assert progress.notices() == []
    emit(progress, of.Stopping("interrupted"))
    assert progress.live()["note"] == "stopping: interrupted"
    emit(progress, *(of.Notice(str(n)) for n in range(MAX_NOTICES + 5)))
    assert progress.notices()[0] == "5"


STATUS = of.LaneStatus("gpt", 3, 2, 8, 0, 0.0, 600.0, None, 1, 0.0, 34.0, "HTTP 503", gone=False)


def test_lane_shows_its_status_and_rates() -> None:
    clock = Clock()
    progress, sent = made(("a", 4), clock=clock), 0
    emit(progress, of.LaneInUse("gpt", lambda: replace(STATUS, sent=sent, tokens=10.0 * sent)))
    for second in range(1, 121):  # five a second
        clock.now, sent = float(second), 5 * second
        (lane,) = progress.live()["lanes"]
    assert lane == {
        "name": "gpt",
        "in_flight": 3,
        "waiting": 2,
        "places": 8,
        "calls_per_min": 300,
        "calls_allowed": 600.0,
        "tokens_per_min": 3000.0,
        "tokens_allowed": None,
        "answers_429": 1,
        "paused_s": 0.0,
        "open_s": 34.0,
        "reason": "HTTP 503",
    }


def test_workers_show_their_status_and_rates() -> None:
    clock = Clock()
    progress, calls, names = made(("a", 4), clock=clock), 0, ["w1"]

    def ask() -> list[WorkerStatus]:
        return [WorkerStatus(name, "node-a", 7, "working", in_hand=3, ended=2, calls=calls) for name in names]

    assert "workers" not in progress.live()
    emit(progress, of.WorkersInUse(ask, n_workers=2, address="ray://head:10001"))
    for second in range(121):  # five a second
        clock.now, calls = float(second), 5 * second
        live = progress.live()
    (worker,) = live["workers"]
    assert values(worker, "name", "host", "pid", "state") == ["w1", "node-a", 7, "working"]
    assert values(worker, "in_hand", "done", "calls", "calls_per_min") == [3, 2, 600, 300]
    assert values(live, "workers_wanted", "cluster") == [2, "ray://head:10001"]
    names.append("w2")  # seen for the first time: what it did, it did just now
    clock.now = 121.0
    assert [one["calls_per_min"] for one in progress.live()["workers"]] == [295, 600]


# Arithmetic: growth in the last minute, running mean, time left


def test_growth_before_the_last_minute_is_excluded() -> None:
    sent = LastMinute(0.0, 0)
    for second in range(1, 301):  # two a second
        grown = sent.grown(float(second), 2 * second)
    assert grown == 120
    # A pause: nothing is added for a minute.
    assert sent.grown(360.0, 600) == 0


@pytest.mark.parametrize("df", [1, 2, 5, 10, 11, 12, 17, 30, 100, 10_000])
def test_student_t_quantile_matches_scipy(df: int) -> None:
    assert t_975(df) == pytest.approx(float(stdtrit(df, 0.975)), abs=2e-4)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=40), st.integers(0, 40))
def test_running_mean_does_not_depend_on_batches(scores: list[float], cut: int) -> None:
    at_once, in_parts = RunningMean(), RunningMean()
    at_once.add(scores)
    in_parts.add(scores[:cut])
    in_parts.add(scores[cut:])
    low, high = at_once.interval() or (0.0, 0.0)
    assert in_parts.interval() == (low, high)
    assert low <= at_once.mean <= high
    assert at_once.mean == pytest.approx(sum(scores) / len(scores))


def walked(pace: Pace, job: str, steps: int, *, replayed: int = 0) -> None:
    """A job of so many steps, the first `replayed` of them remembered, from its beginning to its end."""
    for n in range(steps):
        pace.stepped(job, replayed=n < replayed)
    pace.ended(job)


def begun(now: float = 0.0) -> Pace:
    pace = Pace()
    pace.began(now)
    return pace


def test_steps_of_active_jobs_shorten_time_left() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4)
    for _ in range(3):
        pace.stepped("under way", replayed=False)
    # 18 steps in 18 s; two jobs of 5 are left, 3 of their 10 steps are done.
    assert pace.left_s(2, 18.0) == pytest.approx(7.0)


def test_replayed_steps_do_not_count_towards_the_pace() -> None:
    pace = begun()
    for n in range(3):
        walked(pace, str(n), 4, replayed=3)
    # Of 15 steps 6 took 12 s: two seconds each; the four jobs that are left have 5 each.
    assert pace.left_s(4, 12.0) == pytest.approx(40.0)


def test_pace_follows_recent_rate() -> None:
    pace = begun()
    for second in range(1, 101):  # a job of two a second ...
        walked(pace, f"quick {second}", 1)
        pace.left_s(1000, float(second))
    for second in range(110, 301, 10):  # ... then one every ten seconds
        walked(pace, f"slow {second}", 1)
        left = pace.left_s(60, float(second))
    assert left == pytest.approx(600.0, rel=0.05)
