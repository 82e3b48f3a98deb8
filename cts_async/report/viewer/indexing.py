"""Indexes what requests have begun, in a thread of its own, until nothing is left to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from cts_async.report.viewer.library import Library
from cts_async.report.viewer.open_run import OpenRun

SLICE_S: Final = 0.05


class Indexing:
    """`wake` whenever a run may have been opened, or may have grown."""

    def __init__(self, library: Library, prepare: Callable[[OpenRun], None]) -> None:
        self._library, self._prepare = library, prepare
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
            try:
                while not self._closed and self._slice():
                    pass
            except Exception:  # a bug: the next request wakes us again
                logging.getLogger(__name__).exception("indexing failed")

    def _slice(self) -> bool:
        """Index a little of the run that was looked at last; whether there may be more to do."""
        run = next(self._library.unready(), None)
        if run is None:
            return False
        if run.looked_into and run.ready >= 1 and not run.prepared:
            self._prepare(run)  # before the journal, which takes longest
        else:
            run.advance(SLICE_S)
        return True
