"""Rankings against relevance judgments, by people or derived from the intents; and conversations, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.analysis.stats import holm, paired_t_test
from cts_async.errors import UsageError, install_command
from cts_async.records import MODES, SCHEMES, Mode, Scheme
from cts_async.runs.conversations import ConversationRun
from cts_async.search.backends import Ranked
from cts_async.search.rankers import Ranker

# Measures are computed by trec_eval's own code, by way of ir-measures and pytrec_eval (MacAvaney et al. 2022,
# "Streamlining evaluation with ir-measures"; Van Gysel & de Rijke 2018): nDCG has linear gains and log2(rank + 1),
# and documents of equal score, as a 32-bit float, stand in descending order of their ids, whatever order the run had.

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> grade. Grades below 1 are not relevant, and gain nothing."""
Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id -> (document id, score) in any order, each document once, scores finite."""

_FAMILIES: Final = {
    "ndcg": "nDCG",
    "p": "P",
    "prec": "P",
    "precision": "P",
    "rr": "RR",
    "mrr": "RR",
    "ap": "AP",
    "map": "AP",
    "r": "R",
    "recall": "R",
}
_NAME: Final = re.compile(r"([a-z]+)(?:@?([1-9][0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_NEEDS_CUTOFF: Final = ("P", "R")
_DEPTH: Final = re.compile("[1-9][0-9]{0,8}")


def measure(name: str) -> str:
    """Return the usual name: "NDCG20" is "nDCG@20", "MRR100" is "RR@100", "P1" is "P@1", "map" is "AP".

    Known are nDCG, P, RR (MRR), AP (MAP) and R (Recall), each with a cutoff, which P and R need. Raises UsageError.
    """
    match = _NAME.fullmatch(name.strip())
    if match is None or match[1].lower() not in _FAMILIES:
        raise UsageError(f"{name!r} is not a known measure; write nDCG@10, P@5, MRR@100, MAP or Recall@100")
    family, depth = _FAMILIES[match[1].lower()], match[2]
    if depth is not None:
        return f"{family}@{depth}"
    if family in _NEEDS_CUTOFF:
        raise UsageError(f"{name!r} needs a cutoff, for example {name.strip()}@10")
    return family


def cutoff(name: str) -> int | None:
    """Return how many documents a measure considers, None for all. Raises UsageError for an unknown measure."""
    depth = measure(name).partition("@")[2]
    if not depth:
        return None
    return int(depth)


def check_evaluator() -> None:
    """Raise UsageError where ir-measures is not installed, as on Linux for arm64, for which it is compiled."""
    if find_spec("ir_measures") is None:
        raise UsageError(
            f"measures of retrieval need ir-measures and a C compiler: {install_command('retrieval')}"
        )


def evaluate(
    qrels: Qrels, run: Run, measures: Sequence[str], *, level: int = 1
) -> dict[str, dict[str, float]]:
    """Return measure -> query id -> value in [0, 1], measures by the names given, queries in the order of `qrels`.

    `level` is the lowest grade that P, RR, AP and R count as relevant (TREC Deep Learning: 2); nDCG uses gains instead.
    A query without retrieved documents counts 0, and so does one without a relevant document; a query without
    judgments is left out. Raises UsageError for an unknown measure, and as `check_evaluator`.
    """
    check_evaluator()
    import ir_measures

    judged: dict[str, dict[str, int]] = {}
    retrieved: dict[str, dict[str, float]] = {}
    for query, grades in qrels.items():
        if not grades:
            continue
        # Grades below 1 are dropped: not relevant is the same as not judged.
        relevant = {document: grade for document, grade in grades.items() if grade > 0}
        judged[query] = relevant
        if relevant and run.get(query):
            retrieved[query] = dict(run[query])
    values = {name: dict.fromkeys(judged, 0.0) for name in measures}
    lowest_by_metric: dict[Any, list[tuple[str, float]]] = {}
    for name in measures:
        family, _, depth = measure(name).partition("@")
        metric_name, lowest = measure(name), 0.0
        if family == "RR":
            # trec_eval has no reciprocal rank with a cutoff: it is that of the whole ranking, or 0 below the cutoff.
            metric_name = "RR"
            if depth:
                lowest = 1 / int(depth)
        metric = ir_measures.parse_measure(metric_name)
        if level > 1 and family != "nDCG":
            metric = metric(rel=level)
        lowest_by_metric.setdefault(metric, []).append((name, lowest))
    if retrieved:
        evaluator = ir_measures.pytrec_eval.evaluator(
            list(lowest_by_metric), {query: judged[query] for query in retrieved}
        )
        for result in evaluator.iter_calc(retrieved):
            for name, lowest in lowest_by_metric[result.measure]:
                if result.value >= lowest:
                    values[name][result.query_id] = float(result.value)
    return values


def count_hopeless(qrels: Qrels, *, level: int = 1) -> int:
    """Count queries with judgments but no document of that grade, which `evaluate` always scores 0."""
    return sum(1 for grades in qrels.values() if grades and max(grades.values()) < level)


def relevant_from(level: int) -> str:
    """Return the caption of a relevance level, "" for the usual one."""
    if level == 1:
        return ""
    return f"; relevant from grade {level} (nDCG: by gains)"


def hopeless_note(n_hopeless: int, total: str, level: int) -> str:
    """Explain `count_hopeless`; `total` is a count with its noun: "198 facets"."""
    exception = ""
    if level > 1:
        exception = " except in nDCG"  # its gains need no relevance level
    return (
        f"{n_hopeless:,} of {total} have judgments but no relevant document: they count 0{exception}, whatever is "
        "asked"
    )


# Pseudo-judgments for a corpus without judgments: what an intent's own description ranks best counts as relevant.
# They say how close a query comes to the ranking of the full description under the same ranker and corpus. They can
# compare ways to ask and to reformulate, and say nothing about the quality of the documents: whatever shows their
# numbers has to say so.

PSEUDO_JUDGMENTS: Final = "pseudo-judgments (what the intent's own text ranks best), not relevance judgments"
"""Their name in tables and files."""


def pseudo_depth(qrels: str, level: int = 1) -> int | None:
    """Return N of "intent:N", 10 of "intent"; None for the path of a file.

    Raises UsageError for another N, and for a relevance `level` above 1, the only grade of pseudo-judgments.
    """
    name, colon, depth = qrels.partition(":")
    if name != "intent":
        return None
    if colon and not _DEPTH.fullmatch(depth):
        raise UsageError(f"--qrels {qrels}: write intent:N, with N from 1 on, or the path of a file")
    if level > 1:
        problem = f"{qrels} has grade 1 only; name a file of graded judgments with --qrels"
        raise UsageError(f"--relevance-level {level}: {problem}")
    if not colon:
        return 10
    return int(depth)


def pseudo_qrels(ranker: Ranker, intents: Mapping[str, str], depth: int) -> dict[str, dict[str, int]]:
    """Give key -> document id -> 1 for the `depth` documents that `ranker` ranks best for each intent.

    Grades are binary: an order within the best would be one more thing that nobody judged. An intent that finds
    nothing has no judgments, and so is left out by `evaluate`.
    """
    documents: dict[str, list[str]] = {}
    # Many keys may have one intent, which is ranked once.
    for intent in dict.fromkeys(intents.values()):
        documents[intent] = [ranked.id for ranked in ranker.rank(intent, depth)]
    qrels: dict[str, dict[str, int]] = {}
    for key, intent in intents.items():
        if documents[intent]:
            qrels[key] = dict.fromkeys(documents[intent], 1)
    return qrels


# --- Groups of conversations

# Groups of conversations that share a table: a table has a row for each scheme and turn and a column for each mode,
# so it holds one run of each. Runs that differ in anything else need tables of their own.


def comparable_groups(runs: Iterable[ConversationRun]) -> list[tuple[str, list[ConversationRun]]]:
    """Group runs by Clarifier under distinct names, in the order of the first run of each.

    A group has at most one run of each scheme and mode. If a Clarifier has more, there is a group for each user and
    number of turns, and for each further run of the same. Runs of mode at-once, which have no user, join each of these
    groups, or form groups of their own if there are several of the same scheme.
    """
    by_clarifier: dict[str, list[ConversationRun]] = {}
    for run in runs:
        by_clarifier.setdefault(run.clarifier, []).append(run)
    groups: list[tuple[str, list[ConversationRun]]] = []
    for clarifier, clarifier_runs in by_clarifier.items():
        groups += _clarifier_groups(clarifier, clarifier_runs)
    return groups


def _clarifier_groups(
    clarifier: str, runs: list[ConversationRun]
) -> Iterator[tuple[str, list[ConversationRun]]]:
    """Yield the groups of the runs of one Clarifier, each with its name."""
    if _fit_one_table(runs):
        yield clarifier, runs
        return
    at_once = [run for run in runs if run.mode == "at-once"]
    joined: list[ConversationRun] = []
    if _fit_one_table(at_once):
        joined = at_once
    by_setting: dict[str, dict[tuple[Scheme, Mode], list[ConversationRun]]] = {}
    for run in runs:
        if joined and run.mode == "at-once":
            continue
        repeats = by_setting.setdefault(_setting(run), {})
        repeats.setdefault((run.scheme, run.mode), []).append(run)
    for setting, repeats in by_setting.items():
        n_groups = max(map(len, repeats.values()))
        for number in range(n_groups):
            name = f"{clarifier}, {setting}"
            if number:
                name += f", again ({number + 1})"
            group = [repeated[number] for repeated in repeats.values() if number < len(repeated)]
            yield name, group + joined


def _setting(run: ConversationRun) -> str:
    """Name what a group of one Clarifier shares: the user and the number of turns."""
    plural = "s" * (run.k != 1)
    if run.mode == "at-once":
        return f"{run.k} question{plural} at once"
    return f"user {run.user}, {run.k} turn{plural}"


def _fit_one_table(runs: Sequence[ConversationRun]) -> bool:
    """True if no two runs have the same scheme and mode: each gets a place of its own in a table."""
    return len({(run.scheme, run.mode) for run in runs}) == len(runs)


# --- Retrieval, turn by turn (AT-CoT, SIGIR 2025, sections 4.3 and 6, table 8)
#
# Each instance is a hidden intent with judgments of its own. A scheme's score at turn t of a mode is the mean over
# instances of a measure of the query as it stands after that turn; turn 0 is q itself, without clarification. Failed
# conversations are in no mean, and pairs are of instances that both schemes have.

ALPHA: Final = 0.01
"""The paper's level of significance."""
NOBODY_ASKED: Final = "w/o clarification"
_RANKING_DEPTH: Final = 100
"""Documents ranked for each query: as many as the paper retrieves and re-ranks."""
_TIE: Final = 1e-6
"""Relative: scores so close may be equal as 32-bit floats, which trec_eval compares."""

