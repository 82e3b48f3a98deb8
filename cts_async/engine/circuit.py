"""A circuit breaker: closed (normal), open (an outage: nobody sends), probing (one request tests the provider).

Two rules. An outage must be the provider's, not one poisoned request's, so failures of a single step open the circuit
only when the provider could not be reached at all. And while it is open, one probe at a time is sent, ever more
rarely, so that probing prolongs an outage by a sixtieth at most. No clock and no I/O: the caller passes the time
(seconds, monotonic).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PROBE_SHARE: Final = 1 / 60
"""The time until the next probe as a share of the outage so far."""
FEW: Final = 3
"""The most steps that may all be poisoned; more failing steps are an outage."""
PROBE_PATIENCE_S: Final = 5.0
"""How long a probe without an outcome blocks the next."""


@dataclass(slots=True)
class Circuit:
    """`threshold` transient failures in a row, with no success in between, open the circuit."""

    threshold: int = 5
    first_probe_s: float = 1.0
    max_probe_s: float = 30.0
    opened_at: float | None = None
    reason: str = ""
    _failures: int = 0
    _failed_steps: set[str] = field(default_factory=set)
    _own_fault: bool = True
    _probing: bool = False
    _next_probe_at: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def wait_s(self, now: float) -> float:
        """Seconds until a request may be sent; 0 means now."""
        return 0.0 if self.opened_at is None else max(0.0, self._next_probe_at - now)

    def sending(self, now: float) -> bool:
        """Record that a request is sent. True if the circuit is open, and the request is its probe."""
        if self.opened_at is None:
            return False
        # A probe that hangs must not hide for as long that the provider is back.
        self._probing = True
        self._next_probe_at = now + max(PROBE_PATIENCE_S, self._pause_s(now))
        return True

    def abandoned(self, now: float) -> None:
        """Record that the probe ended without a verdict on the provider (cancelled): another may be sent."""
        if self._probing:
            self._probing, self._next_probe_at = False, now

    def suspects(self) -> frozenset[str]:
        """The failing steps where the provider may be up: so few that all of them may be poisoned, and none failed in
        a way that only the provider can cause. Empty where it is an outage."""
        few = self._own_fault and len(self._failed_steps) <= FEW
        return frozenset(self._failed_steps) if few else frozenset()

    def succeeded(self) -> bool:
        """Record that the provider answered. True if that ended an outage."""
        if not self._failures and self.opened_at is None:
            return False
        was_open = self.is_open
        self.opened_at, self._failures, self._probing, self._own_fault = None, 0, False, True
        self._failed_steps.clear()
        return was_open

    def failed(
        self,
        now: float,
        step_key: str,
        reason: str,
        *,
        unreachable: bool,
        probe: bool = False,
        own_fault: bool = False,
    ) -> bool:
        """Record a failure of a `probe` or another request, which may be the request's `own_fault`.

        True if that began an outage.
        """
        self._failures += 1
        self._own_fault = self._own_fault and own_fault
        self._failed_steps.add(step_key)
        if self.opened_at is not None:
            # Requests sent before the outage still fail for a while: they are not the probe's verdict.
            if probe:
                self._schedule_probe(now)
            return False
        if self._failures < self.threshold or (len(self._failed_steps) < 2 and not unreachable):
            return False
        self.opened_at, self.reason = now, reason
        self._schedule_probe(now)
        return True

    def _schedule_probe(self, now: float) -> None:
        self._next_probe_at = now + self._pause_s(now)
        self._probing = False

    def _pause_s(self, now: float) -> float:
        lasted_s = now - (now if self.opened_at is None else self.opened_at)
        return min(self.max_probe_s, max(self.first_probe_s, lasted_s * PROBE_SHARE))
