"""What a run is doing, on the terminal: bars where there is one, else a plain line every few seconds.

A subscriber of the engine's events; it writes to stderr only.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from cts_async.engine.budget import amount
from cts_async.engine.events import (
    AttemptFailed,
    BudgetUsed,
    CircuitChanged,
    Event,
    GroupHeldUp,
    JobEnded,
    JobsFound,
    JobStarted,
    LanePaused,
    LimitLearned,
    Notice,
    StepEnded,
    Stopping,
    Usage,
)
from cts_async.report.plain import plain

PLAIN_EVERY_S, BARS_EVERY_S = 5.0, 0.2
WIDE: Final = 100
"""On fewer columns names and bars are cut, so that counts are not."""


class Tally:
    """Counts of everything that was said so far."""

    def __init__(self, totals: Mapping[str, int]) -> None:
        self.totals = dict(totals)
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.calls = self.replayed = self.retries = 0
        self.usage = Usage()
        self.budget: BudgetUsed | None = None
        self._lanes: defaultdict[str, set[str]] = defaultdict(set)
        """By group, the lanes that it was seen to need."""
        self._away: set[str] = set()
        """Lanes whose provider does not answer just now."""
        self._held_up: dict[str, str] = {}
        """By group, the lane that is gone for good."""

    def take(self, event: Event) -> None:
        if isinstance(event, JobEnded):
            self.done[event.group] += 1
            self.failed[event.group] += event.failure is not None
        elif isinstance(event, JobsFound):
            self.done[event.group] += event.jobs
        elif isinstance(event, StepEnded) and event.lane:
            self.replayed += event.replayed
            self.calls += not event.replayed
            self.usage += event.usage
            self._lanes[event.group].add(event.lane)
        elif isinstance(event, AttemptFailed):
            self.retries += event.wait_s is not None
            self._lanes[event.group].add(event.lane)
        elif isinstance(event, CircuitChanged):
            (self._away.add if event.open else self._away.discard)(event.lane)
        elif isinstance(event, GroupHeldUp):
            self._held_up[event.group] = event.lane
        elif isinstance(event, BudgetUsed):
            self.budget = event

    def note(self, group: str) -> str:
        """What a person should know about one run: why it does not go on, and what failed."""
        parts = [f"{self.failed[group]} failed"] if self.failed[group] else []
        away = sorted(self._lanes[group] & self._away)
        if group in self._held_up:
            lane = self._held_up[group]
            parts.append(f"held up: {lane} is gone" if lane else "held up")
        elif away and self.done[group] < self.totals.get(group, 0):
            parts.append(f"waiting for {', '.join(away)}")
        return ", ".join(parts)

    def line(self) -> str:
        return f"{sum(self.done.values())}/{sum(self.totals.values())} instances, {self.efforts()}"

    def efforts(self) -> str:
        """What it took so far."""
        parts = [f"{self.calls} calls"]
        if self.replayed:
            parts.append(f"{self.replayed} remembered")
        if self.retries:
            parts.append(f"{self.retries} retries")
        if failed := sum(self.failed.values()):
            parts.append(f"{failed} failed")
        parts.append(f"{self.usage.total / 1000:.1f}k tokens")
        if self.budget:
            parts += _of_budget(self.budget)
        return ", ".join(parts)


def _of_budget(used: BudgetUsed) -> list[str]:
    """`$0.52 of $2.00`, for each line that was drawn."""
    spent = used.spent
    lines = (
        ("usd", spent.usd, used.max_usd, ""),
        ("tokens", spent.tokens, used.max_tokens, " tokens"),
        ("calls", spent.calls, used.max_calls, " calls"),
    )
    return [
        f"{amount(line, value)} of {amount(line, limit)}{unit}"
        for line, value, limit, unit in lines
        if limit is not None
    ]


_ROUTINE: Final = (JobStarted, StepEnded, JobEnded)
"""What happens all the time: only counted."""


def notable(event: Event) -> str | None:
    """A sentence for the events that a person should see at once."""
    if isinstance(event, _ROUTINE):
        return None
    if isinstance(event, CircuitChanged):
        return f"{event.lane}: {'outage, waiting' if event.open else 'back'} ({event.reason})"
    if isinstance(event, LanePaused) and event.seconds >= 1:
        return f"{event.lane} asks for a pause of {event.seconds:.0f} s"
    if isinstance(event, LimitLearned):
        return f"{event.lane}: its answers name a limit of {event.per_min:,.0f} {event.what} a minute"
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, Stopping):
        return f"stopping: {event.reason}"
    return None


class _Plain:
    def __init__(self, console: Console, tally: Tally) -> None:
        self._console, self._tally = console, tally
        self._next = time.monotonic() + PLAIN_EVERY_S

    def __call__(self, event: Event) -> None:
        self._tally.take(event)
        said = notable(event)
        if said:
            self._say(plain(said, lines=True))
        elif time.monotonic() >= self._next:
            self._say(self._tally.line())

    def _say(self, text: str) -> None:
        self._next = time.monotonic() + PLAIN_EVERY_S
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def labels(names: Sequence[str]) -> dict[str, str]:
    """Names of runs without the words they all begin with, and without the settings (`+support-gpt`) all end with."""
    if len(names) < 2:
        return {name: name for name in names}
    alike = len({name.partition("+")[2] for name in names}) == 1
    words = [(name.partition("+")[0] if alike else name).split("-") for name in names]
    shared, shortest = 0, min(map(len, words))
    while shared < shortest - 1 and len({one[shared] for one in words}) == 1:
        shared += 1
    return {name: "-".join(one[shared:]) for name, one in zip(names, words, strict=True)}


class _Screen(Progress):
    """Bars, and below them in a line of its own what they took so far: a column would leave the bars no room."""

    efforts = "starting"

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield Text(self.efforts)


class _Bars:
    def __init__(self, progress: _Screen, tally: Tally) -> None:
        self._progress, self._tally = progress, tally
        named = labels(list(tally.totals))
        self._bars: dict[str, TaskID] = {
            group: progress.add_task(escape(named[group]), total=total, note="")
            for group, total in tally.totals.items()
        }
        self._next = 0.0
        self._sum = progress.add_task("all", total=sum(tally.totals.values()), note="")

    def __call__(self, event: Event) -> None:
        self._tally.take(event)
        # A bar costs more to move than a call to make: no oftener than anybody sees.
        now = time.monotonic()
        if now >= self._next:
            self._next = now + BARS_EVERY_S
            self.move()
        said = notable(event)
        if said:
            self._progress.console.print(plain(said, lines=True), markup=False, highlight=False)

    def move(self) -> None:
        """Bring the bars up to what was counted."""
        for group, bar in self._bars.items():
            note = self._tally.note(group)
            marked = f"[red]{escape(note)}[/red]" if note else ""
            self._progress.update(bar, completed=self._tally.done[group], note=marked)
        self._progress.efforts = self._tally.efforts()
        self._progress.update(self._sum, completed=sum(self._tally.done.values()))


@contextmanager
def shown(console: Console, totals: Mapping[str, int], *, quiet: bool = False) -> Iterator[_Bars | _Plain]:
    """A subscriber that shows progress while the block runs. `totals`: instances by run."""
    tally = Tally(totals)
    if quiet or not console.is_terminal:
        yield _Plain(Console(quiet=True) if quiet else console, tally)
        return
    wide = console.width >= WIDE
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=None if wide else 30)),
        BarColumn(bar_width=24 if wide else 10),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with _Screen(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        bars = _Bars(progress, tally)
        yield bars
        bars.move()
