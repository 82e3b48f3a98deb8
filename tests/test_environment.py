"""The table of environment variables in docs/configuration.md names what the package reads."""

from __future__ import annotations

import re
from pathlib import Path

import cts_async
from cts_async.engine.processes import PASSED_ON
from cts_async.report.plots.image_files import BROWSER_VARIABLES

PACKAGE = Path(cts_async.__file__).parent
NO_VARIABLES = {"HOST_OR_NET", "O_PATH", "QUESTION_TYPES", "SC_CLK_TCK", "TAG_NAMES"}
"""Texts that only look like one."""


def test_every_environment_variable_is_in_the_table() -> None:
    docs = (PACKAGE.parent / "docs/configuration.md").read_text("utf-8")
    rows = docs.partition("## Environment variables")[2].splitlines()
    listed = [
        name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    code = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    read = {
        *re.findall(r'(?<!_env = )"(_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', code),
        *PASSED_ON,
        *BROWSER_VARIABLES,
    }
    for catalogue in ("llm/models.toml", "search/web.toml"):
        read |= {*re.findall(r'^\w+_env = "(\w+)"', (PACKAGE / catalogue).read_text("utf-8"), re.MULTILINE)}
    assert len(listed) == len({*listed})
    set_by_us = {name for name in read if name.startswith("RAY_")} - {"RAY_ADDRESS", "RAY_AUTH_TOKEN"}
    assert {*listed} == read - NO_VARIABLES - set_by_us
