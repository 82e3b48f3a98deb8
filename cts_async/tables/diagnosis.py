"""A diagnosis of runs or question files, for people and for programs."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isnan
from pathlib import Path
from typing import Any, Final, cast

from cts_async.analysis.asking import Asking, analyse_asking
from cts_async.analysis.board import Board, make_board, newest_directories, notes_on_origs
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
from cts_async.analysis.original_replies import ReplyReadings, all_readings
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
    FinishedRun,
    newest_run,
    read_run,
    read_runs,
)
from cts_async.runs.gold_texts import GoldTexts
from cts_async.runs.groups import ComparableRuns, comparable_runs, version_layers
from cts_async.runs.journal import cut_prompts_in
from cts_async.runs.manifest import ORIG, manifest_of
from cts_async.runs.open_run import whole_run
from cts_async.runs.selection import check_same_data, find_runs, join_first, sibling_origs
from cts_async.runs.settings import setting_of, settings_agree
from cts_async.tables.asking import asking_tables, replies_table
from cts_async.tables.output import counted
from cts_async.tables.results import CAVEATS
from cts_async.tables.statistics import diagnosis_tables
from cts_async.tables.summary import caveats_json
from cts_async.tables.table import (
    Column,
    DataTable,
    in_sections,
    marked,
    number,
    text,
    text_columns,
    with_caveats,
)


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
    asking: Asking | None = None
    """None if nothing was asked during a search, and no answers were given late."""
    replies: tuple[ReplyReadings, ...] = ()
    """Of each system whose user replies yes, no, or "i don't know" to the agent."""
    agent: str = ""
    """The agent of the group; "" if none is named."""
    heading: str = ""
    """What distinguishes the group of runs from the others; "" for a group alone."""
    others: tuple[DiagnosisReport, ...] = ()
    """The other groups, of the one last worked on only."""
    common_notes: tuple[str, ...] = ()
    """Notes on several groups together, in the first."""

    @property
    def groups(self) -> tuple[DiagnosisReport, ...]:
        """All groups, the one last worked on first."""
        return (self, *self.others)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Why scores say nothing about a model; empty if they do."""
        caveats = [diagnosis.system.caveat for diagnosis in self.diagnosis.systems]
        if self.asking is not None:
            caveats += self.asking.caveats
        return caveats_in(caveats)


def report_json(report: DiagnosisReport) -> dict[str, Any]:
    """Return all numbers unrounded: a list of rows for each table, by its name.

    Of several groups the fields are those of the one last worked on, and "groups" has all of them.
    """
    result = _group_json(report)
    if report.others:
        groups: list[dict[str, Any]] = []
        for group in report.groups:
            head = {"group": group.heading, "agent": group.agent or None}
            groups.append(head | _group_json(group))
        result["notes"] = [*report.common_notes, *report.notes]
        result["groups"] = groups
    return result


def _group_json(report: DiagnosisReport) -> dict[str, Any]:
    result: dict[str, Any] = {"judge": report.judge, "orig": None}
    if report.orig:
        result["orig"] = str(report.orig)
    result |= caveats_json(report.caveats)
    result["notes"] = list(report.notes)
    for table in report_tables(report):
        result[table.name] = list(table.rows)
    result |= {"brier": None, "brier_reference": None, "brier_skill": None}
    calibration = report.diagnosis.calibration
    if calibration:
        result["brier"] = calibration.brier
        result["brier_reference"] = calibration.reference
        result["brier_skill"] = calibration.skill
    return result


def report_tables(report: DiagnosisReport) -> tuple[DataTable, ...]:
    """Return all tables of one group, in their usual order; some may have no rows."""
    tables = list(diagnosis_tables(report.diagnosis))
    # JSON has these only where there is something to say, as it had not up to 0.14.
    if report.asking is not None:
        tables += asking_tables(report.asking)
    if report.replies:
        tables.append(replies_table(report.replies, with_examples=True))
    tables.append(losses_table(report.losses))
    return tuple(tables)


def printed_tables(report: DiagnosisReport) -> list[DataTable]:
    """Return all tables, with a section for each group where there are several."""
    sections: list[tuple[str, list[DataTable]]] = []
    for group in report.groups:
        heading = group.heading
        for caveat in group.caveats:
            heading = marked(heading, caveat)
        tables = [with_caveats(table, group.caveats) for table in report_tables(group)]
        sections.append((heading, tables))
    if len(sections) == 1:
        return sections[0][1]
    return in_sections(sections)


