"""A diagnosis of runs or question files, for people and for programs."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Final, cast

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.diagnose import Diagnosis, diagnose
from cts_async.analysis.interactions import (
    InstanceTexts,
    Interaction,
    Interactions,
    Reader,
    interaction,
    interactions_of,
)
from cts_async.analysis.losses import STAGES, NuggetLoss, Stage, SystemLosses, system_losses
from cts_async.analysis.question_types import QUESTION_TYPES, OwnLabels, QuestionType, read_question
from cts_async.analysis.run_losses import instance_losses
from cts_async.datasets.candidates import QuestionedInstance, read_question_file, read_type_labels
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.errors import InputError, UnusableOutput, UsageError
from cts_async.llm.parsing import ShortPhrase
from cts_async.records import Caveat, caveats_in
from cts_async.runs.cut_prompts import cut_prompt_lines
from cts_async.runs.finished import (
    NOT_FOR_QUESTIONS,
    NOT_FOR_SCORES,
    ORIG,
    FinishedRun,
    check_same_data,
    find_runs,
    of_one_agent,
    read_run,
    read_runs,
    sibling_origs,
)
from cts_async.runs.gold_texts import GoldTexts
from cts_async.runs.journal import cut_prompts_in
from cts_async.runs.open_run import whole_run
from cts_async.tables.output import counted
from cts_async.tables.results import CAVEATS
from cts_async.tables.statistics import diagnosis_tables
from cts_async.tables.summary import caveats_json
from cts_async.tables.table import Column, DataTable, number, text, text_columns


@dataclass(frozen=True, slots=True)
class DiagnosisReport:
    """A diagnosis with the provenance of its numbers."""

    diagnosis: Diagnosis
    judge: str | None
    """The judge of the scores; None without scores."""
    orig: Path | None
    """The run that gains are over; None without one."""
    notes: Sequence[str]
    losses: tuple[SystemLosses, ...] = ()
    """Where each system with scores, the reference points included, loses points."""

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Why scores say nothing about a model; empty if they do."""
        return caveats_in(one.system.caveat for one in self.diagnosis.systems)


def report_json(report: DiagnosisReport) -> dict[str, Any]:
    """Return all numbers unrounded: a list of rows for each table, by its name."""
    found = report.diagnosis.calibration
    return {
        "judge": report.judge,
        "orig": str(report.orig) if report.orig else None,
        **caveats_json(report.caveats),
        "notes": list(report.notes),
        **{table.name: list(table.rows) for table in report_tables(report)},
        "brier": found.brier if found else None,
        "brier_reference": found.reference if found else None,
        "brier_skill": found.skill if found else None,
    }


def report_tables(report: DiagnosisReport) -> tuple[DataTable, ...]:
    """Return all tables, in their usual order; some may have no rows."""
    return (*diagnosis_tables(report.diagnosis), losses_table(report.losses))


def printed_notes(report: DiagnosisReport) -> list[str]:
    """Return the lines to be printed below the tables."""
    scored = f"scores: judge {report.judge}" if report.judge else "no scores"
    return [scored, *report.notes, *(CAVEATS[caveat] for caveat in report.caveats)]


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
    labels = None
    if types_file:
        found = read_type_labels(types_file, QUESTION_TYPES)
        labels = OwnLabels(cast("Mapping[str, Sequence[QuestionType]]", found))
    read: Reader = labels or read_question
    files = sorted(file for path in paths for file in question_files(path))
    if files and len(files) < len(paths):
        raise UsageError("name either run directories or files of questions, not both")
    if files and (orig or judge):
        raise UsageError("files of questions have no scores: omit --orig and --judge")
    if files:
        systems = [read_file(file, read, fields) for file in files]
        notes = ["files of questions and answers: there are no scores, and so no gains"]
        report = DiagnosisReport(diagnose(systems, {}, seed=seed), None, None, notes)
    else:
        report = _of_runs(paths, orig, read, judge, seed)
    return replace(report, notes=[*report.notes, labels.note]) if labels else report


