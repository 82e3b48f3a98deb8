"""Bars of what goes on: a line for each system or judge, in columns that fit the terminal's width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from cts_async.report.live_shapes import LiveFile, LivePart
from cts_async.report.live_words import duration, mean_of
from cts_async.report.text import plain

WIDE: Final = 100
"""From so many columns on names and bars have more of them."""
LEAST, USUAL, MOST = 6, 16, 30
"""Columns of the bar itself: on a very narrow terminal, below WIDE, from there on."""
OUTLOOK: Final = 20
"""Columns that are left for what comes last; what is longer is cut at the terminal's edge."""
LEAST_OUTLOOK: Final = 12
"""And that it needs at least: `1:06:40 left`."""
LEFT_OUT: Final = (2, 4, 3)
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
    for column in LEFT_OUT:
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
