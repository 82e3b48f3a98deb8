"""The steps of a run by key: what was appended is there, what is there is found again, through any crash.

A torn last line is moved aside into `<name>.torn` and done again; a damaged line in the middle stays where it
is, is reported with its number, and counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import orjson

from cts_async.engine.append_log import AppendLog
from cts_async.engine.key_index import KeyLayers, key_index
from cts_async.engine.scan import key_of, scan_journal
from cts_async.engine.torn_tail import MAX_LINE

KEPT_AT_ONCE: Final = 1 << 14
"""Steps that are moved into the index together."""
_BLOCK: Final = 1 << 20


@dataclass(slots=True)
class JournalReport:
    """What opening a journal found, and what was found in what it took in since."""

    records: int = 0
    damaged_lines: list[int] = field(default_factory=list)
    torn: Path | None = None

    def notices(self, path: Path) -> list[str]:
        """What a person should know about `path`; nothing where all was well."""
        said = []
        if self.torn:
            said.append(f"{path}: the last line was torn off; it is kept in {self.torn.name} and done again")
        if self.damaged_lines:
            found = len(self.damaged_lines)
            lines = ", ".join(map(str, self.damaged_lines[:5])) + (" ..." if found > 5 else "")
            said.append(
                f"{path}: {found} damaged {'line is' if found == 1 else 'lines are'} done again (line {lines})"
            )
        return said


class StepMemory(Protocol):
    """What a job remembers its steps in."""

    def find(self, key: str) -> dict[str, Any] | None:
        """The latest record of a finished step, or None if there is none that can be read."""

    async def append(self, record: Mapping[str, Any]) -> None:
        """Remember a step for good; its first fields must be `key` and `ok`, in this order."""

    def forget(self, keys: Iterable[str]) -> None:
        """Nobody in this process will ask for these keys again."""

    def keep(self, keys: Iterable[str]) -> None:
        """The jobs that did these have ended, but others will ask."""


class Journal:
    """The steps of a run by key: `find` what was done, `append` what is done now.

    Steps of earlier processes cost 16 bytes of memory each, those of this one more, until the job that made
    them has ended: then they are forgotten, or kept in 16 bytes like the earlier ones.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.beside: Sequence[Journal] = ()
        """Journals whose steps count here as well: `find` looks into them last."""
        self._log = AppendLog(path, sync=sync)
        self.path, self.sync = path, sync
        scan = scan_journal(path)
        self.report = JournalReport(scan.records, scan.damaged_lines, self._log.torn)
        self._earlier = KeyLayers(scan.index)
        self._recent: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return self.find(key) is not None

    def __len__(self) -> int:
        return len(self._earlier) + len(self._recent)

    def find(self, key: str) -> dict[str, Any] | None:
        """The latest record of a finished step, or None if there is none that can be read."""
        found = self._find(key)
        return None if found is None else found[1]

    def raw(self, key: str) -> bytes | None:
        """The line, without its newline, of the record that `find` gives."""
        found = self._find(key)
        return None if found is None else found[0]

    def _find(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        found = self._find_here(key)
        if found is None and self.beside:
            others = (other._find_here(key) for other in self.beside)
            return next((other for other in others if other is not None), None)
        return found

    def _find_here(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        recent = self._recent.get(key)
        if recent is not None:
            return self._read(recent, key)
        if not self._earlier:
            return None
        found = (self._read(place, key) for place in self._earlier.places(key))
        return next((one for one in found if one is not None), None)

    async def append(self, record: Mapping[str, Any]) -> None:
        """Remember a step; its first fields must be `key` and `ok`, in this order."""
        offset = await self._log.append(record)
        if record["ok"]:
            self._recent[record["key"]] = offset

    async def append_lines(self, lines: Sequence[bytes]) -> None:
        """Remember steps that other processes have done: lines as a journal has them, written in one go."""
        if not lines:
            return
        offset = await self._log.append_lines(b"".join(lines))
        keys = []
        for line in lines:
            if key := key_of(line):
                self._recent[key] = offset
                keys.append(key)
            offset += len(line)
        self.keep(keys)

    def flush(self) -> int:
        """Write what is held back; give the file's size. Raises StorageFull."""
        return self._log.flush()

    def absorb(self, source: int) -> int:
        """Append all of an open file, whose lines are whole, and know its steps; give how many records it has.

        Nothing is parsed, and memory grows by 16 bytes a step. Raises StorageFull: then nothing of it stays.
        """
        start = self._log.take_in(source)
        scan = scan_journal(self.path, start)
        self._earlier.add(scan.index)
        self.report.records += scan.records
        if scan.damaged_lines:
            before = _lines_before(self.path, start)
            self.report.damaged_lines += [before + number for number in scan.damaged_lines]
        return scan.records

    def forget(self, keys: Iterable[str]) -> None:
        """Drop what this process appended under `keys` from memory: nobody in it will ask again.

        The file keeps them, and the next process finds them.
        """
        for key in keys:
            self._recent.pop(key, None)

    def keep(self, keys: Iterable[str]) -> None:
        """Hold what this process appended under `keys` as the steps of earlier ones are: others will ask for it."""
        for key in keys:
            if key in self._recent:
                self._kept[key] = self._recent[key]
        if len(self._kept) >= KEPT_AT_ONCE:
            self._earlier.add(key_index(self._kept))
            self.forget(self._kept)
            self._kept = {}

    def close(self) -> None:
        self._log.close()

    def _read(self, offset: int, key: str) -> tuple[bytes, dict[str, Any]] | None:
        line = self._log.read_line(offset)
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        return (line, record) if isinstance(record, dict) and record.get("key") == key else None


def _lines_before(path: Path, end: int) -> int:
    with path.open("rb") as file:
        whole, rest = divmod(end, _BLOCK)
        return sum(file.read(size).count(b"\n") for size in [*[_BLOCK] * whole, rest])


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The intact records of a log that may be missing or growing right now; damage is skipped."""
    return (record for _, record in placed_records(path))


def placed_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Like `read_jsonl`, each with the offset at which its line begins."""
    if not path.is_file():  # reading a named pipe would wait for its writer
        return
    offset = 0
    with path.open("rb", buffering=_BLOCK) as file:
        for line, size in _sized_lines(file):
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                record = None
            if isinstance(record, dict) and line.endswith(b"\n"):
                yield offset, record
            offset += size


def _sized_lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The lines of a file, each with its size in bytes; b"" for one longer than MAX_LINE."""
    while line := file.readline(MAX_LINE):
        size = len(line)
        if size == MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
                size += len(line)
            line = b""
        yield line, size


def record_at(path: Path, offset: int) -> dict[str, Any]:
    """The record whose line begins at `offset`, as `placed_records` gave it."""
    with path.open("rb") as file:
        file.seek(offset)
        record: dict[str, Any] = orjson.loads(file.readline())
    return record
