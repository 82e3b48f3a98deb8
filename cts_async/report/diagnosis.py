"""A diagnosis of runs or question files, for people and for programs."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from cts_async.analysis.board import Board
from cts_async.analysis.diagnose import Diagnosis, diagnose
from cts_async.analysis.interactions import Interaction, Interactions, Reader, interaction, interactions_of
from cts_async.analysis.question_types import QUESTION_TYPES, OwnLabels, QuestionType, read_question
from cts_async.analysis.runs import FOR_QUESTIONS, RunSet, read_run, read_run_set
from cts_async.datasets.candidates import QuestionedInstance, read_question_file, read_type_labels
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES
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
    if files and len(files) < len(paths):
        raise UsageError("name either run directories or files of questions, not both")
    if files and (orig or judge):
        raise UsageError("files of questions have no scores: leave out --orig and --judge")
    if files:
        systems = [read_file(file, read, fields) for file in files]
        notes = ["files of questions and answers: there are no scores, and so no gains"]
        report = DiagnosisReport(diagnose(systems, {}, seed=seed), None, None, notes)
    else:
        report = _of_runs(read_run_set(paths, orig), read, judge, seed)
    return replace(report, notes=[*report.notes, labels.note]) if labels else report


def _of_runs(found: RunSet, read: Reader, judge: str | None, seed: int) -> DiagnosisReport:
    """Diagnose runs by the scores of `judge`, by default the first run's scoring judge."""
    judges = list(dict.fromkeys(one for run in found.runs for one in run.judges))
    if judge is not None and judge not in judges:
        there = ", ".join(judges) or "none"
        raise UsageError(f"--judge {judge}: these runs were not judged by it; their judges are: {there}")
    judge = judge or next(iter(judges), None)
    without = [run for run in found.runs if judge and judge not in run.judges]
    notes = [f"{run.directory}: not judged by {judge}, without scores here" for run in without]
    systems = [interactions_of(run, read, judge) for run in found.runs]
    scores = found.orig.scores(judge) if found.orig and judge else {}
    if found.orig and judge and not scores:
        notes.append(f"no gains: {found.orig.directory} was not judged by {judge}")
    orig = found.orig.directory if found.orig and scores else None
    return DiagnosisReport(diagnose(systems, scores, seed=seed), judge, orig, [*found.notes, *notes])


def diagnose_board(
    board: Board, baseline: str, judge: str | None, *, seed: int = 0
) -> DiagnosisReport | None:
    """Diagnose the Clarifiers' runs of a board by this judge's scores, reading them one by one; None without any.

    Gains are over the system `baseline`, "" for none.
    """
    systems, notes = list[Interactions](), list[str]()
    for entrant in board.entrants:
        if not entrant.clarifier or not (entrant.n_done or entrant.n_failed):
            continue
        if entrant.unanswered:
            notes.append(f"{entrant.label}: {entrant.unanswered}, left out")
            continue
        run = read_run(entrant.directory, without=FOR_QUESTIONS)
        systems.append(interactions_of(replace(run, label=entrant.label), read_question, judge))
    if not systems:
        return None
    scores: dict[str, float] = {}
    if baseline and judge:
        column = board.scores[judge][:, board.place(baseline)].tolist()
        scores = {id: score for id, score in zip(board.ids, column, strict=True) if not isnan(score)}
    if not scores:
        notes.append("no gains: there is no scored run of orig over the same data here")
    orig = board.entrants[board.place(baseline)].directory if scores else None
    systems.sort(key=lambda system: system.k)
    return DiagnosisReport(diagnose(systems, scores, seed=seed), judge, orig, notes)


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
    return OwnLabels(cast("Mapping[str, Sequence[QuestionType]]", found))
