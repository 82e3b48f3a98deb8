"""`traces.jsonl`: each search as it happened, with all evidence that it brought, archived once (paper, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cts_async.engine.journal import AppendLog
from cts_async.errors import unwritable
from cts_async.protocol.latest import LatestLines
from cts_async.protocol.sources import NumberedSource, source_json, source_key
from cts_async.records import Instance, Trace

TRACES = "traces.jsonl"


class TraceArchive:
    """Appends traces; one that stands there already is not written again. Of each id the last line counts."""

    def __init__(self, directory: Path, *, sync: bool = False) -> None:
        path = directory / TRACES
        try:
            self._log = AppendLog(path, sync=sync)
        except OSError as error:
            raise unwritable(path, error, verb="write there") from None
        self._known = LatestLines(path)

    async def keep(self, line: dict[str, Any]) -> None:
        """Archive a line made by `trace_line`."""
        if self._known.line(line["id"]) != line:
            await self._log.append(line)

    def close(self) -> None:
        """Write what is pending and close. Raises StorageFull if the disk refused it."""
        self._log.close()


def trace_line(instance: Instance, trace: Trace, sources: Sequence[NumberedSource]) -> dict[str, Any]:
    """A search of the instance's q* in plain JSON; every turn names the sources that it brought."""
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
