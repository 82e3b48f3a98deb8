"""The datasets by name. A new one is a file with an opener, and its line in KINDS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from cts_async.datasets.dataset import Dataset, make_dataset
from cts_async.datasets.fields import check_mapping
from cts_async.datasets.gold import read_gold
from cts_async.datasets.hard518 import open_hard518
from cts_async.datasets.lines import check_read_again
from cts_async.datasets.queries import read_queries
from cts_async.datasets.rows import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.datasets.sample import open_sample
from cts_async.errors import UsageError

Opener = Callable[[str, Path | None, Mapping[str, str], bool], Dataset]
"""What follows the colon ("" if nothing does), the gold file, the field mapping, `skip_bad_gold` -> the dataset."""


def imported_on_call(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when the function is first called: nothing below may import it."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return call


KINDS: Final[Mapping[str, Opener]] = {
    "sample": open_sample,
    "hard518": open_hard518,
    "qulac": imported_on_call("cts_async.neighbours.qulac.collection", "open_qulac"),
    "clariq": imported_on_call("cts_async.neighbours.clariq.collection", "open_clariq"),
}

WITHOUT_INSTANCES: Final[Mapping[str, str]] = {
    "mimics-duo": "has panes and no instances to run: see cts data mimics-duo, and cts data show mimics-duo:DIR",
}
"""Kinds that only `cts data` opens, and what to do instead."""

_MARKS: Final[Mapping[str, tuple[str, ...]]] = {
    "mimics-duo": (
        "Mimics-ClickExploreSampling.tsv",
        "Task1-OfflineRating.tsv",
        "Task2-QualityLabelling.tsv",
        "Task3-AspectLabelling.tsv",
    ),
    "clariq": ("train.tsv", "dev.tsv", "test_with_labels.tsv"),
}
"""Files by which a folder is recognised that somebody named without its kind."""
_SPEC: Final = re.compile(r"([A-Za-z][\w-]*)(?::(.*))?", re.DOTALL)


def open_dataset(
    spec: str,
    gold: Path | None = None,
    fields: Mapping[str, str] | None = None,
    *,
    skip_bad_gold: bool = False,
) -> Dataset:
    """Open `sample`, `hard518:PATH`, `qulac:PATH`, `clariq:PATH` or the path of a .csv or .jsonl file of queries.

    With `skip_bad_gold`, instances whose gold line has no usable nuggets are left out; `Dataset.notes` name them.
    UsageError for a kind there is not; InputError for files that cannot be understood.
    """
    mapping = dict(fields or {})
    check_mapping(mapping)
    for path in (Path(spec), Path(spec.partition(":")[2]), gold):
        if path is not None:
            check_read_again(path)
    if Path(spec).suffix.lower() in (*CSV_SUFFIXES, *JSONL_SUFFIXES) and not _kind(spec):
        return _open_file(Path(spec), gold, mapping, skip_bad_gold)
    match = _SPEC.fullmatch(spec)
    opener = KINDS.get(match[1]) if match else None
    if match is None or opener is None:
        raise UsageError(_unknown(spec))
    return opener(match[2] or "", gold, mapping, skip_bad_gold)


def _unknown(spec: str) -> str:
    if spec and (like := _looks_like(Path(spec))):
        return _refusal(spec, f"; did you mean {f'{like}:{spec}'!r}?")
    kind, colon, path = spec.partition(":")
    if kind in WITHOUT_INSTANCES:
        return f"{spec!r} {WITHOUT_INSTANCES[kind]}"
    if spec and Path(spec).is_dir():
        meant = f"; did you mean 'hard518:{spec}'?"
    elif close := get_close_matches(kind.lower(), KINDS, n=1):
        meant = f"; did you mean {close[0] + colon + path!r}?"
    else:
        meant = ":"
    return _refusal(spec, meant)


def _refusal(spec: str, meant: str) -> str:
    kinds = ", ".join(KINDS)
    return f"{spec!r} is no dataset{meant} give a .csv or .jsonl file, or KIND:PATH with one of {kinds}"


def _looks_like(path: Path) -> str | None:
    """The kind of dataset that a path which exists has the looks of, if any."""
    if path.is_dir():
        found = (kind for kind, names in _MARKS.items() if any((path / name).exists() for name in names))
        return next(found, None)
    return {".json": "qulac", ".tsv": "clariq"}.get(path.suffix.lower()) if path.is_file() else None


def _kind(spec: str) -> str | None:
    """The known or would-be kind before the colon; an existing file is never taken for one."""
    match = _SPEC.fullmatch(spec)
    return match[1] if match and match[2] is not None and not Path(spec).exists() else None


def _open_file(path: Path, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool) -> Dataset:
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    name = re.sub(r"[^\w.-]+", "-", path.stem).strip("-.") or "queries"
    return make_dataset(name, path, index, partial(read_queries, path, gold=index, fields=fields))