Scores: TypeAlias = Mapping[str, Mapping[str, float]]
"""Values by instance id, by measure."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One scheme at one turn of one mode, with the scores of the instances that have judgments."""

    mode: Mode
    turn: int
    scheme: Scheme
    scores: Scores = field(repr=False)

    def mean(self, measure: str) -> float | None:
        """Return the measure's mean over its instances; None without instances."""
        return mean_of(self.scores[measure])

    def n(self, measure: str) -> int:
        return len(self.scores[measure])


@dataclass(frozen=True, slots=True)
class SchemeTest:
    """A paired t-test of one cell against another scheme's, or against q itself (`other` NOBODY_ASKED).

    `difference` is the mean of scheme minus other over `n` instances. `p_holm` is adjusted for all tests of the
    measure: those between schemes are one family, those against q another.
    """

    measure: str
    mode: Mode
    turn: int
    scheme: str
    other: str
    n: int
    difference: float
    t: float
    p: float
    p_holm: float = 1.0


@dataclass(frozen=True, slots=True)
class TurnRetrieval:
    """Table 8 of one Clarifier. `name` is distinct among groups (`comparable_groups`)."""

    clarifier: str
    name: str
    directories: tuple[Path, ...]
    """The runs it is computed from."""
    measures: tuple[str, ...]
    without: Scores = field(repr=False)
    """Scores of q itself."""
    cells: tuple[Cell, ...]
    """Ordered by mode, turn and scheme."""
    tests: tuple[SchemeTest, ...]
    """Every pair of schemes, the later one of SCHEMES minus the earlier."""
    gains: tuple[SchemeTest, ...]
    """Every cell against q."""

    def cell(self, mode: Mode, turn: int, scheme: str) -> Cell | None:
        """Return that cell, or None."""
        for cell in self.cells:
            if (cell.mode, cell.turn, cell.scheme) == (mode, turn, scheme):
                return cell
        return None

    def has(self, scheme: str) -> bool:
        """True if a run used that scheme."""
        return any(cell.scheme == scheme for cell in self.cells)

    def better_than(self, measure: str, cell: Cell) -> tuple[str, ...]:
        """Return the schemes that a cell improves on significantly: p < ALPHA, as in the paper."""
        schemes: list[str] = []
        for test in self.tests:
            is_of_cell = (test.measure, test.mode, test.turn) == (measure, cell.mode, cell.turn)
            if not is_of_cell or not test.p < ALPHA:
                continue
            better, worse = test.scheme, test.other
            if test.difference <= 0:
                better, worse = worse, better
            if better == cell.scheme:
                schemes.append(worse)
        return tuple(schemes)


