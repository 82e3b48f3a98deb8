"""A name in a narrow column: `fake-at-cot-respond-k2` breaks after a hyphen, and inside a word only for want of one."""

from __future__ import annotations

import textwrap

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text


class Folded:
    """Text of a table's cell, in a column whose overflow is "fold". Measured as any text; no markup in it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, Text(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(folded(self._text, options.max_width)))


def folded(text: str, width: int) -> list[str]:
    """The text on lines of at most `width` columns, by hyphens and spaces. Text that is not ASCII is left whole."""
    if len(text) <= width or not text.isascii():
        return [text]
    return [piece for line in text.splitlines() for piece in textwrap.wrap(line, width)]
