"""The user's answers: what they give away beyond their questions, and how they say `unknown` (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from cts_async.analysis.diagnose import Diagnosis
from cts_async.tables.statistics import rates, run_rows, run_table
from cts_async.tables.table import Column, DataTable, text

ORDER = 15


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    """Two tables with a row for each run."""
    yield _given_away(diagnosis)
    yield _unknown_wording(diagnosis)


def _given_away(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for row, run in run_rows(diagnosis):
        disclosed = run.given_away
        # Question files may have no intent: then what is told beyond the question is unknown, not nothing.
        if disclosed is None:
            continue
        row["known"] = disclosed.n_known
        row["over_informing"] = disclosed.n_over_informing
        row["named"] = disclosed.n_named
        row["told"] = disclosed.mean_share
        row["over_informing_rate"] = disclosed.rate
        rows.append(row)
    # Counts are integers, shares have three places: in the order of "of how many, how much, how often".
    columns = [Column("known", text("known"))]
    columns += rates("told")
    columns.append(Column("over-informing", text("over_informing")))
    columns += rates("over_informing_rate")
    columns.append(Column("named", text("named")))
    caption = (
        "known: answers that are not unknown. told: mean share of the intent's content words, beyond those of query and "
        "question, that an answer has. over-informing: answers that tell more than 0.8 of at least 4 such words, or "
        "that cts audit names: they recite the intent, or think aloud."
    )
    return run_table("given_away", "What the user gave away", caption, columns, rows)


def _unknown_wording(diagnosis: Diagnosis) -> DataTable:
    rows = []
    for row, run in run_rows(diagnosis):
        wording = run.system.unknown_wording
        # Results have `unknown` for all of them; only the journal has the words. A run may lack it.
        if wording is not None:
            row["exact"] = wording.exact
            row["paraphrased"] = wording.paraphrased
            rows.append(row)
    columns = [Column("exact", text("exact")), Column("paraphrased", text("paraphrased"))]
    caption = (
        "Replies that are exactly the word unknown, and those that mean it in other words or another spelling: they "
        "count as unknown, except in runs as published, where they are answers."
    )
    return run_table("unknown_wording", "How unknown was said", caption, columns, rows)
