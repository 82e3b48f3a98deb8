"""Manifests that an editor has changed: the part is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cts_async.engine.run_dir import read_manifest, sessions_of
from cts_async.errors import InputError

SOUND = {
    "identity": {"k": 3, "data": {"name": "sample"}, "judges": ["gpt"]},
    "players": {"clarifier": "gpt", "support": None},
    "prices": {"gpt-5": {"input": 1.25, "output": None}},
    "n_expected": 8,
    "sessions": [{"start": "2026-11-21T06:24:00Z", "wall_s": 2.5}, {}],
}


def written(folder: Path, manifest: dict[str, Any]) -> Path:
    (folder / "run.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("identity", None),
        ("identity", ["x"]),
        ("players", {"clarifier": 3}),
        ("prices", {"gpt-5": {"input": "1.25"}}),
        ("n_expected", "8"),
        ("n_expected", -1),
    ],
)
def test_a_part_of_another_form_is_named(tmp_path: Path, part: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"run.json: field '{part}': has to be "):
        read_manifest(written(tmp_path, SOUND | {part: value}))


@pytest.mark.parametrize(("part", "value"), [("k", "3"), ("k", True), ("data", []), ("judges", "gpt")])
def test_so_is_one_in_another(tmp_path: Path, part: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"field 'identity.{part}': has to be "):
        read_manifest(written(tmp_path, SOUND | {"identity": {part: value}}))


@pytest.mark.parametrize("sessions", [None, {"a": 1}, "x", [7], [{"wall_s": "long"}]])
def test_what_is_no_session_counts_for_none(sessions: Any) -> None:
    assert sessions_of({"sessions": sessions}) == []


def test_what_is_absent_is_no_fault(tmp_path: Path) -> None:
    for manifest in ({}, SOUND, {"identity": {"k": None, "data": None}}):
        assert read_manifest(written(tmp_path, manifest)) == manifest
