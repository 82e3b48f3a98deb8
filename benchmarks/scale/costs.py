"""What each part of a cluster costs, in one value: measured on a machine, or given by a reader for another one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any


def _cost(default: float, unit: str, what: str) -> Any:
    return field(default=default, metadata={"unit": unit, "what": what})


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one core are given in us, sizes in bytes. The defaults are what `docs/scale.md` was made with."""

    worker_us: float = _cost(111, "us", "worker: a judged candidate, everything on (`judging`)")
    piece_us: float = _cost(12, "us", "worker: a piece taken and its end told")
    plan_us: float = _cost(9, "us", "head: a candidate checked before anything starts")
    read_us: float = _cost(14, "us", "head: a candidate read again and made a piece")
    head_us: float = _cost(6, "us", "head: a piece dealt, its end taken in and its line written")
    turn_us: float = _cost(100, "us", "head: a turn, whatever is in it")
    deal_worker_us: float = _cost(0, "us", "head: more of that for each worker there is, once a turn")
    send_us: float = _cost(3, "us", "head: a piece pickled")
    take_us: float = _cost(3, "us", "head: the end of a piece unpickled")
    merge_us: float = _cost(1, "us", "head: a step of a shard copied and indexed")
    stream_us: float = _cost(4, "us", "head: a streamed step unpickled, added and indexed")
    call_us: float = _cost(400, "us", "Ray: a call, on either side")
    call_kb_us: float = _cost(1.2, "us", "Ray: more of that for each kilobyte it carries")
    trip_us: float = _cost(1000, "us", "Ray: there and back")
    ask_us: float = _cost(50, "us", "limiter: an ask")
    piece_bytes: float = _cost(1800, "B", "a piece as it travels")
    end_bytes: float = _cost(2400, "B", "its end as it travels")
    storage_mb_s: float = _cost(500, "MB/s", "shared storage, all that is written")
    network_mb_s: float = _cost(1250, "MB/s", "the head's network, each way (10 Gbit/s)")

    def named(self, **given: float | None) -> Costs:
        """These, with what is given in their place."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


def unit_of(name: str) -> str:
    return str(_about(name)["unit"])


def what_of(name: str) -> str:
    return str(_about(name)["what"])


def names() -> list[str]:
    """All costs, in order."""
    return [one.name for one in fields(Costs)]


def _about(name: str) -> Any:
    return next(one.metadata for one in fields(Costs) if one.name == name)
