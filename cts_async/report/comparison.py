"""Comparison of runs: leaderboards, tests, judges and supporting models, as data and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from cts_async.analysis.agreement import Robustness, robustness
from cts_async.analysis.board import Board, Entrant, make_board
from cts_async.analysis.compare import Pair, Standing, compare_pairs, leaderboard
from cts_async.analysis.runs import FinishedRun, first_of, read_run
from cts_async.analysis.selection import check_same_data, find_runs, reader
from cts_async.analysis.stability import Stability, stability
from cts_async.errors import UsageError

ORIG = "orig"
_EQUAL = 1e-9
"""Means that differ by less are equal but for the order of their sums."""
NO_ANSWERS = (
    "no instance of these runs has an answer yet, so there is nothing to judge or compare: repeat a run's command to "
    "resume it, with --retry-failed to retry what failed"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """The results under one judge: `pairs` is the family of tests of Holm's correction."""

    judge: str
    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class RunsCompared:
    """The result of `cts compare`."""

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

    @property
    def embedded(self) -> bool:
        return any(entrant.embedded for entrant in self.board.entrants)


def compare_runs(
    words: Sequence[str], *, judges: Sequence[str] = (), baseline: str | None = None, seed: int = 0
) -> RunsCompared:
    """Compare the runs that `words` name under `judges` (all if none are named). Raises UsageError.

    Without a `baseline` the differences are to orig, if present, and the family of tests is all pairs.
    """
    notes: list[str] = []
    paths = find_runs(words, notes.append)
    if len(paths) < 2:
        alone = f"one run alone ({paths[0]}): name at least two, or the folder that they are in"
        raise UsageError(". ".join([alone, *notes]))
    board = read_board(paths)
    reference = ""
    if baseline is None and not _called(board, ORIG):
        notes.append(f"No differences: {_no_orig(board)}.")
    else:
        reference = baseline_of(board, baseline)
    found = compare_board(board, judges, reference, against_baseline=baseline is not None, seed=seed)
    return replace(found, notes=(*notes, *found.notes))


def read_board(paths: Sequence[Path]) -> Board:
    """Read the runs onto a board. Raises UsageError for runs that cannot be paired."""
    check_same_data(paths)
    return make_board(reader(path)() for path in paths)


def compare_board(
    board: Board, judges: Sequence[str], baseline: str, *, against_baseline: bool = False, seed: int = 0
) -> RunsCompared:
    """Compare the systems of a board, one or more; a `baseline` of "" is none. Raises UsageError."""
    chosen = _chosen(board, judges)
    return RunsCompared(
        board=board,
        baseline=baseline,
        against_baseline=against_baseline,
        judged=tuple(
            Judged(
                judge,
                leaderboard(board, judge, baseline, seed=seed),
                compare_pairs(board, judge, baseline if against_baseline else None, seed=seed),
            )
            for judge in chosen
        ),
        robustness=robustness(board, chosen),
        stabilities=tuple(_stabilities(board)),
        notes=tuple(_notes(board, chosen[0])),
        seed=seed,
    )


def _chosen(board: Board, judges: Sequence[str]) -> tuple[str, ...]:
    if not board.judges and not any(entrant.n_done for entrant in board.entrants):
        raise UsageError(NO_ANSWERS)
    if not board.judges:
        raise UsageError(
            "none of these runs is judged: cts judge RUN --judge NAME judges one, --judge lexical free"
        )
    for judge in judges:
        if judge not in board.judges:
            raise UsageError(f"no run here was judged by {judge!r}; there are {', '.join(board.judges)}")
    return tuple(dict.fromkeys(judges)) or board.judges


def baseline_of(board: Board, wanted: str | None = None) -> str:
    """Return the label of the system that differences are to: orig, or another. Raises UsageError if it is ambiguous."""
    name = ORIG if wanted is None else wanted
    alike = _called(board, name)
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise UsageError(f"several runs are {name}: {', '.join(alike)}; choose one with --baseline")
    if wanted is None:
        raise UsageError(_no_orig(board))
    raise UsageError(f"--baseline {wanted}: no such system here; there are {', '.join(board.systems)}")


def _called(board: Board, name: str) -> list[str]:
    """Return the labels that match a name: itself, else those of a system or directory of that name."""
    if name in board.systems:
        return [name]
    return [e.label for e in board.entrants if name in (e.system, e.directory.name, str(e.directory))]


def _no_orig(board: Board) -> str:
    return (
        "no orig among these runs, to which differences refer: add its directory, or choose another "
        f"with --baseline ({', '.join(board.systems)})"
    )


def _stabilities(board: Board) -> Iterator[Stability]:
    """Compare pairs of runs of one Clarifier and budget with different supporting models (table 11)."""
    groups: dict[tuple[str, int], list[Entrant]] = {}
    for entrant in board.entrants:
        if entrant.clarifier and entrant.support:
            groups.setdefault((entrant.clarifier, entrant.k), []).append(entrant)
    for group in groups.values():
        if len({entrant.support for entrant in group}) > 1:
            runs: dict[str, FinishedRun] = {
                e.label: read_run(e.directory, without=("answer",)) for e in group
            }
            for one, other in combinations(group, 2):
                if one.support != other.support:
                    names = _with_support(one), _with_support(other)
                    yield stability(runs[one.label], runs[other.label], names)


