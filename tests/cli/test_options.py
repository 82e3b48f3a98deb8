"""How options are read: names, dates, budgets and every spelling of a deadline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cts_async.cli.options import read_budget, read_date, read_deadline, read_names
from cts_async.config import BudgetConfig
from cts_async.errors import UsageError
from cts_async.records import MODES, SCHEMES

NOW = datetime(2031, 5, 1, 18, 30, 15)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        *(
            (text, NOW + timedelta(seconds=seconds))
            for text, seconds in {
                "45s": 45,
                "90m": 5400,
                "2h30m": 9000,
                "1.5h": 5400,
                "1d": 86400,
                " 2H ": 7200,
            }.items()
        ),
        # A clock time is its next occurrence.
        ("18:31", datetime(2031, 5, 1, 18, 31)),
        ("18:30:16", datetime(2031, 5, 1, 18, 30, 16)),
        ("18:30", datetime(2031, 5, 2, 18, 30)),
        ("6:05", datetime(2031, 5, 2, 6, 5)),
        # ISO times are local without a zone.
        ("2031-05-02T08:00", datetime(2031, 5, 2, 8)),
        ("2031-05-02 08:00:30", datetime(2031, 5, 2, 8, 0, 30)),
        ("2031-05-03T08:00Z", datetime(2031, 5, 3, 8, tzinfo=UTC)),
    ],
)
def test_deadline_is_a_duration_a_clock_time_or_an_iso_time(text: str, at: datetime) -> None:
    assert read_deadline(text, NOW) == at


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


def test_budget_is_given_by_any_finite_limit() -> None:
    assert read_budget(None, None, None, None) == BudgetConfig()
    assert not read_budget(None, None, None, None).is_limited
    assert read_budget(0.0, None, None, None).is_limited
    for dollars in (float("nan"), float("inf")):
        with pytest.raises(UsageError, match="--max-usd"):
            read_budget(dollars, None, None, None)


def test_names_ignore_case_and_hyphens() -> None:
    names = ["AT-CoT", "at_standard", " cts "]
    assert read_names("--scheme", names, SCHEMES) == ("at-cot", "at-standard", "cts")


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


def test_date_is_a_day_that_exists_in_one_form() -> None:
    assert read_date("2028-02-29") == "2028-02-29"
    for text in ("", "today", "2031-2-1", "20310501", "2031-W18-4", "2031-02-29", "2031-05-01T08:00"):
        with pytest.raises(UsageError, match=f"^--date {text}: .*write it as YYYY-MM-DD"):
            read_date(text)
