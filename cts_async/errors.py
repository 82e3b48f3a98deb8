"""All errors that this program raises on purpose, with their exit codes.

    CTSError
    ├── UsageError                    exit 2: nothing was started
    │   ├── InputError                a file that cannot be read: path, line, field
    │   └── RunLocked                 another process writes this run
    ├── StepError                     one instance fails; the run continues (exit 1)
    │   ├── TransientError            worth a retry: retry_after_s
    │   │   ├── RateLimited           the provider refused because of its limits
    │   │   │   └── NoCapacity        a slower, cheaper tier has no room at the moment: a wait, not a failure
    │   │   ├── TimedOut              no complete reply in time
    │   │   └── NoFreeDescriptor      this process may open nothing more; the provider has no part in it
    │   ├── Unanswered            a search ended without an answer, and none was demanded
    │   ├── NoCompletion              a readable response that is no chat completion; asked for once more
    │   ├── UnusableOutput            a reply in the wrong form; the model is asked again
    │   ├── RejectedError             the provider refuses this request permanently
    │   │   ├── PromptTooLong         because it is too long; a shorter one may be accepted
    │   │   ├── ContentRefused        because of its content, or the model declines to answer
    │   │   │   └── RequestForbidden  HTTP 403, and neither key nor account are named
    │   │   └── ParameterRefused      because of one parameter, which the next attempt omits
    │   ├── ToolError                 a search or visit failed
    │   └── RoleFailed                code of the user's that plays a role
    └── RunStopped                    exit 75: nothing is lost, the same command resumes
        ├── ProviderGone              one provider; systems that do not use it continue
        │   ├── ProviderDown          an outage longer than --max-outage
        │   └── ProviderRefused       bad key, unpaid bill, unknown model
        ├── StorageFull               the disk is full
        ├── TooManyOpenFiles          the limit of open files (ulimit -n) is too low for what the run needs
        ├── Unforeseen                a file or setting failed after the run had begun
        ├── BudgetSpent               the next call could exceed a limit of the user
        ├── DeadlineReached           the time the user allowed is over
        ├── BatchesPending            everything that is left waits for batches, and nobody wants to wait here
        └── Interrupted               Ctrl-C or SIGTERM

Each adapter translates foreign exceptions into these in one place.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Final

EXIT_OK: Final = 0
EXIT_SOME_FAILED: Final = 1
EXIT_USAGE: Final = 2
# EX_TEMPFAIL of sysexits.h: what failed may succeed later.
EXIT_RESUMABLE: Final = 75
_LONGEST_FIELD: Final = 120


MAX_MESSAGE: Final = 4_000
"""Characters of a message. What files, servers and models say is joined into messages, and may have any length."""
_KEPT_END: Final = 1_000


def shortened(text: str, max_chars: int = MAX_MESSAGE) -> str:
    """Cut a long text in its middle to about `max_chars`: the end of a message says what to do."""
    if len(text) <= max_chars:
        return text
    end = min(_KEPT_END, max_chars // 4)
    return f"{text[: max_chars - end]} … ({len(text) - max_chars:,} characters left out) … {text[-end:]}"


def cut_end(text: str, max_chars: int) -> str:
    """Cut a text to at most `max_chars`, of which the last is an ellipsis then."""
    if len(text) <= max_chars:
        return text
    return text[: max_chars - 1] + "…"


def install_command(extra: str) -> str:
    """The command that installs an optional part of this package: an extra of pyproject.toml."""
    return f"pip install 'cts-async[{extra}]'"


class CTSError(Exception):
    """Base of all errors raised on purpose; `str()` is one line for the user, of at most about `MAX_MESSAGE`."""

    exit_code: ClassVar[int] = EXIT_USAGE

    def __init__(self, message: str = "", *args: object) -> None:
        super().__init__(shortened(message), *args)


class UsageError(CTSError):
    """Bad option, configuration or environment; nothing was started."""


class InputError(UsageError):
    """A file that cannot be read; the message names the file, and line and field if known."""

    def __init__(
        self, path: Path | str, problem: str, *, line: int | None = None, field: str | None = None
    ) -> None:
        self.path, self.line, self.field, self.problem = str(path), line, field, problem
        place = self.path
        if line is not None:
            place += f":{line}"
        if field is not None:  # a JSON key from a file can have any length
            place += f": field {cut_end(field, _LONGEST_FIELD)!r}"
        super().__init__(f"{place}: {problem}")


class RunLocked(UsageError):
    """Another process is writing this run directory."""


class StepError(CTSError):
    """A step failed for one instance; the others continue. `kind` is a stable word for tables."""

    exit_code = EXIT_SOME_FAILED
    kind: ClassVar[str] = "failed"
    step: str = ""
    """Name of the failed step; set by the engine."""
    reached: Any = None
    """What its job had made before the failure, for the record of the failure; None for nothing."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled as a call with their message alone, which constructors with more arguments refuse.
        # What was reached is recorded where the failure happens: it can be long, and does not travel.
        fields = {name: value for name, value in self.__dict__.items() if name != "reached"}
        return _restored, (type(self), self.args, fields)


