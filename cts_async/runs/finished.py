"""Finished runs as analyses read them: what was asked, answered, rewritten and judged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from cts_async import scorer
from cts_async.errors import InputError
from cts_async.foreign_json import as_text
from cts_async.llm.further import further_of
from cts_async.records import UNKNOWN, Caveat, Coverage, Failure, is_one_line
from cts_async.runs import files
from cts_async.runs.manifest import DataIdentity, Manifest, named_system, require_manifest
from cts_async.runs.recovery import asked_in_journal, lost_answers, lost_judging, lost_judging_note
from cts_async.runs.results import (
    Contradiction,
    Line,
    about_same,
    answered,
    checked_results,
    contradiction_note,
    contradicts,
    failed,
    judged_fingerprint,
    score_of,
    stated_confidence,
)
from cts_async.runs.selection import RunPath, join_first
from cts_async.runs.settings import setting_of
from cts_async.runs.versions import version_of

UNNAMED: Final = "unnamed"
"""The judge of lines that name none, if the manifest names none either."""
NOT_FOR_SCORES: Final = frozenset(
    {"blurred_query", "questions", "answers", "rewritten_query", "answer", "further"}
)
"""Texts that scores do not need."""
NOT_FOR_QUESTIONS: Final = frozenset({"rewritten_query", "answer", "further"})
"""Texts that statistics of questions and answers do not need."""


@dataclass(frozen=True, slots=True)
class JudgedLabels:
    """One judge's labels for one answer, and the score they make (0..100)."""

    score: float
    coverage: Mapping[str, Coverage]
    """Label by nugget id, in the order of the gold."""
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Item:
    """One finished instance of one run; `answers[i]` belongs to `questions[i]`, both are empty for orig.

    Only a run that stopped after the questions has questions without answers.
    """

    id: str
    intent: str = ""
    query: str = ""
    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    rewritten_query: str = ""
    answer: str = ""
    verdicts: Mapping[str, JudgedLabels] = field(default_factory=dict)
    """By judge, without the judges that failed on this answer."""
    unjudged: Mapping[str, Failure] = field(default_factory=dict)
    """By judge that failed on this answer: why."""
    answer_mark: int = 0
    """Equal for equal queries with equal answers (`protocol.results.judged_fingerprint`); 0: not known."""
    further: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, what its reply had beyond its form, by name."""
    confidence: float | None = None
    """How sure the agent said it is of the answer, 0 to 100; None if it was not asked, or did not say."""
    domain: str = ""
    """The field of knowledge that the data name; "" where they name none."""

    @property
    def unknown(self) -> tuple[bool, ...]:
        """For each answer, whether the User Answerer said `unknown`."""
        return tuple(answer == UNKNOWN for answer in self.answers)


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An instance that failed for good, without an answer; it has no score.

    What was made before the failure is known: questions and answers if all questions were answered, else the questions
    alone; nothing if it failed while it was asked.
    """

    id: str
    failure: Failure
    intent: str = ""
    query: str = ""
    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    rewritten_query: str = ""
    further: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    domain: str = ""
    """As in Item."""

    @property
    def unknown(self) -> tuple[bool, ...]:
        """For each answer, whether the User Answerer said `unknown`."""
        return tuple(answer == UNKNOWN for answer in self.answers)


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run directory in memory. `players` are model names by role: clarifier, support, agent, judge NAME."""

    directory: Path
    system: str
    """Its name in its manifest."""
    label: str
    """Its name among other runs: distinct there, see `with_distinct_labels`."""
    judges: tuple[str, ...]
    """The scoring judge first; empty for a run without judging."""
    n_done: int
    n_failed: int
    n_expected: int
    items: Mapping[str, Item] = field(default_factory=dict, repr=False)
    """By id, in the order of the ids, so that sums and resamples do not depend on what finished first."""
    failures: Mapping[str, FailedItem] = field(default_factory=dict, repr=False)
    """By id, in the order of the ids."""
    clarifier: str = ""
    """The model that asked, with its scheme and mode if these are not the benchmark's (`gpt-at-cot-respond`): the same
    model prompted otherwise is another Clarifier. Empty for the reference points."""
    k: int = 0
    players: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    """Model ids by role, as far as the manifest has them."""
    data: DataIdentity = field(default_factory=DataIdentity)
    """Name of the data, sha256 of its file and of its gold."""
    caveat: Caveat = ""
    scoring: str = ""
    """The judge whose labels are the run's score, which may have labelled nothing yet; "" without judging."""
    judge_failures: Mapping[str, int] = field(default_factory=dict)
    """Answers that a judge failed to label; they are not among `n_failed`, whatever judge it is."""
    remarks: tuple[str, ...] = ()
    """Facts about its files that a reader of its scores has to know."""
    contradictions: tuple[str, ...] = ()
    """A sentence on each file with stored scores that are not those of their labels; the latter are its scores."""
    mode: str = "at-once"
    """How the Clarifier interacts with the user."""
    talk: bool = False
    """Conversations only (`cts converse`): nothing was searched, and questions of mode at-once have no answers."""
    n_absent: int = 0
    """Instances that judged candidates have no answer for: expected, but nothing is missing for them."""
    stop_after: str = ""
    """The stage that a run without search and judges ended with; "" for all other runs."""
    as_published: bool = False
    """True if the paper's protocol was played to the letter."""
    agent_mode: str = ""
    """The mode in which its agent searched, or the switches that were on by themselves; "" where none is known."""
    people_answered: bool = False
    """True if people's recorded answers (`--answers`) stood for the User Answerer's."""
    shares_sampled: bool = False
    """True if sampled steps were taken from runs of other systems (`--share-sampled`)."""
    max_asks: int = 0
    """Questions that the agent may put to the user during its search; 0: it cannot ask."""
    replies: str = ""
    """The form of the user's replies to these: "open" or "yes-no"; "" if the agent cannot ask."""
    inject_at: float | None = None
    """The share of its turns after which the agent was given answers of before the search; None: they were not given."""
    asks_confidence: bool = False
    """True if the agent was asked how sure it is of its answers."""
    series: str = ""
    """The name that its versions have in common (see `runs.versions`); "" for files of judged answers."""
    version: int = 1
    last_worked_on: str = ""
    """When its last session began, as an ISO text of UTC; "" if unknown."""

    @property
    def recency(self) -> tuple[str, int, str]:
        """Of several runs the newest has the greatest: the last one that a command worked on."""
        return self.last_worked_on, self.version, self.series

    @property
    def support(self) -> str:
        """Who answered and rewrote: the supporting model, or "A/B" where two play the roles; "" if nobody did."""
        names = [self.players.get(role, "") for role in ("support", "answerer", "rewriter")]
        return "/".join(dict.fromkeys(filter(None, names)))

    @property
    def searched(self) -> bool:
        """Whether its instances were searched: without a search there are no answers to score."""
        return not (self.talk or self.stop_after)

    @property
    def asks_anew(self) -> bool:
        """Whether the user was asked during the search, or what was asked before it was used in another way.

        Beside such a run stands the one that it is to be compared with, whose questions are the same.
        """
        return self.max_asks > 0 or self.inject_at is not None

    @property
    def unanswered(self) -> str:
        """Why the run has no answers of a user; "" if it has, or if it asked nothing."""
        if self.mode == "select":
            return "its user chose among queries and answered no questions"
        if self.stop_after == "questions" or (self.talk and self.mode == "at-once"):
            return "no user answered its questions"
        return ""

    @property
    def n_missing(self) -> int:
        """Instances without a line yet."""
        return max(0, self.n_expected - self.n_absent - self.n_done - self.n_failed)

    @property
    def progress(self) -> str:
        return f"{self.n_done + self.n_failed} of {self.n_expected - self.n_absent} instances"

    @property
    def answered_items(self) -> Iterator[Item | FailedItem]:
        """The instances of which every question was answered, in the order of the ids, whatever failed later."""
        for _, item in self.outcomes():
            if isinstance(item, Item) or item.answers:
                yield item

    def n_failed_under(self, judge: str) -> int:
        """Failed answers of a judge; an instance without an answer counts as failed under every judge."""
        return self.n_failed + self.judge_failures.get(judge, 0)

    def outcomes(self) -> Iterator[tuple[str, Item | FailedItem]]:
        """Yield the finished and the failed instances by id, in the order of the ids."""
        for id in sorted(self.items.keys() | self.failures.keys()):
            yield id, self.items.get(id) or self.failures[id]

    def scores(self, judge: str) -> dict[str, float]:
        """`restore_score_100` by id of the instances that this judge has labelled."""
        scores: dict[str, float] = {}
        for id, item in self.items.items():
            if judge in item.verdicts:
                scores[id] = item.verdicts[judge].score
        return scores


