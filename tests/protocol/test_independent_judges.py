"""Judges of a run are independent: one that fails, or whose provider is gone, changes nothing for the others."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audited_runs import write
from fake_provider import FakeProvider, Settings
from viewer_server import viewer

import cts_async
from cts_async.analysis.board import make_board
from cts_async.analysis.compare import leaderboard
from cts_async.analysis.summary import RunSummary, summarise_run
from cts_async.config import RunConfig
from cts_async.datasets import read_candidates
from cts_async.datasets.candidates import CandidateLine
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Event, Events, JobEnded, JobsFound
from cts_async.errors import ProviderRefused
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.audit import audit_run
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan
from cts_async.runs.finished import read_run
from cts_async.runs.results import latest_results
from cts_async.scorer import score_file
from cts_async.tables.export import export_runs
from cts_async.tables.summary import summary_json
from cts_async.watch.live import state_of_run

N = 4
BAD = "s02"
"""The instance whose judge declines to answer."""
QUERY = next(
    json.loads(line)["fused_query"]
    for line in (sample_dir() / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    if json.loads(line)["id"] == BAD
)
FAILS = {"refuses": "judge", "refuses_about": QUERY}
JUDGES = ("fake", "other")
MODELS = (("fake", ""), ("other", ""))


def run(
    directory: Path,
    settings: Settings | None = None,
    *,
    provided: tuple[tuple[str, str], ...] = MODELS,
    events: list[Event] | None = None,
    **options: Any,
) -> tuple[Path, Counter[str]]:
    """Run or resume orig with two judges: the run's directory, and the requests that were made, by role."""
    provider = FakeProvider(settings or Settings())

    async def main() -> Path:
        async with provider:
            tables = [
                f'[models.{name}]\nbase_url = "{provider.url}{path}"\nmodel = "{name}-1"\n'
                for name, path in provided
            ]
            (directory / "cts.toml").write_text("\n".join(tables))
            asked = RunConfig(
                models=("fake",), every_role="fake", judges=JUDGES, limit=N, runs_dir=directory / "runs"
            )
            plan = make_plan(
                replace(asked, references=(), **options), load_catalogue(directory / "cts.toml"), {}
            )
            plan = replace(plan, current_date="2033-01-15")
            await run_plan(plan, {}, Events((events if events is not None else []).append))
            return next(iter(plan.systems.values()))

    return asyncio.run(main()), Counter(request.role for request in provider.seen)


def the_run(directory: Path) -> Path:
    return next((directory / "runs").iterdir())


def lines(path: Path) -> dict[str, dict[str, Any]]:
    return latest_results(path)


