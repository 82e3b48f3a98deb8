"""Figures 3 and 4 of MIMICS-Duo as tables, and the percentages of its text."""

from __future__ import annotations

from pathlib import Path

from cts_async.neighbours.mimics_duo.figures import (
    aspects_by_quality_table,
    claims_table,
    quality_by_engagement_table,
)
from cts_async.neighbours.mimics_duo.panes import read_panes
from tests.made_panes import panes_of

PANES = panes_of(
    "q1",
    [5, 0, 0, 5],
    pane_quality=[5, 2, 4, 3],
    coverage=[5, 2, 3, 2],
    diversity=[4, 4, 4, 4],
    understandability=[5, 3, 3, 3],
    importance_order=[3, 3, 3, 1],
)


def test_figure_3_is_the_share_of_each_quality_by_engagement_level() -> None:
    rows = quality_by_engagement_table(PANES).rows
    assert [(row["level"], row["panes"]) for row in rows] == [(0, 2), (5, 2), ("all", 4)]
    shares = [[row[f"label_{label}"] for label in range(1, 6)] for row in rows]
    assert shares == [[0, 50, 0, 50, 0], [0, 0, 50, 0, 50], [0, 25, 25, 25, 25]]
    assert [(row["fair_or_better"], row["good_or_better"]) for row in rows] == [(50, 50), (100, 50), (75, 50)]


def test_figure_4_is_the_mean_of_each_aspect_by_quality() -> None:
    rows = aspects_by_quality_table(PANES).rows
    assert [(row["quality"], row["Coverage"], row["Can. Ans. Order"]) for row in rows] == [
        (2, 2, 3),
        (3, 2, 1),
        (4, 3, 3),
        (5, 5, 3),
    ]


def test_claim_about_every_level_is_set_beside_the_level_where_it_holds_least() -> None:
    rows = claims_table(PANES).rows
    assert [(row["found"], row["holds"]) for row in rows[:5]] == [
        ("50.0 %", False),
        ("50.0 % (level 0)", False),
        ("75.0 %", False),
        ("50.0 % (level 0)", False),
        # Every option of these panes has the same quality, so none falls below the one before it.
        (rows[4]["found"], False),
    ]
    assert [(row["found"], row["holds"]) for row in rows[5:]] == [
        ("75.0 %", True),
        ("2.00 2.00 3.00 5.00", False),
        ("3.00 3.00 3.00 5.00", False),
    ]


def test_released_panes_show_which_claims_of_the_paper_hold(shared_data: Path) -> None:
    panes = list(read_panes(shared_data / "mimics-duo"))
    assert [(row["found"], row["holds"]) for row in claims_table(panes).rows] == [
        ("77.0 %", True),
        ("66.7 % (level 1)", False),
        ("96.4 %", True),
        ("91.7 % (level 8)", False),
        ("4.12 4.01 3.93 3.88 3.89", False),
        ("40.2 %", True),
        ("2.75 3.27 3.42 3.82 4.11", True),
        ("3.50 4.18 4.38 4.65 4.79", True),
    ]
