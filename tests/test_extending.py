"""The examples of docs/extending.md work as they stand."""

from __future__ import annotations

import asyncio
import linecache
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from custom_roles import played, script
from fake_provider import FakeProvider, Settings

import cts_async
from cts_async.errors import UsageError
from cts_async.runs.selection import find_runs

DOCUMENT = (Path(__file__).parents[1] / "docs/extending.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
FUNCTION, REASONS, TURNS, ASKING, JUDGE, COMMAND, AGENT, SMOLAGENTS, NOTEBOOK, *_ = EXAMPLES


def with_fake_model(example: str) -> str:
    """The example with the test's provider in the place of gpt."""
    assert 'model="gpt"' in example
    return example.replace('model="gpt"', 'model="fake"')


def test_function_that_asks_a_model(tmp_path: Path) -> None:
    """The fake model says one line, so the reply has one question too few: asked again, then that instance's failure."""
    path = script(tmp_path, "my_lab.py", with_fake_model(FUNCTION))
    lines = played(tmp_path, f"{path}:ask", FakeProvider(Settings()), ks=(1,))
    assert [len(line["questions"]) for line in lines] == [1] * 4


def test_reasons_are_kept(tmp_path: Path) -> None:
    path = script(tmp_path, "reasons.py", REASONS)
    lines = played(tmp_path, f"{path}:ask", FakeProvider(Settings()))
    assert [line["further"]["clarify"] for line in lines] == [
        {"rationale": "they change the answer most"}
    ] * 4


def test_conversation(tmp_path: Path) -> None:
    path = script(tmp_path, "turns.py", TURNS)
    (line,) = played(tmp_path, f"{path}:ask", FakeProvider(Settings()), modes=("respond",), limit=1)
    assert [turn["offered"] for turn in line["turns"]] == [
        ["Which time of Brack Island ferry timetable?"],
        ["Which place of Brack Island ferry timetable?"],
    ]


def test_agent_that_asks_where_it_may(tmp_path: Path) -> None:
    """It asks once of a query that finds several pages."""
    path = script(tmp_path, "asking.py", ASKING)
    options: dict[str, Any] = {"agent": f"{path}:find", "models": (), "limit": 2}
    during = played(tmp_path, "baseline", FakeProvider(Settings()), **options, ask=("during",))
    assert [[ask["turn"] for ask in line["asks"]] for line in during] == [[2], [2]]
    options["references"] = ("orig",)
    never = played(tmp_path, "baseline", FakeProvider(Settings()), **options)
    assert [line.get("error") for line in never] == [None, None]


def test_command(tmp_path: Path) -> None:
    path = script(tmp_path, "ask.py", COMMAND)
    lines = played(tmp_path, f"exec:{sys.executable} {path}", FakeProvider(Settings()))
    assert lines[0]["questions"] == [
        f"Which {aspect} do you mean by Brack Island ferry timetable?" for aspect in ("time", "place")
    ]


def test_foreign_agent(tmp_path: Path) -> None:
    path = script(tmp_path, "agent.py", with_fake_model(AGENT))
    agent = f"exec:{sys.executable} {path}"
    lines = played(tmp_path, "baseline", FakeProvider(Settings()), agent=agent, limit=2)
    assert all("error" not in line and line["answer"] for line in lines)


def test_notebook_and_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a running event loop, as notebooks have one; judged by the example's judge afterwards."""
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "strict.py", JUDGE)
    cell = script(tmp_path, "notebook.py", NOTEBOOK)
    names: dict[str, Any] = {}

    async def main() -> None:
        exec(compile(cell.read_text(), str(cell), "exec"), names)

    asyncio.run(main())
    clarified = [row for row in names["runs"].instances if row["k"] == 2]
    assert len(clarified) == 5
    assert [clarified[0][f"question_{n}"] for n in (1, 2)] == [
        f"Which {x} of {clarified[0]['blurred_query']}?" for x in ("time", "place")
    ]
    (run,) = [one.path for one in find_runs(["runs"]) if "ask-k2" in one.path.name]
    judged = cts_async.judge(run, "strict.py:literally", quiet=True)
    assert {row["judge"] for row in judged.judges} == {"lexical", "strict.literally"}
    assert len([row for row in judged.judges if row["judge"] == "strict.literally"]) == 5


def test_every_public_name_can_be_imported() -> None:
    for name in cts_async.__all__:
        assert getattr(cts_async, name) is not None
        assert name in dir(cts_async)  # what the tab key offers
    with pytest.raises(AttributeError, match="no attribute 'plan'"):
        _ = cts_async.plan


def test_two_functions_of_one_name_and_closures_are_refused() -> None:
    def made(n: int) -> Any:
        def ask(view: Any) -> list[str]:
            return [f"What {n}?"] * view.k

        return ask

    with pytest.raises(UsageError, match="depends on n of the function around it"):
        cts_async.run(made(1), every_role="baseline", quiet=True)

    def ask(view: Any) -> list[str]:
        return ["What?"]

    first = ask

    def ask(view: Any) -> list[str]:  # type: ignore[no-redef]
        return ["Where?"]

    with pytest.raises(UsageError, match="two functions have this name"):
        cts_async.run([first, ask], every_role="baseline", quiet=True)


def cell(number: int, question: str) -> Any:
    """Define the function `ask` as a cell of a notebook does, whose source is in memory alone."""
    source = f"def ask(view):\n    return [{question!r}]\n"
    name = f"<ipython-input-{number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    return names["ask"]


def test_function_redefined_in_a_notebook_makes_a_version(tmp_path: Path) -> None:
    """Beside the first one, which an equal definition resumes; orig is the same run for all, and is not played again."""
    played_runs = []
    journals = []
    for number, question in enumerate(("One?", "Two?", "One?")):
        runs = cts_async.run(
            cell(number, question), every_role="baseline", limit=1, runs_dir=tmp_path, quiet=True
        )
        clarified = [row for row in runs.instances if row["clarifier"]]
        played_runs.append([(row["version"], row["question_1"]) for row in clarified])
        (orig,) = [path for path in runs.paths if "-orig" in path.name]
        journals.append((orig.name, (orig / "steps.jsonl").read_bytes()))
    assert played_runs == [[(1, "One?")], [(2, "Two?")], [(1, "One?")]]
    assert len(set(journals)) == 1
    assert len(list(tmp_path.iterdir())) == 3
    (shown,) = [row for row in cts_async.load(tmp_path).systems if row["clarifier"]]
    assert (shown["system"], shown["n_scored"]) == ("ask-k1", 1)


def test_file_that_was_edited_is_another_system_in_the_same_process(tmp_path: Path) -> None:
    path = script(tmp_path, "lab.py", "def ask(view):\n    return ['One?']\n")
    before = cts_async.run(f"{path}:ask", every_role="baseline", limit=1, runs_dir=tmp_path / "a", quiet=True)
    path.write_text("def ask(view):\n    return ['Two?']\n")
    after = cts_async.run(f"{path}:ask", every_role="baseline", limit=1, runs_dir=tmp_path / "b", quiet=True)
    asked = [[row["question_1"] for row in one.instances if row["k"] == 1] for one in (before, after)]
    assert asked == [["One?"], ["Two?"]]
