"""`cts gold` as it is typed: the file, the table, the exit codes, and the run that is scored by it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fake_provider import Remote
from gold_world import QUERIES, write_world
from typed_commands import Cts
from written_files import read_lines

GIVEN = ("--data", "world.jsonl", "--corpus", "documents.jsonl")
GOLD = ("gold", "--all", "fake", *GIVEN, "--out", "GOLD.jsonl")


def test_gold_then_run_then_judge(priced: Remote, tmp_path: Path, cts: Cts) -> None:
    write_world(tmp_path)
    built = cts(*GOLD)
    assert built.code == 0, built.err
    assert "gold for 3 intents of 4 instances of world; agent fake, extractor fake" in built.err
    told = [" ".join(line.split()) for line in built.out.splitlines()]
    assert {"intents done 3/3", "grounded 5/5 (100.0%), 0 below", "Gold: GOLD.jsonl"} <= set(told)
    (following,) = [line for line in built.out.splitlines() if line.startswith("Next: cts run ")]
    assert following == "Next: cts run --data world.jsonl --gold GOLD.jsonl --corpus documents.jsonl"
    ran = cts(*following.split()[2:], "--all", "fake", "--no-orig", "-q")
    assert ran.code == 0, ran.err
    results = read_lines(tmp_path / "runs" / "world-fake-k1+all-fake" / "results.jsonl")
    assert len(results) == len(QUERIES)
    assert all(isinstance(line["restore_score_100"], float) for line in results)
    again = cts("judge", "runs/world-fake-k1+all-fake", "--judge", "fake:other", "-q")
    assert again.code == 0, again.err
    assert len(
        read_lines(tmp_path / "runs" / "world-fake-k1+all-fake" / "judgments" / "fake_other.jsonl")
    ) == len(QUERIES)


def test_gold_builds_among_runs_are_skipped(priced: Remote, tmp_path: Path, cts: Cts) -> None:
    write_world(tmp_path)
    assert cts(*GOLD, "-q").code == 0
    assert cts("run", *GIVEN, "--gold", "GOLD.jsonl", "--all", "fake", "-q").code == 0
    for words in (["compare"], ["diagnose"], ["score"], ["audit"], ["judge", "--judge", "fake:other", "-q"]):
        done = cts(*words, "runs", "--json")
        assert done.code == 0, (words, done.err)
        assert "fake-k1" in done.out
        assert "goldbuild" not in done.out
    assert cts("score", *map(str, sorted(Path("runs").iterdir()))).code == 0
    assert "goldbuild" in cts("audit", "runs/world-goldbuild").err


def test_json_has_every_number_and_the_same_command_adds_no_call(
    priced: Remote, tmp_path: Path, cts: Cts
) -> None:
    write_world(tmp_path)
    done = cts(*GOLD, "--json", "-q")
    value = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (value["n_expected"], value["n_done"], value["n_failed"], value["failures"]) == (3, 3, 0, [])
    assert value["nuggets"] == sum(value["weights"].values())
    assert value["grounding"]["grounded_share"] == 1.0
    assert value["calls"] == 9
    assert value["smoke_test"] is False
    assert value["cost_usd"] > 0
    assert json.loads((tmp_path / value["run"] / "summary.json").read_text())["nuggets"] == value["nuggets"]
    assert json.loads(cts(*GOLD, "--json", "-q").out)["calls"] == 9


def test_failure_is_listed_and_exits_1(priced: Remote, tmp_path: Path, cts: Cts) -> None:
    write_world(tmp_path, (*QUERIES, ("q9", "zzz qqq", "zzz")))
    done = cts(*GOLD, "-q")
    assert done.code == 1
    assert "q9 at search: the search found no sources" in done.out
    assert "--retry-failed" in done.out
    assert len(read_lines(tmp_path / "GOLD.jsonl")) == 3


def test_spent_budget_exits_75_with_finished_gold(priced: Remote, tmp_path: Path, cts: Cts) -> None:
    write_world(tmp_path)
    done = cts(*GOLD, "-q", "--max-calls", "3", "--in-flight", "1")
    assert done.code == 75
    assert len(done.err.splitlines()) == 1
    assert "1/3" in done.out
    assert [line["id"] for line in read_lines(tmp_path / "GOLD.jsonl")] == ["q1"]
    assert cts(*GOLD, "-q").code == 0
    assert len(read_lines(tmp_path / "GOLD.jsonl")) == 3


def test_foreign_gold_file_is_not_overwritten(priced: Remote, tmp_path: Path, cts: Cts) -> None:
    write_world(tmp_path)
    (tmp_path / "GOLD.jsonl").write_text("{}\n")
    done = cts(*GOLD)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "cts: --out GOLD.jsonl: line 1 was not written by this build; use another file, or --force to replace it\n"
    )
    assert cts(*GOLD, "--force", "-q").code == 0
    # Without its run directory a build cannot recognise its file.
    shutil.rmtree(tmp_path / "runs")
    assert cts(*GOLD, "-q").code == 2


def test_default_models_are_those_of_the_paper(tmp_path: Path, cts: Cts) -> None:
    done = cts("gold", "--out", "GOLD.jsonl")
    assert done.code == 2
    assert "WEBDANCER_BASE_URL (agent: webdancer), QIANFAN_API_KEY (extractor: ernie)" in done.err
