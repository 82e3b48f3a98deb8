"""Many workers give the files that one process gives, whoever is lost on the way."""

from __future__ import annotations

import asyncio
import functools
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_cluster import Cluster, Files, Killer, Link, World
from virtual_time import run_virtual

from cts_async.cluster import head as heads
from cts_async.cluster import worker as workers
from cts_async.cluster.head import Head, WorkerCrashed, WorkerLost
from cts_async.config import BudgetConfig
from cts_async.engine.events import (
    Events,
    GroupBegan,
    GroupHeldUp,
    JobEnded,
    LaneInUse,
    Notice,
    StepEnded,
    Stopping,
    WorkersInUse,
)
from cts_async.engine.runner import interrupted
from cts_async.errors import (
    BudgetSpent,
    DeadlineReached,
    Interrupted,
    ProviderRefused,
    RunStopped,
    StorageFull,
    UsageError,
)
from cts_async.protocol.versions import Reuse
from cts_async.watch.progress import Progress, RunGroup

Meanwhile = Callable[[Head], Awaitable[None]]


@functools.cache
def alone(n: int = 40, n_questions: int = 0, fail: frozenset[str] = frozenset()) -> Files:
    """What one process makes of the same jobs."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), World(fail=set(fail)), n, question=among(n_questions))
        run_virtual(cluster.run_alone)
        return cluster.files()


def among(n_questions: int) -> Callable[[int], int]:
    """Jobs that ask so many different questions in turn; 0 for each its own."""
    return lambda i: i % n_questions + 1 if n_questions else 0


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def assert_same_files(cluster: Cluster, other: Files) -> None:
    assert cluster.files() == other
    assert set(other.keys.values()) <= {1}, "every step stands there once"


def run(cluster: Cluster, workers: int = 3, meanwhile: Meanwhile | None = None) -> None:
    run_virtual(lambda: cluster.run(workers, meanwhile))


def notices(cluster: Cluster) -> list[str]:
    return [event.text for event in cluster.events if isinstance(event, Notice)]


def after(seconds: float, act: Callable[[Head], object]) -> Meanwhile:
    async def meanwhile(head: Head) -> None:
        await anyio.sleep(seconds)
        act(head)

    return meanwhile


def test_workers_write_the_files_of_one_process_and_are_counted_as_one_run(cluster: Cluster) -> None:
    cluster.group = lambda i: f"g{i % 2}"
    run(cluster)
    assert_same_files(cluster, alone())
    assert cluster.paid_twice() == 0
    (event,) = [event for event in cluster.events if isinstance(event, WorkersInUse)]
    entries = event.ask()
    assert [entry.state for entry in entries] == ["ended"] * 3
    assert len({entry.name for entry in entries}) == 3
    assert sum(entry.ended for entry in entries) == 40
    assert min(entry.ended for entry in entries) >= 8
    assert sum(entry.calls for entry in entries) == 160
    steps = [event for event in cluster.events if isinstance(event, StepEnded)]
    assert len(steps) == 160
    assert sum(event.usage.total for event in steps) == cluster.world.spent.tokens
    began = [event.group for event in cluster.events if isinstance(event, GroupBegan)]
    assert sorted(began) == ["g0", "g1"]
    (lane,) = [event for event in cluster.events if isinstance(event, LaneInUse)]
    assert lane.ask().sent == 160, "of all three workers"
    assert notices(cluster) == []


def test_failed_instances_have_result_lines_and_are_counted_and_shown(cluster: Cluster) -> None:
    progress = cluster.on_event = Progress([RunGroup("g", 40, ())])
    cluster.world.fail = {"i3", "i5"}
    run(cluster)
    assert_same_files(cluster, alone(fail=frozenset({"i3", "i5"})))
    ended = [event for event in cluster.events if isinstance(event, JobEnded)]
    assert len(ended) == 40
    failures = {event.job_id: event.failure for event in ended if event.failure}
    assert {id: (failure.step, str(failure)) for id, failure in failures.items()} == {
        "i3": ("c", "refused"),
        "i5": ("c", "refused"),
    }
    live = progress.live()
    assert (live["n_done"], live["n_failed"], live["calls"]) == (40, 2, 158)
    assert [worker["state"] for worker in live["workers"]] == ["ended"] * 3
    assert live["workers_wanted"] == 3
    assert [lane["name"] for lane in live["lanes"]] == ["lane"]


def test_question_that_occurs_several_times_is_paid_once(cluster: Cluster) -> None:
    cluster.question, cluster.n = among(5), 60
    run(cluster)
    assert cluster.paid_twice() == 0
    assert_same_files(cluster, alone(60, 5))


@pytest.mark.parametrize("n", [0, 40])
def test_run_with_nothing_left_to_do_starts_no_worker(cluster: Cluster, n: int) -> None:
    cluster.n = n
    run(cluster)
    begun = cluster.world.begun.total()
    run(cluster)
    assert cluster.links == []
    assert cluster.world.begun.total() == begun == 4 * n


# --- Steps of other runs


def origin_of(folder: Path, n_questions: int) -> Path:
    """A run of the first half of the jobs."""
    before = Cluster(folder / "before", n=20, question=among(n_questions))
    before.folder.mkdir()
    run_virtual(before.run_alone)
    (before.folder / "run.json").write_bytes(orjson.dumps({"identity": {"system": "s"}}))
    return before.folder


def beside(origin: Path, folder: Path, n_questions: int) -> Cluster:
    """A cluster beside a copy of another run, for all of the jobs."""
    shutil.copytree(origin, folder / origin.name)
    cluster = Cluster(folder / "now", n=40, question=among(n_questions))
    cluster.folder.mkdir()
    reuse = Reuse(folder)
    origins = reuse.origins([cluster.folder], Events())
    assert origins is not None
    cluster.source = reuse.source(origins, "s", sends_defaults=True)
    return cluster


@pytest.mark.parametrize("n_questions", [0, 5])
def test_workers_take_the_steps_of_other_runs_that_one_process_takes(
    tmp_path: Path, n_questions: int
) -> None:
    origin = origin_of(tmp_path, n_questions)
    alone = beside(origin, tmp_path / "alone", n_questions)
    cluster = beside(origin, tmp_path / "workers", n_questions)
    run_virtual(alone.run_alone)
    run(cluster, workers=2)
    assert_same_files(cluster, alone.files())
    # Of the other half a, b/1 and b/2 each, and c, which they share with the first half where there are questions.
    assert cluster.world.begun == alone.world.begun
    assert cluster.world.begun.total() == 20 * (3 if n_questions else 4)
    reused = [sorted(reused_lines(each.folder)) for each in (alone, cluster)]
    assert len(reused[0]) == len(alone.keys()) - alone.world.begun.total() > 60
    # Of equal questions the job that came first is named.
    if not n_questions:
        assert reused[1] == reused[0]
    assert len(reused[1]) == len(reused[0])
    ended = [event for event in cluster.events if isinstance(event, StepEnded)]
    assert sum(event.usage.total for event in ended) == cluster.world.spent.tokens
    assert sum(event.reused for event in ended) >= 80 - 20 * bool(n_questions)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_step_that_several_tasks_look_for_at_once_is_copied_once(tmp_path: Path, n_workers: int) -> None:
    """Everything is there in the other run: all tasks of a worker ask for the step of their question together."""
    cluster = beside(origin_of(tmp_path, 2), tmp_path / "workers", 2)
    cluster.n = cluster.width = 20
    run(cluster, n_workers)
    assert cluster.world.begun.total() == 0
    assert len(reused_lines(cluster.folder)) == len(cluster.keys()) == 20 * 3 + 2
    assert len(cluster.results()) == 20


def reused_lines(folder: Path) -> list[bytes]:
    return [
        line for line in (folder / "steps.jsonl").read_bytes().splitlines() if b'"reused":"before"' in line
    ]


# --- Losses


@settings(max_examples=15, deadline=None)
@given(
    times=st.lists(st.tuples(st.floats(0, 12), st.integers(0, 7)), min_size=1, max_size=8),
    n_questions=st.integers(0, 4),
    workers=st.integers(1, 4),
    delay_s=st.sampled_from([0.0, 0.01, 0.2]),
)
def test_killed_workers_lose_nothing_and_only_calls_in_flight_are_paid_twice(
    times: list[tuple[float, int]], n_questions: int, workers: int, delay_s: float
) -> None:
    """Beyond what was in flight. Workers are killed at any moment, all of them one after the other, too."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), n=30, delay_s=delay_s, question=among(n_questions))
        killer = Killer(cluster, times)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heads, "MAX_LOST", 99)
            run(cluster, workers, killer)
        assert_same_files(cluster, alone(30, n_questions))
        assert cluster.paid_twice() <= killer.in_flight


