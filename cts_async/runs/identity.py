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
    begun_by = manifest.version
    resume = "repeat the original options to resume"
    if begun_by != __version__ and VERSION.fullmatch(begun_by):
        resume += f"; if those are the same, finish it with the version that began it: cts-async=={begun_by}"
    raise UsageError(
        f"{directory} was created with different settings: {'; '.join(changed)}. "
        f"Use {place} to start a new run, or {resume}"
    )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The fields that differ: plain ones first, since nested ones mostly follow from them, and few of these."""
    pairs = {name: (before.get(name), now.get(name)) for name in sorted({*before, *now})}
    for name in sorted(pairs, key=lambda name: any(isinstance(value, Mapping) for value in pairs[name])):
        found = list(_differences(*pairs[name], name))
        yield from found[:FEW]
        if len(found) > FEW:
            yield f"{len(found) - FEW} more of {name}"


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}")
    elif before != now:
        yield f"{path} was {_short(before)}, now {_short(now)}"


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
