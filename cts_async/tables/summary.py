"""`summary.json`: a run's results, computed from its files alone; a results file of many lines as columns of numbers."""

from __future__ import annotations

import math
from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, compress, repeat
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from cts_async import scorer
from cts_async.analysis.board import LABELS, Array
from cts_async.analysis.compare import Agreement, agreement_of, count_distinct, label_pairs
from cts_async.engine.journal import record_at
from cts_async.protocol.judge import LEXICAL
from cts_async.records import MADE_UP, SMOKE_TEST, UNKNOWN, Caveat
from cts_async.runs.cut_prompts import CutPrompts
from cts_async.runs.directory import write_json
from cts_async.runs.files import JUDGMENTS, MANIFEST, PER_ITEM, STEPS, SUMMARY, results_of
from cts_async.runs.finished import ORIG
from cts_async.runs.manifest import Manifest, require_manifest
from cts_async.runs.recovery import asked_in_journal, lost_answers
from cts_async.runs.results import (
    HASHES,
    Fingerprint,
    Line,
    about_same,
    answered,
    checked_results,
    failed,
    judged_fingerprint,
    latest_rows,
    no_fingerprint,
    placed_results,
)
from cts_async.runs.spending import Spent, spent_of
from cts_async.tables.output import counted, dollars

# Tool health: which share of a run's searches and visits worked, and where and why the others failed. Scores fall with
# it, so it is shown beside them. It is read from the lines that count in results.jsonl. Hosts and reasons are untrusted
# text, from web pages and servers: they are bounded here, and escaped where they are printed.

TOOLS: Final = {"search": "searches", "visit": "visits"}
"""Tools, and what they are asked for."""
MOST: Final = 20
"""Causes that are listed, the most frequent first."""
MOST_PRINTED: Final = 3
FEW_WORKED: Final = 0.1
"""Below this share of searches that found something, or of visits that worked, a score measures the tools."""
_TEXT_CHARS: Final = 80

Cause = tuple[str, str, str]
"""Tool, host, reason."""


