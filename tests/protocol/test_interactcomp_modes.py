"""Made-up tasks of InteractComp's format, encrypted, in all six modes: killed in the middle, resumed, and audited."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from interactcomp_runs import MODES, planned, write_tasks
from written_files import read_lines

from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.protocol.audit import audit_run
from cts_async.protocol.run import run_plan
from cts_async.records import DONT_KNOW
from cts_async.runs.finished import read_run
from cts_async.tables.comparison import compare_runs
from cts_async.tables.interactcomp import ladder_of, mode_of

N = 9
"""Tasks here; benchmarks/interactcomp.py plays all 210."""
CONCURRENCY = 4
N_ASKED = {"ask_only": 2, "full": 2, "forced_ask": 5}
"""Questions of the fake agent on each task, by mode."""


@pytest.mark.alone
def test_six_modes_killed_and_resumed_pay_nothing_twice_and_hold_the_closed_book(tmp_path: Path) -> None:
    write_tasks(tmp_path, N)
    runs: dict[str, Path] = {}
    with provider_process() as provider:
        n_lost = 0
        for mode in MODES:
            runs[mode], n_lost_here = killed_and_resumed(tmp_path, provider, mode)
            n_lost += n_lost_here
        # Not by another mode either: what the user replied to a question is taken from there.
        assert provider.stats()["paid_twice"] <= n_lost
    for mode, run in runs.items():
        assert mode_of(read_run(run)) == mode
        check_results(mode, run)
        audit = audit_run(run, f"interactcomp:{tmp_path / 'tasks.jsonl'}")
        assert (audit.held, audit.n_held, audit.n_leaks) == (True, N, 0), audit.findings
    check_ladder(tmp_path / "runs")


def killed_and_resumed(folder: Path, provider: Remote, mode: str) -> tuple[Path, int]:
    """Run a mode in a process that is killed in the middle, and resume it: the run, and how many calls were lost."""
    plan = planned(folder, provider.url, max_concurrency=CONCURRENCY, models=(), limit=N, **MODES[mode])
    (directory,) = plan.directories()
    n_before = n_requests_at_rest(provider)
    # So slow that the other half of its calls take longer than it takes to kill it, on a busy machine, too.
    provider.set(latency_s=0.15)
    child = os.fork()
    if child == 0:
        asyncio.run(run_plan(plan, {}, Events()))
        os._exit(0)
    while provider.stats()["requests"] < n_before + N:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    provider.set(latency_s=0.0)
    n_killed, recorded = n_requests_at_rest(provider), paid_steps(directory)
    n_lost = n_killed - n_before - len(recorded)
    # Each place may hold one call on its way, and one answered whose line is just being written.
    assert 0 <= n_lost <= 2 * CONCURRENCY
    asyncio.run(run_plan(plan, {}, Events()))
    finished = paid_steps(directory)
    assert recorded < finished
    assert n_requests_at_rest(provider) - n_killed == len(finished - recorded)
    return directory, n_lost


def paid_steps(directory: Path) -> set[str]:
    """The keys of the model calls that a run has made itself and recorded, each once."""
    keys = []
    for record in read_records(directory / "steps.jsonl"):
        if "model" in record and "reused" not in record:
            keys.append(record["key"])
    assert len(set(keys)) == len(keys)
    return set(keys)


def n_requests_at_rest(provider: Remote) -> int:
    """Requests so far, once those that a killed process had sent have all been read."""
    before, now = -1, provider.stats()["requests"]
    while now != before:
        time.sleep(0.02)
        before, now = now, provider.stats()["requests"]
    return int(now)


def check_results(mode: str, run: Path) -> None:
    """Assert that a run is complete, and that its agent asked and searched as its mode has it."""
    lines = list(read_lines(run / "results.jsonl"))
    assert len({line["id"] for line in lines}) == len(lines) == N
    assert all(line["restore_score_100"] is not None for line in lines)
    assert all("confidence" in line and "Confidence" not in line["answer"] for line in lines)
    n_searches = 0 if mode in ("answer_only", "ask_only") else 1
    assert {line["search"]["searches"] for line in lines} == {n_searches}
    prompt = (run / "prompts" / "agent.en.txt").read_text()
    assert "Confidence: NN" in prompt
    assert ('"name": "search"' in prompt) == bool(n_searches)
    if mode not in N_ASKED:
        assert not any("asks" in line for line in lines)
        return
    replies: Counter[str] = Counter()
    for line in lines:
        assert len(line["asks"]) == N_ASKED[mode]
        replies.update(ask["reply"] for ask in line["asks"])
    assert replies.keys() == {"yes", "no", DONT_KNOW}


def check_ladder(folder: Path) -> None:
    """Assert that the table of modes has all six; the fake agent knows nothing, and finds the document of each task."""
    modes, models = ladder_of(compare_runs([str(folder)]))
    assert {row["mode"]: (row["accuracy"], row["n"]) for row in modes.rows} == {
        "answer_only": (0, N),
        "search_only": (100, N),
        "ask_only": (0, N),
        "full": (100, N),
        "forced_ask": (100, N),
        "full_with_context": (100, N),
    }
    # Two questions, a search and the answer.
    assert (models.rows[-1]["rounds"], models.rows[-1]["interaction_rate"]) == (4, 50)
