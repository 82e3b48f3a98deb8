"""What nuggets say, and where from: read from the data that a run's manifest names, if it is the very file.

A manifest is anybody's file and may name any path. So a file is opened only where its sha256 is the one that the
manifest says the run was made with, and of it nothing is shown but nuggets. Records are found by offsets.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.datasets.fields import Fields
from cts_async.datasets.gold import normalise
from cts_async.datasets.nuggets import NuggetReader
from cts_async.datasets.rows import CSV_SUFFIXES, read_csv
from cts_async.datasets.sample import GOLD as SAMPLE_GOLD
from cts_async.datasets.sample import sample_dir
from cts_async.errors import CTSError
from cts_async.records import Nugget
from cts_async.report.viewer.about import About
from cts_async.report.viewer.columns import Columns
from cts_async.report.viewer.files import Stat, line_at, opened, record_in, stat_of
from cts_async.report.viewer.results_index import id_hash

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_BYTES: Final = 512 << 20
"""More is not read through for a digest."""
MAX_CSV_BYTES: Final = 16 << 20
"""Records of a table have no offsets: a small one is held."""
_PIECE: Final = 1 << 20
_BESIDE: Final = (SAMPLE_GOLD, "gold_public_hard518.jsonl", "data/gold_public_hard518.jsonl")
"""Where datasets have their gold if nobody names it."""


@dataclass(frozen=True, slots=True)
class GoldText:
    """A nugget's text, and where its sources are: addresses, else their names in the gold."""

    text: str
    weight: float
    sources: tuple[str, ...]


Texts: TypeAlias = Mapping[str, GoldText]


class GoldTexts:
    """The gold files that runs were scored by, by digest; 16 bytes a record."""

    def __init__(self) -> None:
        self._files: dict[str, _GoldFile] = {}
        self._digests: dict[Path, tuple[Stat, str]] = {}
        self._looking = threading.Lock()

    def prepare(self, about: About) -> None:
        """Find and index a run's gold."""
        self._file(about)

    def of(self, about: About, id: str, query: str) -> Texts:
        """The nuggets of an instance by their ids; {} where the gold is not to be found, or is another one by now."""
        file = self._file(about)
        if file is None:
            return {}
        try:
            return file.texts(id, query)
        except (CTSError, OSError, ValueError):
            return {}

    def _file(self, about: About) -> _GoldFile | None:
        wanted = about.gold_digest
        if len(wanted) != hashlib.sha256().digest_size * 2:
            return None
        with self._looking:
            known = self._files.get(wanted)
            if known is not None and stat_of(known.path) == known.state:
                return known
            return self._found(about, wanted)

    def _found(self, about: About, wanted: str) -> _GoldFile | None:
        for path in _candidates(about):
            state = stat_of(path)
            if 0 < state.size <= MAX_BYTES and self._digest(path, state) == wanted:
                with suppress(CTSError, OSError, ValueError):
                    file = self._files[wanted] = _GoldFile(path, state, about.fields)
                    return file
        return None

    def _digest(self, path: Path, state: Stat) -> str:
        known = self._digests.get(path)
        if known is None or known[0] != state:
            known = self._digests[path] = (state, _sha256(path))
        return known[1]


def _candidates(about: About) -> Iterator[Path]:
    """Where the gold may lie: where the manifest says, beside the queries, or in the sample world."""
    for name in about.data_files:
        path = _followed(Path(os.path.expanduser(name.replace("\0", ""))))
        yield path
        yield from (_followed(path.parent / beside) for beside in _BESIDE)
    yield _followed(sample_dir() / SAMPLE_GOLD)


def _followed(path: Path) -> Path:
    """Data may lie behind links: their digest says that they are the right ones."""
    return Path(os.path.realpath(path))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with opened(path) as fd:
            offset = 0
            while piece := os.pread(fd, _PIECE, offset):
                digest.update(piece)
                offset += len(piece)
    except OSError:
        return ""
    return digest.hexdigest()


class _GoldFile:
    """One file, indexed: the hash of each record's id and of its query, with where it begins."""

    def __init__(self, path: Path, state: Stat, fields: Mapping[str, str]) -> None:
        self.path, self.state = path, state
        self._fields = Fields.of_gold(path, fields)
        self._keys = Columns("int64", "int64")
        self._held: list[dict[str, Any]] = []
        """The rows of a table, and then what stands for an offset is a number of these."""
        self._is_table = path.suffix.lower() in CSV_SUFFIXES
        keys: list[int] = []
        places: list[int] = []
        for place, row in self._rows():
            for key in self._names(row):
                keys.append(id_hash(key))
                places.append(place)
        self._keys.add(keys, places)

    def texts(self, id: str, query: str) -> Texts:
        """By the id where that means this query here, else by the query. Raises CTSError for a record that is none."""
        asked = f"q {normalise(query)}" if query else ""
        for name in filter(None, (f"i {id}", asked)):
            for row in self._found(name):
                queries = [known for known in self._names(row) if known.startswith("q ")]
                if not asked or not queries or asked in queries:
                    return _texts(row, NuggetReader(self.path, self._fields).read(row, 1) or ())
        return {}

    def _found(self, name: str) -> Iterator[dict[str, Any]]:
        keys, places = self._keys.all()
        for place in places[keys == id_hash(name)].tolist():
            row = self._row(place)
            if row is not None and name in self._names(row):
                yield row

    def _row(self, place: int) -> dict[str, Any] | None:
        if self._is_table:
            return self._held[place]
        with opened(self.path) as fd:
            return record_in(line_at(fd, place))

    def _names(self, row: dict[str, Any]) -> list[str]:
        try:
            id = self._fields.identifier(row, 1)
            query = self._fields.text_or_none(row, "fused_query", 1)
        except CTSError:
            return []
        named = [f"i {id}"] if id else []
        return [*named, f"q {normalise(query)}"] if query else named

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._is_table:
            if self.state.size <= MAX_CSV_BYTES:
                self._held = [row for _, row in read_csv(self.path)]
            yield from enumerate(self._held)
            return
        offset = 0
        with opened(self.path) as fd, os.fdopen(os.dup(fd), "rb", buffering=_PIECE) as file:
            for line in file:
                row = record_in(line)
                if row is not None:
                    yield offset, row
                offset += len(line)


def _texts(row: Mapping[str, Any], nuggets: tuple[Nugget, ...]) -> Texts:
    urls = _urls(row.get("sources"))
    return {
        nugget.id: GoldText(nugget.text, nugget.weight, tuple(urls.get(id, id) for id in nugget.source_ids))
        for nugget in nuggets
    }


def _urls(sources: Any) -> dict[str, str]:
    """Addresses by the names that a gold's record gives its sources."""
    if not isinstance(sources, list):
        return {}
    rows = [one for one in sources if isinstance(one, dict)]
    return {str(one.get("id")): one["url"] for one in rows if isinstance(one.get("url"), str)}