def _with_support(entrant: Entrant) -> str:
    """Name the Clarifier and its supporting model as the paper does: `GPT-ERNIE`."""
    return f"{entrant.clarifier}-{entrant.support} k{entrant.k}"


def _other_instances(board: Board, judge: str) -> Iterator[str]:
    """Warn if systems have different instances, and name those that means order otherwise than pairs."""
    import numpy as np

    scores = board.scores[judge]
    n_scored = (~np.isnan(scores)).sum(axis=0)
    scored = np.flatnonzero(n_scored)
    if len({*n_scored[scored].tolist()}) < 2:
        return
    counts = ", ".join(f"{board.systems[i]} {n_scored[i]}" for i in scored)
    yield (
        f"n differs between systems under {judge} ({counts}): their means are over different instances. Compare "
        "systems by paired differences, or by means over the instances that all of them have."
    )
    turned = []
    for i, j in combinations(scored, 2):
        pairs = scores[:, i] - scores[:, j]
        if np.isnan(pairs).all():
            continue
        apart, paired = np.nanmean(scores[:, i]) - np.nanmean(scores[:, j]), np.nanmean(pairs)
        if min(abs(apart), abs(paired)) > _EQUAL and apart * paired < 0:
            above, below = (i, j) if apart > 0 else (j, i)
            turned.append(f"{board.systems[above]} is above {board.systems[below]}")
    if turned:
        yield f"By their means, but not on the instances that both have: {first_of(turned)}."


def _notes(board: Board, judge: str) -> Iterator[str]:
    """Yield facts that a reader has to know before relying on the numbers."""
    yield from board.remarks
    yield from _other_instances(board, judge)
    for entrant in board.entrants:
        where = entrant.directory
        to_judge = shlex.join(["cts", "judge", str(where), "--judge", judge])
        if entrant.n_missing:
            done = entrant.n_expected - entrant.n_missing
            yield f"Unfinished: {entrant.label} has {done} of {entrant.n_expected} instances ({where})."
        if not entrant.n_done:  # nothing to judge
            if entrant.n_failed:
                yield (
                    f"Nothing but failures, so left out: {entrant.label}, {entrant.n_failed} of {entrant.n_expected} "
                    f"instances (the run's command with --retry-failed tries them again; {where})."
                )
            continue
        if not entrant.judges:
            yield f"Not judged, so left out: {entrant.label} ({to_judge})."
        elif judge not in entrant.judges:
            yield f"Not judged by {judge}: {entrant.label} ({to_judge})."
    agents: dict[str, list[str]] = {}
    for entrant in board.entrants:
        if entrant.agent:
            agents.setdefault(entrant.agent, []).append(entrant.label)
    if len(agents) > 1:
        listed = "; ".join(f"{agent}: {', '.join(labels)}" for agent, labels in agents.items())
        yield f"The agents differ, so differences are not due to the Clarifiers alone. {listed}."


def comparison_json(found: RunsCompared) -> dict[str, Any]:
    """Return all numbers, unrounded."""
    board = found.board
    return {
        "data": next((dict(e.data) for e in board.entrants if e.data), {}),
        "baseline": found.baseline or None,
        "seed": found.seed,
        "smoke_test": found.embedded,
        "systems": [_system_json(entrant) for entrant in board.entrants],
        "judges": [_judged_json(judged, found) for judged in found.judged],
        "judge_robustness": asdict(found.robustness) if found.robustness else None,
        "supporting_backbones": [asdict(row) for row in found.stabilities],
        "notes": list(found.notes),
    }


def _system_json(entrant: Entrant) -> dict[str, Any]:
    return {
        "system": entrant.label,
        "directory": str(entrant.directory),
        "clarifier": entrant.clarifier or None,
        "k": entrant.k,
        "support": entrant.support or None,
        "judges": list(entrant.judges),
        "n_expected": entrant.n_expected,
        "n_done": entrant.n_done,
        "n_failed": entrant.n_failed,
        "n_missing": entrant.n_missing,
        "smoke_test": entrant.embedded,
    }


def _judged_json(judged: Judged, found: RunsCompared) -> dict[str, Any]:
    return {
        "judge": judged.judge,
        "leaderboard": [
            {
                "system": standing.system,
                "k": standing.k,
                **asdict(standing.scores),
                "n_common": standing.n_common,
                "common_mean": standing.common_mean,
                "delta": standing.delta and {**asdict(standing.delta), "too_short": standing.delta.too_short},
            }
            for standing in judged.standings
        ],
        "family": {
            "tests": len(judged.pairs),
            "against": found.baseline if found.against_baseline else None,
        },
        "pairs": [asdict(pair) for pair in judged.pairs],
    }
