"""A budget for many workers: who may spend how much of it.

Each worker has an allowance, in all since it began. What earlier sessions spent, the allowances of all workers, and
what those that were lost may have spent together never lie beyond a line. So while no attempt costs more than was
reserved for it, neither does what is spent (dollars to within a grain of rounding for each worker), whatever is in
flight and whoever dies.

A worker gets what it wants, but at most its share of what nobody has: near a line everybody gets ever less. Where one
waits and there is not enough for it, the others' unused allowance is asked back; it counts as theirs until they answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor

from cts_async.cluster.messages import News
from cts_async.engine.budget import NOTHING, Lines, exhausted
from cts_async.engine.events import BudgetUsed, Cost, Events
from cts_async.errors import BudgetSpent


@dataclass(slots=True)
class _Account:
    """A worker, as its latest news have it."""

    allowed: Cost = NOTHING
    """What it was told last."""
    held: Cost = NOTHING
    """What it may have spent in the end if it is told nothing more: what counts against the lines."""
    spent: Cost = NOTHING
    committed: Cost = NOTHING
    """What it has spent and reserved."""
    wants: Cost = NOTHING
    short: Cost | None = None
    starves: bool = False
    """Whether its next call waits, and there was not enough for it."""


class Purse:
    """For each turn of a worker, one `allowed`, and then `heard` with its answer.

    `spent` is what earlier sessions spent; `events` hear what is spent by now (BudgetUsed) whenever that changes.
    A worker that is lost counts with all that it may have spent, until a later session reads the journals.
    """

    def __init__(self, lines: Lines, spent: Cost, events: Events) -> None:
        self._lines, self._events = lines, events
        self._settled = spent
        """What earlier sessions spent, and workers that are lost."""
        self._live: dict[str, _Account] = {}

    @property
    def spent(self) -> Cost:
        """What is spent by now, as far as anybody has said, all sessions together."""
        return _sum(self._settled, (one.spent for one in self._live.values()))

    def joined(self, worker: str) -> None:
        """A new worker, which has spent nothing; no other has had its name."""
        self._live[worker] = _Account()

    def heard(self, worker: str, news: News) -> None:
        """The answer to the turn that took the last `allowed` along. From a worker that is lost it changes nothing."""
        one = self._live.get(worker)
        if one is None:
            return
        more = news.spent != one.spent
        one.spent, one.committed = news.spent, news.spent + news.reserved
        one.short, one.wants = news.short, news.wants
        one.starves = one.starves and news.short is not None
        if news.over:
            one.allowed = news.spent
        one.held = _larger(one.allowed, one.committed)
        if more:
            self._tell()

    def lost(self, worker: str) -> None:
        """It will not be heard of again; what it may have spent counts as spent."""
        one = self._live.pop(worker, None)
        if one is not None:
            self._settled += one.held
            self._tell()

    def allowed(self, worker: str) -> Cost | None:
        """What a worker may spend in all since it began, for its next turn; None where no line is drawn.

        KeyError for a worker that has not joined, or is lost.
        """
        if self._lines == Lines():
            return None
        one = self._live[worker]
        one.allowed = self._allowance(one)
        one.held = _larger(one.held, one.allowed)  # it may spend the more until it has heard of the less
        return one.allowed

    def over(self) -> BudgetSpent | None:
        """The reason to stop with: somebody waits, nobody's next call could be paid for, and nothing is under way
        that could return something. None as long as that is not so."""
        if any(one.held != one.spent for one in self._live.values()):
            return None
        waiting = [one.short for one in self._live.values() if one.short is not None]
        spent = self.spent
        if not waiting or not all(self._lines.crossed(spent + most) for most in waiting):
            return None
        return exhausted(self._lines, spent, waiting[0])

    def _allowance(self, one: _Account) -> Cost:
        others = [other for other in self._live.values() if other is not one]
        let_out = _sum(self._settled, (other.held for other in others))
        need = one.committed
        if one.short is not None:
            need += one.short
            one.starves = self._lines.crossed(let_out + need) is not None
            if one.starves:
                return one.committed
        asked_back = any(other.starves for other in others)
        kept = one.committed if asked_back else _larger(one.allowed, one.committed)
        share = self._share(let_out + kept)
        return _larger(_larger(kept, need), _smaller(one.wants, kept + share))

    def _share(self, let_out: Cost) -> Cost:
        """An equal part of what nobody has, where a line is drawn."""
        lines, n = self._lines, len(self._live)
        calls, tokens, usd = (
            0.0 if limit is None else max(0.0, limit - used) / n
            for limit, used in (
                (lines.max_calls, let_out.calls),
                (lines.max_tokens, let_out.tokens),
                (lines.max_usd, let_out.usd),
            )
        )
        return Cost(floor(calls), floor(tokens), usd)

    def _tell(self) -> None:
        lines = self._lines
        self._events.emit(BudgetUsed(self.spent, lines.max_calls, lines.max_tokens, lines.max_usd))


def _sum(first: Cost, others: Iterable[Cost]) -> Cost:
    """Added up anew each time: running sums of dollars would drift."""
    calls, tokens, usd = first.calls, first.tokens, first.usd
    for cost in others:
        calls += cost.calls
        tokens += cost.tokens
        usd += cost.usd
    return Cost(calls, tokens, usd)


def _larger(a: Cost, b: Cost) -> Cost:
    return Cost(max(a.calls, b.calls), max(a.tokens, b.tokens), max(a.usd, b.usd))


def _smaller(a: Cost, b: Cost) -> Cost:
    return Cost(min(a.calls, b.calls), min(a.tokens, b.tokens), min(a.usd, b.usd))
