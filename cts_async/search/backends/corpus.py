"""Search in a file of documents, in English and Chinese, without a network.

A corpus file is JSON Lines of `{"id", "url", "title", "text"}`; an invalid line is refused with its number and field.
BM25 is bm25s with Lucene's formula and constants (k1 = 1.2, b = 0.75). The index holds scores, ids, URLs and the offset
of each document, but no document: hits are read from the file.

An index is cached in a folder named by the digest of what determines it. The folder appears complete or not at all: it
is written under another name and renamed; the digests of its files reveal damage. A cache that cannot be written is no
error.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self
from urllib.parse import unquote

import anyio
import anyio.to_thread
import orjson

from cts_async import foreign_json
from cts_async.config import home_folder
from cts_async.errors import InputError, ToolError
from cts_async.safe_files import open_regular
from cts_async.search.backends import Hit, Page, Ranked
from cts_async.search.terms import best_window, query_terms, terms

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

    Raises InputError at the first line that is not a document, or is longer than `max_line_bytes`, or repeats an id
    or a URL; and for a file without documents.
    """
    seen: dict[tuple[str, str], int] = {}
    offset = 0
    for number, line in enumerate(iter(partial(stream.readline, max_line_bytes + 1), b""), 1):
        if len(line) > max_line_bytes:
            raise InputError(path, f"is longer than {max_line_bytes} bytes", line=number)
        skip = 0
        if number == 1 and line.startswith(_BOM):
            skip = len(_BOM)
        if line[skip:].strip():
            page = parse_document(line[skip:], path, number)
            for field, value in (("id", page.id), ("url", page.url)):
                earlier = seen.setdefault((field, value), number)
                if earlier != number:
                    problem = f"{value!r} is already used on line {earlier}"
                    raise InputError(path, problem, line=number, field=field)
            yield number, offset + skip, page
        offset += len(line)
    if not seen:
        raise InputError(path, "contains no document")


def parse_document(line: bytes, path: Path, number: int | None = None) -> Page:
    """Parse one document; further fields are ignored. `id` and `url` must not be empty."""
    try:
        record = foreign_json.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(path, _what_is_broken(line, error), line=number) from None
    except foreign_json.NestedTooDeeply as error:
        raise InputError(path, str(error), line=number) from None
    if not isinstance(record, dict):
        raise InputError(path, "a document must be a JSON object", line=number)
    return Page(
        _text_field(record, "id", path, number),
        _text_field(record, "url", path, number),
        _text_field(record, "title", path, number),
        _text_field(record, "text", path, number),
    )


def _what_is_broken(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as broken:
        return f"not UTF-8 (byte {broken.start + 1} of the line)"
    if b"\0" in line:
        return "contains a NUL byte: the file is damaged or not text"
    return f"not JSON: {error.msg} at column {error.colno}"


def _text_field(record: dict[str, object], field: str, path: Path, number: int | None) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        problem = "is missing"
        if field in record:
            problem = "must be a string"
        raise InputError(path, problem, line=number, field=field)
    if field in ("id", "url") and not value.strip():
        raise InputError(path, "must not be empty", line=number, field=field)
    return value


def is_address(text: str) -> bool:
    """True for an http or https URL."""
    return _SCHEME.match(text.strip()) is not None


def canonical_url(url: str) -> str:
    """Return `url` without differences in scheme, fragment, trailing slash, percent-escapes and the host's case."""
    bare = _SCHEME.sub("", url.strip().partition("#")[0], count=1)
    host, slash, path = bare.partition("/")
    return unquote(f"{host.lower()}{slash}{path}").rstrip("/")


# --- Index

K1: Final = 1.2
B: Final = 0.75
TITLE_WEIGHT: Final = 2
"""A word of the title counts as often as this many words of the text."""
_NO_TERM: Final = 0
_FORMAT: Final = "1"
"""Part of the cache key. Increase it when the same file would give another index: terms, weights, files."""
_OFFSETS: Final = "offsets.npy"
_NAMES: Final = "names.json"
_DIGESTS: Final = "manifest.json"


@dataclass(frozen=True)
class Index:
    """Rows are documents in file order. `offsets` (bytes) has one more entry than there are rows: the file's end."""

    bm25: Any
    offsets: NDArray[np.int64]
    ids: list[str]
    urls: list[str]
    """Canonical URLs."""

    @cached_property
    def row_of_id(self) -> dict[str, int]:
        return {id: row for row, id in enumerate(self.ids)}

    @cached_property
    def rows_of_url(self) -> dict[str, list[int]]:
        """Rows in file order: documents may differ in what `canonical_url` leaves out."""
        rows: dict[str, list[int]] = {}
        for row, url in enumerate(self.urls):
            rows.setdefault(url, []).append(row)
        return rows


def build_index(stream: BinaryIO, path: Path) -> Index:
    """Index the documents in `stream`. Raises InputError as `read_documents`."""
    import bm25s
    import numpy as np

    stream.seek(0)
    # The empty term, which no query has, stands for the text of a document without any.
    vocabulary: dict[str, int] = {"": _NO_TERM}
    rows: list[array[int]] = []
    offsets, ids, urls = array("q"), list[str](), list[str]()
    for _, offset, page in read_documents(stream, path):
        words = terms(page.title, keep_stops=True) * TITLE_WEIGHT + terms(page.text)
        numbers = [vocabulary.setdefault(word, len(vocabulary)) for word in words]
        rows.append(array("i", numbers or [_NO_TERM]))  # a quarter of a list's memory
        offsets.append(offset)
        ids.append(page.id)
        urls.append(canonical_url(page.url))
    offsets.append(stream.seek(0, 2))
    bm25 = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="numpy")
    bm25.nonoccurrence_array = None
    bm25.scores = bm25.build_index_from_ids(list(vocabulary.values()), rows, show_progress=False)
    bm25.vocab_dict = vocabulary
    return Index(bm25, np.array(offsets, dtype=np.int64), ids, urls)


