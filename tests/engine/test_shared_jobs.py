"""Jobs that share steps: one executes, the others wait for it; streams with workers of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from virtual_time import run_virtual

from cts_async.engine.events import Events, StepEnded
from cts_async.engine.journal import Journal, read_jsonl
from cts_async.engine.runner import Context, Job, Runner, interrupted
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import RejectedError, RunStopped, UnusableOutput


class World:
    """Jobs that each make one step, named by what it is about; every execution takes a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executed: list[str] = []
        self.ended: dict[str, Any] = {}
        self.at: dict[str, float] = {}
        self.replayed = 0
        self.refuse: set[str] = set()

    async def walk(self, ctx: Context, about: str) -> Any:
        async def execute(problem: UnusableOutput | None) -> Executed:
            self.executed.append(about)
            await asyncio.sleep(1.0)
            if about in self.refuse:
                raise RejectedError(f"{about} is refused")
            return Executed(f"verdict on {about}")

        return await ctx.step(
            Step(name="judge", key=step_key(about), execute=execute, decode=lambda response: response)
        )

    def jobs(self, abouts: Iterable[str], journal: Journal, group: str = "g") -> Iterator[Job]:
        for i, about in enumerate(abouts):
            name = f"{group}{i}"
            walk, finish = partial(self.walk, about=about), partial(self.finish, name)
            yield Job(group, name, journal, walk, finish, shared=True)

    async def finish(self, name: str, ended: Any) -> None:
        self.ended[name] = ended
        self.at[name] = round(asyncio.get_running_loop().time(), 3)

    def run(self, *streams: Sequence[str], widths: Sequence[int] = (), stop_after_s: float = 99.0) -> None:
        """Each stream in a group, and with a journal, of its own; the journals lie beside each other."""

        async def main() -> None:
            journals = [Journal(self.folder / f"{i}.jsonl") for i in range(len(streams))]
            for journal in journals:
                journal.beside = [other for other in journals if other is not journal]
            runner = Runner(events=Events(self.hear), in_flight=4)
            asyncio.get_running_loop().call_later(stop_after_s, runner.stop, interrupted())
            jobs = [self.jobs(abouts, journals[i], "abc"[i]) for i, abouts in enumerate(streams)]
            try:
                await runner.run(*jobs, in_flight=widths)
            finally:
                for journal in journals:
                    journal.close()

        run_virtual(main)

    def hear(self, event: object) -> None:
        self.replayed += isinstance(event, StepEnded) and event.replayed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_step_under_way_is_waited_for_and_a_finished_one_remembered(world: World) -> None:
    """Four at once: x runs, two wait for it, y runs; the last x comes when it is done."""
    world.run(["x", "x", "x", "y", "x"])
    assert sorted(world.executed) == ["x", "y"]
    assert [world.ended[f"a{i}"] for i in range(5)] == [f"verdict on {c}" for c in "xxxyx"]
    assert set(world.at.values()) == {1.0}
    assert world.replayed == 3
    assert len(list(read_jsonl(world.folder / "0.jsonl"))) == 2


def test_a_failure_is_shared_too_and_asked_for_no_more(world: World) -> None:
    world.refuse = {"x"}
    world.run(["x", "x", "y", "x", "x", "x"])
    assert sorted(world.executed) == ["x", "y"]
    assert {str(world.ended[f"a{i}"]) for i in (0, 1, 3, 4, 5)} == {"x is refused"}
    world.refuse.clear()
    world.run(["x", "x"])
    assert world.executed.count("x") == 2, "the next session asks once more"


def test_streams_share_steps_across_their_journals(world: World) -> None:
    world.run(["x", "y"], ["y", "x", "z"])
    assert sorted(world.executed) == ["x", "y", "z"]
    assert len(world.ended) == 5
    world.executed.clear()
    world.run(["x", "y", "z"], ["z", "y", "x"])
    assert world.executed == [], "either journal has what the other lacks"


def test_a_stop_ends_those_who_wait_as_well(world: World) -> None:
    """Stopped in the first second: what is in flight is finished, and nothing more is begun."""
    with pytest.raises(RunStopped, match="interrupted"):
        world.run(["x", "x", "x", "x", "y"], stop_after_s=0.5)
    assert world.executed == ["x"]
    assert len(world.ended) == 4


def test_a_slow_stream_holds_up_no_other(world: World) -> None:
    """One worker takes 5 s for its five; four others do their eight in 2 s meanwhile."""
    world.run([f"s{i}" for i in range(5)], [f"f{i}" for i in range(8)], widths=[1, 4])
    assert [world.at[f"a{i}"] for i in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert max(world.at[f"b{i}"] for i in range(8)) == 2.0


def test_jobs_that_share_nothing_forget_and_shared_ones_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept moves into the index, 16 bytes a step, and is found there."""
    monkeypatch.setattr("cts_async.engine.journal.INDEXED_AT_ONCE", 3)
    world = World(tmp_path)
    world.run([f"q{i % 10}" for i in range(40)])
    assert sorted(world.executed) == sorted(f"q{i}" for i in range(10))