def printed_notes(report: DiagnosisReport) -> list[str]:
    """Return the lines to be printed below the tables: those of several groups behind their headings."""
    lines = list(report.common_notes)
    for group in report.groups:
        group_lines = ["no scores"]
        if group.judge:
            group_lines = [f"scores: judge {group.judge}"]
        group_lines += group.notes
        for caveat in group.caveats:
            group_lines.append(CAVEATS[caveat])
        if group.heading:
            group_lines = [f"{group.heading}: {line}" for line in group_lines]
        lines += group_lines
    return lines


# From run directories, or files of questions and answers, to a diagnosis


def diagnose_named(
    paths: Sequence[str],
    *,
    orig: Path | None = None,
    judge: str | None = None,
    types_file: Path | None = None,
    fields: Mapping[str, str] | None = None,
    seed: int = 0,
    all_versions: bool = False,
) -> DiagnosisReport:
    """Diagnose runs, or files of questions and answers, but not both. Raises UsageError and InputError."""
    labels = None
    read: Reader = read_question
    if types_file:
        types = read_type_labels(types_file, QUESTION_TYPES)
        labels = OwnLabels(cast("Mapping[str, Sequence[QuestionType]]", types))
        read = labels
    files: list[Path] = []
    for path in paths:
        files += question_files(path)
    files.sort()
    if files and len(files) < len(paths):
        raise UsageError("name either run directories or files of questions, not both")
    if files and (orig or judge):
        raise UsageError("files of questions have no scores: omit --orig and --judge")
    if files:
        systems = [read_file(file, read, fields) for file in files]
        notes = ["files of questions and answers: there are no scores, and so no gains"]
        report = DiagnosisReport(diagnose(systems, {}, seed=seed), None, None, notes)
    else:
        notes = []
        runs = find_runs(paths, notes.append, all_versions=all_versions)
        report = _diagnose_groups(
            paths, _groups_to_pool(comparable_runs(runs)), orig, judge, notes, read=read, seed=seed
        )
    if labels:
        notes = list(report.notes)
        notes.append(labels.note)
        report = replace(report, notes=notes)
    return report


def _groups_to_pool(groups: Iterable[ComparableRuns]) -> list[ComparableRuns]:
    """Divide groups so that none has two versions of a system: tables of question types count all runs together."""
    divided: list[ComparableRuns] = []
    for group in groups:
        layers = version_layers(group.runs)
        if len(layers) == 1:
            divided.append(group)
            continue
        for place, layer in enumerate(layers):
            heading = "newest versions"
            if place:
                heading = "older versions"
            if place > 1:
                heading += f" ({place})"
            if group.heading:
                heading = f"{group.heading}; {heading}"
            divided.append(replace(group, runs=tuple(layer), heading=heading))
    return divided


def _diagnose_groups(
    words: Sequence[str],
    groups: Sequence[ComparableRuns],
    orig: Path | None,
    judge: str | None,
    notes: list[str],
    *,
    read: Reader,
    seed: int,
) -> DiagnosisReport:
    """Diagnose each group of runs by the scores of `judge`, or else of its first run's scoring judge."""
    reports: list[DiagnosisReport] = []
    problems: list[UsageError] = []
    for group in groups:
        group_notes: list[str] = []
        try:
            runs = _readable_runs(group, group_notes)
            report = _diagnose_runs(
                runs, _orig_of_group(orig, groups, group), judge, group_notes, read=read, seed=seed
            )
        except UsageError as error:
            # A damaged run that was named is not to be passed over, whatever other groups there are.
            if isinstance(error, InputError) and any(run.named for run in group.runs):
                raise
            problems.append(error)
            continue
        if report is None:
            notes += group_notes
            continue
        if group.heading:
            report = replace(report, agent=group.agent, heading=group.heading)
        reports.append(report)
    if not reports and problems:
        raise problems[0]
    if not reports:
        problem = f"{', '.join(words)}: no Clarifier's run with answers; name one, such as runs/sample-gpt-k1"
        raise UsageError("; ".join([problem, *notes]))
    first, *others = reports
    if others:
        return replace(first, common_notes=tuple(notes), others=tuple(others))
    return replace(first, notes=[*notes, *first.notes])


