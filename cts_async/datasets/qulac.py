"""Qulac (Aliannejadi et al., SIGIR 2019) as pairs of queries: a topic is ambiguous, its facet is the intent.

`qulac.json` is an object of columns, each {"0": value, "1": ...}, a row for every question asked about a
facet. An instance is a facet, not a row: 762 in all, with blurred = `topic` and fused = `facet_desc`.
Descriptions hold literal backslash escapes (\\' and \\"), which are undone here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.datasets.dataset import Dataset, make_dataset
from cts_async.datasets.fields import kind_of, listed
from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.lines import unreadable
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance

COLUMNS: Final = ("topic_facet_id", "topic", "facet_desc")
_ESCAPED: Final = re.compile(r"""\\(['"])""")


def read_instances(path: Path, gold: GoldIndex | None = None) -> Iterator[Instance]:
    """Give the facets in the order in which the file first mentions them; id = `topic_facet_id`.

    The file is one JSON value and so is held in memory while it is read. InputError for a missing column,
    columns of unequal length, a value that is not non-empty text, or a facet described in two ways.
    """
    facets = _facets(path, _columns(path))
    if gold is not None:
        keys = ((facet.id, facet.fused_query) for facet in facets)
        gold.require_join(path, COLUMNS, keys)
    for facet in facets:
        nuggets = gold.lookup(facet.id, facet.fused_query) if gold is not None else None
        yield Instance(facet.id, facet.fused_query, facet.blurred_query, nuggets or ())


def open_qulac(target: str, gold: Path | None, fields: Mapping[str, str]) -> Dataset:
    """`qulac:PATH`, the path of `qulac.json`. It has no gold of its own."""
    if not target:
        raise UsageError("qulac needs a path: qulac:PATH, the file qulac.json")
    path = Path(target).expanduser()
    index = None if gold is None else read_gold(gold, fields)
    return make_dataset("qulac", path, index, partial(read_instances, path, index))


def unescape(text: str) -> str:
    """Undo the backslash before a quote."""
    return _ESCAPED.sub(r"\1", text)


def _facets(path: Path, columns: dict[str, dict[str, Any]]) -> list[Instance]:
    facets: dict[str, Instance] = {}
    for row in columns["topic_facet_id"]:
        facet_id, topic, description = (_text(path, columns, name, row) for name in COLUMNS)
        facet = Instance(facet_id, unescape(description), unescape(topic))
        if facets.setdefault(facet_id, facet) != facet:
            problem = f"row {row}: the facet {facet_id!r} stands earlier with another topic or facet_desc"
            raise InputError(path, problem, field="topic_facet_id")
    if not facets:
        raise InputError(path, "has no rows", field="topic_facet_id")
    return list(facets.values())


def _text(path: Path, columns: dict[str, dict[str, Any]], name: str, row: str) -> str:
    value = columns[name][row]
    if not isinstance(value, str):
        raise InputError(path, f"row {row}: must be text, is {kind_of(value)}", field=name)
    if not value.strip():
        raise InputError(path, f"row {row}: is empty", field=name)
    return value.strip()


def _columns(path: Path) -> dict[str, dict[str, Any]]:
    try:
        table = orjson.loads(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except orjson.JSONDecodeError as error:
        raise InputError(path, f"is not valid JSON: {error.msg}", line=error.lineno) from None
    if not isinstance(table, dict):
        raise InputError(path, f"must be an object of columns, is {kind_of(table)}")
    for name in COLUMNS:
        _check_column(path, table, name)
    return {name: table[name] for name in COLUMNS}


def _check_column(path: Path, table: dict[str, Any], name: str) -> None:
    if name not in table:
        raise InputError(path, f"the column is missing; the columns are {listed(table)}", field=name)
    if not isinstance(table[name], dict):
        problem = f'must be an object {{"0": value, ...}}, is {kind_of(table[name])}'
        raise InputError(path, problem, field=name)
    first = table[COLUMNS[0]]
    if table[name].keys() != first.keys():
        problem = f"has {len(table[name])} rows that do not match the {len(first)} of {COLUMNS[0]!r}"
        raise InputError(path, problem, field=name)
