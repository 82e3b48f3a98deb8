"""This process and its children: isolated child processes without keys, open files, garbage collection, signals.

`python -m module` puts the current folder first on the module path, so an `argparse.py` in an untrusted folder would
be executed. `-P` (Python 3.11) leaves that entry out, and the child's `PYTHONPATH` is this process's module path
without relative entries, which would mean the current folder too.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

import anyio
import anyio.abc

from cts_async.engine.runner import interrupted
from cts_async.errors import CTSError, RunStopped, UsageError

PASSED_ON: Final = (
    *("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT"),  # to find programs and shared libraries
    *("HOME", "TMPDIR", "TEMP", "TMP"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ"),
)
"""The only environment variables that a child gets; none of them holds a key."""


def python_command(*arguments: str) -> list[str]:
    """Command line of this interpreter for `-m MODULE ...` or `SCRIPT ...`, with safe module path."""
    return [sys.executable, "-P", *arguments]


def child_environment(*names: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """A minimal environment for a child process: PASSED_ON, the variables in `names`, and the module path."""
    source = os.environ if environ is None else environ
    passed = {name: source[name] for name in (*PASSED_ON, *names) if name in source}
    modules = os.pathsep.join(entry for entry in sys.path if os.path.isabs(entry))
    return {**passed, "PYTHONPATH": modules, "PYTHONSAFEPATH": "1", "PYTHONUTF8": "1"}


LEAST: Final = 64
"""Open files that a run needs: measured, a run of two systems on the embedded model fails to start below 34."""
MORE_FILES: Final = "raise the limit (ulimit -n 1024) and run the same command again"


def allow_more_files(n: int) -> None:
    """Raise the process's limit of open files by `n`, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = soft + n if hard == resource.RLIM_INFINITY else min(soft + n, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def require_open_files() -> None:
    """Make sure that this process may have `LEAST` files open; UsageError where the system does not allow it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        allow_more_files(LEAST - soft)
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed < LEAST:
            raise UsageError(f"only {allowed} files may be open, and {LEAST} are needed: {MORE_FILES}")


GC_EVERY: Final = 20_000
"""New objects after which Python looks for cycles among the youngest; its default is 700."""


def collect_seldom() -> None:
    """Make garbage collection rare; called when everything is loaded, before work begins.

    Loaded modules stay, and what a call leaves behind has no cycles: searching for them as often as Python does by
    default takes a sixth of all CPU time (measured).
    """
    gc.freeze()
    gc.set_threshold(GC_EVERY)


# --- Signals
#
# The first Ctrl-C finishes what is in flight and writes everything, the second stops at once.
#
# SIGTERM counts as a Ctrl-C, and so does SIGHUP (the terminal was closed) unless it is ignored (nohup).


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a run."""
    hangs_up = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])]


class Stoppable(Protocol):
    """A Runner, or the head of a cluster."""

    def stop(self, reason: RunStopped) -> None:
        """Start nothing new; what is in flight is finished."""


class Stopper:
    """Turns signals into a stop of the runner it watches; cancels everything while there is none yet."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._runner: Stoppable | None = None
        self.signalled = False

    def watch(self, runner: Stoppable) -> None:
        self._runner = runner

    def signal(self) -> None:
        if self._runner is None or self.signalled:
            self._scope.cancel()
        else:
            self._runner.stop(interrupted())
        self.signalled = True


@asynccontextmanager
async def stoppable() -> AsyncIterator[Stopper]:
    """Run a block that signals can stop; raises Interrupted after it if a signal cut it short."""
    error: CTSError | None = None
    finished = False
    async with anyio.create_task_group() as group:
        stopper = Stopper(group.cancel_scope)
        if threading.current_thread() is threading.main_thread():
            await group.start(_listen, stopper)
        try:
            yield stopper
            finished = True
        except CTSError as raised:
            error = raised  # raised again outside, so that the task group does not wrap it
        group.cancel_scope.cancel()
    if error:
        raise error
    if not finished:
        raise interrupted()


async def _listen(
    stopper: Stopper, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    hung_up = False
    with _signal_queue() as signals:
        task_status.started()
        while True:
            number = await signals.get()
            repeated = number == signal.SIGHUP and hung_up  # terminal and shell both send one
            hung_up |= number == signal.SIGHUP
            if not repeated:
                stopper.signal()


@contextmanager
def _signal_queue() -> Iterator[asyncio.Queue[int]]:
    """Signals as they arrive, each once: uvloop's own handlers may deliver the second of two twice."""
    loop, signals = asyncio.get_running_loop(), asyncio.Queue[int]()

    def receive(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(signals.put_nowait, number)

    before = {number: signal.signal(number, receive) for number in stop_signals()}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
