"""`summary.json`: a run's results, computed from its files alone."""

from __future__ import annotations

import math
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import scorer
from cts_async.analysis.agreement import Agreement, agreement_of, label_pairs
from cts_async.analysis.board import LABELS
from cts_async.engine.journal import read_jsonl, record_at
from cts_async.engine.run_dir import read_manifest, sessions_of, write_json
from cts_async.errors import InputError
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.results import (
    HASHES,
    Line,
    checked_results,
    failed,
    judged_mark,
    latest_rows,
    unmarked,
)
from cts_async.protocol.run_files import JUDGMENTS, PER_ITEM, RESULTS, STEPS, SUMMARY, results_of
from cts_async.report.result_columns import ResultColumns, Scores, ToolHealth, ranked

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Agreement of the lexical judge with every other judge of a run, read from their files

_CODES: Final = {label: code for code, label in enumerate(LABELS)}


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges over the answers of one run that both have judged."""

    judge: str
    other: str
    pairs: Counter[tuple[str, str]]
    """How often `judge` gave a nugget one label and `other` the other."""
    scores: Array
    other_scores: Array

    def agreement(self) -> Agreement:
        return agreement_of(self.judge, self.other, self.pairs, self.scores, self.other_scores)


def pooled_agreements(found: Iterable[JudgePair]) -> list[Agreement]:
    """Compute one Agreement for each two judges, over all runs."""
    import numpy as np

    by_judges: dict[tuple[str, str], list[JudgePair]] = {}
    for one in found:
        by_judges.setdefault((one.judge, one.other), []).append(one)
    return [
        agreement_of(
            *judges,
            sum((one.pairs for one in same), Counter()),
            np.concatenate([one.scores for one in same]),
            np.concatenate([one.other_scores for one in same]),
        )
        for judges, same in by_judges.items()
    ]


def agreement_sentence(found: Agreement) -> str:
    """Describe an agreement: `lexical agrees with ernie on 71.2 % of 3,108 nuggets (Cohen's kappa 0.451, ...); ...`"""
    if not found.n_nuggets or found.exact is None:
        return f"{found.other} and {found.judge} have no judged nugget in common"
    text = (
        f"{found.other} agrees with {found.judge} on {100 * found.exact:.1f} % of {found.n_nuggets:,} nuggets "
        f"(Cohen's kappa {_figure(found.kappa)}, quadratic {_figure(found.kappa_quadratic)})"
    )
    if found.score_r is None:
        return text
    return f"{text}; scores of {found.n_answers:,} answers correlate by {_figure(found.score_r)}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def judge_pairs(files: Sequence[tuple[str, Path]], other: str) -> Iterator[JudgePair]:
    """Pair each judge's file with that of the judge `other`; nothing if that has none. `files` are (judge, path).

    Raises InputError for a malformed line.
    """
    others = [path for judge, path in files if judge == other]
    if not others or len(files) == 1:
        return
    theirs = _Labels(others[0])
    for judge, path in files:
        if judge != other:
            yield _compared(judge, _Labels(path), other, theirs)


class _Labels:
    """A judge's labels and scores in columns: 33 bytes per answer and one per nugget."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        ids, scores, counts, marks, labels = array(HASHES), array("d"), array("q"), array("q"), array("b")
        mark = unmarked if path.name == RESULTS else judged_mark  # a run's answers never change
        for line in read_jsonl(path):
            if not isinstance(id := line.get("id"), str):
                continue
            nuggets = () if failed(line) else line.get("nuggets") or ()
            ids.append(hash(id))
            scores.append(line.get("restore_score_100") or 0.0)
            marks.append(mark(line))
            try:
                counts.append(len(nuggets))
                labels.extend([_CODES[nugget["coverage"]] for nugget in nuggets])
            except (KeyError, TypeError):
                deque(checked_results(path), maxlen=0)  # raises an InputError that names the line
                raise
        rows = latest_rows(ids)
        self.labels = np.frombuffer(labels, np.int8) if labels else np.empty(0, np.int8)
        given = ids, scores, counts, marks
        columns = [np.frombuffer(column, column.typecode) for column in given] if ids else []
        kinds = int, float, int, int
        self.ids, self.scores, self.counts, self.marks = columns or [np.empty(0, kind) for kind in kinds]
        starts = np.cumsum(self.counts) - self.counts
        rows = rows[self.counts[rows] > 0]
        self.ids, self.scores, self.counts = self.ids[rows], self.scores[rows], self.counts[rows]
        self.starts, self.marks = starts[rows], self.marks[rows]

    def of(self, rows: Array) -> Array:
        """Return the labels of these answers, concatenated."""
        import numpy as np

        counts = self.counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found: Array = self.labels[np.repeat(self.starts[rows], counts) + within]
        return found


