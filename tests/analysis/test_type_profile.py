"""Shares and answerability of question types against counts made by hand."""

from __future__ import annotations

from made_interactions import row, system

from cts_async.analysis.interactions import TypeProfile, type_profiles
from cts_async.analysis.stats import wilson


def test_the_primary_type_counts_and_shares_add_up() -> None:
    two = system(2, row("a", "region- time+"), row("b", "region,time+ region-"))
    one = system(1, row("a", "time-"), clarifier="kimi")
    found = {profile.kind: profile for profile in type_profiles([two, one])}
    assert found["region"] == TypeProfile("region", n=3, of=5, known=1, by_turn=((2, 1), (1, 0)))
    assert found["time"] == TypeProfile("time", n=2, of=5, known=1, by_turn=((1, 0), (1, 1)))
    assert found["region"].share == 3 / 5
    assert found["region"].answerability == 1 / 3
    assert found["region"].interval == wilson(1, 3)
    assert sum(profile.share or 0 for profile in found.values()) == 1


def test_a_type_that_nobody_asks_for_has_no_answerability() -> None:
    profiles = type_profiles([system(1, row("a", "time-"))])
    assert [p.kind for p in profiles] == ["time", "region", "entity", "scope", "criterion", "other"]
    assert (profiles[1].n, profiles[1].answerability, profiles[1].interval) == (0, None, None)
    assert type_profiles([])[0].share is None
