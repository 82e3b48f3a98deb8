"""`cts compare`: runs side by side, as data, as JSON, as the paper's tables, and in a few sentences."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from typing import Any, Final

import numpy as np

from cts_async.analysis.board import LABELS, REFERENCES, Array, Board, make_board, notes_on_origs
from cts_async.analysis.compare import Judged, Robustness, Standing, compare_under, robustness
from cts_async.analysis.confidence import N_BINS, calibrate_confidence
from cts_async.analysis.stability import Stability, stability
from cts_async.analysis.stats import ALPHA, ENOUGH, EXACT, MANY, POWER, Difference, holm_alpha
from cts_async.errors import InputError, UsageError
from cts_async.protocol.judge import SELF_PREFERENCE
from cts_async.records import Caveat, caveats_in
from cts_async.runs.files import is_conversation
from cts_async.runs.finished import FinishedRun, newest_run, read_run, read_runs
from cts_async.runs.groups import ComparableRuns, comparable_runs
from cts_async.runs.manifest import ORIG
from cts_async.runs.selection import SHOW_OLDER, find_runs, join_first
from cts_async.tables.output import counted
from cts_async.tables.results import CAVEATS
from cts_async.tables.summary import caveats_json
from cts_async.tables.table import (
    MISSING,
    NO_DIFFERENCE,
    NO_INTERVAL,
    SHORT_MARK,
    Column,
    DataTable,
    Rank,
    Row,
    difference_text,
    in_sections,
    interval_notes,
    marked,
    number,
    p_value,
    text,
    text_columns,
    with_caveats,
    with_interval,
)

NO_ANSWERS: Final = (
    "no instance of these runs has an answer yet, so there is nothing to judge or compare: repeat a run's command to "
    "resume it, with --retry-failed to retry what failed"
)
_LEADERBOARD: Final = "leaderboard"
MOST_TIED: Final = 8
"""Systems tied with the best one that a sentence names."""
MOST_PAIRS: Final = 36
"""Pairs that are shown without --pairs: those of nine systems."""


@dataclass(frozen=True, slots=True)
class RunsCompared:
    """The result of `cts compare` for one group of comparable runs, with those of the other groups, if there are any."""

    board: Board
    baseline: str
    """"" for none."""
    against_baseline: bool
    """True if the tests are of every system against the baseline, else of all pairs."""
    judged: tuple[Judged, ...]
    robustness: Robustness | None
    stabilities: tuple[Stability, ...]
    notes: tuple[str, ...]
    seed: int
    agent: str = ""
    """The agent of the group; "" if none is named."""
    heading: str = ""
    """What distinguishes the group from the others; "" for a group alone."""
    others: tuple[RunsCompared, ...] = ()
    """The other groups, of the one last worked on only; nothing is compared between groups."""
    common_notes: tuple[str, ...] = ()
    """Notes on several groups together, in the first."""

    @property
    def groups(self) -> tuple[RunsCompared, ...]:
        """All groups, the one last worked on first."""
        return (self, *self.others)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Why scores of this group say nothing about a model; empty if they do."""
        return caveats_in(entrant.caveat for entrant in self.board.entrants)

    @property
    def marked_heading(self) -> str:
        """The heading with the group's caveats, as tables show it."""
        heading = self.heading
        for caveat in self.caveats:
            heading = marked(heading, caveat)
        return heading


def compare_runs(
    words: Sequence[str],
    *,
    judges: Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    partial: bool = False,
    all_versions: bool = False,
    remedy: str = SHOW_OLDER,
) -> RunsCompared:
    """Compare the runs that `words` name under `judges` (all if none are named), by group. Raises UsageError.

    Of runs that nobody has judged only the supporting models are compared. A single run, or unjudged ones without such
    models, are refused unless the comparison may be `partial`. Without a `baseline` the differences are to the orig of
    each group, if present, and the family of tests is all pairs of the group.
    """
    notes: list[str] = []
    named_runs = find_runs(words, notes.append, all_versions=all_versions, remedy=remedy)
    runs = [run for run in named_runs if not is_conversation(run.path)]
    if not runs:
        path = named_runs[0].path
        raise UsageError(f"{path}: conversations without scores (cts converse) cannot be compared")
    boards = _read_groups(comparable_runs(runs), notes)
    entrants = [entrant for _, board in boards for entrant in board.entrants]
    if len(entrants) < 2 and not partial:
        directory = entrants[0].directory
        problem = f"one run alone ({directory}): name at least two, or the folder that they are in"
        raise UsageError(". ".join([problem, *notes]))
    if len(boards) > 1:
        notes.append(_groups_note(boards))
    references = [reference_of(board, baseline) for _, board in boards]
    if baseline is not None and not any(references):
        raise UsageError(no_baseline(baseline, [board for _, board in boards]))
    compared: list[RunsCompared] = []
    problems: list[UsageError] = []
    for (group, board), reference in zip(boards, references, strict=True):
        try:
            result = _compare_group(board, judges, baseline, reference, seed, partial=partial)
        except UsageError as error:
            # A group without scores is no reason to refuse the others.
            problems.append(error)
            notes.append(f"{group.heading}: not compared, since {error}.")
            continue
        if group.heading:
            result = replace(result, agent=group.agent, heading=group.heading)
        compared.append(result)
    if not compared:
        raise problems[0]
    first, *others = compared
    if others:
        return replace(first, common_notes=tuple(notes), others=tuple(others))
    return replace(first, notes=(*notes, *first.notes))


