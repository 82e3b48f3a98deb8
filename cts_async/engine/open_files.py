"""How many files a process may have open, connections among them: most systems begin with few and allow many."""

from __future__ import annotations

import resource


def allow_more_files(n: int) -> None:
    """Let the process have `n` files more open than it might until now, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = soft + n if hard == resource.RLIM_INFINITY else min(soft + n, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
