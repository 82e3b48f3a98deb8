"""Evaluation dictionaries as Qulac has them: {metric: {record id: value}}, in JSON.

Qulac's README ("eval_hist012_dict") names eleven metrics: NDCG1, 3, 5, 10, 20; P1, 3, 5, 10, 20; MRR100. The
dictionaries published there are Python pickles. Reading a pickle runs whatever code its author put into it, so
none is ever opened here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from cts_async.datasets.fields import kind_of, short
from cts_async.datasets.json_file import parse_json, read_bytes
from cts_async.datasets.lines import unreadable
from cts_async.datasets.record_ids import decode_record_id
from cts_async.errors import InputError
from cts_async.safe_files import atomic_writer

Evaluations: TypeAlias = Mapping[str, Mapping[str, float]]
"""Metric -> record id -> value in [0, 1]."""

MAX_EVALUATIONS_BYTES: Final = 512 * 1024 * 1024
"""A file with one metric of all of Qulac's conversations, with and without answers, has about 80 MB."""

_METRIC: Final = re.compile(r"([A-Za-z]+)([1-9][0-9]*)?")
_PICKLES: Final = (".pkl", ".pickle")
_ARCHIVES: Final = (".tar", ".gz", ".tgz", ".zip")
_PICKLE_STARTS: Final = (b"\x80", b"(d", b"}q")
_ARCHIVE_STARTS: Final = (b"\x1f\x8b", b"PK\x03\x04")
_CONVERT: Final = (
    "reading a pickle runs whatever code it holds, so none is opened here. If you trust where it comes from, convert "
    'it where it can do no harm (a container without network): python3 -c "import json, pickle; '
    "json.dump(pickle.load(open('eval.pkl', 'rb')), open('eval.json', 'w'))\""
)


def read_evaluations(path: Path, *, max_bytes: int = MAX_EVALUATIONS_BYTES) -> dict[str, dict[str, float]]:
    """Read a dictionary, metrics and records in file order.

    InputError for a pickle or an archive, a file larger than `max_bytes`, broken JSON, a key that stands twice, a
    name that is no metric, an id that does not decode, and a value that is no number from 0 to 1.
    """
    refuse_pickle(path)
    table = parse_json(path, read_bytes(path, max_bytes=max_bytes, advice="write one file for each metric"))
    _check(path, table)
    return {metric: {id: float(value) for id, value in values.items()} for metric, values in table.items()}


def write_evaluations(path: Path, evaluations: Evaluations) -> None:
    """Write a dictionary so that a reader, or a crash, sees the old file or the new one whole.

    Metrics are in order of name and cutoff, records of their numbers, so equal dictionaries give equal files.
    InputError for what `read_evaluations` would refuse; UsageError where nothing can be written.
    """
    _check(path, evaluations)
    ordered = {
        metric: {
            id: float(evaluations[metric][id]) for id in sorted(evaluations[metric], key=decode_record_id)
        }
        for metric in sorted(evaluations, key=metric_order)
    }
    with atomic_writer(path) as file:
        file.write(orjson.dumps(ordered, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def metric_order(name: str) -> tuple[str, int]:
    """What to sort metrics by: NDCG3 comes before NDCG20."""
    match = _METRIC.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def _check(path: Path, table: Any) -> None:
    if not isinstance(table, Mapping):
        raise InputError(path, f"must be an object {{metric: {{record id: value}}}}, is {kind_of(table)}")
    if not table:
        raise InputError(path, "holds no metrics: {metric: {record id: value}} is expected")
    known: set[str] = set()
    for metric, values in table.items():
        if not _METRIC.fullmatch(metric):
            raise InputError(path, "is no metric: a name and a cutoff, such as NDCG20 or P1", field=metric)
        if not isinstance(values, Mapping):
            problem = f"must be an object {{record id: value}}, is {kind_of(values)}"
            raise InputError(path, problem, field=metric)
        if not values:
            raise InputError(path, "holds no records", field=metric)
        _check_ids(path, metric, values, known)
        _check_values(path, metric, values)


def _check_ids(path: Path, metric: str, values: Mapping[str, Any], known: set[str]) -> None:
    """Every id decodes; metrics mostly have the same ones, and those in `known` have been looked at."""
    for id in values:
        if id in known:
            continue
        try:
            decode_record_id(id)
        except ValueError as error:
            raise InputError(path, f"the record id {short(id)} {error}", field=metric) from None
        known.add(id)


def _check_values(path: Path, metric: str, values: Mapping[str, Any]) -> None:
    for id, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(path, f"must be a number, is {kind_of(value)}", field=f"{metric}.{id}")
        if not (math.isfinite(value) and 0 <= value <= 1):
            raise InputError(path, f"must be a number from 0 to 1, is {value}", field=f"{metric}.{id}")


def refuse_pickle(path: Path) -> None:
    """InputError for a pickle or an archive, with the reason and the way out; reads no more than its first bytes."""
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
