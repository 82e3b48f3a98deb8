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
from functools import partial
from pathlib import Path
from unittest.mock import patch

from benchmarks.scale.costs import Costs
from benchmarks.scale.flow import NO_TRADE
from benchmarks.scale.limits import Shared, spent_by_limiter
from benchmarks.scale.sizes import TYPICAL, chat, planned, write_world
from cts_async import __version__
from cts_async.cluster.dealing import Dealer
from cts_async.cluster.head import Head
from cts_async.cluster.judging import JudgingPieces
from cts_async.cluster.lines import RESULTS
from cts_async.cluster.messages import Begun, Ended, Line, News, Piece, Turn
from cts_async.cluster.trades import Setup
from cts_async.engine.events import Events
from cts_async.engine.journal import Journal
from cts_async.engine.shards import SHARDS, merge
from cts_async.llm.client import Client
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.protocol.rejudge import open_verdicts, run_judging
from cts_async.protocol.run_files import PER_ITEM, STEPS, RunFiles

N, LEASE, ROUNDS = 10_000, 250, 3
FEW, MANY = 16, 256
"""Workers, where it is asked what one more of them adds."""
LIMIT = (30_000.0, 2.0, 2000)
"""Requests a minute, their latency, and how many at once, where the limiter is measured."""
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
            plan_us=_us(lambda: planned(folder)),
            read_us=_us(lambda: _pieces(plan)),
            **_of_head(made),
            **_of_limiter(),
        )


def _of_head(made: Material) -> dict[str, float]:
    turn, news = _turn(made.pieces), _news(made.results)
    leases = N // LEASE
    head_us, turn_us = _led_us(made)
    few_us, many_us = (_us(partial(_dealt, made.pieces, n)) for n in (1, MANY))
    return {
        "head_us": head_us,
        "turn_us": turn_us,
        "deal_worker_us": max(0.0, many_us - few_us) / MANY,
        "send_us": _us(lambda: [pickle.dumps(turn, PROTOCOL) for _ in range(leases)]),
        "take_us": _unpickled_us(news),
        "piece_us": _unpickled_us(turn) + _us(lambda: [pickle.dumps(news, PROTOCOL) for _ in range(leases)]),
        "piece_bytes": len(pickle.dumps(turn, PROTOCOL)) / LEASE,
        "end_bytes": len(pickle.dumps(news, PROTOCOL)) / LEASE,
        "merge_us": _merged_us(made.steps),
        "stream_us": _in_folder_us(lambda folder: asyncio.run(_streamed(made.steps, folder))),
    }


def _of_limiter() -> dict[str, float]:
    few_us, many_us = (
        spent_s / use.asks * 1e6
        for spent_s, use in (spent_by_limiter(Shared(n, *LIMIT), Costs()) for n in (FEW, MANY))
    )
    worker_us = max(0.0, many_us - few_us) / (MANY - FEW)
    return {"ask_us": few_us - FEW * worker_us, "ask_worker_us": worker_us}


def _made(folder: Path, plan: JudgePlan) -> Material:
    pieces = _pieces(plan)
    asyncio.run(run_judging(plan, {}, Events()))
    results, steps = (
        (folder / "judged" / name).read_bytes().splitlines(keepends=True) for name in (PER_ITEM, STEPS)
    )
    return Material(pieces, results, steps)


def _pieces(plan: JudgePlan) -> list[Piece]:
    """Reading candidates and making pieces of them."""
    with open_verdicts(plan, Events()) as files:
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


# --- The head


def _led_us(made: Material) -> tuple[float, float]:
    """What a head takes for a piece, and for a turn besides: from few large turns, and from many small ones."""
    turns, spent = {}, {}
    for in_flight in (LEASE, 1):
        links: list[_Prompt] = []
        spent[in_flight] = _in_folder_us(partial(_lead, made, in_flight, links))
        turns[in_flight] = links[-1].turns
    turn_us = (spent[1] - spent[LEASE]) * N / (turns[1] - turns[LEASE])
    return spent[LEASE] - turn_us * turns[LEASE] / N, turn_us


def _lead(made: Material, in_flight: int, links: list[_Prompt], folder: Path) -> None:
    """Have a head deal everything to one worker that ends it at once."""

    async def hire(setup: Setup) -> _Prompt:
        links.append(_Prompt(made.results, in_flight))
        return links[-1]

    async def lead() -> None:
        files = RunFiles(folder, results=PER_ITEM)
        await Head([files], [iter(made.pieces)], NO_TRADE, hire, workers=1, events=Events()).run()
        files.close()

    asyncio.run(lead())


class _Prompt:
    """A worker that has done what it is given as soon as it has it, and costs next to nothing."""

    def __init__(self, results: Sequence[bytes], in_flight: int) -> None:
        self._ended = [
            Ended(n, (Line(0, RESULTS, line),), executed=1, steps=1) for n, line in enumerate(results)
        ]
        self._in_flight = in_flight
        self.turns = 0

    async def begin(self) -> Begun:
        return Begun("here", 0, __version__, self._in_flight)

    async def turn(self, turn: Turn) -> News:
        self.turns += 1
        return News(tuple([self._ended[piece.seq] for piece in turn.pieces]), over=turn.last)

    def kill(self) -> None:
        pass


def _dealt(pieces: Sequence[Piece], workers: int) -> None:
    """Deal everything, a piece a turn, to workers of which each ends what it has at once."""
    dealer = Dealer([iter(pieces)])
    for n in range(workers):
        dealer.joined(f"w{n}", 1)
    n = 0
    while dealt := dealer.deal(f"w{n % workers}").pieces:
        dealer.ended(f"w{n % workers}", [piece.seq for piece in dealt], 0.0)
        n += 1


# --- Files


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
