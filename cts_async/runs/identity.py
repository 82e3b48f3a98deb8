"""Whether a directory holds the run that a command would resume: every setting that determines results must agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__
from cts_async.errors import UsageError
from cts_async.runs.manifest import read_manifest

VERSION: Final = re.compile(r"[0-9][0-9a-z.+]{0,30}")
FEW: Final = 3
"""Differences within one field of the identity that an error message lists."""
_SHORT: Final = 60
"""Characters of a value in an error message."""


def check_identity(directory: Path, identity: Mapping[str, Any], *, place: str = "--name") -> None:
    """Raise UsageError if a run was created with another identity, naming the differences.

    `place` is the option that chooses another directory. If another version created the run, the message names it:
    its prompts may be what differs.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return
    changed = list(differences(manifest.raw_identity, identity))
    if not changed:
        return
    resume = "repeat the original options to resume"
    # The version is shown to be typed after pip install, and the manifest may come from anywhere.
    if manifest.version != __version__ and VERSION.fullmatch(manifest.version):
        resume += f"; if those are the same, finish it with the version that began it: cts-async=={manifest.version}"
    raise UsageError(
        f"{directory} was created with different settings: {'; '.join(changed)}. "
        f"Use {place} to start a new run, or {resume}"
    )


def differences(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[str]:
    """Describe the fields that differ, few of each."""
    plain_fields: list[str] = []
    nested_fields: list[str] = []
    for name in sorted(recorded.keys() | current.keys()):
        if isinstance(recorded.get(name), Mapping) or isinstance(current.get(name), Mapping):
            nested_fields.append(name)
        else:
            plain_fields.append(name)
    # Plain ones first, since nested ones, such as digests of prompts, mostly follow from them.
    for name in plain_fields + nested_fields:
        descriptions = list(_differences_within(recorded.get(name), current.get(name), name))
        yield from descriptions[:FEW]
        if len(descriptions) > FEW:
            yield f"{len(descriptions) - FEW} more of {name}"


def _differences_within(recorded: Any, current: Any, path: str) -> Iterator[str]:
    if isinstance(recorded, Mapping) and isinstance(current, Mapping):
        for key in sorted(recorded.keys() | current.keys()):
            yield from _differences_within(recorded.get(key), current.get(key), f"{path}.{key}")
    elif recorded != current:
        yield f"{path} was {_short_json(recorded)}, now {_short_json(current)}"


def _short_json(value: Any) -> str:
    text = orjson.dumps(value).decode()
    if len(text) <= _SHORT:
        return text
    return text[: _SHORT - 3] + "..."
