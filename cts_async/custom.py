"""The decorator that makes a function play a role of the protocol; see docs/extending.md.

from cts_async import questions_in, role

@role("clarifier", version="3")
async def ask(view, llm):
    reply = await llm(f"Ask {view.k} questions, one a line, about: {view.blurred_query}", model="gpt")
    return questions_in(reply.text, view.k)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, get_args

RoleName = Literal["clarifier", "answerer", "rewriter", "agent", "judge"]
ROLE_NAMES: Final[tuple[RoleName, ...]] = get_args(RoleName)
DEFAULT_TIMEOUT_S: Final = 600.0
ATTRIBUTE: Final = "__cts_role__"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RoleInfo:
    """What `role` notes about a function."""

    role: RoleName
    version: str
    timeout_s: float


def role(name: RoleName, *, version: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> Callable[[F], F]:
    """Let a function play the role `name`.

    Its first parameter is the role's view (`cts_async.protocol.views`); by name it may also take `llm` (calls a model
    of the catalogue), and an agent `search`, `visit` and `ask` (the run's search engine, its page reader, and one
    question to the user). It may be `async`.

    A clarifier returns the list of exactly `view.k` questions, an answerer a short phrase or "unknown", a rewriter the
    query, an agent its answer (or a mapping with "answer", "sources" and "trace"), a judge the label of every nugget
    by its id ("full", "partial" or "none").

    Args:
        version: Part of the identity of every call; change it when something that the function uses has changed. The
            content of the function's own source file always is a part.
        timeout_s: Seconds after which a call counts as hanging. Waiting for `llm`, `search`, `visit` and `ask` does
            not count.

    Raises:
        ValueError: For an unknown role, or a timeout that is not positive.
    """
    if name not in ROLE_NAMES:
        raise ValueError(f"unknown role {name!r}: one of {', '.join(ROLE_NAMES)}")
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be positive, not {timeout_s!r}")
    info = RoleInfo(name, str(version), float(timeout_s))

    def mark(function: F) -> F:
        setattr(function, ATTRIBUTE, info)
        return function

    return mark
