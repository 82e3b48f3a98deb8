"""The files of a run directory: their names, which directories a user's words name, and a run's data.

run.json            identity (what determines the results), notes of the last command, sessions
steps.jsonl         the journal: one line for each executed step
results.jsonl       one line for each finished instance (judged candidates: per_item.jsonl)
judgments/          further judges' verdicts, a file for each judge
prompts/            the prompts as they were used
sources/            the source of the user's own roles as they played, LABEL.ROLE.SUFFIX
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cts_async.datasets import Dataset, open_dataset
from cts_async.errors import InputError, UsageError, closest
from cts_async.runs.manifest import MANIFEST as MANIFEST
from cts_async.runs.manifest import Manifest, manifest_of

RESULTS: Final = "results.jsonl"
PER_ITEM: Final = "per_item.jsonl"
STEPS: Final = "steps.jsonl"
SUMMARY: Final = "summary.json"
JUDGMENTS: Final = "judgments"
PROMPTS: Final = "prompts"
SOURCES: Final = "sources"
RUN_FILES: Final = (RESULTS, PER_ITEM, STEPS, MANIFEST, SUMMARY, "traces.jsonl", "live.json", "report.html")
RUN_FOLDERS: Final = (JUDGMENTS, PROMPTS, SOURCES)
REPORT: Final = "report.html"
"""The file that `cts report` writes next to the runs."""


def judgments_path(directory: Path, judge: str) -> Path:
    """The file with a further judge's verdicts."""
    return directory / JUDGMENTS / f"{judge.replace('/', '_').replace(':', '_')}.jsonl"


def results_of(directory: Path) -> str:
    """The name of the results file in a directory: of a run, or of judged candidates."""
    if (directory / PER_ITEM).exists() and not (directory / RESULTS).exists():
        return PER_ITEM
    return RESULTS


# --- Existing run directories: which ones the user's words name, what they hold, and their data


def run_named(word: str, folder: Path) -> Path:
    """The run directory of a path, or of a name in the folder of runs. Raises InputError."""
    path, inside = Path(word), folder / word
    for directory in (path, inside):
        if (directory / MANIFEST).is_file():
            return directory
    for directory in (path, inside):
        if directory.is_dir():
            raise InputError(directory, f"not a run directory: {MANIFEST} not found")
    names: list[str] = []
    if folder.is_dir():
        names = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    near, hint = closest(word, names), ""
    if near:
        hint = f"; did you mean {near}?"
    raise InputError(word, f"no such run, here or in {folder}/{hint}")


def matching(word: Path | str) -> list[Path]:
    """The path itself if it exists, else the sorted paths that match it as a pattern."""
    path = Path(word)
    # A name with brackets may be a path as well as a pattern: what exists is meant.
    if path.exists():
        return [path]
    return sorted(map(Path, glob.glob(str(word), recursive=True)))


def runs_at(path: Path) -> list[Path]:
    """The runs in a folder; the path itself if it is a run, or has none in it."""
    if (path / MANIFEST).exists():
        return [path]
    manifests = sorted(path.glob(f"*/{MANIFEST}"))
    return [manifest.parent for manifest in manifests] or [path]


def paths_named(words: Iterable[Path | str], missing: str) -> list[Path]:
    """Paths that the words name directly or as patterns, without reports. InputError with `missing` for no path."""
    paths: list[Path] = []
    for word in words:
        matches = matching(word)
        if not matches:
            raise InputError(Path(word), missing)
        paths += matches
    return without(paths, is_report)


def without(paths: Iterable[Path], test: Callable[[Path], bool]) -> list[Path]:
    """`paths` but those that pass the test; unchanged if there is nothing else."""
    paths = list(paths)
    return [path for path in paths if not test(path)] or paths


def is_report(path: Path) -> bool:
    """Whether a path, such as `runs/*` matches, is that of a report."""
    return path.name == REPORT


def is_gold_build(directory: Path) -> bool:
    """Whether `cts gold` made this directory; False without a valid manifest."""
    return manifest_of(directory).is_gold_build


def is_conversation(directory: Path) -> bool:
    """Whether `cts converse` made this directory; False without a valid manifest."""
    return manifest_of(directory).is_conversation


def has_no_answers(directory: Path) -> bool:
    """Whether a run searches nothing: conversations only, or a run that stops before the search (`--stop-after`)."""
    return not manifest_of(directory).searches


# --- The data of a run


def reopen_data(manifest: Manifest, spec: str | None = None) -> Dataset:
    """The dataset of a run, opened from the place that its manifest records, or from `spec`.

    Its gold may have changed or be missing, see `dataset.gold_path`. Raises UsageError, InputError for other data.
    """
    recorded = manifest.data
    problem = "not the file this run was made with"
    chosen_by_user = spec is not None
    spec = spec or recorded.spec
    if not spec:
        raise UsageError("run.json does not record where the data is")
    gold = None
    if recorded.gold and Path(recorded.gold).exists():
        gold = Path(recorded.gold)
    try:
        dataset = open_dataset(spec, gold, recorded.fields, skip_bad_gold=recorded.skip_bad_gold)
    except InputError as error:
        if chosen_by_user or not Path(error.path).exists():
            raise
        # A manifest is untrusted and may name any file: do not quote that file's content in a message.
        raise InputError(error.path, problem) from None
    if dataset.sha256() != manifest.identity.data.sha256:
        raise InputError(dataset.path, f"{problem} (its sha256 differs)")
    return dataset
