"""The statistics of MIMICS-Duo (SIGIR 2022): tables 6 to 11 and section 5.2, each value compared with the printed one,
and the ranking of panes by given scores.

A value without chance in it is reproduced where it rounds to what is printed. One that depends on how ties fell is
judged by z: how many standard deviations the printed value lies from the exact expectation, the rounding of print
forgiven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations, groupby
from operator import attrgetter, itemgetter
from statistics import fmean
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


def compared_cell(
    key: Key, figure: float | Measured, printed: str | None, *, repeats: int = 1, is_repeated: bool = False
) -> Row:
    """A cell, unrounded: a figure, what is printed for it (None: nothing), and one of `VERDICTS` (None without print).

    `value` is the figure; where ties were drawn, its mean over the draws. `z` counts standard deviations from the exact
    expectation to the printed value; None without chance or print. `repeats`: the printed value is the mean of so many
    draws. `is_repeated`: it is compared with an earlier cell, too, and is counted there.
    """
    row_name, column_name = key
    cell: dict[str, Any] = {
        "row": row_name,
        "column": column_name,
        "published": None,
        "value": figure,
        "sd": None,
        "exact": None,
        "exact_sd": None,
        "z": None,
        "verdict": None,
        "again": is_repeated,
    }
    chance: Measured | None = None
    if isinstance(figure, Measured):
        cell["value"] = figure.mean
        # Where no order of tied items changes the measure, it is compared as a number without chance.
        if figure.exact_sd > 0:
            chance = figure
            cell |= {"sd": figure.sd, "exact": figure.exact, "exact_sd": figure.exact_sd}
    if printed is None:
        return cell
    published_value = float(printed)
    cell["published"] = published_value
    half_a_digit = 0.5 * 10.0 ** int(Decimal(printed).as_tuple().exponent)
    if chance:
        cell["z"] = _z(published_value, chance, half_a_digit, repeats)
        is_reproduced, verdict = abs(cell["z"]) <= FAR, "ties"
    else:
        # Half a digit, and what floats may add to it.
        is_reproduced, verdict = abs(published_value - cell["value"]) <= half_a_digit + 1e-9, "same"
    if not is_reproduced:
        verdict = "differs"
    cell["verdict"] = verdict
    return cell


def _z(printed: float, chance: Measured, half_a_digit: float, repeats: int) -> float:
    """Standard deviations from the expectation to the nearest value that rounds to the printed one."""
    distance = printed - chance.exact
    beyond = math.copysign(max(0.0, abs(distance) - half_a_digit), distance)
    return beyond / (chance.exact_sd / math.sqrt(repeats)) + 0.0  # 0.0 instead of -0.0


def printed_cells(table: str) -> dict[Key, tuple[str, bool]]:
    """The printed values of a table as text, and whether a value belongs to an earlier cell, too.

    The number of digits says how exact a value is.
    """
    cells: dict[Key, tuple[str, bool]] = {}
    for grid in published("mimics_duo")["grid"]:
        if grid["table"] != table:
            continue
        is_repeated = grid.get("other_reading", False)
        for row, values in grid["rows"].items():
            for heading, value in zip(grid["columns"], values.split(), strict=True):
                if value != "-":
                    cells[row, heading] = (value, is_repeated)
    return cells


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
    sizes: list[int] = []
    for _, panes_of_query in groupby(panes, key=attrgetter("query")):
        sizes.append(len(list(panes_of_query)))
    return np.array(sizes, int)


def option_counts(panes: Sequence[Pane]) -> Array:
    """How many options each pane has, shape (panes,)."""
    return np.array([len(pane.options) for pane in panes], int)


# --- Tables 6, 8 and 9 -----------------------------------------------------------------------------------


def pane_statistics(panes: Sequence[Pane]) -> Figures:
    """Table 6: queries, panes, panes of a query and options of a pane; needs a pane."""
    sizes, options = query_sizes(panes), option_counts(panes)
    figures: dict[Key, float] = {
        ("Queries", "number"): len(sizes),
        ("Query-clarification pairs", "number"): len(panes),
    }
    for row, counts in (("Clarifications per query", sizes), ("Candidate answers", options)):
        figures[row, "mean"] = float(counts.mean())
        # A single query or pane has no spread: ddof 1 would divide by zero.
        figures[row, "sd"] = math.nan
        if len(counts) > 1:
            figures[row, "sd"] = float(counts.std(ddof=1))
        figures[row, "min"] = int(counts.min())
        figures[row, "max"] = int(counts.max())
    return figures


def quality_distributions(panes: Sequence[Pane]) -> Figures:
    """Table 8: the quality labels of panes, and of the options in each position; missing options are left out."""
    rows = {"Clarification Pane": column(panes, "pane_quality")}
    for slot in range(5):
        labels: list[int] = []
        for pane in panes:
            if slot < len(pane.options):
                labels.append(pane.option_qualities[slot])
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
        # The second number of a printed row is the variance, not the standard deviation. One label has none.
        figures[row, "var"] = math.nan
        if len(labels) > 1:
            figures[row, "var"] = float(labels.var(ddof=1))
        for label in range(1, 6):
            figures[row, str(label)] = float(100 * (labels == label).mean())
    return figures


# --- Table 10: correlations ------------------------------------------------------------------------------

ENGAGEMENT: Final = "Eng. Level"
MISALIGNED: Final = "Eng. Level, sorted"
"""Engagement in descending order within each query, against labels in file order."""
# In the order of table 10, whose cells are named by the earlier and the later measure.
_MEASURES: Final = dict(ASPECTS) | {
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
    figures: dict[Key, float] = {}
    for name, partner in combinations(columns, 2):
        figures[name, partner] = pearson_or_nan(columns[name], columns[partner])
    sizes = query_sizes(panes)
    query = np.repeat(np.arange(len(sizes)), sizes)
    misaligned = columns[ENGAGEMENT][np.lexsort((-columns[ENGAGEMENT], query))]
    for name, labels in columns.items():
        if name != ENGAGEMENT:
            figures[MISALIGNED, name] = pearson_or_nan(misaligned, labels)
    return figures


def pearson_or_nan(a: Array, b: Array) -> float:
    """Pearson's r in [-1, 1]; NaN where one of them does not vary."""
    r = correlation(a, b)
    if r is None:
        return math.nan
    return r


