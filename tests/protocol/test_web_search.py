"""Whole searches of a small web: kept, counted, resumed, replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import unused_port
from fake_small_web import PAGE, FakeModels, FakeWeb, call_text

from cts_async.analysis.summary import summarise_run
from cts_async.config import RunConfig
from cts_async.engine import runner
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.engine.step import RetryPolicy
from cts_async.errors import ProviderDown, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.model import Client
from cts_async.protocol.audit import audit_run
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan
from cts_async.runs.open_run import whole_run
from cts_async.runs.results import latest_results
from cts_async.runs.trace import whole_events
from cts_async.tables.summary import write_summary

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

    port = unused_port()

    def run(web: FakeWeb, models: FakeModels, **options: Any) -> Path:
        web.port = port

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
                await run_plan(plan, {}, Events())
                write_summary(summarise_run(directory))
                return directory

        return asyncio.run(main())

    return run


Search = Callable[..., Path]


def health_of(directory: Path) -> Any:
    return orjson.loads((directory / "summary.json").read_bytes())["tool_health"]


def test_search_of_the_web_is_recorded_counted_and_scored(search: Search) -> None:
    web, models = FakeWeb(GONE), FakeModels()
    directory = search(web, models)
    assert models.asked == {role: n * N for role, n in PER_SEARCH.items()}
    lines = latest_results(directory / "results.jsonl").values()
    assert [line["restore_score_100"] for line in lines] == [100.0] * N
    assert [line["answer"] for line in lines] == ["At nine."] * N
    records = [record for record in read_records(directory / "steps.jsonl") if record["ok"]]
    pages = [record["response"] for record in records if "/page/" in record["step"]]
    assert pages == [{"url": "https://a.example/1", "title": "Ferry", "text": PAGE.strip()}] * N
    visits = [record for record in records if record["step"] == "visit/2.1/1"]
    assert len(visits) == N
    assert all(PAGE[:20] not in str(record["request"]) for record in visits)
    for line in lines:
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


class NeverEnds(FakeModels):
    """Its agent searches for something else in every turn."""

    def _say(self, messages: Any) -> tuple[str, str]:
        role, text = super()._say(messages)
        if role == "agent":
            query = f"ferry {len(messages)}"
            text = call_text("search", query=[query])
        return role, text


@pytest.mark.parametrize("empty_answers", ["fail", "zero"])
def test_searches_that_may_end_without_an_answer_are_counted_and_never_scored_silently(
    search: Search, empty_answers: Any
) -> None:
    models = NeverEnds()
    options = {"agent_mode": "as-published", "max_turns": 3, "empty_answers": empty_answers}
    directory = search(FakeWeb(), models, **options)
    # Three turns for each instance; nobody judges what is not there.
    assert models.asked == {"agent": 3 * N}
    summary = orjson.loads((directory / "summary.json").read_bytes())
    assert summary["unanswered"] == {"n": N, "share": 1.0}
    assert any(
        "2 searches (100.0% of the instances) ended without an answer" in text for text in summary["notices"]
    )
    lines = list(latest_results(directory / "results.jsonl").values())
    if empty_answers == "fail":
        assert [line["error"]["kind"] for line in lines] == ["no_answer"] * N
        assert (summary["n_scored"], summary["n_failed"]) == (0, N)
    else:
        assert [(line["answer"], line["search"]["unanswered"]) for line in lines] == [("", True)] * N
        assert summary["mean"] == 0.0
    assert audit_run(directory).held
    opened = whole_run(directory, journal=True)
    assert opened is not None
    kinds = [event.kind for event in whole_events(opened, lines[0]["id"])]
    assert kinds == ["think", "search", "think", "search", "think", "unanswered"]
    # The same command again pays nothing.
    search(FakeWeb(), models, **options)
    assert models.asked == {"agent": 3 * N}


# --- Resuming


@pytest.mark.parametrize("role", ["visit", "judge"])
def test_a_run_that_was_stopped_repeats_no_search_and_fetches_no_page_twice(
    search: Search, role: str
) -> None:
    """Stopped between a fetch and its reading, or after the last answer: what worked is asked for once."""
    first, second = FakeWeb(GONE), FakeWeb(GONE)
    with pytest.raises(ProviderDown):
        search(first, before := FakeModels(stop_at=role, error=ProviderDown("gone")))
    models = FakeModels()
    directory = search(second, models)
    worked = [asked for asked in first.asked if "gone" not in asked]
    assert sum(first.asked[asked] for asked in worked) == 2 * N
    assert [asked for asked in second.asked if asked in worked] == []
    assert before.asked["agent"] + models.asked["agent"] == PER_SEARCH["agent"] * N
    assert health_of(directory)["visits"]["asked"] == 3 * N


def test_a_web_that_has_recovered_makes_no_other_conversation(search: Search) -> None:
    """The agent went on from a failed search: a resumed run does not tell it otherwise, nor pays for its turns again."""
    with pytest.raises(ProviderDown):
        search(FakeWeb(GONE), FakeModels(stop_at="visit", error=ProviderDown("gone")))
    well, models = FakeWeb(), FakeModels()
    directory = search(well, models)
    # The failed query was answered by the agent's second turn; the failed pages by none yet.
    assert not any(asked.startswith("search") for asked in well.asked)
    assert models.asked["agent"] == N
    health = health_of(directory)
    assert (health["searches"]["worked"], health["visits"]["worked"]) == (0.5, 1.0)


# --- Replaying


def without_web() -> FakeWeb:
    return FakeWeb({"": 500})


def test_a_replayed_run_asks_nothing_of_the_web_and_finds_the_same(search: Search) -> None:
    first = search(FakeWeb(GONE), FakeModels(), name="first")
    web = without_web()
    # Neither --search nor --visit: as the run that is replayed.
    second = search(web, FakeModels(), name="second", replay=(first,), search=None, visit=None)
    third = search(web, FakeModels(), name="third", replay=(second,), search=None, visit=None)
    assert web.asked == {}
    before, *others = ([*latest_results(d / "results.jsonl").values()] for d in (first, second, third))
    for lines in others:
        assert [line["answer"] for line in lines] == [line["answer"] for line in before]
        assert [line["search"]["tools"]["searches"] for line in lines] == [2] * N
    told = health_of(third)["failures"]
    assert {(f["tool"], f["reason"], f["n"]) for f in told} == {
        ("search", "not recorded", N),
        ("visit", "not recorded", N),
    }


def test_run_of_the_name_of_the_replayed_one_is_another_version(search: Search) -> None:
    first = search(FakeWeb(GONE), FakeModels(), name="first")
    before = (first / "steps.jsonl").read_bytes()
    again = search(without_web(), FakeModels(), name="first", replay=(first,))
    assert again != first
    assert (first / "steps.jsonl").read_bytes() == before
    with pytest.raises(UsageError, match=r"not a run directory: steps.jsonl not found"):
        search(without_web(), FakeModels(), name="x", replay=(first.parent / "nowhere",))


def test_a_replayed_search_of_documents_still_reads_them_from_the_disk(search: Search) -> None:
    own = {"search": None, "visit": None, "visit_model": None}
    first = search(without_web(), FakeModels(), name="first", **own)
    models = FakeModels()
    second = search(without_web(), models, name="second", replay=(first,), **{**own, "visit_model": "m"})
    journal = [record for record in read_records(second / "steps.jsonl") if record["ok"]]
    assert any("/query/" in record["step"] for record in journal)
    assert not any("text" in record["response"] for record in journal if "/page/" in record["step"])
