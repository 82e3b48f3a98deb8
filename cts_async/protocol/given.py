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
    """The file or run directory, as the user typed it."""
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
        self.kind, self.source, self.is_run = kind, source, source.is_dir()
        if self.is_run:
            self.file = source / RESULTS
            _check_run_has(source, kind)
        else:
            self.file = source
        self.sha256 = sha256_of(self.file)
        rows = read_given(self.file, _FIELDS[kind], fields, latest=self.is_run)
        self._by_id: dict[str, GivenRow] = {}
        self._by_intent: dict[str, GivenRow] = {}
        self._by_query: dict[str, GivenRow] = {}
        for row in rows:
            if row.id:
                self._by_id[row.id] = row
            if row.intent:
                self._by_intent[normalise(row.intent)] = row
            # A row that names its instance is for no other one with the same underspecified query.
            if not (row.id or row.intent):
                self._by_query[normalise(row.query)] = row

    def find(self, id: str, intent: str, query: str) -> GivenRow | None:
        """The row of an instance. InputError where its id has another intent here."""
        intent = normalise(intent)
        row = self._by_id.get(id)
        if row is not None:
            if row.intent and normalise(row.intent) != intent:
                problem = f"{id!r} has another fused_query in the data: are they the same data?"
                raise InputError(self.file, problem, line=row.line, field="fused_query")
            return row
        row = self._by_intent.get(intent)
        # Intents with the same query may be asked the same questions, but a rewritten query belongs to one intent.
        if row is None and self.kind == "questions":
            row = self._by_query.get(normalise(query))
        return row

    def texts_of(self, instances: Iterator[Instance], n: int) -> dict[str, tuple[str, ...]]:
        """The first `n` texts of each instance, by id. InputError for an instance with fewer, or with none."""
        texts: dict[str, tuple[str, ...]] = {}
        n_instances, first_missing, n_before_it = 0, "", 0
        for instance in instances:
            row = self.find(instance.id, instance.intent, instance.query)
            if row is not None:
                texts[instance.id] = self._usable_texts(row, instance.id, n)
            elif not first_missing:
                first_missing, n_before_it = instance.id, n_instances
            n_instances += 1
        if not first_missing:
            return texts
        texts_lacking = "questions" if self.kind == "questions" else "rewritten query"
        problem = (
            f"no {texts_lacking} for {n_instances - len(texts)} of {n_instances} instances "
            f"(first: {first_missing!r})"
        )
        if n_before_it:
            advice = f"--limit {n_before_it} takes only those before it"
        else:
            advice = "rows are joined by id, fused_query or (questions) blurred_query"
        raise InputError(self.file, f"{problem}; {advice}", field=_FIELDS[self.kind])

    def _usable_texts(self, row: GivenRow, id: str, n: int) -> tuple[str, ...]:
        """The first `n` texts of the row of the instance `id`. Raises InputError where it has fewer."""
        problem, n_texts = row.problem, len(row.texts)
        if problem and self.is_run:
            problem += "; that run's command with --retry-failed tries it again"
        elif not problem and n_texts < n:
            problem = "has no rewritten query"
            if self.kind == "questions":
                plural = "" if n_texts == 1 else "s"
                problem = f"has {n_texts} question{plural}, but -k is {n}"
        if problem:
            raise InputError(self.file, f"{id!r}: {problem}", line=row.line, field=_FIELDS[self.kind])
        return row.texts[:n]


def _check_run_has(run: Path, kind: GivenKind) -> None:
    """Raise InputError unless a directory is a run that has such texts, made as the protocol makes them."""
    manifest = require_manifest(run)
    identity = manifest.identity
    if manifest.is_conversation:
        raise InputError(run, f"a run of cts converse has none: make {kind} with cts run --stop-after")
    if kind == "rewrites":
        return
    if identity.system in ("orig", "gold"):
        raise InputError(run, f"a run of {identity.system} asked no questions")
    if identity.mode not in ("", "at-once"):
        problem = (
            "its questions were asked turn by turn, each after the answers before it: they cannot be fixed"
        )
        raise InputError(run, problem)


def as_given(identity: object) -> Mapping[str, Any]:
    """A manifest's identity of given texts; {} for anything else, such as that of a model."""
    if isinstance(identity, dict) and "given" in identity:
        return identity
    return {}


