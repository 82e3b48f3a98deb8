"""What an audit finds, and the queries of an instance that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Level = Literal["leak", "provenance", "missing", "unsupported"]

VIOLATIONS: Final[frozenset[Level]] = frozenset({"leak", "provenance", "missing"})
"""Levels that break the closed book, or leave it unproven. An unsupported constraint is the Rewriter's own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. `instance` is "" if it concerns the whole run, `step` is "" if it concerns no step.

    leak: text that occurs only in q*, or an answer that gives away what was not asked for. provenance: a request that
    the protocol does not make of the recorded replies, or thoughts in the place of an answer. missing: a step, or a
    query, without which nothing can be proved. unsupported: a constraint in a rewritten query that no answer elicited.
    `text` is the text concerned.
    """

    level: Level
    instance: str
    step: str
    problem: str
    text: str = ""

    @property
    def violates(self) -> bool:
        return self.level in VIOLATIONS


class Queries(NamedTuple):
    """An instance's intent q* and its underspecified query q."""

    intent: str
    query: str
