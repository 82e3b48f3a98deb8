"""A diagnosis of runs or question files, for people and for programs."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from cts_async.analysis.board import Board, Entrant
from cts_async.analysis.diagnose import Diagnosis, diagnose
from cts_async.analysis.interactions import Interaction, Interactions, Reader, interaction, interactions_of
from cts_async.analysis.question_types import QUESTION_TYPES, OwnLabels, QuestionType, read_question
from cts_async.analysis.runs import read_run
from cts_async.analysis.selection import NOT_ASKED, RunSet, read_run_set
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.datasets.question_files import QuestionedInstance, read_question_file, read_type_labels
from cts_async.errors import InputError, UnusableOutput, UsageError
from cts_async.llm.parsing import ShortPhrase
from cts_async.report.results import SMOKE_TEST
from cts_async.report.statistics import diagnosis_tables
from cts_async.report.tables import print_table, printable, write_csv


@dataclass(frozen=True, slots=True)
class DiagnosisReport:
    """A diagnosis with the provenance of its numbers."""

    diagnosis: Diagnosis
    judge: str | None
    """The judge of the scores; None without scores."""
    orig: Path | None
    """The run that gains are over; None without one."""
    notes: Sequence[str]

    @property
    def embedded(self) -> bool:
        """True if the embedded model played a role."""
        return any(one.system.embedded for one in self.diagnosis.systems)


def print_report(console: Console, report: DiagnosisReport) -> None:
    """Print every table that has rows, then the notes."""
    for table in diagnosis_tables(report.diagnosis):
        print_table(console, table)
    for note in _notes(report):
        console.print(Text(printable(note), style="yellow"), soft_wrap=True)


def report_json(report: DiagnosisReport) -> dict[str, Any]:
    """Return all numbers unrounded: a list of rows for each table, by its name."""
    found = report.diagnosis.calibration
    return {
        "judge": report.judge,
        "orig": str(report.orig) if report.orig else None,
        "smoke_test": report.embedded,
        "notes": list(report.notes),
        **{table.name: list(table.rows) for table in diagnosis_tables(report.diagnosis)},
        "brier": found.brier if found else None,
        "brier_reference": found.reference if found else None,
        "brier_skill": found.skill if found else None,
    }


def write_tables(folder: Path, diagnosis: Diagnosis) -> None:
    """Write every table that has rows as NAME.csv, unrounded; creates the folder if necessary."""
    for table in diagnosis_tables(diagnosis):
        write_csv(folder, table)


def _notes(report: DiagnosisReport) -> list[str]:
    scored = f"scores: judge {report.judge}" if report.judge else "no scores"
    return [scored, *report.notes, *([SMOKE_TEST] if report.embedded else [])]


# From run directories, or files of questions and answers, to a diagnosis

_TYPE: Mapping[str, QuestionType] = {kind: kind for kind in QUESTION_TYPES}


def diagnose_named(
    paths: Sequence[str],
    *,
    orig: Path | None = None,
    judge: str | None = None,
    types_file: Path | None = None,
    fields: Mapping[str, str] | None = None,
    seed: int = 0,
) -> DiagnosisReport:
    """Diagnose runs, or files of questions and answers, but not both. Raises UsageError and InputError."""
    labels = own_labels(types_file) if types_file else None
    read: Reader = labels or read_question
    files = sorted(file for path in paths for file in question_files(path))
    if files and len(files) >= len(paths):
        if orig or judge:
            raise UsageError("files of questions have no scores: leave out --orig and --judge")
        systems = [read_file(file, read, fields) for file in files]
        notes = ["files of questions and answers: there are no scores, and so no gains"]
        report = DiagnosisReport(diagnose(systems, {}, seed=seed), None, None, notes)
    elif files:
        raise UsageError("name either run directories or files of questions, not both")
    else:
        report = _of_runs(read_run_set(paths, orig), read, judge, seed)
    if labels is None:
        return report
    return DiagnosisReport(report.diagnosis, report.judge, report.orig, [*report.notes, labels.note])


def _of_runs(found: RunSet, read: Reader, judge: str | None, seed: int) -> DiagnosisReport:
    chosen, notes = _judge(found, judge)
    systems = [interactions_of(run, read, chosen) for run in found.runs]
    scores = found.orig.scores(chosen) if found.orig and chosen else {}
    if found.orig and chosen and not scores:
        notes.append(f"no gains: {found.orig.directory} was not judged by {chosen}")
    diagnosis = diagnose(systems, scores, seed=seed)
    orig = found.orig.directory if found.orig and scores else None
    return DiagnosisReport(diagnosis, chosen, orig, [*found.notes, *notes])


def diagnose_board(
    board: Board, baseline: str, judge: str | None, *, seed: int = 0
) -> DiagnosisReport | None:
    """Diagnose the Clarifiers' runs of a board by this judge's scores, reading them one by one; None without any.

    Gains are over the system `baseline`, "" for none.
    """
    asked = [_read_interactions(entrant, judge) for entrant in board.entrants if entrant.clarifier]
    notes = [found for found in asked if isinstance(found, str)]
    systems = [found for found in asked if isinstance(found, Interactions) and (found.rows or found.n_failed)]
    if not systems:
        return None
    scores, orig = _scores_of(board, baseline, judge)
    if not scores:
        notes.append("no gains: there is no scored run of orig over the same data here")
    systems.sort(key=lambda system: system.k)
    return DiagnosisReport(diagnose(systems, scores, seed=seed), judge, orig if scores else None, notes)


def _read_interactions(entrant: Entrant, judge: str | None) -> Interactions | str:
    """Read the questions and answers of a run, or return why it has no answers."""
    run = read_run(entrant.directory, without=NOT_ASKED)
    if run.unanswered:
        return f"{entrant.label}: {run.unanswered}, left out"
    return replace(interactions_of(run, read_question, judge), label=entrant.label)


def _scores_of(board: Board, label: str, judge: str | None) -> tuple[dict[str, float], Path | None]:
    """Return a system's scores by instance, and its directory."""
    if not label or judge is None:
        return {}, None
    place = board.place(label)
    column = board.scores[judge][:, place].tolist()
    scores = {id: score for id, score in zip(board.ids, column, strict=True) if score == score}  # NaN is none
    return scores, board.entrants[place].directory