def _compared(judge: str, own: _Labels, other: str, theirs: _Labels) -> JudgePair:
    import numpy as np

    _, here, there = np.intersect1d(own.ids, theirs.ids, assume_unique=True, return_indices=True)
    same = own.counts[here] == theirs.counts[there]  # else about other nuggets
    marks, other_marks = own.marks[here], theirs.marks[there]
    same &= (marks == other_marks) | (marks == 0) | (other_marks == 0)  # else about another answer
    here, there = here[same], there[same]
    codes = own.of(here).astype(int) * len(LABELS) + theirs.of(there)
    pairs = label_pairs(codes)
    return JudgePair(judge, other, pairs, own.scores[here], theirs.scores[there])


# Summary of a run. The statistics are the scorer's own, so the scorer alone gives the same over the same file. Files are
# streamed: of a line only its numbers and its offset are kept.

_UNPRICED: Final[Mapping[str, float | None]] = {"input": None, "output": None}


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """The scores of one judge and their summary."""

    judge: str
    scores: Scores
    summary: scorer.Summary
    failures: Sequence[Line] = ()
    """Failures of a further judge on answers that exist. Those of the scoring judge are the run's."""


@dataclass(slots=True)
class Spent:
    """Calls, tokens and models of a run's steps, failed attempts included."""

    calls: int = 0
    failed_attempts: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    """Tokens "input" and "output" by model."""
    served: dict[str, Counter[str]] = field(default_factory=dict)
    """By requested model: number of replies by the model that answered, as the server named it."""
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: number of replies made without a parameter that the server refused."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one step. Raises AttributeError, TypeError or ValueError for a malformed one."""
        model = record.get("model")
        if model is None:
            return
        if not isinstance(model, str):
            raise TypeError("the name of a model is text")
        self.calls += int(record.get("attempts", 1))
        self.failed_attempts += len(record.get("failed_attempts", ()))
        # A journal has millions of steps, and making or updating a Counter for each would dominate the time.
        if (tokens := self.tokens.get(model)) is None:
            tokens = self.tokens[model] = Counter()
        for kind, used in (record.get("usage") or {}).items():
            tokens[kind] += used
        if response := record.get("response"):
            if (served := self.served.get(model)) is None:
                served = self.served[model] = Counter()
            served[str(response.get("served_model") or model)] += 1
            if dropped := response.get("dropped"):
                self.dropped.setdefault(model, Counter()).update(map(str, dropped))

    def cost_usd(self, prices: Mapping[str, Mapping[str, float | None]]) -> float | None:
        """Return dollars; None if a model has no price, or never reports its tokens."""
        parts = []
        for model, used in self.tokens.items():
            free = not any(price != 0 for price in prices.get(model, _UNPRICED).values())
            if not used and self.served.get(model) and not free:
                return None
            for kind, tokens in used.items():
                price = prices.get(model, {}).get(kind)
                if price is None:
                    return None
                parts.append(tokens * price / 1e6)
        return math.fsum(parts)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary of a run directory."""

    directory: Path
    manifest: Mapping[str, Any]
    judges: tuple[JudgeScores, ...]
    """The scoring judge first; empty for a run without judging."""
    failures: Sequence[Line]
    spent: Spent
    n_expected: int
    n_done: int
    unknown_rate: float | None
    all_unknown_rate: float | None
    wall_s: float
    judge_pairs: tuple[JudgePair, ...] = ()
    """The lexical judge with each of the others."""
    tools: ToolHealth = field(default_factory=ToolHealth)

    @property
    def label(self) -> str:
        return str(self.manifest.get("identity", {}).get("system") or self.directory.name)


def summarise_run(directory: Path, spent: Mapping[str, Spent] | None = None) -> RunSummary:
    """Summarise a run directory, or one of judged candidates. Raises InputError if it is not a run.

    `spent` are the calls by system of a journal that several share (`spent_by_system`), if it was read before.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "not a run directory: run.json not found")
    results = results_of(directory)
    compared = results == PER_ITEM and (directory / JUDGMENTS).is_dir()
    lines = ResultColumns(directory / results, judged_mark if compared else unmarked)
    judges = tuple(_judges(directory, lines, max(int(manifest.get("n_expected", 0)), lines.n)))
    n_expected = max(int(manifest.get("n_expected", 0)), lines.n)
    return RunSummary(
        directory=directory,
        manifest=manifest,
        judges=tuple(scores for scores, _ in judges),
        failures=_FailureLines(lines.path, lines.failures),
        spent=_spent(directory, manifest, spent),
        n_expected=n_expected,
        n_done=lines.n - lines.n_failed,
        unknown_rate=lines.unknown_rate,
        all_unknown_rate=lines.all_unknown_rate,
        wall_s=sum(session.get("wall_s") or 0.0 for session in sessions_of(manifest)),
        judge_pairs=tuple(judge_pairs([(scores.judge, path) for scores, path in judges], LEXICAL)),
        tools=lines.tools,
    )


