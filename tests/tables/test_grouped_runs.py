"""Runs of several agents, or over changed gold, are groups of one table; older versions are rows of their own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run
from rich.console import Console

from cts_async.errors import UsageError
from cts_async.tables.comparison import (
    RunsCompared,
    compare_runs,
    comparison_json,
    comparison_tables,
    printed_notes,
)
from cts_async.tables.diagnosis import diagnose_named, printed_tables, report_json
from cts_async.tables.diagnosis import printed_notes as diagnosis_notes
from cts_async.tables.paper import latex
from cts_async.tables.table import DataTable, csv_text, markdown, print_table


def run(
    folder: Path,
    label: str,
    *scores: float,
    day: int = 1,
    agent: str = "a",
    version: int = 1,
    gold: str = "",
    name: str = "",
    **manifest_fields: Any,
) -> Path:
    """A run of instances q0, q1, ... whose last session began on a day of January."""
    questions = {} if label == "orig" else {"questions": ["Which year?"], "answers": ["2024"]}
    name = name or f"{label}+{agent}" + (f".v{version}" if version > 1 else "")
    rows = [
        Row(f"q{i}", score=score, answer=f"{name} {i}", **questions)  # type: ignore[arg-type]
        for i, score in enumerate(scores)
    ]
    path = made_run(folder, label=label, rows=rows, name=name, players={"agent": agent})
    with changed_manifest(path) as manifest:
        manifest["sessions"] = [{"start": f"2026-01-0{day}"}]
        if version > 1:
            manifest["run_version"] = version
        if gold:
            manifest["identity"]["data"]["gold_sha256"] = gold
        manifest |= manifest_fields
    return path


@pytest.fixture
def two_agents(tmp_path: Path) -> Path:
    """By agent a, worked on last: orig 10 20, gpt 30 60 (+30). By b: orig 0 0, gpt 10 10 (+10), kimi 20 20 (+20)."""
    run(tmp_path, "orig", 10, 20, day=2)
    run(tmp_path, "gpt-k1", 30, 60, day=3)
    run(tmp_path, "orig", 0, 0, agent="b", embedded=True)
    run(tmp_path, "gpt-k1", 10, 10, agent="b", embedded=True)
    run(tmp_path, "kimi-k1", 20, 20, agent="b", embedded=True)
    return tmp_path


def gains(compared: RunsCompared) -> dict[str, dict[str, float | None]]:
    """The gain of each system over the orig of its group, by heading."""
    by_heading: dict[str, dict[str, float | None]] = {}
    for group in compared.groups:
        standings = group.judged[0].standings
        by_heading[group.heading] = {one.system: one.gain.mean if one.gain else None for one in standings}
    return by_heading


def leaderboard(compared: RunsCompared) -> DataTable:
    tables = comparison_tables(compared, main_only=True, all_pairs=False)
    return next(table for table in tables if table.name == "leaderboard")


def test_each_agent_has_its_own_orig_and_family_of_tests(two_agents: Path) -> None:
    compared = compare_runs([str(two_agents)])
    assert gains(compared) == {
        "agent a": {"orig": None, "gpt-k1": 30.0},
        "agent b": {"orig": None, "gpt-k1": 10.0, "kimi-k1": 20.0},
    }
    first, second = compared.groups
    # Of two differences alike p is 2 of 4; Holm multiplies by 1 test in the one group, by 3 in the other.
    assert [(pair.p, pair.p_holm) for pair in first.judged[0].pairs] == [(0.5, 0.5)]
    assert [(pair.n_tests, pair.p_holm) for pair in second.judged[0].pairs] == [(3, 1.0)] * 3
    assert [standing.best for standing in first.judged[0].standings] == [None, True]
    assert (first.caveats, second.caveats) == ((), ("smoke test",))
    assert gains(compare_runs([*map(str, reversed([*two_agents.iterdir()]))])) == gains(compared)


def test_json_of_groups_has_what_the_first_group_alone_had(two_agents: Path) -> None:
    found = comparison_json(compare_runs([str(two_agents)]))
    alone = comparison_json(compare_runs([str(two_agents / name) for name in ("orig+a", "gpt-k1+a")]))
    first, second = found.pop("groups")
    assert {**found, "notes": []} == alone
    assert first.pop("notes") == []
    (note,) = found.pop("notes")
    assert note.startswith("2 groups, each with its own orig")
    assert first == {"group": "agent a", "agent": "a"} | found
    assert (second["group"], second["smoke_test"], second["baseline"]) == ("agent b", True, "orig")
    assert [system["system"] for system in second["systems"]] == ["orig", "gpt-k1", "kimi-k1"]
    json.dumps(second)


def test_tables_have_a_section_for_each_group(two_agents: Path) -> None:
    compared = compare_runs([str(two_agents)])
    table = leaderboard(compared)
    head, *lines = csv_text(table).splitlines()
    assert head.startswith("group,system,k,delta,n_expected")
    assert [line.split(",")[:4] for line in lines] == [
        ["agent a", "orig", "0", ""],
        ["agent a", "gpt-k1", "1", "30.0"],
        ["agent b (smoke test)", "orig", "0", ""],
        ["agent b (smoke test)", "kimi-k1", "1", "20.0"],
        ["agent b (smoke test)", "gpt-k1", "1", "10.0"],
    ]
    out = io.StringIO()
    for printed in comparison_tables(compared, main_only=True, all_pairs=False):
        print_table(Console(file=out, width=80, color_system=None), printed)
    shown = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in shown)
    assert [line.rstrip() for line in shown[2:12]] == [
        "system  k         mean (Δ)    p50    p90    min    max scored failed",
        "────────────────────────────────────────────────────────────────────",
        "agent a",
        "orig    -           15.000 15.000 19.000 10.000 20.000    2/2      0",
        "gpt-k1  1 45.000 (+30.000) 45.000 57.000 30.000 60.000    2/2      0",
        "",
        "agent b (smoke test)",
        "orig    -            0.000  0.000  0.000  0.000  0.000    2/2      0",
        "kimi-k1 1 20.000 (+20.000) 20.000 20.000 20.000 20.000    2/2      0",
        "gpt-k1  1 10.000 (+10.000) 10.000 10.000 10.000 10.000    2/2      0",
    ]
    assert markdown(table).count("\n| **agent") == 2
    text = latex([table])
    assert "\\multicolumn{9}{@{}l}{\\emph{agent a}} \\\\" in text
    assert text.count("\\midrule") == 2


def test_sections_under_different_judges_name_them(tmp_path: Path) -> None:
    """Each group is shown under its own first judge, and under one that is asked for where it has it."""
    for agent, judges in (("a", "xy"), ("b", "y")):
        for label in ("orig", "gpt-k1"):
            labels = dict.fromkeys(judges, "p")
            rows = [Row("q", labels=labels)]
            made_run(tmp_path, label=label, rows=rows, name=f"{label}+{agent}", players={"agent": agent})
    compared = compare_runs([str(tmp_path)])
    table = leaderboard(compared)
    assert table.caption == "Δ is the mean paired difference to orig"
    assert {row["group"] for row in table.rows} == {"agent a; judge x", "agent b; judge y"}
    table = leaderboard(compare_runs([str(tmp_path)], judges=["y"]))
    assert table.caption == "judge y; Δ is the mean paired difference to orig"
    compared = compare_runs([str(tmp_path)], judges=["x"])
    assert [group.heading for group in compared.groups] == ["agent a"]
    (note,) = [note for note in compared.notes if note.startswith("agent b")]
    assert note == "agent b: not compared, since no run here was judged by 'x'; there are y."


def test_best_value_is_marked_in_each_section(tmp_path: Path) -> None:
    """Ten instances differ alike, so that kimi is better than gpt in both groups, though worse than in the other."""
    for agent, low, high in (("a", 10, 20), ("b", 50, 60)):
        run(tmp_path, "gpt-k1", *[low] * 10, agent=agent)
        run(tmp_path, "kimi-k1", *[high] * 10, agent=agent)
    lines = markdown(leaderboard(compare_runs([str(tmp_path)]))).splitlines()
    bold = [line for line in lines if line.startswith("| kimi") and "**" in line]
    assert (len(bold), any("**" in line for line in lines if line.startswith("| gpt"))) == (2, False)


def test_changed_gold_is_a_group_with_the_orig_that_was_judged_by_it(tmp_path: Path) -> None:
    """A nugget was mended after kimi's run: orig 10 by the old gold and 40 by the new one, kimi 30, gpt 50."""
    run(tmp_path, "orig", 10, day=1, gold="0123456789")
    run(tmp_path, "kimi-k1", 30, day=1, gold="0123456789")
    run(tmp_path, "orig", 40, day=2, version=2, gold="fedcba9876")
    run(tmp_path, "gpt-k1", 50, day=2, gold="fedcba9876")
    compared = compare_runs([str(tmp_path)])
    assert gains(compared) == {
        "agent a; gold fedcba98": {"orig": None, "gpt-k1": 10.0},
        "agent a; gold 01234567": {"orig": None, "kimi-k1": 20.0},
    }
    assert compared.common_notes == (
        "2 groups, each with its own orig, ranks and tests: nothing is compared between them.",
    )
    # Then kimi is run again, and nothing needs the old orig any more.
    run(tmp_path, "kimi-k1", 60, day=3, version=2, gold="fedcba9876")
    compared = compare_runs([str(tmp_path)])
    assert gains(compared) == {"": {"orig": None, "gpt-k1": 10.0, "kimi-k1": 20.0}}
    assert compared.notes == ("2 older versions left out (--all-versions shows them)",)


