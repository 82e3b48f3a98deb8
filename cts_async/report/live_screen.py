"""What commands are doing as a screen: a bar for each system, a line for each provider, and what it all took.

It fits the terminal it is drawn on, whatever its size: what is finished or idle is folded into one line first.
Colours only repeat what words and shapes say. All text is anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from cts_async.report.live_words import duration, efforts, labels, mean_of, short, state_of
from cts_async.report.plain import plain
from cts_async.report.viewer.shapes import Lane, Live, LivePart

T = TypeVar("T")

WIDE: Final = 100
"""From so many columns on names and bars have more of them."""
LEAST_BAR: Final = 6
"""Columns of a bar."""
LEAST_BARS: Final = 2
LANE_COLUMNS: Final = {"in flight": 9, "waiting": 7, "calls/min": 11, "tokens/min": 11, "429s": 5}
LEFT_OUT: Final = ("waiting", "tokens/min", "429s", "calls/min")
"""Columns that a narrow terminal has no room for, the first ones first."""


class LiveScreen:
    """One screen for what one or several processes are doing, at the size it has when it is drawn."""

    def __init__(self, lives: Sequence[Live], foot: Sequence[str] = ()) -> None:
        self._lives, self._foot = lives, foot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width, options.size.height - 1, ascii_only=options.ascii_only)

    def lines(self, width: int, height: int, *, ascii_only: bool = False) -> list[Text]:
        """At most `height` lines of at most `width` columns."""
        foot = [Text(plain(line), "dim") for line in self._foot]
        each = max(3, (height - len(foot)) // max(1, len(self._lives)))
        found = [line for live in self._lives for line in _process(live, width, each)]
        found = [*found[: max(1, height - len(foot))], *foot][:height]
        for line in found:
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(width, overflow="ellipsis")
        return list(map(_ascii, found)) if ascii_only else found


def _process(live: Live, width: int, height: int) -> list[Text]:
    parts, lanes = list(live["parts"]), list(live["lanes"])
    named = _short_names(labels([part["name"] for part in parts]), _name_width(width))
    totals = _totals(live, width)
    room = height - len(totals) - (len(parts) > 1) - bool(lanes)
    shown, done = _folded(parts, [_finished(part) for part in parts], room - len(lanes))
    used, idle = _folded(lanes, [_idle(lane) for lane in lanes], room - len(shown) - bool(done))
    # Of what still has no room the first bars stay: all of them move alike.
    most = max(LEAST_BARS, room - len(used) - bool(idle) - bool(done) - 1)
    shown, rest = (shown[:most], shown[most:]) if len(shown) > most + 1 else (shown, [])
    return [
        *_bars(shown, named, live, width),
        *_more(rest, "more", [named[part["name"]] for part in rest]),
        *_more(done, "done", [named[part["name"]] for part in done]),
        *_lanes(used, width, some=bool(lanes)),
        *_more(idle, "idle", [lane["name"] for lane in idle]),
        *totals,
    ]


def _folded(rows: list[T], foldable: list[bool], room: int) -> tuple[list[T], list[T]]:
    """The rows that have a line of their own, and those that share one since there is no room."""
    if len(rows) <= room:
        return rows, []
    kept = [row for row, folds in zip(rows, foldable, strict=True) if not folds]
    return kept, [row for row, folds in zip(rows, foldable, strict=True) if folds]


def _more(rows: Sequence[object], word: str, names: Sequence[str]) -> Iterator[Text]:
    if rows:
        yield Text(f"{len(rows)} {word}: {plain(', '.join(names))}", "dim")


def _finished(part: LivePart) -> bool:
    return part["n_done"] >= part["n_expected"]


def _idle(lane: Lane) -> bool:
    return not (lane["in_flight"] or lane["waiting"] or lane["calls_per_min"] or state_of(lane))


# --- Bars ---------------------------------------------------------------------------------------------


def _bars(parts: Sequence[LivePart], named: dict[str, str], live: Live, width: int) -> Iterator[Text]:
    """A line for each part, and one for all of them where there are several."""
    rows = [
        (
            plain(named[part["name"]]),
            f"{part['n_done']}/{part['n_expected']}",
            f"{part['n_failed']} failed" if part["n_failed"] else "",
            mean_of(part),
            _outlook(part),
        )
        for part in parts
    ]
    amounts = [(part["n_done"], part["n_expected"]) for part in parts]
    if len(live["parts"]) > 1:
        left = f"{duration(live['eta_s'])} left" if live["eta_s"] else ""
        rows.append(("all", f"{live['n_done']}/{live['n_expected']}", "", "", left))
        amounts.append((live["n_done"], live["n_expected"]))
    wide = width >= WIDE
    widths = [max((cell_len(row[column]) for row in rows), default=0) for column in range(5)]
    widths[0] = min(widths[0], _name_width(width))
    gaps = sum(2 for column in widths if column) + 2
    bar = max(LEAST_BAR, min(30 if wide else 16, width - sum(widths[:4]) - min(widths[4], 20) - gaps))
    for row, (done, expected) in zip(rows, amounts, strict=True):
        yield _bar_line(row, widths, _filled(done, expected, bar), bar)


def _name_width(width: int) -> int:
    return 40 if width >= WIDE else min(24, width // 4)


def _short_names(named: dict[str, str], most: int) -> dict[str, str]:
    """Names too long for their column lose their settings (`+support-gpt`), where they are told apart without."""
    bare = {name: label.partition("+")[0] for name, label in named.items()}
    too_long = any(cell_len(label) > most for label in named.values())
    return bare if too_long and len({*bare.values()}) == len(bare) else named


def _bar_line(row: tuple[str, str, str, str, str], widths: Sequence[int], filled: int, bar: int) -> Text:
    name, count, failed, mean, outlook = row
    line = Text(set_cell_size(name, widths[0]))
    line.append("  ")
    line.append("━" * filled, "green").append("─" * (bar - filled), "dim")
    line.append(f"  {count:>{widths[1]}}")
    if widths[2]:
        line.append(f"  {failed:>{widths[2]}}", "red")
    if widths[3]:
        line.append(f"  {set_cell_size(mean, widths[3])}")
    return line.append(f"  {outlook}")


def _filled(done: int, expected: int, bar: int) -> int:
    """Of `bar` columns; the last one only when all is done."""
    return bar if done >= expected else max(0, min(bar - 1, bar * done // expected))


def _outlook(part: LivePart) -> str:
    if _finished(part):
        return "done"
    if part["note"]:
        return plain(part["note"])
    return f"{duration(part['eta_s'])} left" if part["eta_s"] is not None else ""


# --- Providers ----------------------------------------------------------------------------------------


def _lanes(lanes: Sequence[Lane], width: int, *, some: bool) -> Iterator[Text]:
    """A heading and a line for each provider."""
    name_width = min(20 if width >= WIDE else 16, max([8, *(cell_len(lane["name"]) for lane in lanes)]))
    columns = dict(LANE_COLUMNS)
    for head in LEFT_OUT:
        if name_width + sum(columns.values()) + 2 * len(columns) > width:
            del columns[head]
    if some:
        heads = "".join(f"  {head:>{size}}" for head, size in columns.items())
        yield Text(set_cell_size("provider", name_width) + heads, "dim")
    for lane in lanes:
        yield _lane(lane, name_width, columns)


def _lane(lane: Lane, name_width: int, columns: Mapping[str, int]) -> Text:
    line = Text(set_cell_size(plain(lane["name"]), name_width))
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
    return short(amount) if allowed is None else f"{short(amount)}/{short(allowed)}"


# --- Totals -------------------------------------------------------------------------------------------


def _totals(live: Live, width: int) -> list[Text]:
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
