"""The summary of a run, computed from its files alone: scores by judge, agreement of judges, failures and effort.

The statistics are the scorer's own, so the scorer alone gives the same over the same file. Files are streamed: of a line
only its numbers and its offset are kept.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

import numpy as np

from cts_async import scorer
from cts_async.analysis.board import LABELS, Array
from cts_async.analysis.compare import Agreement, agreement_of, count_distinct, label_pairs
from cts_async.analysis.confidence import ConfidenceCalibration, calibrate_confidence
from cts_async.analysis.tool_health import ToolHealth
from cts_async.engine.journal import record_at
from cts_async.errors import Unanswered
from cts_async.protocol.judge import LEXICAL
from cts_async.records import DONT_KNOW, UNKNOWN
from cts_async.runs.asking import questioned_searches
from cts_async.runs.files import JUDGMENTS, MANIFEST, PER_ITEM, STEPS, results_of
from cts_async.runs.index import id_hash
from cts_async.runs.journal import Spent, spent_of
from cts_async.runs.manifest import ORIG, Manifest, require_manifest
from cts_async.runs.recovery import asked_in_journal, lost_answers
from cts_async.runs.results import (
    SUMMARY_COLUMNS,
    Fingerprint,
    Line,
    ResultsIndex,
    WrittenResults,
    about_same,
    failed,
    judged_fingerprint,
    no_fingerprint,
    stated_confidence,
)
from cts_async.runs.written import WrittenFiles

# --- The lines of a results file or a judge's file that count, in columns

_CODES: Final = {label: code for code, label in enumerate(LABELS)}


class ResultColumns:
    """What a summary needs of a results file: 29 bytes a line, however long the lines are.

    `mark` identifies the answer that a verdict is about, in 8 bytes more unless `no_fingerprint`. `labels` keeps the
    labels of nuggets, too: 16 bytes a line and one per nugget. The columns are in the order of the file, or `by_id`,
    which takes all ids into memory while they are sorted. A file that this process has `written`, and of which no more
    than numbers is wanted, is not read again.
    """

    def __init__(
        self,
        path: Path,
        mark: Fingerprint,
        *,
        labels: bool = False,
        by_id: bool = False,
        written: WrittenResults | None = None,
    ) -> None:
        self.path = path
        seen = _Extras(labels=labels, names=by_id)
        index: ResultsIndex
        if written is None or labels or by_id or mark is not no_fingerprint:
            columns: tuple[str, ...] = SUMMARY_COLUMNS
            if mark is not no_fingerprint:
                columns += ("marks",)
            index = ResultsIndex(path, mark, columns=columns)
            index.read_checked(seen.add)
        else:
            index = written
            for number, line in written.failures():
                seen.add(number, line)
        # By its path within the run's directory, since a run has a file of each further judge.
        name = path.name
        if path.parent.name == JUDGMENTS:
            name = f"{JUDGMENTS}/{name}"
        self.contradictions = index.contradictions(name)
        """A sentence on stored scores that are not those of their labels; "" without any."""
        self.judge = index.judge
        """The first judge named by a line."""
        rows = np.empty(0, np.int64)
        # Else 8 bytes a line for nothing.
        if by_id or seen.counts or seen.tools or seen.unanswered or seen.confidences:
            rows = index.rows()
        lines = index.lines()
        if by_id:
            rows = np.array(sorted(rows.tolist(), key=seen.names.__getitem__), np.int64)
            lines = index.lines_at(rows)
        self.ids, self.scores, self.asked, self.unknown = lines.ids, lines.scores, lines.asked, lines.unknown
        self.failed, self.answered = lines.failed, lines.answered
        self._offsets, self._marks = lines.offsets, lines.marks
        self.tools = seen.tools_of(rows)
        self.n_open_searches = 0
        """Searches that ended without an answer, as none was demanded of them."""
        if seen.unanswered:
            self.n_open_searches = len(seen.unanswered.intersection(rows.tolist()))
        self.confidences: Array | None = None
        """What the agent said how sure it is of each answer, NaN for nothing; None if it was not asked."""
        if seen.confidences:
            stated = [seen.confidences.get(number, math.nan) for number in rows.tolist()]
            self.confidences = np.array(stated, float)
        self._codes = _array(seen.codes)
        counts = _array(seen.counts)
        self._counts, self._ends = counts, counts
        if len(counts):
            self._counts, self._ends = counts[rows], np.cumsum(counts)[rows]

    @property
    def n(self) -> int:
        return len(self.ids)

    @property
    def n_failed(self) -> int:
        return int(self.failed.sum())

    @property
    def judge_failed(self) -> Array:
        """Mask of the answers that the judge of this file failed to label."""
        rows: Array = self.failed & self.answered
        return rows

    def calibration(self) -> ConfidenceCalibration | None:
        """Compare the confidences with the scores; None if the agent was not asked for any."""
        if self.confidences is None:
            return None
        return calibrate_confidence(self.confidences, self.scores)

    def add_asked(self, journal: Path) -> None:
        """Count what failed instances were asked, from the journal where their lines lack it (version 0.11)."""
        lost = [line["id"] for line in self.failures(~self.answered) if lost_answers(line)]
        for id, recovered in asked_in_journal(journal, lost).items():
            row = np.flatnonzero(self.ids == id_hash(id))
            self.asked[row] = len(recovered.answers)
            self.unknown[row] = recovered.answers.count(UNKNOWN)

    def failures(self, rows: Array | bool = True) -> Sequence[Line]:
        """Return the failures in those rows (a mask; all by default), in the order of the file."""
        return _LinesAt(self.path, np.sort(self._offsets[rows & self.failed]))

    def matched(self, other: ResultColumns) -> tuple[Array, Array]:
        """Return the rows of both that are about the same answer, as far as they say so."""
        _, rows, other_rows = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        if len(self._marks) and len(other._marks):
            same = about_same(self._marks[rows], other._marks[other_rows])
            rows, other_rows = rows[same], other_rows[same]
        return rows, other_rows

    def compared(self, other: ResultColumns) -> JudgePair:
        """Compare the labels and scores of two judges' verdicts on the same answers and nuggets."""
        rows, other_rows = self.matched(other)
        same = (self._counts[rows] == other._counts[other_rows]) & (self._counts[rows] > 0)
        rows, other_rows = rows[same], other_rows[same]
        pairs = label_pairs(self._labels_of(rows).astype(int) * len(LABELS) + other._labels_of(other_rows))
        # Not every line names its answer: of the verdicts that `cts run` wrote only the results do.
        marks = self._marks_of(rows)
        marks = np.where(marks == 0, other._marks_of(other_rows), marks)
        return JudgePair(
            judge=self.judge or "",
            other=other.judge or "",
            pairs=pairs,
            scores=self.scores[rows],
            other_scores=other.scores[other_rows],
            answers=marks,
            n_nuggets=self._counts[rows],
        )

    def _marks_of(self, rows: Array) -> Array:
        """Return the fingerprints of the answers in these rows; 0 where they are not known."""
        if not len(self._marks):
            return np.zeros(len(rows), np.int64)
        return self._marks[rows]

    def _labels_of(self, rows: Array) -> Array:
        """Return the labels of these rows, concatenated."""
        counts = self._counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        labels: Array = self._codes[np.repeat(self._ends[rows] - counts, counts) + within]
        return labels

    @property
    def unknown_rate(self) -> float | None:
        """Fraction of the User Answerer's answers that are `unknown`, whatever failed later; None without questions."""
        n_answers = self.asked.sum(dtype=int)
        if not n_answers:
            return None
        return float(self.unknown.sum(dtype=int) / n_answers)

    @property
    def all_unknown_rate(self) -> float | None:
        """Fraction of the instances with questions whose answers are all `unknown`; None without questions."""
        replied = self.asked > 0
        if not replied.any():
            return None
        return float((self.unknown == self.asked)[replied].mean())

    def scored(self, rows: Array | bool = True) -> tuple[Array, Array]:
        """Return ids and scores in those rows (a mask; all by default) that have a score."""
        scored: Array = rows & ~np.isnan(self.scores)
        if scored.all():
            return self.ids, self.scores
        return self.ids[scored], self.scores[scored]


