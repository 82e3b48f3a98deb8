"""Everything a report shows, collected from the runs that a user names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cts_async.analysis.board import Board
from cts_async.analysis.compare import Extreme, extremes, extremes_of
from cts_async.analysis.runs import data_of
from cts_async.analysis.selection import ORIG, check_same_data, find_all, orig_beside
from cts_async.analysis.turn_retrieval import NOBODY_ASKED, Cell, TurnRetrieval
from cts_async.config import EvaluationConfig
from cts_async.datasets.io import sha256_of
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError
from cts_async.protocol.results import Line, answer_digest, failed, read_results
from cts_async.protocol.run_files import (
    JUDGMENTS,
    MANIFEST,
    is_conversation,
    is_gold_build,
    reopen_data,
    results_of,
)
from cts_async.records import Nugget
from cts_async.report.comparison import NO_ANSWERS, RunsCompared, baseline_of, compare_board, read_board
from cts_async.report.conversations import TalkReport, evaluate_held
from cts_async.report.diagnosis import DiagnosisReport, diagnose_board
from cts_async.report.summary import RunSummary, Spent, spent_by_system, summarise_run

_USUAL: Final = EvaluationConfig()


@dataclass(frozen=True, slots=True)
class Gathered:
    """The content of a report. Runs without judgments are on no board, files of verdicts have no summary."""

    words: tuple[str, ...]
    """The names that the user gave."""
    named: tuple[Path, ...]
    """The runs that they stand for."""
    summaries: tuple[RunSummary, ...]
    """Summaries of run directories and judged candidates, in the order of the board."""
    board: Board | None
    compared: RunsCompared | None
    diagnosis: DiagnosisReport | None
    talks: tuple[RunSummary, ...]
    """Runs of conversations only (`cts converse`)."""
    talked: TalkReport | None
    """Evaluation of the conversations."""
    notes: tuple[str, ...]

    @property
    def embedded(self) -> bool:
        """True if the embedded model played a role: scores are a smoke test."""
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
    """Read and analyse runs; differences are to `baseline`, else to orig if there is one.

    Raises UsageError and InputError if there are none, or none that belong together.
    """
    damaged: list[str] = []
    found = find_all(words, damaged.append)
    if is_gold_build(found[0]):  # find_all leaves gold out if there is anything else
        raise UsageError(f"{found[0]}: gold that cts gold built; name the runs that are scored by it")
    talks = [path for path in found if is_conversation(path)]
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
    """Add the run of orig beside the runs if none was named, since gains need one; return notes about it."""
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
    """Return the baseline ("" for none), the comparison, and notes."""
    if board is None:
        return "", None, []
    if not board.judges and not judges:
        unjudged = "No scores, since none of these runs is judged: cts judge RUN --judge NAME judges one."
        answered = any(entrant.n_done for entrant in board.entrants)
        return "", None, [unjudged if answered else f"No scores: {NO_ANSWERS}."]
    try:
        baseline, notes = baseline_of(board, wanted), list[str]()
    except UsageError as error:
        if wanted is not None:
            raise
        baseline, notes = "", [f"No differences: {error}."]
    compared = compare_board(board, judges, baseline, against_baseline=wanted is not None, seed=seed)
    return baseline, compared, [*notes, *compared.notes]


def _summaries(directories: Sequence[Path]) -> Iterator[RunSummary]:
    """Summarise each directory that has a manifest; a journal that several share is read once."""
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
    """Return a part of a run's manifest, {} if it is missing."""
    manifest = read_manifest(path) if path.is_dir() else None
    found = (manifest or {}).get(name)
    return found if isinstance(found, dict) else {}


# Instances opened in a report: what was asked, answered, rewritten and judged, read from the files of a run

FEW_SYSTEMS = 3
"""For up to so many systems MANY instances are opened for each reason, for more systems FEW."""
MANY, FEW = 5, 2
MOST_SYSTEMS = 24


@dataclass(frozen=True, slots=True)
class Opened:
    """One instance of one run. `line` is its line of results: untrusted, in any shape."""

    extreme: Extreme
    line: Line
    verdicts: Mapping[str, Line]
    """Lines by judge, the scoring judge first."""
    nuggets: Mapping[str, Nugget]
    """By id; empty if the gold cannot be read."""


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """Extreme instances of a system; gains are over `baseline`."""

    system: str
    directory: Path
    measure: str
    """The kind of score: "judge gpt" for points of restore_score_100, else a measure of retrieval."""
    decimals: int
    """Decimals of the printed scores."""
    baseline: str
    embedded: bool
    instances: tuple[Opened, ...]


def open_instances(gathered: Gathered) -> tuple[tuple[OpenedRun, ...], tuple[str, ...]]:
    """Open the extremes of every system under the first judge; return them with notes."""
    compared = gathered.compared
    if compared is None:
        return (), ()
    runs = [run for run in _read(compared) if run.instances]
    wanted = {one.extreme.id for run in runs for one in run.instances}
    nuggets, note = _nuggets(gathered, wanted) if wanted else ({}, "")
    found = tuple(replace(run, instances=tuple(_with(run.instances, nuggets))) for run in runs)
    left_out = len(compared.board.entrants) - MOST_SYSTEMS
    more = f"Instances are opened for the first {MOST_SYSTEMS} systems, not for {left_out} others."
    return found, (*([note] if note else []), *([more] if left_out > 0 else []))


