"""Ray without its chatter: what it may print, whom it listens to, and which signals reach what it starts.

Ray reads its environment when it is imported, so this is for before that, but for `silence`.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from cts_async.engine.signals import PASSED_ON

INLINE_BYTES: Final = 8_000_000
"""Messages of up to so many bytes do not go through Ray's object store: news always, and all but enormous leases."""


def quiet_environment() -> dict[str, str]:
    """In which Ray says nothing, here and to its makers, starts nothing that nobody has asked for, and sends messages
    from process to process."""
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_AUTO_CONNECT": "0",  # else a call after the cluster is lost starts a Ray here
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of what it will do to graphics cards one day
        # What touches the object store when its daemon has died ends the process: no error, and exit code 1.
        "RAY_max_direct_call_object_size": str(INLINE_BYTES),
    }


def own_environment() -> dict[str, str]:
    """For a Ray of our own: it listens on the loopback device only, to nobody but its own processes."""
    return {
        **quiet_environment(),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # by which it takes 127.0.0.1 as its address, on any system
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_worker_niceness": "0",  # workers are the run, and Ray has them come last
        "RAY_memory_monitor_refresh_ms": "0",  # nor are they to be killed when others fill the memory
    }


@contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Run a block with these variables set; what is started in it inherits them."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def deaf_children() -> Iterator[None]:
    """What is started in the block never hears Ctrl-C or the end of the terminal, which everybody there is sent.

    They are for the head alone, who has the workers finish what is in flight. It hears them after the block.
    """
    if sys.platform == "win32":
        yield
        return
    on_term = signal.getsignal(signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, PASSED_ON})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, on_term)  # Ray has put an exit of its own there
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def alarmed(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the block after so long, whatever it waits for; in the main thread only."""
    if sys.platform == "win32":
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def silence() -> None:
    """Have the Ray that is imported keep to itself what its daemons report, such as workers that died.

    It prints that to standard output, and no option of `ray.init` stops it.
    """
    import ray._private.worker

    ray._private.worker._worker_logs_enabled = False
