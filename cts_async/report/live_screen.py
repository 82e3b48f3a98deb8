"""The live screen: a bar for each system, a line for each provider and worker, and totals.

It fits any terminal: with too little room workers are folded into one line first, then what is finished or idle.
Colours only repeat what words and shapes say. All text is of unknown origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from cts_async.report.live import Lane, LiveFile, LivePart
from cts_async.report.live_words import efforts, labels, mean_of, number, state_of
from cts_async.report.live_workers import worker_section
from cts_async.report.text import duration, plain
from cts_async.report.workers import workers_of

T = TypeVar("T")

WIDE: Final = 100
"""A terminal of so many columns has room for longer names and bars."""
MIN_BAR, USUAL_BAR, MAX_BAR = 6, 16, 30
"""Columns of a bar: at least, below WIDE, and from WIDE on."""
OUTLOOK: Final = 20
"""Columns for the last cell, which is cut at the terminal's edge if it is longer."""
MIN_OUTLOOK: Final = 12
"""It needs at least so many: `1:06:40 left`."""
BAR_COLUMNS_DROPPED: Final = (2, 4, 3)
"""Columns that a narrow terminal drops, first to last. Failures are in the totals, too; a cut mean would mislead."""
MIN_BARS: Final = 2
LANE_COLUMNS: Final = {"in flight": 9, "waiting": 7, "calls/min": 11, "tokens/min": 11, "429s": 5}
LANE_COLUMNS_DROPPED: Final = ("waiting", "tokens/min", "429s", "calls/min")
PAUSED: Final = 13
"""Columns needed after the table while a provider is paused: `  waiting 12 s`."""
_ASCII: Final = str.maketrans({"━": "#", "─": "-", "±": "~", "…": "."})


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
        found = [*found, *_foot(self._foot, height - len(found))][:height]
        for line in found:
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
            if ascii_only:
                line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
        return found


def _process(live: LiveFile, width: int, height: int) -> list[Text]:
    parts, lanes = list(live["parts"]), list(live["lanes"])
    named = _fitting(labels([part["name"] for part in parts]), _name_width(width))
    totals = _totals(live, width)
    room = height - len(totals) - (len(parts) > 1) - bool(lanes) - bool(workers_of(live))
    shown, done = _folded(parts, [_finished(part) for part in parts], room - len(lanes))
    used, idle = _folded(lanes, [_idle(lane) for lane in lanes], room - len(shown) - bool(done))
    # If that is not enough, only the first bars are shown: all of them move alike.
    most = max(MIN_BARS, room - len(used) - bool(idle) - bool(done) - 1)
    shown, rest = (shown[:most], shown[most:]) if len(shown) > most + 1 else (shown, [])
    sums = [_sum_bar(live)] if len(parts) > 1 else []
    bars = _bar_lines([*(_part_bar(part, named[part["name"]]) for part in shown), *sums], width)
    lines = [
        *bars[: len(shown)],
        *_names("more", [named[part["name"]] for part in rest]),
        *_names("done", [named[part["name"]] for part in done]),
        *bars[len(shown) :],
        *_lanes(used, width, some=bool(lanes)),
        *_names("idle", [lane["name"] for lane in idle]),
    ]
    return [*lines, *worker_section(live, width, height - len(lines) - len(totals)), *totals]


def _foot(lines: Sequence[str], room: int) -> list[Text]:
    """As many lines as there is room for, and the number of the others."""
    most = len(lines) if len(lines) <= room else max(0, room - 1)
    more = [f"{len(lines) - most} more are not running"] if most < len(lines) else []
    return [Text(plain(line), "dim") for line in [*lines[:most], *more]]


def _folded(rows: list[T], foldable: list[bool], room: int) -> tuple[list[T], list[T]]:
    """Rows with a line of their own, and rows that share one for lack of room."""
    if len(rows) <= room:
        return rows, []
    own = [row for row, folds in zip(rows, foldable, strict=True) if not folds]
    return own, [row for row, folds in zip(rows, foldable, strict=True) if folds]


def _names(word: str, names: Sequence[str]) -> Iterator[Text]:
    if names:
        yield Text(f"{len(names)} {word}: {plain(', '.join(names))}", "dim")


# --- Bars


@dataclass(frozen=True, slots=True)
class _Bar:
    name: str
    done: int
    expected: int
    failed: str
    mean: str
    outlook: str
    """Time left, or what it waits for."""

    @property
    def count(self) -> str:
        return f"{self.done}/{self.expected}"


def _part_bar(part: LivePart, label: str) -> _Bar:
    failed = f"{part['n_failed']} failed" if part["n_failed"] else ""
    if _finished(part):
        outlook = "done"
    elif part["note"]:
        outlook = plain(part["note"])
    else:
        outlook = f"{duration(part['eta_s'])} left" if part["eta_s"] is not None else ""
    return _Bar(plain(label), part["n_done"], part["n_expected"], failed, mean_of(part), outlook)


