"""`cts converse` as it is typed: tables, JSON, CSV, exit codes, resuming, and evaluating anew for nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from talk_world import INTENTS, write_talk_world
from typed_commands import Cts

WORDS = ("converse", "--data", "talks.jsonl", "--all", "fake", "--corpus", "pages.jsonl", "-q")
SCHEMES = ("standard", "at-standard", "cot", "at-cot")


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> None:
    write_talk_world(tmp_path)


def test_one_command_holds_all_schemes_and_modes(
    cts: Cts, priced: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = cts(*WORDS, "--turns", "2")
    assert done.code == 0, done.err
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert runs == sorted(
        f"talks-talk-fake-{scheme}-{mode}-k2+support-fake"
        for scheme in SCHEMES
        for mode in ("respond", "select")
    )
    assert "Retrieval by turn, nDCG@10 (table 8)" in done.out
    assert "Retrieval by turn, MRR@10 (table 8)" in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert f"  runs/{runs[0]}/" in done.out.splitlines()
    asked = len(priced.seen())
    again = cts(
        *WORDS, "--turns", "2", "--qrels", "intent:1", "--measure", "P@1", "--json", "--csv", "tables"
    )
    assert again.code == 0
    assert len(priced.seen()) == asked  # another evaluation of the same conversations
    tables = json.loads(again.out)["tables"]
    assert tables.keys() == {"conversations", "turns_P@1", "turn_tests"}
    assert json.loads(again.out)["smoke_test"] is False
    assert [row["done"] for row in tables["conversations"]["rows"]] == [len(INTENTS)] * 8
    assert (tmp_path / "tables" / "turn_tests.csv").exists()


def test_mistakes_are_one_line_and_cost_nothing(cts: Cts, priced: Remote, tmp_path: Path) -> None:
    mistakes = {
        ("--scheme", "tree"): "--scheme tree: must be one of standard, at-standard, cot, at-cot",
        ("--scheme", "cts"): "--scheme cts: must be one of standard,",
        ("--mode", "talk"): "--mode talk: must be one of at-once, respond, select",
        ("--qrels", "none.qrels"): "none.qrels",
        ("--measure", "nDCG@ten"): "'nDCG@ten' is not a known measure",
        ("--model", "nobody"): "nobody",
        ("--encoder", "nowhere"): "",
        ("--reranker", "nowhere"): "",
        ("--csv", "pages.jsonl"): "pages.jsonl: is a file; name a folder for the tables",
    }
    for words, told in mistakes.items():
        done = cts(*WORDS, *words)
        assert (done.code, done.out) == (2, ""), words
        assert told in done.err
        assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
    assert priced.seen() == []


def test_conversations_have_no_answer_to_judge_and_no_score_to_compare(
    cts: Cts, priced: Remote, tmp_path: Path
) -> None:
    words = ["sample" if word == "talks.jsonl" else word for word in WORDS]
    assert cts(*words, "--scheme", "cot", "--mode", "select", "--turns", "1", "--limit", "1").code == 0
    for command in (("judge", "runs", "--judge", "lexical"), ("compare", "runs"), ("score", "runs")):
        done = cts(*command)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert "cts converse" in done.err
    assert cts("audit", "runs").code == 0


def test_spent_budget_shows_finished_conversations(cts: Cts, priced: Remote) -> None:
    done = cts(*WORDS, "--scheme", "cot", "--mode", "select", "--max-calls", "5")
    assert done.code == 75
    assert "Retrieval by turn" not in done.out
    assert "Conversations" in done.out
    assert cts(*WORDS, "--scheme", "cot", "--mode", "select").code == 0
    assert len(priced.seen()) == len(INTENTS) * 3 * 2


def test_failed_conversation_is_listed_and_exits_1(cts: Cts, tmp_path: Path) -> None:
    with provider_process(refuses="select_query") as remote:
        (tmp_path / "cts.toml").write_text(f'[models.fake]\nbase_url = "{remote.url}"\nmodel = "fake-1"\n')
        done = cts(*WORDS, "--scheme", "cot", "--mode", "select")
    assert done.code == 1
    assert "failed: talks-talk-fake-cot-select-k3+support-fake 1-1 at select/1" in " ".join(done.out.split())
