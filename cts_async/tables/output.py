"""Results on standard output, or in files: tables, JSON and JSON Lines; and text that is safe for terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO
from unicodedata import category

import typer

from cts_async.errors import write_error

if TYPE_CHECKING:
    from rich.console import Console

STDOUT: Final = "-"
"""Names standard output where a file's name is expected."""


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on how input files were read to standard error, one line each."""
    from rich.console import Console

    for note in notes:
        print_plainly(Console(stderr=True, emoji=False), plain(f"note: {note}"))


def print_plainly(console: Console, text: str, style: str = "") -> None:
    """Print untrusted text: control characters are replaced, and nothing in it is markup.

    On a terminal lines break between words (`wrapped`); elsewhere never.
    """
    shown = wrapped(text, console.width) if console.is_terminal else plain(text, lines=True)
    console.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)


def print_line(text: str, stream: TextIO | None = None) -> None:
    """Print untrusted text like `print_plainly`, without loading `rich.console`; to standard output by default."""
    stream = stream or sys.stdout
    width = _terminal_width(stream)
    print(wrapped(text, width) if width else plain(text, lines=True), file=stream, flush=True)


def _terminal_width(stream: TextIO) -> int:
    """Columns of the terminal that a stream writes to; 0 for a file or a pipe, and where nobody knows."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def wrapped(text: str, width: int) -> str:
    """Make untrusted text safe, and break its lines of more than `width` columns between words.

    Further lines begin like the first, with its leading spaces. A word stays whole even if it is longer than a line: a
    path that a terminal breaks can be copied, one with a line break cannot. So does a command (`unbroken`).
    """
    from rich.cells import cell_len

    lines: list[str] = []
    for line in text.split("\n"):
        start = " " * (len(line) - len(line.lstrip(" ")))
        row, columns = start, len(start)
        for place, word in enumerate(line[len(start) :].split(" ")):
            shown = plain(word)
            size = cell_len(shown)
            if place and columns + 1 + size > width:
                lines.append(row)
                row, columns = start + shown, len(start) + size
            elif place:
                row, columns = f"{row} {shown}", columns + 1 + size
            else:
                row, columns = row + shown, columns + size
        lines.append(row)
    return "\n".join(lines)


def unbroken(command: str) -> str:
    """Mark a command that is to be copied: `wrapped` breaks no line at its spaces."""
    return command.replace(" ", "\N{NO-BREAK SPACE}")


def print_json(value: Any) -> None:
    """Print a value that orjson can write as indented JSON in UTF-8, whatever the terminal's encoding is.

    A character that UTF-8 cannot hold (from a file name in another encoding) is printed as "?".
    """
    import orjson

    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:
        text = orjson.dumps(_encodable(value), option=orjson.OPT_INDENT_2)
    typer.echo(text)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list | tuple) else value


def write_jsonl(out: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON Lines to the file `out`, whole or not at all, or to standard output for "-".

    Returns the number of rows; holds one at a time. Raises the errors of `atomic_writer` and `write_error`.
    """
    from cts_async.safe_files import atomic_writer

    if out != STDOUT:
        with atomic_writer(Path(out).expanduser()) as file:
            return _write(file, rows)
    try:
        count = _write(sys.stdout.buffer, rows)
        sys.stdout.buffer.flush()
    except OSError as error:
        discard_stdout()
        raise write_error("standard output", error) from None
    return count


def _write(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> int:
    import orjson

    count = 0
    for row in rows:
        count += 1
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return count


def discard_stdout() -> None:
    """Discard what standard output has buffered: flushing it at exit would fail again, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Untrusted text made safe, and durations


def plain(text: str, mark: str = "?", *, lines: bool = False) -> str:
    """Replace control characters by `mark`, and line breaks unless `lines`, so that text cannot steer a terminal.

    Spaces of other scripts and widths, such as the ideographic one in Chinese text, become plain spaces.
    """
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else " " if category(c) == "Zs" else mark for c in text
    )


_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Line breaks, tabs, and the joiners that some scripts and emoji are written with."""


def visible(text: str) -> str:
    """Make invisible characters visible: [U+001B] for a control character, and so on.

    Nothing is hidden then, and nothing changes the direction of the text that follows. Variation selectors and spaces
    stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT else _sign(c) for c in text)


def _sign(character: str) -> str:
    kind = category(character)
    if kind == "Zs":
        return character
    if kind == "Cs":  # half a character: UTF-8 cannot hold it
        return "�"
    return f"[U+{ord(character):04X}]"


def counted(n: int, noun: str) -> str:
    """Format `1 pair`, `2 pairs`, `1,250 pairs`: a number with its noun, whose plural ends in -s."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def dollars(known: float, unpriced: int) -> str:
    """Format `$1.20`, `$1.20 + unknown (2 models without a price)`, or `unknown (1 model without a price)`."""
    cost = f"${known:,.2f}" if known >= 0.1 or not known else f"${known:.4f}"
    if not unpriced:
        return cost
    unknown = f"unknown ({unpriced} {'model' if unpriced == 1 else 'models'} without a price)"
    return f"{cost} + {unknown}" if known else unknown


def duration(seconds: float) -> str:
    """Format seconds: `0:07`, `12:30`, `3:05:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
