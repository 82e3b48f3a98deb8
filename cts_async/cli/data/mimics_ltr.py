"""`cts data mimics-duo ltr`: learning to rank clarification panes (SIGIR 2022, section 3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cts_async.cli import options
from cts_async.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cts_async.analysis.labelled_panes import LabelledPanes
    from cts_async.analysis.pane_rankers import PaneRanker
    from cts_async.datasets.pane_table import LabelledRow
    from cts_async.report.pane_ranking import PaneRanking

HELP = """Learn to rank clarification panes: cross-validated P@1 and MRR, tests of every pair, top features.

DATA is a directory with MIMICS-Duo's four files, or one TSV in the format of MIMICS (query, question, option_1 to
option_5 and a label's column), such as MIMICS-ClickExplore.tsv. A label is engagement, quality or rating; with
--test-label rankers are trained on one and tested on another.

Example: cts data mimics-duo ltr MIMICS-Duo/

Example: cts data mimics-duo ltr MIMICS-Duo/ --label engagement --test-label quality --features-of mart --json
"""


def ltr(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="MIMICS-Duo's directory, or a TSV of panes.")],
    label: Annotated[str, typer.Option(help="Train on this: engagement, quality or rating.")] = "engagement",
    test_label: Annotated[
        str | None, typer.Option(help="Test on this label [default: the one trained on].")
    ] = None,
    ranker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Only this ranker, e.g. mart; may be given again [default: all seven]."
        ),
    ] = None,
    features_of: Annotated[
        str | None, typer.Option(help="Show this ranker's top features [default: rankboost, as table 5].")
    ] = None,
    folds: Annotated[int, typer.Option(help="Into how many parts the queries are cut.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=10**9, help="Seed of everything random here.")] = 0,
    as_json: options.AsJson = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR", help="Also write every table there, unrounded.")
    ] = None,
) -> None:
    from cts_async.analysis.pane_columns import PANE_LABELS
    from cts_async.analysis.pane_rankers import chosen
    from cts_async.cli.data.shown import show
    from cts_async.report.pane_ranking import notes, tables

    rankers = chosen(ranker or ())
    shown = features_of or ("rankboost" if "rankboost" in rankers else next(iter(rankers)))
    if shown not in rankers:
        raise UsageError(f"no weights of {shown!r}: the rankers are {', '.join(rankers)}")
    labels = (label, label if test_label is None else test_label)
    for given in labels:
        if given not in PANE_LABELS:
            raise UsageError(f"unknown label {given!r}: choose from {', '.join(PANE_LABELS)}")
    ranking = _learned(data, labels, rankers, folds, seed)
    show(tables(ranking, shown), notes=list(notes(ranking)), as_json=as_json, csv=csv)


ltr.__doc__ = HELP


def _learned(
    data: Path, labels: tuple[str, str], rankers: Mapping[str, PaneRanker], folds: int, seed: int
) -> PaneRanking:
    from cts_async.analysis.cross_validation import cross_validate
    from cts_async.analysis.labelled_panes import one_of_each
    from cts_async.report.pane_ranking import PaneRanking

    panes, rows = _labelled(data, labels)
    once = one_of_each(panes, seed)
    found = cross_validate(once, rankers, folds=folds, seed=seed)
    unlabelled, repeated = rows - len(panes.panes), len(panes.panes) - len(once.panes)
    return PaneRanking(found, *labels, folds, seed, unlabelled, repeated)


def _labelled(data: Path, labels: tuple[str, str]) -> tuple[LabelledPanes, int]:
    """The panes that have both labels, and how many rows were read."""
    from cts_async.analysis.labelled_panes import LabelledPanes
    from cts_async.analysis.pane_features import PaneText
    from cts_async.datasets.pane_table import read_pane_table

    read = 0
    panes, train, test = [], [], []
    for row in read_pane_table(data, labels) if data.is_file() else _of_duo(data, labels):
        read += 1
        to_train, to_test = row.labels
        if to_train is not None and to_test is not None:
            panes.append(PaneText(row.query, row.question, row.options))
            train.append(to_train)
            test.append(to_test)
    if not panes:
        raise InputError(data, f"has no pane with a label for {' and '.join(dict.fromkeys(labels))}")
    return LabelledPanes(panes, train, test), read


def _of_duo(folder: Path, labels: tuple[str, str]) -> Iterator[LabelledRow]:
    from cts_async.analysis.pane_columns import PANE_LABELS
    from cts_async.datasets.mimics_duo import read_panes
    from cts_async.datasets.pane_table import LabelledRow

    fields = [field for one in labels for label, field in PANE_LABELS.items() if label == one]
    for pane in read_panes(folder):
        values = tuple(float(getattr(pane, field)) for field in fields)
        yield LabelledRow(pane.query, pane.question, pane.options, values)
