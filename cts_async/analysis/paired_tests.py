"""Paired t-tests between systems over the same queries, a family of them under Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cts_async.analysis.stats import PairedT, holm, paired_t_test

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """One pair of a family: the test of `left` minus `right`, and its p by Holm's correction over the family."""

    left: str
    right: str
    test: PairedT
    p_holm: float


def t_tests(values: Mapping[str, Array], pairs: Sequence[tuple[str, str]]) -> list[ComparedPair]:
    """Test each pair of systems as one family; `values` are arrays over the same queries, by system."""
    tests = [paired_t_test(values[left].tolist(), values[right].tolist()) for left, right in pairs]
    adjusted = holm([test.p for test in tests])
    return [
        ComparedPair(left, right, test, p)
        for (left, right), test, p in zip(pairs, tests, adjusted, strict=True)
    ]
