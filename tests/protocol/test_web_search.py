"""Whole searches of a small web: kept, counted, resumed, replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from fake_web import PAGE, FakeModels, FakeWeb

from cts_async.config import RunConfig
from cts_async.engine import runner
from cts_async.engine.events import Events
from cts_async.engine.journal import read_jsonl
from cts_async.engine.retry import RetryPolicy
from cts_async.errors import ProviderDown, ProviderRefused, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.client import Client
from cts_async.protocol.campaign import run_campaign
from cts_async.protocol.plan import make_plan
from cts_async.protocol.results import latest_results
from cts_async.report.summary import summarise_run, write_summary

N = 2
GONE = {"ferry gone": 422, "gone": 404}
PER_SEARCH = {"agent": 3, "visit": 1, "judge": 1}
"""Calls of one instance: two tool calls and the answer; of three pages, one is there to be read."""


@pytest.fixture(autouse=True)
def _fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Run or resume `orig` over N instances; gives the run directory. Raises what `cts run` would report."""

    def run(web: FakeWeb, models: FakeModels, **options: Any) -> Path:
        async def chat(client: object, spec: Any, request: Any) -> Any:
            return await models(client, spec, request)

        monkeypatch.setattr(Client, "chat", chat)

        async def main() -> Path:
            async with web:
                config = tmp_path / "cts.toml"
                model = '[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "model-1"\n'
                config.write_text(model + web.table)
                asked = RunConfig(
                    models=("m",),
                    every_role="m",
                    search="fake",
                    visit="fake",
                    limit=N,
                    runs_dir=tmp_path / "runs",
                    config_file=config,
                )
                asked = replace(asked, **options)
                plan = make_plan(asked, load_catalogue(config), {})
                plan = replace(plan, systems={s: d for s, d in plan.systems.items() if s.kind == "orig"})
                (directory,) = plan.systems.values()
                await run_campaign(plan, {}, Events())
                write_summary(summarise_run(directory))
                return directory

        return asyncio.run(main())

    return run


Search = Callable[..., Path]


def health_of(directory: Path) -> Any:
    return orjson.loads((directory / "summary.json").read_bytes())["tool_health"]


def test_a_search_of_the_web_is_kept_counted_and_scored(search: Search) -> None:
    web, models = FakeWeb(GONE), FakeModels()
    directory = search(web, models)
    assert models.asked == {role: n * N for role, n in PER_SEARCH.items()}
    lines = latest_results(directory / "results.jsonl").values()
    assert [line["restore_score_100"] for line in lines] == [100.0] * N
    assert [line["answer"] for line in lines] == ["At nine."] * N
    records = [record for record in read_jsonl(directory / "steps.jsonl") if record["ok"]]
    pages = [record["response"] for record in records if "/page/" in record["step"]]
    assert pages == [{"url": "https://a.example/1", "title": "Ferry", "text": PAGE.strip()}] * N
    visits = [record for record in records if record["step"] == "visit/2.1/1"]
    assert len(visits) == N
    assert all(PAGE[:20] not in str(record["request"]) for record in visits)


def test_tool_health_is_counted_exactly_and_stands_beside_the_scores(search: Search) -> None:
    directory = search(FakeWeb(GONE), FakeModels())
    for line in latest_results(directory / "results.jsonl").values():
        assert line["search"]["tools"] == {
            "searches": 2,
            "visits": 3,
            "failed": [
                {"tool": "search", "host": "127.0.0.1", "reason": "http 422", "n": 1},
                {"tool": "visit", "host": "a.example", "reason": "http 404", "n": 1},
                {"tool": "visit", "host": "b.example", "reason": "http 404", "n": 1},
            ],
            "lexical": 0,
        }
    health = health_of(directory)
    assert health["searches"] == {"asked": 2 * N, "failed": N, "worked": 0.5}
    assert health["visits"]["worked"] == pytest.approx(1 / 3)
    assert {(f["tool"], f["host"], f["n"]) for f in health["failures"]} == {
        ("search", "127.0.0.1", N),
        ("visit", "a.example", N),
        ("visit", "b.example", N),
    }