def best_rows(scores: NDArray[np.floating[Any]], limit: int) -> list[int]:
    """Return the rows of the `limit` highest scores, highest first, equal ones in order; all if there are fewer."""
    import numpy as np

    count = min(limit, len(scores))
    if count < 1:
        return []
    # All that are as good as the last one: among equals the order of the file decides, not that of the partition.
    least = np.partition(scores, -count)[-count]
    rows = np.flatnonzero(scores >= least)
    return [int(row) for row in rows[np.argsort(-scores[rows], kind="stable")][:count]]


# --- The cache


def default_cache_dir() -> Path | None:
    """Return `$XDG_CACHE_HOME/cts_async/corpus`, else that below `~/.cache`; None if there is no home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "cts_async" / "corpus"
    home = home_folder()
    if home is None:
        return None
    return home / ".cache" / "cts_async" / "corpus"


def load_index(folder: Path) -> Index | None:
    """Load the index in `folder`, memory-mapped; None if there is none or it is damaged."""
    import bm25s
    import numpy as np

    try:
        if orjson.loads((folder / _DIGESTS).read_bytes()) != _digests(folder):
            return None
        bm25 = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        offsets = np.load(folder / _OFFSETS, mmap_mode="r")
        names = orjson.loads((folder / _NAMES).read_bytes())
        return Index(bm25, offsets, names["ids"], names["urls"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_index(index: Index, folder: Path) -> bool:
    """Write `index` to `folder`, replacing a damaged one; False if that is not possible.

    Several processes may do so at the same time: one folder wins, and all are correct.
    """
    import numpy as np

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=folder.parent) as draft:
            written = Path(draft) / "index"
            index.bm25.save(written, show_progress=False)
            np.save(written / _OFFSETS, index.offsets, allow_pickle=False)
            (written / _NAMES).write_bytes(orjson.dumps({"ids": index.ids, "urls": index.urls}))
            (written / _DIGESTS).write_bytes(orjson.dumps(_digests(written)))
            shutil.rmtree(folder, ignore_errors=True)
            written.rename(folder)
    except OSError:
        return folder.exists()  # another process was faster
    return True


def _digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file: without a sync, a power cut may leave files of the right size with zeros."""
    digests = {}
    for path in sorted(folder.iterdir()):
        if path.name != _DIGESTS:
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


# --- Corpus

_SNIPPET_SOURCE_CHARS: Final = 20_000
"""Characters of a long document that are searched for a snippet."""


