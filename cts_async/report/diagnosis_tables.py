"""Tables of a diagnosis: the paper's, then those beyond it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from cts_async.analysis.diagnose import Diagnosis, SystemDiagnosis
from cts_async.analysis.interactions import RegionTurn, cq_region_rate
from cts_async.analysis.question_types import QUESTION_TYPES
from cts_async.analysis.resampling import Difference
from cts_async.report.tables import SHORT_NOTE, Column, DataTable, Row, Show, estimate, number, text

# --- who
#
# Whose row it is: the columns that tables of several runs begin with.

Named: TypeAlias = Sequence[tuple[str, SystemDiagnosis]]
"""The runs, each with its name for people."""

WHO: Final = (Column("k", text("k")), Column("model", text("model"), numeric=False))


def who(name: str, one: SystemDiagnosis) -> dict[str, Any]:
    """The fields behind WHO, and the run's label."""
    return {"system": one.system.label, "model": name, "k": one.system.k}


def named(diagnosis: Diagnosis) -> Named:
    """Each run under its Clarifier's name, or its own where two have the same Clarifier and k."""
    seen = Counter((one.system.clarifier, one.system.k) for one in diagnosis.systems)
    return [
        (one.system.label if seen[one.system.clarifier, one.system.k] > 1 else one.system.clarifier, one)
        for one in diagnosis.systems
    ]


# --- interaction_tables
#
# The paper's tables about questions and answers, by their numbers and in the words of their captions.


def progress(runs: Named) -> DataTable:
    rows = [
        {
            **who(name, one),
            "n": len(one.system.rows),
            "failed": one.system.n_failed,
            "missing": one.system.n_missing,
            "scored": sum(row.score is not None for row in one.system.rows),
        }
        for name, one in runs
    ]
    columns = (*WHO, *(Column(key, text(key)) for key in ("n", "failed", "missing", "scored")))
    caption = "n: instances that were asked and answered. Failed and missing ones count nowhere below."
    return DataTable("runs", "Runs", caption, columns, rows, group="k")


def table_4(runs: Named) -> DataTable:
    rows = [
        {
            **who(name, one),
            "n": one.unknowns.n,
            "answers": one.unknowns.answers,
            "unknown": one.unknowns.unknown,
            "ua_unknown_rate": one.unknowns.ua_unknown_rate,
            "cq_region_rate": cq_region_rate(one.regions),
        }
        for name, one in runs
    ]
    columns = (
        *WHO,
        Column("n", text("n")),
        Column("ua_unknown_rate", number("ua_unknown_rate", ".3f")),
        Column("cq_region_rate", number("cq_region_rate", ".3f")),
    )
    caption = (
        "ua_unknown_rate: fraction of answers labeled unknown. cq_region_rate: fraction of clarification "
        "questions about region/location."
    )
    return DataTable("table_4", "Table 4. UA diagnostics", caption, columns, rows, group="k")


def _region_row(name: str, turn: RegionTurn) -> Row:
    return {
        "system": turn.label,
        "model": name,
        "k": turn.k,
        "turn": turn.turn,
        "questions": turn.questions,
        "region_only": turn.region_only,
        "region_only_unknown": turn.region_only_unknown,
        "region_only_unknown_rate": turn.unknown_rate,
    }


_REGION_ONLY: Final = (
    Column("#region-only", text("region_only")),
    Column("region-only unknown", number("region_only_unknown_rate", ".3f")),
)


def table_5(runs: Named) -> DataTable:
    rows = [_region_row(name, turn) for name, one in runs if one.system.k == 1 for turn in one.regions]
    title = "Table 5. Region-only clarification as a low-yield failure mode at k = 1"
    caption = "The number of region-only questions and the UA unknown rate conditioned on region-only."
    return DataTable("table_5", title, caption, (WHO[1], *_REGION_ONLY), rows)


def table_7(runs: Named) -> DataTable:
    most = max((one.system.k for _, one in runs), default=0)
    rows = [
        {
            **who(name, one),
            "n": one.unknowns.n,
            "all_unknown": one.unknowns.all_unknown,
            **{f"known_cnt_{j}": one.unknowns.known_cnt_rate(j) for j in range(1, most + 1)},
        }
        for name, one in runs
    ]
    columns = (
        *WHO,
        Column("all_unknown", number("all_unknown", ".3f")),
        *(Column(f"known_cnt={j}", number(f"known_cnt_{j}", ".3f")) for j in range(1, most + 1)),
    )
    caption = "all_unknown: all k answers are unknown. known_cnt: number of non-unknown answers."
    return DataTable(
        "table_7", "Table 7. Interaction-level UA unknown diagnostics", caption, columns, rows, group="k"
    )


def table_8(diagnosis: Diagnosis) -> DataTable:
    rows = [
        {
            "k": found.k,
            "low": found.low,
            "high": found.high,
            "lowest": f"{found.lowest.label}, turn {found.lowest.turn}",
            "highest": f"{found.highest.label}, turn {found.highest.turn}",
        }
        for found in diagnosis.ranges
    ]
    columns = (
        Column("setting", lambda row: f"k = {row['k']}", numeric=False),
        Column("unknown range", lambda row: f"{row['low']:.3f}–{row['high']:.3f}"),
        Column("lowest", text("lowest"), numeric=False),
        Column("highest", text("highest"), numeric=False),
    )
    title = "Table 8. Region-only clarification across clarification budgets"
    caption = "The range of UA unknown rates for region-only questions across models and turns."
    return DataTable("table_8", title, caption, columns, rows)


def table_10(runs: Named) -> DataTable:
    rows = [_region_row(name, turn) for name, one in runs for turn in one.regions]
    columns = (
        WHO[0],
        Column("(model, turn)", lambda row: f"({row['model']}, {row['turn']})", numeric=False),
        *_REGION_ONLY,
    )
    title = "Table 10. Turn-level UA unknown rate conditioned on region-only questions"
    caption = "Region-only: a question that asks for a region and for nothing else."
    return DataTable("table_10", title, caption, columns, rows, group="k")


# --- question_tables
#
# Tables beyond the paper: types of questions, what they gain, and whether to ask at all (section 7.3).

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
