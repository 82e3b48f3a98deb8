"""Whether, when and how often an agent should ask: systems that ask during the search, beside those that never do, that
ask before it, and that are told everything. Every number has its formula in docs/asking.md.

All of it is over comparable runs (`runs.groups`): the same instances, agent, settings, gold and judge. A gain is the
paired difference to `orig`, which never asks. When an agent asks is its own choice: how gains go with it describes, and
proves no cause; only answers that are given to it at a chosen share of its turns (`inject_at`) are an experiment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import fsum, isnan
from pathlib import Path
from typing import Final, Literal, TypeAlias

from cts_async.analysis.board import Board, newest_directories
from cts_async.analysis.compare import PairTest, compare_family
from cts_async.analysis.disclosure import GivenAway, given_away
from cts_async.analysis.stats import (
    Difference,
    mean_or_none,
    paired_difference,
    rank_correlation,
    ratio_of_sums,
)
from cts_async.llm.model import FIRST_PER_BYTE
from cts_async.protocol.audit.text import Disclosure, disclosure, stands_in
from cts_async.records import DONT_KNOW, UNKNOWN, Caveat
from cts_async.runs.asking import QuestionedSearch, questioned_searches
from cts_async.runs.finished import FinishedRun, newest_run
from cts_async.runs.manifest import ORIG
from cts_async.search.asking import normalised_question

Way: TypeAlias = Literal["never", "before", "during", "both", "later", "told"]
"""How a system comes to know what the query leaves open:

never    it does not: `orig`
before   the Clarifier asks, and the answers are rewritten into the query
during   the agent asks in its search
both     before and during
later    the Clarifier asks, and the agent is given question and answer at a share of its turns (`inject_at`)
told     it searches the intent: `gold`
"""
FULL_SCORE: Final = 100.0
QUARTERS: Final = 4
"""Bins of the share of turns: (0, 1/4], (1/4, 1/2], (1/2, 3/4], (3/4, 1]."""
_ROUNDING: Final = 1e-9
"""Scores that differ by no more are equal: sums of the same numbers differ in their last digits."""
Scores: TypeAlias = Mapping[str, float]
"""`restore_score_100` by instance id."""


@dataclass(frozen=True, slots=True)
class ShareBin:
    """The instances whose first question fell into a quarter of the agent's turns: shares in (low, high]."""

    low: float
    high: float
    n: int
    mean_share: float
    gain: Difference


@dataclass(frozen=True, slots=True)
class Timing:
    """When an agent asked, as shares of its turns (turn / all turns of that search)."""

    n: int
    """Instances in which it asked."""
    mean_share: float
    """Over all questions."""
    mean_first_share: float
    """Of the first question, over the n instances."""
    n_with_gain: int
    """Of the n instances, those that have a score here and of `orig`."""
    rho: float | None
    """Spearman's rank correlation, over these, of the first question's share and the gain."""
    bins: tuple[ShareBin, ...]
    """Of these; empty quarters are left out."""


@dataclass(frozen=True, slots=True)
class AskCount:
    """The instances in which the agent asked exactly so many questions."""

    n_asks: int
    n: int
    score: Difference | None
    """Mean over those that have a score."""
    gain: Difference | None


@dataclass(frozen=True, slots=True)
class Care:
    """How well it was chosen what to ask, and whether to ask at all; see docs/asking.md for each definition."""

    n_questions: int
    n_repeated: int
    n_with_words: int
    """Questions whose reply is more than yes or no: only such a reply can stand in the query."""
    n_in_query: int
    """Those of them whose reply stands in the query: the query answers them."""
    n_needless: int
    n_decided: int
    """Questions of which it is known whether they were needless: the instance has a score of `orig`, or the reply stands
    in the query."""
    n_open: int
    """Instances on which `gold` beats `orig`: there is something to ask for."""
    n_not_asked: int
    """Those of them in which nothing was asked."""
    n_weighed: int
    """Questions of the instances that have scores of `orig` and `gold`."""
    n_hits: int
    """Those of them that told something new on an instance with something to ask for."""
    n_open_hit: int
    """Instances with something to ask for, and a hit."""

    @property
    def repeated_rate(self) -> float | None:
        return _share(self.n_repeated, self.n_questions)

    @property
    def in_query_rate(self) -> float | None:
        return _share(self.n_in_query, self.n_with_words)

    @property
    def needless_rate(self) -> float | None:
        return _share(self.n_needless, self.n_decided)

    @property
    def not_asked_rate(self) -> float | None:
        return _share(self.n_not_asked, self.n_open)

    @property
    def precision(self) -> float | None:
        """Question precision."""
        return _share(self.n_hits, self.n_weighed)

    @property
    def recall(self) -> float | None:
        """Blocker recall."""
        return _share(self.n_open_hit, self.n_open)

    @property
    def ask_f1(self) -> float | None:
        """The harmonic mean of precision and recall, 0 if both are; None if one of them is not defined."""
        precision, recall = self.precision, self.recall
        if precision is None or recall is None:
            return None
        if precision + recall == 0:
            return 0.0
        return 2 * precision * recall / (precision + recall)


