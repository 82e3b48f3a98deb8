"""CONTRIBUTING.md quotes the files of tests/examples, which test_examples puts into a copy of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "tests" / "examples"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
QUOTED = re.findall(r"`tests/examples/([\w/]+\.py)`[^`]*?```python\n(.*?)```", GUIDE, re.DOTALL)
"""Files that the guide names just before it shows them, and what it shows."""


def test_the_guide_shows_an_example_of_everything_that_can_be_added() -> None:
    folders = {str(Path(name).parent) for name, _ in QUOTED}
    assert {"cts_async/llm/apis", "cts_async/datasets/kinds", "cts_async/tables/statistics"} <= folders


@pytest.mark.parametrize(("name", "text"), QUOTED, ids=[name for name, _ in QUOTED])
def test_what_the_guide_shows_is_the_file(name: str, text: str) -> None:
    assert text == (EXAMPLES / name).read_text("utf-8")
