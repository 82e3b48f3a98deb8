"""Runs as analyses read them: found by what users name, and what was asked, answered, rewritten and judged."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from cts_async import scorer
from cts_async.errors import InputError, UsageError
from cts_async.records import UNKNOWN, Caveat, Coverage, Failure, is_one_line
from cts_async.runs import files
from cts_async.runs.manifest import DataIdentity, Manifest, manifest_of, named_system, require_manifest
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
)
from cts_async.runs.untrusted import further_of

ORIG: Final = "orig"
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
    people_answered: bool = False
    """True if people's recorded answers (`--answers`) stood for the User Answerer's."""

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
    def asked(self) -> Iterator[Item | FailedItem]:
        """The instances of which every question was answered, in the order of the ids, whatever failed later."""
        for _, item in self.outcomes():
            if isinstance(item, Item) or item.answers:
                yield item

    def n_failed_under(self, judge: str) -> int:
        """Failed answers of a judge; an instance without an answer counts as failed under every judge."""
        return self.n_failed + self.judge_failures.get(judge, 0)

    def outcomes(self) -> Iterator[tuple[str, Item | FailedItem]]:
        """Yield the finished and the failed instances by id, in the order of the ids."""
        for id in sorted({*self.items, *self.failures}):
            yield id, self.items.get(id) or self.failures[id]

    def scores(self, judge: str) -> dict[str, float]:
        """`restore_score_100` by id of the instances that this judge has labelled."""
        scores: dict[str, float] = {}
        for id, item in self.items.items():
            if judge in item.verdicts:
                scores[id] = item.verdicts[judge].score
        return scores


def with_distinct_labels(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Rename runs of equal labels: by the mark of the directory (`gpt-k1+support-kimi`), its name, or its path."""
    named = list(runs)
    for name in (
        lambda run: run.label + "".join(run.directory.name.partition("+")[1:]),
        lambda run: run.directory.name,
        lambda run: str(run.directory),
    ):
        times = Counter(run.label for run in named)
        named = [run if times[run.label] == 1 else replace(run, label=name(run)) for run in named]
    return named


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """Join the first of several texts, and say how many more there are."""
    joined = "; ".join(texts[:most])
    if len(texts) > most:
        joined += f"; and {len(texts) - most} more"
    return joined


# Runs by what users name: run directories, folders of them, patterns, and files of judged answers


@dataclass(frozen=True, slots=True)
class RunPath:
    """A run directory or a judged file, and whether it was named itself or found in a folder that was named."""

    path: Path
    named: bool


def find_runs(words: Sequence[str]) -> list[RunPath]:
    """Return the run directories and judged files that `words` name, each once, sorted by path.

    The order of `words` must not change a number. A folder that is not a run stands for the runs in it, a pattern for
    all that match. Built gold is left out if there is anything else. Raises InputError for a word that names nothing.
    """
    by_place: dict[Path, RunPath] = {}
    for path in files.paths_named(words, "no such run, folder or file; cts run and cts demo make runs"):
        inside: list[Path] = []
        if not path.is_file() and not _has_results(path):
            inside = _runs_inside(path)
        for directory in inside or [path]:
            place = directory.resolve()
            # Two words may name one run; by itself counts.
            named = not inside or (place in by_place and by_place[place].named)
            by_place[place] = RunPath(directory, named)
    wanted = set(files.without((run.path for run in by_place.values()), files.is_gold_build))
    runs = [by_place[place] for place in sorted(by_place)]
    return [run for run in runs if run.path in wanted]


def _runs_inside(folder: Path) -> list[Path]:
    # A manifest alone belongs to a run that has just begun, or stands above the directories of several candidates.
    folders = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    inside = [path for path in folders if _has_run_files(path)]
    if not inside and not _has_run_files(folder):
        where = f"here or one folder below (nor {files.PER_ITEM})"
        raise InputError(folder, f"not a run directory: {files.MANIFEST} not found, {where}")
    return inside


def _has_results(path: Path) -> bool:
    return (path / files.RESULTS).is_file() or (path / files.PER_ITEM).is_file()


def _has_run_files(path: Path) -> bool:
    return (path / files.MANIFEST).is_file() or _has_results(path)


