"""Instances by runs: a row for each instance of runs over the same data, a column for each run.

Parameters, besides those of a list (see `instances`): `runs` names the columns, separated by commas (a comma in a name
is "%2C", a percent sign "%25"); without it they are those of `data`, orig first, MAX_COLUMNS at most. `show` is what
the cells hold. `sort` is "file" (the default: as the first run has them), "value" or "-value" (of the run `by`; rows
without one last), "spread" or "-spread" (largest difference within a row), "gap" or "-gap" (value of the first column
minus that of the second). `min` and `max` limit scores, `failed` chooses failures: those of the run `of`, or without
it of any column.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from cts_async.runs.index import NO_RUN, Json, Refused, opened
from cts_async.runs.manifest import ORIG, Manifest
from cts_async.runs.open_run import OpenRun, Place
from cts_async.runs.results import ResultLines, instance_name
from cts_async.viewer.instances import (
    MAX_CHARS,
    Parameters,
    Read,
    checked_line,
    choice,
    csv_pieces,
    line_has,
    page_of,
    query_texts,
    score_limits,
)
from cts_async.viewer.library import Library

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_COLUMNS: Final = 12
"""Below `library.MAX_OPEN`: all runs of a matrix stay open."""
SPENDING: Final = ("seconds", "cost")
SHOWN: Final = ("score", "gain", "turns", *SPENDING)
"""What cells may hold: the judge's score, its difference to that of orig (`_baselines`), the agent's model calls, and
the seconds and dollars of all model calls."""
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


def two_runs(library: Library, given: Parameters) -> list[tuple[Place, Manifest]]:
    """The two runs over the same data that `runs` names, in that order. Raises Refused."""
    _, names = _chosen_runs(library, given)
    runs = [run for name in names if (run := library.get(name))]
    if len(runs) != 2:
        raise Refused(400, "runs: name two")
    return runs


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


class Matrix:
    """The instances of several runs with what the parameters ask for, sorted. Raises Refused for invalid ones.

    Columns are in the order of `runs`; arrays have shape (runs, instances).
    """

    def __init__(self, runs: Sequence[OpenRun], given: Parameters) -> None:
        import numpy as np

        self.runs, self._given = runs, given
        self.names = [run.place.name for run in runs]
        self._lines = tuple(run.results.lines() for run in runs)
        self._ids, self._rows = _aligned(self._lines)
        self.judges = _judges(runs)
        self.judge = choice(given, "judge", tuple(self.judges)) or next(iter(self.judges), "")
        self.show = choice(given, "show", SHOWN) or SHOWN[0]
        self._baselines = _baselines(runs)
        self._failed = self._of_lines([lines.failed for lines in self._lines], False)
        scores = self._scores()
        # An answer that another judge failed to label has a score by this one.
        self._failed &= np.isnan(scores)
        self._values = self._shown(scores)
        self._spread = _spread(self._values)
        self._gap = self._values[0] - self._values[1] if len(runs) > 1 else np.full(len(self._ids), math.nan)
        self._fits = np.flatnonzero(self._fitting(scores))
        """Rows that pass all filters but the text."""
        self._order = self._fits[self._keys()[self._fits].argsort(kind="stable")]

    def page(self, known: Sequence[Json]) -> Json:
        """One page; only lines of its rows are read. `known` are all runs over the data."""
        import numpy as np

        values = self._values[:, self._fits]
        common = values[:, np.isfinite(values).all(axis=0)]
        columns = [(run.place.name, run.manifest) for run in self.runs]
        baselines = sorted({orig for orig in self._baselines if orig is not None})
        return {
            **page_of(self._order, self._reader(), self._given),
            "runs": [{"name": name, "system": of.system, "caveat": of.caveat} for name, of in columns],
            # Over the instances in which every cell has a value, whatever the text.
            "means": common.mean(axis=1).tolist() if common.shape[1] else None,
            "n_common": common.shape[1],
            "known": list(known),
            "judges": self.judges,
            "judge": self.judge,
            "show": self.show,
            "shows": [name for name in SHOWN if baselines or name != "gain"],
            # None for several, too: each gain is over the orig of the same agent.
            "baseline": self.names[baselines[0]] if len(baselines) == 1 else None,
            "n": len(self._ids),
            "contradictions": self._contradictions(),
            "ready": share_indexed(self.runs),
        }

    def _contradictions(self) -> list[str]:
        """A sentence on each file with stored scores that contradict their labels."""
        sentences: list[str] = []
        for name, run in zip(self.names, self.runs, strict=True):
            sentences += [f"{name}/{sentence}" for sentence in run.contradictions()]
        return sentences

    def csv(self) -> Iterator[bytes]:
        """The whole table as CSV, a column for each run, a piece at a time."""
        columns = [f"{name} ({self.show})" for name in self.names]
        caveats = dict.fromkeys(run.manifest.caveat for run in self.runs if run.manifest.caveat)
        caveat = "; ".join((*caveats, *self._contradictions())) or None

        def cells(row: Json) -> Json:
            failed = (
                name for name, state in zip(self.names, row["states"], strict=True) if state == "failed"
            )
            queries = {name: row[name] for name in ("id", "blurred_query", "fused_query")}
            values = dict(zip(columns, row["values"], strict=True))
            return {**queries, **values, "judge": self.judge, "failed": ", ".join(failed), "caveat": caveat}

        keys = ("id", "blurred_query", "fused_query", *columns, "judge", "failed", "caveat")
        return csv_pieces(self._order, self._reader(None), self._given, keys, cells)

    # What the cells hold; NaN where there is nothing

    def _shown(self, scores: Array) -> Array:
        import numpy as np

        if self.show == "gain":
            nothing = np.full(len(self._ids), math.nan)
            origs = [nothing if orig is None else scores[orig] for orig in self._baselines]
            gains: Array = scores - np.array(origs)
            return gains
        if self.show == "turns":
            turns = self._of_lines([lines.turns.astype(float) for lines in self._lines], math.nan)
            known: Array = np.where(turns > 0, turns, math.nan)
            return known
        return self._spending() if self.show in SPENDING else scores

    def _spending(self) -> Array:
        """Seconds or dollars; NaN where unknown, and where an instance is missing or failed."""
        import numpy as np

        nothing = np.full((2, len(self._ids)), math.nan)
        amounts = [run.spending.of(self._ids) if run.spending else nothing for run in self.runs]
        done = (self._rows >= 0) & ~self._failed
        found: Array = np.where(done, np.array(amounts)[:, SPENDING.index(self.show)], math.nan)
        return found

    def _scores(self) -> Array:
        """NaN where a run has no score by this judge."""
        import numpy as np

        columns = []
        for run, lines in zip(self.runs, self._lines, strict=True):
            index = run.judges().get(self.judge)
            columns.append(run.scores(index, lines) if index else np.full(len(lines), math.nan))
        return self._of_lines(columns, math.nan)

    def _of_lines(self, columns: Sequence[Array], missing: float) -> Array:
        import numpy as np

        # A run without any line has nothing to index.
        return np.array(
            [
                np.where(rows >= 0, column[rows], missing) if len(column) else np.full(len(rows), missing)
                for rows, column in zip(self._rows, columns, strict=True)
            ]
        )

    # Filters and order

    def _fitting(self, scores: Array) -> Array:
        import numpy as np

        of = choice(self._given, "of", tuple(self.names))
        looked_at = [self.names.index(of)] if of else list(range(len(self.names)))
        fits = np.ones(len(self._ids), bool)
        if failed := choice(self._given, "failed", ("0", "1")):
            fits &= self._failed[looked_at].any(axis=0) == (failed == "1")
        low, high = score_limits(self._given)
        if (low, high) != (-math.inf, math.inf):
            fits &= ((scores >= low) & (scores <= high))[looked_at].any(axis=0)
        return fits

    def _keys(self) -> Array:
        """What the rows are sorted by, the lowest first; NaN comes last."""
        import numpy as np

        sort = choice(self._given, "sort", SORTS)
        by = choice(self._given, "by", tuple(self.names)) or self.names[0]
        keys: dict[str, Array] = {
            "value": self._values[self.names.index(by)],
            "spread": self._spread,
            "gap": self._gap,
        }
        key = keys.get(sort.removeprefix("-"), np.zeros(len(self._ids)))
        return np.negative(key) if sort.startswith("-") else key

    # Its lines

    @contextmanager
    def _reader(self, max_chars: int | None = MAX_CHARS) -> Iterator[Read]:
        with ExitStack() as stack:
            files = [
                (lines, rows, stack.enter_context(opened(run.results.path)))
                for run, lines, rows in zip(self.runs, self._lines, self._rows, strict=True)
                if len(lines)
            ]

            def raw_lines(row: int) -> Iterator[bytes]:
                for lines, rows, fd in files:
                    if (at := int(rows[row])) >= 0:
                        yield os.pread(fd, int(lines.lengths[at]), int(lines.offsets[at]))

            def read(row: int, needle: str) -> Json | None:
                if needle and not any(line_has(raw, needle) for raw in raw_lines(row)):
                    return None
                line = checked_line(next(raw_lines(row)), int(self._ids[row]))
                pairs = zip(self._rows[:, row] < 0, self._failed[:, row], strict=True)
                return {
                    "id": instance_name(line),
                    **query_texts(line, max_chars),
                    "values": [_number(value) for value in self._values[:, row]],
                    "states": ["missing" if none else "failed" if bad else "" for none, bad in pairs],
                    "spread": _number(self._spread[row]),
                    "gap": _number(self._gap[row]),
                }

            yield read


@lru_cache(maxsize=1)  # sorting six runs of 100,000 instances takes 0.2 s, all else 0.02 s
def _aligned(lines: Sequence[ResultLines]) -> tuple[Array, Array]:
    """The hashes of all instances, in the order in which the first run that has each one has them, and the row of each
    in the lines of each run, -1 if it has none."""
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


def share_indexed(runs: Sequence[OpenRun]) -> float:
    """Share of what is indexed of the run that is furthest behind."""
    tails = [run.spending.tail for run in runs if run.spending]
    shares = [1 - tail.behind / max(1, tail.size) for tail in tails if tail.behind]
    return max(0.0, min(*(run.ready for run in runs), 1.0, *shares))


def _baselines(runs: Sequence[OpenRun]) -> list[int | None]:
    """For each run the place of the orig that its gain is over: if several agents have played it, that of its own.

    A run that names no agent is compared with the first.
    """
    origs: dict[str, int] = {}
    for place, run in enumerate(runs):
        if run.manifest.system == ORIG:
            origs.setdefault(run.manifest.agent, place)
    first = next(iter(origs.values()), None)
    return [origs.get(run.manifest.agent) if len(origs) > 1 and run.manifest.agent else first for run in runs]


def _judges(runs: Sequence[OpenRun]) -> list[str]:
    """The judges of the runs: those of most of them first, of these the one that scores most of them."""
    scoring: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for run in runs:
        judges = list(run.judges())
        scoring.update(judges[:1])
        every.update(judges)
    return sorted(every, key=lambda judge: (-every[judge], -scoring[judge], judge))


def _number(value: float) -> float | None:
    return None if value != value else float(value)
