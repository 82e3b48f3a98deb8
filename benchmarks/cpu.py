"""CPU per judged candidate in `cts judge`, compared with a bare aiohttp client that posts the same bodies, and with the
script that researchers write by hand for it (`benchmarks/script.py`).

Replies look as providers send them: rate limits, identifiers, details of usage. The same over TLS, and with replies of
the least size, stands below. Whole processes, start-up included, and the cost of one more candidate: the difference of
two sizes. The lexical judge, which `cts judge` adds to a model unless told not to, makes no calls and is measured apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.shared.endpoint import Endpoint, static_endpoint, trusted
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import ROOT, Spent, interleaved, marginal_us, median_cpu_s, spent_by
from benchmarks.shared.result import Result, Row

LARGE, SMALL, IN_FLIGHT, ROUNDS = 30_000, 6_000, 64, 3
BARE_GOAL, SCRIPT_GOAL = 1.25, 0.7
TITLE = f"cpu: {LARGE:,} candidates judged, {IN_FLIGHT} in flight, median of {ROUNDS} interleaved rounds"
"""Every run has connections of its own, and keeps them: nginx's own counts are below the table."""


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    with trusted(), static_endpoint(tls=True) as secure:
        return _compared(world, endpoint, secure)


def _compared(world: JudgeWorld, endpoint: Endpoint, secure: Endpoint) -> Result:
    bodies = world.bodies(LARGE)
    urls = {"": endpoint.provider, "TLS: ": secure.provider, "least replies: ": endpoint.url}
    work: dict[str, Callable[[], Spent]] = {}
    for replies, url in urls.items():
        for n in (LARGE, SMALL):
            work[f"{replies}cts {n}"] = partial(world.judge, url, n, IN_FLIGHT)
            work[f"{replies}bare {n}"] = partial(bare, url, bodies, n)
            work[f"{replies}script {n}"] = partial(_script, url, bodies, n)
    work["lexical"] = partial(world.judge, endpoint.provider, LARGE, IN_FLIGHT, lexical=True)
    before = endpoint.counts()
    runs = interleaved(ROUNDS, work)
    after = endpoint.counts()
    whole = {name: median_cpu_s(spent) / LARGE * 1e6 for name, spent in runs.items()}
    rows = [
        Row("cts judge, us per candidate, whole process", whole[f"cts {LARGE}"], digits=1),
        Row("bare client, us per call, whole process", whole[f"bare {LARGE}"], digits=1),
        Row(
            "cts judge / bare, whole process",
            whole[f"cts {LARGE}"] / whole[f"bare {LARGE}"],
            "<=",
            BARE_GOAL,
            2,
        ),
    ]
    for replies in urls:
        ours, bares, script = (
            marginal_us(runs[f"{replies}{who} {LARGE}"], LARGE, runs[f"{replies}{who} {SMALL}"], SMALL)
            for who in ("cts", "bare", "script")
        )
        rows += [
            Row(f"{replies}cts judge, us for one more candidate", ours, digits=1),
            Row(f"{replies}bare client, us for one more call", bares, digits=1),
            Row(f"{replies}script by hand, us for one more candidate", script, digits=1),
            Row(f"{replies}cts judge / bare, one more", ours / bares, "<=", BARE_GOAL, 2),
            Row(f"{replies}cts judge / script, one more", ours / script, "<=", SCRIPT_GOAL, 2),
        ]
    rows += [
        Row("the lexical judge, us per candidate", whole["lexical"] - whole[f"cts {LARGE}"], digits=1),
        Row("bytes of a request", bodies.stat().st_size / LARGE),
    ]
    calls, connections = after.requests - before.requests, after.connections - before.connections
    return Result(TITLE, rows, [f"nginx saw {calls:,} requests on {connections:,} connections"])


def bare(url: str, bodies: Path, n: int, in_flight: int = IN_FLIGHT) -> Spent:
    """The yardstick, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bare", url, str(bodies), str(n), str(in_flight)]
    spent = spent_by(command, cwd=ROOT)
    if int(spent.printed) != n:
        raise RuntimeError(f"the bare client read {spent.printed.strip()} of {n} verdicts")
    return spent


def _script(url: str, bodies: Path, n: int) -> Spent:
    """The script by hand, in a process of its own, that begins anew."""
    with TemporaryDirectory() as folder:
        written = str(Path(folder) / "results.jsonl")
        command = [
            sys.executable,
            "-m",
            "benchmarks.script",
            url,
            str(bodies),
            str(n),
            str(IN_FLIGHT),
            written,
        ]
        spent = spent_by(command, cwd=ROOT)
    if int(spent.printed) != n:
        raise RuntimeError(f"the script wrote {spent.printed.strip()} of {n} lines")
    return spent
