"""A command that goes on with a run takes in what the workers of a killed head have left, and pays for none of it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_provider import Remote
from gold_world import write_world
from talk_world import write_talk_world
from typed_commands import Cts, typed

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.shards import SHARDS, unmerged

RUN = ("run", "--all", "fake", "-k", "2", "--limit", "3", "--no-orig", "--name", "r", "-q")
GOLD = ("gold", "--all", "fake", "--data", "world.jsonl", "--corpus", "documents.jsonl", "--out", "g.jsonl")
TALK = (
    "converse",
    "--data",
    "talks.jsonl",
    "--all",
    "fake",
    "--corpus",
    "pages.jsonl",
    "--scheme",
    "cot",
    "-q",
)


@pytest.fixture
def cts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cts]:
    """`cts WORDS` in this process, in a folder of its own."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    with typed(monkeypatch, capsys) as run:
        yield run


def scatter(directory: Path, *, lose: int = 0) -> list[str]:
    """As if the head were killed: no results, and most steps in shards, one of them half merged; but for `lose` steps.

    The lines that there are.
    """
    journal = directory / "steps.jsonl"
    whole = journal.read_bytes().splitlines(keepends=True)
    left = whole[: len(whole) - lose]
    head, first, second = left[:1], left[1 : 1 + len(left) // 2], left[1 + len(left) // 2 :]
    (directory / SHARDS).mkdir()
    begun = len(b"".join(head))
    (directory / SHARDS / f"w1-1.jsonl.at-{begun}").write_bytes(b"".join(first))
    journal.write_bytes(b"".join([*head, first[0][:40]]))
    (directory / SHARDS / "w2-1.jsonl").write_bytes(b"".join(second) + b'{"key":"torn')
    for results in (*directory.rglob("results.jsonl"), *directory.rglob("per_item.jsonl")):
        results.unlink()
    return [line.decode() for line in left]


def whole_again(directory: Path, before: list[str]) -> None:
    """Assert that each step stands in the journal once, and nothing in shards."""
    assert sorted((directory / "steps.jsonl").read_text().splitlines(keepends=True)) == sorted(before)
    assert not (directory / SHARDS).exists()


def write_candidates(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text().splitlines()][:4]
    for name in ("a", "b"):
        lines = [json.dumps({"id": row["id"], "answer": f"{name} {row['id']}"}) + "\n" for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))


def judge(*files: str, out: str = "out") -> tuple[object, ...]:
    named = [word for file in files for word in ("--candidates", file)]
    return ("judge", "--gold", sample_dir() / "gold.jsonl", *named, "--judge", "fake", "--out", out, "-q")


def test_every_command_that_goes_on_pays_for_nothing_again(cts: Cts, priced: Remote, tmp_path: Path) -> None:
    write_world(tmp_path)
    write_talk_world(tmp_path)
    write_candidates(tmp_path)
    for words in (RUN, GOLD, TALK, judge("a.jsonl", out="one"), judge("a.jsonl", "b.jsonl", out="two")):
        known = set(tmp_path.rglob("steps.jsonl"))
        done = cts(*words)
        assert done.code == 0, done.err
        asked = len(priced.seen())
        made = [path.parent for path in set(tmp_path.rglob("steps.jsonl")) - known]
        assert made
        before = {directory: scatter(directory) for directory in made}
        (tmp_path / "g.jsonl").unlink(missing_ok=True)
        done = cts(*words)
        assert done.code == 0, done.err
        assert len(priced.seen()) == asked
        for directory in made:
            whole_again(directory, before[directory])


def test_a_further_judge_of_a_run_finds_its_steps_in_shards(cts: Cts, priced: Remote, tmp_path: Path) -> None:
    assert cts(*RUN, "--no-judge").code == 0
    run, words = tmp_path / "runs/r", ("judge", "runs/r", "--judge", "fake:other", "-q")
    assert cts(*words).code == 0
    asked, results = len(priced.seen()), (run / "results.jsonl").read_bytes()
    before = scatter(run)
    (run / "results.jsonl").write_bytes(results)
    (run / "judgments/fake_other.jsonl").unlink()
    assert cts(*words).code == 0
    assert len(priced.seen()) == asked
    whole_again(run, before)


@pytest.mark.parametrize("words", [RUN, judge("a.jsonl")], ids=["run", "judge"])
def test_a_budget_counts_what_lies_in_shards(
    cts: Cts, priced: Remote, tmp_path: Path, words: tuple[object, ...]
) -> None:
    write_candidates(tmp_path)
    assert cts(*words).code == 0
    calls = len(priced.seen())
    directory = next(tmp_path.rglob("steps.jsonl")).parent
    scatter(directory, lose=1)
    stopped = cts(*words, "--max-calls", calls - 1)
    assert stopped.code == 75, stopped.err
    assert len(priced.seen()) == calls
    assert cts(*words, "--max-calls", calls).code == 0
    assert len(priced.seen()) == calls + 1


def test_a_worker_that_does_not_end_is_named(
    cts: Cts, priced: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cts(*RUN).code == 0
    before = scatter(tmp_path / "runs/r")
    monkeypatch.setattr("cts_async.engine.shards.until_free.__kwdefaults__", {"patience_s": 0.1})
    with (tmp_path / "runs/r" / SHARDS / "w2-1.jsonl").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = cts(*RUN)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "w2-1.jsonl: a worker is still writing it" in refused.err
    assert cts(*RUN).code == 0
    whole_again(tmp_path / "runs/r", before)


def test_an_audit_says_what_it_does_not_see(cts: Cts, priced: Remote, tmp_path: Path) -> None:
    assert cts(*RUN).code == 0
    assert "unmerged" not in cts("audit", "runs/r").out
    scatter(tmp_path / "runs/r")
    assert unmerged(tmp_path / "runs/r/steps.jsonl") == 2
    told = " ".join(cts("audit", "runs/r").out.split())
    assert "shards: 2 parts of the journal lie there unmerged and not audited: resume the run first" in told
