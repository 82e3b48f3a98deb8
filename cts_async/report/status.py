"""The state of runs as seen from another shell: from `live.json` of running processes, else from the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from cts_async.engine.journal import record_at
from cts_async.engine.run_dir import command_of, read_manifest, sessions_of
from cts_async.errors import InputError
from cts_async.protocol.rejudge import SYSTEMS
from cts_async.protocol.results import no_fingerprint
from cts_async.protocol.run_files import MANIFEST, STEPS, manifest_of, paths_named, results_of
from cts_async.records import Caveat, caveat_of
from cts_async.report.live import LiveFile, is_live, process_exists, read_live, sum_of
from cts_async.report.output import duration
from cts_async.report.progress import RunningMean
from cts_async.report.summary import ResultColumns, caveats_json

State = Literal["finished", "stopped", "killed", "working", "damaged"]
"""stopped: the process ended in order; killed: it ended without a record of it; working: it exists, but writes no
`live.json` (yet); damaged: there is no readable run."""
_STATES: Final[Mapping[State, str]] = {
    "finished": "finished,",
    "stopped": "stopped at",
    "killed": "killed at",
    "working": "running, at",
    "damaged": "damaged,",
}
DAY_S: Final = 86_400.0


# --- Runs that a process is writing


def run_directories(words: Iterable[Path]) -> list[Path]:
    """Run directories, each once: named by themselves, by a pattern, or by the folder that contains them.

    Raises InputError for a word that names none.
    """
    found = [
        directory for path in paths_named(words, "no such run or folder") for directory in _runs_at(path)
    ]
    return list({directory.resolve(): directory for directory in found}.values())


def _runs_at(path: Path) -> list[Path]:
    """The directory itself, or the runs in it if it is a folder of runs or of several judged systems."""
    if (path / MANIFEST).is_file() and SYSTEMS not in manifest_of(path):
        return [path]
    if found := [manifest.parent for manifest in sorted(path.glob(f"*/{MANIFEST}"))]:
        return found
    raise InputError(path, f"no run found: no {MANIFEST} in this folder or one level below")


def live_of(directory: Path) -> LiveFile | None:
    """The `live.json` of a run; None if no process writes the run, or one of another version does."""
    live = read_live(directory)
    return live if is_live(live) else None


def by_process(lives: Sequence[LiveFile]) -> list[LiveFile]:
    """The files of each process combined into one; its common fields are those of its latest file."""
    processes: dict[int, list[LiveFile]] = {}
    for live in lives:
        processes.setdefault(live["pid"], []).append(live)
    combined: list[LiveFile] = []
    for of_one in processes.values():
        latest = max(of_one, key=lambda live: live["time"])
        parts = list({part["name"]: part for live in of_one for part in live["parts"]}.values())
        notes = dict.fromkeys(live["note"] for live in of_one if live["note"])
        combined.append({**latest, **sum_of(parts), "note": "; ".join(notes), "parts": parts})
    return combined


# --- Runs at rest


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run according to its files; the fields but the directory are those of `--json`, in this order."""

    directory: Path
    state: State
    n_expected: int = 0
    n_done: int = 0
    """Finished instances, failed ones included."""
    n_failed: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """Current failures by kind, the most frequent first."""
    judge: str | None = None
    mean: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    """95 % interval of the mean."""
    n_scored: int = 0
    caveat: Caveat = ""
    last_worked: float | None = None
    """When its files were last written, in seconds since 1970."""
    reason: str = ""
    """Why its last session stopped; "" if unknown."""
    command: str = ""

    def line(self, now: float) -> str:
        """One line for a person; `now` in seconds since 1970."""
        if self.state == "damaged":
            return self.reason
        pieces = [f"{_STATES[self.state]} {self.n_done} of {self.n_expected}"]
        if self.failures:
            kinds = ", ".join(f"{kind} {n}" for kind, n in self.failures.items())
            pieces.append(f"{self.n_failed} failed ({kinds})")
        if self.mean is not None:
            half = "" if self.mean_high is None else f" ± {self.mean_high - self.mean:.1f}"
            pieces.append(
                f"mean {self.mean:.1f}{half} by {self.judge}" + f" ({self.caveat})" * bool(self.caveat)
            )
        if self.last_worked is not None:
            pieces.append(f"last written {_when(self.last_worked, now)}")
        why = f"; {self.reason}" if self.reason and self.resumable else ""
        return f"{self.directory}: {', '.join(pieces)}{why}"

    @property
    def resumable(self) -> bool:
        """Whether work is left, and no process does it."""
        return self.state in ("stopped", "killed")

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        found: dict[str, Any] = {}
        for name, value in asdict(self).items():
            found |= caveats_json([self.caveat]) if name == "caveat" else {name: value}
        del found["directory"]
        return found


def idle_state(directory: Path) -> RunState:
    """`state_of_run`; a run that cannot be read has the state "damaged"."""
    try:
        return state_of_run(directory)
    except InputError as error:
        return RunState(directory, "damaged", reason=str(error))


def state_of_run(directory: Path) -> RunState:
    """Read a run's manifest and results, but not its journal. Raises InputError if it is not a run."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "not a run directory: run.json not found")
    lines = ResultColumns(directory / results_of(directory), no_fingerprint)
    mean = RunningMean()
    mean.add(lines.scored()[1].tolist() if lines.n else ())
    low, high = mean.interval() or (None, None)
    records = (record_at(lines.path, offset) or {} for offset in lines.failures.tolist())
    kinds = Counter(str((record.get("error") or {}).get("kind") or "unknown") for record in records)
    written = [path.stat().st_mtime for path in (directory / STEPS, lines.path) if path.exists()]
    session: Mapping[str, Any] = next(reversed(sessions_of(manifest)), {})
    expected = manifest.get("n_expected")
    n_expected = max(expected if isinstance(expected, int) else 0, lines.n)
    return RunState(
        directory=directory,
        state=_state(directory, session, finished=lines.n >= n_expected),
        n_expected=n_expected,
        n_done=lines.n,
        n_failed=kinds.total(),
        failures=dict(kinds.most_common()),
        judge=lines.judge,
        mean=mean.mean if mean.n else None,
        mean_low=low,
        mean_high=high,
        n_scored=mean.n,
        caveat=caveat_of(manifest),
        last_worked=max(written, default=None),
        reason=str(session.get("stopped") or ""),
        command=command_of(manifest),
    )


def how_to_resume(states: Iterable[RunState]) -> list[str]:
    """A line for each command that would resume some of these runs."""
    commands = dict.fromkeys(state.command for state in states if state.resumable)
    return [
        f"To resume, run the same command again{f': {command}' if command else ''}" for command in commands
    ]


def _state(directory: Path, session: Mapping[str, Any], *, finished: bool) -> State:
    open_ended = bool(session.get("start")) and not session.get("end")
    if open_ended:
        # According to the lock file, the process that locked the directory last.
        with suppress(OSError, ValueError):
            if process_exists(int((directory / ".lock").read_text().rpartition(" ")[2])):
                return "working"
    return "finished" if finished else "killed" if open_ended else "stopped"


def _when(at: float, now: float, local: Callable[[float], datetime] = datetime.fromtimestamp) -> str:
    """`16:02:31, 0:45 ago`; date and time if that is longer than a day ago."""
    ago = max(0.0, now - at)
    if ago >= DAY_S:
        return local(at).isoformat(sep=" ", timespec="minutes")
    return f"{local(at).time().isoformat(timespec='seconds')}, {duration(ago)} ago"
