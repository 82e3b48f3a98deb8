"""What every test may use."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

# A busy machine is no failure: neither one slow example nor slow drawing. Examples differ from run to run, so 30 a law
# make as many within a few runs; where a run decides alone (CI), and on request, each has 100.
for profile, n_examples in {"suite": 30, "thorough": 100}.items():
    settings.register_profile(
        profile, deadline=None, max_examples=n_examples, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("thorough" if os.environ.get("CI") else "suite")
)

sys.path.insert(0, str(Path(__file__).parent))

# nohup, and a shell that starts something in the background, ignore these, and children would inherit that.
for ignored in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)

# Each call of the app would build all commands again, for a third of the CPU time of the tests of commands.
typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)

# Each command reads the shipped catalogues again; a copy of what was read costs a fortieth of reading it.
_read_toml = tomllib.loads
_pickled_toml = cache(lambda text, **options: pickle.dumps(_read_toml(text, **options)))
tomllib.loads = lambda text, **options: pickle.loads(_pickled_toml(text, **options))

# As each command has it (see `cli.main`): threads that wait for the next product of small matrices take CPU time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# In memory, where there is room for all that tests write: on a disk (ext4) each file that is made where others have just
# been deleted is looked for among their places, for an eighth of the CPU time of tests that write runs.
MEMORY = "/dev/shm"
ROOM = 4 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# Not the cts.toml of whoever runs the tests, nor what they consented to.
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir(), f"cts-tests-{os.getuid()}"))

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data beside the repository; the test skips where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no real data at {SHARED_DATA}")
    return SHARED_DATA


collect_ignore = ["examples"]
"""Files for a copy of the package (see test_examples)."""

LONGEST = (
    "test_ray_sessions.py",
    "test_agent_library.py",
    "test_cli_run.py",
    "test_crash.py",
    "test_known_world.py",
    "test_wheel.py",
    "test_documents.py",
    "test_lines_in_any_order.py",
    "test_examples.py",  # at the end: by then `make lint` beside it has left the cache that its mypy takes
)
"""Files with a test or a setup that takes ten seconds."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give one process the tests in a browser to begin with, and the next one the longest.

    A long test that began last would be waited for by a single process. What a process begins with no other takes from
    it: each that had one of the tests in a browser would start a Chromium and a `cts view` of its own.
    """
    in_browser, longest, others = [], [], []
    for item in items:
        if item.path.parent.name == "browser":
            in_browser.append(item)
        elif item.path.name in LONGEST:
            longest.append(item)
        else:
            others.append(item)
    longest.sort(key=lambda item: LONGEST.index(item.path.name))
    n_processes = getattr(config, "workerinput", {}).get("workercount", 1)
    n_before_longest = 0
    if n_processes > 1:
        # xdist deals the list in equal parts, of which the second begins here.
        n_before_longest = max(0, len(items) // n_processes - len(in_browser))
    items[:] = [*in_browser, *others[:n_before_longest], *longest, *others[n_before_longest:]]


# Importing and collecting make objects that stay: the search for cycles among them takes a second of each process.
gc.disable()


def pytest_collection_finish() -> None:
    """Search for cycles among what tests make, and there as seldom as commands do: a tenth of the CPU time otherwise."""
    from cts_async.engine.processes import collect_seldom

    gc.enable()
    collect_seldom()
    # A command run in this process would freeze what tests have left, so that it never were collected.
    gc.freeze = lambda: None


ALONE = "CTS_TEST_ALONE"


def _no_fork() -> int:
    raise RuntimeError("a test that forks is to be marked `alone`")


# No audit hook: it would be called for each file that is opened and each field of a frozen dataclass that is set.
if ALONE not in os.environ:
    os.fork = _no_fork


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that forks (mark `alone`) in a fresh process: of threads that others left here a fork may hang."""
    if pyfuncitem.get_closest_marker("alone") is None or ALONE in os.environ:
        return None
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", pyfuncitem.nodeid]
    done = subprocess.run(
        command,
        cwd=pyfuncitem.config.rootpath,
        env={**environ, ALONE: "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return True
