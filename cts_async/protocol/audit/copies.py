"""Copies of steps that other runs have executed, compared with the lines there.

A copied line is audited as any other: what it was asked, and what follows from its reply. Here it is compared with its
origin, where that still exists: a copy whose reply, model or costs are others was changed afterwards. A step whose
origin is gone, or has it no more, proves as much as one that the run has executed itself.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Any, Final

import orjson

from cts_async.engine.journal_index import MAX_LINE
from cts_async.protocol.audit.evidence import Record, parsed_line
from cts_async.protocol.audit.findings import Finding
from cts_async.runs.files import STEPS
from cts_async.runs.index import opened

_COPIED: Final = ("model", "response", "latency_s", "assumed", "usage", "attempts", "failed_attempts", "time")
"""Fields that a copy has from its origin; the others say what this run asked, and follow from it."""
_MAX_ABOVE: Final = 5
"""Folders above a run in which its origins are looked for: names are paths below the folder of all runs."""


@dataclass(frozen=True, slots=True)
class ComparedCopies:
    """The copied steps of a run beside those of their origins."""

    n_copied: int = 0
    n_compared: int = 0
    n_origins_gone: int = 0
    """Origins that are gone, or have lost a step that was copied from them."""
    findings: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    """A finding for each step that differs, by instance."""

    def notes(self) -> Iterator[str]:
        """What a reader of the audit should know; nothing of a run without copies."""
        n_differing = sum(map(len, self.findings.values()))
        if self.n_copied:
            yield (
                f"{self.n_copied} copied steps: {self.n_compared} compared with their origin, {n_differing} "
                f"differ, {self.n_origins_gone} origins gone"
            )


def compare_copies(directory: Path) -> ComparedCopies:
    """Compare all copied steps of a run with their origins, as far as these are there. Reads only."""
    place = directory.resolve()
    by_origin: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    n_copied = 0
    for record in _finished_steps(place):
        origin = record.get("reused")
        if isinstance(origin, str):
            n_copied += 1
            by_origin[origin][record["key"]] = _digest(record)
    n_compared = n_gone = 0
    origins_by_key: dict[str, str] = {}
    for origin, digests in by_origin.items():
        states = _compared_with(origin, place, digests)
        n_compared += len(states)
        n_gone += len(states) < len(digests)
        for key, is_equal in states.items():
            if not is_equal:
                origins_by_key[key] = origin
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    if origins_by_key:
        for record in _finished_steps(place):
            origin = origins_by_key.get(record["key"], "")
            if origin and record.get("reused") == origin:
                problem = f"it is not the step of {origin} that it says it was copied from"
                instance = record["instance"]
                findings[instance].append(Finding("provenance", instance, record["step"], problem))
    return ComparedCopies(n_copied, n_compared, n_gone, findings)


def _compared_with(origin: str, place: Path, digests: Mapping[str, bytes]) -> dict[str, bool]:
    """Of the copied steps (their digests by key) those that the origin has: whether it has them like this."""
    states: dict[str, bool] = {}
    for candidate in _places_of(origin, place):
        for record in _finished_steps(candidate):
            key = record["key"]
            if key in digests and not states.get(key):
                # A step may have been executed twice, after damage: the copy is of one of them.
                states[key] = _digest(record) == digests[key]
        if states:
            break
    return states


def _places_of(origin: str, place: Path) -> Iterator[Path]:
    """Where an origin may lie: its whole path, or its path below a folder above the run."""
    path = PurePath(origin)
    if ".." in path.parts or "\0" in origin:
        return
    folders = list(place.parents)[:_MAX_ABOVE]
    if path.is_absolute():
        folders = folders[:1]
    for folder in folders:
        if folder / path != place:
            yield folder / path


def _finished_steps(directory: Path) -> Iterator[Record]:
    """The finished steps of a run; none without a regular file of them."""
    with suppress(OSError), opened(directory / STEPS) as fd, os.fdopen(os.dup(fd), "rb", 1 << 20) as file:
        while line := file.readline(MAX_LINE):
            record = parsed_line(line)
            if record is not None and record.get("ok") is True and isinstance(record.get("key"), str):
                yield record


def _digest(record: Mapping[str, Any]) -> bytes:
    values = [record.get(name) for name in _COPIED]
    return blake2b(orjson.dumps(values, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
