"""Budgets and plans: `--max-usd`, `--max-tokens`, `--max-calls` and `--deadline` stop a run, `cts plan` foresees it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from fake_provider import Remote
from made_clariq import REWORDED, clariq_file
from typed_commands import cts_in

from cts_async.datasets import sample_dir

RUN = ("run", "--all", "fake", "-k", "2", "--limit", "3", "--no-orig", "-q")
CALLS = 3 * (1 + 2 + 1 + 2 + 1)
"""Clarifier, two answers, rewriter, two turns of the agent and the judge, for each of three instances."""


def cts(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return cts_in(folder, *words, COLUMNS="200")


def summary(cwd: Path, name: str = "sample-fake-k2+all-fake") -> dict[str, Any]:
    return json.loads((cwd / "runs" / name / "summary.json").read_text())


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_run_stops_before_its_limit_of_calls_and_resumes_with_a_higher_one(
    priced: Remote, tmp_path: Path
) -> None:
    done = cts(tmp_path, *RUN, "--max-calls", "10")
    assert done.returncode == 75
    said = one_line(done)
    assert "10 of --max-calls 10" in said
    assert "a higher --max-calls resumes" in said
    assert len(priced.seen()) == 10
    assert summary(tmp_path)["calls"] == 10
    manifest = json.loads((tmp_path / "runs" / "sample-fake-k2+all-fake" / "run.json").read_text())
    assert "10 of --max-calls 10" in manifest["sessions"][-1]["stopped"]
    # The same command again spends nothing more: what earlier sessions spent counts.
    assert cts(tmp_path, *RUN, "--max-calls", "10").returncode == 75
    assert len(priced.seen()) == 10
    done = cts(tmp_path, *RUN, "--max-calls", str(CALLS))
    assert done.returncode == 0, done.stderr
    assert len(priced.seen()) == CALLS
    # A finished run needs no budget.
    assert cts(tmp_path, *RUN, "--max-calls", "0").returncode == 0


def test_dollars_and_tokens_stay_below_their_limits(priced: Remote, tmp_path: Path) -> None:
    done = cts(tmp_path, *RUN, "--max-usd", "0.015")
    assert done.returncode == 75
    assert "--max-usd $0.015" in one_line(done)
    spent = summary(tmp_path)["cost_usd"]
    # The whole costs some $0.0195. A call reserves 500 tokens of reply and some 1,500 of prompt: below $0.007.
    assert 0.008 < spent <= 0.015
    used = sum(summary(tmp_path)["tokens"]["fake-1"].values())
    done = cts(tmp_path, *RUN, "--max-tokens", str(used + 3000))
    assert done.returncode == 75
    assert f"--max-tokens {used + 3000:,}" in one_line(done)
    assert used <= sum(summary(tmp_path)["tokens"]["fake-1"].values()) <= used + 3000


def test_systems_of_one_command_share_one_budget(priced: Remote, tmp_path: Path) -> None:
    command = [option for option in RUN if option != "--no-orig"]
    assert cts(tmp_path, *command, "--max-calls", "12").returncode == 75
    assert len(priced.seen()) == 12
    assert summary(tmp_path)["calls"] + summary(tmp_path, "sample-orig+all-fake")["calls"] == 12
    assert cts(tmp_path, *command, "--max-calls", "12").returncode == 75
    assert len(priced.seen()) == 12


def test_dollars_without_prices_are_refused_before_anything_starts(priced: Remote, tmp_path: Path) -> None:
    done = cts(tmp_path, "run", "--all", "unpriced", "--max-usd", "1")
    assert done.returncode == 2
    said = one_line(done)
    assert "unpriced" in said
    assert "input_usd_per_mtok and output_usd_per_mtok" in said
    assert not (tmp_path / "runs").exists()
    assert cts(tmp_path, "run", "--all", "unpriced", "--max-calls", "3", "-q").returncode == 75


def test_run_ends_at_the_deadline_and_resumes(priced: Remote, tmp_path: Path) -> None:
    priced.set(latency_s=30.0)
    done = cts(tmp_path, *RUN, "--deadline", "2s")
    assert done.returncode == 75
    assert "the deadline" in one_line(done)
    assert "a later --deadline resumes" in done.stderr
    priced.set(latency_s=0.0)
    done = cts(tmp_path, *RUN, "--deadline", "50s")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path)["n_scored"] == 3


def test_judging_has_a_budget_of_its_own(priced: Remote, tmp_path: Path) -> None:
    assert cts(tmp_path, *RUN, "--no-judge").returncode == 0
    judging = ("judge", "runs/sample-fake-k2+all-fake", "--judge", "fake", "-q", "--max-calls")
    before = len(priced.seen())
    # The run's own 18 calls do not count: the command is another one.
    done = cts(tmp_path, *judging, "2")
    assert done.returncode == 75
    assert "2 of --max-calls 2" in one_line(done)
    assert len(priced.seen()) == before + 2
    assert cts(tmp_path, *judging, "2").returncode == 75
    assert cts(tmp_path, *judging, "3").returncode == 0
    assert len(priced.seen()) == before + 3


ASKED = [option for option in RUN[1:] if option != "-q"]
"""The options of a run. The fake agent searches once and answers: two turns."""


def plan(cwd: Path, *options: str) -> dict[str, Any]:
    done = cts(cwd, "plan", *ASKED, "--max-turns", "2", "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(cwd: Path, *options: str) -> Any:
    return cts(cwd, *RUN, "--max-turns", "2", *options)


def test_plan_needs_no_key_sends_nothing_and_writes_nothing(priced: Remote, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = cts(tmp_path, "plan", "--model", "gpt", "-k", "3")
    assert done.returncode == 0, done.stderr
    for account in ("gpt", "ernie", "webdancer"):
        assert account in done.stdout
    assert plan(tmp_path)["total"]["calls"] == CALLS
    assert sorted(tmp_path.rglob("*")) == before
    assert priced.seen() == []


def test_plan_subtracts_finished_work_and_is_compared_at_the_end(priced: Remote, tmp_path: Path) -> None:
    assert run(tmp_path, "--max-calls", "10").returncode == 75
    value = plan(tmp_path)
    assert (value["spent"]["calls"], value["total"]["calls"]) == (10, CALLS - 10)
    assert value["planned"] is None
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Planned: ")]
    assert line.startswith(f"Planned: {CALLS} calls, ")
    assert f"Took: {CALLS} calls, " in line
    value = plan(tmp_path)
    assert value["total"]["calls"] == 0
    assert (value["planned"]["calls"], value["actual"]["calls"]) == (CALLS, CALLS)
    summary = json.loads((tmp_path / "runs" / "sample-fake-k2+all-fake" / "summary.json").read_text())
    assert abs(value["actual"]["cost_usd"] - summary["cost_usd"]) < 1e-6
    # More instances of the same run: what it showed is what they are expected to take.
    more = plan(tmp_path, "--limit", "5")
    assert {step["observed_steps"] > 0 for step in more["steps"]} == {True}
    assert more["total"]["calls"] == CALLS // 3 * 2


def test_plan_and_run_note_once_how_the_data_were_read(priced: Remote, tmp_path: Path) -> None:
    tsv = clariq_file(tmp_path / "test_with_labels.tsv", REWORDED)
    words = ("--data", f"clariq:{tsv}", "--corpus", str(sample_dir() / "corpus.jsonl"), "--no-judge")
    for command in ("plan", "run"):
        done = cts(tmp_path, command, "--all", "fake", "-k", "1", "--no-orig", "--max-turns", "2", *words)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(f"note: {tsv}:6: topic '7' has a second request text") == 1


def test_plan_warns_of_a_small_budget(priced: Remote, tmp_path: Path) -> None:
    done = cts(tmp_path, "plan", *ASKED, "--max-turns", "2", "--max-calls", "20")
    assert "--max-calls 20 is less than the expected 21" in done.stdout
    assert run(tmp_path, "--max-calls", "1").returncode == 75
    # With other settings it is the plan of another version.
    assert cts(tmp_path, "plan", *ASKED, "--max-turns", "9").returncode == 0
