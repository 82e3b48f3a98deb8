"""Questions and answers of a run, and the counts over them (paper, tables 4, 5, 7, 8 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType, Reading
from cts_async.analysis.resampling import Difference, paired_difference
from cts_async.analysis.runs import FinishedRun
from cts_async.analysis.stats import wilson
from cts_async.errors import InputError
from cts_async.records import Language, language_of
from cts_async.values import value

# --- interactions
#
# What was asked and answered in one run, ready to be counted: every question read, every answer known or not.

Reader: TypeAlias = Callable[[str], Reading]
Scores: TypeAlias = Mapping[str, float]
"""`restore_score_100` by instance."""


@value
class Turn:
    """One question with what became of it. `turn` counts from 1."""

    turn: int
    reading: Reading
    language: Language
    known: bool
    """The answer is something else than `unknown`."""


@value
class Interaction:
    """One instance that was asked something and answered it all. `score` is None where nobody judged it."""

    id: str
    turns: tuple[Turn, ...]
    score: float | None

    @property
    def known_cnt(self) -> int:
        """Number of answers that are not `unknown` (paper, table 7)."""
        return sum(turn.known for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Interactions:
    """One Clarifier with one budget. What failed is counted apart: a failure is no `unknown`."""

    label: str
    clarifier: str
    k: int
    rows: tuple[Interaction, ...] = field(repr=False)
    n_failed: int = 0
    n_expected: int = 0
    embedded: bool = False

    @property
    def n_turns(self) -> int:
        """k, or the most questions of an instance: of others' answers no k may be known."""
        return max([self.k, *(len(row.turns) for row in self.rows)])

    @property
    def n_missing(self) -> int:
        """Instances that have no line yet."""
        return max(0, self.n_expected - len(self.rows) - self.n_failed)


def interaction(
    id: str, pairs: Iterable[tuple[str, bool]], read: Reader, score: float | None = None
) -> Interaction:
    """An instance from its questions in order, each with whether its answer is known."""
    turns = tuple(
        Turn(turn, read(question), language_of(question), known)
        for turn, (question, known) in enumerate(pairs, start=1)
    )
    return Interaction(id, turns, score)


def interactions_of(run: FinishedRun, read: Reader, judge: str | None = None) -> Interactions:
    """The interactions of a Clarifier's run, with this judge's scores. InputError if a question lacks its answer."""
    rows = []
    for item in run.items.values():
        if len(item.questions) != len(item.answers):
            problem = f"{item.id}: {len(item.questions)} questions and {len(item.answers)} answers"
            raise InputError(run.directory / "results.jsonl", problem, field="answers")
        pairs = (
            (question, not unknown) for question, unknown in zip(item.questions, item.unknown, strict=True)
        )
        verdict = item.verdicts.get(judge) if judge else None
        rows.append(interaction(item.id, pairs, read, verdict.score if verdict else None))
    return Interactions(
        run.label, run.clarifier, run.k, tuple(rows), run.n_failed, run.n_expected, run.embedded
    )


# --- unknowns
#
# How often the User Answerer cannot answer (paper, tables 4 and 7): `ua_unknown_rate`, `all_unknown`, `known_cnt`.


@dataclass(frozen=True, slots=True)
class Unknowns:
    """Counts over the instances that were answered; their rates are None where there are none."""

    n: int
    """Instances."""
    answers: int
    unknown: int
    known_cnt: tuple[int, ...]
    """At j the number of instances with exactly j answers that are not `unknown`, j = 0..k."""
    by_turn: tuple[tuple[int, int], ...]
    """At turn t - 1: answers, and those of them that are `unknown`."""

    @property
    def ua_unknown_rate(self) -> float | None:
        """Fraction of answers that are `unknown` (table 4)."""
        return self.unknown / self.answers if self.answers else None

    @property
    def all_unknown(self) -> float | None:
        """Fraction of instances whose answers are all `unknown` (table 7)."""
        return self.known_cnt_rate(0)

    def known_cnt_rate(self, known: int) -> float | None:
        """Fraction of instances with exactly so many known answers (table 7); None beyond k."""
        if not self.n or known >= len(self.known_cnt):
            return None
        return self.known_cnt[known] / self.n


def count_unknowns(system: Interactions) -> Unknowns:
    """Count the answers of one run; failed instances take no part."""
    known_cnt = [0] * (system.n_turns + 1)
    turns = [[0, 0] for _ in range(system.n_turns)]
    for row in system.rows:
        known_cnt[row.known_cnt] += 1
        for turn in row.turns:
            turns[turn.turn - 1][0] += 1
            turns[turn.turn - 1][1] += not turn.known
    return Unknowns(
        n=len(system.rows),
        answers=sum(answers for answers, _ in turns),
        unknown=sum(unknown for _, unknown in turns),
        known_cnt=tuple(known_cnt),
        by_turn=tuple((answers, unknown) for answers, unknown in turns),
    )


# --- known_count
#
# Beyond the paper: score and gain of the instances with 0, 1, ... k known answers (table 7's classes).


@dataclass(frozen=True, slots=True)
class KnownCount:
    """The instances with exactly `known_cnt` known answers."""

    known_cnt: int
    n: int
    """Instances, unjudged ones among them."""
    score: Difference | None
    """Mean score with its bootstrap interval, over those that were judged; None for none."""
    gain: Difference | None
    """Mean difference to `orig`, over those judged in both; None for none."""


