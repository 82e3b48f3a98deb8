"""The JSON answers of the interface between the server and its page.

    GET /                                              index.html
    GET /static/NAME                                   the page's other files
    GET /api/runs                                      all runs (`library`), and messages on what cannot be read
    GET /api/run?run=NAME                              its row, manifest, summary, and other runs over the same data
    GET /api/leaderboard?data=SHA                      runs over the same data, by judge (`leaderboards`)
    GET /api/difference?runs=A,B                       the scores of A less those of B, by judge (`leaderboards`)
    GET /api/instances?run=NAME&judge=&sort=&min=&max=&unknown=&failed=&text=&after=&limit=    a page of its instances
    GET /api/matrix?data=SHA&runs=A,B&judge=&show=&sort=&by=&of=&min=&max=&failed=&text=&after=&limit=    (`matrix`)
    GET /api/csv?run=NAME&judge=&sort=&min=&...        all that pass the same filters, as CSV (`instances`)
    GET /api/csv?runs=A,B&judge=&show=&...             the same of a matrix: a column for each run
    GET /api/csv?data=SHA                              a leaderboard as CSV
    GET /api/instance?run=NAME&id=ID                   one instance (`instance`)
    GET /api/trace?run=NAME&id=ID&after=N              a page of its search, event by event (`trace`)
    GET /api/steps?run=NAME&id=ID&after=N              a page of its steps in the journal
    GET /api/step?run=NAME&at=OFFSET                   the journal line at an offset, verbatim
    GET /api/text?run=NAME&id=ID&n=N                   the whole text of an event of its search as text/plain
    GET /api/download?run=NAME&id=ID                   the instance's journal lines, as a file
    GET /api/events?run=NAME                           server-sent events (`events`): `changed` with a run's row, `gone`

All text is of unknown origin: models', web pages', datasets'. The page shows it as text, never as markup. Numbers are
not rounded; null means that there is none. A run is named by its path below the folder, with "/" between ("a/b").

Errors are {"error": "one line"} with status 400, 403, 404, 405, 409 (the file was replaced) or 503 (overload).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from cts_async import __version__
from cts_async.runs.index import NO_RUN, Json, Refused, display_name, file_name
from cts_async.runs.open_run import OpenRun
from cts_async.viewer.instances import Parameters, csv_of_instances, integer, list_instances
from cts_async.viewer.library import Library

if TYPE_CHECKING:
    from cts_async.runs.gold_texts import GoldTexts

FIRST_S: Final = 0.1
"""How long a request indexes a run itself before it answers with what is known."""


class Endpoints:
    """Everything that is answered from files. Methods run in worker threads and raise Refused."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def by_name(self) -> Mapping[str, Callable[[Parameters], Any]]:
        """Each JSON answer by the last part of its address."""
        return {
            "runs": self.runs,
            "run": self.run,
            "instances": lambda given: list_instances(self._opened(given), given),
            "matrix": self.matrix,
            "instance": self.instance,
            "trace": lambda given: _trace().list_events(*self._part_of_instance(given)),
            "steps": lambda given: _trace().list_steps(*self._part_of_instance(given)),
            "step": lambda given: _trace().journal_line(self._opened(given), integer(given, "at")),
        }

    def runs(self, given: Parameters) -> Json:
        rows = self._library.rows()
        folder = display_name(str(self._library.root))
        damaged = self._library.find().damaged
        return {"folder": folder, "version": __version__, "runs": rows, "damaged": damaged}

    def run(self, given: Parameters) -> Json:
        run = self._opened(given)
        row = self._library.row(run.place.name)
        if row is None:
            raise Refused(404, NO_RUN)
        return {
            "row": row,
            "manifest": dict(run.manifest.raw),
            "command": run.manifest.command,
            "summary": run.summary(),
            "beside": self._beside(run),
        }

    def instance(self, given: Parameters) -> Json:
        from cts_async.pages.instance import instance_page

        run = self._opened(given)
        return instance_page(run, given.get("id", ""), self._gold, self._beside(run))

    def matrix(self, given: Parameters) -> Json:
        from cts_async.viewer.matrix import Matrix, opened_runs

        known, runs = opened_runs(self._library, given, FIRST_S)
        return Matrix(runs, given).page(known)

    def text(self, given: Parameters) -> str:
        """A long text of a search, whole."""
        number = integer(given, "n", 0)
        text: str = _trace().event_text(self._opened(given), given.get("id", ""), number)
        return text

    def download(self, given: Parameters) -> tuple[str, Iterator[bytes]] | None:
        """A file name, and an instance's journal lines; None while the journal is being indexed."""
        run = self._opened(given)
        if run.advance(FIRST_S):
            return None
        found: tuple[str, Iterator[bytes]] = _trace().download(run, given.get("id", ""))
        return found

    def csv(self, given: Parameters) -> tuple[str, Iterator[bytes]] | None:
        """A file name, and the instances that pass the filters as CSV; None while they are being indexed."""
        from cts_async.viewer.matrix import Matrix, opened_runs, share_indexed

        if "runs" in given:
            _, runs = opened_runs(self._library, given, FIRST_S)
            return (
                (file_name("matrix", "csv"), Matrix(runs, given).csv()) if share_indexed(runs) >= 1 else None
            )
        run = self._opened(given)
        if run.ready < 1:
            return None
        return file_name(f"{run.place.name}-instances", "csv"), csv_of_instances(run, given)

    def prepare(self, run: OpenRun) -> None:
        """Load what an instance's page will need."""
        from cts_async.pages.instance import prepare

        prepare(run, self._gold)

    @cached_property
    def _gold(self) -> GoldTexts:
        # Imports roles, agent and datasets: the list of instances is shown before that.
        from cts_async.runs.gold_texts import GoldTexts

        return GoldTexts()

    def _part_of_instance(self, given: Parameters) -> tuple[OpenRun, str, int]:
        return self._opened(given), given.get("id", ""), integer(given, "after")

    def _opened(self, given: Parameters) -> OpenRun:
        run = self._library.open(given.get("run", ""))
        if run is None:
            raise Refused(404, NO_RUN)
        run.viewed = True
        run.advance(FIRST_S)
        return run

    def _beside(self, run: OpenRun) -> list[str]:
        over = self._library.over(self._library.data_sha(run.manifest))
        return [place.name for place, _ in over if place.name != run.place.name]


def _trace() -> ModuleType:
    """The module `trace`, imported late for the same reason."""
    from cts_async.viewer import trace

    return trace
