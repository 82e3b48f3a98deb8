"""What workers bring, into the files of the run: the one place of a head that writes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from cts_async.cluster.messages import Asked, Ended, Shard
from cts_async.cluster.probe import remove_probe, write_probe
from cts_async.engine.shards import PATIENCE_S, SHARDS, merge, merge_all, shards_of
from cts_async.errors import RunLocked, RunStopped
from cts_async.protocol.run_files import RunFiles

LARGE: Final = 1 << 20
"""A shard of so many bytes is merged in a thread."""
FOUND_BYTES: Final = 4_000_000
"""Records that one turn brings."""
_LOOK_AGAIN_S: Final = 0.05
"""A lock has no event to wait for."""


class Intake:
    """The files at their places, and the journals among them by number."""

    def __init__(self, places: Sequence[RunFiles]) -> None:
        self._places = places
        self.journals = list(dict.fromkeys(files.journal for files in places))
        self.journal_of = tuple(self.journals.index(files.journal) for files in places)
        # One at a time appends to a journal, and nobody looks into one while an index changes: its own or, where
        # they stand beside each other, another's.
        self._lock = asyncio.Lock()
        self._told = set(self._damage())

    @property
    def directories(self) -> tuple[Path, ...]:
        """By number, where the journal and its shards are."""
        return tuple(journal.path.parent.resolve() for journal in self.journals)

    @property
    def beside(self) -> bool:
        """Whether a step in one journal counts in the others as well."""
        return any(journal.beside for journal in self.journals)

    def write_probes(self) -> tuple[str, ...]:
        """Leave a token in each journal's directory: who reads it there shares the storage. Raises UsageError."""
        return tuple(write_probe(directory) for directory in self.directories)

    def remove_probes(self) -> None:
        """Take them away."""
        for directory in self.directories:
            remove_probe(directory)

    async def keep(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Write streamed records into their journals. Raises StorageFull."""
        by_journal: defaultdict[int, list[bytes]] = defaultdict(list)
        for number, line in records:
            by_journal[number].append(line)
        for number, lines in by_journal.items():
            async with self._lock:
                await self.journals[number].append_lines(lines)

    async def write(self, ended: Iterable[Ended]) -> None:
        """Write the lines of pieces whose records are safe. Raises StorageFull."""
        by_file: defaultdict[tuple[int, str | None], list[bytes]] = defaultdict(list)
        for piece in ended:
            for line in piece.lines:
                by_file[line.place, line.judge].append(line.data)
        # Results come last: an instance with a result is never done again, so nothing of it may be missing.
        for (place, judge), lines in sorted(by_file.items(), key=lambda item: item[0][1] is None):
            await self._places[place].add_lines(judge, lines)

    async def merge(self, shards: Iterable[Shard]) -> None:
        """Merge shards that their workers have closed. Raises StorageFull."""
        for shard in shards:
            await self._merge(shard.journal, self.directories[shard.journal] / SHARDS / shard.name)

    async def merge_left(self, worker: str) -> None:
        """Merge what a lost worker has left, once it writes no more. Raises StorageFull, RunStopped if it goes on."""
        for number, journal in enumerate(self.journals):
            for path in shards_of(journal.path, worker):
                await self._merge(number, path)

    async def find(self, asked: list[Asked]) -> Mapping[Asked, bytes | None]:
        """The records of the first of these steps, as many as one turn holds; they are taken from the list."""
        found: dict[Asked, bytes | None] = {}
        size = n = 0
        async with self._lock:
            for number, key in asked:
                if size > FOUND_BYTES:
                    break
                line = found[number, key] = self.journals[number].raw(key)
                size += len(line or b"")
                n += 1
        del asked[:n]
        return found

    def tidy(self) -> None:
        """Nobody writes shards any more: merge what is still there, and remove their folders. Raises StorageFull."""
        for journal in self.journals:
            with suppress(RunLocked):
                merge_all(journal)

    def found_damaged(self) -> list[str]:
        """What a person should know of shards that were merged since this was last asked."""
        new = [text for text in self._damage() if text not in self._told]
        self._told.update(new)
        return new

    def _damage(self) -> list[str]:
        return [text for journal in self.journals for text in journal.report.notices(journal.path)]

    async def _merge(self, number: int, path: Path) -> None:
        """Merge a shard as soon as nobody holds it."""
        until = anyio.current_time() + PATIENCE_S
        while True:
            try:
                async with self._lock:
                    if _is_large(path):
                        await anyio.to_thread.run_sync(merge, self.journals[number], path)
                    else:
                        merge(self.journals[number], path)
                return
            except RunLocked as held:
                if anyio.current_time() > until:
                    raise RunStopped(str(held)) from None
                await anyio.sleep(_LOOK_AGAIN_S)


def _is_large(path: Path) -> bool:
    try:
        return path.stat().st_size > LARGE
    except FileNotFoundError:
        return False