def test_lost_worker_is_replaced_and_its_tasks_are_given_to_others(cluster: Cluster) -> None:
    run(cluster, 2, Killer(cluster, [(1.5, 0)]))
    assert [link.name.partition("-")[0] for link in cluster.links] == ["w1", "w2", "w3"]
    (notice,) = notices(cluster)
    assert re.match(r"lost worker w1-.* \(killed\); \d+ tasks are given to others$", notice)
    (event,) = [event for event in cluster.events if isinstance(event, WorkersInUse)]
    assert [entry.state for entry in event.ask()] == ["lost", "ended", "ended"]


@pytest.mark.parametrize(
    ("harm", "reason"), [("hangs", "(no answer for 20 s)"), ("loses_update", "(connection reset)")]
)
def test_worker_that_does_not_answer_is_replaced(cluster: Cluster, harm: str, reason: str) -> None:
    in_flight = 0

    def strike(head: Head) -> None:
        nonlocal in_flight
        in_flight = cluster.links[0].under_way
        setattr(cluster.links[0], harm, True)

    run(cluster, 2, after(1.5, strike))
    assert_same_files(cluster, alone())
    assert reason in notices(cluster)[0]
    assert cluster.paid_twice() <= in_flight


def test_worker_that_ends_too_early_is_replaced(cluster: Cluster) -> None:
    in_flight = 0

    def close(head: Head) -> None:
        nonlocal in_flight
        in_flight = cluster.links[0].under_way
        cluster.links[0].worker._closed = True

    run(cluster, 2, after(1.5, close))
    assert_same_files(cluster, alone())
    assert "(it ended before its work was done)" in notices(cluster)[0]
    assert cluster.paid_twice() <= in_flight


