"""Questions and answers of a run, classified, and the counts over them (paper, tables 4, 5, 7, 8 and 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias

from cts_async.analysis.disclosure import UnknownWording, unknown_wording
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType, Reading
from cts_async.analysis.stats import wilson
from cts_async.errors import InputError
from cts_async.protocol.audit.text import Disclosure, disclosure
from cts_async.records import UNKNOWN, Caveat, Language, language_of, value
from cts_async.runs.files import STEPS
from cts_async.runs.finished import FailedItem, FinishedRun, Item, read_run

Reader: TypeAlias = Callable[[str], Reading]
Scores: TypeAlias = Mapping[str, float]
"""`restore_score_100` by instance id."""


@value
class AskedQuestion:
    """One classified question. `turn` counts from 1."""

    turn: int
    reading: Reading
    language: Language
    known: bool
    """True if the answer is anything but `unknown`."""
    disclosed: Disclosure | None = None
    """What a known answer gives away; None if q and q* are not recorded."""


@value
class Interaction:
    """One instance whose questions were all answered, whatever failed later. `score` is None if it was not judged."""

    id: str
    turns: tuple[AskedQuestion, ...]
    score: float | None

    @property
    def known_cnt(self) -> int:
        """Number of answers that are not `unknown` (paper, table 7)."""
        return sum(turn.known for turn in self.turns)


@value
class InstanceTexts:
    """What was said about one instance whose questions were all answered; "" for what was not made or not asked for."""

    id: str
    intent: str = ""
    query: str = ""
    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    rewritten_query: str = ""
    answer: str = ""


TextReader: TypeAlias = Callable[[Collection[str]], Iterator[InstanceTexts]]
"""Reads the texts of these names, of the instances in the rows."""


@dataclass(frozen=True, slots=True)
class Interactions:
    """The interactions of one Clarifier with one budget. Failures are counted apart: a failure is not `unknown`."""

    label: str
    clarifier: str
    k: int
    rows: tuple[Interaction, ...] = field(repr=False)
    n_failed: int = 0
    """Instances that failed before all their questions were answered; they are in no row."""
    n_expected: int = 0
    caveat: Caveat = ""
    n_failed_later: int = 0
    """Of the rows, the instances whose search or rewriting failed; their judges' failures do not count."""
    unknown_wording: UnknownWording | None = None
    """None without a journal."""
    people_answered: bool = False
    """True if people's recorded answers stood for the User Answerer's."""
    read_texts: TextReader | None = field(default=None, repr=False, compare=False)

    def texts(self, *names: str) -> Iterator[InstanceTexts]:
        """Read the texts of the instances in `rows`, in the order of their ids; `names` are fields of InstanceTexts.

        Questions and answers are always there. They are read from the files at each call, since rows hold no texts:
        a run of a million answers would not fit into memory. Ask for `answer` only where it is needed.
        """
        if self.read_texts is not None:
            yield from self.read_texts(names)

    @property
    def n_turns(self) -> int:
        """The larger of k and the most questions of an instance; k of question files may be unknown."""
        longest = max((len(row.turns) for row in self.rows), default=0)
        return max(self.k, longest)

    @property
    def n_missing(self) -> int:
        """Instances without a result yet."""
        return max(0, self.n_expected - len(self.rows) - self.n_failed)


def interaction(
    id: str,
    pairs: Iterable[tuple[str, bool]],
    read: Reader,
    score: float | None = None,
    disclosed: Sequence[Disclosure | None] = (),
) -> Interaction:
    """Classify an instance's questions, given in order, each with whether its answer is known.

    `disclosed` has what each answer gives away, in the same order; it may be shorter.
    """
    turns: list[AskedQuestion] = []
    for turn, (question, is_known) in enumerate(pairs, start=1):
        disclosed_at_turn: Disclosure | None = None
        if turn <= len(disclosed):
            disclosed_at_turn = disclosed[turn - 1]
        turns.append(AskedQuestion(turn, read(question), language_of(question), is_known, disclosed_at_turn))
    return Interaction(id, tuple(turns), score)


