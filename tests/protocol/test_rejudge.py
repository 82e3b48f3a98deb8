"""Judging answers that exist: finished runs and files of candidates, one or many, by one judge or several."""

from __future__ import annotations

import asyncio
import json
import os
import re
from array import array
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result
from viewer_server import viewer
from written_files import read_lines, write_lines

from cts_async.cli.main import app
from cts_async.config import JudgeConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Events
from cts_async.errors import InputError, ProviderRefused, RunStopped, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol import answers
from cts_async.protocol.answers import Answers, Judging, NoAnswer, Repeats, answers_of_run
from cts_async.protocol.rejudge import plan_judging, run_judging, short_names
from cts_async.protocol.run_files import with_judges
from cts_async.records import Instance, Nugget
from cts_async.runs.directory import write_json
from cts_async.runs.finished import read_run
from cts_async.runs.manifest import manifest_of, read_manifest, tolerant_manifest
from cts_async.scorer import score_file
from cts_async.watch.live import state_of_run

N = 5
GOLD = sample_dir() / "gold.jsonl"
ALL_ROWS = [json.loads(line) for line in GOLD.read_text(encoding="utf-8").splitlines()]
ROWS = ALL_ROWS[:4]
SECOND, THIRD = ALL_ROWS[1]["id"], ALL_ROWS[2]["id"]
SAME = "Nobody knows."
BOTH = ("a/x.jsonl", "b/x.jsonl")
ONE = ("a/x.jsonl",)
NewCalls = Callable[[], int]


