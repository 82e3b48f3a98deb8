"""`cts compare`: runs side by side, as data, as JSON, as the paper's tables, and in a few sentences."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from typing import Any, Final

import numpy as np

from cts_async.analysis.board import LABELS, REFERENCES, Board, make_board
from cts_async.analysis.compare import Judged, Robustness, Standing, compare_under, robustness
from cts_async.analysis.stability import Stability, stability
from cts_async.analysis.stats import ALPHA, ENOUGH, EXACT, MANY, POWER, Difference, holm_alpha
from cts_async.errors import UsageError
from cts_async.protocol.judge import SELF_PREFERENCE
from cts_async.records import Caveat, caveats_in
from cts_async.runs.files import is_conversation
from cts_async.runs.finished import (
    ORIG,
    FinishedRun,
    check_same_data,
    find_runs,
    of_one_agent,
    read_run,
    read_runs,
)
from cts_async.tables.output import counted
from cts_async.tables.summary import caveats_json
from cts_async.tables.table import (
    NO_DIFFERENCE,
    NO_INTERVAL,
    SHORT_MARK,
    Column,
    DataTable,
    Rank,
    Row,
    difference_text,
    interval_notes,
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
MOST_TIED: Final = 8
"""Systems tied with the best one that a sentence names."""
MOST_PAIRS: Final = 36
"""Pairs that are shown without --pairs: those of nine systems."""


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
    def caveats(self) -> tuple[Caveat, ...]:
        """Why scores say nothing about a model; empty if they do."""
        return caveats_in(entrant.caveat for entrant in self.board.entrants)


def compare_runs(
    words: Sequence[str],
    *,
    judges: Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    partial: bool = False,
) -> RunsCompared:
    """Compare the runs that `words` name under `judges` (all if none are named). Raises UsageError.

    Of runs that nobody has judged only the supporting models are compared. A single run, or unjudged ones without such
    models, are refused unless the comparison may be `partial`. Without a `baseline` the differences are to orig, if
    present, and the family of tests is all pairs.
    """
    notes: list[str] = []
    every = find_runs(words)
    found = [one for one in every if not is_conversation(one.path)]
    if not found:
        raise UsageError(f"{every[0].path}: conversations without scores (cts converse) cannot be compared")
    check_same_data(one.path for one in found)
    if baseline is None:
        found = of_one_agent(found, notes.append)
    board = make_board(read_runs(found, notes.append))
    if len(board.entrants) < 2 and not partial:
        alone = f"one run alone ({board.entrants[0].directory}): name at least two, or the folder that they are in"
        raise UsageError(". ".join([alone, *notes]))
    if not board.judges and not judges and ((stabilities := tuple(_stabilities(board))) or partial):
        # Runs without a search have User Answerer and Rewriter to compare, too.
        notes += [*board.remarks, *(note for entrant in board.entrants for note in _unfinished(entrant))]
        return RunsCompared(board, "", False, (), None, stabilities, tuple(notes), seed)
    reference = ""
    if baseline is None and not _called(board, ORIG):
        notes.append(f"No differences: {_no_orig(board)}.")
    else:
        reference = baseline_of(board, baseline)
    compared = compare_board(board, judges, reference, against_baseline=baseline is not None, seed=seed)
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
    return RunsCompared(
        board=board,
        baseline=baseline,
        against_baseline=against_baseline,
        judged=tuple(
            compare_under(board, judge, baseline, against_baseline=against_baseline, seed=seed)
            for judge in chosen
        ),
        robustness=robustness(board, chosen, judges),
        stabilities=tuple(_stabilities(board)),
        notes=(*board.remarks, *_notes(board, chosen[0])),
        seed=seed,
    )


def baseline_of(board: Board, wanted: str | None = None) -> str:
    """Return the label of the system that differences are to: orig, or another. Raises UsageError if it is ambiguous."""
    name = ORIG if wanted is None else wanted
    alike = _called(board, name)
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise UsageError(
            f"several runs are {name}: {', '.join(alike)}; choose one with --baseline, or name the runs to compare"
        )
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
    groups: dict[tuple[str, int], list[FinishedRun]] = defaultdict(list)
    for entrant in board.entrants:
        if entrant.clarifier and entrant.support:
            groups[entrant.clarifier, entrant.k].append(entrant)
    for (clarifier, k), group in groups.items():
        if len({entrant.support for entrant in group}) < 2:
            continue
        runs = [read_run(entrant.directory, without=("answer",)) for entrant in group]
        for one, other in combinations(runs, 2):
            supports = one.support, other.support
            if supports[0] != supports[1]:  # named as in the paper: GPT-ERNIE
                yield stability(
                    one, other, (f"{clarifier}-{supports[0]} k{k}", f"{clarifier}-{supports[1]} k{k}")
                )


def _notes(board: Board, judge: str) -> Iterator[str]:
    """Yield facts that a reader has to know before relying on the numbers."""
    n_scored = dict(zip(board.systems, (~np.isnan(board.scores[judge])).sum(axis=0).tolist(), strict=True))
    if len({n for n in n_scored.values() if n}) > 1:
        counts = ", ".join(f"{system} {n}" for system, n in n_scored.items() if n)
        yield (
            f"n differs between systems under {judge} ({counts}): their means are over different instances. Compare "
            "systems by paired differences, or by means over the instances that all of them have."
        )
    for entrant in board.entrants:
        label, where = entrant.label, entrant.directory
        yield from _unfinished(entrant)
        if entrant.n_failed and not entrant.n_done:
            yield f"Nothing but failures, so left out: {label} (the run's command with --retry-failed; {where})."
        elif entrant.stop_after:
            yield f"Nothing searched, so without scores: {label} (stopped after {entrant.stop_after}; {where})."
        elif entrant.n_done and judge not in entrant.judges:
            yield f"Not judged by {judge}: {label} ({shlex.join(['cts', 'judge', str(where), '--judge', judge])})."
    agents: dict[str, list[str]] = defaultdict(list)
    for entrant in board.entrants:
        if agent := entrant.players.get("agent"):
            agents[agent].append(entrant.label)
    if len(agents) > 1:
        listed = "; ".join(f"{agent}: {', '.join(labels)}" for agent, labels in agents.items())
        yield f"The agents differ, so differences are not due to the Clarifiers alone. {listed}."


def _unfinished(entrant: FinishedRun) -> Iterator[str]:
    if entrant.n_missing:
        yield f"Unfinished: {entrant.label} has {entrant.progress} ({entrant.directory})."


def comparison_json(found: RunsCompared) -> dict[str, Any]:
    """Return all numbers, unrounded."""
    board = found.board
    return {
        "data": next(filter(None, (entrant.data.as_json() for entrant in board.entrants)), {}),
        "baseline": found.baseline or None,
        "seed": found.seed,
        **caveats_json(found.caveats),
        "systems": [_system_json(entrant) for entrant in board.entrants],
        "judges": [_judged_json(judged, found) for judged in found.judged],
        "judge_robustness": asdict(found.robustness) if found.robustness else None,
        "supporting_backbones": [asdict(row) for row in found.stabilities],
        "notes": list(found.notes),
    }


def _system_json(entrant: FinishedRun) -> dict[str, Any]:
    return {
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
        **caveats_json([entrant.caveat]),
    }


def _judged_json(judged: Judged, found: RunsCompared) -> dict[str, Any]:
    return {
        "judge": judged.judge,
        "leaderboard": [
            _standing_fields(one)
            | {"delta": one.gain and {**asdict(one.gain), "too_short": one.gain.too_short}}
            for one in judged.standings
        ],
        "family": {
            "tests": len(judged.pairs),
            "against": found.baseline if found.against_baseline else None,
        },
        "pairs": [asdict(pair) for pair in judged.pairs],
    }


def _standing_fields(one: Standing) -> dict[str, Any]:
    """What JSON and tables have of a system under a judge, without its difference to the baseline."""
    return {
        "system": one.system,
        "k": one.k,
        **asdict(one.scores),
        "n_common": one.n_common,
        "common_mean": one.common_mean,
        "judge_is": "+".join(one.judge_is) or None,
        "best_or_tied": one.best,
        "testable": one.testable,
        "delta_p_holm": one.p_holm,
    }


# The paper's tables


def comparison_tables(found: RunsCompared, *, main_only: bool, all_pairs: bool) -> Iterator[DataTable]:
    """Yield every table that has content. With `main_only` leaderboard and tests of the first judge only."""
    made = [
        *(judged_tables(one, found, all_pairs=all_pairs) for one in found.judged[: 1 if main_only else None]),
        judges_tables(found),
    ]
    for table in chain.from_iterable(made):
        yield with_caveats(table, found.caveats)


def judged_tables(judged: Judged, found: RunsCompared, *, all_pairs: bool) -> Iterator[DataTable]:
    """Yield leaderboard, intervals and tests under one judge."""
    yield _leaderboard_table(judged, found)
    if any(standing.gain for standing in judged.standings):
        yield _interval_table(judged, found.baseline)
    if judged.pairs:
        yield _pairs_table(judged, found, all_pairs=all_pairs)


def judges_tables(found: RunsCompared) -> Iterator[DataTable]:
    """Yield tables of the robustness to the judge and to the supporting model."""
    if found.robustness:
        yield _judges_table(found.robustness)
        yield _agreement_table(found.robustness)
    if found.stabilities:
        yield _stability_table(found.stabilities)


def _leaderboard_table(judged: Judged, found: RunsCompared) -> DataTable:
    """The leaderboard (paper, tables 2 and 6)."""
    baseline = found.baseline
    rows: list[dict[str, Any]] = [
        {"system": one.system, "k": one.k, "delta": one.gain.mean if one.gain else None}
        | _standing_fields(one)
        for one in judged.ranked
    ]
    n_rivals = sum(row["best_or_tied"] is not None for row in rows)
    others = []
    if judged.n_differs:
        others.append(Column("common", number("common_mean", ".3f"), rank=BEST))
    if rows_failed := any(row["n_failed"] for row in rows):
        others.append(Column("failed=0", number("mean_failed_as_0", ".3f")))
    columns = (
        Column("system", system_name, numeric=False),
        Column("k", lambda row: str(row["k"] or "-")),
        Column("mean (Δ)" if baseline else "mean", _mean, rank=None if judged.n_differs else BEST),
        *others,
        *(Column(name, number(name, ".3f"), optional=True) for name in ("p50", "p90", "min", "max")),
        Column("scored", lambda row: f"{row['n_scored']}/{row['n_expected']}"),
        Column("failed", text("n_failed")),
    )
    to = f"; Δ is the mean paired difference to {baseline}" if baseline else ""
    common = counted(rows[0]["n_common"], "instance")
    remarks = _non_empty(
        f"common: the mean over the {common} that all systems have; the mean is over each system's own."
        if judged.n_differs
        else "",
        "failed=0: the mean with each failed instance counted as 0." if rows_failed else "",
        "" if found.caveats or n_rivals == 1 else best_sentence(judged),
        OWN_NOTE if any(row["judge_is"] for row in rows) else "",
    )
    caption = f"judge {judged.judge}{to}"
    return DataTable(
        "leaderboard", "restore_score_100", caption, columns, rows, remarks=remarks, bold_note=BOLD_NOTE
    )


OWN_MARK: Final = "‡"
OWN_NOTE: Final = f"{OWN_MARK} the judge is this system's Clarifier or agent: {SELF_PREFERENCE}."


def system_name(row: Row) -> str:
    """Show a system, marked if its judge judges text of its own."""
    return f"{row['system']} {OWN_MARK}" if row["judge_is"] else str(row["system"])


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
    return f"{row['mean']:.3f}" + ("" if row["delta"] is None else f" ({row['delta']:+.3f})")


def _interval_table(judged: Judged, baseline: str) -> DataTable:
    """Intervals of the differences (paper, table 3)."""
    gains = [(standing.system, standing.gain) for standing in judged.standings if standing.gain]
    rows = [{"system": system, **asdict(gain), "too_short": gain.too_short} for system, gain in gains]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("pairs", text("n")),
        Column("differ", text("n_differ")),
        Column("mean Δ", number("mean", "+.3f")),
        Column("95 % CI", _interval),
    )
    remarks = interval_notes(gain for _, gain in gains)
    caption = (
        f"judge {judged.judge}; paired bootstrap, 95 % CI, over the instances scored in both; differ: those whose two "
        "scores are not the same"
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
    return f"[{low:.3f}, {high:.3f}]{SHORT_MARK if gain.too_short else ''}"


def _pairs_table(judged: Judged, found: RunsCompared, *, all_pairs: bool) -> DataTable:
    """Permutation tests with Holm's correction, the difference that each can detect, and the n that it needs."""
    tests, baseline, shown = len(judged.pairs), found.baseline, judged.pairs
    if tests > MOST_PAIRS and not all_pairs and not found.against_baseline:
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
    family = "1 pair" if tests == 1 else f"all {tests} pairs"
    if found.against_baseline:
        family = f"{counted(tests, 'test')} against {baseline}"
    hopeless = sum(pair.hopeless for pair in judged.pairs)
    significant = sum(pair.significant for pair in judged.pairs)
    least = min(pair.n for pair in judged.pairs)
    level = (
        f"{ALPHA}"
        if tests == 1
        else f"{ALPHA} / {tests} = {holm_alpha(tests):.2g}, the strictest of Holm's levels"
    )
    remarks = _non_empty(
        f"p by sign flips: exact for at most {EXACT} differing instances, by the normal distribution from {MANY:,}. "
        f"detects: the true difference that n instances show in {POWER:.0%} of cases at {level}; n needed: how many "
        "would show this one there. - where too few differ to show any, or all differ by the same.",
        f"Shown are {len(shown)} of {tests} pairs, of which {significant} differ at {ALPHA}; --pairs shows them all."
        if len(shown) < tests
        else "",
    )
    caption = f"judge {judged.judge}; Holm over {family}"
    if hopeless:
        caption += f". Too few instances differ in {hopeless} of {tests} tests for any p to reach {level}"
    elif least < ENOUGH:
        caption += (
            f". Few instances (n from {least}): a p above {ALPHA} does not show that two systems are equal"
        )
    rows = [asdict(pair) for pair in shown]
    return DataTable("pairs", "Paired permutation tests", caption, columns, rows, remarks=remarks)


