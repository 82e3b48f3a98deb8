"""The Makefile: what each target installs, and that variables which nothing reads are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BASELINE = ".venv/bin/cts run --all baseline -k 1 -k 2 -k 3 --gold-query"
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone in which nothing is installed."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "requirements.lock", "requirements-run.lock"):
        (tmp_path / name).touch()
    return tmp_path


def make(folder: Path, *words: str) -> tuple[list[str], str]:
    """The commands that make would run, and what it says on standard error."""
    done = run_make(folder, "--no-print-directory", "-n", *words)
    return done.stdout.splitlines(), done.stderr


def run_make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make, without what a make that runs the tests leaves in the environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *words], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def installed_lists(commands: list[str]) -> list[str]:
    """The files that pip would install from, but for the build tools."""
    lists = [command.rpartition(" -r ")[2] for command in commands if " -r " in command]
    return [name for name in lists if name != ".venv/build.lock"]


def test_run_installs_the_run_lock_only_and_then_plays_the_baseline(folder: Path) -> None:
    commands, _ = make(folder, "run")
    assert installed_lists(commands) == ["requirements-run.lock"]
    assert commands[-2:] == ["touch .venv/.installed-run", BASELINE]


def test_nothing_is_installed_twice(folder: Path) -> None:
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("bin/python", ".installed-run", ".installed-local", ".installed"):
        (folder / ".venv" / name).touch()
    assert make(folder, "run")[0] == [BASELINE]
    assert make(folder, "smoke")[0] == [".venv/bin/cts run "]
    assert make(folder, "setup")[0] == ["make: Nothing to be done for 'setup'."]
    # After `make run` the tests' packages are added to the same environment.
    (folder / ".venv/.installed").unlink()
    commands, _ = make(folder, "setup")
    assert installed_lists(commands) == ["requirements.lock"]
    assert not any("-m venv" in command for command in commands)
    assert commands[-1] == "touch .venv/.installed-run .venv/.installed-local .venv/.installed"


@pytest.mark.parametrize("words", [("smoke",), ("run", "MODEL=local"), ("plan", "MODEL=gpt local", "k=1 3")])
def test_embedded_model_is_installed_where_it_plays(folder: Path, words: tuple[str, ...]) -> None:
    commands, _ = make(folder, *words)
    assert installed_lists(commands) == ["requirements-run.lock", ".venv/local.lock"]


def test_variables_become_options(folder: Path) -> None:
    commands, _ = make(folder, "run", "MODEL=gpt claude", "k=1 3", "ARGS=--limit 5 --max-usd 2")
    options = "--model gpt --model claude -k 1 -k 3 --limit 5 --max-usd 2"
    assert commands[-1] == f".venv/bin/cts run {options}"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("run", "K=3"), "K=3: unknown variable; use k=3"),
        (("run", "MODEL=gpt", "k=1", "K=3"), "K=3: unknown variable; use k=3"),
        (("plan", "model=gpt"), "model=gpt: unknown variable; use MODEL=gpt"),
        (
            ("run", "limit=5"),
            "limit=5: unknown variable; use MODEL=..., k=... or, for other options of cts, "
            'ARGS="--OPTION VALUE"',
        ),
        (("smoke", "k=3"), 'k=3: only `make run` and `make plan` take it; use ARGS="..."'),
        (("test", "MODEL=gpt"), 'MODEL=gpt: only `make run` and `make plan` take it; use ARGS="..."'),
    ],
)
def test_variable_that_nothing_reads_is_refused_in_one_line(
    folder: Path, words: tuple[str, ...], problem: str
) -> None:
    commands, said = make(folder, *words)
    assert commands == []
    line, rest = said.split("*** ", 1)
    assert line.startswith("Makefile:")
    assert rest == f"{problem}.  Stop.\n"


def test_python_that_is_too_old_is_refused_by_its_version(folder: Path) -> None:
    old = folder / "old-python"
    # Stands for an old one: the check sees this version.
    old.write_text('#!/bin/sh\nshift\nexec python3 -c "import sys; sys.version_info = (3, 10); $1"\n')
    old.chmod(0o755)
    done = run_make(folder, "run", f"PYTHON={old}")
    assert done.returncode == 2
    assert done.stderr.startswith("Python 3.11 or newer is needed, and this is 3.")
    assert not (folder / ".venv").exists()
