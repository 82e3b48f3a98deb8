"""Real signals to a real process: one finishes what is in flight, two stop now."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from cts_async.engine import signals
from cts_async.engine.journal import read_records
from cts_async.engine.processes import IS_COMMAND
from cts_async.engine.runner import Runner
from cts_async.engine.signals import stoppable
from cts_async.errors import EXIT_RESUMABLE, Interrupted, StorageFull

CHILD = """
import sys
from pathlib import Path
import anyio
from cts_async.engine.events import Events, Stopping
from cts_async.engine.processes import IS_COMMAND
from cts_async.engine.journal import Journal
from cts_async.engine.runner import Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.engine import signals
from cts_async.engine.signals import stoppable
from cts_async.errors import CTSError

signals.GRACE_S = 0.2
IS_COMMAND.set(True)
path, seconds, watched = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "watched"
started = 0

async def execute(problem):
    global started
    started += 1
    if started == 3:
        print("in flight", flush=True)
    while "stubborn" in sys.argv:
        try:
            await anyio.sleep(seconds)
        except BaseException:
            pass
    await anyio.sleep(seconds)
    return Executed("done")

async def walk(ctx):
    for name in ("a", "b"):
        await ctx.step(Step(name, step_key(ctx.job.id, name), execute, str))

async def finish(result):
    print("finished", flush=True)

def tell(event):
    if isinstance(event, Stopping):
        print("stopping", flush=True)

async def main():
    async with stoppable() as stopper:
        journal = Journal(path)
        try:
            runner = Runner(events=Events(tell))
            if watched:
                stopper.stop = runner.stop
            await runner.run(Job("g", f"q{n}", journal, walk, finish) for n in range(3))
        finally:
            journal.close()
            print("closed", flush=True)

try:
    anyio.run(main, backend_options={"use_uvloop": "uvloop" in sys.argv})
except CTSError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(error.exit_code)
"""

INTERRUPTED = "Interrupted: interrupted; completed work is saved, the same command resumes\n"
LONG = 50.0


@contextmanager
def running(
    path: Path, seconds: float, watched: str = "watched", loop: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A process with three steps in flight, each of which takes `seconds`."""
    command = [sys.executable, "-c", CHILD, str(path), str(seconds), watched, loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "in flight\n"
            yield child
        finally:
            child.kill()


def ended(child: subprocess.Popen[str]) -> tuple[str, int]:
    """What it said until it ended, and its exit code; nothing may be on stderr."""
    out, err = child.communicate(timeout=10)
    assert err == ""
    return out, child.returncode


@pytest.mark.parametrize(
    ("number", "loop"),
    [(signal.SIGINT, ""), (signal.SIGINT, "uvloop"), (signal.SIGTERM, "uvloop"), (signal.SIGHUP, "")],
)
def test_one_signal_finishes_what_is_in_flight_and_starts_nothing(
    tmp_path: Path, number: signal.Signals, loop: str
) -> None:
    path = tmp_path / "steps.jsonl"
    with running(path, 0.5, loop=loop) as child:
        child.send_signal(number)
        assert ended(child) == ("stopping\nclosed\n" + INTERRUPTED, EXIT_RESUMABLE)
    assert sorted((one["instance"], one["step"], one["ok"]) for one in read_records(path)) == [
        ("q0", "a", True),
        ("q1", "a", True),
        ("q2", "a", True),
    ]


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_stop_now(tmp_path: Path, second: signal.Signals) -> None:
    path = tmp_path / "steps.jsonl"
    with running(path, LONG) as child:
        child.send_signal(signal.SIGINT)
        assert child.stdout
        assert child.stdout.readline() == "stopping\n"
        began = time.monotonic()
        child.send_signal(second)
        assert ended(child) == ("closed\n" + INTERRUPTED, EXIT_RESUMABLE)
        assert time.monotonic() - began < 5
    assert path.read_bytes() == b""


def test_two_signals_end_what_catches_its_cancellation(tmp_path: Path) -> None:
    with running(tmp_path / "steps.jsonl", LONG, loop="stubborn") as child:
        child.send_signal(signal.SIGINT)
        assert child.stdout
        assert child.stdout.readline() == "stopping\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=10)
    assert (out, err, child.returncode) == ("", "cts: " + INTERRUPTED.partition(": ")[2], EXIT_RESUMABLE)


def test_repeated_hangup_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    with running(path, 0.5) as child:
        child.send_signal(signal.SIGHUP)
        assert child.stdout
        assert child.stdout.readline() == "stopping\n"
        child.send_signal(signal.SIGHUP)
        assert ended(child) == ("closed\n" + INTERRUPTED, EXIT_RESUMABLE)
    assert len(list(read_records(path))) == 3


def test_one_signal_stops_now_while_there_is_nothing_to_finish(tmp_path: Path) -> None:
    with running(tmp_path / "steps.jsonl", LONG, "unwatched") as child:
        child.send_signal(signal.SIGINT)
        assert ended(child) == ("closed\n" + INTERRUPTED, EXIT_RESUMABLE)


# --- the block itself


async def test_errors_of_the_block_come_out() -> None:
    with pytest.raises(StorageFull, match="no room"):
        async with stoppable():
            raise StorageFull("no room")
    with pytest.raises(ExceptionGroup) as raised:
        async with stoppable():
            raise KeyError("a bug")
    assert raised.group_contains(KeyError)


def test_the_second_call_cancels_even_a_runner_that_waits() -> None:
    async def main() -> None:
        async with stoppable() as stopper:
            runner = Runner()
            stopper.stop = runner.stop
            stopper.signal()
            assert isinstance(runner.stopped, Interrupted)
            await anyio.lowlevel.checkpoint()  # the first one cancels nothing
            stopper.signal()
            await anyio.sleep_forever()

    with pytest.raises(Interrupted):
        anyio.run(main)


@pytest.mark.parametrize("is_command", [False, True])
def test_only_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, is_command: bool) -> None:
    exited = threading.Event()
    monkeypatch.setattr(signals, "GRACE_S", 0.01)
    monkeypatch.setattr(signals, "_exit", exited.set)

    async def main() -> None:
        IS_COMMAND.set(is_command)
        async with stoppable() as stopper:
            stopper.stop = Runner().stop
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert exited.wait(0.1) is is_command
            await anyio.sleep_forever()

    with pytest.raises(Interrupted):
        anyio.run(main)


def test_outside_the_main_thread_it_runs_without_listening() -> None:
    results: list[int] = []

    async def main() -> None:
        async with stoppable():
            results.append(1)

    thread = threading.Thread(target=anyio.run, args=(main,))
    thread.start()
    thread.join(10)
    assert results == [1]
