"""`cts plan` and `cts judge --dry-run` say what would be taken from other runs, and what is left to pay.

The world of `test_iteration`: ten instances; of each instance orig takes an agent's two turns, a search of the
documents and a verdict, and a Clarifier that is a model one call for two questions, two answers and a rewritten query
before them. The numbers are worked out by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import Remote, provider_process
from iteration_session import ASPECTS, LAB, write_data
from typed_commands import Cts

N = 10
PLAYERS = ("--all", "fake", "--data", "mini.jsonl", "--gold", "gold.jsonl", "--corpus", "docs.jsonl")
MODEL = ("-m", "fake", *PLAYERS, "-k", "2")
OWN = ("-m", "my_lab.py:ask", *PLAYERS, "-k", "2")
TABLE = '[models.{name}]\nbase_url = "{url}"\nmodel = "{id}"\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n'


@pytest.fixture
def provider(cts: Cts) -> Iterator[Remote]:
    """The fake provider, with models, data and documents in the working directory."""
    with provider_process(unknown_share=0.5) as remote:
        tables = [
            TABLE.format(name=name, url=remote.url, id=id) for name, id in (("fake", "f-1"), ("other", "o-1"))
        ]
        Path("cts.toml").write_text("".join(tables))
        write_data(Path(), N, {})
        Path("docs.jsonl").write_text(
            '{"id": "d", "url": "http://x.test/", "title": "Facts", "text": "Facts."}\n'
        )
        yield remote


def planned(cts: Cts, *words: str) -> dict[str, Any]:
    done = cts("plan", *words, "--json")
    assert done.code == 0, done.err
    plan: dict[str, Any] = json.loads(done.out)
    return plan


def by_system(plan: dict[str, Any], *fields: str) -> dict[str, tuple[Any, ...]]:
    return {row["system"]: tuple(row[field] for field in fields) for row in plan["systems"]}


def calls_by_kind(plan: dict[str, Any]) -> dict[str, int]:
    calls: dict[str, int] = {}
    for row in plan["steps"]:
        if row["calls"]:
            calls[row["step"]] = calls.get(row["step"], 0) + row["calls"]
    return calls


def run(cts: Cts, *words: str) -> None:
    done = cts("run", *words, "-q", "--json")
    assert done.code == 0, done.err


def files() -> dict[str, tuple[int, int]]:
    """Every file and folder below the working directory, with its size and the time of its last change."""
    found: dict[str, tuple[int, int]] = {}
    for path in Path().rglob("*"):
        state = path.stat()
        found[str(path)] = state.st_size, state.st_mtime_ns
    return found


def test_plan_of_a_changed_version_has_only_what_is_left_to_pay(cts: Cts, provider: Remote) -> None:
    run(cts, *MODEL)
    n_seen, before = len(provider.seen()), files()

    # Another judge: all but the verdicts is found. Of each instance 2 turns and a search of orig; a call for questions,
    # 2 answers, a rewritten query, 2 turns and a search of the other.
    plan = planned(cts, *MODEL, "--judge", "other")
    assert calls_by_kind(plan) == {"judge": 2 * N}
    reused = {system: row[0]["steps"] for system, row in by_system(plan, "reused").items()}
    assert reused == {"orig": 3 * N, "fake-k2": 7 * N}
    total = plan["total"]["reused"]
    assert (total["steps"], total["calls"]) == (10 * N, 8 * N)
    paid = json.loads(Path("runs/mini-orig+all-fake/summary.json").read_text())["priced_usd"]
    assert 0 < by_system(plan, "reused")["orig"][0]["priced_usd"] < paid
    # Nothing shows yet how long the other judge's replies are; all else is seen in the run that the steps come from.
    assert {row["step"] for row in plan["steps"] if not row["observed_steps"]} == {"judge"}

    # One nugget: a verdict for each system. The plan knows the version, and what changed.
    write_data(Path(), N, {5: "fact five"})
    plan = planned(cts, *MODEL)
    assert calls_by_kind(plan) == {"judge": 2}
    assert by_system(plan, "version", "changed", "run") == {
        "orig": (2, ["gold"], "mini-orig+all-fake.v2"),
        "fake-k2": (2, ["gold"], "mini-fake-k2+all-fake.v2"),
    }
    # Of nine instances the verdict, too.
    assert plan["total"]["reused"]["steps"] == 10 * N + 2 * (N - 1)
    assert all(row["observed_steps"] for row in plan["steps"])
    assert any("seen in mini-orig+all-fake, mini-fake-k2+all-fake" in text for text in plan["assumptions"])

    # One instance more, whose every step is left: the searches seen took two turns.
    write_data(Path(), N + 1, {})
    assert calls_by_kind(planned(cts, *MODEL)) == {
        "clarify": 1,
        "answer": 2,
        "rewrite": 1,
        "search": 2 * 2,
        "judge": 2,
    }
    write_data(Path(), N, {})

    # A further question: other questions are asked, and nothing of what follows is known.
    assert calls_by_kind(planned(cts, *PLAYERS, "-m", "fake", "-k", "3")) == {
        "clarify": N,
        "answer": 3 * N,
        "rewrite": N,
        "search": 2 * N,
        "judge": N,
    }

    # Nothing is reused by --new, and by --no-reuse; what a run itself has done it keeps.
    plan = planned(cts, *MODEL, "--new")
    assert (plan["total"]["calls"], plan["total"]["reused"]["steps"]) == (3 * N + 7 * N, 0)
    assert by_system(plan, "version") == {"orig": (2,), "fake-k2": (2,)}
    # Of this run there is nothing that it comes from: ten turns a search are assumed.
    plan = planned(cts, *MODEL, "--judge", "other", "--no-reuse")
    assert (plan["total"]["calls"], plan["total"]["reused"]["steps"]) == (26 * N, 0)
    plan = planned(cts, *MODEL, "--no-reuse")
    assert (plan["total"]["calls"], plan["total"]["reused"]["steps"]) == (0, 0)

    # From another folder only by --reuse: all of it, since the same system made it.
    elsewhere = ("--runs-dir", "elsewhere")
    assert planned(cts, *MODEL, *elsewhere)["total"]["reused"]["steps"] == 0
    plan = planned(cts, *MODEL, *elsewhere, "--reuse", "runs")
    assert (plan["total"]["calls"], plan["total"]["reused"]["steps"]) == (0, 12 * N)
    done = cts("plan", *MODEL, *elsewhere, "--reuse", "runs")
    assert "No call is left to make. Reused from other runs: 120 steps; their 100 calls cost $0." in done.out

    assert len(provider.seen()) == n_seen
    assert files() == before | {name: files()[name] for name in ("mini.jsonl", "gold.jsonl")}


def test_sampled_steps_of_another_system_are_planned_as_shared_only_on_demand(
    cts: Cts, provider: Remote
) -> None:
    run(cts, *MODEL)
    # The same Clarifier under another name of the catalogue: it asks the same at the same server.
    with Path("cts.toml").open("a") as file:
        file.write(TABLE.format(name="twin", url=provider.url, id="f-1"))
    twin = ("-m", "twin", *PLAYERS, "-k", "2", "--no-orig")
    # Its questions and searches are its own, and what follows is unknown until it asks: ten turns are assumed.
    assert planned(cts, *twin)["total"]["calls"] == 15 * N
    plan = planned(cts, *twin, "--share-sampled")
    assert (plan["total"]["calls"], plan["total"]["reused"]["steps"]) == (0, 8 * N)


def test_plan_names_a_changed_function_and_calls_none(cts: Cts, provider: Remote) -> None:
    first, mended = "Which kind for query 3?", "Which size for query 3?"
    Path("my_lab.py").write_text(LAB.format(other=first, aspects=ASPECTS))
    run(cts, *OWN)
    Path("my_lab.py").write_text(
        LAB.format(other=mended, aspects=ASPECTS).replace(
            "def ask(view):", "def ask(view):\n    print(1 / 0)"
        )
    )
    done = cts("plan", *OWN)
    assert done.code == 0, done.err
    assert "mini-my_lab.ask-k2+all-fake.v2: settings changed: clarifier (my_lab.ask); version 2\n" in done.out
    assert (
        "At most: what my_lab.ask (clarifier) replies is known once it is called, and what follows from the same "
        "replies as before is reused, too."
    ) in done.out
    assert planned(cts, *OWN)["at_most"] == ["my_lab.ask (clarifier)"]


def test_reused_steps_cost_no_budget(cts: Cts, provider: Remote) -> None:
    run(cts, *MODEL)
    # 20 new verdicts: a budget that the 80 reused calls would have spent is enough. Resumed, it is spent.
    budget = ("--max-calls", str(2 * N))
    other = (*MODEL, "--judge", "other")
    assert "would stop early" not in cts("plan", *other, *budget).out
    run(cts, *other, *budget)
    done = cts("plan", *other, *budget)
    assert "Nothing is left to do: 20 calls" in done.out


def test_judging_is_planned_without_verdicts_that_other_runs_have(cts: Cts, provider: Remote) -> None:
    run(cts, *MODEL)
    other = ("judge", "runs/mini-orig+all-fake", "--judge", "other")
    assert cts(*other, "-q").code == 0
    # The same answers as candidates elsewhere: orig's verdicts are there, those on the other system's answers are not
    # where the two differ.
    answers: dict[str, list[str]] = {}
    for name in ("orig", "fake-k2"):
        lines = Path(f"runs/mini-{name}+all-fake/results.jsonl").read_text().splitlines()
        rows = sorted((json.loads(line) for line in lines), key=lambda row: str(row["id"]))
        answers[name] = [row["answer"] for row in rows]
        texts = [json.dumps({"id": row["id"], "answer": row["answer"]}) + "\n" for row in rows]
        Path(f"{name}.jsonl").write_text("".join(texts))
    n_other = sum(orig != asked for orig, asked in zip(answers["orig"], answers["fake-k2"], strict=True))
    assert n_other > 0
    n_seen, before = len(provider.seen()), files()
    judge = ("judge", "--gold", "gold.jsonl", "--judge", "other", "--out", "judged", "--candidates")
    done = cts(*judge, "orig.jsonl", "--candidates", "fake-k2.jsonl", "--dry-run", "--json")
    assert done.code == 0, done.err
    plan = json.loads(done.out)
    assert (plan["total"]["calls"], plan["total"]["reused"]["steps"]) == (n_other, N)
    (row,) = plan["judges"]
    assert (row["answers_left"], row["distinct"], row["reused"]["calls"]) == (2 * N, n_other, N)
    done = cts(*judge, "orig.jsonl", "--dry-run")
    assert (
        "Nothing is left that needs calls. Reused from other runs: 10 steps; their 10 calls cost $0."
        in done.out
    )
    done = cts(*judge, "orig.jsonl", "--no-reuse", "--dry-run", "--json")
    assert json.loads(done.out)["total"]["calls"] == N
    assert (len(provider.seen()), files()) == (n_seen, before)


def test_planned_and_taken_are_compared_without_what_was_reused(cts: Cts, provider: Remote) -> None:
    run(cts, *MODEL)
    # All steps but the 20 verdicts are reused. Planned were 26 calls an instance, 2 of them verdicts.
    run(cts, *MODEL, "--judge", "other")
    compared = planned(cts, *MODEL, "--judge", "other")
    assert (compared["planned"]["calls"], compared["actual"]["calls"]) == (2 * N, 2 * N)
    whole = planned(cts, *MODEL)
    assert (whole["planned"]["calls"], whole["actual"]["calls"]) == (26 * N, 10 * N)
