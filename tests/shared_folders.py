"""Folders that are costly to make and only read: made once, also if several workers of pytest-xdist want them."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` has filled; tests must not change it.

    The first process to come makes it, the others wait. After a failure the next one starts again.
    """
    base = factory.getbasetemp()
    # A worker of pytest-xdist has a folder of its own below the session's.
    session = base.parent if base.name.startswith("popen-") else base
    folder = session / f"shared-{name}"
    with (session / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = factory.mktemp(name)
            make(draft)
            draft.rename(folder)
    return folder
