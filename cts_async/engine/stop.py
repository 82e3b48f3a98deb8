"""Ctrl-C: once finishes what is in flight and writes everything, twice stops now.

SIGTERM counts as one, and so does SIGHUP, the end of the terminal, unless somebody had it ignored (nohup).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.abc

from cts_async.engine.runner import interrupted
from cts_async.errors import CTSError, RunStopped


class Stoppable(Protocol):
    """Whoever works: a Runner, or the head of many."""

    def stop(self, reason: RunStopped) -> None:
        """Start nothing new; what is in flight is finished."""


class Stopper:
    """Turns signals into a stop of the runner it watches, or of everything while there is none yet."""

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
    """Run a block that signals can stop; raises Interrupted after it if one cut it short."""
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
    heard, hung_up = [signal.SIGINT, signal.SIGTERM], False
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    with anyio.open_signal_receiver(*heard) as signals:
        task_status.started()
        async for number in signals:
            if not (number == signal.SIGHUP and hung_up):  # the shell repeats what the terminal says
                stopper.signal()
            hung_up |= number == signal.SIGHUP
