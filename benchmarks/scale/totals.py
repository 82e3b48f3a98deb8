"""What judgements come to by their number: bytes, tokens, dollars, memory and time. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

from benchmarks.scale.costs import Costs
from benchmarks.scale.sizes import Sizes
from cts_async.cluster.asks import HOLD_S
from cts_async.cluster.worker import TURN_S

PLANNED_B: Final = 27
"""Bytes that the head holds for an answer that is to be judged: peak memory at 320,000 and at 20,000."""
INDEXED_B: Final = 16
"""Bytes that it holds for a step that has come in (`engine.scan.KeyIndex`)."""
RESUMED_B: Final = 103
"""Bytes for an answer at the peak of opening a finished judging again: found as PLANNED_B was."""
SCORED_B: Final = 142
"""Bytes that `cts score` holds for an item: peak memory at 450,000 and at 50,000."""
GPU_TOKENS_S: Final = 10_000
"""Assumed of one GPU with a self-hosted judge: tokens a second, read and written together."""


@dataclass(frozen=True, slots=True)
class Total:
    """What `n` judgements come to."""

    n: float
    sizes: Sizes
    costs: Costs

    @property
    def disk_bytes(self) -> float:
        """Candidates, verdicts and steps."""
        return self.n * (self.sizes.candidate + self.sizes.result + self.sizes.step)

    @property
    def tokens(self) -> float:
        return self.n * (self.sizes.input_tokens + self.sizes.output_tokens)

    @property
    def fresh_bytes(self) -> float:
        """Memory of the head at the end of a run that was never interrupted."""
        return self.n * (PLANNED_B + INDEXED_B)

    @property
    def resumed_bytes(self) -> float:
        """Memory of the head that finds everything done."""
        return self.n * RESUMED_B

    @property
    def gpu_h(self) -> float:
        return self.tokens / GPU_TOKENS_S / 3600

    @property
    def checked_s(self) -> float:
        """Until the first call: every candidate is read and checked before."""
        return self.n * self.costs.plan_us / 1e6

    def usd(self, input_usd_per_mtok: float, output_usd_per_mtok: float) -> float:
        sizes = self.sizes
        each = sizes.input_tokens * input_usd_per_mtok + sizes.output_tokens * output_usd_per_mtok
        return self.n * each / 1e6

    def time_s(self, calls_s: float) -> float:
        return self.n / calls_s


# --- Where parts saturate, in calls a second


def of_worker(costs: Costs) -> float:
    """One worker's core."""
    return 1e6 / (costs.worker_us + costs.piece_us + _carried_us(costs))


def of_head(costs: Costs) -> float:
    """The head's core, turns left out: what no number of workers comes beyond."""
    each_us = costs.read_us + costs.head_us + costs.send_us + costs.take_us + costs.merge_us
    return 1e6 / (each_us + _carried_us(costs))


def of_turns(costs: Costs) -> float:
    """Workers whose turns alone fill the head's core, when each has one every TURN_S."""
    return _filled(costs.call_us + costs.turn_us, costs.deal_worker_us, TURN_S)


def _filled(each_us: float, more_us: float, every_s: float) -> float:
    """How many, each costing so much every so often, and more for each that there is, fill a core."""
    room_us = every_s * 1e6
    if not more_us:
        return room_us / each_us
    return (sqrt(each_us**2 + 4 * more_us * room_us) - each_us) / (2 * more_us)


def of_limiter(costs: Costs) -> float:
    """Workers whose asks alone fill the limiter's core, when each has one every HOLD_S."""
    return _filled(costs.call_us + costs.ask_us, costs.ask_worker_us, HOLD_S)


def of_storage(costs: Costs, sizes: Sizes) -> float:
    """Shared storage: a step is written twice, to its shard and to the journal."""
    return costs.storage_mb_s * 1e6 / (sizes.result + 2 * sizes.step)


def of_network(costs: Costs, sizes: Sizes) -> float:
    """The head's network without shared storage: what comes in is more than what goes out."""
    return costs.network_mb_s * 1e6 / (costs.end_bytes + sizes.step)


def _carried_us(costs: Costs) -> float:
    """What Ray takes on either side for a piece and its end, its calls left out."""
    return costs.call_kb_us * (costs.piece_bytes + costs.end_bytes) / 1000