def mean_of(values: Mapping[str, float]) -> float | None:
    """Return the mean over instances; None without instances."""
    if not values:
        return None
    return sum(values.values()) / len(values)


def queries_to_rank(runs: Iterable[ConversationRun], queries: Mapping[str, str]) -> list[str]:
    """Return the distinct queries of runs: q of each instance (`queries`, by id), and the query after each turn."""
    distinct = dict.fromkeys(queries.values())
    for run in runs:
        for id, turns in run.conversations.items():
            if id not in queries:
                continue
            for turn in turns:
                if turn.query:
                    distinct[turn.query] = None
    return list(distinct)


def rankings(
    ranker: Ranker, queries: Iterable[str], measures: Sequence[str]
) -> Iterator[tuple[str, list[Ranked]]]:
    """Yield each query with as much of its ranking as the measures use, ties with the last document included."""
    needed = _deepest_cutoff(measures)
    for query in queries:
        ranking = ranker.rank(query, max(_RANKING_DEPTH, needed or 0))
        if needed is not None and len(ranking) > needed:
            lowest = ranking[needed - 1].score
            # trec_eval puts ties in an order of its own, so each may come to stand above the cutoff.
            ranking = [ranked for ranked in ranking if ranked.score >= lowest - abs(lowest) * _TIE]
        yield query, ranking


