"""An event loop whose clock jumps to the next timer: minutes of waiting take milliseconds of testing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _Selector(selectors.SelectSelector):
    """Never sleeps: hands the time it would have slept to the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Callbacks that are ready go first; only when there are none is the system asked, which takes longer than they.
        ready = super().select(0) if timeout != 0 else []
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen: everybody waits for somebody")
        if not ready and timeout is not None:
            # A nanosecond at least: a timer that fires a rounding error early must not fire for ever.
            self.now += max(timeout, 1e-9)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 0 and moves only when everybody waits, and by `creep_s` whenever somebody looks."""

    def __init__(self, creep_s: float = 0.0) -> None:
        self._virtual, self._creep_s = _Selector(), creep_s
        super().__init__(self._virtual)
        # Below this a timer counts as due; nothing here needs the default's coarseness.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        self._virtual.now += self._creep_s
        return self._virtual.now


def run_virtual(main: Callable[[], Awaitable[T]], creep_s: float = 0.0) -> T:
    """Run `main()` in virtual time; with `creep_s` no two looks at the clock show the same, as in real life."""
    with asyncio.Runner(loop_factory=partial(VirtualTimeLoop, creep_s)) as runner:

        async def entry() -> T:
            return await main()

        return runner.run(entry())


def in_virtual_time(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Make an async test one that runs in virtual time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtual(lambda: test(*args, **kwargs))

    return run
