"""A part of a core for some processes, as a container's quota gives it: by the kernel's control groups, as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.shared.machine import processes, watched

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 10_000


class NoRations(Exception):
    """This machine, or who works here, cannot give out parts of a core; `str()` says why."""


@contextmanager
def rationed(part: str, share: float, groups: Path = GROUPS) -> Iterator[None]:
    """While the block runs every process with `part` in its command line has so much of a core. Raises NoRations."""
    rations = Rations(part, share, groups)
    try:
        with watched(rations):
            yield
    finally:
        rations.end()


@dataclass(slots=True)
class Rations:
    """Groups for one process each, of the first version of control groups or of the second."""

    part: str
    share: float
    groups: Path
    _made: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            trial = self._group("trial")
            trial.rmdir()
        except OSError as error:
            raise NoRations(f"no quota of CPU can be set here: {error}") from None

    def look(self) -> None:
        """Put a process that is new in a group of its own."""
        for pid, (_, _, words) in processes():
            if self.part in words and pid not in self._made:
                self._made[pid] = self._group(str(pid))
                with suppress(ProcessLookupError):  # it may have ended since it was seen
                    (self._made[pid] / "cgroup.procs").write_text(str(pid))

    def end(self) -> None:
        """Remove the groups, whose processes have ended."""
        while self._made:
            self._made.popitem()[1].rmdir()

    def _group(self, name: str) -> Path:
        quota_us = round(PERIOD_US * self.share)
        if (self.groups / "cgroup.controllers").exists():
            (self.groups / "cgroup.subtree_control").write_text("+cpu")
            group = self._made_in(self.groups, name)
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            group = self._made_in(self.groups / "cpu", name)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        return group

    @staticmethod
    def _made_in(above: Path, name: str) -> Path:
        group = above / f"cts-bench-{os.getpid()}-{name}"
        group.mkdir()
        return group