def test_worker_that_has_ended_what_it_did_not_have_stops_the_run_which_is_resumed(cluster: Cluster) -> None:
    """With it in one update are tasks that have ended: they are done again."""

    def confuse(head: Head) -> None:
        cluster.links[0].worker._ended.seqs.append(99)

    with pytest.raises(
        RunStopped, match="w1-.* has ended tasks that it did not have. Completed work is saved"
    ):
        run(cluster, 2, after(1.5, confuse))
    run(cluster)
    assert_same_files(cluster, alone())


def test_five_workers_that_die_in_a_row_stop_the_run(cluster: Cluster) -> None:
    cluster.on_start = lambda link: asyncio.get_running_loop().call_later(0.1, link.kill) and None
    with pytest.raises(
        RunStopped, match=r"5 workers died in a row without finishing a task \(last error: killed\)"
    ):
        run(cluster, 1)
    assert len(cluster.links) == 5


def test_worker_that_cannot_be_started_is_tried_five_times(cluster: Cluster) -> None:
    async def start_worker(setup: object) -> Link:
        tried.append(setup)
        raise WorkerLost("no room")

    tried: list[object] = []
    cluster._start_worker = start_worker  # type: ignore[method-assign]
    with pytest.raises(RunStopped, match="no room"):
        run(cluster, 1)
    assert len(tried) == 5


def test_workers_that_never_start_hold_up_nobody(cluster: Cluster) -> None:
    original = cluster._start_worker

    async def start_worker(setup: Any) -> Link:
        if setup.worker.startswith(("w2", "w3")):
            await asyncio.Event().wait()
        return await original(setup)

    cluster._start_worker = start_worker  # type: ignore[method-assign]
    run(cluster)
    assert_same_files(cluster, alone())
    assert notices(cluster) == []


def test_worker_waits_for_a_head_that_was_suspended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    original = Link.turn

    async def late(self: Link, turn: Any) -> Any:
        if self.turns == 3 and not slept:
            slept.append(30.0)
            await asyncio.sleep(30.0)
        return await original(self, turn)

    monkeypatch.setattr(Link, "turn", late)
    monkeypatch.setattr(heads, "TURN_TIMEOUT_S", 60.0)
    run(cluster, 1)
    assert_same_files(cluster, alone())
    assert (slept, notices(cluster), cluster.paid_twice()) == ([30.0], [], 0)


