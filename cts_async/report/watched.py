"""What somebody looks at from another shell: run directories, and what the processes that write them say."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_origin, get_type_hints, is_typeddict

from cts_async.errors import InputError
from cts_async.protocol.judge_files import SYSTEMS
from cts_async.protocol.run_files import MANIFEST
from cts_async.protocol.run_folders import manifest_of
from cts_async.report.doing import longest
from cts_async.report.live import read_live
from cts_async.report.viewer.shapes import LiveFile, LivePart


def watched(words: Iterable[Path]) -> list[Path]:
    """Run directories, each once: by name or pattern, and all in a folder that is none itself.

    Raises InputError for a word behind which there is none.
    """
    found = [directory for word in words for directory in _named_by(word)]
    return list({directory.resolve(): directory for directory in found}.values())


def _named_by(word: Path) -> Iterator[Path]:
    paths = [word]
    if not word.exists() and glob.has_magic(str(word)):
        paths = [Path(path) for path in sorted(glob.glob(str(word)))]
    if not paths or not paths[0].exists():
        raise InputError(word, "no such run or folder")
    for path in paths:
        found = list(_runs_at(path))
        if not found:
            raise InputError(path, f"no run in it ({MANIFEST} neither here nor one folder below)")
        yield from found


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
    return cast("LiveFile", live) if conforms(live, LiveFile) else None


def conforms(value: Any, shape: Any) -> bool:
    """Whether JSON has the shape: a TypedDict, list[...], a union, or a plain type (an int is a float, too)."""
    if is_typeddict(shape):
        hints = get_type_hints(shape)
        return isinstance(value, dict) and all(
            name in value and conforms(value[name], hint) for name, hint in hints.items()
        )
    if get_origin(shape) is list:
        return isinstance(value, list) and all(conforms(one, get_args(shape)[0]) for one in value)
    if get_args(shape):
        return any(conforms(value, one) for one in get_args(shape))
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is (type(None) if shape is None else shape)


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
