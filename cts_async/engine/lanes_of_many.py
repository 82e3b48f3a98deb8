"""One account's lane in many processes that come and go, as one lane for whoever looks on."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from cts_async.engine.events import LaneStatus, at_rest, merged


class LanesOfMany:
    """`heard` what a process says of its lanes, `gone` when it is no more; ask for `status` in any thread.

    What a process that is gone sent and was charged stays counted: sums only ever grow.
    """

    def __init__(self) -> None:
        self._said: dict[str, dict[str, LaneStatus]] = {}
        """By lane and process, its last word."""
        self._kept: dict[str, LaneStatus] = {}
        """By lane, the sums of those that are gone."""
        self._gone: set[str] = set()
        self._lock = threading.Lock()

    def heard(self, process: str, statuses: Iterable[LaneStatus]) -> list[str]:
        """Take in what a process says of all lanes that it has used; gives the names of lanes nobody had used before.

        What one says that is gone already is counted, and counts no more.
        """
        with self._lock:
            if process in self._gone:
                return []
            new = []
            for status in statuses:
                if status.name not in self._said:
                    self._said[status.name] = {}
                    new.append(status.name)
                self._said[status.name][process] = status
            return new

    def gone(self, process: str) -> None:
        """A process is no more: nothing of it is under way."""
        with self._lock:
            self._gone.add(process)
            for name, said in self._said.items():
                if last := said.pop(process, None):
                    kept = self._kept.get(name)
                    self._kept[name] = at_rest(merged([kept, last] if kept else [last]))

    def names(self) -> list[str]:
        """The lanes that anybody used, in the order of their first use."""
        with self._lock:
            return list(self._said)

    def status(self, name: str) -> LaneStatus:
        """All processes together. Raises KeyError for a lane that nobody has used."""
        with self._lock:
            statuses = list(self._said[name].values())
            kept = self._kept.get(name)
        return merged([*statuses, kept] if kept else statuses)
