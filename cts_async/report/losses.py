"""Where the points of whole runs are lost, as a table; see `analysis.losses` for the method and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cts_async.analysis.board import Board
from cts_async.analysis.losses import STAGES, NuggetLoss, Stage, SystemLosses, system_losses
from cts_async.report.tables import Column, DataTable, number, text, text_columns
from cts_async.report.viewer.instance import GoldTexts, instance_losses
from cts_async.report.viewer.run import OpenRun, Place, journal_of, read_metadata

_HEADINGS: Final[dict[Stage, str]] = {
    "not_asked": "not asked",
    "not_found": "retrieval",
    "found": "reading",
    "read": "answering",
    "unknown": "not known",
}
_INDEXING_S: Final = 1.0
MOST: Final = 2_000
"""Instances of a run that are attributed, some 2 ms each; of more, so many evenly taken."""
_CAPTION: Final = (
    "Mean points of restore_score_100; with the mean they add up to 100. not asked: never found, and what q lacks of "
    "the intent was not searched for. retrieval: never found though it was. reading: found, but not read. answering: "
    "read, but not said. An attribution by matching words, which says where to look."
)


def board_losses(board: Board, judge: str | None) -> tuple[SystemLosses, ...]:
    """Attribute the losses of every run of a board that this judge has scored, reading them one by one.

    Runs of which nothing is known, such as judged answers without a trace, are left out.
    """
    gold = GoldTexts()
    entrants = [one for one in board.entrants if judge in one.judges and one.directory.is_dir()]
    found = (system_losses(one.label, run_losses(one.directory, judge or "", gold)) for one in entrants)
    return tuple(one for one in found if one is not None and one.known)


def run_losses(directory: Path, judge: str, gold: GoldTexts) -> Iterator[Sequence[NuggetLoss]]:
    """Yield the losses of each instance that the judge has scored, one at a time: traces are long.

    Of a run of more than `MOST` instances, so many at most are read.
    """
    directory = directory.resolve()
    place = Place(directory.name, directory)
    metadata = read_metadata(directory)
    if metadata is None:
        return
    run = OpenRun(place, metadata, journal_of(place, metadata, directory.parent))
    run.viewed = True  # also index the journal
    while run.advance(_INDEXING_S):
        pass
    index, lines = run.judges().get(judge), run.results.lines()
    if index is None:
        return
    for row in range(0, len(lines), -(-len(lines) // MOST) or 1):
        line = run.line(run.results, int(lines.offsets[row]))
        verdict = line if index is run.results else run.verdict(index, lines, row)
        if line is None or verdict is None or verdict.get("error") is not None:
            continue
        texts = gold.of(metadata, str(line.get("id")), str(line.get("fused_query") or ""))
        if losses := instance_losses(run, line, verdict, texts):
            yield losses


def losses_table(systems: Sequence[SystemLosses]) -> DataTable:
    """Points lost at each stage; the stages and the mean score add up to 100."""
    rows = [
        {"system": one.label, "n": one.n, "mean": one.mean, "lost": 100 - one.mean, **one.lost}
        for one in systems
    ]
    shown = [stage for stage in STAGES if stage != "unknown" or any(row["unknown"] for row in rows)]
    columns = (
        *text_columns("system"),
        Column("n", text("n")),
        Column("mean", number("mean", ".2f")),
        *(Column(_HEADINGS[stage], number(stage, ".2f")) for stage in shown),
    )
    return DataTable("losses", "Points lost by stage", _CAPTION, columns, rows)
