"""What a provider's answer says of its limits, whatever its headers are called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit: `limit` a minute, `remaining` of it now, all of it again in `reset_s`; None where not said."""

    limit: float
    remaining: float | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """An account's limits of requests and of tokens; None where an answer does not name one."""

    requests: Quota | None = None
    tokens: Quota | None = None
