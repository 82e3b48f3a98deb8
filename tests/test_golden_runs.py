"""Runs of earlier versions (tests/golden, made by golden_world): read, resumed and repeated by this version.

What 0.7.0 printed and wrote is in its archive: results, journals, summaries and JSON have to be the same, except for
times, paths, wording for people and the last digits of floats (golden_world.normalised).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from command_line import commands
from golden_world import (
    ADDED_FILES,
    GOLDEN,
    HALF,
    MADE,
    READ,
    REPEATED,
    RESUMED,
    clean_environment,
    cts,
    done,
    normalised,
    snapshot,
    unpack,
    without_added,
)

from cts_async.errors import UsageError

RETIRED = re.compile(r'"(?!agent|answer|clarify|judge|rewrite)\w+\.small\.(?:en|zh)": "[0-9a-f]{64}",$')
"""Prompts for small models that 0.7.0 shipped for the roles beyond those of a default run."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runs of 0.7.0, finished and half-finished, as the current folder; for tests that only read them."""
    folder = tmp_path_factory.mktemp("golden")
    with (
        patch.dict(os.environ, clean_environment(folder), clear=True),
        pytest.MonkeyPatch.context() as patched,
    ):
        unpack("0.7.0", folder)
        patched.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def expected(archive: Path) -> dict[str, Any]:
    """What 0.7.0 printed, and the tables and resumed runs that it wrote."""
    found: dict[str, Any] = json.loads((archive / "expected.json").read_text(encoding="utf-8"))
    printed = {name: without_added(Path("printed.json"), lines) for name, lines in found["printed"].items()}
    written = {
        part: {
            path: without_added(Path(path), lines)
            for path, lines in found[part].items()
            if Path(path).name not in ADDED_FILES
        }
        for part in ("tables", "resumed")
    }
    return {**found, "printed": printed, **written}


def check(found: Mapping[str, Sequence[str]], expected: Mapping[str, Sequence[str]]) -> None:
    """Compare lines by path, and show the first ones that differ."""
    assert sorted(found) == sorted(expected)
    for path, lines in expected.items():
        for line, right in zip(found[path], lines, strict=False):
            assert line == normalised(right), path
        assert len(found[path]) == len(lines), path


@pytest.mark.parametrize("name", READ)
def test_command_prints_and_writes_what_0_7_0_did(archive: Path, expected: dict[str, Any], name: str) -> None:
    assert done(name, *READ[name]) == expected["printed"][name]
    ours = f"tables/{name}"
    tables = {path: lines for path, lines in expected["tables"].items() if Path(path).is_relative_to(ours)}
    tables |= {path: lines for path, lines in expected["tables"].items() if path.startswith(f"{ours}.")}
    check(snapshot(*({ours} if Path(ours).is_dir() else tables)), tables)


def test_interrupted_runs_are_finished_as_0_7_0_finished_them(
    expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack("0.7.0", tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, command in HALF.items():
        assert done(name, *command) == expected["printed"][name]
    check(snapshot(*RESUMED), expected["resumed"])


def test_same_commands_make_the_same_runs_as_0_7_0(
    expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack("0.7.0", tmp_path)
    monkeypatch.chdir(tmp_path)
    right = snapshot(*REPEATED)
    for made in REPEATED:
        shutil.rmtree(made) if Path(made).is_dir() else Path(made).unlink()
    for name, command in MADE.items():
        assert done(name, *command) == expected["printed"][name]
    check(snapshot(*REPEATED), {path: list(filterfalse(RETIRED.search, right[path])) for path in right})


def test_repeated_commands_leave_finished_runs_as_they_are(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack("0.7.0", tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in Path().rglob("*.jsonl")}
    for name, command in MADE.items():
        done(name, *command)
    assert {path: path.read_bytes() for path in Path().rglob("*.jsonl")} == before


def test_no_command_option_or_default_is_gone() -> None:
    found = commands()
    for path, options in json.loads((GOLDEN / "commands.json").read_text()).items():
        assert {name: found.get(path, {}).get(name) for name in options} == options, path


# --- Version 0.6.0 -------------------------------------------------------------------------------------

MEANS = {"orig": 53.98, "alpha-k1": 78.02, "alpha-k2": 87.09, "alpha-k3": 90.93, "gold": 91.58}
"""What 0.6.0 printed, n = 14, and 13 where one instance failed."""


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack("0.6.0", tmp_path)
    monkeypatch.chdir(tmp_path)


def test_finished_runs_of_0_6_are_compared_as_0_6_did(older: None) -> None:
    compared = json.loads(cts("compare", "runs", "--json").stdout)
    (by_support,) = (one for one in compared["judges"] if one["judge"] == "support")
    means = {row["system"]: row["mean"] for row in by_support["leaderboard"]}
    assert {name: means[name] for name in MEANS} == pytest.approx(MEANS, abs=0.005)


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("compare runs", 0),
        ("diagnose runs", 0),
        ("report runs --tables tables", 0),
        ("audit runs/hard518-alpha-k2+all-support", 0),
        ("score runs/hard518-alpha-k2+all-support/results.jsonl", 1),
        ("status runs --once", 0),
        ("judge runs/hard518-alpha-k1+all-support --judge strict -q", 1),
    ],
)
def test_finished_run_of_0_6_is_read_by_every_command(older: None, typed: str, code: int) -> None:
    done("", typed, code)


@pytest.mark.parametrize("name", ["run", "run-half"])
def test_run_begun_by_0_6_is_refused_by_the_line_that_names_0_6(older: None, name: str) -> None:
    typed, _ = (MADE | HALF)[name]
    before = {path: path.read_bytes() for path in Path("runs").rglob("*.jsonl")}
    result = cts(*typed.replace("--runs-dir half", "").split())
    assert isinstance(result.exception, UsageError)
    assert "cts-async==0.6.0" in str(result.exception)
    assert {path: path.read_bytes() for path in Path("runs").rglob("*.jsonl")} == before
