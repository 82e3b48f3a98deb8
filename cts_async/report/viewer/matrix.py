"""Instances by runs: a row for each instance of runs over the same data, a column for each run.

Parameters, besides those of a list of instances (see `pages`): `runs` names the columns, separated by commas (a comma
in a name is "%2C", a percent sign "%25"); without it they are those of `data`, orig first, MAX_COLUMNS at most.
`show` is what the cells hold. `sort` is "file" (the default: as the first run has them), "value" or "-value" (of the
run `by`; rows without one last), "spread" or "-spread" (largest difference within a row), "gap" or "-gap" (value of
the first column minus that of the second). `min` and `max` limit scores, `failed` chooses failures: those of the run
`of`, or without it of any column.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from cts_async.analysis.runs import ORIG
from cts_async.report.viewer.index import NO_RUN, Json, Refused, ResultLines, instance_name, opened
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.pages import (
    MAX_CHARS,
    Parameters,
    Read,
    choice,
    csv_pieces,
    line_has,
    line_of,
    page_of,
    queries_of,
    score_limit,
)
from cts_async.report.viewer.run import OpenRun

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_COLUMNS: Final = 12
"""Below `library.MAX_OPEN`: all runs of a matrix stay open."""
SPENDING: Final = ("seconds", "cost")
SHOWN: Final = ("score", "gain", "turns", *SPENDING)
"""What cells may hold: the judge's score, its difference to that of orig, the agent's model calls, and the seconds and
dollars of all model calls."""
SORTS: Final = ("file", "value", "-value", "spread", "-spread", "gap", "-gap")


# --- Which runs


def opened_runs(library: Library, given: Parameters, max_s: float) -> tuple[list[Json], list[OpenRun]]:
    """Every run over the data as {name, system}, and those that are columns, indexed for `max_s`. Raises Refused."""
    known, chosen = _chosen_runs(library, given)
    runs = [run for name in chosen if (run := library.open(name))]
    until = time.monotonic() + max_s
    for run in runs:
        if given.get("show") in SPENDING:
            run.index_spending()
        run.advance(max(0.0, until - time.monotonic()))
    return known, runs


def _chosen_runs(library: Library, given: Parameters) -> tuple[list[Json], list[str]]:
    asked = [unquote(name) for name in given.get("runs", "").split(",") if name]
    if len(asked) > MAX_COLUMNS:
        raise Refused(400, f"runs: at most {MAX_COLUMNS} at once")
    found = [library.get(name) for name in dict.fromkeys(asked)]
    if None in found:
        raise Refused(404, NO_RUN)
    data = {library.data_sha(one[1]) for one in found if one} or {given.get("data", "")}
    if len(data) > 1:
        raise Refused(400, "runs: these are over different data")
    over = sorted(library.over(data.pop()), key=lambda one: (one[1].system != ORIG, one[0].name)) or found
    if not over:
        raise Refused(404, "no runs over these data")
    known = [{"name": one[0].name, "system": one[1].system} for one in over if one]
    searched = [one[0].name for one in over if one and one[1].kind != "talk"]
    columns = list(dict.fromkeys(asked)) or searched[:MAX_COLUMNS]
    if not columns:
        raise Refused(404, "runs without an agent have no scores")
    return known, columns


# --- The table


@dataclass(frozen=True, eq=False)
class Table:
    """The instances of several runs. Columns are in the order of `runs`; matrices have shape (runs, instances)."""

    runs: Sequence[OpenRun]
    lines: Sequence[ResultLines]
    ids: Array
    """Hashes of all instances, in the order in which the first run that has each one has them."""
    rows: Array
    """The row of each instance in the lines of each run; -1 if it has none."""

    @cached_property
    def failed(self) -> Array:
        return self._of_lines([lines.failed for lines in self.lines], False)

    @cached_property
    def turns(self) -> Array:
        import numpy as np

        turns = self._of_lines([lines.turns.astype(float) for lines in self.lines], math.nan)
        return np.where(turns > 0, turns, math.nan)

    def spending(self, show: str) -> Array:
        """Seconds or dollars; NaN where unknown, and where an instance is missing or failed."""
        import numpy as np

        nothing = np.full((2, len(self.ids)), math.nan)
        amounts = [run.spending.of(self.ids) if run.spending else nothing for run in self.runs]
        done = (self.rows >= 0) & ~self.failed
        found: Array = np.where(done, np.array(amounts)[:, SPENDING.index(show)], math.nan)
        return found

    def scores(self, judge: str) -> Array:
        """NaN where a run has no score by this judge."""
        import numpy as np

        columns = []
        for run, lines in zip(self.runs, self.lines, strict=True):
            index = run.judges().get(judge)
            columns.append(run.scores(index, lines) if index else np.full(len(lines), math.nan))
        return self._of_lines(columns, math.nan)

    def _of_lines(self, columns: Sequence[Array], missing: float) -> Array:
        import numpy as np

        # A run without any line has nothing to index.
        return np.array(
            [
                np.where(rows >= 0, column[rows], missing) if len(column) else np.full(len(rows), missing)
                for rows, column in zip(self.rows, columns, strict=True)
            ]
        )


def table_of(runs: Sequence[OpenRun]) -> Table:
    """The table of what is indexed of these runs."""
    lines = tuple(run.results.lines() for run in runs)
    return Table(runs, lines, *_aligned(lines))


@lru_cache(maxsize=1)  # sorting six runs of 100,000 instances takes 0.2 s, all else 0.02 s
def _aligned(lines: Sequence[ResultLines]) -> tuple[Array, Array]:
    """`Table.ids` and `Table.rows`."""
    import numpy as np

    every = np.concatenate([one.ids for one in lines])
    _, first = np.unique(every, return_index=True)
    ids = every[np.sort(first)]
    return ids, np.array([one.rows_of_hashes(ids) for one in lines])


def _spread(values: Array) -> Array:
    """The largest difference between two values of each column; NaN where there are fewer than two."""
    import numpy as np

    several = np.isfinite(values).sum(axis=0) > 1
    high = np.where(np.isnan(values), -math.inf, values).max(axis=0, initial=-math.inf)
    low = np.where(np.isnan(values), math.inf, values).min(axis=0, initial=math.inf)
    return np.where(several, np.where(several, high, 0.0) - np.where(several, low, 0.0), math.nan)


# --- A page of it, and all of it


@dataclass(frozen=True, eq=False)
class _Cells:
    """What the cells of a table hold, and its rows that pass all filters but the text, in order."""

    names: Sequence[str]
    judges: Sequence[str]
    judge: str
    show: str
    baseline: str | None
    values: Array
    spread: Array
    gap: Array
    """The value of the first column minus that of the second."""
    fits: Array
    order: Array


def _cells(table: Table, given: Parameters) -> _Cells:
    """What the parameters ask for. Raises Refused."""
    import numpy as np

    names = [run.place.name for run in table.runs]
    judges = _judges(table.runs)
    judge = choice(given, "judge", tuple(judges)) or next(iter(judges), "")
    show = choice(given, "show", SHOWN) or SHOWN[0]
    baseline = next((run.place.name for run in table.runs if run.metadata.system == ORIG), None)
    scores = table.scores(judge)
    values = _values(table, show, scores, names.index(baseline) if baseline else None)
    spread = _spread(values)
    gap = values[0] - values[1] if len(names) > 1 else np.full(len(table.ids), math.nan)
    fits = np.flatnonzero(_fits(table, scores, names, given))
    order = fits[_order(values, spread, gap, names, given)[fits].argsort(kind="stable")]
    return _Cells(names, judges, judge, show, baseline, values, spread, gap, fits, order)


def matrix_page(known: Sequence[Json], runs: Sequence[OpenRun], given: Parameters) -> Json:
    """One page of the table; only lines of its rows are read. `known` are all runs over the data. Raises Refused."""
    import numpy as np

    table = table_of(runs)
    cells = _cells(table, given)
    values = cells.values[:, cells.fits]
    common = values[:, np.isfinite(values).all(axis=0)]
    return {
        **page_of(cells.order, _reader(table, cells), given),
        "runs": [
            {"name": run.place.name, "system": run.metadata.system, "caveat": run.metadata.caveat}
            for run in runs
        ],
        # Over the instances in which every cell has a value, whatever the text.
        "means": common.mean(axis=1).tolist() if common.shape[1] else None,
        "n_common": common.shape[1],
        "known": list(known),
        "judges": cells.judges,
        "judge": cells.judge,
        "show": cells.show,
        "shows": [name for name in SHOWN if cells.baseline or name != "gain"],
        "baseline": cells.baseline,
        "n": len(table.ids),
        "ready": share_indexed(runs),
    }


def csv_of_matrix(runs: Sequence[OpenRun], given: Parameters) -> Iterator[bytes]:
    """The whole table as CSV, a column for each run, a piece at a time. Raises Refused."""
    table = table_of(runs)
    cells = _cells(table, given)
    columns = [f"{name} ({cells.show})" for name in cells.names]
    caveat = "; ".join(dict.fromkeys(run.metadata.caveat for run in runs if run.metadata.caveat)) or None

    def named(row: Json) -> Json:
        failed = (name for name, state in zip(cells.names, row["states"], strict=True) if state == "failed")
        queries = {name: row[name] for name in ("id", "blurred_query", "fused_query")}
        values = dict(zip(columns, row["values"], strict=True))
        return {**queries, **values, "judge": cells.judge, "failed": ", ".join(failed), "caveat": caveat}

    keys = ("id", "blurred_query", "fused_query", *columns, "judge", "failed", "caveat")
    return csv_pieces(cells.order, _reader(table, cells, None), given, keys, named)


@contextmanager
def _reader(table: Table, cells: _Cells, max_chars: int | None = MAX_CHARS) -> Iterator[Read]:
    with _opened(table.runs) as files:

        def read(row: int, needle: str) -> Json | None:
            raws = _raw_lines(table, files, row, every=bool(needle))
            if needle and not any(line_has(raw, needle) for raw in raws):
                return None
            line = line_of(raws[0], int(table.ids[row]))
            pairs = zip(table.rows[:, row] < 0, table.failed[:, row], strict=True)
            return {
                "id": instance_name(line),
                **queries_of(line, max_chars),
                "values": [_number(value) for value in cells.values[:, row]],
                "states": ["missing" if none else "failed" if bad else "" for none, bad in pairs],
                "spread": _number(cells.spread[row]),
                "gap": _number(cells.gap[row]),
            }

        yield read


def _values(table: Table, show: str, scores: Array, baseline: int | None) -> Array:
    """What the cells hold; NaN where there is nothing."""
    import numpy as np

    if show == "gain":
        return np.full_like(scores, math.nan) if baseline is None else scores - scores[baseline]
    if show == "turns":
        return table.turns
    return table.spending(show) if show in SPENDING else scores


def share_indexed(runs: Sequence[OpenRun]) -> float:
    """Share of what is indexed of the run that is furthest behind."""
    tails = [run.spending.tail for run in runs if run.spending]
    shares = [1 - tail.behind / max(1, tail.size) for tail in tails if tail.behind]
    return max(0.0, min(*(run.ready for run in runs), 1.0, *shares))


def _judges(runs: Sequence[OpenRun]) -> list[str]:
    """The judges of the runs: those of most of them first, of these the one that scores most of them."""
    scoring: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for run in runs:
        judges = list(run.judges())
        scoring.update(judges[:1])
        every.update(judges)
    return sorted(every, key=lambda judge: (-every[judge], -scoring[judge], judge))


def _fits(table: Table, scores: Array, names: Sequence[str], given: Parameters) -> Array:
    """Whether each instance passes all filters but the text."""
    import numpy as np

    of = choice(given, "of", tuple(names))
    looked_at = [names.index(of)] if of else list(range(len(names)))
    fits = np.ones(len(table.ids), bool)
    if failed := choice(given, "failed", ("0", "1")):
        fits &= table.failed[looked_at].any(axis=0) == (failed == "1")
    if given.get("min") or given.get("max"):
        low, high = score_limit(given, "min", -math.inf), score_limit(given, "max", math.inf)
        fits &= ((scores >= low) & (scores <= high))[looked_at].any(axis=0)
    return fits


def _order(values: Array, spread: Array, gap: Array, names: Sequence[str], given: Parameters) -> Array:
    """What the rows are sorted by, the lowest first; NaN comes last."""
    import numpy as np

    sort = choice(given, "sort", SORTS)
    if sort in ("", "file"):
        return np.zeros(values.shape[1])
    by = choice(given, "by", tuple(names)) or names[0]
    keys: dict[str, Array] = {"value": values[names.index(by)], "spread": spread, "gap": gap}
    key = keys[sort.removeprefix("-")]
    return np.negative(key) if sort.startswith("-") else key


@contextmanager
def _opened(runs: Sequence[OpenRun]) -> Iterator[list[int]]:
    with ExitStack() as stack:
        yield [stack.enter_context(opened(run.results.path)) for run in runs if len(run.results.lines())]


def _raw_lines(table: Table, files: Sequence[int], row: int, *, every: bool) -> list[bytes]:
    """The lines of an instance: of the first run that has it, or of every run."""
    found: list[bytes] = []
    filled = [(lines, rows) for lines, rows in zip(table.lines, table.rows, strict=True) if len(lines)]
    for (lines, rows), fd in zip(filled, files, strict=True):
        at = int(rows[row])
        if at >= 0 and (every or not found):
            found.append(os.pread(fd, int(lines.lengths[at]), int(lines.offsets[at])))
    return found


def _number(value: float) -> float | None:
    return None if value != value else float(value)