def test_versions_of_a_lineage_are_rows_of_their_own_when_they_are_shown(tmp_path: Path) -> None:
    run(tmp_path, "orig", 10)
    for version, score in ((1, 20), (2, 30), (3, 40)):
        run(tmp_path, "gpt-k1", score, version=version, day=version)
    assert gains(compare_runs([str(tmp_path)])) == {"": {"orig": None, "gpt-k1": 30.0}}
    every = {"orig": None, "gpt-k1.v1": 10.0, "gpt-k1.v2": 20.0, "gpt-k1.v3": 30.0}
    assert gains(compare_runs([str(tmp_path)], all_versions=True)) == {"": every}
    assert gains(compare_runs([*map(str, tmp_path.iterdir())])) == {"": every}
    # A name that several versions have is the newest's.
    compared = compare_runs([str(tmp_path)], all_versions=True, baseline="gpt-k1")
    assert compared.baseline == "gpt-k1.v3"


def test_newest_of_several_origs_is_the_baseline(tmp_path: Path) -> None:
    run(tmp_path, "orig", 10, 10, name="mine-orig", day=1)
    run(tmp_path, "orig", 30, 30, name="made-orig", day=2)
    run(tmp_path, "gpt-k1", 40, 40, day=1)
    compared = compare_runs([str(tmp_path)])
    assert gains(compared) == {"": {"made-orig": None, "mine-orig": -20.0, "gpt-k1": 10.0}}
    assert [standing.best for standing in compared.judged[0].standings] == [None, None, True]
    assert compared.notes == (
        "Several runs are orig: differences are to made-orig, the newest; its answers are not those of mine-orig on 2 "
        "of the 2 instances that both have.",
    )
    # One that has just begun has no scores to be compared with.
    run(tmp_path, "orig", name="next-orig", day=3)
    assert compare_runs([str(tmp_path)]).baseline == "made-orig"


