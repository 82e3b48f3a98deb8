"""Ray's errors, as a head or a worker is told them."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not here")
from ray.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
)

from cts_async.cluster.links import WorkerLost
from cts_async.cluster.ray_calls import CUT_OFF, SILENT, answered, called, plain_cause


class Called:
    """What an actor's method will return, or raise; nothing, until it is told."""

    def __init__(self) -> None:
        self._future: Future[Any] = Future()

    def future(self) -> Future[Any]:
        return self._future


def returns(value: Any) -> Called:
    call = Called()
    call.future().set_result(value)
    return call


def raises(error: BaseException) -> Called:
    call = Called()
    call.future().set_exception(error)
    return call


def asked(call: Called, limit_s: float | None = None) -> Any:
    return asyncio.run(answered(call, limit_s, WorkerLost))


def told(call: Called, limit_s: float | None = None) -> str:
    with pytest.raises(WorkerLost) as lost:
        asked(call, limit_s)
    return str(lost.value)


def test_an_answer_is_given() -> None:
    assert asked(returns("news"), 1.0) == "news"


def test_who_takes_too_long_is_lost_and_may_still_answer_to_nobody() -> None:
    call = Called()
    assert told(call, 0.01) == "no answer within 0.01 s"
    assert not call.future().cancelled()
    call.future().set_result("late")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            RayActorError(error_msg="The actor died unexpectedly.\nIts worker process has died."),
            "its process died",
        ),
        (RayActorError(error_msg="The actor is dead because its node has died."), "its node is gone"),
        (RayActorError(error_msg="was killed by `ray.kill`"), "it was killed"),
        (
            RayActorError(error_msg="killed due to the node running low on memory"),
            "its node ran out of memory",
        ),
        (ActorUnavailableError("connection reset", None), "it cannot be reached"),
        (
            RayActorError(
                error_msg="raised in its creation\n  line 1\nImportError: no x\n", actor_init_failed=True
            ),
            "it cannot begin: ImportError: no x",
        ),
        (GetTimeoutError("a\n  b"), "a b"),
    ],
)
def test_a_cause_is_a_few_words(error: RayError, cause: str) -> None:
    assert plain_cause(error) == cause


def test_who_is_dead_or_was_stopped_is_lost() -> None:
    assert told(raises(RayActorError(error_msg="no more"))) == "its process died"
    assert told(raises(TaskCancelledError())) == "it was stopped"


class CutOff:
    """What Ray's client makes of a call once its server is gone."""

    def remote(self, *said: Any) -> Any:
        raise ConnectionError("Request can't be sent because the Ray client has already been disconnected")


def test_a_call_that_cannot_be_sent_any_more_loses_who_was_called() -> None:
    with pytest.raises(WorkerLost, match="^Ray's client is cut off from the cluster$"):
        asyncio.run(called(CutOff(), "a turn", within_s=1.0, lost=WorkerLost))


def test_who_cannot_be_called_any_more_may_still_be_at_work() -> None:
    assert CUT_OFF in SILENT


def test_a_call_that_was_under_way_when_the_client_was_cut_off_loses_who_was_called() -> None:
    assert told(raises(ConnectionError("failed to reconnect"))) == "Ray's client is cut off from the cluster"


def test_a_mistake_of_ours_is_no_loss_and_keeps_its_traceback() -> None:
    raised = RayTaskError("turn", "  File worker.py\nTimeoutError", TimeoutError("x")).as_instanceof_cause()
    with pytest.raises(TimeoutError, match=r"worker\.py") as found:
        asked(raises(raised), 1.0)
    assert isinstance(found.value, RayTaskError)