@pytest.fixture(scope="module")
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def here(tmp_path: Path, provider: Remote, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a cts.toml whose models `mine` and `other` are the fake provider, and `gone` is nowhere."""
    provider.set(faults={})
    tables = [
        f'[models.{name}]\nbase_url = "{provider.url}{path}"\nmodel = "{name}-1"\n'
        for name, path in (("mine", ""), ("other", ""), ("gone", "/nowhere"))
    ]
    (tmp_path / "cts.toml").write_text("\n".join(tables))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def new_calls(provider: Remote) -> NewCalls:
    """The number of calls since it was last asked for."""
    seen = len(provider.seen())

    def count() -> int:
        nonlocal seen
        before, seen = seen, len(provider.seen())
        return seen - before

    return count


def invoke(*command: object) -> Result:
    """A command; a CTSError is raised as itself."""
    result = CliRunner().invoke(app, [str(word) for word in command])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def cts(*command: object) -> int:
    """The exit code of a command."""
    return invoke(*command).exit_code


def judge(*options: object, files: tuple[str, ...] = BOTH, out: str = "out") -> Result:
    """`cts judge` of candidates files, lexically too."""
    named = [word for file in files for word in ("--candidates", file)]
    return invoke("judge", "--gold", GOLD, *named, "--out", out, "-q", "--lexical", *options)


def summary(directory: Path | str) -> dict[str, Any]:
    return dict(json.loads(Path(directory, "summary.json").read_bytes()))


# --- A finished run


@pytest.fixture
def run(here: Path) -> Path:
    """A run that only the lexical judge has judged."""
    options = ("--judge", "lexical", "--no-orig", "--name", "r", "--limit", N, "-q")
    assert cts("run", "--all", "mine", *options) == 0
    assert summary(here / "runs/r")["judge"] == "lexical"
    return here / "runs/r"


def test_further_judge_adds_verdicts_and_changes_no_answer(run: Path, new_calls: NewCalls) -> None:
    before, verdicts = (run / "results.jsonl").read_bytes(), run / "judgments/mine.jsonl"
    new_calls()
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert new_calls() == N
    assert (run / "results.jsonl").read_bytes() == before
    found = read_lines(verdicts)
    assert {line["id"] for line in found} == {line["id"] for line in read_lines(run / "results.jsonl")}
    assert {line["judge"] for line in found} == {"mine"}
    assert summary(run)["judge"] == "lexical"
    assert summary(run)["judges"]["mine"]["n_scored"] == N
    assert summary(run)["judges"]["mine"]["mean"] == score_file(verdicts).mean
    # Lost verdicts come back from the journal.
    verdicts.unlink()
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert new_calls() == 0
    assert sorted(map(str, read_lines(verdicts))) == sorted(map(str, found))


def test_run_whose_data_lies_elsewhere_says_from_where_to_judge_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = here / "world.jsonl"
    world.write_text('{"id": "q1", "fused_query": "winter ferry", "blurred_query": "ferry"}\n')
    options = ("--all", "mine", "--no-judge", "--no-orig", "--name", "r", "-q")
    assert cts("run", "--data", world.name, "--corpus", sample_dir() / "corpus.jsonl", *options) == 0
    (here / "deeper").mkdir()
    monkeypatch.chdir(here / "deeper")
    problem = r"world\.jsonl: no such file.*Paths are relative to the directory where the run was made: judge it from"
    with pytest.raises(UsageError, match=problem):
        answers_of_run(here / "runs/r", None)


def test_result_with_a_damaged_answer_is_named_and_nothing_is_judged(run: Path, new_calls: NewCalls) -> None:
    whole = read_lines(run / "results.jsonl")
    new_calls()
    for answer in ({}, {"answer": None}, {"answer": 5}):
        whole[2].pop("answer", None)
        whole[2].update(answer)
        write_lines(run / "results.jsonl", *whole)
        problem = f"results.jsonl: field 'answer': instance '{whole[2]['id']}' has no answer text"
        with pytest.raises(InputError, match=problem):
            cts("judge", run, "--judge", "mine", "-q")
    assert new_calls() == 0


def test_failed_verdict_is_no_score_and_is_tried_again(run: Path, provider: Remote) -> None:
    provider.set(faults={"wrong_ids": 1.0})
    assert cts("judge", run, "--judge", "mine", "-q") == 1
    assert {line["error"]["kind"] for line in read_lines(run / "judgments/mine.jsonl")} == {"unusable_output"}
    scores = summary(run)["judges"]["mine"]
    assert (scores["n_scored"], scores["n_failed"], scores["mean"]) == (0, N, None)
    provider.set(faults={})
    assert cts("judge", run, "--judge", "mine", "-q") == 0
    assert summary(run)["judges"]["mine"]["n_scored"] == N


def test_failed_judge_of_a_run_is_named_and_added_by_judging_the_run_again(
    here: Path, provider: Remote, new_calls: NewCalls
) -> None:
    provider.set(refuses="judge", refusing_model="other-1")
    options = ("--judge", "mine", "--judge", "other", "--no-orig", "--name", "r", "--limit", 2, "-q")
    done = invoke("run", "--all", "mine", *options)
    assert done.exit_code == 1
    for row in ALL_ROWS[:2]:
        assert f"failed: r {row['id']} at judge/other: " in done.stdout
    run = here / "runs/r"
    found = {name: (own["n_scored"], own["n_failed"]) for name, own in summary(run)["judges"].items()}
    assert found == {"mine": (2, 0), "lexical": (2, 0), "other": (0, 2)}
    before = (run / "results.jsonl").read_bytes()
    provider.set(refuses="", refusing_model="")
    new_calls()
    assert cts("judge", run, "--judge", "other", "-q") == 0
    assert new_calls() == 2
    assert summary(run)["judges"]["other"]["n_scored"] == 2
    assert "judge_failures" not in summary(run)
    assert (run / "results.jsonl").read_bytes() == before
    assert cts("run", "--all", "mine", *options) == 0
    assert new_calls() == 0


# --- A file of candidates


@pytest.fixture
def candidates(here: Path) -> Path:
    rows = [{"id": row["id"], "answer": f"About {row['fused_query']}"} for row in ALL_ROWS[:N]]
    write_lines(here / "cand.jsonl", *rows)
    return here / "cand.jsonl"


JUDGE = ("judge", "--gold", GOLD, "--candidates", "cand.jsonl", "--out", "out", "--judge", "mine", "-q")


@pytest.mark.parametrize(
    "spelling", [("--gold", "--candidates", "--out"), ("--gold_a", "--gold_b", "--out_dir")]
)
def test_candidates_are_judged_into_a_directory_of_their_own(
    candidates: Path, new_calls: NewCalls, spelling: tuple[str, str, str]
) -> None:
    words = zip(spelling, (GOLD, candidates, "out"), strict=True)
    command = ["judge", *[word for pair in words for word in pair], "--judge", "mine", "-q"]
    assert cts(*command) == 0
    assert new_calls() == N
    items = read_lines("out/per_item.jsonl")
    assert {item["id"] for item in items} == {row["id"] for row in ALL_ROWS[:N]}
    assert all(item["answer"].startswith("About") for item in items)
    assert (summary("out")["n_scored"], summary("out")["n_failed"]) == (N, 0)
    assert summary("out")["mean"] == score_file("out/per_item.jsonl").mean
    assert cts(*command) == 0
    assert new_calls() == 0
    assert read_lines("out/per_item.jsonl") == items


def test_empty_candidates_score_0_without_a_call_with_the_option(
    candidates: Path, new_calls: NewCalls
) -> None:
    silent = {"step": "search/turn/3", "kind": "unusable_output", "message": "no <answer>"}
    more: list[dict[str, Any]] = [{"answer": ""}, {"answer": None}, {"error": "timeout"}, {"error": silent}]
    more = [{"id": row["id"], **fields} for row, fields in zip(ALL_ROWS[N:], more, strict=False)]
    write_lines(candidates, *(read_lines(candidates) + more))
    assert cts(*JUDGE, "--empty-answers", "zero") == 1
    assert new_calls() == N
    found = summary("out")
    # Another error is still no score.
    assert (found["n_scored"], found["n_failed"], found["min"]) == (N + 3, 1, 0.0)
    assert json.loads(Path("out/run.json").read_bytes())["identity"]["empty_answers"] == "zero"
    # With other settings another version, which takes the verdicts that it would ask for again.
    assert cts(*JUDGE) == 1
    assert new_calls() == 0
    assert (summary("out.v2")["n_scored"], summary("out.v2")["n_failed"]) == (N, 4)
    with pytest.raises(UsageError, match="--empty-answers nil: must be one of fail, zero"):
        cts(*JUDGE, "--empty-answers", "nil")


def test_instances_of_the_gold_without_an_answer_are_expected(candidates: Path) -> None:
    """One answer to a gold of three is 1/3, wherever the number is shown, and nothing is left to do."""
    write_lines("gold3.jsonl", *ALL_ROWS[:3])
    write_lines(candidates, *read_lines(candidates)[:1])
    options = ("judge", "--gold", "gold3.jsonl", "--candidates", candidates, "--judge", "mine")
    done = invoke(*options, "--out", "out")
    assert done.exit_code == 0
    assert "2 of 3 instances of the gold have no answer here" in done.stderr
    assert "1/3" in done.stdout
    found = summary("out")
    assert (found["n_expected"], found["n_scored"], found["n_failed"]) == (3, 1, 0)
    one = read_run(Path("out"))
    assert (one.n_expected, one.n_done, one.n_absent, one.n_missing) == (3, 1, 2, 0)
    assert state_of_run(Path("out")).state == "finished"
    with viewer(Path.cwd()) as asker:
        row = next(row for row in asker.get("runs")["runs"] if row["name"] == "out")
    assert (row["n_done"], row["n_absent"], row["n_expected"]) == (1, 2, 3)
    # A trial expects no more than it asks for.
    assert cts(*options, "--limit", 1, "--out", "trial", "-q") == 0
    assert summary("trial")["n_expected"] == 1
    compared = invoke("compare", "out", "trial", "--json")
    rows = json.loads(compared.stdout)["judges"][0]["leaderboard"]
    assert sorted(row["n_expected"] for row in rows) == [1, 3]
    assert "nfinished" not in compared.stdout + compared.stderr


def test_all_failed_counts_as_0_with_failures_as_0(candidates: Path) -> None:
    write_lines(candidates, *[{"id": row["id"], "answer": ""} for row in ALL_ROWS])
    done = invoke(*JUDGE[:-1])
    assert done.exit_code == 1
    found = summary("out")
    assert (found["mean"], found["mean_failed_as_0"], found["n_failed"]) == (None, 0.0, len(ALL_ROWS))


@pytest.mark.parametrize("piped", ["--gold", "--candidates"])
def test_pipe_is_refused_since_files_are_read_twice(candidates: Path, piped: str) -> None:
    os.mkfifo("pipe")
    with pytest.raises(InputError, match="pipe: is a pipe, which can be read only once"):
        cts(*JUDGE, piped, "pipe")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        (f'{{"id": "{ALL_ROWS[0]["id"]}", "answer": "x"}}', "field 'id': '{}' is also the id of line 1"),
        ('{"id": "s99"', "is not valid JSON"),
        ('{"id": "s99"}', "field 'answer': is missing"),
    ],
)
def test_bad_line_anywhere_starts_nothing(
    candidates: Path, new_calls: NewCalls, last: str, problem: str
) -> None:
    with candidates.open("a") as out:
        out.write(last + "\n")
    with pytest.raises(InputError, match=r"cand\.jsonl:6: " + problem.format(ALL_ROWS[0]["id"])):
        cts(*JUDGE)
    assert new_calls() == 0
    assert not Path("out").exists()


def test_larger_limit_judges_only_the_remaining_answers(candidates: Path) -> None:
    for limit in (2, 4):
        assert cts(*JUDGE, "--limit", limit) == 0
        assert summary("out")["n_scored"] == limit
    first = {item["id"] for item in read_lines("out/per_item.jsonl")[:2]}  # concurrent, so in any order
    assert first == {row["id"] for row in ALL_ROWS[:2]}


def test_small_file_is_read_once_and_may_change_after_it_was_checked(candidates: Path) -> None:
    config = JudgeConfig(judges=("lexical",), gold=GOLD, candidates=str(candidates), out=Path("out"))
    plan = plan_judging(config, load_catalogue(Path("cts.toml")), {})
    candidates.write_text("{")
    asyncio.run(run_judging(plan, {}, Events()))
    assert len(read_lines("out/per_item.jsonl")) == N


def test_large_file_that_breaks_after_it_was_checked_stops_the_run_cleanly(
    candidates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "KEPT_BYTES", 100)
    config = JudgeConfig(judges=("lexical",), gold=GOLD, candidates=str(candidates), out=Path("out"))
    plan = plan_judging(config, load_catalogue(Path("cts.toml")), {})
    with candidates.open("a") as out:
        out.write("{")
    with pytest.raises(RunStopped, match=r"cand\.jsonl:6: .*changed while it was being judged"):
        asyncio.run(run_judging(plan, {}, Events()))
    assert len(read_lines("out/per_item.jsonl")) == N


# --- Many files of candidates


@pytest.fixture
def two(here: Path) -> Path:
    """Two files of the same name: `a/x` with four answers, `b/x` with two of them again and two others alike."""
    write("a/x.jsonl", lambda i: f"About {ROWS[i]['fused_query']}" if i < 3 else SAME)
    write("b/x.jsonl", lambda i: f"About {ROWS[i]['fused_query']}" if i < 2 else SAME)
    return here


def write(path: str, answer: Callable[[int], str]) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    rows = [{"id": row["id"], "fused_query": row["fused_query"]} for row in ROWS]
    write_lines(path, *[{**row, "answer": answer(i)} for i, row in enumerate(rows)])


def test_equal_questions_are_asked_once_across_files_judges_and_sessions(
    two: Path, new_calls: NewCalls
) -> None:
    """Eight answers; s01 and s02 are the same in both, s04's "Nobody knows." too: five different ones."""
    done = judge("--judge", "mine")
    assert done.exit_code == 0
    assert new_calls() == 5
    assert "3 of 8 answers are duplicates and needed no calls" in done.stdout
    first, second = read_lines("out/a-x/per_item.jsonl"), read_lines("out/b-x/per_item.jsonl")
    by_id = [{item["id"]: item["nuggets"] for item in items} for items in (first, second)]
    assert [by_id[0][row["id"]] == by_id[1][row["id"]] for row in ROWS] == [True, True, False, True]
    assert judge("--judge", "mine").exit_code == 0
    assert new_calls() == 0
    assert judge("--judge", "mine", "--judge", "other").exit_code == 0
    assert new_calls() == 5
    assert len(read_lines("out/a-x/judgments/other.jsonl")) == 4
    write("c.jsonl", lambda i: SAME if i == 3 else f"New {i}")
    assert judge("--judge", "mine", files=(*BOTH, "c.jsonl")).exit_code == 0
    assert new_calls() == 3
    assert json.loads(Path("out/run.json").read_text())["systems"] == ["a-x", "b-x", "c"]


def test_output_layout_of_one_or_several_files_is_fixed_by_the_first_command(two: Path) -> None:
    judge("--judge", "mine")
    write("c.jsonl", lambda i: f"New {i}")
    judge("--judge", "mine", files=("c.jsonl",))
    assert len(read_lines("out/c/per_item.jsonl")) == 4
    judge("--judge", "mine", files=("c.jsonl",), out="one")
    judge("--judge", "mine", out="one")
    assert len(read_lines("one/per_item.jsonl")) == 4
    assert len(read_lines("one.v2/a-x/per_item.jsonl")) == 4


def test_unreachable_judge_holds_up_no_other_judge(two: Path) -> None:
    with pytest.raises(ProviderRefused, match="gone"):
        judge("--judge", "mine", "--judge", "gone", "--in-flight", 1)
    assert [len(read_lines(f"out/{name}/per_item.jsonl")) for name in ("a-x", "b-x")] == [4, 4]
    assert [len(read_lines(f"out/{name}/judgments/lexical.jsonl")) for name in ("a-x", "b-x")] == [4, 4]


def test_repeated_question_that_fails_is_asked_once(two: Path, provider: Remote, new_calls: NewCalls) -> None:
    """Seven answers to one query, all alike: one conversation of three refused replies, seven failures."""
    row = {"fused_query": ROWS[0]["fused_query"], "answer": SAME}
    write_lines("same.jsonl", *[{"id": f"c{i}", **row} for i in range(7)])
    provider.set(faults={"wrong_ids": 1.0})
    assert judge("--judge", "mine", files=("same.jsonl",)).exit_code == 1
    assert new_calls() <= 4
    assert len(read_lines("out/per_item.jsonl")) == 7
    provider.set(faults={})
    assert judge("--judge", "mine", "--retry-failed", files=("same.jsonl",)).exit_code == 0
    assert new_calls() == 1


def test_empty_answers_fail_under_every_judge_without_a_call(two: Path, new_calls: NewCalls) -> None:
    write("e.jsonl", lambda i: "" if i else SAME)
    assert judge("--judge", "mine", "--judge", "other", files=("e.jsonl",)).exit_code == 1
    assert new_calls() == 2
    judges = summary("out")["judges"]
    assert [(own["n_scored"], own["n_failed"]) for own in judges.values()] == [(1, 3)] * 3


def test_dry_run_forecasts_the_actual_work(two: Path, new_calls: NewCalls) -> None:
    files = sorted(two.rglob("*"))
    options = ("--judge", "mine", "--judge", "other", "--nuggets-per-call", 2)
    foreseen = json.loads(judge(*options, "--dry-run", "--json").stdout)
    assert (new_calls(), sorted(two.rglob("*"))) == (0, files)
    assert [(own["judge"], own["answers_left"], own["distinct"]) for own in foreseen["judges"]] == [
        ("mine", 8, 5),
        ("other", 8, 5),
    ]
    judge(*options)
    assert new_calls() == foreseen["total"]["calls"]
    again = json.loads(judge(*options, "--dry-run", "--json").stdout)
    assert again["total"]["calls"] == 0


# --- Several runs


@pytest.fixture
def runs(here: Path) -> list[Path]:
    """Two runs of which each instance has the same answer, whatever it is."""
    for name in ("r", "s"):
        options = ("--judge", "lexical", "--no-orig", "--limit", 3, "--name", name, "-q")
        assert cts("run", "--all", "mine", *options) == 0
    return [here / "runs/r", here / "runs/s"]


def test_runs_share_verdicts_on_the_same_answers(runs: list[Path], new_calls: NewCalls) -> None:
    new_calls()
    done = invoke("judge", *runs, "--judge", "other", "-q")
    assert done.exit_code == 0
    assert new_calls() == 3
    assert "3 of 6 answers are duplicates and needed no calls" in done.stdout
    of_r, of_s = (sorted(map(str, read_lines(run / "judgments/other.jsonl"))) for run in runs)
    assert of_r == of_s
    (runs[1] / "judgments/other.jsonl").unlink()
    assert cts("judge", *runs, "--judge", "other", "-q") == 0
    assert new_calls() == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--gold", GOLD, "--candidates", "c", "--out", "out"), "--gold G, --candidates C, --out DIR"),
        (("--join", "id"), "--join"),
        (("--skip-bad-gold",), "--skip-bad-gold"),
        (("--empty-answers", "zero"), "--empty-answers"),
    ],
)
def test_candidate_options_are_refused_with_runs(here: Path, options: tuple[object, ...], named: str) -> None:
    with pytest.raises(UsageError, match=f"{named} cannot be combined with RUN"):
        cts("judge", "runs/r", "--judge", "mine", *options)


