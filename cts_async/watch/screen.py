"""Progress for people: the screen of a running command, plain lines where there is no terminal, and messages.

The screen has a bar for each system, a line for each provider and worker, and totals. It fits any terminal: with too
little room what is finished or idle shares a line. Colours only repeat what words and shapes say. All text is of
unknown origin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Final, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from cts_async.engine.budget import amount
from cts_async.engine.events import CircuitChanged, Event, LanePaused, LimitLearned, Notice, Stopping
from cts_async.errors import shortened
from cts_async.records import SMOKE_TEST
from cts_async.tables.output import counted, duration, plain
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
BATCH_COLUMNS: Final = ("batch", "state", "done", "failed", "since")
BATCH_COLUMNS_DROPPED: Final = (4, 3)
MAX_BATCHES: Final = 5
"""Batches that have a line each: with more, the totals would leave the screen."""
MIN_BARS: Final = 2
_ASCII: Final = str.maketrans({"━": "#", "─": "-", "±": "~", "…": "."})


# --- Words


def notable(event: Event) -> str | None:
    """A message for an event that a person should see at once, not too long; None for any other."""
    text = _message(event)
    if text is None:
        return None
    return shortened(text)


def _message(event: Event) -> str | None:
    match event:
        case CircuitChanged(open=True):
            return f"{event.lane}: outage, waiting ({_without_name(event.lane, event.reason)})"
        case CircuitChanged():
            return f"{event.lane}: back ({_without_name(event.lane, event.reason)})"
        # A pause of less than a second is how a limit is found, and there may be many.
        case LanePaused() if event.seconds >= 1:
            return f"{event.lane}: rate limited (429), pausing {event.seconds:.0f} s"
        case LimitLearned():
            return f"{event.lane}: the server reports a limit of {event.per_min:,.0f} {event.unit} per minute"
        case Notice():
            return event.text
        case Stopping():
            return f"stopping: {event.reason}"
        case _:
            return None


def progress_line(live: LiveFile) -> str:
    """The state of a process in one plain line."""
    line = ", ".join(_progress(live))
    parts = live["parts"]
    names = labels([part["name"] for part in parts])
    means: list[str] = []
    for part in parts:
        if part["mean"] is None:
            continue
        name = names[part["name"]]
        if len(parts) == 1:
            name = "mean"
        means.append(f"{name} {part_mean(part)}")
    if 0 < len(means) <= MAX_MEANS:
        line += f"; {', '.join(means)}"
    return line


def _progress(live: LiveFile) -> Iterator[str]:
    """Yield what is done, what it took, and while something is left, the time left and why it waits."""
    yield f"{live['n_done']}/{live['n_expected']} instances"
    yield from efforts(live)
    if workers_of(live):
        yield worker_count(live)
    yield from _batches_in_short(live)
    if live["n_done"] >= live["n_expected"]:
        return
    if live["eta_s"] is not None:
        yield _time_left(live["eta_s"])
    for part in live["parts"]:
        if part["note"]:
            yield part["note"]
            return  # the first one: all of this stands on one line


def _batches_in_short(live: LiveFile) -> Iterator[str]:
    """Yield how many batches there are, and how far they are; nothing without any."""
    batches = live.get("batches", [])
    if not batches:
        return
    n_done = sum(batch["n_done"] for batch in batches)
    n_requests = sum(batch["n_requests"] for batch in batches)
    name = "1 batch" if len(batches) == 1 else f"{len(batches)} batches"
    yield f"{name}: {n_done:,} of {n_requests:,} requests done"


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{duration(seconds)} left"


def efforts(live: LiveFile) -> list[str]:
    """Calls, failures, tokens and costs so far."""
    pieces = [counted(live["calls"], "call")]
    if live["replayed"]:
        pieces.append(f"{live['replayed']:,} replayed")
    if live.get("reused"):
        pieces.append(f"{live['reused']:,} reused")
    if live["retries"] == 1:
        pieces.append("1 retry")
    elif live["retries"]:
        pieces.append(f"{live['retries']:,} retries")
    if live["n_failed"]:
        pieces.append(f"{live['n_failed']} failed")
    pieces.append(f"{short_number(live['tokens'])} tokens")
    pieces += _spent(live)
    return pieces


def _spent(live: LiveFile) -> Iterator[str]:
    """`$0.52 of $2.00` for each limit of the budget; the dollars of this process if they are not limited."""
    if live["max_usd"] is None:
        cost = _unlimited_cost(live)
        if cost:
            yield cost
    lines = (
        ("usd", round(live["spent_usd"], 4), live["max_usd"], ""),
        ("tokens", live["spent_tokens"], live["max_tokens"], " tokens"),
        ("calls", live["spent_calls"], live["max_calls"], " calls"),
    )
    for line, value, limit, unit in lines:
        if limit is not None:
            yield f"{amount(line, value)} of {amount(line, limit)}{unit}"


def _unlimited_cost(live: LiveFile) -> str:
    """`$0.52`, `$0.52 + unknown` or `cost unknown`; "" before anything is spent."""
    usd, unpriced = live["spent_usd"], live.get("unpriced_models", 0)
    if not usd:
        if unpriced and live["calls"]:
            return "cost unknown"
        return ""
    dollars = amount("usd", round(usd, 4))
    if unpriced:
        return f"{dollars} + unknown"
    return dollars


def part_mean(part: LivePart) -> str:
    """`54.2 ± 3.1 (smoke test)`; "" without a score."""
    if part["mean"] is None:
        return ""
    mean = mean_text(part["mean"], part["mean_high"], part["n_scored"])
    if part["smoke_test"]:
        return f"{mean} ({SMOKE_TEST})"
    return mean


def state_of(lane: LiveLane) -> str:
    """Why no requests are sent to a provider; "" if they are."""
    reason = _without_name(lane["name"], lane["reason"])
    if lane["open_s"] is not None:
        # Less than half a second would be printed as 0.
        if lane["open_s"] < 0.5:
            return f"outage, probing: {reason}"
        return f"outage, next probe in {lane['open_s']:.0f} s: {reason}"
    if reason:
        return f"gone: {reason}"
    if lane["paused_s"] < 0.5:
        return ""
    return f"waiting {lane['paused_s']:.0f} s"


def _without_name(name: str, reason: str) -> str:
    """A reason without the provider's name, which is shown already."""
    return reason.removeprefix(f"{name}: ")


