"""Whole runs with models of every habit: the messages API, reasoning, refusals, a model served for another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fake_provider import THOUGHTS, FakeProvider, Settings

from cts_async.config import RunConfig
from cts_async.engine.events import Event, Events
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan
from cts_async.report.summary import summarise_run, write_summary

N = 2
KEY = "sk-right-0123456789"
CLARIFIED, ORIG = 6, 3
"""Calls for an instance: clarify, answer, rewrite, two turns, judge; and two turns, judge."""
CLAUDE = '[models.claude]\nbase_url = "{url}"\nrequests_per_min = 60000\ntokens_per_min = 60000000\n'
CHAT = '[models.claude]\napi = "openai"\nbase_url = "{url}"\nrequests_per_min = 60000\ntokens_per_min = 60000000\n'


class Ran:
    """A run that has ended: its files, what was said meanwhile, and the provider."""

    def __init__(self, directory: Path, provider: FakeProvider, said: list[Event]) -> None:
        self.provider, self.said = provider, said
        self.results = [self._lines(directory, system, "results.jsonl") for system in ("orig", "claude-k1")]
        self.steps = self._lines(directory, "claude-k1", "steps.jsonl")
        self.summary = write_summary(summarise_run(directory / "runs" / "sample-claude-k1+all-claude"))

    @staticmethod
    def _lines(directory: Path, system: str, name: str) -> list[dict[str, Any]]:
        path = directory / "runs" / f"sample-{system}+all-claude" / name
        return sorted(map(json.loads, path.read_text().splitlines()), key=lambda line: line.get("id", ""))


def ran(directory: Path, toml: str = CLAUDE, **settings: Any) -> Ran:
    """Run the sample world's first instances with `claude` in every role."""
    said: list[Event] = []
    provider = FakeProvider(Settings(key=KEY, **settings))

    async def main() -> None:
        async with provider:
            config = directory / "cts.toml"
            config.write_text(toml.format(url=provider.url))
            asked = RunConfig(models=("claude",), every_role="claude", limit=N, runs_dir=directory / "runs")
            environ = {"ANTHROPIC_API_KEY": KEY}
            plan = make_plan(asked, load_catalogue(config), environ)
            await run_plan(plan, environ, Events(said.append))

    asyncio.run(main())
    return Ran(directory, provider, said)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("plain"))


def test_claude_plays_every_role_over_the_messages_api(plain: Ran) -> None:
    assert (plain.summary["n_scored"], plain.summary["n_failed"]) == (N, 0)
    assert [seen.fault for seen in plain.provider.seen] == [""] * N * (CLARIFIED + ORIG)
    assert plain.summary["calls"] == N * CLARIFIED
    assert plain.summary["tokens"].keys() == {"claude-sonnet-4-5-20250929"}


@pytest.mark.parametrize("toml", [CLAUDE, CHAT])
@pytest.mark.parametrize("where", ["apart", "in the text"])
def test_what_a_model_thinks_changes_nothing_and_is_kept(
    plain: Ran, tmp_path: Path, toml: str, where: str
) -> None:
    thinker = ran(tmp_path, toml, thoughts=where)
    assert thinker.results == plain.results
    for step in thinker.steps:
        if "model" in step and not (where == "in the text" and step["step"].startswith("search/")):
            assert step["response"]["reasoning"] == THOUGHTS
            assert THOUGHTS not in step["response"]["text"]


@pytest.mark.parametrize("toml", [CLAUDE, CHAT])
def test_a_refusal_fails_its_instance_at_once_and_is_no_score(tmp_path: Path, toml: str) -> None:
    refused = ran(tmp_path, toml, refuses="judge")
    for line in (*refused.results[0], *refused.results[1]):
        assert line["error"]["kind"] == "refused"
        assert "refuses" in line["error"]["message"]
        assert "restore_score_100" not in line
    assert (refused.summary["n_scored"], refused.summary["n_failed"], refused.summary["mean"]) == (0, N, None)
    assert len(refused.provider.seen) == N * (CLARIFIED + ORIG), "nobody asks again"
    judged = [step for step in refused.steps if step["step"].startswith("judge/")]
    assert all(step["usage"]["input"] > 0 for step in judged), "a refusal is charged all the same"
