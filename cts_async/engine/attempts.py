"""What has happened to one step so far, and how its record in the journal tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cts_async.engine.budget import NOTHING, Budget
from cts_async.engine.events import Cost, Usage
from cts_async.engine.retry import Failures
from cts_async.engine.step import Step, usage_json
from cts_async.errors import (
    RateLimited,
    RejectedError,
    RunStopped,
    StepError,
    ToolError,
    TransientError,
    UnusableOutput,
)

NO_USAGE = Usage()


@dataclass(slots=True)
class Attempts:
    """The attempts of one step in this process."""

    failures: Failures = field(default_factory=Failures)
    failed: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = NO_USAGE
    unusable: UnusableOutput | None = None
    charged: Usage | None = None
    """What the attempt under way was charged, once the provider has said so."""
    reserved: Cost | None = None
    """What a budget has set aside for the attempt under way; None where it counts nothing."""
    assumed: Cost = NOTHING
    """What a budget counts for attempts of which nobody knows what they were charged."""
    recorded: bool = False
    """Whether all this is on its way into the journal."""

    def answered(self, usage: Usage | None) -> None:
        """The provider answered, and charged `usage` (None: it did not say)."""
        self.charged = usage
        if usage:
            self.usage = usage if self.usage is NO_USAGE else self.usage + usage

    def fail(self, error: StepError, latency_s: float) -> None:
        """Note that the attempt under way failed."""
        failed: dict[str, Any] = {
            "kind": error.kind,
            "message": str(error),
            "latency_s": round(latency_s, 4),
        }
        if isinstance(error, UnusableOutput):
            self.unusable = error
            failed["text"] = error.text
        if self.charged:
            failed["usage"] = usage_json(self.charged)
        self.failed.append(failed)

    def settle(self, budget: Budget, step: Step[Any], charged: Usage | None) -> None:
        """Put what the attempt was charged in place of what `budget` set aside (None: nobody knows)."""
        if self.reserved is None:
            return
        if charged is None:
            self.assumed += self.reserved
        budget.settle(self.reserved, self.reserved if charged is None else step.cost(charged))

    def record(self, step: Step[Any], instance: str, now: float, **how: Any) -> dict[str, Any]:
        """The step's line in the journal: `how` is `response` and `latency_s`, or `error`."""
        # `key` and `ok` come first: opening a journal scans for them without reading the rest.
        record: dict[str, Any] = {
            "key": step.key,
            "ok": "error" not in how,
            "instance": instance,
            "step": step.name,
        }
        if step.model:
            record["model"] = step.model
        if step.request is not None:
            record["request"] = step.request
        record.update(how)
        if "latency_s" in how:
            record["latency_s"] = round(how["latency_s"], 4)
        if self.assumed.calls:
            record["assumed"] = {"tokens": self.assumed.tokens, "usd": self.assumed.usd}
        if self.usage.total:
            record["usage"] = usage_json(self.usage)
        if self.failed:
            # Otherwise it was one attempt: what goes without saying is not written a million times.
            record["attempts"] = len(self.failed) + ("error" not in how)
            record["failed_attempts"] = self.failed
        record["time"] = round(now, 3)
        return record


def charge_of(error: BaseException) -> Usage | None:
    """What a failed attempt was charged when no usage came back: nothing where it was refused; None: unknown."""
    if isinstance(error, RateLimited | RunStopped | ToolError) or getattr(error, "unsent", False):
        return NO_USAGE
    refused = isinstance(error, TransientError | RejectedError) and error.status not in (None, 200)
    return NO_USAGE if refused else None
