"""How a provider counts: requests, tokens and calls in flight of one account, strictly. Pure, time is passed in.

    limits = ServerLimits(Allowance(requests_per_min=1200, kind="sliding"))
    verdict = limits.arrive(now, tokens=900)      a refused call is not counted
    limits.settle(now, 900, 750)                  the estimate was 150 too high
    limits.left()                                 the call is over: its place is free again

`kind` says what one limit per minute means: `sliding`, no window of `window_s` ever holds more than its
share; `bucket`, a share of `window_s` at once and then a steady refill; `per_second`, as sliding but in
windows of a second (or long enough for one request), as DashScope does.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Literal, Protocol

Kind = Literal["sliding", "bucket", "per_second"]
HeaderStyle = Literal["openai", "anthropic", "none"]
RetryAfter = Literal["seconds", "fraction", "date", "ms", "none"]

BUSY_S = 1.0
"""What a server asks for when all places are taken: it cannot know when one will be free."""
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one account may do; None where there is no limit."""

    requests_per_min: float | None = None
    tokens_per_min: float | None = None
    concurrency: int | None = None
    kind: Kind = "sliding"
    window_s: float = 60.0
    headers: HeaderStyle = "openai"
    retry_after: RetryAfter = "seconds"
    epoch_s: float = 0.0
    """What has to be added to the clock to make it Unix time, for the headers that hold dates."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call is taken, and what the answer's headers say; `reason` names the limit that refused it.

    `retry_after_s` is the wait that the headers ask for, as they round it; None if they ask for none.
    """

    ok: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None
    reason: str = ""


class Meter(Protocol):
    """One limit: amounts of requests or tokens over time."""

    def wait_s(self, now: float, amount: float) -> float:
        """Seconds until `amount` is allowed if nothing else comes; 0 is now."""

    def take(self, now: float, amount: float) -> None:
        """Count `amount`, allowed or not."""

    def give_back(self, now: float, amount: float) -> None:
        """Of the newest that was counted, `amount` was too much."""

    def room(self, now: float) -> float:
        """The amount that is allowed now."""

    def full_in_s(self, now: float) -> float:
        """Seconds until the whole limit is there again if nothing else comes."""


class SlidingLog:
    """An exact log: in any `window_s` at most `limit`. What came at t is out of it at t + window_s.

    An amount above the limit needs an empty window and stays in it longer in proportion.
    """

    def __init__(self, limit: float, window_s: float) -> None:
        self._limit, self._window_s = limit, window_s
        self._log: deque[tuple[float, float]] = deque()  # (out at, amount), the oldest first
        self._used = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        self._forget(now)
        excess = self._used + min(amount, self._limit) - self._limit
        if excess <= _CLOSE:
            return 0.0
        for out_at, held in self._log:
            excess -= held
            if excess <= _CLOSE:
                return out_at - now
        raise AssertionError("an empty window has room for the whole limit")

    def take(self, now: float, amount: float) -> None:
        self._forget(now)
        out_at = now + self._window_s * max(1.0, amount / self._limit)
        if self._log:
            out_at = max(out_at, self._log[-1][0])
        self._log.append((out_at, amount))
        self._used += amount

    def give_back(self, now: float, amount: float) -> None:
        while amount > _CLOSE and self._log:
            out_at, held = self._log.pop()
            back = min(held, amount)
            self._used -= back
            amount -= back
            if held > back:
                self._log.append((out_at, held - back))

    def room(self, now: float) -> float:
        self._forget(now)
        return max(0.0, self._limit - self._used)

    def full_in_s(self, now: float) -> float:
        self._forget(now)
        if not self._log:
            return 0.0
        return self._log[-1][0] - now

    def _forget(self, now: float) -> None:
        while self._log and self._log[0][0] <= now + _CLOSE:
            self._used -= self._log.popleft()[1]
        if not self._log:
            self._used = 0.0


class Bucket:
    """`capacity` at once, refilled at `per_s`. An amount above it needs a full one and leaves a debt."""

    def __init__(self, capacity: float, per_s: float) -> None:
        self._capacity, self._per_s = capacity, per_s
        self._level, self._at = capacity, -math.inf

    def wait_s(self, now: float, amount: float) -> float:
        missing = min(amount, self._capacity) - self._refilled(now)
        if missing <= _CLOSE:
            return 0.0
        return missing / self._per_s

    def take(self, now: float, amount: float) -> None:
        self._level = self._refilled(now) - amount

    def give_back(self, now: float, amount: float) -> None:
        self._level = min(self._capacity, self._refilled(now) + amount)

    def room(self, now: float) -> float:
        return max(0.0, self._refilled(now))

    def full_in_s(self, now: float) -> float:
        return (self._capacity - self._refilled(now)) / self._per_s

    def _refilled(self, now: float) -> float:
        if now > self._at:
            self._level = min(self._capacity, self._level + (now - self._at) * self._per_s)
            self._at = now
        return self._level


