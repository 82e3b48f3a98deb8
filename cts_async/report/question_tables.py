"""Tables beyond the paper: types of questions, what they gain, and whether to ask at all (section 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cts_async.analysis.bootstrap import Difference
from cts_async.analysis.diagnosis import Diagnosis
from cts_async.analysis.question_types import QUESTION_TYPES
from cts_async.report.data_table import SHORT_NOTE, Column, DataTable, Row, Show, estimate, number, text
from cts_async.report.who import WHO, Named, who

_POINTS_SHOWN: Final = 11


def types(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for budget in diagnosis.budgets:
        for profile in budget.profiles:
            low, high = profile.interval or (None, None)
            gain = budget.gains.get(profile.kind)
            rows.append(
                {
                    "k": budget.k,
                    "type": profile.kind,
                    "questions": profile.n,
                    "share": profile.share,
                    "answerability": profile.answerability,
                    "answerability_low": low,
                    "answerability_high": high,
                    "gain": gain.points if gain else None,
                    "gain_low": gain.low if gain else None,
                    "gain_high": gain.high if gain else None,
                    "gain_too_short": bool(gain and gain.too_short),
                    "gain_questions": gain.n if gain else 0,
                }
            )
    columns = (
        Column("k", text("k")),
        Column("type", text("type"), numeric=False),
        Column("n", text("questions")),
        Column("share", number("share", ".3f")),
        Column("answerable", estimate("answerability", ".3f")),
        Column("gain per question", estimate("gain", "+.2f")),
    )
    caption = (
        "By primary type, all runs of a k together. answerable: fraction of answers that are not unknown, with "
        "Wilson's 95 % interval. gain: points over orig that a question of the type brings (at k = 1 a mean, "
        "else least squares), with a bootstrap interval."
    )
    title = "Question types: share, answerability and gain"
    return DataTable("question_types", title, _captioned(caption, rows), columns, rows, group="k")


def types_by_turn(diagnosis: Diagnosis) -> DataTable:
    most = max((budget.k for budget in diagnosis.budgets), default=0)
    rows = []
    for budget in diagnosis.budgets:
        for profile in budget.profiles if budget.k > 1 else ():
            row: dict[str, Any] = {"k": budget.k, "type": profile.kind}
            for turn in range(1, most + 1):
                asked, known = profile.by_turn[turn - 1] if turn <= len(profile.by_turn) else (0, 0)
                row |= {f"questions_{turn}": asked, f"known_{turn}": known}
                row[f"answerability_{turn}"] = known / asked if asked else None
            rows.append(row)
    columns = (
        Column("k", text("k")),
        Column("type", text("type"), numeric=False),
        *(Column(f"turn {turn} (n)", _rate_of(turn)) for turn in range(1, most + 1)),
    )
    title = "Answerability of question types by turn"
    return DataTable(
        "question_types_by_turn", title, "In brackets the number of questions.", columns, rows, group="k"
    )


def _rate_of(turn: int) -> Show:
    rate = number(f"answerability_{turn}", ".3f")
    return lambda row: f"{rate(row)} ({row[f'questions_{turn}']})"


def shares(runs: Named) -> DataTable:
    rows = [
        {**who(name, one), **{profile.kind: profile.share for profile in one.profiles}} for name, one in runs
    ]
    columns = (*WHO, *(Column(kind, number(kind, ".3f")) for kind in QUESTION_TYPES))
    title = "What each model asks for"
    return DataTable(
        "question_type_shares", title, "Share of questions by primary type.", columns, rows, group="k"
    )


def _interval(key: str, found: Difference | None) -> dict[str, Any]:
    if found is None:
        return dict.fromkeys((key, f"{key}_low", f"{key}_high")) | {f"{key}_too_short": False}
    ends = {f"{key}_low": found.low, f"{key}_high": found.high}
    return {key: found.mean, **ends, f"{key}_too_short": found.too_short}


def _captioned(caption: str, rows: Sequence[Row]) -> str:
    """The caption, and what the mark of short intervals means where a row has one."""
    short = any(value is True and key.endswith("_too_short") for row in rows for key, value in row.items())
    return f"{caption} {SHORT_NOTE}".strip() if short else caption


def known_counts(runs: Named) -> DataTable:
    rows = [
        {
            **who(name, one),
            "known_cnt": of.known_cnt,
            "n": of.n,
            **_interval("score", of.score),
            **_interval("gain", of.gain),
            "gain_n": of.gain.n if of.gain else 0,
        }
        for name, one in runs
        if any(of.score for of in one.known_counts)
        for of in one.known_counts
    ]
    columns = (
        *WHO,
        Column("known_cnt", text("known_cnt")),
        Column("n", text("n")),
        Column("score", estimate("score", ".2f")),
        Column("gain", estimate("gain", "+.2f")),
    )
    title = "Score and gain by the number of known answers"
    caption = "restore_score_100 and its difference to orig, with bootstrap 95 % intervals."
    return DataTable("known_count", title, _captioned(caption, rows), columns, rows, group="system")


def calibration(diagnosis: Diagnosis) -> DataTable:
    found = diagnosis.calibration
    rows = [
        {
            "predicted_low": bin.low,
            "predicted_high": bin.high,
            "questions": bin.n,
            "predicted": bin.predicted,
            "observed": bin.observed,
            **_interval("gain", bin.gain),
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
    return DataTable("calibration", title, _captioned(_brier(diagnosis), rows), columns, rows)


def _brier(diagnosis: Diagnosis) -> str:
    found = diagnosis.calibration
    if found is None:
        return ""
    skill = "-" if found.skill is None else f"{found.skill:+.3f}"
    return (
        "From a question's type, language and turn, learned on other instances. "
        f"Brier score {found.brier:.4f}, of always saying the mean {found.reference:.4f}, skill {skill}."
    )


def ask_or_not(runs: Named) -> DataTable:
    rows = [
        {
            **who(name, one),
            "n": one.frontier.n,
            "never": one.frontier.never.mean_score,
            "always": one.frontier.always.mean_score,
            "best_threshold": one.frontier.best.threshold,
            "best_share": one.frontier.best.share_asked,
            "best_mean": one.frontier.best.mean_score,
            "validated_share": one.frontier.validated.share_asked,
            "validated_mean": one.frontier.validated.mean_score,
            **_interval("over_always", one.frontier.over_always),
            "area": one.frontier.area,
        }
        for name, one in runs
        if one.frontier
    ]
    columns = (
        *WHO,
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
    return DataTable("ask_or_not", title, _captioned(caption, rows), columns, rows, group="k")


def points(runs: Named) -> DataTable:
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


def _point_rows(runs: Named) -> Iterator[Row]:
    for name, one in runs:
        for point in one.frontier.points if one.frontier else ():
            yield {
                **who(name, one),
                "threshold": point.threshold,
                "share_asked": point.share_asked,
                "mean_score": point.mean_score,
            }
