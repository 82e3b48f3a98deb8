"""What answers gain, predicted answerability, and whether to ask at all (paper, section 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from cts_async.analysis.diagnose import Bin, Diagnosis, Frontier
from cts_async.tables.statistics import run_rows, run_table
from cts_async.tables.table import (
    Column,
    DataTable,
    Row,
    estimate,
    interval_fields,
    number,
    text,
    with_short_note,
)

ORDER: Final = 30

_POINTS_SHOWN: Final = 11

Frontiers: TypeAlias = Sequence[tuple[dict[str, Any], Frontier]]
"""With the fields that identify the run."""


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """Gains by known answers, calibration of the predictions, then what asking less would score."""
    yield _known_counts(diagnosis)
    yield _calibration(diagnosis)
    yield _ask_or_not(diagnosis)
    yield _frontier_points(diagnosis)


def _frontiers(diagnosis: Diagnosis) -> Frontiers:
    """The runs with scores of their own and of orig."""
    frontiers = []
    for row, run in run_rows(diagnosis):
        if run.frontier is not None:
            frontiers.append((row, run.frontier))
    return frontiers


def _known_counts(diagnosis: Diagnosis) -> DataTable:
    """Score and gain by the number of known answers (table 7's classes), of the runs with scores."""
    rows: list[dict[str, Any]] = []
    for fields, run in run_rows(diagnosis):
        # Conversations and runs that stop before the search have answers, and no scores.
        if not any(count.score for count in run.known_counts):
            continue
        for count in run.known_counts:
            row = dict(fields)
            row["known_cnt"] = count.known_cnt
            row["n"] = count.n
            row |= interval_fields("score", count.score)
            row |= interval_fields("gain", count.gain)
            row["gain_n"] = 0
            if count.gain is not None:
                row["gain_n"] = count.gain.n
            rows.append(row)
    columns = (
        Column("known_cnt", text("known_cnt")),
        Column("n", text("n")),
        Column("score", estimate("score", ".2f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    title = "Score and gain by the number of known answers"
    caption = "restore_score_100 and its difference to orig, with bootstrap 95 % intervals."
    return run_table("known_count", title, with_short_note(caption, rows), columns, rows, group="system")


def _calibration(diagnosis: Diagnosis) -> DataTable:
    calibration = diagnosis.calibration
    rows: list[dict[str, Any]] = []
    if calibration is not None:
        # Where every question has a gain, one group says all.
        if sum(bin.n for bin in calibration.gain_bins) != calibration.n:
            rows += _bin_rows("all questions", calibration.bins)
        rows += _bin_rows("k = 1, with a gain", calibration.gain_bins)
    columns = (
        Column("over", text("over"), numeric=False),
        Column("answerability", _predicted_range),
        Column("n", text("questions")),
        Column("predicted", number("predicted", ".3f")),
        Column("observed", number("observed", ".3f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    title = "Predicted answerability (section 7.3)"
    caption = with_short_note(_brier(diagnosis), rows)
    return DataTable("calibration", title, caption, columns, rows, group="over")


def _predicted_range(row: Row) -> str:
    return f"{row['predicted_low']:.1f}–{row['predicted_high']:.1f}"


def _bin_rows(group: str, bins: Sequence[Bin]) -> Iterator[dict[str, Any]]:
    """The tenths of the predictions among the questions of a group: n, rates and gain are of the same questions."""
    for bin in bins:
        row: dict[str, Any] = {"over": group}
        row["predicted_low"] = bin.low
        row["predicted_high"] = bin.high
        row["questions"] = bin.n
        row["predicted"] = bin.predicted
        row["observed"] = bin.observed
        row |= interval_fields("gain", bin.gain)
        yield row


def _brier(diagnosis: Diagnosis) -> str:
    calibration = diagnosis.calibration
    if calibration is None:
        return ""
    # Where every answer is known, or none, always saying the mean has no error to compare with.
    skill = "-"
    if calibration.skill is not None:
        skill = f"{calibration.skill:+.3f}"
    return (
        "From a question's type, language and turn, learned on other instances. "
        f"Brier score {calibration.brier:.4f}, of always saying the mean {calibration.reference:.4f}, skill {skill}."
    )


def _ask_or_not(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for row, frontier in _frontiers(diagnosis):
        row["n"] = frontier.n
        row["never"] = frontier.never.mean_score
        row["always"] = frontier.always.mean_score
        # The best threshold of these very instances is too good: `validated` is the one to quote.
        row["best_threshold"] = frontier.best.threshold
        row["best_share"] = frontier.best.share_asked
        row["best_mean"] = frontier.best.mean_score
        row["validated_share"] = frontier.validated.share_asked
        row["validated_mean"] = frontier.validated.mean_score
        row |= interval_fields("over_always", frontier.over_always)
        row["area"] = frontier.area
        rows.append(row)
    columns = (
        Column("never", number("never", ".2f")),
        Column("always", number("always", ".2f")),
        Column("best", _best),
        Column("validated", _validated),
        Column("Δ always", estimate("over_always", "+.2f")),
        Column("area", number("area", "+.2f")),
    )
    caption = (
        "Ask only where the predicted chance of an answer is high enough: mean score @ share of instances asked. "
        "best: threshold chosen on these instances; validated: chosen on other instances, tenfold; Δ always: its "
        "difference to always asking; area: mean height of the frontier above asking as many at random."
    )
    title = "Ask or not (section 7.3)"
    return run_table("ask_or_not", title, with_short_note(caption, rows), columns, rows)


def _best(row: Row) -> str:
    return f"{row['best_mean']:.2f} @ {row['best_share']:.2f}"


def _validated(row: Row) -> str:
    return f"{row['validated_mean']:.2f} @ {row['validated_share']:.2f}"


def _frontier_points(diagnosis: Diagnosis) -> DataTable:
    """The frontier's points: printed for a single run, in JSON and CSV for all."""
    frontiers = _frontiers(diagnosis)
    rows = []
    for fields, frontier in frontiers:
        for point in frontier.points:
            rows.append(fields | asdict(point))
    columns = (
        Column("asked", number("share_asked", ".3f")),
        Column("if answerable >=", number("threshold", ".3f")),
        Column("mean score", number("mean_score", ".2f")),
    )
    title, caption = "The frontier of asking less", "From never asking (orig) to always asking (the run)."
    shown = 0
    # Of several runs the points would be pages of numbers; JSON and CSV have them all, and the report draws them.
    if len(frontiers) == 1:
        shown = _POINTS_SHOWN
    return DataTable("frontier", title, caption, columns, rows, shown=shown)
