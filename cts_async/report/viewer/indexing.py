"""Indexes what requests have begun, in a thread of its own, until nothing is left to do."""

from __future__ import annotations

import threading
from typing import Final

from cts_async.report.viewer.library import Library

SLICE_S: Final = 0.05


class Indexing:
    """`wake` whenever a run may have been opened, or may have grown."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="indexing", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Stop after the slice under way."""
        self._closed = True
        self._woken.set()

    def _run(self) -> None:
        while not self._closed:
            self._woken.wait()
            self._woken.clear()
            while not self._closed and self._slice():
                pass

    def _slice(self) -> bool:
        """Index a little of the run that was looked at last; whether there may be more to do."""
        run = next(self._library.unready(), None)
        if run is None:
            return False
        return run.advance(SLICE_S)