def _read_groups(groups: Sequence[ComparableRuns], notes: list[str]) -> list[tuple[ComparableRuns, Board]]:
    """Read the runs of each group; a group of which nothing can be read is left out unless it was named."""
    boards: list[tuple[ComparableRuns, Board]] = []
    errors: list[InputError] = []
    for group in groups:
        try:
            boards.append((group, make_board(read_runs(group.runs, notes.append))))
        except InputError as error:
            if any(run.named for run in group.runs):
                raise
            errors.append(error)
    if not boards:
        raise errors[0]
    return boards


def _groups_note(boards: Sequence[tuple[ComparableRuns, Board]]) -> str:
    note = f"{len(boards)} groups, each with its own orig, ranks and tests: nothing is compared between them."
    # Scores by another gold cannot be paired at all.
    if len({group.agent for group, _ in boards}) > 1:
        note += " To compare two runs of different agents, name these two."
    for group, _ in boards:
        if group.without_agent:
            paths = join_first([str(run.path) for run in group.without_agent])
            note += f" Shown with {group.heading}, since they name no agent: {paths}."
    return note


def reference_of(board: Board, baseline: str | None) -> str:
    """The label of the baseline in a group, "" for none; of a group that lacks the one that was asked for."""
    if baseline is not None and not _labels_matching(board, baseline):
        return ""
    if baseline is None and not _labels_matching(board, ORIG):
        return ""
    return baseline_of(board, baseline)


def _compare_group(
    board: Board, judges: Sequence[str], baseline: str | None, reference: str, seed: int, *, partial: bool
) -> RunsCompared:
    """Compare the systems of one group. Where it lacks the `baseline` that was asked for, differences are to orig."""
    notes: list[str] = []
    if not board.judges and not judges:
        # Runs without a search have User Answerer and Rewriter to compare, too.
        stabilities = tuple(_stabilities(board))
        if stabilities or partial:
            notes += board.remarks
            for entrant in board.entrants:
                notes += _unfinished(entrant)
            return RunsCompared(board, "", False, (), None, stabilities, tuple(notes), seed)
    against_baseline = bool(baseline and reference)
    if not reference and _labels_matching(board, ORIG):
        reference = baseline_of(board)
        notes.append(f"No {baseline} here: differences are to {reference}.")
    elif not reference:
        notes.append(f"No differences: {_no_orig(board)}.")
    compared = compare_board(board, judges, reference, against_baseline=against_baseline, seed=seed)
    return replace(compared, notes=(*notes, *compared.notes))


def compare_board(
    board: Board, judges: Sequence[str], baseline: str, *, against_baseline: bool = False, seed: int = 0
) -> RunsCompared:
    """Compare the systems of a board, one or more; a `baseline` of "" is none. Raises UsageError."""
    if not board.judges and all(entrant.stop_after for entrant in board.entrants):
        raise UsageError(
            "these runs searched nothing (--stop-after), so there are no scores to compare: cts diagnose shows what "
            "was asked and answered"
        )
    if not board.judges and not any(entrant.n_done for entrant in board.entrants):
        raise UsageError(NO_ANSWERS)
    if not board.judges:
        raise UsageError(
            "none of these runs is judged: cts judge RUN --judge NAME judges one, --judge lexical free"
        )
    for judge in judges:
        if judge not in board.judges:
            raise UsageError(f"no run here was judged by {judge!r}; there are {', '.join(board.judges)}")
    chosen = tuple(dict.fromkeys(judges)) or board.judges
    judged: list[Judged] = []
    for judge in chosen:
        judged.append(compare_under(board, judge, baseline, against_baseline=against_baseline, seed=seed))
    return RunsCompared(
        board=board,
        baseline=baseline,
        against_baseline=against_baseline,
        judged=tuple(judged),
        robustness=robustness(board, chosen, judges),
        stabilities=tuple(_stabilities(board)),
        notes=tuple(chain(board.remarks, notes_on_origs(board, baseline), _notes(board, chosen[0]))),
        seed=seed,
    )


def baseline_of(board: Board, name: str | None = None) -> str:
    """Return the label of the system that differences are to: orig, or another. Raises UsageError if it is ambiguous.

    Of several runs of orig it is the newest one that has scores, and so of several versions of another system.
    """
    matching = _matching(board, name or ORIG)
    if not matching and name is None:
        raise UsageError(_no_orig(board))
    if not matching:
        assert name is not None
        raise UsageError(no_baseline(name, [board]))
    series = {(entrant.directory.parent, entrant.series) for entrant in matching}
    if len(series) > 1 and not all(entrant.system == ORIG for entrant in matching):
        labels = ", ".join(entrant.label for entrant in matching)
        raise UsageError(
            f"several runs are {name}: {labels}; choose one with --baseline, or name the runs to compare"
        )
    scored = [entrant for entrant in matching if entrant.judges]
    return newest_run(scored or matching).label


def no_baseline(name: str, boards: Sequence[Board]) -> str:
    """The message for a --baseline that no group has."""
    systems: dict[str, None] = {}
    for board in boards:
        systems.update(dict.fromkeys(board.systems))
    return f"--baseline {name}: no such system here; there are {', '.join(systems)}"


def _labels_matching(board: Board, name: str) -> list[str]:
    return [entrant.label for entrant in _matching(board, name)]


def _matching(board: Board, name: str) -> list[FinishedRun]:
    """Return the runs that match a name: the one of that label, else those of a system or directory of that name."""
    matching: list[FinishedRun] = []
    for entrant in board.entrants:
        if entrant.label == name:
            return [entrant]
        if name in (entrant.system, entrant.directory.name, str(entrant.directory)):
            matching.append(entrant)
    return matching