# --- Answers that change under their ids


def change(id: str, answer: str) -> None:
    rows = [{**row, "answer": answer} if row["id"] == id else row for row in read_lines(ONE[0])]
    write_lines(ONE[0], *rows)


def test_answer_that_changed_is_judged_again_by_every_judge(two: Path, new_calls: NewCalls) -> None:
    options = ("--judge", "mine", "--judge", "other")
    judge(*options, files=ONE)
    change("s02", "Another answer.")
    new_calls()
    foreseen = json.loads(judge(*options, "--dry-run", "--json", files=ONE).stdout)
    assert [(own["judge"], own["answers_left"]) for own in foreseen["judges"]] == [("mine", 1), ("other", 1)]
    printed = invoke("judge", "--gold", GOLD, "--candidates", *ONE, "--out", "out", *options)
    assert "1 answer(s) changed since mine judged them, and are judged again" in " ".join(
        printed.output.split()
    )
    assert new_calls() == 2
    (again,) = read_lines("out/per_item.jsonl")[4:]
    assert (again["id"], again["answer"]) == ("s02", "Another answer.")
    assert [line["id"] for line in read_lines("out/judgments/other.jsonl")[4:]] == ["s02"]
    judge(*options, files=ONE)
    assert new_calls() == 0


def test_answer_changed_back_and_forth_is_judged_again_each_time(two: Path) -> None:
    judge("--judge", "mine", files=ONE)
    change("s02", "")
    assert judge("--judge", "mine", files=ONE).exit_code == 1
    assert score_file("out/per_item.jsonl").n_failed == 1
    change("s02", "Back.")
    assert judge("--judge", "mine", files=ONE).exit_code == 0
    assert score_file("out/per_item.jsonl").n_scored == 4


