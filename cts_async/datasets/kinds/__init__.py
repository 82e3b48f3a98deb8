"""Datasets: what each looks like to the rest of the program, queries files, and the kinds of datasets by name.

A queries file is CSV or JSON Lines with a fused and a blurred query per row, and optionally an id and gold. Rows
without ids are called q0001, q0002, ... in file order; a file has ids on all of its rows or on none. Such generated
ids are never used to join with a gold file: only the queries are.

`--data KIND:PATH` imports what is registered under the name KIND (`plugins.DATASETS`) and uses its `KIND`: a module of
this folder, one of the neighbouring studies, or an entry point `cts_async.datasets` of another package. A new dataset
is one such module; nothing else has to be changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from cts_async import plugins
from cts_async.datasets.gold import GoldIndex, NuggetReader, read_gold
from cts_async.datasets.io import (
    CSV_SUFFIXES,
    JSONL_SUFFIXES,
    Fields,
    check_mapping,
    check_read_again,
    read_rows,
    restriction_in,
    sha256_of,
    short,
    unreadable,
)
from cts_async.errors import InputError, UsageError, closest
from cts_async.records import Instance, JudgeForm

_MAX_COUNTED_BYTES: Final = 16 * 1024 * 1024
"""A main file of up to 16 MiB is read, and its instances counted, when it is opened."""

Instances = Callable[[], Iterator[Instance]]
HumanPairs = tuple[tuple[str, str], ...]
"""(question, answer) pairs that people wrote for one intent, in file order."""


@dataclass(frozen=True, slots=True)
class AnnotatedQuery:
    """An underspecified query with people's clarifying questions: distinct texts in file order, of all its intents.

    `ambiguity` is ClariQ's clarification_need from 1 (clear) to 4 (most ambiguous); None if it is not annotated.
    """

    id: str
    query: str
    questions: tuple[str, ...]
    ambiguity: int | None = None


@dataclass(frozen=True, slots=True)
class Annotations:
    """What people wrote about a dataset's queries: `queries` by the exact text of q, `pairs` by instance id."""

    queries: Mapping[str, AnnotatedQuery]
    pairs: Mapping[str, HumanPairs]


@dataclass(frozen=True, slots=True)
class Dataset:
    """An opened dataset. `instances()` streams it from the start, as often as it is called."""

    name: str
    """A short name, for the names of runs."""
    path: Path
    """The main file."""
    gold_path: Path | None
    """The file of the nuggets; None if there are none or they are inline."""
    corpus: Path | None
    """The dataset's own documents."""
    instances: Instances = field(repr=False)
    count: int | None
    """The number of instances; None if the file is too large to be counted when it is opened."""
    notes: tuple[str, ...] = ()
    """Remarks for the user on how the files were read."""
    annotations: Callable[[], Annotations] | None = field(default=None, repr=False)
    """Reads what people wrote about the queries; None if the dataset has nothing of the kind."""
    more_paths: tuple[Path, ...] = ()
    """Further files that the instances come from."""
    judge_form: JudgeForm = "nuggets"
    """What its judges are asked by default."""
    restriction: str = ""
    """Why its text must not be published, as a sentence without a full stop; "" if it may."""

    @property
    def has_right_answers(self) -> bool:
        """Whether each query has one right answer, so that an answer is right or wrong."""
        return self.judge_form == "match"

    def sha256(self) -> str:
        """Return the digest of the main file, or with further files that of their digests."""
        digest = sha256_of(self.path)
        if not self.more_paths:
            return digest
        digests = [digest]
        for path in self.more_paths:
            digests.append(sha256_of(path))
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def make_dataset(
    name: str,
    path: Path,
    gold: GoldIndex | None,
    instances: Instances,
    *,
    corpus: Path | None = None,
    annotations: Callable[[], Annotations] | None = None,
    judge_form: JudgeForm = "nuggets",
    restriction: str = "",
) -> Dataset:
    """Return a Dataset without the instances whose line of `gold` was left out.

    A main file of up to 16 MiB is read once, so that InputErrors come before anything has started; those of a larger
    one come while it streams.
    """
    gold_path: Path | None = None
    notes: tuple[str, ...] = ()
    if gold is not None:
        gold_path, notes = gold.path, gold.notes
        # Gold that was built from restricted data has its texts, whatever the queries are.
        restriction = restriction or restriction_in(gold.path)
        if gold.left_out:
            instances = partial(_with_usable_gold, instances, gold)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from None
    count: int | None = None
    if size <= _MAX_COUNTED_BYTES:
        count = 0
        for _ in instances():
            count += 1
    return Dataset(
        name,
        path,
        gold_path,
        corpus,
        instances,
        count,
        notes,
        annotations,
        judge_form=judge_form,
        restriction=restriction,
    )


def _with_usable_gold(instances: Instances, gold: GoldIndex) -> Iterator[Instance]:
    for instance in instances():
        if instance.nuggets or not gold.leaves_out(instance.id, instance.intent):
            yield instance


