"""Steps that another run has executed: from which runs a step may be taken, and where they are looked up.

A step's key says everything that determines it, so its result could be taken from any run that has the key. One that is
sampled must not be shared by runs that are compared, though: their difference would lack the luck of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol


class ReuseRule(Enum):
    """From which other runs the result of a step may be taken."""

    SAMPLED = "of the same system"
    """Another execution may bring another result, or nothing is known: only from versions of the same system."""
    FIXED = "any"
    """The same whoever executes it, such as a reply at temperature 0: from any run."""
    FIXED_BY_DEFAULT = "any that sends the same defaults"
    """As FIXED, thanks to a parameter that is not part of the key."""
    DATED = "of the same date"
    """What the web showed: from any run with the same date."""


@dataclass(frozen=True, slots=True)
class ReusedStep:
    """A finished step of another run."""

    record: Mapping[str, Any]
    """Its line there."""
    origin: str
    """The name of the run that executed it."""
    within: Sequence[Mapping[str, Any]] = ()
    """Lines of the steps that were made within it, which whoever takes its result does not make again."""


class StepSource(Protocol):
    """Where the steps of other runs are looked up, for one run."""

    def find(self, key: str, rule: ReuseRule, notes: Any = None) -> ReusedStep | None:
        """A finished step with this key that may be taken; None if there is none. With `notes` one that has the same."""


_AS_EXECUTED = ("latency_s", "assumed", "usage", "attempts", "failed_attempts", "time")
"""Fields of a line that say what executing the step took."""


def reused_line(reused: ReusedStep, description: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a reused step for the journal of the run that takes it.

    `description` has the fields that the run itself would write before the response. `reused`, the last field, names the
    origin: calls, tokens and dollars of such a line were paid there.
    """
    line: dict[str, Any] = {"key": reused.record["key"], "ok": True}
    line |= description
    line["response"] = reused.record["response"]
    for name in _AS_EXECUTED:
        if name in reused.record:
            line[name] = reused.record[name]
    line["reused"] = reused.origin
    return line


def line_within(reused: ReusedStep, record: Mapping[str, Any], instance: str) -> dict[str, Any]:
    """The line of a step as its run described it, such as one that was made within a reused one, for `instance`."""
    origin = reused.origin
    if isinstance(record.get("reused"), str):
        origin = record["reused"]
    description = {"instance": instance}
    for name in ("step", "model", "request", "notes"):
        if name in record:
            description[name] = record[name]
    return reused_line(ReusedStep(record, origin), description)
