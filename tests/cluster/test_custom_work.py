"""Custom roles in several processes: their files are found, and models that they ask for at work get shared lanes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from asking_runs import ANSWER, Models, asking
from asking_runs import planned as asking_plan
from custom_roles import COMMAND, FUNCTION, command, script
from fake_provider import FakeProvider, Settings
from fake_web import served
from small_cluster import Link

from cts_async.cluster.head import run_on_cluster
from cts_async.cluster.work import CampaignWork, portable_players
from cts_async.cluster.worker import Setup
from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.custom.sources import custom_role, remember_function
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.run import run_plan

PATH = {"PATH": "/usr/bin:/bin"}


def planned(name: str, config: Path, folder: str) -> Plan:
    asked = RunConfig(
        models=(name,),
        every_role="baseline",
        ks=(2,),
        limit=3,
        references=(),
        runs_dir=config.parent / folder,
    )
    return make_plan(asked, load_catalogue(config), PATH)


def configured(directory: Path, url: str = "http://127.0.0.1:9/v1") -> Path:
    config = directory / "cts.toml"
    config.write_text(f'[models.fake]\nbase_url = "{url}"\nmodel = "fake-1"\n')
    return config


def function(folder: Path) -> str:
    script(folder, "my_lab.py", FUNCTION)
    return "my_lab.py:ask"


def process(folder: Path) -> str:
    script(folder, "ask.py", COMMAND)
    return command(Path("ask.py"))


class Elsewhere:
    """Workers in this loop, in a directory of their own."""

    address = ""
    workers = 1

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def start_worker(self, setup: Setup) -> Link:
        os.chdir(self._directory)
        return Link(setup, SimpleNamespace(seed=0, delay_s=0.0))


@pytest.mark.parametrize("made", [function, process])
def test_role_named_by_a_relative_path_gives_the_same_results_in_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[Path], str]
) -> None:
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(there)
    name = made(there)

    async def main() -> None:
        async with FakeProvider(Settings()) as provider:
            config = configured(tmp_path, provider.url)
            local, apart = planned(name, config, "local"), planned(name, config, "apart")
            await run_plan(local, PATH, Events())
            await run_on_cluster(Elsewhere(elsewhere), apart, PATH, Events())
        (alone,), (together,) = local.systems.values(), apart.systems.values()
        read = lambda directory, file: sorted((directory / file).read_bytes().splitlines())  # noqa: E731
        assert read(alone, "results.jsonl") == read(together, "results.jsonl")
        steps = [
            {orjson.loads(line)["key"] for line in read(one, "steps.jsonl")} for one in (alone, together)
        ]
        assert steps[0] == steps[1]
        asked = [line for line in read(together, "steps.jsonl") if b"clarify/llm/1" in line]
        assert len(asked) == 3, "through a lane that was opened while the worker was at it"

    asyncio.run(main())


FAILING_FUNCTION = """
from cts_async import role

@role("clarifier")
def ask(view):
    raise LookupError("no such thing")
"""
FAILING_COMMAND = """
import json, sys

for line in sys.stdin:
    print('{"id": "' + json.loads(line)["id"] + '", "questions": ' + "[" * 300 + "]" * 300 + "}", flush=True)
"""


def failing_function(folder: Path) -> str:
    script(folder, "my_lab.py", FAILING_FUNCTION)
    return "my_lab.py:ask"


def failing_process(folder: Path) -> str:
    script(folder, "ask.py", FAILING_COMMAND)
    return command(Path("ask.py"))


@pytest.mark.parametrize("made", [failing_function, failing_process])
def test_failure_of_a_role_names_it_in_a_worker_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[Path], str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = made(tmp_path)

    async def main() -> None:
        config = configured(tmp_path)
        local, apart = planned(name, config, "local"), planned(name, config, "apart")
        await run_plan(local, PATH, Events())
        await run_on_cluster(Elsewhere(tmp_path), apart, PATH, Events())
        (alone,), (together,) = local.systems.values(), apart.systems.values()
        lines = [sorted((run / "results.jsonl").read_bytes().splitlines()) for run in (alone, together)]
        assert lines[0] == lines[1]
        for line in lines[1]:
            assert orjson.loads(line)["error"]["message"].startswith(f"{name}: ")

    asyncio.run(main())


@pytest.mark.parametrize("reply", ["no", "Possibly."])
@pytest.mark.parametrize("agent", ["agent", "baseline"])
def test_agent_asks_the_user_in_a_worker_as_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, reply: str
) -> None:
    """A model and code, also where the reply has another form, which fails the instance."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"agent": agent, "replies": "yes-no", "min_asks": 1}

    async def main() -> tuple[Path, Path]:
        models = Models([asking("In winter?"), ANSWER], lambda question: reply)
        async with served(models.serve) as base:
            runs: list[Path] = []
            for folder in ("local", "apart"):
                plan = asking_plan(tmp_path, base, **options, runs_dir=tmp_path / folder)
                runs += plan.systems.values()
                if folder == "local":
                    await run_plan(plan, PATH, Events())
                else:
                    await run_on_cluster(Elsewhere(elsewhere), plan, PATH, Events())
        return runs[0], runs[1]

    alone, together = asyncio.run(main())
    (line,) = (together / "results.jsonl").read_bytes().splitlines()
    assert (alone / "results.jsonl").read_bytes().splitlines() == [line]
    result = orjson.loads(line)
    if reply == "no":
        assert [ask["reply"] for ask in result["asks"]] == ["no"]
    else:
        assert result["error"]["step"] == "search/ask/1"
    keys = [[record["key"] for record in read_records(run / "steps.jsonl")] for run in (alone, together)]
    assert keys[0] == keys[1]


def test_a_file_that_has_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    path = script(tmp_path, "my_lab.py", FUNCTION)
    work = CampaignWork.from_plan(planned(f"{path}:ask", configured(tmp_path), "runs"))
    (file,) = (file for file in work.files if file.path == path)
    file.check()
    path.write_text(FUNCTION + "# changed\n")
    with pytest.raises(UsageError, match=r"my_lab\.py is missing here, or is not the file"):
        file.check()


def test_a_function_of_this_process_cannot_travel() -> None:
    def ask(view: object) -> list[str]:
        return []

    player = custom_role(remember_function(ask, {}), "clarifier")
    with pytest.raises(UsageError, match="python:ask: exists in this process only"):
        portable_players({"ask": {"clarifier": player}})
