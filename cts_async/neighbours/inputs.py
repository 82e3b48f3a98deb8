"""What the neighbours share: command-line options, and readers that check files against types."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from cts_async.datasets.candidates import read_facet_qrels
from cts_async.datasets.gold import GoldIndex
from cts_async.datasets.io import (
    MAX_FILE_BYTES,
    Row,
    listed,
    parse_json,
    read_bytes,
    read_table,
    short,
    unreadable,
)
from cts_async.datasets.kinds import AnnotatedQuery, Annotations, HumanPairs
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget
from cts_async.runs.directory import json_bytes
from cts_async.safe_files import atomic_writer
from cts_async.tables.output import STDOUT, write_jsonl

T = TypeVar("T")

# --- Options of commands ---------------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON on standard output.")]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="DIR", help="Also write every table as CSV, unrounded.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Out = Annotated[str, typer.Option("--out", metavar="FILE", help="The file to write; - for standard output.")]


def check_out(out: Path, inputs: Iterable[Path], *, force: bool) -> None:
    """Raise UsageError if `out` is one of the command's `inputs`, or exists and `force` is not given."""
    if out.expanduser().resolve() in {path.expanduser().resolve() for path in inputs}:
        raise UsageError(f"--out {out}: is an input file of this command; choose another name")
    if out.expanduser().is_file() and not force:
        raise UsageError(f"--out {out}: exists already; --force replaces it")


def write_records(
    out: str, rows: Iterable[Mapping[str, Any]], plural: str, inputs: Iterable[Path], *, force: bool
) -> None:
    """Write JSON Lines to the file `out`, checked as by `check_out`, and say how many; or to standard output for "-"."""
    if out != STDOUT:
        check_out(Path(out), inputs, force=force)
    n = write_jsonl(out, rows)
    if out != STDOUT:
        typer.echo(f"{n:,} {plural} in {out}", err=True)


def write_json_file(path: Path, value: Any, option: int = orjson.OPT_INDENT_2) -> None:
    """Write a JSON file; it appears whole or not at all. UsageError if it cannot be written."""
    with atomic_writer(path) as file:
        file.write(json_bytes(value, option | orjson.OPT_APPEND_NEWLINE))


