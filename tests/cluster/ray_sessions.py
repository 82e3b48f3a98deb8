"""Runs over a local Ray, in a process of their own: `python ray_sessions.py FOLDER` prints as JSON how each ended.

One cluster for all of them, since a Ray takes seconds to start.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop
from recorded_work import RecordedWork

from cts_async.cluster.head import Head
from cts_async.cluster.ray_cluster import connect
from cts_async.cluster.work import Task
from cts_async.config import RunConfig
from cts_async.engine.events import Event, Events, Notice
from cts_async.protocol.run_files import RunFiles

N = 60
WORKERS = 2
Meanwhile = Callable[[Any, Path], Awaitable[None]]


def tasks() -> Iterator[Task]:
    for i in range(N):
        yield Task(i, "g", f"i{i}", 0, None)


async def session(
    cluster: Any, folder: Path, meanwhile: Meanwhile | None = None, key: str = ""
) -> dict[str, Any]:
    """One run in `folder`, and what came of it."""
    events: list[Event] = []
    files = RunFiles(folder)
    work = RecordedWork(folder / "log", key)
    head = Head(cluster, [files], [tasks()], work, RunConfig(), None, Events(events.append))
    beside = [asyncio.ensure_future(meanwhile(cluster, folder))] if meanwhile else []
    error = ""
    try:
        await head.run()
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    finally:
        for one in beside:
            one.cancel()
        files.close()
    return {
        "error": error,
        "notices": [event.text for event in events if isinstance(event, Notice)],
    }


async def after_a_while(folder: Path) -> int:
    """Some worker's process, once ten steps are done."""
    log = folder / "log"
    while log.read_bytes().count(b"done") < 10:  # noqa: ASYNC110  other processes tell it
        await asyncio.sleep(0.05)
    return int(log.read_text().split()[-1])


async def kill_a_worker(cluster: Any, folder: Path) -> None:
    os.kill(await after_a_while(folder), signal.SIGKILL)


SESSIONS: dict[str, dict[str, Any]] = {
    "worker killed": {"meanwhile": kill_a_worker},
    "no key": {"key": "NOBODY_HAS_THIS"},
}


async def sessions(cluster: Any, folder: Path) -> dict[str, Any]:
    return {name: await session(cluster, folder / name, **how) for name, how in SESSIONS.items()}


def main() -> None:
    folder = Path(sys.argv[1])
    for name in SESSIONS:
        (folder / name).mkdir()
        (folder / name / "log").touch()
    with connect(None, WORKERS, ["GIVEN_API_KEY"]) as cluster:
        ended = uvloop.run(sessions(cluster, folder))
        sockets = list(folder.parent.glob("cts-ray-*/**/plasma_store"))
        entered = [str(path) for path in sockets if may_be_entered(path, folder.parent)]
    print(json.dumps({**ended, "sockets": {"n": len(sockets), "entered": entered}}))


def may_be_entered(path: Path, above: Path) -> bool:
    """Whether another user can get at a file below `above`, as far as the folders on the way say."""
    folders = [folder for folder in path.parents if above in folder.parents]
    return all(folder.stat().st_mode & 0o001 for folder in folders)


if __name__ == "__main__":
    main()