def _orig_of_group(orig: Path | None, groups: Sequence[ComparableRuns], group: ComparableRuns) -> Path | None:
    """The orig that was named, for the groups that can be compared with it, and for a group alone."""
    if orig is None or len(groups) == 1:
        return orig
    setting = setting_of(manifest_of(orig))
    if all(settings_agree(setting, setting_of(manifest_of(run.path))) for run in group.runs):
        return orig
    return None


def _readable_runs(group: ComparableRuns, notes: list[str]) -> list[FinishedRun]:
    """Read the runs of a group. In a folder of runs those that have not finished are left out.

    One that is named itself is read as far as it got.
    """
    # Who names a run wants it, unfinished or not; a folder may hold runs that are under way.
    named_directories = {run.path for run in group.runs if run.named}
    runs: list[FinishedRun] = []
    for run in read_runs(group.runs, notes.append):
        is_named = run.directory in named_directories
        if run.n_missing and is_named:
            notes.append(f"{run.directory}: not finished ({run.progress})")
        elif run.n_missing:
            notes.append(f"{run.directory}: not finished, left out ({run.progress})")
        if run.unanswered:
            notes.append(f"{run.directory}: {run.unanswered}, left out")
        elif is_named or not run.n_missing:
            runs.append(run)
    return runs


def _diagnose_runs(
    runs: Sequence[FinishedRun],
    orig: Path | None,
    judge: str | None,
    notes: list[str],
    *,
    read: Reader,
    seed: int,
) -> DiagnosisReport | None:
    """Diagnose comparable runs; None without a Clarifier's run with answers.

    Gains are over the run of orig that is named, or is among the runs, or lies beside them over the same data.
    """
    if not any(_is_asked(run) and (run.n_done or run.n_failed) for run in runs):
        return None
    runs = list(runs)
    orig = orig or _find_orig(runs, notes)
    if orig and all(run.directory != orig for run in runs):
        runs.append(read_run(orig, without=NOT_FOR_SCORES))
    # Also of an orig that was named: gains pair instances by their ids.
    check_same_data(run.directory for run in runs)
    board = make_board(runs)
    baseline = ""
    for entrant in board.entrants:
        if entrant.directory != orig:
            continue
        if _is_asked(entrant):
            problem = f"a run that asks ({entrant.label}), not the run of the queries as they are"
            if entrant.clarifier:
                problem = f"a Clarifier's run ({entrant.label}), not the run of the queries as they are"
            raise UsageError(f"--orig {orig}: {problem}")
        baseline = entrant.label
    judge = _chosen_judge(board, judge, notes)
    report = diagnose_board(board, baseline, judge, read=read, seed=seed)
    assert report is not None  # there is a run that asks
    # Nothing else in a run tells that a server read only a part of its prompts (Ollama's default: 4,096 tokens).
    for run in runs:
        for line in cut_prompt_lines(cut_prompts_in(run.directory)):
            notes.append(f"{run.label}: {line}")
    notes += board.remarks
    notes += notes_on_origs(board, baseline)
    notes += report.notes
    return replace(report, notes=notes, losses=board_losses(board, judge))


def _is_asked(run: FinishedRun) -> bool:
    """Whether a user was asked anything in a run, by a Clarifier or by the agent."""
    return bool(run.clarifier) or run.asks_anew


def _find_orig(runs: Sequence[FinishedRun], notes: list[str]) -> Path | None:
    """Return the newest run of orig among the runs, or beside them; add a note if it is not among them."""
    among = [run for run in runs if run.system == ORIG and not run.clarifier]
    if among:
        scored = [run for run in among if run.judges]
        return newest_run(scored or among).directory
    siblings = sibling_origs(run.directory for run in runs if _is_asked(run))
    # Nobody named it, so the diagnosis says which run it took.
    if len(siblings) == 1:
        notes.append(f"gains are over {siblings[0]}")
        return siblings[0]
    candidates = ""
    if siblings:
        candidates = f" ({', '.join(map(str, siblings))} could all be meant)"
    notes.append(f"no single orig run was found next to these{candidates}; name one with --orig DIR")
    return None


def _chosen_judge(board: Board, judge: str | None, notes: list[str]) -> str | None:
    """Return the judge that is named, else the first one of a Clarifier's run; None for none. Raises UsageError."""
    clarified = [entrant for entrant in board.entrants if _is_asked(entrant)]
    judges: list[str] = []
    for entrant in clarified:
        judges += entrant.judges
    judges = list(dict.fromkeys(judges))
    if judge is not None and judge not in judges:
        listed = ", ".join(judges) or "none"
        raise UsageError(f"--judge {judge}: these runs were not judged by it; their judges are: {listed}")
    if judge is None and judges:
        judge = judges[0]
    for entrant in clarified:
        if judge and judge not in entrant.judges:
            notes.append(f"{entrant.directory}: not judged by {judge}, without scores here")
    return judge


