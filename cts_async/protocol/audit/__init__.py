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

from cts_async import scorer
from cts_async.errors import InputError, UsageError
from cts_async.foreign_json import as_count
from cts_async.protocol.audit.asking import AskingFacts
from cts_async.protocol.audit.copies import compare_copies
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
from cts_async.protocol.audit.findings import Finding, Level, Queries
from cts_async.protocol.audit.rules import HumanAnswers, Rules, RunFacts
from cts_async.protocol.audit.text import FUNCTION_WORDS, unit_texts, vocabulary_of
from cts_async.protocol.given import GivenRows, as_given, given_again
from cts_async.records import MODES, REPLY_FORMS, SCHEMES, STAGES, AskRules
from cts_async.runs.files import JUDGMENTS, MANIFEST, PROMPTS, RESULTS, STEPS, reopen_data
from cts_async.runs.manifest import Manifest, require_manifest
from cts_async.runs.recovery import loss_notes
from cts_async.runs.results import MOST_CONTRADICTIONS, LatestLines, Line, read_results

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
        leaks = "leak" if self.n_leaks == 1 else "leaks"
        parts = [
            f"closed book: {proof} for {self.n_held}/{self.n_instances} instances",
            f"{self.n_leaks} {leaks}",
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
        # Needs all instances before the first can be audited, so the journal of such a run is read twice.
        run = replace(run, custom=custom, own_prompts=_own_prompts(records, sources))
    findings = [*prompts.findings, *sources.findings]
    audit = Audit(directory, manifest.identity.system, findings=findings)
    audit.not_proven = unproven(custom)
    copies = compare_copies(directory)
    audited: set[int] = set()  # hashes, to save memory
    # An instance that failed at its first step has a result, and no records.
    without_records: Iterator[tuple[str, list[Record]]] = ((id, []) for id in sources.ids())
    for instance, instance_records in chain(records, without_records):
        if hash(instance) not in audited:
            audited.add(hash(instance))
            changed_copies = copies.findings.get(instance, ())
            _audit_instance(audit, instance, instance_records, run, sources, prompts, changed_copies)
    audit.notes = (
        *sources.notes,
        *copies.notes(),
        *_damage(records),
        *_contradictions(directory),
        *loss_notes(manifest),
    )
    return audit


def _contradictions(directory: Path) -> Iterator[str]:
    """Say which stored scores are not those of their labels, by the standalone scorer."""
    for path in (directory / RESULTS, *sorted((directory / JUDGMENTS).glob("*.jsonl"))):
        reports: list[str] = []
        # Damage is reported elsewhere; what was read before it counts.
        with suppress(scorer.BadInput, OSError):
            scorer.read_outcomes(path, report=reports.append)
        contradictions = [report for report in reports if "restore_score_100 is" in report]
        if contradictions:
            examples = "; ".join(contradictions[:MOST_CONTRADICTIONS])
            yield (
                f"{path}: {len(contradictions)} stored score(s) contradict their nuggets, and are recomputed "
                f"everywhere: {examples}"
            )


def _own_prompts(records: RecordsByInstance, sources: Sources) -> OwnPrompts:
    """What custom roles send to models for many instances."""
    prompts = OwnPrompts()
    prompts.read((instance_records for _, instance_records in records), sources.intents())
    return prompts


def _audit_instance(
    audit: Audit,
    instance: str,
    records: list[Record],
    run: RunFacts,
    sources: Sources,
    prompts: Prompts,
    changed_copies: Sequence[Finding],
) -> None:
    """Audit one instance, of whose copied steps `changed_copies` differ from their origins, and count it."""
    line = sources.results.line(instance)
    queries = sources.queries(instance, line)
    findings: list[Finding] = list(changed_copies)
    if queries is None:
        problem = "its q and q* are not recorded: use --data to name the data"
        findings.append(Finding("missing", instance, "", problem))
    else:
        given_texts = sources.given_texts(instance, queries, line)
        rules = Rules(run, instance, queries, records, given_texts, line)
        findings += rules.requests()
        findings += prompts.leaks(instance, queries)
        findings += rules.rewrites()  # after `requests`, which learns what pairs a query was written from
        findings += rules.given_away()
        findings += rules.result()
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
    clarifies = "clarifier" in models
    # A run with given rewritten queries is named after their file.
    system: Any = "rewrites" if identity.rewrites else identity.system
    asking = _asking_facts(manifest)
    if clarifies:
        system = "clarify"
    elif asking.rules is not None and identity.system == f"orig{_asks_label(asking.rules)}":
        # Nobody asks before the search: the agent searches q, and asks itself.
        system = "orig"
    elif system not in ("orig", "gold", "rewrites"):
        problem = "not made by `cts run` or `cts converse`: it has neither a Clarifier nor a search to audit"
        raise InputError(path, problem, field="system")
    scheme, mode = identity.scheme or "cts", identity.mode or "at-once"
    # A later version may have others, of which nothing is known here.
    if scheme not in SCHEMES or mode not in MODES or (scheme == "cts" and mode == "select"):
        problem = f"this scheme and mode cannot be audited: {scheme}, {mode}"
        raise InputError(path, problem, field="scheme")
    stop_after = identity.stop_after
    if stop_after not in ("", *STAGES):
        problem = f"a run that stops after {stop_after!r} cannot be audited"
        raise InputError(path, problem, field="stop_after")
    return RunFacts(
        system=system,
        scheme=RunScheme(
            scheme,
            mode,
            k=identity.k or 0,
            has_given_questions=bool(as_given(models.get("clarifier"))),
            stop_after=stop_after,
            converses=bool(identity.scheme),
            rewrites=identity.inject_at is None,
        ),
        current_date=identity.current_date,
        prompts=frozenset(prompts.expected),
        vocabulary=vocabulary_of(prompts.texts.values()),
        people=people,
        searches=not clarifies or "agent" in models,
        asking=asking,
    )


def _asking_facts(manifest: Manifest) -> AskingFacts:
    """What a manifest says of asking during the search. Raises InputError where nothing is known of that."""
    identity = manifest.identity
    rules = None
    if identity.asks:
        rules = _ask_rules(identity.asks)
        if rules is None:
            problem = f"this way of asking during the search cannot be audited: {dict(identity.asks)}"
            raise InputError(manifest.directory / MANIFEST, problem, field="asks")
    max_turns = as_count(identity.agent.get("max_turns"))
    if identity.inject_at is not None and not max_turns:
        problem = "the number of the agent's turns is missing, of which inject_at is a share"
        raise InputError(manifest.directory / MANIFEST, problem, field="agent.max_turns")
    return AskingFacts(rules, identity.inject_at, max_turns)


def _ask_rules(recorded: Mapping[str, Any]) -> AskRules | None:
    """Return the recorded rules of asking; None if a later version has others, of which nothing is known here."""
    most, least = recorded.get("max"), recorded.get("min")
    if type(most) is not int or type(least) is not int or not 0 <= least <= most:
        return None
    for replies in REPLY_FORMS:
        if recorded.get("replies") == replies:
            return AskRules(most, least, replies)
    return None


def _asks_label(rules: AskRules) -> str:
    """How the name of a system ends whose agent may ask."""
    label = f"+ask{rules.max_asks}"
    if rules.min_asks:
        label += f"-min{rules.min_asks}"
    if rules.replies == "yes-no":
        label += "-yesno"
    return label


def _damage(records: RecordsByInstance) -> Iterator[str]:
    path = records.path
    if not path.exists():
        yield f"{path}: the journal is missing"
    shards = list((path.parent / "shards").glob("*.jsonl*"))  # of a cluster run of version 0.7
    if shards:
        yield f"{path.parent / 'shards'}: parts of the journal that are not merged, and not audited: {len(shards)}"
    damaged = records.damaged_lines
    if damaged:
        lines = ", ".join(map(str, damaged[:10]))
        if len(damaged) > 10:
            lines += " ..."
        yield f"{path}: damaged lines: {len(damaged)} (line {lines})"


# --- Data and results


@dataclass(frozen=True, slots=True)
class Sources:
    """Queries by instance from the data (None: only the results have them), and the results by instance."""

    data: Mapping[str, Queries] | None
    results: LatestLines
    results_path: Path
    notes: Sequence[str]
    people: HumanAnswers | None = None
    """People's answers, in a run that people answered; empty if they cannot be read."""
    given_rows: GivenRows | None = None
    """Questions or rewritten queries that a file gave; None without, or if they cannot be read."""
    findings: Sequence[Finding] = ()
    """What of these sources cannot be proved."""

    def given_texts(self, instance: str, queries: Queries, line: Line | None) -> tuple[str, ...]:
        """Return the questions or the query given for an instance: as in the file, else as in its result."""
        if self.given_rows is not None:
            with suppress(InputError):
                row = self.given_rows.find(instance, *queries)
                return row.texts if row else ()
        # The file cannot be read, which is a finding: the result's own texts spare further ones that follow from it.
        if not self.findings or line is None:
            return ()
        questions = line.get("questions")
        if isinstance(questions, list) and questions:
            return tuple(map(str, questions))
        return (str(line.get("rewritten_query")),)

    def queries(self, instance: str, line: Line | None) -> Queries | None:
        """Return q* and q of an instance whose result is `line`; None if they are not recorded."""
        if self.data is not None:
            return self.data.get(instance)
        if line is None or not isinstance(line.get("fused_query"), str):
            return None
        return Queries(line["fused_query"], str(line.get("blurred_query")))

    def intents(self) -> Iterator[str]:
        """Yield the intents, as far as they are recorded."""
        if self.data is not None:
            for queries in self.data.values():
                yield queries.intent
            return
        for id in self.ids():
            in_result = self.queries(id, self.results.line(id))
            if in_result is not None:
                yield in_result.intent

    def ids(self) -> Iterator[str]:
        """Yield the ids that have results, once for each line."""
        return (str(line["id"]) for line in read_results(self.results_path))


def _read_sources(manifest: Manifest, spec: str | None) -> Sources:
    """Open a run's data again, at `spec` or where the manifest says it was; UsageError if `spec` is not usable."""
    notes: list[str] = []
    data = None
    people: HumanAnswers | None = None
    if manifest.identity.answers:
        people = {}
    try:
        dataset = reopen_data(manifest, spec)
        data = {i.id: Queries(i.intent, i.query) for i in dataset.instances()}
        if people is not None and dataset.annotations is not None:
            people = dataset.annotations().pairs
    except UsageError as error:
        # What the user names must be the run's data; what the manifest names may have moved.
        if spec is not None:
            raise
        notes.append(f"q and q* were taken from {RESULTS}: {error}; use --data to name the data")
    rows = None
    findings: list[Finding] = []
    try:
        rows = given_again(manifest)
    except InputError as error:
        problem = f"the given questions or queries cannot be read again: {error}"
        findings.append(Finding("missing", "", MANIFEST, problem))
    if rows is not None:
        note = f"{rows.kind} from {rows.file}: whether they were made without q* is not proved"
        if rows.is_run:
            note += f"; audit that run, too: cts audit {rows.file.parent}"
        notes.append(note)
    path = manifest.directory / RESULTS
    return Sources(data, LatestLines(path), path, notes, people, rows, findings)


# --- Prompts

_MIN_SECRET_WORDS: Final = 2
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
            # Whatever bytes a file has, it is searched for text of q*; its digest tells that it was changed.
            self.texts[path.stem] = path.read_bytes().decode(errors="replace")
        for name, sha256 in self.expected.items():
            path = folder / f"{name}.txt"
            if name not in self.texts:
                self._add("missing", path.name, "the prompt is not in prompts/")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                self._add("provenance", path.name, "the prompt does not have the manifest's sha256")
        if not self.expected and not _has_only_custom_roles(manifest.identity.models):
            self.findings.append(Finding("missing", "", "run.json", "run.json names no prompts"))
        self._units = {name: unit_texts(text) for name, text in self.texts.items()}
        self._grams = {name: _grams(units, _LONG_RUN) for name, units in self._units.items()}

    def _add(self, level: Level, name: str, problem: str) -> None:
        self.findings.append(Finding(level, "", f"prompts/{name}", problem))

    def leaks(self, instance: str, queries: Queries) -> Iterator[Finding]:
        """Yield a finding for every prompt that contains text of the instance's q*."""
        intent, query = unit_texts(queries.intent), unit_texts(queries.query)
        if len(intent) >= _LONG_RUN:
            leaked = self._long_runs(intent, query)
        else:
            leaked = self._whole_intent(intent, query)
        for name, gram in leaked.items():
            problem = f"the prompt {name} contains text of q*"
            yield Finding("leak", instance, "prompts", problem, " ".join(gram))

    def _long_runs(self, intent: list[str], query: list[str]) -> dict[str, Gram]:
        """Return a long run of q* that q does not have, by the name of each prompt with one."""
        secret = _grams(intent, _LONG_RUN) - _grams(query, _LONG_RUN)
        leaked = {}
        for name, grams in self._grams.items():
            if secret & grams:
                leaked[name] = min(secret & grams)  # the same one in every audit
        return leaked

    def _whole_intent(self, intent: list[str], query: list[str]) -> dict[str, Gram]:
        """Return a short q*, by the name of each prompt that has all of it in one piece."""
        secret_words = set(intent) - set(query) - FUNCTION_WORDS
        if len(secret_words) < _MIN_SECRET_WORDS:
            return {}
        whole = tuple(intent)
        return {name: whole for name, units in self._units.items() if whole in _grams(units, len(whole))}


def _has_only_custom_roles(models: Mapping[str, Any]) -> bool:
    """True if every player of a run is code of the user's: then it has no prompts of ours."""
    if not custom_labels(models):
        return False
    return all(isinstance(player, dict) and "custom" in player for player in models.values())


def _grams(units: list[str], n: int) -> frozenset[Gram]:
    """Return all runs of n units, n at least 1."""
    shifted = [units[i:] for i in range(n)]
    return frozenset(zip(*shifted, strict=False))