@cache
def published(neighbour: str) -> Mapping[str, Any]:
    """The printed values of a neighbour's paper, from its published.toml."""
    path = files(f"cts_async.neighbours.{neighbour}").joinpath("published.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


# --- Checked values --------------------------------------------------------------------------------------

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text without outer white space, not empty."""
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
"""A number from 0 to 1; text or true is none."""


def checked(kind: TypeAdapter[T], value: Any, path: Path, *, line: int | None = None) -> T:
    """Return `value` as that type. InputError with the field and the problem of the first mistake."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        mistake = error.errors(include_url=False, include_context=False)[0]
        problem = mistake["msg"].replace("Input should", "must").replace("Field required", "is missing")
        if mistake["type"] == "string_too_short":
            problem = "is empty"
        elif mistake["type"] != "missing":
            problem += f", is {short(mistake['input'])}"
        field = ".".join(map(str, mistake["loc"])) or None
        raise InputError(path, problem, line=line, field=field) from None


def read_json(path: Path, kind: TypeAdapter[T], *, max_bytes: int = MAX_FILE_BYTES, advice: str = "") -> T:
    """Read a JSON file of that type. InputError for broken JSON, repeated keys, or a value of another type."""
    return checked(kind, parse_json(path, read_bytes(path, max_bytes=max_bytes, advice=advice)), path)


def read_columns(
    path: Path,
    columns: Mapping[str, Sequence[str]],
    *,
    quoting: bool,
    optional: Collection[str] = (),
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the stripped cells of each row of a TSV file, under our names of the columns.

    `columns` has the spellings of each name, compared by letters and digits alone. InputError for a missing column,
    unless it is `optional`.
    """
    headers: dict[str, str] | None = None
    for line, row in read_table(path, "TSV", quoting=quoting):
        # Every row has the same columns: the first one that there is tells them.
        if headers is None:
            headers = _headers_by_name(path, row, columns, optional)
        cells: dict[str, str] = {}
        for name, header in headers.items():
            cells[name] = row[header].strip()
        yield line, cells


def _headers_by_name(
    path: Path, row: Row, columns: Mapping[str, Sequence[str]], optional: Collection[str]
) -> dict[str, str]:
    by_letters: dict[str, str] = {}
    for header in row:
        by_letters.setdefault(_letters(header), header)
    headers: dict[str, str] = {}
    for name, spellings in columns.items():
        for spelling in spellings:
            header_in_file = by_letters.get(_letters(spelling))
            # Spellings stand in the order in which they are looked for.
            if header_in_file is not None:
                headers[name] = header_in_file
                break
        if name not in headers and name not in optional:
            problem = f"the column is missing; the columns are {listed(row)}"
            raise InputError(path, problem, line=1, field=" or ".join(spellings))
    return headers


def _letters(name: str) -> str:
    """Return the letters and digits of a column's name, in one case: releases spell the same one differently."""
    return "".join(char for char in name.casefold() if char.isalnum())


# --- Evaluation dictionaries -----------------------------------------------------------------------------

MAX_EVALUATION_BYTES: Final = 512 * 1024 * 1024
"""One metric of all of Qulac's conversations, with and without answers, has about 80 MB."""
_PICKLES: Final = (".pkl", ".pickle")
_ARCHIVES: Final = (".tar", ".gz", ".tgz", ".zip")
# Of protocol 2 and later; of a dictionary in protocols 0 and 1.
_PICKLE_STARTS: Final = (b"\x80", b"(d", b"}q")
_ARCHIVE_STARTS: Final = (b"\x1f\x8b", b"PK\x03\x04")
_CONVERT: Final = (
    "reading a pickle runs whatever code it holds, so none is opened here. If you trust where it comes from, convert "
    'it where it can do no harm (a container without network): python3 -c "import json, pickle; '
    "json.dump(pickle.load(open('eval.pkl', 'rb')), open('eval.json', 'w'))\""
)


def read_evaluation(path: Path, kind: TypeAdapter[T]) -> T:
    """Read an evaluation dictionary in JSON: Qulac's and ClariQ's are published as pickles, which are refused.

    InputError for a pickle or an archive, with what to do about it, and as `read_json`.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise unreadable(path, error) from None
    suffix = path.suffix.lower()
    if suffix in _PICKLES or start.startswith(_PICKLE_STARTS):
        raise InputError(path, f"is a pickle, not JSON: {_CONVERT}")
    if suffix in _ARCHIVES or start.startswith(_ARCHIVE_STARTS):
        raise InputError(path, f"is an archive, not JSON; unpack it first. If it holds a pickle: {_CONVERT}")
    advice = "write one file for each metric"
    return read_json(path, kind, max_bytes=MAX_EVALUATION_BYTES, advice=advice)


# --- Judgments -------------------------------------------------------------------------------------------


def read_judgments(
    path: Path, facets: Collection[str], is_document: Callable[[str], bool]
) -> dict[str, dict[str, int]]:
    """Read the grades of documents of each of these facets that has some; `is_document` knows the ids of the corpus.

    InputError where no facet is judged, or no document of the corpus.
    """
    qrels = read_facet_qrels(path)
    judged = {facet: qrels[facet] for facet in facets if facet in qrels}
    # Ids of other data or another corpus would give zeros that look like a measurement.
    if not judged:
        ids = f"it judges {listed(list(qrels)[:3])}, their ids are like {next(iter(facets), None)!r}"
        forms = "instance 0 document grade, or of the Web Track's diversity task: topic facet document grade"
        raise InputError(
            path, f"judges none of the {len(facets):,} intents: {ids}; expected are lines of: {forms}"
        )
    documents = list(chain.from_iterable(judged.values()))
    for document in documents:
        if is_document(document):
            return judged
    problem = f"judges no document of the corpus: it judges {documents[0]!r}; ids must be the same in both"
    raise InputError(path, problem)


# --- Instances: a request is ambiguous, its facet is the intent ------------------------------------------


def facet_instances(
    path: Path, columns: Sequence[str], facets: Sequence[tuple[str, str, str]], gold: GoldIndex | None
) -> Iterator[Instance]:
    """Yield an instance for each (id, description, request), with its nuggets from `gold`.

    InputError if nothing of the gold joins with them; `columns` name what the file at `path` has to join by.
    """
    if gold is not None:
        gold.require_join(path, columns, ((id, description) for id, description, _ in facets))
    for id, description, request in facets:
        nuggets: tuple[Nugget, ...] = ()
        if gold is not None:
            nuggets = gold.lookup(id, description) or ()
        yield Instance(id, description, request, nuggets)


def merged_annotations(queries: Iterable[AnnotatedQuery], pairs: Mapping[str, HumanPairs]) -> Annotations:
    """Collect what people wrote; queries with the same text are one, with the id and the need of the first."""
    by_text: dict[str, AnnotatedQuery] = {}
    for query in queries:
        merged = by_text.setdefault(query.query, query)
        questions = dict.fromkeys(merged.questions + query.questions)
        by_text[query.query] = replace(merged, questions=tuple(questions))
    return Annotations(by_text, pairs)