# --- Queries files


def read_queries(
    path: Path, *, gold: GoldIndex | None = None, fields: Mapping[str, str] | None = None
) -> Iterator[Instance]:
    """Stream the instances in file order, with their nuggets from the gold, else from their own row.

    InputError names file, line and field of what is wrong: a required field that no alias finds, an empty query, a
    repeated id, a file without rows. At least one of the rows must join with `gold`; that is checked first.
    """
    if gold is not None:
        ids_and_intents = ((row.id, row.intent) for row in _instances_in_file(path, fields))
        gold.require_join(path, _column_names(path), ids_and_intents)
    for number, row in enumerate(_instances_in_file(path, fields), start=1):
        nuggets = row.nuggets
        if gold is not None:
            # By the id of the file only: a generated one could be that of another record of the gold.
            nuggets = gold.lookup(row.id, row.intent) or nuggets
        id = row.id or f"q{number:04d}"
        yield Instance(id, row.intent, row.query, nuggets)


def _column_names(path: Path) -> tuple[str, ...]:
    """The fields of the file's first row, for the message that says by what it could be joined."""
    for _, row in read_rows(path):
        return tuple(row)
    return ()


def _instances_in_file(path: Path, mapping: Mapping[str, str] | None) -> Iterator[Instance]:
    """Read the instances of the file itself; one without an id has ""."""
    fields = Fields.of_data(path, mapping)
    reader = NuggetReader(path, fields)
    line_of_id: dict[str, int] = {}
    first_line = 0
    has_ids = False
    for line, row in read_rows(path):
        id = fields.identifier(row, line) or ""
        if not first_line:
            first_line, has_ids = line, bool(id)
        problem = ""
        if bool(id) != has_ids:
            problem = f"unlike line {first_line}: give an id on every row or on none"
        elif id and line_of_id.setdefault(id, line) != line:
            problem = f"{short(id)} is already used on line {line_of_id[id]}"
        if problem:
            raise InputError(path, problem, line=line, field=fields.name(row, "id", line) or "id")
        fused_query = fields.text(row, "fused_query", line)
        blurred_query = fields.text(row, "blurred_query", line)
        yield Instance(id, fused_query, blurred_query, reader.read(row, line) or ())
    if not first_line:
        raise InputError(path, "contains no queries", field="fused_query")


# --- Kinds

_NAME: Final = re.compile(r"[A-Za-z][\w-]*")
RUN_COMMANDS: Final = "cts run, converse, plan"

Opener = Callable[[str, Path | None, Mapping[str, str], bool], Dataset]
"""(text after the colon or "", gold file, field mapping, `skip_bad_gold`) -> the dataset."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Facts about a dataset, as JSON, the first being how many items it has; `notes` are remarks on the reading."""

    facts: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def joined(self, further: Contents) -> Contents:
        """Return both, one after the other."""
        return Contents(dict(self.facts) | dict(further.facts), self.notes + further.notes)

    def as_json(self) -> dict[str, Any]:
        return dict(self.facts) | {"notes": list(self.notes)}


FileReader = Callable[[str, Mapping[str, str]], Contents]
"""(path, field mapping) -> the contents of a file, read to its end. Raises InputError."""
Item = Mapping[str, Any]
"""An instance or another item of a dataset as JSON; `id` names it."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A dataset to look at. `kind` is its name in the registry, or "file"."""

    kind: str
    title: str
    paths: tuple[Path, ...]
    contents: Callable[[], Contents] = field(repr=False)
    """Reads everything there is."""
    items: Callable[[], Iterator[Item]] = field(repr=False)
    """Streams the items in file order."""
    dataset: Dataset | None = field(default=None, repr=False)
    """None if it has no instances."""


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
    read_own_gold: Callable[[Path], Iterator[Instance]] | None = None
    """Reads instances with their nuggets from the main file, where that has them in a form of its own: what shows a run
    looks up the texts of its nuggets with it. None: they stand in a gold or queries file."""
    contents: Callable[[Dataset, Mapping[str, str] | None], Contents] | None = None
    """Reads everything that the dataset has, if that is more than `contents_of` reads."""
    file_readers: Mapping[str, FileReader] = field(default_factory=dict)
    """Further files that belong to it, by the word after `cts data validate --as`."""
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

    def resembles(self, path: Path) -> bool:
        """True if an existing path looks like this kind of dataset."""
        if path.is_dir():
            return any((path / name).exists() for name in self.folder_files)
        return self.suffix != "" and path.suffix.lower() == self.suffix and path.is_file()

    def as_json(self) -> dict[str, Any]:
        """Return the description with the keys of `cts data list --json`."""
        return {
            "name": self.name,
            "title": self.title,
            "what": self.what,
            "paper": self.paper,
            "licence": self.licence,
            "source": self.source,
            "spec": self.spec,
            "expects": self.expects,
            "taken": self.taken,
            "uses": self.uses,
        }


