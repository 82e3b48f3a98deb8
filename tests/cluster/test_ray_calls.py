"""Ray's errors, as a head or a worker is told them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from ray.exceptions import (
    ActorUnavailableError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
)

from cts_async.cluster.links import WorkerLost
from cts_async.cluster.ray_calls import answered, plain_cause


async def says(error: BaseException) -> Any:
    raise error


def told(call: Callable[[], Awaitable[Any]], limit_s: float | None = None) -> str:
    with pytest.raises(WorkerLost) as lost:
        asyncio.run(answered_by(call, limit_s))
    return str(lost.value)


async def answered_by(call: Callable[[], Awaitable[Any]], limit_s: float | None) -> Any:
    return await answered(call(), limit_s, WorkerLost)


def test_an_answer_is_given() -> None:
    assert asyncio.run(answered_by(lambda: asyncio.sleep(0, "news"), 1.0)) == "news"


def test_who_takes_too_long_is_lost() -> None:
    assert told(lambda: asyncio.sleep(60), 0.01) == "no answer within 0.01 s"


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
    assert told(lambda: says(RayActorError(error_msg="no more"))) == "its process died"
    assert told(lambda: says(TaskCancelledError())) == "it was stopped"


def test_a_mistake_of_ours_is_no_loss_and_keeps_its_traceback() -> None:
    raised = RayTaskError("turn", "  File worker.py\nTimeoutError", TimeoutError("x")).as_instanceof_cause()
    with pytest.raises(TimeoutError, match=r"worker\.py") as found:
        asyncio.run(answered_by(lambda: says(raised), 1.0))
    assert isinstance(found.value, RayTaskError)