def newest_run(runs: Iterable[FinishedRun]) -> FinishedRun:
    """The run that a command last worked on; the path decides where that is unknown, whatever the order of words."""
    return max(runs, key=lambda run: (run.recency, run.directory))


def with_distinct_labels(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Rename runs of equal labels, from the shortest name to the one that no other run has.

    Different series by their marks (`gpt-k1+support-kimi`) or their names, versions of one series by their numbers
    (`gpt-k1.v1`, `gpt-k1.v2`), and whatever is still alike by its directory's name or path.
    """
    labelled = list(runs)
    for longer_label in (_marked_label, _series_name):
        series: dict[str, set[tuple[Path, str]]] = defaultdict(set)
        for run in labelled:
            series[run.label].add((run.directory.parent, _series_name(run)))
        for place, run in enumerate(labelled):
            if len(series[run.label]) > 1:
                labelled[place] = replace(run, label=longer_label(run))
    for longer_label in (_version_name, _directory_name, _directory_path):
        n_runs = Counter(run.label for run in labelled)
        for place, run in enumerate(labelled):
            if n_runs[run.label] > 1:
                labelled[place] = replace(run, label=longer_label(run))
    return labelled


def _marked_label(run: FinishedRun) -> str:
    _, plus, mark = _series_name(run).partition("+")
    return run.label + plus + mark


def _series_name(run: FinishedRun) -> str:
    return run.series or run.directory.name


def _version_name(run: FinishedRun) -> str:
    return f"{run.label}.v{run.version}"


def _directory_name(run: FinishedRun) -> str:
    return run.directory.name


def _directory_path(run: FinishedRun) -> str:
    return str(run.directory)


def read_runs(
    runs: Sequence[RunPath], on_note: Callable[[str], None], *, without: Collection[str] = NOT_FOR_SCORES
) -> Iterator[FinishedRun]:
    """Read runs one by one; a damaged one in a folder is left out and reported to `on_note`.

    Raises the InputError of a damaged run that was named itself, and the first one if no run can be read.
    """
    errors: list[InputError] = []
    for run in runs:
        try:
            yield read_path(run.path, without=without)
        except InputError as error:
            if run.named:
                raise
            errors.append(error)
            on_note(f"Left out: {error}.")
    if errors and len(errors) == len(runs):
        raise errors[0]


def read_path(path: Path, *, without: Collection[str] = NOT_FOR_SCORES) -> FinishedRun:
    """Read a run directory, a directory of judged answers without a manifest, or a judged file."""
    if path.is_file():
        return read_judged(path)
    if (path / files.MANIFEST).is_file():
        return read_run(path, without=without)
    return read_judged(path / files.results_of(path))


# A run directory, or one that `cts judge --out` made


def read_run(directory: Path, *, without: Collection[str] = ()) -> FinishedRun:
    """Read a run directory, or one that `cts judge --out` made, one line at a time.

    Texts of `Item` that are named in `without` are left empty, which saves most of the memory. Raises InputError
    if the directory is not a run.
    """
    manifest = require_manifest(directory)
    identity = manifest.identity
    judge = manifest.judge or UNNAMED
    path = directory / files.results_of(directory)
    lines = _LineCollector(path, judge, without, changeable=manifest.is_judged)
    for line in checked_results(path):
        lines.add(line)
    for path in sorted((directory / files.JUDGMENTS).glob("*.jsonl")):
        lines.add_judgments(path)
    lines.add_asked(directory / files.STEPS)
    system, k = manifest.system, identity.k or 0
    # Files of candidates have no other record of their budget than their name.
    if manifest.is_judged:
        system, k = named_system(system)
    version = version_of(manifest)
    items = lines.items()
    judges = lines.judges()
    scoring = manifest.judge
    if not scoring and judges:
        # A manifest may not name the judge, as that of judged candidates: then the lines do.
        scoring = judges[0]
    return FinishedRun(
        directory=directory,
        system=system,
        label=system,
        judges=judges,
        n_done=len(items),
        n_failed=len(lines.failed),
        n_expected=max(manifest.n_expected, len(items) + len(lines.failed)),
        items=items,
        failures={id: lines.failed[id] for id in sorted(lines.failed)},
        clarifier=_clarifier_name(manifest),
        k=k,
        players={role: name for role, name in manifest.players.items() if name},
        models=identity.model_ids,
        data=identity.dataset,
        caveat=manifest.caveat,
        scoring=scoring,
        judge_failures=lines.judge_failures(),
        remarks=tuple(lines.lost_verdicts(manifest)),
        contradictions=tuple(lines.contradictions()),
        mode=identity.mode or "at-once",
        talk=manifest.is_conversation,
        n_absent=manifest.n_absent,
        stop_after=identity.stop_after,
        as_published=identity.as_published,
        agent_mode=setting_of(manifest).get("agent mode", ""),
        people_answered=identity.answers,
        shares_sampled=manifest.shares_sampled,
        max_asks=identity.max_asks,
        replies=as_text(identity.asks.get("replies")) or "",
        inject_at=identity.inject_at,
        asks_confidence=lines.asks_confidence,
        series=version.series,
        version=version.number,
        last_worked_on=version.last_worked_on,
    )


def _clarifier_name(manifest: Manifest) -> str:
    clarifier = manifest.players.get("clarifier")
    if not clarifier:
        return ""
    parts = [clarifier]
    if manifest.identity.scheme not in ("", "cts"):
        parts.append(manifest.identity.scheme)
    if manifest.identity.mode not in ("", "at-once"):
        parts.append(manifest.identity.mode)
    return "-".join(parts)


class _LineCollector:
    """Collects the lines of a run; the last line of an id counts."""

    def __init__(self, path: Path, judge: str, without: Collection[str], *, changeable: bool) -> None:
        self._path = path
        self._judge, self._without, self._changeable = judge, without, changeable
        self._marks: dict[str, int] = {}
        """Fingerprints of answers that may change under their ids (those of candidates)."""
        self._mappings: dict[Any, Mapping[str, Any]] = {}
        self._contradictions: dict[Path, dict[str, Contradiction]] = {}
        """By file and id: stored scores that are not those of their labels."""
        self._items: dict[str, Item] = {}
        self.failed: dict[str, FailedItem] = {}
        self.asks_confidence = False
        """Whether a line says how sure the agent is of its answer, or that it did not say."""
        self._lost_answers: set[str] = set()
        """Failed instances whose line lacks what they were asked and answered."""
        self._lost_judging: set[str] = set()
        """Failed instances whose line lacks their answer and labels, since one judge failed."""
        self.outcomes: dict[str, dict[str, JudgedLabels | Failure]] = {}
        """By judge and id, the scoring judge first; a Failure for an answer that the judge failed to label."""

    def add(self, line: Line) -> None:
        """Add a line of the results."""
        id, judge = line["id"], str(line.get("judge") or self._judge)
        for by_id in self.outcomes.values():
            by_id.pop(id, None)
        self._contradictions.get(self._path, {}).pop(id, None)
        self._lost_answers.discard(id)
        self._lost_judging.discard(id)
        # With an answer only the judge failed.
        if failed(line) and not answered(line):
            self._items.pop(id, None)
            self.failed[id] = _failed_item(line, self._without)
            if lost_answers(line):
                self._lost_answers.add(id)
            if lost_judging(line):
                self._lost_judging.add(id)
            return
        self.failed.pop(id, None)
        self._items[id] = _item(line, self._without)
        self.asks_confidence = self.asks_confidence or "confidence" in line
        # A run's own answers are recorded once; those of candidates may change under their ids.
        if self._changeable:
            self._marks[id] = judged_fingerprint(line)
        outcome = self._verdict(self._path, line)
        if outcome is not None:
            self.outcomes.setdefault(judge, {})[id] = outcome

    def add_judgments(self, path: Path) -> None:
        """Add a further judge's file. A verdict on another answer than the one recorded does not count."""
        # Lines name their judge in full; a file's name has no characters that file systems refuse.
        judge = path.stem
        outcomes: dict[str, JudgedLabels | Failure] = {}
        for line in checked_results(path):
            id = line["id"]
            judge = str(line.get("judge") or judge)
            outcomes.pop(id, None)
            self._contradictions.get(path, {}).pop(id, None)
            # After a crash there may be no recorded answer.
            if id not in self._items or not about_same(judged_fingerprint(line), self._marks.get(id, 0)):
                continue
            outcome = self._verdict(path, line)
            if outcome is not None:
                outcomes[id] = outcome
        if outcomes:
            self.outcomes.setdefault(judge, {}).update(outcomes)

    def add_asked(self, journal: Path) -> None:
        """Add from the journal what failed instances were asked and answered, where their lines lack it."""
        # A journal takes seconds to read: only for who needs the texts.
        if not {"questions", "answers"}.isdisjoint(self._without):
            return
        for id, exchange in asked_in_journal(journal, self._lost_answers).items():
            self.failed[id] = replace(self.failed[id], questions=exchange.questions, answers=exchange.answers)

    def lost_verdicts(self, manifest: Manifest) -> Iterator[str]:
        """Say which answers have no score because another judge failed on them, in version 0.11 or before."""
        if self._lost_judging:
            yield lost_judging_note(manifest.directory, sorted(self._lost_judging), manifest.command)

    def items(self) -> dict[str, Item]:
        """Return the items with their verdicts, in the order of their ids."""
        items: dict[str, Item] = {}
        for id in sorted(self._items):
            verdicts: dict[str, JudgedLabels] = {}
            unjudged: dict[str, Failure] = {}
            for judge, by_id in self.outcomes.items():
                outcome = by_id.get(id)
                if isinstance(outcome, JudgedLabels):
                    verdicts[judge] = outcome
                elif outcome is not None:
                    unjudged[judge] = outcome
            # Popped: a run of many items is not to be in memory twice.
            items[id] = replace(self._items.pop(id), verdicts=verdicts, unjudged=unjudged)
        return items

    def judges(self) -> tuple[str, ...]:
        """Return the judges that labelled any answer, the scoring judge first."""
        judges: list[str] = []
        for judge, by_id in self.outcomes.items():
            if any(isinstance(outcome, JudgedLabels) for outcome in by_id.values()):
                judges.append(judge)
        return tuple(judges)

    def judge_failures(self) -> dict[str, int]:
        """Count the answers that each judge failed to label."""
        n_failures: dict[str, int] = {}
        for judge, by_id in self.outcomes.items():
            n = sum(isinstance(outcome, Failure) for outcome in by_id.values())
            if n:
                n_failures[judge] = n
        return n_failures

    def _verdict(self, path: Path, line: Line) -> JudgedLabels | Failure | None:
        """What a line of a file says of its answer; None if it was not judged."""
        if failed(line):
            return _failure(line)
        score = score_of(line)
        if score is None:
            return None
        if contradicts(line, score):
            contradiction = Contradiction(line["id"], line["restore_score_100"], score)
            self._contradictions.setdefault(path, {})[line["id"]] = contradiction
        # A score without labels is of a judge elsewhere.
        nuggets = line.get("nuggets") or ()
        coverage = self._shared_mapping(tuple((nugget["id"], nugget["coverage"]) for nugget in nuggets))
        weights = self._shared_mapping(tuple((nugget["id"], float(nugget["weight"])) for nugget in nuggets))
        return JudgedLabels(score, coverage, weights)

    def contradictions(self) -> Iterator[str]:
        """Describe the stored scores of each file that are not those of their labels."""
        for path, by_id in self._contradictions.items():
            if by_id:
                yield contradiction_note(path, len(by_id), list(by_id.values()))

    def _shared_mapping(self, pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
        """Share one object among equal labels or weights: of many thousand answers few differ."""
        if pairs not in self._mappings:
            self._mappings[pairs] = dict(pairs)
        return self._mappings[pairs]


_FIELDS: Final = {
    "fused_query": "intent",
    "blurred_query": "query",
    "rewritten_query": "rewritten_query",
    "answer": "answer",
}
"""By key of a result line that holds a text: the name of `Item`'s field."""


def _item(line: Line, without: Collection[str]) -> Item:
    texts: dict[str, Any] = {}
    for key, field_name in _FIELDS.items():
        if key not in without:
            texts[field_name] = str(line.get(key) or "")
    for name in ("questions", "answers"):
        if name not in without:
            texts[name] = tuple(line.get(name) or ())
    if "further" in line and "further" not in without:
        texts["further"] = further_of(line)
    return Item(
        line["id"],
        **texts,
        answer_mark=judged_fingerprint(line),
        confidence=stated_confidence(line),
        domain=as_text(line.get("domain")) or "",
    )


def _failed_item(line: Line, without: Collection[str]) -> FailedItem:
    texts: dict[str, Any] = {}
    for key in ("fused_query", "blurred_query", "rewritten_query"):
        if key not in without:
            texts[_FIELDS[key]] = str(line.get(key) or "")
    for name in ("questions", "answers"):
        if name not in without:
            texts[name] = tuple(line.get(name) or ())
    if "further" in line and "further" not in without:
        texts["further"] = further_of(line)
    return FailedItem(line["id"], _failure(line), **texts, domain=as_text(line.get("domain")) or "")


def _failure(line: Mapping[str, Any]) -> Failure:
    error = line.get("error")
    if isinstance(error, str):
        return Failure("", "failed", error)
    if not isinstance(error, Mapping):
        return Failure("", "failed", "")
    step, kind, message = error.get("step"), error.get("kind"), error.get("message")
    return Failure(str(step or ""), str(kind or ""), str(message or ""))


# Judged answers that any program wrote: the release's per_item.jsonl, and whatever else `cts score` reads


def read_judged(path: Path) -> FinishedRun:
    """Read one file as a run; its scores are the scorer's, recomputed from its labels.

    The system is named after the file, or after its folder for a per_item.jsonl or results.jsonl; a name that ends in
    k1 to k9 gives the budget. Raises InputError with the line at fault.
    """
    reports: list[str] = []
    lines: dict[str, dict[str, Any]] = {}
    try:
        outcomes = scorer.read_outcomes(path, report=reports.append)
        # A table of scores has no texts, and no judge.
        if not scorer.is_csv(path):
            for _, line in scorer.read_records(path, lambda _: None):
                lines[scorer.item_name(line)] = line
    except scorer.BadInput as error:
        raise InputError(error.path, error.problem, line=error.line or None) from None
    scores: dict[str, float] = {}
    failures: dict[str, FailedItem] = {}
    for id in sorted(outcomes):
        outcome = outcomes[id]
        if outcome is scorer.Unscored.FAILED:
            line = dict(lines.get(id, {}))
            line["id"] = id
            failures[id] = _failed_item(line, ())
        elif not isinstance(outcome, scorer.Unscored):
            scores[id] = outcome
    judge = _first_judge(lines, scores)
    # It becomes a heading of tables and the name of a file.
    if not is_one_line(judge):
        raise InputError(path, f"{judge!r} has control characters or line breaks", field="judge")
    directory, name = path, path.stem
    if path.name in (files.PER_ITEM, files.RESULTS):
        directory, name = path.parent, path.parent.name
    system, k = named_system(name)
    judges: tuple[str, ...] = ()
    scoring = ""
    if scores:
        judges = (judge,)
        scoring = judge
    contradictions: tuple[str, ...] = ()
    if reports:
        contradictions = (f"Recomputed from the nuggets: {join_first(reports)}.",)
    return FinishedRun(
        directory=directory,
        system=system,
        label=system,
        judges=judges,
        scoring=scoring,
        n_done=len(scores),
        n_failed=len(failures),
        n_expected=len(outcomes),
        items={id: _judged_item(id, lines.get(id, {}), score, judge) for id, score in scores.items()},
        failures=failures,
        k=k,
        contradictions=contradictions,
    )


def _first_judge(lines: Mapping[str, Line], scores: Collection[str]) -> str:
    """Return the judge that scored lines name: the first by name, since lines have no order."""
    judges = [str(lines[id]["judge"]) for id in scores if lines.get(id, {}).get("judge")]
    return min(judges, default=UNNAMED)


def _judged_item(id: str, line: Mapping[str, Any], score: float, judge: str) -> Item:
    pairs = scorer.pairs_of(line)
    # The scorer has checked the labels.
    coverage = cast("Mapping[str, Coverage]", {name: label for name, (_, label) in pairs.items()})
    weights = {name: float(weight) for name, (weight, _) in pairs.items()}
    query = str(line.get("fused_query") or line.get("query") or "")
    # A file without queries: equal answers to different instances are not the same question to a judge.
    subject = dict(line)
    subject["fused_query"] = query or id
    mark = judged_fingerprint(subject)
    verdicts = {judge: JudgedLabels(score, coverage, weights)}
    return Item(id, query, verdicts=verdicts, answer_mark=mark)
