"""A run's directory as its writers need it: one process at a time, and small JSON files that are whole at any time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.errors import RunLocked, UsageError, write_error
from cts_async.safe_files import is_open_file, open_file, open_folder, read_file, replace_file

LOCK: Final = ".lock"
_MAX_LOCK_BYTES: Final = 64
_NO_LOCKS: Final = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What flock answers on Lustre without `-o flock`, and on NFS without a lock daemon."""


@contextmanager
def locked(directory: Path, *, place: str = "") -> Iterator[Callable[[], bool]]:
    """Lock the directory for writing, and create it if necessary. The lock ends with the process.

    Yields a function that says whether the path still leads to the locked directory, which may have been replaced.
    `place` is the option that chooses another directory, where there is one. Raises RunLocked naming the process that
    has the lock, UsageError where nothing can be written or the directory is a symbolic link, StorageFull where the
    disk is full.
    """
    # The lock is on the directory itself, since any file in it could be deleted, which would let a second process in.
    # The file `.lock` is locked as well: it names the process, versions before 0.7 know no other lock, and on network
    # file systems the directory's lock may not reach other machines.
    with ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(open_folder(directory))
            fd = open_file(directory / LOCK, os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, fd)
            try:
                free = _flock(fd, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    raise UsageError(
                        f"{directory}: this file system has no locks (flock: {error.strerror}); use --runs-dir or --out "
                        "to write on another one, such as a local disk"
                    ) from None
                raise
            with suppress(OSError):  # of file systems that lock no directories
                free = _flock(folder, fcntl.LOCK_EX) and free
        except OSError as error:
            raise write_error(directory, error, verb="write there") from None
        if not free:
            holder = os.pread(fd, 64, 0).decode(errors="replace")
            # The file may be anybody's: only what we wrote is printed.
            if not re.fullmatch(r"process \d+", holder):
                holder = "another process"
            advice = "wait for it"
            if place:
                advice += f", or choose another {place}"
            raise RunLocked(f"{directory}: {holder} is writing this run; {advice}")
        if not is_open_file(directory / LOCK, fd):
            raise RunLocked(
                f"{directory}: was replaced while it was being locked; run the same command again"
            )
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()}".encode(), 0)
        except OSError as error:
            raise write_error(directory, error, verb="write there") from None
        yield partial(is_open_file, directory, folder)


def _flock(fd: int, kind: int) -> bool:
    """Lock an open file or directory; False where another process holds it. Raises OSError where there are no locks."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def locker_exists(directory: Path) -> bool:
    """Whether this machine has the process that locked the directory last; takes no lock, which would keep a run out."""
    # The file may be anybody's: a named pipe, or of any length.
    with suppress(OSError, ValueError):
        return process_exists(int(read_file(directory / LOCK, _MAX_LOCK_BYTES).rpartition(b" ")[2]))
    return False


def process_exists(pid: int) -> bool:
    """Whether this machine has a process of this number."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    # It is another user's.
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def json_bytes(value: Any, option: int = 0) -> bytes:
    """JSON by orjson; "?" for what UTF-8 cannot encode, which file names may contain."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        encodable = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return orjson.dumps(orjson.loads(encodable), option=option)


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file atomically: a reader, or a crash, sees the old content or the new."""
    replace_file(path, json_bytes(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