def _judge(found: RunSet, asked: str | None) -> tuple[str | None, list[str]]:
    """Choose the judge whose scores are read, by default the first run's scoring judge; return it with notes."""
    judges = list(dict.fromkeys(judge for run in found.runs for judge in run.judges))
    if asked is not None and asked not in judges:
        there = ", ".join(judges) or "none"
        raise UsageError(f"--judge {asked}: these runs were not judged by it; their judges are: {there}")
    chosen = asked or next(iter(judges), None)
    without = [run for run in found.runs if chosen and chosen not in run.judges]
    return chosen, [f"{run.directory}: not judged by {chosen}, without scores here" for run in without]


# --- Files of questions and answers


def question_files(path: str) -> list[Path]:
    """Return the .csv and .jsonl files that a path, a pattern, or a folder without runs names; [] for none."""
    if Path(path).is_dir():
        folder = Path(path)
        if (folder / "run.json").exists() or any(folder.glob("*/run.json")):
            return []
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in CSV_SUFFIXES)
    matches = [Path(path)] if Path(path).exists() else [Path(match) for match in sorted(glob.glob(path))]
    files = [match for match in matches if match.suffix.lower() in (*CSV_SUFFIXES, *JSONL_SUFFIXES)]
    if not files and not matches and Path(path).suffix.lower() in (*CSV_SUFFIXES, *JSONL_SUFFIXES):
        raise InputError(path, "no such file")
    return files


def read_file(path: Path, read: Reader, fields: Mapping[str, str] | None = None) -> Interactions:
    """Read a file as the run of a Clarifier of its name; k is the most questions of an instance."""
    asked = read_question_file(path, fields)
    found = (_interaction(one, read) for one in asked)
    rows = tuple(sorted((row for row in found if row), key=lambda row: row.id))
    k = max((len(row.turns) for row in rows), default=0)
    return Interactions(path.stem, path.stem, k, rows, len(asked) - len(rows), len(asked))


def _interaction(one: QuestionedInstance, read: Reader) -> Interaction | None:
    """Classify an instance; None for a failed one, without questions or with an empty answer."""
    try:
        known = [not ShortPhrase().parse(answer).unknown for answer in one.answers]
    except UnusableOutput:
        return None
    return interaction(one.id, zip(one.questions, known, strict=True), read) if one.questions else None


def own_labels(path: Path) -> OwnLabels:
    """Read a researcher's labels. Raises InputError."""
    found = read_type_labels(path, QUESTION_TYPES)
    return OwnLabels({question: [_TYPE[kind] for kind in kinds] for question, kinds in found.items()})
