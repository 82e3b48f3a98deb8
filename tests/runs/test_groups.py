"""Runs are divided into groups of one agent, setting, data and gold; each group is told apart by its heading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_runs import Row, changed_manifest, made_run

from cts_async.runs.groups import comparable_runs
from cts_async.runs.manifest import manifest_of
from cts_async.runs.selection import RunPath, find_runs
from cts_async.runs.settings import setting_of

ROWS = [Row("q1", score=10.0)]


def run_of_agent(folder: Path, name: str, searcher: str, *, day: int = 1, **identity: Any) -> Path:
    """A run whose last session began on a day of January."""
    path = made_run(folder, label=name.partition("+")[0], rows=ROWS, players={"agent": searcher}, name=name)
    with changed_manifest(path) as manifest:
        manifest["sessions"] = [{"start": f"2026-01-0{day}"}]
        manifest["identity"] |= identity
    return path


def grouped(*words: Path) -> dict[str, list[str]]:
    """The names of the runs of each group, by its heading."""
    groups = comparable_runs(find_runs(list(map(str, words))))
    return {group.heading: [run.path.name for run in group.runs] for group in groups}


def test_two_agents_are_two_groups_the_one_last_worked_on_first(tmp_path: Path) -> None:
    for name, agent, day in (
        ("orig+a", "a", 3),
        ("gpt-k1+a", "a", 1),
        ("orig+b", "b", 2),
        ("gpt-k1+b", "b", 2),
    ):
        run_of_agent(tmp_path, name, agent, day=day)
    expected = {"agent a": ["gpt-k1+a", "orig+a"], "agent b": ["gpt-k1+b", "orig+b"]}
    assert grouped(tmp_path) == grouped(*tmp_path.iterdir()) == expected
    assert list(grouped(tmp_path)) == ["agent a", "agent b"]
    run_of_agent(tmp_path, "kimi-k1+b", "b", day=4)
    assert list(grouped(tmp_path)) == ["agent b", "agent a"]
    assert grouped(tmp_path / "orig+a", tmp_path / "gpt-k1+a") == {"": ["gpt-k1+a", "orig+a"]}


def test_changed_gold_and_data_are_groups(tmp_path: Path) -> None:
    old = {"name": "made", "sha256": "sha of made", "gold_sha256": "0123456789"}
    new = {"name": "made", "sha256": "sha of made", "gold_sha256": "fedcba9876"}
    other = {"name": "other", "sha256": "sha of other", "gold_sha256": "0123456789"}
    for name, data, day in (("orig", old, 1), ("gpt-k1", old, 1), ("orig+2", new, 2), ("kimi-k1", other, 3)):
        run_of_agent(tmp_path, name, "a", day=day, data=data)
    assert grouped(tmp_path) == {
        "agent a; data other": ["kimi-k1"],
        "agent a; data made; gold fedcba98": ["orig+2"],
        "agent a; data made; gold 01234567": ["gpt-k1", "orig"],
    }


def test_an_agent_with_another_model_source_or_setting_is_another(tmp_path: Path) -> None:
    model = {"agent": {"model": "web-1"}}
    run_of_agent(tmp_path, "orig", "a", day=3, models=model, agent={"max_turns": 20})
    run_of_agent(tmp_path, "gpt-k1", "a", models=model, agent={"max_turns": 20}, current_date="2026-01-01")
    run_of_agent(tmp_path, "orig+10", "a", day=2, models=model, agent={"max_turns": 10})
    run_of_agent(
        tmp_path, "orig+2", "a", day=1, models={"agent": {"model": "web-2"}}, agent={"max_turns": 20}
    )
    assert grouped(tmp_path) == {
        "agent a; model web-1; max turns 20": ["gpt-k1", "orig"],
        "agent a; model web-1; max turns 10": ["orig+10"],
        "agent a; model web-2; max turns 20": ["orig+2"],
    }


def test_whether_an_agent_may_ask_is_no_difference_between_agents(tmp_path: Path) -> None:
    """The systems of one question: with the usual tools, which no run names, and with others."""
    usual, others = {"search": "1", "visit": "1"}, {"search": "1", "weather": "2"}
    run_of_agent(tmp_path, "orig", "a", day=3)
    run_of_agent(tmp_path, "orig+ask3", "a", agent_tools=usual | {"ask": "1"})
    run_of_agent(tmp_path, "weather", "a", day=2, agent_tools=others, agent={"max_turns": 3})
    run_of_agent(tmp_path, "weather+ask3", "a", agent_tools=others | {"ask": "1"}, agent={"max_turns": 3})
    runs = find_runs([str(tmp_path)])
    settings = {run.path.name: setting_of(manifest_of(run.path)) for run in runs}
    assert settings["orig"] == settings["orig+ask3"]
    assert settings["weather"] == settings["weather+ask3"]
    assert settings["orig"] != settings["weather"]


def test_an_agent_with_other_tools_is_another_one(tmp_path: Path) -> None:
    agent = {"max_turns": 10}
    run_of_agent(tmp_path, "orig", "a", day=3, agent=agent)
    run_of_agent(
        tmp_path, "orig+ask3", "a", agent=agent, agent_tools={"search": "1", "visit": "1", "ask": "1"}
    )
    run_of_agent(tmp_path, "none", "a", day=2, agent=agent, agent_tools={})
    run_of_agent(tmp_path, "none+ask3", "a", agent=agent, agent_tools={"ask": "1"})
    assert grouped(tmp_path) == {
        "agent a; tools search, visit": ["orig", "orig+ask3"],
        "agent a; tools none": ["none", "none+ask3"],
    }


def test_runs_that_name_no_agent_go_with_the_group_last_worked_on(tmp_path: Path) -> None:
    """A run of an earlier version, which recorded less, goes with the group that it does not contradict."""
    run_of_agent(tmp_path, "orig+a", "a", day=1, agent={"max_turns": 20})
    run_of_agent(tmp_path, "orig+b", "b", day=2, agent={"max_turns": 20})
    run_of_agent(tmp_path, "early-k1", "a", day=1)
    judged = made_run(tmp_path, label="theirs-k1", rows=ROWS, name="theirs")
    with changed_manifest(judged) as manifest:
        manifest |= {"identity": {"system": "theirs-k1", "gold_sha256": "sha of made gold"}, "players": {}}
    assert grouped(tmp_path) == {"agent b": ["orig+b", "theirs"], "agent a": ["early-k1", "orig+a"]}
    first, second = comparable_runs(find_runs([str(tmp_path)]))
    assert first.without_agent == (RunPath(judged, False),)
    assert second.without_agent == ()


def test_two_runs_that_are_named_are_one_group_if_their_data_agree(tmp_path: Path) -> None:
    a, b = run_of_agent(tmp_path, "gpt-k1+a", "a"), run_of_agent(tmp_path, "gpt-k1+b", "b")
    assert grouped(a, b) == {"": ["gpt-k1+a", "gpt-k1+b"]}
    assert len(grouped(tmp_path)) == 2
    with changed_manifest(b) as manifest:
        manifest["identity"]["data"]["gold_sha256"] = "another"
    assert len(grouped(a, b)) == 2
