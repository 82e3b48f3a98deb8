"""What a run has used so far, from its files: calls, tokens and latency by kind of step.

Read only; the files may not exist yet, or may be growing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cts_async.engine.journal import read_jsonl
from cts_async.engine.run_dir import read_manifest, sessions_of
from cts_async.protocol.judge import JUDGING
from cts_async.protocol.results import failed, read_results
from cts_async.protocol.run_files import RESULTS, STEPS


def kind_of(step: str) -> str:
    """The kind of a step: `search` for `search/turn/3`, `answer` for `answer/1`."""
    return step.split("/", 1)[0]


@dataclass(slots=True)
class Seen:
    """Sums over the steps of one kind with one model. Tokens and calls include those of failed attempts."""

    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latency_s: float = 0.0

    def add(self, other: Seen) -> None:
        self.steps += other.steps
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.latency_s += other.latency_s


@dataclass(slots=True)
class Observed:
    """The usage of one system's run; empty without a run."""

    seen: dict[tuple[str, str], Seen] = field(default_factory=dict)
    """Usage by kind of step and model id."""
    searches: int = 0
    turns: int = 0
    """Model calls of all these searches."""
    done: set[str] = field(default_factory=set)
    """Instances that need no more work."""
    begun: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Finished steps of unfinished instances, by kind and model id."""
    forecast: Mapping[str, Any] | None = None
    """The forecast that the manifest records."""
    wall_s: float = 0.0


def observe(directory: Path, judges: Iterable[str], *, retry_failed: bool = False) -> Observed:
    """Read the run in `directory`; of the judging steps only those of `judges` count."""
    observed = Observed()
    manifest = read_manifest(directory)
    if manifest is None:
        return observed
    observed.forecast = manifest.get("forecast")
    observed.wall_s = sum(session.get("wall_s") or 0.0 for session in sessions_of(manifest))
    # Only the number of turns is kept of each line: the lines themselves are long.
    turns: dict[str, int | None] = {}
    for line in read_results(directory / RESULTS):
        turns[line["id"]] = None if failed(line) else _turns_of(line.get("search"))
    finished = [n for n in turns.values() if n is not None]
    observed.searches, observed.turns = len(finished), sum(finished)
    observed.done = {id for id, n in turns.items() if n is not None or not retry_failed}
    _read_steps(directory / STEPS, {f"{JUDGING}{judge}" for judge in judges}, observed)
    return observed


def _turns_of(search: Any) -> int:
    """The model calls of a results line's search; 0 if invalid."""
    n = search.get("model_calls") if isinstance(search, Mapping) else None
    return n if isinstance(n, int) else 0


def _read_steps(path: Path, judging: set[str], observed: Observed) -> None:
    seen: defaultdict[tuple[str, str], Seen] = defaultdict(Seen)
    for record in read_jsonl(path):
        model, step = record.get("model"), str(record.get("step"))
        if model is None or (step.startswith(JUDGING) and step not in judging):
            continue
        key = kind_of(step), str(model)
        usage, ok = record.get("usage") or {}, bool(record.get("ok"))
        seen[key].add(
            Seen(
                steps=ok,
                calls=int(record.get("attempts", 1)),
                input_tokens=int(usage.get("input", 0)),
                output_tokens=int(usage.get("output", 0)),
                latency_s=float(record.get("latency_s", 0.0)),
            )
        )
        if ok and record.get("instance") not in observed.done:
            observed.begun[key] += 1
    observed.seen = dict(seen)


def pooled(runs: Iterable[Observed]) -> dict[tuple[str, str], Seen]:
    """The usage of several systems together: steps of one kind with one model count as the same work."""
    together: defaultdict[tuple[str, str], Seen] = defaultdict(Seen)
    for run in runs:
        for key, seen in run.seen.items():
            together[key].add(seen)
    return {key: seen for key, seen in together.items() if seen.steps}
