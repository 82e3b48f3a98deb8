"""The compared systems: Clarifiers with a budget, and the reference points `orig` and `gold`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cts_async.protocol.pipeline import SystemKind


@dataclass(frozen=True, slots=True)
class System:
    """One row of the results table. `clarifier` is "" and `k` 0 for the reference points."""

    kind: SystemKind
    clarifier: str = ""
    k: int = 0

    @property
    def label(self) -> str:
        return self.kind if self.kind != "clarify" else f"{self.clarifier}-k{self.k}".replace("/", "_")


def systems_of(clarifiers: Sequence[str], budgets: Sequence[int], references: Sequence[str]) -> list[System]:
    """References first, then every Clarifier with every budget."""
    known: dict[str, System] = {"orig": System("orig"), "gold": System("gold")}
    asked = [System("clarify", name, k) for name in dict.fromkeys(clarifiers) for k in dict.fromkeys(budgets)]
    return [known[name] for name in dict.fromkeys(references)] + asked


def run_names(systems: Sequence[System], dataset: str, name: str | None) -> dict[System, str]:
    """Directory names: DATASET-SYSTEM, or under a chosen name NAME for the only Clarifier, else NAME-SYSTEM."""
    asked = [system for system in systems if system.kind == "clarify"]
    names = {system: f"{name or dataset}-{system.label}".replace(":", "_") for system in systems}
    if name and len(asked or systems) == 1:
        names[(asked or systems)[0]] = name
    return names
