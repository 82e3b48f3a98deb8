"""What the audited requests are compared with: the queries q and q* of the data, and the run's results.

The data is read again from its own file, if that is still what the manifest's sha256 says; else the
queries that results.jsonl recorded are taken, and a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cts_async.errors import UsageError
from cts_async.protocol.audit.people import People
from cts_async.protocol.results import LatestLines, Line, read_results
from cts_async.protocol.run_files import RESULTS
from cts_async.protocol.run_folders import opened_again


class Queries(NamedTuple):
    """An instance's intent q* and its underspecified query q."""

    fused: str
    blurred: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Queries by instance from the data (None: from the results only), and the results by instance."""

    data: Mapping[str, Queries] | None
    results: LatestLines
    results_path: Path
    notes: tuple[str, ...]
    people: People | None = None
    """What people answered, by instance, where they answered in this run; empty where it cannot be read."""

    def queries(self, instance: str, line: Line | None) -> Queries | None:
        """q* and q of an instance; None where nothing knows them. `line` is its result."""
        if self.data is not None:
            return self.data.get(instance)
        if line is None or not isinstance(line.get("fused_query"), str):
            return None
        return Queries(line["fused_query"], str(line.get("blurred_query")))

    def result(self, instance: str) -> Line | None:
        return self.results.line(instance)

    def ids(self) -> Iterator[str]:
        """Ids that have results, repeated as often as they have lines."""
        return (str(line["id"]) for line in read_results(self.results_path))


def read_sources(directory: Path, manifest: Mapping[str, Any], spec: str | None) -> Sources:
    """Open a run's data again: `spec` where it is given, else where the manifest says it was.

    Raises UsageError where `spec` cannot be read, or is not the data of this run.
    """
    notes: tuple[str, ...] = ()
    data = None
    people: People | None = {} if manifest.get("identity", {}).get("answers") else None
    try:
        dataset = opened_again(manifest, spec)
        data = {i.id: Queries(i.fused_query, i.blurred_query) for i in dataset.instances()}
        if people is not None and dataset.annotations is not None:
            people = dataset.annotations().pairs
    except UsageError as error:
        if spec is not None:
            raise
        notes = (
            f"the data cannot be read again, so q and q* are those that {RESULTS} recorded: {error}; --data names it",
        )
    path = directory / RESULTS
    return Sources(data, LatestLines(path), path, notes, people)
