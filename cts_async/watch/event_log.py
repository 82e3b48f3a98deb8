"""What happens in a run, line by line: `--log FILE`, and `--verbose` on the terminal.

A line names groups, instances, steps, models and failures. It never has a key, nor the text of a prompt or reply: those
stand in the journal. A failure is quoted in the provider's words, up to MAX_CHARS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cts_async.engine import events
from cts_async.errors import UsageError, write_error
from cts_async.llm.redact import SECRETS
from cts_async.safe_files import open_file
from cts_async.tables.output import plain
from cts_async.watch.screen import notable

MAX_CHARS: Final = 500
"""Longer messages are cut: a server may repeat what it was sent."""

Clock = Callable[[], float]


class LogFile:
    """Subscribes to engine events and appends a line for each, with its time. A full disk ends the log, not the run."""

    def __init__(self, fd: int, on_failure: Callable[[str], None], wall: Clock = time.time) -> None:
        self._fd, self._on_failure, self._wall = fd, on_failure, wall

    def __call__(self, event: events.Event) -> None:
        """Append the line of an event, if it has one."""
        text = event_line(event)
        if text and _is_bad(event):
            self.write(text, "WARN")
        elif text:
            self.write(text)

    def write(self, text: str, level: str = "INFO") -> None:
        """Append a line."""
        # After a full disk: that ends the log, and not the run.
        if self._fd < 0:
            return
        at = datetime.fromtimestamp(self._wall(), UTC).replace(tzinfo=None)
        line = f"{at.isoformat(timespec='milliseconds')}Z {level} {text}\n"
        try:
            os.write(self._fd, line.encode(errors="backslashreplace"))
        except OSError as error:
            self._fd = -1
            self._on_failure(f"logging stopped: cannot write ({error.strerror or error})")


@contextmanager
def logging_to(path: Path, on_failure: Callable[[str], None]) -> Iterator[LogFile]:
    """Open a log for the block; lines are appended to what it has. Raises UsageError, StorageFull."""
    if (path.parent / "run.json").exists():
        raise UsageError(f"{path}: is among a run's own files; choose another place for --log")
    try:
        # Never through a link at its end; links above it are the user's own (logs -> /data/logs).
        fd = open_file(Path(os.path.realpath(path.parent), path.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise write_error(path, error) from None
    log = LogFile(fd, on_failure)
    try:
        yield log
    except BaseException as error:
        log.write(f"ended: {clean(f'{type(error).__name__}: {error}')}", "WARN")
        raise
    else:
        log.write("ended")
    finally:
        with suppress(OSError):
            os.close(fd)


def verbose_to(show: Callable[[str], None]) -> Callable[[events.Event], None]:
    """Return a subscriber that passes on a line for each event but those that are shown to everybody."""

    def show_line(event: events.Event) -> None:
        text = event_line(event)
        if text and notable(event) is None:
            show(f"{datetime.now():%H:%M:%S} {text}")

    return show_line


def event_line(event: events.Event) -> str:
    """Describe an event in one line without keys; "" for one that has no line."""
    return clean(_text_of(event))


def clean(text: str) -> str:
    """Return text as one short line without keys and control characters."""
    text = SECRETS.text(text)  # before it is cut: half a key would not be recognised
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS - 1]}…"
    return plain(text)


def _text_of(event: events.Event) -> str:
    match event:
        case events.StepEnded(reused=True):
            return f"{event.group} {event.job_id} {event.step}: reused from another run"
        case events.StepEnded(replayed=True):
            return f"{event.group} {event.job_id} {event.step}: from the journal"
        case events.StepEnded():
            return f"{event.group} {event.job_id} {event.step}: {_effort(event)}"
        case events.AttemptFailed():
            attempt = f"{event.group} {event.job_id} {event.step}{_by(event.lane)}"
            consequence = "no further attempt"
            if event.wait_s is not None:
                consequence = f"retry in {event.wait_s:.1f} s"
            return f"{attempt}: {consequence}: {event.kind}: {event.message}"
        case events.JobEnded(failure=None):
            return f"{event.group} {event.job_id}: done"
        case events.JobEnded(failure=failure) if failure is not None:
            return f"{event.group} {event.job_id}: failed at {failure.step}: {failure.kind}: {failure}"
        case events.JobsFound() if event.jobs:
            return f"{event.group}: {event.jobs} instances done before, {event.failed} of them failed"
        case events.GroupBegan():
            return f"{event.group}: begins"
        case events.GroupHeldUp():
            return f"{event.group}: waiting for {event.lane or 'a provider that is gone'}"
        case events.WorkersInUse():
            return f"{event.n_workers} workers at {event.address or 'this machine'}"
        case events.LaneInUse():
            return f"{event.lane}: first request; {_limits(event)}"
        case events.LanePaused():
            return f"{event.lane}: rate limited (429), pausing {event.seconds:.1f} s"
        case _:
            return notable(event) or ""


def _by(lane: str) -> str:
    if not lane:
        return ""
    return f" ({lane})"


def _effort(event: events.StepEnded) -> str:
    usage = event.usage
    text = f"{event.latency_s:.2f} s"
    if usage.total:
        text += f", {usage.input_tokens} + {usage.output_tokens} tokens"
    if usage.cached_tokens:
        text += f" ({usage.cached_tokens} cached)"
    for tier, _ in usage.tiers[:1]:
        text += f" in {tier}"
    if event.usd:
        text += f", ${event.usd:.5f}"
    return text + _by(event.lane)


def _limits(event: events.LaneInUse) -> str:
    status = event.ask()
    limits: list[str] = []
    if status.requests_per_min is not None:
        limits.append(f"{status.requests_per_min:,.0f} requests a minute")
    if status.tokens_per_min is not None:
        limits.append(f"{status.tokens_per_min:,.0f} tokens a minute")
    if not limits:
        limits.append("no known limit")
    limits.append(f"{status.places} at once for now")
    return ", ".join(limits)


def _is_bad(event: events.Event) -> bool:
    match event:
        case events.AttemptFailed() | events.GroupHeldUp() | events.LanePaused() | events.Stopping():
            return True
        case events.CircuitChanged():
            return event.open
        case events.JobEnded():
            return event.failure is not None
        case _:
            return False