def of_one_agent(runs: Sequence[RunPath], tell: Callable[[str], None]) -> list[RunPath]:
    """Return the runs to compare where a folder has several runs of orig, each by another agent.

    A difference to the orig of another agent would say more about the agents than about clarification. So the runs of
    the agent whose orig was worked on last are taken, with those that were named themselves or name no agent; the
    others are reported to `tell`.
    """
    agents = {run.path: _agent(run.path) for run in runs}
    by_age = sorted(runs, key=_last_begun)
    agents_of_orig: list[str] = []
    for run in by_age:
        agent = agents[run.path]
        if _is_orig(run.path) and agent not in agents_of_orig:
            agents_of_orig.append(agent)
    if len(agents_of_orig) < 2 or all(run.named for run in runs):
        return list(runs)
    newest = agents_of_orig[-1]
    taken: list[RunPath] = []
    left_out: dict[str, list[str]] = {}
    for run in runs:
        agent = agents[run.path]
        if run.named or agent in (newest, ""):
            taken.append(run)
        else:
            left_out.setdefault(agent, []).append(str(run.path))
    for agent, paths in left_out.items():
        tell(
            f"Left out, since their agent is {agent}, not {newest} (name them to see them): {shlex.join(paths)}"
        )
    return taken


def by_agent(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group runs whose gains can be compared, by agent, where there are runs of orig by several agents.

    As in `of_one_agent`, runs that name no agent go with every one. Below two such origs all are one group, "".
    """
    agents = {path: _agent(path) for path in paths}
    agents_of_orig = {agent for path, agent in agents.items() if _is_orig(path)}
    if len(agents_of_orig) < 2:
        return {"": list(agents)}
    groups: dict[str, list[Path]] = {}
    for name in sorted(set(agents.values()) - {""}):
        groups[name] = [path for path, agent in agents.items() if agent in (name, "")]
    return groups


def _agent(path: Path) -> str:
    """The run's agent; "" without a search, or a manifest."""
    return manifest_of(path).agent


def _is_orig(path: Path) -> bool:
    return manifest_of(path).identity.system == ORIG


def _last_begun(run: RunPath) -> tuple[str, Path]:
    return manifest_of(run.path).last_session.start, run.path


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


def check_same_data(paths: Iterable[Path]) -> None:
    """Raise UsageError if runs are over different data or judged by different gold: their scores cannot be paired.

    Only manifests are read. Judged candidates know their gold only, and files without a manifest nothing: these
    go with any.
    """
    by_data: dict[tuple[str, str, str], list[Path]] = {}
    for path in paths:
        data = manifest_of(path).identity.dataset
        if data.sha256 or data.gold_sha256:
            # A dataset whose queries carry their nuggets has no gold file of its own.
            by_data.setdefault((data.name, data.sha256, data.gold_sha256 or data.sha256), []).append(path)
    digests = {sha256 for _, sha256, _ in by_data if sha256}
    golds = {gold for _, _, gold in by_data}
    if len(digests) <= 1 and len(golds) <= 1:
        return
    described: list[str] = []
    for (name, sha256, gold), runs in by_data.items():
        digest = f"sha256 {sha256[:8] or '-'}, gold {gold[:8]}"
        described.append(f"{name or 'candidates'} ({digest}): {first_of(list(map(str, runs)))}")
    raise UsageError(
        f"runs of different data cannot be paired: {'; '.join(described)}. Name runs of one of these"
    )


def sibling_origs(directories: Iterable[Path]) -> list[Path]:
    """Return the runs of orig in the same folders as these run directories, over the same data and by the same agent."""
    folders: dict[tuple[Path, tuple[str, DataIdentity]], Path] = {}
    """By place and by what origs have to be of: the folder as its user named it."""
    for directory in directories:
        folders[directory.resolve().parent, _paired_by(directory)] = directory.parent
    origs: list[Path] = []
    for (place, paired_by), folder in folders.items():
        for path in sorted(place.iterdir()):
            if _is_orig(path) and _paired_by(path) == paired_by:
                origs.append(folder / path.name)
    return origs


def _paired_by(directory: Path) -> tuple[str, DataIdentity]:
    manifest = manifest_of(directory)
    return manifest.agent, manifest.identity.dataset


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
    lines = _Lines(path, judge, without, changeable=manifest.is_judged)
    for line in checked_results(path):
        lines.add(line)
    for path in sorted((directory / files.JUDGMENTS).glob("*.jsonl")):
        lines.add_judgments(path)
    lines.add_asked(directory / files.STEPS)
    system, k = manifest.system, identity.k or 0
    if manifest.is_judged:
        system, k = named_system(system)
    items = lines.items()
    judges = lines.judges()
    scoring = judge if judge != UNNAMED else next(iter(judges), "")
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
        people_answered=identity.answers,
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


class _Lines:
    """Collects the lines of a run; the last line of an id counts."""

    def __init__(self, path: Path, judge: str, without: Collection[str], *, changeable: bool) -> None:
        self._path = path
        self._judge, self._without, self._changeable = judge, without, changeable
        self._marks: dict[str, int] = {}
        """Fingerprints of answers that may change under their ids (those of candidates)."""
        self._shared: dict[Any, Mapping[str, Any]] = {}
        self._contradictions: dict[Path, dict[str, Contradiction]] = {}
        """By file and id: stored scores that are not those of their labels."""
        self._items: dict[str, Item] = {}
        self.failed: dict[str, FailedItem] = {}
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
        if failed(line) and not answered(line):  # with an answer only the judge failed
            self._items.pop(id, None)
            self.failed[id] = _failed_item(line, self._without)
            if lost_answers(line):
                self._lost_answers.add(id)
            if lost_judging(line):
                self._lost_judging.add(id)
            return
        self.failed.pop(id, None)
        self._items[id] = _item(line, self._without)
        if self._changeable:
            self._marks[id] = judged_fingerprint(line)
        outcome = self._verdict(self._path, line)
        if outcome is not None:
            self.outcomes.setdefault(judge, {})[id] = outcome

    def add_judgments(self, path: Path) -> None:
        """Add a further judge's file. A verdict on another answer than the one recorded does not count."""
        judge, outcomes = path.stem, dict[str, JudgedLabels | Failure]()
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
        if not {"questions", "answers"}.isdisjoint(self._without):
            return
        for id, asked in asked_in_journal(journal, self._lost_answers).items():
            self.failed[id] = replace(self.failed[id], questions=asked.questions, answers=asked.answers)

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
        coverage = self._once(tuple((nugget["id"], nugget["coverage"]) for nugget in nuggets))
        weights = self._once(tuple((nugget["id"], float(nugget["weight"])) for nugget in nuggets))
        return JudgedLabels(score, coverage, weights)

    def contradictions(self) -> Iterator[str]:
        """Describe the stored scores of each file that are not those of their labels."""
        for path, by_id in self._contradictions.items():
            if by_id:
                yield contradiction_note(path, len(by_id), list(by_id.values()))

    def _once(self, pairs: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
        """Share one object among equal labels or weights: of many thousand answers few differ."""
        if pairs not in self._shared:
            self._shared[pairs] = dict(pairs)
        return self._shared[pairs]


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
    return Item(line["id"], **texts, answer_mark=judged_fingerprint(line))


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
    return FailedItem(line["id"], _failure(line), **texts)


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
        if not scorer.is_csv(path):  # a table of scores has no lines with names
            for _, line in scorer.read_records(path, lambda _: None):
                lines[scorer.item_name(line)] = line
    except scorer.BadInput as error:
        raise InputError(error.path, error.problem, line=error.line or None) from None
    scores: dict[str, float] = {}
    failures: dict[str, FailedItem] = {}
    for id in sorted(outcomes):
        outcome = outcomes[id]
        if outcome is scorer.Unscored.FAILED:
            failures[id] = _failed_item({**lines.get(id, {}), "id": id}, ())
        elif not isinstance(outcome, scorer.Unscored):
            scores[id] = outcome
    judge = _first_judge(lines, scores)
    if not is_one_line(judge):
        raise InputError(path, f"{judge!r} has control characters or line breaks", field="judge")
    directory, name = path, path.stem
    if path.name in (files.PER_ITEM, files.RESULTS):
        directory, name = path.parent, path.parent.name
    system, k = named_system(name)
    judges: tuple[str, ...] = ()
    if scores:
        judges = (judge,)
    contradictions: tuple[str, ...] = ()
    if reports:
        contradictions = (f"Recomputed from the nuggets: {first_of(reports)}.",)
    return FinishedRun(
        directory=directory,
        system=system,
        label=system,
        judges=judges,
        scoring=judge if scores else "",
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
    coverage = cast("Mapping[str, Coverage]", {name: label for name, (_, label) in pairs.items()})
    weights = {name: float(weight) for name, (weight, _) in pairs.items()}
    query = str(line.get("fused_query") or line.get("query") or "")
    # A file without queries: equal answers to different instances are not the same question to a judge.
    mark = judged_fingerprint({**line, "fused_query": query or id})
    verdicts = {judge: JudgedLabels(score, coverage, weights)}
    return Item(id, query, verdicts=verdicts, answer_mark=mark)
