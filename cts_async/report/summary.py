"""`summary.json`: what a run came to, computed from its files alone.

The statistics are the scorer's own, so the scorer run by itself over the same file agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cts_async import scorer
from cts_async.engine.journal import read_jsonl
from cts_async.engine.run_dir import read_manifest, write_json
from cts_async.errors import InputError
from cts_async.protocol.results import Line, failed, latest_results, read_results
from cts_async.protocol.run_files import JUDGMENTS, RESULTS, STEPS, SUMMARY
from cts_async.records import UNKNOWN


@dataclass(frozen=True, slots=True)
class JudgeScores:
    """One judge's scores by instance id, and their summary."""

    judge: str
    scores: Mapping[str, float]
    summary: scorer.Summary


@dataclass(slots=True)
class Spent:
    """What the steps of a run cost, failed attempts included."""

    calls: int = 0
    failed_attempts: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: tokens "input" and "output"."""

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
    failures: tuple[Line, ...]
    spent: Spent
    n_expected: int
    n_done: int
    unknown_rate: float | None
    all_unknown_rate: float | None
    wall_s: float

    @property
    def label(self) -> str:
        return str(self.manifest.get("identity", {}).get("system") or self.directory.name)


def summarise_run(directory: Path, results: str = RESULTS) -> RunSummary:
    """Read a run directory. Raises InputError where there is no run."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "no run here (run.json is missing)")
    lines = latest_results(directory / results)
    n_expected = max(int(manifest.get("n_expected", 0)), len(lines))
    answers = [line["answers"] for line in lines.values() if not failed(line) and line.get("answers")]
    return RunSummary(
        directory=directory,
        manifest=manifest,
        judges=tuple(_judges(directory, lines, n_expected)),
        failures=tuple(line for line in lines.values() if failed(line)),
        spent=_spent(directory / STEPS),
        n_expected=n_expected,
        n_done=sum(not failed(line) for line in lines.values()),
        unknown_rate=_mean(answer == UNKNOWN for reply in answers for answer in reply),
        all_unknown_rate=_mean(all(answer == UNKNOWN for answer in reply) for reply in answers),
        wall_s=sum(session.get("wall_s") or 0.0 for session in manifest.get("sessions", [])),
    )


def write_summary(summary: RunSummary) -> dict[str, Any]:
    """Write `summary.json` and give what was written."""
    prices = summary.manifest.get("prices", {})
    main = summary.judges[0] if summary.judges else None
    nothing = scorer.summarise([], len(summary.failures), summary.n_expected, n_unjudged=summary.n_done)
    value = {
        **asdict(main.summary if main else nothing),
        "judge": main.judge if main else None,
        "judges": {scores.judge: asdict(scores.summary) for scores in summary.judges},
        "ua_unknown_rate": summary.unknown_rate,
        "all_unknown_rate": summary.all_unknown_rate,
        "calls": summary.spent.calls,
        "failed_attempts": summary.spent.failed_attempts,
        "tokens": {model: dict(used) for model, used in summary.spent.tokens.items()},
        "cost_usd": summary.spent.cost_usd(prices),
        "wall_s": round(summary.wall_s, 3),
        "smoke_test": bool(summary.manifest.get("embedded")),
    }
    write_json(summary.directory / SUMMARY, value)
    return value


def _judges(directory: Path, lines: Mapping[str, Line], n_expected: int) -> Iterable[JudgeScores]:
    main = next((line["judge"] for line in lines.values() if line.get("judge")), None)
    n_failed = sum(failed(line) for line in lines.values())
    if main:
        yield _scores(main, lines, n_failed, n_expected)
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        # A verdict may stand there whose answer was not recorded before a crash: it does not count yet.
        good = {id for id, line in lines.items() if not failed(line)}
        judged = {line["id"]: line for line in read_results(path) if line["id"] in good}
        judge = next((line["judge"] for line in judged.values() if line.get("judge")), path.stem)
        # An answer that failed has nothing to judge: it counts as failed under every judge.
        failures = n_failed + sum(failed(line) for line in judged.values())
        yield _scores(judge, judged, failures, n_expected)


def _scores(judge: str, lines: Mapping[str, Line], n_failed: int, n_expected: int) -> JudgeScores:
    scores = {
        id: line["restore_score_100"]
        for id, line in lines.items()
        if not failed(line) and line.get("restore_score_100") is not None
    }
    return JudgeScores(judge, scores, scorer.summarise(scores.values(), n_failed, n_expected))


def _spent(path: Path) -> Spent:
    spent = Spent()
    for record in read_jsonl(path):
        model = record.get("model")
        if model is None:
            continue
        spent.calls += int(record.get("attempts", 1))
        spent.failed_attempts += len(record.get("failed_attempts", ()))
        used = spent.tokens.setdefault(model, Counter())
        used.update(record.get("usage") or {})
    return spent


def _mean(values: Iterable[bool]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None
