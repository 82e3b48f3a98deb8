"""What every dataset looks like to the rest of the program, and the digest a manifest records of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from cts_async.datasets.annotations import ReadAnnotations
from cts_async.datasets.gold import GoldIndex
from cts_async.datasets.lines import check_read_again, unreadable
from cts_async.records import Instance

_WALKED_WHEN_OPENED_BYTES: Final = 16 * 1024 * 1024

Instances = Callable[[], Iterator[Instance]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """An opened dataset. `instances()` streams it from the start, as often as it is called.

    `name` is short, for run names; `path` is the main file; `gold_path` where the nuggets come from, None
    if there are none or they stand inline; `corpus` the dataset's own documents (the sample has some);
    `count` is exact, or None where the file is too large to be walked just for that; `notes` are remarks
    for a person on how the files were read.
    """

    name: str
    path: Path
    gold_path: Path | None
    corpus: Path | None
    instances: Instances = field(repr=False)
    count: int | None
    notes: tuple[str, ...] = ()
    annotations: ReadAnnotations | None = field(default=None, repr=False)
    """Reads what people wrote about the queries; None where the dataset has nothing of the kind."""
    more_paths: tuple[Path, ...] = ()
    """Further files that the instances come from, beside the main one."""

    def sha256(self) -> str:
        """The digest of all that the instances come from: the main file's, with further files that of theirs."""
        digests = [sha256_of(path) for path in (self.path, *self.more_paths)]
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def make_dataset(
    name: str,
    path: Path,
    gold: GoldIndex | None,
    instances: Instances,
    *,
    corpus: Path | None = None,
    annotations: ReadAnnotations | None = None,
) -> Dataset:
    """Put a Dataset together.

    A main file of up to 16 MiB is walked once, so that InputErrors come before anything has started;
    those of a larger one come while it streams. Instances whose line of `gold` was left out are left out, too.
    """
    gold_path, notes = (None, ()) if gold is None else (gold.path, gold.notes)
    if gold is not None and gold.left_out:
        instances = partial(_with_sound_gold, instances, gold)
    count = sum(1 for _ in instances()) if _size(path) <= _WALKED_WHEN_OPENED_BYTES else None
    return Dataset(name, path, gold_path, corpus, instances, count, notes, annotations)


def _with_sound_gold(instances: Instances, gold: GoldIndex) -> Iterator[Instance]:
    for instance in instances():
        if instance.nuggets or not gold.leaves_out(instance.id, instance.fused_query):
            yield instance


def sha256_of(path: Path) -> str:
    """The file's sha256 in hexadecimal, read as a stream; InputError if it cannot be read, or only once."""
    check_read_again(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from None
