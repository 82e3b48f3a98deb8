"""Clarification need (ClariQ, EMNLP 2021, task 1): predicted labels against those of people.

Precision, recall and F1 of each label, averaged with the label's share of the topics as weight ("weighted" in
scikit-learn). What has no predictions, or no topics, counts 0 there. A topic without a prediction has label 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NO_LABEL: Final = 0


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Weighted averages from 0 to 1 over `n` topics, `n_missing` of which have no prediction."""

    precision: float
    recall: float
    f1: float
    n: int
    n_missing: int


def label_agreement(truth: Mapping[str, int], predicted: Mapping[str, int]) -> LabelAgreement:
    """Labels by topic, at least one of `truth`; predictions for other topics are left aside."""
    pairs = [(label, predicted.get(topic, NO_LABEL)) for topic, label in truth.items()]
    right = Counter(label for label, guess in pairs if label == guess)
    of_truth, of_guess = Counter(label for label, _ in pairs), Counter(guess for _, guess in pairs)
    n = len(pairs)
    # A label that nobody has weighs nothing, so those of the truth are enough.
    return LabelAgreement(
        precision=sum(count * _share(right[label], of_guess[label]) for label, count in of_truth.items()) / n,
        recall=sum(right.values()) / n,
        f1=sum(count * _share(2 * right[label], count + of_guess[label]) for label, count in of_truth.items())
        / n,
        n=n,
        n_missing=sum(topic not in predicted for topic in truth),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
