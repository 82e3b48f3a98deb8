"""Where the command `cts` begins: Ctrl-C while the commands are still being imported is one line, too."""

from __future__ import annotations

import sys

from cts_async.errors import EXIT_RESUMABLE


def start() -> None:
    """Import the commands and run one."""
    try:
        from cts_async.cli.main import main
    except KeyboardInterrupt:
        print("cts: interrupted before anything began", file=sys.stderr)
        sys.exit(EXIT_RESUMABLE)
    main()
