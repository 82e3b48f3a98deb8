"""Standard output: JSON on it, characters that it has not, and what to do once it takes no more."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import typer


def print_json(value: Any) -> None:
    """Print what orjson can write, indented, in UTF-8 whatever the terminal's encoding is: JSON has no other.

    Text that UTF-8 cannot hold, such as a file's name in another encoding, has "?" for what it cannot.
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


def tolerate_encodings() -> None:
    """Print "?" for a character that standard output's encoding has not, where Python would end in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def abandon_stdout() -> None:
    """Drop what is still buffered, which would fail once more, with a traceback, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
