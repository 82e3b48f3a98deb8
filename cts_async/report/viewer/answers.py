"""What each address of the interface answers (`shapes`): from parameters to JSON, in a worker thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cts_async import __version__
from cts_async.report.viewer.files import record_in
from cts_async.report.viewer.gold_texts import GoldTexts
from cts_async.report.viewer.instance import Counts, instance_page
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.listing import list_instances
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.query import Asked, instance_query, whole
from cts_async.report.viewer.refusal import NO_INSTANCE, NO_RUN, Refused
from cts_async.report.viewer.shapes import InstanceList, InstancePage, RunPage, Runs, StepList, TracePage
from cts_async.report.viewer.telling import (
    NO_LINE,
    Telling,
    count_steps,
    line_of,
    lines_of,
    list_steps,
    text_at,
)
from cts_async.report.viewer.values import printable

MAX_PART: Final = 6_000
FIRST_S: Final = 0.1
"""So long a request indexes a run itself before it answers with what is known."""


class Answers:
    """Everything that is answered with JSON."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._gold = GoldTexts()
        self._telling = Telling()

    def by_name(self) -> Mapping[str, Callable[[dict[str, str]], Any]]:
        """Each answer by the last part of its address. They raise Refused."""
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
        damaged = list(self._library.find().damaged)
        return {
            "folder": printable(str(self._library.root)),
            "version": __version__,
            "runs": rows,
            "damaged": damaged,
        }

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
        run, id = self._opened(asked), asked.get("id", "")
        events = len(self._telling.events(run, id)) if run.journal_ready else None
        counts = Counts(events, count_steps(run, id))
        return instance_page(run, id, self._gold, counts, self._beside(run))

    def trace(self, asked: Asked) -> TracePage:
        return self._telling.trace(self._opened(asked), asked.get("id", ""), whole(asked, "after", 0))

    def steps(self, asked: Asked) -> StepList:
        return list_steps(self._opened(asked), asked.get("id", ""), whole(asked, "after", 0))

    def step(self, asked: Asked) -> bytes:
        line = line_of(self._opened(asked), whole(asked, "at", 0))
        if record_in(line) is None:
            raise Refused(404, NO_LINE)
        return line

    def text(self, asked: Asked) -> str:
        """A long text, whole."""
        part = asked.get("part", "")
        if len(part) > MAX_PART:
            raise Refused(400, f"part: longer than {MAX_PART} characters")
        return text_at(self._opened(asked), whole(asked, "at", 0), part)

    def download(self, asked: Asked) -> tuple[str, Iterator[bytes]]:
        """A name for a file, and the lines of an instance."""
        run, id = self._opened(asked), asked.get("id", "")
        if run.find(run.results.lines(), id) is None and not count_steps(run, id):
            raise Refused(404, NO_INSTANCE)
        return f"{run.place.name}-{id}", lines_of(run, id)

    def _opened(self, asked: Asked) -> OpenRun:
        run = self._library.open(asked.get("run", ""))
        if run is None:
            raise Refused(404, NO_RUN)
        run.looked_into = True
        run.advance(FIRST_S)
        return run

    def prepare(self, run: OpenRun) -> None:
        """Look for a run's gold before somebody asks for it: a large one takes seconds."""
        self._gold.prepare(run.about)
        run.prepared = True

    def _beside(self, run: OpenRun) -> list[str]:
        over = self._library.over(self._library.data_sha(run.about))
        return [place.name for place, _ in over if place.name != run.place.name]