@dataclass(slots=True)
class ToolHealth:
    """Queries and pages asked for, and failures by cause.

    `lexical` counts pages that no model could read, so that passages were chosen by their words, `empty` searches that
    worked and found nothing.
    """

    asked: Counter[str] = field(default_factory=Counter)
    """By tool."""
    failed: Counter[Cause] = field(default_factory=Counter)
    lexical: int = 0
    empty: int = 0

    def add(self, tools: Mapping[str, Any]) -> None:
        """Add the tools of one results line. Malformed counts and causes are ignored."""
        for tool, word in TOOLS.items():
            self.asked[tool] += _count(tools.get(word))
        self.lexical += _count(tools.get("lexical"))
        self.empty += _count(tools.get("empty"))
        failed = tools.get("failed")
        for failure in failed if isinstance(failed, list) else ():
            if isinstance(failure, Mapping) and isinstance(n := failure.get("n", 1), int):
                tool, host, reason = (
                    " ".join(str(failure.get(part) or "").split())[:_TEXT_CHARS]
                    for part in ("tool", "host", "reason")
                )
                self.failed[tool, host, reason] += n

    def n_failed(self, tool: str) -> int:
        return sum(n for (of, _, _), n in self.failed.items() if of == tool)

    def share(self, tool: str) -> float | None:
        """Share of requests that worked; None without requests."""
        asked = self.asked[tool]
        return 1 - self.n_failed(tool) / asked if asked else None

    def as_json(self) -> dict[str, Any]:
        """Return `searches` and `visits` with their shares, then the most frequent causes; `other` counts the rest."""
        shown = ranked(self.failed)[:MOST]
        by_tool = {
            word: {"asked": self.asked[tool], "failed": self.n_failed(tool), "worked": self.share(tool)}
            for tool, word in TOOLS.items()
        }
        health = {
            **by_tool,
            "read_lexically": self.lexical,
            "failures": [
                {"tool": tool, "host": host, "reason": reason, "n": n} for (tool, host, reason), n in shown
            ],
            "other_failures": self.failed.total() - sum(n for _, n in shown),
        }
        if self.empty:
            health["searches_without_results"] = self.empty
        return health

    def lines(self) -> list[str]:
        """Return a line for each tool with failures: "visits worked: 87 % (http 404 at example.org 12, ...)"."""
        lines = []
        for tool, word in TOOLS.items():
            share = self.share(tool)
            if share is not None and share < 1:
                # Rounded down: never 100 if something failed.
                lines.append(f"{word} worked: {math.floor(100 * share)} % ({self._causes(tool)})")
        if self.empty:
            lines.append(f"searches without results: {self.empty:,} of {self.asked['search']:,}")
        return lines

    def notices(self) -> list[str]:
        """Return why the scores do not measure the queries: hardly a search found anything, hardly a visit worked."""
        notices = []
        searches, visits = self.asked["search"], self.asked["visit"]
        n_found = searches - self.n_failed("search") - self.empty
        if searches and n_found < FEW_WORKED * searches:
            causes = [cause for cause in (self._causes("search"),) if cause]
            if self.empty:
                causes.append(f"no results {self.empty}")
            notices.append(_tools_failed(n_found, searches, "search", "found anything", ", ".join(causes)))
        n_read = visits - self.n_failed("visit")
        if visits and n_read < FEW_WORKED * visits:
            notices.append(_tools_failed(n_read, visits, "visit", "worked", self._causes("visit")))
        return notices

    def _causes(self, tool: str) -> str:
        """Name the most frequent causes: "http 404 at example.org 12, timeout at a.org 3"."""
        causes = [(cause, n) for cause, n in ranked(self.failed) if cause[0] == tool]
        return ", ".join(f"{reason} at {host or '?'} {n}" for (_, host, reason), n in causes[:MOST_PRINTED])


def _tools_failed(n: int, asked: int, noun: str, verb: str, causes: str) -> str:
    """Say that hardly any use of a tool brought anything, and what that means for the score."""
    nouns = {"search": "searches", "visit": "visits"}[noun]
    share = f"None of {asked:,} {nouns}" if n <= 0 else f"Only {n:,} of {asked:,} {nouns}"
    return f"{share} {verb} ({causes}): these scores do not measure the queries"


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


_NO_SCORE: Final = float("nan")
_READ: Final = ("judge", "answers", "restore_score_100", "error")
_CODES: Final = {label: code for code, label in enumerate(LABELS)}