def test_verdict_on_an_earlier_answer_is_in_no_comparison(two: Path) -> None:
    def counts() -> list[tuple[int, int]]:
        judges = summary("out")["judges"]
        return [(judges[name]["n_scored"], judges[name]["n_failed"]) for name in ("mine", "other")]

    judge("--judge", "mine", "--judge", "other", files=ONE)
    change("s02", "Another answer.")
    judge("--judge", "mine", files=ONE)
    run = read_run(Path("out"))
    assert sorted(run.scores("mine")) == ["s01", "s02", "s03", "s04"]
    assert sorted(run.scores("other")) == ["s01", "s03", "s04"]
    assert [n_scored for n_scored, _ in counts()] == [4, 3]
    change("s03", "")
    judge("--judge", "mine", files=ONE)
    assert counts() == [(3, 1), (2, 1)]


# --- Gold with bad lines, and candidates whose ids clash with it: refused with the option that helps, then used


@pytest.fixture
def bad_gold(here: Path) -> Path:
    """A gold whose second line has no nuggets and whose third lacks a weight."""
    rows = json.loads(json.dumps(ALL_ROWS))
    rows[1]["gold"]["nuggets"] = []
    del rows[2]["gold"]["nuggets"][0]["weight"]
    write_lines(here / "gold.jsonl", *rows)
    return here