def interactions_of(run: FinishedRun, read: Reader, judge: str | None = None) -> Interactions:
    """Classify the questions of a Clarifier's run and attach this judge's scores.

    Stages count by themselves: an instance that was asked and answered is a row, whether or not its search or a judge
    failed afterwards. Raises InputError if a question has no answer.
    """
    rows: list[Interaction] = []
    answers: dict[str, Sequence[str]] = {}
    n_failed_later = 0
    for item in run.answered_items:
        answers[item.id] = item.answers
        if len(item.questions) != len(item.answers):
            problem = f"{item.id}: {len(item.questions)} questions and {len(item.answers)} answers"
            raise InputError(run.directory / "results.jsonl", problem, field="answers")
        is_known = [not unknown for unknown in item.unknown]
        pairs = zip(item.questions, is_known, strict=True)
        score: float | None = None
        if isinstance(item, FailedItem):
            n_failed_later += 1
        elif judge and judge in item.verdicts:
            score = item.verdicts[judge].score
        rows.append(interaction(item.id, pairs, read, score, _disclosures(item, run.mode)))
    return Interactions(
        label=run.label,
        clarifier=run.clarifier,
        k=run.k,
        rows=tuple(rows),
        n_failed=run.n_failed - n_failed_later,
        n_expected=run.n_expected,
        caveat=run.caveat,
        n_failed_later=n_failed_later,
        unknown_wording=unknown_wording(run.directory / STEPS, answers),
        people_answered=run.people_answered,
        read_texts=partial(run_texts, run.directory),
    )


_TEXT_KEYS: Final = {
    "intent": "fused_query",
    "query": "blurred_query",
    "rewritten_query": "rewritten_query",
    "answer": "answer",
}
"""The key in a line of results by the field of InstanceTexts, of those that are not always read."""


def run_texts(directory: Path, names: Collection[str]) -> Iterator[InstanceTexts]:
    """Read the texts of these names from a run, of the instances whose questions were all answered."""
    # Answers are most of a run: what nobody asked for stays out of memory.
    unread = [key for name, key in _TEXT_KEYS.items() if name not in names]
    for item in read_run(directory, without=unread).answered_items:
        answer = ""
        if isinstance(item, Item):
            answer = item.answer
        yield InstanceTexts(
            id=item.id,
            intent=item.intent,
            query=item.query,
            questions=item.questions,
            answers=item.answers,
            rewritten_query=item.rewritten_query,
            answer=answer,
        )


def _disclosures(item: Item | FailedItem, mode: str) -> list[Disclosure | None]:
    """Return what each known answer of an instance gives away; None for `unknown`, [] if q or q* is not recorded."""
    if not (item.intent and item.query):
        return []
    disclosures: list[Disclosure | None] = []
    before: list[str] = []
    for question, answer in zip(item.questions, item.answers, strict=True):
        disclosed = None
        if answer != UNKNOWN:
            disclosed = disclosure(answer, item.query, item.intent, [question, *before])
        disclosures.append(disclosed)
        if mode == "respond":  # only there the user was asked in view of what had been said
            before += [question, answer]
    return disclosures


# Unknown answers (tables 4 and 7)


@dataclass(frozen=True, slots=True)
class Unknowns:
    """How often the User Answerer could not answer; rates are None if there are no instances."""

    n: int
    """Instances."""
    answers: int
    unknown: int
    known_cnt: tuple[int, ...]
    """`known_cnt[j]` is the number of instances with exactly j known answers, j = 0..k."""
    by_turn: tuple[tuple[int, int], ...]
    """`by_turn[t - 1]` holds the number of answers at turn t, and how many of them are `unknown`."""

    @property
    def ua_unknown_rate(self) -> float | None:
        """Fraction of answers that are `unknown` (table 4)."""
        return _ratio(self.unknown, self.answers)

    @property
    def all_unknown(self) -> float | None:
        """Fraction of instances whose answers are all `unknown` (table 7)."""
        return self.known_cnt_rate(0)

    def known_cnt_rate(self, known_cnt: int) -> float | None:
        """Fraction of instances with exactly so many known answers (table 7); None beyond k."""
        if known_cnt >= len(self.known_cnt):
            return None
        return _ratio(self.known_cnt[known_cnt], self.n)


def _ratio(n: int, total: int) -> float | None:
    """A rate of nothing is no rate, and differs from 0."""
    if not total:
        return None
    return n / total


def count_unknowns(system: Interactions) -> Unknowns:
    """Count the answers of one run, without the instances that failed before all of theirs were given."""
    known_cnt = [0] * (system.n_turns + 1)
    n_answers = [0] * system.n_turns
    n_unknown = [0] * system.n_turns
    for row in system.rows:
        known_cnt[row.known_cnt] += 1
        for turn in row.turns:
            n_answers[turn.turn - 1] += 1
            n_unknown[turn.turn - 1] += not turn.known
    return Unknowns(
        n=len(system.rows),
        answers=sum(n_answers),
        unknown=sum(n_unknown),
        known_cnt=tuple(known_cnt),
        by_turn=tuple(zip(n_answers, n_unknown, strict=True)),
    )


