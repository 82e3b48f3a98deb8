"""The statistics of MIMICS-Duo (SIGIR 2022): tables 6 to 11 and section 5.2, each value compared with the printed one,
and the ranking of panes by given scores.

A value without chance in it is reproduced where it rounds to what is printed. One that depends on how ties fell is
judged by z: how many standard deviations the printed value lies from the exact expectation, the rounding of print
forgiven.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations, groupby
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.stats import correlation
from cts_async.neighbours.inputs import published
from cts_async.neighbours.mimics_duo.panes import Pane
from cts_async.neighbours.mimics_duo.ties import (
    DRAWS,
    Array,
    Ideal,
    Measured,
    TiedLists,
    rerank,
    tied_lists,
    unscored,
)
from cts_async.tables.table import Column, DataTable, Row, Show, number, text

Key: TypeAlias = tuple[str, str]
"""A cell's row and column."""
Figures: TypeAlias = Mapping[Key, float | Measured]


# --- A value and the printed one -------------------------------------------------------------------------

VERDICTS: Final[Mapping[str, str]] = {
    "same": "reproduced: the same number in the digits that are printed",
    "ties": "within the spread of ties broken at random (|z| of at most 3)",
    "differs": "does not reproduce",
}
FAR: Final = 3.0
"""Beyond so many standard deviations chance is no explanation."""


def compared(
    key: Key, figure: float | Measured, printed: str | None, *, repeats: int = 1, again: bool = False
) -> Row:
    """A cell, unrounded: a figure, what is printed for it (None: nothing), and one of `VERDICTS` (None without print).

    `value` is the figure; where ties were drawn, its mean over the draws. `z` counts standard deviations from the exact
    expectation to the printed value; None without chance or print. `repeats`: the printed value is the mean of so many
    draws. `again`: it is compared with an earlier cell, too, and is counted there.
    """
    value = figure.mean if isinstance(figure, Measured) else figure
    chance = figure if isinstance(figure, Measured) and figure.exact_sd > 0 else None
    z, verdict = None, None
    if printed is not None:
        half_a_digit = 0.5 * 10.0 ** int(Decimal(printed).as_tuple().exponent)
        distance = float(printed) - (chance.exact if chance else value)
        if chance:
            beyond = math.copysign(max(0.0, abs(distance) - half_a_digit), distance)
            z = beyond / (chance.exact_sd / math.sqrt(repeats)) + 0.0
            verdict = "ties" if abs(z) <= FAR else "differs"
        else:
            verdict = "same" if abs(distance) <= half_a_digit + 1e-9 else "differs"
    return {
        "row": key[0],
        "column": key[1],
        "published": None if printed is None else float(printed),
        "value": value,
        **{part: getattr(chance, part, None) for part in ("sd", "exact", "exact_sd")},
        "z": z,
        "verdict": verdict,
        "again": again,
    }


def printed_cells(table: str) -> dict[Key, tuple[str, bool]]:
    """The printed values of a table as text, and whether a value belongs to an earlier cell, too.

    The number of digits says how exact a value is.
    """
    return {
        (row, column): (value, grid.get("other_reading", False))
        for grid in published("mimics_duo")["grid"]
        if grid["table"] == table
        for row, values in grid["rows"].items()
        for column, value in zip(grid["columns"], values.split(), strict=True)
        if value != "-"
    }


# --- Panes as columns of numbers -------------------------------------------------------------------------

PANE_LABELS: Final[Mapping[str, str]] = {
    "engagement": "engagement_level",
    "quality": "pane_quality",
    "rating": "offline_rating",
}
"""The labels that define an ideal ranking (table 11), and the fields of a pane that hold them."""
ASPECTS: Final[Mapping[str, str]] = {
    "Coverage": "coverage",
    "Diversity": "diversity",
    "Understandability": "understandability",
    "Can. Ans. Order": "importance_order",
}
"""The aspects by the names they have in tables 9 to 11."""


def column(panes: Sequence[Pane], field: str) -> Array:
    """The integers of one field, shape (panes,)."""
    return np.array([getattr(pane, field) for pane in panes], int)


def query_sizes(panes: Sequence[Pane]) -> Array:
    """How many panes each query has, shape (queries,): a query's panes are contiguous."""
    return np.array([len(list(group)) for _, group in groupby(panes, key=attrgetter("query"))], int)


def option_counts(panes: Sequence[Pane]) -> Array:
    """How many options each pane has, shape (panes,)."""
    return np.array([len(pane.options) for pane in panes], int)


# --- Tables 6, 8 and 9 -----------------------------------------------------------------------------------


