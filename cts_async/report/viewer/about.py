"""What a run's manifest says, in plain values. It is anybody's file: what is of another type is not there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from cts_async.analysis.runs import named_system
from cts_async.protocol.run_files import MANIFEST, STEPS
from cts_async.protocol.run_folders import GOLDBUILD, TALK
from cts_async.report.viewer.files import read_object
from cts_async.report.viewer.shapes import Kind
from cts_async.report.viewer.values import (
    as_count,
    as_float,
    as_list,
    as_object,
    as_text,
    as_texts,
    can_be_shown,
)

MAX_COMMAND: Final = 1 << 16
"""Characters of a command that are read: to take it apart takes a second for each million."""


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
    elif not can_be_shown(manifest):
        raise ValueError("it is nested too deeply")
    elif "identity" not in manifest:
        raise ValueError("it does not say what it is (identity)")
    identity = as_object(manifest.get("identity"))
    if identity.get("system") == GOLDBUILD or isinstance(manifest.get("systems"), list):
        return None
    return _about(directory.name, manifest, identity)


def _about(name: str, manifest: Mapping[str, Any], identity: Mapping[str, Any]) -> About:
    system, k = as_text(identity.get("system")) or name, identity.get("k")
    candidates = "candidates" in identity or not manifest
    kind: Kind = "judged" if candidates else "talk" if identity.get("task") == TALK else "run"
    data, judges = as_object(identity.get("data")), as_texts(identity.get("judges"))
    sessions = _sessions(manifest)
    return About(
        kind=kind,
        system=system,
        data=as_text(data.get("name")) or "",
        data_sha256=as_text(data.get("sha256")) or "",
        gold_sha256=as_text(data.get("gold_sha256")) or as_text(identity.get("gold_sha256")) or "",
        k=(named_system(system)[1] or None) if candidates else None if k is None else as_count(k),
        scheme=None if candidates else as_text(identity.get("scheme")),
        mode=None if candidates else as_text(identity.get("mode")),
        judge=judges[0] if judges else None,
        changeable=candidates,
        shared_journal=manifest.get("journal") == f"../{STEPS}",
        embedded=bool(manifest.get("embedded")),
        n_expected=as_count(manifest.get("n_expected")),
        started=as_text(sessions[0].get("start")) if sessions else None,
        ended=as_text(sessions[-1].get("end")) if sessions else None,
        wall_s=sum(as_float(session.get("wall_s")) or 0.0 for session in sessions) if sessions else None,
        data_files=tuple(_data_files(manifest)),
        fields=_fields(as_object(manifest.get("data"))),
        manifest=manifest,
    )


def _sessions(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in as_list(manifest.get("sessions")) if isinstance(one, dict)]


def _data_files(manifest: Mapping[str, Any]) -> list[str]:
    """The gold that was named, also in the command of `cts judge`, then the queries."""
    data, command = as_object(manifest.get("data")), as_text(manifest.get("command")) or ""
    named = [as_text(data.get("gold")), *_golds_of(command), as_text(data.get("path"))]
    return list(dict.fromkeys(name for name in named if name))


def _golds_of(command: str) -> list[str]:
    try:
        words = shlex.split(command[:MAX_COMMAND])
    except ValueError:
        return []
    found = [after for word, after in pairwise(words) if word in ("--gold", "--gold_a")]
    return found + [word.partition("=")[2] for word in words if word.startswith(("--gold=", "--gold_a="))]


def _fields(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: to for name, to in as_object(data.get("fields")).items() if isinstance(to, str)}
