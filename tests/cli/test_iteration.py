"""A researcher edits her work and types the same command: it costs what follows from the edit, and nothing else.

Ten instances, each of a query and an intent that ends in a word of its own. The models are the fake provider's: an agent
of two turns, a User Answerer who does not know half of what she is asked, a judge. The numbers are worked out by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from fake_roles import chance
from typed_commands import Cts

from cts_async.engine.journal import read_records
from cts_async.runs.manifest import manifest_of

ASPECTS = ("time", "place", "price")
LAB = """
from cts_async import role

OTHER = {other!r}

@role("clarifier")
def ask(view):
    questions = [f"Which {{aspect}} for {{view.blurred_query}}?" for aspect in {aspects!r}]
    if view.blurred_query == "query 3":
        questions[1] = OTHER
    return questions[: view.k]
"""
COMMAND = [
    *("run", "-m", "my_lab.py:ask", "--all", "fake", "--data", "mini.jsonl", "--gold", "gold.jsonl"),
    *("--corpus", "docs.jsonl", "-q", "--json"),
]
SYSTEM = "my_lab.ask-k2"


def intent(i: int) -> str:
    return f"query {i} about word{i}"


def known(i: int, question: str) -> bool:
    """Whether the fake User Answerer knows the answer."""
    return chance("unknown", intent(i), question) >= 0.5


def write_data(n: int, texts: dict[int, str]) -> None:
    """Queries and gold of `n` instances, some with another text of their nugget."""
    rows, gold = [], []
    for i in range(n):
        rows.append({"id": f"q{i}", "fused_query": intent(i), "blurred_query": f"query {i}"})
        nugget = {"id": "N1", "text": texts.get(i, f"fact {i}"), "weight": 2}
        gold.append({"id": f"q{i}", "query": intent(i), "gold": {"nuggets": [nugget]}})
    Path("mini.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))


def write_models(url: str, judge_id: str) -> None:
    table = '[models.{name}]\nbase_url = "{url}"\nmodel = "{id}"\n'
    tables = [
        table.format(name="fake", url=url, id="fake-1"),
        table.format(name="other", url=url, id=judge_id),
    ]
    Path("cts.toml").write_text("".join(tables))


@pytest.fixture
def provider() -> Iterator[Remote]:
    with provider_process(unknown_share=0.5) as remote:
        yield remote


class Counting:
    """Types commands, and counts what the provider was asked since the last one, by role."""

    def __init__(self, cts: Cts, provider: Remote) -> None:
        self._cts, self._provider, self._n = cts, provider, 0

    def __call__(self, *words: str) -> Counter[str]:
        done = self._cts(*words)
        assert done.code == 0, done.err
        return self.asked()

    def asked(self) -> Counter[str]:
        seen = self._provider.seen()[self._n :]
        self._n += len(seen)
        return Counter(request.role for request in seen)


def compared(cts: Cts) -> list[str]:
    """The systems that `cts compare runs` has rows for, in its one group."""
    done = cts("compare", "runs", "--json")
    assert done.code == 0, done.err
    comparison = json.loads(done.out)
    assert len(comparison.get("groups", [comparison])) == 1
    return sorted(row["system"] for row in comparison["judges"][0]["leaderboard"])


def test_each_edit_costs_what_follows_from_it(cts: Cts, provider: Remote) -> None:
    first, mended = "Which kind for query 3?", "Which size for query 3?"
    # The mended question is answered otherwise, and so leads to another search.
    assert known(3, first) != known(3, mended)
    count = Counting(cts, provider)
    write_models(provider.url, "other-1")
    write_data(10, {})
    Path("docs.jsonl").write_text(
        '{"id": "d", "url": "http://x.test/", "title": "Facts", "text": "Facts."}\n'
    )
    Path("my_lab.py").write_text(LAB.format(other=first, aspects=ASPECTS))
    run = [*COMMAND, "-k", "2"]
    assert count(*run) == Counter(answer=20, rewrite=10, agent=2 * 10 + 2 * 10, judge=10 + 10)
    assert compared(cts) == [SYSTEM, "orig"]

    # One question in the function: its answer, a rewritten query, a search and a verdict; nothing of orig.
    Path("my_lab.py").write_text(LAB.format(other=mended, aspects=ASPECTS))
    assert count(*run) == Counter(answer=1, rewrite=1, agent=2, judge=1)
    assert compared(cts) == [SYSTEM, "orig"]
    second = Path(f"runs/mini-{SYSTEM}+all-fake.v2")
    assert manifest_of(second).changed == ("clarifier (my_lab.ask)",)
    assert cts("audit", str(second)).code == 0

    # A comment in it: nothing.
    with Path("my_lab.py").open("a") as file:
        file.write("# mended\n")
    assert count(*run) == Counter()

    # One nugget: a verdict on each system's answer.
    write_data(10, {5: "fact five"})
    assert count(*run) == Counter(judge=2)
    assert compared(cts) == [SYSTEM, "orig"]

    # One instance more: that instance.
    write_data(11, {5: "fact five"})
    assert count(*run) == Counter(answer=2, rewrite=1, agent=2 + 2, judge=1 + 1)
    assert compared(cts) == [SYSTEM, "orig"]

    # Another judge: the verdicts. Its id was wrong, and is corrected: the verdicts again.
    assert count(*run, "--judge", "other") == Counter(judge=11 + 11)
    assert compared(cts) == [SYSTEM, "orig"]
    write_models(provider.url, "other-2")
    assert count(*run, "--judge", "other") == Counter(judge=11 + 11)
    assert compared(cts) == [SYSTEM, "orig"]

    # A third question: its answer, a rewritten query and, by a sampling agent, a search of the system's own. Where
    # nothing new was learned the answer is the same, and so is the verdict on it.
    n_learned = sum(known(i, f"Which price for query {i}?") for i in range(11))
    assert 0 < n_learned < 11
    three = [*COMMAND, "-k", "3", "--judge", "other"]
    assert count(*three) == Counter(answer=11, rewrite=11, agent=2 * 11, judge=n_learned)
    assert compared(cts) == [SYSTEM, "my_lab.ask-k3", "orig"]

    # Older settings resume the version that has them.
    assert count(*run) == Counter()
    for directory in Path("runs").iterdir():
        keys = [record["key"] for record in read_records(directory / "steps.jsonl") if record["ok"]]
        assert len(keys) == len(set(keys)), directory
