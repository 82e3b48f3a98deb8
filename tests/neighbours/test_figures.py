"""A figure is judged by the digits in print, and by chance where ties were broken at random."""

from __future__ import annotations

import pytest

from cts_async.neighbours.mimics_duo.statistics import VERDICTS, Cell
from cts_async.neighbours.mimics_duo.ties import Measured


def drawn(exact: float, sd: float) -> Measured:
    return Measured(mean=exact + 0.001, sd=sd, exact=exact, exact_sd=sd)


@pytest.mark.parametrize(
    ("value", "printed", "verdict"),
    [
        (0.4214, "0.421", "same"),
        (0.4216, "0.421", "differs"),
        (1.2035, "1.2", "same"),
        (1034, "1034", "same"),
        (1035, "1034", "differs"),
        (-0.0012, "-0.001", "same"),
        (float("nan"), "0.5", "differs"),
        (0.5, None, None),
    ],
)
def test_without_chance_the_printed_digits_decide(value: float, printed: str | None, verdict: str) -> None:
    cell = Cell("row", "column", value, printed)
    assert (cell.verdict, cell.z, cell.chance) == (verdict, None, None)


def test_z_counts_from_the_edge_of_rounding() -> None:
    """0.382 is at least 0.3815 in truth: 0.0115 above 0.370, in steps of 0.005 that is 2.3."""
    cell = Cell("row", "column", drawn(0.370, 0.005), "0.382")
    assert (cell.z, cell.verdict) == (pytest.approx(2.3), "ties")


def test_below_the_expectation_z_is_negative() -> None:
    assert Cell("row", "column", drawn(0.394, 0.005), "0.382").z == pytest.approx(-2.3)


def test_a_printed_value_that_rounds_to_the_expectation_has_no_distance() -> None:
    assert Cell("row", "column", drawn(0.3823, 0.005), "0.382").z == 0


def test_a_mean_of_many_draws_has_to_be_nearer() -> None:
    once, often = (Cell("row", "column", drawn(0.370, 0.005), "0.382", repeats) for repeats in (1, 100))
    assert (once.verdict, often.verdict) == ("ties", "differs")
    assert often.z == pytest.approx(23)


def test_a_measure_that_no_tie_touches_has_no_chance_in_it() -> None:
    cell = Cell("row", "column", Measured(0.273, 0.0, 0.273, 0.0), "0.273")
    assert (cell.chance, cell.verdict, cell.value) == (None, "same", 0.273)


def test_a_row_for_programs_is_unrounded() -> None:
    assert Cell("a", "x", drawn(0.25, 0.125), "0.3").as_row() == {
        "row": "a",
        "column": "x",
        "published": 0.3,
        "value": 0.251,
        "sd": 0.125,
        "exact": 0.25,
        "exact_sd": 0.125,
        "z": 0.0,
        "verdict": "ties",
        "again": False,
    }


def test_every_verdict_is_explained() -> None:
    assert set(VERDICTS) == {"same", "ties", "differs"}
