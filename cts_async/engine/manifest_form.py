"""The form of a manifest's parts that readers rely on. What we write has it; an editor may have broken it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cts_async.errors import InputError
from cts_async.records import is_one_line

_ABSENT: Final[Any] = object()
_NUMBERS: Final = (int, float, type(None))


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raises InputError that names a part, such as `identity.k`, which is not as it has to be.

    Any may be absent, and those within another null.
    """
    for names, (form, told) in _FORMS.items():
        outer, _, inner = names.partition(".")
        value = manifest.get(outer, _ABSENT)
        if inner and value is not _ABSENT:
            value = _ABSENT if value.get(inner) is None else value[inner]
        if value is not _ABSENT and not form(value):
            raise InputError(path, f"has to be {told}", field=names)


def sessions_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The sessions that are noted, as far as they are any: a run can be read without."""
    noted = manifest.get("sessions")
    if not isinstance(noted, list):
        return []
    return [one for one in noted if isinstance(one, dict) and type(one.get("wall_s")) in _NUMBERS]


def command_of(manifest: Mapping[str, Any]) -> str:
    """The command that a manifest notes, quoted so that a shell takes it for one command of `cts`; "" for anything else.

    The manifest may be anybody's, and the command is there to be typed again.
    """
    command = manifest.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) and is_one_line(command) else []
    except ValueError:
        return ""
    return shlex.join(words) if words[:1] == ["cts"] else ""


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _are_texts(value: Any) -> bool:
    return all(isinstance(one, str) for one in value)


def _are_names(value: Any) -> bool:
    return all(isinstance(one, str) and is_one_line(one) for one in value)


def _are_prices(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, dict) and all(type(price) in _NUMBERS for price in one.values())
        for one in value.values()
    )


_FORMS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "identity": (_is_object, "an object"),
    "identity.data": (_is_object, "an object"),
    "identity.system": (lambda value: not isinstance(value, str) or is_one_line(value), "a name of one line"),
    "identity.k": (_is_count, "a number of questions"),
    "identity.judges": (lambda value: isinstance(value, list) and _are_names(value), "a list of names"),
    "data": (_is_object, "an object"),
    "players": (
        lambda value: (
            isinstance(value, dict) and _are_texts(one for one in value.values() if one is not None)
        ),
        "an object of names",
    ),
    "further_judges": (
        lambda value: isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()),
        "an object of judges by name",
    ),
    "prices": (_are_prices, "an object of prices by model"),
    "n_expected": (_is_count, "a number of instances"),
}
"""An outer part stands before what is in it."""
