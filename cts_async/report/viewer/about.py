"""What a run's manifest says, in plain values. It is anybody's file: what is of another type is not there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cts_async.analysis.runs import named_system
from cts_async.protocol.run_files import MANIFEST, STEPS
from cts_async.protocol.run_folders import GOLDBUILD, TALK
from cts_async.report.viewer.files import read_object
from cts_async.report.viewer.shapes import Kind


@dataclass(frozen=True, slots=True)
class About:
    """A run by its manifest; everything has a value where there is none."""

    kind: Kind
    system: str
    data: str
    data_sha256: str
    gold_sha256: str
    k: int | None
    scheme: str | None
    mode: str | None
    judge: str | None
    """The scoring judge."""
    changeable: bool
    """Answers may change under their ids: they are somebody's candidates."""
    shared_journal: bool
    """Its steps stand in the folder above, with those of others."""
    embedded: bool
    n_expected: int
    started: str | None
    ended: str | None
    wall_s: float | None
    data_files: tuple[str, ...]
    """Where the run says that its queries and gold were, likelier ones for gold first."""
    fields: Mapping[str, str]
    manifest: Mapping[str, Any]

    @property
    def gold_digest(self) -> str:
        """The sha256 of the file that the nuggets stand in, "" where nobody says."""
        return self.gold_sha256 or self.data_sha256

    def known_as(self, id: str) -> str:
        """What an instance is called in the journal."""
        return f"{self.system}/{id}" if self.shared_journal else id


def read_about(directory: Path) -> About | None:
    """None where it is no run: a build of gold, or what stands above the verdicts on several files.

    Raises ValueError where the manifest is none.
    """
    manifest = read_object(directory / MANIFEST)
    if manifest is None:
        manifest = {}
    elif "identity" not in manifest:
        raise ValueError("it does not say what it is (identity)")
    identity = _object(manifest, "identity")
    if identity.get("system") == GOLDBUILD or isinstance(manifest.get("systems"), list):
        return None
    return _about(directory.name, manifest, identity)


def _about(name: str, manifest: Mapping[str, Any], identity: Mapping[str, Any]) -> About:
    system, k = _text(identity, "system") or name, _number(identity, "k")
    candidates = "candidates" in identity or not manifest
    kind: Kind = "judged" if candidates else "talk" if identity.get("task") == TALK else "run"
    data, judges = _object(identity, "data"), identity.get("judges")
    first = judges[0] if isinstance(judges, list) and judges else None
    sessions = _sessions(manifest)
    return About(
        kind=kind,
        system=system,
        data=_text(data, "name") or "",
        data_sha256=_text(data, "sha256") or "",
        gold_sha256=_text(data, "gold_sha256") or _text(identity, "gold_sha256") or "",
        k=(named_system(system)[1] or None) if candidates else None if k is None else int(k),
        scheme=None if candidates else _text(identity, "scheme"),
        mode=None if candidates else _text(identity, "mode"),
        judge=first if isinstance(first, str) else None,
        changeable=candidates,
        shared_journal=manifest.get("journal") == f"../{STEPS}",
        embedded=bool(manifest.get("embedded")),
        n_expected=max(0, int(_number(manifest, "n_expected") or 0)),
        started=_text(sessions[0], "start") if sessions else None,
        ended=_text(sessions[-1], "end") if sessions else None,
        wall_s=sum(_number(session, "wall_s") or 0.0 for session in sessions) if sessions else None,
        data_files=tuple(_data_files(manifest)),
        fields=_fields(_object(manifest, "data")),
        manifest=manifest,
    )


def _sessions(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    sessions = manifest.get("sessions")
    return [one for one in sessions if isinstance(one, dict)] if isinstance(sessions, list) else []


def _data_files(manifest: Mapping[str, Any]) -> list[str]:
    """The gold that was named, also in the command of `cts judge`, then the queries."""
    data, command = _object(manifest, "data"), _text(manifest, "command") or ""
    named = [_text(data, "gold"), *_golds_of(command), _text(data, "path")]
    return list(dict.fromkeys(name for name in named if name))


def _golds_of(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    found = [after for word, after in pairwise(words) if word in ("--gold", "--gold_a")]
    return found + [word.partition("=")[2] for word in words if word.startswith(("--gold=", "--gold_a="))]


def _fields(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: to for name, to in _object(data, "fields").items() if isinstance(to, str)}


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: Mapping[str, Any], name: str) -> str | None:
    found = value.get(name)
    return found if isinstance(found, str) else None


def _number(value: Mapping[str, Any], name: str) -> float | None:
    found = value.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None
