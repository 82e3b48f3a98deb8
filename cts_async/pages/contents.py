"""What `cts report` shows: analyses, tables and opened instances, collected from the runs that a user names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np

from cts_async.analysis.board import Board, make_board, with_names
from cts_async.analysis.compare import Extreme, extremes, extremes_of
from cts_async.analysis.losses import SystemLosses
from cts_async.analysis.retrieval import NOBODY_ASKED
from cts_async.analysis.summary import RunSummary, summarise_runs
from cts_async.errors import UsageError
from cts_async.pages.instance import instance_page
from cts_async.records import Caveat
from cts_async.runs.files import is_conversation, is_gold_build
from cts_async.runs.finished import FinishedRun, read_runs
from cts_async.runs.gold_texts import GoldTexts
from cts_async.runs.index import Json, Refused
from cts_async.runs.manifest import ORIG, manifest_of
from cts_async.runs.open_run import whole_run
from cts_async.runs.selection import RunPath, check_same_data, find_runs, runs_of_latest_agent, sibling_origs
from cts_async.tables import results
from cts_async.tables.comparison import (
    NO_ANSWERS,
    RunsCompared,
    baseline_of,
    compare_board,
    judged_tables,
    judges_tables,
)
from cts_async.tables.diagnosis import DiagnosisReport, board_losses, diagnose_board, losses_table
from cts_async.tables.published import Published, compare_with_paper, is_hard518, published_tables
from cts_async.tables.statistics import diagnosis_tables
from cts_async.tables.table import DataTable, free_name, with_caveats


@dataclass(frozen=True, slots=True)
class Gathered:
    """The content of a report. Runs without judgments are on no board, files of verdicts have no summary."""

    named: tuple[Path, ...]
    """The runs that the user named."""
    summaries: tuple[RunSummary, ...]
    """Summaries of run directories and judged candidates, in the order of the board."""
    board: Board | None
    compared: RunsCompared | None
    diagnosis: DiagnosisReport | None
    losses: tuple[SystemLosses, ...]
    """Where each system loses points by the first judge."""
    published: Published | None
    """Ours beside the paper's values; None for other data than Hard518 as a whole, and without a system of the paper."""
    talks: tuple[RunSummary, ...]
    """Runs of conversations only (`cts converse`)."""
    talked: results.ConversationReport | None
    """Evaluation of the conversations."""
    notes: tuple[str, ...]
    names: Mapping[str, str]
    """What to call models, systems and datasets; the systems of the board are renamed already."""

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Why scores say nothing about a model; empty if they do."""
        return results.caveats_of(run for _, run in all_runs(self))


TalkEvaluation = Callable[[Sequence[RunSummary]], results.ConversationReport]
"""Evaluates runs of conversations; its caller chooses how, and with which documents and judgments."""


def named_runs(gathered: Gathered) -> results.NamedRuns:
    """Return the summaries, each with its system's name on the board."""
    entrants = gathered.board.entrants if gathered.board else ()
    labels = {entrant.directory: entrant.label for entrant in entrants}
    return [(labels.get(run.directory, run.label), run) for run in gathered.summaries]


def all_runs(gathered: Gathered) -> results.NamedRuns:
    """Return the summaries of runs and of conversations, each with its name."""
    return [*named_runs(gathered), *((talk.label, talk) for talk in gathered.talks)]


