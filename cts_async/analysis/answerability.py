"""Predicting before a question is asked whether it will be answered (paper, section 7.3: a signal for ask-or-not).

The prediction is a rate, smoothed from the general to the particular:

    all questions -> primary type -> primary type x language x turn,   p = (known + S * p_above) / (n + S)

with S = 10 questions' worth of the level above; the first level starts at 1/2 with S = 2. It is out of fold:
instances are dealt to 10 folds by a digest of seed and id, and a question is predicted from the other folds
only. All systems are counted together, and an instance is in the same fold in all of them, so what one system
was answered never predicts what another is answered on the same instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

from cts_async.analysis.interactions import Interaction, Interactions, Turn

FOLDS: Final = 10
STRENGTH: Final = 10.0
"""How many questions the rate of the level above counts as."""

Predictions: TypeAlias = dict[str, tuple[float, ...]]
"""By instance, the predicted answerability of its questions in order."""
_Cell: TypeAlias = tuple[object, ...]


def fold_of(id: str, seed: int) -> int:
    """The fold, 0..9, of an instance: the same in every system and process."""
    return blake2b(f"{seed}/{id}".encode(), digest_size=8).digest()[0] % FOLDS


def predict_answerability(systems: Sequence[Interactions], *, seed: int = 0) -> list[Predictions]:
    """Out-of-fold predictions for every question of every system, each strictly between 0 and 1."""
    asked, known = _counted((row for system in systems for row in system.rows), seed)
    rates = _Rates(asked, known)
    return [
        {
            row.id: tuple(rates.predicted(turn, fold) for turn in row.turns)
            for row in system.rows
            for fold in (fold_of(row.id, seed),)
        }
        for system in systems
    ]


def any_answered(predictions: Sequence[float]) -> float:
    """The predicted chance that at least one of the questions is answered, as if they were independent."""
    chance = 0.0
    for p in predictions:
        chance += p - chance * p  # with a single question exactly its prediction
    return chance


def _cells(turn: Turn) -> tuple[_Cell, ...]:
    """The classes that a question belongs to, the most general first."""
    kind = turn.reading.primary
    return (), (kind,), (kind, turn.language, turn.turn)


def _counted(rows: Iterable[Interaction], seed: int) -> tuple[Counter[_Cell], Counter[_Cell]]:
    """Questions, and known answers, by class: of all folds together, and by fold as (fold, class)."""
    asked: Counter[_Cell] = Counter()
    known: Counter[_Cell] = Counter()
    for row in rows:
        fold = fold_of(row.id, seed)
        for turn in row.turns:
            for cell in _cells(turn):
                keys = (cell, (fold, cell))
                asked.update(keys)
                if turn.known:
                    known.update(keys)
    return asked, known


class _Rates:
    """Smoothed rates without one fold; every class is worked out once for each fold."""

    def __init__(self, asked: Counter[_Cell], known: Counter[_Cell]) -> None:
        self._asked, self._known = asked, known
        self._found: dict[tuple[_Cell, int], float] = {}

    def predicted(self, turn: Turn, fold: int) -> float:
        cells = _cells(turn)
        found = self._found.get((cells[-1], fold))
        if found is None:
            found = self._found[cells[-1], fold] = self._smoothed(cells, fold)
        return found

    def _smoothed(self, cells: Sequence[_Cell], fold: int) -> float:
        rate, strength = 0.5, 2.0
        for cell in cells:
            n = self._asked[cell] - self._asked[fold, cell]
            known = self._known[cell] - self._known[fold, cell]
            rate, strength = (known + strength * rate) / (n + strength), STRENGTH
        return rate