def pane_statistics(panes: Sequence[Pane]) -> Figures:
    """Table 6: queries, panes, panes of a query and options of a pane; sd has ddof 1, and is NaN of one alone.

    Needs a pane.
    """
    sizes, options = query_sizes(panes), option_counts(panes)
    figures: dict[Key, float] = {
        ("Queries", "number"): len(sizes),
        ("Query-clarification pairs", "number"): len(panes),
    }
    for row, counts in (("Clarifications per query", sizes), ("Candidate answers", options)):
        figures |= {
            (row, "mean"): float(counts.mean()),
            (row, "sd"): float(counts.std(ddof=1)) if len(counts) > 1 else math.nan,
            (row, "min"): int(counts.min()),
            (row, "max"): int(counts.max()),
        }
    return figures


def quality_distributions(panes: Sequence[Pane]) -> Figures:
    """Table 8: the quality labels of panes, and of the options in each position; missing options are left out."""
    rows = {"Clarification Pane": column(panes, "pane_quality")}
    for slot in range(5):
        labels = [pane.option_qualities[slot] for pane in panes if slot < len(pane.options)]
        rows[f"Candidate Ans. #{slot + 1}"] = np.array(labels, int)
    return _distributions(rows)


def aspect_distributions(panes: Sequence[Pane]) -> Figures:
    """Table 9: how far workers agree that a pane has each aspect."""
    return _distributions({name: column(panes, field) for name, field in ASPECTS.items()})


def _distributions(rows: dict[str, Array]) -> Figures:
    """Mean, variance (ddof 1, NaN of one label) and percentages of the labels 1 to 5; no row without labels."""
    figures: dict[Key, float] = {}
    for row, labels in rows.items():
        if not len(labels):
            continue
        figures[row, "mean"] = float(labels.mean())
        # The second number of a printed row is the variance, not the standard deviation.
        figures[row, "var"] = float(labels.var(ddof=1)) if len(labels) > 1 else math.nan
        figures |= {(row, str(label)): float(100 * (labels == label).mean()) for label in range(1, 6)}
    return figures


# --- Table 10: correlations ------------------------------------------------------------------------------

ENGAGEMENT: Final = "Eng. Level"
MISALIGNED: Final = "Eng. Level, sorted"
"""Engagement in descending order within each query, against labels in file order."""
_MEASURES: Final[Mapping[str, str]] = {
    **ASPECTS,
    "Quality Labelling": "pane_quality",
    ENGAGEMENT: "engagement_level",
    "Offline Rating": "offline_rating",
}


def label_correlations(panes: Sequence[Pane]) -> Figures:
    """Pearson's r of each pair of measures once, then `MISALIGNED` with the seven others. NaN where one does not vary.

    All but seven printed cells reproduce over the aligned panes. The seven are those against the engagement level, and
    they reproduce exactly where engagement is sorted in descending order within each query while the other labels keep
    the order of the file. So the printed row looks like an error of alignment; `MISALIGNED` is that computation.
    """
    columns = {name: column(panes, field) for name, field in _MEASURES.items()}
    columns["# of Can. Ans."] = option_counts(panes)
    figures = {(a, b): pearson_or_nan(columns[a], columns[b]) for a, b in combinations(columns, 2)}
    sizes = query_sizes(panes)
    query = np.repeat(np.arange(len(sizes)), sizes)
    shifted = columns[ENGAGEMENT][np.lexsort((-columns[ENGAGEMENT], query))]
    others = (name for name in columns if name != ENGAGEMENT)
    return {**figures, **{(MISALIGNED, name): pearson_or_nan(shifted, columns[name]) for name in others}}


def pearson_or_nan(a: Array, b: Array) -> float:
    """Pearson's r in [-1, 1]; NaN where one of them does not vary."""
    r = correlation(a, b)
    return math.nan if r is None else r


# --- Section 5.2, tables 7 and 11: rankings --------------------------------------------------------------

RANDOM: Final = "Random Ranker"
SD: Final = "sd of "
"""Before a column: the standard deviation over the draws, not their mean."""
_ALL, _ALL_ONE, _UNTIED = ("P@1 all", "MRR all"), "MRR all, one", ("P@1 untied", "MRR untied")
_RANDOM_BY: Final = {"Random, by rating": "Offline Rating", "Random, by quality": "Quality Labelling"}
"""The random ranker on the queries that are untied by one label (footnotes 2 and 3)."""
_RANDOM_REPEATS: Final = 1000
"""The random ranker's cells of table 7 are means of so many draws (footnote 1)."""
_OF_SD: Final = 1 / math.sqrt(2 * (DRAWS - 1))
"""A standard deviation over the n draws of the paper is itself uncertain, by about sd / sqrt(2 (n - 1))."""


