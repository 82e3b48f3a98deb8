"""`summary.json`: what a run came to, computed from its files alone.

The statistics are the scorer's own, so the scorer run by itself over the same file agrees. Files are
streamed: of a line no more is kept than its numbers and where it stands.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import scorer
from cts_async.engine.journal import placed_records, read_jsonl, record_at
from cts_async.engine.run_dir import read_manifest, write_json
from cts_async.errors import InputError
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.latest import HASHES, Mark, latest_rows, unmarked
from cts_async.protocol.results import Line, failed, judged_mark
from cts_async.protocol.run_files import JUDGMENTS, PER_ITEM, STEPS, SUMMARY, results_of
from cts_async.records import UNKNOWN
from cts_async.report.agreement import Beside, beside
from cts_async.report.scores import Scores
from cts_async.report.tool_health import HealthColumns, ToolHealth

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """One judge's scores, and their summary."""

    judge: str
    scores: Scores
    summary: scorer.Summary


@dataclass(slots=True)
class Spent:
    """What the steps of a run cost, failed attempts included."""

    calls: int = 0
    failed_attempts: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: tokens "input" and "output"."""
    served: dict[str, Counter[str]] = field(default_factory=dict)
    """By model asked for: replies of each model that answered, by its own word (see `served_models`)."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one step."""
        model = record.get("model")
        if model is not None:
            self.calls += int(record.get("attempts", 1))
            self.failed_attempts += len(record.get("failed_attempts", ()))
            self.tokens.setdefault(model, Counter()).update(record.get("usage") or {})
            if response := record.get("response"):
                self.served.setdefault(model, Counter())[response.get("served_model") or model] += 1

    def cost_usd(self, prices: Mapping[str, Mapping[str, float | None]]) -> float | None:
        """Dollars; None where a model that was used has no price."""
        total = 0.0
        for model, used in self.tokens.items():
            for kind, tokens in used.items():
                price = prices.get(model, {}).get(kind)
                if price is None:
                    return None
                total += tokens * price / 1e6
        return total


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run directory, read."""

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
    beside: tuple[Beside, ...] = ()
    """The lexical judge beside each of the others."""
    tools: ToolHealth = field(default_factory=ToolHealth)

    @property
    def label(self) -> str:
        return str(self.manifest.get("identity", {}).get("system") or self.directory.name)


def summarise_run(directory: Path, spent: Mapping[str, Spent] | None = None) -> RunSummary:
    """Read a run directory, or one of judged candidates. Raises InputError where there is no run.

    `spent` is that of each system whose calls stand in a journal of several (`spent_by_system`), if it was read.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "no run here (run.json is missing)")
    results = results_of(directory)
    lines = _Lines(directory / results, judged_mark if results == PER_ITEM else unmarked)
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
        wall_s=sum(session.get("wall_s") or 0.0 for session in manifest.get("sessions", [])),
        beside=tuple(beside([(scores.judge, path) for scores, path in judges], LEXICAL)),
        tools=lines.tools,
    )


def write_summary(summary: RunSummary) -> dict[str, Any]:
    """Write `summary.json` and give what was written."""
    prices = summary.manifest.get("prices", {})
    main = summary.judges[0] if summary.judges else None
    nothing = scorer.summarise([], len(summary.failures), summary.n_expected, n_unjudged=summary.n_done)
    value = {
        "n": (main.summary if main else nothing).n_scored,
        **asdict(main.summary if main else nothing),
        "judge": main.judge if main else None,
        "judges": {scores.judge: asdict(scores.summary) for scores in summary.judges},
        "agreement": [one.agreement().as_json() for one in summary.beside],
        "ua_unknown_rate": summary.unknown_rate,
        "all_unknown_rate": summary.all_unknown_rate,
        "calls": summary.spent.calls,
        "failed_attempts": summary.spent.failed_attempts,
        "tokens": {model: dict(used) for model, used in summary.spent.tokens.items()},
        "served_models": {model: dict(served) for model, served in summary.spent.served.items()},
        "cost_usd": summary.spent.cost_usd(prices),
        "wall_s": round(summary.wall_s, 3),
        "tool_health": summary.tools.as_json(),
        "smoke_test": bool(summary.manifest.get("embedded")),
    }
    write_json(summary.directory / SUMMARY, value)
    return value


_NO_SCORE: Final = float("nan")


