"""How an evaluation dictionary was made: a small file beside it, for its own format has no room to say so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.datasets.json_file import parse_json, read_bytes
from cts_async.errors import InputError
from cts_async.safe_files import atomic_writer

NOTES: Final = "notes"
"""The key of what a reader of the numbers has to know, a list of sentences."""
_MAX_BYTES: Final = 1 << 20


def about_path(evaluations: Path) -> Path:
    """Give `eval.about.json` for `eval.json`."""
    return evaluations.with_name(f"{evaluations.stem}.about.json")


def write_about(evaluations: Path, settings: Mapping[str, Any], notes: list[str]) -> None:
    """Write settings and notes beside the dictionary. UsageError where nothing can be written."""
    with atomic_writer(about_path(evaluations)) as file:
        file.write(
            orjson.dumps({**settings, NOTES: notes}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )


def read_notes(evaluations: Path) -> list[str]:
    """Give the notes on a dictionary; none where there is no such file. InputError for one that is broken."""
    path = about_path(evaluations)
    if not path.exists():
        return []
    table = parse_json(path, read_bytes(path, max_bytes=_MAX_BYTES))
    notes = table.get(NOTES) if isinstance(table, dict) else None
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise InputError(path, "must be a list of sentences", field=NOTES)
    return notes
