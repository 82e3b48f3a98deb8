"""How options are read: every spelling of a deadline, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cts_async.cli.options import read_budget, read_date, read_deadline, read_names
from cts_async.config import BudgetConfig
from cts_async.errors import UsageError
from cts_async.records import MODES, SCHEMES

NOW = datetime(2031, 5, 1, 18, 30, 15)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45s", 45),
        ("90m", 5400),
        ("2h30m", 9000),
        ("1h 30m".replace(" ", ""), 5400),
        ("1.5h", 5400),
        ("1d", 86400),
        (" 2H ", 7200),
    ],
)
def test_deadline_as_duration(text: str, seconds: float) -> None:
    assert read_deadline(text, NOW) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("18:31", datetime(2031, 5, 1, 18, 31)),
        ("18:30:16", datetime(2031, 5, 1, 18, 30, 16)),
        ("18:30", datetime(2031, 5, 2, 18, 30)),
        ("6:05", datetime(2031, 5, 2, 6, 5)),
        ("6:05:10", datetime(2031, 5, 2, 6, 5, 10)),
    ],
)
def test_clock_time_is_its_next_occurrence(text: str, at: datetime) -> None:
    assert read_deadline(text, NOW) == at


def test_iso_time_is_local_without_a_zone() -> None:
    assert read_deadline("2031-05-02T08:00", NOW) == datetime(2031, 5, 2, 8)
    assert read_deadline("2031-05-02 08:00:30", NOW) == datetime(2031, 5, 2, 8, 0, 30)
    assert read_deadline("2031-05-03T08:00Z", NOW) == datetime(2031, 5, 3, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "90", "m90", "30m2h", "-5m", "25:00", "18:60", "2031-13-01", "1e3s", "9999999999d"],
)
def test_unreadable_deadline_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="2h30m"):
        read_deadline(text, NOW)


@pytest.mark.parametrize("text", ["0s", "2031-05-01T18:30", "1999-01-01"])
def test_deadline_in_the_past_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is in the past"):
        read_deadline(text, NOW)


def test_budget_without_limits_is_not_given() -> None:
    assert read_budget(None, None, None, None) == BudgetConfig()
    assert not read_budget(None, None, None, None).given
    assert read_budget(0.0, None, None, None).given


@pytest.mark.parametrize("dollars", [float("nan"), float("inf")])
def test_infinite_dollars_are_refused(dollars: float) -> None:
    with pytest.raises(UsageError, match="--max-usd"):
        read_budget(dollars, None, None, None)


def test_names_ignore_case_and_hyphens() -> None:
    assert read_names("--scheme", ["AT-CoT", "at_standard", " cts "], SCHEMES) == (
        "at-cot",
        "at-standard",
        "cts",
    )


@pytest.mark.parametrize(
    ("option", "name", "known", "said"),
    [
        ("--scheme", "at-coz", SCHEMES, "cts, standard, at-standard, cot, at-cot; did you mean at-cot?"),
        ("--mode", "selects", MODES, "at-once, respond, select; did you mean select?"),
        ("--mode", "x", MODES, "--mode x: must be one of at-once, respond, select"),
    ],
)
def test_unknown_name_lists_known_ones(option: str, name: str, known: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_names(option, [known[0], name], known)
    assert said in str(caught.value)


def test_valid_date_is_accepted() -> None:
    assert read_date("2028-02-29") == "2028-02-29"


@pytest.mark.parametrize(
    "text", ["", "today", "2031-2-1", "20310501", "2031-W18-4", "2031-02-29", "31-05-01", "2031-05-01T08:00"]
)
def test_malformed_or_nonexistent_date_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--date {text}: .*write it as YYYY-MM-DD"):
        read_date(text)