def _no_orig(board: Board) -> str:
    return (
        "no orig among these runs, to which differences refer: add its directory, or choose another "
        f"with --baseline ({', '.join(board.systems)})"
    )


def _stabilities(board: Board) -> Iterator[Stability]:
    """Compare pairs of runs of one Clarifier and budget with different supporting models (table 11)."""
    groups: dict[tuple[str, int], list[FinishedRun]] = defaultdict(list)
    for entrant in board.entrants:
        if entrant.clarifier and entrant.support and not entrant.asks_anew:
            groups[entrant.clarifier, entrant.k].append(entrant)
    for (clarifier, k), group in groups.items():
        if len({entrant.support for entrant in group}) < 2:
            continue
        runs = [read_run(entrant.directory, without=("answer",)) for entrant in group]
        for run, compared_run in combinations(runs, 2):
            if run.support != compared_run.support:
                # Named as in the paper: GPT-ERNIE.
                name, compared_name = (
                    f"{clarifier}-{run.support} k{k}",
                    f"{clarifier}-{compared_run.support} k{k}",
                )
                yield stability(run, compared_run, (name, compared_name))


def _notes(board: Board, judge: str) -> Iterator[str]:
    """Yield facts that a reader has to know before relying on the numbers."""
    is_scored = ~np.isnan(board.scores[judge])
    n_scored: dict[str, int] = {}
    for system, n in zip(board.systems, is_scored.sum(axis=0).tolist(), strict=True):
        if n:
            n_scored[system] = n
    if len(set(n_scored.values())) > 1:
        counts = ", ".join(f"{system} {n}" for system, n in n_scored.items())
        yield (
            f"n differs between systems under {judge} ({counts}): their means are over different instances. Compare "
            "systems by paired differences, or by means over the instances that all of them have."
        )
    for entrant in board.entrants:
        label, directory = entrant.label, entrant.directory
        yield from _unfinished(entrant)
        if entrant.n_failed and not entrant.n_done:
            yield f"Nothing but failures, so left out: {label} (the run's command with --retry-failed; {directory})."
        elif entrant.stop_after:
            yield f"Nothing searched, so without scores: {label} (stopped after {entrant.stop_after}; {directory})."
        elif entrant.n_done and judge not in entrant.judges:
            command = shlex.join(["cts", "judge", str(directory), "--judge", judge])
            yield f"Not judged by {judge}: {label} ({command})."
    agents: dict[str, list[str]] = defaultdict(list)
    for entrant in board.entrants:
        agent = entrant.players.get("agent")
        if agent:
            agents[agent].append(entrant.label)
    if len(agents) > 1:
        systems_by_agent: list[str] = []
        for agent, labels in agents.items():
            systems_by_agent.append(f"{agent}: {', '.join(labels)}")
        listed = "; ".join(systems_by_agent)
        yield f"The agents differ, so differences are not due to the Clarifiers alone. {listed}."


def _unfinished(entrant: FinishedRun) -> Iterator[str]:
    if entrant.n_missing:
        yield f"Unfinished: {entrant.label} has {entrant.progress} ({entrant.directory})."


def comparison_json(compared: RunsCompared) -> dict[str, Any]:
    """Return all numbers, unrounded.

    Of several groups the one last worked on is what earlier versions gave alone; "groups" has all of them, each with
    the same fields.
    """
    result = _group_json(compared)
    if compared.others:
        groups: list[dict[str, Any]] = []
        for group in compared.groups:
            head = {"group": group.heading, "agent": group.agent or None}
            groups.append(head | _group_json(group))
        result["notes"] = [*compared.common_notes, *compared.notes]
        result["groups"] = groups
    return result


def _group_json(compared: RunsCompared) -> dict[str, Any]:
    board = compared.board
    data: dict[str, Any] = {}
    for entrant in board.entrants:
        data = entrant.data.as_json()
        if data:  # the same in all runs that have it; candidates have none
            break
    result: dict[str, Any] = {
        "data": data,
        "baseline": compared.baseline or None,
        "seed": compared.seed,
    }
    result |= caveats_json(compared.caveats)
    result["systems"] = list(map(_system_json, board.entrants))
    result["judges"] = [_judged_json(judged, compared) for judged in compared.judged]
    result["judge_robustness"] = None
    if compared.robustness:
        result["judge_robustness"] = asdict(compared.robustness)
    result["supporting_backbones"] = list(map(asdict, compared.stabilities))
    result["notes"] = list(compared.notes)
    return result


def printed_notes(compared: RunsCompared) -> list[str]:
    """Return the notes to be printed below the tables: those of one of several groups behind its heading."""
    notes = list(compared.common_notes)
    for group in compared.groups:
        if group.heading:
            notes += [f"{group.heading}: {note}" for note in group.notes]
        else:
            notes += group.notes
    for caveat in caveats_in(chain.from_iterable(group.caveats for group in compared.groups)):
        headings = [group.heading for group in compared.groups if caveat in group.caveats]
        if len(headings) == len(compared.groups):
            notes.append(CAVEATS[caveat])
        else:
            notes += [f"{heading}: {CAVEATS[caveat]}" for heading in headings]
    return notes


def _system_json(entrant: FinishedRun) -> dict[str, Any]:
    row: dict[str, Any] = {
        "system": entrant.label,
        "directory": str(entrant.directory),
        "clarifier": entrant.clarifier or None,
        "k": entrant.k,
        "support": entrant.players.get("support") or None,
        "judges": list(entrant.judges),
        "n_expected": entrant.n_expected,
        "n_done": entrant.n_done,
        "n_failed": entrant.n_failed,
        "n_missing": entrant.n_missing,
    }
    return row | caveats_json([entrant.caveat])


