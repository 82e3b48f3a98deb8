"""The providers' accounts of a command as `live.json` has them: what lanes say, with their pace of the last minute."""

from __future__ import annotations

from collections.abc import Callable

from cts_async.engine.events import LaneStatus
from cts_async.report.last_minute import LastMinute
from cts_async.report.live_shapes import Lane

Ask = Callable[[], LaneStatus]


class LanesShown:
    """`use` what comes into use, then look with `seen`; `now` is in seconds and never goes back."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Ask, LastMinute, LastMinute]] = {}

    def use(self, name: str, ask: Ask, now: float) -> None:
        """A lane comes into use, with its first request."""
        self._asked[name] = ask, LastMinute(now, 0), LastMinute(now, 0.0)

    def seen(self, now: float) -> list[Lane]:
        """How things stand, in the order of use."""
        return [_shown(ask(), sent, tokens, now) for ask, sent, tokens in list(self._asked.values())]


def _shown(status: LaneStatus, sent: LastMinute, tokens: LastMinute, now: float) -> Lane:
    return {
        "name": status.name,
        "in_flight": status.in_flight,
        "waiting": status.waiting,
        "places": status.places,
        "calls_per_min": sent.grown(now, status.sent),
        "calls_allowed": status.requests_per_min,
        "tokens_per_min": tokens.grown(now, status.tokens),
        "tokens_allowed": status.tokens_per_min,
        "answers_429": status.answers_429,
        "paused_s": status.paused_s,
        "open_s": status.probe_s,
        "reason": status.reason,
    }
