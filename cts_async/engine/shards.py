"""Parts of a journal that other processes write: `shards/<worker>-<n>.jsonl` beside it, merged into it once.

Whoever writes a shard holds a lock on it (flock), so what is not locked is closed, or its writer is dead. Merging
renames the shard to `<name>.at-<length of the journal>` first: from then on a crash leaves a journal whose end is a
part of that shard, or all of it, and the next opening cuts it back or removes the shard. So no step of a shard is
ever lost, and none stands in the journal twice. Merging takes the journal's run to be locked by this process.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import anyio

from cts_async.engine.events import Events, Notice
from cts_async.engine.journal import Journal, set_torn_tail_aside, torn_path
from cts_async.engine.run_dir import is_locked
from cts_async.errors import RunLocked, write_error
from cts_async.safe_files import check_writable, open_file

SHARDS: Final = "shards"
"""The folder of a journal's shards, in the journal's own."""
PROBE: Final = ".probe"
"""A token beside the journal, by which workers know that they share its head's storage."""
PATIENCE_S: Final = 60.0
"""How long a worker that has outlived its head may take to finish: 15 s until it knows, then what is in flight."""
_ENDING: Final = ".jsonl"
_AT: Final = ".at-"
_LOOK_AGAIN_S: Final = 0.05
"""A lock has no event to wait for."""
_BLOCK: Final = 1 << 20
_NO_SUCH_FLUSH: Final = (errno.EINVAL, errno.ENOTSUP)
"""What file systems say that bring names to the disk by themselves."""


def recovered(path: Path, *, sync: bool = False) -> Journal:
    """Open the journal of a run, with all that lies in shards merged into it; what else a killed head left is removed.

    Raises RunLocked naming a shard that a worker still writes (`until_free` waits for it), StorageFull, OSError.
    """
    with suppress(OSError):
        (path.parent / PROBE).unlink()
    folder = path.parent / SHARDS
    if not folder.is_dir():
        return Journal(path, sync=sync)
    for shard in folder.glob(f"*{_ENDING}*"):
        check_writable(shard)
    _finish_interrupted(path)
    journal = Journal(path, sync=sync)
    try:
        merge_all(journal)
    except BaseException:
        journal.close()
        raise
    return journal


def merge_all(journal: Journal) -> None:
    """Merge what lies in shards, and remove their folder. Raises as `merge`; what is not held is merged by then."""
    held = None
    for shard in shards_of(journal.path):
        try:
            merge(journal, shard)
        except RunLocked as error:
            held = error
    if held:
        raise held
    with suppress(OSError):  # it may not be there, or a worker has just begun a shard in it
        (journal.path.parent / SHARDS).rmdir()


def shards_of(journal: Path, worker: str | None = None) -> list[Path]:
    """The shards of a journal, or those of one worker, in the order in which they were last written."""
    found = (journal.parent / SHARDS).glob(f"*{_ENDING}")
    of_worker = (path for path in found if worker in (None, path.stem.rpartition("-")[0]))
    return sorted(of_worker, key=lambda path: (path.stat().st_mtime_ns, _number(path)))


def unmerged(journal: Path) -> int:
    """How many shards lie beside a journal, those among them of which a merge was cut short."""
    return sum(1 for _ in (journal.parent / SHARDS).glob(f"*{_ENDING}*"))


def merge(journal: Journal, shard: Path) -> int:
    """Move a shard's records to the end of the journal; give how many they were, 0 where the shard is gone.

    A torn last line joins those of the journal. Raises RunLocked if somebody writes the shard. StorageFull leaves
    the shard, and the journal as it was. It takes some 2 ms for 1 MB: a thread may do it while nobody uses the journal.
    """
    with suppress(FileNotFoundError), _held(shard) as source:
        try:
            torn = set_torn_tail_aside(shard, torn_path(journal.path))
            journal.report.torn = torn or journal.report.torn
            if not os.fstat(source).st_size:
                shard.unlink()
                return 0
            return _move(journal, shard, source)
        except OSError as error:
            raise write_error(shard, error) from None
    return 0


def _move(journal: Journal, shard: Path, source: int) -> int:
    marked = shard.with_name(f"{shard.name}{_AT}{journal.flush()}")
    shard.rename(marked)
    flush_folder(shard.parent)
    n = journal.absorb(source)
    marked.unlink()
    if journal.sync:
        flush_folder(shard.parent)
    return n


async def until_free(directories: Iterable[Path], events: Events, *, patience_s: float = PATIENCE_S) -> None:
    """Wait until nobody writes a shard in the directories, but no longer than that: then opening them says who does.

    A run that is locked is not waited for: its workers have a head.
    """
    until = anyio.current_time() + patience_s
    for directory in directories:
        told = False
        while (shard := _written(directory)) and anyio.current_time() < until:
            if not told:
                events.emit(Notice(f"{shard}: waiting for a worker to finish what its earlier head gave it"))
                told = True
            await anyio.sleep(_LOOK_AGAIN_S)


def _written(directory: Path) -> Path | None:
    """A shard that somebody writes though the run has no head."""
    # In this order: a head must not find the shard locked that it is just about to merge.
    if not (directory / SHARDS).is_dir() or is_locked(directory):
        return None
    for shard in (directory / SHARDS).glob(f"*{_ENDING}"):
        with suppress(FileNotFoundError):
            try:
                with _held(shard):
                    pass
            except RunLocked:
                return shard
    return None


@contextmanager
def _held(shard: Path) -> Iterator[int]:
    """The shard, open and locked. Raises RunLocked where somebody writes it, OSError."""
    fd = open_file(shard, os.O_RDWR)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunLocked(
                f"{shard}: a worker is still writing it, to finish what it has in flight; "
                "type the same command again when it has ended"
            ) from None
        yield fd
    finally:
        os.close(fd)


def _finish_interrupted(path: Path) -> None:
    """Bring to an end what a crash left of merges: a shard is then whole in the journal or whole by itself."""
    for marked in sorted((path.parent / SHARDS).glob(f"*{_ENDING}{_AT}*")):
        name, _, start = marked.name.rpartition(_AT)
        if start.isdecimal() and _is_at(path, int(start), marked):
            marked.unlink()
        else:
            marked.rename(marked.with_name(name))


def _is_at(path: Path, start: int, shard: Path) -> bool:
    """Whether all of the shard stands at `start`; a journal that ends in a part of it is cut back.

    More than the shard can follow there after a power cut that undid its removal, something else after one that
    undid the copy: then the journal is left as it is, and the shard counts as not merged.
    """
    size, there = shard.stat().st_size, path.stat().st_size - start if path.exists() else 0
    if there <= 0 or not _agree(path, start, shard):
        return False
    if there < size:
        with os.fdopen(open_file(path, os.O_RDWR), "r+b") as file:
            file.truncate(start)
            os.fsync(file.fileno())
    return there >= size


def _agree(path: Path, start: int, shard: Path) -> bool:
    """Whether the journal from `start` on is the shard, as far as both go."""
    with path.open("rb") as whole, shard.open("rb") as part:
        whole.seek(start)
        while (block := part.read(_BLOCK)) and (other := whole.read(len(block))):
            if not block.startswith(other):
                return False
    return True


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SUCH_FLUSH:
            raise
    finally:
        os.close(fd)


def _number(shard: Path) -> int:
    number = shard.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
