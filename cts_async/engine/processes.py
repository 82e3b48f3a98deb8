"""Processes: children isolated from the current folder and without keys, their end, open files, garbage collection.

`python -m module` puts the current folder first on the module path, so an `argparse.py` in an untrusted folder would
be executed. `-P` (Python 3.11) leaves that entry out, and the child's `PYTHONPATH` is this process's module path
without relative entries, which would mean the current folder too.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from cts_async.errors import MORE_FILES, TOO_MANY_FILES, UsageError

IS_COMMAND: Final = ContextVar("is_command", default=False)
"""Whether this process is a command's own. A script's or a notebook's is the user's, and is never ended."""

PASSED_ON: Final = frozenset(
    # To find programs and shared libraries.
    ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
    # Where files may be written.
    + ("HOME", "TMPDIR", "TEMP", "TMP")
    + ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
)
"""The only environment variables that a child gets; none of them holds a key."""


def python_command(*arguments: str) -> list[str]:
    """Command line of this interpreter for `-m MODULE ...` or `SCRIPT ...`, with safe module path."""
    return [sys.executable, "-P", *arguments]


def child_environment(
    *names: str,
    environ: Mapping[str, str] | None = None,
    our_modules: bool = True,
    added: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """A minimal environment for a child process: PASSED_ON, the variables in `names`, `added` and our module path.

    A program that is not ours gets no module path: a script finds its neighbours, another Python its packages.
    """
    if environ is None:
        environ = os.environ
    passed = {name: value for name, value in environ.items() if name in PASSED_ON or name in names}
    if added is not None:
        passed.update(added)
    if our_modules:
        passed["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if os.path.isabs(entry))
        passed["PYTHONSAFEPATH"] = "1"
        passed["PYTHONUTF8"] = "1"
    return passed


MARK: Final = "CTS_COMMAND_MARK"
"""The variable that a command's processes inherit, each life of it with a value of its own."""
_ROUNDS: Final = 5
"""Scans for marked processes: one that is found may have started another just before it was killed."""


def kill_marked(mark: str) -> None:
    """Kill every process of this user that has `mark` in its environment, also in a session of its own.

    A group or session is not enough: its members may leave it (setsid), and their parents may be gone. On systems
    without Linux's /proc nothing is found.
    """
    needle = f"{MARK}={mark}".encode()
    # Bounded: a process that starts others for ever must not hold this one up.
    for _ in range(_ROUNDS):
        n_killed = 0
        for pid in _process_ids():
            n_killed += _kill_if_marked(pid, needle)
        if not n_killed:
            return


def _process_ids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _kill_if_marked(pid: int, needle: bytes) -> bool:
    """Kill a process if its environment has the variable; a descriptor keeps its number from meaning another one."""
    with suppress(OSError, AttributeError):  # gone, another user's, or no pidfd on this system
        fd = os.pidfd_open(pid)
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if pid != os.getpid() and needle in variables:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                return True
        finally:
            os.close(fd)
    return False


LEAST: Final = 64
"""Open files that a run needs: measured, a run of two systems on the embedded model fails to start below 34."""
SPARE: Final = 16
"""Open files that connections leave free, for the run's own: results, progress, name look-ups, child processes."""
OPEN_MAX: Final = 10_240
"""Open files that every macOS allows a process: OPEN_MAX of its syslimits.h."""


def allow_more_files(n: int) -> None:
    """Raise the process's limit of open files by `n`, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        raised = soft + n
        if hard != resource.RLIM_INFINITY:
            raised = min(raised, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (ValueError, OSError):
            # macOS says "unlimited" and refuses more than the kernel's own limit, which is never below OPEN_MAX.
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(raised, OPEN_MAX)), hard))


def require_open_files() -> None:
    """Make sure that this process may have `LEAST` files open; UsageError where the system does not allow it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        allow_more_files(LEAST - soft)
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed < LEAST:
            raise UsageError(f"only {allowed} files may be open, and {LEAST} are needed: {MORE_FILES}")


def open_files_limit() -> str:
    """The limit of open files, as a user knows it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return "unlimited"
    return str(soft)


def is_spare(descriptor: int) -> bool:
    """True if a descriptor is one of the last `SPARE`: the system gives out the lowest that is free."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and descriptor >= soft - SPARE


def may_open_more() -> bool:
    """True if this process can open another file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in TOO_MANY_FILES
    return True


GC_EVERY: Final = 20_000
"""New objects after which Python looks for cycles among the youngest; its default is 700."""


def collect_seldom() -> None:
    """Make garbage collection rare; called when everything is loaded, before work begins.

    Loaded modules stay, and what a call leaves behind has no cycles: searching for them as often as Python does by
    default takes a sixth of all CPU time (measured).
    """
    gc.freeze()
    gc.set_threshold(GC_EVERY)
