"""Runs of earlier versions (tests/golden, made by golden_world): read, resumed and repeated by this version.

What 0.7.0 printed and wrote is in its archive: results, journals, summaries and JSON have to be the same, except for
times, paths, wording for people and the last digits of floats (golden_world.normalised).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Any

import numpy as np
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
    cts,
    done,
    normalised,
    snapshot,
    unpack,
    without_added,
    without_additions,
    working_in,
)

from cts_async.analysis import summary
from cts_async.analysis.diagnose import Diagnosis
from cts_async.protocol.versions import Reuse
from cts_async.runs import finished as runs
from cts_async.runs.manifest import manifest_of
from cts_async.tables import forecast as forecast_tables
from cts_async.tables import models as model_tables
from cts_async.tables.statistics import paper_tables
from cts_async.tables.table import DataTable

RETIRED = re.compile(r'"(?!agent|answer|clarify|judge|rewrite)\w+\.small\.(?:en|zh)": "[0-9a-f]{64}",$')
"""Prompts for small models that 0.7.0 shipped for the roles beyond those of a default run."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runs of 0.7.0, finished and half-finished, as the current folder; for tests that only read them."""
    folder = tmp_path_factory.mktemp("golden")
    with working_in(folder, "0.7.0"):
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


FAILED_LATER = re.compile(r',"k":\d+,"questions":.*?(?=,"error":\{)')
"""What a failed instance was asked and answered, in its line; 0.7.0 recorded its error alone."""


def check(found: Mapping[str, Sequence[str]], expected: Mapping[str, Sequence[str]]) -> None:
    """Compare lines by path, and show the first ones that differ."""
    assert sorted(found) == sorted(expected)
    for path, lines in expected.items():
        for line, right in zip(found[path], lines, strict=False):
            assert FAILED_LATER.sub("", line) == normalised(right), path
        assert len(found[path]) == len(lines), path


def of_answered(rate: Callable[[Any], float | None], lines: Any) -> float | None:
    """The rate over the lines without a failure."""
    asked, lines.asked = lines.asked, np.where(lines.failed, 0, lines.asked)
    unknown, lines.unknown = lines.unknown, np.where(lines.failed, 0, lines.unknown)
    try:
        return rate(lines)
    finally:
        lines.asked, lines.unknown = asked, unknown


def as_counted_before(patched: pytest.MonkeyPatch) -> None:
    """Leave instances that failed after they were answered out of tables and rates, as 0.7.0 did, and their column."""
    for module in (runs, summary):
        patched.setattr(module, "asked_in_journal", lambda journal, ids: {})
    for name in ("unknown_rate", "all_unknown_rate"):
        rate: Any = getattr(summary.ResultColumns, name)
        patched.setattr(summary.ResultColumns, name, property(partial(of_answered, rate.fget)))
    usual = paper_tables._progress

    def progress(diagnosis: Diagnosis) -> DataTable:
        table = usual(diagnosis)
        rows = [{name: row[name] for name in row if name != "failed_later"} for row in table.rows]
        columns = [column for column in table.columns if column.heading != "failed later"]
        return replace(table, rows=rows, columns=columns)

    patched.setattr(paper_tables, "_progress", progress)
    usual_forecast = forecast_tables.forecast_json

    def forecast(*values: Any) -> dict[str, Any]:
        """Without what is reused, and without the version of each run, which plans say since 0.14."""
        planned = usual_forecast(*values)
        for part in (planned["total"], *planned["systems"]):
            for name in ("reused", "run", "version", "changed", "changed_from"):
                part.pop(name, None)
        return planned

    patched.setattr(forecast_tables, "forecast_json", forecast)
    usual_model = model_tables.model_json

    def model(*values: Any) -> dict[str, Any]:
        """Without tiers and the prices of caches, which are known since 0.15."""
        row = usual_model(*values)
        row.pop("tiers", None)
        row["prices"] = {kind: row["prices"][kind] for kind in ("input", "output")}
        return row

    patched.setattr(model_tables, "model_json", model)


@pytest.mark.parametrize("name", READ)
def test_command_prints_and_writes_what_0_7_0_did(
    archive: Path, expected: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_counted_before(monkeypatch)
    before = expected["printed"][name]
    assert without_additions(done(name, *READ[name]), before) == before
    ours = f"tables/{name}"
    tables = {path: lines for path, lines in expected["tables"].items() if Path(path).is_relative_to(ours)}
    tables |= {path: lines for path, lines in expected["tables"].items() if path.startswith(f"{ours}.")}
    written = snapshot(*({ours} if Path(ours).is_dir() else tables))
    # A further statistic writes a further table.
    check({path: written[path] for path in written if path in tables or not path.endswith(".csv")}, tables)


def test_interrupted_runs_are_finished_as_0_7_0_finished_them(
    expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack("0.7.0", tmp_path)
    monkeypatch.chdir(tmp_path)
    as_counted_before(monkeypatch)
    for name, command in HALF.items():
        assert done(name, *command) == expected["printed"][name]
    check(snapshot(*RESUMED), expected["resumed"])


def test_same_commands_make_the_same_runs_as_0_7_0(
    expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 0.7.0 asked in each run again what another one had asked before.
    monkeypatch.setattr(Reuse, "origins", lambda self, except_for, events: None)
    unpack("0.7.0", tmp_path)
    monkeypatch.chdir(tmp_path)
    as_counted_before(monkeypatch)
    right = snapshot(*REPEATED)
    for made in REPEATED:
        shutil.rmtree(made) if Path(made).is_dir() else Path(made).unlink()
    for name, command in MADE.items():
        assert done(name, *command) == expected["printed"][name]
    check(snapshot(*REPEATED), {path: list(filterfalse(RETIRED.search, right[path])) for path in right})


def test_instances_that_failed_later_count_where_they_were_asked(archive: Path) -> None:
    """0.7.0: 13 instances in table 4, since the rewriting of the 14th, whose answer is unknown, was refused."""
    words, _ = READ["diagnose"]
    found = json.loads(cts(*words.replace("NAME", "later").split()).stdout)
    rows = {row["system"]: row for row in found["table_4"]}
    counted = {name: (row["n"], row["answers"], row["unknown"]) for name, row in rows.items()}
    assert counted["alpha-k1"] == (14, 14, 6 + 1)
    assert counted["beta-k1"] == (14, 14, 9 + 1)
    assert counted["alpha-k2"] == (14, 28, 13 + 2)
    assert rows["alpha-k1"]["ua_unknown_rate"] == 7 / 14
    progress = {row["system"]: row for row in found["runs"]}["alpha-k1"]
    stages = ("n", "failed", "missing", "failed_later", "scored")
    assert [progress[name] for name in stages] == [14, 0, 0, 1, 13]
    assert any("failed after being asked and answered" in note for note in found["notes"])


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
def test_run_begun_by_0_6_is_left_as_it_is_and_a_version_is_made_beside_it(older: None, name: str) -> None:
    """Its prompts were others."""
    typed, _ = (MADE | HALF)[name]
    before = {path: path.read_bytes() for path in Path("runs").rglob("*.jsonl")}
    result = cts(*typed.replace("--runs-dir half", "").split())
    assert result.exit_code in (0, 1)
    after = {path: path.read_bytes() for path in Path("runs").rglob("*.jsonl")}
    assert {path: after[path] for path in before} == before
    changes = {
        path.parent.name: manifest_of(path.parent).changed for path in Path("runs").glob("*.v2/run.json")
    }
    assert changes
    assert all(any(change.startswith("prompt") for change in changed) for changed in changes.values())