def _of_runs(
    words: Sequence[str], orig: Path | None, read: Reader, judge: str | None, seed: int
) -> DiagnosisReport:
    """Diagnose the runs that `words` name, by the scores of `judge` or else of the first run's scoring judge.

    Gains are over the run of orig that is named, or is among the runs, or lies beside them over the same data. In a
    folder of runs those that have not finished are left out; one that is named itself is read as far as it got.
    """
    notes: list[str] = []
    found = find_runs(words) if orig else of_one_agent(find_runs(words), notes.append)
    named = {one.path for one in found if one.named}
    runs: list[FinishedRun] = []
    for run in read_runs(found, notes.append):
        left_out = run.n_missing and run.directory not in named
        if run.n_missing:
            notes.append(f"{run.directory}: not finished{', left out' if left_out else ''} ({run.progress})")
        if run.unanswered:
            notes.append(f"{run.directory}: {run.unanswered}, left out")
        elif not left_out:
            runs.append(run)
    if not any(run.clarifier and (run.n_done or run.n_failed) for run in runs):
        problem = f"{', '.join(words)}: no Clarifier's run with answers; name one, such as runs/sample-gpt-k1"
        raise UsageError("; ".join([problem, *notes]))
    orig = orig or _find_orig(runs, notes)
    if orig and all(run.directory != orig for run in runs):
        runs.append(read_run(orig, without=NOT_FOR_SCORES))
    check_same_data(run.directory for run in runs)
    board = make_board(runs)
    baseline = next((entrant for entrant in board.entrants if entrant.directory == orig), None)
    if baseline and baseline.clarifier:
        problem = f"a Clarifier's run ({baseline.label}), not the run of the queries as they are"
        raise UsageError(f"--orig {orig}: {problem}")
    judge = _chosen_judge(board, judge, notes)
    report = diagnose_board(board, baseline.label if baseline else "", judge, read=read, seed=seed)
    assert report is not None
    for run in runs:
        notes += [f"{run.label}: {line}" for line in cut_prompt_lines(cut_prompts_in(run.directory))]
    notes = [*notes, *board.remarks, *report.notes]
    return replace(report, notes=notes, losses=board_losses(board, judge))


def _find_orig(runs: Sequence[FinishedRun], notes: list[str]) -> Path | None:
    """Return the run of orig among the runs, or beside them; add a note if it is not among them."""
    among = [run.directory for run in runs if run.system == ORIG and not run.clarifier]
    if len(among) > 1:
        raise UsageError(
            f"{among[0]} and {among[1]} are both orig: choose one with --orig DIR, or name the runs to diagnose"
        )
    if among:
        return among[0]
    beside = sibling_origs(run.directory for run in runs if run.clarifier)
    if len(beside) == 1:
        notes.append(f"gains are over {beside[0]}")
        return beside[0]
    several = f" ({', '.join(map(str, beside))} could all be meant)" if beside else ""
    notes.append(f"no single orig run was found next to these{several}; name one with --orig DIR")
    return None


def _chosen_judge(board: Board, judge: str | None, notes: list[str]) -> str | None:
    asked = [entrant for entrant in board.entrants if entrant.clarifier]
    judges = list(dict.fromkeys(one for entrant in asked for one in entrant.judges))
    if judge is not None and judge not in judges:
        there = ", ".join(judges) or "none"
        raise UsageError(f"--judge {judge}: these runs were not judged by it; their judges are: {there}")
    judge = judge or next(iter(judges), None)
    without = [entrant for entrant in asked if judge and judge not in entrant.judges]
    notes += [f"{entrant.directory}: not judged by {judge}, without scores here" for entrant in without]
    return judge


def board_interactions(
    board: Board, judge: str | None, *, read: Reader = read_question
) -> tuple[list[Interactions], list[str]]:
    """Read the Clarifiers' runs of a board one by one: their questions and answers, and notes on what is left out."""
    systems, notes = list[Interactions](), list[str]()
    for entrant in board.entrants:
        if not entrant.clarifier or not (entrant.n_done or entrant.n_failed):
            continue
        if entrant.unanswered:
            notes.append(f"{entrant.label}: {entrant.unanswered}, left out")
            continue
        run = read_run(entrant.directory, without=NOT_FOR_QUESTIONS)
        system = interactions_of(replace(run, label=entrant.label), read, judge)
        systems.append(system)
        if n := system.n_failed_later:
            notes.append(
                f"{entrant.label}: {counted(n, 'instance')} failed after being asked and answered; the tables of "
                "questions and answers count them (version 0.11 and before did not)"
            )
    return systems, notes


