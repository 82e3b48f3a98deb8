"""Work in a process of its own: what it came to, how it may end, and who hears what is to stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from cts_async.cluster.apart import Tell, Vanished, apart
from cts_async.engine.signals import PASSED_ON, stoppable
from cts_async.errors import BudgetSpent, InputError, RunStopped, StorageFull, UsageError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


@pytest.mark.alone
def test_what_the_work_came_to_is_told_from_another_process() -> None:
    apart_from = os.getpid()

    def work(tell: Tell) -> None:
        tell(None if os.getpid() == apart_from else RunStopped("far away"))

    assert str(apart(work)) == "far away"
    assert apart(lambda tell: tell(None)) is None


@pytest.mark.alone
def test_a_reason_that_cannot_be_made_of_its_text_arrives_all_the_same() -> None:
    spent = BudgetSpent("3 of 3 calls", line="calls", limit=3, spent=3, next=1)
    assert str(apart(lambda tell: tell(spent))) == "3 of 3 calls"


def raising(error: BaseException) -> Callable[[Tell], None]:
    def work(tell: Tell) -> None:
        raise error

    return work


@pytest.mark.alone
def test_an_error_comes_out_with_its_words_and_its_exit_code() -> None:
    with pytest.raises(UsageError, match=r"^gold.jsonl:3: no id$"):
        apart(raising(InputError("gold.jsonl", "no id", line=3)))
    with pytest.raises(RunStopped, match="^no room$"):
        apart(raising(StorageFull("no room")))
    with pytest.raises(KeyboardInterrupt):
        apart(raising(KeyboardInterrupt()))
    with pytest.raises(FileNotFoundError) as gone:
        apart(lambda tell: print(Path("/nowhere").read_text()))
    assert gone.value.filename == "/nowhere"


class Odd(Exception):
    """One that pickle cannot make again."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one)


@pytest.mark.alone
def test_a_bug_says_where_it_is() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        apart(lambda tell: print(1 // 0))
    assert "test_apart.py" in raised.value.__notes__[0]
    with pytest.raises(RuntimeError, match=r"(?s)test_apart\.py.*Odd: one"):
        apart(raising(Odd("one", "other")))


@pytest.mark.alone
@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(1), "ended with exit code 1"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
    ],
)
def test_a_process_that_ends_without_a_word_has_vanished(end: Callable[[], None], how: str) -> None:
    with pytest.raises(Vanished, match=f"^{how}$"):
        apart(lambda tell: end())


@pytest.mark.alone
def test_what_was_told_counts_however_the_process_ends() -> None:
    def work(tell: Tell) -> None:
        tell(RunStopped("enough"))
        os._exit(1)

    def stumbling(tell: Tell) -> None:
        tell(None)
        raise KeyError("on the way out")

    assert str(apart(work)) == "enough"
    assert apart(stumbling) is None


@pytest.mark.alone
def test_a_stop_that_is_passed_on_late_is_none() -> None:
    async def stopped() -> None:
        async with stoppable():
            os.kill(os.getpid(), signal.SIGINT)
            await anyio.sleep_forever()

    def work(tell: Tell) -> None:
        try:
            anyio.run(stopped)
        finally:
            os.kill(os.getpid(), PASSED_ON)

    with pytest.raises(RunStopped, match="interrupted"):
        apart(work)


WORKING = """
import os, sys, time
import anyio
from cts_async.cluster.apart import apart
from cts_async.engine.signals import stoppable

class Told:
    def stop(self, reason):
        print("stopping", flush=True)

async def main():
    async with stoppable() as stopper:
        stopper.watch(Told())
        print(os.getpid(), flush=True)
        await anyio.sleep_forever()

def in_a_loop(tell):
    anyio.run(main, backend_options={"use_uvloop": True})

def without_one(tell):
    try:
        print(os.getpid(), flush=True)
        time.sleep(60)
    finally:
        print("leaving", flush=True)
        time.sleep(0.5)  # a signal that is told twice would cut it short
        print("left", flush=True)

try:
    apart({"loop": in_a_loop, "none": without_one}[sys.argv[1]])
except BaseException as error:
    print(type(error).__name__, flush=True)
"""


@contextmanager
def at_work(how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that waits for another, in a group of their own, and the other's number."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKING, how], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as waiting:
        try:
            assert waiting.stdout
            yield waiting, int(waiting.stdout.readline())
        finally:
            waiting.kill()


def line(waiting: subprocess.Popen[str]) -> str:
    assert waiting.stdout
    return waiting.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to", ["who waits", "who works", "both"])
def test_a_stop_counts_once_whoever_hears_it_and_a_second_one_counts(to: str, number: signal.Signals) -> None:
    with at_work("loop") as (waiting, working):
        for heard in ("stopping", "RunStopped"):
            if to == "both":
                os.killpg(waiting.pid, number)
            else:
                os.kill(waiting.pid if to == "who waits" else working, number)
            assert line(waiting) == heard
            number = signal.SIGINT  # of hang-ups only the first counts


def test_a_stop_before_there_is_a_loop_interrupts_once() -> None:
    with at_work("none") as (waiting, _):
        os.killpg(waiting.pid, signal.SIGINT)
        assert [line(waiting) for _ in range(3)] == ["leaving", "left", "KeyboardInterrupt"]


def test_nobody_outlives_the_one_that_waits() -> None:
    with at_work("loop") as (waiting, working):
        waiting.kill()
        assert line(waiting) == ""  # nobody holds the other end any more
        assert not is_running(working)


def is_running(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True
