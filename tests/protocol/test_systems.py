"""The compared systems, their run names, and the models that play their roles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cts_async.config import RunConfig
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.systems import (
    RoleNames,
    System,
    choose_roles,
    resolve_all,
    role_suffix,
    run_names,
    systems_of,
)
from cts_async.records import Mode, Scheme


def clarifying(model: str, *ks: int, **more: Any) -> RunConfig:
    return RunConfig(models=(model,), ks=ks, references=(), **more)


def test_references_come_first_then_every_clarifier_with_every_k() -> None:
    systems = systems_of(RunConfig(models=("gpt", "claude", "gpt"), ks=(1, 3)))
    assert [system.label for system in systems] == ["orig", "gpt-k1", "gpt-k3", "claude-k1", "claude-k3"]


def test_systems_ask_at_each_time_and_shares_of_one_label_are_one() -> None:
    config = clarifying("gpt", 1, ask=("never", "before", "during", "both"), inject_at=(0.3, 0.1 + 0.2, 0.5))
    systems = systems_of(config)
    assert [system.label for system in systems] == [
        "gpt-k1",
        "gpt-k1+inject30",
        "gpt-k1+inject50",
        "gpt-k1+ask3",
        "orig+ask3",
    ]
    assert systems[1].inject_at == 0.3


def test_prompts_of_a_clarifier_end_its_label() -> None:
    config = clarifying("gpt", 3, schemes=("at-cot",), modes=("respond",))
    config = replace(config, models=("gpt@short", "vertex:claude@2025"))
    systems = systems_of(config, variants={"short"})
    assert [system.label for system in systems] == [
        "gpt-at-cot-respond-k3@short",
        "vertex:claude@2025-at-cot-respond-k3",
    ]
    assert [system.clarifier for system in systems] == ["gpt@short", "vertex:claude@2025"]
    assert choose_roles(clarifying("local@short", 1), {}).agent == "local", (
        "no key is needed with prompts, too"
    )


@pytest.mark.parametrize(
    ("schemes", "modes", "expected"),
    [
        (["cts"], ["respond"], "--mode respond: the default scheme cts supports only at-once; add --scheme"),
        (["cts"], ["at-once", "select"], "--mode select: the default scheme cts"),
        (["cts", "cot"], ["select"], "--scheme cts: supports only --mode at-once"),
    ],
)
def test_scheme_or_mode_without_any_system_is_refused(
    schemes: list[Scheme], modes: list[Mode], expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        systems_of(clarifying("gpt", 1, schemes=tuple(schemes), modes=tuple(modes)))
    assert expected in str(caught.value)


def test_slashes_and_colons_of_a_model_id_make_one_directory() -> None:
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
def test_mark_names_unusual_roles_that_the_system_has(chosen: RoleNames, orig: str, gpt: str) -> None:
    assert role_suffix(ORIG, chosen, PAPER, judged=True) == orig
    assert role_suffix(GPT, chosen, PAPER, judged=True) == gpt


def test_mark_follows_the_system_and_a_chosen_name_has_none_but_for_reference_points() -> None:
    hosted = RoleNames("kimi:org/k2", ("kimi:org/k2",), "kimi:org/k2")
    suffixes = {ORIG: "+all-kimi", GPT: role_suffix(GPT, hosted, PAPER, judged=True)}
    names = run_names([ORIG, GPT], "sample", None, suffixes)
    assert list(names.values()) == ["sample-orig+all-kimi", "sample-gpt-k3+all-kimi_org_k2"]
    # A reference point is shared by all systems, whatever name these are given.
    names = run_names([ORIG, GPT], "sample", "mine", suffixes)
    assert list(names.values()) == ["sample-orig+all-kimi", "mine"]


# --- Which model plays which role


def test_embedded_clarifier_plays_every_role_by_default() -> None:
    roles = choose_roles(RunConfig(), {})
    assert (roles.support, roles.judges, roles.agent) == ("local", ("local",), "local")


def test_option_wins_over_all_option_over_configuration_file() -> None:
    file = {"support": "kimi", "judge": "kimi", "agent": "kimi"}
    roles = choose_roles(RunConfig(models=("gpt",), support="qwen"), file)
    assert (roles.support, roles.judges, roles.agent) == ("qwen", ("kimi",), "kimi")
    config = RunConfig(models=("gpt",), support="qwen", judges=("lexical",), every_role="claude")
    roles = choose_roles(config, file)
    assert (roles.support, roles.judges, roles.agent) == ("qwen", ("lexical",), "claude")


@pytest.mark.parametrize(
    ("wanted", "options", "problem"),
    [
        (
            {"gpt": ["model"], "ernie": ["support", "judge"], "webdancer": ["agent"]},
            {},
            "OPENAI_API_KEY (model: gpt), QIANFAN_API_KEY (support, judge: ernie), "
            "WEBDANCER_BASE_URL (agent: webdancer). Set what is missing, or choose models you have (--all NAME), "
            "or try without any key: --all baseline",
        ),
        (
            {"ernie": ["judge"]},
            {"options": "--judge NAME", "trial": "--judge lexical"},
            "QIANFAN_API_KEY (judge: ernie). Set what is missing, or choose models you have (--judge NAME), "
            "or try without any key: --judge lexical",
        ),
        (
            {},
            {"also_missing": ["SERPER_API_KEY (tools: serper)"]},
            "SERPER_API_KEY (tools: serper). Set what is missing, or choose another web (--search, --visit)",
        ),
    ],
)
def test_missing_variables_are_named_in_one_error_with_the_options_of_the_command(
    wanted: dict[str, list[str]], options: dict[str, Any], problem: str
) -> None:
    given = {"options": "--all NAME", **options}
    with pytest.raises(UsageError) as raised:
        resolve_all(wanted, load_catalogue(None), {}, **given)
    assert str(raised.value) == f"missing in the environment: {problem}"
