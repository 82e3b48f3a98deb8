"""What each part of a cluster costs, in one value: measured on a machine, or given by a reader for another one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any


def _cost(default: float, unit: str, what: str, how: str = "measured") -> Any:
    return field(default=default, metadata={"unit": unit, "what": what, "how": how})


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds are those of one core. The defaults are what `docs/scale.md` was made with."""

    worker_us: float = _cost(111, "us", "worker: a judged candidate, everything on", "`judging`")
    piece_us: float = _cost(4.7, "us", "worker: a piece unpickled and its end pickled")
    plan_us: float = _cost(7.9, "us", "head: a candidate checked before anything starts")
    read_us: float = _cost(5.6, "us", "head: a candidate read again and made a piece")
    head_us: float = _cost(2.8, "us", "head: a piece dealt, its end taken in and its line written")
    turn_us: float = _cost(19, "us", "head: a turn, whatever is in it")
    deal_worker_us: float = _cost(0.1, "us", "head: a turn, more of that for each worker there is")
    send_us: float = _cost(2.1, "us", "head: a piece pickled")
    take_us: float = _cost(2.9, "us", "head: the end of a piece unpickled")
    merge_us: float = _cost(0.5, "us", "head: a step of a shard copied and indexed")
    stream_us: float = _cost(1.1, "us", "head: a streamed step unpickled, added and indexed")
    piece_bytes: float = _cost(1880, "B", "a piece as it travels")
    end_bytes: float = _cost(2260, "B", "the end of a piece as it travels")
    call_us: float = _cost(400, "us", "Ray: a call, on either side", "Ray 2.60")
    call_kb_us: float = _cost(1.2, "us", "Ray: more of that for each kilobyte it carries", "Ray 2.60")
    object_us: float = _cost(
        4, "us", "Ray: more of that for a piece and its end, since Ray pickles them", "Ray 2.60"
    )
    trip_us: float = _cost(1000, "us", "Ray: there and back", "Ray 2.60")
    ask_us: float = _cost(25, "us", "limiter: an ask")
    permit_us: float = _cost(36, "us", "limiter: a permit")
    ask_worker_us: float = _cost(0.5, "us", "limiter: an ask, more of that for each worker there is")
    storage_mb_s: float = _cost(500, "MB/s", "shared storage, all that is written", "assumed")
    network_mb_s: float = _cost(1250, "MB/s", "the head's network, each way: 10 Gbit/s", "assumed")

    def named(self, **given: float | None) -> Costs:
        """These, with what is given in their place."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True)
class About:
    """What a cost is: its name, unit, meaning, and how it was found."""

    name: str
    unit: str
    what: str
    how: str


COSTS = tuple(About(one.name, **one.metadata) for one in fields(Costs))
