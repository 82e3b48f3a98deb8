"""The search index of a corpus file: the documents, BM25 scores, and the cache of indexes on disk.

A corpus file is JSON Lines of `{"id", "url", "title", "text"}`, read line by line; an invalid line is refused with its
number and field. BM25 is bm25s with Lucene's formula and constants (k1 = 1.2, b = 0.75). The index holds scores, the
offset of each document and a table of URLs, but no document.

An index is cached in a folder named by what determines it. A folder appears complete or not at all: it is written
under another name and renamed. A manifest with the length and checksum of every file reveals damage. A cache that
cannot be written is no error.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import unquote

import orjson

from cts_async.errors import InputError
from cts_async.search.backends.base import Page
from cts_async.search.terms import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- Documents


MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longer lines are refused; no more than that of a line is ever held in memory."""
_BOM: Final = b"\xef\xbb\xbf"
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)


def read_documents(
    stream: BinaryIO, path: Path, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, int, Page]]:
    """Yield (line number from 1, byte offset, document) for each line that is not blank.

    Raises `InputError` at the first line that is not a document, or is longer than `max_line_bytes`.
    """
    offset = 0
    for number, line in enumerate(iter(partial(stream.readline, max_line_bytes + 1), b""), 1):
        if len(line) > max_line_bytes:
            raise InputError(path, f"is longer than {max_line_bytes} bytes", line=number)
        skip = len(_BOM) if number == 1 and line.startswith(_BOM) else 0
        if line[skip:].strip():
            yield number, offset + skip, parse_document(line[skip:], path, number)
        offset += len(line)


def parse_document(line: bytes, path: Path, number: int | None = None) -> Page:
    """Parse one document; further fields are ignored. `id` and `url` must not be empty."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(path, _what_is_broken(line, error), line=number) from None
    if not isinstance(record, dict):
        raise InputError(path, "a document must be a JSON object", line=number)
    values = [_text(record, field, path, number) for field in ("id", "url", "title", "text")]
    return Page(*values)


def _what_is_broken(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as broken:
        return f"not UTF-8 (byte {broken.start + 1} of the line)"
    if b"\0" in line:
        return "contains a NUL byte: the file is damaged or not text"
    return f"not JSON: {error.msg} at column {error.colno}"


def _text(record: dict[str, object], field: str, path: Path, number: int | None) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        problem = "must be a string" if field in record else "is missing"
        raise InputError(path, problem, line=number, field=field)
    if field in ("id", "url") and not value.strip():
        raise InputError(path, "must not be empty", line=number, field=field)
    return value


def canonical_url(url: str) -> str:
    """Return `url` without differences in scheme, fragment, trailing slash, percent-escapes and the host's case."""
    bare = _SCHEME.sub("", url.strip().partition("#")[0], count=1)
    host, slash, path = bare.partition("/")
    return unquote(f"{host.lower()}{slash}{path}").rstrip("/")


