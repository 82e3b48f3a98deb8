"""What `cts report` shows: analyses, tables and opened instances, collected from the runs that a user names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from cts_async.analysis.board import Board, make_board, with_names
from cts_async.analysis.compare import Extreme, extremes, extremes_of
from cts_async.analysis.interactions import Interactions
from cts_async.analysis.losses import SystemLosses
from cts_async.analysis.retrieval import NOBODY_ASKED, Cell, TurnRetrieval
from cts_async.analysis.summary import RunSummary, summarise_runs
from cts_async.errors import InputError, UsageError
from cts_async.pages.instance import instance_page
from cts_async.records import UNKNOWN, Caveat
from cts_async.runs.files import is_conversation, is_gold_build
from cts_async.runs.finished import read_runs
from cts_async.runs.gold_texts import GoldTexts
from cts_async.runs.groups import ComparableRuns, comparable_runs
from cts_async.runs.index import Json, Refused
from cts_async.runs.manifest import ORIG, Identity, manifest_of
from cts_async.runs.open_run import whole_run
from cts_async.runs.selection import RunPath, check_same_data, find_runs, sibling_origs
from cts_async.tables import results
from cts_async.tables.asking import asking_tables, replies_table
from cts_async.tables.comparison import (
    NO_ANSWERS,
    RunsCompared,
    baseline_of,
    compare_board,
    judged_tables,
    judges_tables,
    no_baseline,
    reference_of,
)
from cts_async.tables.diagnosis import DiagnosisReport, board_losses, diagnose_board, losses_table
from cts_async.tables.interactcomp import is_interactcomp, ladder_tables
from cts_async.tables.output import counted
from cts_async.tables.published import Published, compare_with_paper, is_hard518, published_tables
from cts_async.tables.statistics import diagnosis_tables
from cts_async.tables.table import DataTable, Row, free_name, with_caveats


@dataclass(frozen=True, slots=True)
class Gathered:
    """The content of a report on one group of comparable runs, with that on the other groups, if there are any.

    Runs without judgments are on no board, files of verdicts have no summary.
    """

    run_paths: tuple[Path, ...]
    """The runs of all groups that the user named."""
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
    talk_report: results.ConversationReport | None
    """Evaluation of the conversations."""
    notes: tuple[str, ...]
    names: Mapping[str, str]
    """What to call models, systems and datasets; the systems of the board are renamed already."""
    heading: str = ""
    """What distinguishes the group from the others; "" for a group alone."""
    others: tuple[Gathered, ...] = ()
    """The other groups, of the one last worked on only. Conversations are in the first."""
    common_notes: tuple[str, ...] = ()
    """Notes on several groups together, in the first."""

    @property
    def groups(self) -> tuple[Gathered, ...]:
        """All groups, the one last worked on first."""
        return (self, *self.others)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Why scores say nothing about a model; empty if they do."""
        return results.caveats_of(run for _, run in all_runs(self))


TalkEvaluation = Callable[[Sequence[RunSummary]], results.ConversationReport]
"""Evaluates runs of conversations; its caller chooses how, and with which documents and judgments."""


def named_runs(gathered: Gathered) -> results.NamedRuns:
    """Return the summaries, each with its system's name on the board."""
    labels: dict[Path, str] = {}
    if gathered.board:
        labels = {entrant.directory: entrant.label for entrant in gathered.board.entrants}
    return [(labels.get(run.directory, run.label), run) for run in gathered.summaries]


def all_runs(gathered: Gathered) -> results.NamedRuns:
    """Return the summaries of runs and of conversations, each with its name."""
    runs = list(named_runs(gathered))
    runs += [(talk.label, talk) for talk in gathered.talks]
    return runs


