"""What people wrote about a dataset's underspecified queries: clarifying questions, answers, ambiguity levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

HumanPairs = tuple[tuple[str, str], ...]
"""(question, answer) pairs that people wrote for one intent, in file order."""


@dataclass(frozen=True, slots=True)
class AnnotatedQuery:
    """One underspecified query. `questions` are distinct texts in file order, of all its intents together.

    `ambiguity` is ClariQ's clarification_need from 1 (clear) to 4 (most ambiguous); None where nobody said.
    """

    id: str
    query: str
    questions: tuple[str, ...]
    ambiguity: int | None = None


@dataclass(frozen=True, slots=True)
class Annotations:
    """`queries` by the text of q exactly as instances have it; `pairs` by instance id."""

    queries: Mapping[str, AnnotatedQuery]
    pairs: Mapping[str, HumanPairs]


ReadAnnotations = Callable[[], Annotations]
