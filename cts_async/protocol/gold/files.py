"""The files of a gold build: the gold file in the release's format, and the archive of searches.

The gold file has one JSON object a line: `id`, `fused_query` and `gold` as in the release; `instance_ids` (all that
share the intent); for debugging `answer`, `sources`, `evidence`, `grounding`, `repairs` and `provenance`.

A file belongs to this build if each of its lines is one that the build would write. A line that was edited by hand is
the editor's, and is not overwritten without --force.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.engine.journal import AppendLog
from cts_async.errors import InputError, UsageError, write_error
from cts_async.protocol.gold.sources import NumberedSource, source_json, source_key
from cts_async.protocol.results import LatestLines
from cts_async.protocol.run_files import RESULTS
from cts_async.records import Instance, Trace
from cts_async.safe_files import atomic_writer, check_writable

_DEBUGGING: Final = ("answer", "sources", "evidence", "grounding", "repairs", "provenance")


def gold_lines(directory: Path, intents: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[bytes]:
    """The gold lines of finished intents, in order; `intents` are pairs (id, ids of all instances that share it).

    Raises InputError for a result that a build would not write.
    """
    results = LatestLines(directory / RESULTS)
    for id, ids in intents:
        line = results.line(id) if results.failed(id) is False else None
        if line is None:
            continue
        if not _is_built(line):
            raise not_as_built(directory / RESULTS, id)
        record: dict[str, Any] = {
            "id": id,
            "fused_query": line["fused_query"],
            "gold": line["gold"],
            "instance_ids": ids,
            **{name: line[name] for name in _DEBUGGING if name in line},
        }
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def not_as_built(path: Path, id: str) -> InputError:
    """The error for a result that was edited or damaged."""
    problem = f"the line of {id!r} is damaged: remove it, and the same command makes it again"
    return InputError(path, problem)


def _is_built(line: Mapping[str, Any]) -> bool:
    """Whether the line has everything that a reader of gold needs."""
    gold = line.get("gold")
    nuggets = gold.get("nuggets") if isinstance(gold, dict) else None
    return (
        isinstance(line.get("fused_query"), str)
        and isinstance(nuggets, list)
        and all(isinstance(one, dict) and one.keys() >= {"id", "text", "weight"} for one in nuggets)
    )


def check_target(out: Path, own: Iterable[bytes], *, force: bool) -> None:
    """Raise UsageError for a path where gold cannot be written, or must not be without `force`."""
    if out.is_dir():
        raise UsageError(f"--out {out}: is a directory; name a file in it")
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UsageError(f"--out {out}: cannot write in {folder}")
    try:
        check_writable(out)
    except OSError as error:
        raise write_error(f"--out {out}", error) from None
    if force or not out.exists() or not out.stat().st_size:
        return
    known = {_digest(line) for line in own}
    with out.open("rb") as file:
        strange = next((number for number, line in enumerate(file, 1) if _digest(line) not in known), None)
    if strange is not None:
        raise UsageError(
            f"--out {out}: line {strange} was not written by this build; use another file, or --force to replace it"
        )


def write_gold(out: Path, lines: Iterable[bytes]) -> int:
    """Write the lines atomically and return their number; without lines the file is left alone.

    Raises StorageFull, UsageError.
    """
    remaining = iter(lines)
    first = next(remaining, None)
    if first is None:
        return 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(f"--out {out}", error) from None
    n_lines = 0
    with atomic_writer(out) as file:
        for line in chain([first], remaining):
            file.write(line)
            n_lines += 1
    return n_lines


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()


# --- The archive of searches


TRACES = "traces.jsonl"


class TraceArchive:
    """`traces.jsonl`: appends searches with all their evidence; an unchanged one is not written again (paper, 4.2)."""

    def __init__(self, directory: Path, *, sync: bool = False) -> None:
        path = directory / TRACES
        try:
            self._log = AppendLog(path, sync=sync)
        except OSError as error:
            raise write_error(path, error, verb="write there") from None
        self._known = LatestLines(path)

    async def keep(self, line: dict[str, Any]) -> None:
        """Archive a line made by `trace_line`."""
        if self._known.line(line["id"]) != line:
            await self._log.append(line)

    def close(self) -> None:
        """Write what is pending and close. Raises StorageFull if the disk refused it."""
        self._log.close()


def trace_line(instance: Instance, trace: Trace, sources: Sequence[NumberedSource]) -> dict[str, Any]:
    """A search of the instance's q* as JSON; every turn lists the ids of its sources."""
    ids = {source.key: source.id for source in sources}
    turns = [
        {
            "kind": turn.kind,
            "request": turn.request,
            "text": turn.text,
            "source_ids": list(
                dict.fromkeys(ids[key] for one in turn.sources if (key := source_key(one)) in ids)
            ),
        }
        for turn in trace.turns
    ]
    return {
        "id": instance.id,
        "fused_query": instance.fused_query,
        "answer": trace.answer,
        "answer_from": trace.answer_from,
        "model_calls": trace.model_calls,
        "forced": trace.forced,
        "turns": turns,
        "sources": [source_json(source) for source in sources],
    }
