"""The diagnosis of one or more runs: every statistic of the interaction, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cts_async.analysis.answerability import predict_answerability
from cts_async.analysis.ask_or_not import Frontier, ask_or_not
from cts_async.analysis.calibration import Calibration, calibrate
from cts_async.analysis.interactions import Interactions, Scores
from cts_async.analysis.known_count import KnownCount, by_known_count
from cts_async.analysis.question_types import QuestionType
from cts_async.analysis.region_questions import RegionTurn, UnknownRange, region_turns, unknown_ranges
from cts_async.analysis.type_gain import TypeGain, gain_per_question
from cts_async.analysis.type_profile import TypeProfile, type_profiles
from cts_async.analysis.unknowns import Unknowns, count_unknowns


@dataclass(frozen=True, slots=True)
class SystemDiagnosis:
    """What one run shows."""

    system: Interactions
    unknowns: Unknowns
    regions: tuple[RegionTurn, ...]
    profiles: tuple[TypeProfile, ...]
    known_counts: tuple[KnownCount, ...]
    frontier: Frontier | None
    """None without scores of the run and of `orig`."""


@dataclass(frozen=True, slots=True)
class BudgetDiagnosis:
    """What all runs with this k show together, by type of question."""

    k: int
    profiles: tuple[TypeProfile, ...]
    gains: Mapping[QuestionType, TypeGain]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All of it; systems are in the order in which they were given."""

    systems: tuple[SystemDiagnosis, ...]
    budgets: tuple[BudgetDiagnosis, ...]
    ranges: tuple[UnknownRange, ...]
    calibration: Calibration | None


def diagnose(systems: Sequence[Interactions], orig: Scores, *, seed: int = 0) -> Diagnosis:
    """Diagnose runs over the same instances. `orig` is empty where there is no such run: then nothing has gains."""
    predictions = predict_answerability(systems, seed=seed)
    diagnosed = tuple(
        SystemDiagnosis(
            system,
            count_unknowns(system),
            region_turns(system),
            type_profiles([system]),
            by_known_count(system, orig, seed=seed),
            ask_or_not(system, predicted, orig, seed=seed),
        )
        for system, predicted in zip(systems, predictions, strict=True)
    )
    return Diagnosis(
        systems=diagnosed,
        budgets=tuple(_budgets(systems, orig, seed)),
        ranges=unknown_ranges(turn for one in diagnosed for turn in one.regions),
        calibration=calibrate(systems, predictions, orig, seed=seed),
    )


def _budgets(systems: Sequence[Interactions], orig: Scores, seed: int) -> Iterator[BudgetDiagnosis]:
    for k in sorted({system.k for system in systems}):
        of = [system for system in systems if system.k == k]
        yield BudgetDiagnosis(k, type_profiles(of), gain_per_question(of, orig, seed=seed))