def _read(compared: RunsCompared) -> Iterator[OpenedRun]:
    judge = compared.judged[0].judge
    entrants = compared.board.entrants[:MOST_SYSTEMS]
    most = MANY if len(entrants) <= FEW_SYSTEMS else FEW
    for entrant in entrants:
        if entrant.directory.is_dir() and judge in entrant.judges:
            found = extremes(compared.board, judge, entrant.label, compared.baseline, most)
            yield OpenedRun(
                entrant.label,
                entrant.directory,
                measure=f"judge {judge}",
                decimals=1,
                baseline=compared.baseline,
                embedded=entrant.embedded,
                instances=tuple(opened_lines(entrant.directory, found)),
            )


def opened_lines(directory: Path, found: Sequence[Extreme]) -> Iterator[Opened]:
    """Yield those instances from the run's files, without nuggets; those without a line are left out."""
    wanted = {one.id for one in found}
    lines = _lines(directory / results_of(directory), wanted)
    further = {path.stem: _lines(path, wanted) for path in sorted((directory / JUDGMENTS).glob("*.jsonl"))}
    for one in found:
        if line := lines.get(one.id):
            judged = [line, *(of[one.id] for of in further.values() if _is_about(of.get(one.id), line))]
            verdicts = {
                str(verdict.get("judge") or "unnamed"): verdict for verdict in judged if _labelled(verdict)
            }
            yield Opened(one, line, verdicts, {})


def _lines(path: Path, wanted: Collection[str]) -> dict[str, Line]:
    """Return the lines that count of those ids."""
    return {line["id"]: line for line in read_results(path) if line["id"] in wanted}


def _labelled(verdict: Line) -> bool:
    return not failed(verdict) and isinstance(verdict.get("nuggets"), list)


def _is_about(verdict: Line | None, line: Line) -> bool:
    """True if a verdict is about the answer in `line`, as far as it says."""
    if verdict is None or not isinstance(line.get("answer"), str):
        return verdict is not None
    digest = verdict.get("answer_digest")
    return digest is None or digest == answer_digest(str(line.get("fused_query") or ""), line["answer"])


def _with(instances: Sequence[Opened], nuggets: Mapping[str, Sequence[Nugget]]) -> Iterator[Opened]:
    for one in instances:
        yield replace(one, nuggets={nugget.id: nugget for nugget in nuggets.get(one.extreme.id, ())})


def _nuggets(gathered: Gathered, wanted: Collection[str]) -> tuple[dict[str, tuple[Nugget, ...]], str]:
    """Return the nuggets of those instances from the first gold file that is still unchanged, or a note why not."""
    why = "no manifest says where it is"
    for run in gathered.summaries:
        try:
            dataset = reopen_data(run.manifest)
            if _other_gold(dataset.gold_path, run.manifest.get("identity", {}).get("data") or {}):
                why = f"{dataset.gold_path} is no longer the gold of these runs"
                continue
            return {one.id: one.nuggets for one in dataset.instances() if one.id in wanted}, ""
        except UsageError as error:
            why = str(error)
    return {}, f"Nuggets are shown without text, since their gold cannot be read: {why}."


def _other_gold(path: Path | None, data: Mapping[str, Any]) -> bool:
    expected = data.get("gold_sha256")
    return path is not None and expected is not None and sha256_of(path) != expected


# Conversations opened in a report: where the last query retrieved best and worst, and gained and lost most


def open_talks(gathered: Gathered) -> Iterator[OpenedRun]:
    """Open the extremes of each evaluated run of conversations in the first measure, over q itself."""
    retrieved = gathered.talked.retrieved if gathered.talked else ()
    most = MANY if len(gathered.talks) <= FEW_SYSTEMS else FEW
    for talk in gathered.talks[:MOST_SYSTEMS]:
        found = next((one for one in retrieved if talk.directory in one.directories), None)
        last = _last(found, talk) if found else None
        if found and last:
            measure = found.measures[0]
            yield OpenedRun(
                talk.label,
                talk.directory,
                measure=f"{measure} of the last query",
                decimals=3,
                baseline=f"the query {NOBODY_ASKED}",
                embedded=bool(talk.manifest.get("embedded")),
                instances=tuple(opened_lines(talk.directory, _extremes(found, last, measure, most))),
            )


def _last(found: TurnRetrieval, talk: RunSummary) -> Cell | None:
    """Return what was retrieved after the run's last turn."""
    identity = talk.manifest.get("identity") or {}
    own = [
        cell
        for cell in found.cells
        if (cell.scheme, cell.mode) == (identity.get("scheme"), identity.get("mode"))
    ]
    return max(own, key=lambda cell: cell.turn, default=None)


def _extremes(found: TurnRetrieval, last: Cell, measure: str, most: int) -> tuple[Extreme, ...]:
    import numpy as np

    scores, without = last.scores[measure], found.without[measure]
    ids = sorted(scores)
    values = np.array([scores[id] for id in ids], float)
    gains = values - np.array([without.get(id, np.nan) for id in ids], float)
    return extremes_of(ids, values, gains, most)
