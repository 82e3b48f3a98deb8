"""Pieces of a tool call that fail: told to the agent, counted, and never remembered as results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from cts_async.errors import RateLimited, RejectedError, StepError, TimedOut, ToolError, TransientError
from cts_async.records import ToolFailure

T = TypeVar("T")

Lost = Mapping[str, str]
"""What a step that was not remembered came to: `error`, `reason` and `host`, or `lexical` (why no model read)."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A piece of a call that came to nothing."""

    lost: Lost

    def as_failure(self, tool: Literal["search", "visit"]) -> ToolFailure:
        """The same for statistics."""
        return ToolFailure(tool, self.lost["host"], self.lost["reason"])


async def attempted(work: Callable[[], Awaitable[T]], before: Lost | None, host: str) -> T | Failed:
    """The result of `work`, or how it failed; a failure from `before` stays one. RunStopped passes."""
    if before is not None:
        return Failed(before)
    try:
        return await work()
    except StepError as error:
        asked = getattr(error, "host", "") or host
        return Failed({"error": str(error), "reason": reason_of(error), "host": asked})


def reason_of(error: StepError) -> str:
    """A short stable word for statistics: a ToolError's own, else "timeout", "http 503", "connection" ..."""
    if isinstance(error, ToolError):
        return error.reason
    if isinstance(error, TimedOut):
        return "timeout"
    if isinstance(error, RateLimited):
        return "rate limited"
    if isinstance(error, TransientError | RejectedError):
        return f"http {error.status}" if error.status else "connection"
    return error.kind


def host_of(url: str) -> str:
    """The host of an address, "" where it has none."""
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""
