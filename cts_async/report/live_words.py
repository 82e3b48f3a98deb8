"""The wording of progress: messages, plain lines and short numbers, the same on a screen and in `cts status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cts_async.engine.budget import amount
from cts_async.engine.events import CircuitChanged, Event, LanePaused, LimitLearned, Notice, Stopping
from cts_async.report.live import Lane, LiveFile, LivePart
from cts_async.report.workers import worker_count, worker_lines, workers_of

SMOKE_TEST: Final = "smoke test"
WIDEST: Final = 50.0
"""Wider halves of an interval are not shown: with two or three scores it may exceed the scale, 0 to 100."""
MAX_MEANS: Final = 6
"""A line shows no means if there are more."""


def notable(event: Event) -> str | None:
    """A message for an event that a person should see at once; None for any other."""
    if isinstance(event, CircuitChanged):
        return f"{event.lane}: {'outage, waiting' if event.open else 'back'} ({_unnamed(event.lane, event.reason)})"
    if isinstance(event, LanePaused) and event.seconds >= 1:
        return f"{event.lane}: rate limited (429), pausing {event.seconds:.0f} s"
    if isinstance(event, LimitLearned):
        return f"{event.lane}: the server reports a limit of {event.per_min:,.0f} {event.what} per minute"
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, Stopping):
        return f"stopping: {event.reason}"
    return None


def line_of(live: LiveFile) -> str:
    """The state of a process in one plain line."""
    parts = live["parts"]
    named = labels([part["name"] for part in parts])
    means = [f"{named[part['name']]} {mean_of(part)}" for part in parts if part["mean"] is not None]
    if len(parts) == 1 and means:
        means = [f"mean {mean_of(parts[0])}"]
    if len(means) > MAX_MEANS:
        means = []
    return "; ".join([_progress(live), *([", ".join(means)] if means else [])])


def _progress(live: LiveFile) -> str:
    pieces = [f"{live['n_done']}/{live['n_expected']} instances", *efforts(live)]
    pieces += [worker_count(live)] if workers_of(live) else []
    if live["n_done"] < live["n_expected"]:
        pieces += [f"{duration(live['eta_s'])} left"] if live["eta_s"] is not None else []
        pieces += [part["note"] for part in live["parts"] if part["note"]][:1]
    return ", ".join(pieces)


def lines_of(live: LiveFile) -> Iterator[str]:
    """The state of a process in a plain line for each system, provider and worker."""
    yield f"process {live['pid']}, running for {duration(live['time'] - live['started'])}: {_progress(live)}"
    if live["note"].startswith("stopping"):
        yield live["note"]
    for part in live["parts"]:
        pieces = [f"{part['n_done']}/{part['n_expected']}"]
        pieces += [f"{part['n_failed']} failed"] if part["n_failed"] else []
        pieces += [f"mean {mean_of(part)}"] if part["mean"] is not None else []
        pieces += [f"{duration(part['eta_s'])} left"] if part["eta_s"] else []
        pieces += [part["note"]] if part["note"] else []
        yield f"{part['name']}: {', '.join(pieces)}"
    for lane in live["lanes"]:
        pieces = [f"{lane['in_flight']} in flight", f"{lane['waiting']} waiting"]
        pieces.append(_in_last_minute("calls", lane["calls_per_min"], lane["calls_allowed"]))
        pieces.append(_in_last_minute("tokens", lane["tokens_per_min"], lane["tokens_allowed"]))
        pieces += [f"429s {lane['answers_429']}"] if lane["answers_429"] else []
        pieces += [state_of(lane)] if state_of(lane) else []
        yield f"{lane['name']}: {', '.join(pieces)}"
    yield from worker_lines(live)


def _in_last_minute(what: str, amount: float, allowed: float | None) -> str:
    return f"{number(amount)} {what}/min" + ("" if allowed is None else f" of {number(allowed)}")


def efforts(live: LiveFile) -> list[str]:
    """Calls, failures, tokens and costs so far."""
    pieces = [_counted(live["calls"], "call", "calls")]
    if live["replayed"]:
        pieces.append(f"{live['replayed']:,} replayed")
    if live["retries"]:
        pieces.append(_counted(live["retries"], "retry", "retries"))
    if live["n_failed"]:
        pieces.append(f"{live['n_failed']} failed")
    pieces.append(f"{short(live['tokens'])} tokens")
    return pieces + list(_spent(live))


def _spent(live: LiveFile) -> Iterator[str]:
    """`$0.52 of $2.00` for each limit of the budget; the dollars of this process if they are not limited."""
    if live["max_usd"] is None and live["spent_usd"]:
        yield amount("usd", round(live["spent_usd"], 4))
    lines = (
        ("usd", round(live["spent_usd"], 4), live["max_usd"], ""),
        ("tokens", live["spent_tokens"], live["max_tokens"], " tokens"),
        ("calls", live["spent_calls"], live["max_calls"], " calls"),
    )
    for line, value, limit, unit in lines:
        if limit is not None:
            yield f"{amount(line, value)} of {amount(line, limit)}{unit}"


def mean_of(part: LivePart) -> str:
    """`54.2 ± 3.1`: the mean and half of its 95 % interval (see WIDEST); "" without a score."""
    if part["mean"] is None:
        return ""
    half = None if part["mean_high"] is None else part["mean_high"] - part["mean"]
    about = "" if half is None or half > WIDEST else f" ± {half:.1f}"
    return f"{part['mean']:.1f}{about}" + (f" ({SMOKE_TEST})" if part["smoke_test"] else "")


def state_of(lane: Lane) -> str:
    """Why no requests are sent to a provider; "" if they are."""
    if lane["open_s"] is not None:
        probe = f"next probe in {lane['open_s']:.0f} s" if lane["open_s"] >= 0.5 else "probing"
        return f"outage, {probe}: {_unnamed(lane['name'], lane['reason'])}"
    if lane["reason"]:
        return f"gone: {_unnamed(lane['name'], lane['reason'])}"
    return f"waiting {lane['paused_s']:.0f} s" if lane["paused_s"] >= 0.5 else ""


def _unnamed(name: str, reason: str) -> str:
    """A reason without the provider's name, which is shown already."""
    return reason.removeprefix(f"{name}: ")


def _counted(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"


def duration(seconds: float | None) -> str:
    """`2:05:07`, `12:30`; "" for None."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float) -> str:
    """In full below 10,000, else `short`."""
    return f"{value:,.0f}" if value < 9_999.5 else short(value)


def short(value: float) -> str:
    """At most five characters: `950`, `1.2k`, `12k`, `3.4M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            digits = 1 if value < 9.95 * size else 0
            return f"{value / size:.{digits}f}{unit}"
    return f"{value:.0f}"


def labels(names: Sequence[str]) -> dict[str, str]:
    """Short names by name: without the common first words, and without settings (`+support-gpt`) if all are equal."""
    if len(names) < 2:
        return {name: name for name in names}
    alike = len({name.partition("+")[2] for name in names}) == 1
    words = [(name.partition("+")[0] if alike else name).split("-") for name in names]
    shared, shortest = 0, min(map(len, words))
    while shared < shortest - 1 and len({one[shared] for one in words}) == 1:
        shared += 1
    return {name: "-".join(one[shared:]) for name, one in zip(names, words, strict=True)}
