"""Conversations opened in a report: where the last query retrieved best and worst, and gained and lost most."""

from __future__ import annotations

from collections.abc import Iterator

from cts_async.analysis.extremes import Extreme, extremes_of
from cts_async.analysis.turn_retrieval import NOBODY_ASKED, Cell, TurnRetrieval
from cts_async.report.gathered import Gathered
from cts_async.report.opened import FEW, FEW_SYSTEMS, MANY, MOST_SYSTEMS, OpenedRun, opened_lines
from cts_async.report.summary import RunSummary


def open_talks(gathered: Gathered) -> Iterator[OpenedRun]:
    """Of each run of conversations that was evaluated, the extremes in the first measure, over q itself."""
    retrieved = gathered.talked.retrieved if gathered.talked else ()
    most = MANY if len(gathered.talks) <= FEW_SYSTEMS else FEW
    for talk in gathered.talks[:MOST_SYSTEMS]:
        found = next((one for one in retrieved if talk.directory in one.directories), None)
        last = _last(found, talk) if found else None
        if found and last:
            measure = found.measures[0]
            yield OpenedRun(
                talk.label,
                talk.directory,
                measure=f"{measure} of the last query",
                decimals=3,
                baseline=f"the query {NOBODY_ASKED}",
                embedded=bool(talk.manifest.get("embedded")),
                instances=tuple(opened_lines(talk.directory, _extremes(found, last, measure, most))),
            )


def _last(found: TurnRetrieval, talk: RunSummary) -> Cell | None:
    """What was retrieved after the run's last turn."""
    identity = talk.manifest.get("identity") or {}
    own = [
        cell
        for cell in found.cells
        if (cell.scheme, cell.mode) == (identity.get("scheme"), identity.get("mode"))
    ]
    return max(own, key=lambda cell: cell.turn, default=None)


def _extremes(found: TurnRetrieval, last: Cell, measure: str, most: int) -> tuple[Extreme, ...]:
    import numpy as np

    scores, without = last.scores[measure], found.without[measure]
    ids = sorted(scores)
    values = np.array([scores[id] for id in ids], float)
    gains = values - np.array([without.get(id, np.nan) for id in ids], float)
    return extremes_of(ids, values, gains, most)
