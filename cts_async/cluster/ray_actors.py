"""Workers as Ray actors, the way to them, and the one seam where Ray's errors become ours.

Messages travel as bytes pickled here: Ray's own pickler looks at every object in Python. Nobody but the run's own
processes can send them.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError

from cts_async import __version__
from cts_async.cluster.head import WorkerLost, WorkerSilent
from cts_async.cluster.work import NeededFile
from cts_async.cluster.worker import Begun, News, Replies, Setup, Turn, Worker
from cts_async.engine.processes import collect_seldom

_RAY: Any = ray
"""Without Ray's type hints, which it has for half of its functions."""
CALL_S: Final = 30.0
"""For a turn: longer than a head waits for one."""
BEGIN_S: Final = 600.0
"""A worker may have to load an index first."""
CUT_OFF: Final = "Ray's client is cut off from the cluster"


class WorkerActor:
    """A worker, with the keys in the environment of its process."""

    def __init__(self, setup: Setup, directory: str | None) -> None:
        """`directory` is the head's for workers on its machine: relative paths mean the same there."""
        if directory is not None:
            with suppress(OSError):
                os.chdir(directory)
        self._files = setup.work.files
        self._worker = Worker(setup, os.environ)
        self._work: asyncio.Task[None] | None = None

    async def missing(self) -> tuple[NeededFile, ...]:
        """Files that its machine has to have, and has not."""
        return await anyio.to_thread.run_sync(
            lambda: tuple(file for file in self._files if file.here() is None)
        )

    async def receive(self, file: NeededFile, content: bytes) -> None:
        """Keep a file. Raises OSError."""
        await anyio.to_thread.run_sync(file.write, content)

    async def begin(self) -> Begun:
        collect_seldom()
        self._work = asyncio.create_task(self._worker.run())
        return await self._worker.begin()

    async def give(self, packed: bytes) -> None:
        self._worker.give(pickle.loads(packed))

    async def turn(self, packed: bytes) -> bytes:
        turn: Turn = pickle.loads(packed)
        return pickle.dumps(await self._worker.turn(turn), protocol=5)


class RayWorkerLink:
    """A `head.WorkerLink`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def begin(self) -> Begun:
        for file in await _call(self._actor.missing):
            try:
                await _call(self._actor.receive, file, await anyio.Path(file.path).read_bytes())
            except OSError as error:  # here, or there
                reason = str(error).splitlines()[-1]
                return Begun(gethostname(), 0, __version__, refused=f"{file.path}: cannot be sent ({reason})")
        return cast(Begun, await _call(self._actor.begin))

    async def turn(self, turn: Turn) -> News:
        packed = pickle.dumps(turn, protocol=5)
        return cast(News, pickle.loads(await _call(self._actor.turn, packed, limit_s=CALL_S)))

    def give(self, replies: Replies) -> None:
        # Nobody waits for this: where it fails, the turn under way fails, too.
        with suppress(RayError, ConnectionError):
            self._actor.give.remote(pickle.dumps(replies, protocol=5))

    def kill(self) -> None:
        if ray.is_initialized():
            with suppress(RayError, ValueError, ConnectionError):
                ray.kill(self._actor, no_restart=True)


class RayCluster:
    """A `head.Cluster`: the Ray that this process is connected to."""

    def __init__(self, workers: int, address: str) -> None:
        self.workers, self.address = workers, address
        self._directory = None if address else str(Path.cwd())
        self._hired: list[RayWorkerLink] = []
        self._worker: Any = _RAY.remote(WorkerActor).options(num_cpus=1, scheduling_strategy="SPREAD")

    async def hire(self, setup: Setup) -> RayWorkerLink:
        try:
            link = RayWorkerLink(self._worker.remote(setup, self._directory))
        except ConnectionError:
            raise WorkerLost(CUT_OFF) from None
        self._hired.append(link)
        return link

    def close(self) -> None:
        """End all its processes."""
        for link in self._hired:
            link.kill()


def free_cpus() -> tuple[int, int]:
    """CPUs that are free, and all CPUs."""
    free, total = _RAY.available_resources(), _RAY.cluster_resources()
    return int(free.get("CPU", 0)), int(total.get("CPU", 0))


async def _call(method: Any, *arguments: Any, limit_s: float = BEGIN_S) -> Any:
    """What an actor's method returns. Raises WorkerLost where it does not answer.

    An error of the method itself is raised as it is: a bug, with the traceback it had there.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await _answer(method.remote(*arguments))
    except RayTaskError:
        raise
    except TimeoutError:
        raise WorkerSilent(f"no answer within {limit_s:g} s") from None
    except RayError as error:
        raise _lost(error) from None
    except Exception as error:
        if ray.is_initialized() and not isinstance(error, ConnectionError):
            raise
        raise WorkerSilent(CUT_OFF) from None  # Ray's client has several classes for this


def _answer(call: Any) -> asyncio.Future[Any]:
    """A call's result. Its own future is not cancelled with ours: Ray's client fails on that."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(called: Future[Any]) -> None:
        if answer.done():
            return
        if error := called.exception():
            answer.set_exception(error)
        else:
            answer.set_result(called.result())

    def on_done(called: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(settle, called)

    call.future().add_done_callback(on_done)
    return answer


def _lost(error: RayError) -> WorkerLost:
    """Why a worker does not answer."""
    said = " ".join(str(error).split())
    if isinstance(error, RayActorError) and error.actor_init_failed:
        return WorkerLost(f"it cannot begin: {str(error).strip().splitlines()[-1]}")
    # On a node that is gone, or cut off, its process may still run.
    if (
        isinstance(error, ActorDiedError)
        and "node has died" not in said
        and "node was terminated" not in said
    ):
        return WorkerLost("its process died")
    return WorkerSilent(said[:200])
