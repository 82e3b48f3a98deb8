"""Conversations without scores (`cts converse`): a table of their runs, and the evaluation of AT-CoT on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cts_async.analysis.conversations import TurnRetrieval
from cts_async.report.summary import RunSummary, cost_fields, cost_text
from cts_async.report.tables import Column, DataTable, number, text


@dataclass(frozen=True, slots=True)
class TalkReport:
    """Tables to print and to write as JSON, with notes on how to read them."""

    tables: tuple[DataTable, ...]
    notes: tuple[str, ...]
    retrieved: tuple[TurnRetrieval, ...] = ()
    """Turn by turn, of each Clarifier; none without documents."""
    judgments: str = ""
    """What was searched and who judged; "" without documents."""


def conversations_table(summaries: Sequence[RunSummary]) -> DataTable:
    """How the conversations of whole runs went and what they cost."""
    rows = [
        {
            "run": str(one.directory),
            "system": one.label,
            "done": one.n_done,
            "failed": len(one.failures),
            "expected": one.n_expected,
            "unknown_rate": one.unknown_rate,
            "calls": one.spent.calls,
            "tokens": sum(sum(used.values()) for used in one.spent.tokens.values()),
            **cost_fields(one),
        }
        for one in summaries
    ]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("done", lambda row: f"{row['done']}/{row['expected']}"),
        Column("failed", text("failed")),
        Column("unknown", number("unknown_rate", ".1%")),
        Column("calls", number("calls", ",")),
        Column("tokens", number("tokens", ",")),
        Column("cost", cost_text),
    )
    caption = "unknown: answers of the user that the intent does not give"
    return DataTable("conversations", "Conversations", caption, columns, rows)
