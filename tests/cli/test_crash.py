"""A run that is killed, interrupted and started twice, against a provider in another process."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, digest_of, provider_process
from forked_cts import ForkedCts
from real_run import RealRun

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.journal import read_records
from cts_async.llm.apis import ChatRequest, openai
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.prompts import load_prompts
from cts_async.protocol.roles import request_json

N, K, CONCURRENCY = 8, 2, 4
CALLS = N * (1 + K + 1 + 2 + 1)
LATENCY_S = 0.05
RUN = Path("runs/r")


@pytest.fixture
def provider() -> Iterator[Remote]:
    with provider_process(latency_s=LATENCY_S) as remote:
        yield remote


@pytest.fixture
def here(tmp_path: Path, provider: Remote) -> Path:
    run_in(tmp_path).configure(provider.url, max_concurrency=CONCURRENCY)
    return tmp_path


def run_in(here: Path) -> RealRun:
    words = ("--all", "fake", "-k", str(K), "--no-orig", "--name", "r", "--limit", str(N), "-q")
    return RealRun(here, words)


def ended(process: subprocess.Popen[str] | ForkedCts, code: int) -> str:
    """Return the process's standard error; it has to end with `code`."""
    _, printed = process.communicate(timeout=120)
    assert process.returncode == code, printed
    return printed


def until(done: Any, timeout_s: float = 60.0) -> None:
    limit = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.005)


def bodies(here: Path, provider: Remote) -> set[str]:
    """Digests of the requests whose steps stand in the journal, where it and the data hold all of their text."""
    intents = {row["id"]: row["fused_query"] for row in read_records(sample_dir() / "queries.jsonl")}
    spec = load_catalogue(here / "cts.toml").resolve("fake", {})
    prompts = load_prompts().prompts
    found = set()
    for record in run_in(here).records():
        request = record["request"]
        if "prompt" in request and not record["step"].startswith("judge/"):
            fields = request["fields"]
            if record["step"].startswith("answer/"):
                fields = {"clear_query": intents[record["instance"]], **fields}
                assert request == request_json(request["prompt"], fields, ["clear_query"])
            messages = prompts[request["prompt"]].render(**fields)
            # The User Answerer and the Rewriter are asked at the paper's temperature 0; the key does not have it.
            is_fixed = record["step"].startswith(("answer/", "rewrite"))
            params = spec.fixed_role_params if is_fixed else {}
            found.add(digest_of(openai.body(spec, ChatRequest(messages, params))))
    return found


def finished(here: Path) -> None:
    """Assert that the run is complete and whole."""
    results = list(read_records(here / RUN / "results.jsonl"))
    assert len({line["id"] for line in results}) == len(results) == N
    assert all(line["restore_score_100"] is not None for line in results)
    summary = json.loads((here / RUN / "summary.json").read_bytes())
    assert (summary["n_scored"], summary["n_failed"]) == (N, 0)
    keys = [record["key"] for record in run_in(here).records()]
    assert len(set(keys)) == len(keys) == CALLS


def known_counts(known: set[str], seen: list[Any]) -> Counter[str]:
    """How often each of the known requests was sent."""
    return Counter(request.digest for request in seen if request.digest in known)


def test_run_killed_at_any_moment_pays_for_nothing_twice(here: Path, provider: Remote) -> None:
    moments = random.Random(20260119)
    known: set[str] = set()
    lost = 0
    for _ in range(3):
        asked = len(provider.seen())
        process = run_in(here).fork()
        more = moments.randrange(1, CALLS // 4)
        until(lambda asked=asked, more=more: len(provider.seen()) >= asked + more)
        time.sleep(moments.uniform(0, LATENCY_S))
        process.kill()
        ended(process, -signal.SIGKILL)
        seen = provider.seen()
        counts = Counter(request.digest for request in seen)
        # What stood in the journal before this run began was not asked for in it.
        assert all(counts[digest] == before for digest, before in known_counts(known, seen[:asked]).items())
        in_flight = len(seen) - len(run_in(here).records()) - lost
        # Each place may hold one call on its way, and one answered whose line is just being written.
        assert 0 <= in_flight <= 2 * CONCURRENCY
        lost += in_flight
        known = bodies(here, provider)
        assert known <= counts.keys()
    asked = provider.seen()
    ended(run_in(here).fork(), 0)
    finished(here)
    counts = Counter(request.digest for request in provider.seen())
    assert all(counts[digest] == before for digest, before in known_counts(known, asked).items())
    assert len(counts) == CALLS
    assert counts.total() == CALLS + lost
    # A torn last line is set aside, and its step is done again.
    journal = here / RUN / "steps.jsonl"
    journal.write_bytes(journal.read_bytes()[:-40])
    (here / RUN / "results.jsonl").unlink()
    ended(run_in(here).fork(), 0)
    finished(here)
    assert len(provider.seen()) <= CALLS + lost + 1
    assert (here / RUN / "steps.jsonl.torn").stat().st_size > 0


def test_one_interrupt_finishes_calls_in_flight_and_resumes(here: Path, provider: Remote) -> None:
    process = run_in(here).start()
    until(lambda: len(provider.seen()) >= 20)
    process.send_signal(signal.SIGINT)
    printed = ended(process, 75)
    assert "resumes" in printed
    assert "Traceback" not in printed
    assert len(provider.seen()) == len(run_in(here).records()) < CALLS
    ended(run_in(here).fork(), 0)
    finished(here)
    assert len(provider.seen()) == CALLS


def test_second_copy_is_refused_and_two_interrupts_stop_at_once(here: Path, provider: Remote) -> None:
    provider.set(latency_s=20.0)
    process = run_in(here).start()
    until(lambda: len(provider.seen()) >= CONCURRENCY)
    assert f"runs/r: process {process.pid} is writing this run" in ended(run_in(here).fork(), 2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert "Traceback" not in ended(process, 75)
    assert time.monotonic() - began < 5