# --- Section 5.2, tables 7 and 11: rankings --------------------------------------------------------------

RANDOM: Final = "Random Ranker"
SD: Final = "sd of "
"""Before a column: the standard deviation over the draws, not their mean."""
_ALL: Final = ("P@1 all", "MRR all")
_ALL_ONE: Final = "MRR all, one"
_UNTIED: Final = ("P@1 untied", "MRR untied")
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
    mean_qualities: list[float] = []
    labels: list[int] = []
    clicks: list[float] = []
    for pane in panes:
        mean_qualities.append(fmean(pane.option_qualities))
        labels += pane.option_qualities
        clicks += pane.click_probabilities
    row = "Options by quality"
    r_of_means = pearson_or_nan(np.array(mean_qualities), column(panes, "pane_quality"))
    figures: dict[Key, float | Measured] = {
        ("Mean option quality", "r, pane quality"): r_of_means,
        (row, "r, clicks"): pearson_or_nan(np.array(labels), np.array(clicks)),
    }
    measured = rerank(tied_lists(labels, clicks, option_counts(panes)), "one", draws=draws, seed=seed)
    if measured:
        figures[row, "P@1 clicks"], figures[row, "MRR clicks"] = measured
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
    by_rating = tied_lists(column(panes, "offline_rating"), engagement, sizes)
    by_quality = tied_lists(column(panes, "pane_quality"), engagement, sizes)
    by_label = {"Offline Rating": by_rating, "Quality Labelling": by_quality}
    worst = tied_lists(-engagement, engagement, sizes)

    def any_ideal(row: str, names: tuple[str, str], lists: TiedLists) -> dict[Key, Measured]:
        measured = rerank(lists, "any", draws=draws, seed=seed)
        if measured is None:
            return {}
        p_at_1, mrr = measured
        return {(row, names[0]): p_at_1, (row, names[1]): mrr}

    def both_readings(row: str, lists: TiedLists) -> dict[Key, Measured]:
        figures = any_ideal(row, _ALL, lists)
        one_ideal = rerank(lists, "one", draws=draws, seed=seed)
        if one_ideal is not None:
            _, figures[row, _ALL_ONE] = one_ideal
        return figures

    figures: dict[Key, float | Measured] = {}
    for name, lists in by_label.items():
        untied = lists.untied()
        figures |= both_readings(name, lists)
        figures |= any_ideal(name, _UNTIED, untied)
        figures |= {(name, "queries untied"): untied.queries, (name, "panes untied"): untied.items}
    figures |= _with_spread(both_readings(RANDOM, unscored(worst)))
    for name, label in _RANDOM_BY.items():
        figures |= _with_spread(any_ideal(name, _UNTIED, unscored(by_label[label].untied())))
    figures |= any_ideal("Worst Possible Case", _ALL, worst)
    figures |= any_ideal("Worst Possible Case", _UNTIED, worst.select(by_quality.alone))
    return figures