# --- Stops


def test_stopped_run_finishes_calls_in_flight_and_is_resumed(cluster: Cluster) -> None:
    with pytest.raises(Interrupted):
        run(cluster, 3, after(2.0, lambda head: head.stop(interrupted())))
    assert 0 < len(cluster.results()) < 40
    assert cluster.world.begun == cluster.world.done
    assert cluster.keys().total() == cluster.world.done.total(), "all of it is on record"
    assert [event for event in cluster.events if isinstance(event, Stopping)] == [
        Stopping(str(interrupted()))
    ]
    run(cluster)
    assert_same_files(cluster, alone())
    assert cluster.paid_twice() == 0


def test_killed_head_is_resumed_by_the_same_command(cluster: Cluster) -> None:
    in_flight = 0

    async def killed() -> None:
        nonlocal in_flight
        running = asyncio.ensure_future(cluster.run(3))
        await asyncio.sleep(3.0)
        in_flight = sum(link.under_way for link in cluster.links)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_virtual(killed)
    run(cluster)
    assert_same_files(cluster, alone())
    assert cluster.paid_twice() <= in_flight


def test_provider_gone_for_one_group_does_not_stop_the_other(cluster: Cluster) -> None:
    """The lane stops with it in the worker that meets it; another lane is left there for the others."""
    cluster.group = lambda i: "odd" if i % 2 else "even"
    cluster.lane = lambda group: group
    cluster.world.gone = {"odd": ProviderRefused("bad key")}
    with pytest.raises(ProviderRefused, match="bad key"):
        run(cluster)
    done = set(cluster.results())
    assert len(done) == 20
    assert [event for event in cluster.events if isinstance(event, GroupHeldUp)] == [
        GroupHeldUp("odd", "odd")
    ]
    assert notices(cluster) == ["bad key; systems that do not use this provider continue"]


def test_job_that_another_worker_ends_after_its_provider_is_gone_has_a_result(cluster: Cluster) -> None:
    cluster.group = lambda i: "odd" if i % 2 else "even"
    cluster.lane = lambda group: group

    def refuse_one(label: str, n: int) -> None:
        if label == "i1/c":
            raise ProviderRefused("bad key")

    cluster.world.act = refuse_one
    with pytest.raises(ProviderRefused, match="bad key"):
        run(cluster)
    done = {label.removesuffix("/c") for label in cluster.world.done if label.endswith("/c")}
    assert {orjson.loads(line)["id"] for line in cluster.results()} == done
    assert any(int(id[1:]) % 2 for id in done), "some of the group that is held up"


def test_provider_gone_for_all_groups_stops_the_run(cluster: Cluster) -> None:
    cluster.world.gone = {"g": ProviderRefused("bad key")}
    with pytest.raises(ProviderRefused, match="bad key"):
        run(cluster)
    assert cluster.results() == []
    assert cluster.world.begun.total() <= 12, "one each of the four under way in each"


def test_bug_in_a_worker_stops_the_run_with_its_traceback(cluster: Cluster) -> None:
    cluster.world.bug = "i7"
    with pytest.raises(WorkerCrashed, match="ZeroDivisionError: a bug"):
        run(cluster)


def test_worker_of_another_version_stops_the_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "__version__", "0.0.1")
    with pytest.raises(
        UsageError, match=r"has cts_async 0\.0\.1, this machine has .*: install the same version"
    ):
        run(cluster)


def test_worker_without_a_key_stops_the_run_and_another_machine_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.refused = "no OPENAI_API_KEY"
    with pytest.raises(UsageError, match="^no OPENAI_API_KEY$"):
        run(cluster)
    monkeypatch.setattr(heads, "gethostname", lambda: "here")
    with pytest.raises(UsageError, match=f"^{socket.gethostname()}: no OPENAI_API_KEY$"):
        run(cluster)
    assert cluster.world.begun.total() == 0


