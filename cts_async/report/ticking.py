"""Something done every so often beside a command, in a small thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 2.0
"""How long the end waits for a tick under way: a disk that hangs must not hold up a command that is done."""


@contextmanager
def ticking(every_s: float, tick: Callable[[], None]) -> Iterator[None]:
    """Call `tick` at once and then every `every_s` seconds while the block runs; never after it."""
    ended = threading.Event()

    def run() -> None:
        tick()
        while not ended.wait(every_s):
            tick()

    thread = threading.Thread(target=run, name="cts-tick", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)