def test_baseline_holds_in_the_groups_that_have_it(two_agents: Path) -> None:
    compared = compare_runs([str(two_agents)], baseline="kimi-k1")
    assert gains(compared)["agent b"] == {"kimi-k1": None, "gpt-k1": -10.0, "orig": -20.0}
    assert gains(compared)["agent a"] == {"orig": None, "gpt-k1": 30.0}
    assert "No kimi-k1 here: differences are to orig." in compared.notes
    assert [group.against_baseline for group in compared.groups] == [False, True]
    with pytest.raises(
        UsageError, match=r"--baseline x: no such system here; there are orig, gpt-k1, kimi-k1"
    ):
        compare_runs([str(two_agents)], baseline="x")


def test_group_without_scores_is_named_beside_the_others(two_agents: Path) -> None:
    made_run(two_agents, label="ask-k1", rows=[Row("q0")], players={"agent": "c"}, name="unjudged")
    compared = compare_runs([str(two_agents)])
    assert [group.heading for group in compared.groups] == ["agent a", "agent b"]
    assert any(
        note.startswith("agent c: not compared, since none of these runs") for note in compared.common_notes
    )
    with pytest.raises(UsageError, match="no run here was judged by 'gpt'"):
        compare_runs([str(two_agents)], judges=["gpt"])


