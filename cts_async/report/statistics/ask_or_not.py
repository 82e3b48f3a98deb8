"""Predicted answerability, and whether to ask at all (paper, section 7.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cts_async.analysis.diagnose import Diagnosis
from cts_async.report.statistics import RUN_COLUMNS, NamedSystems, named_systems, run_fields
from cts_async.report.tables import (
    Column,
    DataTable,
    Row,
    estimate,
    interval_fields,
    number,
    text,
    with_short_note,
)

ORDER: Final = 40

_POINTS_SHOWN: Final = 11


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """Calibration of the predictions, then what asking less would score."""
    runs = named_systems(diagnosis)
    yield _calibration(diagnosis)
    yield _ask_or_not(runs)
    yield _frontier_points(runs)


def _calibration(diagnosis: Diagnosis) -> DataTable:
    found = diagnosis.calibration
    rows = [
        {
            "predicted_low": bin.low,
            "predicted_high": bin.high,
            "questions": bin.n,
            "predicted": bin.predicted,
            "observed": bin.observed,
            **interval_fields("gain", bin.gain),
        }
        for bin in (found.bins if found else ())
    ]
    columns = (
        Column("answerability", lambda row: f"{row['predicted_low']:.1f}–{row['predicted_high']:.1f}"),
        Column("n", text("questions")),
        Column("predicted", number("predicted", ".3f")),
        Column("observed", number("observed", ".3f")),
        Column("gain at k = 1", estimate("gain", "+.2f")),
    )
    title = "Predicted answerability (section 7.3)"
    return DataTable("calibration", title, with_short_note(_brier(diagnosis), rows), columns, rows)


def _brier(diagnosis: Diagnosis) -> str:
    found = diagnosis.calibration
    if found is None:
        return ""
    skill = "-" if found.skill is None else f"{found.skill:+.3f}"
    return (
        "From a question's type, language and turn, learned on other instances. "
        f"Brier score {found.brier:.4f}, of always saying the mean {found.reference:.4f}, skill {skill}."
    )


def _ask_or_not(runs: NamedSystems) -> DataTable:
    rows = [
        {
            **run_fields(name, one),
            "n": one.frontier.n,
            "never": one.frontier.never.mean_score,
            "always": one.frontier.always.mean_score,
            "best_threshold": one.frontier.best.threshold,
            "best_share": one.frontier.best.share_asked,
            "best_mean": one.frontier.best.mean_score,
            "validated_share": one.frontier.validated.share_asked,
            "validated_mean": one.frontier.validated.mean_score,
            **interval_fields("over_always", one.frontier.over_always),
            "area": one.frontier.area,
        }
        for name, one in runs
        if one.frontier
    ]
    columns = (
        *RUN_COLUMNS,
        Column("never", number("never", ".2f")),
        Column("always", number("always", ".2f")),
        Column("best", lambda row: f"{row['best_mean']:.2f} @ {row['best_share']:.2f}"),
        Column("validated", lambda row: f"{row['validated_mean']:.2f} @ {row['validated_share']:.2f}"),
        Column("Δ always", estimate("over_always", "+.2f")),
        Column("area", number("area", "+.2f")),
    )
    caption = (
        "Ask only where the predicted chance of an answer is high enough: mean score @ share of instances asked. "
        "best: threshold chosen on these instances; validated: chosen on other instances, tenfold; Δ always: its "
        "difference to always asking; area: mean height of the frontier above asking as many at random."
    )
    title = "Ask or not (section 7.3)"
    return DataTable("ask_or_not", title, with_short_note(caption, rows), columns, rows, group="k")


def _frontier_points(runs: NamedSystems) -> DataTable:
    """The frontier's points: printed for a single run, in JSON and CSV for all."""
    rows = list(_point_rows(runs))
    columns = (
        Column("asked", number("share_asked", ".3f")),
        Column("if answerable >=", number("threshold", ".3f")),
        Column("mean score", number("mean_score", ".2f")),
    )
    single = sum(one.frontier is not None for _, one in runs) == 1
    title, caption = "The frontier of asking less", "From never asking (orig) to always asking (the run)."
    return DataTable("frontier", title, caption, columns, rows, shown=_POINTS_SHOWN if single else 0)


def _point_rows(runs: NamedSystems) -> Iterator[Row]:
    for name, one in runs:
        for point in one.frontier.points if one.frontier else ():
            yield {
                **run_fields(name, one),
                "threshold": point.threshold,
                "share_asked": point.share_asked,
                "mean_score": point.mean_score,
            }
