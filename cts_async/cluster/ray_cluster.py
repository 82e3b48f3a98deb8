"""Workers as Ray actors, and Ray for the time of a run: started on this machine, or a cluster that is joined.

Ray reads its environment when it is imported, so nothing here imports it before that is as it should be. Messages
travel as bytes pickled here: Ray's own pickler looks at every object in Python. Nobody but the run's own processes can
send them. On this machine they do not go through Ray at all, which starts and ends the workers (`channel`).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import pickle
import re
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from cts_async.cluster.channel import Channel, listen
from cts_async.cluster.head import WorkerLost, WorkerSilent
from cts_async.cluster.worker import Replies, Setup, Worker, WorkerReady, WorkerTurn, WorkerUpdate
from cts_async.engine.processes import child_environment, collect_seldom
from cts_async.errors import UsageError, install_command

CUT_OFF: Final = "Ray's client is cut off from the cluster"

MAX_WORKERS: Final = 256
"""Without --workers; a head has less than 4 ms a second for each of them."""
MAX_PER_CPU: Final = 8
"""On this machine: more would get no more done, and each is a process of some 100 MB."""
CONNECT_S: Final = 4.0
"""For a host to take the connection, before its address counts as wrong."""
OBJECT_STORE_BYTES: Final = 80 << 20
"""Nearly the least that Ray takes: messages are small, and travel without it."""
MAX_TEMPORARY: Final = 24
"""Characters of the temporary directory: a socket's path has at most 107, of which Ray and we take up to 83."""
PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
WORKER_VARIABLES: Final = (
    *PROXIES,
    *map(str.lower, PROXIES),
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CACHE_HOME",
    "CTS_LOCAL_MODEL",
    "CUDA_VISIBLE_DEVICES",
)
"""What workers on this machine get besides keys and what every child process gets."""
RAY_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else a call after the cluster is lost starts a Ray here
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of graphics cards
    # A process that touches the object store after its daemon died ends without an error: messages go without it.
    "RAY_max_direct_call_object_size": "8000000",
}
LOCAL_SETTINGS: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # by which it listens on 127.0.0.1 only, on any system
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",  # workers are the run, and Ray has them come last
    "RAY_memory_monitor_refresh_ms": "0",  # nor are they to be killed when others fill the memory
}
ADDRESS: Final = re.compile(r"(ray://)?(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
CHECK: Final = (
    "check the port: 6379 from a node of the cluster, ray://HOST:10001 from outside; all machines need the same Ray, "
    "Python and RAY_AUTH_TOKEN"
)


# --- Workers


def _ray() -> Any:
    """Ray, without its type hints, which it has for half of its functions."""
    import ray
    import ray.exceptions

    return ray


class WorkerActor:
    """A worker, with the keys in the environment of its process."""

    def __init__(self, setup: Setup, directory: str | None = None, socket_path: Path | None = None) -> None:
        """`directory` is the head's for workers on its machine: relative paths mean the same there. With `socket_path`
        it takes turns there, too."""
        if directory is not None:
            with suppress(OSError):
                os.chdir(directory)
        self._worker = Worker(setup, os.environ)
        self._work: asyncio.Task[None] | None = None
        self._socket_path = socket_path
        self._server: asyncio.Server | None = None

    async def begin(self) -> WorkerReady:
        collect_seldom()
        if self._socket_path is not None:
            self._server = await listen(self._socket_path, self._worker)
        self._work = asyncio.create_task(self._worker.run())
        return await self._worker.begin()

    async def give(self, packed: bytes) -> None:
        self._worker.give(pickle.loads(packed))

    async def turn(self, packed: bytes) -> bytes:
        turn: WorkerTurn = pickle.loads(packed)
        return pickle.dumps(await self._worker.turn(turn), protocol=5)


class RayWorkerLink:
    """A `head.WorkerLink`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def begin(self) -> WorkerReady:
        return cast(WorkerReady, await _call(self._actor.begin))

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate:
        packed = pickle.dumps(turn, protocol=5)
        return cast(WorkerUpdate, pickle.loads(await _call(self._actor.turn, packed)))

    def give(self, replies: Replies) -> None:
        # Nobody waits for this: where it fails, the turn under way fails, too.
        with suppress(_ray().exceptions.RayError, ConnectionError):
            self._actor.give.remote(pickle.dumps(replies, protocol=5))

    def kill(self) -> None:
        if _ray().is_initialized():
            with suppress(_ray().exceptions.RayError, ValueError, ConnectionError):
                _ray().kill(self._actor, no_restart=True)


class LocalWorkerLink(RayWorkerLink):
    """A `head.WorkerLink` to a worker on this machine, whose turns go through its socket."""

    def __init__(self, actor: Any, socket_path: Path) -> None:
        super().__init__(actor)
        self._socket_path = socket_path
        self._channel: Channel | None = None

    async def begin(self) -> WorkerReady:
        ready = await super().begin()
        self._channel = await Channel.connected(self._socket_path)
        return ready

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate:
        assert self._channel is not None, "it has begun"
        return await self._channel.turn(turn)

    def give(self, replies: Replies) -> None:
        if self._channel is not None:
            self._channel.give(replies)

    def kill(self) -> None:
        super().kill()
        if self._channel is not None:
            self._channel.close()


class RayCluster:
    """A `head.Cluster`: the Ray that this process is connected to."""

    def __init__(self, workers: int, address: str) -> None:
        self.workers, self.address = workers, address
        self._actor: Any = _ray().remote(WorkerActor).options(num_cpus=1, scheduling_strategy="SPREAD")

    async def start_worker(self, setup: Setup) -> RayWorkerLink:
        try:
            return RayWorkerLink(self._actor.remote(setup))
        except ConnectionError:
            raise WorkerLost(CUT_OFF) from None


class LocalCluster(RayCluster):
    """A `head.Cluster` of workers on this machine, which listen on sockets in `folder`: only this user may enter it."""

    def __init__(self, workers: int, folder: Path) -> None:
        super().__init__(workers, "")
        self._folder, self._directory = folder, str(Path.cwd())

    async def start_worker(self, setup: Setup) -> LocalWorkerLink:
        socket_path = self._folder / setup.worker
        return LocalWorkerLink(self._actor.remote(setup, self._directory, socket_path), socket_path)


async def _call(method: Any, *arguments: Any) -> Any:
    """What an actor's method returns. Raises WorkerLost where it does not answer.

    An error of the method itself is raised as it is: a bug, with the traceback it had there.
    """
    ray = _ray()
    try:
        answer: asyncio.Future[Any] = asyncio.wrap_future(method.remote(*arguments).future())
        # Ray's client fails when its future is cancelled with ours; an error that comes later concerns nobody.
        answer.add_done_callback(_note_error)
        return await asyncio.shield(answer)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:
        raise _lost(error) from None
    except Exception as error:
        if ray.is_initialized() and not isinstance(error, ConnectionError):
            raise
        raise WorkerSilent(CUT_OFF) from None  # Ray's client has several classes for this


def _note_error(answer: asyncio.Future[Any]) -> None:
    """Take a late error, so that the event loop does not report it as one that nobody has seen."""
    if not answer.cancelled():
        answer.exception()


def _lost(error: Exception) -> WorkerLost:
    """Why a worker does not answer."""
    classes, message = _ray().exceptions, " ".join(str(error).split())
    if isinstance(error, classes.RayActorError) and error.actor_init_failed:
        return WorkerLost(f"it cannot begin: {str(error).strip().splitlines()[-1]}")
    # On a node that is gone, or cut off, its process may still run.
    node_lost = "node has died" in message or "node was terminated" in message
    if node_lost or not isinstance(error, classes.ActorDiedError):
        return WorkerSilent(message[:200])
    return WorkerLost("its process died")


# --- Ray, started or joined


def _no_report(message: str) -> None:
    """Report nothing."""


@contextmanager
def connect(
    address: str | None,
    workers: int | None,
    keys: Iterable[str] = (),
    *,
    report: Callable[[str], None] = _no_report,
) -> Iterator[RayCluster]:
    """A cluster, ready to start workers; a Ray that was started for it ends with the block.

    `address` and `workers` are as typed: without an address a Ray of this machine alone, without a number as many
    workers as the cluster has free CPUs. `keys` are the variables that workers on this machine need. Raises UsageError
    where there is no cluster, or no CPU for a worker.
    """
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"--ray and --workers need Ray, which is not installed: {install_command('ray')}")
    if address is None:
        with _ray_of_this_machine(workers or 1, keys, report) as cluster:
            yield cluster
    else:
        with _joined_cluster(address.strip(), workers, report) as cluster:
            yield cluster


@contextmanager
def _ray_of_this_machine(
    workers: int, keys: Iterable[str], report: Callable[[str], None]
) -> Iterator[RayCluster]:
    limit = MAX_PER_CPU * (os.cpu_count() or 1)
    if workers > limit:
        raise UsageError(
            f"--workers {workers}: at most {limit} on this machine ({MAX_PER_CPU} for each CPU); "
            "more need a cluster (--ray)"
        )
    report("starting Ray on this machine")
    # The token is this run's alone: nobody else on this machine can send its workers anything.
    settings = {**RAY_SETTINGS, **LOCAL_SETTINGS, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    options: dict[str, object] = {
        "address": "local",
        "num_cpus": workers,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
    }
    variables = child_environment(*WORKER_VARIABLES, *keys)
    with _environment(settings), _initialized("", options, settings, variables) as folder:
        yield LocalCluster(workers, folder)


@contextmanager
def _joined_cluster(address: str, workers: int | None, report: Callable[[str], None]) -> Iterator[RayCluster]:
    address = _reachable(address)
    report(f"joining Ray ({address})")
    with _environment(RAY_SETTINGS), _initialized(address, {"address": address}, RAY_SETTINGS, None):
        n_free = int(_ray().available_resources().get("CPU", 0))
        n_cpus = int(_ray().cluster_resources().get("CPU", 0))
        if workers is None:
            workers = min(n_free, MAX_WORKERS)
        if workers < 1:
            raise UsageError(
                f"--ray {address}: none of the cluster's {n_cpus} CPUs is free; give --workers N to wait "
                "for some, or try again later"
            )
        if workers > n_free:
            report(
                f"{n_free} of {workers} workers can start now: "
                f"the cluster has {n_cpus} CPUs, {n_free} are free"
            )
        yield RayCluster(workers, address)


def _reachable(text: str) -> str:
    """The address as Ray takes it. Raises UsageError where nothing answers there."""
    address, host, port = read_address(text)
    if host:
        try:
            socket.create_connection((host, port), CONNECT_S).close()
        except OSError as error:
            reason = error.strerror or f"no answer within {CONNECT_S:g} s"
            raise UsageError(
                f"--ray {address}: {reason}; is Ray running there (ray start --head), at that port?"
            ) from None
    return address


def read_address(text: str, environ: Mapping[str, str] = os.environ) -> tuple[str, str, int]:
    """An address as typed, its host and its port; `auto` is RAY_ADDRESS if that is set, else Ray finds a cluster.

    Raises UsageError.
    """
    address = text
    if text == "auto":
        address = environ.get("RAY_ADDRESS", "").strip() or text
    if address == "auto":
        return address, "", 0
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        variable = f" (RAY_ADDRESS is {address})" if address != text else ""
        raise UsageError(f"--ray {text}{variable}: write it as auto, HOST:6379 or ray://HOST:10001")
    return address, parts["host"].strip("[]"), int(parts["port"])


@contextmanager
def _initialized(
    address: str,
    options: dict[str, object],
    settings: Mapping[str, str],
    variables: Mapping[str, str] | None,
) -> Iterator[Path]:
    """Ray, with processes that get `settings` and, on this machine, only these `variables` besides.

    Yields a folder that only this user may enter, for the time of the block.
    """
    import ray
    import ray._private.worker

    ray._private.worker._worker_logs_enabled = False  # else it prints that workers died, to standard output
    folder = tempfile.gettempdir()
    if len(folder) > MAX_TEMPORARY:
        folder = "/tmp"
    with tempfile.TemporaryDirectory(prefix="cts-ray-", dir=folder, ignore_cleanup_errors=True) as temporary:
        # Only this user may enter `temporary`; what Ray makes below may be written by everybody.
        inner = Path(temporary, "r")
        inner.mkdir()
        if not address:
            options["_temp_dir"] = str(inner)
        try:
            # Ray has workers look for modules where its driver stands, before anywhere else: in no user's folder.
            with _signals_blocked(), contextlib.chdir(inner), _environment(settings, only=variables):
                init: Any = ray.init
                init(log_to_driver=False, logging_level=logging.CRITICAL, **options)
        except Exception as error:  # anything at all, by Ray's version and what is wrong with the machine
            ray.shutdown()
            reason = (" ".join(str(error).split()) or type(error).__name__)[:300]
            if not address:
                raise UsageError(f"--workers: Ray does not start: {reason}") from None
            raise UsageError(f"--ray {address}: {reason} ({CHECK})") from None
        try:
            yield Path(temporary)
        finally:
            ray.shutdown()


@contextmanager
def _environment(settings: Mapping[str, str], *, only: Mapping[str, str] | None = None) -> Iterator[None]:
    """Add variables to the environment for the block, or have no others but those in `only`."""
    saved = dict(os.environ)
    if only is not None:
        os.environ.clear()
        os.environ.update(only)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes started in the block do not get Ctrl-C or the end of the terminal, which every process there is sent.

    The head gets them after the block, and has the workers finish what is in flight.
    """
    on_term = signal.getsignal(signal.SIGTERM)
    saved_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, on_term)  # Ray has put an exit of its own there
        signal.pthread_sigmask(signal.SIG_SETMASK, saved_mask)
