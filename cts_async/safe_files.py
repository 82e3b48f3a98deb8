"""Open files for writing: regular files only, never through a symbolic link. And read small ones of unknown origin.

A cloned repository or an unpacked archive may contain a run directory in which `steps.jsonl` is a symbolic link to
`~/.bashrc`, or a named pipe. So neither a written file nor its folder may be a link, and the open descriptor must be a
regular file. Folders further up may be links: those are the user's own. Hard links are allowed: repositories and
archives cannot contain one to a file outside, and backups consist of them.

All writes of the package go through this module; `tests/test_safe_files.py` checks that.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from cts_async.errors import write_error

_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags of every open(): without O_NONBLOCK, opening a named pipe blocks until somebody reads it."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_DEVICES: Final = ("/dev/null", "/dev/tty", "/dev/full")
_DESCRIPTORS: Final = ("/dev/fd", "/proc/self/fd")


def open_file(path: Path, flags: int, mode: int = 0o644) -> int:
    """Open a regular file for writing, with flags of `os.open` except O_TRUNC; returns its descriptor.

    Raises OSError, also if the file or its folder is a symbolic link, or the file is a device or a named pipe.
    """
    # Through the folder's descriptor: the folder that was checked is the one that is written in.
    with open_folder(path.parent) as folder:
        try:
            fd = os.open(path.name, flags | _SAFE, mode, dir_fd=folder)
        except OSError as error:
            # A link (EMLINK on BSD), or a named pipe that nobody reads: the system's words do not say which.
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                _check_at(folder, path)
            raise
    try:
        _check_regular(os.fstat(fd), path)
    except OSError:
        os.close(fd)
        raise
    return fd


def create_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a small new file. Raises OSError; FileExistsError also where `path` is a link that leads nowhere."""
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, which may be reached through a link.

    Raises OSError; EINVAL for a device or a named pipe, whose end, or writer, may never come.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


def read_file(path: Path, max_bytes: int) -> bytes:
    """Read a file of at most `max_bytes`. Raises OSError as `open_regular`, and EFBIG for a larger file."""
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"is larger than {max_bytes:,} bytes", str(path))
    return content


def check_writable(path: Path) -> None:
    """Raise OSError if `path` exists and `open_file` would refuse it."""
    with suppress(FileNotFoundError), open_folder(path.parent) as folder:
        _check_at(folder, path)


def make_folder(parent: Path, name: str) -> Path:
    """Make a folder of a run directory unless it exists. Raises OSError, also if it or its parent is a symbolic link."""
    path = parent / name
    with open_folder(parent) as folder:
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            with suppress(FileNotFoundError), open_folder(path):  # another process may have removed it
                pass
    return path


def is_open_file(path: Path, fd: int) -> bool:
    """True if `path` still is the open file `fd`: it was not deleted, moved or replaced."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:
        return False


def replace_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a small file atomically: readers, and a crash, see the old content or the new one.

    Without `sync` a power cut may leave an empty file. Raises StorageFull, UsageError.
    """
    try:
        with _replaced(path, sync=sync) as file:
            file.write(content)
    except OSError as error:
        raise write_error(path, error) from None


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a file named by the user, which replaces the old one at the end of the block, and not after an error.

    Its folder may be a link. /dev/stdout, /dev/fd/N, /dev/null and the like are written to directly.
    Raises UsageError if it cannot be written, StorageFull if there is no room.
    """
    try:
        fd = _open_device(path)
        if fd is not None:
            with os.fdopen(fd, "wb") as file:
                yield file
            return
        with _replaced(Path(os.path.realpath(path.parent), path.name or "."), sync=True) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(path, error) from None


def _open_device(path: Path) -> int | None:
    """Return a descriptor for a stream or device below /dev that may be written to; None for any other path."""
    name = str(path.parent / path.name)
    number = _STREAMS.get(name)
    if number is None and str(path.parent) in _DESCRIPTORS and path.name.isdecimal():
        number = int(path.name)
    if number is not None:
        return os.dup(number)  # opening it by name would overwrite a redirected output from its start
    if name in _DEVICES:
        return os.open(name, os.O_WRONLY | os.O_CLOEXEC)
    return None


@contextmanager
def _replaced(path: Path, *, sync: bool) -> Iterator[BinaryIO]:
    """Yield a new file in the folder of `path` that replaces it at the end of the block. Raises OSError."""
    with open_folder(path.parent) as folder:
        _check_at(folder, path)
        temporary = f".{path.name}.{os.getpid()}"
        # A leftover of a killed process with the same id, or a link that somebody prepared.
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        # The umask decides who may read it, as for every file that the user makes.
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o666, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                if sync:
                    os.fsync(file.fileno())  # otherwise a power cut may leave the new name with an empty file
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """Yield a descriptor of a folder. Raises OSError, also if the folder itself is a symbolic link."""
    try:
        fd = os.open(path, _FOLDER)
    except OSError:
        if path.is_symlink():
            raise _link_error(path) from None
        raise
    try:
        yield fd
    finally:
        os.close(fd)


def _check_at(folder: int, path: Path) -> None:
    with suppress(FileNotFoundError):
        _check_regular(os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False), path)


def _check_regular(status: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _link_error(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(
            errno.EINVAL, f"{path.name} is not a regular file; remove it, or choose another path", str(path)
        )


def _link_error(path: Path) -> OSError:
    problem = f"{path.name} is a symbolic link; name its target instead, or remove it"
    return OSError(errno.ELOOP, problem, str(path))
