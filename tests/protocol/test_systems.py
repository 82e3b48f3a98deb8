"""Which systems a command compares, and where each is kept."""

from __future__ import annotations

import pytest

from cts_async.protocol.roles import RoleNames
from cts_async.protocol.systems import System, mark, run_names, systems_of


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
