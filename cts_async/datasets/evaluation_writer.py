"""Writes an evaluation dictionary record by record, in constant memory.

All of Qulac's conversations are 1.8 million records of eleven metrics, and the file has metric by metric what comes
record by record. So each metric is gathered in an unnamed file beside the target, and the file put together last.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import orjson

from cts_async.datasets.evaluations import Evaluations, metric_order
from cts_async.errors import UsageError, write_error
from cts_async.safe_files import atomic_writer


class EvaluationWriter:
    """Takes values as they are computed."""

    def __init__(self, path: Path, columns: Mapping[str, BinaryIO]) -> None:
        self._path, self._columns = path, columns
        self.records = 0

    def add(self, evaluations: Evaluations) -> None:
        """Add records: for each metric the same ones in the same order, none that was added before.

        UsageError where they cannot be written, StorageFull where there is no room.
        """
        for metric, values in evaluations.items():
            lines = (
                b",\n    %b: %b" % (orjson.dumps(record), orjson.dumps(value))
                for record, value in values.items()
            )
            try:
                self._columns[metric].writelines(lines)
            except OSError as error:
                raise write_error(self._path, error) from None
        self.records += len(next(iter(evaluations.values()), ()))


@contextmanager
def evaluations_written(path: Path, metrics: Sequence[str]) -> Iterator[EvaluationWriter]:
    """Open `path` for an evaluation dictionary; it is there, whole, when the block ends without an error.

    It is the file that `write_evaluations` makes, byte for byte, if records are added in their order. UsageError
    where nothing can be written, and for no record at all.
    """
    with ExitStack() as opened:
        try:
            columns = {
                name: opened.enter_context(TemporaryFile(dir=path.resolve().parent)) for name in metrics
            }
        except OSError as error:
            raise write_error(path, error) from None
        writer = EvaluationWriter(path, columns)
        yield writer
        if not writer.records:
            raise UsageError(f"{path}: not written, for there is no record to write")
        with atomic_writer(path) as file:
            _put_together(file, columns)


def _put_together(file: BinaryIO, columns: Mapping[str, BinaryIO]) -> None:
    separator = b"{\n  "
    for metric in sorted(columns, key=metric_order):
        column = columns[metric]
        column.seek(1)  # without the first comma
        file.write(separator + orjson.dumps(metric) + b": {")
        shutil.copyfileobj(column, file, 1 << 20)
        file.write(b"\n  }")
        separator = b",\n  "
    file.write(b"\n}\n")