def gather(
    words: Sequence[str],
    *,
    judges: Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    evaluate_talks: TalkEvaluation | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
    all_versions: bool = False,
) -> Gathered:
    """Read and analyse runs, by group; differences are to `baseline`, else to the orig of each group if there is one.

    `names` says what to call models, systems and datasets; `evaluate_talks` evaluates runs of `cts converse`, which are
    only counted without it.

    Raises UsageError and InputError if there are no runs.
    """
    notes: list[str] = []
    runs = find_runs(words, notes.append, all_versions=all_versions)
    # find_runs leaves gold out if there is anything else.
    if is_gold_build(runs[0].path):
        raise UsageError(f"{runs[0].path}: gold that cts gold built; name the runs that are scored by it")
    scored_runs: list[RunPath] = []
    talk_runs: list[RunPath] = []
    for run in runs:
        if is_conversation(run.path):
            talk_runs.append(run)
        else:
            scored_runs.append(run)
    # Conversations may be over other data than the scored runs: no table compares the two.
    check_same_data(run.path for run in talk_runs)
    talks = _read_talks(talk_runs, notes, alone=not scored_runs)
    # Conversations alone are shown beside an empty group.
    groups = comparable_runs(scored_runs) or [ComparableRuns(())]
    gathered: list[Gathered] = []
    problems: list[UsageError] = []
    for group in groups:
        try:
            gathered.append(_gather_group(group, judges, baseline, seed, names))
        except UsageError as error:
            # What can be shown of a folder is shown; what was named itself is not passed over.
            is_damaged = isinstance(error, InputError) and any(run.named for run in group.runs)
            if len(groups) == 1 or is_damaged:
                raise
            problems.append(error)
            notes.append(f"{group.heading}: left out, since {error}.")
    if not gathered:
        raise problems[0]
    if baseline is not None:
        boards = [group.board for group in gathered if group.board]
        if boards and not any(reference_of(board, baseline) for board in boards):
            raise UsageError(no_baseline(baseline, boards))
    if len(gathered) > 1:
        notes.append(
            f"{len(gathered)} groups, each with its own orig, ranks and tests: nothing is compared between them."
        )
    talk_report: results.ConversationReport | None = None
    conversations = tuple(summarise_runs(talks))
    if conversations and evaluate_talks is not None:
        talk_report = evaluate_talks(conversations)
    first, *others = gathered
    if others:
        first = replace(first, common_notes=tuple(notes), others=tuple(others))
    else:
        first = replace(first, notes=(*notes, *first.notes))
    return replace(
        first,
        run_paths=tuple(run.path for run in runs),
        talks=conversations,
        talk_report=talk_report,
    )


def _read_talks(runs: Sequence[RunPath], notes: list[str], *, alone: bool) -> list[Path]:
    """Return the runs of conversations that can be read. Raises InputError if there is none, nor anything else."""
    try:
        return [run.directory for run in read_runs(runs, notes.append)]
    except InputError:
        if alone or any(run.named for run in runs):
            raise
        return []


def _gather_group(
    group: ComparableRuns, judges: Sequence[str], baseline: str | None, seed: int, names: Mapping[str, str]
) -> Gathered:
    """Read and analyse the scored runs of one group."""
    notes: list[str] = []
    runs = list(group.runs)
    if not baseline:
        orig = _sibling_orig([run.path for run in runs])
        if orig is not None:
            notes.append(f"Gains are over {orig}, found next to the named runs.")
            runs.append(RunPath(orig, named=False))
    board = make_board(read_runs(runs, notes.append))
    board_if_any: Board | None = None
    compared: RunsCompared | None = None
    diagnosis: DiagnosisReport | None = None
    losses: tuple[SystemLosses, ...] = ()
    if board.entrants:
        reference, compared = _compare(board, names, judges, baseline, seed, notes, alone=not group.heading)
        if compared and group.heading:
            compared = replace(compared, agent=group.agent, heading=group.heading)
        board = board_if_any = with_names(board, names)
        judge = None
        if compared:
            judge = compared.judged[0].judge
        diagnosis = diagnose_board(board, reference, judge, seed=seed)
        losses = board_losses(board, judge)
    return Gathered(
        run_paths=(),
        summaries=tuple(summarise_runs(entrant.directory for entrant in board.entrants)),
        board=board_if_any,
        compared=compared,
        diagnosis=diagnosis,
        losses=losses,
        published=_published(board, compared, diagnosis, seed),
        talks=(),
        talk_report=None,
        notes=tuple(notes),
        names=names,
        heading=group.heading,
    )


