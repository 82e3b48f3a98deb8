"""Remove run directories: what commands have written there, and nothing else.

A directory may hold files of its user's, and one that came from elsewhere anything: links, pipes, folders. Removed are
regular files with the names that commands write, by descriptors of their folders, so that no link is followed.

A run is first moved to `.removing-NAME/NAME`, which no command takes for a run, and then deleted there: a removal that
is interrupted leaves no half of a run, and the next one finishes it. What is not ours is moved back.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.errors import UsageError
from cts_async.runs.dependents import Dependent
from cts_async.runs.directory import LOCK, locked
from cts_async.runs.files import JUDGMENTS, MANIFEST, PROMPTS, RUN_FILES, SOURCES
from cts_async.safe_files import open_folder

ASIDE: Final = ".removing-"
_OWN_FILE: Final = re.compile(
    # A log's torn lines; and the temporary file of a write that was interrupted.
    rf"(?P<name>{'|'.join(map(re.escape, RUN_FILES))})(?:\.torn)?"
    rf"|\.(?:{'|'.join(map(re.escape, RUN_FILES))})\.[0-9]+"
    rf"|{re.escape(LOCK)}"
)
_OWN_FOLDERS: Final = {
    JUDGMENTS: re.compile(r".+\.jsonl(?:\.torn|\.[0-9]+)?", re.DOTALL),
    PROMPTS: re.compile(r".+\.txt|\..+\.txt\.[0-9]+", re.DOTALL),
    SOURCES: re.compile(r".+", re.DOTALL),
}
"""What commands write into the folders of a run."""
_LAST: Final = (MANIFEST, LOCK)
"""Removed last: while the manifest is there, the directory is known as a run."""


@dataclass(frozen=True, slots=True)
class RunContent:
    """The content of a run directory; paths are relative to it, with "/" between."""

    files: tuple[str, ...]
    """Those that commands have written."""
    foreign: tuple[str, ...]
    """Everything else: it stays."""
    n_bytes: int
    """Size of `files`."""


def read_content(directory: Path) -> RunContent:
    """What a run directory holds. Raises UsageError for one that is no run, or is a link."""
    with _opened_run(directory) as folder:
        return _content_of(folder)


@contextmanager
def _opened_run(directory: Path) -> Iterator[int]:
    try:
        with open_folder(directory) as folder:
            if MANIFEST not in os.listdir(folder) or not _is_regular(MANIFEST, folder):
                raise UsageError(f"{directory}: not a run directory: no regular file {MANIFEST}")
            yield folder
    except OSError as error:
        raise UsageError(f"{directory}: cannot be removed ({error.strerror})") from None


def _content_of(folder: int) -> RunContent:
    files: list[str] = []
    foreign: list[str] = []
    n_bytes = 0
    for name in sorted(os.listdir(folder)):
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(state.st_mode) and _OWN_FILE.fullmatch(name):
            files.append(name)
            n_bytes += state.st_size
        elif stat.S_ISDIR(state.st_mode) and name in _OWN_FOLDERS:
            with _open_inside(folder, name) as inner:
                for inner_name in sorted(os.listdir(inner)):
                    state = os.stat(inner_name, dir_fd=inner, follow_symlinks=False)
                    path = f"{name}/{inner_name}"
                    if stat.S_ISREG(state.st_mode) and _OWN_FOLDERS[name].fullmatch(inner_name):
                        files.append(path)
                        n_bytes += state.st_size
                    else:
                        foreign.append(path)
        else:
            foreign.append(name)
    return RunContent(tuple(files), tuple(foreign), n_bytes)


def remove_run(directory: Path) -> tuple[str, ...]:
    """Remove a run's files, and the directory if nothing else is in it; return the paths of what stays.

    Raises RunLocked where a process writes the run; UsageError for a directory that is no run, a link, or not ours.
    """
    # The run itself must be no link; the folder of runs may be one, which is the user's own.
    directory = directory.parent.resolve() / directory.name
    read_content(directory)  # locking would write into it
    # From here on no command can begin to write it, and another removal cannot either.
    with locked(directory):
        read_content(directory)
        try:
            with open_folder(directory.parent) as parent:
                aside = f"{ASIDE}{directory.name}"
                with suppress(FileExistsError):
                    os.mkdir(aside, dir_fd=parent)
                with _open_inside(parent, aside) as holder:
                    os.rename(directory.name, directory.name, src_dir_fd=parent, dst_dir_fd=holder)
                return _finish(parent, directory.name)
        except OSError as error:
            raise UsageError(f"{directory}: cannot be removed ({error.strerror})") from None


def finish_removals(folder: Path) -> dict[str, tuple[str, ...]]:
    """Finish removals in a folder that were interrupted: the names of those runs, and what of each was not ours.

    One that another process is at work on is left to it.
    """
    finished: dict[str, tuple[str, ...]] = {}
    with suppress(OSError), open_folder(folder) as parent:
        for aside in sorted(os.listdir(parent)):
            name = aside.removeprefix(ASIDE)
            if not aside.startswith(ASIDE) or not name or not _is_folder(aside, parent):
                continue
            with suppress(OSError, UsageError):
                foreign = _finish_locked(parent, folder / aside, name)
                if foreign is not None:
                    finished[name] = foreign
    return finished


def _finish_locked(parent: int, aside: Path, name: str) -> tuple[str, ...] | None:
    """Finish one removal; None where there is nothing to do. Raises RunLocked, OSError."""
    with _open_inside(parent, aside.name) as holder:
        if name not in os.listdir(holder):
            # It was interrupted before the run was moved, or after it was deleted.
            os.rmdir(aside.name, dir_fd=parent)
            return None
        if not _is_folder(name, holder):
            return None
    with locked(aside / name):
        return _finish(parent, name)


def _finish(parent: int, name: str) -> tuple[str, ...]:
    """Delete a run that was moved aside, and move what is not ours back; returns the latter's paths. Raises OSError."""
    aside = f"{ASIDE}{name}"
    with _open_inside(parent, aside) as holder:
        with _open_inside(holder, name) as folder:
            content = _content_of(folder)
            if MANIFEST in content.files:
                _delete(folder, content.files)
            with suppress(FileNotFoundError):
                os.unlink(LOCK, dir_fd=folder)
            # Without a manifest, it was nothing that a removal has moved here.
            left = _content_of(folder)
            foreign = left.foreign + left.files
        if not foreign:
            os.rmdir(name, dir_fd=holder)
        elif not _exists(name, parent):
            os.rename(name, name, src_dir_fd=holder, dst_dir_fd=parent)
        else:
            # A new run has the name: what is not ours stays beside it, and is named.
            return tuple(f"{aside}/{name}/{path}" for path in foreign)
    os.rmdir(aside, dir_fd=parent)
    return foreign