# Questions about regions (`cq_region_rate` of table 4; tables 5, 8 and 10)


@dataclass(frozen=True, slots=True)
class RegionTurn:
    """Region questions of one run at one turn: a row of table 10, and at k = 1 of table 5."""

    label: str
    k: int
    turn: int
    questions: int
    about_region: int
    """Questions that ask for a region or mention one: what `cq_region_rate` counts."""
    region_only: int
    """Questions that ask for a region and nothing else."""
    region_only_unknown: int

    @property
    def unknown_rate(self) -> float | None:
        """Fraction of region-only questions answered `unknown`; None if there are none."""
        return _ratio(self.region_only_unknown, self.region_only)


def region_turns(system: Interactions) -> tuple[RegionTurn, ...]:
    """Count the region questions of each turn, in order."""
    by_turn: list[list[AskedQuestion]] = [[] for _ in range(system.n_turns)]
    for row in system.rows:
        for question in row.turns:
            by_turn[question.turn - 1].append(question)
    turns: list[RegionTurn] = []
    for turn, questions in enumerate(by_turn, start=1):
        region_only = [question for question in questions if question.reading.region_only]
        turns.append(
            RegionTurn(
                label=system.label,
                k=system.k,
                turn=turn,
                questions=len(questions),
                about_region=sum(question.reading.mentions_region for question in questions),
                region_only=len(region_only),
                region_only_unknown=sum(not question.known for question in region_only),
            )
        )
    return tuple(turns)


def cq_region_rate(turns: Iterable[RegionTurn]) -> float | None:
    """Fraction of clarification questions about region or location (table 4); None without questions."""
    n_questions = n_about_region = 0
    for turn in turns:
        n_questions += turn.questions
        n_about_region += turn.about_region
    return _ratio(n_about_region, n_questions)


def unknown_ranges(turns: Iterable[RegionTurn]) -> dict[int, tuple[RegionTurn, RegionTurn]]:
    """Return the turns with the lowest and the highest unknown rate of region-only questions, by k (table 8)."""
    by_k: dict[int, list[tuple[float, RegionTurn]]] = {}
    for turn in turns:
        if turn.unknown_rate is not None:
            by_k.setdefault(turn.k, []).append((turn.unknown_rate, turn))
    ranges: dict[int, tuple[RegionTurn, RegionTurn]] = {}
    for k, rated in sorted(by_k.items()):
        # By the rate alone, so that of equal rates the earliest turn is named.
        _, lowest = min(rated, key=itemgetter(0))
        _, highest = max(rated, key=itemgetter(0))
        ranges[k] = lowest, highest
    return ranges


# Types of questions (beyond the paper)


@dataclass(frozen=True, slots=True)
class TypeProfile:
    """How often questions of one primary type are asked (`n` among `of` questions) and answered (`known`)."""

    kind: QuestionType
    n: int
    of: int
    known: int
    by_turn: tuple[tuple[int, int], ...]
    """`by_turn[t - 1]` holds the number of questions of this type at turn t, and how many were answered."""

    @property
    def share(self) -> float | None:
        """Fraction of all questions; the shares of all types add up to 1."""
        return _ratio(self.n, self.of)

    @property
    def answerability(self) -> float | None:
        """Fraction of this type's questions whose answer is not `unknown`."""
        return _ratio(self.known, self.n)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the answerability."""
        return wilson(self.known, self.n)


def type_profiles(systems: Iterable[Interactions]) -> tuple[TypeProfile, ...]:
    """Count every type over the questions of all the systems together."""
    n_asked: Counter[tuple[QuestionType, int]] = Counter()
    n_known: Counter[tuple[QuestionType, int]] = Counter()
    last_turns: dict[QuestionType, int] = {}
    for system in systems:
        for row in system.rows:
            for question in row.turns:
                kind, turn = question.reading.primary, question.turn
                n_asked[kind, turn] += 1
                n_known[kind, turn] += question.known
                last_turns[kind] = max(last_turns.get(kind, 0), turn)
    profiles: list[TypeProfile] = []
    for kind in QUESTION_TYPES:
        n_of_kind = n_known_of_kind = 0
        by_turn: list[tuple[int, int]] = []
        # A profile ends with the last turn at which its type was asked.
        for turn in range(1, last_turns.get(kind, 0) + 1):
            n_of_kind += n_asked[kind, turn]
            n_known_of_kind += n_known[kind, turn]
            by_turn.append((n_asked[kind, turn], n_known[kind, turn]))
        profiles.append(TypeProfile(kind, n_of_kind, n_asked.total(), n_known_of_kind, tuple(by_turn)))
    return tuple(profiles)