class Corpus:
    """Documents in a JSON Lines file; a `Ranker` of them by BM25. Synchronous and thread-safe.

    `from_cache`: the index was found on disk. `folder`: where it is cached, None if nowhere.
    """

    name: Final = "bm25"

    def __init__(
        self, path: Path, stream: BufferedReader, index: Index, *, from_cache: bool, folder: Path | None
    ) -> None:
        self.path, self.from_cache, self.folder = path, from_cache, folder
        self._index = index
        # Kept open: the offsets hold for this file, whatever its path names later.
        self._fd = os.dup(stream.fileno())
        self.close = weakref.finalize(self, os.close, self._fd)
        """Close the file; called when the corpus is garbage collected, too."""

    @classmethod
    def open(cls, path: Path, cache_dir: Path | None = None, *, stores: bool = True) -> Self:
        """Index the file at `path`, or load its index if this content was indexed before.

        The index is cached in `cache_dir` (by default `$XDG_CACHE_HOME/cts_async/corpus`) if that can be written, and
        unless not `stores`.
        Raises InputError naming line and field of an invalid document.
        """
        try:
            with open_regular(path) as stream:
                before = os.fstat(stream.fileno())
                cache_dir = cache_dir or default_cache_dir()
                folder: Path | None = None
                cached: Index | None = None
                if cache_dir is not None:
                    folder = cache_dir / _key(stream)
                    cached = load_index(folder)
                if cached is not None:
                    return cls(path, stream, cached, from_cache=True, folder=folder)
                index = build_index(stream, path)
                # The offsets would lead to the middle of other documents.
                after = os.fstat(stream.fileno())
                if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                    raise InputError(path, "changed while it was being indexed")
                if not stores or (folder is not None and not store_index(index, folder)):
                    folder = None
                return cls(path, stream, index, from_cache=False, folder=folder)
        except IsADirectoryError:
            raise InputError(path, "is a directory: name the JSON Lines file in it") from None
        except OSError as error:
            raise InputError(path, error.strerror or str(error)) from error

    def __len__(self) -> int:
        return len(self._index.ids)

    @property
    def terms(self) -> int:
        """The number of distinct terms: stemmed words without stop words."""
        return len(self._index.bm25.vocab_dict) - 1  # the first entry stands for no term

    def search(self, query: str, limit: int, *, snippet_chars: int = 240) -> list[Hit]:
        """Return the `limit` best documents that share a term with `query`, best first, ties in file order."""
        numbers = self._numbers_of(query)
        starts = self._index.bm25.scores["indptr"]
        weights = {term: 1 / math.sqrt(max(1, starts[n + 1] - starts[n])) for term, n in numbers.items()}
        return [self._hit(row, score, weights, snippet_chars) for row, score in self._best(numbers, limit)]

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """Return what `search` would find, without making snippets."""
        return [Ranked(self.id_of(row), score) for row, score in self._best(self._numbers_of(query), limit)]

    def id_of(self, row: int) -> str:
        """Return the id of the document at `row`, from 0."""
        return self._index.ids[row]

    def document(self, id: str) -> Page | None:
        """Return the document with this id, None if there is none."""
        row = self._index.row_of_id.get(id)
        if row is None:
            return None
        return self._page_at(row)

    def documents(self) -> Iterator[Page]:
        """Yield all documents in file order."""
        return (self._page_at(row) for row in range(len(self)))

    def page(self, url: str) -> Page | None:
        """Return the document at `url`, None if there is none.

        Scheme, fragment, escapes and a trailing slash matter only if documents differ in nothing else.
        """
        alike = [self._page_at(row) for row in self._index.rows_of_url.get(canonical_url(url), ())]
        for page in alike:
            if page.url == url:
                return page
        if alike:
            return alike[0]
        return None

    def _numbers_of(self, query: str) -> dict[str, int]:
        """The numbers of a query's terms in the index, without those that no document has."""
        vocabulary = self._index.bm25.vocab_dict
        return {term: vocabulary[term] for term in query_terms(query) if term in vocabulary}

    def _best(self, numbers: dict[str, int], limit: int) -> list[tuple[int, float]]:
        """Return (row, score) of the documents that contain one of the terms, best first, ties in file order."""
        if not numbers:
            return []
        import numpy as np

        scores = self._index.bm25.get_scores_from_ids(list(numbers.values()))
        rows = best_rows(scores, min(limit, int(np.count_nonzero(scores > 0))))
        return [(row, float(scores[row])) for row in rows]

    def _hit(self, row: int, score: float, weights: dict[str, float], snippet_chars: int) -> Hit:
        page = self._page_at(row)
        snippet = best_window(page.text[:_SNIPPET_SOURCE_CHARS], weights, snippet_chars)
        return Hit(page.id, page.url, page.title, snippet, score)

    def _page_at(self, row: int) -> Page:
        start, end = (int(at) for at in self._index.offsets[row : row + 2])
        # `pread`, since threads share the position of a descriptor.
        return parse_document(os.pread(self._fd, end - start, start), self.path)


def _key(stream: BufferedReader) -> str:
    content = hashlib.file_digest(stream, "sha256").hexdigest()
    # Another version of these may cut other words, or write other files.
    made_by = f"{_FORMAT} bm25s {version('bm25s')} jieba {version('jieba')}"
    return hashlib.sha256(f"{content} {made_by}".encode()).hexdigest()


class CorpusBackend:
    """A `SearchEngine` and `PageReader` over a corpus, opened in a thread at the first call or by `load`."""

    name: Final = "corpus"
    engine: Final = ""

    def __init__(
        self, path: Path, cache_dir: Path | None = None, *, snippet_chars: int = 240, stores: bool = True
    ) -> None:
        """`cache_dir` and `stores` as in `Corpus.open`."""
        self._path, self._snippet_chars = path, snippet_chars
        self._open = partial(Corpus.open, path, cache_dir, stores=stores)
        self._corpus: Corpus | None = None
        self._opening = anyio.Lock()

    async def load(self) -> Corpus:
        """Open the corpus unless it is open. Raises InputError for an invalid file."""
        # Instances begin at the same time: one of them indexes, the others wait for it.
        async with self._opening:
            if self._corpus is None:
                self._corpus = await anyio.to_thread.run_sync(self._open)
            return self._corpus

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Return the `limit` best documents for `query`."""
        corpus = await self.load()
        search = partial(corpus.search, query, limit, snippet_chars=self._snippet_chars)
        return await anyio.to_thread.run_sync(search)

    async def fetch(self, url: str) -> Page:
        """Return the document at `url`; ToolError if the corpus has none."""
        corpus = await self.load()
        page = await anyio.to_thread.run_sync(corpus.page, url)
        if page is None:
            host = canonical_url(url).partition("/")[0]
            raise ToolError(f"there is no page at {url} in this collection", reason="no such page", host=host)
        return page
