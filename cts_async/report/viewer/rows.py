"""A run as a row of the list: its manifest, what it came to, and what the process that writes it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, cast

from cts_async import scorer
from cts_async.protocol.run_files import MANIFEST, PER_ITEM, RESULTS, STEPS, SUMMARY
from cts_async.report.live import LIVE, holds
from cts_async.report.live_shapes import Live
from cts_async.report.shaped import has_shape
from cts_async.report.viewer.about import About
from cts_async.report.viewer.files import NO_FILE, Stat, read_object, stat_of
from cts_async.report.viewer.folder import Place, verdict_files
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.shapes import RunRow, Scored
from cts_async.report.viewer.values import as_count, can_be_shown

_COPYING_NS = 2_000_000_000
State = tuple[tuple[str, Stat], ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """What a run came to, as far as its files are counted."""

    n_done: int
    """Instances that have ended, failed ones among them."""
    n_failed: int
    unknown_rate: float | None
    scores: tuple[Scored, ...]
    """The scoring judge first."""
    cost_usd: float | None = None
    ready: float = 1.0


def state_of(place: Place) -> State:
    """All that a run's row depends on: another state, perhaps another row."""
    directory = place.path
    names = [MANIFEST, RESULTS, PER_ITEM, SUMMARY, STEPS, LIVE]
    found = [(name, stat_of(directory / name)) for name in names]
    return (*found, *((path.name, stat_of(path)) for path in verdict_files(directory)))


def counted_state(place: Place) -> State:
    """All that a run's scores depend on."""
    return tuple((name, of) for name, of in state_of(place) if name not in (SUMMARY, STEPS, LIVE))


def up_to_date(place: Place) -> bool:
    """Whether no results have come since `summary.json` was written; a copy's times are not exact."""
    summary = stat_of(place.path / SUMMARY)
    latest = max(of.mtime_ns for name, of in counted_state(place) if name != MANIFEST)
    return summary != NO_FILE and latest <= summary.mtime_ns + _COPYING_NS


def summarised(place: Place) -> Tally | None:
    """What `summary.json` says; None where it says nothing of the kind."""
    try:
        summary = read_object(place.path / SUMMARY)
    except ValueError:
        return None
    return _tally_of(cast("_Summary", summary)) if has_shape(summary, _Summary) else None


class _Numbers(TypedDict):
    """What a summary says of one judge's scores."""

    n_scored: int
    mean: float | None
    p50: float | None
    p90: float | None


class _Summary(TypedDict):
    """What of a summary a row is made from."""

    n_scored: int
    n_unjudged: int
    n_failed: int
    ua_unknown_rate: float | None
    cost_usd: float | None
    judge: str | None
    judges: dict[str, _Numbers]


def _tally_of(summary: _Summary) -> Tally:
    judges, main = summary["judges"], summary["judge"]
    order = sorted(judges, key=lambda judge: judge != main)
    return Tally(
        n_done=sum(map(as_count, (summary["n_scored"], summary["n_unjudged"], summary["n_failed"]))),
        n_failed=as_count(summary["n_failed"]),
        unknown_rate=summary["ua_unknown_rate"],
        scores=tuple(_scored(judge, judges[judge]) for judge in order),
        cost_usd=summary["cost_usd"],
    )


def _scored(judge: str, of: _Numbers) -> Scored:
    return {
        "judge": judge,
        "n_scored": as_count(of["n_scored"]),
        "mean": of["mean"],
        "p50": of["p50"],
        "p90": of["p90"],
    }


def counted(run: OpenRun, summary: Tally | None) -> Tally:
    """What the indexed lines come to. What it cost a summary says, if it is about as many instances."""
    lines = run.results.lines()
    asked = int(lines.asked[~lines.failed].sum(dtype=int))
    unknown = int(lines.unknown[~lines.failed].sum(dtype=int))
    scores = []
    for judge, index in run.judges().items():
        values = run.scores(index, lines)
        known = values[values == values]
        numbers = scorer.summarise(known.tolist(), 0, len(known))
        said: _Numbers = {
            "n_scored": numbers.n_scored,
            "mean": numbers.mean,
            "p50": numbers.p50,
            "p90": numbers.p90,
        }
        scores.append(_scored(judge, said))
    n_failed = int(lines.failed.sum())
    n_done = len(lines)
    whole = summary is not None and (summary.n_done, summary.n_failed) == (n_done, n_failed)
    return Tally(
        n_done=n_done,
        n_failed=n_failed,
        unknown_rate=unknown / asked if asked else None,
        scores=tuple(scores),
        cost_usd=summary.cost_usd if summary and whole else None,
        ready=run.ready,
    )


def live_of(place: Place) -> Live | None:
    """What the process that writes the run says; None where none does."""
    try:
        said = read_object(place.path / LIVE)
    except ValueError:
        return None
    fits = holds(said) and has_shape(said, Live) and can_be_shown(said)
    return cast("Live", said) if fits else None


def _wall_s(about: About, live: Live | None) -> float | None:
    """Seconds of all sessions, the one that goes on included."""
    return about.wall_s if live is None else (about.wall_s or 0.0) + live["time"] - live["started"]


def run_row(place: Place, about: About, tally: Tally, data_sha: str) -> RunRow:
    """The row; `data_sha` says which other runs are over the same data."""
    live = live_of(place)
    return {
        "name": place.name,
        "kind": about.kind,
        "system": about.system,
        "data": about.data or (f"gold {about.gold_sha256[:8]}" if about.gold_sha256 else ""),
        "data_sha": data_sha,
        "k": about.k,
        "scheme": about.scheme,
        "mode": about.mode,
        "started": about.started,
        "ended": None if live else about.ended,
        "running": live is not None,
        "smoke_test": about.embedded,
        "n_expected": max(about.n_expected, tally.n_done),
        "n_done": tally.n_done,
        "n_failed": tally.n_failed,
        "scores": list(tally.scores),
        "unknown_rate": tally.unknown_rate,
        "cost_usd": None if live else tally.cost_usd,
        "wall_s": _wall_s(about, live),
        "live": live,
        "ready": tally.ready,
    }