def board_interactions(
    board: Board, judge: str | None, *, read: Reader = read_question
) -> tuple[list[Interactions], list[str]]:
    """Read the Clarifiers' runs of a board one by one: their questions and answers, and notes on what is left out.

    Of several versions of a run only the newest is read, since some tables count all runs together.
    """
    systems, notes = list[Interactions](), list[str]()
    newest = newest_directories(board)
    n_older = len(board.entrants) - len(newest)
    if n_older:
        notes.append(f"{counted(n_older, 'older version')} not diagnosed: cts diagnose --all-versions does")
    counted_once: dict[str, list[str]] = {}
    representative: dict[tuple[str, int, str], str] = {}
    # Those with questions of before the search alone first: they stand for the others that asked the same.
    for entrant in sorted(board.entrants, key=_asks_anew):
        if entrant.directory not in newest:
            continue
        if not entrant.clarifier or not (entrant.n_done or entrant.n_failed):
            continue
        asker = entrant.clarifier, entrant.k, entrant.support
        if entrant.asks_anew and asker in representative:
            counted_once.setdefault(representative[asker], []).append(entrant.label)
            continue
        representative.setdefault(asker, entrant.label)
        if entrant.unanswered:
            notes.append(f"{entrant.label}: {entrant.unanswered}, left out")
            continue
        run = read_run(entrant.directory, without=NOT_FOR_QUESTIONS)
        system = interactions_of(replace(run, label=entrant.label), read, judge)
        systems.append(system)
        # Each stage counts by itself: their questions were asked and answered, whatever failed afterwards.
        if system.n_failed_later:
            n_failed = counted(system.n_failed_later, "instance")
            notes.append(
                f"{entrant.label}: {n_failed} failed after being asked and answered; the tables of questions and "
                "answers count them (version 0.11 and before did not)"
            )
    for label, others in counted_once.items():
        notes.append(
            f"{join_first(others)}: questions of before the search are those of {label}, and counted once in the tables "
            "of questions"
        )
    return systems, notes


def _asks_anew(run: FinishedRun) -> bool:
    return run.asks_anew


def diagnose_board(
    board: Board, baseline: str, judge: str | None, *, read: Reader = read_question, seed: int = 0
) -> DiagnosisReport | None:
    """Diagnose the runs of a board that ask by this judge's scores, reading them one by one; None without any.

    Gains are over the system `baseline`, "" for none; those of asking during the search are over orig.
    """
    systems, notes = board_interactions(board, judge, read=read)
    asking = analyse_asking(board, judge, seed=seed)
    if not systems and asking is None:
        return None
    scores: dict[str, float] = {}
    if baseline and judge in board.judges:
        column = board.scores[judge][:, board.place(baseline)].tolist()
        for id, score in zip(board.ids, column, strict=True):
            if not isnan(score):
                scores[id] = score
    orig = None
    if scores:
        orig = board.entrants[board.place(baseline)].directory
    else:
        notes.append("no gains: there is no scored run of orig over the same data here")
    systems.sort(key=lambda system: system.k)
    newest = newest_directories(board)
    return DiagnosisReport(
        diagnose(systems, scores, seed=seed),
        judge,
        orig,
        notes,
        asking=asking,
        replies=all_readings(entrant for entrant in board.entrants if entrant.directory in newest),
    )


# --- Files of questions and answers


def question_files(path: str) -> list[Path]:
    """Return the .csv and .jsonl files that a path, a pattern, or a folder without runs names; [] for none."""
    if Path(path).is_dir():
        folder = Path(path)
        if (folder / "run.json").exists() or any(folder.glob("*/run.json")):
            return []
        # As the release's clarify_only/NAME.csv.
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in CSV_SUFFIXES)
    matches = [Path(path)]
    # A name that exists is no pattern, even if it has brackets.
    if not Path(path).exists():
        matches = list(map(Path, sorted(glob.glob(path))))
    if not matches and _is_question_file(Path(path)):
        raise InputError(path, "no such file")
    return [match for match in matches if _is_question_file(match)]