def _judged_json(judged: Judged, compared: RunsCompared) -> dict[str, Any]:
    leaderboard: list[dict[str, Any]] = []
    for standing in judged.standings:
        row = _standing_fields(standing)
        # JSON and CSV keep the name that they had before 0.13 for what is called a gain in Python.
        row["delta"] = None
        if standing.gain:
            row["delta"] = _gain_fields(standing.gain)
        leaderboard.append(row)
    family: dict[str, Any] = {"tests": len(judged.pairs), "against": None}
    if compared.against_baseline:
        family["against"] = compared.baseline
    return {
        "judge": judged.judge,
        "leaderboard": leaderboard,
        "family": family,
        "pairs": list(map(asdict, judged.pairs)),
    }


def _gain_fields(gain: Difference) -> dict[str, Any]:
    fields = asdict(gain)
    fields["too_short"] = gain.too_short
    return fields


def _standing_fields(standing: Standing) -> dict[str, Any]:
    """What JSON and tables have of a system under a judge, without its gain over the baseline."""
    fields: dict[str, Any] = {"system": standing.system, "k": standing.k}
    fields |= asdict(standing.scores)
    return fields | {
        "n_common": standing.n_common,
        "common_mean": standing.common_mean,
        "judge_is": "+".join(standing.judge_is) or None,
        "best_or_tied": standing.best,
        "testable": standing.testable,
        "delta_p_holm": standing.p_holm,
    }


# The paper's tables


def comparison_tables(compared: RunsCompared, *, main_only: bool, all_pairs: bool) -> Iterator[DataTable]:
    """Yield every table that has content. With `main_only` leaderboard and tests of the first judge only."""
    if compared.others:
        yield from _sectioned_tables(compared.groups, main_only=main_only, all_pairs=all_pairs)
        return
    shown = compared.judged
    if main_only:
        shown = compared.judged[:1]
    tables: list[DataTable] = []
    for judged in shown:
        tables += judged_tables(judged, compared, all_pairs=all_pairs)
    tables += judges_tables(compared)
    for table in tables:
        yield with_caveats(table, compared.caveats)


def leaderboard_of(compared: RunsCompared) -> DataTable:
    """Return the leaderboard of all groups under the first judge of each; some group must be judged."""
    tables = comparison_tables(compared, main_only=True, all_pairs=False)
    return next(table for table in tables if table.name == _LEADERBOARD)


def _sectioned_tables(
    groups: Sequence[RunsCompared], *, main_only: bool, all_pairs: bool
) -> Iterator[DataTable]:
    """Yield the tables of several groups: a section for each, under the same judge; else under each group's first."""
    judges: dict[str, None] = {}
    first_judges: set[str] = set()
    for group in groups:
        judges.update(dict.fromkeys(judged.judge for judged in group.judged))
        first_judges.update(judged.judge for judged in group.judged[:1])
    style = SectionStyle(
        with_gains=any(group.baseline for group in groups),
        heading_has_judge=main_only and len(first_judges) > 1,
    )
    # "" stands for each group's own first judge.
    for judge in [""] if main_only else list(judges):
        sections: list[tuple[str, list[DataTable]]] = []
        for group in groups:
            for judged in _judged_by(group, judge):
                heading = group.marked_heading
                if style.heading_has_judge:
                    heading += f"; judge {judged.judge}"
                tables = judged_tables(judged, group, all_pairs=all_pairs, style=style)
                sections.append((heading, [with_caveats(table, group.caveats) for table in tables]))
        yield from in_sections(sections)
    others: list[tuple[str, list[DataTable]]] = []
    for group in groups:
        tables = judges_tables(group)
        others.append((group.marked_heading, [with_caveats(table, group.caveats) for table in tables]))
    yield from in_sections(others)


def _judged_by(group: RunsCompared, judge: str) -> tuple[Judged, ...]:
    """A group's scores under a judge, those of its first judge for ""; none if it has none."""
    if not judge:
        return group.judged[:1]
    return tuple(judged for judged in group.judged if judged.judge == judge)


@dataclass(frozen=True, slots=True)
class SectionStyle:
    """How the tables of a group are written that are a section of the tables of several groups."""

    with_gains: bool
    """Means are headed as having differences beside them, since those of some group have."""
    heading_has_judge: bool
    """The heading of a section names its judge, so that the caption is the same for all of them."""


def judged_tables(
    judged: Judged, compared: RunsCompared, *, all_pairs: bool, style: SectionStyle | None = None
) -> Iterator[DataTable]:
    """Yield leaderboard, intervals and tests under one judge; with a `style` as sections of larger tables."""
    yield _leaderboard_table(judged, compared, style)
    if any(standing.gain for standing in judged.standings):
        yield _interval_table(judged, compared.baseline, style)
    if judged.pairs:
        yield _pairs_table(judged, compared, style, all_pairs=all_pairs)
    if compared.board.confidences is not None:
        yield _confidence_table(judged, compared.board, compared.board.confidences, style)
    if compared.board.domains:
        yield _domains_table(judged, compared.board, style)


def _caption(judged: Judged, style: SectionStyle | None, *parts: str) -> str:
    """The caption of a table under a judge, who is named unless the heading of the section names it."""
    if style is None or not style.heading_has_judge:
        parts = (f"judge {judged.judge}", *parts)
    return "; ".join(parts)


