"""The costs of `costs.py`, measured on this machine: CPU of each part alone, the least of a few rounds.

The least, because whatever else the machine does only ever adds. A worker's own cost per judged candidate needs a
server beside it and a minute (`python -m benchmarks judging`), and Ray's needs a cluster: these are taken as given.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
from cts_async.engine.shards import SHARDS, merge
from cts_async.llm.client import Client
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.protocol.rejudge import opened_verdicts, run_judging
from cts_async.protocol.run_files import PER_ITEM, STEPS, RunFiles

N, LEASE, ROUNDS = 10_000, 250, 3
MANY = 256
"""Workers, where it is asked what one more of them adds."""
PROTOCOL = 5
"""Of pickle, as Ray uses it."""


@dataclass(frozen=True, slots=True)
class Material:
    """A judging of N typical candidates: its pieces, and the lines that they became."""

    pieces: Sequence[Piece]
    results: Sequence[bytes]
    steps: Sequence[bytes]


def measured() -> Costs:
    """What can be measured here, the rest as it is assumed."""
    with tempfile.TemporaryDirectory() as name, patch.object(Client, "chat", chat):
        folder = Path(name)
        write_world(folder, TYPICAL, N)
        plan = planned(folder)
        made = _made(folder, plan)
        return Costs().named(
            plan_us=_us(lambda: planned(folder)), read_us=_us(lambda: _pieces(plan)), **_of_head(made)
        )


def _of_head(made: Material) -> dict[str, float]:
    turn, news = _turn(made.pieces), _news(made.results)
    leases = N // LEASE
    deal_us, deal_many_us = (_us(lambda n=n: _dealt(made.pieces, n)) for n in (1, MANY))
    return {
        "deal_us": deal_us,
        "deal_worker_us": max(0.0, deal_many_us - deal_us) / MANY,
        "send_us": _us(lambda: [pickle.dumps(turn, PROTOCOL) for _ in range(leases)]),
        "take_us": _unpickled_us(news),
        "piece_us": _unpickled_us(turn) + _us(lambda: [pickle.dumps(news, PROTOCOL) for _ in range(leases)]),
        "piece_bytes": len(pickle.dumps(turn, PROTOCOL)) / LEASE,
        "end_bytes": len(pickle.dumps(news, PROTOCOL)) / LEASE,
        "write_us": _in_folder_us(lambda folder: asyncio.run(_written(made.results, folder))),
        "merge_us": _merged_us(made.steps),
        "stream_us": _in_folder_us(lambda folder: asyncio.run(_streamed(made.steps, folder))),
    }


def _made(folder: Path, plan: JudgePlan) -> Material:
    pieces = _pieces(plan)
    asyncio.run(run_judging(plan, {}, Events()))
    results, steps = (
        (folder / "judged" / name).read_bytes().splitlines(keepends=True) for name in (PER_ITEM, STEPS)
    )
    return Material(pieces, results, steps)


def _pieces(plan: JudgePlan) -> list[Piece]:
    """Reading candidates and making pieces of them."""
    with opened_verdicts(plan, Events()) as files:
        (stream,) = JudgingPieces(plan, files, Events(), again=False).streams()
        return list(stream)


# --- What travels


def _turn(pieces: Sequence[Piece]) -> Turn:
    """A lease; what its pieces share was told before."""
    return Turn(tuple(pieces[:LEASE]))


def _news(results: Sequence[bytes]) -> News:
    """The ends of a lease's pieces, with their lines."""
    lines = enumerate(results[:LEASE])
    return News(tuple(Ended(n, (Line(0, RESULTS, line),), executed=1, steps=1) for n, line in lines))


def _unpickled_us(said: Turn | News) -> float:
    data = pickle.dumps(said, PROTOCOL)
    return _us(lambda: [pickle.loads(data) for _ in range(N // LEASE)])


# --- Dealing


def _dealt(pieces: Sequence[Piece], workers: int) -> None:
    """Deal everything, a piece a turn, to workers of which each ends what it has at once."""
    dealer = Dealer([iter(pieces)])
    for n in range(workers):
        dealer.joined(f"w{n}", 1)
    now, n = 0.0, 0
    while dealt := dealer.deal(f"w{n % workers}").pieces:
        dealer.ended(f"w{n % workers}", [piece.seq for piece in dealt], now)
        n += 1


# --- Files


async def _written(results: Sequence[bytes], folder: Path) -> None:
    files = RunFiles(folder, results=PER_ITEM)
    for some in _leases(results):
        await files.add_lines(RESULTS, some)
    files.close()


async def _streamed(steps: Sequence[bytes], folder: Path) -> None:
    journal = Journal(folder / STEPS)
    for some in _leases(steps):
        await journal.append_lines(pickle.loads(pickle.dumps(some, PROTOCOL)))
    journal.close()


def _merged_us(steps: Sequence[bytes]) -> float:
    def once(folder: Path) -> float:
        journal, shard = Journal(folder / STEPS), folder / SHARDS / "w0-0.jsonl"
        shard.parent.mkdir()
        shard.write_bytes(b"".join(steps))
        before = time.process_time()
        merge(journal, shard)
        spent = time.process_time() - before
        journal.close()
        return spent

    return _least(once)


def _leases(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    return (list(lines[n : n + LEASE]) for n in range(0, len(lines), LEASE))


# --- Time


def _us(work: Callable[[], object]) -> float:
    return _in_folder_us(lambda folder: work())


def _in_folder_us(work: Callable[[Path], object]) -> float:
    """Microseconds of CPU that one of N takes, with an empty folder for each round."""

    def once(folder: Path) -> float:
        before = time.process_time()
        work(folder)
        return time.process_time() - before

    return _least(once)


def _least(once: Callable[[Path], float]) -> float:
    spent = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            spent.append(once(Path(folder)))
    return min(spent) / N * 1e6
