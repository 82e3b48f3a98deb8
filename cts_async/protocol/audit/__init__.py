"""Proves the closed book from what a run wrote, without trusting the code that made the run.

Trusted are only the parsing of recorded replies (`llm.parsing`), the digest of a request's fields
(`engine.step.step_key`) and the reading of the data. What the protocol allows is written down a second time here.

The audit of a run directory: its prompts, then instance by instance its requests, queries and result. It reads only.
The data is read again from its own file if that still has the manifest's sha256; otherwise q and q* are taken from
results.jsonl, and a note says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from cts_async.errors import InputError, UsageError
from cts_async.protocol.audit.evidence import (
    OwnPrompts,
    Record,
    RecordsByInstance,
    RunScheme,
    Unproven,
    audited_steps,
    custom_labels,
    unproven,
)
from cts_async.protocol.audit.rules import Finding, HumanAnswers, Level, Queries, Rules, RunFacts
from cts_async.protocol.audit.text import FUNCTION_WORDS, unit_texts, vocabulary_of
from cts_async.protocol.given import GivenRows, as_given, given_again
from cts_async.records import MODES, SCHEMES, STAGES
from cts_async.runs.files import MANIFEST, PROMPTS, RESULTS, STEPS, reopen_data
from cts_async.runs.manifest import Manifest, require_manifest
from cts_async.runs.recovery import loss_notes
from cts_async.runs.results import LatestLines, Line, read_results

__all__ = ["Audit", "Finding", "Level", "audit_run"]


@dataclass(slots=True)
class Audit:
    """One run's audit. The closed book held for an instance if no finding about it is a violation."""

    directory: Path
    label: str
    n_instances: int = 0
    """Instances with steps or results; those that were not started are not counted."""
    n_held: int = 0
    n_requests: int = 0
    """Checked requests to the Clarifier, the User Answerer, the Rewriter and the agent."""
    n_rewrites: int = 0
    n_unsupported: int = 0
    """Rewritten queries with a constraint that no answer elicited."""
    n_known: int = 0
    """Answers of the user that are not `unknown`."""
    n_over_informing: int = 0
    """Those that give away nearly all that q* has beyond q and the question (`audit.text.Disclosure`)."""
    findings: list[Finding] = field(default_factory=list)
    notes: Sequence[str] = ()
    """Limits of the evidence: damaged lines, data that could not be read."""
    not_proven: Sequence[Unproven] = ()
    """Custom roles: what they were sent is proved, what else their code does is not."""

    @property
    def held(self) -> bool:
        """True if the closed book was proved for the run and each of its instances."""
        return not any(finding.violates for finding in self.findings)

    @property
    def n_leaks(self) -> int:
        return sum(finding.level == "leak" for finding in self.findings)

    def verdict(self) -> str:
        """Return one line: `closed book: held for 518/518 instances; 0 leaks; unsupported constraints in 7 ...`."""
        proof = "held" if self.held else "NOT held: proved"
        parts = [
            f"closed book: {proof} for {self.n_held}/{self.n_instances} instances",
            f"{self.n_leaks} leak{'s' * (self.n_leaks != 1)}",
        ]
        if self.n_rewrites:
            share = 100 * self.n_unsupported / self.n_rewrites
            parts.append(f"unsupported constraints in {self.n_unsupported} rewrites ({share:.1f} %)")
        if self.n_over_informing:
            share = 100 * self.n_over_informing / self.n_known
            parts.append(f"over-informing answers: {self.n_over_informing} of {self.n_known} ({share:.1f} %)")
        return "; ".join(parts)


def audit_run(directory: Path, data: str | None = None) -> Audit:
    """Audit a run. `data` names its dataset, as `--data` does, if that is no longer where the run read it.

    Raises InputError if `directory` is no run, UsageError if `data` is not the dataset of this run.
    """
    manifest = require_manifest(directory)
    custom = custom_labels(manifest.identity.models)
    prompts = Prompts(manifest)
    sources = _read_sources(manifest, data)
    run = _run_facts(manifest, prompts, sources.people)
    records = RecordsByInstance(directory / STEPS, audited_steps(custom))
    if custom:
        run = replace(run, custom=custom, own_prompts=_own_prompts(records, sources))
    findings = [*prompts.findings, *sources.findings]
    audit = Audit(directory, manifest.identity.system, findings=findings)
    audit.not_proven = unproven(custom)
    seen: set[int] = set()  # hashes, to save memory
    for instance, own in chain(records, ((id, []) for id in sources.ids())):
        if hash(instance) not in seen:
            seen.add(hash(instance))
            _add(audit, instance, own, run, sources, prompts)
    audit.notes = (*sources.notes, *_damage(records), *loss_notes(manifest))
    return audit