def judges_tables(compared: RunsCompared) -> Iterator[DataTable]:
    """Yield tables of the robustness to the judge and to the supporting model."""
    if compared.robustness:
        yield _judges_table(compared.robustness)
        yield _agreement_table(compared.robustness)
    if compared.stabilities:
        yield _stability_table(compared.stabilities)


def _leaderboard_table(judged: Judged, compared: RunsCompared, style: SectionStyle | None) -> DataTable:
    """The leaderboard (paper, tables 2 and 6)."""
    baseline = compared.baseline
    rows: list[dict[str, Any]] = []
    for standing in judged.ranked:
        # The first keys are the first columns of leaderboard.csv.
        row: dict[str, Any] = {"system": standing.system, "k": standing.k, "delta": None}
        if standing.gain:
            row["delta"] = standing.gain.mean
        rows.append(row | _standing_fields(standing))
    columns = [
        Column("system", system_name, numeric=False),
        Column("k", lambda row: str(row["k"] or "-")),
    ]
    remarks: list[str] = []
    caption = _caption(judged, style)
    heading = "mean"
    if baseline or (style and style.with_gains):
        heading = "mean (Δ)"
    if baseline:
        caption = _caption(judged, style, f"Δ is the mean paired difference to {baseline}")
    if judged.n_differs:
        # Means over different instances do not rank systems: those over the common ones do.
        columns.append(Column(heading, _mean))
        columns.append(Column("common", number("common_mean", ".3f"), rank=BEST))
        n_common = counted(rows[0]["n_common"], "instance")
        remarks.append(
            f"common: the mean over the {n_common} that all systems have; the mean is over each system's own."
        )
    else:
        columns.append(Column(heading, _mean, rank=BEST))
    # A failure is no score, so it is in no mean: what it would do as 0 stands beside the mean, where there is one.
    if any(row["n_failed"] for row in rows):
        columns.append(Column("failed=0", number("mean_failed_as_0", ".3f")))
        remarks.append("failed=0: the mean with each failed instance counted as 0.")
    # With them the table is wider than a terminal of 80 columns; pipes and files have all.
    for name in ("p50", "p90", "min", "max"):
        columns.append(Column(name, number(name, ".3f"), optional=True))
    columns.append(Column("scored", lambda row: f"{row['n_scored']}/{row['n_expected']}"))
    columns.append(Column("failed", text("n_failed")))
    # Made-up scores and those of a smoke test have no winner, and a system alone competes with nobody.
    if not compared.caveats and _count_rivals(judged) != 1:
        sentence = best_sentence(judged)
        if sentence:
            remarks.append(sentence)
    if any(row["judge_is"] for row in rows):
        remarks.append(OWN_NOTE)
    return DataTable(
        _LEADERBOARD,
        "restore_score_100",
        caption,
        columns,
        rows,
        remarks=tuple(remarks),
        bold_note=BOLD_NOTE,
    )


OWN_MARK: Final = "‡"
OWN_NOTE: Final = f"{OWN_MARK} the judge is this system's Clarifier or agent: {SELF_PREFERENCE}."


def system_name(row: Row) -> str:
    """Show a system, marked if its judge judges text of its own."""
    if row["judge_is"]:
        return f"{row['system']} {OWN_MARK}"
    return str(row["system"])


BEST: Final[Rank] = lambda row: row["best_or_tied"]  # noqa: E731
"""Bold are the best system and those tied with it, if they are not all."""
BOLD_NOTE: Final = (
    "Bold: the highest mean (orig and gold do not compete), "
    "and every mean that no paired test separates from it."
)


def references_of(board: Board) -> frozenset[str]:
    """Return the labels of the reference points, which do not compete for the best value."""
    return frozenset(entrant.label for entrant in board.entrants if entrant.system in REFERENCES)


def _mean(row: Row) -> str:
    mean = f"{row['mean']:.3f}"
    if row["delta"] is None:
        return mean
    return f"{mean} ({row['delta']:+.3f})"


def _interval_table(judged: Judged, baseline: str, style: SectionStyle | None) -> DataTable:
    """Intervals of the differences (paper, table 3)."""
    gains: list[Difference] = []
    rows: list[dict[str, Any]] = []
    for standing in judged.standings:
        if standing.gain:
            gains.append(standing.gain)
            rows.append({"system": standing.system} | _gain_fields(standing.gain))
    columns = (
        Column("system", text("system"), numeric=False),
        Column("pairs", text("n")),
        Column("differ", text("n_differ")),
        Column("mean Δ", number("mean", "+.3f")),
        Column("95 % CI", _interval),
    )
    remarks = interval_notes(gains)
    caption = _caption(
        judged,
        style,
        "paired bootstrap, 95 % CI, over the instances scored in both",
        "differ: those whose two scores are not the same",
    )
    title = f"Mean improvement over {baseline}"
    return DataTable("intervals", title, caption, columns, rows, remarks=remarks)


def _interval(row: Row) -> str:
    gain = Difference(row["n"], row["mean"], row["low"], row["high"], row["n_differ"])
    if gain.nowhere:
        return NO_DIFFERENCE
    if gain.interval is None:
        return NO_INTERVAL
    low, high = gain.interval
    interval = f"[{low:.3f}, {high:.3f}]"
    if gain.too_short:
        interval += SHORT_MARK
    return interval


