"""What an audit found, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Level = Literal["leak", "provenance", "missing", "unsupported"]

VIOLATIONS: Final[frozenset[Level]] = frozenset({"leak", "provenance", "missing"})
"""What breaks the closed book, or leaves it unproven. An unsupported constraint is the Rewriter's own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be. `instance` is "" where it concerns the whole run, `step` where no step.

    leak: text that occurs only in q*. provenance: a request that is not what the protocol makes of the
    remembered replies. missing: a step, or a query, without which nothing can be proved. unsupported: a
    constraint in a rewritten query that no answer elicited. `text` is the piece of text concerned.
    """

    level: Level
    instance: str
    step: str
    problem: str
    text: str = ""

    @property
    def violates(self) -> bool:
        return self.level in VIOLATIONS


@dataclass(frozen=True, slots=True)
class Audit:
    """One run's audit. An instance is held if nothing violates the closed book in any of its steps."""

    directory: Path
    label: str
    n_instances: int
    """Instances with steps or results; those still to come are not among them."""
    n_held: int
    n_requests: int
    """Requests to the Clarifier, the User Answerer, the Rewriter and the agent that were checked."""
    n_rewrites: int
    n_unsupported: int
    """Rewritten queries with an unsupported constraint."""
    findings: Sequence[Finding]
    notes: Sequence[str]
    """What a person should know about the evidence: damaged lines, data that was not there."""

    @property
    def held(self) -> bool:
        """Whether the closed book was proved for the run and each of its instances."""
        return not any(finding.violates for finding in self.findings)

    @property
    def n_leaks(self) -> int:
        return sum(finding.level == "leak" for finding in self.findings)

    def verdict(self) -> str:
        """One line: `closed book: held for 518/518 instances; 0 leaks; unsupported constraints in 7 ...`."""
        proof = "held" if self.held else "NOT held: proved"
        parts = [
            f"closed book: {proof} for {self.n_held}/{self.n_instances} instances",
            f"{self.n_leaks} leak{'s' * (self.n_leaks != 1)}",
        ]
        if self.n_rewrites:
            share = 100 * self.n_unsupported / self.n_rewrites
            parts.append(f"unsupported constraints in {self.n_unsupported} rewrites ({share:.1f} %)")
        return "; ".join(parts)