def fails_on_replacement(link: Link, *, only: str = "") -> None:
    """A worker that takes a lost one's place finds no key, and the first dies soon."""
    number = link.name.partition("-")[0]
    if number in ("w1", only):
        asyncio.get_running_loop().call_later(1.0, link.kill)
    elif number not in ("w2", "w3") or only:
        link.worker._setup.work.refused = "no key here"  # type: ignore[attr-defined]


def test_replacement_that_cannot_work_is_reported_and_others_continue(cluster: Cluster) -> None:
    cluster.on_start = fails_on_replacement
    run(cluster)
    assert_same_files(cluster, alone())
    assert "no key here; the other workers continue" in notices(cluster)


def test_run_without_any_worker_left_stops(cluster: Cluster) -> None:
    cluster.on_start = functools.partial(fails_on_replacement, only="w1")
    with pytest.raises(RunStopped, match="no worker is left. Completed work is saved"):
        run(cluster, 1)
    cluster.on_start = lambda link: None
    run(cluster)
    assert_same_files(cluster, alone())


@pytest.mark.parametrize("n_before", [0, 1, 20])
def test_input_that_breaks_off_stops_the_run_when_what_came_before_is_done(
    cluster: Cluster, n_before: int
) -> None:
    """Also where nothing is left to do by the time it is met."""
    original = cluster.tasks

    def broken(files: Any) -> Any:
        for task in original(files):
            if task.seq == n_before:
                raise RunStopped("the file has changed")
            yield task

    cluster.tasks = broken  # type: ignore[method-assign]
    with pytest.raises(RunStopped, match="the file has changed"):
        run(cluster)
    assert {orjson.loads(line)["id"] for line in cluster.results()} == {f"i{i}" for i in range(n_before)}


# --- Files that cannot be written, and budgets


def refusing(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
    """From the third time on the disk is full for `method`."""
    original, times = getattr(owner, method), [0]

    async def full(self: Any, *args: Any) -> None:
        times[0] += 1
        if times[0] >= 3:
            raise StorageFull("no space; type the same command again")
        await original(self, *args)

    monkeypatch.setattr(owner, method, full)


@pytest.mark.parametrize("method", ["_append", "_write"])
def test_full_disk_of_the_head_stops_the_run_and_pays_nothing_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """But what was on its way to the head."""
    with monkeypatch.context() as patch:
        refusing(patch, Head, method)
        with pytest.raises(StorageFull, match="no space"):
            run(cluster)
    recorded = cluster.keys().total()
    lost = cluster.world.begun.total() - recorded
    run(cluster)
    assert_same_files(cluster, alone())
    assert cluster.paid_twice() <= lost


@pytest.mark.parametrize("workers", [1, 3])
def test_budget_of_calls_is_used_to_the_full_by_all_workers(cluster: Cluster, workers: int) -> None:
    """50 calls of the 160."""
    cluster.budget = BudgetConfig(max_calls=50)
    with pytest.raises(BudgetSpent, match="50 of --max-calls 50"):
        run(cluster, workers)
    assert cluster.world.begun.total() == 50
    assert cluster.keys().total() == 50
    cluster.budget = BudgetConfig()
    run(cluster, workers)
    assert_same_files(cluster, alone())
    assert cluster.paid_twice() == 0


def test_deadline_stops_all_workers(cluster: Cluster) -> None:
    """Three virtual seconds from now; the wall clock says when a worker is told."""
    cluster.budget = BudgetConfig(deadline=time.time() + 3.0)
    with pytest.raises(DeadlineReached, match="completed work is saved"):
        run(cluster)
    assert 0 < len(cluster.results()) < 40
    cluster.budget = BudgetConfig()
    run(cluster)
    assert_same_files(cluster, alone())


def test_task_that_kills_every_worker_is_done_last(cluster: Cluster) -> None:
    def act(label: str, n: int) -> None:
        if label == "i7/b1":
            asyncio.get_running_loop().call_soon(cluster.links[-1].kill)

    cluster.world.act = act
    with pytest.raises(RunStopped, match="5 workers died in a row"):
        run(cluster, 1)
    assert cluster.results() == [line for line in alone().results if b'"i7"' not in line]
    assert len(cluster.links) <= 20
    assert notices(cluster)[-1].endswith("(killed); i7 is given to others"), "it is named"
