"""A researcher's session: run, edit, type the same command again; worked out by hand in `cli/test_iteration.py`.

Ten instances, each of a query and an intent that ends in a word of its own. The models are the fake provider's: an agent
of two turns, a User Answerer who does not know half of what she is asked, a judge.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from fake_provider import Remote
from fake_roles import chance
from real_run import RealRun

from cts_async.engine.journal import read_records

ASPECTS: Final = ("time", "place", "price")
LAB: Final = """
from cts_async import role

OTHER = {other!r}

@role("clarifier")
def ask(view):
    questions = [f"Which {{aspect}} for {{view.blurred_query}}?" for aspect in {aspects!r}]
    if view.blurred_query == "query 3":
        questions[1] = OTHER
    return questions[: view.k]
"""
COMMAND: Final = [
    *("run", "-m", "my_lab.py:ask", "--all", "fake", "--data", "mini.jsonl", "--gold", "gold.jsonl"),
    *("--corpus", "docs.jsonl", "-q", "--json"),
]
FIRST_QUESTION, MENDED_QUESTION = "Which kind for query 3?", "Which size for query 3?"
CONCURRENCY: Final = 4


def intent(i: int) -> str:
    return f"query {i} about word{i}"


def known(i: int, question: str) -> bool:
    """Whether the fake User Answerer knows the answer."""
    return chance("unknown", intent(i), question) >= 0.5


def write_data(here: Path, n: int, texts: dict[int, str]) -> None:
    """Queries and gold of `n` instances, some with another text of their nugget."""
    rows, gold = [], []
    for i in range(n):
        rows.append({"id": f"q{i}", "fused_query": intent(i), "blurred_query": f"query {i}"})
        nugget = {"id": "N1", "text": texts.get(i, f"fact {i}"), "weight": 2}
        gold.append({"id": f"q{i}", "query": intent(i), "gold": {"nuggets": [nugget]}})
    (here / "mini.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (here / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))


def write_documents(here: Path) -> None:
    document = {"id": "d", "url": "http://x.test/", "title": "Facts", "text": "Facts."}
    (here / "docs.jsonl").write_text(json.dumps(document) + "\n")


def write_models(here: Path, url: str, judge_id: str) -> None:
    tables = []
    for name, model in (("fake", "fake-1"), ("other", judge_id)):
        tables.append(
            f'[models.{name}]\nbase_url = "{url}"\nmodel = "{model}"\nmax_concurrency = {CONCURRENCY}\n'
        )
    (here / "cts.toml").write_text("".join(tables))


def write_lab(here: Path, question: str) -> None:
    (here / "my_lab.py").write_text(LAB.format(other=question, aspects=ASPECTS))


class Edit(NamedTuple):
    """What is edited, and the command that is typed then."""

    make: Callable[[Path], None]
    words: list[str]


def session(url: str) -> list[Edit]:
    """The session: each edit in the folder as those before left it."""

    def begin(here: Path) -> None:
        write_models(here, url, "other-1")
        write_data(here, 10, {})
        write_documents(here)
        write_lab(here, FIRST_QUESTION)

    run = [*COMMAND, "-k", "2"]
    judged = [*run, "--judge", "other"]
    return [
        Edit(begin, run),
        Edit(lambda here: write_lab(here, MENDED_QUESTION), run),
        Edit(lambda here: write_data(here, 10, {5: "fact five"}), run),
        Edit(lambda here: write_data(here, 11, {5: "fact five"}), run),
        Edit(lambda here: None, judged),
        Edit(lambda here: write_models(here, url, "other-2"), judged),
        Edit(lambda here: None, [*COMMAND, "-k", "3", "--judge", "other"]),
    ]


# --- Killed on the way


@dataclass
class Killed:
    """A session whose commands are killed, against a provider of its own, and what that has cost."""

    here: Path
    provider: Remote
    in_flight: list[int] = field(default_factory=list)
    """At each kill: requests that the provider was sent and no journal has."""

    def play(self, edits: list[Edit], moments: Iterator[float]) -> None:
        """Type each command until it ends, killed after the next of `moments` (seconds) as long as there are any."""
        for edit in edits:
            edit.make(self.here)
            while self._is_killed(edit.words, next(moments, None)):
                self.in_flight.append(self._n_requests() - self.n_executed() - sum(self.in_flight))

    def _is_killed(self, words: list[str], after_s: float | None) -> bool:
        process = RealRun(self.here, tuple(words[1:]), words[0]).fork()
        if after_s is not None:
            time.sleep(after_s)
            process.kill()
        _, printed = process.communicate(timeout=120)
        if process.returncode == -9:
            return True
        assert process.returncode == 0, printed
        return False

    def _n_requests(self) -> int:
        """Requests so far, once those that a killed process had sent have all been read."""
        before = -1
        while (n := len(self.provider.seen())) != before:
            before = n
            time.sleep(0.03)
        return n

    def n_executed(self) -> int:
        """Model calls that some run's journal has as its own."""
        return sum("reused" not in record for record in RealRun(self.here, ()).records())


def results_of(here: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of results by run directory, in the order of their ids."""
    results: dict[str, list[dict[str, Any]]] = {}
    for directory in sorted((here / "runs").iterdir()):
        lines = read_records(directory / "results.jsonl")
        results[directory.name] = sorted(lines, key=lambda line: str(line["id"]))
    return results


def damaged_journals(here: Path) -> list[str]:
    """The run directories whose journals have a line that is none, or a step twice."""
    damaged: list[str] = []
    for directory in sorted((here / "runs").iterdir()):
        journal = directory / "steps.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        records = list(read_records(journal))
        keys = [record["key"] for record in records if record["ok"]]
        if len(records) != len(lines) or len(set(keys)) != len(keys):
            damaged.append(directory.name)
    return damaged


def random_moments(seed: int, n: int, at_most_s: float) -> Iterator[float]:
    moments = random.Random(seed)
    for _ in range(n):
        yield moments.uniform(0, at_most_s)