def _judges_table(found: Robustness) -> DataTable:
    """Robustness to the judge (paper, table 9), with a column for each judge so that many systems fit."""
    first = next(judge for judge in found.judges if judge.judge in found.counted)
    shared = [i for i, mean in enumerate(first.common_means) if mean is not None]
    judges = {one.judge: one.means for one in found.judges}
    if any(judge.n_scored[i] != found.n_common for judge in found.judges for i in shared):
        judges |= {f"{one.judge} (n={found.n_common})": one.common_means for one in found.judges}
    rows = [
        {"system": system, **{name: means[i] for name, means in judges.items()}}
        for i, system in enumerate(found.systems)
    ]
    scores = (Column(name, number(name, ".2f")) for name in judges)
    columns = (Column("system", text("system"), numeric=False), *scores)
    remarks: list[str] = []
    if len(shared) > 1:
        for judge in found.judges:
            also = " (a reference, not counted)" if judge.judge in found.references else ""
            remarks.append(f"Order of the means by {judge.judge}{also}: {judge.ordering}")
    if found.same_order is not None:
        from_whom = "each of them" if found.references else "every judge"
        remarks.append(
            f"{_order_statement(found)}, by the means over the {counted(found.n_common, 'instance')} that {len(shared)} "
            f"of {len(found.systems)} systems have from {from_whom}; means may differ by chance (see the paired tests)."
        )
    caption = "mean restore_score_100 by judge"
    return DataTable("judges", "Robustness to the judge", caption, columns, rows, remarks=tuple(remarks))