def _published(
    board: Board, compared: RunsCompared | None, diagnosis: DiagnosisReport | None, seed: int
) -> Published | None:
    """Return the board beside the paper's values; None if none of them is of these data or systems."""
    if not is_hard518(board):
        return None
    judges: list[str] = []
    if compared:
        judges = [judged.judge for judged in compared.judged]
    interactions: list[Interactions] = []
    if diagnosis:
        interactions = [system.system for system in diagnosis.diagnosis.systems]
    published = compare_with_paper(board, interactions, judges=judges, seed=seed)
    if not published.values:
        return None
    return published


def _sibling_orig(runs: Sequence[Path]) -> Path | None:
    """Return the run of orig beside the runs if none was named, since gains need one."""
    asking: list[Path] = []
    for path in runs:
        manifest = manifest_of(path)
        if manifest.identity.system == ORIG:
            return None
        if manifest.players.get("clarifier") or manifest.identity.max_asks:
            asking.append(path)
    origs = sibling_origs(asking)
    # Of several none is chosen for the user.
    if len(origs) != 1:
        return None
    return origs[0]


def _compare(
    board: Board,
    names: Mapping[str, str],
    judges: Sequence[str],
    baseline: str | None,
    seed: int,
    notes: list[str],
    *,
    alone: bool,
) -> tuple[str, RunsCompared | None]:
    """Return the baseline's label ("" for none) and the comparison, both by `names`; add notes.

    One of several groups may lack the `baseline` that was asked for: its differences are to orig.
    """
    if not board.judges and not judges:
        notes.append(_no_scores(board))
        return "", None
    if not alone and baseline is not None and not reference_of(board, baseline):
        notes.append(f"No {baseline} here: differences are to orig, if there is one.")
        baseline = None
    label = ""
    try:
        label = baseline_of(board, baseline)
    except UsageError as error:
        if baseline is not None:
            raise
        notes.append(f"No differences: {error}.")
    renamed = with_names(board, names)
    # A baseline is typed by the name that its run has, not by that of [names] in cts.toml.
    if label:
        label = renamed.systems[board.place(label)]
    compared = compare_board(renamed, judges, label, against_baseline=baseline is not None, seed=seed)
    notes += compared.notes
    return label, compared


def _no_scores(board: Board) -> str:
    """Return why a board without judges has no scores."""
    if all(entrant.stop_after for entrant in board.entrants):
        return "No scores: these runs stopped before the search (--stop-after)."
    if any(entrant.n_done for entrant in board.entrants):
        return "No scores, since none of these runs is judged: cts judge RUN --judge NAME judges one."
    return f"No scores: {NO_ANSWERS}."


# All tables, in groups

Group: TypeAlias = Literal[
    "runs",
    "scores",
    "judges",
    "losses",
    "asking",
    "questions",
    "published",
    "effort",
    "failures",
    "conversations",
]

_JUDGE_COLUMNS: Final = frozenset({"judge", "other", "judges"})
_SCORED_GROUPS: Final = frozenset(
    {"scores", "judges", "losses", "asking", "questions", "published", "effort", "conversations"}
)
"""Groups whose tables say of which systems numbers mean nothing, and of which they are recomputed."""


@dataclass(frozen=True, slots=True)
class GroupedTable:
    """A table and the group that it is shown in."""

    group: Group
    table: DataTable


def all_tables(gathered: Gathered, names_in_use: set[str], *, mask: bool = False) -> tuple[GroupedTable, ...]:
    """Return the tables of one group that have rows, with names that are valid for files and anchors, and not in use.

    The names are added to `names_in_use`. A table of one of several groups has the group in its title. A table of
    scores that say nothing about a model says so in a remark and in every row. With `mask` no cell quotes a reply.
    """
    grouped: list[GroupedTable] = []
    for group, table in _tables_by_group(gathered):
        if not table.rows:
            continue
        if mask:
            table = _without_quotations(table)
        table = _with_names(table, gathered.names)
        if group in _SCORED_GROUPS and gathered.caveats:
            table = _mark_caveats(table, gathered)
        if group in _SCORED_GROUPS and contradictions(gathered):
            table = _mark_recomputed(table, gathered)
        table = with_caveats(table, gathered.caveats)
        if gathered.heading:
            table = replace(table, title=f"{table.title} ({gathered.heading})")
        grouped.append(GroupedTable(group, replace(table, name=free_name(table.name, names_in_use))))
    return tuple(grouped)


