"""The ledger of a run's batches, `batches.jsonl`: what was handed in, so that nothing is handed in, and paid, twice.

It is append-only, and each line is on the disk before what it announces happens: the intent with the ids of all requests
before a batch is created, the provider's id at once afterwards, then its states and its end. A batch whose intent has no
id was perhaps created: it is looked for at the provider before anything else is done with its requests.

Several runs that are judged together have the same lines each in a ledger of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from cts_async.engine.journal import AppendLog, read_records
from cts_async.errors import write_error
from cts_async.foreign_json import as_count, as_float, as_text, as_texts

BATCHES: Final = "batches.jsonl"

Event = Literal["intent", "created", "state", "ended", "refused", "void", "used", "closed"]
"""refused: it was not created, or not accepted; void: it was perhaps created, and never appeared at the provider.

What became of some requests (`used`), or of all (`closed`), is in the journal: whatever failed for good is asked anew by
the next command, and not answered by the same line for ever.
"""
_PHASES: Final[tuple[Event, ...]] = ("intent", "created", "ended", "refused", "void", "closed")


@dataclass(slots=True)
class RecordedBatch:
    """A batch as the ledger has it."""

    nonce: str
    server: str
    """The base_url of the model; `model` is its id there."""
    model: str
    digest: str
    ids: Sequence[str]
    """The `custom_id` of each request."""
    intended_at: float
    """In seconds since 1970."""
    input_file: str = ""
    id: str = ""
    """The provider's; "" while it is not known."""
    phase: Event = "intent"
    state: str = ""
    """The provider's last word."""
    n_done: int = 0
    n_failed: int = 0

    @property
    def is_open(self) -> bool:
        """True while the provider may be working on it."""
        return self.phase in ("intent", "created")


def read_ledger(folder: Path) -> list[RecordedBatch]:
    """The batches in the ledger of a run, oldest first; none where there is no ledger."""
    return [batch for batch, _ in _read(folder / BATCHES).values()]


def _read(path: Path) -> dict[str, tuple[RecordedBatch, int]]:
    """By nonce, the batches of a ledger and how many lines each has."""
    batches: dict[str, tuple[RecordedBatch, int]] = {}
    for record in read_records(path):
        nonce, event = as_text(record.get("batch")), record.get("event")
        if nonce is None:
            continue
        batch, n_lines = batches.get(nonce, (None, 0))
        if event == "intent" and batch is not None:
            # Its creation was refused before, for now.
            batch.intended_at = as_float(record.get("time")) or 0.0
        elif event == "intent":
            batch = RecordedBatch(
                nonce,
                as_text(record.get("server")) or "",
                as_text(record.get("model")) or "",
                as_text(record.get("digest")) or "",
                as_texts(record.get("ids")),
                as_float(record.get("time")) or 0.0,
                as_text(record.get("input_file")) or "",
            )
        elif batch is None:
            continue  # its intent was damaged: without ids it answers nothing
        elif event == "created":
            batch.id = as_text(record.get("id")) or ""
        elif event == "used":
            used = frozenset(as_texts(record.get("ids")))
            batch.ids = [id for id in batch.ids if id not in used]
        if event in _PHASES:
            batch.phase = event
        if "state" in record:
            batch.state = as_text(record["state"]) or ""
            batch.n_done, batch.n_failed = as_count(record.get("n_done")), as_count(record.get("n_failed"))
        batches[nonce] = batch, n_lines + 1
    return batches


def merged_batches(folders: Iterable[Path]) -> list[RecordedBatch]:
    """The batches of several ledgers, oldest first; of one that several have, as the longest record says."""
    batches: dict[str, tuple[RecordedBatch, int]] = {}
    for folder in folders:
        for nonce, (batch, n_lines) in _read(folder / BATCHES).items():
            # A process that was killed between two of the ledgers has written the last line into the first ones only.
            if nonce not in batches or n_lines > batches[nonce][1]:
                batches[nonce] = batch, n_lines
    return sorted((batch for batch, _ in batches.values()), key=_age)


def _age(batch: RecordedBatch) -> float:
    return batch.intended_at


@dataclass(slots=True)
class Ledger:
    """Appends to the ledgers of the runs that a command works on. The files are made with the first line.

    Every append raises StorageFull or RunStopped as `AppendLog.append` does, and returns once all disks have the line.
    """

    folders: Sequence[Path]
    clock: Callable[[], float] = time.time
    _logs: list[AppendLog] = field(default_factory=list)

    async def append(self, nonce: str, event: Event, **fields: Any) -> None:
        """Record an event of a batch."""
        record = {"batch": nonce, "event": event, "time": round(self.clock(), 3)}
        record |= fields
        for log in self._opened():
            await log.append(record)

    def _opened(self) -> list[AppendLog]:
        for folder in self.folders[len(self._logs) :]:
            try:
                self._logs.append(AppendLog(folder / BATCHES, sync=True))
            except OSError as error:
                raise write_error(folder / BATCHES, error) from None
        return self._logs

    def close(self) -> None:
        for log in self._logs:
            log.close()
        self._logs = []
