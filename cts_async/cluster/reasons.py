"""Why a worker's work ended early, as it travels."""

from __future__ import annotations

from cts_async import errors
from cts_async.errors import RunStopped


class WorkerCrashed(Exception):
    """A bug ended a worker; `str()` has its traceback."""


def told_reason(reason: RunStopped | None) -> tuple[str, str] | None:
    """A reason as it is sent: its class and its text."""
    return None if reason is None else (type(reason).__name__, str(reason))


def reason_of(told: tuple[str, str]) -> RunStopped:
    """The reason that was sent; where its class needs more than the text, a plain RunStopped with the same text."""
    name, text = told
    kind = getattr(errors, name, RunStopped)
    try:
        reason = kind(text)
    except TypeError:
        return RunStopped(text)
    return reason if isinstance(reason, RunStopped) else RunStopped(text)
