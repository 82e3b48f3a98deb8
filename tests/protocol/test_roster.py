"""What a model needs and whether it is there, without a look at any key."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, load_catalogue
from cts_async.protocol.systems import Entry, as_json, entry, model_list

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