def write_summary(summary: RunSummary) -> dict[str, Any]:
    """Write `summary.json` and return its content."""
    prices = summary.manifest.get("prices", {})
    main = summary.judges[0] if summary.judges else None
    nothing = scorer.summarise([], len(summary.failures), summary.n_expected, n_unjudged=summary.n_done)
    value = {
        "n": (main.summary if main else nothing).n_scored,
        **asdict(main.summary if main else nothing),
        "judge": main.judge if main else None,
        "judges": {scores.judge: asdict(scores.summary) for scores in summary.judges},
        "agreement": [one.agreement().as_json() for one in summary.judge_pairs],
        "ua_unknown_rate": summary.unknown_rate,
        "all_unknown_rate": summary.all_unknown_rate,
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
        "cost_usd": summary.spent.cost_usd(prices),
        "wall_s": round(summary.wall_s, 3),
        "tool_health": summary.tools.as_json(),
        "smoke_test": bool(summary.manifest.get("embedded")),
    }
    write_json(summary.directory / SUMMARY, value)
    return value


class _FailureLines(Sequence[Line]):
    """Lines of a file, read when they are accessed."""

    def __init__(self, path: Path, offsets: Array) -> None:
        self._path, self._offsets = path, offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return _FailureLines(self._path, self._offsets[i])
        return record_at(self._path, int(self._offsets[i]))


def _judges(directory: Path, lines: ResultColumns, n_expected: int) -> Iterator[tuple[JudgeScores, Path]]:
    """Yield each judge's scores with the file of its verdicts."""
    import numpy as np

    if lines.judge:
        everything = np.ones(lines.n, bool)
        yield _scores(lines.judge, lines.scores_of(everything), lines.n_failed, n_expected), lines.path
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        verdicts = ResultColumns(path, judged_mark)
        # After a crash a verdict may be about an answer that was not recorded, or has changed: it does not count.
        counts = verdicts.answered_in(lines)
        # A failed instance has nothing to judge, unless only the scoring judge failed.
        unjudged = lines.failed & ~np.isin(lines.ids, verdicts.ids[counts])
        n_failed = int(unjudged.sum()) + int(verdicts.failed[counts].sum())
        scores = _scores(verdicts.judge or path.stem, verdicts.scores_of(counts), n_failed, n_expected)
        yield replace(scores, failures=_FailureLines(path, verdicts.failures_in(counts))), path


def _scores(judge: str, scores: Scores, n_failed: int, n_expected: int) -> JudgeScores:
    return JudgeScores(judge, scores, scorer.summarise(scores.numbers(), n_failed, n_expected))


def spent_by_system(journal: Path) -> dict[str, Spent]:
    """Sum the steps of a journal that several systems share, by system. Raises InputError."""
    return _spent_by(journal, lambda record: str(record.get("instance")).partition("/")[0])


def _spent_by(journal: Path, name: Callable[[Mapping[str, Any]], str]) -> dict[str, Spent]:
    """Sum the steps of a journal by `name(record)`. Raises InputError for malformed steps."""
    found: dict[str, Spent] = {}
    try:
        for record in read_jsonl(journal):
            found.setdefault(name(record), Spent()).add(record)
    except (AttributeError, TypeError, ValueError):
        # Checking every field beforehand would cost more than reading.
        problem = "a step's model, attempts, usage or response is malformed"
        raise InputError(journal, problem) from None
    return found


def _spent(directory: Path, manifest: Mapping[str, Any], known: Mapping[str, Spent] | None) -> Spent:
    if shared := manifest.get("journal"):
        known = spent_by_system(directory / shared) if known is None else known
        return known.get(directory.name, Spent())
    return _spent_by(directory / STEPS, lambda record: "").get("", Spent())
