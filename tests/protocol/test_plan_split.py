"""How many nuggets a judge is asked about at once is part of a run's identity only where it changes what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.config import RunConfig
from cts_async.errors import InputError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan


def identity(folder: Path, judge_nuggets: str) -> dict[str, object]:
    table = '[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n'
    (folder / "cts.toml").write_text(table + judge_nuggets)
    asked = RunConfig(models=("m",), every_role="m", references=(), limit=8)
    plan = make_plan(asked, load_catalogue(folder / "cts.toml"), {})
    (system,) = plan.systems
    return plan.identity(system)


def test_a_split_that_never_happens_is_nobody_s_business(tmp_path: Path) -> None:
    """No instance of the sample world has as many as 19 nuggets."""
    assert identity(tmp_path, "") == identity(tmp_path, "judge_nuggets = 19")
    assert "nuggets_per_call" not in identity(tmp_path, "")


def test_a_split_that_happens_is_part_of_what_the_run_is(tmp_path: Path) -> None:
    assert identity(tmp_path, "judge_nuggets = 2")["nuggets_per_call"] == {"m": 2}


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", '"many"'])
def test_at_least_one_nugget_is_asked_about_at_once(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match=r"cts\.toml:4.*judge_nuggets"):
        identity(tmp_path, f"judge_nuggets = {wrong}")