class _Lines:
    """The lines that count of a results file, in columns: 29 bytes a line, however long the lines are.

    `marks` are what verdicts are about, by `mark`: see `LatestLines`.
    """

    def __init__(self, path: Path, mark: Mark) -> None:
        import numpy as np

        self.path = path
        self.judge: str | None = None
        """The first judge that a line names."""
        ids, scores, asked, unknown = array(HASHES), array("d"), array("H"), array("H")
        marks = array("q")
        health = HealthColumns()
        failures, failed_at = array("q"), array("q")  # numbers of failed lines, and where they begin
        for offset, line in placed_records(path):
            if not isinstance(id := line.get("id"), str):
                continue
            self.judge = self.judge or line.get("judge")
            answers = line.get("answers") or ()
            score = line.get("restore_score_100")
            if failed(line):
                failures.append(len(ids))
                failed_at.append(offset)
            health.add(len(ids), line)
            ids.append(hash(id))
            marks.append(mark(line))
            scores.append(_NO_SCORE if score is None else score)
            asked.append(len(answers))
            unknown.append(answers.count(UNKNOWN))
        rows = latest_rows(ids)
        self.tools = health.of(rows)
        self.failed: Array = np.isin(rows, _array(failures))
        self.failures: Array = _array(failed_at)[np.isin(_array(failures), rows)]
        """Where the failures that count begin, in the order of the file."""
        self.ids, self.scores, self.asked, self.unknown, self.marks = (
            _array(column) if len(rows) == len(ids) else _array(column)[rows]
            for column in (ids, scores, asked, unknown, marks)
        )

    @property
    def n(self) -> int:
        return len(self.ids)

    @property
    def n_failed(self) -> int:
        return int(self.failed.sum())

    def answered_in(self, results: _Lines) -> Array:
        """Which of these verdicts (a mask) are on answers in `results`: the very ones, as far as they say so."""
        import numpy as np

        if not results.n:
            return np.zeros(self.n, bool)
        order = np.argsort(results.ids)
        places = np.minimum(np.searchsorted(results.ids[order], self.ids), results.n - 1)
        rows = order[places]
        same = (self.marks == results.marks[rows]) | (self.marks == 0) | (results.marks[rows] == 0)
        found: Array = (results.ids[rows] == self.ids) & same
        return found

    @property
    def unknown_rate(self) -> float | None:
        """Of all answers of the User Answerer, those that are `unknown`; None where nothing was asked."""
        answers = self.asked[~self.failed].sum(dtype=int)
        return float(self.unknown[~self.failed].sum(dtype=int) / answers) if answers else None

    @property
    def all_unknown_rate(self) -> float | None:
        """Of all instances that were asked something, those where nothing but `unknown` came back."""
        replied = ~self.failed & (self.asked > 0)
        return float((self.unknown == self.asked)[replied].mean()) if replied.any() else None

    def scores_of(self, rows: Array) -> Scores:
        """The scores in those rows (a mask) that have one."""
        scored = rows & ~self.failed & (self.scores == self.scores)  # NaN is no score
        if scored.all():
            return Scores(self.ids, self.scores)
        return Scores(self.ids[scored], self.scores[scored])


def _array(column: array[Any]) -> Array:
    """The column as numpy sees it; nothing is copied."""
    import numpy as np

    return np.frombuffer(column, column.typecode) if column else np.empty(0, column.typecode)


class _FailureLines(Sequence[Line]):
    """Lines of a file that are read when somebody looks at them."""

    def __init__(self, path: Path, offsets: Array) -> None:
        self._path, self._offsets = path, offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return _FailureLines(self._path, self._offsets[i])
        return record_at(self._path, int(self._offsets[i]))


def _judges(directory: Path, lines: _Lines, n_expected: int) -> Iterator[tuple[JudgeScores, Path]]:
    """Each judge's scores, and the file with its verdicts."""
    import numpy as np

    if lines.judge:
        everything = np.ones(lines.n, bool)
        yield _scores(lines.judge, lines.scores_of(everything), lines.n_failed, n_expected), lines.path
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        verdicts = _Lines(path, judged_mark)
        # A verdict may stand there whose answer was not recorded before a crash, or has changed: it does not count.
        counts = verdicts.answered_in(lines)
        # An answer that failed has nothing to judge, unless it was only the other judge that did.
        unjudged = lines.failed & ~np.isin(lines.ids, verdicts.ids[counts])
        n_failed = int(unjudged.sum()) + int(verdicts.failed[counts].sum())
        scores = _scores(verdicts.judge or path.stem, verdicts.scores_of(counts), n_failed, n_expected)
        yield scores, path


def _scores(judge: str, scores: Scores, n_failed: int, n_expected: int) -> JudgeScores:
    return JudgeScores(judge, scores, scorer.summarise(scores.numbers(), n_failed, n_expected))


def spent_by_system(journal: Path) -> dict[str, Spent]:
    """What each of several systems caused whose answers were judged with one journal, by name."""
    found: dict[str, Spent] = {}
    for record in read_jsonl(journal):
        found.setdefault(str(record.get("instance")).partition("/")[0], Spent()).add(record)
    return found


def _spent(directory: Path, manifest: Mapping[str, Any], known: Mapping[str, Spent] | None) -> Spent:
    if shared := manifest.get("journal"):
        known = spent_by_system(directory / shared) if known is None else known
        return known.get(directory.name, Spent())
    spent = Spent()
    for record in read_jsonl(directory / STEPS):
        spent.add(record)
    return spent
