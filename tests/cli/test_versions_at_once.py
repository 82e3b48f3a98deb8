"""Two commands that make one version at the same time, and runs that version 0.13 began."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from real_run import RealRun
from typed_commands import cts_in

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.run import run_plan
from cts_async.runs.manifest import manifest_of

ORIG = "sample-orig+all-fake"


@pytest.fixture
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def here(tmp_path: Path, provider: Remote) -> Path:
    RealRun(tmp_path, ()).configure(provider.url)
    return tmp_path


def planned(here: Path, seed: int) -> Plan:
    config = RunConfig(
        models=(), references=("orig",), every_role="fake", limit=3, seed=seed, runs_dir=here / "runs"
    )
    return make_plan(config, load_catalogue(here / "cts.toml"), {})


def execute(plan: Plan) -> None:
    asyncio.run(run_plan(plan, {}, Events()))


def test_version_whose_directory_another_command_took_is_refused_in_one_line(
    here: Path, provider: Remote
) -> None:
    execute(planned(here, 0))
    first, second, same = planned(here, 1), planned(here, 2), planned(here, 1)
    (directory,) = first.directories()
    assert directory == here / f"runs/{ORIG}.v2"
    assert [directory] == list(second.directories()) == list(same.directories())
    execute(first)
    before = (directory / "run.json").read_bytes()
    with pytest.raises(UsageError) as refused:
        execute(second)
    assert str(refused.value) == (
        f"{directory}: another command has begun a run of other settings there just now; run the same command again"
    )
    assert (directory / "run.json").read_bytes() == before
    # Again, it has a version of its own; and the same settings resume what is there.
    assert [path.name for path in planned(here, 2).directories()] == [f"{ORIG}.v3"]
    n_seen = len(provider.seen())
    execute(same)
    assert len(provider.seen()) == n_seen
    assert len(manifest_of(directory).sessions) == 2


def test_two_processes_of_one_command_make_one_version(here: Path, provider: Remote) -> None:
    execute(planned(here, 0))
    provider.set(latency_s=0.5)
    words = ("--all", "fake", "-m", "fake", "-k", "1", "--limit", "3", "-q", "--no-orig")
    processes = [RealRun(here, words).fork() for _ in range(2)]
    endings = sorted((process.communicate(timeout=120)[1], process.returncode) for process in processes)
    codes = [code for _, code in endings]
    assert sorted(codes) == [0, 2]
    (error,) = [text for text, code in endings if code == 2]
    assert error.count("\n") == 1
    assert "is writing this run" in error
    assert "Traceback" not in error
    keys = [
        record["key"] for path in (here / "runs").iterdir() for record in read_records(path / "steps.jsonl")
    ]
    assert len(keys) == len(set(keys))


RUN = ("run", "-m", "fake", "--all", "fake", "-k", "1", "--limit", "4", "--name", "mine", "-q")


def test_named_run_of_0_13_and_its_orig_are_resumed_byte_for_byte_and_take_nothing(
    here: Path, provider: Remote
) -> None:
    assert cts_in(here, *RUN).returncode == 0
    runs = here / "runs"
    assert {path.name for path in runs.iterdir()} == {"mine", ORIG}
    mine = runs / "mine"
    # As 0.13 left it, interrupted half way; beside it a complete run that has all of the steps.
    shutil.copytree(runs, here / "complete")
    (runs / ORIG).rename(runs / "mine-orig")
    halves: dict[Path, bytes] = {}
    for directory in (mine, runs / "mine-orig"):
        manifest = json.loads((directory / "run.json").read_bytes())
        for name in ("run_version", "lineage", "reuses"):
            manifest.pop(name, None)
        (directory / "run.json").write_text(json.dumps(manifest))
        (directory / "results.jsonl").unlink()
        lines = (directory / "steps.jsonl").read_bytes().splitlines(keepends=True)
        halves[directory / "steps.jsonl"] = half = b"".join(lines[: len(lines) // 2])
        (directory / "steps.jsonl").write_bytes(half)
    shutil.move(here / "complete", runs / "complete")
    n_seen = len(provider.seen())
    assert cts_in(here, *RUN).returncode == 0
    assert {path.name for path in runs.iterdir()} == {mine.name, "mine-orig", "complete"}
    assert len(provider.seen()) > n_seen
    for path, half in halves.items():
        assert path.read_bytes().startswith(half)
        assert b'"reused"' not in path.read_bytes()
    for directory in (mine, runs / "mine-orig"):
        assert len(list(read_records(directory / "results.jsonl"))) == 4
        assert manifest_of(directory).reuses is None
        steps: list[dict[str, Any]] = list(read_records(directory / "steps.jsonl"))
        complete = list(
            read_records(runs / "complete" / (directory.name.replace("mine-orig", ORIG)) / "steps.jsonl")
        )
        assert {step["key"] for step in steps} == {step["key"] for step in complete}


def test_date_of_yesterday_is_kept_until_another_is_typed(here: Path, provider: Remote) -> None:
    yesterday = ("--date", "2026-01-02")
    assert cts_in(here, *RUN, *yesterday).returncode == 0
    n_seen = len(provider.seen())
    # The same command, and another system over the same data, by the same agent.
    assert cts_in(here, *RUN).returncode == 0
    assert len(provider.seen()) == n_seen
    other = ("run", "-m", "fake", "--all", "fake", "-k", "2", "--limit", "4")
    done = cts_in(here, *other)
    assert done.returncode == 0
    assert "The date in the agent's prompt is 2026-01-02" in done.stderr
    dates = {path.name: manifest_of(path).identity.current_date for path in (here / "runs").iterdir()}
    assert set(dates.values()) == {"2026-01-02"}
    # Another system at another date makes a version of orig; what was there before stays at its own.
    later = ("run", "-m", "fake", "--all", "fake", "-k", "3", "--limit", "4", "-q", "--date", "2026-01-05")
    assert cts_in(here, *later).returncode == 0
    assert manifest_of(here / f"runs/{ORIG}.v2").identity.current_date == "2026-01-05"
    n_seen = len(provider.seen())
    assert cts_in(here, *RUN).returncode == 0
    assert cts_in(here, *later[:-2]).returncode == 0
    assert len(provider.seen()) == n_seen
    assert len(list((here / "runs").iterdir())) == 5
