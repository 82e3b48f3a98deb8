"""The files of a run directory: their names, which directories a user's words name, and a run's data.

run.json            identity (what determines the results), notes of the last command, sessions
steps.jsonl         the journal: one line for each executed step
results.jsonl       one line for each finished instance (judged candidates: per_item.jsonl)
judgments/          further judges' verdicts, a file for each judge
prompts/            the prompts as they were used
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cts_async.datasets import Dataset, open_dataset
from cts_async.errors import InputError, UsageError
from cts_async.runs.manifest import read_manifest

RESULTS, PER_ITEM, STEPS, MANIFEST, SUMMARY, JUDGMENTS, PROMPTS = (
    "results.jsonl",
    "per_item.jsonl",
    "steps.jsonl",
    "run.json",
    "summary.json",
    "judgments",
    "prompts",
)
RUN_FILES: Final = (RESULTS, PER_ITEM, STEPS, MANIFEST, SUMMARY, "traces.jsonl", "live.json", "report.html")
RUN_FOLDERS: Final = (JUDGMENTS, PROMPTS)
FURTHER: Final = "further_judges"
"""The manifest's field with what determines each further judge's verdicts, by name."""

N_ANSWERS: Final = "n_answers"
"""The manifest's field with the number of candidates, where these are fewer than the instances of their gold."""

GOLDBUILD: Final = "goldbuild"
"""The system name of a `cts gold` build."""
TALK: Final = "talk"
"""The task of a `cts converse` run: conversations without search and answer."""
REPORT: Final = "report.html"
"""The file that `cts report` writes next to the runs."""


def judgments_path(directory: Path, judge: str) -> Path:
    """The file with a further judge's verdicts."""
    return directory / JUDGMENTS / f"{judge.replace('/', '_').replace(':', '_')}.jsonl"


def results_of(directory: Path) -> str:
    """The name of the results file in a directory: of a run, or of judged candidates."""
    judged = (directory / PER_ITEM).exists() and not (directory / RESULTS).exists()
    return PER_ITEM if judged else RESULTS


# --- Existing run directories: which ones the user's words name, what they hold, and their data


def run_folders(words: Iterable[Path]) -> list[Path]:
    """Run directories: each named directly or by a pattern, and all runs in a folder that is not a run itself.

    A word that names nothing is returned unchanged, so that reading it reports the error. Gold builds are left out.
    """
    meant = without((path for word in words for path in matching(word) or [word]), is_report)
    return without((path for named in meant for path in _runs_at(named)), is_gold_build)


def matching(word: Path | str) -> list[Path]:
    """The path itself if it exists, else the sorted paths that match it as a pattern."""
    path = Path(word)
    return [path] if path.exists() else sorted(map(Path, glob.glob(str(word), recursive=True)))


def _runs_at(path: Path) -> list[Path]:
    within = [] if (path / MANIFEST).exists() else sorted(path.glob(f"*/{MANIFEST}"))
    return [manifest.parent for manifest in within] or [path]


def paths_named(words: Iterable[Path | str], missing: str) -> list[Path]:
    """Paths that the words name directly or as patterns, without reports. InputError with `missing` for no path."""
    found: list[Path] = []
    for word in words:
        paths = matching(word)
        if not paths:
            raise InputError(Path(word), missing)
        found += paths
    return without(found, is_report)


def without(paths: Iterable[Path], test: Callable[[Path], bool]) -> list[Path]:
    """`paths` but those that pass the test; unchanged if there is nothing else."""
    every = list(paths)
    return [path for path in every if not test(path)] or every


def is_report(path: Path) -> bool:
    """Whether a path, such as `runs/*` matches, is that of a report."""
    return path.name == REPORT


def is_gold_build(directory: Path) -> bool:
    """Whether `cts gold` made this directory; False without a valid manifest."""
    return (manifest_of(directory).get("identity") or {}).get("system") == GOLDBUILD


def is_conversation(directory: Path) -> bool:
    """Whether `cts converse` made this directory; False without a valid manifest."""
    return (manifest_of(directory).get("identity") or {}).get("task") == TALK


def has_no_answers(directory: Path) -> bool:
    """Whether a run searches nothing: conversations only, or a run that stops before the search (`--stop-after`)."""
    identity = manifest_of(directory).get("identity") or {}
    return identity.get("task") == TALK or bool(identity.get("stop_after"))


def n_absent(manifest: Mapping[str, Any]) -> int:
    """Instances of the gold that judged candidates have no answer for; 0 for a run, which has a line for each."""
    n_answers = manifest.get(N_ANSWERS)
    if not isinstance(n_answers, int) or isinstance(n_answers, bool):
        return 0
    return max(0, int(manifest.get("n_expected", 0)) - n_answers)


def manifest_of(directory: Path) -> Mapping[str, Any]:
    """A directory's manifest; empty if it is missing or invalid."""
    try:
        return (read_manifest(directory) if directory.is_dir() else None) or {}
    except InputError:
        return {}


# --- The data of a run


def reopen_data(manifest: Mapping[str, Any], spec: str | None = None) -> Dataset:
    """The dataset of a run, opened from the place that its manifest records, or from `spec`.

    Its gold may have changed or be missing, see `dataset.gold_path`. Raises UsageError, InputError for other data.
    """
    noted = manifest.get("data", {})
    expected = (manifest.get("identity", {}).get("data") or {}).get("sha256")
    other = "not the file this run was made with"
    given = spec is not None
    spec = spec or noted.get("spec")
    if not spec:
        raise UsageError("run.json does not record where the data is")
    gold = Path(noted["gold"]) if noted.get("gold") else None
    try:
        dataset = open_dataset(
            spec,
            gold if gold and gold.exists() else None,
            noted.get("fields") or {},
            skip_bad_gold=bool(noted.get("skip_bad_gold")),
        )
    except InputError as error:
        if given or not Path(error.path).exists():
            raise
        # A manifest is untrusted and may name any file: do not quote that file's content in a message.
        raise InputError(error.path, other) from None
    if dataset.sha256() != expected:
        raise InputError(dataset.path, f"{other} (its sha256 differs)")
    return dataset
