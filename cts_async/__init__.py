"""Clarify-then-search: does asking a clarifying question make a deep-search agent answer better?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cts_async.custom import role

if TYPE_CHECKING:
    from cts_async.api import Tables, compare, judge, load, questions_in, run

__version__ = "0.15.5"

__all__ = ["Tables", "compare", "judge", "load", "questions_in", "role", "run"]


def __getattr__(name: str) -> Any:
    # Imported when first used: the command line imports this package, too, and starts without these.
    if name in __all__:
        from cts_async import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
