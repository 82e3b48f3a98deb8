"""What a command is doing, from the events it emits: numbers worked out by hand, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cts_async.engine.events import (
    AttemptFailed,
    BudgetUsed,
    CircuitChanged,
    Cost,
    Event,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    JobsCounted,
    JobsFound,
    LaneInUse,
    LanePaused,
    LaneStatus,
    Notice,
    StepEnded,
    StepsCounted,
    Stopping,
    Usage,
    WorkersInUse,
)
from cts_async.engine.worker_status import WorkerStatus
from cts_async.errors import RejectedError
from cts_async.report.live import LivePart
from cts_async.report.progress import MAX_NOTICES, Progress, RunGroup

RUNS = Path("runs")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def doing(*totals: tuple[str, int], clock: Clock | None = None) -> Progress:
    works = [RunGroup(name, n, (RUNS / name,), RUNS / name / "results.jsonl") for name, n in totals]
    return Progress(works, clock=clock or Clock(), wall=lambda: 1_000.0 + (clock.now if clock else 0.0))


def emit(progress: Progress, *events: Event) -> None:
    for event in events:
        progress(event)


def job(group: str, id: str, steps: int = 1, *, failed: bool = False, lane: str = "gpt") -> Sequence[Event]:
    """A job's events: steps of 100 tokens for a tenth of a cent each."""
    step = StepEnded(group, id, "clarify", lane, False, 0.5, Usage(90, 10), 0.001)
    failure = RejectedError("no") if failed else None
    return [GroupBegan(group), *[step] * steps, JobEnded(group, id, None, failure)]


def part(progress: Progress, name: str) -> LivePart:
    (found,) = (one for one in progress.live()["parts"] if one["name"] == name)
    return found


def test_events_are_counted_by_group_and_in_total() -> None:
    progress = doing(("a", 10), ("b", 4))
    emit(progress, JobsFound("a", 7), *job("a", "q8", 2), *job("b", "q1", failed=True))
    emit(progress, StepEnded("b", "q2", "rewrite", "gpt", True, 0.0, Usage()))
    emit(progress, StepEnded("b", "q2", "search/tool/1", "", False, 0.1, Usage()))
    emit(progress, AttemptFailed("b", "q2", "answer/1", "gpt", "transient", "503", 1.0))
    emit(progress, AttemptFailed("b", "q2", "answer/1", "gpt", "transient", "503", None))
    live = progress.live()
    assert (live["n_done"], live["n_expected"], live["n_failed"]) == (9, 14, 1)
    assert (live["calls"], live["replayed"], live["retries"], live["tokens"]) == (3, 1, 1, 300)
    assert live["spent_usd"] == pytest.approx(0.003)
    one = part(progress, "b")
    assert (one["n_done"], one["n_failed"], one["calls"], one["replayed"], one["retries"]) == (1, 1, 1, 1, 1)


def test_directory_gets_its_own_groups() -> None:
    progress = doing(("a", 10), ("b", 4))
    emit(progress, *job("a", "q1", 2), *job("b", "q1"))
    live = progress.live(["b"])
    assert [one["name"] for one in live["parts"]] == ["b"]
    assert (live["n_done"], live["n_expected"], live["calls"]) == (1, 4, 1)
    # What is spent is the command's.
    assert live["spent_usd"] == pytest.approx(0.003)


def test_time_left_is_known_after_three_instances() -> None:
    clock = Clock()
    progress = doing(("a", 20), clock=clock)
    emit(progress, JobsFound("a", 10))
    for n in range(3):
        clock.now += 10.0
        assert part(progress, "a")["eta_s"] is None
        emit(progress, *job("a", f"q{n}", 4))
    # The first one began at 10 s. Two thirds of what happened since took 20 s for three instances; seven are left.
    assert part(progress, "a")["eta_s"] == pytest.approx(20.0 / 3 * 7)


