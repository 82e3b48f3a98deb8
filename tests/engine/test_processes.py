"""Child processes, the limit of open files, and the garbage collector's setting."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cts_async
from cts_async.engine.processes import allow_more_files, child_environment, python_command

PACKAGE = Path(cts_async.__file__).parent
STARTERS = {
    *("Popen", "run", "call", "check_call", "check_output"),
    *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("execv", "execve", "posix_spawn", "spawnv", "system", "popen"),
}
OWNERS = {"subprocess", "asyncio", "os", "loop"}
START = re.compile(rf"\b(?:{'|'.join(OWNERS)})\s*\.\s*(?:{'|'.join(STARTERS)})\b")
"""Files without it need not be parsed."""


def starts() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the package that starts a program, with where it stands."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not START.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if (
                    owner in OWNERS
                    and name in STARTERS
                    and (owner, name) not in {("asyncio", "run"), ("anyio", "run")}
                ):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def test_every_child_process_gets_the_least_environment() -> None:
    found = list(starts())
    assert len(found) >= 3
    for where, call in found:
        environ = [ast.unparse(word.value) for word in call.keywords if word.arg == "env"]
        assert environ, f"{where}: starts a program with all of this process's environment"
        assert environ[0].startswith("child_environment("), where


def test_only_one_module_names_the_interpreter() -> None:
    naming = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "sys.executable" in path.read_text(encoding="utf-8")
    ]
    assert naming == ["engine/processes.py"]


def test_child_environment_passes_on_named_variables_and_no_key() -> None:
    environ = {"PATH": "/bin", "OPENAI_API_KEY": "sk-1", "RAY_AUTH_TOKEN": "t", "LANG": "C.UTF-8"}
    kept = child_environment("RAY_AUTH_TOKEN", environ=environ)
    assert {name: kept.get(name) for name in environ} == {**environ, "OPENAI_API_KEY": None}


def test_child_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the current folder')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # as an interactive Python has it
    code = "import json, sys; print(json.__file__)"
    done = subprocess.run(
        python_command("-c", code), env=child_environment(), capture_output=True, text=True, check=True
    )
    assert str(tmp_path) not in done.stdout


OURS = str(Path(cts_async.__file__).parents[1])
SCRIPT = """
import resource
from cts_async.engine.processes import allow_more_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 160))
for n in (0, 50, 50):
    allow_more_files(n)
    print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_file_limit_is_raised_where_an_unlimited_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: 256 + 20,000 are more than its kernel allows, though the hard limit says "unlimited"."""
    limits = [(256, resource.RLIM_INFINITY)]

    def set_limit(kind: int, limit: tuple[int, int]) -> None:
        if limit[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(limit)

    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    allow_more_files(20_000)
    allow_more_files(0)
    assert [soft for soft, _ in limits] == [256, 10_240, 10_240]


def test_file_limit_is_raised_up_to_the_hard_limit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={"PYTHONPATH": OURS}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["(100, 160)", "(150, 160)", "(160, 160)"]
