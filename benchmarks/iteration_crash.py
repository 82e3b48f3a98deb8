"""SIGKILL at random instants over a session of edits, each followed by the same command: nothing is reused wrongly.

The session is that of tests/cli/test_iteration.py, each of its commands killed several times before it may end, beside
the same session in which nothing is killed. What the provider was sent and no journal has was in flight at a kill: only
that is paid twice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.shared.fakes import Killed, provider_process, session_fakes
from benchmarks.shared.result import Result, Row

KILLS, TRIED, SEED, LATENCY_S, LIFE_S = 50, 63, 20261126, 0.3, 2.2
"""A life ends at an instant drawn from all of [0, LIFE_S]: while starting, looking up, copying, asking or writing.
Of the instants tried some come after the end."""
TITLE = f"iteration_crash: {KILLS} SIGKILLs at seeded random instants over a session of edits"


def bench() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        killed, quiet = _played(Path(folder) / "killed", TRIED), _played(Path(folder) / "quiet", 0)
        results, expected = session_fakes.results_of(killed.here), session_fakes.results_of(quiet.here)
        n_differing = sum(
            results.get(name) != expected.get(name) for name in results.keys() | expected.keys()
        )
        n_executed, n_expected = killed.n_executed(), quiet.n_executed()
        return Result(
            TITLE,
            [
                Row("kills", len(killed.in_flight), ">=", KILLS),
                Row("runs", len(results), "=", len(expected)),
                Row("runs whose results differ from those without kills", n_differing, "=", 0),
                Row(
                    "journals damaged, or with a step twice",
                    len(session_fakes.damaged_journals(killed.here)),
                    "=",
                    0,
                ),
                Row("calls that journals have as executed", n_executed, "=", n_expected),
                Row("in flight at the kills, all: paid twice", sum(killed.in_flight)),
                Row(
                    "in flight at a kill, at most", max(killed.in_flight), "<=", 2 * session_fakes.CONCURRENCY
                ),
            ],
        )


def _played(here: Path, n_kills: int) -> Killed:
    here.mkdir()
    with provider_process(unknown_share=0.5, latency_s=LATENCY_S) as provider:
        playing = Killed(here, provider)
        edits = session_fakes.session(provider.url)
        # Shared out, so that each edit is killed on the way.
        for number, edit in enumerate(edits):
            n = n_kills * (number + 1) // len(edits) - n_kills * number // len(edits)
            playing.play([edit], session_fakes.random_moments(SEED + number, n, LIFE_S))
        return playing