def option_reranking(panes: Sequence[Pane], draws: int = DRAWS, seed: int = 0) -> Figures:
    """Section 5.2: options ranked by their quality labels against their clicks, and two correlations.

    Over all panes, ties in both lists broken at random, one option of a pane ideal: a pane that nobody clicked has all
    its options tied. So read, P@1 and MRR are those of the paper. Its correlation with clicks, 0.032, is not found:
    Pearson's r over the options is 0.049, Spearman's 0.044, Kendall's 0.039, and r is 0.073 over the panes with clicks.
    """
    means = np.array([np.mean(pane.option_qualities) for pane in panes])
    labels = np.array([label for pane in panes for label in pane.option_qualities])
    clicks = np.array([click for pane in panes for click in pane.click_probabilities])
    row = "Options by quality"
    figures: dict[Key, float | Measured] = {
        ("Mean option quality", "r, pane quality"): pearson_or_nan(means, column(panes, "pane_quality")),
        (row, "r, clicks"): pearson_or_nan(labels, clicks),
    }
    if found := rerank(tied_lists(labels, clicks, option_counts(panes)), "one", draws=draws, seed=seed):
        figures |= zip(((row, "P@1 clicks"), (row, "MRR clicks")), found, strict=True)
    return figures


def pane_reranking(panes: Sequence[Pane], draws: int = DRAWS, seed: int = 0) -> Figures:
    """Table 7: panes ranked by offline labels, at random and as badly as can be, against engagement.

    Over all queries ties at the top are broken at random. P@1 counts each pane with the query's highest engagement:
    only so is the random ranker's 0.332 the mean of k / n, k of n panes being ideal. For MRR the paper does not say
    which of several ideal panes counts, so it is given twice: the first of them, or one drawn at random. "Untied" are
    the queries where one pane alone has the highest engagement and one alone the highest label. The worst case sorts
    panes by engagement, lowest first; untied, it is over the queries that are so by quality. The sizes of the untied
    collections are given, too; one without queries has no P@1 and MRR.
    """
    engagement, sizes = column(panes, "engagement_level"), query_sizes(panes)
    fields = {"Offline Rating": "offline_rating", "Quality Labelling": "pane_quality"}
    lists = {name: tied_lists(column(panes, field), engagement, sizes) for name, field in fields.items()}
    worst = tied_lists(-engagement, engagement, sizes)

    def measured(row: str, names: tuple[str, str], lists: TiedLists) -> dict[Key, Measured]:
        found = rerank(lists, "any", draws=draws, seed=seed)
        return {} if found is None else {(row, name): one for name, one in zip(names, found, strict=True)}

    def over_all(row: str, lists: TiedLists) -> dict[Key, Measured]:
        single = rerank(lists, "one", draws=draws, seed=seed)
        found = measured(row, _ALL, lists)
        return found if single is None else {**found, (row, _ALL_ONE): single[1]}

    figures: dict[Key, float | Measured] = {}
    for name, by_label in lists.items():
        untied = by_label.untied()
        figures |= over_all(name, by_label) | measured(name, _UNTIED, untied)
        figures |= {(name, "queries untied"): untied.queries, (name, "panes untied"): untied.items}
    figures |= _with_spread(over_all(RANDOM, unscored(worst)))
    for name, label in _RANDOM_BY.items():
        figures |= _with_spread(measured(name, _UNTIED, unscored(lists[label].untied())))
    figures |= measured("Worst Possible Case", _ALL, worst)
    figures |= measured("Worst Possible Case", _UNTIED, worst.of(lists["Quality Labelling"].alone))
    return figures


def _with_spread(figures: Mapping[Key, Measured]) -> dict[Key, Measured]:
    """The figures, each followed by the standard deviation of its draws."""
    found: dict[Key, Measured] = {}
    for (row, name), one in figures.items():
        found[row, name] = one
        found[row, SD + name] = Measured(one.sd, one.sd * _OF_SD, one.exact_sd, one.exact_sd * _OF_SD)
    return found


def aspect_reranking(panes: Sequence[Pane], draws: int = DRAWS, seed: int = 0) -> Figures:
    """Table 11: P@1 and MRR of each aspect and the random ranker, for each label as the ideal ranking.

    Ties in both lists are broken at random, so one pane of a query is ideal. What is printed are single draws, those
    of the random ranker too.
    """
    sizes = query_sizes(panes)
    figures: dict[Key, float | Measured] = {}
    for label, field in PANE_LABELS.items():
        ideal = column(panes, field)
        rankings = {name: tied_lists(column(panes, aspect), ideal, sizes) for name, aspect in ASPECTS.items()}
        rankings[RANDOM] = unscored(rankings["Coverage"])
        for name, lists in rankings.items():
            if found := rerank(lists, "one", draws=draws, seed=seed):
                figures |= zip(((name, f"P@1 {label}"), (name, f"MRR {label}")), found, strict=True)
    return figures


# --- All tables ------------------------------------------------------------------------------------------

