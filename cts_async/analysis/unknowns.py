"""How often the User Answerer cannot answer (paper, tables 4 and 7): `ua_unknown_rate`, `all_unknown`, `known_cnt`."""

from __future__ import annotations

from dataclasses import dataclass

from cts_async.analysis.interactions import Interactions


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
