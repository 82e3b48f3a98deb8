"""The one place that opens files for writing: regular files only, never through a symbolic link.

A cloned repository or an unpacked archive may hold a run directory in which `steps.jsonl` is a symbolic link to
`~/.bashrc`, or a named pipe. So neither a file that is written nor the folder it is in may be a link, and the open
descriptor has to be that of a regular file. Folders further up may be links: those are the user's own. Hard links are
not refused: neither repositories nor archives bring one to a file outside of them, and backups are made of them.

`tests/test_safe_files.py` asserts that no other module writes a file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from cts_async.errors import write_error

_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Added to the flags of every file: without O_NONBLOCK, opening a named pipe waits for its reader."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_DEVICES: Final = ("/dev/null", "/dev/tty", "/dev/full")
_DESCRIPTORS: Final = ("/dev/fd", "/proc/self/fd")


def open_file(path: Path, flags: int, mode: int = 0o644) -> int:
    """Open a regular file for writing, with the flags of `os.open` except O_TRUNC; give its descriptor.

    Raises OSError, also where the file or its folder is a symbolic link, or the file is a device or a named pipe.
    """
    with open_folder(path.parent) as folder:
        try:
            fd = os.open(path.name, flags | _SAFE, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                _check_at(folder, path)
            raise
    try:
        _check_regular(os.fstat(fd), path)
    except OSError:
        os.close(fd)
        raise
    return fd


def check_writable(path: Path) -> None:
    """Raise OSError where something stands at `path` that `open_file` refuses; nothing may stand there yet."""
    with suppress(FileNotFoundError), open_folder(path.parent) as folder:
        _check_at(folder, path)


def make_folder(parent: Path, name: str) -> Path:
    """Make a folder of a run directory if need be. Raises OSError, also where it or its parent is a symbolic link."""
    path = parent / name
    with open_folder(parent) as folder:
        try:
            os.mkdir(name, dir_fd=folder)
        except FileExistsError:
            with suppress(FileNotFoundError), open_folder(path):  # another process may remove it meanwhile
                pass
    return path


def is_open_file(path: Path, fd: int) -> bool:
    """Whether `path` is still the open file: false once that was deleted, moved away or replaced."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:
        return False


def replace_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a small file so that a reader, or a crash, sees the old one or the new one whole.

    Without `sync` a power cut may leave nothing in it. Raises StorageFull, UsageError.
    """
    try:
        with _replaced(path, sync=sync) as file:
            file.write(content)
    except OSError as error:
        raise write_error(path, error) from None


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a file named by the user: a reader, a crash or an error in between sees the old one, else the new one whole.

    Its folder may be a link. Standard output, descriptors and /dev/null, by their names below /dev, are written to
    directly. UsageError where nothing can be written, StorageFull where there is no room.
    """
    try:
        if (fd := _device(path)) is not None:
            with os.fdopen(fd, "wb") as file:
                yield file
            return
        with _replaced(Path(os.path.realpath(path.parent), path.name or "."), sync=True) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(path, error) from None


def _device(path: Path) -> int | None:
    """A descriptor of what the system has below /dev for writing to; None for any other path."""
    name = str(path.parent / path.name)
    number = _STREAMS.get(name)
    if number is None and str(path.parent) in _DESCRIPTORS and path.name.isdecimal():
        number = int(path.name)
    if number is not None:
        return os.dup(number)  # opened by its name, a redirected output would be written from its beginning
    return os.open(name, os.O_WRONLY | os.O_CLOEXEC) if name in _DEVICES else None


@contextmanager
def _replaced(path: Path, *, sync: bool) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place at the end of the block. Raises OSError."""
    with open_folder(path.parent) as folder:
        _check_at(folder, path)
        temporary = f".{path.name}.{os.getpid()}"
        # What a killed process with the same number has left, or a link that somebody put there.
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o666, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                if sync:
                    os.fsync(file.fileno())  # else a power cut may leave the new name with nothing in it
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder that is not a link itself. Raises OSError."""
    try:
        fd = os.open(path, _FOLDER)
    except OSError:
        if path.is_symlink():
            raise _is_link(path) from None
        raise
    try:
        yield fd
    finally:
        os.close(fd)


def _check_at(folder: int, path: Path) -> None:
    with suppress(FileNotFoundError):
        _check_regular(os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False), path)


def _check_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _is_link(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(
            errno.EINVAL, f"{path.name} is not a regular file; remove it, or choose another place", str(path)
        )


def _is_link(path: Path) -> OSError:
    problem = f"{path.name} is a symbolic link; name the place it leads to, or remove it"
    return OSError(errno.ELOOP, problem, str(path))
