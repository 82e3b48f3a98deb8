"""The search index of a corpus file: BM25 scores, where each document begins, and a table of urls.

BM25 is bm25s with Lucene's formula and constants (k1 = 1.2, b = 0.75). Nothing here holds a document.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from cts_async.errors import InputError
from cts_async.search.backends.base import Page
from cts_async.search.backends.documents import canonical_url, digest, parse_document, read_documents
from cts_async.search.backends.tokens import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75
TITLE_WEIGHT: Final = 2
"""A word of the title counts as often as this many words of the text."""
_NO_TERM: Final = 0


@dataclass(frozen=True, slots=True)
class Index:
    """Rows are documents in file order. `offsets` has one entry more than there are rows: the file's end.

    `url_hashes` is sorted and holds `digest(canonical_url(url))` of row `url_rows[i]` at i.
    """

    bm25: Any
    offsets: NDArray[np.int64]
    url_hashes: NDArray[np.uint64]
    url_rows: NDArray[np.int64]

    def rows_of_url(self, url: str) -> list[int]:
        """Give the rows whose canonical url may be that of `url`, in file order."""
        import numpy as np

        key = np.uint64(digest(canonical_url(url)))
        first, last = (int(np.searchsorted(self.url_hashes, key, side)) for side in ("left", "right"))
        return [int(row) for row in self.url_rows[first:last]]


class _Rows:
    """Term ids of all documents in one flat array, looked at by bm25s as if it were a list of lists."""

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
            raise InputError(self.path, "holds no document")
        self.offsets.append(self.stream.seek(0, 2))
        self._refuse_twins("id", self.ids, lambda page: page.id)
        self._refuse_twins("url", self.urls, lambda page: page.url)
        hashes = np.array(self.canonical_urls, dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        return Index(self._bm25(), np.array(self.offsets, dtype=np.int64), hashes[order], order)

    def _refuse_twins(self, field: str, hashes: array[int], value: Callable[[Page], str]) -> None:
        """Raise for the first line that repeats a value; equal hashes alone prove nothing."""
        import numpy as np

        keys = np.array(hashes, dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        pairs = sorted((int(order[at + 1]), int(order[at])) for at in same)
        for later, earlier in pairs:
            twin = value(self._page(later))
            if twin == value(self._page(earlier)):
                problem = f"{twin!r} stands already on line {self.lines[earlier]}"
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
    """Give an empty bm25s index with this module's constants."""
    import bm25s

    return bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="numpy")


def build_index(stream: BinaryIO, path: Path) -> Index:
    """Index the documents in `stream`; raises `InputError` for a bad, repeated or missing one."""
    builder = _Builder(stream, path)
    stream.seek(0)
    for line, offset, page in read_documents(stream, path):
        builder.add(line, offset, page)
    return builder.finish()
