"""The kinds of datasets, found by name, and `open_dataset`.

`--data KIND:PATH` imports the module `cts_async.datasets.kinds.KIND`, or the package `cts_async.neighbours.KIND` (with
_ for -), and uses its `KIND`. A new dataset is one such module; nothing else has to be changed.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cts_async.datasets.fields import check_mapping
from cts_async.datasets.gold import read_gold
from cts_async.datasets.instances import Dataset, make_dataset, read_queries
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES, check_read_again
from cts_async.errors import UsageError

if TYPE_CHECKING:
    from cts_async.datasets.inspect import Contents, Inspected

_FOLDERS: Final = ("cts_async.datasets.kinds", "cts_async.neighbours")
_NAME: Final = re.compile(r"[A-Za-z][\w-]*")
_SPEC: Final = re.compile(rf"({_NAME.pattern})(?::(.*))?", re.DOTALL)
RUN_COMMANDS: Final = "cts run, converse, plan"

Opener = Callable[[str, Path | None, Mapping[str, str], bool], Dataset]
"""(text after the colon or "", gold file, field mapping, `skip_bad_gold`) -> the dataset."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of dataset: its description for `cts data list`, and how to open it."""

    name: str
    title: str
    what: str
    licence: str
    source: str
    """Where it comes from: an address, or a place in this project."""
    spec: str
    """How it is named on the command line."""
    expects: str
    """What the path has to be."""
    uses: tuple[str, ...]
    """Commands that work with it."""
    paper: str = ""
    open: Opener | None = None
    """Opens its instances; None if it has none."""
    instead: str = ""
    """Without instances: what to use instead, as the end of a sentence."""
    inspect: Callable[[str, Path | None], Inspected] | None = None
    """Without instances: (text after the colon, gold file) -> what `cts data show` shows."""
    contents: Callable[[Dataset, Mapping[str, str] | None], Contents] | None = None
    """Reads everything that the dataset has, if that is more than `contents_of` reads."""
    folder_files: tuple[str, ...] = ()
    """Files that identify a folder of this kind, for "did you mean"."""
    suffix: str = ""
    """A file suffix that suggests this kind."""
    position: int = 100
    """Position in `cts data list`."""

    @property
    def taken(self) -> bool:
        """True if `--data` accepts it."""
        return self.open is not None

    def as_json(self) -> dict[str, Any]:
        """Return the description with the keys of `cts data list --json`."""
        names = ("name", "title", "what", "paper", "licence", "source", "spec", "expects", "taken", "uses")
        return {name: getattr(self, name) for name in names}


def imported_on_call(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports `module` when first called: lower layers must not import it at start."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return call


def find_kind(name: str) -> Kind | None:
    """Import and return the kind called `name`; None if there is none."""
    if not _NAME.fullmatch(name):
        return None
    for folder in _FOLDERS:
        module = f"{folder}.{name.replace('-', '_')}"
        if find_spec(module) is not None:
            kind = getattr(import_module(module), "KIND", None)
            if isinstance(kind, Kind) and kind.name == name:
                return kind
    return None


def all_kinds() -> dict[str, Kind]:
    """Import all kinds and return them by name, in the order of `cts data list`."""
    found = []
    for folder in _FOLDERS:
        for module in pkgutil.iter_modules(import_module(folder).__path__):
            kind = find_kind(module.name.replace("_", "-"))
            if kind is not None:
                found.append(kind)
    return {kind.name: kind for kind in sorted(found, key=lambda kind: (kind.position, kind.name))}


def open_dataset(
    spec: str,
    gold: Path | None = None,
    fields: Mapping[str, str] | None = None,
    *,
    skip_bad_gold: bool = False,
) -> Dataset:
    """Open a kind (`sample`, `hard518:PATH`, ...) or the path of a .csv or .jsonl file of queries.

    With `skip_bad_gold`, instances whose gold line has no usable nuggets are left out; `Dataset.notes` names them.
    UsageError for an unknown kind; InputError for files that cannot be understood.
    """
    mapping = dict(fields or {})
    check_mapping(mapping)
    for path in (Path(spec), Path(spec.partition(":")[2]), gold):
        if path is not None:
            check_read_again(path)
    if Path(spec).suffix.lower() in (*CSV_SUFFIXES, *JSONL_SUFFIXES) and not _names_a_kind(spec):
        return _open_file(Path(spec), gold, mapping, skip_bad_gold)
    match = _SPEC.fullmatch(spec)
    kind = find_kind(match[1]) if match else None
    if match is None or kind is None or kind.open is None:
        raise UsageError(_unknown(spec, kind))
    return kind.open(match[2] or "", gold, mapping, skip_bad_gold)


def _unknown(spec: str, kind: Kind | None) -> str:
    """Return the message for a spec that cannot be opened, with what was probably meant."""
    kinds = all_kinds()
    taken = [name for name, one in kinds.items() if one.taken]
    name, colon, path = spec.partition(":")
    if spec and (similar := _looks_like(Path(spec), kinds)):
        meant = f"; did you mean {f'{similar}:{spec}'!r}?"
    elif kind is not None:
        return f"{spec!r} {kind.instead}"
    elif spec and Path(spec).is_dir():
        meant = f"; did you mean 'hard518:{spec}'?"
    elif close := get_close_matches(name.lower(), taken, n=1):
        meant = f"; did you mean {close[0] + colon + path!r}?"
    else:
        meant = ":"
    names = ", ".join(taken)
    return f"{spec!r} is not a dataset{meant} give a .csv or .jsonl file, or KIND:PATH with one of {names}"


def _looks_like(path: Path, kinds: Mapping[str, Kind]) -> str | None:
    """Return the kind of dataset that an existing path looks like, if any."""
    if path.is_dir():
        found = (one for one in kinds.values() if any((path / name).exists() for name in one.folder_files))
    else:
        suffix = path.suffix.lower() if path.is_file() else ""
        found = (one for one in kinds.values() if suffix and one.suffix == suffix)
    return next((one.name for one in found), None)


def _names_a_kind(spec: str) -> bool:
    """True if a kind, known or not, stands before a colon; an existing file is never read that way."""
    match = _SPEC.fullmatch(spec)
    return match is not None and match[2] is not None and not Path(spec).exists()


def _open_file(path: Path, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool) -> Dataset:
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    name = re.sub(r"[^\w.-]+", "-", path.stem).strip("-.") or "queries"
    return make_dataset(name, path, index, partial(read_queries, path, gold=index, fields=fields))


FILE: Final = Kind(
    name="file",
    title="A file of your own",
    what="pairs of a fused and a blurred query, perhaps with ids and nuggets",
    licence="yours",
    source="e.g. cts data convert",
    spec="FILE.csv, FILE.jsonl",
    expects="columns fused_query and blurred_query; other names with --field OURS=THEIRS",
    uses=(RUN_COMMANDS, "cts judge, gold"),
    open=lambda target, gold, fields, skip: _open_file(Path(target), gold, fields, skip),
)
"""What `--data FILE` is, for `cts data list`; it has no name before a colon."""
