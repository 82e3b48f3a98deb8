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
    facts_by_path: dict[str, dict[str, Any]] = {}
    _add_command(typer.main.get_command(app), "", facts_by_path)
    return facts_by_path


def _add_command(command: Any, path: str, facts_by_path: dict[str, dict[str, Any]]) -> None:
    facts_by_path[path] = {}
    for place, param in enumerate(command.params):
        name = f"argument {place}"
        if param.opts[0].startswith("-"):
            name = ", ".join(param.opts)
        facts_by_path[path][name] = _facts(param)
    for name, subcommand in getattr(command, "commands", {}).items():
        _add_command(subcommand, f"{path} {name}".strip(), facts_by_path)


def _facts(param: Any) -> dict[str, Any]:
    annotation = param.type_descriptor.annotation
    facts: dict[str, Any]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        facts = {"type": "choice", "choices": [choice.value for choice in annotation]}
    elif type(annotation) is type:
        facts = {"type": annotation.__name__}
    else:
        facts = {"type": str(annotation).replace("pathlib.", "")}
    for name in _FACTS:
        value = _plain(getattr(param, name, None))
        # What a parameter lacks is left out: the golden file has what there is. 0 is a value.
        if value not in (None, []) and value is not False:
            facts[name] = value
    return facts


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


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
