"""`cts judge` after an edit: verdicts on what did not change are taken from wherever they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from typed_commands import cts_in

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.journal import read_records
from cts_async.runs.manifest import manifest_of

N = 4
ROWS = [
    json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text(encoding="utf-8").splitlines()[:N]
]


@pytest.fixture
def provider() -> Iterator[Remote]:
    with provider_process() as remote:
        yield remote


Calls = Callable[..., int]


@pytest.fixture
def here(tmp_path: Path, provider: Remote) -> Path:
    tables = ""
    for name, params in (("mine", ""), ("other", ""), ("sampled", "params = {temperature = 1.0}\n")):
        tables += f'[models.{name}]\nbase_url = "{provider.url}"\nmodel = "{name}-1"\n{params}'
    (tmp_path / "cts.toml").write_text(tables)
    write(tmp_path / "gold.jsonl", ROWS)
    for name in ("x", "y", "z"):
        write(tmp_path / f"{name}.jsonl", answers(name))
    return tmp_path


@pytest.fixture
def calls(here: Path, provider: Remote) -> Calls:
    """Types a command, and returns how often the provider was asked."""

    def type_and_count(*words: str) -> int:
        before = len(provider.seen())
        done = cts_in(here, *words, "-q")
        assert done.returncode == 0, done.stderr
        return len(provider.seen()) - before

    return type_and_count


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def answers(name: str) -> list[dict[str, Any]]:
    return [{"id": row["id"], "answer": f"{name} says {row['fused_query']}"} for row in ROWS]


def edit_gold(here: Path) -> None:
    """Another text of one nugget of one instance."""
    rows = json.loads(json.dumps(ROWS))
    rows[1]["gold"]["nuggets"][0]["text"] = "Another fact."
    write(here / "gold.jsonl", rows)


def judge(*files: str, judge: str = "mine", out: str = "OUT") -> tuple[str, ...]:
    named = [word for file in files for word in ("--candidates", f"{file}.jsonl")]
    return ("judge", "--gold", "gold.jsonl", *named, "--out", out, "--judge", judge)


def test_one_edited_nugget_costs_a_verdict_on_each_file_of_several(here: Path, calls: Calls) -> None:
    assert calls(*judge("x", "y")) == 2 * N
    edit_gold(here)
    assert calls(*judge("x", "y")) == 2
    version = manifest_of(here / "OUT.v2")
    assert (version.run_version, version.changed, version.systems) == (2, ("gold",), ("x", "y"))
    steps = list(read_records(here / "OUT.v2/steps.jsonl"))
    assert len(steps) == 2 * N
    assert sum(step.get("reused") == "OUT" for step in steps) == 2 * N - 2
    # The file of one more system costs that file, in the same version; the older gold is that of the first.
    assert calls(*judge("x", "y", "z")) == N
    assert not (here / "OUT.v3").exists()
    write(here / "gold.jsonl", ROWS)
    assert calls(*judge("x", "y")) == 0
    assert len(list((here / "OUT").glob("*/per_item.jsonl"))) == 2


def test_one_edited_answer_of_one_file_costs_its_verdict(here: Path, calls: Calls) -> None:
    assert calls(*judge("x")) == N
    rows = answers("x")
    rows[2]["answer"] = "Something else."
    write(here / "x.jsonl", rows)
    assert calls(*judge("x")) == 1
    lines = {line["id"]: line for line in read_records(here / "OUT/per_item.jsonl")}
    assert lines[rows[2]["id"]]["answer"] == "Something else."


def test_another_judge_makes_a_version_and_the_first_one_its_own_again(here: Path, calls: Calls) -> None:
    assert calls(*judge("x")) == N
    assert calls(*judge("x", judge="other")) == N
    assert manifest_of(here / "OUT.v2").judge == "other"
    assert calls(*judge("x")) == 0
    # Another folder: nothing of OUT is looked up there, unless it is named.
    assert calls(*judge("x", out="ELSE"), "--reuse", "OUT") == 0
    assert {step["reused"] for step in read_records(here / "ELSE/steps.jsonl")} == {str(here / "OUT")}
    assert calls(*judge("x", out="ELSE2")) == N


RUN = ("run", "--all", "mine", "--judge", "lexical", "--no-orig", "--limit", str(N), "-k", "2")


def test_judge_that_was_asked_the_same_of_another_run_is_not_asked_again(here: Path, calls: Calls) -> None:
    calls(*RUN, "--name", "a")
    assert calls("judge", "runs/a", "--judge", "other") == N
    # The same answers: at temperature 0 throughout but for the agent, whose steps are shared here.
    assert calls(*RUN, "--name", "b", "--share-sampled") == 0
    assert calls("judge", "runs/b", "--judge", "other") == 0
    assert {step["reused"] for step in verdicts(here / "runs/b", "other")} == {"a"}
    assert calls("judge", "runs/b", "--judge", "sampled") == N
    # It is the same system, so even what a judge has sampled is the same luck.
    assert calls("judge", "runs/a", "--judge", "sampled") == 0


def verdicts(run: Path, judge: str) -> list[dict[str, Any]]:
    return [step for step in read_records(run / "steps.jsonl") if step["step"] == f"judge/{judge}"]


def test_sampled_verdict_of_another_system_is_not_taken(here: Path, calls: Calls) -> None:
    assert calls(*judge("x", judge="sampled")) == N
    (here / "w.jsonl").write_text((here / "x.jsonl").read_text())
    # The same answers under another name are another system's.
    assert calls(*judge("w", judge="sampled", out="W"), "--reuse", "OUT") == N
    assert calls(*judge("w", judge="sampled", out="W2"), "--reuse", "OUT", "--share-sampled") == 0
