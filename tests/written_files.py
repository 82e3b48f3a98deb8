"""Files written by the test that reads them, and folders that several tests read."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cts_async.errors import InputError

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


def write_lines(path: Path | str, *rows: object) -> Path:
    """Write one row a line, text as it stands and anything else as JSON."""
    texts = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return file


def read_lines(path: Path | str) -> list[dict[str, Any]]:
    """Read a file of JSON Lines."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write_config(folder: Path, text: str) -> Path:
    """Write a cts.toml."""
    path = folder / "cts.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(read: Callable[[Path], Any], path: Path) -> InputError:
    """Return the error of reading a file, which begins with the file's path."""
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    return caught.value


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
