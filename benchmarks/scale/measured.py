"""The costs of `costs.py`, measured on this machine: CPU of each part alone, the least of a few rounds.

The least, because whatever else the machine does only ever adds. A worker's own cost per judged candidate needs a
server beside it and a minute (`python -m benchmarks judging`), and Ray's needs a cluster: these are taken as given.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.scale.costs import Costs
from benchmarks.scale.sizes import TYPICAL, chat, planned, write_world
from cts_async.cluster.dealing import Dealer
from cts_async.cluster.judging import JudgingPieces
from cts_async.cluster.lines import RESULTS
from cts_async.cluster.messages import Ended, Line, News, Piece, Turn
from cts_async.engine.events import Events
from cts_async.engine.journal import Journal
from cts_async.engine.shards import merge
from cts_async.llm.client import Client
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.protocol.rejudge import opened_verdicts, run_judging
from cts_async.protocol.run_files import PER_ITEM, STEPS, RunFiles

N, LEASE, ROUNDS = 10_000, 250, 3
MANY_WORKERS = 1024
PROTOCOL = 5
"""Of pickle, as Ray uses it."""


@dataclass(frozen=True, slots=True)
class Material:
    """A judging of N typical candidates: pieces to be dealt, and the lines that they became."""

    folder: Path
    plan: JudgePlan
    pieces: list[Piece]
    results: list[bytes]
    steps: list[bytes]


def measured_costs() -> tuple[Costs, dict[str, float]]:
    """What was measured, the rest as assumed; and the bytes of a piece and of its end as they travel."""
    with tempfile.TemporaryDirectory() as name, patch.object(Client, "chat", chat):
        folder = Path(name)
        write_world(folder, TYPICAL, N)
        plan_us = _us(lambda: planned(folder))
        plan = planned(folder)
        read_us = _us(lambda: _read(plan))
        made = _made(folder, plan)
        turn, news = _turn(made), _news(made, streamed=False)
        costs = Costs().named(
            plan_us=plan_us,
            read_us=read_us,
            deal_us=_us(lambda: _dealt(made, 1)),
            send_us=_us(lambda: _pickled(turn)),
            take_us=_us(lambda: _unpickled(news)),
            piece_us=_us(lambda: _unpickled(turn)) + _us(lambda: _pickled(news)),
            write_us=_us(lambda: _run(made, _written)),
            merge_us=_us(lambda: _run(made, _merged)),
            stream_us=_us(lambda: _run(made, _streamed)),
        )
        return costs, {"piece": len(_pickled(turn)) / LEASE, "end": len(_pickled(news)) / LEASE}


def _us(work: Callable[[], object]) -> float:
    """Microseconds of CPU that one of N takes."""

    def once() -> float:
        before = time.process_time()
        work()
        return time.process_time() - before

    return min(once() for _ in range(ROUNDS)) / N * 1e6
