"""The run's actors on Ray, the ways to them, and the one seam where Ray's errors become ours.

Messages travel as bytes pickled here: Ray's own pickler looks at every object in Python. Nobody but the run's own
processes can send them.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cts_async import __version__
from cts_async.cluster.head import WorkerLost, WorkerSilent
from cts_async.cluster.limiter import Ask, Grant, Limiter
from cts_async.cluster.messages import Begun, News, Turn
from cts_async.cluster.remote_lanes import LimiterLost, RemoteLanes
from cts_async.cluster.work import NeededFile
from cts_async.cluster.worker import Setup, Worker
from cts_async.engine.processes import collect_seldom
from cts_async.errors import UsageError

_RAY: Any = ray
"""Without Ray's type hints, which it has for half of its functions."""
CALL_S: Final = 30.0
"""For a turn: longer than a head waits for one."""
BEGIN_S: Final = 600.0
"""A worker may have to load an index first."""
ASK_S: Final = 5.0
MAX_ASKS: Final = 10_000
"""Asks that the limiter may hold: one or two for each worker, and those whose workers have died."""
CAUSES: Final = (
    ("low on memory", "its node ran out of memory"),
    ("node has died", "its node is gone"),
    ("node was terminated", "its node is gone"),
    ("owner has died", "its head is gone"),
    ("unavailable", "it cannot be reached"),
)
"""What Ray says of an actor that does not answer; where none fits, its process died."""
CUT_OFF: Final = "Ray's client is cut off from the cluster"
SILENT: Final = frozenset({"it cannot be reached", "its node is gone", CUT_OFF})
"""Causes after which its process may still run."""


class WorkerActor:
    """A worker, with the keys in the environment of its process."""

    def __init__(self, setup: Setup, limiter: Any, directory: str | None) -> None:
        """`directory` is the head's for workers on its machine: relative paths mean the same there."""
        if directory is not None:
            with suppress(OSError):
                os.chdir(directory)
        self._files = setup.work.files
        lanes = partial(RemoteLanes, setup.worker, setup.workers, _LimiterLink(limiter))
        self._worker = Worker(setup, os.environ, lanes=lanes)
        self._work: asyncio.Task[None] | None = None

    async def missing(self) -> tuple[NeededFile, ...]:
        """Files that its machine has to have, and has not."""
        return await anyio.to_thread.run_sync(
            lambda: tuple(file for file in self._files if file.here() is None)
        )

    async def receive(self, file: NeededFile, content: bytes) -> str:
        """Keep a file. Why that fails; "" where it does not."""
        try:
            await anyio.to_thread.run_sync(file.write, content)
        except UsageError as error:
            return str(error)
        return ""

    async def begin(self) -> Begun:
        collect_seldom()
        self._work = asyncio.create_task(self._worker.run())
        return await self._worker.begin()

    async def turn(self, packed: bytes) -> bytes:
        turn: Turn = pickle.loads(packed)
        return pickle.dumps(await self._worker.turn(turn), protocol=5)


class LimiterActor:
    """The limiter. When its process dies, Ray starts it again."""

    def __init__(self) -> None:
        self._fresh = not ray.get_runtime_context().was_current_actor_reconstructed
        self._limiter: Limiter | None = None
        self._work: asyncio.Task[None] | None = None

    def _running(self) -> Limiter:
        if self._limiter is None:  # an actor's loop does not run before its first call
            collect_seldom()
            self._limiter = Limiter(fresh=self._fresh)
            self._work = asyncio.create_task(self._limiter.run())
            self._work.add_done_callback(lambda _: os._exit(1))  # it never ends by itself: Ray starts another
        return self._limiter

    async def ask(self, packed: bytes) -> bytes:
        ask: Ask = pickle.loads(packed)
        return pickle.dumps(await self._running().ask(ask), protocol=5)

    async def gone(self, worker: str) -> None:
        self._running().gone(worker)

    async def pid(self) -> int:
        return os.getpid()


class _LimiterLink:
    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ask(self, ask: Ask) -> Grant:
        packed = pickle.dumps(ask, protocol=5)
        return cast(
            Grant, pickle.loads(await _call(self._actor.ask, packed, limit_s=ASK_S, lost=LimiterLost))
        )


