"""Rankings against relevance judgments, by people or derived from the intents; and conversations, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.analysis.stats import PairedT, holm, paired_t_test
from cts_async.errors import UsageError
from cts_async.records import (
    MODES,
    SCHEMES,
    Mode,
    Scheme,
)
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
    **dict.fromkeys(("p", "prec", "precision"), "P"),
    **dict.fromkeys(("rr", "mrr"), "RR"),
    **dict.fromkeys(("ap", "map"), "AP"),
    **dict.fromkeys(("r", "recall"), "R"),
}
_NAME: Final = re.compile(r"([a-z]+)(?:@?([1-9][0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_NEEDS_CUTOFF: Final = ("P", "R")
_DEPTH: Final = re.compile("[1-9][0-9]{0,8}")


def measure(name: str) -> str:
    """Return the usual name: "NDCG20" is "nDCG@20", "MRR100" is "RR@100", "P1" is "P@1", "map" is "AP".

    Known are nDCG, P, RR (MRR), AP (MAP) and R (Recall), each with a cutoff, which P and R need. Raises UsageError.
    """
    found = _NAME.fullmatch(name.strip())
    family = found and _FAMILIES.get(found[1].lower())
    if found is None or family is None:
        raise UsageError(f"{name!r} is not a known measure; write nDCG@10, P@5, MRR@100, MAP or Recall@100")
    if found[2] is None and family in _NEEDS_CUTOFF:
        raise UsageError(f"{name!r} needs a cutoff, for example {name.strip()}@10")
    return family if found[2] is None else f"{family}@{found[2]}"


def cutoff(name: str) -> int | None:
    """Return how many documents a measure considers, None for all. Raises UsageError for an unknown measure."""
    depth = measure(name).partition("@")[2]
    return int(depth) if depth else None


def evaluate(
    qrels: Qrels, run: Run, measures: Sequence[str], *, level: int = 1
) -> dict[str, dict[str, float]]:
    """Return measure -> query id -> value in [0, 1], measures by the names given, queries in the order of `qrels`.

    `level` is the lowest grade that P, RR, AP and R count as relevant (TREC Deep Learning: 2); nDCG uses gains instead.
    A query without retrieved documents counts 0, and so does one without a relevant document; a query without
    judgments is left out. Raises UsageError for an unknown measure.
    """
    import ir_measures

    # Grades below 1 are dropped: not relevant is the same as not judged.
    judged = {
        query: {document: grade for document, grade in grades.items() if grade > 0}
        for query, grades in qrels.items()
        if grades
    }
    found = {query: dict(run[query]) for query, grades in judged.items() if grades and run.get(query)}
    # trec_eval has no reciprocal rank with a cutoff: it is that of the whole ranking, or 0 below the cutoff.
    names: dict[Any, list[tuple[str, float]]] = {}
    values = {name: dict.fromkeys(judged, 0.0) for name in measures}
    for name in measures:
        usual, _, depth = measure(name).partition("@")
        is_rr = usual == "RR"
        metric = ir_measures.parse_measure("RR" if is_rr else measure(name))
        if level > 1 and usual != "nDCG":
            metric = metric(rel=level)
        names.setdefault(metric, []).append((name, 1 / int(depth) if is_rr and depth else 0.0))
    if found:
        relevant = {query: judged[query] for query in found}
        for one in ir_measures.pytrec_eval.evaluator(list(names), relevant).iter_calc(found):
            for name, least in names[one.measure]:
                values[name][one.query_id] = float(one.value) if one.value >= least else 0.0
    return values


def count_hopeless(qrels: Qrels, *, level: int = 1) -> int:
    """Count queries with judgments but no document of that grade, which `evaluate` always scores 0."""
    return sum(1 for grades in qrels.values() if grades and max(grades.values()) < level)


def relevant_from(level: int) -> str:
    """Return the caption of a relevance level, "" for the usual one."""
    return f"; relevant from grade {level} (nDCG: by gains)" if level > 1 else ""


def hopeless_note(hopeless: int, of: str, level: int) -> str:
    """Explain `count_hopeless`; `of` names the total: "198 facets"."""
    where = " except in nDCG" if level > 1 else ""
    return f"{hopeless:,} of {of} have judgments but no relevant document: they count 0{where}, whatever is asked"


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
    return int(depth) if colon else 10


def pseudo_qrels(ranker: Ranker, intents: Mapping[str, str], depth: int) -> dict[str, dict[str, int]]:
    """Give key -> document id -> 1 for the `depth` documents that `ranker` ranks best for each intent.

    Grades are binary: an order within the best would be one more thing that nobody judged. An intent that finds
    nothing has no judgments, and so is left out by `evaluate`.
    """
    texts = dict.fromkeys(intents.values())
    found = {text: [ranked.id for ranked in ranker.rank(text, depth)] for text in texts}
    return {key: dict.fromkeys(found[text], 1) for key, text in intents.items() if found[text]}


# --- Groups of conversations

# Groups of conversations that share a table: a table has a row for each scheme and turn and a column for each mode,
# so it holds one run of each. Runs that differ in anything else need tables of their own.


def comparable_groups(talks: Iterable[ConversationRun]) -> list[tuple[str, list[ConversationRun]]]:
    """Group runs by Clarifier under distinct names, in the order of the first run of each.

    A group has at most one run of each scheme and mode. If a Clarifier has more, there is a group for each user and
    number of turns, and for each further run of the same. Runs of mode at-once, which have no user, join each of these
    groups, or form groups of their own if there are several of the same scheme.
    """
    return [group for own in _grouped_by(lambda talk: talk.clarifier, talks) for group in _groups(own)]


def _groups(own: list[ConversationRun]) -> Iterator[tuple[str, list[ConversationRun]]]:
    if _distinct(own):
        yield own[0].clarifier, own
        return
    at_once = [talk for talk in own if talk.mode == "at-once"]
    joined = at_once if _distinct(at_once) else []
    for same in _grouped_by(_setting, (talk for talk in own if talk not in joined)):
        kinds = _grouped_by(lambda talk: f"{talk.scheme} {talk.mode}", same)
        for number in range(max(map(len, kinds))):
            again = f", again ({number + 1})" if number else ""
            group = [runs[number] for runs in kinds if number < len(runs)]
            yield f"{own[0].clarifier}, {_setting(same[0])}{again}", [*group, *joined]


def _setting(talk: ConversationRun) -> str:
    if talk.mode == "at-once":
        return f"{talk.k} question{'s' * (talk.k != 1)} at once"
    return f"user {talk.user}, {talk.k} turn{'s' * (talk.k != 1)}"


def _distinct(talks: Sequence[ConversationRun]) -> bool:
    return len({(talk.scheme, talk.mode) for talk in talks}) == len(talks)


def _grouped_by(
    key: Callable[[ConversationRun], str], talks: Iterable[ConversationRun]
) -> list[list[ConversationRun]]:
    found: dict[str, list[ConversationRun]] = {}
    for talk in talks:
        found.setdefault(key(talk), []).append(talk)
    return list(found.values())


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
        return next((c for c in self.cells if (c.mode, c.turn, c.scheme) == (mode, turn, scheme)), None)

    def has(self, scheme: str) -> bool:
        """True if a run used that scheme."""
        return any(cell.scheme == scheme for cell in self.cells)

    def better_than(self, measure: str, cell: Cell) -> tuple[str, ...]:
        """Return the schemes that a cell improves on significantly: p < ALPHA, as in the paper."""
        found = []
        for test in self.tests:
            if (test.measure, test.mode, test.turn) == (measure, cell.mode, cell.turn) and test.p < ALPHA:
                better, worse = (test.scheme, test.other)[:: 1 if test.difference > 0 else -1]
                found += [worse] if better == cell.scheme else []
        return tuple(found)


def mean_of(values: Mapping[str, float]) -> float | None:
    """Return the mean over instances; None without instances."""
    return sum(values.values()) / len(values) if values else None


def queries_of(talks: Iterable[ConversationRun], blurred: Mapping[str, str]) -> list[str]:
    """Return the distinct queries to rank: q by instance id (`blurred`), and the query after each turn."""
    asked = dict.fromkeys(blurred.values())
    for talk in talks:
        for id, turns in talk.conversations.items():
            if id in blurred:
                asked |= dict.fromkeys(turn.query for turn in turns if turn.query)
    return list(asked)


def rankings(
    ranker: Ranker, queries: Iterable[str], measures: Sequence[str]
) -> Iterator[tuple[str, list[Ranked]]]:
    """Yield each query with as much of its ranking as the measures use, ties with the last document included."""
    cutoffs = [cutoff(name) for name in measures]
    known = [depth for depth in cutoffs if depth is not None]
    needed = max(known) if known and len(known) == len(cutoffs) else None
    for query in queries:
        ranked = ranker.rank(query, max(_RANKING_DEPTH, needed or 0))
        if needed is not None and len(ranked) > needed:
            last = ranked[needed - 1].score
            ranked = [one for one in ranked if one.score >= last - abs(last) * _TIE]
        yield query, ranked


def retrieve_turns(
    talks: Sequence[ConversationRun],
    blurred: Mapping[str, str],
    ranked: Mapping[str, Sequence[Ranked]],
    qrels: Qrels,
    measures: Sequence[str],
    *,
    name: str = "",
    level: int = 1,
) -> TurnRetrieval:
    """Evaluate runs of one Clarifier, one of each scheme and mode, over the instances of `blurred` (q by id).

    The default `name` is the Clarifier's. `ranked` has the documents of every query of `queries_of`. Instances without
    judgments are left out.
    `level` as in `evaluate`.
    """
    judged = {id: query for id, query in blurred.items() if qrels.get(id)}

    def scores(queries: Mapping[str, str]) -> Scores:
        run = {id: ranked[query] for id, query in queries.items()}
        return evaluate({id: qrels[id] for id in run}, run, measures, level=level)

    def queries_after(talk: ConversationRun, turn: int) -> dict[str, str]:
        return {
            id: turns[turn - 1].query
            for id, turns in talk.conversations.items()
            if id in judged and len(turns) >= turn and turns[turn - 1].query
        }

    ordered = sorted(talks, key=lambda talk: (MODES.index(talk.mode), SCHEMES.index(talk.scheme)))
    cells = tuple(
        Cell(talk.mode, turn, talk.scheme, scores(queries))
        for mode in dict.fromkeys(talk.mode for talk in ordered)
        for turn in range(1, 1 + max(talk.k for talk in ordered))
        for talk in ordered
        if talk.mode == mode and (queries := queries_after(talk, turn))
    )
    without = scores(judged)
    pairs = [
        (earlier, later)
        for earlier, later in combinations(cells, 2)
        if (earlier.mode, earlier.turn) == (later.mode, later.turn)
    ]
    tests, gains = [], []
    for measure in measures:
        tests += _adjusted([_test(measure, later, one.scheme, one.scores) for one, later in pairs])
        gains += _adjusted([_test(measure, cell, NOBODY_ASKED, without) for cell in cells])
    clarifier = talks[0].clarifier if talks else ""
    return TurnRetrieval(
        clarifier=clarifier,
        name=name or clarifier,
        directories=tuple(talk.directory for talk in talks),
        measures=tuple(measures),
        without=without,
        cells=cells,
        tests=tuple(tests),
        gains=tuple(gains),
    )


def _test(measure: str, cell: Cell, other: str, scores: Scores) -> SchemeTest:
    found = paired(cell.scores[measure], scores[measure])
    return SchemeTest(measure, cell.mode, cell.turn, cell.scheme, other, **asdict(found))


def paired(scores: Mapping[str, float], baselines: Mapping[str, float]) -> PairedT:
    """Run the t-test over the instances that both have."""
    both = [id for id in scores if id in baselines]
    return paired_t_test([scores[id] for id in both], [baselines[id] for id in both])


def _adjusted(tests: Sequence[SchemeTest]) -> list[SchemeTest]:
    """Apply Holm's correction to the tests of one measure."""
    corrected = holm([test.p for test in tests])
    return [replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True)]
