"""Another judge on answers that exist: a finished run's, and a candidates file's; typed as a user types it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typer.testing import CliRunner

from cts_async.cli.main import app
from cts_async.config import JudgeConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Events
from cts_async.errors import InputError, ProviderRefused, RunStopped, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.answers import answers_of_run
from cts_async.protocol.rejudge import plan_judging, run_judging
from cts_async.scorer import score_file

N = 5
GOLD = sample_dir() / "gold.jsonl"


@pytest.fixture(scope="module")
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def here(tmp_path: Path, provider: Remote, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a cts.toml whose models `mine` and `other` are the fake provider."""
    provider.set(faults={})
    tables = [
        f'[models.{name}]\nbase_url = "{provider.url}"\nmodel = "{name}-1"\n' for name in ("mine", "other")
    ]
    (tmp_path / "cts.toml").write_text("\n".join(tables))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cts(*command: object) -> int:
    """The exit code of a command; a CTSError is raised as itself."""
    result = CliRunner().invoke(app, [str(word) for word in command])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def summary(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "summary.json").read_bytes()))


@pytest.fixture
def run(here: Path) -> Path:
    """A run that only the lexical judge has judged."""
    assert (
        cts("run", "--all", "mine", "--judge", "lexical", "--no-orig", "--name", "r", "--limit", N, "-q") == 0
    )
    assert summary(here / "runs/r")["judge"] == "lexical"
    return here / "runs/r"


def test_a_further_judge_adds_its_verdicts_and_changes_no_answer(run: Path, provider: Remote) -> None:
    before, asked = (run / "results.jsonl").read_bytes(), len(provider.seen())
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert len(provider.seen()) == asked + N
    assert (run / "results.jsonl").read_bytes() == before
    verdicts = lines(run / "judgments/mine.jsonl")
    assert {line["id"] for line in verdicts} == {line["id"] for line in lines(run / "results.jsonl")}
    assert {line["judge"] for line in verdicts} == {"mine"}
    assert summary(run)["judge"] == "lexical"
    assert summary(run)["judges"]["mine"]["n_scored"] == N
    assert summary(run)["judges"]["mine"]["mean"] == score_file(run / "judgments/mine.jsonl").mean


def test_a_run_whose_data_lies_elsewhere_says_from_where_to_judge_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = here / "world.jsonl"
    world.write_text('{"id": "q1", "fused_query": "winter ferry", "blurred_query": "ferry"}\n')
    options = ("--all", "mine", "--no-judge", "--no-orig", "--name", "r", "-q")
    assert cts("run", "--data", world.name, "--corpus", sample_dir() / "corpus.jsonl", *options) == 0
    (here / "deeper").mkdir()
    monkeypatch.chdir(here / "deeper")
    with pytest.raises(
        UsageError, match=r"Paths are relative to the directory where the run was made: judge it from there"
    ) as said:
        answers_of_run(here / "runs/r", None)
    assert "world.jsonl: no such file" in str(said.value)


@pytest.mark.parametrize("answer", [{}, {"answer": None}, {"answer": 5}])
def test_a_result_whose_answer_somebody_broke_is_named_and_nothing_is_judged(
    run: Path, provider: Remote, answer: dict[str, Any]
) -> None:
    whole = lines(run / "results.jsonl")
    del whole[2]["answer"]
    whole[2].update(answer)
    (run / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in whole))
    asked = len(provider.seen())
    with pytest.raises(
        InputError, match=f"results.jsonl: field 'answer': instance '{whole[2]['id']}' has no answer text"
    ):
        cts("judge", run, "--judge", "mine", "-q")
    assert len(provider.seen()) == asked


def test_an_answer_without_nuggets_is_left_alone(here: Path, provider: Remote) -> None:
    """A run over data of which only a part can be judged."""
    rows = lines(sample_dir() / "queries.jsonl")[:3]
    nuggets = [{"id": "N1", "text": "By ferry.", "weight": 1}]
    world = here / "mixed.jsonl"
    world.write_text(
        "".join(
            json.dumps({**row, **({"nuggets": nuggets} if n else {})}) + "\n" for n, row in enumerate(rows)
        )
    )
    corpus = sample_dir() / "corpus.jsonl"
    options = ("--all", "mine", "--no-judge", "--no-orig", "--name", "mixed", "-q")
    assert cts("run", "--data", world, "--corpus", corpus, *options) == 0
    assert cts("judge", here / "runs/mixed", "--judge", "mine", "-q") == 0
    verdicts = lines(here / "runs/mixed/judgments/mine.jsonl")
    assert {line["id"] for line in verdicts} == {row["id"] for row in rows[1:]}


def test_judging_again_asks_nothing(run: Path, provider: Remote) -> None:
    cts("judge", run, "--judge", "mine", "-q")
    asked, before = len(provider.seen()), (run / "judgments/mine.jsonl").read_bytes()
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert len(provider.seen()) == asked
    assert (run / "judgments/mine.jsonl").read_bytes() == before


