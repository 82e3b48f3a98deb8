"""What a dry walk has found: how far instances come without a call, and the steps that other runs have paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from cts_async.records import JUDGING
from cts_async.runs.journal import Spent
from cts_async.search.asking import ASK_STEP

ASK: Final = "ask"
"""The kind of the user's replies to an agent during its search, which another model gives than the search's own."""


def kind_of_step(name: str) -> str:
    """What forecasts call a step: `judge/NAME` of a judge, `ask` of a reply to the agent, the first part of all other
    names.
    """
    if name.startswith(JUDGING):
        return "/".join(name.split("/")[:2])
    if name.startswith(ASK_STEP):
        return ASK
    return name.split("/", 1)[0]


@dataclass(frozen=True, slots=True)
class WalkProgress:
    """How far one instance comes without a call: by kind of step, what models did of it, and where it stops."""

    found: frozenset[tuple[str, int]]
    """Kinds of steps with the number that was found."""
    missing: frozenset[str]
    """Kinds of which a step was not found; empty: nothing is left to call."""

    @property
    def lacks_answer(self) -> bool:
        """Whether some step before the judging was not found."""
        return any(_stage_of(kind) != _JUDGING for kind in self.missing)

    def steps_left(self, kind: str, n_steps: float) -> float:
        """The steps of a kind that are left of `n_steps` for each instance."""
        if not self.missing:
            return 0.0
        stage, stopped_in = _stage_of(kind), min(map(_stage_of, self.missing))
        if stage < stopped_in or (stage == stopped_in == _JUDGING and kind not in self.missing):
            return 0.0
        n_left = n_steps - dict(self.found).get(kind, 0)
        # A search may have gone on for longer than an average one: its next turn is left all the same.
        fewest = 0.0
        if kind in self.missing:
            fewest = min(1.0, n_steps)
        return max(fewest, n_left)


_ASKING, _SEARCHING, _JUDGING = range(3)
"""Stages of an instance. Those of one come all before those of the next; within one they may alternate."""


def _stage_of(kind: str) -> int:
    if kind.startswith(JUDGING):
        return _JUDGING
    if kind in ("search", "visit", ASK):
        return _SEARCHING
    return _ASKING


@dataclass(slots=True)
class DryWalk:
    """How far one system's instances come without a call."""

    progress: Counter[WalkProgress] = field(default_factory=Counter)
    """How many of the instances that are left come how far."""
    reused: Spent = field(default_factory=Spent)
    """The steps that would be taken from other runs, with what they took there."""
    origins: Counter[str] = field(default_factory=Counter)
    """How many of them were executed by which run, by name."""

    @property
    def main_origin(self) -> str:
        """The run that executed most of the steps that would be taken; "" if none would."""
        for name, _ in self.origins.most_common(1):
            return name
        return ""

    @property
    def n_stopped_before_answer(self) -> int:
        """The instances whose search is not found to its end."""
        return sum(n for progress, n in self.progress.items() if progress.lacks_answer)

    def add_taken(self, record: Mapping[str, Any]) -> None:
        """Count a line that would be copied from another run."""
        paid = dict(record)
        self.origins[str(paid.pop("reused", ""))] += 1
        # Anybody may have written it: what it took is unknown then, and it is reused all the same.
        with suppress(AttributeError, TypeError, ValueError):
            self.reused.add(paid)


@dataclass(slots=True)
class FoundVerdicts:
    """What a judge has still to be asked about the answers that lack its verdict."""

    n_questions: int = 0
    """Distinct questions that are answered nowhere."""
    n_calls: int = 0
    """The calls that these take."""
    walk: DryWalk = field(default_factory=DryWalk)
