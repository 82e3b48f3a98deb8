"""The state of runs as seen from another shell: what live processes say, and what the files of idle runs tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

from cts_async.engine.journal import record_at
from cts_async.engine.run_dir import command_of, read_manifest, sessions_of
from cts_async.errors import InputError
from cts_async.protocol.judge_plan import SYSTEMS
from cts_async.protocol.results import unmarked
from cts_async.protocol.run_files import MANIFEST, STEPS, results_of
from cts_async.protocol.run_folders import manifest_of, named
from cts_async.report.live import LiveFile, LivePart, alive, has_shape, read_live
from cts_async.report.live_words import SMOKE_TEST, duration
from cts_async.report.pace import RunningMean
from cts_async.report.progress import longest
from cts_async.report.result_columns import ResultColumns


def watched(words: Iterable[Path]) -> list[Path]:
    """Run directories, each once: by name or pattern, and all in a folder that is none itself.

    Raises InputError for a word behind which there is none.
    """
    meant = named(words, "no such run or folder")
    found = [directory for path in meant for directory in _found_at(path)]
    return list({directory.resolve(): directory for directory in found}.values())


def _found_at(path: Path) -> list[Path]:
    if found := list(_runs_at(path)):
        return found
    raise InputError(path, f"no run in it ({MANIFEST} neither here nor one folder below)")


def _runs_at(path: Path) -> Iterator[Path]:
    """The directory itself; where it only holds those of several judged systems, these."""
    if (path / MANIFEST).is_file() and SYSTEMS not in manifest_of(path):
        yield path
        return
    for manifest in sorted(path.glob(f"*/{MANIFEST}")):
        yield manifest.parent


def live_of(directory: Path) -> LiveFile | None:
    """What is going on there; None where nothing is, or whoever says so does not say it as this version does."""
    live = read_live(directory)
    return cast("LiveFile", live) if has_shape(live, LiveFile) else None


def by_process(lives: Sequence[LiveFile]) -> list[LiveFile]:
    """One for each process, with what all of its directories say; what it says everywhere is taken from the latest."""
    processes: dict[int, list[LiveFile]] = {}
    for live in lives:
        processes.setdefault(live["pid"], []).append(live)
    return [_together(of_one) for of_one in processes.values()]


def _together(lives: Sequence[LiveFile]) -> LiveFile:
    latest = max(lives, key=lambda live: live["time"])
    parts: dict[str, LivePart] = {part["name"]: part for live in lives for part in live["parts"]}
    every = list(parts.values())
    notes = dict.fromkeys(live["note"] for live in lives if live["note"])
    return {
        **latest,
        "n_expected": sum(part["n_expected"] for part in every),
        "n_done": sum(part["n_done"] for part in every),
        "n_failed": sum(part["n_failed"] for part in every),
        "eta_s": longest(part["eta_s"] for part in every),
        "calls": sum(part["calls"] for part in every),
        "replayed": sum(part["replayed"] for part in every),
        "retries": sum(part["retries"] for part in every),
        "tokens": sum(part["tokens"] for part in every),
        "note": "; ".join(notes),
        "parts": every,
    }


State = Literal["finished", "stopped", "killed", "working", "damaged"]
"""All instances have a line; the process ended in order; it ended without a word; it lives and says nothing (yet);
there is nothing here that can be read."""
_STATES: Final[Mapping[State, str]] = {
    "finished": "finished,",
    "stopped": "stopped at",
    "killed": "killed at",
    "working": "being worked on, at",
    "damaged": "damaged,",
}
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class RunState:
    """What the files of one run say."""

    directory: Path
    state: State
    n_expected: int
    n_done: int
    """Instances that ended, failures among them."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failures that count, by kind."""
    judge: str | None = None
    mean: float | None = None
    interval: tuple[float, float] | None = None
    n_scored: int = 0
    smoke_test: bool = False
    worked_at: float | None = None
    """When its files were last written to, in seconds since 1970."""
    reason: str = ""
    """Why its last session stopped; "" where nobody knows."""
    command: str = ""

    def line(self, now: float) -> str:
        """The same in a sentence, at `now` in seconds since 1970."""
        if self.state == "damaged":
            return self.reason
        told = [f"{_STATES[self.state]} {self.n_done} of {self.n_expected}"]
        if self.failures:
            kinds = ", ".join(f"{kind} {n}" for kind, n in self.failures.items())
            told.append(f"{sum(self.failures.values())} failed ({kinds})")
        if self.mean is not None:
            about = f" ± {self.interval[1] - self.mean:.1f}" if self.interval else ""
            told.append(f"mean {self.mean:.1f}{about} by {self.judge}" + f" ({SMOKE_TEST})" * self.smoke_test)
        if self.worked_at is not None:
            told.append(f"last worked {_when(self.worked_at, now)}")
        why = f"; {self.reason}" if self.reason and self.resumable else ""
        return f"{self.directory}: {', '.join(told)}{why}"

    @property
    def resumable(self) -> bool:
        """Whether there is anything left to do, and nobody does it."""
        return self.state in ("stopped", "killed")

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "state": self.state,
            "n_expected": self.n_expected,
            "n_done": self.n_done,
            "n_failed": sum(self.failures.values()),
            "failures": dict(self.failures),
            "judge": self.judge,
            "mean": self.mean,
            "mean_low": self.interval[0] if self.interval else None,
            "mean_high": self.interval[1] if self.interval else None,
            "n_scored": self.n_scored,
            "smoke_test": self.smoke_test,
            "last_worked": self.worked_at,
            "reason": self.reason,
            "command": self.command,
        }


