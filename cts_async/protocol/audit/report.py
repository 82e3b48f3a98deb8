"""Audits one run directory: its prompts, then every instance, streamed from the journal's index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cts_async.engine.run_dir import read_manifest
from cts_async.engine.shards import SHARDS, unmerged
from cts_async.errors import InputError, UsageError
from cts_async.protocol.audit.conversation import (
    Dialogue,
    Record,
    Scheme,
    StepsByInstance,
    Talk,
    follows,
    read_replies,
)
from cts_async.protocol.audit.rules import Book, Finding, Kind, Level, People, Queries, Rules, TalkRules
from cts_async.protocol.audit.text import FUNCTION_WORDS, additions, names, vocabulary_of
from cts_async.protocol.results import LatestLines, Line, failed, read_results
from cts_async.protocol.run_files import MANIFEST, RESULTS, STEPS
from cts_async.protocol.run_folders import opened_again
from cts_async.records import MODES, SCHEMES

# --- Sources


@dataclass(frozen=True, slots=True)
class Sources:
    """Queries by instance from the data (None: from the results only), and the results by instance."""

    data: Mapping[str, Queries] | None
    results: LatestLines
    results_path: Path
    notes: tuple[str, ...]
    people: People | None = None
    """What people answered, by instance, where they answered in this run; empty where it cannot be read."""

    def queries(self, instance: str, line: Line | None) -> Queries | None:
        """q* and q of an instance; None where nothing knows them. `line` is its result."""
        if self.data is not None:
            return self.data.get(instance)
        if line is None or not isinstance(line.get("fused_query"), str):
            return None
        return Queries(line["fused_query"], str(line.get("blurred_query")))

    def result(self, instance: str) -> Line | None:
        return self.results.line(instance)

    def ids(self) -> Iterator[str]:
        """Ids that have results, repeated as often as they have lines."""
        return (str(line["id"]) for line in read_results(self.results_path))


def read_sources(directory: Path, manifest: Mapping[str, Any], spec: str | None) -> Sources:
    """Open a run's data again: `spec` where it is given, else where the manifest says it was.

    Raises UsageError where `spec` cannot be read, or is not the data of this run.
    """
    notes: tuple[str, ...] = ()
    data = None
    people: People | None = {} if manifest.get("identity", {}).get("answers") else None
    try:
        dataset = opened_again(manifest, spec)
        data = {i.id: Queries(i.fused_query, i.blurred_query) for i in dataset.instances()}
        if people is not None and dataset.annotations is not None:
            people = dataset.annotations().pairs
    except UsageError as error:
        if spec is not None:
            raise
        notes = (
            f"the data cannot be read again, so q and q* are those that {RESULTS} recorded: {error}; --data names it",
        )
    path = directory / RESULTS
    return Sources(data, LatestLines(path), path, notes, people)


# --- Prompts


LEAST_WORDS: Final = 2
LONG_RUN: Final = 6

Gram = tuple[str, ...]


class Prompts:
    """The texts in a run's `prompts/`, by name; `findings` are about the files themselves."""

    def __init__(self, directory: Path, manifest: Mapping[str, Any]) -> None:
        self.expected: Mapping[str, str] = manifest.get("identity", {}).get("prompts", {})
        self.texts: dict[str, str] = {}
        self.findings: list[Finding] = []
        for path in sorted((directory / "prompts").glob("*.txt")):
            self.texts[path.stem] = path.read_bytes().decode(errors="replace")
        for name, sha256 in self.expected.items():
            path = directory / "prompts" / f"{name}.txt"
            if name not in self.texts:
                self._broken("missing", name, "the prompt is not in prompts/")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                self._broken("provenance", name, "the prompt's text is not what the manifest's sha256 says")
        if not self.expected:
            self._broken("missing", "", "run.json names no prompts")
        self._read = {name: names(text) for name, text in self.texts.items()}
        self._grams = {name: _grams(read, LONG_RUN) for name, read in self._read.items()}
        self._all = frozenset().union(*self._grams.values()) if self._grams else frozenset()

    def leaks(self, instance: str, queries: Queries) -> Iterator[Finding]:
        """Every prompt that holds text of the instance's q*."""
        intent = names(queries.fused)
        if len(intent) < LONG_RUN:
            yield from self._whole(instance, tuple(intent), queries)
            return
        shared = _grams(intent, LONG_RUN) & self._all
        if shared:
            shared -= _grams(names(queries.blurred), LONG_RUN)
        for name, grams in self._grams.items():
            if found := shared & grams:
                yield self._leak(instance, name, min(found))

    def _whole(self, instance: str, intent: Gram, queries: Queries) -> Iterator[Finding]:
        own = set(intent) - set(names(queries.blurred)) - FUNCTION_WORDS
        if len(own) < LEAST_WORDS:
            return
        for name, read in self._read.items():
            if intent in _grams(read, len(intent)):
                yield self._leak(instance, name, intent)

    def _leak(self, instance: str, name: str, gram: Gram) -> Finding:
        problem = f"the prompt {name} holds text of q*"
        return Finding("leak", instance, "prompts", problem, " ".join(gram))

    def _broken(self, level: Any, name: str, problem: str) -> None:
        self.findings.append(Finding(level, "", f"prompts/{name}.txt" if name else "run.json", problem))