RUN = ("run", "--all", "mine", "--judge", "lexical", "--no-orig", "--name", "r", "--gold", "gold.jsonl")


def test_a_run_leaves_out_the_instances_of_bad_gold_and_says_which(bad_gold: Path) -> None:
    with pytest.raises(InputError, match=r"gold.jsonl:2: field 'gold.nuggets': is empty.*--skip-bad-gold"):
        invoke(*RUN, "--limit", 3)
    done = invoke(*RUN, "--limit", 3, "--skip-bad-gold")
    assert done.exit_code == 0
    assert f"gold lines left out (--skip-bad-gold): 2: {SECOND} (line 2, " in done.stderr
    names = [line["id"] for line in read_lines(bad_gold / "runs/r/results.jsonl")]
    assert len(names) == 3
    assert not {SECOND, THIRD} & set(names)
    data = json.loads((bad_gold / "runs/r/run.json").read_bytes())["data"]
    assert data["skip_bad_gold"] is True
    assert f"{THIRD} (line 3, " in data["notes"][0]
    # What opens the run's data again reads that gold in the same way.
    assert invoke("audit", "runs/r").exit_code == 0
    assert invoke("judge", "runs/r", "--judge", "mine", "-q").exit_code == 0
    assert len(read_lines(bad_gold / "runs/r/judgments/mine.jsonl")) == 3
    assert invoke(*RUN, "--limit", 3, "--skip-bad-gold").exit_code == 0


