"""Search in a file of documents, in English and Chinese, without a network.

`Corpus` is synchronous and thread-safe; `CorpusBackend` is the agent's interface to it.
"""

from __future__ import annotations

import hashlib
import math
import os
import weakref
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.to_thread

from cts_async.errors import InputError, ToolError
from cts_async.search.backends.base import Hit, Page
from cts_async.search.backends.index import (
    Index,
    build_index,
    canonical_url,
    default_cache_dir,
    load_index,
    parse_document,
    store_index,
)
from cts_async.search.terms import best_window, query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- Best


def best_rows(scores: NDArray[np.floating[Any]], limit: int) -> list[int]:
    """Return the rows of the `limit` highest scores, highest first, equal ones in order; all if there are fewer."""
    import numpy as np

    count = min(limit, len(scores))
    if count < 1:
        return []
    least = np.partition(scores, -count)[-count]
    rows = np.flatnonzero(scores >= least)
    return [int(row) for row in rows[np.argsort(-scores[rows], kind="stable")][:count]]


# --- Corpus


_FORMAT: Final = "1"
"""Part of the cache key. Increase it when the same file would give another index: terms, weights, files."""
_SNIPPET_SOURCE_CHARS: Final = 20_000
"""Characters of a long document that are searched for a snippet."""


class Corpus:
    """Documents in a JSON Lines file, ranked by BM25. They stay in the file; hits are read from it.

    `from_cache`: the index was found on disk. `folder`: where it is cached, None if nowhere.
    """

    def __init__(
        self, path: Path, stream: BufferedReader, index: Index, *, from_cache: bool, folder: Path | None
    ) -> None:
        self.path, self.from_cache, self.folder = path, from_cache, folder
        self._index = index
        self._ids: dict[int, str] = {}
        self._rows: dict[str, int] | None = None
        self._fd = os.dup(stream.fileno())
        self.close = weakref.finalize(self, os.close, self._fd)
        """Close the file; called when the corpus is garbage collected, too."""

    @classmethod
    def open(cls, path: Path, cache_dir: Path | None = None) -> Self:
        """Index the file at `path`, or load its index if this content was indexed before.

        The index is cached in `cache_dir` (by default `$XDG_CACHE_HOME/cts_async/corpus`) if that can be written.
        Raises InputError naming line and field of an invalid document.
        """
        try:
            with path.open("rb") as stream:
                index, from_cache, folder = _load_or_build(path, stream, cache_dir or default_cache_dir())
                return cls(path, stream, index, from_cache=from_cache, folder=folder)
        except IsADirectoryError:
            raise InputError(path, "is a directory: name the JSON Lines file in it") from None
        except OSError as error:
            raise InputError(path, error.strerror or str(error)) from error

    def __len__(self) -> int:
        return len(self._index.offsets) - 1

    @property
    def terms(self) -> int:
        """The number of distinct terms: stemmed words without stop words."""
        return len(self._index.bm25.vocab_dict) - 1  # the first entry stands for no term

    def search(self, query: str, limit: int, *, snippet_chars: int = 240) -> list[Hit]:
        """Return the `limit` best documents that share a term with `query`, best first, ties in file order."""
        known = self._known(query)
        weights = {term: self._rarity(number) for term, number in known.items()}
        return [self._hit(row, score, weights, snippet_chars) for row, score in self._best(known, limit)]

    def rank(self, query: str, limit: int) -> list[tuple[str, float]]:
        """Return (id, score) of what `search` would find, without making snippets."""
        return [(self.id_of(row), score) for row, score in self._best(self._known(query), limit)]

    def id_of(self, row: int) -> str:
        """Return the id of the document at `row`, from 0; it is read from the file once."""
        known = self._ids.get(row)
        if known is None:
            known = self._ids[row] = self._page(row).id
        return known

    def document(self, id: str) -> Page | None:
        """Return the document with this id, None if there is none. The first call reads all ids."""
        if self._rows is None:
            self._rows = {self.id_of(row): row for row in range(len(self))}
        row = self._rows.get(id)
        return None if row is None else self._page(row)

    def documents(self) -> Iterator[Page]:
        """Yield all documents in file order."""
        return (self._page(row) for row in range(len(self)))

    def page(self, url: str) -> Page | None:
        """Return the document at `url`, None if there is none.

        Scheme, fragment, escapes and a trailing slash matter only if documents differ in nothing else.
        """
        pages = [self._page(row) for row in self._index.rows_of_url(url)]
        alike = [page for page in pages if canonical_url(page.url) == canonical_url(url)]
        return next((page for page in alike if page.url == url), alike[0] if alike else None)

    def _known(self, query: str) -> dict[str, int]:
        vocabulary = self._index.bm25.vocab_dict
        return {term: vocabulary[term] for term in query_terms(query) if term in vocabulary}

    def _best(self, known: dict[str, int], limit: int) -> list[tuple[int, float]]:
        """Return (row, score) of the documents that contain one of the terms, best first, ties in file order."""
        if not known:
            return []
        import numpy as np

        scores = self._index.bm25.get_scores_from_ids(list(known.values()))
        rows = best_rows(scores, min(limit, int(np.count_nonzero(scores > 0))))
        return [(row, float(scores[row])) for row in rows]

    def _hit(self, row: int, score: float, weights: dict[str, float], snippet_chars: int) -> Hit:
        page = self._page(row)
        snippet = best_window(page.text[:_SNIPPET_SOURCE_CHARS], weights, snippet_chars)
        return Hit(page.id, page.url, page.title, snippet, score)

    def _rarity(self, number: int) -> float:
        bounds = self._index.bm25.scores["indptr"]
        documents = max(1, int(bounds[number + 1] - bounds[number]))
        return 1 / math.sqrt(documents)

    def _page(self, row: int) -> Page:
        start, end = (int(at) for at in self._index.offsets[row : row + 2])
        return parse_document(_pread(self._fd, end - start, start), self.path)


