"""Indexes kept on disk, one folder each, named by what determines them.

A folder appears complete or not at all: it is written beside its place and renamed. A manifest with the
length and checksum of every file tells a damaged one. A cache that cannot be written is no error.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import orjson

from cts_async.search.backends.index import Index

_MANIFEST: Final = "manifest.json"
_ARRAYS: Final = ("offsets", "url_hashes", "url_rows")
_STALE_S: Final = 24 * 3600


def default_cache_dir() -> Path | None:
    """Give `$XDG_CACHE_HOME/cts_async/corpus`, else below `~/.cache`; None where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "cts_async" / "corpus"
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "cts_async" / "corpus"
    return None


def load_index(folder: Path) -> Index | None:
    """Give the index in `folder`, memory-mapped; None if there is none or it is damaged."""
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
    """Put `index` into `folder`, replacing what cannot be loaded from there; False if that is not possible.

    Two processes may do so at once: one folder wins, and either is right.
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
    """Remove the drafts that processes killed more than a day ago left behind."""
    for draft in root.glob(".draft-*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > _STALE_S:
                shutil.rmtree(draft, ignore_errors=True)
