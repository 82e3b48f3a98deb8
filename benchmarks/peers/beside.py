"""CPU per call of each peer beside ours: the same conversations, the same endpoint, as many in flight.

The cost of one more call, start-up taken out for everybody: the difference of two sizes, whole
processes, as the operating system counts them. A peer that cannot be installed or run is named with
the reason.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.cpu import bare
from benchmarks.peers.environments import PEERS, NotInstalled, Peer, environ, python_of, version_of
from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint
from benchmarks.shared.process import ROOT, ChildFailed, Spent, interleaved, marginal_us, spent_by
from benchmarks.shared.result import Result, Row

LARGE, SMALL = 1_800, 300
OUR_LARGE, OUR_SMALL = 12_000, 2_000
"""Ours and the bare client's: a call of theirs is too cheap to be told from start-up by fewer."""
IN_FLIGHT, ROUNDS = 64, 3
TITLE = f"peers: CPU of one more call, {IN_FLIGHT} in flight, median of {ROUNDS} interleaved rounds"


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    bodies = world.bodies(OUR_LARGE)
    able, remarks = _able(endpoint.url, bodies)
    sizes = {"": (LARGE, OUR_LARGE), " small": (SMALL, OUR_SMALL)}
    work = {}
    for suffix, (theirs, our) in sizes.items():
        work[f"cts judge{suffix}"] = partial(world.judge, endpoint.url, our, IN_FLIGHT)
        work[f"bare{suffix}"] = partial(bare, endpoint.url, bodies, our)
        work |= {f"{peer.script}{suffix}": partial(_run, peer, endpoint.url, bodies, theirs) for peer in able}
    runs = interleaved(ROUNDS, work)

    def more_us(name: str, large: int, small: int) -> float:
        return marginal_us(runs[name], large, runs[f"{name} small"], small)

    ours_us = more_us("cts judge", OUR_LARGE, OUR_SMALL)
    rows = [
        Row("cts judge, us per candidate, everything on", ours_us),
        Row("bare aiohttp + uvloop, us per call", more_us("bare", OUR_LARGE, OUR_SMALL)),
    ]
    for peer in able:
        us = more_us(peer.script, LARGE, SMALL)
        rows.append(Row(f"{peer.package} {version_of(peer)} ({peer.script}), us per call", us))
        rows.append(Row(f"{peer.package} ({peer.script}) / ours", us / ours_us, ">=", 20.0, 1))
    return Result(TITLE, rows, remarks)


def _able(url: str, bodies: Path) -> tuple[list[Peer], list[str]]:
    """The peers that can be installed and run, and the reasons of the others."""
    able, reasons = [], []
    for peer in PEERS:
        try:
            _run(peer, url, bodies, 10)
            able.append(peer)
        except NotInstalled as reason:
            reasons.append(f"{peer.script}: cannot be installed: {reason}")
        except ChildFailed as reason:
            reasons.append(f"{peer.script}: does not run: {reason}")
    return able, reasons


def _run(peer: Peer, url: str, bodies: Path, n: int) -> Spent:
    """The peer's script in its own environment. Raises NotInstalled or ChildFailed."""
    script = Path(__file__).with_name(f"{peer.script}.py")
    command = [str(python_of(peer)), str(script), url, str(bodies), str(n), str(IN_FLIGHT)]
    spent = spent_by(command, cwd=ROOT, environ=environ())
    read = spent.printed.split()
    if not read or read[-1] != str(n):
        raise ChildFailed(f"read {read[-1:]} of {n} verdicts")
    return spent