class RayWorkerLink:
    """A `head.WorkerLink`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def begin(self) -> Begun:
        for file in await _call(self._actor.missing, limit_s=None, lost=_lost):
            try:
                content = await anyio.Path(file.path).read_bytes()
            except OSError as error:
                return Begun("", 0, __version__, refused=f"{file.path}: cannot be read ({error.strerror})")
            if problem := await _call(self._actor.receive, file, content, limit_s=BEGIN_S, lost=_lost):
                return Begun("", 0, __version__, refused=cast(str, problem))
        return cast(Begun, await _call(self._actor.begin, limit_s=BEGIN_S, lost=_lost))

    async def turn(self, turn: Turn) -> News:
        packed = pickle.dumps(turn, protocol=5)
        return cast(News, pickle.loads(await _call(self._actor.turn, packed, limit_s=CALL_S, lost=_lost)))

    def kill(self) -> None:
        _end(self._actor)


class RayCluster:
    """A `head.Cluster`: the Ray that this process is connected to, with a limiter."""

    def __init__(self, workers: int, address: str) -> None:
        self.workers, self.address = workers, address
        self._directory = None if address else str(Path.cwd())
        self._hired: list[RayWorkerLink] = []
        # Beside the head: cut off from it, it would be of no use.
        beside = NodeAffinitySchedulingStrategy(_RAY.get_runtime_context().get_node_id(), soft=False)
        self.limiter: Any = (
            _RAY.remote(LimiterActor)
            .options(num_cpus=0, max_restarts=-1, max_concurrency=MAX_ASKS, scheduling_strategy=beside)
            .remote()
        )
        self._worker: Any = _RAY.remote(WorkerActor).options(num_cpus=1, scheduling_strategy="SPREAD")

    async def hire(self, setup: Setup) -> RayWorkerLink:
        try:
            actor = self._worker.remote(setup, self.limiter, self._directory)
        except ConnectionError:
            raise WorkerLost(CUT_OFF) from None
        link = RayWorkerLink(actor)
        self._hired.append(link)
        return link

    def gone(self, worker: str) -> None:
        # Nobody waits for this: a limiter that is being replaced knows nothing of the worker.
        with suppress(RayError, ConnectionError):
            self.limiter.gone.remote(worker)

    def close(self) -> None:
        """End all its processes."""
        for link in self._hired:
            link.kill()
        _end(self.limiter)


def free_cpus() -> tuple[int, int]:
    """CPUs that are free, and all CPUs."""
    free, total = _RAY.available_resources(), _RAY.cluster_resources()
    return int(free.get("CPU", 0)), int(total.get("CPU", 0))


def _end(actor: Any) -> None:
    if ray.is_initialized():
        with suppress(RayError, ValueError, ConnectionError):
            ray.kill(actor, no_restart=True)


def _lost(reason: str) -> WorkerLost:
    return WorkerSilent(reason) if reason in SILENT or reason.startswith("no answer") else WorkerLost(reason)


async def _call(method: Any, *arguments: Any, limit_s: float | None, lost: Callable[[str], Exception]) -> Any:
    """What an actor's method returns. Raises `lost(reason)` where it does not answer.

    An error of the method itself is raised as it is: a bug, with the traceback it had there.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await _answer(method.remote(*arguments))
    except RayTaskError:
        raise
    except TimeoutError:
        raise lost(f"no answer within {limit_s:g} s") from None
    except RayError as error:
        raise lost(plain_cause(error)) from None
    except ConnectionError:
        raise lost(CUT_OFF) from None
    except Exception:
        if ray.is_initialized():
            raise
        raise lost(CUT_OFF) from None  # later on Ray's client has no class of its own for this


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


def plain_cause(error: RayError) -> str:
    """Why a call failed, in a few words."""
    said = str(error)
    if isinstance(error, RayActorError) and error.actor_init_failed:
        return f"it cannot begin: {said.strip().splitlines()[-1]}"
    if not isinstance(error, RayActorError):
        return " ".join(said.split())[:200]
    return next((cause for words, cause in CAUSES if words in said), "its process died")