def _deepest_cutoff(measures: Sequence[str]) -> int | None:
    """Return how many documents the measures consider together; None if one of them considers all."""
    deepest: int | None = None
    for name in measures:
        depth = cutoff(name)
        if depth is None:
            return None
        deepest = max(deepest or 0, depth)
    return deepest


def retrieve_turns(
    runs: Sequence[ConversationRun],
    queries: Mapping[str, str],
    ranked: Mapping[str, Sequence[Ranked]],
    qrels: Qrels,
    measures: Sequence[str],
    *,
    name: str = "",
    level: int = 1,
) -> TurnRetrieval:
    """Evaluate runs of one Clarifier, one of each scheme and mode, over the instances of `queries` (q by id).

    The default `name` is the Clarifier's. `ranked` has the documents of every query of `queries_to_rank`. Instances
    without judgments are left out.
    `level` as in `evaluate`.
    """
    judged = {id: query for id, query in queries.items() if qrels.get(id)}

    def scores_of(queries: Mapping[str, str]) -> Scores:
        rankings = {id: ranked[query] for id, query in queries.items()}
        return evaluate({id: qrels[id] for id in queries}, rankings, measures, level=level)

    cells: list[Cell] = []
    n_turns = max((run.k for run in runs), default=0)
    by_scheme = sorted(runs, key=lambda run: SCHEMES.index(run.scheme))
    for mode in MODES:
        mode_runs = [run for run in by_scheme if run.mode == mode]
        for turn in range(1, n_turns + 1):
            for run in mode_runs:
                queries_then = _queries_after(run, turn, judged)
                if queries_then:
                    cells.append(Cell(mode, turn, run.scheme, scores_of(queries_then)))
    without = scores_of(judged)
    tests: list[SchemeTest] = []
    gains: list[SchemeTest] = []
    for measure in measures:
        # Two families for Holm's correction: scheme against scheme, and each cell against q.
        of_measure: list[SchemeTest] = []
        for earlier, later in combinations(cells, 2):
            if (earlier.mode, earlier.turn) == (later.mode, later.turn):
                of_measure.append(_test(measure, later, earlier.scheme, earlier.scores))
        tests += _holm_corrected(of_measure)
        gains += _holm_corrected([_test(measure, cell, NOBODY_ASKED, without) for cell in cells])
    clarifier = ""
    if runs:
        clarifier = runs[0].clarifier
    return TurnRetrieval(
        clarifier=clarifier,
        name=name or clarifier,
        directories=tuple(run.directory for run in runs),
        measures=tuple(measures),
        without=without,
        cells=tuple(cells),
        tests=tuple(tests),
        gains=tuple(gains),
    )


def _queries_after(run: ConversationRun, turn: int, ids: Collection[str]) -> dict[str, str]:
    """Return the query as it stands after a turn, by id of the instances whose conversation is that long."""
    queries: dict[str, str] = {}
    for id, turns in run.conversations.items():
        if id not in ids or len(turns) < turn:
            continue
        query = turns[turn - 1].query
        if query:
            queries[id] = query
    return queries


def _test(measure: str, cell: Cell, other: str, scores: Scores) -> SchemeTest:
    """Test a cell against other scores, over the instances that both have."""
    cell_values: list[float] = []
    other_values: list[float] = []
    for id, value in cell.scores[measure].items():
        if id in scores[measure]:
            cell_values.append(value)
            other_values.append(scores[measure][id])
    test = paired_t_test(cell_values, other_values)
    return SchemeTest(measure, cell.mode, cell.turn, cell.scheme, other, **asdict(test))


def _holm_corrected(tests: Sequence[SchemeTest]) -> list[SchemeTest]:
    """Apply Holm's correction to the tests of one measure."""
    corrected = holm([test.p for test in tests])
    return [replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]