@dataclass(frozen=True, slots=True)
class Worth:
    """What questions are worth, over the `n` instances with a score here and of `orig`."""

    gain: Difference
    n_questions: int
    n_tokens: float
    """Tokens that the user reads: those of the distinct questions of each instance."""
    per_question: Difference | None
    """Points for each question; None if there was none."""
    per_1000_tokens: Difference | None


@dataclass(frozen=True, slots=True)
class AskingSystem:
    """One system. The references `orig` and `gold` have no questions: of these only counts and `worth` say something."""

    label: str
    way: Way
    caveat: Caveat
    directory: Path
    n_expected: int
    n_failed: int
    """Instances that failed: what they asked is not counted."""
    n_answered: int
    n_unscored: int
    """Answered instances without a score by this judge."""
    n_without_orig: int
    """Scored instances that have no score of `orig`: they have no gain."""
    mean: float | None
    """Mean score over the scored instances."""
    n_questions: int
    """Over all answered instances, those of before the search included."""
    n_silent: int
    """Answered instances without any question."""
    n_tokens: float
    n_refused: int
    n_early: int
    worth: Worth | None
    """None without a shared instance with `orig`."""
    care: Care | None
    """None for a system without questions, and where those of another one are given later."""
    timing: Timing | None
    """None if the agent cannot ask, or asked nothing."""
    by_count: tuple[AskCount, ...]
    """By the number of the agent's own questions; empty if it cannot ask."""
    given_away: GivenAway | None = None
    """What the replies to the agent's own questions give away; None without a known one, or if q* is not recorded."""

    @property
    def n_missing(self) -> int:
        """Instances without a result yet."""
        return max(0, self.n_expected - self.n_answered - self.n_failed)


@dataclass(frozen=True, slots=True)
class Regret:
    """What a system lost against the best of never, before and during, instance by instance."""

    label: str
    way: Way
    mean: float
    regret: Difference
    n_best: int
    """Instances on which its score is that of the best."""


@dataclass(frozen=True, slots=True)
class Regrets:
    """Regrets over the n instances that all systems of never, before and during have a score for."""

    n: int
    candidates: tuple[str, ...]
    """The systems that the best is taken from."""
    best_mean: float | None
    """Mean of the best of them, instance by instance; None without a common instance."""
    systems: tuple[Regret, ...]


@dataclass(frozen=True, slots=True)
class GivenLater:
    """A system that is given answers after a share of its turns, or (share None) has them rewritten into its query."""

    label: str
    asked_before: str
    """The Clarifier and its budget, which systems that are given the same answers have in common."""
    share: float | None
    n_answered: int
    n_not_delivered: int
    """Answered instances whose search had ended before."""
    mean_share: float | None
    """Mean share of the turns that were over when the answers were given, where they were."""
    score: Difference | None
    gain: Difference | None
    over_rewriting: Difference | None
    """Mean paired difference to the system that has the answers rewritten into its query."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The analysis of one group of comparable runs under one judge."""

    judge: str
    orig: str
    """The label of the run of `orig` that gains are over; "" for none."""
    gold: str
    systems: tuple[AskingSystem, ...]
    """In the order of their ways, then of the board."""
    regrets: Regrets | None
    """None without a system that never asks, or one that asks."""
    tests: tuple[PairTest, ...]
    """During against before: one family of Holm's correction."""
    given_later: tuple[GivenLater, ...]

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Those of the systems, each once."""
        return tuple(dict.fromkeys(system.caveat for system in self.systems if system.caveat))


_ORDER: Final[tuple[Way, ...]] = ("never", "before", "during", "both", "later", "told")


def way_of(run: FinishedRun) -> Way | None:
    """How a run's system comes to know what the query leaves open; None for answers of which that is not known."""
    # In mode "select" the user chooses among queries: there is no question that could be counted, or be missing.
    if not run.searched or run.mode == "select":
        return None
    # First, since such a system has a Clarifier as well.
    if run.inject_at is not None:
        return "later"
    if run.max_asks:
        if run.clarifier:
            return "both"
        return "during"
    if run.clarifier:
        return "before"
    if run.system == ORIG:
        return "never"
    if run.system == "gold":
        return "told"
    return None