_QUOTING: Final = "example"
"""The column of failures that has an error's message, which may quote the reply that was refused."""


def _without_quotations(table: DataTable) -> DataTable:
    """Return a table without the column whose cells may hold texts of the data."""
    columns = [column for column in table.columns if column.heading != _QUOTING]
    if len(columns) == len(table.columns):
        return table
    rows: list[Row] = []
    for row in table.rows:
        rows.append({name: value for name, value in row.items() if name != _QUOTING})
    return replace(table, columns=columns, rows=rows)


def _with_names(table: DataTable, names: Mapping[str, str]) -> DataTable:
    """Call models and datasets that stand alone in a cell by their names; judges keep theirs, as in captions."""
    rows: list[Row] = []
    for row in table.rows:
        renamed: dict[str, Any] = {}
        for key, value in row.items():
            renamed[key] = value
            if isinstance(value, str) and key not in _JUDGE_COLUMNS:
                renamed[key] = names.get(value, value)
        rows.append(renamed)
    return replace(table, rows=rows)


def _tables_by_group(gathered: Gathered) -> Iterator[tuple[Group, DataTable]]:
    """Yield every table with its group, with and without rows."""
    runs, runs_and_talks = named_runs(gathered), all_runs(gathered)
    yield "runs", results.runs_table(runs_and_talks)
    if gathered.compared:
        yield from _tables_of_judges(gathered.compared)
    yield "losses", losses_table(gathered.losses)
    if gathered.diagnosis:
        if gathered.diagnosis.asking:
            for table in asking_tables(gathered.diagnosis.asking):
                yield "asking", table
        if gathered.diagnosis.replies:
            # Without examples: a reply may have words of data that must not be published.
            yield "asking", replies_table(gathered.diagnosis.replies, with_examples=False)
        for table in diagnosis_tables(gathered.diagnosis.diagnosis):
            yield "questions", table
    if gathered.board and gathered.compared and is_interactcomp(gathered.board):
        for table in ladder_tables([(gathered.board, gathered.compared.judged[0].judge)]):
            yield "published", table
    if gathered.published:
        for table in published_tables(gathered.published):
            yield "published", table
    yield "effort", results.effort_table(runs)
    yield "effort", results.health_table(runs)
    yield "effort", results.causes_table(runs)
    yield "effort", results.served_table(runs_and_talks)
    yield "failures", results.failures_table(runs_and_talks)
    if gathered.talk_report:
        yield "conversations", results.conversations_table(gathered.talks)
        for table in gathered.talk_report.tables:
            yield "conversations", table


def _tables_of_judges(compared: RunsCompared) -> Iterator[tuple[Group, DataTable]]:
    """Yield the scores by the first judge, then what the judges say of each other, then the scores by the others."""
    for table in judged_tables(compared.judged[0], compared, all_pairs=True):
        yield "scores", table
    for table in judges_tables(compared):
        yield "judges", table
    for judged in compared.judged[1:]:
        for table in judged_tables(judged, compared, all_pairs=True):
            # A name is a file's: the same table of another judge needs another one.
            name, title = f"{table.name}_{judged.judge}", f"{table.title}, judge {judged.judge}"
            yield "judges", replace(table, name=name, title=title)


def _named_in(row: Row, names: Collection[str]) -> list[str]:
    """Return the systems that stand alone in a cell of the row."""
    return [value for value in row.values() if isinstance(value, str) and value in names]


def _mark_caveats(table: DataTable, gathered: Gathered) -> DataTable:
    """Mark the rows that name a system with a caveat, and those that name none."""
    caveat_by_name = {name: run.manifest.caveat for name, run in all_runs(gathered)}
    rows: list[Row] = []
    for row in table.rows:
        caveats = {caveat_by_name[name] for name in _named_in(row, caveat_by_name)}
        marks: dict[str, bool] = {}
        for caveat in gathered.caveats:
            # A row without a system is about all of them (a judge, a type of question).
            marks[caveat.replace(" ", "_")] = caveat in caveats or not caveats
        rows.append(dict(row) | marks)
    return replace(table, rows=rows, remarks=tuple(chain(table.remarks, caveat_lines(gathered))))


