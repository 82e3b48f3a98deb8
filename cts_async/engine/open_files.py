"""How many files a process may have open, connections among them: most systems begin with few and allow many."""

from __future__ import annotations

import resource
from typing import Final

from cts_async.errors import UsageError

LEAST: Final = 64
"""Below 34, a run of two systems on the embedded model was measured to fail while it starts."""
MORE_FILES: Final = "raise the limit (ulimit -n 1024) and type the same command again"


def allow_more_files(n: int) -> None:
    """Let the process have `n` files more open than it might until now, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = soft + n if hard == resource.RLIM_INFINITY else min(soft + n, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def require_open_files() -> None:
    """Make sure that this process can have `LEAST` files open; UsageError where the system does not let it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        allow_more_files(LEAST - soft)
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed < LEAST:
            raise UsageError(f"only {allowed} files may be open here, and {LEAST} are needed: {MORE_FILES}")
