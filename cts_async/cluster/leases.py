"""Which worker does which task: small leases, older tasks first, and nothing lost with a worker.

A worker has about a second of work besides what it works on, and no more than its share of what is left. A task that
several workers died with is done last and alone, so that nothing else is lost with it. Pure but for reading the
stream of tasks.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from typing import Final

from cts_async.cluster.work import Task
from cts_async.errors import RunStopped

LEASE_S: Final = 1.0
"""Seconds of work that a worker has in reserve."""
MAX_LEASE: Final = 500
MAX_AHEAD: Final = 4096
"""Tasks that are read ahead to see whether there are enough for everybody."""
READ_S: Final = 0.02
"""Reading ahead takes no longer than this at once: where most is done already, a next task may be far."""
MAX_DEATHS: Final = 3
SAMPLE_S: Final = 0.5
"""A worker's pace is measured over at least this time."""


@dataclass(slots=True)
class _Holder:
    """A worker's tasks of one stream."""

    in_flight: int
    tasks: dict[int, Task] = field(default_factory=dict)
    pace: float = 0.0
    """Tasks a second; 0 while unknown."""
    ended: int = 0
    since: float | None = None

    @property
    def room(self) -> int:
        reserve = max(1, ceil(self.pace * LEASE_S)) if self.pace else self.in_flight
        return min(MAX_LEASE, self.in_flight + reserve - len(self.tasks))

    def count(self, n: int, now: float) -> None:
        self.since = now if self.since is None else self.since
        self.ended += n
        elapsed_s = now - self.since
        if elapsed_s >= SAMPLE_S:
            pace = self.ended / elapsed_s
            self.pace = (self.pace + pace) / 2 if self.pace else pace
            self.ended, self.since = 0, now


class Leases:
    """The tasks of one stream."""

    def __init__(self, tasks: Iterator[Task], clock: Callable[[], float] = time.perf_counter) -> None:
        self._unread: Iterator[Task] | None = tasks
        self._clock = clock
        self._ready: list[tuple[int, Task]] = []
        """Read, or lost with a worker: a heap."""
        self._deaths: Counter[int] = Counter()
        self._deadly: list[Task] = []
        """Tasks that MAX_DEATHS workers were lost with."""
        self._asking: dict[int, str] = {}
        """By question, the worker that is at it."""
        self._later: defaultdict[int, list[Task]] = defaultdict(list)
        """By question, tasks that wait for another worker to end theirs."""
        self._holders: dict[str, _Holder] = {}
        self._dropped: set[str] = set()
        """Groups."""
        self._dropped_tasks: dict[int, Task] = {}
        """Tasks of such groups that some worker has: it may end them."""
        self.failure: RunStopped | None = None
        """What the stream broke off with; what came before it is dealt."""

    @property
    def over(self) -> bool:
        """Whether every task has ended or was dropped."""
        return not (self._n_waiting() or self._read(1) or self._unread) and not any(
            holder.tasks for holder in self._holders.values()
        )

    def n_held(self, worker: str) -> int:
        """How many tasks a worker has."""
        return len(self._holders[worker].tasks) if worker in self._holders else 0

    def joined(self, worker: str, in_flight: int) -> None:
        """A worker is ready that works on so many tasks at once."""
        self._holders[worker] = _Holder(in_flight)

    def deal(self, worker: str) -> list[Task]:
        """What a worker is to have now, besides what it has."""
        holder = self._holders[worker]
        room = holder.room
        if room <= 0:
            return []
        self._read(min(room * len(self._holders), MAX_AHEAD))
        if self._unread is None:
            left = self._n_waiting() + sum(len(one.tasks) for one in self._holders.values())
            room = min(room, ceil(left / len(self._holders)) - len(holder.tasks))
        dealt: list[Task] = []
        while len(dealt) < room and self._ready:
            task = heappop(self._ready)[1]
            if self._may_ask(task, worker):
                dealt.append(task)
            else:
                self._later[task.question].append(task)
        alone = not (dealt or holder.tasks or self._ready or self._unread)
        if alone and self._deadly and self._may_ask(self._deadly[0], worker):
            dealt.append(self._deadly.pop(0))
        holder.tasks |= {task.seq: task for task in dealt}
        return dealt

    def ended(self, worker: str, seqs: Iterable[int], now: float) -> list[Task]:
        """These tasks have ended; returns those that the worker did have."""
        if worker not in self._holders:
            return []
        holder, seqs = self._holders[worker], list(seqs)
        ended = self._taken(holder, seqs)
        holder.count(len(ended), now)
        return ended + [self._dropped_tasks.pop(seq) for seq in seqs if seq in self._dropped_tasks]

    def lost(self, worker: str) -> list[Task]:
        """A worker is gone, and others get its tasks; returns them."""
        holder = self._holders.pop(worker, None)
        if holder is None:
            return []
        had = self._taken(holder, sorted(holder.tasks))
        for task in had:
            self._deaths[task.seq] += 1
            again = replace(task, resumed=True)
            if self._deaths[task.seq] >= MAX_DEATHS:
                self._deadly.append(again)
            else:
                heappush(self._ready, (task.seq, again))
        return had

    def drop(self, group: str) -> None:
        """Deal nothing of this group any more, and wait for none of it."""
        self._dropped.add(group)
        self._ready = sorted((seq, task) for seq, task in self._ready if task.group != group)
        self._deadly = [task for task in self._deadly if task.group != group]
        for question, tasks in self._later.items():
            self._later[question] = [task for task in tasks if task.group != group]
        for holder in self._holders.values():
            dropped = [task.seq for task in holder.tasks.values() if task.group == group]
            self._dropped_tasks |= {task.seq: task for task in self._taken(holder, dropped)}

    def _may_ask(self, task: Task, worker: str) -> bool:
        """Whether no other worker is at the task's question; from then on this one is."""
        return not task.question or self._asking.setdefault(task.question, worker) == worker

    def _taken(self, holder: _Holder, seqs: Iterable[int]) -> list[Task]:
        """Remove tasks from a worker; others of the same question need not wait any more."""
        taken = [task for seq in seqs if (task := holder.tasks.pop(seq, None))]
        held = {task.question for task in holder.tasks.values()} if any(t.question for t in taken) else set()
        for question in {task.question for task in taken} - held - {0}:
            del self._asking[question]
            for task in self._later.pop(question, ()):
                heappush(self._ready, (task.seq, replace(task, resumed=True)))
        return taken

    def _n_waiting(self) -> int:
        return len(self._ready) + len(self._deadly) + sum(map(len, self._later.values()))

    def _read(self, n: int) -> bool:
        """Have `n` tasks ready, or as many as can be read soon; whether there are any."""
        until = self._clock() + READ_S
        while len(self._ready) < n and self._unread is not None:
            try:
                task = next(self._unread, None)
            except RunStopped as failure:
                self.failure, task = failure, None
            if task is None:
                self._unread = None
            elif task.group not in self._dropped:
                heappush(self._ready, (task.seq, task))
            if self._clock() > until:
                break
        return bool(self._ready)