class _Extras:
    """What a summary needs of every line besides its numbers, line by line in the order of the file."""

    def __init__(self, *, labels: bool, names: bool) -> None:
        self._with_labels, self._with_names = labels, names
        self.names: list[str] = []
        """Ids, if they are wanted."""
        self.counts, self.codes = array("q"), array("b")
        """Labels of each line, and all of them as indexes of LABELS, if they are wanted."""
        self.tools: dict[int, Mapping[str, Any]] = {}
        """By line; those of candidates have none."""
        self.unanswered: set[int] = set()
        """Lines of searches that ended without an answer."""
        self.confidences: dict[int, float] = {}
        """By line whose agent was asked how sure it is of its answer: what it said, NaN for nothing."""

    def add(self, number: int, line: Line) -> None:
        """Take in a line."""
        if self._with_names:
            self.names.append(line["id"])
        search = line.get("search")
        # Answers that were only judged have none, and may be a million.
        if search and isinstance(search, Mapping) and isinstance(search.get("tools"), Mapping):
            self.tools[number] = search["tools"]
        if (search or line.get("error")) and _has_open_search(line):
            self.unanswered.add(number)
        if "confidence" in line:
            confidence = stated_confidence(line)
            self.confidences[number] = math.nan if confidence is None else confidence
        if self._with_labels:
            nuggets: Sequence[Any] = ()
            if not failed(line):
                nuggets = line.get("nuggets") or ()
            self.codes.extend(_CODES[nugget["coverage"]] for nugget in nuggets)
            self.counts.append(len(nuggets))

    def tools_of(self, rows: Array) -> ToolHealth:
        """Return the health of the tools over the lines of these numbers."""
        health = ToolHealth()
        if self.tools:
            for number in np.sort(rows).tolist():
                if number in self.tools:
                    health.add(self.tools[number])
        return health


