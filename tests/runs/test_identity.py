"""Whether a run may be resumed with given settings, and how differences are described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cts_async.runs.directory import write_json
from cts_async.runs.identity import differences, resumed_identity
from cts_async.runs.manifest import require_manifest

IDENTITY: dict[str, Any] = {
    "system": "gpt",
    "k": 3,
    "models": {"clarifier": {"model": "gpt", "temperature": 0.0}, "agent": {"model": "qwen"}},
    "prompts": {"judge.en": "a"},
    "judges": ["gpt", "claude"],
    "current_date": None,
}


def test_settings_that_differ_are_named_with_both_values() -> None:
    assert list(differences(IDENTITY, IDENTITY)) == []
    current = {
        **IDENTITY,
        "k": 5,
        "models": {"clarifier": {"model": "gpt", "temperature": 1.0}},
        "judges": ["gpt"],
        "current_date": "2026-01-01",
        "seed": "b" * 500,
    }
    assert list(differences(IDENTITY, current)) == [
        'current_date was null, now "2026-01-01"',
        'judges was ["gpt","claude"], now ["gpt"]',
        "k was 3, now 5",
        f'seed was null, now "{"b" * 56}...',
        'models.agent was {"model":"qwen"}, now null',
        "models.clarifier.temperature was 0.0, now 1.0",
    ]


def test_plain_differences_come_first_and_nested_ones_are_limited() -> None:
    prompts = {f"cot.{n}": "a" for n in range(5)}
    recorded = {"prompts": prompts, "scheme": "cot", "k": 3}
    assert list(differences(recorded, {"prompts": {}, "scheme": "at-cot", "k": 3})) == [
        'scheme was "cot", now "at-cot"',
        'prompts.cot.0 was "a", now null',
        'prompts.cot.1 was "a", now null',
        'prompts.cot.2 was "a", now null',
        "2 more of prompts",
    ]


@pytest.mark.parametrize("embedded", [False, True])
def test_prompts_for_small_models_matter_to_the_embedded_model_alone(tmp_path: Path, embedded: bool) -> None:
    """Versions up to 0.7 recorded their digests for every model."""
    recorded = IDENTITY | {"prompts": {"judge.en": "a", "judge.small.en": "b"}}
    write_json(tmp_path / "run.json", {"identity": recorded, "embedded": embedded})
    resumed = resumed_identity(require_manifest(tmp_path), IDENTITY)
    if embedded:
        assert resumed is None
    else:
        assert resumed == recorded


def test_field_that_is_null_is_as_one_that_is_absent(tmp_path: Path) -> None:
    recorded = {name: value for name, value in IDENTITY.items() if name != "current_date"}
    write_json(tmp_path / "run.json", {"identity": recorded})
    manifest = require_manifest(tmp_path)
    assert resumed_identity(manifest, IDENTITY) == IDENTITY
    assert resumed_identity(manifest, IDENTITY | {"k": 1}) is None
