"""The list of models on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.protocol.systems import ModelEntry, entry, model_list
from cts_async.report.models import limit_text, price_text, print_model, print_models, short_count

ENVIRON = {"OPENAI_API_KEY": "sk-secret"}
CATALOGUE = load_catalogue()


def listed(width: int) -> str:
    out = io.StringIO()
    print_models(Console(file=out, width=width, color_system=None), model_list(CATALOGUE, ENVIRON))
    return out.getvalue()


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
    claude = in_full(entry(CATALOGUE, "claude", ENVIRON))
    assert claude["key"] == "ANTHROPIC_API_KEY, not set"
    assert claude["missing"] == "set ANTHROPIC_API_KEY"
    assert claude["address"] == "https://api.anthropic.com/v1 (Anthropic messages API)"
    assert claude["parameters"] == "temperature = 0.0, max_tokens = 4096"
    gpt = in_full(entry(CATALOGUE, "gpt", ENVIRON))
    assert (gpt["key"], gpt["missing"]) == ("OPENAI_API_KEY, set", "nothing")
    assert gpt["parameters"] == "reasoning_effort = none, temperature = 0.0"
    assert gpt["never sent"].startswith("top_p, top_k")
    webdancer = in_full(entry(CATALOGUE, "webdancer", ENVIRON))
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
