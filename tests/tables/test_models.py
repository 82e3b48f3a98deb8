"""The list of models on a terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from cts_async.llm.catalog import Catalogue, ModelSpec, load_catalogue
from cts_async.tables.models import (
    ModelEntry,
    limit_text,
    model_entries,
    model_json,
    price_text,
    print_model,
    print_models,
    short_count,
)

ENVIRON = {"OPENAI_API_KEY": "sk-secret"}
CATALOGUE = load_catalogue()


def listed(width: int) -> str:
    out = io.StringIO()
    print_models(Console(file=out, width=width, color_system=None), model_entries(CATALOGUE, ENVIRON))
    return out.getvalue()


def one(name: str, catalogue: Catalogue = CATALOGUE, environ: Mapping[str, str] = ENVIRON) -> ModelEntry:
    (found,) = model_entries(catalogue, environ, name)
    return found


def in_full(found: ModelEntry) -> dict[str, str]:
    out = io.StringIO()
    print_model(Console(file=out, width=200, color_system=None), found)
    rows = (line.strip().split("  ", 1) for line in out.getvalue().splitlines()[1:] if line.strip())
    return {name.strip(): value.strip() for name, value in rows}


@pytest.mark.parametrize("width", [80, 160])
def test_every_model_lists_its_requirements(width: int) -> None:
    lines = listed(width).splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    assert "…" not in "".join(lines)
    for model in CATALOGUE.models.values():
        assert any(line.startswith(f"{model.name} ") and model.model in line for line in lines)
        assert model.key_env is None or any(line.rstrip().endswith(model.key_env) for line in lines)
    assert "sk-secret" not in listed(width)
    assert "Ready: gpt" in listed(width)


def test_single_model_lists_missing_variables() -> None:
    claude = in_full(one("claude", CATALOGUE, ENVIRON))
    assert claude["key"] == "ANTHROPIC_API_KEY, not set"
    assert claude["missing"] == "set ANTHROPIC_API_KEY"
    assert claude["address"] == "https://api.anthropic.com/v1 (Anthropic messages API)"
    assert claude["parameters"] == "temperature = 0.0, max_tokens = 4096"
    gpt = in_full(one("gpt", CATALOGUE, ENVIRON))
    assert (gpt["key"], gpt["missing"]) == ("OPENAI_API_KEY, set", "nothing")
    assert gpt["parameters"] == "reasoning_effort = none, temperature = 0.0"
    assert gpt["never sent"].startswith("top_p, top_k")
    webdancer = in_full(one("webdancer", CATALOGUE, ENVIRON))
    assert webdancer["address"] == "where WEBDANCER_BASE_URL says (OpenAI style)"
    assert webdancer["key"] == "none needed"


@pytest.mark.parametrize(
    ("value", "text"), [(500.0, "500"), (30_000.0, "30k"), (1_500_000.0, "1.5M"), (128_000.0, "128k")]
)
def test_large_numbers_are_abbreviated(value: float, text: str) -> None:
    assert short_count(value) == text


def test_unknown_limits_and_prices_are_stated() -> None:
    spec = ModelSpec("m", "openai", "http://h/v1", "m-1", None, "m", 8)
    assert limit_text(spec) == "no known limit, 8 at once"
    assert price_text(spec) == "price unknown"
    priced = ModelSpec(
        "m", "openai", "http://h/v1", "m-1", None, "m", 8, input_usd_per_mtok=0.6, output_usd_per_mtok=14.0
    )
    assert price_text(priced) == "$0.60 in, $14 out per million tokens"


def test_all_models_are_listed_with_what_each_lacks() -> None:
    found = {entry.name: entry for entry in model_entries(CATALOGUE, {"OPENAI_API_KEY": "sk-1"})}
    assert found.keys() == CATALOGUE.models.keys()
    assert (found["gpt"].ready, found["gpt"].key_set, found["gpt"].missing) == (True, True, ())
    assert (found["claude"].ready, found["claude"].missing) == (False, ("ANTHROPIC_API_KEY",))
    assert (found["webdancer"].key_set, found["webdancer"].missing) == (None, ("WEBDANCER_BASE_URL",))


def test_models_of_cts_toml_are_listed_with_their_roles(tmp_path: Path) -> None:
    path = tmp_path / "cts.toml"
    table = '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n'
    path.write_text(table + '[roles]\njudge = "gpt:gpt-4.1"\nagent = "mine"\n')
    found = {entry.name: entry for entry in model_entries(load_catalogue(path), ENVIRON)}
    assert (found["mine"].roles, found["mine"].shipped) == (("agent",), False)
    assert (found["gpt:gpt-4.1"].roles, found["gpt:gpt-4.1"].spec.model) == (("judge",), "gpt-4.1")
    assert found["webdancer"].roles == ()


def test_json_has_everything_but_the_key() -> None:
    claude = one("claude", environ={"ANTHROPIC_API_KEY": "sk-secret"})
    row = orjson.loads(orjson.dumps(model_json(claude)))
    assert "sk-secret" not in str(row)
    assert (row["key_set"], row["ready"], row["missing"], row["problem"]) == (True, True, [], None)
    assert (row["api"], row["base_url"]) == ("anthropic", "https://api.anthropic.com/v1")
    assert row["limits"]["requests_per_min"] == 50
    assert row["prices"] == {"input": 3.0, "output": 15.0, "cached": 0.3, "cache_write": 3.75}
    assert row["params"] == {"temperature": 0.0, "max_tokens": 4096}
    assert "top_p" in row["drops"]
    assert row["source"] == "shipped"
