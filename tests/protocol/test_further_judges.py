"""A further judge's file goes on with the model that began it: another under the same name is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typed_commands import Cts, typed

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.run_dir import read_manifest, write_json
from cts_async.errors import InputError, UsageError
from cts_async.protocol.run_files import FURTHER, with_judges

GOLD = sample_dir() / "gold.jsonl"
PROMPTS = {"judge.en": "1a"}
MINE = {"model": {"model": "mine-1"}, "prompts": PROMPTS}
OTHER = {"model": {"model": "mine-2"}, "prompts": PROMPTS}
OF_A_RUN = {"identity": {"models": {"judge mine": MINE["model"]}, "prompts": {**PROMPTS, "agent.en": "2b"}}}


@pytest.fixture(scope="module")
def provider() -> Any:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def cts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    with typed(monkeypatch, capsys) as run:
        yield run


def configure(url: str, model: str) -> None:
    """`first`, and `mine` which is `model`."""
    tables = [
        f'[models.{name}]\nbase_url = "{url}"\nmodel = "{id}"\n'
        for name, id in (("first", "first-1"), ("mine", model))
    ]
    Path("cts.toml").write_text("".join(tables))


def with_verdicts(directory: Path) -> Path:
    (directory / "judgments").mkdir()
    path = directory / "judgments" / "mine.jsonl"
    path.write_text('{"id": "q1"}\n')
    return path


@pytest.mark.parametrize("manifest", [{FURTHER: {"mine": MINE}}, OF_A_RUN])
def test_a_name_is_one_model_as_long_as_its_verdicts_are_there(
    tmp_path: Path, manifest: dict[str, Any]
) -> None:
    path = with_verdicts(tmp_path)
    assert with_judges(tmp_path, manifest, {"mine": MINE}) == {"mine": MINE}
    with pytest.raises(UsageError, match='another mine: model.model was "mine-1", now "mine-2"'):
        with_judges(tmp_path, manifest, {"mine": OTHER})
    path.unlink()
    assert with_judges(tmp_path, manifest, {"mine": OTHER}) == {"mine": OTHER}


def test_other_prompts_are_another_judge(tmp_path: Path) -> None:
    with_verdicts(tmp_path)
    with pytest.raises(UsageError, match='another mine: prompts.judge.en was "1a", now "3c"'):
        with_judges(tmp_path, OF_A_RUN, {"mine": {**MINE, "prompts": {"judge.en": "3c"}}})


@pytest.mark.parametrize("manifest", [{}, {"identity": {}}, {**OF_A_RUN, "embedded": True}])
def test_what_nobody_noted_is_taken_as_it_is(tmp_path: Path, manifest: dict[str, Any]) -> None:
    with_verdicts(tmp_path)
    assert with_judges(tmp_path, manifest, {"mine": OTHER}) == {"mine": OTHER}


def test_judges_that_are_not_asked_now_stay_noted(tmp_path: Path) -> None:
    assert with_judges(tmp_path, {FURTHER: {"mine": MINE}}, {"other": OTHER}) == {
        "mine": MINE,
        "other": OTHER,
    }


def test_a_note_that_somebody_broke_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {FURTHER: {"mine": "mine-1"}})
    with pytest.raises(InputError, match="field 'further_judges': has to be an object of judges"):
        read_manifest(tmp_path)


def judged_run(cts: Cts) -> list[str]:
    """The command that has another judge look at a run."""
    words = ["--all", "first", "--no-orig", "--name", "r", "--limit", "3", "-q"]
    assert cts("run", *words).code == 0
    return ["judge", "runs/r"]


def candidates(cts: Cts) -> list[str]:
    """The command that has two judges look at candidates."""
    ids = [json.loads(line)["id"] for line in GOLD.read_text(encoding="utf-8").splitlines()[:3]]
    rows = [json.dumps({"id": id, "answer": f"About {id}."}) + "\n" for id in ids]
    Path("c.jsonl").write_text("".join(rows))
    return ["judge", "--gold", str(GOLD), "--candidates", "c.jsonl", "--out", "runs/r", "--judge", "first"]


@pytest.mark.parametrize("made", [judged_run, candidates])
def test_a_model_that_takes_over_a_judges_name_does_not_go_on_with_its_file(
    cts: Cts, provider: Remote, made: Any
) -> None:
    configure(provider.url, "mine-1")
    command = [*made(cts), "--judge", "mine", "-q"]
    assert cts(*command, "--limit", "2").code == 0
    file = Path("runs/r/judgments/mine.jsonl")
    before, asked = file.read_bytes(), len(provider.seen())
    configure(provider.url, "mine-2")
    done = cts(*command)
    assert done.code == 2
    assert done.err == (
        'cts: runs/r/judgments/mine.jsonl has verdicts of another mine: model.model was "mine-1", now "mine-2". '
        "Use another name for the new judge, or move that file away to judge again\n"
    )
    assert (file.read_bytes(), len(provider.seen())) == (before, asked)
    configure(provider.url, "mine-1")
    assert cts(*command).code == 0
    assert len(file.read_bytes().splitlines()) == 3