def _mark_recomputed(table: DataTable, gathered: Gathered) -> DataTable:
    """Mark the rows that name a system with stored scores that contradict their labels, and those that name none."""
    recomputed_by_name = {name: bool(run.contradictions) for name, run in all_runs(gathered)}
    rows: list[Row] = []
    for row in table.rows:
        names = _named_in(row, recomputed_by_name)
        recomputed = not names or any(recomputed_by_name[name] for name in names)
        rows.append(dict(row) | {"recomputed": recomputed})
    return replace(table, rows=rows, remarks=tuple(chain(table.remarks, contradictions(gathered))))


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
        sentence = results.CAVEATS[caveat]
        if len(names) < len(runs):
            sentence += f" Systems: {', '.join(names)}."
        yield sentence


def restriction_lines(gathered: Gathered) -> Iterator[str]:
    """Yield a sentence for each reason why texts of the data must not be published."""
    yield from dict.fromkeys(
        run.manifest.restriction for _, run in all_runs(gathered) if run.manifest.restriction
    )


# Instances opened in a report: what was asked, answered, rewritten and judged, read from the files of a run

FEW_SYSTEMS: Final = 3
"""For up to so many systems MANY instances are opened for each reason, for more systems FEW."""
MANY, FEW = 5, 2
MOST_SYSTEMS: Final = 24
"""Instances of further systems are not opened, as a note says."""


@dataclass(frozen=True, slots=True)
class OpenedInstance:
    """One instance of one run."""

    extreme: Extreme
    page: Json
    """What the viewer shows of it (`instance_page`)."""


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
    instances: tuple[OpenedInstance, ...]


MASKED: Final = "Queries, questions, answers and the texts of nuggets are left out (--mask)."


def masked(run: OpenedRun) -> OpenedRun:
    """Return a run whose instances have none of the data's texts, and none that were made of them."""
    instances = [replace(instance, page=_masked_page(instance.page)) for instance in run.instances]
    return replace(run, instances=tuple(instances))


def _masked_page(page: Json) -> Json:
    turns: list[Json] = []
    for turn in page["turns"]:
        offered = [_masked_text(text) for text in turn["offered"]]
        answers = [_masked_text(text) for text in turn["answers"]]
        turns.append(turn | {"offered": offered, "answers": answers, "query": _masked_text(turn["query"])})
    nuggets = [nugget | {"text": _masked_text(nugget["text"])} for nugget in page["nuggets"]]
    searched = _masked_text(page["rewritten_query"])
    segments: list[Json] = []
    if searched:
        segments = [{"text": searched, "added": False}]
    # Only what the report shows: whatever a later page has besides is left out until somebody decides about it.
    shown: Json = {
        "id": page["id"],
        "mode": page["mode"],
        "fused_query": _masked_text(page["fused_query"]),
        "blurred_query": _masked_text(page["blurred_query"]),
        "turns": turns,
        "further": [],
        "rewritten_query": searched,
        "rewritten": segments,
        "answer": _masked_text(page["answer"]),
        "scores": page["scores"],
        "nuggets": nuggets,
    }
    if "injected_turn" in page:
        shown["injected_turn"] = page["injected_turn"]
    if "asks" in page:
        asks: list[Json] = []
        for ask in page["asks"]:
            texts = {"question": _masked_text(ask["question"]), "reply": _masked_text(ask["reply"])}
            asks.append(ask | texts)
        shown["asks"], shown["agent_turns"] = asks, page["agent_turns"]
    return shown


def _masked_text(text: str | None) -> str | None:
    """Return how long a text is; what tells nothing of the data, no text and "unknown", as it is."""
    if not text or text == UNKNOWN:
        return text
    return f"[{counted(len(text), 'character')} left out]"


