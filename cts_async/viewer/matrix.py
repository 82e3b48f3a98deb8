"""Instances by runs: a row for each instance of runs over the same data, a column for each run.

Parameters, besides those of a list (see `instances`): `runs` names the columns, separated by commas (a comma in a name
is "%2C", a percent sign "%25"); without it they are the newest versions over `data` (with `all`=1 all of them), orig
first, MAX_COLUMNS at most. `show` is what the cells hold. `sort` is "file" (the default: as the first run has them),
"value" or "-value" (of the run `by`; rows without one last), "spread" or "-spread" (largest difference within a row),
"gap" or "-gap" (value of the first column minus that of the second). `min` and `max` limit scores, `failed` chooses
failures: those of the run `of`, or without it of any column.
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
from cts_async.runs.settings import setting_of, settings_agree
from cts_async.runs.versions import version_of
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


def opened_runs(library: Library, parameters: Parameters, max_s: float) -> tuple[list[Json], list[OpenRun]]:
    """Every run over the data as {name, system}, and those that are columns, indexed for `max_s`. Raises Refused."""
    runs_over_data, names = _chosen_runs(library, parameters)
    runs: list[OpenRun] = []
    for name in names:
        run = library.open(name)
        # Removed since its name was found.
        if run is not None:
            runs.append(run)
    until = time.monotonic() + max_s
    for run in runs:
        if parameters.get("show") in SPENDING:
            run.index_spending()
        run.advance(max(0.0, until - time.monotonic()))
    return runs_over_data, runs


def two_runs(library: Library, parameters: Parameters) -> list[tuple[Place, Manifest]]:
    """The two runs over the same data that `runs` names, in that order. Raises Refused."""
    _, names = _chosen_runs(library, parameters)
    runs: list[tuple[Place, Manifest]] = []
    for name in names:
        run = library.get(name)
        if run is not None:
            runs.append(run)
    if len(runs) != 2:
        raise Refused(400, "runs: name two")
    return runs


def _chosen_runs(library: Library, parameters: Parameters) -> tuple[list[Json], list[str]]:
    """Every run over the data as {name, system}, and the names of those that are columns. Raises Refused."""
    names = names_in(parameters, "runs")
    if len(names) > MAX_COLUMNS:
        raise Refused(400, f"runs: at most {MAX_COLUMNS} at once")
    columns = list(dict.fromkeys(names))
    named_runs: list[tuple[Place, Manifest]] = []
    for name in columns:
        run = library.get(name)
        if run is None:
            raise Refused(404, NO_RUN)
        named_runs.append(run)
    # `data` counts only where no run is named.
    shas = {library.data_sha(manifest) for _, manifest in named_runs}
    if len(shas) > 1:
        raise Refused(400, "runs: these are over different data")
    data_sha = parameters.get("data", "")
    if shas:
        data_sha = shas.pop()
    # `over` has none for runs whose data are unknown.
    runs_over_data = library.over(data_sha) or named_runs
    if not choice(parameters, "all", ("1",)):
        shown = {place.name for place, _ in library.shown_over(data_sha)} | set(columns)
        runs_over_data = [run for run in runs_over_data if run[0].name in shown]
    runs = sorted(runs_over_data, key=orig_first)
    if not runs:
        raise Refused(404, "no runs over these data")
    if not columns:
        columns = [place.name for place, manifest in runs if manifest.kind != "talk"][:MAX_COLUMNS]
    if not columns:
        raise Refused(404, "runs without an agent have no scores")
    return [{"name": place.name, "system": manifest.system} for place, manifest in runs], columns


def names_in(parameters: Parameters, name: str) -> list[str]:
    """The names of runs in a parameter: separated by commas, of which a name has "%2C"."""
    return [unquote(part) for part in parameters.get(name, "").split(",") if part]


def orig_first(run: tuple[Place, Manifest]) -> tuple[bool, str]:
    """The key of runs in the order in which pages show them."""
    place, manifest = run
    return manifest.system != ORIG, place.name


# --- The table


class Matrix:
    """The instances of several runs with what the parameters ask for, sorted. Raises Refused for invalid ones.

    Columns are in the order of `runs`; arrays have shape (runs, instances).
    """

    def __init__(self, runs: Sequence[OpenRun], parameters: Parameters) -> None:
        import numpy as np

        self.runs, self._parameters = runs, parameters
        self.names = [run.place.name for run in runs]
        self._lines = tuple(run.results.lines() for run in runs)
        self._ids, self._rows = _aligned(self._lines)
        self.judges = _judges(runs)
        self.judge = choice(parameters, "judge", tuple(self.judges))
        if not self.judge and self.judges:
            self.judge = self.judges[0]
        self.show = choice(parameters, "show", SHOWN) or "score"
        is_named_pair = len(runs) == 2 and bool(parameters.get("runs"))
        self._baselines = _baselines(runs, is_named_pair=is_named_pair)
        self._failed = self._by_instance([lines.failed for lines in self._lines], False)
        scores = self._scores()
        # An answer that another judge failed to label has a score by this one.
        self._failed &= np.isnan(scores)
        self._values = self._shown(scores)
        self._spread = _spread(self._values)
        self._gap = np.full(len(self._ids), math.nan)
        if len(runs) > 1:
            self._gap = self._values[0] - self._values[1]
        self._fits = np.flatnonzero(self._fitting(scores))
        """Rows that pass all filters but the text."""
        # Stable, so that rows of equal values stay in the order of the file, and a page goes on where one ended.
        self._order = self._fits[self._keys()[self._fits].argsort(kind="stable")]

    def page(self, runs_over_data: Sequence[Json]) -> Json:
        """One page; only lines of its rows are read. `runs_over_data` are all of them, columns or not."""
        import numpy as np

        values = self._values[:, self._fits]
        common = values[:, np.isfinite(values).all(axis=0)]
        n_common = common.shape[1]
        # Over the instances in which every cell has a value, whatever the text.
        means: list[float] | None = None
        if n_common:
            means = common.mean(axis=1).tolist()
        columns: list[Json] = []
        for run in self.runs:
            manifest = run.manifest
            column: Json = {
                "name": run.place.name,
                "system": manifest.system,
                "caveat": manifest.caveat,
            }
            if manifest.restriction:
                column["restriction"] = manifest.restriction
            columns.append(column)
        baselines = {baseline for baseline in self._baselines if baseline is not None}
        shows = list(SHOWN)
        if not baselines:
            shows.remove("gain")
        # None for several, too: each gain is over the orig of the same agent.
        baseline: str | None = None
        if len(baselines) == 1:
            baseline = self.names[baselines.pop()]
        page = page_of(self._order, self._reader(), self._parameters)
        page |= {
            "runs": columns,
            "means": means,
            "n_common": n_common,
            "known": list(runs_over_data),
            "judges": self.judges,
            "judge": self.judge,
            "show": self.show,
            "shows": shows,
            "baseline": baseline,
            "n": len(self._ids),
            "contradictions": self._contradictions(),
            "ready": share_indexed(self.runs),
        }
        return page

    def _contradictions(self) -> list[str]:
        """A sentence on each file with stored scores that contradict their labels."""
        sentences: list[str] = []
        for name, run in zip(self.names, self.runs, strict=True):
            sentences += [f"{name}/{sentence}" for sentence in run.contradictions()]
        return sentences

    def csv(self) -> Iterator[bytes]:
        """The whole table as CSV, a column for each run, a piece at a time."""
        columns = [f"{name} ({self.show})" for name in self.names]
        remarks: list[str] = []
        for run in self.runs:
            for remark in (run.manifest.restriction, run.manifest.caveat):
                if remark and remark not in remarks:
                    remarks.append(remark)
        remarks += self._contradictions()

        def cells(row: Json) -> Json:
            line: Json = {name: row[name] for name in ("id", "blurred_query", "fused_query")}
            failed: list[str] = []
            for name, column, value, state in zip(
                self.names, columns, row["values"], row["states"], strict=True
            ):
                line[column] = value
                if state == "failed":
                    failed.append(name)
            # Why numbers say nothing about a model, or texts must not be published, stands in every row.
            return line | {
                "judge": self.judge,
                "failed": ", ".join(failed),
                "caveat": "; ".join(remarks) or None,
            }

        keys = ["id", "blurred_query", "fused_query"]
        keys += columns
        keys += ["judge", "failed", "caveat"]
        return csv_pieces(self._order, self._reader(None), self._parameters, keys, cells)

    # What the cells hold; NaN where there is nothing

    def _shown(self, scores: Array) -> Array:
        import numpy as np

        if self.show == "gain":
            return self._gains(scores)
        if self.show == "turns":
            turns = self._by_instance([lines.turns.astype(float) for lines in self._lines], math.nan)
            # A line without a search has 0 turns.
            n_turns: Array = np.where(turns > 0, turns, math.nan)
            return n_turns
        if self.show in SPENDING:
            return self._spending()
        return scores

    def _gains(self, scores: Array) -> Array:
        import numpy as np

        columns: list[Array] = []
        for column, baseline in zip(scores, self._baselines, strict=True):
            if baseline is None:
                columns.append(np.full(len(self._ids), math.nan))
            else:
                columns.append(column - scores[baseline])
        return np.array(columns)

    def _spending(self) -> Array:
        """Seconds or dollars; NaN where unknown, and where an instance is missing or failed."""
        import numpy as np

        # `SpendingIndex.amounts` has a row for each name in SPENDING, in that order.
        place = SPENDING.index(self.show)
        columns: list[Array] = []
        for run in self.runs:
            if run.spending:
                columns.append(run.spending.amounts(self._ids)[place])
            else:
                columns.append(np.full(len(self._ids), math.nan))
        done = (self._rows >= 0) & ~self._failed
        amounts: Array = np.where(done, np.array(columns), math.nan)
        return amounts

    def _scores(self) -> Array:
        """NaN where a run has no score by this judge."""
        import numpy as np

        columns: list[Array] = []
        for run, lines in zip(self.runs, self._lines, strict=True):
            index = run.judges().get(self.judge)
            if index is None:
                columns.append(np.full(len(lines), math.nan))
            else:
                columns.append(run.scores(index, lines))
        return self._by_instance(columns, math.nan)

    def _by_instance(self, columns: Sequence[Array], missing: float) -> Array:
        """Values by line of each run as an array of all instances; `missing` where a run has no line of one."""
        import numpy as np

        aligned: list[Array] = []
        for rows, column in zip(self._rows, columns, strict=True):
            # A run without any line has nothing to index.
            if len(column):
                aligned.append(np.where(rows >= 0, column[rows], missing))
            else:
                aligned.append(np.full(len(rows), missing))
        return np.array(aligned)

    # Filters and order

    def _fitting(self, scores: Array) -> Array:
        import numpy as np

        # The columns that filters look at.
        columns = list(range(len(self.names)))
        filtered_run = choice(self._parameters, "of", tuple(self.names))
        if filtered_run:
            columns = [self.names.index(filtered_run)]
        fits = np.ones(len(self._ids), bool)
        failed = choice(self._parameters, "failed", ("0", "1"))
        if failed:
            fits &= self._failed[columns].any(axis=0) == (failed == "1")
        low, high = score_limits(self._parameters)
        # Without limits instances without a score pass, too: NaN is within no limits.
        if (low, high) != (-math.inf, math.inf):
            fits &= ((scores >= low) & (scores <= high))[columns].any(axis=0)
        return fits

    def _keys(self) -> Array:
        """What the rows are sorted by, the lowest first; NaN comes last."""
        import numpy as np

        sort = choice(self._parameters, "sort", SORTS)
        sorting_run = choice(self._parameters, "by", tuple(self.names)) or self.names[0]
        match sort.removeprefix("-"):
            case "value":
                keys: Array = self._values[self.names.index(sorting_run)]
            case "spread":
                keys = self._spread
            case "gap":
                keys = self._gap
            case _:
                keys = np.zeros(len(self._ids))
        # Negative, not reversed: NaN stays last.
        if sort.startswith("-"):
            return np.negative(keys)
        return keys

    # Its lines

    @contextmanager
    def _reader(self, max_chars: int | None = MAX_CHARS) -> Iterator[Read]:
        with ExitStack() as stack:
            files: list[tuple[ResultLines, Array, int]] = []
            for run, lines, rows in zip(self.runs, self._lines, self._rows, strict=True):
                # A run that has just begun may have no results file yet.
                if len(lines):
                    files.append((lines, rows, stack.enter_context(opened(run.results.path))))

            def raw_lines(row: int) -> Iterator[bytes]:
                for lines, rows, fd in files:
                    place = int(rows[row])
                    if place >= 0:
                        yield os.pread(fd, int(lines.lengths[place]), int(lines.offsets[place]))

            def read(row: int, needle: str) -> Json | None:
                if needle and not any(line_has(raw, needle) for raw in raw_lines(row)):
                    return None
                line = checked_line(next(raw_lines(row)), int(self._ids[row]))
                cells: Json = {"id": instance_name(line)}
                cells |= query_texts(line, max_chars)
                cells["values"] = [_number(value) for value in self._values[:, row]]
                cells["states"] = self._states(row)
                cells["spread"] = _number(self._spread[row])
                cells["gap"] = _number(self._gap[row])
                return cells

            yield read

    def _states(self, row: int) -> list[str]:
        """For each column "missing", "failed", or "" for an instance that is done."""
        states: list[str] = []
        for place, failed in zip(self._rows[:, row], self._failed[:, row], strict=True):
            if place < 0:
                states.append("missing")
            elif failed:
                states.append("failed")
            else:
                states.append("")
        return states


# Sorting six runs of 100,000 instances takes 0.2 s, all else 0.02 s.
@lru_cache(maxsize=1)
def _aligned(runs: Sequence[ResultLines]) -> tuple[Array, Array]:
    """The hashes of all instances, in the order in which the first run that has each one has them, and the row of each
    in the lines of each run, -1 if it has none."""
    import numpy as np

    hashes = np.concatenate([lines.ids for lines in runs])
    _, first_places = np.unique(hashes, return_index=True)
    ids = hashes[np.sort(first_places)]
    return ids, np.array([lines.rows_of_hashes(ids) for lines in runs])


def _spread(values: Array) -> Array:
    """The largest difference between two values of each column; NaN where there are fewer than two."""
    import numpy as np

    several = np.isfinite(values).sum(axis=0) > 1
    high = np.where(np.isnan(values), -math.inf, values).max(axis=0, initial=-math.inf)
    low = np.where(np.isnan(values), math.inf, values).min(axis=0, initial=math.inf)
    return np.where(several, high - low, math.nan)


def share_indexed(runs: Sequence[OpenRun]) -> float:
    """Share of what is indexed of the run that is furthest behind."""
    share = 1.0
    for run in runs:
        share = min(share, run.ready)
        if run.spending and run.spending.tail.behind:
            tail = run.spending.tail
            share = min(share, 1 - tail.behind / max(1, tail.size))
    return max(0.0, share)


def _baselines(runs: Sequence[OpenRun], *, is_named_pair: bool) -> list[int | None]:
    """For each run the place of the orig that its gain is over; None for none.

    That is an orig by the same agent under the same settings; of several the one last worked on, as in a leaderboard.
    Whoever names two runs compares them, whatever their agents.
    """
    origs: list[tuple[tuple[str, int, str], int]] = []
    for place, run in enumerate(runs):
        if run.manifest.system == ORIG:
            origs.append((version_of(run.manifest).recency, place))
    origs.sort(reverse=True)
    baselines: list[int | None] = []
    for run in runs:
        setting = setting_of(run.manifest)
        baseline: int | None = None
        for _, place in origs:
            if baseline is not None:
                break
            if is_named_pair or settings_agree(setting_of(runs[place].manifest), setting):
                baseline = place
        baselines.append(baseline)
    return baselines


def _judges(runs: Sequence[OpenRun]) -> list[str]:
    """The judges of the runs: those of most of them first, of these the one that scores most of them."""
    n_scored: Counter[str] = Counter()
    n_judged: Counter[str] = Counter()
    for run in runs:
        judges = list(run.judges())
        # The scoring judge is a run's first.
        n_scored.update(judges[:1])
        n_judged.update(judges)
    return sorted(n_judged, key=lambda judge: (-n_judged[judge], -n_scored[judge], judge))


def _number(value: float) -> float | None:
    # NaN has no JSON.
    if math.isnan(value):
        return None
    return float(value)
