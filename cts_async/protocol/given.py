"""Questions or rewritten queries that a file or an earlier run gives, in the place of models.

    --questions    the Clarifier's: the same questions for every User Answerer and Rewriter (paper, table 11)
    --rewrites     the query to search: nothing is asked, answered or rewritten

Each instance gets the texts of the row with its id, else with its intent, else (questions only, of rows that have
neither) with its underspecified query. What a run may search or ask is fixed by the file's sha256, which belongs to the
run's identity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from cts_async.config import RunConfig
from cts_async.datasets import normalise, sha256_of
from cts_async.datasets.candidates import GivenField, GivenRow, read_given
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.engine.runner import Context
from cts_async.errors import InputError, UsageError
from cts_async.protocol.views import ClarifierView
from cts_async.records import Instance
from cts_async.runs.files import MANIFEST, RESULTS, matching
from cts_async.runs.manifest import Manifest, require_manifest

GivenKind = Literal["questions", "rewrites"]
_FIELDS: Final[Mapping[GivenKind, GivenField]] = {"questions": "questions", "rewrites": "rewritten_query"}


@dataclass(frozen=True, slots=True)
class Given:
    """The texts of one source by instance id; for questions, a Clarifier."""

    kind: GivenKind
    label: str
    """Who made them: the file's stem or the run's system, of questions without its -kN."""
    source: Path
    """The file or run directory, as the user named it."""
    sha256: str
    texts: Mapping[str, tuple[str, ...]] = field(repr=False, default_factory=dict)

    @property
    def identity(self) -> dict[str, str]:
        """What determines them: two runs of one name must agree on it."""
        return {"given": self.kind, "name": self.label, "sha256": self.sha256}

    @property
    def note(self) -> dict[str, str]:
        """Where they were read, for the manifest; the audit reads them again there."""
        return {"kind": self.kind, "source": str(self.source), "sha256": self.sha256}

    async def clarify(self, ctx: Context, view: ClarifierView) -> tuple[str, ...]:
        """The first `view.k` questions of the instance of `ctx`."""
        return self.texts[ctx.job.id][: view.k]


class GivenRows:
    """The rows of a source, found by the instance that they are for."""

    def __init__(self, source: Path, kind: GivenKind, fields: Mapping[str, str] | None = None) -> None:
        """Read the source. Raises InputError."""
        if not source.exists():
            raise InputError(source, "no such file or run; check the path (runs: cts status)")
        self.kind, self.source, self.file, self.is_run = kind, source, source, source.is_dir()
        if self.is_run:
            self.file = source / RESULTS
            _check_asked(source, kind)
        self.sha256 = sha256_of(self.file)
        rows = read_given(self.file, _FIELDS[kind], fields, latest=self.is_run)
        self._by_id = {row.id: row for row in rows if row.id}
        self._by_intent = {normalise(row.intent): row for row in rows if row.intent}
        self._by_query = {normalise(row.query): row for row in rows if not (row.id or row.intent)}

    def find(self, id: str, fused_query: str, blurred_query: str) -> GivenRow | None:
        """The row of an instance. InputError where its id has another intent here."""
        intent = normalise(fused_query)
        row = self._by_id.get(id)
        if row is not None and row.intent and normalise(row.intent) != intent:
            problem = f"{id!r} has another fused_query in the data: are they the same data?"
            raise InputError(self.file, problem, line=row.line, field="fused_query")
        by_query = self._by_query.get(normalise(blurred_query)) if self.kind == "questions" else None
        return row or self._by_intent.get(intent) or by_query

    def texts_of(self, instances: Iterator[Instance], n: int) -> dict[str, tuple[str, ...]]:
        """The first `n` texts of each instance, by id. InputError for an instance with fewer, or with none."""
        found: dict[str, tuple[str, ...]] = {}
        n_instances, missing, before = 0, "", 0
        for n_instances, instance in enumerate(instances, 1):
            row = self.find(instance.id, instance.intent, instance.query)
            if row is not None:
                found[instance.id] = self._usable(row, instance.id, n)
            elif not missing:
                missing, before = instance.id, n_instances - 1
        if missing:
            lacking = n_instances - len(found)
            what = "questions" if self.kind == "questions" else "rewritten query"
            advice = (
                f"--limit {before} takes only those before it"
                if before
                else "rows are joined by id, fused_query or (questions) blurred_query"
            )
            problem = f"no {what} for {lacking} of {n_instances} instances (first: {missing!r})"
            raise InputError(self.file, f"{problem}; {advice}", field=_FIELDS[self.kind])
        return found

    def _usable(self, row: GivenRow, id: str, n: int) -> tuple[str, ...]:
        problem = row.problem
        if problem and self.is_run:
            problem += "; that run's command with --retry-failed tries it again"
        elif not problem and len(row.texts) < n:
            problem = (
                f"has {len(row.texts)} question{'s' * (len(row.texts) != 1)}, but -k is {n}"
                if self.kind == "questions"
                else "has no rewritten query"
            )
        if problem:
            raise InputError(self.file, f"{id!r}: {problem}", line=row.line, field=_FIELDS[self.kind])
        return row.texts[:n]


def _check_asked(run: Path, kind: GivenKind) -> None:
    """Raise InputError unless a directory is a run that has such texts, made as the protocol makes them."""
    manifest = require_manifest(run)
    identity = manifest.identity
    if manifest.is_conversation:
        raise InputError(run, f"a run of cts converse has none: make {kind} with cts run --stop-after")
    if kind == "questions" and identity.system in ("orig", "gold"):
        raise InputError(run, f"a run of {identity.system} asked no questions")
    if kind == "questions" and identity.mode not in ("", "at-once"):
        problem = (
            "its questions were asked turn by turn, each after the answers before it: they cannot be fixed"
        )
        raise InputError(run, problem)


def as_given(identity: object) -> Mapping[str, Any]:
    """A manifest's identity of given texts; {} for anything else, such as that of a model."""
    return identity if isinstance(identity, dict) and "given" in identity else {}