def diagnose_board(
    board: Board, baseline: str, judge: str | None, *, read: Reader = read_question, seed: int = 0
) -> DiagnosisReport | None:
    """Diagnose the Clarifiers' runs of a board by this judge's scores, reading them one by one; None without any.

    Gains are over the system `baseline`, "" for none.
    """
    systems, notes = board_interactions(board, judge, read=read)
    if not systems:
        return None
    scores: dict[str, float] = {}
    if baseline and judge in board.judges:
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
    return Interactions(
        label=path.stem,
        clarifier=path.stem,
        k=k,
        rows=rows,
        n_failed=len(asked) - len(rows),
        n_expected=len(asked),
        read_texts=partial(_file_texts, asked, {row.id for row in rows}),
    )


def _file_texts(
    asked: Sequence[QuestionedInstance], ids: Collection[str], names: Collection[str]
) -> Iterator[InstanceTexts]:
    """Questions and answers of a file: whatever is named, it has nothing else."""
    for instance in sorted(asked, key=lambda instance: instance.id):
        if instance.id in ids:
            yield InstanceTexts(instance.id, questions=instance.questions, answers=instance.answers)


def _interaction(one: QuestionedInstance, read: Reader) -> Interaction | None:
    """Classify an instance; None for a failed one, without questions or with an empty answer."""
    try:
        known = [not ShortPhrase().parse(answer).unknown for answer in one.answers]
    except UnusableOutput:
        return None
    return interaction(one.id, zip(one.questions, known, strict=True), read) if one.questions else None


# --- Where whole runs lose points; see analysis.losses for the method and its limits


_HEADINGS: Final[dict[Stage, str]] = {
    "not_asked": "not asked",
    "not_found": "retrieval",
    "found": "reading",
    "read": "answering",
    "unknown": "not known",
}
MOST_ATTRIBUTED: Final = 2_000
"""Instances of a run that are attributed, some 2 ms each; of more, so many evenly taken."""
_CAPTION: Final = (
    "Mean points of restore_score_100; with the mean they add up to 100. not asked: of a constraint of the intent that "
    "the searched query lacks, or never found while it lacks much of the intent. retrieval: never found though it was "
    "searched for. reading: found, but not read. answering: read, but not said. An attribution by matching words, which "
    "says where to look."
)


def board_losses(board: Board, judge: str | None) -> tuple[SystemLosses, ...]:
    """Attribute the losses of every run of a board that this judge has scored, reading them one by one.

    Runs of which nothing is known, such as judged answers without a trace, are left out.
    """
    gold = GoldTexts()
    entrants = [one for one in board.entrants if judge in one.judges and one.directory.is_dir()]
    found = (system_losses(one.label, run_losses(one.directory, judge or "", gold)) for one in entrants)
    return tuple(one for one in found if one is not None and one.known)


def run_losses(directory: Path, judge: str, gold: GoldTexts) -> Iterator[Sequence[NuggetLoss]]:
    """Yield the losses of each instance that the judge has scored, one at a time: traces are long.

    Of a run of more than `MOST_ATTRIBUTED` instances, so many at most are read.
    """
    if (run := whole_run(directory, journal=True)) is None:
        return
    index, lines = run.judges().get(judge), run.results.lines()
    if index is None:
        return
    for row in range(0, len(lines), -(-len(lines) // MOST_ATTRIBUTED) or 1):
        line = run.line(run.results, int(lines.offsets[row]))
        verdict = line if index is run.results else run.verdict(index, lines, row)
        if line is None or verdict is None or verdict.get("error") is not None:
            continue
        texts = gold.of(run.manifest, str(line.get("id")), str(line.get("fused_query") or ""))
        if losses := instance_losses(run, line, verdict, texts):
            yield losses


def losses_table(systems: Sequence[SystemLosses]) -> DataTable:
    """Points lost at each stage; the stages and the mean score add up to 100."""
    rows = [
        {"system": one.label, "n": one.n, "mean": one.mean, "lost": 100 - one.mean, **one.lost}
        for one in systems
    ]
    unplaced = [f"{one.label} {one.n_unplaced:,}" for one in systems if one.n_unplaced]
    remarks = [
        f"No address is known of any source of some nuggets ({', '.join(unplaced)}), since the documents that "
        "source_ids name were not found: that such a source was found or read is not recognised."
    ]
    shown = [stage for stage in STAGES if stage != "unknown" or any(row["unknown"] for row in rows)]
    columns = (
        *text_columns("system"),
        Column("n", text("n")),
        Column("mean", number("mean", ".2f")),
        *(Column(_HEADINGS[stage], number(stage, ".2f")) for stage in shown),
    )
    return DataTable(
        "losses",
        "Points lost by stage",
        _CAPTION,
        columns,
        rows,
        remarks=tuple(remarks if unplaced else ()),
    )
