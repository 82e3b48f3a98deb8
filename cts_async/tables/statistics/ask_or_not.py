"""What answers gain, predicted answerability, and whether to ask at all (paper, section 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from cts_async.analysis.diagnose import Bin, Diagnosis, Frontier
from cts_async.tables.statistics import RUN_COLUMNS, run_rows
from cts_async.tables.table import (
    Column,
    DataTable,
    estimate,
    interval_fields,
    number,
    text,
    text_columns,
    with_short_note,
)

ORDER: Final = 30

_POINTS_SHOWN: Final = 11

Frontiers: TypeAlias = Sequence[tuple[dict[str, Any], Frontier]]
"""With the fields that identify the run."""


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """Gains by known answers, calibration of the predictions, then what asking less would score."""
    runs = [(fields, one.frontier) for fields, one in run_rows(diagnosis) if one.frontier]
    yield _known_counts(diagnosis)
    yield _calibration(diagnosis)
    yield _ask_or_not(runs)
    yield _frontier_points(runs)


def _known_counts(diagnosis: Diagnosis) -> DataTable:
    """Score and gain by the number of known answers (table 7's classes), of the runs with scores."""
    rows = [
        {
            **fields,
            "known_cnt": of.known_cnt,
            "n": of.n,
            **interval_fields("score", of.score),
            **interval_fields("gain", of.gain),
            "gain_n": of.gain.n if of.gain else 0,
        }
        for fields, one in run_rows(diagnosis)
        if any(of.score for of in one.known_counts)
        for of in one.known_counts
    ]
    columns = (
        *RUN_COLUMNS,
        Column("known_cnt", text("known_cnt")),
        Column("n", text("n")),
        Column("score", estimate("score", ".2f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    title = "Score and gain by the number of known answers"
    caption = "restore_score_100 and its difference to orig, with bootstrap 95 % intervals."
    return DataTable("known_count", title, with_short_note(caption, rows), columns, rows, group="system")


def _calibration(diagnosis: Diagnosis) -> DataTable:
    found = diagnosis.calibration
    rows: list[dict[str, Any]] = []
    if found:
        # Where every question has a gain, one group says all.
        all_gained = sum(bin.n for bin in found.gain_bins) == found.n
        groups = [] if all_gained else [(_ALL, found.bins)]
        groups.append((_ALONE, found.gain_bins))
        rows = [_bin_row(group, bin) for group, bins in groups for bin in bins]
    columns = (
        *text_columns("over"),
        Column("answerability", lambda row: f"{row['predicted_low']:.1f}–{row['predicted_high']:.1f}"),
        Column("n", text("questions")),
        Column("predicted", number("predicted", ".3f")),
        Column("observed", number("observed", ".3f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    title = "Predicted answerability (section 7.3)"
    caption = with_short_note(_brier(diagnosis), rows)
    return DataTable("calibration", title, caption, columns, rows, group="over")


_ALL: Final = "all questions"
_ALONE: Final = "k = 1, with a gain"


def _bin_row(group: str, bin: Bin) -> dict[str, Any]:
    """A tenth of the predictions among the questions of a group: n, rates and gain are of the same questions."""
    return {
        "over": group,
        "predicted_low": bin.low,
        "predicted_high": bin.high,
        "questions": bin.n,
        "predicted": bin.predicted,
        "observed": bin.observed,
        **interval_fields("gain", bin.gain),
    }


def _brier(diagnosis: Diagnosis) -> str:
    found = diagnosis.calibration
    if found is None:
        return ""
    skill = "-" if found.skill is None else f"{found.skill:+.3f}"
    return (
        "From a question's type, language and turn, learned on other instances. "
        f"Brier score {found.brier:.4f}, of always saying the mean {found.reference:.4f}, skill {skill}."
    )


def _ask_or_not(runs: Frontiers) -> DataTable:
    rows = [
        {
            **fields,
            "n": found.n,
            "never": found.never.mean_score,
            "always": found.always.mean_score,
            "best_threshold": found.best.threshold,
            "best_share": found.best.share_asked,
            "best_mean": found.best.mean_score,
            "validated_share": found.validated.share_asked,
            "validated_mean": found.validated.mean_score,
            **interval_fields("over_always", found.over_always),
            "area": found.area,
        }
        for fields, found in runs
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


def _frontier_points(runs: Frontiers) -> DataTable:
    """The frontier's points: printed for a single run, in JSON and CSV for all."""
    rows = [{**fields, **asdict(point)} for fields, found in runs for point in found.points]
    columns = (
        Column("asked", number("share_asked", ".3f")),
        Column("if answerable >=", number("threshold", ".3f")),
        Column("mean score", number("mean_score", ".2f")),
    )
    title, caption = "The frontier of asking less", "From never asking (orig) to always asking (the run)."
    shown = _POINTS_SHOWN if len(runs) == 1 else 0
    return DataTable("frontier", title, caption, columns, rows, shown=shown)
