"""What was asked and answered in one run, ready to be counted: every question read, every answer known or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cts_async.analysis.question_types import Reading
from cts_async.analysis.runs import FinishedRun
from cts_async.errors import InputError
from cts_async.records import Language, language_of
from cts_async.values import value

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
