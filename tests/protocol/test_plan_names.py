"""Run directories of a trial with the embedded model and of what is run after it, in the same folder of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.config import RunConfig
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan


@pytest.fixture
def embedded(tmp_path: Path) -> dict[str, str]:
    """An environment with an embedded model that nobody starts."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    return {"CTS_LOCAL_MODEL": str(file)}


def names(config: RunConfig, environ: dict[str, str]) -> list[str]:
    plan = make_plan(config, load_catalogue(None), environ, keyless=True)
    return [directory.name for directory in plan.systems.values()]


def test_the_embedded_models_trial_leaves_the_usual_names_to_what_follows(embedded: dict[str, str]) -> None:
    trial, real = names(RunConfig(), embedded), names(RunConfig(models=("gpt",), ks=(3,)), embedded)
    assert trial == ["sample-orig+all-local", "sample-local-k1"]
    assert real == ["sample-orig", "sample-gpt-k3"]


def test_a_system_is_called_the_same_whatever_it_is_compared_with(embedded: dict[str, str]) -> None:
    alone = names(RunConfig(models=("local",)), embedded)
    with_gpt = names(RunConfig(models=("local", "gpt")), embedded)
    # Beside a hosted Clarifier the paper's models answer, search and judge for the embedded one, too.
    assert with_gpt == [
        "sample-orig",
        "sample-local-k1+support-ernie+agent-webdancer+judge-ernie",
        "sample-gpt-k1",
    ]
    assert not set(alone) & set(with_gpt)
