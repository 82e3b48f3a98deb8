"""`cts data qulac retrieve` as typed and as called, over a corpus and a Qulac of three facets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cts_async
from cts_async.errors import InputError, Interrupted, UsageError
from cts_async.neighbours.qulac.commands import retrieve

OURS = str(Path(cts_async.__file__).parents[1])
DOCUMENTS = {
    "car": "the jaguar is a fast car with an engine",
    "cat": "the jaguar is a big cat of the jungle",
    "mac": "jaguar was a version of an operating system",
}
FACETS = {"1": "a big cat of the jungle", "2": "the fast car"}
TABLE = ("topic_id", "facet_id", "topic", "topic_type", "facet_type", "topic_desc", "facet_desc")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with qulac.json and docs.jsonl; indexes are kept in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = [{"id": id, "url": id, "title": "", "text": text} for id, text in DOCUMENTS.items()]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [("1", "do you mean the car", "no"), ("1", "what animal", "the cat of the jungle")]
    pairs = [
        {
            **dict(
                zip(TABLE, (1, int(facet), "jaguar", "ambiguous", "inf", "t", FACETS[facet]), strict=True)
            ),
            "topic_facet_id": f"1-{facet}",
            "topic_facet_question_id": f"1-{facet}-{number}",
            "question": question,
            "answer": answer,
        }
        for number, (facet, question, answer) in enumerate([*asked, ("2", "what", "the fast car")], 1)
    ]
    columns = {name: {str(n): row[name] for n, row in enumerate(pairs)} for name in pairs[0]}
    (tmp_path / "qulac.json").write_text(json.dumps(columns))
    return tmp_path


def run(world: Path, qrels: str = "intent:1", **changes: Any) -> None:
    retrieve(world / "qulac.json", world / "docs.jsonl", qrels, world / "eval.json", **changes)


def test_a_dictionary_is_written_and_its_gains_say_what_they_rest_on(world: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(world), "PYTHONPATH": OURS, "COLUMNS": "120"}

    def cts(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cts_async.cli.main", "data", "qulac", *words]
        return subprocess.run(
            command, cwd=world, env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    options = ("--corpus", "docs.jsonl", "--qrels", "intent:1", "--out", "eval.json", "--metric", "P1")
    done = cts("retrieve", "qulac.json", *options)
    assert (done.returncode, done.stderr) == (0, "8 records of 1 metrics in eval.json\n")
    assert "not relevance judgments" in done.stdout
    assert json.loads((world / "eval.json").read_bytes()) == {
        "P1": {
            "1-1-0-0": 0.0,
            "1-1-1-0": 0.0,
            "1-1-1-1": 0.0,
            "1-1-2-0": 0.0,
            "1-1-2-1": 1.0,
            "1-2-0-0": 0.0,
            "1-2-3-0": 0.0,
            "1-2-3-1": 1.0,
        }
    }
    assert "not relevance judgments" in cts("gains", "eval.json").stdout


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


def test_a_relevance_level_is_used_and_recorded_beside_the_dictionary(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_facet_that_nothing_is_relevant_to_is_told(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "qrels").write_text("1 1 cat 2\n1 2 car 0\n1 2 mac -2\n")
    run(world, str(world / "qrels"), as_json=True)
    assert json.loads(capsys.readouterr().out)["notes"] == [
        "1 of 2 facets have judgments but no relevant document: they count 0, whatever is asked"
    ]
    assert json.loads((world / "eval.json").read_bytes())["P1"]["1-2-0-0"] == 0.0


@pytest.mark.parametrize(
    ("qrels", "problem"),
    [
        ("3 1 cat 1\n", "qrels: judges no facet of these topics; it has '3-1', they are called '1-1'"),
        ("1 1 dog 1\n", "qrels: none of its 1 documents is in the corpus"),
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
def test_a_wrong_option_is_one_line(world: Path, qrels: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(world, qrels, **changes)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_read_is_not_written_over(world: Path) -> None:
    with pytest.raises(UsageError, match="is an input file of this command"):
        retrieve(world / "qulac.json", world / "docs.jsonl", "intent", world / "docs.jsonl")


def test_ctrl_c_leaves_no_half_of_a_file(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cts_async.neighbours.qulac.retrieval.evaluate", interrupted)
    with pytest.raises(Interrupted, match=r"eval\.json is not written"):
        run(world)
    assert {path.name for path in world.iterdir()} == {"cache", "docs.jsonl", "qulac.json"}


def test_an_evaluation_that_exists_is_replaced_only_with_force(world: Path) -> None:
    (world / "eval.json").write_text("hours of work")
    with pytest.raises(UsageError, match=r"--out .*eval\.json: exists already; --force replaces it"):
        run(world, metric=["P1"])
    assert (world / "eval.json").read_text() == "hours of work"
    run(world, metric=["P1"], force=True)
    assert json.loads((world / "eval.json").read_bytes()).keys() == {"P1"}
