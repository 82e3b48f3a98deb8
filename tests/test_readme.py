"""What the README tells a reader to type: every command parses, and every file and make target exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from cts_async.cli.main import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(re.findall(r"^```\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))
INLINE = re.findall(r"`((?:cts|make) [^`]+)`", TEXT.replace("\n", " "))


def typed(program: str) -> list[list[str]]:
    """The words after `program` wherever the README has it typed."""
    lines = [line.partition(" >> ")[0] for line in (*BLOCKS.splitlines(), *INLINE)]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith(f"{program} ")]


@pytest.mark.parametrize("words", [words for words in typed("cts") if words != ["audit"]], ids=" ".join)
def test_command_of_the_readme_parses(words: list[str]) -> None:
    """All but `cts audit`, which is named without the run that it needs."""
    found: Any = typer.main.get_command(app)
    # Below the whole program, as typed: a command keeps the names of its help option from its first context.
    program = typer.Context(found, info_name="cts", **found.context_settings)
    found.commands[words[0]].make_context(words[0], words[1:], parent=program)


def test_readme_names_what_exists() -> None:
    assert len(typed("cts")) > 12
    targets = set(re.findall(r"^([a-z ]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {name for target in targets for name in target.split()}
    assert {words[0] for words in typed("make")} <= known
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        assert (ROOT / file).exists(), link
        assert not anchor or anchor in anchors(ROOT / file), f"{link}: no such heading"


def anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a document in links: lower case, hyphens for spaces, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
