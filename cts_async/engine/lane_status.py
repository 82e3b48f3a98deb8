"""How things stand at one provider account, for whoever looks on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Numbers of one moment. `sent`, `tokens` and `answers_429` only ever grow: who asks twice knows the pace."""

    name: str
    in_flight: int
    waiting: int
    """Callers that have asked for leave to send and not got it; those that rest before a retry are none."""
    places: int
    """How many may be in flight just now."""
    sent: int
    """Requests since the lane was made."""
    tokens: float
    """Tokens that answers were charged, as far as they say it."""
    requests_per_min: float | None
    tokens_per_min: float | None
    """What the gates let through just now, after what answers taught; None where no limit is known."""
    answers_429: int
    paused_s: float
    """Seconds until anybody sends again, after the provider asked for less; 0 where nobody has to wait."""
    probe_s: float | None
    """Seconds until the next look whether an outage is over; None where there is none."""
    reason: str
    """What the outage began with, or why nobody is admitted any more; "" where all is well."""
    gone: bool
    """Nobody is admitted any more, since the provider is gone."""


def merged(statuses: Sequence[LaneStatus]) -> LaneStatus:
    """One account in several processes, as one lane. At least one status, all of the same name.

    Counts are summed. Of the rest the worst counts: the lowest limit that any of them knows (each knows the
    account's, not a share of it), the longest pause, and what is wrong in any of them, a provider that is gone before
    an outage. Of several outages the next look is the earliest.
    """
    is_gone = [one for one in statuses if one.gone]
    is_out = [one for one in statuses if one.probe_s is not None]
    worst = next(iter([*is_gone, *is_out]), None)
    return LaneStatus(
        name=statuses[0].name,
        in_flight=sum(one.in_flight for one in statuses),
        waiting=sum(one.waiting for one in statuses),
        places=sum(one.places for one in statuses),
        sent=sum(one.sent for one in statuses),
        tokens=sum(one.tokens for one in statuses),
        requests_per_min=_lowest(one.requests_per_min for one in statuses),
        tokens_per_min=_lowest(one.tokens_per_min for one in statuses),
        answers_429=sum(one.answers_429 for one in statuses),
        paused_s=max(one.paused_s for one in statuses),
        probe_s=None if is_gone else _lowest(one.probe_s for one in is_out),
        reason=worst.reason if worst else "",
        gone=bool(is_gone),
    )


def at_rest(status: LaneStatus) -> LaneStatus:
    """What is left of a lane whose process is no more: what it sent, and what came of that."""
    return replace(
        status,
        in_flight=0,
        waiting=0,
        places=0,
        requests_per_min=None,
        tokens_per_min=None,
        paused_s=0.0,
        probe_s=None,
        reason="",
        gone=False,
    )


def _lowest(numbers: Iterable[float | None]) -> float | None:
    return min((number for number in numbers if number is not None), default=None)
