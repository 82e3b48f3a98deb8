"""Which systems a command compares, and where each is kept."""

from __future__ import annotations

from itertools import product

import pytest

from cts_async.errors import UsageError
from cts_async.protocol.systems import RoleNames, System, mark, run_names, systems_of
from cts_async.records import MODES, SCHEMES, Mode, Scheme


def test_references_come_first_then_every_clarifier_with_every_budget() -> None:
    systems = systems_of(["gpt", "claude", "gpt"], [1, 3], ["orig"])
    assert [system.label for system in systems] == ["orig", "gpt-k1", "gpt-k3", "claude-k1", "claude-k3"]


def test_a_label_names_scheme_and_mode_where_they_are_not_the_benchmarks() -> None:
    systems = systems_of(["org/m"], [3], [], schemes=["cts", "at-cot"], modes=["at-once", "respond"])
    assert [system.label for system in systems] == ["org_m-k3", "org_m-at-cot-k3", "org_m-at-cot-respond-k3"]
    assert [system.converses for system in systems] == [False, True, True]
    assert not any(system.converses for system in (System("orig"), System("gold")))


def test_no_two_systems_have_one_label() -> None:
    systems = systems_of(["gpt", "gpt-cot"], [1, 2], ["orig"], schemes=SCHEMES, modes=MODES)
    labels = [system.label for system in systems if system.clarifier != "gpt-cot"]
    # Four schemes in three modes and the benchmark's own in one, with two budgets.
    assert len(set(labels)) == len(labels) == 1 + (4 * 3 + 1) * 2


@pytest.mark.parametrize(
    ("schemes", "modes", "said"),
    [
        (["cts"], ["respond"], "--mode respond: the benchmark's own scheme asks at once only; add --scheme"),
        (["cts"], ["at-once", "select"], "--mode select: the benchmark's own scheme"),
        (["cts", "cot"], ["select"], "--scheme cts: asks at once only; add --mode at-once"),
    ],
)
def test_nothing_that_was_asked_for_is_left_out_without_a_word(
    schemes: list[Scheme], modes: list[Mode], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        systems_of(["gpt"], [1], [], schemes=schemes, modes=modes)
    assert said in str(caught.value)


def test_every_scheme_of_at_cot_has_every_mode() -> None:
    systems = systems_of(["gpt"], [1], [], schemes=SCHEMES[1:], modes=MODES)
    assert [(system.scheme, system.mode) for system in systems] == list(product(SCHEMES[1:], MODES))


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


PAPER = RoleNames("ernie", ("ernie",), "webdancer")
ORIG, GPT = System("orig"), System("clarify", "gpt", 3)


@pytest.mark.parametrize(
    ("chosen", "orig", "gpt"),
    [
        (PAPER, "", ""),
        (RoleNames("gpt", ("ernie",), "webdancer"), "", "+support-gpt"),
        (RoleNames("ernie", ("ernie",), "kimi"), "+agent-kimi", "+agent-kimi"),
        (RoleNames("ernie", ("ernie", "gpt"), "webdancer"), "+judge-ernie-gpt", "+judge-ernie-gpt"),
        (
            RoleNames("gpt", ("claude",), "kimi"),
            "+agent-kimi+judge-claude",
            "+support-gpt+agent-kimi+judge-claude",
        ),
        (RoleNames("kimi", ("kimi",), "kimi"), "+all-kimi", "+all-kimi"),
        (RoleNames("qwen", ("kimi",), "kimi"), "+all-kimi", "+support-qwen+agent-kimi+judge-kimi"),
    ],
)
def test_roles_that_are_not_the_usual_ones_are_named_where_they_matter(
    chosen: RoleNames, orig: str, gpt: str
) -> None:
    assert mark(ORIG, chosen, PAPER, judged=True) == orig
    assert mark(GPT, chosen, PAPER, judged=True) == gpt


def test_judges_of_a_run_without_judging_do_not_matter() -> None:
    assert mark(GPT, RoleNames("ernie", ("kimi",), "webdancer"), PAPER, judged=False) == ""
    assert mark(ORIG, RoleNames("kimi", ("kimi",), "kimi"), PAPER, judged=False) == "+agent-kimi"


def test_a_mark_stands_behind_the_system_and_a_chosen_name_needs_none() -> None:
    hosted = RoleNames("kimi:org/k2", ("kimi:org/k2",), "kimi:org/k2")
    marks = {ORIG: "+all-kimi", GPT: mark(GPT, hosted, PAPER, judged=True)}
    names = run_names([ORIG, GPT], "sample", None, marks)
    assert list(names.values()) == ["sample-orig+all-kimi", "sample-gpt-k3+all-kimi_org_k2"]
    assert list(run_names([ORIG, GPT], "sample", "mine", marks).values()) == ["mine-orig", "mine"]