def scored(summary: RunSummary) -> dict[str, tuple[int, int, int]]:
    """By judge: scored, failed, and of the failed those that the judge failed to label."""
    return {
        one.judge: (one.summary.n_scored, one.summary.n_failed, one.n_judge_failed) for one in summary.judges
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run where no judge fails."""
    return run(tmp_path_factory.mktemp("whole"))[0]


@pytest.fixture(scope="module")
def second_failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("second"), Settings(**FAILS, refusing_model="other-1"))[0]


@pytest.fixture(scope="module")
def first_failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("first"), Settings(**FAILS, refusing_model="fake-1"))[0]


def test_failure_of_the_second_judge_leaves_answer_and_score(whole: Path, second_failed: Path) -> None:
    assert lines(second_failed / "results.jsonl") == lines(whole / "results.jsonl")
    verdicts = lines(second_failed / "judgments/other.jsonl")
    assert verdicts.keys() == lines(whole / "judgments/other.jsonl").keys()
    failure = verdicts.pop(BAD)
    assert (failure["judge"], failure["error"]["step"], failure["error"]["kind"]) == (
        "other",
        "judge/other",
        "refused",
    )
    assert "restore_score_100" not in failure
    summary, all_judged = summarise_run(second_failed), summarise_run(whole)
    assert scored(summary) == {"fake": (N, 0, 0), "lexical": (N, 0, 0), "other": (N - 1, 1, 1)}
    assert summary.judges[0].summary == all_judged.judges[0].summary
    assert summary_json(summary)["judge_failures"] == {"other": 1}
    assert "judge_failures" not in summary_json(all_judged)
    assert [line["id"] for failures in summary.own_failures for line in failures] == [BAD]


def test_failure_of_the_first_judge_keeps_the_answer_and_the_other_labels(
    whole: Path, first_failed: Path
) -> None:
    assert lines(first_failed / "judgments/other.jsonl") == lines(whole / "judgments/other.jsonl")
    line, complete = lines(first_failed / "results.jsonl")[BAD], lines(whole / "results.jsonl")[BAD]
    error = line.pop("error")
    assert (error["step"], error["kind"]) == ("judge/fake", "refused")
    assert line == {
        name: value for name, value in complete.items() if name not in ("nuggets", "restore_score_100")
    }
    summary = summarise_run(first_failed)
    assert scored(summary) == {"fake": (N - 1, 1, 1), "lexical": (N, 0, 0), "other": (N, 0, 0)}
    assert (summary.n_unanswered, summary_json(summary)["judge_failures"]) == (0, {"fake": 1})
    assert score_file(first_failed / "results.jsonl").n_failed == 1
    # What was asked and answered counts all the same.
    assert summary.unknown_rate == summarise_run(whole).unknown_rate


@pytest.mark.parametrize(("model", "judge"), [("fake-1", "fake"), ("other-1", "other")])
def test_retry_asks_the_judge_that_failed_and_nobody_else(
    tmp_path: Path, whole: Path, model: str, judge: str
) -> None:
    path, _ = run(tmp_path, Settings(**FAILS, refusing_model=model))
    again, requests = run(tmp_path)
    assert (again, requests) == (path, Counter()), "a failure for good is not tried again by itself"
    events: list[Event] = []
    _, requests = run(tmp_path, retry_failed=True, events=events)
    assert requests == {"judge": 1}
    found = sum(event.jobs for event in events if isinstance(event, JobsFound))
    assert (found, sum(isinstance(event, JobEnded) for event in events)) == (N - 1, 1)
    for file in ("results.jsonl", f"judgments/{judge}.jsonl"):
        if (whole / file).exists():
            assert lines(path / file) == lines(whole / file)
            texts = {line["id"]: list(line) for line in lines(path / file).values()}
            assert texts == {line["id"]: list(line) for line in lines(whole / file).values()}, "fields' order"


@pytest.mark.parametrize("gone", JUDGES)
def test_judge_whose_provider_is_gone_stops_the_run_and_no_other_judge(
    tmp_path: Path, whole: Path, gone: str
) -> None:
    models = tuple((name, "/nowhere" * (name == gone and gone != "fake")) for name in JUDGES)
    options: dict[str, Any] = {}
    if gone == "fake":  # the first judge's model plays no other role: or nothing would be searched
        models, options = (("fake", "/nowhere"), ("other", "")), {"every_role": "other", "models": ("other",)}
    with pytest.raises(ProviderRefused, match=gone):
        run(tmp_path, provided=models, **options)
    path = the_run(tmp_path)
    answers = lines(path / "results.jsonl")
    assert len(answers) == N
    assert all(line["answer"] and "error" not in line for line in answers.values())
    kept = "other" if gone == "fake" else "fake"
    summary = summarise_run(path)
    states = scored(summary)
    assert (states[kept], states.get(gone, (0, 0, 0))) == ((N, 0, 0), (0, 0, 0))
    assert summary.unjudged == {gone: N}
    # No other judge's mean takes the place of the scoring judge's.
    assert summary_json(summary)["judge"] == "fake"
    assert (summary_json(summary)["mean"] is None) == (gone == "fake")
    assert {row["status"] for row in cts_async.load(path).instances} == {
        "unjudged" if gone == "fake" else "scored"
    }
    _, requests = run(tmp_path, **options)
    assert requests == {"judge": N}, "the same command adds the verdicts that are missing"
    assert scored(summarise_run(path)) == {"fake": (N, 0, 0), "lexical": (N, 0, 0), "other": (N, 0, 0)}
    assert state_of_run(path).state == "finished"
    _, requests = run(tmp_path, **options)
    assert not requests


def test_run_with_an_absent_verdict_is_not_called_finished(tmp_path: Path) -> None:
    with pytest.raises(ProviderRefused):
        run(tmp_path, provided=(("fake", ""), ("other", "/nowhere")))
    path = the_run(tmp_path)
    manifest = json.loads((path / "run.json").read_text())
    assert manifest["sessions"][-1]["stopped"]
    assert (state_of_run(path).state, state_of_run(path).n_done) == ("stopped", N)


def test_without_any_judge_nothing_is_searched_for_nobody(tmp_path: Path) -> None:
    options: dict[str, Any] = {"every_role": "mine", "models": ("mine",)}
    models = (("fake", "/nowhere"), ("other", "/elsewhere"), ("mine", ""))
    with pytest.raises(ProviderRefused):
        run(tmp_path, provided=models, in_flight=1, **options)
    assert not lines(the_run(tmp_path) / "results.jsonl"), "its first instance waits for a judge"
    _, requests = run(tmp_path, provided=(*MODELS, ("mine", "")), in_flight=1, **options)
    assert len(lines(the_run(tmp_path) / "results.jsonl")) == N
    assert requests["judge"] == 2 * N


# --- Whoever reads the run


def test_all_readers_count_the_failure_of_a_judge_for_that_judge(
    second_failed: Path, first_failed: Path, tmp_path: Path
) -> None:
    for path, failing, other in ((second_failed, "other", "fake"), (first_failed, "fake", "other")):
        one = read_run(path)
        assert (one.n_done, one.n_failed, one.judge_failures) == (N, 0, {failing: 1})
        assert (one.n_failed_under(failing), one.n_failed_under(other)) == (1, 0)
        board = make_board([read_run(path)])
        counts = {judge: leaderboard(board, judge, "")[0].scores for judge in JUDGES}
        assert (counts[failing].n_scored, counts[failing].n_failed) == (N - 1, 1)
        assert (counts[other].n_scored, counts[other].n_failed) == (N, 0)
        tables = cts_async.load(path)
        row = next(row for row in tables.instances if row["id"] == BAD)
        assert row["answer"]
        assert row["status"] == ("failed" if failing == "fake" else "scored")
        verdict = {row["judge"]: row for row in tables.judges if row["id"] == BAD}
        assert (verdict[failing]["score"], verdict[failing]["error_kind"]) == (None, "refused")
        assert verdict[other]["score"] is not None
        status = state_of_run(path)
        assert (status.n_failed, status.judge_failures) == (
            (1, {}) if failing == "fake" else (0, {"other": 1})
        )
        assert audit_run(path).held
        exported = tmp_path / failing
        remarks = export_runs([str(path)], "release", exported).remarks
        assert any("that fake failed to label" in remark for remark in remarks) == (failing == "fake")
        # An answer that one judge failed to label is a candidate like all others for the next.
        found = {one.candidate.id: one for one in read_candidates(path) if isinstance(one, CandidateLine)}
        assert found[BAD].candidate.answer == row["answer"]


@pytest.mark.parametrize("failing", ["other", "fake"])
def test_viewer_shows_the_other_judges_labels_and_why_one_failed(
    second_failed: Path, first_failed: Path, failing: str
) -> None:
    path = second_failed if failing == "other" else first_failed
    with viewer(path.parent) as asker:
        page = asker.get("instance", run=path.name, id=BAD)
        rows = {
            judge: asker.get("instances", run=path.name, judge=judge, sort="score")["rows"]
            for judge in JUDGES
        }
    assert page["answer"]
    assert failing not in [one["judge"] for one in page["scores"]]
    assert {"fake", "other", "lexical"} - {failing} == {one["judge"] for one in page["scores"]}
    (error,) = [page["error"]] if failing == "fake" else page["judge_errors"]
    assert (error["step"], error["kind"]) == (f"judge/{failing}", "refused")
    assert len(page["judge_errors"]) == (failing == "other")
    for judge, listed in rows.items():
        (row,) = [row for row in listed if row["id"] == BAD]
        assert (row["score"] is None) == (judge == failing)
        assert row["failed"] == ("refused" if judge == failing == "fake" else "")


# --- Runs of version 0.11, whose line of a failed judge has nothing but the error


def as_0_11(path: Path) -> None:
    """Make the instance's line what 0.11 wrote, and take its verdicts away: these were not written."""
    results = list(lines(path / "results.jsonl").values())
    failure = lines(path / "judgments/other.jsonl")[BAD]
    error = {"step": "judge/other", "kind": "refused", "message": failure["error"]["message"]}
    for line in results:
        if line["id"] == BAD:
            kept = {name: line[name] for name in ("id", "system", "fused_query", "blurred_query")}
            line.clear()
            line.update(kept, error=error)
    write(path / "results.jsonl", results)
    for judge in ("other", "lexical"):
        file = path / f"judgments/{judge}.jsonl"
        write(file, [line for line in lines(file).values() if line["id"] != BAD])


def test_lost_verdicts_of_an_old_run_are_named_and_come_back_for_one_call(
    tmp_path: Path, whole: Path
) -> None:
    path, _ = run(tmp_path, Settings(**FAILS, refusing_model="other-1"))
    as_0_11(path)
    assert scored(summarise_run(path))["fake"] == (N - 1, 1, 0)
    notes: list[Callable[[], list[str]]] = [
        lambda: list(audit_run(path).notes),
        lambda: list(read_run(path).remarks),
    ]
    for read in notes:
        (note,) = [note for note in read() if "0.11" in note and "one judge failed" in note]
        assert "on 1 answer(s)" in note
        assert f"{BAD!r}" in note
        assert "--retry-failed" in note
    _, requests = run(tmp_path, Settings(**FAILS, refusing_model="other-1"), retry_failed=True)
    assert requests == {"judge": 1}, "only the judge that failed is asked; all else is in the journal"
    assert lines(path / "results.jsonl") == lines(whole / "results.jsonl")
    assert not any("0.11" in note for note in audit_run(path).notes)
    _, requests = run(tmp_path, retry_failed=True)
    assert requests == {"judge": 1}
    assert lines(path / "judgments/other.jsonl") == lines(whole / "judgments/other.jsonl")