def imported_on_call(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports `module` when first called: lower layers must not import it at start."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return call


def find_kind(name: str) -> Kind | None:
    """Import and return the kind called `name`; None if there is none. Raises UsageError for a broken plug-in."""
    if not _NAME.fullmatch(name) or not plugins.is_known(plugins.DATASETS, name):
        return None
    kind: Kind = plugins.load(plugins.DATASETS, name)
    problem = _name_problem(name, kind)
    if problem:
        raise UsageError(problem)
    # A module's name has _ where the kind's has -, and is no other name of it.
    if kind.name != name:
        return None
    return kind


def all_kinds() -> dict[str, Kind]:
    """Import all kinds and return them by name, in the order of `cts data list`."""
    kinds: list[Kind] = []
    for name, kind in plugins.load_all(plugins.DATASETS):
        problem = _name_problem(name, kind)
        # One broken plug-in must not hide the datasets of the others.
        if problem:
            plugins.warn(problem)
        else:
            kinds.append(kind)
    kinds.sort(key=attrgetter("position", "name"))
    return {kind.name: kind for kind in kinds}


def _name_problem(name: str, kind: Kind) -> str:
    """What is wrong with the name of a plug-in's kind; "" if `name` leads to it."""
    if isinstance(kind, Kind) and kind.name.replace("-", "_") == name.replace("-", "_"):
        return ""
    package = plugins.package_of(plugins.DATASETS, name) or "cts_async"
    return f"dataset {name!r} of {package}: its KIND has to be a Kind with the name {name!r}"


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
    name, colon, target = spec.partition(":")
    # A kind, known or not, may stand before a colon; an existing file is never read that way.
    may_name_a_kind = False
    if colon and not Path(spec).exists():
        may_name_a_kind = _NAME.fullmatch(name) is not None
    is_queries_file = Path(spec).suffix.lower() in CSV_SUFFIXES + JSONL_SUFFIXES
    if is_queries_file and not may_name_a_kind:
        return _open_file(spec, gold, mapping, skip_bad_gold)
    kind = find_kind(name)
    if kind is None or kind.open is None:
        raise UsageError(_no_dataset_message(spec, kind))
    dataset: Dataset = plugins.guarded(
        plugins.DATASETS, kind.name, kind.open, target, gold, mapping, skip_bad_gold
    )
    return dataset


def _no_dataset_message(spec: str, kind: Kind | None) -> str:
    """Return the message for a spec that cannot be opened, with what was probably meant."""
    kinds = all_kinds()
    names = [name for name, registered in kinds.items() if registered.taken]
    similar = ""
    # An empty spec is no path: `Path("")` would be the working directory.
    if spec:
        similar = _resembled_kind(Path(spec), kinds)
    if kind is not None and not similar:
        return f"{spec!r} {kind.instead}"
    # A folder that no kind knows by its files may still be that of the unpacked release.
    if not similar and spec and Path(spec).is_dir():
        similar = "hard518"
    name, colon, path = spec.partition(":")
    close = closest(name, names)
    question = ":"
    if similar:
        question = f"; did you mean {f'{similar}:{spec}'!r}?"
    elif close:
        question = f"; did you mean {close + colon + path!r}?"
    return (
        f"{spec!r} is not a dataset{question} give a .csv or .jsonl file, or KIND:PATH with one of "
        f"{', '.join(names)}"
    )


def _resembled_kind(path: Path, kinds: Mapping[str, Kind]) -> str:
    """The name of the first kind that an existing path looks like; "" for none."""
    for name, kind in kinds.items():
        if kind.resembles(path):
            return name
    return ""


def open_queries(
    name: str,
    path: Path,
    gold: Path | None,
    fields: Mapping[str, str],
    skip_bad_gold: bool,
    corpus: Path | None = None,
) -> Dataset:
    """Open a queries file with its gold, if any."""
    index: GoldIndex | None = None
    if gold is not None:
        index = read_gold(gold, fields, skip_bad=skip_bad_gold)
    instances = partial(read_queries, path, gold=index, fields=fields)
    return make_dataset(name, path, index, instances, corpus=corpus)


def _open_file(target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool) -> Dataset:
    path = Path(target)
    # The dataset's name becomes part of folders' names.
    name = re.sub(r"[^\w.-]+", "-", path.stem).strip("-.") or "queries"
    return open_queries(name, path, gold, fields, skip_bad_gold)


FILE: Final = Kind(
    name="file",
    title="A file of your own",
    what="pairs of a fused and a blurred query, perhaps with ids and nuggets",
    licence="yours",
    source="e.g. cts data convert",
    spec="FILE.csv, FILE.jsonl",
    expects="columns fused_query and blurred_query; other names with --field OURS=THEIRS",
    uses=(RUN_COMMANDS, "cts judge, gold"),
    open=_open_file,
)
"""What `--data FILE` is, for `cts data list`; it has no name before a colon."""
