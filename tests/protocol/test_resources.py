"""A budget begins with what the command's own journals say was spent, to the token."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from virtual_time import run_virtual

from cts_async.config import BudgetConfig
from cts_async.engine.budget import Budget, Lines
from cts_async.engine.events import Cost, Events
from cts_async.engine.step import Prices
from cts_async.errors import UsageError
from cts_async.llm.catalog import ModelSpec
from cts_async.protocol.resources import open_budget, spent_before
from cts_async.protocol.systems import check_prices

PRICES = Prices(1.0, 10.0)


def spec(name: str, *, priced: bool = True) -> ModelSpec:
    prices = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0} if priced else {}
    return ModelSpec(name, "openai", "http://a.example/v1", f"{name}-1", None, name, 8, **prices)


def record(
    step: str, model: str = "m-1", used: tuple[int, int] | None = (100, 10), **more: Any
) -> dict[str, Any]:
    usage = {} if used is None else {"usage": {"input": used[0], "output": used[1]}}
    return {"key": "0" * 32, "ok": True, "step": step, "model": model, "attempts": 1, **usage, **more}


def journal(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_every_attempt_of_every_journal_counts(tmp_path: Path) -> None:
    paths = [
        journal(
            tmp_path / "a.jsonl",
            record("clarify"),
            # Failed for good after three attempts, which were charged 250 + 30 together.
            record("rewrite", used=(250, 30), ok=False, attempts=3),
            {"key": "0" * 32, "ok": True, "step": "search/tool/1.1", "attempts": 1},  # a tool: no model, free
        ),
        journal(tmp_path / "b.jsonl", record("clarify", used=None, assumed={"tokens": 40.0, "usd": 0.5})),
        tmp_path / "missing.jsonl",
    ]
    # 110 + 280 + 40 tokens; (350 x 1 + 40 x 10) / 1e6 dollars and the half assumed.
    assert spent_before(paths, {"m-1": PRICES}, lambda step: True) == Cost(5, 430, pytest.approx(0.50075))


def opened(
    asked: BudgetConfig, journals: list[Path], *judges: str, only_judging: bool = False
) -> Budget | None:
    async def main() -> Budget | None:
        return open_budget(asked, [spec("m")], journals, judges, Events(), only_judging=only_judging)

    return run_virtual(main)


def test_a_command_counts_its_own_steps_only(tmp_path: Path) -> None:
    steps = [record("clarify"), record("search/turn/1"), record("judge/own"), record("judge/further")]
    path = journal(tmp_path / "a.jsonl", *steps)
    running = opened(BudgetConfig(max_calls=9), [path], "own")
    judging = opened(BudgetConfig(max_calls=9), [path], "further", only_judging=True)
    assert running
    assert judging
    assert (running.spent.calls, judging.spent.calls) == (3, 1)
    assert running.lines == Lines(max_calls=9)
    assert running.deadline is None


def test_a_deadline_moves_from_the_wall_clock_to_the_loops() -> None:
    budget = opened(BudgetConfig(deadline=time.time() + 1000.0), [])
    assert budget
    assert budget.deadline
    # The virtual loop began at 0.
    assert budget.deadline.at == pytest.approx(1000.0, abs=60.0)
    assert budget.lines == Lines()


def test_dollars_need_every_price_and_every_missing_one_is_named() -> None:
    check_prices([spec("cheap")])
    with pytest.raises(UsageError, match=r"price of dear, unknown:x: give input_usd_per_mtok and output_usd"):
        check_prices([spec("cheap"), spec("dear", priced=False), spec("unknown:x", priced=False)])