def _restored(kind: type[StepError], args: tuple[Any, ...], fields: dict[str, Any]) -> StepError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class TransientError(StepError):
    """A failure worth a retry.

    `retry_after_s` is the shortest wait that the provider asks for, None if it named none. `unsent` is true if the
    request was never sent, so that the provider cannot have charged for it.
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
    """The provider refuses for now because of its limits; this says nothing about its health."""

    kind = "rate_limited"


class NoCapacity(RateLimited):
    """A slower, cheaper tier has no capacity at the moment; the request may be repeated for `patience_s` seconds."""

    kind = "no_capacity"

    def __init__(
        self,
        message: str,
        *,
        patience_s: float,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, status=status)
        self.patience_s = patience_s


class TimedOut(TransientError):
    """A timeout passed before the reply was complete."""

    kind = "timeout"


class NoFreeDescriptor(TransientError):
    """This process may open no further connection (`ulimit -n`): nothing was sent, and no provider has a part in it."""

    kind = "no_descriptor"

    def __init__(self, message: str) -> None:
        super().__init__(message, unsent=True)


class Unanswered(StepError):
    """A search ended without an answer: `--empty-answers` says whether that is a failure or a score of 0."""

    kind = "no_answer"


class NoCompletion(StepError):
    """A response that can be read and is no chat completion: the server is there, and has probably charged for it."""

    kind = "no_completion"


class UnusableOutput(StepError):
    """A reply that does not have the form the step expects; `problem` is sent to the model with the next attempt."""

    kind = "unusable_output"

    def __init__(self, problem: str, *, text: str = "") -> None:
        super().__init__(problem)
        self.problem, self.text = shortened(problem), text


class RejectedError(StepError):
    """The provider will never accept this request: invalid, too long, or its content refused."""

    kind = "rejected"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ContentRefused(RejectedError):
    """A content filter blocked the request or the reply, or the model declined: no answer, and never a score."""

    kind = "refused"


class PromptTooLong(RejectedError):
    """The prompt, or prompt and reply together, are too long for the model or a gateway: a shorter one may be taken."""


class RequestForbidden(ContentRefused):
    """HTTP 403 that names neither the key nor the account: a filter's or firewall's answer to this request's content,
    unless several different requests in a row get it."""


class ParameterRefused(RejectedError):
    """The server does not support `parameter`. The client omits it from now on, so the next attempt may succeed."""

    kind = "parameter_refused"

    def __init__(self, message: str, *, parameter: str, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.parameter = parameter


class ToolError(StepError):
    """A search or visit that failed; reported to the agent, never recorded as a result.

    For statistics, `reason` is a short stable word: "http 404", "timeout", "refused address", "too large",
    "not text", "no text", "dns", "connection", "tls", "redirects", "not recorded"; `host` is the host of the
    request, "" if there was none.
    """

    kind = "tool"

    def __init__(self, message: str, *, reason: str = "failed", host: str = "") -> None:
        super().__init__(message)
        self.reason, self.host = reason, host


class RoleFailed(StepError):
    """Code of the user's that plays a role raised an exception or asked for what it cannot have."""

    kind = "role"


class RunStopped(CTSError):
    """The run stops early with everything so far on disk; the same command resumes it."""

    exit_code = EXIT_RESUMABLE


class ProviderGone(RunStopped):
    """One provider will not answer any more in this run."""


class ProviderDown(ProviderGone):
    """A provider's outage lasted longer than the user allows."""


class ProviderRefused(ProviderGone):
    """A provider refuses everything until the user acts: wrong key, unpaid bill or unknown model name."""


