"""An even flow for many workers: who was late moves what follows, as he would if he were alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise

import pytest
from virtual_time import run_virtual

from cts_async.cluster.asks import Let, Report
from cts_async.cluster.ledger import Ledger
from cts_async.engine.account import LaneLimits


def gaps(late: Mapping[int, float]) -> list[float]:
    """Seconds between permits of 20 a second, once the flow is warm; those with these numbers are used so late."""
    starts: list[float] = []

    async def main() -> None:
        ledger = Ledger("account", LaneLimits(requests_per_min=1200), let_out)
        ledger.joined("worker", 0.0)
        dispatching = asyncio.create_task(ledger.dispatch(lambda: True, lambda: None))
        ledger.want("worker", [(n, 0.0) for n in range(80)])
        while len(starts) < 80:
            await asyncio.sleep(0.01)
            for let in lets:
                late_s = late.get(let.id, 0.0)
                ledger.report(Report(let.id, "used", let.start + late_s, late_s=late_s))
            lets.clear()
        dispatching.cancel()

    lets: list[Let] = []

    def let_out(account: str, worker: str, let: Let) -> None:
        starts.append(let.start)
        lets.append(let)

    run_virtual(main)
    return [later - earlier for earlier, later in pairwise(starts)][35:]


STEP_S = 1 / 19.8


def test_permits_that_are_used_in_time_are_even() -> None:
    assert gaps(dict.fromkeys(range(80), 0.004)) == pytest.approx([STEP_S] * 44, abs=1e-6)


def test_who_is_late_moves_what_follows() -> None:
    """By 55 ms, of which 5 are nobody's; once, though the next of the same second is late, too."""
    found = gaps({50: 0.055, 52: 0.03})
    assert sum(found) == pytest.approx(44 * STEP_S + 0.05, abs=1e-6)
    assert max(found) == pytest.approx(STEP_S + 0.05, abs=1e-6)


def test_of_one_second_the_latest_counts() -> None:
    assert sum(gaps({50: 0.03, 52: 0.055})) == pytest.approx(44 * STEP_S + 0.05, abs=1e-6)
    assert sum(gaps({40: 0.03, 65: 0.03})) == pytest.approx(44 * STEP_S + 0.05, abs=1e-6)
