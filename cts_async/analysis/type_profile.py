"""Beyond the paper: how often each type of question is asked, and how often it can be answered, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cts_async.analysis.interactions import Interactions
from cts_async.analysis.question_types import QUESTION_TYPES, QuestionType
from cts_async.analysis.wilson import wilson


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
