"""Versions of a run: one settings each, beside each other, none ever changed by another.

    runs/sample-gpt-k3       version 1 of the series sample-gpt-k3
    runs/sample-gpt-k3.v2    version 2: the same command, with something changed

A directory is version N of NAME only if it is called NAME.vN and its manifest says so: a user may give any run a name
that ends like that. Series that differ in nothing but the judge have one *lineage*. Of the runs of a lineage in a folder
tables show the newest: the one that a command last worked on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cts_async.foreign_json import as_object
from cts_async.runs.manifest import Manifest, manifest_of

_VERSION_NAME: Final = re.compile(r"(?P<series>.+)\.v(?P<number>[1-9][0-9]{0,5})", re.DOTALL)
MAX_SHOWN_CHANGES: Final = 5
"""Changes that a line of text names; it counts the others."""


@dataclass(frozen=True, slots=True)
class RunVersion:
    """Which version of which run a directory is."""

    directory: Path
    series: str
    """The name of the first version's directory."""
    number: int
    """From 1."""
    lineage: str
    """The name that tables know the system by; runs of one lineage differ in settings, not in what they are."""
    changed: tuple[str, ...]
    """What changed from the version that it was compared with, in a few words each; empty for a first version."""
    changed_from: str
    """The name of that version's directory; "" for a first version."""
    last_worked_on: str
    """When its last session began, as an ISO text of UTC; "" if unknown."""

    @property
    def recency(self) -> tuple[str, int, str]:
        """The newest version of a lineage has the greatest: the last one that a command worked on."""
        return self.last_worked_on, self.number, self.series


def version_of(manifest: Manifest) -> RunVersion:
    """The version that a run directory is; of a directory without a manifest the first one."""
    name = manifest.directory.name
    series, number = name, 1
    match = _VERSION_NAME.fullmatch(name)
    # A directory that was renamed, or that a user named so, is a run of its own.
    if match and manifest.run_version == int(match["number"]):
        series, number = match["series"], int(match["number"])
    return RunVersion(
        directory=manifest.directory,
        series=series,
        number=number,
        lineage=manifest.lineage or series,
        changed=manifest.changed,
        changed_from=manifest.changed_from,
        last_worked_on=manifest.last_session.start,
    )


def versions_of_series(first_directory: Path) -> list[RunVersion]:
    """The versions of the series that begins with a directory, by number; the first may be gone, or all of them."""
    versions: list[RunVersion] = []
    if not first_directory.parent.is_dir():
        return versions
    for directory in first_directory.parent.iterdir():
        if directory.name != first_directory.name and not directory.name.startswith(
            f"{first_directory.name}.v"
        ):
            continue
        if directory.is_symlink() or not directory.is_dir():
            continue
        version = version_of(manifest_of(directory))
        if version.series == first_directory.name:
            versions.append(version)
    return sorted(versions, key=lambda version: version.number)


def next_version(first_directory: Path) -> tuple[Path, int]:
    """The directory and number of a new version: the first number above all versions that nothing is named by."""
    numbers = [version.number for version in versions_of_series(first_directory)]
    number = max(numbers, default=0) + 1
    while True:
        directory = version_directory(first_directory, number)
        if not directory.exists() and not directory.is_symlink():
            return directory, number
        number += 1


def version_directory(first_directory: Path, number: int) -> Path:
    """The directory of a version of the series that begins with a directory."""
    if number == 1:
        return first_directory
    return first_directory.with_name(f"{first_directory.name}.v{number}")


