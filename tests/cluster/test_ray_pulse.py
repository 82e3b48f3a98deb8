"""Ray's own processes are watched by whether they take connections."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future

import anyio
import pytest
import ray
from virtual_time import run_virtual

from cts_async.cluster import ray_hire, ray_pulse
from cts_async.cluster.ray_hire import RayCluster
from cts_async.cluster.ray_links import RayLimiter
from cts_async.cluster.ray_pulse import until_gone


def test_what_takes_no_connections_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pulse, "BEAT_S", 0.01)
    monkeypatch.setattr(ray_pulse, "GONE_S", 0.05)

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as stays, socket.create_server(("127.0.0.1", 0)) as goes:
            ports = {"the one": stays.getsockname(), "the other": goes.getsockname()}
            watched = asyncio.ensure_future(until_gone(ports))
            await asyncio.sleep(0.1)
            assert not watched.done()
            goes.close()
            assert await watched == "the other"

    anyio.run(run)


def test_who_is_missing_for_a_moment_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listens(port: ray_pulse.Port) -> bool:
        now = anyio.current_time()
        return now % 14.0 < 2.0 and now < 100.0

    async def run() -> None:
        assert await until_gone({"it": ("127.0.0.1", 1)}) == "it"
        assert anyio.current_time() == pytest.approx(114.0)  # the first look 15 s after 98

    monkeypatch.setattr(ray_pulse, "_listens", listens)
    run_virtual(run)


def test_where_nothing_can_be_watched_nothing_is_gone() -> None:
    async def run() -> None:
        with anyio.move_on_after(3600.0) as scope:
            await until_gone({})
        assert scope.cancelled_caught

    run_virtual(run)


def test_when_ray_has_ended_it_is_asked_to_end_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(ports: object) -> str:
        return "raylet"

    class Starting:
        """An actor that Ray has not heard of: to kill it waits for the directory."""

        class ready:
            @staticmethod
            def remote() -> Starting:
                return Starting()

        def future(self) -> Future[None]:
            return Future()

    class Worker:
        @staticmethod
        def remote(*setup: object) -> Starting:
            return Starting()

    killed: list[object] = []
    monkeypatch.setattr(ray_hire, "until_gone", gone)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "kill", lambda actor, no_restart: killed.append(actor))

    async def hire_until(ended: bool) -> None:
        cluster = RayCluster(1, RayLimiter(None), address="")
        cluster._worker = Worker
        hiring = asyncio.ensure_future(cluster.hire(None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        if ended:
            assert await cluster.gone() == "raylet"
        hiring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hiring

    anyio.run(hire_until, False)
    assert len(killed) == 1
    anyio.run(hire_until, True)
    assert len(killed) == 1
