"""Which systems a command compares, and where each is kept."""

from __future__ import annotations

from cts_async.protocol.systems import System, run_names, systems_of


def test_references_come_first_then_every_clarifier_with_every_budget() -> None:
    systems = systems_of(["gpt", "claude", "gpt"], [1, 3], ["orig"])
    assert [system.label for system in systems] == ["orig", "gpt-k1", "gpt-k3", "claude-k1", "claude-k3"]


def test_a_run_is_named_after_its_data_and_its_system() -> None:
    systems = systems_of(["gpt"], [3], ["orig"])
    assert list(run_names(systems, "hard518", None).values()) == ["hard518-orig", "hard518-gpt-k3"]


def test_a_chosen_name_is_the_only_clarifiers() -> None:
    systems = systems_of(["gpt"], [3], ["orig"])
    assert list(run_names(systems, "hard518", "mine").values()) == ["mine-orig", "mine"]


def test_a_chosen_name_is_a_prefix_for_several() -> None:
    systems = systems_of(["gpt"], [1, 2], [])
    assert list(run_names(systems, "hard518", "mine").values()) == ["mine-gpt-k1", "mine-gpt-k2"]


def test_a_model_id_with_slashes_and_colons_makes_one_directory() -> None:
    system = System("clarify", "gpt:org/model", 1)
    assert run_names([system], "sample", None)[system] == "sample-gpt_org_model-k1"