def open_instances(gathered: Gathered) -> tuple[tuple[OpenedRun, ...], tuple[str, ...]]:
    """Open the extremes of every system under the first judge; return them with notes."""
    compared = gathered.compared
    if compared is None:
        return (), ()
    judge, board = compared.judged[0].judge, compared.board
    entrants = board.entrants[:MOST_SYSTEMS]
    n_each = _n_opened(len(entrants))
    # One for all runs, which mostly have the same gold: its files are read once.
    gold = GoldTexts()
    runs: list[OpenedRun] = []
    for entrant in entrants:
        # A file of verdicts has no texts to show.
        if not entrant.directory.is_dir() or judge not in entrant.judges:
            continue
        chosen = extremes(board, judge, entrant.label, compared.baseline, n_each)
        instances = tuple(_open(entrant.directory, chosen, gold))
        if not instances:
            continue
        run = OpenedRun(
            entrant.label,
            entrant.directory,
            measure=f"judge {judge}",
            decimals=1,
            baseline=compared.baseline,
            caveat=entrant.caveat,
            instances=instances,
        )
        runs.append(run)
    notes: list[str] = []
    if _lacks_texts(runs):
        notes.append(
            "Nuggets are shown without text: the file that run.json names as gold is missing, or is no longer the "
            "gold of these runs."
        )
    n_left_out = len(board.entrants) - len(entrants)
    if n_left_out:
        notes.append(
            f"Instances are opened for the first {MOST_SYSTEMS} systems, not for {n_left_out} others."
        )
    return tuple(runs), tuple(notes)


def _n_opened(n_systems: int) -> int:
    """Return how many instances of a system are opened for each reason."""
    if n_systems <= FEW_SYSTEMS:
        return MANY
    return FEW


def _lacks_texts(runs: Iterable[OpenedRun]) -> bool:
    """Whether there are nuggets, and none has a text."""
    n_nuggets = 0
    for run in runs:
        for instance in run.instances:
            for nugget in instance.page["nuggets"]:
                if nugget["text"]:
                    return False
                n_nuggets += 1
    return n_nuggets > 0


def _open(directory: Path, chosen: Sequence[Extreme], gold: GoldTexts) -> Iterator[OpenedInstance]:
    """Yield those instances from the run's files; those without a line are left out."""
    run = whole_run(directory, journal=False)
    if run is None:
        return
    for extreme in chosen:
        with suppress(Refused):
            yield OpenedInstance(extreme, instance_page(run, extreme.id, gold, ()))


# Conversations opened in a report: where the last query retrieved best and worst, and gained and lost most


def open_talks(gathered: Gathered) -> Iterator[OpenedRun]:
    """Open the extremes of each evaluated run of conversations in the first measure, over q itself."""
    if gathered.talk_report is None:
        return
    n_each = _n_opened(len(gathered.talks))
    retrieval_by_directory: dict[Path, TurnRetrieval] = {}
    for retrieval in gathered.talk_report.retrieved:
        for directory in retrieval.directories:
            retrieval_by_directory.setdefault(directory, retrieval)
    for talk in gathered.talks[:MOST_SYSTEMS]:
        if talk.directory not in retrieval_by_directory:
            continue
        retrieval = retrieval_by_directory[talk.directory]
        cell = _closing_cell(retrieval, talk.manifest.identity)
        if cell is None:
            continue
        measure = retrieval.measures[0]
        scores = cell.scores[measure]
        scores_without = retrieval.without[measure]
        ids = sorted(scores)
        values = np.array([scores[id] for id in ids], float)
        gains = values - np.array([scores_without.get(id, np.nan) for id in ids], float)
        chosen = extremes_of(ids, values, gains, n_each)
        yield OpenedRun(
            talk.label,
            talk.directory,
            measure=f"{measure} of the last query",
            decimals=3,
            baseline=f"the query {NOBODY_ASKED}",
            caveat=talk.manifest.caveat,
            instances=tuple(_open(talk.directory, chosen, GoldTexts())),
        )


def _closing_cell(retrieval: TurnRetrieval, identity: Identity) -> Cell | None:
    """Return the scores after the last turn of the conversations of this scheme and mode."""
    closing: Cell | None = None
    for cell in retrieval.cells:
        if (cell.scheme, cell.mode) != (identity.scheme, identity.mode):
            continue
        if closing is None or cell.turn > closing.turn:
            closing = cell
    return closing
