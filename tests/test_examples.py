"""What tests/examples adds, one file each, put into a copy of the package: its checks have to stay green.

A contributor adds a file and its test, and edits nothing else. So no test may list by hand what can be added, and no
golden may say which tables there are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "tests" / "examples"
COPIED = ("cts_async", "tests", "data", "docs", "prompts")
GOLDEN_COMMANDS = ("diagnose", "report", "data-list", "models")
TESTS = [str(path.relative_to(EXAMPLES)) for path in sorted((EXAMPLES / "tests").rglob("test_*.py"))]
"""The tests of the examples themselves."""
SUITES = (
    *TESTS,
    *("tests/test_layering.py", "tests/test_plugins.py", "tests/datasets/test_kinds.py"),
    *("tests/cli/test_cli_data.py", "tests/cli/test_cli_models.py", "tests/llm/test_catalog.py"),
    "tests/tables/test_diagnosis.py",
    *(
        f"tests/test_golden_runs.py::test_command_prints_and_writes_what_0_7_0_did[{command}]"
        for command in GOLDEN_COMMANDS
    ),
)
"""What tests the examples, and the suites that see what has been added: in one process, as each imports everything."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with its tests and every example in its place."""
    folder = tmp_path_factory.mktemp("copy")
    # Bytecode goes along: the times of its sources are copied, and compiling all again takes five seconds.
    unneeded = shutil.ignore_patterns("examples")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=unneeded)
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in (".toml", ".md", ".lock"):
            shutil.copy2(path, folder)
    if (ROOT / ".mypy_cache").is_dir():  # with it mypy reads the new files alone
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
    for path in EXAMPLES.rglob("*.py"):
        target = folder / path.relative_to(EXAMPLES)
        assert not target.exists(), f"{target.relative_to(folder)} is there already: an example is a new file"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return folder


def python(copy: Path, *words: str) -> None:
    """Run a module of Python with the copy in the place of the package; its output is the failure's message."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(
        command,
        cwd=copy,
        env={**environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_examples_are_typed_as_the_package_is(copy: Path) -> None:
    python(copy, "mypy")


def test_examples_pass_their_tests_and_break_no_other(copy: Path) -> None:
    assert TESTS
    python(copy, "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *SUITES)