def _order_statement(found: Robustness) -> str:
    """Say whether the counted judges order the systems alike; they are named where others are shown beside them."""
    alike = "alike" if found.same_order else "differently"
    names = f" ({', '.join(found.counted)})" if found.references else ""
    return f"The {len(found.counted)} judges{names} order the systems {alike}"


def _agreement_table(found: Robustness) -> DataTable:
    """Agreement of the judges' labels, nugget by nugget."""
    taus = {(order.judge, order.other): order.tau for order in found.orders}
    rows = [{**asdict(pair), "tau": taus.get((pair.judge, pair.other))} for pair in found.agreements]
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
    alphas = ["-" if a is None else f"{a:.3f}" for a in (found.alpha_nominal, found.alpha_ordinal)]
    together = f"of {', '.join(found.counted)}" if found.references else "of all judges"
    alpha = "Krippendorff's alpha {}: {} nominal, {} ordinal.".format(together, *alphas)
    shares = (
        f"Labels of {judge.judge}: "
        + ", ".join(f"{judge.shares[label]:.1%} {label}" for label in reversed(LABELS))
        for judge in found.judges
        if judge.shares
    )
    # A single counted judge agrees with nobody: its agreement with the reference is in the row.
    remarks = (*([alpha] if len(found.counted) > 1 else []), *shares)
    caption = (
        "labels nugget by nugget: Cohen's kappa; r of scores, tau of orderings; distinct: nuggets of distinct queries "
        "and answers (equal ones are judged once, and their labels are copies)"
    )
    return DataTable("agreement", "Agreement of judges", caption, columns, rows, remarks=remarks)