def _grams(read: list[str], n: int) -> frozenset[Gram]:
    return frozenset(zip(*(read[i:] for i in range(n)), strict=False)) if n else frozenset()


# --- Evidence


class Evidence:
    """The records and the result of one instance. The counts are those of a walk through `findings`."""

    def __init__(
        self, id: str, records: list[Record], book: Book, sources: Sources, prompts: Prompts
    ) -> None:
        self._id, self._records, self._book, self._prompts = id, records, book, prompts
        self._line = sources.result(id)
        self._queries = sources.queries(id, self._line)
        self.n_rewrites = self.n_unsupported = 0

    def findings(self) -> Iterator[Finding]:
        if self._queries is None:
            yield Finding("missing", self._id, "", "its q and q* are nowhere: name the data with --data")
            return
        talk, rules, said = self._read(self._queries)
        for record in self._records:
            yield from rules.check(record)
        yield from self._prompts.leaks(self._id, self._queries)
        yield from self._rewrites(talk, said, self._queries)
        yield from self._result(talk, said, self._queries)

    def _read(self, queries: Queries) -> tuple[Talk | None, Rules, Dialogue]:
        """What was said, and the rules it is held against."""
        if self._book.scheme is None:
            said = read_replies(self._records, self._book.k)
            return None, Rules(self._book, self._id, queries, said), said
        talk = Talk(self._book.scheme, queries.blurred, self._records)
        return talk, TalkRules(self._book, self._id, queries, talk), talk.dialogue

    def _rewrites(self, talk: Talk | None, said: Dialogue, queries: Queries) -> Iterator[Finding]:
        """What the rewritten queries add to what was elicited."""
        everything = tuple((asked, answer) for asked, given in said.answers.items() for answer in given)
        made = talk.summaries() if talk else [("rewrite", line) for line in said.rewrites]
        for step, q_hat in dict.fromkeys(made):
            pairs = said.pairs_of.get(q_hat, everything)
            found = additions(q_hat, queries.blurred, queries.fused, pairs, self._book.vocabulary)
            self.n_rewrites += 1
            self.n_unsupported += any(addition.level == "unsupported" for addition in found)
            for addition in found:
                problem = (
                    "q-hat holds what only q* has and nobody elicited: a leak, or a lucky guess"
                    if addition.level == "leak"
                    else "q-hat holds a constraint that no answer elicited"
                )
                yield Finding(addition.level, self._id, step, problem, addition.text)

    def _result(self, talk: Talk | None, said: Dialogue, queries: Queries) -> Iterator[Finding]:
        """Whether the result is that of the steps, and none of its steps is missing."""
        line = self._line
        if line is None:
            return
        for name, query in (("fused_query", queries.fused), ("blurred_query", queries.blurred)):
            if line.get(name) != query:
                yield self._finding("provenance", f"its result's {name} is not that of the data")
        if failed(line):
            if not self._records and (step := self._failed_later(line)):
                yield self._finding("missing", f"it failed at {step}, but no step before that is on record")
            return
        steps = {str(record["step"]) for record in self._records if record.get("ok")}
        if lacking := [step for step in self._wanted(line) if step not in steps]:
            yield self._finding("missing", f"it has a result, but not these steps: {', '.join(lacking)}")
        elif not (follows(talk, line) if talk else self._follows(line, said, queries)):
            yield self._finding("provenance", "its result is not what its steps remember")

    def _failed_later(self, line: Line) -> str:
        """The step that it failed at, where others must have come before; "" where that was the first, or is unknown."""
        error = line["error"]
        step = str(error.get("step") or "") if isinstance(error, dict) else ""
        first = ("clarify", "clarify/1") if self._book.kind == "clarify" else ("search/turn/1",)
        return "" if step in first else step

    def _wanted(self, line: Line) -> list[str]:
        searched = ["search/turn/1"] * self._book.searches
        if self._book.kind != "clarify":
            return searched
        if self._book.scheme is not None:
            return [*self._book.scheme.wanted(answered=bool(line.get("answers"))), *searched]
        answers = [f"answer/{turn}" for turn in range(1, self._book.k + 1)]
        return ["clarify", *answers, "rewrite", *searched]

    def _follows(self, line: Line, said: Dialogue, queries: Queries) -> bool:
        """Whether questions, answers and rewritten query are remembered ones."""
        questions, answers = line.get("questions") or [], line.get("answers") or []
        if not (isinstance(questions, list) and isinstance(answers, list)):
            return False
        if self._book.kind != "clarify":
            searched = queries.blurred if self._book.kind == "orig" else queries.fused
            return not questions and not answers and line.get("rewritten_query") == searched
        return (
            tuple(questions) in said.questions
            and len(answers) == len(questions)
            and all(a in said.answers.get(q, ()) for q, a in zip(questions, answers, strict=True))
            and line.get("rewritten_query") in said.rewrites
        )

    def _finding(self, level: Level, problem: str) -> Finding:
        return Finding(level, self._id, "results", problem)