class StorageFull(RunStopped):
    """The disk refused a write; the same command can be typed again once there is room."""


class TooManyOpenFiles(RunStopped):
    """The limit of open files is reached, and what is needed cannot be opened."""


class Unforeseen(RunStopped):
    """What would be a UsageError before the run: a file that cannot be written or read any more, a changed setting."""


class BudgetSpent(RunStopped):
    """The next attempt could exceed a limit of the budget."""


class DeadlineReached(RunStopped):
    """The deadline has passed, or is too close for the next step."""


class BatchesPending(RunStopped):
    """Everything that is left has been handed in as batches (`--submit`): the same command collects their results."""


class Interrupted(RunStopped):
    """The user asked the run to stop."""


DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errno values of a full disk, quota or file-size limit."""
TOO_MANY_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""The errno values of a process, or a machine, that may open no more files."""
MORE_FILES: Final = "raise the limit (ulimit -n 1024) and run the same command again"


def write_error(target: object, error: OSError, *, verb: str = "write") -> CTSError:
    """Return the error to raise for a failed write to `target`, a path or a description."""
    problem = f"{target}: cannot {verb} ({error.strerror or error})"
    if error.errno in DISK_FULL or error.errno == errno.EIO:
        return StorageFull(f"{problem}; {storage_hint(error)}")
    if error.errno in TOO_MANY_FILES:
        return TooManyOpenFiles(f"{problem}; {MORE_FILES}")
    return UsageError(problem)


def is_file_error(error: BaseException) -> bool:
    """True for an error about a file of the user's: it has a path, or the disk is full, or too many files are open."""
    if not isinstance(error, OSError):
        return False
    return error.filename is not None or error.errno in DISK_FULL | TOO_MANY_FILES


def expected_error(error: BaseException) -> CTSError | None:
    """Return an error that a user can cause as one of ours: itself, or what an error about a file means; None for a bug.

    Of a group all have to be such errors. What a file says explains the others: a full disk makes tasks fail in many
    ways. The error about the file is the cause of ours.
    """
    if isinstance(error, BaseExceptionGroup):
        _, unexpected = error.split(lambda inner: isinstance(inner, CTSError) or is_file_error(inner))
        if unexpected:
            return None
        error = error.subgroup(is_file_error) or error
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    if isinstance(error, CTSError):
        return error
    if not isinstance(error, OSError) or not is_file_error(error):
        return None
    if error.errno in TOO_MANY_FILES:
        expected: CTSError = UsageError(f"too many open files; {MORE_FILES}")
    elif error.errno in DISK_FULL:
        expected = write_error(error.filename or "standard output, or a file", error)
    else:
        expected = UsageError(f"{error.filename}: {error.strerror}")
    expected.__cause__ = error
    return expected


def reason_to_stop(error: BaseException) -> RunStopped | None:
    """Return why a run that has begun must end because of `error`, with everything so far saved; None for a bug.

    A UsageError, and an error about a file, are somebody's to put right, after which the same command resumes. Of a
    group of errors all have to be of these kinds; the first counts.
    """
    if isinstance(error, BaseExceptionGroup):
        reasons = [reason_to_stop(inner) for inner in error.exceptions]
        if None in reasons:
            return None
        return reasons[0]
    if isinstance(error, RunStopped):
        return error
    if isinstance(error, OSError) and is_file_error(error):
        verb = "write" if error.errno in DISK_FULL else "use"
        error = write_error(error.filename or "a file", error, verb=verb)
    if isinstance(error, RunStopped):
        return error
    if isinstance(error, UsageError):
        return Unforeseen(f"{error}; completed work is saved, the same command resumes")
    return None


def storage_hint(error: OSError) -> str:
    """Return what the user has to do about a disk that refused a write."""
    if error.errno == errno.EIO:
        return "check the disk and type the same command again"
    return "make room and type the same command again"


_CLOSE: Final = 0.75
"""difflib's ratio of a misspelled name; at its usual 0.6 "mine" would be "gemini"."""


def closest(name: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that is spelled nearly like `name`, for "did you mean"; None if there is none."""
    names, typed = list(known_names), name.lower()
    for candidate in names:
        # Letters in another order, to which difflib gives too low a ratio.
        if sorted(candidate) == sorted(typed):
            return candidate
    matches = get_close_matches(typed, names, 1, _CLOSE)
    if matches:
        return matches[0]
    return None
