"""A gold with bad lines, and candidates whose ids clash with it: refused with the option that helps, then used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typer.testing import CliRunner, Result

from cts_async.cli.main import app
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.errors import InputError, UsageError

ROWS = [json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text().splitlines()]
SECOND, THIRD = ROWS[1]["id"], ROWS[2]["id"]


@pytest.fixture(scope="module")
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def here(tmp_path: Path, provider: Remote, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a model `mine`, and a gold whose second line has no nuggets and whose third lacks a weight."""
    (tmp_path / "cts.toml").write_text(f'[models.mine]\nbase_url = "{provider.url}"\nmodel = "mine-1"\n')
    rows = json.loads(json.dumps(ROWS))
    rows[1]["gold"]["nuggets"] = []
    del rows[2]["gold"]["nuggets"][0]["weight"]
    write(tmp_path / "gold.jsonl", rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def cts(*command: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in command])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


RUN = ("run", "--all", "mine", "--judge", "lexical", "--no-orig", "--name", "r", "--gold", "gold.jsonl")


def test_a_run_leaves_out_the_instances_of_bad_gold_and_says_which(here: Path) -> None:
    with pytest.raises(InputError, match=r"gold.jsonl:2: field 'gold.nuggets': is empty.*--skip-bad-gold"):
        cts(*RUN, "--limit", 3)
    done = cts(*RUN, "--limit", 3, "--skip-bad-gold")
    assert done.exit_code == 0
    assert f"gold lines left out (--skip-bad-gold): 2: {SECOND} (line 2, " in done.stderr
    names = [line["id"] for line in lines(here / "runs/r/results.jsonl")]
    assert len(names) == 3
    assert not {SECOND, THIRD} & set(names)
    data = json.loads((here / "runs/r/run.json").read_bytes())["data"]
    assert data["skip_bad_gold"] is True
    assert f"{THIRD} (line 3, " in data["notes"][0]
    # What opens the run's data again reads that gold in the same way.
    assert cts("audit", "runs/r").exit_code == 0
    assert cts("judge", "runs/r", "--judge", "mine", "-q").exit_code == 0
    assert len(lines(here / "runs/r/judgments/mine.jsonl")) == 3
    assert cts(*RUN, "--limit", 3, "--skip-bad-gold").exit_code == 0


def test_a_run_whose_gold_is_sound_records_nothing_of_it(here: Path) -> None:
    write(here / "gold.jsonl", ROWS)
    assert cts(*RUN, "--limit", 1).exit_code == 0
    assert "skip_bad_gold" not in json.loads((here / "runs/r/run.json").read_bytes())["data"]


def test_candidates_of_bad_gold_are_left_out_and_counted(here: Path) -> None:
    write(here / "c.jsonl", [{"id": row["id"], "answer": "About nine."} for row in ROWS[:4]])
    command = (
        "judge",
        "--gold",
        "gold.jsonl",
        "--candidates",
        "c.jsonl",
        "--out",
        "out",
        "--judge",
        "lexical",
    )
    with pytest.raises(InputError, match="--skip-bad-gold"):
        cts(*command)
    done = cts(*command, "--skip-bad-gold")
    assert f"gold lines left out (--skip-bad-gold): 2: {SECOND} (line 2, " in done.stderr
    assert "2 of 4 answers are left out" in done.stderr
    assert [line["id"] for line in lines(here / "out/per_item.jsonl")] == [ROWS[0]["id"], ROWS[3]["id"]]


def test_candidates_may_be_joined_by_id_whatever_their_query(here: Path, provider: Remote) -> None:
    write(here / "gold.jsonl", ROWS)
    write(
        here / "c.jsonl",
        [{"id": row["id"], "query": "rewritten", "answer": "About nine."} for row in ROWS[:2]],
    )
    command = (
        "judge",
        "--gold",
        "gold.jsonl",
        "--candidates",
        "c.jsonl",
        "--out",
        "out",
        "--judge",
        "mine",
        "-q",
    )
    with pytest.raises(InputError, match="the ids clash: .*--join id joins by the id"):
        cts(*command)
    provider.set(keep=True)
    asked = len(provider.seen())
    assert cts(*command, "--join", "id").exit_code == 0
    assert [line["id"] for line in lines(here / "out/per_item.jsonl")] == [row["id"] for row in ROWS[:2]]
    said = [str(request.messages) for request in provider.seen()[asked:]]
    for row, prompt in zip(
        ROWS[:2], sorted(said, key=lambda text: ROWS[1]["fused_query"] in text), strict=True
    ):
        assert row["fused_query"] in prompt
        assert "rewritten" not in prompt
    write(here / "c.jsonl", [{"id": row["id"], "answer": "About nine."} for row in ROWS[:2]])
    with pytest.raises(UsageError, match='join was "id", now null'):
        cts(*command)


@pytest.mark.parametrize("option", [("--join", "id"), ("--skip-bad-gold",)])
def test_what_concerns_candidates_is_refused_beside_runs(here: Path, option: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=option[0]):
        cts("judge", "runs/r", "--judge", "mine", *option)
