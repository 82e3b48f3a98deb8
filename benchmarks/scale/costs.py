"""What each part of a cluster costs, in one value: measured on a machine, or given by a reader for another one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any


def _cost(default: float, of: str, what: str, unit: str = "us", how: str = "measured") -> Any:
    return field(default=default, metadata={"unit": unit, "of": of, "what": what, "how": how})


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds are those of one core. The defaults are what `docs/scale.md` was made with."""

    worker_us: float = _cost(111, "a worker", "a judged candidate, everything on", how="`judging`")
    piece_us: float = _cost(4, "a worker", "a piece unpickled and its end pickled")
    plan_us: float = _cost(7.9, "the head", "a candidate checked before anything starts")
    read_us: float = _cost(5.6, "the head", "a candidate read again and made a piece")
    head_us: float = _cost(2.4, "the head", "a piece dealt, its end taken in, its line written")
    send_us: float = _cost(2.1, "the head", "a piece pickled")
    take_us: float = _cost(1.2, "the head", "the end of a piece unpickled")
    merge_us: float = _cost(0.5, "the head", "a step of a shard copied and indexed")
    stream_us: float = _cost(1.2, "the head", "a streamed step taken in instead")
    turn_us: float = _cost(19, "the head", "a turn, whatever is in it")
    deal_worker_us: float = _cost(0, "the head", "more of that for each worker there is")
    piece_bytes: float = _cost(1880, "what travels", "a piece", "B")
    end_bytes: float = _cost(2280, "what travels", "its end", "B")
    call_us: float = _cost(400, "Ray", "a call, on either side", how="Ray 2.60")
    call_kb_us: float = _cost(1.2, "Ray", "more of that for each kilobyte", how="Ray 2.60")
    trip_us: float = _cost(1000, "Ray", "there and back", how="Ray 2.60")
    ask_us: float = _cost(112, "the limiter", "an ask, with its permits")
    ask_worker_us: float = _cost(0.1, "the limiter", "more of that for each worker there is")
    storage_mb_s: float = _cost(500, "outside", "shared storage", "MB/s", "assumed")
    network_mb_s: float = _cost(1250, "outside", "the head's network, each way", "MB/s", "assumed")

    def named(self, **given: float | None) -> Costs:
        """These, with what is given in their place."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True)
class About:
    """What a cost is: its name, its unit, whose it is, what for, and how it was found."""

    name: str
    unit: str
    of: str
    what: str
    how: str


COSTS = tuple(About(one.name, **one.metadata) for one in fields(Costs))
