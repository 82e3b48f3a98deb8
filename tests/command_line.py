"""The command line as data: every command with its options and arguments, without their help texts.

python tests/command_line.py      prints what tests/golden/commands.json holds
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

import typer

from cts_async.cli.main import app

_FACTS = ("secondary_opts", "required", "nargs", "multiple", "is_flag", "default", "min", "max")


def commands() -> dict[str, dict[str, Any]]:
    """Return the parameters of each command ("data qulac gains"): options by all their spellings, arguments by place."""
    found: dict[str, dict[str, Any]] = {}
    _walk(typer.main.get_command(app), "", found)
    return found


def _walk(command: Any, path: str, found: dict[str, dict[str, Any]]) -> None:
    found[path] = {
        ", ".join(param.opts) if param.opts[0].startswith("-") else f"argument {place}": _facts(param)
        for place, param in enumerate(command.params)
    }
    for name, one in getattr(command, "commands", {}).items():
        _walk(one, f"{path} {name}".strip(), found)


def _facts(param: Any) -> dict[str, Any]:
    kind = param.type_descriptor.annotation
    choices = [one.value for one in kind] if isinstance(kind, type) and issubclass(kind, Enum) else None
    name = "choice" if choices else kind.__name__ if type(kind) is type else str(kind).replace("pathlib.", "")
    facts = {
        "type": name,
        "choices": choices,
        **{fact: _plain(getattr(param, fact, None)) for fact in _FACTS},
    }
    return {fact: value for fact, value in facts.items() if value not in (None, []) and value is not False}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def main() -> None:
    """Print one line for each parameter, so that a difference is a line."""
    print("{")
    for number, (path, options) in enumerate(commands().items()):
        print(f"{',' if number else ''}{json.dumps(path)}: {{")
        print(",\n".join(f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in options.items()))
        print("}")
    print("}")


if __name__ == "__main__":
    main()