# --- Run


@dataclass(frozen=True, slots=True)
class Audit:
    """One run's audit. An instance is held if nothing violates the closed book in any of its steps."""

    directory: Path
    label: str
    n_instances: int
    """Instances with steps or results; those still to come are not among them."""
    n_held: int
    n_requests: int
    """Requests to the Clarifier, the User Answerer, the Rewriter and the agent that were checked."""
    n_rewrites: int
    n_unsupported: int
    """Rewritten queries with an unsupported constraint."""
    findings: Sequence[Finding]
    notes: Sequence[str]
    """What a person should know about the evidence: damaged lines, data that was not there."""

    @property
    def held(self) -> bool:
        """Whether the closed book was proved for the run and each of its instances."""
        return not any(finding.violates for finding in self.findings)

    @property
    def n_leaks(self) -> int:
        return sum(finding.level == "leak" for finding in self.findings)

    def verdict(self) -> str:
        """One line: `closed book: held for 518/518 instances; 0 leaks; unsupported constraints in 7 ...`."""
        proof = "held" if self.held else "NOT held: proved"
        parts = [
            f"closed book: {proof} for {self.n_held}/{self.n_instances} instances",
            f"{self.n_leaks} leak{'s' * (self.n_leaks != 1)}",
        ]
        if self.n_rewrites:
            share = 100 * self.n_unsupported / self.n_rewrites
            parts.append(f"unsupported constraints in {self.n_unsupported} rewrites ({share:.1f} %)")
        return "; ".join(parts)


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
    if n := unmerged(steps.path):
        lie = "1 part of the journal lies" if n == 1 else f"{n} parts of the journal lie"
        yield f"{steps.path.parent / SHARDS}: {lie} there unmerged and not audited: resume the run first"
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
