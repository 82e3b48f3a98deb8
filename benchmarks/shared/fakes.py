"""The tests' fakes, for benchmarks: the provider as a process, and real runs against it."""

from __future__ import annotations

import sys

from benchmarks.shared.process import ROOT

sys.path.insert(0, str(ROOT / "tests"))

import iteration_session as session_fakes
from fake_batches import batches_process
from fake_provider import ALL_FAULTS, PAID, Remote, Seen, digest_of, provider_process
from forked_commands import Command, Start, forked_commands
from interactcomp_runs import write_tasks as made_interactcomp_tasks
from iteration_session import Killed
from real_run import RealRun

__all__ = [
    "ALL_FAULTS",
    "PAID",
    "Command",
    "Killed",
    "RealRun",
    "Remote",
    "Seen",
    "Start",
    "batches_process",
    "digest_of",
    "forked_commands",
    "made_interactcomp_tasks",
    "provider_process",
    "session_fakes",
]