def _with_spread(figures: Mapping[Key, Measured]) -> dict[Key, Measured]:
    """The figures, each followed by the standard deviation of its draws."""
    with_spread: dict[Key, Measured] = {}
    for (row, name), figure in figures.items():
        with_spread[row, name] = figure
        spread = Measured(figure.sd, figure.sd * _OF_SD, figure.exact_sd, figure.exact_sd * _OF_SD)
        with_spread[row, SD + name] = spread
    return with_spread


def aspect_reranking(panes: Sequence[Pane], draws: int = DRAWS, seed: int = 0) -> Figures:
    """Table 11: P@1 and MRR of each aspect and the random ranker, for each label as the ideal ranking.

    Ties in both lists are broken at random, so one pane of a query is ideal. What is printed are single draws, those
    of the random ranker too.
    """
    sizes = query_sizes(panes)
    figures: dict[Key, float | Measured] = {}
    for label, field in PANE_LABELS.items():
        ideal = column(panes, field)
        rankings: dict[str, TiedLists] = {}
        for name, aspect in ASPECTS.items():
            rankings[name] = tied_lists(column(panes, aspect), ideal, sizes)
        # Any aspect would do: only its scores are taken away.
        rankings[RANDOM] = unscored(rankings["Coverage"])
        for name, lists in rankings.items():
            measured = rerank(lists, "one", draws=draws, seed=seed)
            if measured:
                figures[name, f"P@1 {label}"], figures[name, f"MRR {label}"] = measured
    return figures


# --- All tables ------------------------------------------------------------------------------------------

_FIGURES_WITHOUT_CHANCE: Final[Mapping[str, Callable[[Sequence[Pane]], Figures]]] = {
    "6": pane_statistics,
    "8": quality_distributions,
    "9": aspect_distributions,
    "10": label_correlations,
}
"""By table."""
_FIGURES_WITH_CHANCE: Final[Mapping[str, Callable[[Sequence[Pane], int, int], Figures]]] = {
    "7": pane_reranking,
    "11": aspect_reranking,
    "5.2": option_reranking,
}
"""Figures that depend on how ties fall, by table: they take a number of draws and a seed."""
TABLES: Final = ("6", "7", "8", "9", "10", "11", "5.2")
"""The tables by their numbers, and the section whose figures stand in its text."""
RELEASED_PANES: Final = 1034
"""The panes of the released collection, whose values the remarks explain."""
MARKS: Final = {"same": "=", "ties": "~", "differs": "≠", None: " "}


def mimics_table(name: str, panes: Sequence[Pane], draws: int = DRAWS, seed: int = 0) -> DataTable:
    """One of `TABLES` with a line for each cell: what is printed, what is found here, and how far chance explains it.

    Remarks say what differs from print and why; there are none for panes that are not the released ones.
    """
    if name in _FIGURES_WITHOUT_CHANCE:
        figures = _FIGURES_WITHOUT_CHANCE[name](panes)
    else:
        figures = _FIGURES_WITH_CHANCE[name](panes, draws, seed)
    printed = printed_cells(name)
    printed_values: dict[Key, str] = {}
    rows = []
    for key, figure in figures.items():
        row_name, column_name = key
        is_random_ranker = row_name == RANDOM or row_name in _RANDOM_BY
        repeats = 1
        # The random ranker's cells of table 7 are printed as means over draws; its standard deviations are of single
        # draws, as is all of table 11.
        if name == "7" and is_random_ranker and not column_name.startswith(SD):
            repeats = _RANDOM_REPEATS
        value, is_repeated = printed.get(key, (None, False))
        if value is not None:
            printed_values[key] = value
        rows.append(compared_cell(key, figure, value, repeats=repeats, is_repeated=is_repeated))
    paper = published("mimics_duo")["shown"][name]
    remarks: tuple[str, ...] = ()
    if len(panes) == RELEASED_PANES:
        remarks = tuple(paper.get("notes", ()))
    return DataTable(
        name=f"table_{name}",
        title=paper["title"],
        caption=paper["caption"],
        columns=cell_columns(rows, printed_values),
        rows=rows,
        group="row",
        remarks=remarks,
    )


