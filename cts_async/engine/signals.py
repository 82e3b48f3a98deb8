"""Signals: the first Ctrl-C finishes what is in flight and writes everything, the second stops at once.

SIGTERM counts as a Ctrl-C, and so does SIGHUP (the terminal was closed) unless it is ignored (nohup).
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
import anyio.abc

from cts_async.engine.processes import IS_COMMAND
from cts_async.engine.runner import interrupted
from cts_async.errors import EXIT_RESUMABLE, CTSError, RunStopped

GRACE_S: Final = 5.0
"""For a command to end after the second signal; programs that play its roles are given 2 s twice to end."""


class Stopper:
    """Turns the first signal into a call of `stop`, of a runner or a cluster's head; any other cancels everything."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._signalled = False
        self.stop: Callable[[RunStopped], None] | None = None
        """Starts nothing new, and lets what is in flight finish; None while there is nothing to stop yet."""
        # A thread: what blocks the loop, or catches its cancellation, could keep a command alive for ever.
        self.last_resort = threading.Timer(GRACE_S, _exit)
        self.last_resort.daemon = True

    def signal(self) -> None:
        if self.stop is None or self._signalled:
            self._scope.cancel()
        else:
            self.stop(interrupted())
        self._signalled = True


_running: Final[dict[Stopper, asyncio.AbstractEventLoop]] = {}
"""What runs in threads that get no signals."""


def interrupt() -> None:
    """Stop what runs in other threads as a signal would."""
    for stopper, loop in list(_running.items()):
        loop.call_soon_threadsafe(stopper.signal)


@asynccontextmanager
async def stoppable() -> AsyncIterator[Stopper]:
    """Run a block that signals can stop; raises Interrupted after it if a signal cut it short."""
    error: CTSError | None = None
    finished = False
    async with anyio.create_task_group() as group:
        stopper = Stopper(group.cancel_scope)
        if threading.current_thread() is threading.main_thread():
            await group.start(_listen, stopper)
        _running[stopper] = asyncio.get_running_loop()
        try:
            yield stopper
            finished = True
        except CTSError as raised:
            error = raised  # raised again outside, so that the task group does not wrap it
        finally:
            del _running[stopper]
            stopper.last_resort.cancel()
        group.cancel_scope.cancel()
    if error:
        raise error
    if not finished:
        raise interrupted()


async def _listen(
    stopper: Stopper, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    on_second = None
    if IS_COMMAND.get():
        on_second = stopper.last_resort.start
    with _signal_queue(on_second) as signals:
        task_status.started()
        while True:
            await signals.get()
            stopper.signal()


@contextmanager
def _signal_queue(on_second: Callable[[], None] | None) -> Iterator[asyncio.Queue[int]]:
    """Signals as they arrive, each once: uvloop's own handlers may deliver the second of two twice."""
    loop, signals = asyncio.get_running_loop(), asyncio.Queue[int]()
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if number == signal.SIGHUP and number in received:
            return  # terminal and shell both send one
        received.append(number)
        loop.call_soon_threadsafe(signals.put_nowait, number)
        if on_second and len(received) == 2:
            on_second()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # it is ignored under nohup
        numbers.append(signal.SIGHUP)
    handlers = {number: signal.signal(number, receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _exit() -> None:
    """End the process as `kill -9` would, which loses nothing that was finished."""
    message = f"cts: {interrupted()}\n"
    if os.isatty(2):
        # The progress display hides the cursor, and cannot show it again now.
        message = f"\x1b[?25h{message}"
    os.write(2, message.encode())
    os._exit(EXIT_RESUMABLE)