def _stability_table(found: Sequence[Stability]) -> DataTable:
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
    return DataTable("support", "Other supporting models", caption, columns, [asdict(row) for row in found])


def _non_empty(*remarks: str) -> tuple[str, ...]:
    return tuple(filter(None, remarks))


# The headline of a report


def headline(found: RunsCompared) -> Iterator[str]:
    """Summarise a comparison in sentences: the best system, differences to the baseline, agreement of judges, failures.

    Nothing for runs whose scores say nothing about a model.
    """
    if found.caveats:
        return
    judged, baseline = found.judged[0], found.baseline
    rivals = [
        entrant.label
        for entrant in found.board.entrants
        if entrant.label != baseline and entrant.system not in REFERENCES
    ]
    if sentence := best_sentence(judged, baseline):
        yield sentence
    tests = {*((one, baseline) for one in rivals), *((baseline, one) for one in rivals)}
    tested = [pair for pair in judged.pairs if (pair.system, pair.other) in tests]
    if tested:
        differ = [pair for pair in tested if pair.significant]
        better = sum((pair.difference > 0) == (pair.other == baseline) for pair in differ)
        yield (
            f"Better than {baseline} at p ≤ {ALPHA} after Holm's correction of {counted(len(judged.pairs), 'test')}: "
            f"{better} of {len(tested)}; worse: {len(differ) - better}."
        )
    if found.robustness and found.robustness.same_order is not None:
        yield f"{_order_statement(found.robustness)}."
    if n_failed := sum(one.scores.n_failed for one in judged.standings):
        of = sum(one.scores.n_expected for one in judged.standings)
        yield f"{n_failed:,} of {counted(of, 'instance')} failed: they have no score, and are in no mean."
    # The first sentence has an interval, and no table with a legend stands above it.
    if judged.best and judged.best[0].gain:
        yield from interval_notes([judged.best[0].gain])