def _pread(fd: int, size: int, offset: int) -> bytes:
    blocks: list[bytes] = []
    while size > 0 and (block := os.pread(fd, size, offset)):
        blocks.append(block)
        size, offset = size - len(block), offset + len(block)
    return b"".join(blocks)


def _load_or_build(
    path: Path, stream: BufferedReader, cache_dir: Path | None
) -> tuple[Index, bool, Path | None]:
    """Return the index, True if it came from the cache, and the folder where it is cached."""
    before = os.fstat(stream.fileno())
    folder = cache_dir and cache_dir / _key(stream)
    if folder and (cached := load_index(folder)):
        return cached, True, folder
    index = build_index(stream, path)
    after = os.fstat(stream.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise InputError(path, "changed while it was being indexed")
    kept = folder is not None and store_index(index, folder)
    return index, False, folder if kept else None


def _key(stream: BufferedReader) -> str:
    content = hashlib.file_digest(stream, "sha256").hexdigest()
    made_by = f"{_FORMAT} bm25s {version('bm25s')} jieba {version('jieba')}"
    return hashlib.sha256(f"{content} {made_by}".encode()).hexdigest()


class CorpusBackend:
    """A `SearchEngine` and `PageReader` over a corpus, opened in a thread at the first call or by `load`."""

    name: Final = "corpus"
    engine: Final = ""

    def __init__(self, path: Path, cache_dir: Path | None = None, *, snippet_chars: int = 240) -> None:
        self._path, self._cache_dir, self._snippet_chars = path, cache_dir, snippet_chars
        self._corpus: Corpus | None = None
        self._opening = anyio.Lock()

    async def load(self) -> Corpus:
        """Open the corpus unless it is open. Raises InputError for an invalid file."""
        async with self._opening:
            if self._corpus is None:
                self._corpus = await anyio.to_thread.run_sync(Corpus.open, self._path, self._cache_dir)
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