def _own_prompts(records: RecordsByInstance, sources: Sources) -> OwnPrompts:
    """What custom roles send to models for many instances."""
    lines = ((id, sources.results.line(id)) for id in sources.ids())
    found = sources.data.values() if sources.data is not None else (sources.queries(*one) for one in lines)
    own = OwnPrompts()
    own.read((asked for _, asked in records), [queries.intent for queries in found if queries is not None])
    return own


def _add(
    audit: Audit, instance: str, records: list[Record], run: RunFacts, sources: Sources, prompts: Prompts
) -> None:
    """Audit one instance, and count it."""
    line = sources.results.line(instance)
    queries = sources.queries(instance, line)
    findings: list[Finding] = []
    if queries is None:
        problem = "its q and q* are not recorded: use --data to name the data"
        findings.append(Finding("missing", instance, "", problem))
    else:
        given = sources.given_texts(instance, queries, line)
        rules = Rules(run, instance, queries, records, given, line)
        findings += [*rules.requests(), *prompts.leaks(instance, queries), *rules.rewrites()]
        findings += [*rules.given_away(), *rules.result()]
        audit.n_rewrites += rules.n_rewrites
        audit.n_unsupported += rules.n_unsupported
        audit.n_known += rules.n_known
        audit.n_over_informing += rules.n_over_informing
    audit.n_instances += 1
    audit.n_held += not any(finding.violates for finding in findings)
    audit.n_requests += len(records)
    audit.findings += findings


def _run_facts(manifest: Manifest, prompts: Prompts, people: HumanAnswers | None) -> RunFacts:
    path, identity = manifest.directory / MANIFEST, manifest.identity
    models = identity.models
    searched: Any = "rewrites" if identity.rewrites else identity.system
    if "clarifier" not in models and searched not in ("orig", "gold", "rewrites"):
        problem = "not made by `cts run` or `cts converse`: it has neither a Clarifier nor a search to audit"
        raise InputError(path, problem, field="system")
    scheme, mode = identity.scheme or "cts", identity.mode or "at-once"
    if scheme not in SCHEMES or mode not in MODES or (scheme == "cts" and mode == "select"):
        problem = f"this scheme and mode cannot be audited: {scheme}, {mode}"
        raise InputError(path, problem, field="scheme")
    stop_after = identity.stop_after
    if stop_after not in ("", *STAGES):
        problem = f"a run that stops after {stop_after!r} cannot be audited"
        raise InputError(path, problem, field="stop_after")
    clarifies = "clarifier" in models
    given = clarifies and bool(as_given(models["clarifier"]))
    return RunFacts(
        system="clarify" if clarifies else searched,
        scheme=RunScheme(scheme, mode, identity.k or 0, given, stop_after, bool(identity.scheme)),
        current_date=identity.current_date,
        prompts=frozenset(prompts.expected),
        vocabulary=vocabulary_of(prompts.texts.values()),
        people=people,
        searches=not clarifies or "agent" in models,
    )


def _damage(records: RecordsByInstance) -> Iterator[str]:
    path = records.path
    if not path.exists():
        yield f"{path}: the journal is missing"
    if n := len(list((path.parent / "shards").glob("*.jsonl*"))):  # of a cluster run of version 0.7
        yield f"{path.parent / 'shards'}: parts of the journal that are not merged, and not audited: {n}"
    if found := records.damaged_lines:
        lines = ", ".join(map(str, found[:10])) + (" ..." if len(found) > 10 else "")
        yield f"{path}: damaged lines: {len(found)} (line {lines})"


# --- Data and results


@dataclass(frozen=True, slots=True)
class Sources:
    """Queries by instance from the data (None: only the results have them), and the results by instance."""

    data: Mapping[str, Queries] | None
    results: LatestLines
    results_path: Path
    notes: tuple[str, ...]
    people: HumanAnswers | None = None
    """People's answers, in a run that people answered; empty if they cannot be read."""
    given: GivenRows | None = None
    """Questions or rewritten queries that a file gave; None without, or if they cannot be read."""
    findings: tuple[Finding, ...] = ()
    """What of these sources cannot be proved."""

    def given_texts(self, instance: str, queries: Queries, line: Line | None) -> tuple[str, ...]:
        """Return the questions or the query given for an instance: as in the file, else as in its result."""
        if self.given is not None:
            with suppress(InputError):
                row = self.given.find(instance, *queries)
                return row.texts if row else ()
        if not self.findings or line is None:
            return ()
        asked = line.get("questions")
        return (
            tuple(map(str, asked))
            if isinstance(asked, list) and asked
            else (str(line.get("rewritten_query")),)
        )

    def queries(self, instance: str, line: Line | None) -> Queries | None:
        """Return q* and q of an instance whose result is `line`; None if they are not recorded."""
        if self.data is not None:
            return self.data.get(instance)
        if line is None or not isinstance(line.get("fused_query"), str):
            return None
        return Queries(line["fused_query"], str(line.get("blurred_query")))

    def ids(self) -> Iterator[str]:
        """Yield the ids that have results, once for each line."""
        return (str(line["id"]) for line in read_results(self.results_path))


