"""Many files of candidates, several runs, several judges: each question asked once, each verdict in its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typer.testing import CliRunner, Result

from cts_async.analysis.runs import read_run
from cts_async.cli.main import app
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.journal import read_jsonl
from cts_async.errors import InputError, ProviderRefused, UsageError
from cts_async.protocol.run_files import JUDGMENTS
from cts_async.report.summary import summarise_run
from cts_async.scorer import score_file

GOLD = sample_dir() / "gold.jsonl"
ROWS = [json.loads(line) for line in GOLD.read_text(encoding="utf-8").splitlines()][:4]
SAME = "Nobody knows."


@pytest.fixture(scope="module")
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


@pytest.fixture
def here(tmp_path: Path, provider: Remote, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of the same name: `a/x` with four answers, `b/x` with two of them again and two others alike."""
    provider.set(faults={})
    tables = [
        f'[models.{name}]\nbase_url = "{provider.url}{path}"\nmodel = "{name}-1"\n'
        for name, path in (("mine", ""), ("other", ""), ("gone", "/nowhere"))
    ]
    (tmp_path / "cts.toml").write_text("\n".join(tables))
    monkeypatch.chdir(tmp_path)
    write("a/x.jsonl", lambda i: f"About {ROWS[i]['fused_query']}" if i < 3 else SAME)
    write("b/x.jsonl", lambda i: f"About {ROWS[i]['fused_query']}" if i < 2 else SAME)
    return tmp_path


def write(path: str, answer: Callable[[int], str]) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    rows = [
        {"id": row["id"], "fused_query": row["fused_query"], "answer": answer(i)}
        for i, row in enumerate(ROWS)
    ]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def invoke(*command: object) -> Result:
    """A command; a CTSError is raised as itself."""
    result = CliRunner().invoke(app, [str(word) for word in command])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


BOTH = ("a/x.jsonl", "b/x.jsonl")


def judge(*options: object, files: tuple[str, ...] = BOTH, out: str = "out", lexical: bool = True) -> Result:
    """`cts judge` of candidates files, lexically too."""
    named = [word for file in files for word in ("--candidates", file)]
    beside = ["--lexical"] if lexical else []
    return invoke("judge", "--gold", GOLD, *named, "--out", out, "-q", *beside, *options)