class ResultColumns:
    """The lines that count of a results file, in columns: 22 bytes a line, however long the lines are.

    `mark` identifies the answer that a verdict is about (see `LatestLines`), in 8 bytes more unless `no_fingerprint`.
    `labels` keeps the labels of nuggets, too: 16 bytes a line and one per nugget. The columns are in the order of the
    file, or `by_id`, which takes all ids into memory while they are sorted.
    """

    def __init__(self, path: Path, mark: Fingerprint, *, labels: bool = False, by_id: bool = False) -> None:
        self.path = path
        self.judge: str | None = None
        """The first judge named by a line."""
        ids, values, failures, answers_there = array(HASHES), array("d"), array("b"), array("b")
        asked, unknown = array("H"), array("H")
        marks, counts, codes = array("q"), array("q"), array("b")
        names = list[str]()
        tools: dict[int, Mapping[str, Any]] = {}  # by row; candidates have none
        for offset, line in placed_results(path, _READ):
            self.judge = self.judge or line.get("judge")
            answers = line.get("answers") or ()
            score = line.get("restore_score_100")
            search = line.get("search")
            if isinstance(search, Mapping) and isinstance(of_line := search.get("tools"), Mapping):
                tools[len(ids)] = of_line
            ids.append(hash(line["id"]))
            if by_id:
                names.append(line["id"])
            failures.append(failed(line))
            answers_there.append(answered(line))
            # A failure has an offset in place of a score: a column of them would take 8 MB more of a million lines.
            values.append(offset if failures[-1] else _NO_SCORE if score is None else score)
            if mark is not no_fingerprint:
                marks.append(mark(line))
            if labels:
                before = len(codes)
                codes.extend(_codes_of(line, path))
                counts.append(len(codes) - before)
            asked.append(len(answers))
            unknown.append(answers.count(UNKNOWN))
        rows = latest_rows(ids)
        counted = np.zeros(len(ids), bool)
        counted[rows] = True
        in_order = len(rows) == len(ids) and not by_id
        if by_id:
            rows = np.array(sorted(rows.tolist(), key=names.__getitem__), np.int64)
        self.tools = ToolHealth()
        for of_line in compress(tools.values(), counted[np.fromiter(tools, np.int64)]):
            self.tools.add(of_line)
        self._codes = _array(codes)
        numbers = [_array(one) for one in (ids, values, asked, unknown, marks, counts)]
        flags = [_array(failures).view(bool), _array(answers_there).view(bool)]
        self.ids, self._values, self.asked, self.unknown, self._marks, self._counts, *others = (
            column if in_order or not len(column) else column[rows]
            for column in (*numbers, np.cumsum(_array(counts)), *flags)
        )
        self._ends, self.failed, self.answered = others

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

    def add_asked(self, journal: Path) -> None:
        """Count what failed instances were asked, from the journal where their lines lack it (version 0.11)."""
        lost = [line["id"] for line in self.failures(~self.answered) if lost_answers(line)]
        for id, found in asked_in_journal(journal, lost).items():
            row = np.flatnonzero(self.ids == hash(id))
            self.asked[row] = len(found.answers)
            self.unknown[row] = found.answers.count(UNKNOWN)

    def failures(self, rows: Array | bool = True) -> Sequence[Line]:
        """Return the failures in those rows (a mask; all by default), in the order of the file."""
        return _LinesAt(self.path, np.sort(self._values[rows & self.failed].astype(int)))

    def matched(self, other: ResultColumns) -> tuple[Array, Array]:
        """Return the rows of both that are about the same answer, as far as they say so."""
        _, here, there = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        if len(self._marks) and len(other._marks):
            same = about_same(self._marks[here], other._marks[there])
            here, there = here[same], there[same]
        return here, there

    def compared(self, other: ResultColumns) -> JudgePair:
        """Compare the labels and scores of two judges' verdicts on the same answers and nuggets."""
        here, there = self.matched(other)
        same = (self._counts[here] == other._counts[there]) & (self._counts[here] > 0)
        here, there = here[same], there[same]
        pairs = label_pairs(self._labels_of(here).astype(int) * len(LABELS) + other._labels_of(there))
        # Not every line names its answer: of the verdicts that `cts run` wrote only the results do.
        marks = self._marks_of(here)
        marks = np.where(marks == 0, other._marks_of(there), marks)
        return JudgePair(
            self.judge or "",
            other.judge or "",
            pairs,
            self._values[here],
            other._values[there],
            marks,
            self._counts[here],
        )

    def _marks_of(self, rows: Array) -> Array:
        """Return the fingerprints of the answers in these rows; 0 where they are not known."""
        return self._marks[rows] if len(self._marks) else np.zeros(len(rows), np.int64)

    def _labels_of(self, rows: Array) -> Array:
        """Return the labels of these rows, concatenated."""
        counts = self._counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found: Array = self._codes[np.repeat(self._ends[rows] - counts, counts) + within]
        return found

    @property
    def unknown_rate(self) -> float | None:
        """Fraction of the User Answerer's answers that are `unknown`, whatever failed later; None without questions."""
        answers = self.asked.sum(dtype=int)
        return float(self.unknown.sum(dtype=int) / answers) if answers else None

    @property
    def all_unknown_rate(self) -> float | None:
        """Fraction of the instances with questions whose answers are all `unknown`; None without questions."""
        replied = self.asked > 0
        return float((self.unknown == self.asked)[replied].mean()) if replied.any() else None

    def scored(self, rows: Array | bool = True) -> tuple[Array, Array]:
        """Return ids and scores in those rows (a mask; all by default) that have a score."""
        scored: Array = rows & ~self.failed & (self._values == self._values)  # NaN is no score
        return (self.ids, self._values) if scored.all() else (self.ids[scored], self._values[scored])


