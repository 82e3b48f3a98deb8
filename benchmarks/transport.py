"""CPU of one more call of HTTP clients that post and read and do nothing else: the floor under `cts judge`.

Beside the client of this project stand aiohttp's session, which it goes around, the least that Python can do on uvloop,
and pyreqwest, a client in Rust. Replies look as providers send them; plain, and with TLS.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.peers.environments import NotInstalled, Peer, environ, python_of
from benchmarks.shared.endpoint import CA, NoNginx, static_endpoint
from benchmarks.shared.judging import judge_world
from benchmarks.shared.process import ROOT, ChildFailed, Spent, interleaved, marginal_us, ours, spent_by
from benchmarks.shared.result import Result, Row

LARGE, SMALL, IN_FLIGHT, ROUNDS = 30_000, 6_000, 64, 5
TITLE = (
    f"transport: us of CPU for one more call, {IN_FLIGHT} in flight, median of {ROUNDS} interleaved rounds"
)
OWN_CLIENTS = {
    "endpoint": "the client of cts",
    "session": "aiohttp's session",
    "protocol": "an asyncio.Protocol of thirty lines",
}
PYREQWEST = Peer("posting", ("pyreqwest", "uvloop", "yarl"))


def bench() -> Result:
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            static_endpoint() as plain,
            static_endpoint(tls=True) as secure,
        ):
            bodies = judge_world(Path(folder)).bodies(LARGE)
            return _measured({"plain": plain.provider, "TLS": secure.provider}, bodies)
    except NoNginx as reason:
        return Result(TITLE, skipped=str(reason))


def _measured(urls: dict[str, str], bodies: Path) -> Result:
    names, remarks = dict(OWN_CLIENTS), []
    try:
        _post("pyreqwest", urls["plain"], bodies, 10)
        names["pyreqwest"] = "pyreqwest"
    except (NotInstalled, ChildFailed) as reason:
        remarks.append(f"without pyreqwest: {reason}")
    work = {}
    for kind, url in urls.items():
        for client in names:
            if client == "pyreqwest" and kind == "TLS":
                continue  # it has certificates of its own
            for n in (LARGE, SMALL):
                work[f"{kind} {client} {n}"] = partial(_post, client, url, bodies, n)
    runs = interleaved(ROUNDS, work)
    rows: list[Row] = []
    for kind in urls:
        us_by_client = {
            client: marginal_us(
                runs[f"{kind} {client} {LARGE}"], LARGE, runs[f"{kind} {client} {SMALL}"], SMALL
            )
            for client in names
            if f"{kind} {client} {LARGE}" in runs
        }
        rows += [Row(f"{kind}: {names[client]}", us, digits=1) for client, us in us_by_client.items()]
        share = us_by_client["endpoint"] / us_by_client["session"]
        rows.append(Row(f"{kind}: the client of cts / the session", share, digits=2))
    return Result(TITLE, rows, remarks)


def _post(client: str, url: str, bodies: Path, n: int) -> Spent:
    """One client, in a process of its own. Raises NotInstalled or ChildFailed."""
    python, variables = Path(sys.executable), ours()
    if client == "pyreqwest":
        python, variables = python_of(PYREQWEST), environ()
    script = str(ROOT / "benchmarks" / "posting.py")
    command = [str(python), script, client, url, str(bodies), str(n), str(IN_FLIGHT)]
    spent = spent_by(command, cwd=ROOT, environ={**variables, "SSL_CERT_FILE": str(CA)})
    if int(spent.printed) != n:
        raise ChildFailed(f"{client} read {spent.printed.strip()} of {n} replies")
    return spent