def analyse_asking(board: Board, judge: str | None, *, seed: int = 0) -> Asking | None:
    """Analyse the newest runs of a board; None if nothing was asked during a search, and no answers were given late."""
    newest = newest_directories(board)
    runs_by_way: dict[Way, list[FinishedRun]] = {way: [] for way in _ORDER}
    for entrant in board.entrants:
        way = way_of(entrant)
        if way is not None and entrant.directory in newest:
            runs_by_way[way].append(entrant)
    if not any(run.asks_anew for runs in runs_by_way.values() for run in runs):
        return None
    # As text inject10 would stand before inject5.
    runs_by_way["later"].sort(key=_family_and_share)
    scores: dict[str, dict[str, float]] = {}
    for run in board.entrants:
        scores[run.label] = _scores_of(board, judge, run.label)
    orig = _reference(runs_by_way["never"], scores)
    gold = _reference(runs_by_way["told"], scores)
    references = _References(scores.get(orig, {}), scores.get(gold, {}))
    systems: list[AskingSystem] = []
    searches_by_label: dict[str, Mapping[str, QuestionedSearch]] = {}
    for way, runs in runs_by_way.items():
        for run in runs:
            searches: Mapping[str, QuestionedSearch]
            if way in ("never", "told"):
                # Nobody is asked there: nothing but the scores is needed.
                searches = {id: QuestionedSearch(id) for id in scores[run.label]}
            else:
                searches = questioned_searches(run.directory)
            systems.append(_system(run, way, searches, scores[run.label], references, seed))
            if way == "later":
                searches_by_label[run.label] = searches
    tests: tuple[PairTest, ...] = ()
    if judge is not None:
        # A family of its own: who compares the two ways of asking has one question, not one for each pair of systems.
        pairs: list[tuple[int, int]] = []
        for during, before in product(runs_by_way["during"], runs_by_way["before"]):
            pairs.append((board.place(during.label), board.place(before.label)))
        tests = compare_family(board, judge, pairs, seed=seed)
    return Asking(
        judge=judge or "",
        orig=orig,
        gold=gold,
        systems=tuple(systems),
        regrets=_regrets(runs_by_way, orig, scores, seed),
        tests=tests,
        given_later=tuple(_given_later(runs_by_way, searches_by_label, scores, references.orig, seed)),
    )


def _scores_of(board: Board, judge: str | None, label: str) -> dict[str, float]:
    if judge is None or judge not in board.judges:
        return {}
    scores: dict[str, float] = {}
    for id, score in zip(board.ids, board.scores[judge][:, board.place(label)].tolist(), strict=True):
        if not isnan(score):
            scores[id] = score
    return scores


def _reference(runs: Sequence[FinishedRun], scores: Mapping[str, Scores]) -> str:
    """The label of the newest run that has scores; "" for none."""
    scored = [run for run in runs if scores[run.label]]
    if not scored:
        return ""
    return newest_run(scored).label


@dataclass(frozen=True, slots=True)
class _References:
    """Scores of `orig` and `gold`."""

    orig: Scores
    gold: Scores

    def anything_to_ask(self, id: str) -> bool | None:
        """Whether knowing everything is better than asking nothing; None where a score is missing."""
        if id not in self.orig or id not in self.gold:
            return None
        return self.gold[id] > self.orig[id] + _ROUNDING


# --- One system


