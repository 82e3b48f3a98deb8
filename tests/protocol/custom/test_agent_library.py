"""A real agent library as a foreign agent, in a run that is killed: no model call that had ended is made again.

Needs smolagents, of the extra "agents", which make installs.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from custom_roles import command, script
from fake_provider import Remote, provider_process
from real_run import RealRun
from test_extending import SMOLAGENTS

from cts_async.engine.journal import read_records

# Found, not imported: only the command's process needs it, and importing takes half a second of each worker.
pytestmark = pytest.mark.skipif(
    find_spec("smolagents") is None, reason="needs smolagents: pip install -e '.[agents]'"
)

N, IN_FLIGHT = 4, 2
CALLS = 4
"""Model calls of an instance: two searches, a page, the answer."""


def test_killed_run_of_an_agent_library_pays_for_no_call_twice(tmp_path: Path) -> None:
    """The provider outlives the kill; its count of answers beyond those in the journal were in flight."""
    assert '"gpt"' in SMOLAGENTS
    agent = command(script(tmp_path, "smol.py", SMOLAGENTS.replace('"gpt"', '"fake"')))
    words = ("--all", "baseline", "--agent", agent, "-k", "1", "--no-orig", "--limit", str(N), "--name", "r")
    run = RealRun(tmp_path, words)
    with provider_process(latency_s=0.4) as provider:
        run.configure(provider.url, max_concurrency=IN_FLIGHT)
        killed = run.fork()
        until = time.monotonic() + 120
        # On a loaded machine agents start seconds apart: one may be over before another has asked.
        while provider.stats()["paid"] < N * CALLS // 3 or not unfinished_calls(run):
            assert killed.poll() is None, killed.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.02)
        killed.kill()
        killed.communicate()
        paid, recorded = paid_at_rest(provider), len(run.records())
        to_replay = unfinished_calls(run)
        assert to_replay
        assert recorded < N * CALLS
        # Each place may hold one call on its way, and one answered whose line is just being written.
        assert 0 <= paid - recorded <= 2 * IN_FLIGHT

        resumed = run.fork()
        _, notices = resumed.communicate(timeout=180)
        assert resumed.returncode == 0, notices
        assert [line for line in run.results() if "error" in line] == []
        assert len(run.results()) == N
        assert len(run.records()) == N * CALLS
        assert provider.stats()["paid"] - paid == N * CALLS - recorded
        assert provider.stats()["paid_twice"] == paid - recorded
        share = f"{len(to_replay)} of {len(to_replay)} model calls answered from the journal"
        assert share in " ".join(notices.split())


def unfinished_calls(run: RealRun) -> list[dict[str, Any]]:
    """The journal's model calls of instances whose search is not over."""
    steps = list(read_records(run.here / "runs/r/steps.jsonl"))
    over = {step["instance"] for step in steps if step["step"] == "search"}
    return [call for call in run.records() if call["instance"] not in over]


def paid_at_rest(provider: Remote) -> int:
    """Answers paid for, once those that a killed process had asked for have all been given."""
    while provider.stats()["in_flight"]:
        time.sleep(0.05)
    paid: int = provider.stats()["paid"]
    return paid
