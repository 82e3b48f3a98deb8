"""Every error this program raises on purpose, with the exit code it leads to.

    CTSError
    ├── UsageError                    exit 2: nothing was started
    │   ├── InputError                a file: path, line, field
    │   └── RunLocked                 another process writes this run
    ├── StepError                     one instance fails; the run goes on (exit 1)
    │   ├── TransientError            worth a retry: retry_after_s
    │   │   ├── RateLimited           the provider said "slower"
    │   │   └── TimedOut              no answer, or not the whole of it, in time
    │   ├── UnusableOutput            asked again with what was wrong
    │   ├── RejectedError             the provider refuses this request for good
    │   │   ├── ContentRefused        ... for what it says, or the model refuses to answer
    │   │   └── ParameterRefused      ... for one request parameter, which is left out of the next attempt
    │   └── ToolError                 a tool could not do what the agent asked
    └── RunStopped                    exit 75: nothing is lost, the same command resumes
        ├── ProviderGone              one provider: what does not need it goes on
        │   ├── ProviderDown          an outage longer than allowed
        │   └── ProviderRefused       bad key, unpaid bill, unknown model
        ├── StorageFull               the disk is full
        ├── BudgetSpent               the next call could cross a line the user drew
        ├── DeadlineReached           the time the user allowed is used up
        └── Interrupted               Ctrl-C or SIGTERM

Each adapter translates foreign exceptions into these at one seam.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar, Final

EXIT_OK: Final = 0
EXIT_SOME_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_RESUMABLE: Final = 75
_LONGEST_FIELD: Final = 120


class CTSError(Exception):
    """Base of all errors raised on purpose; `str()` is one clear line for a person."""

    exit_code: ClassVar[int] = EXIT_USAGE


class UsageError(CTSError):
    """Bad option, configuration or environment; nothing was started."""


class InputError(UsageError):
    """A file that cannot be understood: names the file, and the line and field where known."""

    def __init__(
        self, path: Path | str, problem: str, *, line: int | None = None, field: str | None = None
    ) -> None:
        self.path, self.line, self.field, self.problem = str(path), line, field, problem
        where = self.path if line is None else f"{self.path}:{line}"
        if field is not None:  # a key of somebody's JSON is as long as he likes
            where += (
                f": field {field if len(field) <= _LONGEST_FIELD else field[: _LONGEST_FIELD - 1] + '…'!r}"
            )
        super().__init__(f"{where}: {problem}")


class RunLocked(UsageError):
    """Another process is writing this run directory."""


class StepError(CTSError):
    """A step failed for one instance; the others go on. `kind` is a stable word for tables."""

    exit_code = EXIT_SOME_FAILED
    kind: ClassVar[str] = "failed"
    step: str = ""
    """Which step failed; the engine fills it in."""


class TransientError(StepError):
    """Worth a retry. `retry_after_s` is the provider's own floor for the wait, None if it named none.

    `unsent` says that the request never left, so that nobody can have charged for it.
    """

    kind = "transient"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        status: int | None = None,
        unsent: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after_s, self.status, self.unsent = retry_after_s, status, unsent


class RateLimited(TransientError):
    """The provider refuses for now because of its limits; says nothing about its health."""

    kind = "rate_limited"


class TimedOut(TransientError):
    """A deadline passed before the whole answer was there."""

    kind = "timeout"


class UnusableOutput(StepError):
    """The model answered, but not in the form the step expects; `problem` can be told to the model."""

    kind = "unusable_output"

    def __init__(self, problem: str, *, text: str = "") -> None:
        super().__init__(problem)
        self.problem, self.text = problem, text


class RejectedError(StepError):
    """The provider will never take this request: invalid, too long, or its content refused."""

    kind = "rejected"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ContentRefused(RejectedError):
    """A content filter withheld the request or the reply, or the model declined: no answer, and never a score."""

    kind = "refused"


class ParameterRefused(RejectedError):
    """The server does not know or support `parameter`. The client sends it no more: the next attempt may succeed."""

    kind = "parameter_refused"

    def __init__(self, message: str, *, parameter: str, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.parameter = parameter


class ToolError(StepError):
    """A search or visit that failed; told to the agent as such, never remembered as a result.

    For statistics, `reason` is a short stable word: "http 404", "timeout", "refused address", "too large",
    "not text", "no text", "dns", "connection", "tls", "redirects", "not recorded"; `host` is the one that was
    asked, "" where there was none.
    """

    kind = "tool"

    def __init__(self, message: str, *, reason: str = "failed", host: str = "") -> None:
        super().__init__(message)
        self.reason, self.host = reason, host


class RunStopped(CTSError):
    """The run ends early with everything so far on disk; the same command resumes it."""

    exit_code = EXIT_RESUMABLE


class ProviderGone(RunStopped):
    """One provider will answer nothing more in this run."""


class ProviderDown(ProviderGone):
    """A provider's outage outlasted what the user allows."""


class ProviderRefused(ProviderGone):
    """A provider will answer nothing until the user acts: key, bill or model name."""


class StorageFull(RunStopped):
    """The disk refused a write: nothing is wrong with the command, it can be typed again."""


class BudgetSpent(RunStopped):
    """The next attempt could cross a line of the budget: `line` is "calls", "tokens" or "usd".

    `limit` and `spent` are in the line's unit, and so is `next`, the most that the attempt may cost.
    """

    def __init__(self, message: str, *, line: str, limit: float, spent: float, next: float) -> None:
        super().__init__(message)
        self.line, self.limit, self.spent, self.next = line, limit, spent, next


class DeadlineReached(RunStopped):
    """The time is up, or too short for what would come next."""


class Interrupted(RunStopped):
    """The user asked the run to stop."""


DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a full disk says."""


def write_error(what: object, error: OSError, *, verb: str = "write") -> CTSError:
    """A write to `what` (a path, or what a person would call it) that failed, as the error to raise for it."""
    problem = f"{what}: cannot {verb} ({error.strerror or error})"
    if error.errno in DISK_FULL or error.errno == errno.EIO:
        return StorageFull(f"{problem}; {storage_hint(error)}")
    return UsageError(problem)


def storage_hint(error: OSError) -> str:
    """What somebody has to do about a disk that refused a write."""
    return f"{'see to the disk' if error.errno == errno.EIO else 'make room'} and type the same command again"
