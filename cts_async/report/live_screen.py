"""What commands are doing as a screen: a bar for each system, a line for each provider, and what it all took.

Where work is shared, the workers too. It fits the terminal it is drawn on, whatever its size: workers are folded into
one line first, then what is finished or idle.
Colours only repeat what words and shapes say. All text is anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from cts_async.report.live import Lane, LiveFile, LivePart
from cts_async.report.live_words import duration, efforts, labels, mean_of, number, state_of
from cts_async.report.live_workers import worker_section
from cts_async.report.text import plain
from cts_async.report.worker_words import workers_of

WIDE: Final = 100
"""From so many columns on names and bars have more of them."""
LEAST, USUAL, MOST = 6, 16, 30
"""Columns of the bar itself: on a very narrow terminal, below WIDE, from there on."""
OUTLOOK: Final = 20
"""Columns that are left for what comes last; what is longer is cut at the terminal's edge."""
LEAST_OUTLOOK: Final = 12
"""And that it needs at least: `1:06:40 left`."""
BAR_COLUMNS_DROPPED: Final = (2, 4, 3)
"""Columns that a narrow terminal has no room for, the first one first: failures stand below, too. A mean that is cut
would be another one."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What stands on one line."""

    name: str
    done: int
    expected: int
    failed: str
    mean: str
    outlook: str
    """How long it will take, or what it waits for."""

    @property
    def count(self) -> str:
        return f"{self.done}/{self.expected}"


def bar_of(part: LivePart, label: str) -> Bar:
    """A system's or judge's bar under a short name."""
    failed = f"{part['n_failed']} failed" if part["n_failed"] else ""
    return Bar(plain(label), part["n_done"], part["n_expected"], failed, mean_of(part), _outlook(part))


def bar_of_all(live: LiveFile) -> Bar:
    """The bar of them all."""
    left = f"{duration(live['eta_s'])} left" if live["eta_s"] else ""
    return Bar("all", live["n_done"], live["n_expected"], "", "", left)


def bar_lines(bars: Sequence[Bar], width: int) -> list[Text]:
    """The lines, their columns under each other; only what comes last may be longer than `width`."""
    columns = [(bar.name, bar.count, bar.failed, bar.mean, bar.outlook) for bar in bars]
    widths = [max(map(cell_len, column)) for column in zip(*columns, strict=True)] if bars else [0] * 5
    widths[0] = min(widths[0], name_width(width))
    for column in BAR_COLUMNS_DROPPED:
        if _least(widths) > width:
            widths[column] = 0
    gaps = sum(2 for column in widths if column) + 2
    room = width - sum(widths[:4]) - min(widths[4], OUTLOOK) - gaps
    return [_line(bar, widths, max(LEAST, min(MOST if width >= WIDE else USUAL, room))) for bar in bars]


def _least(widths: Sequence[int]) -> int:
    """Columns that a line needs, its bar included."""
    return LEAST + sum(widths[:4]) + min(widths[4], LEAST_OUTLOOK) + 2 * sum(map(bool, widths))


