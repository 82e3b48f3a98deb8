"""What a worker needs of the machine it is on: keys in its environment, and files that the head has read.

Keys are looked for and never sent. A file is the same path here where storage is shared; else the head sends it once,
and it is kept under its digest, so that the next run finds it.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.datasets import sha256_of
from cts_async.errors import UsageError
from cts_async.llm.catalog import ModelSpec
from cts_async.safe_files import open_file
from cts_async.search.backends.base import EngineSpec, ReaderSpec
from cts_async.search.backends.index import default_cache_dir

_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND
CHUNK: Final = 8 << 20
"""Bytes of a file that are sent at once."""


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file as the head has it: `path` is absolute there, `mtime_ns` tells its own copy without reading it."""

    path: str
    sha256: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> NeededFile:
        stat = path.stat()
        return cls(str(path), sha256, stat.st_size, stat.st_mtime_ns)

    def here(self) -> Path | None:
        """Where this machine has it: at the same path, or as it was sent; None where it is not."""
        same = Path(self.path)
        if self._is(same):
            return same
        sent = self.kept_at()
        return sent if sent.is_file() and sent.stat().st_size == self.size else None

    def _is(self, path: Path) -> bool:
        try:
            stat = path.stat()
        except OSError:
            return False
        untouched = stat.st_mtime_ns == self.mtime_ns
        return stat.st_size == self.size and (untouched or sha256_of(path) == self.sha256)

    def parts(self) -> Iterator[bytes]:
        """What the head sends of it. Raises UsageError where it cannot be read any more."""
        try:
            with open(self.path, "rb") as content:
                while part := content.read(CHUNK):
                    yield part
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read ({error.strerror})") from None

    def kept_at(self) -> Path:
        """Where it is kept once it was sent."""
        cache = default_cache_dir()
        base = cache.parent if cache else Path(tempfile.gettempdir()) / "cts_async"
        return base / "files" / self.sha256 / Path(self.path).name


class Arrival:
    """A file on its way from the head: `add` what comes, then `end`. Raises UsageError where it cannot be kept."""

    def __init__(self, file: NeededFile) -> None:
        self._file, self._kept = file, file.kept_at()
        self._coming = self._kept.with_name(f".{os.getpid()}.{self._kept.name}")
        with self._told():
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            self._coming.unlink(missing_ok=True)

    def add(self, part: bytes) -> None:
        """The next bytes."""
        with self._told(), os.fdopen(open_file(self._coming, _APPEND), "ab") as coming:
            coming.write(part)

    def end(self) -> None:
        """All of it has come: from now on it is here, if it is what it should be."""
        with self._told():
            os.close(open_file(self._coming, _APPEND))  # an empty file comes in no parts
            if sha256_of(self._coming) != self._file.sha256:
                raise UsageError(f"{self._file.path} has changed since this run looked at it")
            self._coming.replace(self._kept)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong, with the machine on which it does; nothing half is left."""
        try:
            yield
        except (OSError, UsageError) as error:
            with suppress(OSError):
                self._coming.unlink()
            if isinstance(error, UsageError):
                raise
            raise UsageError(
                f"{self._kept}: cannot be written on {socket.gethostname()} ({error.strerror})"
            ) from None


@dataclass(frozen=True, slots=True)
class Needs:
    """Names of variables, and files."""

    keys: tuple[str, ...] = ()
    files: tuple[NeededFile, ...] = ()

    @classmethod
    def of(cls, keys: Iterable[str], files: Mapping[Path, str] | None = None) -> Needs:
        """`files` are absolute paths with their SHA-256. Raises OSError where one is not there any more."""
        needed = tuple(NeededFile.of(path, sha256) for path, sha256 in (files or {}).items())
        return cls(tuple(dict.fromkeys(keys)), needed)

    def check(self, environ: Mapping[str, str]) -> None:
        """Raises UsageError naming this machine and what its environment lacks."""
        lacking = [key for key in self.keys if not environ.get(key, "").strip()]
        if lacking:
            raise UsageError(
                f"node {socket.gethostname()} has no {', '.join(lacking)}: start ray there with "
                f"{'it' if len(lacking) == 1 else 'them'} in the environment"
            )

    def lacking(self) -> tuple[NeededFile, ...]:
        """The files that are not on this machine."""
        return tuple(file for file in self.files if file.here() is None)

    def place_of(self, path: Path) -> Path:
        """Where the file that has `path` with the head is here. Raises UsageError where it is not."""
        here = next((file.here() for file in self.files if file.path == str(path)), None)
        if here is None:
            raise UsageError(f"{path} is not on {socket.gethostname()}")
        return here


def keys_of(specs: Iterable[ModelSpec], opened: Iterable[EngineSpec | ReaderSpec] = ()) -> list[str]:
    """The variables whose keys these models and tools send."""
    return [spec.key_env for spec in (*specs, *opened) if spec.key_env]