def _pairs_table(
    judged: Judged, compared: RunsCompared, style: SectionStyle | None, *, all_pairs: bool
) -> DataTable:
    """Permutation tests with Holm's correction, the difference that each can detect, and the n that it needs."""
    n_tests, baseline, shown = len(judged.pairs), compared.baseline, judged.pairs
    # The correction is for all pairs, whichever are shown.
    if n_tests > MOST_PAIRS and not all_pairs and not compared.against_baseline:
        with_baseline = tuple(pair for pair in judged.pairs if baseline in (pair.system, pair.other))
        shown = with_baseline or judged.pairs[:MOST_PAIRS]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("minus", text("other"), numeric=False),
        Column("n", text("n")),
        Column("differ", text("n_differ")),
        Column("Δ", number("difference", "+.3f")),
        Column("p", p_value("p", 4)),
        Column("p Holm", p_value("p_holm", 4)),
        Column("detects Holm", number("detectable_holm", ".3f")),
        Column("n needed Holm", number("n_needed_holm", ",")),
    )
    family = f"all {n_tests} pairs"
    # At 0.05, beside tests that are corrected for all comparisons, only 50 to 80 % of the differences were found where
    # 80 % was said (0.11).
    level = f"{ALPHA} / {n_tests} = {holm_alpha(n_tests):.2g}, the strictest of Holm's levels"
    if n_tests == 1:
        family = "1 pair"
        level = f"{ALPHA}"
    if compared.against_baseline:
        family = f"{counted(n_tests, 'test')} against {baseline}"
    explained_level = level
    if style is not None:
        # The same for all sections: each has its own number of tests in its caption.
        explained_level = f"{ALPHA} / m, the strictest of Holm's levels for the m tests of a group"
    remarks = [
        f"p by sign flips: exact for at most {EXACT} differing instances, by the normal distribution from {MANY:,}. "
        f"detects: the true difference that n instances show in {POWER:.0%} of cases at {explained_level}; n needed: "
        "how many would show this one there. - where too few differ to show any, or all differ by the same."
    ]
    n_significant = n_hopeless = 0
    for pair in judged.pairs:
        n_significant += pair.significant
        n_hopeless += pair.hopeless
    if len(shown) < n_tests:
        remarks.append(
            f"Shown are {len(shown)} of {n_tests} pairs, of which {n_significant} differ at {ALPHA}; --pairs shows them "
            "all."
        )
    caption = _caption(judged, style, f"Holm over {family}")
    fewest = min(pair.n for pair in judged.pairs)
    if n_hopeless:
        caption += f". Too few instances differ in {n_hopeless} of {n_tests} tests for any p to reach {level}"
    elif fewest < ENOUGH:
        caption += (
            f". Few instances (n from {fewest}): a p above {ALPHA} does not show that two systems are equal"
        )
    rows = list(map(asdict, shown))
    return DataTable("pairs", "Paired permutation tests", caption, columns, rows, remarks=tuple(remarks))


def _confidence_table(
    judged: Judged, board: Board, confidences: Array, style: SectionStyle | None
) -> DataTable:
    """How sure the agents say they are, and how often they are right (InteractComp's table has the error)."""
    rows: list[dict[str, Any]] = []
    for place, entrant in enumerate(board.entrants):
        if entrant.asks_confidence:
            calibration = calibrate_confidence(confidences[:, place], board.scores[judged.judge][:, place])
            rows.append({"system": entrant.label} | calibration.as_json())
    columns = (
        Column("system", text("system"), numeric=False),
        Column("stated", lambda row: f"{row['n_stated']}/{row['n_answers']}"),
        Column("not stated", number("unstated_share", ".1%")),
        Column("confidence", number("mean", ".2f")),
        Column("accuracy", number("accuracy", ".2f")),
        Column("calibration error", number("calibration_error", ".2f")),
    )
    caption = _caption(
        judged,
        style,
        f"expected calibration error in points, {N_BINS} bins of equal width (Naeini et al. 2015)",
        "means are over the scored answers that state a confidence",
    )
    return DataTable("confidence", "Stated confidence", caption, columns, rows)


def _domains_table(judged: Judged, board: Board, style: SectionStyle | None) -> DataTable:
    """The mean of each system by domain of the instances, the largest domain first."""
    n_instances = Counter(board.domains)
    domains = np.array(board.domains)
    scores = board.scores[judged.judge]
    rows: list[dict[str, Any]] = []
    for domain in sorted(n_instances, key=lambda domain: (-n_instances[domain], domain)):
        row: dict[str, Any] = {"domain": domain, "n": n_instances[domain]}
        for place, system in enumerate(board.systems):
            column = scores[domains == domain, place]
            column = column[~np.isnan(column)]
            row[f"n_scored {system}"] = len(column)
            row[system] = float(column.mean()) if len(column) else None
        rows.append(row)
    columns = [
        Column("domain", lambda row: row["domain"] or MISSING, numeric=False),
        Column("n", text("n")),
    ]
    for system in board.systems:
        columns.append(Column(system, number(system, ".2f")))
    caption = _caption(judged, style, "mean restore_score_100 of the scored instances of a domain")
    return DataTable("domains", "By domain", caption, columns, rows)


