"""Further judges' verdicts stand in files by their names, and the manifest says who has such a name.

A model that takes over a name must not go on with its predecessor's file: verdicts of two would be one judge's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cts_async.engine.run_dir import differences, locked, read_manifest, write_json
from cts_async.errors import UsageError
from cts_async.protocol.run_files import MANIFEST, RunFiles, check_regular_files, judgments_path

FURTHER: Final = "further_judges"
"""The manifest's field with what determines each further judge's verdicts, by name."""


@contextmanager
def further_files(
    directory: Path,
    judges: Mapping[str, Mapping[str, Any]],
    prices: Mapping[str, Any],
    *,
    embedded: bool,
    sync: bool = False,
) -> Iterator[RunFiles]:
    """Lock a finished run to add judgments to it; its identity stays, the new judges and their prices are noted.

    Raises as `with_judges` and `RunFiles`.
    """
    with locked(directory):
        check_regular_files(directory)
        manifest = read_manifest(directory) or {}
        manifest[FURTHER] = with_judges(directory, manifest, judges)
        manifest["prices"] = {**manifest.get("prices", {}), **prices}
        manifest["embedded"] = bool(manifest.get("embedded")) or embedded
        write_json(directory / MANIFEST, manifest)
        files = RunFiles(directory, sync=sync)
        try:
            yield files
        finally:
            files.close()


def with_judges(
    directory: Path, manifest: Mapping[str, Any], judges: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What the manifest notes of further judges, with `judges` (what determines their verdicts, by name) among them.

    UsageError where one's file has verdicts that something else determined; what nobody noted is taken as it is.
    """
    noted = dict(manifest.get(FURTHER) or {})
    for name, now in judges.items():
        path, before = judgments_path(directory, name), noted.get(name) or _of_the_run(manifest, name)
        told = list(differences(before, now)) if before else []
        if told and path.exists() and path.stat().st_size:
            raise UsageError(
                f"{path} has verdicts of another {name}: {'; '.join(told)}. "
                "Give the new one another name, or move that file aside to judge anew"
            )
        noted[name] = now
    return noted


def _of_the_run(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """What determined the verdicts of a judge that the run itself asked; None where it asked none of the name."""
    if manifest.get("embedded"):  # a run calls the embedded model by its file
        return None
    identity = manifest.get("identity") or {}
    model = (identity.get("models") or {}).get(f"judge {name}")
    prompts = {p: text for p, text in (identity.get("prompts") or {}).items() if p.startswith("judge.")}
    return {"model": model, "prompts": prompts} if model else None