def answer_sentence(found: RunsCompared) -> str:
    """Answer whether asking helps, by the system with the highest mean and its test against orig.

    "" where scores say nothing about a model, and where differences are not to orig.
    """
    judged, baseline = found.judged[0], found.baseline
    systems = {entrant.label: entrant.system for entrant in found.board.entrants}
    if found.caveats or systems.get(baseline) != ORIG or not judged.best:
        return ""
    best = judged.best[0]
    tests = {frozenset((pair.system, pair.other)): pair for pair in judged.pairs}
    test = tests.get(frozenset((best.system, baseline)))
    if best.gain is None or test is None:
        return ""
    # Candidates that somebody else made may have asked nothing.
    question = "Does asking help?" if best.k else f"Is any system better than {baseline}?"
    n_rivals = sum(standing.best is not None for standing in judged.standings)
    who = best.system if n_rivals == 1 else f"{best.system}, the best of {n_rivals} systems,"
    basis = f"n = {best.gain.n:,}, judge {judged.judge}"
    if not test.n_differ:
        return f"{question} Not shown: {who} has the same score as {baseline} on every instance ({basis})."
    amount, interval = f"{best.gain.mean:+.2f}", "no interval"
    if best.gain.interval:
        amount, interval = with_interval(best.gain.mean, *best.gain.interval, "+.2f"), "95 % interval"
        # No table with the legend of the dagger stands here.
        if best.gain.too_short:
            interval += f", too short: {test.n_differ} of {test.n} instances differ"
    gained = f"{who} changes the mean score by {amount} points against {baseline}"
    if test.significant and best.gain.mean > 0:
        answer = f"Yes: {gained}"
    elif test.significant:
        answer = f"No: even {gained}"
    elif test.hopeless:
        answer = f"Not shown: {gained}, but too few instances differ for any test to show it"
    else:
        answer = f"Not shown: {gained}, which chance may explain"
    p = "p < 0.001" if test.p_holm < 0.0005 else f"p = {test.p_holm:.3f}"
    if test.n_tests > 1:
        p += f" after Holm's correction of {test.n_tests} tests"
    return f"{question} {answer} ({interval}, {basis}, {p})."