def labels(names: Sequence[str]) -> dict[str, str]:
    """Short names by name: without the common first words, and without settings (`+support-gpt`) if all are equal."""
    # A name alone is shown whole: it has nothing in common with others.
    if len(names) < 2:
        return dict(zip(names, names, strict=True))
    same_settings = len({name.partition("+")[2] for name in names}) == 1
    words_by_name: dict[str, list[str]] = {}
    for name in names:
        label = name
        if same_settings:
            label = name.partition("+")[0]
        words_by_name[name] = label.split("-")
    shared = 0
    for words in zip(*words_by_name.values(), strict=False):
        if len(set(words)) > 1:
            break
        shared += 1
    shortest = min(map(len, words_by_name.values()))
    shared = min(shared, shortest - 1)  # one word stays, at least
    return {name: "-".join(words[shared:]) for name, words in words_by_name.items()}


# --- The screen


class LiveScreen:
    """One screen for one or several processes, at the size of the terminal when it is drawn."""

    def __init__(self, lives: Sequence[LiveFile], foot: Sequence[str] = ()) -> None:
        self._lives, self._foot = lives, foot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width, options.size.height - 1, ascii_only=options.ascii_only)

    def lines(self, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
        """At most `height` lines of at most `width` columns."""
        height_of_process = (height - bool(self._foot)) // max(1, len(self._lives))
        lines: list[Text] = []
        for live in self._lives:
            lines += _process(live, width, height_of_process)
        lines += self._foot_lines(max(0, height - len(lines)))
        for line in lines[:height]:
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
            if ascii_only:
                line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
        return lines[:height]

    def _foot_lines(self, room: int) -> Iterator[Text]:
        """Yield the lines of runs at rest, with a count of those for which there is no room."""
        n_shown = len(self._foot)
        if n_shown > room:
            n_shown = max(0, room - 1)
        for line in self._foot[:n_shown]:
            yield Text(plain(line), "dim")
        n_hidden = len(self._foot) - n_shown
        if n_hidden:
            yield Text(f"{n_hidden} more are not running", "dim")


def _process(live: LiveFile, width: int, height: int) -> list[Text]:
    """Return the lines of one process: bars, providers, workers, totals.

    What is finished or idle gives up its line first, then the last bars: the totals are always there.
    """
    # Twelve systems, six providers and 64 workers fit 80 columns and 24 lines.
    parts, lanes = list(live["parts"]), list(live["lanes"])
    names = labels([part["name"] for part in parts])
    totals = _totals(live, width)
    room = height - len(totals) - (len(parts) > 1) - bool(lanes) - bool(workers_of(live))
    room -= len(_batches(live, width))
    shown, done = _folded(parts, _is_done, room - len(lanes))
    used, idle = _folded(lanes, _is_idle, room - len(shown) - bool(done))
    # If that is not enough, only the first bars are shown: all of them move alike.
    n_bars = max(MIN_BARS, room - len(used) - bool(idle) - bool(done) - 1)
    hidden: list[LivePart] = []
    if len(shown) > n_bars + 1:
        shown, hidden = shown[:n_bars], shown[n_bars:]
    bars = [_bar(part, names[part["name"]], width) for part in shown]
    if len(parts) > 1:
        bars.append(_bar_of_all(live, width))
    drawn = _aligned(bars, width, BAR_COLUMNS_DROPPED, right_aligned=(2, 3))
    lines = drawn[: len(shown)]
    lines += _names("more", [names[part["name"]] for part in hidden])
    lines += _names("done", [names[part["name"]] for part in done])
    lines += drawn[len(shown) :]
    if lanes:
        lines += _lanes(used, width)
    lines += _names("idle", [lane["name"] for lane in idle])
    lines += _batches(live, width)
    lines += worker_section(live, height - len(lines) - len(totals))
    return lines + totals


def _folded(rows: list[T], folds: Callable[[T], bool], room: int) -> tuple[list[T], list[T]]:
    """Rows with a line of their own, and rows that share one for lack of room."""
    if len(rows) <= room:
        return rows, []
    unfolded: list[T] = []
    folded: list[T] = []
    for row in rows:
        if folds(row):
            folded.append(row)
        else:
            unfolded.append(row)
    return unfolded, folded


def _is_done(part: LivePart) -> bool:
    return part["n_done"] >= part["n_expected"]


def _is_idle(lane: LiveLane) -> bool:
    return not (lane["in_flight"] or lane["waiting"] or lane["calls_per_min"] or state_of(lane))


def _names(word: str, names: Sequence[str]) -> Iterator[Text]:
    if names:
        yield Text(f"{len(names)} {word}: {plain(', '.join(names))}", "dim")


def _aligned(
    rows: Sequence[Sequence[Text]], width: int, dropped: Sequence[int], right_aligned: Sequence[int]
) -> list[Text]:
    """Rows of cells as lines; columns without text are left out, and `dropped` ones while there is no room.

    Only the last column may exceed `width`.
    """
    if not rows:
        return []
    widths: list[int] = []
    for column in zip(*rows, strict=True):
        widths.append(max(cell.cell_len for cell in column))
    for place in dropped:
        n_columns = len(widths) - widths.count(0)
        # Two spaces between columns. A column is dropped whole: a number that is cut is another number.
        if sum(widths) + 2 * (n_columns - 1) > width:
            widths[place] = 0
    lines = []
    for row in rows:
        cells = []
        for place, (cell, size) in enumerate(zip(row, widths, strict=True)):
            if not size:
                continue
            padded = cell.copy()
            if place in right_aligned:
                padded.pad_left(size - cell.cell_len)
            else:
                padded.pad_right(size - cell.cell_len)
            cells.append(padded)
        line = Text("  ").join(cells)
        line.rstrip()
        lines.append(line)
    return lines


def _bar(part: LivePart, label: str, width: int) -> list[Text]:
    """Return the cells of a part: name, bar, count, failures, mean, and what is to come."""
    name = Text(plain(label))
    name_width = min(24, width // 4)
    if width >= WIDE:
        name_width = 40
    name.truncate(name_width, overflow="ellipsis")
    bar, count = _bar_and_count(part["n_done"], part["n_expected"], width)
    failed = Text("", "red")
    if part["n_failed"]:
        failed = Text(f"{part['n_failed']} failed", "red")
    outlook = part["note"] or _time_left(part["eta_s"])
    if _is_done(part):
        outlook = "done"
    return [name, bar, count, failed, Text(part_mean(part)), Text(plain(outlook))]


def _bar_of_all(live: LiveFile, width: int) -> list[Text]:
    """The same cells for all parts together: failures stand among the totals, and a mean of systems means nothing."""
    bar, count = _bar_and_count(live["n_done"], live["n_expected"], width)
    return [Text("all"), bar, count, Text(), Text(), Text(_time_left(live["eta_s"] or None))]


def _bar_and_count(n_done: int, n_expected: int, width: int) -> tuple[Text, Text]:
    size = 16
    if width >= WIDE:
        size = 30
    filled = size
    # The last column of a bar is filled only when all is done.
    if n_done < n_expected:
        filled = max(0, min(size - 1, size * n_done // n_expected))
    bar = Text("━" * filled, "green").append("─" * (size - filled), "dim")
    return bar, Text(f"{n_done}/{n_expected}")


def _lanes(lanes: Sequence[LiveLane], width: int) -> list[Text]:
    """A heading, and a line for each provider."""
    rows = [[Text(head, "dim") for head in LANE_COLUMNS]]
    for lane in lanes:
        in_flight = f"{lane['in_flight']}"
        if lane["places"] is not None:
            in_flight += f"/{lane['places']}"
        style = "yellow"
        if lane["reason"]:
            style = "red"
        rows.append(
            [
                Text(plain(lane["name"])),
                Text(in_flight),
                Text(f"{lane['waiting']}"),
                Text(_rate(lane["calls_per_min"], lane["calls_allowed"])),
                Text(_rate(lane["tokens_per_min"], lane["tokens_allowed"])),
                Text(f"{lane['answers_429']}"),
                Text(plain(state_of(lane)), style),
            ]
        )
    return _aligned(rows, width, LANE_COLUMNS_DROPPED, right_aligned=range(1, 6))


def _batches(live: LiveFile, width: int) -> list[Text]:
    """A heading and a line for each batch; of many the first ones, and a count of the others."""
    batches = live.get("batches", [])
    if not batches:
        return []
    rows = [[Text(head, "dim") for head in BATCH_COLUMNS]]
    for batch in batches[:MAX_BATCHES]:
        rows.append(
            [
                Text(plain(f"{batch['model']} {batch['id']}".rstrip())),
                Text(plain(batch["state"])),
                Text(f"{batch['n_done']:,}/{batch['n_requests']:,}"),
                Text(f"{batch['n_failed']:,}"),
                Text(duration(max(0.0, live["time"] - batch["since"]))),
            ]
        )
    lines = _aligned(rows, width, BATCH_COLUMNS_DROPPED, right_aligned=range(2, 5))
    if len(batches) > MAX_BATCHES:
        lines.append(Text(f"{len(batches) - MAX_BATCHES} more batches", "dim"))
    return lines


def _rate(per_min: float, allowed: float | None) -> str:
    if allowed is None:
        return compact(per_min)
    return f"{compact(per_min)}/{compact(allowed)}"


def _totals(live: LiveFile, width: int) -> list[Text]:
    """Calls, tokens, costs and time on as many lines as they need."""
    pieces = efforts(live)
    pieces.append(f"{duration(live['time'] - live['started'])} so far")
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
    alive, lost = _alive_and_lost(live)
    if len(alive) >= MANY or len(alive) > room:
        room = min(FEW, room)
        silent = [worker for worker in alive if is_silent(worker)]
        alive = silent[:room]
    n_lost = min(FEW, room - len(alive), len(lost))
    return alive + lost[len(lost) - n_lost :]


def _alive_and_lost(live: LiveCluster) -> tuple[list[LiveWorker], list[LiveWorker]]:
    alive: list[LiveWorker] = []
    lost: list[LiveWorker] = []
    for worker in workers_of(live):
        if worker["state"] == "lost":
            lost.append(worker)
        else:
            alive.append(worker)
    return alive, lost


def worker_count(live: LiveCluster) -> str:
    """`8 workers`, or `6 of 8 workers` while some have not started or were lost."""
    n_requested = live.get("workers_wanted", 0)
    n_started = sum(worker["state"] not in ("starting", "lost") for worker in workers_of(live))
    if n_started < n_requested:
        return f"{n_started} of {counted(n_requested, 'worker')}"
    return counted(n_started, "worker")


def workers_line(live: LiveCluster) -> str:
    """All workers: `62 of 64 workers on 8 hosts, 2 lost; 412 tasks in flight`, the most important parts first."""
    alive, _ = _alive_and_lost(live)
    # Tasks of a lost worker are dealt again, so only those of the others are in flight.
    hosts = {worker["host"] for worker in alive if worker["host"]}
    states: Counter[str] = Counter()
    for worker in workers_of(live):
        state = worker["state"]
        if is_silent(worker):
            state = "silent"
        states[state] += 1
    line = worker_count(live)
    if not live.get("cluster"):
        line += " on this machine"
    elif hosts:
        line += f" on {counted(len(hosts), 'host')}"
    for state in ("lost", "silent", "starting"):
        if states[state]:
            line += f", {states[state]} {state}"
    n_tasks = sum(worker["in_hand"] for worker in alive)
    line += f"; {counted(n_tasks, 'task')} in flight"
    for state in ("idle", "ended"):
        if states[state]:
            line += f", {states[state]} {state}"
    if live.get("cluster"):
        line += f"; {live['cluster']}"
    return line


def worker_state(worker: LiveWorker) -> str:
    """A worker's state, with its note."""
    state = worker["state"]
    if is_silent(worker):
        state = f"silent for {worker['heard_s']:.0f} s"
    if worker["note"]:
        state += f": {worker['note']}"
    return state


def worker_section(live: LiveCluster, room: int) -> Iterator[Text]:
    """The same as a table: at most `room` lines, but one at least; none where there are no workers."""
    if not workers_of(live):
        return
    yield Text(plain(workers_line(live)))
    listed = one_by_one(live, room - 2)
    if not listed:
        return
    # On a cluster a host says where to look; on this machine all have the same, and a pid can be killed.
    place = "pid"
    if live.get("cluster"):
        place = "host"
    yield Text(f"worker      {place:<12}in flight     done  calls/min  state", "dim")
    for worker in listed:
        place = f"{worker['pid']}"
        if live.get("cluster"):
            place = plain(worker["host"])
        in_flight, done, rate = worker["in_hand"], compact(worker["done"]), compact(worker["calls_per_min"])
        numbers = f"{in_flight:>7}  {done:>7}  {rate:>9}"
        line = f"{plain(worker['name']):<10.10}  {place:<12.12}  {numbers}  {plain(worker_state(worker))}"
        yield Text(line, _style(worker))


def _style(worker: LiveWorker) -> str:
    if worker["state"] == "lost":
        return "red"
    if is_silent(worker):
        return "yellow"
    return ""