def given_again(manifest: Manifest) -> GivenRows | None:
    """The rows that a run was given, read again where its manifest says; None for a run without.

    Raises InputError if they cannot be read, or are not those of the run any more.
    """
    rewrites = as_given(manifest.identity.rewrites)
    known = rewrites or as_given(manifest.identity.models.get("clarifier"))
    if not known:
        return None
    kind: GivenKind = "rewrites" if rewrites else "questions"
    if not manifest.given.source:
        raise InputError(MANIFEST, "does not say where they are", field="given")
    source = Path(manifest.given.source.replace("\0", ""))
    file = source / RESULTS if source.is_dir() else source
    if sha256_of(file) != known.get("sha256"):
        raise InputError(file, "not the file this run was made with (its sha256 differs)")
    return GivenRows(source, kind, manifest.data.fields)


# --- The given texts of a command


def with_given(config: RunConfig) -> tuple[RunConfig, dict[str, GivenRows]]:
    """The configuration without Clarifiers of its own, and the rows of every source of given texts by its label.

    Raises UsageError where options contradict each other, InputError for a source that cannot be read.
    """
    _check_options(config)
    kind: GivenKind = "questions" if config.given_questions else "rewrites"
    rows: dict[str, GivenRows] = {}
    for source in _sources(config.given_questions or config.given_rewrites):
        read = GivenRows(source, kind, config.fields)
        label = _label(source, kind)
        if label in rows:
            raise UsageError(
                f"--{kind}: {rows[label].source} and {source} are both called {label}: "
                "run them one by one, with --name"
            )
        rows[label] = read
    return replace(config, models=()) if rows else config, rows


def bound(
    config: RunConfig, rows: Mapping[str, GivenRows], instances: Callable[[], Iterator[Instance]]
) -> dict[str, Given]:
    """The given texts of the instances, by label. InputError for an instance that has none, or too few."""
    n = max(config.ks) if config.given_questions else 1
    return {
        label: Given(read.kind, label, read.source, read.sha256, read.texts_of(instances(), n))
        for label, read in rows.items()
    }


def _sources(words: Iterable[Path]) -> Iterator[Path]:
    """The files and runs that were named: directly, by a pattern, or by a folder of .csv and .jsonl files."""
    for path in (path for word in words for path in matching(word) or [Path(word)]):
        files = sorted(path.iterdir()) if path.is_dir() and not (path / MANIFEST).exists() else []
        yield from [file for file in files if file.suffix.lower() in (*CSV_SUFFIXES, *JSONL_SUFFIXES)] or [
            path
        ]


def _label(source: Path, kind: GivenKind) -> str:
    name = source.stem
    if source.is_dir():
        name = require_manifest(source).identity.system
    if kind == "questions":  # the system has its own -kN
        name = re.sub(r"[-_]k\d+$", "", name)
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or kind


def _check_options(config: RunConfig) -> None:
    """Raise UsageError for options that contradict given texts, or the stage that the run ends after."""
    given = "--questions" if config.given_questions else "--rewrites" if config.given_rewrites else ""
    stop = f"--stop-after {config.stop_after}" if config.stop_after else ""
    own = config.models not in (("local",), (config.every_role,))
    problems = (
        (
            config.given_questions and config.given_rewrites,
            "--questions and --rewrites: cannot be combined: rewritten queries need no questions; use one of them",
        ),
        (given and own, f"{given} replaces the Clarifier: omit --model {', '.join(config.models)}"),
        (
            (given or stop) and (set(config.schemes), set(config.modes)) != ({"cts"}, {"at-once"}),
            f"{given or stop}: works with questions asked at once only; omit --scheme and --mode"
            + " (cts converse holds conversations without a search)" * bool(stop),
        ),
        (config.given_rewrites and config.ks != (1,), "--rewrites asks no questions: omit -k"),
        (config.given_rewrites and config.answers, "--rewrites asks no questions: omit --answers"),
        (
            config.given_rewrites and stop,
            f"--rewrites starts with the search: omit {stop}",
        ),
        (
            config.given_questions and config.stop_after == "questions",
            f"--questions: nothing is left to do with {stop}; omit it, or stop after answers or rewrite",
        ),
        (
            stop and "gold" in config.references,
            f"--gold-query: {stop} ends before the search; use one of them",
        ),
    )
    for wrong, problem in problems:
        if wrong:
            raise UsageError(problem)