def _system(
    run: FinishedRun,
    way: Way,
    searches: Mapping[str, QuestionedSearch],
    scores: Scores,
    references: _References,
    seed: int,
) -> AskingSystem:
    n_questions = n_silent = n_refused = n_early = 0
    n_tokens = 0.0
    for search in searches.values():
        n_questions += len(search.pairs)
        n_silent += not search.pairs
        n_tokens += tokens_read(search)
        n_refused += search.n_refused
        n_early += search.n_early
    care: Care | None = None
    if way in ("before", "during", "both"):
        care = _care(searches, references, yes_no=run.replies == "yes-no")
    timing: Timing | None = None
    by_count: tuple[AskCount, ...] = ()
    if run.max_asks:
        timing = _timing(searches, scores, references.orig, seed)
        by_count = tuple(_by_count(searches, scores, references.orig, seed))
    scored: list[str] = []
    n_without_orig = 0
    for id in scores:
        # Scores are of answers: an id without one is of a run whose files disagree.
        if id in searches:
            scored.append(id)
            n_without_orig += id not in references.orig
    return AskingSystem(
        label=run.label,
        way=way,
        caveat=run.caveat,
        directory=run.directory,
        n_expected=run.n_expected - run.n_absent,
        n_failed=run.n_failed,
        n_answered=run.n_done,
        n_unscored=run.n_done - len(scored),
        n_without_orig=n_without_orig,
        mean=mean_or_none(_values(scores, scored)),
        n_questions=n_questions,
        n_silent=n_silent,
        n_tokens=n_tokens,
        n_refused=n_refused,
        n_early=n_early,
        worth=_worth(searches, scores, references.orig, seed),
        care=care,
        timing=timing,
        by_count=by_count,
        given_away=_given_away(searches.values()),
    )


def _given_away(searches: Iterable[QuestionedSearch]) -> GivenAway | None:
    """Measure the known replies to agents, by the audit's own rule: she was asked each question by itself."""
    disclosures: list[Disclosure] = []
    for search in searches:
        if not (search.intent and search.query):
            continue
        told: set[tuple[str, str]] = set()
        for ask in search.asks:
            # An equal question gets the reply that there is: nothing is given away again.
            normalised = normalised_question(ask.question)
            if ask.reply in (UNKNOWN, DONT_KNOW) or (normalised, ask.reply) in told:
                continue
            told.add((normalised, ask.reply))
            disclosures.append(disclosure(ask.reply, search.query, search.intent, [ask.question]))
    if not disclosures:
        return None
    return given_away(disclosures)


def tokens_read(search: QuestionedSearch) -> float:
    """Estimated tokens of the questions that the user reads; one that is asked again gets the reply that there is."""
    questions: dict[str, str] = {}
    for question, _ in search.pairs:
        questions.setdefault(normalised_question(question), question)
    n_bytes = 0
    for question in questions.values():
        # Half of a surrogate pair, which a reply of unknown origin may hold, has no UTF-8.
        n_bytes += len(question.encode(errors="replace"))
    return FIRST_PER_BYTE * n_bytes


def _worth(searches: Mapping[str, QuestionedSearch], scores: Scores, orig: Scores, seed: int) -> Worth | None:
    paired = _paired(searches, scores, orig)
    gain = _gain(paired, scores, orig, seed)
    if gain is None:
        return None
    # Instances without a question count as well: what an agent does without asking is part of the system.
    gains: list[float] = []
    n_questions: list[int] = []
    thousands: list[float] = []
    for id in paired:
        gains.append(scores[id] - orig[id])
        n_questions.append(len(searches[id].pairs))
        thousands.append(tokens_read(searches[id]) / 1000)
    return Worth(
        gain=gain,
        n_questions=sum(n_questions),
        n_tokens=1000 * fsum(thousands),
        per_question=ratio_of_sums(gains, n_questions, seed=seed),
        per_1000_tokens=ratio_of_sums(gains, thousands, seed=seed),
    )


def _paired(searches: Collection[str], scores: Scores, others: Scores) -> list[str]:
    """The ids of the instances that were answered, and have both scores."""
    return [id for id in searches if id in scores and id in others]


def _values(scores: Scores, ids: Iterable[str]) -> list[float]:
    """The scores of these instances, in their order."""
    return [scores[id] for id in ids]


def _gain(ids: Collection[str], scores: Scores, others: Scores, seed: int) -> Difference | None:
    """Mean paired difference over those of the instances that have both scores."""
    paired = _paired(ids, scores, others)
    return paired_difference(_values(scores, paired), _values(others, paired), seed=seed)


