"""Figures 3 and 4 of MIMICS-Duo (SIGIR 2022) as tables, and what its text says in percentages, counted again.

The paper draws both figures and prints none of their values, so nothing stands beside them. Claims of the text are
bounds ("more than 96%"): each holds or does not, and is not counted among the published cells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from cts_async.neighbours.mimics_duo.panes import Pane
from cts_async.neighbours.mimics_duo.statistics import ASPECTS, column
from cts_async.tables.table import Column, DataTable, Row, number, text

LABELS: Final = (1, 2, 3, 4, 5)
"""From very bad to very good."""
FAIR: Final = 3
GOOD: Final = 4


def share_from(labels: Sequence[int], lowest: int) -> float:
    """The percentage of `labels` that are `lowest` or higher; there is at least one label."""
    n_from_lowest = sum(label >= lowest for label in labels)
    return 100 * n_from_lowest / len(labels)


def qualities_by_engagement(panes: Sequence[Pane]) -> dict[int, list[int]]:
    """The panes' quality labels by engagement level, from the lowest level that occurs."""
    by_level: defaultdict[int, list[int]] = defaultdict(list)
    for pane in panes:
        by_level[pane.engagement_level].append(pane.pane_quality)
    return dict(sorted(by_level.items()))


# --- Figure 3 --------------------------------------------------------------------------------------------


def quality_by_engagement_table(panes: Sequence[Pane]) -> DataTable:
    """Figure 3: for each engagement level the percentage of panes with each quality label; needs a pane."""
    rows: list[Row] = []
    for level, labels in qualities_by_engagement(panes).items():
        rows.append(_label_shares(level, labels))
    all_labels = [pane.pane_quality for pane in panes]
    rows.append(_label_shares("all", all_labels))
    columns = [Column("engagement", text("level")), Column("panes", text("panes"))]
    for label in LABELS:
        columns.append(Column(str(label), number(f"label_{label}", ".2f")))
    columns.append(Column("fair or better", number("fair_or_better", ".2f")))
    columns.append(Column("good or better", number("good_or_better", ".2f")))
    caption = (
        "Percentages of the quality labels 1 (very bad) to 5 (very good) at each engagement level (0 to 10). "
        "The paper draws the values and prints none."
    )
    title = "Figure 3. Quality label by engagement level"
    return DataTable("figure_3", title, caption, columns, rows)


def _label_shares(level: int | str, labels: Sequence[int]) -> Row:
    counts = Counter(labels)
    row: dict[str, Any] = {"level": level, "panes": len(labels)}
    for label in LABELS:
        row[f"label_{label}"] = 100 * counts[label] / len(labels)
    row["fair_or_better"] = share_from(labels, FAIR)
    row["good_or_better"] = share_from(labels, GOOD)
    return row


# --- Figure 4 --------------------------------------------------------------------------------------------


def aspect_means(panes: Sequence[Pane]) -> dict[int, dict[str, float]]:
    """The mean of each aspect's label by quality label; a quality that no pane has is left out."""
    means: dict[int, dict[str, float]] = {}
    for quality in LABELS:
        panes_of_quality = [pane for pane in panes if pane.pane_quality == quality]
        if not panes_of_quality:
            continue
        means[quality] = {}
        for aspect, field in ASPECTS.items():
            means[quality][aspect] = fmean(column(panes_of_quality, field))
    return means


def aspects_by_quality_table(panes: Sequence[Pane]) -> DataTable:
    """Figure 4: the mean label of each aspect over the panes of each overall quality."""
    counts = Counter(pane.pane_quality for pane in panes)
    rows: list[Row] = []
    for quality, means in aspect_means(panes).items():
        row: dict[str, float] = {"quality": quality, "panes": counts[quality]}
        rows.append(row | means)
    columns = [Column("quality", text("quality")), Column("panes", text("panes"))]
    for aspect in ASPECTS:
        columns.append(Column(aspect, number(aspect, ".2f")))
    caption = (
        "Mean labels of the aspects, 1 (strongly disagree) to 5 (strongly agree), by the pane's overall quality, "
        "1 (very bad) to 5 (very good). The paper draws the values and prints none."
    )
    return DataTable("figure_4", "Figure 4. Aspects by overall quality", caption, columns, rows)


