"""Places of one account (requests that may be under way at once), held by workers for long and moved by demand.

Two rules. A worker counts as holding the most that it can hold: what it last said, or any grant that it may have
acted on since. And nobody is given what is not free of that, so however messages are lost or late, no more are held
than there are. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class Demand:
    """What a worker could use now, and its oldest job that waits (None: none waits)."""

    places: int
    oldest: int | None = None


def shares(total: int, demands: Mapping[str, Demand]) -> dict[str, int]:
    """What everybody should have of `total` places.

    Nobody is given more than he can use while another lacks some, and those who lack some have the same (one
    more or less: the oldest jobs first). What nobody can use is spread evenly. Where there are fewer places than
    workers that want one, those with the oldest waiting jobs have one each.
    """
    by_age = sorted(demands, key=lambda worker: (_age(demands[worker]), worker))
    share = dict.fromkeys(demands, 0)
    left, open_ = total, [worker for worker in by_age if demands[worker].places > 0]
    while open_ and left > 0:
        level, over = divmod(left, len(open_))
        if not level:
            for worker in open_[:over]:
                share[worker] += 1
            return share
        for worker in open_:
            more = min(level, demands[worker].places - share[worker])
            share[worker] += more
            left -= more
        open_ = [worker for worker in open_ if share[worker] < demands[worker].places]
    if by_age:
        level, over = divmod(left, len(by_age))
        for i, worker in enumerate(by_age):
            share[worker] += level + (i < over)
    return share


def _age(demand: Demand) -> float:
    return inf if demand.oldest is None else demand.oldest


@dataclass(slots=True)
class _Holder:
    let: int
    """What it is to have."""
    told: int = 0
    """What it last said that it has, or has under way."""
    unheard: dict[int, int] = field(default_factory=dict)
    """Grants that it may have acted on since, by number."""
    demand: Demand = Demand(0)

    @property
    def most(self) -> int:
        return max(self.let, self.told, *self.unheard.values())


class PlaceBook:
    """Who holds how many of `total` places."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._holders: dict[str, _Holder] = {}

    def heard(self, worker: str, acted_on: int, places: int, busy: int, demand: Demand) -> None:
        """A worker's word, in the order in which it said it: it has acted on grants up to number `acted_on`."""
        holder = self._holders.get(worker)
        if holder is None:
            # Nobody has been given anything before it is heard of: what it has is from another time.
            holder = self._holders[worker] = _Holder(places)
        holder.told = max(places, busy)
        holder.demand = demand
        holder.unheard = {number: let for number, let in holder.unheard.items() if number > acted_on}

    def say(self, worker: str, number: int) -> int:
        """What a worker is to have, as it will be said in grant `number`."""
        holder = self._holders[worker]
        holder.unheard[number] = holder.let
        return holder.let

    def gone(self, worker: str) -> None:
        self._holders.pop(worker, None)

    def let(self, worker: str) -> int:
        return self._holders[worker].let

    @property
    def held(self) -> int:
        """The most that all together can hold."""
        return sum(holder.most for holder in self._holders.values())

    def plan(self) -> list[str]:
        """Move places to where they lack; gives the workers that are to have more or less than before, each once."""
        lack = sum(max(0, h.demand.places - h.let) for h in self._holders.values())
        if not lack:
            return []
        free = self.total - self.held
        share = shares(self.total, {worker: h.demand for worker, h in self._holders.items()})
        moved = self._take_back(share) if lack > free else []
        lacking = [w for w, h in self._holders.items() if h.let < min(share[w], h.demand.places)]
        for worker in sorted(lacking, key=lambda worker: _age(self._holders[worker].demand)):
            holder = self._holders[worker]
            # Half of what is free at a time: others may be about to ask, and what is held comes back slowly.
            more = min(share[worker] - holder.let, -(-free // 2))
            # What it holds already, as the most it may have acted on, is not taken from the others once more.
            before = holder.most
            if more > 0:
                holder.let += more
                free -= holder.most - before
                moved.append(worker)
        return moved

    def _take_back(self, share: Mapping[str, int]) -> list[str]:
        above = [worker for worker, holder in self._holders.items() if holder.let > share[worker]]
        for worker in above:
            self._holders[worker].let = share[worker]
        return above
