"""How the package starts Python programs of its own: isolated from the current folder, and without any key.

`python -m module` puts the current folder first on the module path, so an `argparse.py` in a folder that somebody
else made would be executed. `-P` (Python 3.11) leaves that entry out, and the child's `PYTHONPATH` is this process's
module path without relative entries, which mean the current folder too.

How many files a process may have open, connections among them: most systems begin with few and allow many.

Python's garbage collector, set for processes that do nothing but calls.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Mapping
from typing import Final

from cts_async.errors import UsageError

PASSED_ON: Final = (
    *("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT"),  # to find programs and shared libraries
    *("HOME", "TMPDIR", "TEMP", "TMP"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ"),
)
"""The only variables of this process that a child gets; none of them holds a key."""


def python_command(*arguments: str) -> list[str]:
    """Command line of this interpreter for `-m MODULE ...` or `SCRIPT ...`, with safe module path."""
    return [sys.executable, "-P", *arguments]


def child_environment(*names: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The least environment for a child process: PASSED_ON, the variables in `names`, and where modules are."""
    source = os.environ if environ is None else environ
    kept = {name: source[name] for name in (*PASSED_ON, *names) if name in source}
    modules = os.pathsep.join(entry for entry in sys.path if os.path.isabs(entry))
    return {**kept, "PYTHONPATH": modules, "PYTHONSAFEPATH": "1", "PYTHONUTF8": "1"}


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


GC_EVERY: Final = 20_000
"""New objects after which Python looks for cycles among the youngest; its default is 700."""


def collect_seldom() -> None:
    """To be called when everything is loaded, before work begins.

    What is loaded by now stays, and what a call leaves behind is freed without the collector: looking for cycles as
    often as Python does by default would cost a sixth of all time.
    """
    gc.freeze()
    gc.set_threshold(GC_EVERY)
