"""A head whose cluster ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from told_trade import ToldTrade
from virtual_time import run_virtual

from cts_async import __version__
from cts_async.cluster.head import Head
from cts_async.cluster.messages import Begun, News, Piece, Turn
from cts_async.cluster.runs import FINISH_S, Crowd
from cts_async.cluster.trades import Setup
from cts_async.engine.events import Events
from cts_async.engine.signals import stoppable
from cts_async.errors import RunStopped
from cts_async.protocol.run_files import RunFiles


@dataclass
class Busy:
    """A worker that never gets anything done, and ends when it is told to stop, if it is `obedient`."""

    obedient: bool
    killed: bool = False

    async def begin(self) -> Begun:
        return Begun("here", 1, __version__)

    async def turn(self, turn: Turn) -> News:
        await anyio.sleep(0.25)
        return News(in_hand=1, over=bool(turn.stop) and self.obedient)

    def kill(self) -> None:
        self.killed = True


class NoLimiter:
    def gone(self, worker: str) -> None:
        return

    async def keep(self, roster: Callable[[], Mapping[str, float | None]]) -> None:
        await anyio.sleep_forever()


@dataclass
class Dying:
    """A cluster with room for one worker, that ends after 30 s."""

    worker: Busy
    workers: int = 2
    address: str = ""
    limiter: NoLimiter = field(default_factory=NoLimiter)
    hired: int = 0

    async def hire(self, setup: Setup) -> Busy:
        self.hired += 1
        if self.hired > 1:
            await anyio.sleep_forever()
        return self.worker

    async def gone(self) -> str:
        await anyio.sleep(30.0)
        return "raylet"


@pytest.mark.parametrize(("obedient", "ends_s"), [(True, 30.5), (False, 30.0 + FINISH_S)])
def test_when_its_cluster_ends_a_run_stops_and_can_be_resumed(
    tmp_path: Path, obedient: bool, ends_s: float
) -> None:
    cluster = Dying(Busy(obedient))

    async def run() -> None:
        pieces = iter([Piece(0, "g", "i0", 0, None)])
        trade = ToldTrade(tmp_path / "told", "")
        head = Head([RunFiles(tmp_path)], [pieces], trade, cluster.hire, workers=2, events=Events())
        began = anyio.current_time()
        with pytest.raises(RunStopped, match="^Ray has ended: raylet does not answer; nothing is lost"):
            async with stoppable() as stopper:
                await Crowd().led(head, cluster, stopper)
        assert anyio.current_time() - began == pytest.approx(ends_s, abs=0.5)

    run_virtual(run)
    assert cluster.worker.killed
    assert not (tmp_path / ".probe").exists()