def _mean_score(ids: Collection[str], scores: Scores, seed: int) -> Difference | None:
    """Mean over those of the instances that have a score, with the interval that a gain has."""
    scored = _paired(ids, scores, scores)
    return paired_difference(_values(scores, scored), [0.0] * len(scored), seed=seed)


def _by_count(
    searches: Mapping[str, QuestionedSearch], scores: Scores, orig: Scores, seed: int
) -> Iterator[AskCount]:
    ids_by_count: dict[int, list[str]] = {}
    for id, search in searches.items():
        ids_by_count.setdefault(len(search.asks), []).append(id)
    for n_asks, ids in sorted(ids_by_count.items()):
        yield AskCount(n_asks, len(ids), _mean_score(ids, scores, seed), _gain(ids, scores, orig, seed))


def _timing(
    searches: Mapping[str, QuestionedSearch], scores: Scores, orig: Scores, seed: int
) -> Timing | None:
    shares: list[float] = []
    first_shares: dict[str, float] = {}
    ids_by_quarter: dict[int, list[str]] = {}
    for id, search in searches.items():
        first_turn = search.first_ask_turn
        if first_turn is None:
            continue
        for ask in search.asks:
            shares.append(ask.turn / search.n_turns)
        first_shares[id] = first_turn / search.n_turns
        # In whole numbers, rounded up: a share of exactly 1/4 belongs to the first quarter, whatever the rounding.
        quarter = -(-QUARTERS * first_turn // search.n_turns) - 1
        ids_by_quarter.setdefault(quarter, []).append(id)
    if not first_shares:
        return None
    with_gain = _paired(first_shares, scores, orig)
    gains: list[float] = []
    for id in with_gain:
        gains.append(scores[id] - orig[id])
    bins: list[ShareBin] = []
    for quarter, ids in sorted(ids_by_quarter.items()):
        shared = _paired(ids, scores, orig)
        gain = _gain(shared, scores, orig, seed)
        if gain is None:
            continue
        mean_share = fsum(_values(first_shares, shared)) / len(shared)
        bins.append(ShareBin(quarter / QUARTERS, (quarter + 1) / QUARTERS, len(shared), mean_share, gain))
    return Timing(
        n=len(first_shares),
        mean_share=sum(shares) / len(shares),
        mean_first_share=sum(first_shares.values()) / len(first_shares),
        n_with_gain=len(with_gain),
        rho=rank_correlation(_values(first_shares, with_gain), gains),
        bins=tuple(bins),
    )


# --- What was asked, and whether it should have been


def _care(searches: Mapping[str, QuestionedSearch], references: _References, *, yes_no: bool) -> Care:
    n_questions = n_repeated = n_with_words = n_in_query = n_needless = n_decided = 0
    n_open = n_not_asked = n_weighed = n_hits = n_open_hit = 0
    for id, search in searches.items():
        is_open = references.anything_to_ask(id)
        orig_score = references.orig.get(id)
        # Where orig is full already, no reply can be worth a point.
        is_full = orig_score is not None and orig_score >= FULL_SCORE - _ROUNDING
        any_hit = False
        asked_before: set[str] = set()
        for place, (question, reply) in enumerate(search.pairs):
            # The form of replies is that of the agent's own questions: a Clarifier's are open.
            has_words = not yes_no or place < len(search.before)
            normalised = normalised_question(question)
            is_repeated = normalised in asked_before
            asked_before.add(normalised)
            is_known = reply not in (UNKNOWN, DONT_KNOW)
            in_query = is_known and has_words and stands_in(reply, search.query)
            # What a question told that nobody had: the user knew it, and neither q nor an earlier reply had it.
            is_hit = bool(is_open) and is_known and not in_query and not is_repeated
            any_hit |= is_hit
            n_questions += 1
            n_repeated += is_repeated
            n_with_words += has_words
            n_in_query += in_query
            n_needless += in_query or is_full
            n_decided += in_query or orig_score is not None
            n_weighed += is_open is not None
            n_hits += is_hit
        if is_open:
            n_open += 1
            n_not_asked += not search.pairs
            n_open_hit += any_hit
    return Care(
        n_questions=n_questions,
        n_repeated=n_repeated,
        n_with_words=n_with_words,
        n_in_query=n_in_query,
        n_needless=n_needless,
        n_decided=n_decided,
        n_open=n_open,
        n_not_asked=n_not_asked,
        n_weighed=n_weighed,
        n_hits=n_hits,
        n_open_hit=n_open_hit,
    )


def _share(part: int, whole: int) -> float | None:
    """A share of nothing is no share, and differs from 0."""
    if not whole:
        return None
    return part / whole


# --- Against the best of never, before and during


def _regrets(
    runs_by_way: Mapping[Way, Sequence[FinishedRun]], orig: str, scores: Mapping[str, Scores], seed: int
) -> Regrets | None:
    """None where systems with scores are missing of never, or of both before and during."""
    # Of several runs of orig the one that gains are over: the best of two equal systems would be that of chance.
    labels: dict[Way, list[str]] = {"never": [orig]}
    for way in ("before", "during", "both"):
        labels[way] = [run.label for run in runs_by_way[way] if scores[run.label]]
    if not orig or not (labels["before"] or labels["during"]):
        return None
    candidates = labels["never"] + labels["before"] + labels["during"]
    common = [id for id in scores[orig] if all(id in scores[label] for label in candidates)]
    if not common:
        return Regrets(0, tuple(candidates), None, ())
    best: dict[str, float] = {}
    for id in common:
        best[id] = max(scores[label][id] for label in candidates)
    regrets: list[Regret] = []
    for way, labels_of_way in labels.items():
        for label in labels_of_way:
            # A system of "both" is no candidate, and may lack scores of the common instances.
            paired = _paired(common, scores[label], best)
            regret = _gain(paired, best, scores[label], seed)
            mean = mean_or_none(_values(scores[label], paired))
            if regret is None or mean is None:
                continue
            n_best = 0
            for id in paired:
                n_best += scores[label][id] >= best[id] - _ROUNDING
            regrets.append(Regret(label, way, mean, regret, n_best))
    return Regrets(len(common), tuple(candidates), mean_or_none(list(best.values())), tuple(regrets))


# --- Answers of before the search, given to the agent later


def _given_later(
    runs_by_way: Mapping[Way, Sequence[FinishedRun]],
    searches_by_label: Mapping[str, Mapping[str, QuestionedSearch]],
    scores: Mapping[str, Scores],
    orig: Scores,
    seed: int,
) -> Iterator[GivenLater]:
    """Yield, for each Clarifier and budget, the system with rewriting, then those by their shares."""
    families: dict[tuple[str, int, str], list[FinishedRun]] = {}
    for run in runs_by_way["later"]:
        families.setdefault(_family(run), []).append(run)
    for family, runs in families.items():
        clarifier, k, _ = family
        asked_before = f"{clarifier}-k{k}"
        rewriting_scores: Scores = {}
        for run in runs_by_way["before"]:
            if _family(run) != family:
                continue
            rewriting_scores = rewriting_scores or scores[run.label]
            yield GivenLater(
                label=run.label,
                asked_before=asked_before,
                share=None,
                n_answered=run.n_done,
                n_not_delivered=0,
                mean_share=None,
                score=_mean_score(scores[run.label], scores[run.label], seed),
                gain=_gain(scores[run.label], scores[run.label], orig, seed),
                over_rewriting=None,
            )
        for run in runs:
            searches = searches_by_label[run.label]
            n_not_delivered = 0
            delivered: list[float] = []
            for search in searches.values():
                if search.injected_turn is None:
                    n_not_delivered += 1
                elif search.n_turns:
                    # Before turn 3 of 4 two turns are over: a half.
                    delivered.append((search.injected_turn - 1) / search.n_turns)
            # Searches that ended before keep their scores: leaving them out would leave out those that end early.
            yield GivenLater(
                label=run.label,
                asked_before=asked_before,
                share=run.inject_at,
                n_answered=run.n_done,
                n_not_delivered=n_not_delivered,
                mean_share=mean_or_none(delivered),
                score=_mean_score(searches, scores[run.label], seed),
                gain=_gain(searches, scores[run.label], orig, seed),
                over_rewriting=_gain(searches, scores[run.label], rewriting_scores, seed),
            )


def _family(run: FinishedRun) -> tuple[str, int, str]:
    """Who asked how much of whom: systems with the same have the same questions and answers."""
    answerer = run.players.get("answerer") or run.players.get("support", "")
    return run.clarifier, run.k, answerer


def _family_and_share(run: FinishedRun) -> tuple[tuple[str, int, str], float]:
    return _family(run), run.inject_at or 0.0
