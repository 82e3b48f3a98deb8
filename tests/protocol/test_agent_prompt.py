"""Which prompt and which date the deep-search agent gets: the choice, what a run records of it, and what is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fake_provider import FakeProvider, Settings

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.engine.run_dir import read_manifest
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.prompts import load_prompts
from cts_async.protocol.run import run_plan
from cts_async.records import AgentPrompt

PROMPTS = load_prompts()
TODAY = "2031-05-01"


def planned(**options: Any) -> Plan:
    asked = RunConfig(models=("gpt",), no_judge=True, **options)
    return make_plan(asked, load_catalogue(None), {}, keyless=True)


def identity(plan: Plan) -> dict[str, Any]:
    return plan.identity(next(iter(plan.systems)))  # orig: of all roles it has the agent alone


def agent_prompts(plan: Plan) -> list[str]:
    return [name for name in identity(plan)["prompts"] if name.startswith("agent")]


def test_webdancer_gets_its_native_prompt_and_the_run_records_it() -> None:
    plan = planned()
    assert plan.roles.agent == "webdancer"
    assert identity(plan)["agent_prompt"] == "native"
    assert agent_prompts(plan) == ["agent.native"]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("native", ["agent.native"]),
        ("en", ["agent.en", "agent.small.en"]),
        ("zh", ["agent.small.zh", "agent.zh"]),
        ("query", ["agent.en", "agent.small.en", "agent.small.zh", "agent.zh"]),
    ],
)
def test_the_option_wins_over_the_catalogue(choice: AgentPrompt, names: list[str]) -> None:
    assert agent_prompts(planned(agent_prompt=choice)) == names
    assert agent_prompts(planned(agent="gpt", agent_prompt=choice)) == names


def test_the_native_prompt_has_the_layout_of_webdancer_s_training() -> None:
    """Principles and date in the system message; format, tools and example in front of the question."""
    system, user = PROMPTS.agent("native", "q").render(question="Who?", current_date=TODAY)
    assert system["content"].endswith(f"\n\nCurrent date: {TODAY}")
    assert "# Tools" not in system["content"]
    assert user["content"].index("# Tools\n") < user["content"].index("Example:\n")
    assert user["content"].endswith("\n\nUser: Who?")


def played(folder: Path, **options: Any) -> tuple[list[str], dict[str, Any]]:
    """The agent's opening system messages of a run of `orig` on one instance, and the run's identity."""

    async def main() -> tuple[list[str], dict[str, Any]]:
        async with FakeProvider(Settings(keep=True)) as provider:
            config = folder / "cts.toml"
            config.write_text(f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\n')
            asked = RunConfig(models=(), every_role="fake", limit=1, runs_dir=folder / "runs", **options)
            plan = make_plan(asked, load_catalogue(config), {})
            await run_plan(plan, {}, Events())
            (directory,) = plan.systems.values()
            said = [request.messages[0]["content"] for request in provider.seen if request.role == "agent"]
            return said, (read_manifest(directory) or {})["identity"]

    return asyncio.run(main())


def test_the_date_asked_for_is_in_the_prompt_and_stays_that_of_the_run(tmp_path: Path) -> None:
    said, recorded = played(tmp_path, date="2019-07-04")
    assert said
    assert all("Current date: 2019-07-04" in text for text in said)
    assert recorded["current_date"] == "2019-07-04"
    # Resumed on another day, without the option: everything is remembered under the same date.
    assert played(tmp_path) == ([], recorded)