def newest_versions(manifests: Iterable[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """Divide runs into the newest version of each lineage in each folder, and the older ones; both in their order."""
    newest: dict[tuple[Path, str], RunVersion] = {}
    versions: dict[Path, RunVersion] = {}
    listed = list(manifests)
    for manifest in listed:
        version = versions[manifest.directory] = version_of(manifest)
        place = manifest.directory.absolute().parent, version.lineage
        if place not in newest or version.recency > newest[place].recency:
            newest[place] = version
    newest_directories = {version.directory for version in newest.values()}
    shown: list[Manifest] = []
    older: list[Manifest] = []
    for manifest in listed:
        if manifest.directory in newest_directories:
            shown.append(manifest)
        else:
            older.append(manifest)
    return shown, older


def older_versions(manifests: Iterable[Manifest], n_newest: int) -> list[Manifest]:
    """All but the newest versions of each lineage in each folder, by lineage and the newest first."""
    by_lineage: dict[tuple[Path, str], list[tuple[RunVersion, Manifest]]] = {}
    for manifest in manifests:
        version = version_of(manifest)
        place = manifest.directory.absolute().parent, version.lineage
        by_lineage.setdefault(place, []).append((version, manifest))
    older: list[Manifest] = []
    for place in sorted(by_lineage):
        versions = sorted(by_lineage[place], key=lambda pair: pair[0].recency, reverse=True)
        older += [manifest for _, manifest in versions[n_newest:]]
    return older


def describe_changes(changed: Sequence[str]) -> str:
    """Changes in one line: `clarifier (my_lab.py), gold`; the first few, and how many more there are."""
    text = ", ".join(changed[:MAX_SHOWN_CHANGES])
    if len(changed) > MAX_SHOWN_CHANGES:
        text += f" and {len(changed) - MAX_SHOWN_CHANGES} more"
    return text


# --- What changed between two identities

_ROLE_SOURCES: Final = ("function", "command", "endpoint")
_DATA_LABELS: Final = {"name": "data", "sha256": "data", "gold_sha256": "gold"}
_PLAIN_LABELS: Final = {
    "corpus_sha256": "documents",
    "gold_sha256": "gold",
    "current_date": "date",
    "agent_tools": "tools",
    "tools": "web",
    "candidates": "candidates",
}
"""Names for people of fields whose own names say less, or whose values are digests."""
_SHORT: Final = 40
"""Characters of a value in a description."""


def changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What differs between the identities of two versions, for people: `clarifier (my_lab.py)`, `k (2, now 3)`."""
    changes: list[str] = []
    judges = _names(before.get("judges")), _names(after.get("judges"))
    if judges[0] != judges[1]:
        changes.append(f"judge ({', '.join(judges[0]) or 'none'}, now {', '.join(judges[1]) or 'none'})")
    for name in _names_in_order(before, after):
        if before.get(name) == after.get(name) or name == "judges":
            continue
        if name == "models":
            changes += _changed_players(
                before.get(name), after.get(name), judges_changed=judges[0] != judges[1]
            )
        elif name == "prompts":
            changes += _changed_prompts(before.get(name), after.get(name))
        elif name == "data":
            changes += _changed_data(before.get(name), after.get(name))
        else:
            changes.append(_changed_value(name, before.get(name), after.get(name)))
    return list(dict.fromkeys(changes))


def _names_in_order(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The fields of both: the players first, since prompts and data mostly follow from what the user did there."""
    names = dict.fromkeys(("models", "data"))
    names |= dict.fromkeys(after) | dict.fromkeys(before)
    return list(names)


def _names_of_both(after: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(after) | dict.fromkeys(before))


def _names(value: Any) -> list[str]:
    """A list of names; none for anything else, since a manifest may be anybody's."""
    names: list[str] = []
    if isinstance(value, list | tuple):
        for name in value:
            if isinstance(name, str):
                names.append(name)
    return names


def _changed_players(before: Any, after: Any, *, judges_changed: bool) -> list[str]:
    old_players, new_players = as_object(before), as_object(after)
    changes: list[str] = []
    for role in _names_of_both(new_players, old_players):
        old, new = old_players.get(role), new_players.get(role)
        # A judge that came or went is named as such already.
        if old == new or (judges_changed and role.startswith("judge ") and (old is None or new is None)):
            continue
        changes.append(f"{role} ({_changed_player(as_object(old), as_object(new))})")
    return changes


def _changed_player(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What changed of one player: its source, its model, or some of its parameters."""
    if after.get("custom") in _ROLE_SOURCES:
        name = str(after.get("name"))
        if before.get("name") != after.get("name"):
            return f"{before.get('name') or before.get('model') or 'nobody'}, now {name}"
        if before.get("version") != after.get("version"):
            return f"{name}, version {after.get('version') or 'none'}"
        return name
    if before.get("model") != after.get("model"):
        return (
            f"{before.get('model') or before.get('name') or 'nobody'}, now {after.get('model') or 'nobody'}"
        )
    old_params, new_params = as_object(before.get("params")), as_object(after.get("params"))
    differing: list[str] = []
    for name in _names_of_both(new_params, old_params):
        if old_params.get(name) != new_params.get(name):
            differing.append(f"{name} {_short(old_params.get(name))}, now {_short(new_params.get(name))}")
    return "; ".join(differing) or "wire format"


def _changed_prompts(before: Any, after: Any) -> list[str]:
    old_prompts, new_prompts = as_object(before), as_object(after)
    changes: list[str] = []
    for name in sorted(old_prompts.keys() & new_prompts.keys()):
        if old_prompts[name] != new_prompts[name]:
            changes.append(f"prompt {name}")
    # Prompts that came or went follow from the data's languages and from who plays which role.
    return changes or ["prompts"]


def _changed_data(before: Any, after: Any) -> list[str]:
    old_data, new_data = as_object(before), as_object(after)
    changes: list[str] = []
    for name, label in _DATA_LABELS.items():
        if old_data.get(name) != new_data.get(name) and label not in changes:
            changes.append(label)
    return changes


def _changed_value(name: str, before: Any, after: Any) -> str:
    label = _PLAIN_LABELS.get(name, name.replace("_", " "))
    if name.endswith("sha256"):
        return label
    old, new = before, after
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        differing = [key for key in _names_of_both(after, before) if before.get(key) != after.get(key)]
        if len(differing) == 1:
            old, new = before.get(differing[0]), after.get(differing[0])
            label = f"{label} {differing[0].replace('_', ' ')}"
        else:
            return f"{label} ({', '.join(differing)})"
    return f"{label} ({_short(old)}, now {_short(new)})"


def _short(value: Any) -> str:
    if value is None:
        return "none"
    text = str(value)
    if isinstance(value, Mapping | list):
        return "others"
    if len(text) <= _SHORT:
        return text
    return text[: _SHORT - 3] + "..."
