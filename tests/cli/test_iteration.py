"""A researcher edits her work and types the same command: it costs what follows from the edit, and nothing else.

Ten instances, each of a query and an intent that ends in a word of its own. The models are the fake provider's: an agent
of two turns, a User Answerer who does not know half of what she is asked, a judge. The numbers are worked out by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from iteration_session import (
    COMMAND,
    CONCURRENCY,
    FIRST_QUESTION,
    MENDED_QUESTION,
    Killed,
    damaged_journals,
    known,
    random_moments,
    results_of,
    session,
    write_data,
    write_documents,
    write_lab,
    write_models,
)
from typed_commands import Cts, cts_in

from cts_async.runs.manifest import manifest_of

SYSTEM = "my_lab.ask-k2"


@pytest.fixture
def provider() -> Iterator[Remote]:
    with provider_process(unknown_share=0.5) as remote:
        yield remote


class Counting:
    """Types commands, and counts what the provider was asked since the last one, by role."""

    def __init__(self, cts: Cts, provider: Remote) -> None:
        self._cts, self._provider, self._n = cts, provider, 0

    def __call__(self, *words: str) -> Counter[str]:
        done = self._cts(*words)
        assert done.code == 0, done.err
        return self.asked()

    def asked(self) -> Counter[str]:
        seen = self._provider.seen()[self._n :]
        self._n += len(seen)
        return Counter(request.role for request in seen)


def compared(cts: Cts) -> list[str]:
    """The systems that `cts compare runs` has rows for, in its one group."""
    done = cts("compare", "runs", "--json")
    assert done.code == 0, done.err
    comparison = json.loads(done.out)
    assert len(comparison.get("groups", [comparison])) == 1
    return sorted(row["system"] for row in comparison["judges"][0]["leaderboard"])


def test_each_edit_costs_what_follows_from_it(cts: Cts, provider: Remote) -> None:
    here = Path()
    # The mended question is answered otherwise, and so leads to another search.
    assert known(3, FIRST_QUESTION) != known(3, MENDED_QUESTION)
    count = Counting(cts, provider)
    write_models(here, provider.url, "other-1")
    write_data(here, 10, {})
    write_documents(here)
    write_lab(here, FIRST_QUESTION)
    run = [*COMMAND, "-k", "2"]
    assert count(*run) == Counter(answer=20, rewrite=10, agent=2 * 10 + 2 * 10, judge=10 + 10)
    assert compared(cts) == [SYSTEM, "orig"]

    # One question in the function: its answer, a rewritten query, a search and a verdict; nothing of orig.
    write_lab(here, MENDED_QUESTION)
    assert count(*run) == Counter(answer=1, rewrite=1, agent=2, judge=1)
    assert compared(cts) == [SYSTEM, "orig"]
    second = Path(f"runs/mini-{SYSTEM}+all-fake.v2")
    assert manifest_of(second).changed == ("clarifier (my_lab.ask)",)
    assert cts("audit", str(second)).code == 0

    # A comment in it: nothing.
    with Path("my_lab.py").open("a") as file:
        file.write("# mended\n")
    assert count(*run) == Counter()

    # One nugget: a verdict on each system's answer.
    write_data(here, 10, {5: "fact five"})
    assert count(*run) == Counter(judge=2)
    assert compared(cts) == [SYSTEM, "orig"]

    # One instance more: that instance.
    write_data(here, 11, {5: "fact five"})
    assert count(*run) == Counter(answer=2, rewrite=1, agent=2 + 2, judge=1 + 1)
    assert compared(cts) == [SYSTEM, "orig"]

    # Another judge: the verdicts. Its id was wrong, and is corrected: the verdicts again.
    assert count(*run, "--judge", "other") == Counter(judge=11 + 11)
    assert compared(cts) == [SYSTEM, "orig"]
    write_models(here, provider.url, "other-2")
    assert count(*run, "--judge", "other") == Counter(judge=11 + 11)
    assert compared(cts) == [SYSTEM, "orig"]

    # A third question: its answer, a rewritten query and, by a sampling agent, a search of the system's own. Where
    # nothing new was learned the answer is the same, and so is the verdict on it.
    n_learned = sum(known(i, f"Which price for query {i}?") for i in range(11))
    assert 0 < n_learned < 11
    three = [*COMMAND, "-k", "3", "--judge", "other"]
    assert count(*three) == Counter(answer=11, rewrite=11, agent=2 * 11, judge=n_learned)
    assert compared(cts) == [SYSTEM, "my_lab.ask-k3", "orig"]

    # Older settings resume the version that has them.
    assert count(*run) == Counter()
    assert damaged_journals(here) == []


def test_kills_between_edits_lead_to_no_other_results_and_are_paid_once(tmp_path: Path) -> None:
    quiet, killed = tmp_path / "quiet", tmp_path / "killed"
    quiet.mkdir()
    killed.mkdir()
    # The first run, and two edits after it.
    with provider_process(unknown_share=0.5, latency_s=0.05) as provider:
        playing = Killed(killed, provider)
        moments = random_moments(20261126, 2, 1.0)
        playing.play(session(provider.url)[:4:3], chain([1.2], moments))
    with provider_process(unknown_share=0.5) as provider:
        for edit in session(provider.url)[:4:3]:
            edit.make(quiet)
            assert cts_in(quiet, *edit.words).returncode == 0
        n_calls = len(provider.seen())
    assert results_of(killed) == results_of(quiet)
    assert damaged_journals(killed) == []
    assert playing.n_executed() == n_calls
    # Each place may hold one call on its way, and one answered whose line is just being written.
    assert max(playing.in_flight, default=0) <= 2 * CONCURRENCY
