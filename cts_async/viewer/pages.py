"""The JSON answers of the interface between the server and its page.

    GET /                                              index.html
    GET /static/NAME                                   the page's other files
    GET /api/runs                                      all runs (`library`), and messages on what cannot be read
    GET /api/run?run=NAME                              its row, manifest, summary, versions, runs over the same data
    GET /api/changes?run=NAME                          what differs between a version and the one before (`versions`)
    GET /api/leaderboard?data=SHA&versions=A,B&all=    runs by group and judge (`leaderboards`, `versions`)
    GET /api/difference?runs=A,B                       the scores of A less those of B, by judge (`leaderboards`)
    GET /api/instances?run=NAME&judge=&sort=&min=&max=&unknown=&failed=&text=&after=&limit=    a page of its instances
    GET /api/matrix?data=SHA&runs=A,B&all=&judge=&show=&sort=&by=&of=&min=&max=&failed=&text=&after=&limit= (`matrix`)
    GET /api/csv?run=NAME&judge=&sort=&min=&...        all that pass the same filters, as CSV (`instances`)
    GET /api/csv?runs=A,B&judge=&show=&...             the same of a matrix: a column for each run
    GET /api/csv?data=SHA&versions=A,B&all=            a leaderboard as CSV
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
            "changes": self.changes,
            "instances": self.instances,
            "matrix": self.matrix,
            "instance": self.instance,
            "trace": self.trace,
            "steps": self.steps,
            "step": self.step,
        }

    def runs(self, parameters: Parameters) -> Json:
        rows = self._library.rows()
        folder = display_name(str(self._library.root))
        damaged = self._library.find().damaged
        return {"folder": folder, "version": __version__, "runs": rows, "damaged": damaged}

    def run(self, parameters: Parameters) -> Json:
        run = self._open(parameters)
        row = self._library.row(run.place.name)
        # Removed since it was opened.
        if row is None:
            raise Refused(404, NO_RUN)
        return {
            "row": row,
            "manifest": dict(run.manifest.raw),
            "command": run.manifest.command,
            "summary": run.summary(),
            "beside": self._other_runs(run),
            "versions": self._library.version_rows(run.place.name),
        }

    def changes(self, parameters: Parameters) -> Json:
        from cts_async.viewer.versions import changes_of

        return changes_of(self._library, parameters.get("run", ""))

    def instances(self, parameters: Parameters) -> Json:
        return list_instances(self._open(parameters), parameters)

    def instance(self, parameters: Parameters) -> Json:
        from cts_async.pages.instance import instance_page

        run = self._open(parameters)
        page = instance_page(run, parameters.get("id", ""), self._gold, self._other_runs(run))
        page["versions"] = self._library.version_rows(run.place.name)
        return page

    def matrix(self, parameters: Parameters) -> Json:
        from cts_async.viewer.matrix import Matrix, opened_runs
        from cts_async.viewer.versions import versions_of

        runs_over_data, runs = opened_runs(self._library, parameters, FIRST_S)
        matrix = Matrix(runs, parameters)
        page = matrix.page(runs_over_data)
        page["versions"] = versions_of(self._library, matrix.names)
        return page

    # The module of the following imports roles and agent: the list of instances is shown before that.

    def trace(self, parameters: Parameters) -> Json:
        from cts_async.viewer.trace import list_events

        run, id, after = self._open(parameters), parameters.get("id", ""), integer(parameters, "after")
        return list_events(run, id, after)

    def steps(self, parameters: Parameters) -> Json:
        from cts_async.viewer.trace import list_steps

        run, id, after = self._open(parameters), parameters.get("id", ""), integer(parameters, "after")
        return list_steps(run, id, after)

    def step(self, parameters: Parameters) -> bytes:
        """A journal line as it stands there."""
        from cts_async.viewer.trace import journal_line

        return journal_line(self._open(parameters), integer(parameters, "at"))

    def text(self, parameters: Parameters) -> str:
        """A long text of a search, whole."""
        from cts_async.viewer.trace import event_text

        number = integer(parameters, "n", 0)
        return event_text(self._open(parameters), parameters.get("id", ""), number)

    def download(self, parameters: Parameters) -> tuple[str, Iterator[bytes]] | None:
        """A file name, and an instance's journal lines; None while the journal is being indexed."""
        from cts_async.viewer.trace import download

        run = self._open(parameters)
        if run.advance(FIRST_S):
            return None
        return download(run, parameters.get("id", ""))

    def csv(self, parameters: Parameters) -> tuple[str, Iterator[bytes]] | None:
        """A file name, and the instances that pass the filters as CSV; None while they are being indexed."""
        from cts_async.viewer.matrix import Matrix, opened_runs, share_indexed

        if "runs" in parameters:
            _, runs = opened_runs(self._library, parameters, FIRST_S)
            if share_indexed(runs) < 1:
                return None
            return file_name("matrix", "csv"), Matrix(runs, parameters).csv()
        run = self._open(parameters)
        if run.ready < 1:
            return None
        return file_name(f"{run.place.name}-instances", "csv"), csv_of_instances(run, parameters)

    def prepare(self, run: OpenRun) -> None:
        """Load what an instance's page will need."""
        from cts_async.pages.instance import prepare

        prepare(run, self._gold)

    @cached_property
    def _gold(self) -> GoldTexts:
        # Imports roles, agent and datasets: the list of instances is shown before that.
        from cts_async.runs.gold_texts import GoldTexts

        return GoldTexts()

    def _open(self, parameters: Parameters) -> OpenRun:
        run = self._library.open(parameters.get("run", ""))
        if run is None:
            raise Refused(404, NO_RUN)
        # The indexing thread prepares what the pages of its instances need.
        run.viewed = True
        run.advance(FIRST_S)
        return run

    def _other_runs(self, run: OpenRun) -> list[str]:
        """The names of the other runs over the same data: the newest versions, and all of this run's lineage."""
        over = self._library.over(self._library.data_sha(run.manifest))
        contents = self._library.find()
        versions = contents.versions.get(run.place.name, ())
        others: list[str] = []
        for place, _ in over:
            is_older = place.name in contents.older and place.name not in versions
            if place.name != run.place.name and not is_older:
                others.append(place.name)
        return others
