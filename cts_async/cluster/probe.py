"""Whether a worker shares the head's storage: the head leaves a token in its directory, and the worker looks for it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from cts_async.engine.shards import PROBE
from cts_async.safe_files import replace_file


def write_probe(directory: Path) -> str:
    """Leave a fresh token in a directory of the head's, for `sees_probe`; give it. Raises UsageError, StorageFull."""
    token = secrets.token_hex(16)
    replace_file(directory / PROBE, token.encode(), sync=False)
    return token


def remove_probe(directory: Path) -> None:
    """Remove the token; one that is left by a crash harms nobody."""
    with suppress(OSError):
        (directory / PROBE).unlink()


def sees_probe(directory: Path, token: str) -> bool:
    """Whether what the head writes into its directory can be read here under the same name, and written to."""
    try:
        return (directory / PROBE).read_text() == token and os.access(directory, os.W_OK | os.X_OK)
    except (OSError, UnicodeDecodeError):
        return False