def _delete(folder: int, files: Sequence[str]) -> None:
    """Delete files of a run by their paths, and its folders as far as they are empty then."""
    for path in files:
        inner_folder, _, name = path.rpartition("/")
        if not inner_folder:
            if name not in _LAST:
                os.unlink(name, dir_fd=folder)
            continue
        with _open_inside(folder, inner_folder) as inner:
            os.unlink(name, dir_fd=inner)
    for name in _OWN_FOLDERS:
        with suppress(OSError):  # it is not there, not empty, or a link
            os.rmdir(name, dir_fd=folder)
    os.unlink(MANIFEST, dir_fd=folder)


# --- What may be removed


def reasons_to_keep(directories: Sequence[Path], dependents: Sequence[Dependent]) -> dict[Path, str]:
    """Of runs that are to be removed together, those that others need, with the reason.

    A dependent that is removed itself needs nothing, unless it has to stay, too.
    """
    kept: dict[Path, str] = {}
    is_settled = False
    while not is_settled:
        is_settled = True
        removed = {path.resolve() for path in directories if path not in kept}
        staying = [run for run in dependents if run.directory.resolve() not in removed]
        for directory in directories:
            users = [run for run in staying if run.needs(directory)]
            if users and directory not in kept:
                kept[directory] = "; ".join(f"{run.directory.name} {run.reason}" for run in users)
                is_settled = False
    return kept


# --- Entries of an open folder


@contextmanager
def _open_inside(folder: int, name: str) -> Iterator[int]:
    """A descriptor of a folder in an open one. Raises OSError, also for a link."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _is_regular(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