def by_known_count(system: Interactions, orig: Scores, *, seed: int = 0) -> tuple[KnownCount, ...]:
    """One entry for each count from 0 to k."""
    return tuple(_class(system, known, orig, seed) for known in range(system.k + 1))


def _class(system: Interactions, known: int, orig: Scores, seed: int) -> KnownCount:
    rows = [row for row in system.rows if row.known_cnt == known]
    scores = [row.score for row in rows if row.score is not None]
    paired = [(row.score, orig[row.id]) for row in rows if row.score is not None and row.id in orig]
    return KnownCount(
        known,
        len(rows),
        _mean(scores, [0.0] * len(scores), seed),
        _mean([score for score, _ in paired], [base for _, base in paired], seed),
    )


def _mean(scores: Sequence[float], baseline: Sequence[float], seed: int) -> Difference | None:
    return paired_difference(scores, baseline, seed=seed)


# --- region_questions
#
# Questions about regions: `cq_region_rate` (paper, table 4), region-only questions (tables 5, 8 and 10).


@dataclass(frozen=True, slots=True)
class RegionTurn:
    """One turn of one run: a row of table 10, and at k = 1 of table 5."""

    label: str
    clarifier: str
    k: int
    turn: int
    questions: int
    about_region: int
    """Questions that ask for a region, or mention one: what `cq_region_rate` counts."""
    region_only: int
    """Questions that ask for a region and for nothing else."""
    region_only_unknown: int

    @property
    def unknown_rate(self) -> float | None:
        """Of the region-only questions, those answered `unknown`; None where there are none."""
        return self.region_only_unknown / self.region_only if self.region_only else None


@dataclass(frozen=True, slots=True)
class UnknownRange:
    """Lowest and highest unknown rate of region-only questions over models and turns (table 8)."""

    k: int
    low: float
    high: float
    lowest: RegionTurn
    highest: RegionTurn


def region_turns(system: Interactions) -> tuple[RegionTurn, ...]:
    """One entry for each turn, in order."""
    counts = [[0, 0, 0, 0] for _ in range(system.n_turns)]
    for row in system.rows:
        for turn in row.turns:
            count = counts[turn.turn - 1]
            only = turn.reading.region_only
            count[0] += 1
            count[1] += turn.reading.mentions_region
            count[2] += only
            count[3] += only and not turn.known
    return tuple(
        RegionTurn(system.label, system.clarifier, system.k, turn, *count)
        for turn, count in enumerate(counts, start=1)
    )


def cq_region_rate(turns: Iterable[RegionTurn]) -> float | None:
    """Fraction of clarification questions about region or location (table 4); None for no question."""
    of = list(turns)
    questions = sum(turn.questions for turn in of)
    return sum(turn.about_region for turn in of) / questions if questions else None


def unknown_ranges(turns: Iterable[RegionTurn]) -> tuple[UnknownRange, ...]:
    """The range for every k, ascending; a turn without region-only questions has no rate and takes no part."""
    by_k: dict[int, list[tuple[float, RegionTurn]]] = {}
    for turn in turns:
        if (rate := turn.unknown_rate) is not None:
            by_k.setdefault(turn.k, []).append((rate, turn))
    return tuple(_range(k, by_k[k]) for k in sorted(by_k))


def _range(k: int, rated: list[tuple[float, RegionTurn]]) -> UnknownRange:
    low, lowest = min(rated, key=lambda pair: pair[0])
    high, highest = max(rated, key=lambda pair: pair[0])
    return UnknownRange(k, low, high, lowest, highest)


# --- type_profile
#
# Beyond the paper: how often each type of question is asked, and how often it can be answered, turn by turn.


@dataclass(frozen=True, slots=True)
class TypeProfile:
    """Questions whose primary type this is: `n` of `of`, `known` of them answered."""

    kind: QuestionType
    n: int
    of: int
    known: int
    by_turn: tuple[tuple[int, int], ...]
    """At turn t - 1: questions of this type, and those of them that were answered."""

    @property
    def share(self) -> float | None:
        """Of all questions, those of this type; the shares of all types add up to 1."""
        return self.n / self.of if self.of else None

    @property
    def answerability(self) -> float | None:
        """Of the questions of this type, those whose answer is not `unknown`."""
        return self.known / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the answerability."""
        return wilson(self.known, self.n)


def type_profiles(systems: Iterable[Interactions]) -> tuple[TypeProfile, ...]:
    """A profile for every type, over the questions of all the systems together."""
    counts: dict[QuestionType, list[list[int]]] = {kind: [] for kind in QUESTION_TYPES}
    for system in systems:
        for row in system.rows:
            for turn in row.turns:
                by_turn = counts[turn.reading.primary]
                while len(by_turn) < turn.turn:
                    by_turn.append([0, 0])
                by_turn[turn.turn - 1][0] += 1
                by_turn[turn.turn - 1][1] += turn.known
    total = sum(n for by_turn in counts.values() for n, _ in by_turn)
    return tuple(
        TypeProfile(
            kind,
            sum(n for n, _ in by_turn),
            total,
            sum(known for _, known in by_turn),
            tuple((n, known) for n, known in by_turn),
        )
        for kind, by_turn in counts.items()
    )