def test_lost_verdicts_come_back_from_the_journal(run: Path, provider: Remote) -> None:
    cts("judge", run, "--judge", "mine", "-q")
    asked, before = len(provider.seen()), lines(run / "judgments/mine.jsonl")
    (run / "judgments/mine.jsonl").unlink()
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert len(provider.seen()) == asked
    assert sorted(map(str, lines(run / "judgments/mine.jsonl"))) == sorted(map(str, before))


def test_several_judges_at_once(run: Path, provider: Remote) -> None:
    asked = len(provider.seen())
    assert cts("judge", run, "--judge", "mine", "--judge", "other", "-q") == 0
    assert len(provider.seen()) == asked + 2 * N
    assert set(summary(run)["judges"]) == {"lexical", "mine", "other"}


def test_a_judge_that_is_gone_holds_up_no_other(run: Path, provider: Remote) -> None:
    gone = f'[models.gone]\nbase_url = "{provider.url}/nowhere"\nmodel = "gone-1"\n'
    config = run.parents[1] / "cts.toml"
    config.write_text(config.read_text() + gone)
    with pytest.raises(ProviderRefused, match="gone"):
        cts("judge", run, "--judge", "gone", "--judge", "mine", "--in-flight", 1)
    assert len(lines(run / "judgments/mine.jsonl")) == N


def test_a_failed_verdict_is_no_score_and_is_tried_again(run: Path, provider: Remote) -> None:
    provider.set(faults={"wrong_ids": 1.0})
    assert cts("judge", run, "--judge", "mine", "-q") == 1
    assert {line["error"]["kind"] for line in lines(run / "judgments/mine.jsonl")} == {"unusable_output"}
    scores = summary(run)["judges"]["mine"]
    assert (scores["n_scored"], scores["n_failed"], scores["mean"]) == (0, N, None)
    provider.set(faults={})
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert summary(run)["judges"]["mine"]["n_scored"] == N


def candidates(directory: Path) -> Path:
    path = directory / "cand.jsonl"
    rows = [{"id": row["id"], "answer": f"About {row['fused_query']}"} for row in lines(GOLD)[:N]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "spelling", [("--gold", "--candidates", "--out"), ("--gold_a", "--gold_b", "--out_dir")]
)
def test_candidates_are_judged_into_a_directory_of_their_own(
    here: Path, provider: Remote, spelling: tuple[str, str, str]
) -> None:
    words = zip(spelling, (GOLD, candidates(here), here / "out"), strict=True)
    command = ["judge", *[word for pair in words for word in pair], "--judge", "mine", "-q"]
    asked = len(provider.seen())
    assert cts(*command) == 0
    assert len(provider.seen()) == asked + N
    items = lines(here / "out/per_item.jsonl")
    assert {item["id"] for item in items} == {row["id"] for row in lines(GOLD)[:N]}
    assert all(item["answer"].startswith("About") for item in items)
    assert (summary(here / "out")["n_scored"], summary(here / "out")["n_failed"]) == (N, 0)
    assert summary(here / "out")["mean"] == score_file(here / "out/per_item.jsonl").mean
    assert cts(*command) == 0
    assert len(provider.seen()) == asked + N
    assert lines(here / "out/per_item.jsonl") == items


def test_an_empty_candidate_is_a_failure_and_not_0(here: Path) -> None:
    path = candidates(here)
    with path.open("a") as out:
        out.write(json.dumps({"id": lines(GOLD)[N]["id"], "answer": ""}) + "\n")
    assert cts("judge", "--gold", GOLD, "--candidates", path, "--out", "out", "--judge", "mine", "-q") == 1
    assert (summary(here / "out")["n_scored"], summary(here / "out")["n_failed"]) == (N, 1)
    assert [item["error"]["kind"] for item in lines(here / "out/per_item.jsonl") if "error" in item] == [
        "no_answer"
    ]


def test_empty_candidates_are_scored_0_without_a_call_if_asked_for(here: Path, provider: Remote) -> None:
    path = candidates(here)
    with path.open("a") as out:
        for i, answer in enumerate(["", None]):
            out.write(json.dumps({"id": lines(GOLD)[N + i]["id"], "answer": answer}) + "\n")
        out.write(json.dumps({"id": lines(GOLD)[N + 2]["id"], "error": "timeout"}) + "\n")
        silent = {"step": "search/turn/3", "kind": "unusable_output", "message": "no <answer>"}
        out.write(json.dumps({"id": lines(GOLD)[N + 3]["id"], "error": silent}) + "\n")
    asked = len(provider.seen())
    command = ("judge", "--gold", GOLD, "--candidates", path, "--out", "out", "--judge", "mine", "-q")
    assert cts(*command, "--empty-answers", "zero") == 1
    assert len(provider.seen()) == asked + N
    found = summary(here / "out")
    # Another error is still no score.
    assert (found["n_scored"], found["n_failed"], found["min"]) == (N + 3, 1, 0.0)
    identity = json.loads((here / "out/run.json").read_bytes())["identity"]
    assert identity["empty_answers"] == "zero"
    with pytest.raises(UsageError, match="empty_answers"):
        cts(*command)
    with pytest.raises(UsageError, match="--empty-answers nil: must be one of fail, zero"):
        cts(*command, "--empty-answers", "nil")