def _codes_of(line: Line, path: Path) -> list[int]:
    """Return a verdict's labels as indexes of LABELS; [] for a failure."""
    if failed(line):
        return []
    try:
        return [_CODES[nugget["coverage"]] for nugget in line.get("nuggets") or ()]
    except (KeyError, TypeError):
        deque(checked_results(path), maxlen=0)  # raises an InputError that names the line
        raise


def _array(column: array[Any]) -> Array:
    """View the column as a numpy array, without a copy."""
    return np.frombuffer(column, column.typecode) if column else np.empty(0, column.typecode)


Counted = TypeVar("Counted", str, tuple[str, str], tuple[str, str, str])


def ranked(counts: Mapping[Counted, int]) -> list[tuple[Counted, int]]:
    """Sort counts: the largest first, equal ones by name."""
    return sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))


# Agreement of the judges of a run, pair by pair


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


def pooled_agreements(found: Iterable[JudgePair]) -> list[Agreement]:
    """Compute one Agreement for each two judges, over all runs."""
    by_judges: dict[tuple[str, str], list[JudgePair]] = {}
    for one in found:
        by_judges.setdefault((one.judge, one.other), []).append(one)
    return [
        agreement_of(
            *judges,
            sum((one.pairs for one in same), Counter()),
            np.concatenate([one.scores for one in same]),
            np.concatenate([one.other_scores for one in same]),
            count_distinct(
                np.concatenate([one.answers for one in same]), np.concatenate([one.n_nuggets for one in same])
            ),
        )
        for judges, same in by_judges.items()
    ]


