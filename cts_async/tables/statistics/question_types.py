"""Types of questions beyond the paper: how often each is asked and answered, and what it gains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cts_async.analysis.diagnose import Diagnosis
from cts_async.analysis.question_types import QUESTION_TYPES
from cts_async.tables.statistics import rates, run_rows, run_table
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
            # A type may be asked without any answer on record, as in runs that stop after the questions.
            low, high = profile.interval or (None, None)
            row: dict[str, Any] = {"k": budget.k, "type": profile.kind}
            row["questions"] = profile.n
            row["share"] = profile.share
            row["answerability"] = profile.answerability
            row["answerability_low"] = low
            row["answerability_high"] = high
            # Without a run of orig there is no gain.
            gain = budget.gains.get(profile.kind)
            row |= interval_fields("gain", gain)
            row["gain_questions"] = 0
            if gain is not None:
                row["gain_questions"] = gain.n
            rows.append(row)
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
    n_turns = max((budget.k for budget in diagnosis.budgets), default=0)
    rows = []
    for budget in diagnosis.budgets:
        # With one question the only turn is the table of types.
        if budget.k == 1:
            continue
        for profile in budget.profiles:
            row: dict[str, Any] = {"k": budget.k, "type": profile.kind}
            for turn in range(1, n_turns + 1):
                n_asked, n_known = 0, 0
                # Budgets of fewer questions share the columns of the largest one.
                if turn <= len(profile.by_turn):
                    n_asked, n_known = profile.by_turn[turn - 1]
                row[f"questions_{turn}"] = n_asked
                row[f"known_{turn}"] = n_known
                row[f"answerability_{turn}"] = None
                if n_asked:
                    row[f"answerability_{turn}"] = n_known / n_asked
            rows.append(row)
    columns = [Column("k", text("k")), Column("type", text("type"), numeric=False)]
    for turn in range(1, n_turns + 1):
        columns.append(Column(f"turn {turn} (n)", _rate_of(turn)))
    title = "Answerability of question types by turn"
    caption = "In brackets the number of questions."
    return DataTable("question_types_by_turn", title, caption, tuple(columns), rows, group="k")


def _rate_of(turn: int) -> Show:
    rate = number(f"answerability_{turn}", ".3f")
    return lambda row: f"{rate(row)} ({row[f'questions_{turn}']})"


def _shares(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for row, run in run_rows(diagnosis):
        for profile in run.profiles:
            row[profile.kind] = profile.share
        rows.append(row)
    title = "Question types by model"
    caption = "Share of questions by primary type."
    return run_table("question_type_shares", title, caption, rates(*QUESTION_TYPES), rows)
