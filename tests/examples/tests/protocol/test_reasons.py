"""A Clarifier that says why it asks."""

from __future__ import annotations

from pathlib import Path

from custom_roles import played
from fake_provider import FakeProvider, Settings

ROLE = Path(__file__).parents[2] / "my_lab" / "reasons.py"


def test_the_reason_is_kept_with_the_result(tmp_path: Path) -> None:
    lines = played(tmp_path, f"{ROLE}:ask", FakeProvider(Settings()))
    assert [line["questions"][0].partition(" of ")[0] for line in lines] == ["Which time"] * 4
    assert [line["further"]["clarify"] for line in lines] == [
        {"rationale": "they change the answer most"}
    ] * 4
