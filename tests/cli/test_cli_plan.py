"""`cts plan`: no key, nothing started, nothing written; and afterwards, planned beside actual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fake_provider import Remote
from made_clariq import REWORDED, clariq_file
from test_cli_budget import CALLS, RUN, cts, one_line

from cts_async.datasets import sample_dir

ASKED = [option for option in RUN[1:] if option != "-q"]
"""The options of a run. The fake agent searches once and answers: two turns."""


def plan(cwd: Path, *options: str) -> dict[str, Any]:
    done = cts(cwd, "plan", *ASKED, "--max-turns", "2", "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(cwd: Path, *options: str) -> Any:
    return cts(cwd, *RUN, "--max-turns", "2", *options)


def test_a_plan_needs_no_key_asks_nobody_and_writes_nothing(priced: Remote, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = cts(tmp_path, "plan", "--model", "gpt", "-k", "3")
    assert done.returncode == 0, done.stderr
    for account in ("gpt", "ernie", "webdancer"):
        assert account in done.stdout
    assert plan(tmp_path)["total"]["calls"] == CALLS
    assert sorted(tmp_path.rglob("*")) == before
    assert priced.seen() == []


def test_a_plan_is_kept_up_by_the_run_and_compared_at_its_end(priced: Remote, tmp_path: Path) -> None:
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


def test_a_plan_counts_the_turns_of_conversations(priced: Remote, tmp_path: Path) -> None:
    modes = ("--scheme", "AT-CoT", "--mode", "respond", "--mode", "select")
    value = plan(tmp_path, *modes, "-k", "2", "--limit", "3", "--no-orig")
    steps = {(row["system"], row["step"]): row["steps"] for row in value["steps"]}
    respond, select = "fake-at-cot-respond-k2", "fake-at-cot-select-k2"
    assert {key: n for key, n in steps.items() if key[1] not in ("search", "judge")} == {
        (respond, "clarify"): 6,
        (respond, "answer"): 6,
        (respond, "reformulate"): 3,
        (select, "clarify"): 6,
        (select, "select"): 6,
    }


def test_a_plan_warns_of_a_budget_that_is_too_small(priced: Remote, tmp_path: Path) -> None:
    done = cts(tmp_path, "plan", *ASKED, "--max-turns", "2", "--max-calls", "20")
    assert "--max-calls 20 is less than the expected 21" in done.stdout


def test_a_plan_refuses_what_the_run_would_refuse(priced: Remote, tmp_path: Path) -> None:
    assert run(tmp_path, "--max-calls", "1").returncode == 75
    done = cts(tmp_path, "plan", *ASKED, "--max-turns", "9")
    assert done.returncode == 2
    assert "agent.max_turns was 2, now 9" in one_line(done)