def _sum_bar(live: LiveFile) -> _Bar:
    left = f"{duration(live['eta_s'])} left" if live["eta_s"] else ""
    return _Bar("all", live["n_done"], live["n_expected"], "", "", left)


def _finished(part: LivePart) -> bool:
    return part["n_done"] >= part["n_expected"]


def _name_width(width: int) -> int:
    return 40 if width >= WIDE else min(24, width // 4)


def _fitting(named: Mapping[str, str], most: int) -> Mapping[str, str]:
    """Labels without settings (`+support-gpt`) if some are too long and all stay distinct."""
    bare = {name: label.partition("+")[0] for name, label in named.items()}
    too_long = any(cell_len(label) > most for label in named.values())
    return bare if too_long and len({*bare.values()}) == len(bare) else named


def _bar_lines(bars: Sequence[_Bar], width: int) -> list[Text]:
    """Aligned lines; only the last cell may exceed `width`."""
    columns = [(bar.name, bar.count, bar.failed, bar.mean, bar.outlook) for bar in bars]
    widths = [max(map(cell_len, column)) for column in zip(*columns, strict=True)] if bars else [0] * 5
    widths[0] = min(widths[0], _name_width(width))
    for column in BAR_COLUMNS_DROPPED:
        if MIN_BAR + sum(widths[:4]) + min(widths[4], MIN_OUTLOOK) + 2 * sum(map(bool, widths)) > width:
            widths[column] = 0
    gaps = sum(2 for column in widths if column) + 2
    room = width - sum(widths[:4]) - min(widths[4], OUTLOOK) - gaps
    size = max(MIN_BAR, min(MAX_BAR if width >= WIDE else USUAL_BAR, room))
    return [_bar_line(bar, widths, size) for bar in bars]


def _bar_line(bar: _Bar, widths: Sequence[int], size: int) -> Text:
    # The last column of a bar is filled only when all is done.
    filled = size if bar.done >= bar.expected else max(0, min(size - 1, size * bar.done // bar.expected))
    line = Text(f"{set_cell_size(bar.name, widths[0])}  ")
    line.append("━" * filled, "green").append("─" * (size - filled), "dim")
    line.append(f"  {bar.count:>{widths[1]}}")
    if widths[2]:
        line.append(f"  {bar.failed:>{widths[2]}}", "red")
    if widths[3]:
        line.append(f"  {set_cell_size(bar.mean, widths[3])}")
    return line.append(f"  {bar.outlook}") if bar.outlook and widths[4] else line


# --- Providers


def _idle(lane: Lane) -> bool:
    return not (lane["in_flight"] or lane["waiting"] or lane["calls_per_min"] or state_of(lane))


def _lanes(lanes: Sequence[Lane], width: int, *, some: bool) -> Iterator[Text]:
    """A heading if there are any providers, and a line for each of `lanes`."""
    names = min(20 if width >= WIDE else 16, max([8, *(cell_len(lane["name"]) for lane in lanes)]))
    columns = dict(LANE_COLUMNS)
    behind = PAUSED if any(state_of(lane) and not lane["reason"] for lane in lanes) else 0
    for head in LANE_COLUMNS_DROPPED:
        if names + sum(columns.values()) + 2 * len(columns) + behind > width:
            del columns[head]
    if some:
        heads = "".join(f"  {head:>{size}}" for head, size in columns.items())
        yield Text(set_cell_size("provider", names) + heads, "dim")
    for lane in lanes:
        yield _lane_line(lane, names, columns)


def _lane_line(lane: Lane, names: int, columns: Mapping[str, int]) -> Text:
    line = Text(set_cell_size(plain(lane["name"]), names))
    state = plain(state_of(lane))
    places = "" if lane["places"] is None else f"/{lane['places']}"
    cells = {
        "in flight": f"{lane['in_flight']}{places}",
        "waiting": f"{lane['waiting']}",
        "calls/min": _of_allowed(lane["calls_per_min"], lane["calls_allowed"]),
        "tokens/min": _of_allowed(lane["tokens_per_min"], lane["tokens_allowed"]),
        "429s": f"{lane['answers_429']}",
    }
    for head, size in columns.items():
        # During an outage rates mean nothing, and the reason needs their room.
        if not lane["reason"] or head in ("in flight", "waiting"):
            line.append(f"  {cells[head]:>{size}}")
    return line.append(f"  {state}", "red" if lane["reason"] else "yellow") if state else line


def _of_allowed(amount: float, allowed: float | None) -> str:
    return number(amount) if allowed is None else f"{number(amount)}/{number(allowed)}"


# --- Totals


def _totals(live: LiveFile, width: int) -> list[Text]:
    """Calls, tokens, costs and time on as many lines as they need."""
    pieces = [*efforts(live), f"{duration(live['time'] - live['started'])} so far"]
    if live["note"].startswith("stopping"):
        pieces.append(plain(live["note"]))
    lines, line = [], ""
    for piece in pieces:
        longer = f"{line}, {piece}" if line else piece
        if line and cell_len(longer) > width:
            lines.append(f"{line},")
            longer = piece
        line = longer
    return [Text(text) for text in [*lines, line]]