def rest_of(directory: Path) -> RunState:
    """`state_of_run`, with a run that cannot be read as one that says so: the others can."""
    try:
        return state_of_run(directory)
    except InputError as error:
        return RunState(directory, "damaged", 0, 0, reason=str(error))


def state_of_run(directory: Path) -> RunState:
    """Read a run's manifest and results; its journal is not looked into. Raises InputError where there is no run."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "not a run directory: run.json not found")
    lines = ResultColumns(directory / results_of(directory), unmarked)
    mean = RunningMean()
    mean.add(lines.scores_of(~lines.failed).values.tolist() if lines.n else ())
    session = _last_session(manifest)
    expected = manifest.get("n_expected")
    n_expected = max(expected if isinstance(expected, int) else 0, lines.n)
    return RunState(
        directory=directory,
        state=_state(directory, session, finished=lines.n >= n_expected),
        n_expected=n_expected,
        n_done=lines.n,
        failures=_kinds(lines),
        judge=lines.judge,
        mean=mean.mean if mean.n else None,
        interval=mean.interval(),
        n_scored=mean.n,
        smoke_test=bool(manifest.get("embedded")),
        worked_at=_worked_at(directory, results_of(directory)),
        reason=str(session.get("stopped") or ""),
        command=command_of(manifest),
    )


def how_to_resume(states: Iterable[RunState]) -> list[str]:
    """A line for each command that would go on with some of these runs."""
    commands = dict.fromkeys(state.command for state in states if state.resumable)
    return [
        f"To resume, type the same command again{f': {command}' if command else ''}" for command in commands
    ]


def _last_session(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(reversed(sessions_of(manifest)), {})


def _state(directory: Path, session: Mapping[str, Any], *, finished: bool) -> State:
    if session.get("start") and not session.get("end"):
        if alive(_holder(directory)):
            return "working"
        return "finished" if finished else "killed"
    return "finished" if finished else "stopped"


def _holder(directory: Path) -> int:
    """The process that locked the directory last, as its lock says; 0 where it says nothing."""
    try:
        return int((directory / ".lock").read_text().rpartition(" ")[2])
    except (OSError, ValueError):
        return 0


def _kinds(lines: ResultColumns) -> dict[str, int]:
    """Kinds of failures, the most frequent first."""
    kinds: Counter[str] = Counter()
    for offset in lines.failures.tolist():
        error = (record_at(lines.path, offset) or {}).get("error") or {}
        kinds[str(error.get("kind") or "unknown")] += 1
    return dict(kinds.most_common())


def _worked_at(directory: Path, results: str) -> float | None:
    written: list[float] = []
    for name in (STEPS, results):
        try:
            written.append((directory / name).stat().st_mtime)
        except OSError:
            continue
    return max(written, default=None)


def _when(at: float, now: float, local: Callable[[float], datetime] = datetime.fromtimestamp) -> str:
    """`16:02:31, 0:45 ago`, with the date where that is longer than a day ago."""
    ago = max(0.0, now - at)
    if ago >= DAY_S:
        return local(at).isoformat(sep=" ", timespec="minutes")
    return f"{local(at).time().isoformat(timespec='seconds')}, {duration(ago)} ago"
