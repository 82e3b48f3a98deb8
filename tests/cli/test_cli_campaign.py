"""Several Clarifiers and budgets in one command: one engine, shared limits, orig once, a directory each."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typed_commands import cts_in

N = 2
CAMPAIGN = (
    "run",
    *["-m", "ada", "-m", "bob", "-k", "1", "-k", "2", "-k", "3", "-q", "--json", "--limit"],
    str(N),
)
ROOT = Path(__file__).parents[2]
SYSTEMS = ["orig", "ada-k1", "ada-k2", "ada-k3", "bob-k1", "bob-k2", "bob-k3"]


def cts(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = cts_in(folder, *words)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def configure(cwd: Path, remote: Remote) -> None:
    """Two Clarifiers and everybody else at one account with three calls in flight."""
    tables = [
        f'[models.{name}]\nbase_url = "{remote.url}"\nmodel = "{name}-1"\naccount = "shared"\n'
        "max_concurrency = 3\n"
        for name in ("ada", "bob", "fixed", "other")
    ]
    roles = '[roles]\nsupport = "fixed"\njudge = "fixed"\nagent = "fixed"\n'
    (cwd / "cts.toml").write_text("".join(tables) + roles)


def test_campaign_runs_orig_once_within_the_shared_limit(tmp_path: Path) -> None:
    with provider_process(latency_s=0.01, unknown_share=0.5) as remote:
        configure(tmp_path, remote)
        rows = cts(tmp_path, *CAMPAIGN)
        stats = remote.stats()
    assert [row["system"] for row in rows] == SYSTEMS
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(
        f"sample-{s}" for s in SYSTEMS
    )
    # Two Clarifiers x (1 + k + 1 calls, two turns, one verdict) for k = 1, 2, 3; orig: two turns and a verdict.
    calls = N * (2 * sum(1 + k + 1 + 2 + 1 for k in (1, 2, 3)) + 3)
    assert sum(row["calls"] for row in rows) == stats["requests"] == calls
    assert stats["max_in_flight"] <= 3


def test_campaigns_with_other_fixed_roles_stand_side_by_side(tmp_path: Path) -> None:
    with provider_process() as remote:
        configure(tmp_path, remote)
        words = ("run", "-m", "ada", "--limit", "1", "-q", "--json")
        cts(tmp_path, *words)
        asked = remote.stats()["requests"]
        cts(tmp_path, *words, "--support", "other")
        # Another User Answerer and Rewriter concern the Clarifier's run only: orig is not searched again. And there only
        # what they do, since the question before it is the same, and so is the query that they make.
        assert remote.stats()["requests"] - asked == 1 + 1
        labels = [row["system"] for row in cts(tmp_path, *words, "--all", "other")]
    assert labels == ["orig", "ada-k1"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "sample-ada-k1",
        "sample-ada-k1+all-other",
        "sample-ada-k1+support-other",
        "sample-orig",
        "sample-orig+all-other",
    ]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_run_passes_every_model_and_budget_on() -> None:
    command = ["make", "-n", "run", "MODEL=gpt claude", "k=1 2 3"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert any(
        line.startswith(".venv/bin/cts run --model gpt --model claude -k 1 -k 2 -k 3")
        for line in said.splitlines()
    )