def cell_columns(rows: Sequence[Row], printed: Mapping[Key, str]) -> tuple[Column, ...]:
    """The columns of rows that `compared_cell` made: numbers with as many digits as the paper has for their cell."""
    first_rows = [next(group) for _, group in groupby(rows, key=itemgetter("row"))]

    def row_name(row: Row) -> str:
        """Show a name once, in the first of its rows."""
        if row not in first_rows:
            return ""
        return str(row["row"])

    def printed_value(row: Row) -> str:
        return printed.get((row["row"], row["column"]), "-")

    def with_digits_of_paper(name: str) -> Show:
        def show(row: Row) -> str:
            n_digits = len(printed.get((row["row"], row["column"]), "0.000").partition(".")[2])
            # A spread of 0.0 would say nothing of a cell that is printed with one digit.
            if n_digits == 1:
                n_digits = 2
            return number(name, f".{n_digits}f")(row)

        return show

    return (
        Column("", row_name, numeric=False),
        Column("measure", text("column"), numeric=False),
        Column("paper", printed_value),
        Column("here", with_digits_of_paper("value")),
        Column("sd", with_digits_of_paper("sd")),
        Column("exact", with_digits_of_paper("exact")),
        Column("z", number("z", "+.1f")),
        Column("", _verdict_mark),
    )


def _verdict_mark(row: Row) -> str:
    return MARKS[row["verdict"]]


def count_verdicts(tables: Iterable[DataTable]) -> dict[str, int]:
    """Count the published cells of `mimics_table`s by verdict, each once."""
    counts = dict.fromkeys(VERDICTS, 0)
    for table in tables:
        for row in table.rows:
            if row["verdict"] in counts and not row["again"]:
                counts[row["verdict"]] += 1
    return counts


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
            reading = ranking
            # Untied by the scores: all three rankings are measured on the same queries.
            if queries == "untied":
                reading = ranking.select(lists.alone)
            row: dict[str, Any] = {"ideal": ideal, "ranking": name, "queries": queries, "counts": counts}
            row |= {"n_queries": reading.queries, "n_panes": reading.items}
            # No untied query, no values: the row says so.
            p_at_1, mrr = rerank(reading, counts, draws=draws, seed=seed) or (None, None)
            for measure, measured in (("p_at_1", p_at_1), ("mrr", mrr)):
                for part in Measured.__slots__:
                    row[f"{measure}_{part}"] = getattr(measured, part, None)
            rows.append(row)
    columns = [
        Column("ranking", text("ranking"), numeric=False),
        Column("queries", _queries_with_number, numeric=False),
        Column("ideal", text("counts"), numeric=False),
    ]
    for measure, heading in (("p_at_1", "P@1"), ("mrr", "MRR")):
        columns.append(Column(heading, number(f"{measure}_mean", ".3f")))
        columns.append(Column("±", number(f"{measure}_sd", ".3f")))
        columns.append(Column("exact", number(f"{measure}_exact", ".3f")))
    caption = (
        f"Ideal: {ideal}. all: every query. untied: one pane alone has the highest label and one alone the highest "
        "score. any: each pane with the highest label counts; one: one of them, drawn at random. ± is the spread over "
        f"{draws:,} draws of the ties, exact the expectation over all of them."
    )
    return DataTable("reranking", "Panes ranked by score", caption, columns, rows, group="ranking")


def _queries_with_number(row: Row) -> str:
    return f"{row['queries']} {row['n_queries']}"
