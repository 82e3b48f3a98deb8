"""Calls of actors, and the one seam where Ray's errors become ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError, TaskCancelledError

CAUSES: Final = (
    ("low on memory", "its node ran out of memory"),
    ("node has died", "its node is gone"),
    ("node was terminated", "its node is gone"),
    ("ray.kill", "it was killed"),
    ("owner has died", "its head is gone"),
    ("unavailable", "it cannot be reached"),
)
"""What Ray says of an actor that does not answer, and what it comes to; where none fits, its process died."""


CUT_OFF: Final = "Ray's client is cut off from the cluster"
SILENT: Final = frozenset({"it cannot be reached", "its node is gone", CUT_OFF})
"""Causes that say nothing of its process."""


class Call(Protocol):
    """A reference to what an actor's method will return."""

    def future(self) -> Future[Any]: ...


def sent(method: Any, *said: Any, lost: Callable[[str], Exception]) -> Call:
    """Call an actor's method, or start an actor. Raises `lost(why)` where Ray's client has no connection any more."""
    try:
        return cast(Call, method.remote(*said))
    except ConnectionError:
        raise lost(CUT_OFF) from None
    except Exception:
        if ray.is_initialized():
            raise
        raise lost(CUT_OFF) from None  # later on Ray's client has no class of its own for this


def end(actor: Any) -> None:
    """End an actor for good, if Ray can be reached to do so: without, all that it had is ended by itself."""
    if ray.is_initialized():
        with suppress(RayError, ValueError, ConnectionError):
            ray.kill(actor, no_restart=True)


async def called(method: Any, *said: Any, within_s: float | None, lost: Callable[[str], Exception]) -> Any:
    """What an actor's method returns; raises as `sent` and `answered` do."""
    return await answered(sent(method, *said, lost=lost), within_s, lost)


async def answered(call: Call, limit_s: float | None, lost: Callable[[str], Exception]) -> Any:
    """What an actor's method returns. Raises `lost(why)` where it does not answer, or not within `limit_s`.

    An error of the method itself is raised as it is: a mistake of ours, with the traceback it had there.
    """
    try:
        async with asyncio.timeout(limit_s):
            return await _answer(call)
    except TaskCancelledError:
        raise lost("it was stopped") from None
    except RayTaskError:
        raise
    except TimeoutError:
        raise lost(f"no answer within {limit_s:g} s") from None
    except RayError as error:
        raise lost(plain_cause(error)) from None
    except ConnectionError:
        raise lost(CUT_OFF) from None


def _answer(call: Call) -> asyncio.Future[Any]:
    """The call's own future is never cancelled with the one that waits for it: Ray's client would trip over that."""
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def settle(called: Future[Any]) -> None:
        if answer.done():
            return
        if error := called.exception():
            answer.set_exception(error)
        else:
            answer.set_result(called.result())

    def hear(called: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(settle, called)

    call.future().add_done_callback(hear)
    return answer


def plain_cause(error: RayError) -> str:
    """Why a call has failed, in a few words."""
    said = str(error)
    if isinstance(error, RayActorError) and error.actor_init_failed:
        return f"it cannot begin: {said.strip().splitlines()[-1]}"
    if not isinstance(error, RayActorError):
        return " ".join(said.split())[:200]
    return next((cause for words, cause in CAUSES if words in said), "its process died")
