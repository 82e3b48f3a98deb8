"""The compared systems, their run names, and the models that play their roles."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from cts_async.config import RunConfig
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, load_catalogue
from cts_async.protocol.systems import (
    Entry,
    RoleNames,
    System,
    as_json,
    choose_roles,
    default_players,
    entry,
    mark,
    model_list,
    resolve_all,
    run_names,
    systems_of,
)
from cts_async.records import MODES, SCHEMES, Mode, Scheme


def clarifying(model: str, *ks: int, **more: Any) -> RunConfig:
    return RunConfig(models=(model,), ks=ks, references=(), **more)


def test_references_come_first_then_every_clarifier_with_every_k() -> None:
    systems = systems_of(RunConfig(models=("gpt", "claude", "gpt"), ks=(1, 3)))
    assert [system.label for system in systems] == ["orig", "gpt-k1", "gpt-k3", "claude-k1", "claude-k3"]


def test_label_names_scheme_and_mode_that_differ_from_the_benchmark() -> None:
    systems = systems_of(clarifying("org/m", 3, schemes=("cts", "at-cot"), modes=("at-once", "respond")))
    assert [system.label for system in systems] == ["org_m-k3", "org_m-at-cot-k3", "org_m-at-cot-respond-k3"]
    assert [system.converses for system in systems] == [False, True, True]
    assert not any(system.converses for system in (System("orig"), System("gold")))


def test_labels_of_systems_are_distinct() -> None:
    systems = systems_of(RunConfig(models=("gpt", "gpt-cot"), ks=(1, 2), schemes=SCHEMES, modes=MODES))
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
def test_scheme_or_mode_without_any_system_is_refused(
    schemes: list[Scheme], modes: list[Mode], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        systems_of(clarifying("gpt", 1, schemes=tuple(schemes), modes=tuple(modes)))
    assert said in str(caught.value)


def test_every_at_cot_scheme_has_every_mode() -> None:
    systems = systems_of(clarifying("gpt", 1, schemes=SCHEMES[1:], modes=MODES))
    assert [(system.scheme, system.mode) for system in systems] == list(product(SCHEMES[1:], MODES))


def test_default_run_name_is_data_and_system() -> None:
    systems = systems_of(RunConfig(models=("gpt",), ks=(3,)))
    assert list(run_names(systems, "hard518", None).values()) == ["hard518-orig", "hard518-gpt-k3"]


def test_chosen_name_belongs_to_a_single_clarifier() -> None:
    systems = systems_of(RunConfig(models=("gpt",), ks=(3,)))
    assert list(run_names(systems, "hard518", "mine").values()) == ["mine-orig", "mine"]


def test_chosen_name_is_a_prefix_for_several_clarifiers() -> None:
    systems = systems_of(clarifying("gpt", 1, 2))
    assert list(run_names(systems, "hard518", "mine").values()) == ["mine-gpt-k1", "mine-gpt-k2"]


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
    assert mark(ORIG, chosen, PAPER, judged=True) == orig
    assert mark(GPT, chosen, PAPER, judged=True) == gpt


def test_mark_ignores_judges_of_a_run_without_judging() -> None:
    assert mark(GPT, RoleNames("ernie", ("kimi",), "webdancer"), PAPER, judged=False) == ""
    assert mark(ORIG, RoleNames("kimi", ("kimi",), "kimi"), PAPER, judged=False) == "+agent-kimi"


def test_mark_follows_the_system_and_a_chosen_name_has_none() -> None:
    hosted = RoleNames("kimi:org/k2", ("kimi:org/k2",), "kimi:org/k2")
    marks = {ORIG: "+all-kimi", GPT: mark(GPT, hosted, PAPER, judged=True)}
    names = run_names([ORIG, GPT], "sample", None, marks)
    assert list(names.values()) == ["sample-orig+all-kimi", "sample-gpt-k3+all-kimi_org_k2"]
    assert list(run_names([ORIG, GPT], "sample", "mine", marks).values()) == ["mine-orig", "mine"]


# --- Which model plays which role


def test_remote_clarifier_has_the_papers_fixed_roles_by_default() -> None:
    roles = choose_roles(RunConfig(models=("gpt",)), {})
    assert (roles.support, roles.judges, roles.agent) == ("ernie", ("ernie",), "webdancer")


def test_embedded_clarifier_plays_every_role_by_default() -> None:
    roles = choose_roles(RunConfig(), {})
    assert (roles.support, roles.judges, roles.agent) == ("local", ("local",), "local")


def test_references_have_the_papers_agent_by_default() -> None:
    assert choose_roles(RunConfig(models=()), {}).agent == "webdancer"


def test_option_wins_over_all_option_over_configuration_file() -> None:
    file = {"support": "kimi", "judge": "kimi", "agent": "kimi"}
    roles = choose_roles(RunConfig(models=("gpt",), support="qwen"), file)
    assert (roles.support, roles.judges, roles.agent) == ("qwen", ("kimi",), "kimi")
    config = RunConfig(models=("gpt",), support="qwen", judges=("lexical",), every_role="claude")
    roles = choose_roles(config, file)
    assert (roles.support, roles.judges, roles.agent) == ("qwen", ("lexical",), "claude")


def test_every_missing_variable_is_named_in_one_error() -> None:
    wanted = {"gpt": ["model"], "ernie": ["support", "judge"], "webdancer": ["agent"]}
    with pytest.raises(UsageError) as raised:
        resolve_all(wanted, load_catalogue(None), {}, options="--all NAME")
    message = str(raised.value)
    for word in ("OPENAI_API_KEY", "QIANFAN_API_KEY", "WEBDANCER_BASE_URL", "--all local"):
        assert word in message
    assert "\n" not in message


def test_lexical_judge_needs_no_model() -> None:
    assert resolve_all({"lexical": ["judge"]}, load_catalogue(None), {}, options="") == {}


def test_missing_variable_error_suggests_options_of_the_command() -> None:
    with pytest.raises(UsageError) as raised:
        resolve_all(
            {"ernie": ["judge"]}, load_catalogue(None), {}, options="--judge NAME", keyless="--judge lexical"
        )
    assert str(raised.value) == (
        "missing in the environment: QIANFAN_API_KEY (judge: ernie). Set what is missing, or choose models "
        "you have (--judge NAME), or try without any key: --judge lexical"
    )
    with pytest.raises(UsageError) as raised:
        resolve_all(
            {},
            load_catalogue(None),
            {},
            also_missing=["SERPER_API_KEY (tools: serper)"],
            options="--all NAME",
        )
    assert str(raised.value) == (
        "missing in the environment: SERPER_API_KEY (tools: serper). Set what is missing, or choose "
        "another web (--search, --visit)"
    )


def test_default_players_of_an_empty_configuration_file() -> None:
    assert default_players({}) == {
        "clarifier": "local",
        "support": "ernie",
        "judge": "ernie",
        "agent": "webdancer",
    }
    mine = default_players({"judge": "gpt:gpt-4.1", "extractor": "kimi"})
    assert (mine["judge"], mine["extractor"], mine["support"]) == ("gpt:gpt-4.1", "kimi", "ernie")


def test_resolved_model_has_its_kind_of_api() -> None:
    specs = resolve_all({"claude": ["model"]}, load_catalogue(None), {"ANTHROPIC_API_KEY": "x"}, options="")
    assert specs["claude"].api == "anthropic"


# --- What a model needs and whether it is there, without a look at any key.


MINE = """
[models.mine]
base_url = "http://127.0.0.1:9/v1"
base_url_env = "MINE_URL"
model = "m-1"
[models.kimi]
model = "kimi-k9"
[roles]
judge = "gpt:gpt-4.1"
agent = "mine"
"""


@pytest.fixture(scope="module")
def shipped() -> Catalogue:
    return load_catalogue()


@pytest.fixture
def own(tmp_path: Path) -> Catalogue:
    path = tmp_path / "cts.toml"
    path.write_text(MINE)
    return load_catalogue(path)


def by_name(entries: list[Entry]) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


def test_all_names_are_listed_with_what_each_lacks(shipped: Catalogue) -> None:
    found = by_name(model_list(shipped, {"OPENAI_API_KEY": "sk-1"}))
    names = "gpt claude gemini ernie qwen deepseek kimi local webdancer"
    assert list(found) == names.split()
    assert (found["gpt"].ready, found["gpt"].key_set, found["gpt"].missing) == (True, True, ())
    assert (found["claude"].ready, found["claude"].missing) == (False, ("ANTHROPIC_API_KEY",))
    assert (found["webdancer"].key_set, found["webdancer"].missing) == (None, ("WEBDANCER_BASE_URL",))


def test_the_roles_are_the_paper_s(shipped: Catalogue) -> None:
    found = by_name(model_list(shipped, {}))
    roles = {name: entry.roles for name, entry in found.items() if entry.roles}
    assert roles == {"ernie": ("support", "judge"), "local": ("clarifier",), "webdancer": ("agent",)}


def test_a_file_of_one_s_own_adds_models_and_roles(own: Catalogue) -> None:
    found = by_name(model_list(own, {}))
    assert list(found)[-2:] == ["mine", "gpt:gpt-4.1"]
    assert (found["mine"].roles, found["gpt:gpt-4.1"].roles) == (("agent",), ("judge",))
    assert found["gpt:gpt-4.1"].spec.model == "gpt-4.1"
    assert [name for name, entry in found.items() if not entry.shipped] == ["kimi", "mine"]


def test_the_environment_s_address_and_model_id_are_shown(shipped: Catalogue) -> None:
    environ = {"QIANFAN_BASE_URL": "http://127.0.0.1:9/v2", "EVAL_MODEL_NAME": "ernie-5"}
    spec = entry(shipped, "ernie", environ).spec
    assert (spec.base_url, spec.model) == ("http://127.0.0.1:9/v2", "ernie-5")


def test_an_address_that_is_none_is_a_problem_and_not_the_end_of_the_list(own: Catalogue) -> None:
    found = by_name(model_list(own, {"MINE_URL": "nowhere"}))["mine"]
    assert not found.ready
    assert found.problem == "MINE_URL is not an http(s) address"


def test_an_embedded_model_that_is_not_there_is_a_problem(shipped: Catalogue) -> None:
    found = entry(shipped, "local", {"CTS_LOCAL_MODEL": "/nowhere.gguf"})
    assert (found.ready, found.problem) == (False, "CTS_LOCAL_MODEL=/nowhere.gguf: no such file")


def test_an_unknown_name_is_refused_with_the_closest(shipped: Catalogue) -> None:
    with pytest.raises(UsageError, match="did you mean 'claude'"):
        entry(shipped, "cluade", {})


def test_json_has_everything_but_the_key(shipped: Catalogue) -> None:
    row = orjson.loads(orjson.dumps(as_json(entry(shipped, "claude", {"ANTHROPIC_API_KEY": "sk-secret"}))))
    assert "sk-secret" not in str(row)
    assert (row["key_set"], row["ready"], row["missing"], row["problem"]) == (True, True, [], None)
    assert (row["api"], row["base_url"]) == ("anthropic", "https://api.anthropic.com/v1")
    assert row["limits"]["requests_per_min"] == 50
    assert row["prices"] == {"input": 3.0, "output": 15.0}
    assert row["params"] == {"temperature": 0.0, "max_tokens": 4096}
    assert "top_p" in row["drops"]
    assert row["source"] == "shipped"