_COMPUTE: Final[Mapping[str, Callable[[Sequence[Pane], int, int], Figures]]] = {
    "6": lambda panes, draws, seed: pane_statistics(panes),
    "7": pane_reranking,
    "8": lambda panes, draws, seed: quality_distributions(panes),
    "9": lambda panes, draws, seed: aspect_distributions(panes),
    "10": lambda panes, draws, seed: label_correlations(panes),
    "11": aspect_reranking,
    "5.2": option_reranking,
}
TABLES: Final = tuple(_COMPUTE)
"""The tables by their numbers, and the section whose figures stand in its text."""
RELEASED_PANES: Final = 1034
MARKS: Final = {"same": "=", "ties": "~", "differs": "≠", None: " "}


def mimics_table(name: str, panes: Sequence[Pane], draws: int = DRAWS, seed: int = 0) -> DataTable:
    """One of `TABLES` with a line for each cell: what is printed, what is found here, and how far chance explains it.

    Remarks say what differs from print and why; there are none for panes that are not the released ones.
    """
    printed = printed_cells(name)
    # The random ranker's cells of table 7 are printed as means over draws; its standard deviations are of single draws.
    means = (RANDOM, *_RANDOM_BY) if name == "7" else ()
    rows = []
    for key, figure in _COMPUTE[name](panes, draws, seed).items():
        repeats = _RANDOM_REPEATS if key[0] in means and not key[1].startswith(SD) else 1
        value, again = printed.get(key, (None, False))
        rows.append(compared(key, figure, value, repeats=repeats, again=again))
    paper = published("mimics_duo")["shown"][name]
    return DataTable(
        name=f"table_{name}",
        title=paper["title"],
        caption=paper["caption"],
        columns=cell_columns(rows, {key: value for key, (value, _) in printed.items()}),
        rows=rows,
        group="row",
        remarks=tuple(paper.get("notes", ())) if len(panes) == RELEASED_PANES else (),
    )


def cell_columns(rows: Sequence[Row], printed: Mapping[Key, str]) -> tuple[Column, ...]:
    """The columns of rows that `compared` made: numbers with as many digits as the paper has for their cell."""
    first = [next(group) for _, group in groupby(rows, key=itemgetter("row"))]

    def digits(name: str) -> Show:
        def show(row: Row) -> str:
            places = len(printed.get((row["row"], row["column"]), "0.000").partition(".")[2])
            # A spread of 0.0 would say nothing of a cell that is printed with one digit.
            return number(name, f".{places if places != 1 else 2}f")(row)

        return show

    return (
        Column("", lambda row: row["row"] if row in first else "", numeric=False),
        Column("measure", text("column"), numeric=False),
        Column("paper", lambda row: printed.get((row["row"], row["column"]), "-")),
        *(Column(head, digits(name)) for head, name in (("here", "value"), ("sd", "sd"), ("exact", "exact"))),
        Column("z", number("z", "+.1f")),
        Column("", lambda row: MARKS[row["verdict"]]),
    )


def count_verdicts(tables: Iterable[DataTable]) -> dict[str, int]:
    """Count the published cells of `mimics_table`s by verdict, each once."""
    counts = Counter(row["verdict"] for table in tables for row in table.rows if not row["again"])
    return {verdict: counts[verdict] for verdict in VERDICTS}


# --- A ranking by given scores ---------------------------------------------------------------------------

_READINGS: Final[tuple[tuple[str, Ideal], ...]] = (("all", "any"), ("all", "one"), ("untied", "any"))


def reranked_table(
    panes: Sequence[Pane], scores: Sequence[float], ideal: str, *, draws: int, seed: int
) -> DataTable:
    """`scores`, the random ranker and the worst case: over all queries in both readings, and over the untied."""
    labels, sizes = column(panes, PANE_LABELS[ideal]), query_sizes(panes)
    lists = tied_lists(scores, labels, sizes)
    rankings = {"scores": lists, "random": unscored(lists), "worst": tied_lists(-labels, labels, sizes)}
    rows = []
    for name, ranking in rankings.items():
        for queries, counts in _READINGS:
            these = ranking.of(lists.alone) if queries == "untied" else ranking
            found = rerank(these, counts, draws=draws, seed=seed)
            row: dict[str, Any] = {"ideal": ideal, "ranking": name, "queries": queries, "counts": counts}
            row |= {"n_queries": these.queries, "n_panes": these.items}
            for measure, measured in zip(("p_at_1", "mrr"), found or (None, None), strict=True):
                row |= {f"{measure}_{part}": getattr(measured, part, None) for part in Measured.__slots__}
            rows.append(row)
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
    caption = (
        f"Ideal: {ideal}. all: every query. untied: one pane alone has the highest label and one alone the highest "
        "score. any: each pane with the highest label counts; one: one of them, drawn at random. ± is the spread over "
        f"{draws:,} draws of the ties, exact the expectation over all of them."
    )
    return DataTable("reranking", "Panes ranked by score", caption, columns, rows, group="ranking")
