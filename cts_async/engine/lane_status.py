"""How things stand at one provider account, for whoever looks on."""

from __future__ import annotations

from dataclasses import dataclass


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
