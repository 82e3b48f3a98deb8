"""Files written by the test that reads them, and folders that several tests read."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(name, content)`: bytes and text as they are, a list as JSON Lines, another value as JSON."""

    def write_file(name: str, content: Any) -> Path:
        path: Path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else as_text(content).encode())
        return path

    return write_file


def as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
    return json.dumps(content)


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
        done = session / f"{name}.done"
        if not done.exists():
            # In its final place: runs record the absolute paths of their data.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
