"""Steps that are looked up and never executed: how far a job comes with what runs have finished.

A walk is the same code as in a run. Each of its steps that its journal or another run has returns; the first one that
neither has ends its branch of the walk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from cts_async.engine.events import Usage
from cts_async.engine.runner import Context, Runner
from cts_async.engine.step import NO_USAGE, Step
from cts_async.errors import RunStopped

T = TypeVar("T")


class StepNotFound(RunStopped):
    """A step would have to be executed. No failure: whoever continues after one must not continue after this."""


class FinishedSteps(Protocol):
    """Where steps are looked up by key."""

    def find(self, key: str) -> dict[str, Any] | None:
        """The record of a finished step; None if there is none that can be read."""


class LookedUpSteps:
    """A StepMemory that writes nothing: what a run would append to its journal is kept in `taken` instead."""

    def __init__(self, finished: FinishedSteps | None) -> None:
        """`finished` has the steps of the run itself; None: it has none."""
        self.taken: list[Mapping[str, Any]] = []
        """The lines of steps of other runs since this was last emptied."""
        self._finished = finished
        self._by_key: dict[str, dict[str, Any]] = {}

    def find(self, key: str) -> dict[str, Any] | None:
        if key in self._by_key:
            return self._by_key[key]
        if self._finished is None:
            return None
        return self._finished.find(key)

    async def append(self, record: Mapping[str, Any]) -> None:
        self.taken.append(record)
        self._by_key[record["key"]] = dict(record)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._by_key.pop(key, None)

    def keep(self, keys: Iterable[str]) -> None:
        """Do nothing: what was appended is findable."""


class LookupRunner(Runner):
    """A Runner that executes nothing, and notes which steps of a walk were found and which were not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.found: Counter[str] = Counter()
        """Steps of models that were found, by name, since this was last emptied."""
        self.missing: Counter[str] = Counter()
        """Steps that were not."""

    async def execute(self, ctx: Context, step: Step[T]) -> T:
        """Raise StepNotFound."""
        self.missing[step.name] += 1
        raise StepNotFound(f"{step.name} is in no journal")

    def step_ended(
        self,
        ctx: Context,
        step: Step[Any],
        *,
        replayed: bool,
        latency_s: float = 0.0,
        usage: Usage = NO_USAGE,
        reused: bool = False,
    ) -> None:
        """Note that a step was found."""
        if step.model:
            self.found[step.name] += 1
