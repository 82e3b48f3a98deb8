"""The compared systems: Clarifiers with a budget, and the reference points `orig` and `gold`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from cts_async.errors import UsageError
from cts_async.protocol.roles import RoleNames
from cts_async.records import SCHEMES, Mode, Scheme, is_one_line

SystemKind = Literal["clarify", "orig", "gold"]


@dataclass(frozen=True, slots=True)
class System:
    """One row of the results table. `clarifier` is "" and `k` 0 for the reference points."""

    kind: SystemKind
    clarifier: str = ""
    k: int = 0
    """Questions asked at once, or turns of the conversation (modes "respond" and "select")."""
    scheme: Scheme = "cts"
    mode: Mode = "at-once"

    @property
    def converses(self) -> bool:
        """Whether scheme or mode are not the benchmark's own: then it is a conversation of turns."""
        return self.kind == "clarify" and (self.scheme, self.mode) != ("cts", "at-once")

    @property
    def label(self) -> str:
        """`gpt-k3`; `gpt-at-cot-respond-k3` where scheme or mode are not the benchmark's own."""
        if self.kind != "clarify":
            return self.kind
        unusual = [self.scheme] * (self.scheme != "cts") + [self.mode] * (self.mode != "at-once")
        return "-".join([self.clarifier, *unusual, f"k{self.k}"]).replace("/", "_")


def systems_of(
    clarifiers: Sequence[str],
    budgets: Sequence[int],
    references: Sequence[str],
    *,
    schemes: Sequence[Scheme] = ("cts",),
    modes: Sequence[Mode] = ("at-once",),
) -> list[System]:
    """References first, then every Clarifier with every scheme, mode and budget.

    The benchmark's own scheme asks at once only: with other modes it is left out, or a UsageError where there
    would be nothing of a scheme or mode that was asked for.
    """
    known: dict[str, System] = {"orig": System("orig"), "gold": System("gold")}
    talks = [talk for talk in product(dict.fromkeys(schemes), dict.fromkeys(modes)) if _can(*talk)]
    _check_talks(talks, schemes, modes)
    asked = [
        System("clarify", name, k, scheme, mode)
        for name, (scheme, mode), k in product(dict.fromkeys(clarifiers), talks, dict.fromkeys(budgets))
    ]
    return [known[name] for name in dict.fromkeys(references)] + asked


def _can(scheme: Scheme, mode: Mode) -> bool:
    return scheme != "cts" or mode == "at-once"


def _check_talks(
    talks: Sequence[tuple[Scheme, Mode]], schemes: Sequence[Scheme], modes: Sequence[Mode]
) -> None:
    others = ", ".join(scheme for scheme in SCHEMES if scheme != "cts")
    for mode in modes:
        if mode not in {mode for _, mode in talks}:
            raise UsageError(
                f"--mode {mode}: the benchmark's own scheme asks at once only; add --scheme, one of {others}"
            )
    if "cts" in schemes and not any(scheme == "cts" for scheme, _ in talks):
        raise UsageError("--scheme cts: asks at once only; add --mode at-once, or leave it out")


def run_names(
    systems: Sequence[System], dataset: str, name: str | None, marks: Mapping[System, str] | None = None
) -> dict[System, str]:
    """Directory names: DATASET-SYSTEM+MARK, or under a chosen name NAME for the only Clarifier, else NAME-SYSTEM.

    Raises UsageError for a name that is no folder's.

    `marks` tell apart runs of one system whose fixed roles differ (see `mark`); a chosen name does so itself.
    """
    check_run_name(name)
    if not is_one_line(dataset):
        raise UsageError(f"{dataset!r}: a run cannot be called by a name with control characters: use --name")
    asked = [system for system in systems if system.kind == "clarify"]
    marks = {} if name or marks is None else marks
    names = {
        system: f"{name or dataset}-{system.label}{marks.get(system, '')}".replace(":", "_")
        for system in systems
    }
    if name and len(asked or systems) == 1:
        names[(asked or systems)[0]] = name
    return names


def check_run_name(name: str | None) -> None:
    """Raises UsageError for a name that would lead out of the folder of runs, or deeper than anybody looks.

    Or one that cannot be printed on a line.
    """
    if name is not None and not is_one_line(name):
        raise UsageError(f"--name {name!r}: has control characters or line breaks; choose a name without")
    if name is not None and (Path(name).name != name or name.strip() in ("", "..")):
        raise UsageError(f"--name {name}: has to be the name of one folder; --runs-dir says where it is")


def mark(system: System, chosen: RoleNames, usual: RoleNames, *, judged: bool) -> str:
    """What a system's run is called beyond its label, by the fixed roles that differ from the usual ones.

    `+support-gpt+agent-kimi`; `+all-kimi` where all of several roles are played by one model; "" where
    none differs. Only roles that the system has count: a reference asks nobody, so `support` does not.
    """
    has = ["support"] * (system.kind == "clarify") + ["agent"] + ["judge"] * judged
    players, defaults = _players(chosen), _players(usual)
    different = [role for role in has if players[role] != defaults[role]]
    everybody = {players[role] for role in has}
    if different and len(has) > 1 and len(everybody) == 1:
        return f"+all-{everybody.pop()}"
    return "".join(f"+{role}-{players[role]}" for role in different)


def _players(roles: RoleNames) -> dict[str, str]:
    """Who plays each fixed role, as a directory may be called; several judges joined."""
    named = {"support": roles.support, "agent": roles.agent, "judge": "-".join(roles.judges)}
    return {role: name.replace("/", "_") for role, name in named.items()}
