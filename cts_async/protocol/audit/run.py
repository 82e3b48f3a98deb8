"""Audits one run directory: its prompts, then every instance, streamed from the journal's index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError
from cts_async.protocol.audit.evidence import Evidence
from cts_async.protocol.audit.findings import Audit, Finding
from cts_async.protocol.audit.journal import StepsByInstance
from cts_async.protocol.audit.prompts import Prompts
from cts_async.protocol.audit.rules import Book, Kind
from cts_async.protocol.audit.sources import read_sources
from cts_async.protocol.audit.talk import Scheme
from cts_async.protocol.audit.text import vocabulary_of
from cts_async.protocol.run_files import MANIFEST, STEPS
from cts_async.records import MODES, SCHEMES


def audit_run(directory: Path, data: str | None = None) -> Audit:
    """Audit a run. `data` is a dataset as `--data` names it, where it is no longer where the run had it.

    Reads only. Raises InputError where there is no run, UsageError where `data` is not this run's.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "no run here (run.json is missing)")
    prompts = Prompts(directory, manifest)
    sources = read_sources(directory, manifest, data)
    book = replace(_book(directory, manifest, prompts), people=sources.people)
    steps = StepsByInstance(directory / STEPS)
    counts = _Counts(list(prompts.findings))
    seen: set[int] = set()
    for instance, records in steps:
        seen.add(hash(instance))
        counts.add(len(records), Evidence(instance, records, book, sources, prompts))
    for instance in sources.ids():
        if hash(instance) not in seen:
            seen.add(hash(instance))
            counts.add(0, Evidence(instance, [], book, sources, prompts))
    return counts.audit(directory, str(manifest["identity"]["system"]), (*sources.notes, *_damage(steps)))


def _book(directory: Path, manifest: Mapping[str, Any], prompts: Prompts) -> Book:
    identity = manifest.get("identity", {})
    label, models = identity.get("system"), identity.get("models", {})
    kind: Kind | None = "clarify" if "clarifier" in models else None
    if kind is None and label in ("orig", "gold"):
        kind = label
    if kind is None:
        raise InputError(
            directory / MANIFEST,
            "no run of `cts run` or `cts converse`: nobody was asked to clarify or search here",
            field="system",
        )
    return Book(
        kind=kind,
        k=int(identity.get("k") or 0),
        current_date=str(identity.get("current_date")),
        prompts=frozenset(prompts.expected),
        vocabulary=vocabulary_of(prompts.texts.values()),
        scheme=_scheme(directory, identity),
        searches=kind != "clarify" or "agent" in models,
    )


def _scheme(directory: Path, identity: Mapping[str, Any]) -> Scheme | None:
    """How a run that converses did it; None where its manifest names no scheme."""
    scheme, mode = identity.get("scheme", "cts"), identity.get("mode", "at-once")
    if (scheme, mode) == ("cts", "at-once"):
        return None
    if scheme not in SCHEMES[1:] or mode not in MODES:
        problem = f"no scheme and mode that can be audited: {scheme}, {mode}"
        raise InputError(directory / MANIFEST, problem, field="scheme")
    return Scheme(scheme, mode, int(identity.get("k") or 0))


def _damage(steps: StepsByInstance) -> Iterator[str]:
    if not steps.path.exists():
        yield f"{steps.path}: there is no journal"
    if unmerged := list((steps.path.parent / "shards").glob("*.jsonl*")):  # written by versions up to 0.7
        yield f"{steps.path.parent / 'shards'}: parts of the journal that are not audited: {len(unmerged)}"
    if found := sorted(steps.damaged_lines):
        lines = ", ".join(map(str, found[:10])) + (" ..." if len(found) > 10 else "")
        yield f"{steps.path}: {len(found)} damaged {'line' if len(found) == 1 else 'lines'} (line {lines})"


class _Counts:
    """The instances so far."""

    def __init__(self, findings: list[Finding]) -> None:
        self._findings = findings
        self._instances = self._held = self._requests = self._rewrites = self._unsupported = 0

    def add(self, n_requests: int, instance: Evidence) -> None:
        findings = list(instance.findings())
        self._instances += 1
        self._held += not any(finding.violates for finding in findings)
        self._requests += n_requests
        self._rewrites += instance.n_rewrites
        self._unsupported += instance.n_unsupported
        self._findings += findings

    def audit(self, directory: Path, label: str, notes: tuple[str, ...]) -> Audit:
        return Audit(
            directory=directory,
            label=label,
            n_instances=self._instances,
            n_held=self._held,
            n_requests=self._requests,
            n_rewrites=self._rewrites,
            n_unsupported=self._unsupported,
            findings=self._findings,
            notes=notes,
        )
