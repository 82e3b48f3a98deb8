"""`cts runs`: what is in a folder of runs, a row for each; the versions of a system stand together, the newest first.

A folder may have hundreds of runs with journals of gigabytes. So a row is what `summary.json` says, where it is no older
than the run's other files; results and journal are read only where it is missing or older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from cts_async.analysis.summary import ResultColumns, summarise_run
from cts_async.errors import InputError, cut_end
from cts_async.foreign_json import as_count, as_float, as_object, as_text
from cts_async.records import caveats_in
from cts_async.runs.dependents import is_being_written
from cts_async.runs.files import MANIFEST, RESULTS, STEPS, results_of
from cts_async.runs.index import stat_of
from cts_async.runs.journal import Spent
from cts_async.runs.manifest import Manifest, require_manifest
from cts_async.runs.removal import RunContent
from cts_async.runs.results import no_fingerprint
from cts_async.runs.versions import RunVersion, describe_changes, newest_versions, version_of
from cts_async.tables.output import dollars
from cts_async.tables.results import CAVEATS
from cts_async.tables.summary import read_current_summary, summary_json
from cts_async.tables.table import (
    MISSING,
    Column,
    DataTable,
    Row,
    Show,
    marked,
    number,
    number_columns,
    text,
    text_columns,
    with_caveats,
)

State = Literal["finished", "unfinished", "running", "damaged"]
_MOST_DOLLARS: Final = 1e9
"""A summary that names more is no summary of ours."""
_MAX_CHANGES: Final = 300
"""Characters of what changed; `cts runs diff` has all of it."""
_LATEST_S: Final = 1e11
"""A later time than any real one, which dates can still hold."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """What `summary.json` says of a run that the list shows; None where it is not known."""

    judge: str | None = None
    mean: float | None = None
    n_expected: int = 0
    n_scored: int = 0
    n_failed: int = 0
    n_unjudged: int = 0
    """Instances that are done, without a judge."""
    priced_usd: float | None = None
    """Dollars of the models that have a price."""
    unpriced_models: int = 0
    n_reused: int | None = None
    """Steps that were taken from other runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run directory as the list shows it."""

    version: RunVersion
    manifest: Manifest
    state: State
    counts: RunCounts = field(default_factory=RunCounts)
    problem: str = ""
    """Why a damaged run cannot be read."""
    last_worked: float | None = None
    """When its last session ended, or began, in seconds since 1970."""

    @property
    def directory(self) -> Path:
        return self.manifest.directory


def listed_directories(folder: Path) -> list[Path]:
    """The run directories in a folder, by name, or the folder itself if it is one.

    Those without a manifest count, too, since their results or steps are somebody's. Raises InputError if there are
    none.
    """
    if (folder / MANIFEST).is_file():
        return _systems_in(folder)
    if not folder.is_dir():
        raise InputError(folder, "no such folder of runs")
    directories: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and any((path / name).is_file() for name in (MANIFEST, RESULTS, STEPS)):
            directories += _systems_in(path)
    if not directories:
        raise InputError(folder, f"no run found: no {MANIFEST} in this folder or one level below")
    return directories


def _systems_in(directory: Path) -> list[Path]:
    """A run directory; of the folder that `cts judge` writes above several systems, the directories in it."""
    if not (directory / MANIFEST).is_file():
        return [directory]
    try:
        several = require_manifest(directory).is_of_several_systems
    except (InputError, OSError):
        return [directory]
    if not several:
        return [directory]
    return sorted(path.parent for path in directory.glob(f"*/{MANIFEST}"))


def list_runs(directories: Iterable[Path], *, exact: bool = False) -> list[ListedRun]:
    """Each run directory as the list shows it, in the given order; with `exact` results and journals are read anyway."""
    journals: dict[Path, Mapping[str, Spent]] = {}
    return [_listed_run(directory, journals, exact=exact) for directory in directories]


def _listed_run(directory: Path, journals: dict[Path, Mapping[str, Spent]], *, exact: bool) -> ListedRun:
    manifest = Manifest(directory=directory)
    try:
        manifest = require_manifest(directory)
        is_running = is_being_written(manifest)
        counts = _counts_of(manifest, journals, exact=exact, is_running=is_running)
    except (InputError, OSError) as error:
        return ListedRun(
            version=version_of(manifest), manifest=manifest, state="damaged", problem=_one_line(error)
        )
    state: State = "unfinished"
    if is_running:
        state = "running"
    elif _is_finished(manifest, counts):
        state = "finished"
    return ListedRun(
        version=version_of(manifest),
        manifest=manifest,
        state=state,
        counts=counts,
        last_worked=_last_worked(manifest),
    )


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _counts_of(
    manifest: Manifest, journals: dict[Path, Mapping[str, Spent]], *, exact: bool, is_running: bool
) -> RunCounts:
    """The counts of a run, from the file that is read fastest. Raises InputError, OSError."""
    if not exact:
        counts = _counts_in(read_current_summary(manifest) or {})
        if counts is not None:
            return counts
        # Its journal may have gigabytes, and what is read of it now is out of date at once.
        if is_running:
            return _scores_of(manifest)
    counts = _counts_in(summary_json(summarise_run(manifest.directory, journals)))
    return counts or RunCounts(n_expected=manifest.n_expected)


def _scores_of(manifest: Manifest) -> RunCounts:
    lines = ResultColumns(manifest.directory / results_of(manifest.directory), no_fingerprint)
    _, scores = lines.scored()
    mean = None
    if len(scores):
        mean = float(scores.mean())
    return RunCounts(
        judge=lines.judge,
        mean=mean,
        n_expected=max(manifest.n_expected, lines.n),
        n_scored=len(scores),
        n_failed=lines.n_failed,
    )


def _counts_in(summary: Mapping[str, Any]) -> RunCounts | None:
    """What a summary says; None for one of another form, as that of a build of gold, or with impossible numbers."""
    mean, priced_usd = as_float(summary.get("mean")), as_float(summary.get("priced_usd"))
    # A release before 0.11 wrote the whole cost only.
    if priced_usd is None:
        priced_usd = as_float(summary.get("cost_usd"))
    if "n_scored" not in summary or "n_expected" not in summary:
        return None
    if mean is not None and not 0 <= mean <= 100:
        return None
    if priced_usd is not None and not 0 <= priced_usd <= _MOST_DOLLARS:
        return None
    return RunCounts(
        judge=as_text(summary.get("judge")),
        mean=mean,
        n_expected=as_count(summary["n_expected"]),
        n_scored=as_count(summary["n_scored"]),
        n_failed=as_count(summary.get("n_failed")),
        n_unjudged=as_count(summary.get("n_unjudged")),
        priced_usd=priced_usd,
        unpriced_models=as_count(summary.get("unpriced_models")),
        n_reused=_reused_in(summary),
    )


def _reused_in(summary: Mapping[str, Any]) -> int:
    """Steps that were taken from other runs; summaries of runs without any do not name them."""
    reused = summary.get("reused")
    return as_count(as_object(reused).get("steps", reused))


def _is_finished(manifest: Manifest, counts: RunCounts) -> bool:
    n_done = counts.n_scored + counts.n_failed + counts.n_unjudged
    return n_done >= counts.n_expected - manifest.n_absent


def _last_worked(manifest: Manifest) -> float | None:
    """When a command last worked on a run; by the time of its manifest, where no session says so."""
    session = manifest.last_session
    for stamp in (session.end, session.start):
        try:
            time_s = datetime.fromisoformat(stamp).timestamp()
        except (ValueError, OverflowError):
            continue
        if 0 <= time_s <= _LATEST_S:
            return time_s
    mtime_ns = stat_of((manifest.directory / MANIFEST).absolute()).mtime_ns
    if not mtime_ns:
        return None
    return mtime_ns / 1e9


# --- The table


def run_list_table(runs: Sequence[ListedRun], folder: Path, current_time: float) -> DataTable:
    """The runs of a folder at a time, in seconds since 1970: by lineage, and in each the newest version first."""
    older = {manifest.directory for manifest in newest_versions(run.manifest for run in runs)[1]}
    rows: list[Row] = []
    for run in _by_lineage(runs):
        rows.append(_row_of(run, folder, current_time, is_newest=run.directory not in older))
    columns = (
        Column("run", _name_text, numeric=False),
        Column("v", number("version", "d")),
        Column("changed", text("changed"), numeric=False),
        Column("scored", _scored_text),
        *number_columns(mean=".2f"),
        Column("cost", _cost_text),
        *number_columns(reused=","),
        Column("age", _age_text(current_time)),
        Column("state", _state_text, numeric=False),
    )
    caption = (
        "v: version; changed: from the version before; mean: by the run's scoring judge; cost: of calls that the run "
        "made itself; reused: steps from other runs"
    )
    caveats = caveats_in(run.manifest.caveat for run in runs)
    table = DataTable("runs", f"Runs in {folder}", caption, columns, rows, dim="older")
    return with_caveats(table, caveats)


def notes_on(runs: Sequence[ListedRun]) -> list[str]:
    """What is to be read after the list: why runs are damaged, and what their scores do not say."""
    notes = [run.problem for run in runs if run.problem]
    if any(run.counts.unpriced_models for run in runs):
        notes.append(
            "?: the cost of models without a price (cts models shows them), and of replies without usage, is unknown."
        )
    for caveat in caveats_in(run.manifest.caveat for run in runs):
        notes.append(CAVEATS[caveat])
    return notes


def _by_lineage(runs: Sequence[ListedRun]) -> list[ListedRun]:
    by_lineage: dict[tuple[Path, str], list[ListedRun]] = {}
    for run in runs:
        by_lineage.setdefault((run.directory.parent, run.version.lineage), []).append(run)
    ordered: list[ListedRun] = []
    for place in sorted(by_lineage):
        ordered += sorted(by_lineage[place], key=lambda run: run.version.recency, reverse=True)
    return ordered


def _row_of(run: ListedRun, folder: Path, current_time: float, *, is_newest: bool) -> Row:
    version, counts = run.version, run.counts
    name = run.directory.name
    if run.directory.parent not in (folder, folder.parent):
        name = f"{run.directory.parent.name}/{name}"
    last_worked, cost_usd = None, counts.priced_usd
    if run.last_worked is not None:
        last_worked = datetime.fromtimestamp(run.last_worked, UTC).isoformat(timespec="seconds")
    if counts.unpriced_models:
        cost_usd = None
    return {
        "run": name,
        "directory": str(run.directory),
        "system": run.manifest.system,
        "lineage": version.lineage,
        "version": version.number,
        "older": not is_newest,
        "changed": cut_end(describe_changes(version.changed), _MAX_CHANGES),
        "changed_from": version.changed_from,
        "state": run.state,
        "problem": run.problem,
        "judge": counts.judge,
        "scored": counts.n_scored,
        "failed": counts.n_failed,
        "unjudged": counts.n_unjudged,
        "expected": counts.n_expected,
        "mean": counts.mean,
        "priced_usd": counts.priced_usd,
        "unpriced_models": counts.unpriced_models,
        "cost_usd": cost_usd,
        "reused": counts.n_reused,
        "last_worked": last_worked,
        "caveat": run.manifest.caveat,
    }


def _name_text(row: Row) -> str:
    name = marked(row["run"], row["caveat"])
    # Files and terminals without colours show by this what is under what.
    if row["older"]:
        return f"  {name}"
    return name


def _scored_text(row: Row) -> str:
    if row["state"] == "damaged":
        return MISSING
    return f"{row['scored']}/{row['expected']}"


def _cost_text(row: Row) -> str:
    """The cost, short: `$1.20`, `$1.20+?`, or `?`."""
    if row["priced_usd"] is None:
        return MISSING
    if not row["unpriced_models"]:
        return dollars(row["priced_usd"], 0)
    if not row["priced_usd"]:
        return "?"
    return f"{dollars(row['priced_usd'], 0)}+?"


def _state_text(row: Row) -> str:
    if row["state"] != "finished":
        return str(row["state"])
    if row["failed"]:
        return f"{row['failed']} failed"
    if row["unjudged"]:
        return "not judged"
    return ""


def _age_text(current_time: float) -> Show:
    """Show how long ago a run was worked on: `now`, `5 min`, `3 h`, `12 d`."""

    def show(row: Row) -> str:
        if row["last_worked"] is None:
            return MISSING
        # A file of another machine may be of a later time than ours.
        age_s = max(0.0, current_time - datetime.fromisoformat(row["last_worked"]).timestamp())
        if age_s < _MINUTE_S:
            return "now"
        if age_s < _HOUR_S:
            return f"{age_s // _MINUTE_S:.0f} min"
        if age_s < 2 * _DAY_S:
            return f"{age_s // _HOUR_S:.0f} h"
        return f"{age_s // _DAY_S:.0f} d"

    return show


# --- Runs that are to be removed


def removal_table(runs: Sequence[ListedRun], contents: Sequence[RunContent]) -> DataTable:
    """What removing runs takes away: instances, bytes, and what they cost. Their contents are in the same order."""
    rows: list[Row] = []
    for run, content in zip(runs, contents, strict=True):
        rows.append(
            {
                "run": run.directory.name,
                "changed": cut_end(describe_changes(run.version.changed), _MAX_CHANGES),
                "instances": run.counts.n_scored + run.counts.n_failed + run.counts.n_unjudged,
                "bytes": content.n_bytes,
                "priced_usd": run.counts.priced_usd,
                "unpriced_models": run.counts.unpriced_models,
            }
        )
    columns = list(text_columns("run", "changed"))
    columns += number_columns(instances=",")
    columns.append(Column("size", lambda row: size_text(row["bytes"])))
    columns.append(Column("cost", _cost_text))
    return DataTable("removed", "To be removed", "", columns, rows)


def size_text(n_bytes: int) -> str:
    """Format a size: `3 kB`, `1.2 MB`, `4.0 GB`."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:,.0f} kB"
    if n_bytes < 1e9:
        return f"{n_bytes / 1e6:,.1f} MB"
    return f"{n_bytes / 1e9:,.1f} GB"
