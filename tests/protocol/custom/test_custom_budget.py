"""Limits hold for what a function asks of models, which no plan names."""

from __future__ import annotations

from pathlib import Path

import pytest
from custom_roles import FUNCTION, played, script
from fake_provider import FakeProvider, Settings

from cts_async.config import BudgetConfig
from cts_async.engine.journal import read_records
from cts_async.errors import BudgetSpent


def asked(directory: Path) -> int:
    steps = directory / "runs/run/steps.jsonl"
    return sum("model" in record for record in read_records(steps)) if steps.exists() else 0


def test_a_model_without_a_price_is_not_asked_where_dollars_are_limited(tmp_path: Path) -> None:
    name = f"{script(tmp_path, 'my_lab.py', FUNCTION)}:ask"
    lines = played(tmp_path, name, FakeProvider(Settings()), budget=BudgetConfig(max_usd=1.0))
    assert asked(tmp_path) == 0
    messages = {line["error"]["message"].split(":")[0] for line in lines}
    assert messages == {"--max-usd needs the price of fake"}


def test_calls_of_all_sessions_together_stay_below_the_limit(tmp_path: Path) -> None:
    name = f"{script(tmp_path, 'my_lab.py', FUNCTION)}:ask"
    for _ in range(2):  # the second begins with what the first has spent
        with pytest.raises(BudgetSpent):
            played(tmp_path, name, FakeProvider(Settings()), budget=BudgetConfig(max_calls=2))
        assert asked(tmp_path) == 2
    played(tmp_path, name, FakeProvider(Settings()))
    assert asked(tmp_path) == 4


def test_a_negative_limit_of_the_reply_makes_no_room_in_the_budget(tmp_path: Path) -> None:
    function = FUNCTION.replace('model="fake")', 'model="fake", max_tokens=-1_000_000)')
    name = f"{script(tmp_path, 'my_lab.py', function)}:ask"
    lines = played(tmp_path, name, FakeProvider(Settings()), budget=BudgetConfig(max_tokens=5_000))
    assert asked(tmp_path) == 0
    (message,) = {line["error"]["message"] for line in lines}
    assert message == (
        "fake: the request cannot be sent: max_tokens must be an integer from 1 to 10,000,000; "
        "leave it out for no limit"
    )
