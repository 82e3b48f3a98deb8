"""How the package starts Python programs of its own: isolated from the current folder, and without any key.

`python -m module` puts the current folder first on the module path, so an `argparse.py` in a folder that somebody
else made would be executed. `-P` (Python 3.11) leaves that entry out, and the child's `PYTHONPATH` is this process's
module path without relative entries, which mean the current folder too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

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
