"""Which model answered: providers retire models, reroute names, and say so only in the reply.

A *snapshot* of the model asked for is that model: its name with a date or a numbered release behind it
(`gpt-5.2` answered by `gpt-5.2-2025-12-11`). Everything else under another name is another model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cts_async.engine.events import Events, Notice

_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_SNAPSHOT: Final = re.compile(
    rf"""[-@:.](?:
        20\d\d-?{_MONTH}-?\d\d      # 2025-12-11, 20250929
        | \d\d{_MONTH}\d\d          # 251211
        | \d\d{_MONTH} | {_MONTH}\d\d | {_MONTH}-\d\d   # 2507, 0905, 05-06
        | 0\d\d                     # 001
        | latest
    )""",
    re.VERBOSE,
)


def another_model(asked: str, served: str) -> bool:
    """Whether `served`, a reply's own word, is another model than `asked`; one that says nothing is not.

    Case does not matter, nor do folders in front (`models/`, `openai/`); `NAME-latest` asks for any snapshot.
    """
    wanted, given = _bare(asked), _bare(served)
    if not given or given == wanted:
        return False
    wanted = wanted.removesuffix("-latest")
    return not (given == wanted or (given.startswith(wanted) and _SNAPSHOT.fullmatch(given, len(wanted))))


def _bare(name: str) -> str:
    return name.strip().rpartition("/")[2].lower()


def shown(name: str) -> str:
    """A model's name as it may be printed: what a server calls itself is anybody's text."""
    return "".join(c if c.isprintable() else "?" for c in name[:80])


class ServedModels:
    """Tells once of every model that answers in place of another, or without a parameter it was to have."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._told: set[tuple[str, str]] = set()

    def saw(self, asked: str, served: str) -> None:
        """A reply to a request for `asked` names `served`."""
        if (asked, served) in self._told:
            return
        self._told.add((asked, served))
        if another_model(asked, served):
            self._events.emit(Notice(f"{shown(asked)} was asked for, {shown(served)} answers"))

    def went_without(self, asked: str, parameters: Sequence[str]) -> None:
        """A reply to a request for `asked` was made without `parameters`, which the server refuses."""
        for name in parameters:
            if (asked, name) not in self._told:
                self._told.add((asked, name))
                self._events.emit(
                    Notice(f"{shown(asked)} refuses the parameter {name}: sent without it from now on")
                )