def given_again(manifest: Manifest) -> GivenRows | None:
    """The rows that a run was given, read again where its manifest says; None for a run without.

    Raises InputError if they cannot be read, or are not those of the run any more.
    """
    kind: GivenKind = "rewrites"
    given_identity = as_given(manifest.identity.rewrites)
    if not given_identity:
        kind = "questions"
        given_identity = as_given(manifest.identity.models.get("clarifier"))
    if not given_identity:
        return None
    if not manifest.given.source:
        raise InputError(MANIFEST, "does not say where they are", field="given")
    # A manifest may be anybody's, and a NUL in a path is a ValueError of Python's instead of "no such file".
    source = Path(manifest.given.source.replace("\0", ""))
    file = source / RESULTS if source.is_dir() else source
    if sha256_of(file) != given_identity.get("sha256"):
        raise InputError(file, "not the file this run was made with (its sha256 differs)")
    return GivenRows(source, kind, manifest.data.fields)


# --- The given texts of a command


def with_given(config: RunConfig) -> tuple[RunConfig, dict[str, GivenRows]]:
    """The configuration without Clarifiers of its own, and the rows of every source of given texts by its label.

    Raises UsageError where options contradict each other, InputError for a source that cannot be read.
    """
    _check_options(config)
    kind: GivenKind = "questions" if config.given_questions else "rewrites"
    rows_by_label: dict[str, GivenRows] = {}
    for source in _sources(config.given_questions or config.given_rewrites):
        rows = GivenRows(source, kind, config.fields)
        label = _label(source, kind)
        if label in rows_by_label:
            raise UsageError(
                f"--{kind}: {rows_by_label[label].source} and {source} are both called {label}: "
                "run them one by one, with --name"
            )
        rows_by_label[label] = rows
    if rows_by_label:
        config = replace(config, models=())
    return config, rows_by_label


def given_texts(
    config: RunConfig, rows_by_label: Mapping[str, GivenRows], instances: Callable[[], Iterator[Instance]]
) -> dict[str, Given]:
    """The given texts of the instances, by label. InputError for an instance that has none, or too few."""
    # Systems with other budgets of questions share one source: each takes as many of its texts as it may ask.
    n = max(config.ks) if config.given_questions else 1
    texts = {}
    for label, rows in rows_by_label.items():
        texts[label] = Given(rows.kind, label, rows.source, rows.sha256, rows.texts_of(instances(), n))
    return texts


def _sources(words: Iterable[Path]) -> Iterator[Path]:
    """The files and runs that were named: directly, by a pattern, or by a folder of .csv and .jsonl files."""
    for word in words:
        for path in matching(word) or [Path(word)]:
            files = []
            if path.is_dir() and not (path / MANIFEST).exists():
                suffixes = CSV_SUFFIXES + JSONL_SUFFIXES
                files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in suffixes]
            # A folder without such files is named itself by the error that reading it raises.
            yield from files or [path]


def _label(source: Path, kind: GivenKind) -> str:
    name = source.stem
    if source.is_dir():
        name = require_manifest(source).identity.system
    if kind == "questions":  # the system has its own -kN
        name = re.sub(r"[-_]k\d+$", "", name)
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or kind


def _check_options(config: RunConfig) -> None:
    """Raise UsageError for options that contradict given texts, or the stage that the run ends after."""
    option = stop_option = ""
    if config.given_questions:
        option = "--questions"
    elif config.given_rewrites:
        option = "--rewrites"
    if config.stop_after:
        stop_option = f"--stop-after {config.stop_after}"
    if config.given_questions and config.given_rewrites:
        raise UsageError(
            "--questions and --rewrites: cannot be combined: rewritten queries need no questions; use one of them"
        )
    # Nobody typed a Clarifier where it is the default, or the model of --all, which plays the other roles.
    if option and config.models not in (("local",), (config.every_role,)):
        raise UsageError(f"{option} replaces the Clarifier: omit --model {', '.join(config.models)}")
    asks_at_once = set(config.schemes) == {"cts"} and set(config.modes) == {"at-once"}
    if (option or stop_option) and not asks_at_once:
        problem = (
            f"{option or stop_option}: works with questions asked at once only; omit --scheme and --mode"
        )
        if stop_option:
            problem += " (cts converse holds conversations without a search)"
        raise UsageError(problem)
    if config.given_rewrites:
        if config.ks != (1,):
            raise UsageError("--rewrites asks no questions: omit -k")
        if config.answers:
            raise UsageError("--rewrites asks no questions: omit --answers")
        if stop_option:
            raise UsageError(f"--rewrites starts with the search: omit {stop_option}")
    if config.given_questions and config.stop_after == "questions":
        raise UsageError(
            f"--questions: nothing is left to do with {stop_option}; omit it, or stop after answers or rewrite"
        )
    if stop_option and "gold" in config.references:
        raise UsageError(f"--gold-query: {stop_option} ends before the search; use one of them")