def _judges_table(robust: Robustness) -> DataTable:
    """Robustness to the judge (paper, table 9), with a column for each judge so that many systems fit."""
    counted_judges = [judge for judge in robust.judges if judge.judge in robust.counted]
    # The common instances have labels by every counted judge, so any of them tells which systems have some.
    shared: list[int] = []
    for place, mean in enumerate(counted_judges[0].common_means):
        if mean is not None:
            shared.append(place)
    means_by_heading: dict[str, Sequence[float | None]] = {}
    some_differ = False
    for judge in robust.judges:
        means_by_heading[judge.judge] = judge.means
        for place in shared:
            some_differ |= judge.n_scored[place] != robust.n_common
    # Orders are by the common means: where these are not the means already, both are shown.
    if some_differ:
        for judge in robust.judges:
            means_by_heading[f"{judge.judge} (n={robust.n_common})"] = judge.common_means
    columns = [Column("system", text("system"), numeric=False)]
    for heading in means_by_heading:
        columns.append(Column(heading, number(heading, ".2f")))
    rows: list[dict[str, Any]] = []
    for place, system in enumerate(robust.systems):
        row: dict[str, Any] = {"system": system}
        for heading, means in means_by_heading.items():
            row[heading] = means[place]
        rows.append(row)
    remarks: list[str] = []
    if len(shared) > 1:
        for judge in robust.judges:
            name = judge.judge
            if judge.judge in robust.references:
                name += " (a reference, not counted)"
            remarks.append(f"Order of the means by {name}: {judge.ordering}")
    if robust.same_order is not None:
        judges = "every judge"
        if robust.references:
            judges = "each of them"
        remarks.append(
            f"{_order_statement(robust)}, by the means over the {counted(robust.n_common, 'instance')} that "
            f"{len(shared)} of {len(robust.systems)} systems have from {judges}; means may differ by chance (see the "
            "paired tests)."
        )
    caption = "mean restore_score_100 by judge"
    return DataTable("judges", "Robustness to the judge", caption, columns, rows, remarks=tuple(remarks))


def _order_statement(robust: Robustness) -> str:
    """Say whether the counted judges order the systems alike; they are named where others are shown beside them."""
    judges = f"The {len(robust.counted)} judges"
    if robust.references:
        judges += f" ({', '.join(robust.counted)})"
    if robust.same_order:
        return f"{judges} order the systems alike"
    return f"{judges} order the systems differently"


def _agreement_table(robust: Robustness) -> DataTable:
    """Agreement of the judges' labels, nugget by nugget."""
    taus: dict[tuple[str, str], float | None] = {}
    for order in robust.orders:
        taus[order.judge, order.other] = order.tau
    rows: list[dict[str, Any]] = []
    for pair in robust.agreements:
        row = asdict(pair)
        row["tau"] = taus.get((pair.judge, pair.other))
        rows.append(row)
    columns = (
        *text_columns("judge", "other"),
        Column("nuggets", number("n_nuggets", ",")),
        Column("distinct", number("n_distinct", ",")),
        Column("same", number("exact", ".3f")),
        Column("kappa", number("kappa", ".3f")),
        Column("quadratic", number("kappa_quadratic", ".3f")),
        Column("r", number("score_r", ".3f")),
        Column("tau", number("tau", ".3f")),
    )
    remarks: list[str] = []
    # A single counted judge agrees with nobody: its agreement with the reference is in the row.
    if len(robust.counted) > 1:
        judges = "all judges"
        if robust.references:
            judges = ", ".join(robust.counted)
        remarks.append(
            f"Krippendorff's alpha of {judges}: {_alpha(robust.alpha_nominal)} nominal, "
            f"{_alpha(robust.alpha_ordinal)} ordinal."
        )
    for judge in robust.judges:
        if judge.shares:
            shares = ", ".join(f"{judge.shares[label]:.1%} {label}" for label in reversed(LABELS))
            remarks.append(f"Labels of {judge.judge}: {shares}")
    caption = (
        "labels nugget by nugget: Cohen's kappa; r of scores, tau of orderings; distinct: nuggets of distinct queries "
        "and answers (equal ones are judged once, and their labels are copies)"
    )
    return DataTable("agreement", "Agreement of judges", caption, columns, rows, remarks=tuple(remarks))


def _alpha(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}"


def _stability_table(stabilities: Sequence[Stability]) -> DataTable:
    """Stability under other supporting models (paper, table 11), with unsupported rewrites (section 7.4)."""
    columns = (
        Column("pair", lambda row: f"{row['run']} vs. {row['other']}", numeric=False),
        Column("same questions", lambda row: f"{row['n_aligned']}/{row['n_questions']}"),
        Column("UA agree", number("ua_agreement", ".3f")),
        Column("rewrite sim.", number("rewrite_similarity", ".3f")),
        Column("unknown preserv.", number("unknown_preservation", ".3f")),
        Column("new year", number("unsupported_years", ".3f"), optional=True),
        Column("new region", number("unsupported_regions", ".3f"), optional=True),
    )
    caption = (
        "User Answerer (on questions asked in the same words, as cts run --questions asks them) and Rewriter: do they "
        "answer and rewrite alike?"
    )
    rows = list(map(asdict, stabilities))
    return DataTable("support", "Other supporting models", caption, columns, rows)


# The headline of a report


def headline(compared: RunsCompared) -> Iterator[str]:
    """Summarise a comparison in sentences: the best system, differences to the baseline, agreement of judges, failures.

    Nothing for runs whose scores say nothing about a model.
    """
    if compared.caveats:
        return
    judged, baseline = compared.judged[0], compared.baseline
    sentence = best_sentence(judged, baseline)
    if sentence:
        yield sentence
    n_tests = n_better = n_worse = 0
    rivals = _rivals_of(baseline, compared.board)
    for pair in judged.pairs:
        is_rival = pair.other == baseline and pair.system in rivals
        if not is_rival and not (pair.system == baseline and pair.other in rivals):
            continue
        n_tests += 1
        # The difference is of `system` minus `other`, and the baseline may be either.
        if pair.significant and (pair.difference > 0) == is_rival:
            n_better += 1
        elif pair.significant:
            n_worse += 1
    if n_tests:
        yield (
            f"Better than {baseline} at p ≤ {ALPHA} after Holm's correction of {counted(len(judged.pairs), 'test')}: "
            f"{n_better} of {n_tests}; worse: {n_worse}."
        )
    if compared.robustness and compared.robustness.same_order is not None:
        yield f"{_order_statement(compared.robustness)}."
    n_failed = n_expected = 0
    for standing in judged.standings:
        n_failed += standing.scores.n_failed
        n_expected += standing.scores.n_expected
    if n_failed:
        yield f"{n_failed:,} of {counted(n_expected, 'instance')} failed: they have no score, and are in no mean."
    # The first sentence has an interval, and no table with a legend stands above it.
    if judged.best and judged.best[0].gain:
        yield from interval_notes([judged.best[0].gain])