JUDGE_CANDIDATES = ("judge", "--gold", "gold.jsonl", "--candidates", "c.jsonl", "--out", "out", "--judge")


def test_candidates_of_bad_gold_are_left_out_and_counted(bad_gold: Path) -> None:
    write_lines(bad_gold / "c.jsonl", *[{"id": row["id"], "answer": "About nine."} for row in ALL_ROWS[:4]])
    command = (*JUDGE_CANDIDATES, "lexical")
    with pytest.raises(InputError, match="--skip-bad-gold"):
        invoke(*command)
    done = invoke(*command, "--skip-bad-gold")
    assert f"gold lines left out (--skip-bad-gold): 2: {SECOND} (line 2, " in done.stderr
    assert "2 of 4 answers are left out" in done.stderr
    assert [line["id"] for line in read_lines(bad_gold / "out/per_item.jsonl")] == [
        ALL_ROWS[0]["id"],
        ALL_ROWS[3]["id"],
    ]


def test_candidates_may_be_joined_by_id_whatever_their_query(bad_gold: Path, provider: Remote) -> None:
    write_lines(bad_gold / "gold.jsonl", *ALL_ROWS)
    write_lines(
        bad_gold / "c.jsonl",
        *[{"id": row["id"], "query": "rewritten", "answer": "About nine."} for row in ROWS[:2]],
    )
    command = (*JUDGE_CANDIDATES, "mine", "-q")
    with pytest.raises(InputError, match="the ids clash: .*--join id joins by the id"):
        invoke(*command)
    provider.set(keep=True)
    asked = len(provider.seen())
    assert invoke(*command, "--join", "id").exit_code == 0
    assert {line["id"] for line in read_lines(bad_gold / "out/per_item.jsonl")} == {
        row["id"] for row in ROWS[:2]
    }
    sent = [str(request.messages) for request in provider.seen()[asked:]]
    for row, prompt in zip(
        ROWS[:2], sorted(sent, key=lambda text: ROWS[1]["fused_query"] in text), strict=True
    ):
        assert row["fused_query"] in prompt
        assert "rewritten" not in prompt
    write_lines(bad_gold / "c.jsonl", *[{"id": row["id"], "answer": "About nine."} for row in ROWS[:2]])
    asked = len(provider.seen())
    assert invoke(*command).exit_code == 0
    assert manifest_of(bad_gold / "out.v2").changed == ("join (id, now none)",)
    assert len(provider.seen()) == asked