# --- Percentages of the text -----------------------------------------------------------------------------


def claims_table(panes: Sequence[Pane]) -> DataTable:
    """What sections 5.2 and 5.3 say of shares and trends, in our words, with what the panes say; needs a pane.

    A claim about every engagement level is set beside the level where it holds least.
    """
    rows = _quality_claims(panes)
    rows.append(_option_claim(panes))
    rows += _aspect_claims(panes)
    columns = (
        Column("section", text("section"), numeric=False),
        Column("claim", text("claim"), numeric=False),
        Column("paper", text("paper")),
        Column("here", text("found")),
        Column("", _mark),
    )
    caption = "= holds as it is worded, ≠ does not. Bounds, so not counted among the published cells."
    return DataTable("text", "Sections 5.2 and 5.3. Percentages of the text", caption, columns, rows)


def _mark(row: Row) -> str:
    if row["holds"]:
        return "="
    return "≠"


def _quality_claims(panes: Sequence[Pane]) -> list[Row]:
    qualities = [pane.pane_quality for pane in panes]
    by_level = qualities_by_engagement(panes)
    good = share_from(qualities, GOOD)
    fair = share_from(qualities, FAIR)
    least_good, good_level = _least(by_level, GOOD)
    least_fair, fair_level = _least(by_level, FAIR)
    return [
        # "around 77%": the nearest whole number.
        _claim("5.2", "panes good or better", "about 77 %", f"{good:.1f} %", round(good) == 77),
        # "almost 75%", read generously: it rounds to 75 or is more, at the level where it is least.
        _claim(
            "5.2",
            "the same at every engagement level",
            "almost 75 %",
            f"{least_good:.1f} % (level {good_level})",
            least_good >= 74.5,
        ),
        _claim("5.2", "panes fair or better", "over 96 %", f"{fair:.1f} %", fair > 96),
        _claim(
            "5.2",
            "the same at every engagement level",
            "over 96 %",
            f"{least_fair:.1f} % (level {fair_level})",
            least_fair > 96,
        ),
    ]


def _option_claim(panes: Sequence[Pane]) -> Row:
    """ "Decreases from left to right": each option's mean quality is below that of the option before it."""
    by_place: defaultdict[int, list[int]] = defaultdict(list)
    for pane in panes:
        for place, quality in enumerate(pane.option_qualities):
            by_place[place].append(quality)
    means = [fmean(by_place[place]) for place in sorted(by_place)]
    falls = _rises(means[::-1])
    return _claim("5.2", "option quality falls to the right", "yes", _joined(means), falls)


def _aspect_claims(panes: Sequence[Pane]) -> list[Row]:
    orders = [pane.importance_order for pane in panes]
    # Label 3: neither agree nor disagree that the options are in the order of their importance.
    neither = 100 * orders.count(3) / len(orders)
    rows = [_claim("5.3", "order neither right nor wrong", "over 40 %", f"{neither:.1f} %", neither > 40)]
    means = aspect_means(panes)
    for aspect in ("Coverage", "Understandability"):
        values = [by_aspect[aspect] for by_aspect in means.values()]
        rows.append(_claim("5.3", f"{aspect} grows with quality", "yes", _joined(values), _rises(values)))
    return rows


def _rises(values: Sequence[float]) -> bool:
    """True if each value is higher than the one before it."""
    return all(following > value for value, following in pairwise(values))


def _least(by_level: Mapping[int, Sequence[int]], lowest: int) -> tuple[float, int]:
    """The smallest share of labels from `lowest` on, and its engagement level."""
    # Of equal shares the lower level.
    return min((share_from(labels, lowest), level) for level, labels in by_level.items())


def _joined(values: Sequence[float]) -> str:
    return " ".join(format(value, ".2f") for value in values)


def _claim(section: str, claim: str, paper: str, value: str, holds: bool) -> Row:
    return {"section": section, "claim": claim, "paper": paper, "found": value, "holds": holds}


# --- All of them -----------------------------------------------------------------------------------------

FIGURES: Final = {
    "figure-3": quality_by_engagement_table,
    "figure-4": aspects_by_quality_table,
    "text": claims_table,
}
"""By the name that `--table` takes."""
