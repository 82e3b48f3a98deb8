"""A provider's outage as a state: closed (all is well), open (nobody sends), probing (one looks).

Two rules: an outage must be the provider's, not one poisoned request's, so failures of a single step
open the circuit only when the provider could not be reached at all; and while it is open, one probe at a
time goes out, ever more rarely, so that looking adds a sixtieth to an outage at most. Pure: the caller
passes the time (seconds, monotonic).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PROBE_SHARE: Final = 1 / 60
"""The wait for the next probe as a share of the outage so far."""
FEW: Final = 3
"""Steps that may be poisoned together; more of them are an outage."""
PROBE_PATIENCE_S: Final = 5.0
"""How long a probe without an answer keeps others from looking."""


@dataclass(slots=True)
class Circuit:
    """`threshold` transient failures in a row, with no success between them, open the circuit."""

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
        """Seconds until a request may be sent; 0 is now."""
        return 0.0 if self.opened_at is None else max(0.0, self._next_probe_at - now)

    def sending(self, now: float) -> bool:
        """A request goes out; while open, it is the probe. True if it is."""
        if self.opened_at is None:
            return False
        # One that hangs must not hide that the provider is back for as long as it may hang.
        self._probing = True
        self._next_probe_at = now + max(PROBE_PATIENCE_S, self._pause_s(now))
        return True

    def abandoned(self, now: float) -> None:
        """The probe ended with no verdict on the provider (cancelled): another may probe."""
        if self._probing:
            self._probing, self._next_probe_at = False, now

    def suspects(self) -> frozenset[str]:
        """Steps that fail where the provider may be well: so few that all of them may be poisoned requests,
        and never with a word that it is the provider's own trouble. Empty where it is an outage."""
        few = self._own_fault and len(self._failed_steps) <= FEW
        return frozenset(self._failed_steps) if few else frozenset()

    def succeeded(self) -> bool:
        """The provider answered. True if that ended an outage."""
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
        """The provider failed, to a `probe` or another request, perhaps through the request's `own_fault`.

        True if that began an outage.
        """
        self._failures += 1
        self._own_fault = self._own_fault and own_fault
        self._failed_steps.add(step_key)
        if self.opened_at is not None:
            # What was sent before the outage still fails for a while: that is no probe's verdict.
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
