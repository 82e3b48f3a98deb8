"""A command's work in parts that have a bar each: what each is, and what was counted of it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from cts_async.report.live_shapes import LivePart
from cts_async.report.pace import Pace
from cts_async.report.running_mean import RunningMean


@dataclass(frozen=True, slots=True)
class Work:
    """Jobs of a command that have a bar of their own: a system's, or a judge's."""

    group: str
    """What the engine's events call them."""
    n_expected: int
    directories: tuple[Path, ...]
    """Where they write, and where `live.json` says so."""
    scores: Path | None = None
    """The file whose scores are their mean; None where they have none."""
    smoke_test: bool = False


@dataclass(slots=True)
class Group:
    """Counts of what was heard of one `Work`."""

    work: Work
    heard_of: bool = False
    done: int = 0
    failed: int = 0
    calls: int = 0
    replayed: int = 0
    retries: int = 0
    tokens: int = 0
    usd: float = 0.0
    lanes: set[str] = field(default_factory=set)
    """Those that it was seen to need."""
    held_up: str | None = None
    """The lane that is gone for good; "" where nobody knows which."""
    pace: Pace = field(default_factory=Pace)
    mean: RunningMean = field(default_factory=RunningMean)

    def part(self, now: float, away: AbstractSet[str]) -> LivePart:
        """How things stand with it; `away` are lanes whose provider does not answer."""
        left = self.work.n_expected - self.done
        interval = self.mean.interval()
        return {
            "name": self.work.group,
            "n_expected": self.work.n_expected,
            "n_done": self.done,
            "n_failed": self.failed,
            "eta_s": None if self.held_up is not None and left > 0 else self.pace.left_s(left, now),
            "mean": self.mean.mean if self.mean.n else None,
            "mean_low": interval[0] if interval else None,
            "mean_high": interval[1] if interval else None,
            "n_scored": self.mean.n,
            "calls": self.calls,
            "replayed": self.replayed,
            "retries": self.retries,
            "tokens": self.tokens,
            "note": self._note(away),
            "smoke_test": self.work.smoke_test,
        }

    def _note(self, away: AbstractSet[str]) -> str:
        """Why it does not go on."""
        if self.held_up is not None:
            return f"held up: {self.held_up} is gone" if self.held_up else "held up"
        missed = sorted(self.lanes & away)
        return f"waiting for {', '.join(missed)}" if missed and self.done < self.work.n_expected else ""
