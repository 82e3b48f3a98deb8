"""`summary.json`: what a run came to, computed from its files alone.

The statistics are the scorer's own, so the scorer run by itself over the same file agrees. Files are
streamed: of a line no more is kept than its numbers and where it stands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async import scorer
from cts_async.engine.journal import read_jsonl, record_at
from cts_async.engine.manifest_form import sessions_of
from cts_async.engine.run_dir import read_manifest, write_json
from cts_async.errors import InputError
from cts_async.protocol.judge import LEXICAL
from cts_async.protocol.results import Line, judged_mark, unmarked
from cts_async.protocol.run_files import JUDGMENTS, PER_ITEM, STEPS, SUMMARY, results_of
from cts_async.report.agreement import Beside, beside
from cts_async.report.ranked import ranked
from cts_async.report.result_columns import ResultColumns
from cts_async.report.scores import Scores
from cts_async.report.tool_health import ToolHealth

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


_UNPRICED: Final[Mapping[str, float | None]] = {"input": None, "output": None}


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """One judge's scores, and their summary."""

    judge: str
    scores: Scores
    summary: scorer.Summary
    failures: Sequence[Line] = ()
    """Of a further judge, its own: answers that are there and have no label of it. The scoring judge's are the run's."""


@dataclass(slots=True)
class Spent:
    """What the steps of a run cost, failed attempts included."""

    calls: int = 0
    failed_attempts: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: tokens "input" and "output"."""
    served: dict[str, Counter[str]] = field(default_factory=dict)
    """By model asked for: replies of each model that answered, by its own word (see `served_models`)."""
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: replies made without a parameter that the server refused, by its name."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one step. Raises AttributeError, TypeError or ValueError for one of another form."""
        model = record.get("model")
        if model is None:
            return
        if not isinstance(model, str):
            raise TypeError("a model is called by a text")
        self.calls += int(record.get("attempts", 1))
        self.failed_attempts += len(record.get("failed_attempts", ()))
        # A journal has millions of steps: a Counter made or updated for each takes longer than all the rest of this.
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
        """Dollars; None where a model that was used has no price, or never says what it charges."""
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
    """Lines of a file that are read when somebody looks at them."""

    def __init__(self, path: Path, offsets: Array) -> None:
        self._path, self._offsets = path, offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return _FailureLines(self._path, self._offsets[i])
        return record_at(self._path, int(self._offsets[i]))


def _judges(directory: Path, lines: ResultColumns, n_expected: int) -> Iterator[tuple[JudgeScores, Path]]:
    """Each judge's scores, and the file with its verdicts."""
    import numpy as np

    if lines.judge:
        everything = np.ones(lines.n, bool)
        yield _scores(lines.judge, lines.scores_of(everything), lines.n_failed, n_expected), lines.path
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        verdicts = ResultColumns(path, judged_mark)
        # A verdict may stand there whose answer was not recorded before a crash, or has changed: it does not count.
        counts = verdicts.answered_in(lines)
        # An answer that failed has nothing to judge, unless it was only the other judge that did.
        unjudged = lines.failed & ~np.isin(lines.ids, verdicts.ids[counts])
        n_failed = int(unjudged.sum()) + int(verdicts.failed[counts].sum())
        scores = _scores(verdicts.judge or path.stem, verdicts.scores_of(counts), n_failed, n_expected)
        yield replace(scores, failures=_FailureLines(path, verdicts.failures_in(counts))), path


def _scores(judge: str, scores: Scores, n_failed: int, n_expected: int) -> JudgeScores:
    return JudgeScores(judge, scores, scorer.summarise(scores.numbers(), n_failed, n_expected))


def spent_by_system(journal: Path) -> dict[str, Spent]:
    """What each of several systems caused whose answers were judged with one journal, by name. Raises InputError."""
    return _spent_by(journal, lambda record: str(record.get("instance")).partition("/")[0])


def _spent_by(journal: Path, name: Callable[[Mapping[str, Any]], str]) -> dict[str, Spent]:
    """What the steps of a journal took, by what `name` calls them. InputError for steps that somebody broke."""
    found: dict[str, Spent] = {}
    try:
        for record in read_jsonl(journal):
            found.setdefault(name(record), Spent()).add(record)
    except (AttributeError, TypeError, ValueError):
        # A look at every field beforehand would cost more than reading.
        problem = "a step's model, attempts, usage or response is not as a journal has it"
        raise InputError(journal, problem) from None
    return found


def _spent(directory: Path, manifest: Mapping[str, Any], known: Mapping[str, Spent] | None) -> Spent:
    if shared := manifest.get("journal"):
        known = spent_by_system(directory / shared) if known is None else known
        return known.get(directory.name, Spent())
    return _spent_by(directory / STEPS, lambda record: "").get("", Spent())
