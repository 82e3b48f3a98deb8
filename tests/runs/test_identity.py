"""Whether a run may be resumed with given settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async import __version__
from cts_async.errors import UsageError
from cts_async.runs.directory import write_json
from cts_async.runs.identity import check_identity

IDENTITY = {
    "system": "gpt",
    "k": 3,
    "models": {"clarifier": {"model": "gpt", "temperature": 0.0}, "agent": {"model": "qwen"}},
    "judges": ["gpt", "claude"],
    "current_date": None,
}


def test_the_same_run_agrees_and_settings_that_differ_are_named_with_both_values(tmp_path: Path) -> None:
    check_identity(tmp_path, IDENTITY)
    write_json(tmp_path / "run.json", {"identity": IDENTITY})
    check_identity(tmp_path, IDENTITY)
    now = {
        **IDENTITY,
        "k": 5,
        "models": {"clarifier": {"model": "gpt", "temperature": 1.0}},
        "judges": ["gpt"],
        "current_date": "2026-01-01",
        "seed": "b" * 500,
    }
    with pytest.raises(UsageError) as raised:
        check_identity(tmp_path, now)
    said = str(raised.value)
    for difference in (
        "k was 3, now 5",
        "models.clarifier.temperature was 0.0, now 1.0",
        'models.agent was {"model":"qwen"}, now null',
        'judges was ["gpt","claude"], now ["gpt"]',
        'current_date was null, now "2026-01-01"',
        f'seed was null, now "{"b" * 56}...',
    ):
        assert difference in said
    assert "system" not in said
    assert "models.clarifier.model" not in said
    assert str(tmp_path) in said
    assert "--name" in said


def test_plain_differences_come_first_and_nested_ones_are_limited(tmp_path: Path) -> None:
    prompts = {f"cot.{n}": "a" for n in range(5)}
    write_json(tmp_path / "run.json", {"identity": {"prompts": prompts, "scheme": "cot", "k": 3}})
    with pytest.raises(UsageError) as raised:
        check_identity(tmp_path, {"prompts": {}, "scheme": "at-cot", "k": 3})
    assert (
        'with different settings: scheme was "cot", now "at-cot"; prompts.cot.0 was "a", now null; '
        'prompts.cot.1 was "a", now null; prompts.cot.2 was "a", now null; 2 more of prompts. Use --name'
    ) in str(raised.value)


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("0.6.0", r"finish it with the version that began it: cts-async==0\.6\.0$"),
        *(
            (version, "repeat the original options to resume$")
            for version in (__version__, None, 6, "0.6; rm -rf ~")
        ),
    ],
)
def test_refusal_names_another_version_that_began_the_run(tmp_path: Path, version: object, hint: str) -> None:
    write_json(tmp_path / "run.json", {"identity": {"k": 1}, "version": version})
    with pytest.raises(UsageError, match=hint):
        check_identity(tmp_path, {"k": 3})
