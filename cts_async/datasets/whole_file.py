"""Writes a file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cts_async.errors import unwritable


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing: a reader, a crash or an error in between sees the old file, else the new one whole.

    What is no ordinary file, such as /dev/stdout, is written to directly. UsageError where nothing can be written,
    StorageFull where there is no room.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = path.resolve()  # a link stays one
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # else a power cut may leave the new name with nothing in it
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None