def lines(path: Path | str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def calls(provider: Remote) -> int:
    return len(provider.seen())


def test_each_question_is_asked_once_for_all_files(here: Path, provider: Remote) -> None:
    """Eight answers; s01 and s02 are the same in both, s04's "Nobody knows." too: five different ones."""
    before = calls(provider)
    done = judge("--judge", "mine")
    assert done.exit_code == 0
    assert calls(provider) - before == 5
    assert "3 of 8 answers repeat others and took no calls" in done.stdout
    first, second = lines("out/a-x/per_item.jsonl"), lines("out/b-x/per_item.jsonl")
    by_id = [{item["id"]: item["nuggets"] for item in items} for items in (first, second)]
    assert [by_id[0][row["id"]] == by_id[1][row["id"]] for row in ROWS] == [True, True, False, True]
    assert judge("--judge", "mine").exit_code == 0
    assert calls(provider) - before == 5


def test_all_the_program_reads_what_was_judged(here: Path) -> None:
    judge("--judge", "mine", "--judge", "other")
    for name in ("a-x", "b-x"):
        directory = Path("out", name)
        summary = json.loads((directory / "summary.json").read_text())
        assert set(summary["judges"]) == {"mine", "other", "lexical"}
        assert summary["judge"] == "mine"
        assert summary["mean"] == score_file(directory / "per_item.jsonl").mean
        for judged in ("other", "lexical"):
            alone = score_file(directory / JUDGMENTS / f"{judged}.jsonl")
            assert (summary["judges"][judged]["mean"], alone.n_scored) == (alone.mean, 4)
        assert summarise_run(directory).label == name
    assert [record["instance"] for record in read_jsonl(Path("out/steps.jsonl"))].count("b-x/s03") == 2


def test_calls_are_counted_where_they_were_caused(here: Path, provider: Remote) -> None:
    """With one in flight at a time the second file finds three of its four verdicts made."""
    judge("--judge", "mine", "--in-flight", 1)
    spent = [json.loads(Path("out", name, "summary.json").read_text())["calls"] for name in ("a-x", "b-x")]
    assert spent == [4, 1]
    assert summarise_run(Path("out/b-x")).spent.calls == 1


def test_one_file_and_two_judges_stay_in_one_directory(here: Path) -> None:
    assert judge("--judge", "mine", "--judge", "other", files=("a/x.jsonl",)).exit_code == 0
    assert {path.name for path in Path("out/judgments").iterdir()} == {"other.jsonl", "lexical.jsonl"}
    assert {line["judge"] for line in lines("out/judgments/other.jsonl")} == {"other"}
    assert {line["judge"] for line in lines("out/per_item.jsonl")} == {"mine"}


def test_lexical_verdicts_are_there_where_they_are_asked_for(here: Path) -> None:
    judge("--judge", "mine", files=("a/x.jsonl",), lexical=False)
    assert not Path("out/judgments").exists()
    judge("--judge", "mine", files=("a/x.jsonl",))
    assert {path.name for path in Path("out/judgments").iterdir()} == {"lexical.jsonl"}


def test_a_judge_may_be_added_later_and_asks_only_for_itself(here: Path, provider: Remote) -> None:
    judge("--judge", "mine")
    before = calls(provider)
    assert judge("--judge", "mine", "--judge", "other").exit_code == 0
    assert calls(provider) - before == 5
    assert len(lines("out/a-x/judgments/other.jsonl")) == 4


def test_a_file_may_be_added_later_and_its_known_answers_are_free(here: Path, provider: Remote) -> None:
    write("c.jsonl", lambda i: SAME if i == 3 else f"New {i}")
    judge("--judge", "mine")
    before = calls(provider)
    assert judge("--judge", "mine", files=("a/x.jsonl", "b/x.jsonl", "c.jsonl")).exit_code == 0
    assert calls(provider) - before == 3
    assert json.loads(Path("out/run.json").read_text())["systems"] == ["a-x", "b-x", "c"]


def test_one_file_after_several_goes_into_its_directory_and_several_after_one_are_refused(here: Path) -> None:
    judge("--judge", "mine")
    write("c.jsonl", lambda i: f"New {i}")
    judge("--judge", "mine", files=("c.jsonl",))
    assert len(lines("out/c/per_item.jsonl")) == 4
    judge("--judge", "mine", files=("c.jsonl",), out="one")
    with pytest.raises(UsageError, match=r"one holds the verdicts on c\.jsonl alone: use another --out"):
        judge("--judge", "mine", out="one")


def test_a_judge_that_is_gone_holds_up_only_its_own(here: Path) -> None:
    with pytest.raises(ProviderRefused, match="gone"):
        judge("--judge", "mine", "--judge", "gone", "--in-flight", 1)
    assert [len(lines(f"out/{name}/per_item.jsonl")) for name in ("a-x", "b-x")] == [4, 4]
    assert [len(lines(f"out/{name}/judgments/lexical.jsonl")) for name in ("a-x", "b-x")] == [4, 4]


def test_where_the_first_judge_fails_another_s_verdict_still_counts(here: Path, provider: Remote) -> None:
    provider.set(faults={"wrong_ids": 1.0})
    assert judge("--judge", "mine", files=("a/x.jsonl",)).exit_code == 1
    judges = json.loads(Path("out/summary.json").read_text())["judges"]
    assert (judges["mine"]["n_scored"], judges["mine"]["n_failed"]) == (0, 4)
    assert json.loads(Path("out/summary.json").read_text())["mean"] is None
    assert (judges["lexical"]["n_scored"], judges["lexical"]["n_failed"]) == (4, 0)
    run = read_run(Path("out"))
    assert (len(run.scores("lexical")), run.judge_failures, run.n_failed) == (4, {"mine": 4}, 0)


def test_a_failure_is_asked_about_once_however_often_it_occurs(here: Path, provider: Remote) -> None:
    """Seven answers to one query, all alike: one conversation of three refused replies, seven failures."""
    row = {"fused_query": ROWS[0]["fused_query"], "answer": SAME}
    Path("same.jsonl").write_text("".join(json.dumps({"id": f"c{i}", **row}) + "\n" for i in range(7)))
    provider.set(faults={"wrong_ids": 1.0})
    before = calls(provider)
    assert judge("--judge", "mine", files=("same.jsonl",)).exit_code == 1
    once = calls(provider) - before
    assert once <= 4
    assert len(lines("out/per_item.jsonl")) == 7
    provider.set(faults={})
    before = calls(provider)
    assert judge("--judge", "mine", "--retry-failed", files=("same.jsonl",)).exit_code == 0
    assert calls(provider) - before == 1


def test_empty_answers_fail_under_every_judge_and_ask_nobody(here: Path, provider: Remote) -> None:
    write("e.jsonl", lambda i: "" if i else SAME)
    before = calls(provider)
    assert judge("--judge", "mine", "--judge", "other", files=("e.jsonl",)).exit_code == 1
    assert calls(provider) - before == 2
    judges = json.loads(Path("out/summary.json").read_text())["judges"]
    assert [(own["n_scored"], own["n_failed"]) for own in judges.values()] == [(1, 3)] * 3


def test_patterns_directories_and_runs_are_candidates(here: Path) -> None:
    run = ("run", "--all", "mine", "--judge", "lexical", "--no-orig", "--limit", 2, "--name", "r", "-q")
    assert invoke(*run).exit_code == 0
    done = judge("--judge", "lexical", "--json", files=("a/*.jsonl", "b", "runs/r"))
    assert [row["system"] for row in json.loads(done.stdout)] == ["a-x", "b-x", "r"]
    assert len(lines("out/r/per_item.jsonl")) == 2


def test_the_same_file_spelled_twice_is_one(here: Path) -> None:
    judge("--judge", "lexical", files=("a/x.jsonl", "./a/../a/x.jsonl"))
    assert len(lines("out/per_item.jsonl")) == 4


def test_a_bad_line_in_any_file_starts_nothing(here: Path, provider: Remote) -> None:
    with Path("b/x.jsonl").open("a") as file:
        file.write("{")
    before = calls(provider)
    with pytest.raises(InputError, match=r"b/x\.jsonl:5"):
        judge("--judge", "mine")
    assert calls(provider) == before
    assert not Path("out").exists()


def test_answers_that_the_gold_does_not_know_are_left_out_and_counted(here: Path) -> None:
    with Path("a/x.jsonl").open("a") as file:
        file.write(json.dumps({"id": "zz", "fused_query": "what nobody asked", "answer": SAME}) + "\n")
    command = ("judge", "--gold", GOLD, "--candidates", "a/x.jsonl", "--out", "out", "--judge", "lexical")
    assert "x: 1 of 5 answers are left out" in invoke(*command).stderr


# --- several runs


@pytest.fixture
def runs(here: Path) -> list[Path]:
    """Two runs of which each instance has the same answer, whatever it is."""
    for name in ("r", "s"):
        options = ("--judge", "lexical", "--no-orig", "--limit", 3, "--name", name, "-q")
        assert invoke("run", "--all", "mine", *options).exit_code == 0
    return [here / "runs/r", here / "runs/s"]


def test_runs_share_verdicts_on_the_same_answers(runs: list[Path], provider: Remote) -> None:
    before = calls(provider)
    done = invoke("judge", *runs, "--judge", "other", "-q")
    assert done.exit_code == 0
    assert calls(provider) - before == 3
    assert "3 of 6 answers repeat others and took no calls" in done.stdout
    of_r, of_s = (sorted(map(str, lines(run / "judgments/other.jsonl"))) for run in runs)
    assert of_r == of_s
    (runs[1] / "judgments/other.jsonl").unlink()
    assert invoke("judge", *runs, "--judge", "other", "-q").exit_code == 0
    assert calls(provider) - before == 3


def test_all_runs_of_a_directory_or_a_pattern(runs: list[Path]) -> None:
    for word in ("runs", "runs/*"):
        done = invoke("judge", word, "--judge", "other", "-q", "--json")
        assert [Path(row["run"]).name for row in json.loads(done.stdout)] == ["r", "s"]


def test_runs_and_candidates_at_once_are_refused(runs: list[Path]) -> None:
    with pytest.raises(UsageError, match="--gold G, --candidates C, --out DIR cannot be combined with RUN"):
        invoke("judge", runs[0], "--gold", GOLD, "--candidates", "a/x.jsonl", "--out", "out")


# --- answers that change under their ids


def change(path: str, id: str, answer: str) -> None:
    rows = [{**row, "answer": answer} if row["id"] == id else row for row in lines(path)]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_an_answer_that_changed_is_judged_again_by_every_judge(here: Path, provider: Remote) -> None:
    options = ("--judge", "mine", "--judge", "other")
    one = ("a/x.jsonl",)
    judge(*options, files=one)
    change("a/x.jsonl", "s02", "Another answer.")
    before = calls(provider)
    foreseen = json.loads(judge(*options, "--dry-run", "--json", files=one).stdout)
    assert [(own["judge"], own["answers_left"]) for own in foreseen["judges"]] == [("mine", 1), ("other", 1)]
    said = invoke("judge", "--gold", GOLD, "--candidates", *one, "--out", "out", *options)
    assert "1 answer(s) changed since mine judged them, and are judged again" in " ".join(said.output.split())
    assert calls(provider) - before == 2
    assert [(line["id"], line["answer"]) for line in lines("out/per_item.jsonl")[4:]] == [
        ("s02", "Another answer.")
    ]
    assert [line["id"] for line in lines("out/judgments/other.jsonl")[4:]] == ["s02"]
    judge(*options, files=one)
    assert calls(provider) - before == 2


def test_an_answer_that_went_and_came_back_is_never_scored_by_its_old_verdict(here: Path) -> None:
    one = ("a/x.jsonl",)
    judge("--judge", "mine", files=one)
    change("a/x.jsonl", "s02", "")
    assert judge("--judge", "mine", files=one).exit_code == 1
    assert score_file("out/per_item.jsonl").n_failed == 1
    change("a/x.jsonl", "s02", "Back.")
    assert judge("--judge", "mine", files=one).exit_code == 0
    assert score_file("out/per_item.jsonl").n_scored == 4


def test_a_verdict_on_an_earlier_answer_is_in_no_comparison(here: Path) -> None:
    one = ("a/x.jsonl",)
    judge("--judge", "mine", "--judge", "other", files=one)
    change("a/x.jsonl", "s02", "Another answer.")
    judge("--judge", "mine", files=one)
    run = read_run(Path("out"))
    assert sorted(run.scores("mine")) == ["s01", "s02", "s03", "s04"]
    assert sorted(run.scores("other")) == ["s01", "s03", "s04"]
    judges = json.loads(Path("out/summary.json").read_text())["judges"]
    assert [judges[name]["n_scored"] for name in ("mine", "other")] == [4, 3]
    change("a/x.jsonl", "s03", "")
    judge("--judge", "mine", files=one)
    judges = json.loads(Path("out/summary.json").read_text())["judges"]
    assert [(judges[name]["n_scored"], judges[name]["n_failed"]) for name in ("mine", "other")] == [
        (3, 1),
        (2, 1),
    ]


def test_another_model_under_the_same_name_is_refused(here: Path) -> None:
    judge("--judge", "mine", files=("a/x.jsonl",))
    config = Path("cts.toml")
    config.write_text(config.read_text().replace('"mine-1"', '"mine-2"'))
    with pytest.raises(UsageError, match='models.mine.model was "mine-1", now "mine-2"'):
        judge("--judge", "mine", files=("a/x.jsonl",))


# --- what it will take


def test_a_dry_run_says_what_then_happens(here: Path, provider: Remote) -> None:
    before, files = calls(provider), sorted(here.rglob("*"))
    options = ("--judge", "mine", "--judge", "other", "--nuggets-per-call", 2)
    foreseen = json.loads(judge(*options, "--dry-run", "--json").stdout)
    assert (calls(provider), sorted(here.rglob("*"))) == (before, files)
    assert [(own["judge"], own["answers_left"], own["distinct"]) for own in foreseen["judges"]] == [
        ("mine", 8, 5),
        ("other", 8, 5),
    ]
    judge(*options)
    assert calls(provider) - before == foreseen["total"]["calls"]
    again = json.loads(judge(*options, "--dry-run", "--json").stdout)
    assert again["total"]["calls"] == 0


def test_a_dry_run_needs_no_key_and_counts_what_is_judged_already(here: Path) -> None:
    judge("--judge", "mine", files=("a/x.jsonl",), out="one")
    with Path("a/x.jsonl").open("a") as file:
        file.write(json.dumps({**ROWS[0], "id": "again", "answer": f"About {ROWS[0]['fused_query']}"}) + "\n")
        file.write(json.dumps({**ROWS[0], "id": "new", "answer": "New"}) + "\n")
    foreseen = json.loads(
        judge("--judge", "mine", "--dry-run", "--json", files=("a/x.jsonl",), out="one").stdout
    )
    assert (foreseen["judges"][0]["answers_left"], foreseen["judges"][0]["distinct"]) == (2, 1)
    said = judge("--judge", "gpt", "--dry-run").stdout
    assert "10 answers of a-x, b-x." in said
    assert "gpt" in said
    assert "\ngpt:x[high] " in judge("--judge", "gpt:x[high]", "--dry-run").stdout
