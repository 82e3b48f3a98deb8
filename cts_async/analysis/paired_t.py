"""Student's paired t-test, two-sided (Student 1908, "The probable error of a mean")."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async.analysis.holm import holm

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


_ALIKE: Final = 1e-12
"""Differences closer than this are the same number, computed in another order."""


@dataclass(frozen=True, slots=True)
class PairedT:
    """n pairs, their mean difference, t with n - 1 degrees of freedom and the two-sided p."""

    n: int
    difference: float
    t: float
    p: float


def paired_t(scores: Array, baseline: Array) -> PairedT | None:
    """Test `scores[i] - baseline[i]`; None for fewer than two pairs, whose spread nobody knows.

    Differences that are all alike have no spread either: t is infinite and p 0, or if all are 0, t is 0 and p 1.
    """
    from scipy.stats import ttest_rel

    if len(scores) != len(baseline):
        raise ValueError("scores and baseline must be of the same queries")
    differences = np.asarray(scores, float) - np.asarray(baseline, float)
    n = len(differences)
    if n < 2:
        return None
    mean = float(differences.mean())
    if np.ptp(differences) <= _ALIKE:
        if abs(mean) <= _ALIKE:
            return PairedT(n, 0.0, 0.0, 1.0)
        return PairedT(n, mean, math.copysign(math.inf, mean), 0.0)
    found = ttest_rel(scores, baseline)
    return PairedT(n, mean, float(found.statistic), float(found.pvalue))


@dataclass(frozen=True, slots=True)
class TestedPair:
    """One pair of a family: its test, and p by Holm's correction over the family. None: too few to test."""

    left: str
    right: str
    test: PairedT | None
    p_holm: float | None


def t_tests(values: Mapping[str, Array], pairs: Sequence[tuple[str, str]]) -> list[TestedPair]:
    """Test `values[left] - values[right]`, arrays over the same queries, for each pair of one family."""
    tests = [paired_t(values[left], values[right]) for left, right in pairs]
    adjusted = iter(holm([test.p for test in tests if test]))
    return [
        TestedPair(left, right, test, next(adjusted) if test else None)
        for (left, right), test in zip(pairs, tests, strict=True)
    ]
