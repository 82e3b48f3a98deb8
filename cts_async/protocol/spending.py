"""The budget of a command: what it may spend in all its sessions, and what its journals say it has spent.

Only the steps of the command itself count: verdicts that another command added to the same run do not. What was
in flight when a process was killed stands in no journal, and is the one thing that is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from cts_async.config import BudgetConfig
from cts_async.engine.budget import NOTHING, Budget, Deadline, Lines
from cts_async.engine.events import Cost, Events, Usage
from cts_async.engine.journal import read_jsonl
from cts_async.engine.step import Prices
from cts_async.errors import UsageError
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import prices_of
from cts_async.protocol.judge import JUDGING


def open_budget(
    asked: BudgetConfig,
    specs: Iterable[ModelSpec],
    journals: Iterable[Path],
    judges: Iterable[str],
    events: Events,
    *,
    only_judging: bool = False,
) -> Budget | None:
    """The budget with what was spent before, None where none is asked for; needs a running loop.

    Counted are, in all journals, the steps of `judges`, and all that judge nothing unless `only_judging`.
    Raises UsageError if dollars are limited and a price is unknown.
    """
    if not asked.given:
        return None
    specs = tuple(specs)
    if asked.max_usd is not None:
        check_prices(specs)
    names = tuple(f"{JUDGING}{judge}" for judge in judges)

    def counts(step: str) -> bool:
        return step in names if step.startswith(JUDGING) else not only_judging

    lines = Lines(asked.max_calls, asked.max_tokens, asked.max_usd)
    spent = NOTHING
    if lines != Lines():
        spent = spent_before(journals, {spec.model: prices_of(spec) for spec in specs}, counts)
    deadline = None if asked.deadline is None else deadline_in(asked.deadline - time.time(), asked.deadline)
    return Budget(lines, spent, deadline=deadline, events=events)


def deadline_in(seconds: float, stamp: float) -> Deadline:
    """A deadline so many seconds from now, which a person knows as the wall-clock time `stamp`."""
    said = datetime.fromtimestamp(stamp).isoformat(sep=" ", timespec="seconds")
    return Deadline(asyncio.get_running_loop().time() + seconds, said)


def check_prices(specs: Iterable[ModelSpec]) -> None:
    """Raises UsageError naming every model whose price is unknown: its dollars could not be counted."""
    unpriced = [spec.name for spec in specs if prices_of(spec) is None]
    if unpriced:
        raise UsageError(
            f"--max-usd needs the price of {', '.join(unpriced)}: give input_usd_per_mtok and "
            "output_usd_per_mtok in its table of cts.toml ([models.NAME], with its id as model), "
            "or limit --max-tokens instead"
        )


def spent_before(
    journals: Iterable[Path], prices: Mapping[str, Prices | None], counts: Callable[[str], bool]
) -> Cost:
    """What the records of `journals` (which may not exist yet) add up to; `prices` by model id."""
    total = NOTHING
    for path in journals:
        for record in read_jsonl(path):
            if "model" in record and counts(str(record.get("step"))):
                total += _cost(record, prices.get(record["model"]))
    return total


def _cost(record: Mapping[str, Any], price: Prices | None) -> Cost:
    used, assumed = record.get("usage") or {}, record.get("assumed") or {}
    usage = Usage(int(used.get("input", 0)), int(used.get("output", 0)))
    return Cost(
        int(record.get("attempts", 1)),
        usage.total + float(assumed.get("tokens", 0.0)),
        (price.usd(usage) if price else 0.0) + float(assumed.get("usd", 0.0)),
    )
