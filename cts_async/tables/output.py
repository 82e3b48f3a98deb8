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
    shown = plain(text, lines=True)
    if console.is_terminal:
        shown = wrapped(text, console.width)
    console.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)


def print_line(text: str, stream: TextIO | None = None) -> None:
    """Print untrusted text like `print_plainly`, without loading `rich.console`; to standard output by default."""
    # Looked up at each call: whoever captures output replaces it.
    stream = stream or sys.stdout
    width = _terminal_width(stream)
    shown = plain(text, lines=True)
    if width:
        shown = wrapped(text, width)
    print(shown, file=stream, flush=True)


def _terminal_width(stream: TextIO) -> int:
    """Columns of the terminal that a stream writes to; 0 for a file or a pipe, and where nobody knows."""
    try:
        if stream.isatty():
            return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        pass
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
        # orjson refuses half a character instead of replacing it.
        text = orjson.dumps(_encodable(value), option=orjson.OPT_INDENT_2)
    typer.echo(text)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(entry) for entry in value]
    return value


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
        # A full disk behind `> file` is exit code 75, as for every file.
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
    if text.isprintable():
        return text
    characters: list[str] = []
    for character in text:
        if character.isprintable() or (lines and character == "\n"):
            characters.append(character)
        elif category(character) == "Zs":  # a space of another width or script
            characters.append(" ")
        else:
            characters.append(mark)
    return "".join(characters)


_HARMLESS: Final = frozenset("\n\t\u200c\u200d")
"""Line breaks, tabs, and the joiners that some scripts and emoji are written with."""


def visible(text: str) -> str:
    """Make invisible characters visible: [U+001B] for a control character, and so on.

    Nothing is hidden then, and nothing changes the direction of the text that follows. Variation selectors and spaces
    stay.
    """
    if text.isprintable():
        return text
    characters: list[str] = []
    for character in text:
        if character.isprintable() or character in _HARMLESS:
            characters.append(character)
        else:
            characters.append(_code_point(character))
    return "".join(characters)


def _code_point(character: str) -> str:
    kind = category(character)
    if kind == "Zs":
        return character
    if kind == "Cs":  # half a character: UTF-8 cannot hold it
        return "�"
    return f"[U+{ord(character):04X}]"


def counted(n: int, noun: str) -> str:
    """Format `1 pair`, `2 pairs`, `1,250 pairs`: a number with its noun, whose plural ends in -s."""
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {noun}s"


def dollars(priced: float, unpriced: int) -> str:
    """Format `$1.20`, `$1.20 + unknown (2 models without price or usage)`, or `unknown (...)` where nothing is known."""
    cost = f"${priced:,.2f}"
    # The cost of a short trial would be printed as $0.00.
    if 0 < priced < 0.1:
        cost = f"${priced:.4f}"
    if not unpriced:
        return cost
    unknown = f"unknown ({counted(unpriced, 'model')} without price or usage)"
    if not priced:
        return unknown
    return f"{cost} + {unknown}"


def duration(seconds: float) -> str:
    """Format seconds: `0:07`, `12:30`, `3:05:00`."""
    all_minutes, seconds_past = divmod(round(seconds), 60)
    hours, minutes = divmod(all_minutes, 60)
    if not hours:
        return f"{minutes}:{seconds_past:02d}"
    return f"{hours}:{minutes:02d}:{seconds_past:02d}"
