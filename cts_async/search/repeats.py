"""Calls that the agent makes again and again."""

from __future__ import annotations

from cts_async.search.tags import SearchCall, VisitCall
from cts_async.search.talk import Talk


class Repeats:
    """Counts identical calls whose responses can still be read."""

    def __init__(self) -> None:
        self._turns: dict[SearchCall | VisitCall, list[str]] = {}

    def count(self, call: SearchCall | VisitCall, turn: str, talk: Talk) -> int:
        """Note that `call` is made in `turn`; how often it was made by now, 1 for the first time.

        A call whose response was left out since, to make room, may be made anew.
        """
        shown = [before for before in self._turns.get(call, []) if before == turn or talk.shows(before)]
        self._turns[call] = [*shown, turn]
        return len(self._turns[call])
