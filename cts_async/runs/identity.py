"""Whether a run is the one that a command would resume: every setting that determines its results must agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from cts_async.runs.manifest import Manifest

FEW: Final = 3
"""Differences within one field that an error message lists."""
_SHORT: Final = 60
"""Characters of a value in an error message."""


def resumed_identity(manifest: Manifest, identity: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The identity under which a run is resumed by a command of this `identity`; None if it is another run's."""
    recorded = manifest.identity.prompts
    # Versions before 0.8 shipped more prompts for small models (`ROLE.small.LANGUAGE`), and every run that might use
    # them recorded their digests. Only the embedded model ever got them, so a run without it is still the same run.
    if recorded and not manifest.embedded:
        digests: dict[str, str] = {}
        for name, digest in recorded.items():
            if ".small." in name:
                digests[name] = digest
        digests |= identity["prompts"]
        identity = dict(identity) | {"prompts": dict(sorted(digests.items()))}
    if any(differences(manifest.raw_identity, identity)):
        return None
    return identity


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
