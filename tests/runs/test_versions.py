"""Which version of which run a directory is, which of them tables show, and what changed between two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from cts_async.runs.manifest import manifest_of
from cts_async.runs.versions import (
    changed_settings,
    describe_changes,
    newest_versions,
    next_version,
    version_of,
    versions_of_series,
)


def _run(folder: Path, name: str, start: str = "", **notes: Any) -> Path:
    directory = folder / name
    directory.mkdir()
    manifest = {"identity": {"system": "gpt-k3"}, "sessions": [{"start": start}], **notes}
    (directory / "run.json").write_bytes(orjson.dumps(manifest))
    return directory


def test_version_needs_both_the_name_and_the_manifest(tmp_path):
    _run(tmp_path, "a")
    _run(tmp_path, "a.v2", run_version=2)
    _run(tmp_path, "a.v3")  # a user's own name
    _run(tmp_path, "a.v5", run_version=4)  # renamed
    versions = {path.name: version_of(manifest_of(path)) for path in tmp_path.iterdir()}
    assert {name: (version.series, version.number) for name, version in versions.items()} == {
        "a": ("a", 1),
        "a.v2": ("a", 2),
        "a.v3": ("a.v3", 1),
        "a.v5": ("a.v5", 1),
    }
    assert [version.directory.name for version in versions_of_series(tmp_path / "a")] == ["a", "a.v2"]


def test_new_version_takes_a_number_that_nothing_is_named_by(tmp_path):
    assert next_version(tmp_path / "a") == (tmp_path / "a", 1)
    _run(tmp_path, "a")
    assert next_version(tmp_path / "a") == (tmp_path / "a.v2", 2)
    _run(tmp_path, "a.v2", run_version=2)
    _run(tmp_path, "a.v3")
    (tmp_path / "a.v4").symlink_to(tmp_path)
    assert next_version(tmp_path / "a") == (tmp_path / "a.v5", 5)


def test_number_of_a_removed_version_below_the_last_is_not_given_again(tmp_path):
    _run(tmp_path, "a.v3", run_version=3)
    assert next_version(tmp_path / "a") == (tmp_path / "a.v4", 4)


def test_version_behind_a_link_is_none(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    _run(elsewhere, "a.v2", run_version=2)
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "a.v2").symlink_to(elsewhere / "a.v2")
    assert versions_of_series(runs / "a") == []


def test_newest_is_the_version_that_a_command_last_worked_on(tmp_path):
    paths = [
        _run(tmp_path, "a", "2026-11-26T12:00:00+00:00"),
        _run(tmp_path, "a.v2", "2026-11-26T11:00:00+00:00", run_version=2),
        _run(tmp_path, "b", "2026-11-26T11:00:00+00:00"),
        _run(tmp_path, "b.v2", "2026-11-26T11:00:00+00:00", run_version=2),
        # Another judge: another series of the same lineage.
        _run(tmp_path, "c", "2026-11-26T11:00:00+00:00"),
        _run(tmp_path, "c+judge-kimi", "2026-11-26T13:00:00+00:00", lineage="c"),
    ]
    shown, older = newest_versions(map(manifest_of, paths))
    assert [manifest.directory.name for manifest in shown] == ["a", "b.v2", "c+judge-kimi"]
    assert [manifest.directory.name for manifest in older] == ["a.v2", "b", "c"]


def test_lineages_of_two_folders_are_two(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
    paths = [_run(tmp_path / "x", "a"), _run(tmp_path / "y", "a")]
    assert newest_versions(map(manifest_of, paths))[1] == []


IDENTITY = {
    "system": "my_lab.ask-k2",
    "k": 2,
    "data": {"name": "mini", "sha256": "d1", "gold_sha256": "g1"},
    "models": {
        "clarifier": {"custom": "function", "name": "my_lab.ask", "version": "1", "sha256": "s1"},
        "agent": {"model": "gpt-5x", "api": "openai", "params": {"temperature": 0.6}},
        "judge gpt": {"model": "gpt-5", "api": "openai", "params": {}},
    },
    "agent": {"max_turns": 20, "page_chars": 4000},
    "prompts": {"judge.en": "p1", "agent.en": "p2"},
    "judges": ["gpt"],
    "seed": 0,
}


def _changed(**fields: Any) -> list[str]:
    return changed_settings(IDENTITY, IDENTITY | fields)


def test_changes_are_named_as_users_know_them():
    models = IDENTITY["models"]
    clarifier = models["clarifier"]
    assert _changed() == []
    assert _changed(models=models | {"clarifier": clarifier | {"sha256": "s2"}}) == ["clarifier (my_lab.ask)"]
    assert _changed(models=models | {"clarifier": clarifier | {"sha256": "s2", "version": "2"}}) == [
        "clarifier (my_lab.ask, version 2)"
    ]
    agent = models["agent"] | {"model": "gpt-5"}
    assert _changed(models=models | {"agent": agent}) == ["agent (gpt-5x, now gpt-5)"]
    warmer = models["agent"] | {"params": {"temperature": 1}}
    assert _changed(models=models | {"agent": warmer}) == ["agent (temperature 0.6, now 1)"]
    assert _changed(data=IDENTITY["data"] | {"gold_sha256": "g2"}) == ["gold"]
    assert _changed(data=IDENTITY["data"] | {"sha256": "d2", "gold_sha256": "g2"}) == ["data", "gold"]
    assert _changed(prompts={"judge.en": "p9", "agent.en": "p2"}) == ["prompt judge.en"]
    assert _changed(k=3) == ["k (2, now 3)"]
    assert _changed(agent={"max_turns": 5, "page_chars": 4000}) == ["agent max turns (20, now 5)"]
    assert _changed(current_date="2026-11-26") == ["date (none, now 2026-11-26)"]


def test_changed_judge_is_named_once():
    players = {role: player for role, player in IDENTITY["models"].items() if role != "judge gpt"}
    players["judge kimi"] = {"model": "k2", "api": "openai", "params": {}}
    assert _changed(models=players, judges=["kimi"]) == ["judge (gpt, now kimi)"]


def test_identities_of_any_form_are_described():
    assert changed_settings({"models": 3, "data": None, "k": [1]}, IDENTITY)
    assert changed_settings(IDENTITY, {"judges": "gpt", "prompts": 1})


def test_only_the_first_changes_are_listed():
    assert describe_changes(["gold"]) == "gold"
    assert describe_changes([str(n) for n in range(7)]) == "0, 1, 2, 3, 4 and 2 more"
