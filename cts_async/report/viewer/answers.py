"""What each address of the interface answers (`shapes`): from parameters to JSON, in a worker thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from cts_async import __version__
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.listing import list_instances
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.query import Asked, instance_query, whole
from cts_async.report.viewer.refusal import NO_RUN, Refused
from cts_async.report.viewer.shapes import InstanceList, InstancePage, RunPage, Runs, StepList, TracePage
from cts_async.report.viewer.values import printable

if TYPE_CHECKING:
    from cts_async.report.viewer.inside import Inside

MAX_PART: Final = 6_000
FIRST_S: Final = 0.1
"""So long a request indexes a run itself before it answers with what is known."""


class Answers:
    """Everything that is answered from files. Methods raise Refused."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known_inside: Inside | None = None
        self._loading = threading.Lock()

    def by_name(self) -> Mapping[str, Callable[[dict[str, str]], Any]]:
        """Each answer in JSON by the last part of its address."""
        return {
            "runs": self.runs,
            "run": self.run,
            "instances": self.instances,
            "instance": self.instance,
            "trace": self.trace,
            "steps": self.steps,
            "step": self.step,
        }

    def runs(self, asked: Asked) -> Runs:
        rows = self._library.rows()
        folder = printable(str(self._library.root))
        return {"folder": folder, "version": __version__, "runs": rows, "damaged": self._library.damaged()}

    def run(self, asked: Asked) -> RunPage:
        run = self._opened(asked)
        row = self._library.row(run.place.name)
        if row is None:
            raise Refused(404, NO_RUN)
        return {
            "row": row,
            "manifest": dict(run.about.manifest),
            "summary": run.summary(),
            "beside": self._beside(run),
        }

    def instances(self, asked: Asked) -> InstanceList:
        return list_instances(self._opened(asked), instance_query(asked))

    def instance(self, asked: Asked) -> InstancePage:
        run = self._opened(asked)
        return self._inside().instance(run, asked.get("id", ""), self._beside(run))

    def trace(self, asked: Asked) -> TracePage:
        return self._inside().trace(self._opened(asked), asked.get("id", ""), whole(asked, "after", 0))

    def steps(self, asked: Asked) -> StepList:
        return self._inside().steps(self._opened(asked), asked.get("id", ""), whole(asked, "after", 0))

    def step(self, asked: Asked) -> bytes:
        return self._inside().step(self._opened(asked), whole(asked, "at", 0))

    def text(self, asked: Asked) -> str:
        """A long text, whole."""
        part = asked.get("part", "")
        if len(part) > MAX_PART:
            raise Refused(400, f"part: longer than {MAX_PART} characters")
        return self._inside().text(self._opened(asked), whole(asked, "at", 0), part)

    def read_on(self, asked: Asked) -> bool:
        """Read a little further in a run's files; whether there is more to come."""
        return self._opened(asked).advance(FIRST_S)

    def download(self, asked: Asked) -> tuple[str, Iterator[bytes]]:
        """A name for a file, and the lines of an instance."""
        return self._inside().download(self._opened(asked), asked.get("id", ""))

    def prepare(self, run: OpenRun) -> None:
        """Load what an instance's page will need."""
        self._inside().prepare(run)

    def _inside(self) -> Inside:
        with self._loading:
            if self._known_inside is None:
                # Roles, agent and datasets come with it: the list of instances is there before.
                from cts_async.report.viewer.inside import Inside

                self._known_inside = Inside()
            return self._known_inside

    def _opened(self, asked: Asked) -> OpenRun:
        run = self._library.open(asked.get("run", ""))
        if run is None:
            raise Refused(404, NO_RUN)
        run.looked_into = True
        run.advance(FIRST_S)
        return run

    def _beside(self, run: OpenRun) -> list[str]:
        over = self._library.over(self._library.data_sha(run.about))
        return [place.name for place, _ in over if place.name != run.place.name]