def test_caveat_and_notes_stand_at_the_group_that_they_concern(two_agents: Path) -> None:
    run(two_agents, "late-k1", agent="b", n_expected=5, embedded=True)
    notes = printed_notes(compare_runs([str(two_agents)]))
    assert notes[0].startswith("2 groups, each with its own orig, ranks and tests")
    assert notes[1].startswith("agent b: Unfinished: late-k1 has 0 of 5 instances")
    assert notes[2].startswith("agent b: Smoke test:")
    assert len(notes) == 3


def test_runs_that_share_sampled_steps_are_named(tmp_path: Path) -> None:
    run(tmp_path, "orig", 10)
    run(tmp_path, "gpt-k1", 20, shares_sampled=True)
    note = (
        "Common random numbers (--share-sampled): systems share sampled steps (gpt-k1), so that differences have less "
        "noise than between independent runs."
    )
    assert compare_runs([str(tmp_path)]).notes == (note,)
    assert note in diagnose_named([str(tmp_path)]).notes


def test_modes_of_two_named_runs_are_told_where_they_differ(tmp_path: Path) -> None:
    runs = [run(tmp_path, "gpt-k1", 20, version=version, day=version) for version in (1, 2, 3)]
    for path, switches in zip(runs, ({}, {"free_end": True}, {"free_end": True}), strict=True):
        with changed_manifest(path) as manifest:
            manifest["identity"]["agent"] = {"max_turns": 20} | switches
    note = "Agent modes differ, and with them what a difference is due to: strict (gpt-k1.v1); free_end (gpt-k1.v2)."
    assert note in compare_runs([str(runs[0]), str(runs[1])]).notes
    alike = compare_runs([str(runs[1]), str(runs[2])]).notes
    assert not [text for text in alike if "Agent modes" in text]


def test_diagnosis_has_a_section_and_an_orig_for_each_group(two_agents: Path) -> None:
    report = diagnose_named([str(two_agents)])
    assert [(group.heading, group.orig) for group in report.groups] == [
        ("agent a", two_agents / "orig+a"),
        ("agent b", two_agents / "orig+b"),
    ]
    table = next(table for table in printed_tables(report) if table.name == "question_types")
    rows = [row for row in table.rows if row["questions"]]
    assert [(row["group"], row["questions"], row["gain"]) for row in rows] == [
        ("agent a", 2, 30.0),
        ("agent b (smoke test)", 4, 15.0),
    ]
    assert diagnosis_notes(report)[0] == "agent a: scores: judge ernie"
    found = report_json(report)
    first, second = found.pop("groups")
    assert first == {"group": "agent a", "agent": "a"} | found
    assert second["orig"] == str(two_agents / "orig+b")


def test_older_versions_are_not_pooled_with_newer_ones(tmp_path: Path) -> None:
    run(tmp_path, "orig", 10)
    for version, score in ((1, 20), (2, 50)):
        run(tmp_path, "gpt-k1", score, version=version, day=version)
    (newest,) = diagnose_named([str(tmp_path)]).groups
    assert newest.notes == ["1 older version left out (--all-versions shows it)"]
    report = diagnose_named([str(tmp_path)], all_versions=True)
    assert [(group.heading, group.orig) for group in report.groups] == [
        ("newest versions", tmp_path / "orig+a"),
        ("older versions", tmp_path / "orig+a"),
    ]
    table = next(table for table in printed_tables(report) if table.name == "question_types")
    assert [row["gain"] for row in table.rows if row["questions"]] == [40.0, 10.0]
