"""Ray for the time of a run: one of our own on this machine, or a cluster that is there already.

To be used in the main thread: what Ray starts here ends with the thread that started it, at the latest. Ray reads
its environment when it is imported: `ray_quiet` has what it should find there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import ray

from cts_async.cluster.ray_address import Address
from cts_async.cluster.ray_join import JOIN_S, explained
from cts_async.cluster.ray_quiet import alarmed, deaf_children, silence
from cts_async.cluster.ray_temporary import temporary
from cts_async.errors import UsageError

OBJECT_STORE_BYTES: Final = 80 << 20
"""Nearly the least that Ray takes: messages are small, and go from process to process without it."""
START_S: Final = 60.0
"""A machine that is busy may take long to start it."""


@contextmanager
def started_here(workers: int) -> Iterator[None]:
    """A Ray of this machine alone, with room for so many workers; it ends with the block.

    Raises UsageError where it does not start.
    """

    def explain(said: str) -> str:
        return f"--workers {workers}: Ray does not start: {said}"

    with temporary() as empty:
        options = {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_temp_dir": str(empty),
        }
        with _connected(empty, options, explain):
            yield


@contextmanager
def joined(address: Address) -> Iterator[None]:
    """The cluster at `address`, left at the end of the block. Raises UsageError where it cannot be joined."""
    with (
        temporary() as empty,
        _connected(empty, {"address": address.text}, partial(explained, address), within_s=JOIN_S),
    ):
        yield


@contextmanager
def _connected(
    empty: Path,
    options: dict[str, Any],
    explain: Callable[[str], str],
    *,
    within_s: float = START_S,
) -> Iterator[None]:
    silence()
    try:
        with deaf_children(), _standing_in(empty), alarmed(within_s):
            try:
                ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **options)
            except Exception as error:  # anything at all, by Ray's version and what is wrong with the machine
                raise UsageError(explain(one_line(error))) from None
        yield
    finally:
        ray.shutdown()


@contextmanager
def _standing_in(directory: Path) -> Iterator[None]:
    """Ray has every worker look for modules where its driver stands, before anywhere else: better in no user's files."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def one_line(error: BaseException) -> str:
    """What an error of Ray's says, without the line breaks, and not endlessly."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 300 else f"{words[:299]}…"