def _read_sources(manifest: Manifest, spec: str | None) -> Sources:
    """Open a run's data again, at `spec` or where the manifest says it was; UsageError if `spec` is not usable."""
    notes: tuple[str, ...] = ()
    data = None
    people: HumanAnswers | None = {} if manifest.identity.answers else None
    try:
        dataset = reopen_data(manifest, spec)
        data = {i.id: Queries(i.intent, i.query) for i in dataset.instances()}
        if people is not None and dataset.annotations is not None:
            people = dataset.annotations().pairs
    except UsageError as error:
        if spec is not None:
            raise
        notes = (f"q and q* were taken from {RESULTS}: {error}; use --data to name the data",)
    given, findings = None, tuple[Finding, ...]()
    try:
        given = given_again(manifest)
    except InputError as error:
        problem = f"the given questions or queries cannot be read again: {error}"
        findings = (Finding("missing", "", MANIFEST, problem),)
    if given is not None:
        of_run = f"; audit that run, too: cts audit {given.file.parent}" if given.is_run else ""
        notes = (
            *notes,
            f"{given.kind} from {given.file}: whether they were made without q* is not proved{of_run}",
        )
    path = manifest.directory / RESULTS
    return Sources(data, LatestLines(path), path, notes, people, given, findings)


# --- Prompts

_MIN_OWN_WORDS: Final = 2
"""A whole short q* is searched for if it has so many words that are neither function words nor in q."""
_LONG_RUN: Final = 6
"""So many units of q* in a row are no accident. Prompts share shorter runs with many a query."""

Gram = tuple[str, ...]


class Prompts:
    """The prompts of a run: do they match the manifest, and do they contain text of any instance's q*?"""

    def __init__(self, manifest: Manifest) -> None:
        folder = manifest.directory / PROMPTS
        self.expected = manifest.identity.prompts
        self.texts: dict[str, str] = {}
        self.findings: list[Finding] = []
        """Findings about the files themselves."""
        for path in sorted(folder.glob("*.txt")):
            self.texts[path.stem] = path.read_bytes().decode(errors="replace")
        for name, sha256 in self.expected.items():
            path = folder / f"{name}.txt"
            if name not in self.texts:
                self._add("missing", path.name, "the prompt is not in prompts/")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                self._add("provenance", path.name, "the prompt does not have the manifest's sha256")
        models = manifest.identity.models
        players = models if custom_labels(models) else {}
        if not self.expected and not (
            players and all(isinstance(player, dict) and "custom" in player for player in players.values())
        ):
            self.findings.append(Finding("missing", "", "run.json", "run.json names no prompts"))
        self._units = {name: unit_texts(text) for name, text in self.texts.items()}
        self._grams = {name: _grams(found, _LONG_RUN) for name, found in self._units.items()}

    def _add(self, level: Level, name: str, problem: str) -> None:
        self.findings.append(Finding(level, "", f"prompts/{name}", problem))

    def leaks(self, instance: str, queries: Queries) -> Iterator[Finding]:
        """Yield a finding for every prompt that contains text of the instance's q*."""
        intent = unit_texts(queries.intent)
        if len(intent) >= _LONG_RUN:
            secret = _grams(intent, _LONG_RUN) - _grams(unit_texts(queries.query), _LONG_RUN)
            found = {name: min(secret & grams) for name, grams in self._grams.items() if secret & grams}
        else:
            own, whole = set(intent) - set(unit_texts(queries.query)) - FUNCTION_WORDS, tuple(intent)
            in_full = [name for name, text in self._units.items() if whole in _grams(text, len(whole))]
            found = dict.fromkeys(in_full if len(own) >= _MIN_OWN_WORDS else (), whole)
        for name, gram in found.items():
            problem = f"the prompt {name} contains text of q*"
            yield Finding("leak", instance, "prompts", problem, " ".join(gram))


def _grams(units: list[str], n: int) -> frozenset[Gram]:
    return frozenset(zip(*(units[i:] for i in range(n)), strict=False)) if n else frozenset()