def gather(
    words: Sequence[str],
    *,
    judges: Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    evaluate_talks: TalkEvaluation | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Gathered:
    """Read and analyse runs; differences are to `baseline`, else to orig if there is one.

    `names` says what to call models, systems and datasets; `evaluate_talks` evaluates runs of `cts converse`, which are
    only counted without it.

    Raises UsageError and InputError if there are none, or none that belong together.
    """
    notes: list[str] = []
    found = find_runs(words)
    if is_gold_build(found[0].path):  # find_runs leaves gold out if there is anything else
        raise UsageError(f"{found[0].path}: gold that cts gold built; name the runs that are scored by it")
    if not baseline:
        found = runs_of_latest_agent(found, notes.append)
    named = tuple(one.path for one in found)
    runs = [path for path in named if not is_conversation(path)]
    check_same_data(path for path in named if path not in runs)
    if not baseline and (orig := _sibling_orig(runs)):
        notes.append(f"Gains are over {orig}, found next to the named runs.")
        found.append(RunPath(orig, named=False))
        runs.append(orig)
    check_same_data(runs)
    talks: list[Path] = []
    board = make_board(_without_talks(read_runs(found, notes.append), talks))
    reference, compared, diagnosis = "", None, None
    losses: tuple[SystemLosses, ...] = ()
    if board.entrants:
        reference, compared = _compared(board, names, judges, baseline, seed, notes)
        board = with_names(board, names)
        judge = compared.judged[0].judge if compared else None
        diagnosis = diagnose_board(board, reference, judge, seed=seed)
        losses = board_losses(board, judge)
    published = None
    if is_hard518(board):
        judged = [one.judge for one in compared.judged] if compared else []
        interactions = [one.system for one in diagnosis.diagnosis.systems] if diagnosis else []
        published = compare_with_paper(board, interactions, judges=judged, seed=seed)
    conversations = tuple(summarise_runs(talks))
    talked: results.ConversationReport | None = None
    if conversations and evaluate_talks is not None:
        talked = evaluate_talks(conversations)
    return Gathered(
        named=named,
        summaries=tuple(summarise_runs(entrant.directory for entrant in board.entrants)),
        board=board if board.entrants else None,
        compared=compared,
        diagnosis=diagnosis,
        losses=losses,
        published=published if published and published.values else None,
        talks=conversations,
        talked=talked,
        notes=tuple(notes),
        names=names,
    )


def _sibling_orig(runs: Sequence[Path]) -> Path | None:
    """Return the run of orig beside the runs if none was named, since gains need one."""
    manifests = {path: manifest_of(path) for path in runs}
    if any(manifest.identity.system == ORIG for manifest in manifests.values()):
        return None
    asked = [path for path, manifest in manifests.items() if manifest.players.get("clarifier")]
    beside = sibling_origs(asked)
    return beside[0] if len(beside) == 1 else None


def _without_talks(runs: Iterable[FinishedRun], talks: list[Path]) -> Iterator[FinishedRun]:
    """Yield the runs with scores; add the directories of the others, conversations only, to `talks`."""
    for run in runs:
        if run.talk:
            talks.append(run.directory)
        else:
            yield run


def _compared(
    board: Board,
    names: Mapping[str, str],
    judges: Sequence[str],
    wanted: str | None,
    seed: int,
    notes: list[str],
) -> tuple[str, RunsCompared | None]:
    """Return the baseline ("" for none) and the comparison, both by `names`; add notes."""
    if not board.judges and not judges:
        answered = any(entrant.n_done for entrant in board.entrants)
        searched = not all(entrant.stop_after for entrant in board.entrants)
        why = "since none of these runs is judged: cts judge RUN --judge NAME judges one"
        found = f"No scores, {why}." if answered else f"No scores: {NO_ANSWERS}."
        notes.append(found if searched else "No scores: these runs stopped before the search (--stop-after).")
        return "", None
    baseline = ""
    try:
        baseline = baseline_of(board, wanted)
    except UsageError as error:
        if wanted is not None:
            raise
        notes.append(f"No differences: {error}.")
    named = with_names(board, names)
    baseline = baseline and named.systems[board.place(baseline)]
    compared = compare_board(named, judges, baseline, against_baseline=wanted is not None, seed=seed)
    notes += compared.notes
    return baseline, compared


# All tables, in groups

Group: TypeAlias = Literal[
    "runs", "scores", "judges", "losses", "questions", "published", "effort", "failures", "conversations"
]

_OF_JUDGES: Final = frozenset({"judge", "other", "judges"})
_SCORED: Final = frozenset(
    {"scores", "judges", "losses", "questions", "published", "effort", "conversations"}
)


@dataclass(frozen=True, slots=True)
class GroupedTable:
    """A table and the group that it is shown in."""

    group: Group
    table: DataTable


def all_tables(gathered: Gathered) -> tuple[GroupedTable, ...]:
    """Return the tables that have rows, with distinct names that are valid for files and anchors.

    A table of scores that say nothing about a model says so in a remark and in every row.
    """
    found, taken = list[GroupedTable](), set[str]()
    for group, tables in _by_group(gathered):
        for table in tables:
            if table.rows:
                table = _named(table, gathered.names)
                if group in _SCORED and gathered.caveats:
                    table = _marked(table, gathered)
                if group in _SCORED and contradictions(gathered):
                    table = _mark_recomputed(table, gathered)
                table = with_caveats(table, gathered.caveats)
                found.append(GroupedTable(group, replace(table, name=free_name(table.name, taken))))
    return tuple(found)


def _named(table: DataTable, names: Mapping[str, str]) -> DataTable:
    """Call models and datasets that stand alone in a cell by their names; judges keep theirs, as in captions."""
    rows = [
        {
            key: names.get(of, of) if isinstance(of, str) and key not in _OF_JUDGES else of
            for key, of in row.items()
        }
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _by_group(gathered: Gathered) -> Iterator[tuple[Group, Iterable[DataTable]]]:
    runs, every, compared = named_runs(gathered), all_runs(gathered), gathered.compared
    yield "runs", [results.runs_table(every)]
    if compared:
        yield "scores", judged_tables(compared.judged[0], compared, all_pairs=True)
        yield "judges", judges_tables(compared)
        for judged in compared.judged[1:]:
            name = judged.judge
            tables = judged_tables(judged, compared, all_pairs=True)
            yield (
                "judges",
                (
                    replace(one, name=f"{one.name}_{name}", title=f"{one.title}, judge {name}")
                    for one in tables
                ),
            )
    yield "losses", [losses_table(gathered.losses)]
    if gathered.diagnosis:
        yield "questions", diagnosis_tables(gathered.diagnosis.diagnosis)
    if gathered.published:
        yield "published", published_tables(gathered.published)
    yield (
        "effort",
        [
            results.effort_table(runs),
            results.health_table(runs),
            results.causes_table(runs),
            results.served_table(every),
        ],
    )
    yield "failures", [results.failures_table(every)]
    if gathered.talked:
        yield "conversations", [results.conversations_table(gathered.talks), *gathered.talked.tables]


def _marked(table: DataTable, gathered: Gathered) -> DataTable:
    """Mark the rows that name a system with a caveat, and those that name none."""
    by_name = {name: run.manifest.caveat for name, run in all_runs(gathered)}
    rows = []
    for row in table.rows:
        named = [by_name[value] for value in row.values() if isinstance(value, str) and value in by_name]
        of_row = {caveat.replace(" ", "_"): caveat in named or not named for caveat in gathered.caveats}
        rows.append({**row, **of_row})
    return replace(table, rows=rows, remarks=(*table.remarks, *caveat_lines(gathered)))


def _mark_recomputed(table: DataTable, gathered: Gathered) -> DataTable:
    """Mark the rows that name a system with stored scores that contradict their labels, and those that name none."""
    recomputed = {name: bool(run.contradictions) for name, run in all_runs(gathered)}
    rows = []
    for row in table.rows:
        named = [recomputed[text] for text in row.values() if isinstance(text, str) and text in recomputed]
        rows.append({**row, "recomputed": any(named) or not named})
    return replace(table, rows=rows, remarks=(*table.remarks, *contradictions(gathered)))


def contradictions(gathered: Gathered) -> list[str]:
    """Return a sentence for each file with stored scores that contradict their labels, and so are recomputed."""
    sentences: list[str] = []
    for _, run in all_runs(gathered):
        sentences += [f"{run.directory}/{sentence}" for sentence in run.contradictions]
    return sentences


def caveat_lines(gathered: Gathered) -> Iterator[str]:
    """Yield a sentence for each caveat, with the systems that have it unless all have."""
    runs = all_runs(gathered)
    for caveat in gathered.caveats:
        names = [name for name, run in runs if run.manifest.caveat == caveat]
        yield results.CAVEATS[caveat] + ("" if len(names) == len(runs) else f" Systems: {', '.join(names)}.")


# Instances opened in a report: what was asked, answered, rewritten and judged, read from the files of a run

FEW_SYSTEMS = 3
"""For up to so many systems MANY instances are opened for each reason, for more systems FEW."""
MANY, FEW = 5, 2
MOST_SYSTEMS = 24


@dataclass(frozen=True, slots=True)
class Opened:
    """One instance of one run."""

    extreme: Extreme
    page: Json
    """What the viewer shows of it (`viewer.instance_page`)."""


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
    caveat: Caveat
    instances: tuple[Opened, ...]


def open_instances(gathered: Gathered) -> tuple[tuple[OpenedRun, ...], tuple[str, ...]]:
    """Open the extremes of every system under the first judge; return them with notes."""
    compared = gathered.compared
    if compared is None:
        return (), ()
    judge, board, baseline = compared.judged[0].judge, compared.board, compared.baseline
    entrants = board.entrants[:MOST_SYSTEMS]
    most = MANY if len(entrants) <= FEW_SYSTEMS else FEW
    found = [
        (entrant, extremes(board, judge, entrant.label, baseline, most))
        for entrant in entrants
        if entrant.directory.is_dir() and judge in entrant.judges
    ]
    gold = GoldTexts()
    runs = [
        OpenedRun(
            entrant.label,
            entrant.directory,
            measure=f"judge {judge}",
            decimals=1,
            baseline=baseline,
            caveat=entrant.caveat,
            instances=tuple(_opened(entrant.directory, instances, gold)),
        )
        for entrant, instances in found
    ]
    notes = []
    nuggets = [nugget for run in runs for one in run.instances for nugget in one.page["nuggets"]]
    if nuggets and not any(nugget["text"] for nugget in nuggets):
        notes.append(
            "Nuggets are shown without text: the file that run.json names as gold is missing, or is no longer the "
            "gold of these runs."
        )
    if (left_out := len(board.entrants) - MOST_SYSTEMS) > 0:
        notes.append(f"Instances are opened for the first {MOST_SYSTEMS} systems, not for {left_out} others.")
    return tuple(run for run in runs if run.instances), tuple(notes)


def _opened(directory: Path, found: Sequence[Extreme], gold: GoldTexts) -> Iterator[Opened]:
    """Yield those instances from the run's files; those without a line are left out."""
    if run := whole_run(directory, journal=False):
        for one in found:
            with suppress(Refused):
                yield Opened(one, instance_page(run, one.id, gold, ()))


# Conversations opened in a report: where the last query retrieved best and worst, and gained and lost most


def open_talks(gathered: Gathered) -> Iterator[OpenedRun]:
    """Open the extremes of each evaluated run of conversations in the first measure, over q itself."""
    retrieved = gathered.talked.retrieved if gathered.talked else ()
    most = MANY if len(gathered.talks) <= FEW_SYSTEMS else FEW
    for talk in gathered.talks[:MOST_SYSTEMS]:
        found = next((one for one in retrieved if talk.directory in one.directories), None)
        identity = talk.manifest.identity
        own = [
            cell
            for cell in (found.cells if found else ())
            if (cell.scheme, cell.mode) == (identity.scheme, identity.mode)
        ]
        if found and own:
            measure, last = found.measures[0], max(own, key=lambda cell: cell.turn)
            scores, ids = last.scores[measure], sorted(last.scores[measure])
            values = np.array([scores[id] for id in ids], float)
            gains = values - np.array([found.without[measure].get(id, np.nan) for id in ids], float)
            opened = extremes_of(ids, values, gains, most)
            yield OpenedRun(
                talk.label,
                talk.directory,
                measure=f"{measure} of the last query",
                decimals=3,
                baseline=f"the query {NOBODY_ASKED}",
                caveat=talk.manifest.caveat,
                instances=tuple(_opened(talk.directory, opened, GoldTexts())),
            )
