"""Types of questions beyond the paper: how often each is asked and answered, and what it gains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cts_async.analysis.diagnose import Diagnosis
from cts_async.analysis.question_types import QUESTION_TYPES
from cts_async.tables.statistics import RUN_COLUMNS, rates, run_rows
from cts_async.tables.table import (
    Column,
    DataTable,
    Show,
    estimate,
    interval_fields,
    number,
    text,
    with_short_note,
)

ORDER: Final = 20


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """Types over all runs of a budget, by turn, and the shares of each run."""
    yield _types(diagnosis)
    yield _types_by_turn(diagnosis)
    yield _shares(diagnosis)


def _types(diagnosis: Diagnosis) -> DataTable:
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
                    **interval_fields("gain", gain),
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
    return DataTable("question_types", title, with_short_note(caption, rows), columns, rows, group="k")


def _types_by_turn(diagnosis: Diagnosis) -> DataTable:
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


def _shares(diagnosis: Diagnosis) -> DataTable:
    rows = [
        {**fields, **{profile.kind: profile.share for profile in one.profiles}}
        for fields, one in run_rows(diagnosis)
    ]
    columns = (*RUN_COLUMNS, *rates(*QUESTION_TYPES))
    title = "Question types by model"
    return DataTable(
        "question_type_shares", title, "Share of questions by primary type.", columns, rows, group="k"
    )
