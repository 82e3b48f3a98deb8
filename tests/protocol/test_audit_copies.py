"""Copied steps are audited as a run's own, and compared with their origins where these still exist."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_runs import Record, write
from fake_provider import provider_process
from iteration_session import FIRST_QUESTION, session
from typed_commands import cts_in

from cts_async.engine.journal import read_records
from cts_async.protocol.audit import Audit, audit_run

SYSTEM = "mini-my_lab.ask-k2+all-fake"
MODEL_LAB = """
from cts_async import role

@role("clarifier")
async def ask(view, llm):
    await llm(f"Something about {view.blurred_query}", model="fake")
    return [FIRST, "Which size?"]
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose Clarifier asks a model, and its second version, of which one nugget is another."""
    here = tmp_path_factory.mktemp("copies")
    with provider_process(unknown_share=0.5) as provider:
        begin, _, mend_nugget, *_ = session(provider.url)
        begin.make(here)
        (here / "my_lab.py").write_text(MODEL_LAB.replace("FIRST", repr(FIRST_QUESTION)))
        for edit in (None, mend_nugget):
            if edit is not None:
                edit.make(here)
            done = cts_in(here, *begin.words)
            assert done.returncode == 0, done.stderr
    return here / "runs"


@pytest.fixture
def runs(played: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played, tmp_path / "runs"))


def audited(run: Path) -> Audit:
    # The data's gold has been edited since: version 2 has the data as they are.
    return audit_run(run)


def changed(run: Path, step: str, change: Callable[[Record], Any], instance: str = "q1") -> None:
    records = list(read_records(run / "steps.jsonl"))
    touched = [record for record in records if (record["instance"], record["step"]) == (instance, step)]
    assert touched
    for record in touched:
        change(record)
    write(run / "steps.jsonl", records)


# Ten instances, each: the role's call and its model's, 2 answers, rewrite, 2 turns and one search or more; the verdicts
# on all but the mended nugget are copied, too.


def test_version_proves_the_closed_book_over_copied_steps(runs: Path) -> None:
    version = runs / f"{SYSTEM}.v2"
    copied = [record for record in read_records(version / "steps.jsonl") if "reused" in record]
    executed = [record for record in read_records(version / "steps.jsonl") if "reused" not in record]
    assert [record["step"] for record in executed] == ["judge/fake"]
    assert {record["reused"] for record in copied} == {SYSTEM}
    # What a role of the user's has asked came along.
    assert sum(record["step"] == "clarify/llm/1" for record in copied) == 10
    audit = audited(version)
    assert audit.held
    assert audit.n_held == 10
    first = audited(runs / SYSTEM)
    assert audit.n_requests == first.n_requests
    assert (
        f"{len(copied)} copied steps: {len(copied)} compared with their origin, 0 differ, 0 origins gone"
        in audit.notes
    )
    assert not any("copied" in note for note in first.notes)


def test_leak_in_a_copied_step_is_found(runs: Path) -> None:
    def leak(record: Record) -> None:
        record["request"]["messages"][0]["content"] += " word1"

    for run in (runs / SYSTEM, runs / f"{SYSTEM}.v2"):
        changed(run, "clarify/llm/1", leak)
        (finding,) = [finding for finding in audited(run).findings if finding.violates]
        assert (finding.level, finding.instance, finding.step) == ("leak", "q1", "clarify/llm/1")


@pytest.mark.parametrize(
    ("step", "change"),
    [
        ("judge/fake", lambda record: record["response"].update(text='{"results": []}')),
        ("answer/1", lambda record: record["usage"].update(output=0)),
        ("clarify/llm/1", lambda record: record["response"].update(text="changed")),
        ("rewrite", lambda record: record.update(model="another")),
    ],
)
def test_copy_that_was_changed_is_a_finding(runs: Path, step: str, change: Callable[[Record], Any]) -> None:
    version = runs / f"{SYSTEM}.v2"
    changed(version, step, change)
    audit = audited(version)
    assert not audit.held
    assert (audit.n_held, audit.n_instances) == (9, 10)
    (finding,) = [finding for finding in audit.findings if "copied from" in finding.problem]
    assert (finding.level, finding.instance, finding.step) == ("provenance", "q1", step)
    assert SYSTEM in finding.problem
    assert any("1 differ, 0 origins gone" in note for note in audit.notes)


@pytest.mark.parametrize("origin", [SYSTEM, "../outside", "/nowhere", "a\0b", f"{SYSTEM}.v2", ""])
def test_copies_whose_origin_is_gone_or_cannot_be_one_are_counted(runs: Path, origin: str) -> None:
    version = runs / f"{SYSTEM}.v2"
    records = list(read_records(version / "steps.jsonl"))
    for record in records:
        if "reused" in record:
            record["reused"] = origin
    write(version / "steps.jsonl", records)
    shutil.rmtree(runs / SYSTEM)
    audit = audited(version)
    assert audit.held
    assert any("0 compared with their origin, 0 differ, 1 origins gone" in note for note in audit.notes)


def test_run_that_was_moved_away_is_audited_without_its_origins(runs: Path, tmp_path: Path) -> None:
    version = Path(shutil.move(runs / f"{SYSTEM}.v2", tmp_path / "elsewhere"))
    assert audited(version).held


def test_origin_behind_a_link_is_not_read(runs: Path, tmp_path: Path) -> None:
    shutil.move(runs / SYSTEM, tmp_path / "real")
    (runs / SYSTEM).symlink_to(tmp_path / "real")
    audit = audited(runs / f"{SYSTEM}.v2")
    assert any("0 compared with their origin" in note for note in audit.notes)
