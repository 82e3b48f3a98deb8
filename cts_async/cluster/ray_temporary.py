"""Where a Ray of ours has its sockets and logs: a directory for the time of a run, and of no run that was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX: Final = "cts-ray-"
_INNER: Final = "r"
LONGEST: Final = 24
"""Characters of the directory above, so that the paths of sockets are no longer than a system takes, 107: below it stand
17 of ours, 2 of `_INNER`, and up to 64 of Ray's (`/session_DATE_TIME_MICROSECONDS_PROCESS/sockets/plasma_store`)."""
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""Anybody may leave a named pipe of such a name in /tmp: opening one waits for its writer."""
NEW_S: Final = 60.0
"""A directory that is younger may not be locked yet by whoever has made it."""


@contextmanager
def temporary() -> Iterator[Path]:
    """A directory that is gone after the block, with those that killed processes have left.

    It stands in one that only this user may enter, for Ray makes its own writable for everybody (0777), sockets too.
    """
    base = tempfile.gettempdir()
    above = Path(base if len(base) <= LONGEST else "/tmp")
    _sweep(above)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
    lock = _locked(made)
    try:
        inner = made / _INNER
        inner.mkdir()
        yield inner
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _sweep(above: Path) -> None:
    """Remove what nobody holds a lock on: who made it is gone."""
    for left in above.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime < NEW_S or (lock := _locked(left)) is None:
                continue
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)


def _locked(directory: Path) -> int | None:
    """A lock on a directory, for as long as its number is open; None where somebody else has it, or none can be had."""
    if fcntl is None:
        return None
    number = os.open(directory, _DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number
