"""Work in a process of its own, so that somebody is left to say so when a library ends it.

Ray ends the process of its driver, in the middle of anything, where it has lost its daemons in a bad moment.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from typing import Final, NoReturn

from cts_async.engine.signals import HEARD, PASSED_ON, stop_signals
from cts_async.errors import RunStopped, UsageError

Tell = Callable[[RunStopped | None], None]
"""Why the work ended early, if it did: from then on that is what it came to, however its process ends."""
LOOK_EVERY_S: Final = 1.0
"""Should another thread be told of the child's end, this one sees it by then."""
_PR_SET_PDEATHSIG: Final = 1


class Vanished(Exception):
    """The process ended without having told anything; `str()` says how, as in "ended with exit code 1"."""


def apart(work: Callable[[Tell], None]) -> RunStopped | None:
    """What `work(tell)` tells, called in a process that is forked from this one; to be used in the main thread.

    Raises what it raises, and Vanished. What stops a run (`stop_signals`) counts once, whether it was sent to this
    process, to the other or, as by a terminal, to both. The other does not outlive this one.
    """
    if sys.platform != "linux":  # libraries of other systems may not bear to be forked
        return _here(work)
    told = os.memfd_create("told")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        stops = stop_signals()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*stops, PASSED_ON, signal.SIGCHLD})
        parent, child = os.getpid(), os.fork()
        if child == 0:
            _be_the_other(parent, before, work, told)
        try:
            status = _waited_for(child, stops)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return _heard(told, status)
    finally:
        os.close(told)


def _here(work: Callable[[Tell], None]) -> RunStopped | None:
    told: list[RunStopped | None] = []
    work(told.append)
    return told[0]


# --- The process that waits


def _waited_for(child: int, stops: Collection[int]) -> int:
    """How it ended. Until then what is to stop the run is passed on; the end of the terminal is told by many, and once.

    Signals are blocked and waited for: a handler that is due just before a process waits for another runs too late.
    """
    hung_up = False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        came = signal.sigtimedwait({*stops, signal.SIGCHLD}, LOOK_EVERY_S)
        if came is None or came.si_signo == signal.SIGCHLD or (came.si_signo == signal.SIGHUP and hung_up):
            continue
        hung_up |= came.si_signo == signal.SIGHUP
        os.kill(child, PASSED_ON)


def _heard(told: int, status: int) -> RunStopped | None:
    os.lseek(told, 0, os.SEEK_SET)
    with os.fdopen(told, "rb", closefd=False) as file:
        said = file.read()
    if said:
        stopped, error = pickle.loads(said)
        if error is not None:
            raise error
        return RunStopped(stopped) if stopped else None
    code = os.waitstatus_to_exitcode(status)
    raise Vanished(
        f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
    )


# --- The process that works


def _be_the_other(
    parent: int, mask: set[int | signal.Signals], work: Callable[[Tell], None], told: int
) -> NoReturn:
    """What becomes of files, threads and libraries at the end of a process is for the one that waits."""

    def tell(stopped: RunStopped | None) -> None:
        _say(told, None if stopped is None else str(stopped), None)

    try:
        _hear_stops()
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        work(tell)
    except BaseException as error:
        _say(told, None, _portable(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _say(told: int, stopped: str | None, error: BaseException | None) -> None:
    """The first word counts: what goes wrong afterwards, when Ray is left, changes nothing."""
    if os.lseek(told, 0, os.SEEK_END) == 0:
        os.write(told, pickle.dumps((stopped, error)))


def _hear_stops() -> None:
    """Until there is a loop that listens, what stops a run raises KeyboardInterrupt here, as Ctrl-C does."""

    def hear(number: int, frame: object) -> None:
        if HEARD.another(number):
            raise KeyboardInterrupt

    for number in (*stop_signals(), PASSED_ON):
        signal.signal(number, hear)


def _end_with(parent: int) -> None:
    """Have this process killed when the one that waits for it ends, or now, if it has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _portable(error: BaseException) -> BaseException:
    """An error as it can be raised again in another process; a bug brings its traceback along as a note."""
    if isinstance(error, RunStopped | UsageError):  # some of them cannot be made of their text alone
        return (RunStopped if isinstance(error, RunStopped) else UsageError)(str(error))
    there = traceback.format_exc()
    if not isinstance(error, KeyboardInterrupt):
        error.add_note(there)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever the class of an error may think of
        return RuntimeError(there)
    return error