def _has_open_search(line: Line) -> bool:
    """True for a search that ended without an answer, whether that failed or was scored 0 (`--empty-answers`)."""
    error, search = line.get("error"), line.get("search")
    if isinstance(error, Mapping):
        return error.get("kind") == Unanswered.kind and str(error.get("step")).startswith("search/")
    return isinstance(search, Mapping) and search.get("unanswered") is True


def _array(column: array[Any]) -> Array:
    """View the column as a numpy array, without a copy."""
    if not column:
        return np.empty(0, column.typecode)
    return np.frombuffer(column, column.typecode)


class _LinesAt(Sequence[Line]):
    """Lines of a file, read when they are accessed."""

    def __init__(self, path: Path, offsets: Array) -> None:
        self._path, self._offsets = path, offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return _LinesAt(self._path, self._offsets[i])
        return record_at(self._path, int(self._offsets[i]))


# --- Agreement of the judges of a run, pair by pair


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges over the answers of one run that both have judged: labels and scores, see `pooled_agreements`."""

    judge: str
    other: str
    pairs: Counter[tuple[str, str]]
    """How often `judge` gave a nugget one label and `other` the other."""
    scores: Array
    other_scores: Array
    answers: Array
    """Fingerprints of the answers; 0: not known."""
    n_nuggets: Array
    """Labelled nuggets of each answer."""


def pooled_agreements(pairs: Iterable[JudgePair]) -> list[Agreement]:
    """Compute one Agreement for each two judges, over all runs."""
    by_judges: dict[tuple[str, str], list[JudgePair]] = {}
    for pair in pairs:
        by_judges.setdefault((pair.judge, pair.other), []).append(pair)
    agreements: list[Agreement] = []
    for (judge, other_judge), same_judges in by_judges.items():
        labels = Counter[tuple[str, str]]()
        for pair in same_judges:
            labels += pair.pairs
        scores = np.concatenate([pair.scores for pair in same_judges])
        other_scores = np.concatenate([pair.other_scores for pair in same_judges])
        # Over all runs at once: runs share answers, too.
        answers = np.concatenate([pair.answers for pair in same_judges])
        n_nuggets = np.concatenate([pair.n_nuggets for pair in same_judges])
        n_distinct = count_distinct(answers, n_nuggets)
        agreements.append(agreement_of(judge, other_judge, labels, scores, other_scores, n_distinct))
    return agreements


# --- Questions during the search


@dataclass(frozen=True, slots=True)
class AskCounts:
    """What an agent that may ask the user asked in its searches; those that failed are not counted."""

    n_searches: int
    n_asks: int
    """Questions that the user was asked, repeated ones included."""
    n_unknown: int
    """Those of them whose reply is unknown, or "i don't know"."""
    n_silent: int
    """Searches without a question."""
    n_refused: int
    """Questions beyond those allowed."""
    n_early: int
    """Answers that were sent back, since more questions had to be asked first."""

    @property
    def per_search(self) -> float | None:
        """Mean number of questions; None without a search."""
        if not self.n_searches:
            return None
        return self.n_asks / self.n_searches

    @property
    def unknown_share(self) -> float | None:
        """Fraction of the replies that are unknown; None without a question."""
        if not self.n_asks:
            return None
        return self.n_unknown / self.n_asks


def count_asks(directory: Path) -> AskCounts:
    """Count the questions in the results of a run. Raises InputError for a malformed line."""
    n_asks = n_unknown = n_silent = n_refused = n_early = 0
    searches = questioned_searches(directory)
    for search in searches.values():
        n_asks += len(search.asks)
        n_unknown += sum(ask.reply in (UNKNOWN, DONT_KNOW) for ask in search.asks)
        n_silent += not search.asks
        n_refused += search.n_refused
        n_early += search.n_early
    return AskCounts(len(searches), n_asks, n_unknown, n_silent, n_refused, n_early)


# --- The summary of a run


@dataclass(frozen=True, slots=True, eq=False)
class JudgeScores:
    """`restore_score_100` by one judge, each instance once: 16 bytes a score.

    They are in the order of the results; those of orig in the order of the ids, as `FinishedRun.items` are, so that
    differences to orig are resampled alike everywhere.
    """

    judge: str
    ids: Array
    """Hashes of the instances (int64), valid within this process only."""
    scores: Array
    """float64."""
    summary: scorer.Summary
    failures: Sequence[Line] = ()
    """Failures of a further judge on answers that exist. Those of the scoring judge are among the run's."""
    n_judge_failed: int = 0
    """Answers that exist and that this judge failed to label; the rest of `summary.n_failed` has no answer."""

    def paired(self, other: JudgeScores) -> tuple[Array, Array]:
        """Return both scores of every instance that has both, in the order of this one."""
        _, rows, other_rows = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        order = np.argsort(rows)
        return self.scores[rows[order]], other.scores[other_rows[order]]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary of a run directory."""

    directory: Path
    manifest: Manifest
    judges: tuple[JudgeScores, ...]
    """The scoring judge first; empty for a run without judging."""
    failures: Sequence[Line]
    """Instances without an answer, and answers that the scoring judge failed to label."""
    spent: Spent
    n_expected: int
    n_done: int
    unknown_rate: float | None
    all_unknown_rate: float | None
    wall_s: float
    judge_pairs: tuple[JudgePair, ...] = ()
    """Each two of its judges, the lexical one first."""
    tools: ToolHealth = field(default_factory=ToolHealth)

    n_unanswered: int = 0
    """Of the failures, those without an answer."""
    n_open_searches: int = 0
    """Searches that ended without an answer, as none was demanded of them: failures, or scored 0."""
    unjudged: Mapping[str, int] = field(default_factory=dict)
    """Answers of a stopped run that a judge has neither labelled nor failed on, by judge."""
    contradictions: tuple[str, ...] = ()
    """A sentence on each file with stored scores that are not those of their labels; the latter count. It begins with
    the file's path within the directory.
    """
    calibration: ConfidenceCalibration | None = None
    """How the agent's confidences agree with the scoring judge; None if it was not asked for any."""
    asks: AskCounts | None = None
    """None if the agent may not ask the user during its search."""

    @property
    def open_share(self) -> float | None:
        """The share of the instances whose search ended without an answer; None where no search did."""
        if not self.n_open_searches:
            return None
        return self.n_open_searches / (self.n_done + len(self.failures))

    def notices(self) -> list[str]:
        """Return what has to be read before the scores."""
        notices = self.tools.notices()
        share = self.open_share
        if share is not None:
            notices.append(
                f"{self.n_open_searches:,} searches ({share:.1%} of the instances) ended without an answer: the "
                "agent's mode demands none. They have no score, or 0 with --empty-answers zero"
            )
        calibration = self.calibration
        if calibration is not None and calibration.unstated_share:
            n_unstated = calibration.n_answers - calibration.n_stated
            notices.append(
                f"{n_unstated:,} of {calibration.n_answers:,} scored answers ({calibration.unstated_share:.1%}) state "
                "no confidence that can be read: they are in no calibration error"
            )
        return notices

    @property
    def own_failures(self) -> list[Sequence[Line]]:
        """The failures of the run's own command: its instances, and its further judges' on their answers.

        Those of a judge that `cts judge` added are that command's.
        """
        failures = [self.failures]
        for scores in self.judges:
            if scores.judge == LEXICAL or scores.judge in self.manifest.identity.judges:
                failures.append(scores.failures)
        return failures

    @property
    def label(self) -> str:
        return self.manifest.system


