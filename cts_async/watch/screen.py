"""Progress for people: the screen of a running command, plain lines where there is no terminal, and messages.

The screen has a bar for each system, a line for each provider and worker, and totals. It fits any terminal: with too
little room what is finished or idle shares a line. Colours only repeat what words and shapes say. All text is of
unknown origin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from cts_async.engine.budget import amount
from cts_async.engine.events import CircuitChanged, Event, LanePaused, LimitLearned, Notice, Stopping
from cts_async.errors import shortened
from cts_async.records import SMOKE_TEST
from cts_async.tables.output import duration, plain
from cts_async.watch.live import (
    LiveCluster,
    LiveFile,
    LiveLane,
    LivePart,
    LiveWorker,
    compact,
    mean_text,
    short_number,
)

T = TypeVar("T")

MAX_MEANS: Final = 6
"""A plain line shows no means if there are more."""
WIDE: Final = 100
"""A terminal of so many columns has room for longer names and bars."""
BAR_COLUMNS_DROPPED: Final = (3, 5, 4, 1)
"""Columns of bars that a narrow terminal drops, first to last: failures, time left, mean, the bar itself."""
LANE_COLUMNS: Final = ("provider", "in flight", "waiting", "calls/min", "tokens/min", "429s", "")
LANE_COLUMNS_DROPPED: Final = (2, 4, 5, 3)
MIN_BARS: Final = 2
_ASCII: Final = str.maketrans({"━": "#", "─": "-", "±": "~", "…": "."})


# --- Words


def notable(event: Event) -> str | None:
    """A message for an event that a person should see at once, not too long; None for any other."""
    text = _notable(event)
    return None if text is None else shortened(text)


def _notable(event: Event) -> str | None:
    match event:
        case CircuitChanged():
            state = "outage, waiting" if event.open else "back"
            return f"{event.lane}: {state} ({_unnamed(event.lane, event.reason)})"
        case LanePaused() if event.seconds >= 1:
            return f"{event.lane}: rate limited (429), pausing {event.seconds:.0f} s"
        case LimitLearned():
            return f"{event.lane}: the server reports a limit of {event.per_min:,.0f} {event.what} per minute"
        case Notice():
            return event.text
        case Stopping():
            return f"stopping: {event.reason}"
        case _:
            return None


def progress_line(live: LiveFile) -> str:
    """The state of a process in one plain line."""
    parts = live["parts"]
    named = labels([part["name"] for part in parts])
    means = [f"{named[part['name']]} {part_mean(part)}" for part in parts if part["mean"] is not None]
    if len(parts) == 1 and means:
        means = [f"mean {part_mean(parts[0])}"]
    return _progress(live) + (f"; {', '.join(means)}" if 0 < len(means) <= MAX_MEANS else "")


def _progress(live: LiveFile) -> str:
    left = live["n_done"] < live["n_expected"]
    pieces = [
        f"{live['n_done']}/{live['n_expected']} instances",
        *efforts(live),
        worker_count(live) if workers_of(live) else "",
        _left(live["eta_s"]) if left else "",
        next((part["note"] for part in live["parts"] if part["note"]), "") if left else "",
    ]
    return ", ".join(filter(None, pieces))


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(seconds)} left"


def efforts(live: LiveFile) -> list[str]:
    """Calls, failures, tokens and costs so far."""
    calls, replayed, retries = live["calls"], live["replayed"], live["retries"]
    pieces = [
        f"{calls:,} {'call' if calls == 1 else 'calls'}",
        f"{replayed:,} replayed" if replayed else "",
        f"{retries:,} {'retry' if retries == 1 else 'retries'}" if retries else "",
        f"{live['n_failed']} failed" if live["n_failed"] else "",
        f"{short_number(live['tokens'])} tokens",
    ]
    return [*filter(None, pieces), *_spent(live)]


def _spent(live: LiveFile) -> Iterator[str]:
    """`$0.52 of $2.00` for each limit of the budget; the dollars of this process if they are not limited."""
    usd, unpriced = live["spent_usd"], live.get("unpriced_models", 0)
    if live["max_usd"] is None and (usd or (unpriced and live["calls"])):
        known = amount("usd", round(usd, 4)) if usd else "cost"
        yield known if not unpriced else f"{known} unknown" if not usd else f"{known} + unknown"
    lines = (
        ("usd", round(live["spent_usd"], 4), live["max_usd"], ""),
        ("tokens", live["spent_tokens"], live["max_tokens"], " tokens"),
        ("calls", live["spent_calls"], live["max_calls"], " calls"),
    )
    for line, value, limit, unit in lines:
        if limit is not None:
            yield f"{amount(line, value)} of {amount(line, limit)}{unit}"


def part_mean(part: LivePart) -> str:
    """`54.2 ± 3.1 (smoke test)`; "" without a score."""
    if part["mean"] is None:
        return ""
    mean = mean_text(part["mean"], part["mean_high"], part["n_scored"])
    return mean + f" ({SMOKE_TEST})" * part["smoke_test"]


def state_of(lane: LiveLane) -> str:
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


# --- The screen


class LiveScreen:
    """One screen for one or several processes, at the size of the terminal when it is drawn."""

    def __init__(self, lives: Sequence[LiveFile], foot: Sequence[str] = ()) -> None:
        self._lives, self._foot = lives, foot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width, options.size.height - 1, ascii_only=options.ascii_only)

    def lines(self, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
        """At most `height` lines of at most `width` columns."""
        each = (height - bool(self._foot)) // max(1, len(self._lives))
        found = [line for live in self._lives for line in _process(live, width, each)]
        room = max(0, height - len(found))
        foot, rest = list(self._foot), 0
        if len(foot) > room:
            foot, rest = foot[: max(0, room - 1)], len(foot) - max(0, room - 1)
        found += [Text(plain(line), "dim") for line in foot]
        found += [Text(f"{rest} more are not running", "dim")] if rest else []
        for line in found[:height]:
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
            if ascii_only:
                line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
        return found[:height]


def _process(live: LiveFile, width: int, height: int) -> list[Text]:
    parts, lanes = list(live["parts"]), list(live["lanes"])
    named = labels([part["name"] for part in parts])
    totals = _totals(live, width)
    room = height - len(totals) - (len(parts) > 1) - bool(lanes) - bool(workers_of(live))
    shown, done = _folded(parts, [part["n_done"] >= part["n_expected"] for part in parts], room - len(lanes))
    used, idle = _folded(lanes, [_idle(lane) for lane in lanes], room - len(shown) - bool(done))
    # If that is not enough, only the first bars are shown: all of them move alike.
    most = max(MIN_BARS, room - len(used) - bool(idle) - bool(done) - 1)
    shown, rest = (shown[:most], shown[most:]) if len(shown) > most + 1 else (shown, [])
    bars = [_bar(part, named[part["name"]], width) for part in shown]
    if len(parts) > 1:
        count = _count(live["n_done"], live["n_expected"], width)
        bars.append([Text("all"), *count, Text(), Text(), Text(_left(live["eta_s"] or None))])
    drawn = _aligned(bars, width, BAR_COLUMNS_DROPPED, right=(2, 3))
    lines = [
        *drawn[: len(shown)],
        *_names("more", [named[part["name"]] for part in rest]),
        *_names("done", [named[part["name"]] for part in done]),
        *drawn[len(shown) :],
        *(_lanes(used, width) if lanes else ()),
        *_names("idle", [lane["name"] for lane in idle]),
    ]
    return [*lines, *worker_section(live, height - len(lines) - len(totals)), *totals]


def _folded(rows: list[T], foldable: list[bool], room: int) -> tuple[list[T], list[T]]:
    """Rows with a line of their own, and rows that share one for lack of room."""
    if len(rows) <= room:
        return rows, []
    own = [row for row, folds in zip(rows, foldable, strict=True) if not folds]
    return own, [row for row, folds in zip(rows, foldable, strict=True) if folds]


def _names(word: str, names: Sequence[str]) -> Iterator[Text]:
    if names:
        yield Text(f"{len(names)} {word}: {plain(', '.join(names))}", "dim")


def _aligned(
    rows: Sequence[Sequence[Text]], width: int, dropped: Sequence[int], right: Sequence[int]
) -> list[Text]:
    """Rows of cells as lines; columns without text are left out, and `dropped` ones while there is no room.

    Columns in `right` are aligned on the right. Only the last column may exceed `width`.
    """
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for column in dropped if rows else ():
        needed = sum(size + 2 for size in widths if size) - 2
        widths[column] = 0 if needed > width else widths[column]
    lines = []
    for row in rows:
        cells = []
        for column, (cell, size) in enumerate(zip(row, widths, strict=True)):
            if size:
                cells.append(cell.copy())
                (cells[-1].pad_left if column in right else cells[-1].pad_right)(size - cell.cell_len)
        line = Text("  ").join(cells)
        line.rstrip()
        lines.append(line)
    return lines


def _bar(part: LivePart, label: str, width: int) -> list[Text]:
    outlook = part["note"] or _left(part["eta_s"])
    if part["n_done"] >= part["n_expected"]:
        outlook = "done"
    name = Text(plain(label))
    name.truncate(40 if width >= WIDE else min(24, width // 4), overflow="ellipsis")
    failed = Text(f"{part['n_failed']} failed" if part["n_failed"] else "", "red")
    count = _count(part["n_done"], part["n_expected"], width)
    return [name, *count, failed, Text(part_mean(part)), Text(plain(outlook))]


def _count(done: int, expected: int, width: int) -> list[Text]:
    """A bar, and its numbers."""
    size = 30 if width >= WIDE else 16
    # The last column of a bar is filled only when all is done.
    filled = size if done >= expected else max(0, min(size - 1, size * done // expected))
    bar = Text("━" * filled, "green").append("─" * (size - filled), "dim")
    return [bar, Text(f"{done}/{expected}")]


def _idle(lane: LiveLane) -> bool:
    return not (lane["in_flight"] or lane["waiting"] or lane["calls_per_min"] or state_of(lane))


def _lanes(lanes: Sequence[LiveLane], width: int) -> list[Text]:
    """A heading, and a line for each provider."""
    rows = [[Text(head, "dim") for head in LANE_COLUMNS]]
    for lane in lanes:
        slots = "" if lane["places"] is None else f"/{lane['places']}"
        rates = [
            _of_allowed(lane["calls_per_min"], lane["calls_allowed"]),
            _of_allowed(lane["tokens_per_min"], lane["tokens_allowed"]),
            f"{lane['answers_429']}",
        ]
        cells = [f"{lane['in_flight']}{slots}", f"{lane['waiting']}", *rates]
        state = Text(plain(state_of(lane)), "red" if lane["reason"] else "yellow")
        rows.append([Text(plain(lane["name"])), *map(Text, cells), state])
    return _aligned(rows, width, LANE_COLUMNS_DROPPED, right=range(1, 6))


def _of_allowed(amount: float, allowed: float | None) -> str:
    return compact(amount) if allowed is None else f"{compact(amount)}/{compact(allowed)}"


def _totals(live: LiveFile, width: int) -> list[Text]:
    """Calls, tokens, costs and time on as many lines as they need."""
    pieces = [*efforts(live), f"{duration(live['time'] - live['started'])} so far"]
    if live["note"].startswith("stopping"):
        pieces.append(plain(live["note"]))
    # Lines break between pieces, not within them.
    whole = ", ".join(piece.replace(" ", "\N{NO-BREAK SPACE}") for piece in pieces)
    lines = wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [Text(line.replace("\N{NO-BREAK SPACE}", " ")) for line in lines]


# --- Workers

SILENT_S: Final = 5.0
"""A worker is silent after this time: a healthy one reports several times a second."""
MANY: Final = 64
"""So many workers are not listed one by one, but for silent and lost ones."""
FEW: Final = 3
"""Silent and lost workers that are listed; all are counted."""


def workers_of(live: LiveCluster) -> list[LiveWorker]:
    """All workers that there are or were; empty without a cluster."""
    return live.get("workers", [])


def is_silent(worker: LiveWorker) -> bool:
    """Whether a worker should have reported by now."""
    return worker["state"] in ("working", "idle") and worker["heard_s"] > SILENT_S


def one_by_one(live: LiveCluster, room: int) -> list[LiveWorker]:
    """The workers that are listed in `room` lines: all, with the last lost ones; if too many, some that are not well."""
    room = max(0, room)
    there = [worker for worker in workers_of(live) if worker["state"] != "lost"]
    lost = [worker for worker in workers_of(live) if worker["state"] == "lost"]
    if len(there) >= MANY or len(there) > room:
        there = [worker for worker in there if is_silent(worker)][: min(FEW, room)]
        room = min(FEW, room)
    n_lost = min(FEW, room - len(there), len(lost))
    return there + lost[len(lost) - n_lost :]


def worker_count(live: LiveCluster) -> str:
    """`8 workers`, or `6 of 8 workers` while some have not started or were lost."""
    wanted = live.get("workers_wanted", 0)
    there = sum(worker["state"] not in ("starting", "lost") for worker in workers_of(live))
    return f"{there} of {_n(wanted, 'worker')}" if there < wanted else _n(there, "worker")


def workers_line(live: LiveCluster) -> str:
    """All workers: `62 of 64 workers on 8 hosts, 2 lost; 412 tasks in flight`, the most important parts first."""
    there = [worker for worker in workers_of(live) if worker["state"] != "lost"]
    hosts = {worker["host"] for worker in there if worker["host"]}
    states = Counter("silent" if is_silent(worker) else worker["state"] for worker in workers_of(live))
    where = f" on {_n(len(hosts), 'host')}" if hosts else ""
    line = worker_count(live) + (where if live.get("cluster") else " on this machine")
    for state in ("lost", "silent", "starting"):
        line += f", {states[state]} {state}" if states[state] else ""
    line += f"; {_n(sum(worker['in_hand'] for worker in there), 'task')} in flight"
    for state in ("idle", "ended"):
        line += f", {states[state]} {state}" if states[state] else ""
    return f"{line}; {live['cluster']}" if live.get("cluster") else line


def worker_state(worker: LiveWorker) -> str:
    """A worker's state, with its note."""
    state = f"silent for {worker['heard_s']:.0f} s" if is_silent(worker) else worker["state"]
    return f"{state}: {worker['note']}" if worker["note"] else state


def worker_section(live: LiveCluster, room: int) -> Iterator[Text]:
    """The same as a table: at most `room` lines, but one at least; none where there are no workers."""
    if not workers_of(live):
        return
    yield Text(plain(workers_line(live)))
    listed, elsewhere = one_by_one(live, room - 2), bool(live.get("cluster"))
    if listed:
        where = "host" if elsewhere else "pid"
        yield Text(f"worker      {where:<12}in flight     done  calls/min  state", "dim")
    for one in listed:
        where = plain(one["host"]) if elsewhere else f"{one['pid']}"
        numbers = f"{one['in_hand']:>7}  {compact(one['done']):>7}  {compact(one['calls_per_min']):>9}"
        line = f"{plain(one['name']):<10.10}  {where:<12.12}  {numbers}  {plain(worker_state(one))}"
        yield Text(line, "red" if one["state"] == "lost" else "yellow" if is_silent(one) else "")


def _n(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
