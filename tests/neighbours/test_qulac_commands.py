"""`cts data qulac` as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from qulac_rows import qulac_row, qulac_table
from typer.testing import CliRunner

import cts_async
from cts_async.errors import InputError, Interrupted, UsageError
from cts_async.neighbours.qulac import app, retrieve

OURS = str(Path(cts_async.__file__).parents[1])


def table(questions: int = 3, topics: int = 1) -> dict[str, dict[str, Any]]:
    """Topics with a facet each, which has that many questions."""
    numbers = [(t, q) for t in range(1, topics + 1) for q in range(1, questions + 1)]
    return qulac_table(*(qulac_row(f"{t}-1-{q}", f"q{q}", f"a{q}") for t, q in numbers))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "qulac.json"
    path.write_text(json.dumps(table(topics=2)))
    return path


def cts(*words: object) -> str:
    """What the command prints; an error of ours comes out as itself."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception:
        raise result.exception
    return result.stdout


def test_conversations_go_to_a_file_and_are_counted(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert cts("conversations", path, "--out", out) == ""
    assert len(out.read_text().splitlines()) == 2 * (3 + 6 + 3)
    counted = json.loads(cts("conversations", path, "--count", "--turns", "1,3", "--json"))["conversations"]
    assert [row["conversations"] for row in counted] == [6, 6, 12]


def test_conversation_options_are_checked(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "conversations.jsonl"
    with pytest.raises(UsageError, match=r"--turns 1,4: '4' is not one of 1, 2, 3"):
        cts("conversations", path, "--turns", "1,4")
    with pytest.raises(UsageError, match=r"--topic 7: no such topic; there are 2 from 1 to 2"):
        cts("conversations", path, "--topic", "7")
    with pytest.raises(UsageError, match="is an input file of this command"):
        cts("conversations", path, "--out", path)
    cts("conversations", path, "--turns", "1", "--out", out)
    with pytest.raises(UsageError, match=r"conversations.jsonl: exists already; --force replaces it"):
        cts("conversations", path, "--turns", "2", "--out", out)
    before = out.read_bytes()
    cts("conversations", path, "--turns", "2", "--out", out, "--force")
    assert out.read_bytes() != before


def test_gains_of_chosen_metrics_are_printed_with_notes(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    values = {"1-1-0-0": 0.5, "1-1-1-1": 0.75}
    path.write_text(json.dumps({"NDCG20": values, "P1": {"1-1-1-1": 1}, "P3": {"1-1-1-0": 1}}))
    out = cts("gains", path, "--metric", "NDCG20", "--metric", "P1")
    assert "+0.2500" in out
    assert "P1: 1 facet has no record of the original query alone (1-1-0-0)" in out
    found = json.loads(cts("gains", path, "--metric", "NDCG20", "--json", "--test"))
    assert found["oracle"][0]["gain"] == 0.25
    assert found["questions_NDCG20"][0]["gain"] == 0.25
    with pytest.raises(UsageError, match=r"--metric P5: .* has only 'NDCG20', 'P1', 'P3'"):
        cts("gains", path, "--metric", "P5")
    with pytest.raises(InputError, match=r"field 'P3': holds no question with its answer"):
        cts("gains", path)


def test_reader_that_has_seen_enough_ends_the_stream_quietly(tmp_path: Path) -> None:
    """60 questions give 60 + 60 * 59 + 60 * 59 * 58 / 2 conversations: far more than a pipe holds."""
    path = tmp_path / "qulac.json"
    path.write_text(json.dumps(table(60)))
    command = [sys.executable, "-m", "cts_async.cli.main", "data", "qulac", "conversations", str(path)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": OURS}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["id"] == "1-1-1-1"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


DOCUMENTS = {
    "car": "the jaguar is a fast car with an engine",
    "cat": "the jaguar is a big cat of the jungle",
    "mac": "jaguar was a version of an operating system",
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with qulac.json and docs.jsonl; indexes are kept in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = [{"id": id, "url": id, "title": "", "text": text} for id, text in DOCUMENTS.items()]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    about = {"topic": "jaguar", "facet_desc": "a big cat of the jungle"}
    pairs = qulac_table(
        qulac_row("1-1-1", "do you mean the car", "no", **about),
        qulac_row("1-1-2", "what animal", "the cat of the jungle", **about),
        qulac_row("1-2-3", "what", "the fast car", topic="jaguar", facet_desc="the fast car"),
    )
    (tmp_path / "qulac.json").write_text(json.dumps(pairs))
    return tmp_path


def run(world: Path, qrels: str = "intent:1", **changes: Any) -> None:
    retrieve(world / "qulac.json", world / "docs.jsonl", qrels, world / "eval.json", **changes)


def test_retrieve_writes_dictionary_and_gains_show_its_notes(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(world, metric=["P1"])
    out, err = capsys.readouterr()
    assert err == f"8 records of 1 metrics in {world / 'eval.json'}\n"
    assert "not relevance judgments" in out
    unanswered = dict.fromkeys(("1-1-0-0", "1-1-1-0", "1-1-1-1", "1-1-2-0", "1-2-0-0", "1-2-3-0"), 0.0)
    assert json.loads((world / "eval.json").read_bytes()) == {
        "P1": {**unanswered, "1-1-2-1": 1.0, "1-2-3-1": 1.0}
    }
    assert "not relevance judgments" in cts("gains", world / "eval.json")


def test_judgments_of_a_file_are_taken_by_facet(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "qrels").write_text("1 1 cat 2\n1 1 elsewhere 1\n1 9 mac 1\n")
    run(world, str(world / "qrels"), as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["notes"] == [
        "1 of 2 judged documents are not in the corpus",
        "1 of 2 facets have no judgments and are left out",
    ]
    found = json.loads((world / "eval.json").read_bytes())
    assert len(found) == 11
    assert found["MRR100"]["1-1-2-1"] == 1.0
    assert not any(record.startswith("1-2") for record in found["P1"])


def test_relevance_level_is_used_and_recorded(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "qrels").write_text("1 1 cat 2\n1 2 car 1\n")
    run(world, str(world / "qrels"), metric=["MRR100", "NDCG1"], relevance_level=2, as_json=True)
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes == [
        f"--qrels {world / 'qrels'}; relevant from grade 2 (nDCG: by gains)",
        "1 of 2 facets have judgments but no relevant document: they count 0 except in nDCG, whatever is asked",
    ]
    found = json.loads((world / "eval.json").read_bytes())
    assert [found["MRR100"]["1-1-2-1"], found["MRR100"]["1-2-3-1"]] == [1.0, 0.0]
    assert found["NDCG1"]["1-2-3-1"] == 1.0
    about = json.loads((world / "eval.about.json").read_bytes())
    assert (about["relevance_level"], about["notes"]) == (2, notes)


@pytest.mark.parametrize(
    ("qrels", "problem"),
    [
        ("3 1 cat 1\n", "qrels: judges none of the 2 intents: it judges '3-1', their ids are like '1-1'"),
        ("1 1 dog 1\n", "qrels: judges no document of the corpus: it judges 'dog'"),
        ("1 1 cat\n", "qrels:1: has 3 fields instead of 4"),
    ],
)
def test_judgments_of_something_else_are_refused(world: Path, qrels: str, problem: str) -> None:
    (world / "qrels").write_text(qrels)
    with pytest.raises(InputError) as caught:
        run(world, str(world / "qrels"))
    assert problem in str(caught.value)
    assert not (world / "eval.json").exists()


@pytest.mark.parametrize(
    ("qrels", "changes", "problem"),
    [
        ("intent:0", {}, "--qrels intent:0: write intent:N"),
        ("intent:x", {}, "--qrels intent:x: write intent:N"),
        ("intent", {"answers": "maybe"}, "--answers maybe: must be one of both, with, without"),
        ("intent", {"turns": "4"}, "--turns 4"),
        ("intent", {"metric": ["ERR20"]}, "--metric ERR20: must be one of MRR100, NDCG1"),
        ("intent", {"mu": 0.0}, "mu must be a positive number"),
        ("intent", {"alpha": 2.0}, "the weights of query and answers"),
        ("intent", {"relevance_level": 2}, "--relevance-level 2: intent has grade 1 only"),
    ],
)
def test_wrong_option_is_one_line(world: Path, qrels: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(world, qrels, **changes)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ctrl_c_leaves_no_half_of_a_file(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cts_async.neighbours.qulac.conversations.evaluate", interrupted)
    with pytest.raises(Interrupted, match=r"eval\.json is not written"):
        run(world)
    assert {path.name for path in world.iterdir()} == {"cache", "docs.jsonl", "qulac.json"}


def test_evaluation_that_exists_is_replaced_only_with_force(world: Path) -> None:
    (world / "eval.json").write_text("hours of work")
    with pytest.raises(UsageError, match=r"--out .*eval\.json: exists already; --force replaces it"):
        run(world, metric=["P1"])
    with pytest.raises(UsageError, match="is an input file of this command"):
        retrieve(world / "qulac.json", world / "docs.jsonl", "intent", world / "docs.jsonl")
    assert (world / "eval.json").read_text() == "hours of work"
    run(world, metric=["P1"], force=True)
    assert json.loads((world / "eval.json").read_bytes()).keys() == {"P1"}
