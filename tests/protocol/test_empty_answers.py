"""Searches that end without an answer: failed, or scored 0 where that was asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import fake_roles
import pytest
from fake_provider import FakeProvider, Settings

from cts_async.config import RunConfig
from cts_async.engine import runner
from cts_async.engine.events import Events
from cts_async.engine.run_dir import read_manifest
from cts_async.engine.step import RetryPolicy
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.audit import audit_run
from cts_async.protocol.plan import make_plan
from cts_async.protocol.results import latest_results
from cts_async.protocol.run import run_plan
from cts_async.records import EmptyAnswers
from cts_async.report.summary import summarise_run, write_summary
from cts_async.scorer import score_file

N, SILENT = 3, "s02"


@pytest.fixture(autouse=True)
def _silent_about_enrolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent searches for the sample's second query, and then has nothing but thoughts."""
    usual = fake_roles._ANSWERS["agent"]

    def agent(asked: str, messages: fake_roles.Messages, unknown_share: float) -> str:
        said = usual(asked, messages, unknown_share)
        silent = "how to enrol a child" in asked and "<answer>" in said
        return "<think>I cannot say.</think>" if silent else said

    monkeypatch.setattr(fake_roles, "_ANSWERS", {**fake_roles._ANSWERS, "agent": agent})
    monkeypatch.setattr(runner, "RetryPolicy", lambda: RetryPolicy(base_s=0.01, cap_s=0.05, patience_s=0.0))


def played(folder: Path, empty_answers: EmptyAnswers) -> tuple[Path, dict[str, Any], int]:
    """A run of one Clarifier: its directory, what is in its summary, and how often judges were asked."""

    async def main() -> tuple[Path, dict[str, Any], int]:
        async with FakeProvider(Settings()) as provider:
            config = folder / "cts.toml"
            config.write_text(f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\n')
            asked = RunConfig(
                models=("fake",),
                every_role="fake",
                references=(),
                limit=N,
                runs_dir=folder / "runs",
                empty_answers=empty_answers,
            )
            plan = make_plan(asked, load_catalogue(config), {})
            await run_plan(plan, {}, Events())
            (directory,) = plan.systems.values()
            n_judged = sum(request.role == "judge" for request in provider.seen)
            return directory, write_summary(summarise_run(directory)), n_judged

    return asyncio.run(main())


def test_a_search_without_an_answer_fails_unless_told_otherwise(tmp_path: Path) -> None:
    directory, summary, _ = played(tmp_path, "fail")
    line = latest_results(directory / "results.jsonl")[SILENT]
    assert (line["error"]["step"], line["error"]["kind"]) == ("search/turn/2", "unusable_output")
    assert (summary["n_scored"], summary["n_failed"]) == (N - 1, 1)
    assert "empty_answers" not in (read_manifest(directory) or {})["identity"]


def test_a_search_without_an_answer_is_scored_0_without_a_judge(tmp_path: Path) -> None:
    directory, summary, n_judged = played(tmp_path, "zero")
    line = latest_results(directory / "results.jsonl")[SILENT]
    assert (line["answer"], line["restore_score_100"]) == ("", 0.0)
    assert {nugget["coverage"] for nugget in line["nuggets"]} == {"none"}
    assert line["questions"]
    assert (line["search"]["model_calls"], line["search"]["searches"]) == (2, 1)
    assert n_judged == N - 1
    assert (summary["n_scored"], summary["n_failed"], summary["min"]) == (N, 0, 0.0)
    assert summary["judges"]["lexical"]["n_scored"] == N
    assert summary["mean"] == score_file(directory / "results.jsonl").mean
    assert not [finding for finding in audit_run(directory).findings if finding.instance == SILENT]


def test_that_choice_belongs_to_the_run(tmp_path: Path) -> None:
    directory, _, _ = played(tmp_path, "zero")
    assert (read_manifest(directory) or {})["identity"]["empty_answers"] == "zero"
    _, summary, n_judged = played(tmp_path, "zero")
    assert (summary["n_scored"], n_judged) == (N, 0)
    with pytest.raises(UsageError, match="empty_answers"):
        played(tmp_path, "fail")