def test_the_scorer_takes_the_same_candidates_for_empty(here: Path, provider: Remote) -> None:
    path = candidates(here)
    errors = ["timeout", {"kind": "no_answer"}, {"step": "search/turn/3", "kind": "unusable_output"}]
    with path.open("a") as out:
        for i, error in enumerate(errors):
            out.write(json.dumps({"id": lines(GOLD)[N + i]["id"], "error": error}) + "\n")
    command = ("judge", "--gold", GOLD, "--candidates", path, "--judge", "mine", "-q")
    assert cts(*command, "--out", "zero", "--empty-answers", "zero") == 1
    assert cts(*command, "--out", "fail") == 1
    rescored = score_file(here / "fail/per_item.jsonl", empty_is_zero=True)
    found = summary(here / "zero")
    assert (rescored.n_scored, rescored.n_failed, rescored.mean) == (N + 2, 1, found["mean"])
    assert (found["n_scored"], found["n_failed"]) == (N + 2, 1)


def test_runs_have_their_own_rule_for_empty_answers(here: Path) -> None:
    with pytest.raises(UsageError, match="--empty-answers cannot be combined"):
        cts("judge", "runs/any", "--judge", "mine", "--empty-answers", "zero")


def test_another_judge_into_the_same_directory_is_refused(here: Path) -> None:
    command = ("judge", "--gold", GOLD, "--candidates", candidates(here), "--out", "out", "-q")
    assert cts(*command, "--judge", "mine") == 0
    with pytest.raises(UsageError, match="judges"):
        cts(*command, "--judge", "other")


@pytest.mark.parametrize("piped", ["--gold", "--candidates"])
def test_what_a_shell_pipes_in_is_refused_since_it_is_read_twice(here: Path, piped: str) -> None:
    os.mkfifo(here / "pipe")
    files = {"--gold": GOLD, "--candidates": candidates(here)} | {piped: "pipe"}
    words = [word for option in files.items() for word in option]
    with pytest.raises(InputError, match="pipe: is a pipe, which can be read only once"):
        cts("judge", *words, "--out", "out", "--judge", "mine", "-q")
    assert not (here / "out").exists()


def test_dollars_without_a_price_start_nothing(here: Path, provider: Remote) -> None:
    asked = len(provider.seen())
    command = ("judge", "--gold", GOLD, "--candidates", candidates(here), "--out", "out", "--judge", "mine")
    with pytest.raises(UsageError, match="--max-usd needs the price of mine"):
        cts(*command, "--max-usd", "1", "-q")
    assert not (here / "out").exists()
    assert len(provider.seen()) == asked


# --- a broken file is refused before anything starts, however late it breaks


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        ('{"id": "s01", "answer": "x"}', r"cand\.jsonl:6: field 'id': 's01' is also the id of line 1"),
        ('{"id": "s99"', r"cand\.jsonl:6: is not valid JSON"),
        ('{"id": "s99"}', r"cand\.jsonl:6: field 'answer': is missing"),
    ],
)
def test_a_bad_line_anywhere_starts_nothing(here: Path, provider: Remote, last: str, problem: str) -> None:
    path = candidates(here)
    first = lines(path)[0]["id"]
    with path.open("a") as out:
        out.write(last.replace("s01", first) + "\n")
    asked = len(provider.seen())
    with pytest.raises(InputError, match=problem.replace("'s01'", repr(first))):
        cts("judge", "--gold", GOLD, "--candidates", path, "--out", "out", "--judge", "mine", "-q")
    assert len(provider.seen()) == asked
    assert not (here / "out").exists()


def test_an_empty_file_is_called_empty(here: Path) -> None:
    (here / "cand.jsonl").touch()
    with pytest.raises(InputError, match=r"cand\.jsonl: is empty"):
        cts("judge", "--gold", GOLD, "--candidates", "cand.jsonl", "--out", "out", "--judge", "lexical")


def test_a_limit_judges_the_first_and_a_larger_one_only_the_rest(here: Path, provider: Remote) -> None:
    command = (
        "judge",
        "--gold",
        GOLD,
        "--candidates",
        candidates(here),
        "--out",
        "out",
        "--judge",
        "mine",
        "-q",
    )
    for limit in (2, 4):
        assert cts(*command, "--limit", limit) == 0
        assert summary(here / "out")["n_scored"] == limit
    first = {item["id"] for item in lines(here / "out/per_item.jsonl")[:2]}  # concurrent, so in any order
    assert first == {row["id"] for row in lines(GOLD)[:2]}


def test_a_file_that_breaks_after_it_was_checked_stops_the_run_cleanly(here: Path) -> None:
    config = JudgeConfig(judges=("lexical",), gold=GOLD, candidates=str(candidates(here)), out=here / "out")
    plan = plan_judging(config, load_catalogue(here / "cts.toml"), {})
    with (here / "cand.jsonl").open("a") as out:
        out.write("{")
    with pytest.raises(RunStopped, match=r"cand\.jsonl:6: .*changed while it was being judged"):
        asyncio.run(run_judging(plan, {}, Events()))
    assert len(lines(here / "out/per_item.jsonl")) == N
