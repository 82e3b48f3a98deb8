"""All that a report is about, from what a user names: runs summarised, compared and diagnosed, conversations apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cts_async.analysis.board import Board
from cts_async.analysis.found import check_same_data, find_all
from cts_async.analysis.run_set import ORIG, orig_beside
from cts_async.analysis.runs import data_of
from cts_async.config import EvaluationConfig
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError
from cts_async.protocol.run_files import MANIFEST
from cts_async.protocol.run_folders import is_gold_build, is_talk
from cts_async.report.comparison import NO_ANSWERS, RunsCompared, baseline_of, compare_board, read_board
from cts_async.report.diagnosed import diagnose_board
from cts_async.report.diagnosis import Report
from cts_async.report.held_talks import evaluate_held
from cts_async.report.summary import RunSummary, Spent, spent_by_system, summarise_run
from cts_async.report.talk_report import TalkReport

_USUAL: Final = EvaluationConfig()


@dataclass(frozen=True, slots=True)
class Gathered:
    """What there is to report. Runs that nobody judged are on no board, files of verdicts have no summary."""

    words: tuple[str, ...]
    """What the user named."""
    named: tuple[Path, ...]
    """The runs that this stands for."""
    summaries: tuple[RunSummary, ...]
    """Of run directories and judged candidates, in the order of the board where they are on it."""
    board: Board | None
    compared: RunsCompared | None
    diagnosis: Report | None
    talks: tuple[RunSummary, ...]
    """Conversations alone (`cts converse`)."""
    talked: TalkReport | None
    """Their evaluation."""
    notes: tuple[str, ...]

    @property
    def embedded(self) -> bool:
        """Whether the embedded model played somewhere: scores are a smoke test."""
        runs = (*self.summaries, *self.talks)
        return any(one.manifest.get("embedded") for one in runs)


def gather(
    words: Sequence[str],
    *,
    judges: Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    evaluation: EvaluationConfig = _USUAL,
) -> Gathered:
    """Read runs; differences are to `baseline`, else to orig where there is one.

    Raises UsageError and InputError where there are none, or none that belong together.
    """
    damaged: list[str] = []
    found = find_all(words, damaged.append)
    if is_gold_build(found[0]):  # find_all leaves gold out where there is anything else
        raise UsageError(f"{found[0]}: gold that cts gold built; name the runs that are scored by it")
    talks = [path for path in found if is_talk(path)]
    runs = [path for path in found if path not in talks]
    check_same_data(talks)
    runs, beside = ([*runs], list[str]()) if baseline else _with_orig(runs)
    board = read_board(runs) if runs else None
    reference, compared, more = _compared(board, judges, baseline, seed)
    judge = compared.judged[0].judge if compared else None
    diagnosis = diagnose_board(board, reference, judge, seed=seed) if board else None
    order = [entrant.directory for entrant in board.entrants] if board else []
    held = tuple(_summaries(talks))
    return Gathered(
        words=tuple(words),
        named=tuple(found),
        summaries=tuple(_summaries(order)),
        board=board,
        compared=compared,
        diagnosis=diagnosis,
        talks=held,
        talked=evaluate_held(held, evaluation) if held else None,
        notes=(*damaged, *beside, *more),
    )


def _with_orig(runs: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The runs, and if nobody named a run of orig, the one that lies beside them: what else are gains over?"""
    identities = {path: _part(path, "identity") for path in runs}
    if any(identity.get("system") == ORIG for identity in identities.values()):
        return [*runs], []
    asked = [path for path in runs if _part(path, "players").get("clarifier")]
    found = [near for path in asked for near in orig_beside(path, data_of(identities[path]))]
    beside = list({path.resolve(): path for path in found}.values())
    if len(beside) != 1:
        return [*runs], []
    return [*runs, *beside], [f"Gains are over {beside[0]}, which lies beside what was named."]


def _compared(
    board: Board | None, judges: Sequence[str], wanted: str | None, seed: int
) -> tuple[str, RunsCompared | None, list[str]]:
    """The baseline ("": none), the comparison, and what has to be said."""
    if board is None:
        return "", None, []
    if not board.judges and not judges:
        told = "None of these runs is judged, so nothing has a score: cts judge RUN --judge NAME judges one."
        answered = any(entrant.n_done for entrant in board.entrants)
        return "", None, [told if answered else f"No scores: {NO_ANSWERS}."]
    try:
        baseline, notes = baseline_of(board, wanted), list[str]()
    except UsageError as error:
        if wanted is not None:
            raise
        baseline, notes = "", [f"No differences: {error}."]
    compared = compare_board(board, judges, baseline, against_baseline=wanted is not None, seed=seed)
    return baseline, compared, [*notes, *compared.notes]


def _summaries(directories: Sequence[Path]) -> Iterator[RunSummary]:
    """Of each directory that has a manifest; a journal that several share is read once."""
    journals: dict[Path, Mapping[str, Spent]] = {}
    for directory in directories:
        if not (directory / MANIFEST).is_file():
            continue
        shared = (read_manifest(directory) or {}).get("journal")
        if shared:
            journal = (directory / str(shared)).resolve()
            if journal not in journals:
                journals[journal] = spent_by_system(journal)
            yield summarise_run(directory, journals[journal])
        else:
            yield summarise_run(directory)


def _part(path: Path, name: str) -> Mapping[str, Any]:
    """A part of a run's manifest; nothing where there is none."""
    manifest = read_manifest(path) if path.is_dir() else None
    found = (manifest or {}).get(name)
    return found if isinstance(found, dict) else {}