def agreement_sentence(found: Agreement) -> str:
    """Describe an agreement: `lexical agrees with ernie on 71.2 % of 3,108 nuggets (Cohen's kappa 0.451, ...); ...`

    Nuggets of distinct answers are counted apart if some answers are the same: their labels are copies. Scores are left
    out where their correlation is not defined, as that of a single answer.
    """
    if found.exact is None:
        return f"{found.other} and {found.judge} have no judged nugget in common"
    nuggets, answers = counted(found.n_nuggets, "nugget"), counted(found.n_answers, "answer")
    if found.n_distinct < found.n_nuggets:
        nuggets += f", {found.n_distinct:,} of them of distinct answers"
    scores = "" if found.score_r is None else f"; scores of {answers} correlate by {found.score_r:.3f}"
    return (
        f"{found.other} agrees with {found.judge} on {100 * found.exact:.1f} % of {nuggets}"
        f"{'' if scores else f' in {answers}'} (Cohen's kappa {_figure(found.kappa)}, quadratic "
        f"{_figure(found.kappa_quadratic)}){scores}"
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# Summary of a run. The statistics are the scorer's own, so the scorer alone gives the same over the same file. Files are
# streamed: of a line only its numbers and its offset are kept.


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
        _, here, there = np.intersect1d(self.ids, other.ids, assume_unique=True, return_indices=True)
        order = np.argsort(here)
        return self.scores[here[order]], other.scores[there[order]]


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
    unjudged: Mapping[str, int] = field(default_factory=dict)
    """Answers of a stopped run that a judge has neither labelled nor failed on, by judge."""

    @property
    def own_failures(self) -> list[Sequence[Line]]:
        """The failures of the run's own command: its instances, and its further judges' on their answers.

        Those of a judge that `cts judge` added are that command's.
        """
        named = {*self.manifest.identity.judges, LEXICAL}
        return [self.failures, *(judge.failures for judge in self.judges if judge.judge in named)]

    @property
    def label(self) -> str:
        return self.manifest.system


def cost_fields(run: RunSummary) -> dict[str, Any]:
    """Return the fields of a row that `cost_text` reads."""
    known, unpriced = run.spent.known_cost(run.manifest.prices)
    cost = None if unpriced else known
    return {"priced_usd": known, "unpriced_models": len(unpriced), "cost_usd": cost}


def cost_text(row: Mapping[str, Any]) -> str:
    """Format the cost in the fields of `cost_fields`."""
    return dollars(row["priced_usd"], row["unpriced_models"])


def summarise_runs(directories: Iterable[Path]) -> list[RunSummary]:
    """Summarise each directory that has a manifest; a journal that several share is read once."""
    journals: dict[Path, Mapping[str, Spent]] = {}
    return [summarise_run(one, journals) for one in directories if (one / MANIFEST).is_file()]


def summarise_run(directory: Path, journals: dict[Path, Mapping[str, Spent]] | None = None) -> RunSummary:
    """Summarise a run directory, or one of judged candidates. Raises InputError if it is not a run.

    `journals` holds the calls by system of the journals that were read before.
    """
    manifest = require_manifest(directory)
    results = results_of(directory)
    files = sorted((directory / JUDGMENTS).glob("*.jsonl"))
    judges = [*manifest.identity.judges[:1], *(path.stem for path in files)]
    labels = len(judges) > 1
    candidates = results == PER_ITEM and (directory / JUDGMENTS).is_dir()
    by_id = manifest.identity.system == ORIG
    # With several judges also to count distinct answers: some of a run's answers are the same, and were judged once.
    mark = judged_fingerprint if candidates or labels else no_fingerprint
    lines = ResultColumns(directory / results, mark, labels=labels, by_id=by_id)
    n_expected = max(manifest.n_expected, lines.n)
    if not candidates and lines.n_failed:
        lines.add_asked(directory / STEPS)
    scored, labelled = list[JudgeScores](), list[ResultColumns]()
    if files and manifest.judge and not lines.judge:
        # Its provider was gone from the beginning: no line names it, and no other judge's score may stand for its own.
        lines.judge = manifest.judge
    if lines.judge:
        summary = scorer.summarise(_numbers(lines.scored()[1]), lines.n_failed, n_expected)
        scored.append(
            JudgeScores(lines.judge, *lines.scored(), summary, n_judge_failed=int(lines.judge_failed.sum()))
        )
        labelled.append(lines)
    for path in files:
        verdicts = ResultColumns(path, judged_fingerprint, labels=labels, by_id=by_id)
        verdicts.judge = verdicts.judge or path.stem
        scored.append(_further_scores(verdicts, lines, n_expected))
        labelled += [verdicts] if labels else []
    unjudged = _unjudged(manifest, scored, int(lines.answered.sum()))
    # The lexical judge first: the others are compared with it.
    labelled.sort(key=lambda columns: columns.judge != LEXICAL)
    return RunSummary(
        directory=directory,
        manifest=manifest,
        judges=tuple(scored),
        failures=lines.failures(),
        spent=spent_of(manifest, {} if journals is None else journals),
        n_expected=n_expected,
        n_done=lines.n - lines.n_failed,
        n_unanswered=int((lines.failed & ~lines.answered).sum()),
        unjudged=unjudged,
        unknown_rate=lines.unknown_rate,
        all_unknown_rate=lines.all_unknown_rate,
        wall_s=manifest.wall_s,
        judge_pairs=tuple(_judge_pairs(labelled)) if labels else (),
        tools=lines.tools,
    )


def _unjudged(manifest: Manifest, scored: Sequence[JudgeScores], n_answers: int) -> dict[str, int]:
    """Count for each of the run's judges the answers without a verdict, if the run was stopped with some left."""
    if not manifest.last_session.stopped:
        return {}
    verdicts = {one.judge: one.summary.n_scored + one.n_judge_failed for one in scored}
    left = {judge: n_answers - verdicts.get(judge, 0) for judge in manifest.identity.judges}
    return {judge: n for judge, n in left.items() if n > 0}


def _judge_pairs(judges: Sequence[ResultColumns]) -> Iterator[JudgePair]:
    """Compare each judge with those after it in the order given, under which the later one comes first."""
    for place, other in enumerate(judges):
        for judge in judges[place + 1 :]:
            yield judge.compared(other)


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


def write_summary(summary: RunSummary) -> dict[str, Any]:
    """Write `summary.json` and return its content."""
    value = summary_json(summary)
    write_json(summary.directory / SUMMARY, value)
    return value


def summary_json(summary: RunSummary) -> dict[str, Any]:
    """Return the content of `summary.json`."""
    prices = summary.manifest.prices
    known_cost, unpriced = summary.spent.known_cost(prices)
    main = summary.judges[0] if summary.judges else None
    nothing = scorer.summarise([], len(summary.failures), summary.n_expected, n_unjudged=summary.n_done)
    judge_failures = {one.judge: one.n_judge_failed for one in summary.judges if one.n_judge_failed}
    return {
        "n": (main.summary if main else nothing).n_scored,
        **asdict(main.summary if main else nothing),
        "judge": main.judge if main else None,
        "judges": {scores.judge: asdict(scores.summary) for scores in summary.judges},
        # Of each judge's n_failed; only where there are any.
        **({"judge_failures": judge_failures} if judge_failures else {}),
        "agreement": [asdict(one) for one in pooled_agreements(summary.judge_pairs)],
        "ua_unknown_rate": summary.unknown_rate,
        "all_unknown_rate": summary.all_unknown_rate,
        "unknown_paraphrased": summary.spent.paraphrased,
        "calls": summary.spent.calls,
        "failed_attempts": summary.spent.failed_attempts,
        "tokens": {model: dict(used) for model, used in sorted(summary.spent.tokens.items())},
        "served_models": {
            model: dict(ranked(served)) for model, served in sorted(summary.spent.served.items())
        },
        **(
            {"dropped_parameters": {model: dict(ranked(n)) for model, n in sorted(dropped.items())}}
            if (dropped := summary.spent.dropped)
            else {}
        ),
        **_cut_prompts_json(summary.spent.cuts.by_model()),
        "priced_usd": known_cost,
        "unpriced_models": len(unpriced),
        "latency_per_instance_s": summary.spent.latency_per_instance_s(),
        "cost_usd": None if unpriced else known_cost,
        "wall_s": round(summary.wall_s, 3),
        "tool_health": summary.tools.as_json(),
        **notices_json(summary),
        **caveats_json([summary.manifest.caveat]),
    }


def notices_json(summary: RunSummary) -> dict[str, list[str]]:
    """Return `notices`: what has to be read before the scores; no field where there is nothing."""
    notices = summary.tools.notices()
    return {"notices": notices} if notices else {}


def _cut_prompts_json(found: Mapping[str, CutPrompts]) -> dict[str, Any]:
    """The field for models whose server cuts prompts; none where nothing says so."""
    if not found:
        return {}
    return {"cut_prompts": {model: cut._asdict() for model, cut in sorted(found.items())}}


def caveats_json(caveats: Collection[Caveat]) -> dict[str, bool]:
    """The fields of JSON outputs; `made_up` only where it holds."""
    return {"smoke_test": SMOKE_TEST in caveats, **({"made_up": True} if MADE_UP in caveats else {})}


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