def _rivals_of(baseline: str, board: Board) -> list[str]:
    """Return the labels of all systems but the baseline and the reference points."""
    rivals: list[str] = []
    for entrant in board.entrants:
        if entrant.label != baseline and entrant.system not in REFERENCES:
            rivals.append(entrant.label)
    return rivals


def answer_sentence(compared: RunsCompared) -> str:
    """Answer whether asking helps, by the system with the highest mean and its test against orig.

    "" where scores say nothing about a model, and where differences are not to orig.
    """
    judged, baseline = compared.judged[0], compared.baseline
    # Beside another run of orig its label is longer, such as orig+all-kimi.
    origs = [entrant.label for entrant in compared.board.entrants if entrant.system == ORIG]
    if compared.caveats or baseline not in origs or not judged.best:
        return ""
    best = judged.best[0]
    test = None
    for pair in judged.pairs:
        if {pair.system, pair.other} == {best.system, baseline}:
            test = pair
    if best.gain is None or test is None:
        return ""
    # Candidates that somebody else made may have asked nothing.
    question = f"Is any system better than {baseline}?"
    if best.k:
        question = "Does asking help?"
    system = best.system
    n_rivals = _count_rivals(judged)
    if n_rivals > 1:
        system += f", the best of {n_rivals} systems,"
    basis = f"n = {best.gain.n:,}, judge {judged.judge}"
    if not test.n_differ:
        return f"{question} Not shown: {system} has the same score as {baseline} on every instance ({basis})."
    amount, interval = f"{best.gain.mean:+.2f}", "no interval"
    if best.gain.interval:
        low, high = best.gain.interval
        amount, interval = with_interval(best.gain.mean, low, high, "+.2f"), "95 % interval"
        # No table with the legend of the dagger stands here.
        if best.gain.too_short:
            interval += f", too short: {test.n_differ} of {test.n} instances differ"
    change = f"{system} changes the mean score by {amount} points against {baseline}"
    if test.significant and best.gain.mean > 0:
        answer = f"Yes: {change}"
    elif test.significant:
        answer = f"No: even {change}"
    elif test.hopeless:
        answer = f"Not shown: {change}, but too few instances differ for any test to show it"
    else:
        answer = f"Not shown: {change}, which chance may explain"
    p = f"p = {test.p_holm:.3f}"
    if test.p_holm < 0.0005:  # would be printed as 0.000
        p = "p < 0.001"
    if test.n_tests > 1:
        p += f" after Holm's correction of {test.n_tests} tests"
    return f"{question} {answer} ({interval}, {basis}, {p})."


def _count_rivals(judged: Judged) -> int:
    """Count the systems that compete for the highest mean: no references, and none without a common instance."""
    return sum(standing.best is not None for standing in judged.standings)


NO_REFERENCES: Final = "(orig and gold do not compete)"
"""A reference may have a higher mean than the best system."""


def best_sentence(judged: Judged, baseline: str = "") -> str:
    """Name the system with the highest mean over the common instances, and those that no test separates from it.

    "Tied" are only those that a test could have separated, given how many instances differ.
    With its difference to a `baseline`. "" if fewer than two systems compete.
    """
    n_rivals = _count_rivals(judged)
    if not n_rivals and any(not standing.n_common for standing in judged.standings):
        return "No instance has a score in all systems, so none is called the best."
    if not n_rivals:
        return ""
    best = judged.best[0]
    standing_text = f"{best.system} with {best.common_mean:.2f}"
    if judged.n_differs:
        standing_text += f" over the {counted(best.n_common, 'instance')} that all systems have"
    if baseline and best.gain and best.gain.nowhere:
        standing_text += f", {NO_DIFFERENCE} to {baseline}"
    elif baseline and best.gain:
        standing_text += f", {difference_text(best.gain, '+.2f')} over {baseline}"
    if n_rivals == 1:
        return f"Mean by judge {judged.judge}: {standing_text}."
    if len(judged.best) == 1:
        return (
            f"Best system by judge {judged.judge} {NO_REFERENCES}: {standing_text}; every other is worse at "
            f"p ≤ {ALPHA} after Holm's correction."
        )
    verdicts = []
    if judged.tied:
        verdicts.append(
            f"tied with {_first_systems(judged.tied)}, since no paired test separates them at p ≤ {ALPHA} after Holm's "
            "correction"
        )
    if judged.untestable:
        verdicts.append(
            f"too few instances differ for any test to tell it from {_first_systems(judged.untestable)}"
        )
    return f"Highest mean by judge {judged.judge} {NO_REFERENCES}: {standing_text}; {'; '.join(verdicts)}."


def _first_systems(standings: Sequence[Standing]) -> str:
    """Join the names of the first systems, and say how many more there are."""
    names = ", ".join(standing.system for standing in standings[:MOST_TIED])
    if len(standings) > MOST_TIED:
        names += f" and {len(standings) - MOST_TIED} more"
    return names
