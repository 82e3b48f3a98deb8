"""Where the command `cts` begins, which is also `python -m cts_async`."""

from __future__ import annotations

import sys

from cts_async.errors import EXIT_RESUMABLE


def start() -> None:
    """Import the commands, which takes long enough for a Ctrl-C, and run one."""
    try:
        from cts_async.cli.main import main
    except KeyboardInterrupt:
        print("cts: interrupted before anything was started", file=sys.stderr)
        sys.exit(EXIT_RESUMABLE)
    main()


if __name__ == "__main__":
    start()