def summarise_runs(directories: Iterable[Path], written: WrittenFiles | None = None) -> list[RunSummary]:
    """Summarise each directory that has a manifest; a journal that several share is read once.

    What this process has `written` need not be read again.
    """
    journals: dict[Path, Mapping[str, Spent]] = {}
    if written is not None:
        journals = written.spent()
    summaries: list[RunSummary] = []
    for directory in directories:
        if (directory / MANIFEST).is_file():
            summaries.append(summarise_run(directory, journals, written))
    return summaries


def summarise_run(
    directory: Path,
    journals: dict[Path, Mapping[str, Spent]] | None = None,
    written: WrittenFiles | None = None,
) -> RunSummary:
    """Summarise a run directory, or one of judged candidates. Raises InputError if it is not a run.

    `journals` holds the calls by system of the journals that were read before; `written` as in `summarise_runs`.
    """
    manifest = require_manifest(directory)
    if journals is None:
        journals = {}
    results = results_of(directory)
    files = sorted((directory / JUDGMENTS).glob("*.jsonl"))
    several_judges = len(files) + bool(manifest.judge) > 1
    candidates = results == PER_ITEM and (directory / JUDGMENTS).is_dir()
    # The others' differences to orig are resampled in the order of its scores, see `JudgeScores`.
    by_id = manifest.identity.system == ORIG
    mark = no_fingerprint
    if files and (candidates or several_judges):
        # With several judges also to count distinct answers: some of a run's answers are the same, and were judged once.
        mark = judged_fingerprint
    own_lines: WrittenResults | None = None
    if written is not None:
        own_lines = written.results(directory / results)
    lines = ResultColumns(directory / results, mark, labels=several_judges, by_id=by_id, written=own_lines)
    n_expected = max(manifest.n_expected, lines.n)
    if not candidates and lines.n_failed:
        lines.add_asked(directory / STEPS)
    if files and manifest.judge and not lines.judge:
        # Its provider was gone from the beginning: no line names it, and no other judge's score may stand for its own.
        lines.judge = manifest.judge
    scores: list[JudgeScores] = []
    labelled: list[ResultColumns] = []
    contradictions = [lines.contradictions]
    if lines.judge:
        ids, values = lines.scored()
        summary = scorer.summarise(_numbers(values), lines.n_failed, n_expected)
        n_judge_failed = int(lines.judge_failed.sum())
        scores.append(JudgeScores(lines.judge, ids, values, summary, n_judge_failed=n_judge_failed))
        labelled.append(lines)
    for path in files:
        verdicts = ResultColumns(path, judged_fingerprint, labels=several_judges, by_id=by_id)
        verdicts.judge = verdicts.judge or path.stem
        scores.append(_further_scores(verdicts, lines, n_expected))
        contradictions.append(verdicts.contradictions)
        if several_judges:
            labelled.append(verdicts)
    judge_pairs: list[JudgePair] = []
    if several_judges:
        # The lexical judge first: the others are compared with it.
        labelled.sort(key=lambda columns: columns.judge != LEXICAL)
        judge_pairs = list(_judge_pairs(labelled))
    asks: AskCounts | None = None
    if manifest.identity.max_asks and not candidates:
        asks = count_asks(directory)
    return RunSummary(
        directory=directory,
        manifest=manifest,
        judges=tuple(scores),
        failures=lines.failures(),
        spent=spent_of(manifest, journals),
        n_expected=n_expected,
        n_done=lines.n - lines.n_failed,
        n_unanswered=int((lines.failed & ~lines.answered).sum()),
        n_open_searches=lines.n_open_searches,
        unjudged=_unjudged(manifest, scores, int(lines.answered.sum())),
        unknown_rate=lines.unknown_rate,
        all_unknown_rate=lines.all_unknown_rate,
        wall_s=manifest.wall_s,
        judge_pairs=tuple(judge_pairs),
        tools=lines.tools,
        contradictions=tuple(filter(None, contradictions)),
        calibration=lines.calibration(),
        asks=asks,
    )