def name_width(width: int) -> int:
    """Columns that names may have at most."""
    return 40 if width >= WIDE else min(24, width // 4)


def short_names(named: Mapping[str, str], most: int) -> Mapping[str, str]:
    """Names too long for their column lose their settings (`+support-gpt`), where they are told apart without."""
    bare = {name: label.partition("+")[0] for name, label in named.items()}
    too_long = any(cell_len(label) > most for label in named.values())
    return bare if too_long and len({*bare.values()}) == len(bare) else named


def finished(part: LivePart) -> bool:
    """Whether nothing of it is left to do."""
    return part["n_done"] >= part["n_expected"]


def _outlook(part: LivePart) -> str:
    if finished(part):
        return "done"
    if part["note"]:
        return plain(part["note"])
    return f"{duration(part['eta_s'])} left" if part["eta_s"] is not None else ""


def _line(bar: Bar, widths: Sequence[int], columns: int) -> Text:
    filled = _filled(bar.done, bar.expected, columns)
    line = Text(f"{set_cell_size(bar.name, widths[0])}  ")
    line.append("━" * filled, "green").append("─" * (columns - filled), "dim")
    line.append(f"  {bar.count:>{widths[1]}}")
    if widths[2]:
        line.append(f"  {bar.failed:>{widths[2]}}", "red")
    if widths[3]:
        line.append(f"  {set_cell_size(bar.mean, widths[3])}")
    return line.append(f"  {bar.outlook}") if bar.outlook and widths[4] else line


def _filled(done: int, expected: int, columns: int) -> int:
    """How much of a bar; its last column only when all is done."""
    return columns if done >= expected else max(0, min(columns - 1, columns * done // expected))


T = TypeVar("T")

LEAST_BARS: Final = 2
LANE_COLUMNS: Final = {"in flight": 9, "waiting": 7, "calls/min": 11, "tokens/min": 11, "429s": 5}
LANE_COLUMNS_DROPPED: Final = ("waiting", "tokens/min", "429s", "calls/min")
"""Columns that a narrow terminal has no room for, the first ones first."""
PAUSED: Final = 13
"""Columns that need room behind them while somebody is paused: `  waiting 12 s`."""


class LiveScreen:
    """One screen for what one or several processes are doing, at the size it has when it is drawn."""

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
        return list(map(_ascii, found)) if ascii_only else found


def _process(live: LiveFile, width: int, height: int) -> list[Text]:
    parts, lanes = list(live["parts"]), list(live["lanes"])
    named = short_names(labels([part["name"] for part in parts]), name_width(width))
    totals = _totals(live, width)
    room = height - len(totals) - (len(parts) > 1) - bool(lanes) - bool(workers_of(live))
    shown, done = _folded(parts, [finished(part) for part in parts], room - len(lanes))
    used, idle = _folded(lanes, [_idle(lane) for lane in lanes], room - len(shown) - bool(done))
    # Of what still has no room the first bars stay: all of them move alike.
    most = max(LEAST_BARS, room - len(used) - bool(idle) - bool(done) - 1)
    shown, rest = (shown[:most], shown[most:]) if len(shown) > most + 1 else (shown, [])
    sums = [bar_of_all(live)] if len(parts) > 1 else []
    bars = bar_lines([*(bar_of(part, named[part["name"]]) for part in shown), *sums], width)
    lines = [
        *bars[: len(shown)],
        *_more(rest, "more", [named[part["name"]] for part in rest]),
        *_more(done, "done", [named[part["name"]] for part in done]),
        *bars[len(shown) :],
        *_lanes(used, width, some=bool(lanes)),
        *_more(idle, "idle", [lane["name"] for lane in idle]),
    ]
    return [*lines, *worker_section(live, width, height - len(lines) - len(totals)), *totals]


def _foot(lines: Sequence[str], room: int) -> list[Text]:
    """As many of them as there is room for, and how many more there are."""
    most = len(lines) if len(lines) <= room else max(0, room - 1)
    more = [f"{len(lines) - most} more are not going on"] if most < len(lines) else []
    return [Text(plain(line), "dim") for line in [*lines[:most], *more]]


def _folded(rows: list[T], foldable: list[bool], room: int) -> tuple[list[T], list[T]]:
    """The rows that have a line of their own, and those that share one since there is no room."""
    if len(rows) <= room:
        return rows, []
    kept = [row for row, folds in zip(rows, foldable, strict=True) if not folds]
    return kept, [row for row, folds in zip(rows, foldable, strict=True) if folds]


def _more(rows: Sequence[object], word: str, names: Sequence[str]) -> Iterator[Text]:
    if rows:
        yield Text(f"{len(rows)} {word}: {plain(', '.join(names))}", "dim")


def _idle(lane: Lane) -> bool:
    return not (lane["in_flight"] or lane["waiting"] or lane["calls_per_min"] or state_of(lane))


# --- Providers ----------------------------------------------------------------------------------------


def _lanes(lanes: Sequence[Lane], width: int, *, some: bool) -> Iterator[Text]:
    """A heading and a line for each provider."""
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
        yield _lane(lane, names, columns)


def _lane(lane: Lane, names: int, columns: Mapping[str, int]) -> Text:
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
        # While a provider does not answer, its rates say nothing, and the reason needs their room.
        if not lane["reason"] or head in ("in flight", "waiting"):
            line.append(f"  {cells[head]:>{size}}")
    return line.append(f"  {state}", "red" if lane["reason"] else "yellow") if state else line


def _of_allowed(amount: float, allowed: float | None) -> str:
    return number(amount) if allowed is None else f"{number(amount)}/{number(allowed)}"


# --- Totals -------------------------------------------------------------------------------------------


def _totals(live: LiveFile, width: int) -> list[Text]:
    """What it took, on as many lines as that needs."""
    told = [*efforts(live), f"{duration(live['time'] - live['started'])} so far"]
    if live["note"].startswith("stopping"):
        told.append(plain(live["note"]))
    lines, line = [], ""
    for piece in told:
        longer = f"{line}, {piece}" if line else piece
        if line and cell_len(longer) > width:
            lines.append(f"{line},")
            longer = piece
        line = longer
    return [Text(text) for text in [*lines, line]]


_ASCII: Final = str.maketrans({"━": "#", "─": "-", "±": "~", "…": "."})


def _ascii(line: Text) -> Text:
    """The same for a terminal that has no other characters."""
    plain_line = line.copy()
    plain_line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
    return plain_line
