"""A ranking of panes by somebody's scores, beside the random ranker and the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cts_async.analysis.pane_columns import PANE_LABELS, PaneLabel, column, query_sizes
from cts_async.analysis.reranking import Measured, Reranked, rerank
from cts_async.analysis.tied_lists import Ideal, tied_lists, unscored
from cts_async.records import Pane
from cts_async.report.tables import Column, DataTable, number, text

SCORES, RANDOM, WORST = "scores", "random", "worst"
ALL, UNTIED = "all", "untied"
_READINGS: Final[tuple[tuple[str, Ideal], ...]] = ((ALL, "any"), (ALL, "one"), (UNTIED, "any"))
_CAPTION: Final = (
    "Ideal: {ideal}. all: every query. untied: one pane alone has the highest label and one alone the highest "
    "score. any: each pane with the highest label counts; one: one of them, drawn at random. ± is the spread over "
    "{draws:,} draws of the ties, exact the expectation over all of them."
)


@dataclass(frozen=True, slots=True)
class RerankedPanes:
    """A row: which ranking, on which queries, and what counted as ideal. None without a query."""

    ranking: str
    queries: str
    counts: Ideal
    found: Reranked | None


def rerank_panes(
    panes: Sequence[Pane], scores: Sequence[float], ideal: PaneLabel, *, draws: int, seed: int
) -> list[RerankedPanes]:
    """`scores`, the random ranker and the worst case: over all queries in both readings, and over the untied."""
    labels, sizes = column(panes, PANE_LABELS[ideal]), query_sizes(panes)
    lists = tied_lists(scores, labels, sizes)
    rankings = {SCORES: lists, RANDOM: unscored(lists), WORST: tied_lists(-labels, labels, sizes)}
    rows = []
    for name, ranking in rankings.items():
        for queries, counts in _READINGS:
            these = ranking.of(lists.alone) if queries == UNTIED else ranking
            rows.append(RerankedPanes(name, queries, counts, rerank(these, counts, draws=draws, seed=seed)))
    return rows


def reranked_table(rows: Sequence[RerankedPanes], ideal: PaneLabel, draws: int) -> DataTable:
    """Its rows are what `--json` prints."""
    columns = (
        Column("ranking", text("ranking"), numeric=False),
        Column("queries", lambda row: f"{row['queries']} {row['n_queries']}", numeric=False),
        Column("ideal", text("counts"), numeric=False),
        *(
            Column(heading, number(f"{measure}_{part}", ".3f"))
            for measure, name in (("p_at_1", "P@1"), ("mrr", "MRR"))
            for part, heading in (("mean", name), ("sd", "±"), ("exact", "exact"))
        ),
    )
    caption = _CAPTION.format(ideal=ideal, draws=draws)
    found = [{"ideal": ideal, **_row(one)} for one in rows]
    return DataTable("reranking", "Panes ranked by score", caption, columns, found, group="ranking")


def _row(one: RerankedPanes) -> dict[str, Any]:
    found = one.found
    return {
        "ranking": one.ranking,
        "queries": one.queries,
        "counts": one.counts,
        "n_queries": found.queries if found else 0,
        "n_panes": found.items if found else 0,
        **_numbers("p_at_1", found.p_at_1 if found else None),
        **_numbers("mrr", found.mrr if found else None),
    }


def _numbers(name: str, found: Measured | None) -> dict[str, float | None]:
    return {f"{name}_{part}": getattr(found, part, None) for part in ("mean", "sd", "exact", "exact_sd")}
