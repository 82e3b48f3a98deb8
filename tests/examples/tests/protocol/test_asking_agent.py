"""An agent that asks which of two pages is meant."""

from __future__ import annotations

from pathlib import Path

from custom_roles import played
from fake_provider import FakeProvider, Settings

AGENT = Path(__file__).parents[2] / "my_lab" / "asking.py"


def test_questions_name_two_of_the_pages(tmp_path: Path) -> None:
    agent = f"{AGENT}:find"
    lines = played(tmp_path, "baseline", FakeProvider(Settings()), agent=agent, models=(), ask=("during",))
    asks = [line["asks"] for line in lines]
    assert [len(asked) for asked in asks] == [1] * 4
    assert all(asked[0]["question"].startswith("Which one do you mean: ") for asked in asks)
