"""The summary of verdicts that a cluster has made is that of the files, which it need not read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_provider import FakeProvider, Settings
from small_cluster import Link

from cts_async.analysis.summary import summarise_runs
from cts_async.cluster.head import run_on_cluster
from cts_async.cluster.work import JudgingWork
from cts_async.cluster.worker import Setup
from cts_async.config import JudgeConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Event, Events, JobEnded
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol import answers
from cts_async.protocol.rejudge import JudgePlan, plan_judging
from cts_async.tables.summary import summary_json
from cts_async.watch.live import LiveFile
from cts_async.watch.progress import Progress, RunGroup

N = 8


class InThisLoop:
    """Two workers in this event loop."""

    address, workers = "", 2

    async def start_worker(self, setup: Setup) -> Link:
        return Link(setup, SimpleNamespace(seed=0, delay_s=0.0))


def planned(folder: Path, url: str, *, n_failed: int) -> JudgePlan:
    (folder / "cts.toml").write_text(
        f'[models.fake]\nbase_url = "{url}"\nmodel = "fake-1"\ninput_usd_per_mtok = 1.0\n'
    )
    gold = [json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text().splitlines()][:N]
    rows = []
    for i, record in enumerate(gold):
        answer = "" if i < n_failed else f"Ferry {i}."
        rows.append(json.dumps({"id": f"a{i}", "fused_query": record["fused_query"], "answer": answer}))
    (folder / "candidates.jsonl").write_text("\n".join(rows))
    config = JudgeConfig(
        judges=("fake",),
        gold=sample_dir() / "gold.jsonl",
        candidates=str(folder / "candidates.jsonl"),
        out=folder / "out",
    )
    return plan_judging(config, load_catalogue(folder / "cts.toml"), {})


@pytest.mark.parametrize("faults", [{}, {"half": 0.7}], ids=["well", "faults"])
@pytest.mark.parametrize("n_failed", [0, 2])
def test_summary_of_a_cluster_is_that_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_failed: int, faults: dict[str, float]
) -> None:
    """Lines are dealt unread where no answer is missing, and parsed by the head where one is."""
    monkeypatch.setattr(answers, "KEPT_BYTES", 0)

    async def main() -> JudgePlan:
        async with FakeProvider(Settings(faults=faults, served_model="fake-1-2026")) as provider:
            plan = planned(tmp_path, provider.url, n_failed=n_failed)
            assert (plan.targets[0].answers.lines is None) == (n_failed > 0)
            await run_on_cluster(InThisLoop(), plan, {}, Events())
            return plan

    plan = asyncio.run(main())
    work = JudgingWork.from_plan(plan)
    assert work.plan.written.spent() == {}, "what was written does not travel to workers that come later"
    assert plan.written.results(tmp_path / "out" / "per_item.jsonl") is not None
    assert list(plan.written.spent()) == [tmp_path / "out" / "steps.jsonl"]
    (made,) = summarise_runs(plan.directories(), plan.written)
    (read,) = summarise_runs(plan.directories())
    assert summary_json(made) == summary_json(read)
    assert made.spent == read.spent
    assert made.spent.calls >= N - n_failed
    assert list(made.failures) == list(read.failures)
    assert len(list(made.failures)) >= n_failed


@pytest.mark.parametrize("logged", [False, True])
def test_progress_of_a_cluster_counts_each_end_whoever_else_listens(tmp_path: Path, logged: bool) -> None:
    """Ends come as sums, unless somebody asks for each, as the log of events does."""
    seen: list[Event] = []

    async def main() -> LiveFile:
        async with FakeProvider(Settings(served_model="fake-1-2026")) as provider:
            plan = planned(tmp_path, provider.url, n_failed=2)
            group = plan.group("fake")
            progress = Progress([RunGroup(group, N, (tmp_path,))])
            subscribers = [progress, seen.append] if logged else [progress]
            await run_on_cluster(InThisLoop(), plan, {}, Events(*subscribers))
            return progress.live()

    live = asyncio.run(main())
    assert [live["n_done"], live["n_failed"], live["calls"], live["replayed"]] == [N, 2, N - 2, 0]
    assert live["tokens"] > 0
    assert sum(worker["done"] for worker in live["workers"]) == N
    assert sum(worker["calls"] for worker in live["workers"]) == N - 2
    n_logged = N if logged else 0
    assert sum(isinstance(event, JobEnded) for event in seen) == n_logged