def test_time_left_is_that_of_the_slowest_run() -> None:
    clock = Clock()
    progress = doing(("a", 6), ("b", 3), clock=clock)
    emit(progress, GroupBegan("a"), GroupBegan("b"))
    clock.now = 6.0
    emit(progress, *(event for n in range(3) for event in job("a", f"q{n}")[1:]))
    assert progress.live()["eta_s"] is None
    emit(progress, *(event for n in range(3) for event in job("b", f"q{n}")[1:]))
    assert part(progress, "b")["eta_s"] == 0.0
    assert progress.live()["eta_s"] == pytest.approx(6.0)


def test_scores_of_earlier_sessions_and_of_this_one_make_the_mean() -> None:
    progress = doing(("a", 10))
    assert (part(progress, "a")["mean"], part(progress, "a")["mean_high"]) == (None, None)
    progress.add_scores("a", [40.0])
    assert (part(progress, "a")["mean"], part(progress, "a")["mean_high"]) == (40.0, None)
    progress.add_scores("a", [50.0, 60.0])
    one, live = part(progress, "a"), progress.live()
    assert (one["n_scored"], one["mean"]) == (3, 50.0)
    assert (one["mean_low"], one["mean_high"]) == pytest.approx((25.16, 74.84), abs=0.01)
    assert (live["n_scored"], live["mean"], live["mean_low"]) == (3, 50.0, one["mean_low"])


def test_first_judge_gives_the_mean() -> None:
    progress = doing(("out, ernie", 2), ("out, gpt", 2))
    progress.add_scores("out, gpt", [10.0])
    assert progress.live()["mean"] is None
    progress.add_scores("out, ernie", [90.0])
    assert progress.live()["mean"] == 90.0


def test_run_names_the_provider_it_waits_for() -> None:
    progress = doing(("orig", 2), ("gpt-k1", 2))
    emit(progress, StepEnded("orig", "q1", "search/turn/1", "webdancer", False, 0.5, Usage()))
    emit(progress, AttemptFailed("gpt-k1", "q1", "answer/1", "ernie", "transient", "503", 1.0))
    assert (part(progress, "orig")["note"], part(progress, "gpt-k1")["note"]) == ("", "")
    emit(progress, CircuitChanged("ernie", open=True, reason="503"))
    assert (part(progress, "orig")["note"], part(progress, "gpt-k1")["note"]) == ("", "waiting for ernie")
    assert progress.live()["note"] == "waiting for ernie"
    emit(progress, CircuitChanged("ernie", open=False, reason="back"))
    assert part(progress, "gpt-k1")["note"] == ""


def test_outage_does_not_count_towards_the_pace() -> None:
    clock = Clock()
    progress = doing(("a", 10), clock=clock)
    emit(progress, GroupBegan("a"))
    clock.now = 6.0
    emit(progress, *(event for n in range(3) for event in job("a", f"q{n}")[1:]))
    emit(progress, CircuitChanged("gpt", open=True, reason="503"))
    clock.now = 906.0
    assert part(progress, "a")["eta_s"] is None
    emit(progress, CircuitChanged("gpt", open=False, reason="back"))
    assert part(progress, "a")["eta_s"] == pytest.approx(14.0)  # seven of two seconds each


def test_held_up_run_has_a_reason_and_no_time_left() -> None:
    progress = doing(("gpt-k1", 2))
    emit(progress, *job("gpt-k1", "q1", failed=True), CircuitChanged("ernie", open=True, reason="503"))
    emit(progress, GroupHeldUp("gpt-k1", "ernie"))
    one = part(progress, "gpt-k1")
    assert (one["note"], one["n_failed"], one["eta_s"]) == ("held up: ernie is gone", 1, None)


def test_budget_counts_all_sessions() -> None:
    progress = doing(("a", 4))
    emit(progress, *job("a", "q1"))
    emit(progress, BudgetUsed(Cost(4, 6000, 0.52), max_calls=10, max_tokens=None, max_usd=2.0))
    live = progress.live()
    assert (live["spent_usd"], live["spent_calls"], live["spent_tokens"]) == (0.52, 4, 6000)
    assert (live["max_usd"], live["max_calls"], live["max_tokens"]) == (2.0, 10, None)