def digest(text: str) -> int:
    """Return a 64-bit hash of `text` that is the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little"
    )


# --- Index


K1: Final = 1.2
B: Final = 0.75
TITLE_WEIGHT: Final = 2
"""A word of the title counts as often as this many words of the text."""
_NO_TERM: Final = 0


@dataclass(frozen=True, slots=True)
class Index:
    """Rows are documents in file order. `offsets` (bytes) has one more entry than there are rows: the file's end.

    `url_hashes[i]` is `digest(canonical_url(url))` of row `url_rows[i]`, sorted.
    """

    bm25: Any
    offsets: NDArray[np.int64]
    url_hashes: NDArray[np.uint64]
    url_rows: NDArray[np.int64]

    def rows_of_url(self, url: str) -> list[int]:
        """Return the rows whose canonical URL may be that of `url`, in file order."""
        import numpy as np

        key = np.uint64(digest(canonical_url(url)))
        first, last = (int(np.searchsorted(self.url_hashes, key, side)) for side in ("left", "right"))
        return [int(row) for row in self.url_rows[first:last]]


class _Rows:
    """Term ids of all documents in one flat array, which bm25s iterates like a list of lists."""

    def __init__(self) -> None:
        self._flat = array("i")
        self._ends = array("q", [0])

    def append(self, ids: list[int]) -> None:
        self._flat.extend(ids or [_NO_TERM])
        self._ends.append(len(self._flat))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[list[int]]:
        for row in range(len(self)):
            yield self._flat[self._ends[row] : self._ends[row + 1]].tolist()


class _Builder:
    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.stream, self.path = stream, path
        self.vocabulary: dict[str, int] = {"": _NO_TERM}
        self.rows = _Rows()
        self.lines, self.offsets = array("q"), array("q")
        self.ids, self.urls, self.canonical_urls = array("Q"), array("Q"), array("Q")

    def add(self, line: int, offset: int, page: Page) -> None:
        numbers = self.vocabulary
        title = terms(page.title, keep_stops=True) * TITLE_WEIGHT
        self.rows.append([numbers.setdefault(term, len(numbers)) for term in title + terms(page.text)])
        self.lines.append(line)
        self.offsets.append(offset)
        self.ids.append(digest(page.id))
        self.urls.append(digest(page.url))
        self.canonical_urls.append(digest(canonical_url(page.url)))

    def finish(self) -> Index:
        import numpy as np

        if not self.rows:
            raise InputError(self.path, "contains no document")
        self.offsets.append(self.stream.seek(0, 2))
        self._refuse_duplicates("id", self.ids, lambda page: page.id)
        self._refuse_duplicates("url", self.urls, lambda page: page.url)
        hashes = np.array(self.canonical_urls, dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        return Index(self._bm25(), np.array(self.offsets, dtype=np.int64), hashes[order], order)

    def _refuse_duplicates(self, field: str, hashes: array[int], value: Callable[[Page], str]) -> None:
        """Raise for the first line that repeats a value; equal hashes are only candidates."""
        import numpy as np

        keys = np.array(hashes, dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        pairs = sorted((int(order[at + 1]), int(order[at])) for at in same)
        for later, earlier in pairs:
            found = value(self._page(later))
            if found == value(self._page(earlier)):
                problem = f"{found!r} is already used on line {self.lines[earlier]}"
                raise InputError(self.path, problem, line=self.lines[later], field=field)

    def _page(self, row: int) -> Page:
        self.stream.seek(self.offsets[row])
        return parse_document(self.stream.readline(), self.path, self.lines[row])

    def _bm25(self) -> Any:
        bm25 = new_bm25()
        bm25.nonoccurrence_array = None
        ids = list(self.vocabulary.values())
        bm25.scores = bm25.build_index_from_ids(ids, self.rows, show_progress=False)
        bm25.vocab_dict = self.vocabulary
        return bm25


def new_bm25() -> Any:
    """Return an empty bm25s index with this module's constants."""
    import bm25s

    return bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="numpy")


def build_index(stream: BinaryIO, path: Path) -> Index:
    """Index the documents in `stream`. Raises InputError for an invalid or repeated document, or if there is none."""
    builder = _Builder(stream, path)
    stream.seek(0)
    for line, offset, page in read_documents(stream, path):
        builder.add(line, offset, page)
    return builder.finish()


# --- The cache


_MANIFEST: Final = "manifest.json"
_ARRAYS: Final = ("offsets", "url_hashes", "url_rows")
_STALE_S: Final = 24 * 3600


def default_cache_dir() -> Path | None:
    """Return `$XDG_CACHE_HOME/cts_async/corpus`, else that below `~/.cache`; None if there is no home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "cts_async" / "corpus"
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "cts_async" / "corpus"
    return None


def load_index(folder: Path) -> Index | None:
    """Load the index in `folder`, memory-mapped; None if there is none or it is damaged."""
    import bm25s
    import numpy as np

    try:
        if orjson.loads((folder / _MANIFEST).read_bytes()) != _checksums(folder):
            return None
        bm25 = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        arrays = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS]
        return Index(bm25, *arrays)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_index(index: Index, folder: Path) -> bool:
    """Write `index` to `folder`, replacing a damaged one; False if that is not possible.

    Two processes may do so at the same time: one folder wins, and both are correct.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    except OSError:
        return False
    try:
        _write(index, draft)
        return _publish(draft, folder)
    except OSError:
        return False
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(index: Index, draft: Path) -> None:
    import numpy as np

    index.bm25.save(draft, show_progress=False)
    for name in _ARRAYS:
        np.save(draft / f"{name}.npy", getattr(index, name), allow_pickle=False)
    (draft / _MANIFEST).write_bytes(orjson.dumps(_checksums(draft)))


def _publish(draft: Path, folder: Path) -> bool:
    try:
        draft.rename(folder)
    except OSError:
        if load_index(folder) is not None:
            return True
        folder.rename(draft.with_name(draft.name + "-damaged"))
        draft.rename(folder)
        shutil.rmtree(draft.with_name(draft.name + "-damaged"), ignore_errors=True)
    return True


def _checksums(folder: Path) -> dict[str, list[int]]:
    files = sorted(entry for entry in folder.iterdir() if entry.name != _MANIFEST)
    return {entry.name: [entry.stat().st_size, _crc(entry)] for entry in files}


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def _sweep(root: Path) -> None:
    """Remove drafts older than a day, left behind by killed processes."""
    for draft in root.glob(".draft-*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > _STALE_S:
                shutil.rmtree(draft, ignore_errors=True)
