"""Every option of a command with many stands under exactly one heading."""

from __future__ import annotations

import re
from itertools import chain

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cts_async.cli.grouped import HEADINGS
from cts_async.cli.main import app

MANY = ("run", "plan", "gold", "judge", "converse")


@pytest.mark.parametrize("command", MANY)
def test_every_option_is_shown_once_under_a_heading(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], terminal_width=80).stdout
    headings = re.findall(r"^([A-Z][a-z ]+):$", shown, re.MULTILINE)
    assert [one for one in headings if one not in ("Arguments", "Options")] == [
        one for one in HEADINGS if one in headings
    ]
    assert "Options" not in headings, "an option without a heading"
    assert shown.count("\n  -h, --help ") == shown.count("\n  --config ") == shown.count("\n  --seed ") == 1
    assert max(map(len, shown.splitlines())) <= 80


def test_no_heading_names_an_option_that_no_command_has() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    known = {str(param.name) for command in (*MANY, "report") for param in commands[command].params} | {
        "help"
    }
    named = list(chain(*HEADINGS.values()))
    assert set(named) == known - {"runs"}
    assert len(named) == len(set(named))
