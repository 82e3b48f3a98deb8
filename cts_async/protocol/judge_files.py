"""Where verdicts on answers that exist already go, and the files there, held open by the one process that writes.

A finished run keeps its results and gets `judgments/JUDGE.jsonl`. One file of candidates is judged into OUT itself,
in the release's form; several into a directory each, OUT/NAME/, with one journal for all of them in OUT:

    OUT/run.json  steps.jsonl  prompts/       what determines the verdicts, every call, the prompts as used
    OUT/NAME/per_item.jsonl  summary.json     the first judge's verdicts
    OUT/NAME/judgments/JUDGE.jsonl            every further judge's
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cts_async.engine.journal import Journal
from cts_async.engine.open_files import allow_more_files
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError, unwritable
from cts_async.protocol.further_judges import FURTHER, further_files, with_judges
from cts_async.protocol.judging import Answers
from cts_async.protocol.run_files import (
    JUDGMENTS,
    PER_ITEM,
    PROMPTS,
    STEPS,
    Also,
    RunFiles,
    noted,
    opened_files,
)

SYSTEMS: Final = "systems"
"""The field of a manifest by which an OUT of several candidate files is known: their names, in order."""
PLACE: Final = "--out"
_PLAIN_NAMES: Final = ("results", "per_item")
"""Files of ours that are known by their directory's name."""
_TAKEN: Final = (JUDGMENTS, PROMPTS)
_FILES_EACH: Final = 4


@dataclass(frozen=True, slots=True)
class Target:
    """One system's answers, and the directory of the verdicts on them.

    `scoring` is the judge whose verdicts are the results themselves; None in a finished run, which has its own.
    """

    name: str
    directory: Path
    answers: Answers
    scoring: str | None = None
    identity: Mapping[str, Any] | None = None
    shared_journal: bool = False

    def job_id(self, id: str) -> str:
        """What an answer is called in the journal."""
        return f"{self.name}/{id}" if self.shared_journal else id

    def journal(self, out: Path) -> Path:
        return (out if self.shared_journal else self.directory) / STEPS


def names_of(files: Sequence[Path]) -> list[str]:
    """A short name for each file, all different: its own, with as much of its path in front as that takes."""
    parts = [_parts(file) for file in files]
    taken = [1] * len(files)
    while True:
        names = ["-".join(own[-n:]) for own, n in zip(parts, taken, strict=True)]
        counts = Counter(name.casefold() for name in names)
        clashes = [i for i, name in enumerate(names) if counts[name.casefold()] > 1 or name in _TAKEN]
        longer = [i for i in clashes if taken[i] < len(parts[i])]
        if not longer:
            return _numbered(names)
        for i in longer:
            taken[i] += 1


def _parts(file: Path) -> list[str]:
    whole = [part for part in file.absolute().parts if part not in ("/", ".", "..")]
    return whole[:-1] if file.stem in _PLAIN_NAMES and len(whole) > 1 else [*whole[:-1], file.stem]


def _numbered(names: Sequence[str]) -> list[str]:
    """The names with `-2`, `-3`, ... behind those that are taken."""
    found: list[str] = []
    taken = set(_TAKEN)
    for name in names:
        own, n = name, 2
        while own.casefold() in taken:
            own, n = f"{name}-{n}", n + 1
        taken.add(own.casefold())
        found.append(own)
    return found


def several(out: Path, n_files: int) -> bool:
    """Whether OUT has a directory for each file: as it was begun, else where there are several.

    UsageError for several files into an OUT that holds the verdicts on one.
    """
    manifest = read_manifest(out)
    if manifest is None:
        return n_files > 1
    if SYSTEMS in manifest:
        return True
    if n_files > 1:
        of = manifest.get("identity", {}).get("candidates", "one file")
        raise UsageError(f"{out} holds the verdicts on {of} alone: choose another --out for several files")
    return False


@contextmanager
def opened_targets(
    targets: Sequence[Target],
    out: Path,
    identity: Mapping[str, Any] | None,
    notes: Mapping[str, Any],
    *,
    judges: Mapping[str, Mapping[str, Any]],
    prompts: Mapping[str, str],
    sync: bool,
    also: Also = dict,
) -> Iterator[list[RunFiles]]:
    """The files of every target, in order. Of finished runs (no `identity`) each finds the others' verdicts.

    `judges` are those who will be asked, see `further_judges.with_judges`. Raises UsageError, StorageFull.
    """
    allow_more_files(len(targets) * _FILES_EACH)
    with ExitStack() as stack:
        if identity is None:
            runs = [stack.enter_context(_further(one, judges, notes, sync)) for one in targets]
            for files in runs:
                files.journal.beside = [other.journal for other in runs if other is not files]
            yield runs
            return
        journal = None
        if targets[0].shared_journal:
            earlier = (read_manifest(out) or {}).get(SYSTEMS, [])
            systems = {SYSTEMS: list(dict.fromkeys([*earlier, *(one.name for one in targets)]))}
            stack.enter_context(
                noted(out, identity, {**notes, **systems}, prompts=prompts, place=PLACE, also=also)
            )
            try:
                journal = Journal(out / STEPS, sync=sync)
            except OSError as error:
                raise unwritable(out, error, verb="write there") from None
            stack.callback(journal.close)
            prompts = {}
        yield [stack.enter_context(_own(one, judges, notes, journal, prompts, sync, also)) for one in targets]


def _further(
    target: Target, judges: Mapping[str, Mapping[str, Any]], notes: Mapping[str, Any], sync: bool
) -> Any:
    return further_files(target.directory, judges, notes["prices"], embedded=notes["embedded"], sync=sync)


def _own(
    target: Target,
    judges: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, Any],
    journal: Journal | None,
    prompts: Mapping[str, str],
    sync: bool,
    also: Also,
) -> Any:
    own = {**notes, "n_expected": len(target.answers)}
    further = {name: how for name, how in judges.items() if name != target.scoring}
    if noted_judges := with_judges(target.directory, read_manifest(target.directory) or {}, further):
        own[FURTHER] = noted_judges
    if journal is not None:
        own["journal"] = f"../{STEPS}"
    return opened_files(
        target.directory,
        target.identity or {},
        own,
        prompts=prompts,
        results=PER_ITEM,
        sync=sync,
        journal=journal,
        place=PLACE,
        also=also,
    )
