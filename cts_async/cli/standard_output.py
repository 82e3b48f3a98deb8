"""Standard output that takes no more: its reader is gone, or its disk is full."""

from __future__ import annotations

import os
import sys


def abandon_stdout() -> None:
    """Drop what is still buffered, which would fail once more, with a traceback, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