def meter(allowance: Allowance, per_min: float) -> Meter:
    """A meter for `per_min` requests or tokens, counting in the allowance's way."""
    per_s = per_min / 60.0
    share = per_s * allowance.window_s
    if allowance.kind == "bucket":
        return Bucket(share, per_s)
    if allowance.kind == "sliding":
        return SlidingLog(share, allowance.window_s)
    whole = max(1.0, math.ceil(per_s))
    return SlidingLog(whole, whole / per_s)


class ServerLimits:
    """One account. Whoever was told `ok` calls `left` once when the call is over, however it ended."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.in_flight = 0
        per_min = {"requests": allowance.requests_per_min, "tokens": allowance.tokens_per_min}
        self._per_min = {name: limit for name, limit in per_min.items() if limit is not None}
        self._meters = {name: meter(allowance, limit) for name, limit in self._per_min.items()}

    def arrive(self, now: float, tokens: float = 0.0) -> Verdict:
        """A call of about `tokens` arrives: count it, or refuse it and count nothing."""
        amounts = {"requests": 1.0, "tokens": tokens}
        waits = {name: meter.wait_s(now, amounts[name]) for name, meter in self._meters.items()}
        if self.allowance.concurrency is not None and self.in_flight >= self.allowance.concurrency:
            waits["concurrency"] = BUSY_S
        reason = max(waits, key=waits.__getitem__, default="")
        if reason and waits[reason] > 0:
            unix_s = now + self.allowance.epoch_s
            head, announced_s = ask_to_wait(self.allowance.retry_after, waits[reason], unix_s)
            return Verdict(False, self._standing(now) | head, announced_s, reason)
        for name, meter in self._meters.items():
            meter.take(now, amounts[name])
        self.in_flight += 1
        return Verdict(True, self._standing(now))

    def settle(self, now: float, charged: float, actual: float) -> None:
        """A call that was charged `charged` tokens on arrival took `actual`."""
        tokens = self._meters.get("tokens")
        if tokens and actual > charged:
            tokens.take(now, actual - charged)
        elif tokens:
            tokens.give_back(now, charged - actual)

    def left(self) -> None:
        """A call that was taken is over."""
        self.in_flight -= 1

    def _standing(self, now: float) -> dict[str, str]:
        """Limit a minute, what may come now, and when all of it is there again, in the provider's style."""
        style = self.allowance.headers
        if style == "none":
            return {}
        head: dict[str, str] = {}
        for name, meter in self._meters.items():
            at_s = meter.full_in_s(now)
            limit, room = f"{self._per_min[name]:.0f}", str(math.floor(meter.room(now)))
            if style == "openai":
                head[f"x-ratelimit-limit-{name}"] = limit
                head[f"x-ratelimit-remaining-{name}"] = room
                head[f"x-ratelimit-reset-{name}"] = duration(at_s)
            else:
                head[f"anthropic-ratelimit-{name}-limit"] = limit
                head[f"anthropic-ratelimit-{name}-remaining"] = room
                head[f"anthropic-ratelimit-{name}-reset"] = rfc3339(now + self.allowance.epoch_s + at_s)
        return head


def ask_to_wait(spelling: RetryAfter, wait_s: float, unix_s: float) -> tuple[dict[str, str], float | None]:
    """The header that asks for `wait_s` from `unix_s` on, and what it asks for, rounded up to what it can say."""
    match spelling:
        case "seconds":
            return {"Retry-After": str(math.ceil(wait_s))}, float(math.ceil(wait_s))
        case "fraction":
            return {"Retry-After": f"{wait_s:g}"}, wait_s
        case "ms":
            millis = math.ceil(wait_s * 1000)
            return {"Retry-After-Ms": str(millis)}, millis / 1000
        case "date":
            at = math.ceil(unix_s + wait_s)
            text = format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True)
            return {"Retry-After": text}, at - unix_s
        case "none":
            return {}, None


def duration(seconds: float) -> str:
    """As OpenAI spells it, rounded up to a millisecond: `12ms`, `1.5s`, `6m0s`, `1h0m2s`."""
    millis = math.ceil(round(seconds * 1000, 6))
    if millis < 1000:
        return f"{millis}ms"
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    if minutes:
        return f"{minutes}m{text}"
    return text


def rfc3339(unix_s: float) -> str:
    """As Anthropic spells it, rounded up to a second: `2033-01-15T08:00:00Z`."""
    return datetime.fromtimestamp(math.ceil(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