def _unjudged(manifest: Manifest, judges: Sequence[JudgeScores], n_answers: int) -> dict[str, int]:
    """Count for each of the run's judges the answers without a verdict, if the run was stopped with some left."""
    if not manifest.last_session.stopped:
        return {}
    n_verdicts = {scores.judge: scores.summary.n_scored + scores.n_judge_failed for scores in judges}
    unjudged: dict[str, int] = {}
    for judge in manifest.identity.judges:
        n_left = n_answers - n_verdicts.get(judge, 0)
        if n_left > 0:
            unjudged[judge] = n_left
    return unjudged


def _judge_pairs(judges: Sequence[ResultColumns]) -> Iterator[JudgePair]:
    """Compare each judge with those after it in the order given, under which the later one comes first."""
    for place, reference in enumerate(judges):
        for judge in judges[place + 1 :]:
            yield judge.compared(reference)


def _further_scores(verdicts: ResultColumns, lines: ResultColumns, n_expected: int) -> JudgeScores:
    """Return a further judge's scores of a run's answers.

    After a crash a verdict may be about an answer that was not recorded, or has changed: it does not count.
    """
    counts = np.zeros(verdicts.n, bool)
    counts[verdicts.matched(lines)[0]] = True
    # A failed instance has nothing to judge, unless only the scoring judge failed: then it has an answer.
    unanswered = lines.failed & ~lines.answered & ~np.isin(lines.ids, verdicts.ids[counts])
    n_judge_failed = int(verdicts.failed[counts].sum())
    ids, scores = verdicts.scored(counts)
    summary = scorer.summarise(_numbers(scores), int(unanswered.sum()) + n_judge_failed, n_expected)
    failures = verdicts.failures(counts)
    return JudgeScores(verdicts.judge or "", ids, scores, summary, failures, n_judge_failed)


def _numbers(scores: Array) -> Iterator[float]:
    """Yield the scores in ascending order; equal ones share one object, since a million scores have few values."""
    values, counts = np.unique(scores, return_counts=True)
    return chain.from_iterable(map(repeat, values.tolist(), counts.tolist()))