# --- A further judge's file goes on with the model that began it


PROMPTS = {"judge.en": "1a"}
MINE = {"model": {"model": "mine-1"}, "prompts": PROMPTS}
OTHER = {"model": {"model": "mine-2"}, "prompts": PROMPTS}
OF_A_RUN = {"identity": {"models": {"judge mine": MINE["model"]}, "prompts": {**PROMPTS, "agent.en": "2b"}}}


@pytest.fixture
def judged_by_mine(tmp_path: Path) -> Path:
    path = tmp_path / "judgments" / "mine.jsonl"
    path.parent.mkdir()
    path.write_text('{"id": "q1"}\n')
    return path


STRICTER = {**MINE, "prompts": {"judge.en": "3c"}}
CHANGES: list[tuple[dict[str, Any], str]] = [
    (OTHER, 'model.model was "mine-1", now "mine-2"'),
    (STRICTER, 'prompts.judge.en was "1a", now "3c"'),
]


@pytest.mark.parametrize(("settings", "change"), CHANGES)
def test_changed_further_judge_is_named_while_its_verdicts_exist(
    judged_by_mine: Path, settings: dict[str, Any], change: str
) -> None:
    manifest = tolerant_manifest({"further_judges": {"mine": MINE}}, judged_by_mine.parents[1])
    assert with_judges(manifest, {"mine": MINE}) == ({"mine": MINE}, {})
    assert with_judges(manifest, {"mine": settings}) == ({"mine": settings}, {"mine": [change]})
    judged_by_mine.unlink()
    assert with_judges(manifest, {"mine": settings}) == ({"mine": settings}, {})


@pytest.mark.parametrize(("settings", "change"), CHANGES)
def test_changed_judge_of_the_run_itself_is_refused(
    judged_by_mine: Path, settings: dict[str, Any], change: str
) -> None:
    manifest = tolerant_manifest(OF_A_RUN, judged_by_mine.parents[1])
    assert with_judges(manifest, {"mine": MINE}) == ({"mine": MINE}, {})
    with pytest.raises(UsageError, match=f"a judge of the run itself: {re.escape(change)}. Use another name"):
        with_judges(manifest, {"mine": settings})


