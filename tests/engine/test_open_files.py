"""The limit on open files grows by what is needed, up to what the system allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cts_async

OURS = str(Path(cts_async.__file__).parents[1])
SCRIPT = """
import resource
from cts_async.engine.processes import allow_more_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 160))
for n in (0, 50, 50):
    allow_more_files(n)
    print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_more_files_are_allowed_as_far_as_the_system_lets_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={"PYTHONPATH": OURS}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["(100, 160)", "(150, 160)", "(160, 160)"]
