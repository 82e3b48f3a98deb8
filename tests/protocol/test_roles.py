"""Who plays which role: options over --all over cts.toml over the paper; everything missing at once."""

from __future__ import annotations

import pytest

from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.systems import choose_roles, default_players, resolve_all

NOTHING = {"support": None, "judges": (), "agent": None, "every_role": None}


def test_the_papers_fixed_roles_are_the_default_of_a_remote_clarifier() -> None:
    roles = choose_roles(["gpt"], {}, **NOTHING)
    assert (roles.support, roles.judges, roles.agent) == ("ernie", ("ernie",), "webdancer")


def test_the_embedded_clarifier_needs_nobody_else() -> None:
    roles = choose_roles(["local"], {}, **NOTHING)
    assert (roles.support, roles.judges, roles.agent) == ("local", ("local",), "local")


def test_without_a_clarifier_the_papers_roles_are_the_default_too() -> None:
    assert choose_roles([], {}, **NOTHING).agent == "webdancer"


def test_an_option_wins_over_all_over_the_file() -> None:
    file = {"support": "kimi", "judge": "kimi", "agent": "kimi"}
    roles = choose_roles(["gpt"], file, support="qwen", judges=(), agent=None, every_role=None)
    assert (roles.support, roles.judges, roles.agent) == ("qwen", ("kimi",), "kimi")
    roles = choose_roles(["gpt"], file, support="qwen", judges=("lexical",), agent=None, every_role="claude")
    assert (roles.support, roles.judges, roles.agent) == ("qwen", ("lexical",), "claude")


def test_all_missing_variables_are_named_at_once_with_what_else_would_work() -> None:
    wanted = {"gpt": ["model"], "ernie": ["support", "judge"], "webdancer": ["agent"]}
    with pytest.raises(UsageError) as raised:
        resolve_all(wanted, load_catalogue(None), {}, options="--all NAME")
    message = str(raised.value)
    for word in ("OPENAI_API_KEY", "QIANFAN_API_KEY", "WEBDANCER_BASE_URL", "--all local"):
        assert word in message
    assert "\n" not in message


def test_the_lexical_judge_needs_no_model() -> None:
    assert resolve_all({"lexical": ["judge"]}, load_catalogue(None), {}, options="") == {}


def test_what_would_work_instead_is_what_the_command_offers() -> None:
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


def test_who_plays_what_where_nobody_says_otherwise() -> None:
    assert default_players({}) == {
        "clarifier": "local",
        "support": "ernie",
        "judge": "ernie",
        "agent": "webdancer",
    }
    mine = default_players({"judge": "gpt:gpt-4.1", "extractor": "kimi"})
    assert (mine["judge"], mine["extractor"], mine["support"]) == ("gpt:gpt-4.1", "kimi", "ernie")


def test_every_kind_of_api_is_spoken() -> None:
    specs = resolve_all({"claude": ["model"]}, load_catalogue(None), {"ANTHROPIC_API_KEY": "x"}, options="")
    assert specs["claude"].api == "anthropic"