def test_damaged_note_in_the_manifest_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"further_judges": {"mine": "mine-1"}})
    with pytest.raises(InputError, match="field 'further_judges': has to be an object of judges"):
        read_manifest(tmp_path)


def test_verdicts_by_another_model_of_a_judges_name_are_set_aside(run: Path, new_calls: NewCalls) -> None:
    command = ("judge", run, "--judge", "other", "-q")
    assert cts(*command, "--limit", 2) == 0
    before = read_lines(run / "judgments/other.jsonl")
    new_calls()
    config = Path("cts.toml")
    config.write_text(config.read_text().replace("other-1", "other-2"))
    assert cts(*command, "--limit", 2) == 0
    assert new_calls() == 2
    assert read_lines(run / "judgments/other.jsonl.1") == before
    # Back to the earlier model: what it said is in the journal.
    config.write_text(config.read_text().replace("other-2", "other-1"))
    assert cts(*command, "--limit", 2) == 0
    assert new_calls() == 0
    # Two replies may come in any order.
    again = read_lines(run / "judgments/other.jsonl")
    assert sorted(again, key=itemgetter("id")) == sorted(before, key=itemgetter("id"))


# --- Which questions repeat, and what files of candidates are called


def judging(answer: str, query: str = "q", n_nuggets: int = 1, id: str = "") -> Judging:
    nuggets = tuple(Nugget(f"N{n}", f"text {n}", 1) for n in range(n_nuggets))
    return Judging(Instance(id, query, "", nuggets), answer, None if answer else NoAnswer("empty"))


def nothing(wanted: object) -> Iterator[Judging]:
    return iter(())


def system(*judgings: Judging) -> Answers:
    return Answers(
        nothing,
        array("q", range(len(judgings))),
        array("q", [one.question_hash for one in judgings]),
        array("q"),
    )


@given(st.lists(st.lists(st.sampled_from("abcdef "), max_size=8), max_size=4))
def test_repeats_agree_with_a_plain_count(answers: list[list[str]]) -> None:
    asked = [answer for own in answers for answer in own if answer.strip()]
    systems = [system(), *(system(*(judging(answer.strip()) for answer in own)) for own in answers)]
    repeats = Repeats(systems)
    assert (repeats.n_asked, repeats.n_repeated) == (len(asked), len(asked) - len(set(asked)))
    for answer in set(asked):
        assert (judging(answer) in repeats) == (asked.count(answer) > 1)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["r/one.jsonl"], ["one"]),
        (["r/one.jsonl", "r/two.jsonl"], ["one", "two"]),
        (["a/x.jsonl", "b/x.jsonl", "b/y.jsonl"], ["a-x", "b-x", "y"]),
        (["a/c/x.jsonl", "b/c/x.jsonl"], ["a-c-x", "b-c-x"]),
        (["runs/gpt-k1/results.jsonl", "runs/orig/results.jsonl"], ["gpt-k1", "orig"]),
        (["out/per_item.jsonl"], ["out"]),
        (["a/prompts.jsonl", "judgments.csv"], ["a-prompts", "w-judgments"]),
    ],
)
def test_names_are_as_short_as_they_can_be(files: list[str], names: list[str]) -> None:
    assert short_names([Path("/w", file) for file in files]) == names


PARTS = st.lists(st.sampled_from(["a", "b", "x", "prompts", "results", "a-x"]), min_size=1, max_size=3)


@given(st.lists(PARTS.map(lambda parts: Path("/", *parts[:-1], f"{parts[-1]}.jsonl")), unique=True))
def test_names_are_distinct_and_can_be_directories_or_the_file_is_refused(files: list[Path]) -> None:
    try:
        names = [name.casefold() for name in short_names(files)]
    except UsageError:
        return
    assert len(set(names)) == len(files)
    assert not {"prompts", "judgments", ""} & set(names)
    assert not any("/" in name for name in names)


@pytest.mark.parametrize(
    "files", [["x.jsonl", "X.jsonl"], ["/prompts.jsonl"], ["a/x.jsonl", "a-x.jsonl", "c/a/x.jsonl"]]
)
def test_file_after_which_no_directory_can_be_named_is_refused(files: list[str]) -> None:
    with pytest.raises(UsageError, match="no directory can be named after"):
        short_names([Path("/", file) for file in files])