def _is_question_file(path: Path) -> bool:
    return path.suffix.lower() in CSV_SUFFIXES or path.suffix.lower() in JSONL_SUFFIXES


def read_file(path: Path, read: Reader, fields: Mapping[str, str] | None = None) -> Interactions:
    """Read a file as the run of a Clarifier of its name; k is the most questions of an instance."""
    instances = read_question_file(path, fields)
    rows: list[Interaction] = []
    for instance in instances:
        row = _interaction(instance, read)
        if row:
            rows.append(row)
    rows.sort(key=lambda row: row.id)
    n_turns = 0
    for row in rows:
        n_turns = max(n_turns, len(row.turns))
    return Interactions(
        label=path.stem,
        clarifier=path.stem,
        k=n_turns,
        rows=tuple(rows),
        n_failed=len(instances) - len(rows),
        n_expected=len(instances),
        read_texts=partial(_file_texts, instances, {row.id for row in rows}),
    )


def _file_texts(
    instances: Sequence[QuestionedInstance], ids: Collection[str], names: Collection[str]
) -> Iterator[InstanceTexts]:
    """Questions and answers of a file: whatever is named, it has nothing else."""
    for instance in sorted(instances, key=lambda instance: instance.id):
        if instance.id in ids:
            yield InstanceTexts(instance.id, questions=instance.questions, answers=instance.answers)


def _interaction(instance: QuestionedInstance, read: Reader) -> Interaction | None:
    """Classify an instance; None for a failed one, without questions or with an empty answer."""
    if not instance.questions:
        return None
    try:
        is_known = [not ShortPhrase().parse(answer).unknown for answer in instance.answers]
    except UnusableOutput:
        return None
    return interaction(instance.id, zip(instance.questions, is_known, strict=True), read)


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
    losses: list[SystemLosses] = []
    for entrant in board.entrants:
        if judge not in entrant.judges or not entrant.directory.is_dir():
            continue
        system = system_losses(entrant.label, run_losses(entrant.directory, judge, gold))
        if system is not None and system.known:
            losses.append(system)
    return tuple(losses)


def run_losses(directory: Path, judge: str, gold: GoldTexts) -> Iterator[Sequence[NuggetLoss]]:
    """Yield the losses of each instance that the judge has scored, one at a time: traces are long.

    Of a run of more than `MOST_ATTRIBUTED` instances, so many at most are read.
    """
    run = whole_run(directory, journal=True)
    if run is None:
        return
    index, lines = run.judges().get(judge), run.results.lines()
    if index is None:
        return
    every = max(1, ceil(len(lines) / MOST_ATTRIBUTED))
    for row in range(0, len(lines), every):
        line = run.line(run.results, int(lines.offsets[row]))
        verdict = line  # the scoring judge's stands beside the answer
        if index is not run.results:
            verdict = run.verdict(index, lines, row)
        if line is None or verdict is None or verdict.get("error") is not None:
            continue
        texts = gold.nuggets(run.manifest, str(line.get("id")), str(line.get("fused_query") or ""))
        losses = instance_losses(run, line, verdict, texts)
        if losses:
            yield losses


def losses_table(systems: Sequence[SystemLosses]) -> DataTable:
    """Points lost at each stage; the stages and the mean score add up to 100."""
    rows: list[dict[str, Any]] = []
    unplaced: list[str] = []
    for system in systems:
        row: dict[str, Any] = {
            "system": system.label,
            "n": system.n,
            "mean": system.mean,
            "lost": 100 - system.mean,
        }
        for stage, points in system.lost.items():
            row[stage] = points
        rows.append(row)
        if system.n_unplaced:
            unplaced.append(f"{system.label} {system.n_unplaced:,}")
    columns = list(text_columns("system"))
    columns.append(Column("n", text("n")))
    columns.append(Column("mean", number("mean", ".2f")))
    some_unknown = any(row["unknown"] for row in rows)
    for stage in STAGES:
        # Only where the gold lacks a nugget's text, or the run a trace that can be looked through.
        if stage != "unknown" or some_unknown:
            columns.append(Column(_HEADINGS[stage], number(stage, ".2f")))
    remarks: tuple[str, ...] = ()
    if unplaced:
        remarks = (
            f"No address is known of any source of some nuggets ({', '.join(unplaced)}), since the documents that "
            "source_ids name were not found: that such a source was found or read is not recognised.",
        )
    return DataTable("losses", "Points lost by stage", _CAPTION, columns, rows, remarks=remarks)
