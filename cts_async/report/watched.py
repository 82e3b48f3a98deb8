"""What somebody looks at from another shell: run directories, and what the processes that write them say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from cts_async.errors import InputError
from cts_async.protocol.judge_plan import SYSTEMS
from cts_async.protocol.run_files import MANIFEST
from cts_async.protocol.run_folders import manifest_of, named
from cts_async.report.doing import longest
from cts_async.report.live import read_live
from cts_async.report.live_shapes import LiveFile, LivePart
from cts_async.report.shaped import has_shape


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
