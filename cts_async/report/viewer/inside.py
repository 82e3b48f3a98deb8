"""What is answered about one instance of a run: its page, its search, its steps. Loaded when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cts_async.records import language_of
from cts_async.report.added_words import segments
from cts_async.report.viewer.files import record_in
from cts_async.report.viewer.gold_texts import GoldTexts
from cts_async.report.viewer.instance import Counts, instance_page
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.refusal import NO_INSTANCE, Refused
from cts_async.report.viewer.shapes import InstancePage, StepList, TracePage
from cts_async.report.viewer.telling import (
    DAMAGED,
    Telling,
    count_steps,
    line_of,
    lines_of,
    list_steps,
    text_at,
)
from cts_async.report.viewer.values import as_text


class Inside:
    """Everything about instances, in worker threads. Methods raise Refused."""

    def __init__(self) -> None:
        self._gold = GoldTexts()
        self._telling = Telling()

    def prepare(self, run: OpenRun) -> None:
        """Have its gold and its language's words before somebody asks for an instance: they take a while."""
        self._gold.prepare(run.about)
        first = run.first()
        if first and language_of(as_text(first.get("rewritten_query")) or "") == "zh":
            segments("词", "词")
        run.prepared = True

    def instance(self, run: OpenRun, id: str, beside: Sequence[str]) -> InstancePage:
        """The instance, whole."""
        events = len(self._telling.events(run, id)) if run.journal_ready else None
        return instance_page(run, id, self._gold, Counts(events, count_steps(run, id)), beside)

    def trace(self, run: OpenRun, id: str, after: int) -> TracePage:
        """A page of its search."""
        return self._telling.trace(run, id, after)

    def steps(self, run: OpenRun, id: str, after: int) -> StepList:
        """A page of its steps."""
        return list_steps(run, id, after)

    def step(self, run: OpenRun, at: int) -> bytes:
        """A line of the journal."""
        line = line_of(run, at)
        if record_in(line) is None:
            raise Refused(404, DAMAGED)
        return line

    def text(self, run: OpenRun, at: int, part: str) -> str:
        """A long text, whole."""
        return text_at(run, at, part)

    def download(self, run: OpenRun, id: str) -> tuple[str, Iterator[bytes]]:
        """A name for a file, and the lines of an instance."""
        if run.find(run.results.lines(), id) is None and not count_steps(run, id):
            raise Refused(404, NO_INSTANCE)
        return f"{run.place.name}-{id}", lines_of(run, id)
