"""Every option that a message of the package names has a parameter, and is translated where it stands in a sentence."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cts_async
from cts_async.api_messages import in_parameters

PACKAGE = Path(cts_async.__file__).parent
ROOMS = ("engine", "llm", "search", "datasets", "runs", "protocol", "analysis")
OF_OTHER_COMMANDS = (
    *("protocol/gold.py", "protocol/converse.py", "protocol/audit/"),
    *("datasets/inspect.py", "analysis/retrieval.py"),
)
"""Messages that no function of the API can raise: of cts gold, converse, audit, data and at-cot."""
OF_OTHER_PROGRAMS = {"--no-deps", "--force-reinstall"}  # pip's
OPTION = re.compile(r"(?<![\w/-])(?:--[a-z][\w-]*\w|-[kmq]\b)")


def messages() -> Iterator[tuple[str, str]]:
    """Yield the place and each text with an option in the code that the API can reach, but for docstrings."""
    paths = [PACKAGE / "tables/comparison.py", PACKAGE / "tables/rows.py", PACKAGE / "config.py"]
    for room in ROOMS:
        paths += sorted((PACKAGE / room).rglob("*.py"))
    for path in paths:
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(OF_OTHER_COMMANDS):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if not isinstance(node, ast.Constant) or id(node) in docstrings:
                continue
            if isinstance(node.value, str) and OPTION.search(node.value):
                yield f"{name}:{node.lineno}", node.value


def parameters() -> set[str]:
    names: set[str] = set()
    for function in (cts_async.run, cts_async.judge, cts_async.compare, cts_async.load):
        names.update(inspect.signature(function).parameters)
    return names


def test_every_option_that_a_message_names_has_a_parameter() -> None:
    """A new message with an option that the Python API does not have would send its user the wrong way."""
    names = parameters()
    n_options = 0
    for place, message in messages():
        if place.startswith("tables/comparison.py") and "--pairs" in message:  # below a table on a terminal
            continue
        for option in OPTION.findall(message):
            if option in OF_OTHER_PROGRAMS or option == "--max":  # engine/budget.py: --max-usd and others
                continue
            if f"cts report {option}" in message:  # a command that Python has no function for
                continue
            n_options += 1
            parameter = in_parameters(f"use {option}").removeprefix("use ")
            assert re.split(r"[.=]", parameter)[0] in names, (place, option)
    assert n_options > 100


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("--name a/b: must be one folder; use --runs-dir", 'name="a/b": must be one folder; use runs_dir'),
        ("omit -k, or use --gold-query --no-orig", "omit k, or use references references"),
        ("leave out --tools; use --log FILE", "leave out tools; use log_file=FILE"),
        (
            "--max-usd needs a price; limit --max-tokens",
            "budget.max_usd needs a price; limit budget.max_tokens",
        ),
        ("(--nuggets-per-call 999 for all)", "(nuggets_per_call=999 for all)"),
        ("(--join id joins by the id)", '(join="id" joins by the id)'),
        ("map one with --field id=NAME)", 'map one with fields={"id": "NAME"})'),
        ("the same command with --retry-failed", "the same call with retry_failed"),
        ("in 'x --limit 3' of a user's --data", "in 'x --limit 3' of a user's data"),
        ("a/--limit 3, x--limit and ulimit -n 9", "a/--limit 3, x--limit and ulimit -n 9"),
        ("with cts run --stop-after", "with cts_async.run(stop_after=...)"),
        ("cts run and cts demo make runs", "cts_async.run and cts demo make runs"),
        ("(cts judge runs/NAME), or --out DIR", '(cts_async.judge("runs/NAME")), or out=DIR'),
        (
            "cts judge RUN --judge NAME judges one, --judge lexical free",
            'cts_async.judge(RUN, judge=NAME) judges one, judges="lexical" free',
        ),
        (
            "again: cts judge --gold 'my gold.jsonl' --candidates c/*.jsonl --out judged --lexical",
            'again: cts_async.judge(gold="my gold.jsonl", candidates="c/*.jsonl", out="judged", lexical=True)',
        ),
        (
            "again: cts judge runs/a --judge x --ray auto",
            'again: cts_async.judge("runs/a", judge="x") --ray auto',
        ),
    ],
)
def test_options_in_a_sentence_become_parameters(message: str, expected: str) -> None:
    assert in_parameters(message) == expected
    assert in_parameters(expected) == expected.replace("a user's --data", "a user's data")


def test_judge_is_called_as_in_the_function_that_was_called() -> None:
    assert in_parameters("use --judge ernie.x", ("runs", "judge")) == 'use judge="ernie.x"'
    assert in_parameters("use --judge ernie.x", ("judges",)) == 'use judges="ernie.x"'