NO_REFERENCES: Final = "(orig and gold do not compete)"
"""A reference may have a higher mean than the best system."""


def best_sentence(judged: Judged, baseline: str = "") -> str:
    """Name the system with the highest mean over the common instances, and those that no test separates from it.

    "Tied" are only those that a test could have separated, given how many instances differ.
    With its difference to a `baseline`. "" if fewer than two systems compete.
    """
    rivals = [one for one in judged.standings if one.best is not None]
    if not rivals and any(not one.n_common for one in judged.standings):
        return "No instance has a score in all systems, so none is called the best."
    if not rivals:
        return ""
    first, *others = judged.best
    over = ""
    if judged.n_differs:
        over = f" over the {counted(first.n_common, 'instance')} that all systems have"
    gain = ""
    if baseline and first.gain:
        gain = f", {difference_text(first.gain, '+.2f')} over {baseline}"
        if first.gain.nowhere:
            gain = f", {NO_DIFFERENCE} to {baseline}"
    found = f"{first.system} with {first.common_mean:.2f}{over}{gain}"
    if len(rivals) == 1:
        return f"Mean by judge {judged.judge}: {found}."
    if not others:
        return (
            f"Best system by judge {judged.judge} {NO_REFERENCES}: {found}; every other is worse at "
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
    return f"Highest mean by judge {judged.judge} {NO_REFERENCES}: {found}; {'; '.join(verdicts)}."


def _first_systems(standings: Sequence[Standing]) -> str:
    """Join the names of the first systems, and say how many more there are."""
    names = ", ".join(standing.system for standing in standings[:MOST_TIED])
    more = f" and {len(standings) - MOST_TIED} more" if len(standings) > MOST_TIED else ""
    return names + more