def test_notice_is_returned_once() -> None:
    progress = doing(("a", 4))
    emit(
        progress,
        *job("a", "q1"),
        LanePaused("gpt", 0.2),
        LanePaused("gpt", 12.0),
        Notice("line 3 is damaged"),
    )
    assert progress.notices() == ["gpt: rate limited (429), pausing 12 s", "line 3 is damaged"]
    assert progress.notices() == []
    emit(progress, Stopping("interrupted"))
    assert progress.notices() == ["stopping: interrupted"]
    assert progress.live()["note"] == "stopping: interrupted"


def test_notices_without_a_display_are_limited() -> None:
    progress = doing(("a", 4))
    emit(progress, *(Notice(str(n)) for n in range(MAX_NOTICES + 5)))
    assert progress.notices()[0] == "5"


STATUS = LaneStatus(
    name="gpt",
    in_flight=3,
    waiting=2,
    places=8,
    sent=0,
    tokens=0.0,
    requests_per_min=600.0,
    tokens_per_min=None,
    answers_429=1,
    paused_s=0.0,
    probe_s=34.0,
    reason="HTTP 503",
    gone=False,
)


def test_lane_shows_its_status_and_rates() -> None:
    clock = Clock()
    progress, sent = doing(("a", 4), clock=clock), 0

    def ask() -> LaneStatus:
        return replace(STATUS, sent=sent, tokens=10.0 * sent)

    emit(progress, LaneInUse("gpt", ask))
    for second in range(1, 121):  # five a second
        clock.now, sent = float(second), 5 * second
        (lane,) = progress.live()["lanes"]
    assert (lane["calls_per_min"], lane["tokens_per_min"]) == (300, 3000.0)
    assert (lane["name"], lane["in_flight"], lane["waiting"], lane["places"]) == ("gpt", 3, 2, 8)
    assert (lane["calls_allowed"], lane["tokens_allowed"], lane["answers_429"]) == (600.0, None, 1)
    assert (lane["open_s"], lane["paused_s"], lane["reason"]) == (34.0, 0.0, "HTTP 503")


def test_bulk_events_count_like_single_events() -> None:
    progress = doing(("a", 10), ("b", 4))
    emit(progress, JobsFound("a", 1), StepsCounted("a", "gpt", 5, 2, 1, tokens=600, usd=0.25))
    emit(
        progress,
        StepsCounted("a", "", calls=3, retries=1),
        JobsCounted("a", 3, failed=1, executed=8, steps=10),
    )
    live, one = progress.live(), part(progress, "a")
    assert (one["n_done"], one["n_failed"], one["calls"], one["replayed"]) == (4, 1, 5, 2)
    assert (one["retries"], one["tokens"], live["spent_usd"]) == (2, 600, 0.25)
    assert [work.group for work in progress.begun] == ["a"]
    emit(progress, CircuitChanged("gpt", open=True, reason="503"))
    assert (part(progress, "a")["note"], part(progress, "b")["note"]) == ("waiting for gpt", "")


def test_workers_show_their_status_and_rates() -> None:
    clock = Clock()
    progress, calls, names = doing(("a", 4), clock=clock), 0, ["w1"]

    def ask() -> list[WorkerStatus]:
        return [WorkerStatus(name, "node-a", 7, "working", in_hand=3, ended=2, calls=calls) for name in names]

    assert "workers" not in progress.live()
    emit(progress, WorkersInUse(ask, wanted=2, address="ray://head:10001"))
    for second in range(121):  # five a second
        clock.now, calls = float(second), 5 * second
        live = progress.live()
    (worker,) = live["workers"]
    assert (worker["name"], worker["host"], worker["pid"], worker["state"]) == ("w1", "node-a", 7, "working")
    assert (worker["in_hand"], worker["done"], worker["calls"]) == (3, 2, 600)
    assert (worker["calls_per_min"], worker["heard_s"], worker["note"]) == (300, 0.0, "")
    assert (live["workers_wanted"], live["cluster"]) == (2, "ray://head:10001")
    names.append("w2")  # seen for the first time: what it did, it did just now
    clock.now = 121.0
    assert [one["calls_per_min"] for one in progress.live()["workers"]] == [295, 600]
