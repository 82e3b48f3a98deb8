"""CONTRIBUTING.md quotes the files of tests/examples, which test_examples puts into a copy of the package."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "tests" / "examples"
GUIDES = ("CONTRIBUTING.md", "docs/extending.md")
QUOTED = [
    quotation
    for guide in GUIDES
    for quotation in re.findall(
        r"`tests/examples/([\w/]+\.py)`[^`]*?```python\n(.*?)```",
        (ROOT / guide).read_text("utf-8"),
        re.DOTALL,
    )
]
"""Files that a guide names just before it shows them, and what it shows."""


def test_the_guides_show_an_example_of_everything_that_can_be_added() -> None:
    folders = {str(Path(name).parent) for name, _ in QUOTED}
    added = {
        "cts_async/llm/apis",
        "cts_async/datasets/kinds",
        "cts_async/tables/statistics",
        "cts_async/search/toolbox",
        "my_lab",
    }
    assert added <= folders


@pytest.mark.parametrize(("name", "text"), QUOTED, ids=[name for name, _ in QUOTED])
def test_what_a_guide_shows_is_the_file(name: str, text: str) -> None:
    assert text == (EXAMPLES / name).read_text("utf-8")


def test_the_method_of_a_role_is_the_packages() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (method,) = re.findall(r"```python\n(async def .*?)```", guide, re.DOTALL)
    source = (ROOT / "cts_async" / "protocol" / "roles.py").read_text("utf-8")
    assert textwrap.indent(method, "    ") in source
